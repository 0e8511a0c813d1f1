"""History: every revision of a key, reads as of a moment, and a clock that cannot be trusted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta, timezone

from memoranda.api.memory import Memory
from memoranda.model.scope import Scope
from memoranda.store.base import Store
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import Capability, present, requires

TICK = timedelta(microseconds=1)


class HistoryPromises:
    """What was stays readable, in order, at the moment it was true."""

    def test_history_tells_every_change_oldest_first(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        first = ada.set("k", "one", domain="d", source="s1")
        clock.advance(10)
        second = ada.set("k", "two", ttl=60)
        clock.advance(10)
        ada.delete("k", source="s3")
        clock.advance(10)
        third = ada.set("k", "three")
        history = ada.history("k")
        assert [(r.version, r.change, r.value) for r in history] == [
            (1, "set", "one"),
            (2, "set", "two"),
            (3, "deleted", None),
            (4, "set", "three"),
        ]
        assert [r.at - history[0].at for r in history] == [timedelta(seconds=10 * n) for n in range(4)]
        assert [r.domain for r in history] == ["d", None, None, None]
        assert [r.origin.source for r in history] == ["s1", None, "s3", None]
        assert [r.expires_at for r in history] == [None, second.expires_at, None, None]
        assert [r.fact_id for r in history] == [first.id, first.id, first.id, third.id]
        assert history[0].as_fact() == first
        assert history[1].as_fact() == second
        assert history[3].as_fact() == third
        assert not any(r.forgotten for r in history)

    def test_the_history_below_a_scope_is_read_by_scope_key_and_version(self, memory: Memory, store: Store) -> None:
        for user in ("ada", "ad", "ada-b"):
            for n in range(20):
                memory.scope(user=user).set(f"k{n % 2}", n)
        memory.scope(user="ada", agent="desk").set("k", 1)
        memory.in_tenant("other").scope(user="ada").set("k", 1)

        def places(path: str) -> list[tuple[str, str, int]]:
            found = store.read(lambda rows: list(rows.revisions_below(Scope(path=path))))
            return [(one.scope.path, one.key, one.version) for one in found]

        every = places("")
        assert every == sorted(every) and len(every) == len(set(every)) == 61
        assert places("user:ada") == [
            *(("user:ada", key, version) for key in ("k0", "k1") for version in range(1, 11)),
            (memory.scope(user="ada", agent="desk").scope.path, "k", 1),
        ]
        assert {scope for scope, _, _ in places("user:ad")} == {"user:ad"}

    def test_histories_of_other_keys_and_scopes_do_not_mix(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.set("k", 1)
        ada.set("k.below", 2)
        bob.set("k", 3)
        assert [r.value for r in ada.history("k")] == [1]
        assert [r.value for r in ada.history("k.below")] == [2]
        assert [r.value for r in bob.history("k")] == [3]

    def test_a_read_as_of_a_moment_gives_what_stood_then(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        start = clock.now()
        clock.advance(10)
        first = ada.set("k", "one")
        clock.advance(10)
        second = ada.set("k", "two")
        assert ada.get("k", as_of=start) is None
        assert ada.get("k", as_of=first.updated_at - TICK) is None
        assert ada.get("k", as_of=first.updated_at) == first
        assert ada.get("k", as_of=second.updated_at - TICK) == first
        assert ada.get("k", as_of=second.updated_at) == second
        assert ada.get("k", as_of=second.updated_at + TICK) == second
        assert ada.value("k", as_of=first.updated_at) == "one"
        assert ada.value("k", "default", as_of=start) == "default"

    def test_a_deleted_fact_is_seen_until_exactly_its_deletion(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", "one")
        clock.advance(10)
        ada.delete("k")
        deleted = clock.now()
        clock.advance(10)
        again = ada.set("k", "two")
        assert ada.value("k", as_of=deleted - TICK) == "one"
        assert ada.get("k", as_of=deleted) is None
        assert ada.get("k", as_of=again.updated_at - TICK) is None
        assert ada.get("k", as_of=again.updated_at) == again

    def test_an_expired_fact_is_seen_until_exactly_its_expiry(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        fact = ada.set("k", "one", ttl=60)
        clock.advance(120)
        again = ada.set("k", "two")
        expiry = present(fact.expires_at)
        assert ada.value("k", as_of=expiry - TICK) == "one"
        assert ada.get("k", as_of=expiry) is None
        assert ada.get("k", as_of=again.updated_at) == again

    def test_a_list_as_of_a_moment_gives_what_stood_then(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("a", 1, domain="d")
        ada.set("b.x", 1, ttl=60)
        ada.set("c", 1)
        ada.set("bb", 1, domain="d")
        clock.advance(10)
        then = clock.now()
        clock.advance(10)
        ada.set("a", 2)
        ada.delete("c")
        ada.set("new", 1)
        clock.advance(100)
        assert [(f.key, f.value) for f in ada.list(as_of=then)] == [("a", 1), ("b.x", 1), ("bb", 1), ("c", 1)]
        assert [f.key for f in ada.list("b", as_of=then)] == ["b.x"]
        assert [f.key for f in ada.list(domain="d", as_of=then)] == ["a", "bb"]
        assert [f.key for f in ada.list(as_of=then, after="a", limit=2)] == ["b.x", "bb"]
        assert [(f.key, f.value) for f in ada.list(as_of=clock.now())] == [("a", 2), ("bb", 1), ("new", 1)]
        assert ada.list(as_of=then - timedelta(days=1)) == []

    def test_a_moment_may_be_written_as_text_and_in_any_zone(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        fact = ada.set("k", "one")
        clock.advance(3600)
        ada.set("k", "two")
        moment = fact.updated_at
        away = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
        assert ada.value("k", as_of=away) == "one"
        assert ada.value("k", as_of=away.isoformat()) == "one"
        assert ada.value("k", as_of=moment.isoformat().replace("+00:00", "Z")) == "one"
        assert ada.value("k", as_of=moment.replace(tzinfo=None)) == "one"
        assert ada.value("k") == "two"

    def test_changes_of_one_moment_keep_their_order(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        facts = [ada.set("k", n) for n in range(5)]
        moments = [fact.updated_at for fact in facts]
        assert moments == sorted(set(moments))
        assert [r.value for r in ada.history("k")] == [0, 1, 2, 3, 4]
        assert [ada.value("k", as_of=moment) for moment in moments] == [0, 1, 2, 3, 4]

    def test_a_clock_that_goes_back_never_reorders_history(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        first = ada.set("k", "one")
        clock.advance(-3600)
        second = ada.set("k", "two")
        clock.advance(-3600)
        ada.delete("k")
        third = ada.set("k", "three")
        assert first.updated_at < second.updated_at < third.updated_at
        moments = [r.at for r in ada.history("k")]
        assert moments == sorted(set(moments))
        assert [r.value for r in ada.history("k")] == ["one", "two", None, "three"]
        assert ada.value("k") == "three"
        assert [f.value for f in ada.list()] == ["three"]
        assert ada.value("k", as_of=first.updated_at) == "one"
        assert ada.value("k", as_of=second.updated_at) == "two"
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())

    def test_a_clock_that_goes_back_keeps_an_expired_fact_to_its_expiry(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", "one", ttl=60)
        clock.advance(120)
        assert ada.get("k") is None
        memory.sweep()
        clock.advance(-100)
        assert ada.get("k") is None  # what was swept does not come back
        assert ada.set("k", "two").version == 3
        assert ada.value("k") == "two"
        moments = [r.at for r in ada.history("k")]
        assert moments == sorted(set(moments))

    @requires(Capability.RESTART)
    def test_history_survives_a_restart(self, memory: Memory, clock: FakeClock, reopen: Callable[[], Memory]) -> None:
        ada = memory.scope(user="ada")
        ada.set("k", {"n": 1}, domain="d", source="s")
        clock.advance(1)
        ada.set("k", {"n": 2}, ttl=60)
        clock.advance(1)
        ada.delete("k")
        ada.set("other", "é🧠")
        before, facts = ada.history("k"), ada.list()
        again = reopen().scope(user="ada")
        assert again.history("k") == before
        assert again.list() == facts
        assert again.value("k", as_of=before[0].at) == {"n": 1}
        assert again.set("k", 4).version == 4
