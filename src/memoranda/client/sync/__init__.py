"""The client without asyncio: made from `memoranda.client.aio`, word by word."""
