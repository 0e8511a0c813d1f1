"""What is remembered, and what a recall gives: the promises of stores, through the client and a real server."""

from __future__ import annotations

from remote_memory import RemoteConformance

from memoranda.testing.conformance.changes import (
    ChainPromises,
    EntryBatchPromises,
    EntryListPromises,
    ForgetPromises,
)
from memoranda.testing.conformance.collections import CollectionPromises
from memoranda.testing.conformance.entries import EntryLifePromises, EntryPromises
from memoranda.testing.conformance.recall import EntryRulePromises, RecallPromises


class TestThroughTheClient(
    EntryPromises, RecallPromises, CollectionPromises, EntryLifePromises, EntryRulePromises, RemoteConformance
):
    """See `remote_memory.py` for how a promise reaches the server."""


class TestWhatIsTrueNow(ChainPromises, ForgetPromises, EntryBatchPromises, EntryListPromises, RemoteConformance):
    """Chains, forgetting, undoing and listing."""
