"""The async client. `memoranda.client.sync` is generated from it."""
