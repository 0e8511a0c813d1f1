"""The client for asyncio: what is written by hand. `recollect.client.sync` is made from it."""
