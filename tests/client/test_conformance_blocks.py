"""Memory blocks, the ledger, erasures and transfer: the promises of stores, through the client and a real server."""

from __future__ import annotations

from remote_memory import RemoteConformance

from memoranda.testing.conformance.blocks import BlockPromises
from memoranda.testing.conformance.facts import ErasurePromises
from memoranda.testing.conformance.ledger import LedgerPromises
from memoranda.testing.conformance.transfer import TransferPromises


class TestThroughTheClient(BlockPromises, LedgerPromises, ErasurePromises, TransferPromises, RemoteConformance):
    """See `remote_memory.py` for how a promise reaches the server."""
