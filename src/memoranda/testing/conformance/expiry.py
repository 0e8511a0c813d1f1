"""Expiry: a time to live is over at exactly its end, whether or not anybody sweeps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import Conflict
from memoranda.model.duration import Duration
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import Capability, present, requires

ALMOST = 59.999999
TICK = 0.000001


class ExpiryPromises:
    """Nothing is seen after its time, and nothing is lost before."""

    def test_a_fact_lives_until_exactly_its_ttl(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        fact = ada.set("k", 1, ttl=60)
        assert fact.expires_at == clock.now() + timedelta(seconds=60)
        clock.advance(ALMOST)
        assert ada.get("k") == fact
        clock.advance(TICK)
        assert ada.get("k") is None

    def test_expired_fact_is_invisible_before_it_is_swept(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("gone", 1, ttl=60, domain="d")
        ada.set("here", 1, ttl=61, domain="d")
        clock.advance(60)
        assert ada.get("gone") is None
        assert ada.value("gone", "default") == "default"
        assert [fact.key for fact in ada.list()] == ["here"]
        assert [fact.key for fact in ada.list(domain="d", limit=1)] == ["here"]
        assert ada.delete("gone") is False
        assert ada.value("here") == 1

    @pytest.mark.parametrize(
        ("ttl", "seconds"),
        [("90s", 90), ("15m", 900), ("24h", 86_400), ("30d", 2_592_000), ("2w", 1_209_600), (7, 7),
         (timedelta(minutes=2), 120)],
    )  # fmt: skip
    def test_a_ttl_may_be_written_in_several_ways(
        self, memory: Memory, clock: FakeClock, ttl: Duration, seconds: int
    ) -> None:
        ada = memory.scope(user="ada")
        assert ada.set("k", 1, ttl=ttl).expires_at == clock.now() + timedelta(seconds=seconds)

    def test_a_write_begins_the_ttl_anew(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1, ttl=60)
        clock.advance(59)
        ada.set("k", 2, ttl=60)
        clock.advance(ALMOST)
        assert ada.value("k") == 2
        clock.advance(TICK)
        assert ada.get("k") is None

    def test_a_ttl_counts_from_the_clock_even_when_it_stood_still_or_went_back(
        self, memory: Memory, clock: FakeClock
    ) -> None:
        ada = memory.scope(user="ada")
        for key in ("still", "back", "kept"):
            ada.set(key, "stamped")
        ada.set("still", 1, ttl=60)  # in one moment with the write before, so it is stamped a little later
        clock.advance(-3600)
        ada.set("back", 1, ttl=60)  # stamped after the write before, an hour ahead of the clock
        assert (ada.value("back"), ada.value("kept")) == (1, "stamped")
        clock.advance(60)
        assert ada.get("back") is None
        clock.advance(3600)
        assert ada.get("still") is None
        assert ada.value("kept") == "stamped"

    def test_a_write_without_a_ttl_makes_a_fact_permanent(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1, ttl=60)
        ada.set("twin", 1, ttl=60)
        assert ada.set("k", 2).expires_at is None
        clock.advance(10**9)
        assert ada.value("k") == 2
        assert ada.get("twin") is None
        memory.sweep()
        assert ada.value("k") == 2

    def test_reading_never_prolongs(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", 1, ttl=60)
        for _ in range(6):
            assert ada.value("k") == 1
            assert len(ada.list()) == 1
            assert len(ada.history("k")) == 1
            clock.advance(10)
        assert ada.get("k") is None

    def test_a_write_after_expiry_makes_a_single_new_fact_without_stale_fields(
        self, memory: Memory, clock: FakeClock
    ) -> None:
        ada = memory.scope(user="ada")
        old = ada.set("k", {"a": 1, "b": 2}, ttl=60, domain="old", source="old")
        clock.advance(60)
        new = ada.set("k", {"a": 3})
        assert new.id != old.id
        assert new.version == 3  # the expiry was version 2
        assert new.value == {"a": 3}
        assert (new.domain, new.origin.source, new.expires_at) == (None, None, None)
        assert new.created_at == new.updated_at >= clock.now()
        assert ada.list() == [new]
        assert [(r.version, r.change) for r in ada.history("k")] == [(1, "set"), (2, "expired"), (3, "set")]

    def test_an_expired_fact_counts_as_missing_for_expect(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        held = ada.set("k", 1, ttl=60).version
        clock.advance(60)
        with pytest.raises(Conflict) as caught:
            ada.set("k", 2, expect=held)
        assert (caught.value.expected, caught.value.actual) == (held, 0)
        assert ada.create("k", 3).version == 3
        assert ada.value("k") == 3

    def test_a_sweep_removes_what_is_over_and_nothing_else(self, memory: Memory, clock: FakeClock) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.set("gone", 1, ttl=60)
        bob.set("gone", 1, ttl=60)
        ada.set("later", 1, ttl=61)
        ada.set("forever", 1)
        clock.advance(60)
        swept = memory.sweep()
        assert (swept.facts, swept.more) == (2, False)
        assert [fact.key for fact in ada.list()] == ["forever", "later"]
        assert memory.sweep().facts == 0
        assert [(r.version, r.change) for r in ada.history("gone")] == [(1, "set"), (2, "expired")]
        assert ada.set("gone", 2).version == 3

    def test_a_sweep_forgets_the_values_of_history_that_outlived_their_ttl(
        self, memory: Memory, clock: FakeClock
    ) -> None:
        ada = memory.scope(user="ada")
        short = ada.set("k", "short-lived", ttl=60)
        clock.advance(1)
        kept = ada.set("k", "kept")
        clock.advance(100)
        assert memory.sweep().revisions == 1
        first, second = ada.history("k")
        assert (first.version, first.change, first.value, first.forgotten) == (1, "set", None, True)
        assert (second.value, second.forgotten) == ("kept", False)
        assert ada.get("k", as_of=short.updated_at) is None
        assert ada.list(as_of=short.updated_at) == []
        assert ada.get("k", as_of=kept.updated_at) == kept
        assert ada.value("k") == "kept"
        assert memory.sweep().revisions == 0

    def test_a_sweep_of_many_facts_removes_them_all(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        with memory.batch() as batch:
            for n in range(700):
                batch.set(ada, f"k.{n}", n, ttl=60)
        ada.set("kept", 1)
        clock.advance(60)
        assert memory.sweep().facts == 700
        assert [fact.key for fact in ada.list()] == ["kept"]

    def test_a_sweep_stays_in_its_tenant(self, memory: Memory, clock: FakeClock) -> None:
        here, there = memory.scope(user="ada"), memory.scope(tenant="other", user="ada")
        here.set("k", 1, ttl=60)
        there.set("k", "theirs", ttl=60)
        clock.advance(60)
        assert memory.sweep().facts == 1
        assert [r.change for r in here.history("k")] == ["set", "expired"]
        assert [r.change for r in there.history("k")] == ["set"]

    @requires(Capability.RESTART)
    def test_a_ttl_counts_on_through_a_restart(
        self, memory: Memory, clock: FakeClock, reopen: Callable[[], Memory]
    ) -> None:
        memory.scope(user="ada").set("k", 1, ttl=60)
        clock.advance(ALMOST)
        ada = reopen().scope(user="ada")
        assert present(ada.get("k")).value == 1
        clock.advance(TICK)
        assert ada.get("k") is None
