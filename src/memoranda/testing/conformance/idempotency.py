"""Idempotency keys: a request that is sent twice is done once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import Conflict, IdempotencyMismatch
from memoranda.store.base import Store
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import Capability, requires, snapshot


class IdempotencyPromises:
    """The same key and the same request give the same result and one write."""

    def test_a_repeated_set_gives_the_first_result_and_writes_once(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        first = ada.set("k", {"n": 1}, ttl="1m", domain="d", source="s", idempotency_key="r1")
        clock.advance(5)
        again = ada.set("k", {"n": 1}, ttl=60, domain="d", source="s", idempotency_key="r1")
        assert again == first
        assert len(ada.history("k")) == 1
        assert ada.set("k", {"n": 1}, idempotency_key="r2").version == 2

    def test_a_repeated_set_gives_the_first_result_even_after_later_writes(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        first = ada.set("k", "one", idempotency_key="r1")
        ada.set("k", "two")
        assert ada.set("k", "one", idempotency_key="r1") == first
        assert ada.value("k") == "two"
        ada.delete("k")
        assert ada.set("k", "one", idempotency_key="r1") == first
        assert ada.get("k") is None
        assert [r.change for r in ada.history("k")] == ["set", "set", "deleted"]

    def test_a_repeated_compare_and_set_is_no_conflict(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 0)
        first = ada.set("k", 1, expect=1, idempotency_key="r1")
        assert ada.set("k", 1, expect=1, idempotency_key="r1") == first
        with pytest.raises(Conflict):
            ada.set("k", 1, expect=1, idempotency_key="r2")

    def test_one_key_for_another_request_is_a_mismatch_and_changes_nothing(self, memory: Memory, store: Store) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1, ttl=60, idempotency_key="r1")
        before = snapshot(store)
        for attempt in (
            lambda: ada.set("k", 2, ttl=60, idempotency_key="r1"),
            lambda: ada.set("k", True, ttl=60, idempotency_key="r1"),
            lambda: ada.set("other", 1, ttl=60, idempotency_key="r1"),
            lambda: ada.set("k", 1, ttl=61, idempotency_key="r1"),
            lambda: ada.set("k", 1, idempotency_key="r1"),
            lambda: ada.set("k", 1, ttl=60, domain="d", idempotency_key="r1"),
            lambda: ada.set("k", 1, ttl=60, expect=0, idempotency_key="r1"),
            lambda: ada.delete("k", idempotency_key="r1"),
        ):
            with pytest.raises(IdempotencyMismatch) as caught:
                attempt()
            assert caught.value.expected != caught.value.actual
            assert caught.value.hint
        assert snapshot(store) == before
        assert ada.set("k", 1, ttl=60, idempotency_key="r1").version == 1

    def test_other_scopes_and_tenants_use_the_same_key_for_themselves(self, memory: Memory) -> None:
        places = (
            memory.scope(user="ada"),
            memory.scope(user="bob"),
            memory.scope(user="ada", agent="x"),
            memory.scope(tenant="other", user="ada"),
        )
        for number, place in enumerate(places):
            assert place.set("k", number, idempotency_key="r1").version == 1
        for number, place in enumerate(places):
            assert place.set("k", number, idempotency_key="r1").version == 1
            assert place.value("k") == number

    def test_a_repeated_delete_gives_the_first_answer(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1)
        assert ada.delete("k", idempotency_key="d1") is True
        assert ada.delete("k", idempotency_key="d1") is True
        assert ada.delete("missing", idempotency_key="d2") is False
        ada.set("missing", 1)
        assert ada.delete("missing", idempotency_key="d2") is False
        assert ada.value("missing") == 1
        ada.set("k", 2)
        assert ada.delete("k", idempotency_key="d1") is True
        assert ada.value("k") == 2

    def test_a_repeated_batch_gives_the_first_results_and_writes_once(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.set("old", 1)

        def send(value: int) -> list[object]:
            with memory.batch(idempotency_key="b1") as batch:
                batch.set(ada, "k", value)
                batch.delete(ada, "old")
                batch.set(bob, "k", value)
                batch.delete(bob, "never")
            return list(batch.results)

        first = send(7)
        assert send(7) == first
        assert first[1:4:2] == [True, False]
        assert (len(ada.history("k")), len(bob.history("k")), len(ada.history("old"))) == (1, 1, 2)
        with pytest.raises(IdempotencyMismatch):
            send(8)
        assert (ada.value("k"), bob.value("k")) == (7, 7)

    def test_the_ledger_has_one_event_for_a_repeated_request(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        for _ in range(3):
            ada.set("k", 1, idempotency_key="r1")
            ada.delete("other", idempotency_key="r2")
        assert [(e.effect, e.key, e.version) for e in memory.ledger.events()] == [("set_fact", "k", 1)]
        ada.set("k", 1)
        assert memory.ledger.verify().length == 2

    def test_a_request_that_failed_may_be_sent_again_under_its_key(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        with pytest.raises(Conflict):
            ada.set("k", 2, expect=1, idempotency_key="r1")
        ada.set("k", 1)
        assert ada.set("k", 2, expect=1, idempotency_key="r1").version == 2

    def test_a_week_old_key_is_swept_and_may_be_used_anew(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1, idempotency_key="r1")
        clock.advance(6 * 86_400)
        assert memory.sweep().idempotency_keys == 0
        assert ada.set("k", 1, idempotency_key="r1").version == 1
        clock.advance(2 * 86_400)
        assert memory.sweep().idempotency_keys == 1
        assert ada.set("k", 9, idempotency_key="r1").version == 2

    @requires(Capability.RESTART)
    def test_a_request_repeated_after_a_restart_is_done_once(
        self, memory: Memory, reopen: Callable[[], Memory]
    ) -> None:
        ada = memory.scope(user="ada")
        first = ada.set("k", {"n": [1, 2]}, idempotency_key="r1")
        ada.delete("k", idempotency_key="d1")
        again = reopen().scope(user="ada")
        assert again.set("k", {"n": [1, 2]}, idempotency_key="r1") == first
        assert again.delete("k", idempotency_key="d1") is True
        assert len(again.history("k")) == 2
        with pytest.raises(IdempotencyMismatch):
            again.set("k", {"n": [1]}, idempotency_key="r1")
