"""Facts, their history, their end and their scopes: the promises of stores, through the client and a real server.

The promises of the other files called `test_conformance_…` are the rest of what the client can be asked. What it has no
words for, and why, is in the reasons of what is skipped (`pytest -rs`). Left out whole are permissions, quotas,
approvals, sessions and what programs record of their runs: they speak of handles that a program hands out, and here a
key is the handle.
"""

from __future__ import annotations

from remote_memory import LEFT_OUT, RemoteConformance

from memoranda.testing.conformance import StoreConformance
from memoranda.testing.conformance.facts import ExpiryPromises, FactPromises, HistoryPromises
from memoranda.testing.conformance.permissions import ScopePromises
from memoranda.testing.conformance.requests import BatchPromises, IdempotencyPromises


class TestThroughTheClient(
    FactPromises, BatchPromises, HistoryPromises, ExpiryPromises, ScopePromises, IdempotencyPromises, RemoteConformance
):
    """See `remote_memory.py` for how a promise reaches the server."""


def test_every_promise_that_is_left_out_is_one() -> None:
    promises = {name for name in dir(StoreConformance) if name.startswith("test_")}
    assert {name.partition("[")[0] for name in LEFT_OUT} <= promises
