"""Batches: several writes, kept all together or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import Conflict, LimitExceeded, SchemaViolation, UsageError
from memoranda.model.fact import Fact
from memoranda.model.limits import Limits
from memoranda.store.base import Store
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import Capability, requires, snapshot


class BatchPromises:
    """All or nothing, in the order given, across scopes."""

    def test_a_batch_writes_and_deletes_in_order(self, memory: Memory, clock: FakeClock) -> None:
        ada, agent = memory.scope(user="ada"), memory.scope(user="ada", agent="x")
        ada.set("old", 1)
        with memory.batch() as batch:
            batch.set(ada, "k", 1, ttl="1m", domain="d")
            batch.set(ada, "k", 2, expect=1)
            batch.delete(ada, "old", expect=1)
            batch.set(agent, "k", 3, expect=0)
            batch.delete(agent, "never")
            assert ada.get("k") is None  # nothing is sent before the block ends
        first, second, third, fourth, fifth = batch.results
        assert isinstance(first, Fact) and isinstance(second, Fact) and isinstance(fourth, Fact)
        assert (first.version, first.value, first.domain) == (1, 1, "d")
        assert (second.version, second.value, second.expires_at) == (2, 2, None)
        assert (third, fifth) == (True, False)
        assert ada.get("k") == second
        assert agent.get("k") == fourth
        assert ada.get("old") is None
        assert [r.value for r in ada.history("k")] == [1, 2]

    def test_a_conflict_in_the_middle_leaves_nothing_of_the_batch(self, memory: Memory, store: Store) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.set("old", 1)
        bob.set("k", 1)
        before = snapshot(store)
        with pytest.raises(Conflict) as caught, memory.batch() as batch:
            batch.set(ada, "new", 1)
            batch.delete(ada, "old")
            batch.set(bob, "k", 2, expect=7)
            batch.set(bob, "later", 1)
        assert (caught.value.expected, caught.value.actual, caught.value.key) == (7, 1, "k")
        assert batch.results == []
        assert snapshot(store) == before
        assert (ada.get("new"), bob.get("later")) == (None, None)
        assert (ada.value("old"), bob.value("k")) == (1, 1)

    def test_a_refused_record_leaves_nothing_of_the_batch(self, memory: Memory, store: Store) -> None:
        memory.definitions.create(
            name="P", slug="p", schema={"type": "object", "properties": {"n": {"type": "integer"}}}
        )
        ada = memory.scope(user="ada")
        before = snapshot(store)
        with pytest.raises(SchemaViolation), memory.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(ada, "p", {"n": "one"})
        assert snapshot(store) == before
        with memory.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(ada, "p", {"n": 1})
        assert [fact.key for fact in ada.list()] == ["k", "p"]

    def test_a_failed_batch_uses_no_versions(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        with pytest.raises(Conflict), memory.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(ada, "k", 2, expect=0)
        assert ada.set("k", 3).version == 1
        assert len(ada.history("k")) == 1

    def test_a_block_that_fails_sends_nothing(self, memory: Memory, store: Store) -> None:
        ada = memory.scope(user="ada")
        before = snapshot(store)
        with pytest.raises(ZeroDivisionError), memory.batch() as batch:
            batch.set(ada, "k", 1)
            raise ZeroDivisionError
        assert snapshot(store) == before
        with memory.batch() as batch:
            batch.set(ada, "k", 1)
        assert ada.value("k") == 1

    def test_an_empty_batch_does_nothing(self, memory: Memory) -> None:
        with memory.batch() as batch:
            pass
        assert batch.results == []
        assert memory.ledger.verify().length == 0

    def test_a_batch_stays_inside_one_tenant(self, memory: Memory, store: Store) -> None:
        ada, stranger = memory.scope(user="ada"), memory.scope(tenant="other", user="ada")
        before = snapshot(store)
        with pytest.raises(UsageError), memory.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(stranger, "k", 1)
        assert snapshot(store) == before
        assert ada.set("k", 1).version == stranger.set("k", 1).version == 1

    def test_a_batch_has_a_limit_and_the_error_names_it(self, store: Store, clock: FakeClock) -> None:
        memory = Memory(store, clock=clock, limits=Limits(batch=3))
        ada = memory.scope(user="ada")
        with pytest.raises(LimitExceeded) as caught, memory.batch() as batch:
            for n in range(4):
                batch.set(ada, f"k{n}", n)
        assert (caught.value.limit, caught.value.actual) == (3, 4)
        assert ada.list() == []
        with memory.batch() as batch:
            for n in range(3):
                batch.set(ada, f"k{n}", n)
        assert len(ada.list()) == 3
        memory.close()

    def test_each_write_of_a_batch_is_an_event(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        with memory.batch() as batch:
            batch.set(ada, "k", 1)
            batch.set(bob, "k", 1)
            batch.delete(ada, "k")
        assert [(e.effect, e.scope, e.key, e.version) for e in memory.ledger.events()] == [
            ("set_fact", "user:ada", "k", 1),
            ("set_fact", "user:bob", "k", 1),
            ("delete_fact", "user:ada", "k", 2),
        ]

    @requires(Capability.RESTART)
    def test_an_acknowledged_batch_survives_a_restart_whole(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        with memory.batch() as batch:
            for n in range(100):
                batch.set(ada if n % 2 else bob, f"k{n}", n)
        again = reopen()
        assert len(again.scope(user="ada").list()) == len(again.scope(user="bob").list()) == 50
        assert all(finding.ok for finding in again.inspect())
