"""The client without asyncio: made from `recollect.client.aio`, word by word."""
