"""Definitions, their schemas and their records: the promises of stores, through the client and a real server."""

from __future__ import annotations

from remote_memory import RemoteConformance

from memoranda.testing.conformance.definitions import DefinitionPromises, RecordPromises, SchemaPromises


class TestThroughTheClient(DefinitionPromises, SchemaPromises, RecordPromises, RemoteConformance):
    """See `remote_memory.py` for how a promise reaches the server."""
