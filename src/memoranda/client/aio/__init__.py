"""The client for asyncio: what is written by hand. `memoranda.client.sync` is made from it."""
