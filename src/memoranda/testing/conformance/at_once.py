"""Handles that do not wait: a write is done at once, or refused before it has begun."""

from __future__ import annotations

import threading

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import Busy
from memoranda.model.policy import OWNER, Policy
from memoranda.store.base import Store, Transaction
from memoranda.testing.conformance.base import snapshot

_PATIENCE = 2.0
"""Seconds in which something that does not wait ends once it has begun, on any machine."""


class AtOncePromises:
    """Kept whole or not begun, and nobody is waited for. A store may refuse always."""

    def test_at_once_a_write_is_kept_or_refused(self, memory: Memory, store: Store) -> None:
        before = snapshot(store)
        try:
            written = memory.at_once().scope(user="ada").set("k", 1)
        except Busy:
            assert snapshot(store) == before
            written = memory.scope(user="ada").set("k", 1)
        assert memory.scope(user="ada").get("k") == written
        assert memory.ledger.verify().ok

    def test_while_somebody_writes_what_does_not_wait_is_refused(self, memory: Memory, store: Store) -> None:
        ended: list[BaseException | None] = []
        writes, begun, go_on = threading.Event(), threading.Event(), threading.Event()

        def write_for_long(rows: Transaction) -> None:
            writes.set()
            go_on.wait(60)

        def write_at_once() -> None:
            place = memory.at_once().scope(user="ada")
            begun.set()
            try:
                place.set("k", 1)
            except BaseException as error:
                ended.append(error)
            else:
                ended.append(None)

        long = threading.Thread(target=store.transact, args=(write_for_long,), daemon=True)
        hurried = threading.Thread(target=write_at_once, daemon=True)
        long.start()
        try:
            assert writes.wait(60)
            hurried.start()
            assert begun.wait(60)
            hurried.join(_PATIENCE)
        finally:
            go_on.set()
        long.join(60)
        hurried.join(60)
        assert [type(error) for error in ended] == [Busy]
        assert memory.scope(user="ada").get("k") is None
        assert memory.scope(user="ada").set("k", 2).version == 1

    def test_what_has_to_be_embedded_is_refused_at_once(self, memory: Memory, store: Store) -> None:
        memory.scope(user="ada").remember("the first", collection="notes")
        before = snapshot(store)
        with pytest.raises(Busy):
            memory.at_once().scope(user="ada").remember("the second", collection="notes")
        assert snapshot(store) == before
        memory.scope(user="ada").remember("the second", collection="notes")
        assert len(memory.scope(user="ada").entries(collection="notes")) == 2

    def test_what_is_made_of_a_handle_that_does_not_wait_does_not_wait_either(self, memory: Memory) -> None:
        hurried = memory.at_once()
        guest = Policy.of(allow=("memory.read", "memory.write"))
        for handle in (
            hurried,
            hurried.acting_as("agent:a", policy=OWNER),
            hurried.acting_as("agent:a", policy=OWNER).narrowed(guest),
            hurried.in_tenant(memory.tenant),
        ):
            with pytest.raises(Busy):
                handle.scope(user="ada").remember("text", collection="notes")
        patient = memory.acting_as("agent:a", policy=OWNER).narrowed(guest)
        patient.scope(user="ada").remember("text", collection="notes")
        assert [entry.content for entry in memory.scope(user="ada").entries(collection="notes")] == ["text"]
