"""The sync client, generated from `memoranda.client.aio`."""
