"""How memory ends: expiry, the end of a session, and erasure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.engine.facts import SetFact
from memoranda.engine.sessions import StartSession
from memoranda.errors import ApprovalRequired, Conflict, Denied, NotFound, ScopeEnded, UsageError
from memoranda.model.clock import Duration
from memoranda.model.names import SESSION_RECORD
from memoranda.model.policy import Policy
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.base import Store
from memoranda.testing.conformance.base import Capability, present, requires, snapshot
from memoranda.testing.conformance.permissions import LOOK_ALIKES
from memoranda.testing.fakes import FakeClock

ALMOST = 59.999999
TICK = 0.000001


class ExpiryPromises:
    """Nothing is seen after its time, and nothing is lost before."""

    def test_a_fact_lives_until_exactly_its_ttl(self, ada: ScopedMemory, clock: FakeClock) -> None:
        fact = ada.set("k", 1, ttl=60)
        assert fact.expires_at == clock.now() + timedelta(seconds=60)
        clock.advance(ALMOST)
        assert ada.get("k") == fact
        clock.advance(TICK)
        assert ada.get("k") is None

    def test_expired_fact_is_invisible_before_it_is_swept(self, ada: ScopedMemory, clock: FakeClock) -> None:
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
        self, ada: ScopedMemory, clock: FakeClock, ttl: Duration, seconds: int
    ) -> None:
        assert ada.set("k", 1, ttl=ttl).expires_at == clock.now() + timedelta(seconds=seconds)

    def test_a_write_begins_the_ttl_anew(self, ada: ScopedMemory, clock: FakeClock) -> None:
        ada.set("k", 1, ttl=60)
        clock.advance(59)
        ada.set("k", 2, ttl=60)
        clock.advance(ALMOST)
        assert ada.value("k") == 2
        clock.advance(TICK)
        assert ada.get("k") is None

    def test_a_ttl_counts_from_the_clock_even_when_it_stopped_or_went_back(
        self, ada: ScopedMemory, clock: FakeClock
    ) -> None:
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

    def test_reading_never_prolongs(self, ada: ScopedMemory, clock: FakeClock) -> None:
        ada.set("k", 1, ttl=60)
        for _ in range(6):
            assert ada.value("k") == 1
            assert len(ada.list()) == 1
            assert len(ada.history("k")) == 1
            clock.advance(10)
        assert ada.get("k") is None

    def test_a_write_after_expiry_makes_a_single_new_fact_without_stale_fields(
        self, ada: ScopedMemory, clock: FakeClock
    ) -> None:
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

    def test_an_expired_fact_counts_as_missing_for_expect(self, ada: ScopedMemory, clock: FakeClock) -> None:
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
        self, memory: Memory, ada: ScopedMemory, clock: FakeClock
    ) -> None:
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

    def test_a_sweep_of_many_facts_removes_them_all(self, memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
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


class SessionPromises:
    """What belongs to a session goes with it, and an ended session stays ended."""

    def test_a_session_is_a_scope_of_its_own(self, memory: Memory, ada: ScopedMemory) -> None:
        session = ada.session("s1")
        session.set("k", "in the session")
        ada.set("k", "of ada")
        assert session.value("k") == "in the session"
        assert ada.value("k") == "of ada"
        assert ada.session("s1").value("k") == "in the session"  # going on with it
        assert memory.scope(session="s1").value("k") == "in the session"
        assert ada.session("s2").get("k") is None

    def test_a_session_belongs_to_one_owner(self, memory: Memory) -> None:
        memory.scope(user="ada").session("s1").set("k", 1)
        with pytest.raises(UsageError):
            memory.scope(user="bob").session("s1")
        assert memory.scope(user="ada").session("s1").value("k") == 1
        assert memory.scope(user="bob").session("s2").set("k", 1).version == 1

    def test_the_same_session_id_in_another_tenant_is_another_session(self, memory: Memory) -> None:
        here = memory.scope(user="ada").session("s1")
        there = memory.scope(tenant="other", user="bob").session("s1")
        here.set("k", "here")
        there.set("k", "there")
        here.end()
        assert here.get("k") is None
        assert there.value("k") == "there"
        assert there.set("k", "still open").version == 2

    def test_ending_a_session_removes_its_facts_and_their_history(self, ada: ScopedMemory) -> None:
        session, other = ada.session("s1"), ada.session("s2")
        ada.set("k", "kept")
        other.set("k", "kept too")
        session.set("k", 1)
        session.set("k", 2)
        session.set("other", 1, idempotency_key="r1")
        removed = session.end()
        assert removed == {
            "facts": 2,
            "revisions": 3,
            "entries": 0,
            "idempotency_keys": 1,
            "ledger_texts": 0,
            "content_keys": 1,
        }
        assert session.get("k") is None
        assert session.list() == []
        assert session.history("k") == []
        assert ada.value("k") == "kept"
        assert other.value("k") == "kept too"
        assert len(other.history("k")) == 1

    @pytest.mark.parametrize("kind", ["session", "run", "tree"])
    def test_a_write_after_the_end_is_refused_and_a_read_finds_nothing(
        self, memory: Memory, store: Store, kind: str
    ) -> None:
        place, other = memory.scope(**{kind: "x"}), memory.scope(**{kind: "y"})
        place.set("k", 1)
        other.set("k", 1)
        place.end()
        before = snapshot(store)
        for attempt in (
            lambda: place.set("k", 2),
            lambda: place.create("new", 1),
            lambda: place.delete("k"),
            lambda: place.update("k", lambda value: value, default=1),
        ):
            with pytest.raises(ScopeEnded) as caught:
                attempt()
            assert caught.value.hint
        with pytest.raises(ScopeEnded), memory.batch() as batch:
            batch.set(other, "batched", 1)
            batch.set(place, "batched", 1)
        assert snapshot(store) == before
        assert (place.get("k"), place.value("k", "default"), place.list()) == (None, "default", [])
        assert other.set("k", 2).version == 2
        assert other.get("batched") is None

    def test_what_lies_below_an_ended_scope_ends_with_it(self, memory: Memory) -> None:
        run = memory.scope(user="ada", run="r1")
        below, beside = memory.scope(user="ada", run="r1", session="s"), memory.scope(user="ada", run="r11")
        for place in (run, below, beside):
            place.set("k", 1)
        assert run.end()["facts"] == 2
        assert (run.get("k"), below.get("k")) == (None, None)
        with pytest.raises(ScopeEnded):
            below.set("k", 2)
        assert beside.value("k") == 1
        assert beside.set("k", 2).version == 2
        assert memory.scope(user="ada").set("k", 1).version == 1

    def test_ending_twice_changes_nothing(self, memory: Memory, store: Store) -> None:
        session = memory.scope(user="ada").session("s1")
        session.set("k", 1)
        assert session.end()["facts"] == 1
        before = snapshot(store)
        assert session.end() == {}
        assert snapshot(store) == before

    def test_an_ended_session_cannot_be_started_again(self, ada: ScopedMemory) -> None:
        ada.session("s1").end()
        with pytest.raises(ScopeEnded):
            ada.session("s1")
        assert ada.session("s2").set("k", 1).version == 1

    def test_only_scopes_that_end_can_be_ended(self, memory: Memory) -> None:
        for place in (memory.scope(), memory.scope(user="ada"), memory.scope(user="ada", agent="x")):
            place.set("k", 1)
            with pytest.raises(UsageError):
                place.end()
            assert place.value("k") == 1
        assert memory.scope(user="ada", run="r").end() is not None

    def test_a_session_of_the_shared_scope_can_be_inspected(self, memory: Memory) -> None:
        session = memory.scope().session("s1")
        session.set("k", 1)
        memory.scope(user="ada").set("k", 1)
        memory.erase(user="ada")
        assert session.value("k") == 1
        assert all(finding.ok for finding in memory.inspect())

    @requires(Capability.RESTART)
    def test_an_ended_session_stays_ended_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        ada = memory.scope(user="ada")
        ada.session("s1").set("k", 1)
        ada.session("s2").set("k", 1)
        ada.session("s1").end()
        again = reopen().scope(user="ada")
        with pytest.raises(ScopeEnded):
            again.session("s1")
        assert again.session("s2").value("k") == 1

    def test_the_variables_in_a_session_s_record_are_read_as_facts(self, memory: Memory) -> None:
        session = memory.scope(user="ada").session("s1")
        _record(memory, "s1", {"city": "Porto", "desk.guests": 2})
        assert session.value("city") == "Porto"
        assert session.value("desk.guests") == 2
        assert session.get("country") is None
        assert [fact.key for fact in session.list()] == ["abl.session", "city", "desk.guests"]
        assert [fact.key for fact in session.list("desk")] == ["desk.guests"]
        assert [fact.key for fact in session.list(after="abl.session", limit=1)] == ["city"]
        assert memory.scope(session="s2").get("city") is None
        assert memory.scope(user="ada").get("city") is None

    def test_a_fact_of_the_session_hides_a_variable_of_its_name(self, memory: Memory) -> None:
        session = memory.scope(user="ada").session("s1")
        _record(memory, "s1", {"city": "Porto", "nights": 3})
        session.set("city", "Rome")
        assert (session.value("city"), session.value("nights")) == ("Rome", 3)
        assert [(fact.key, fact.value) for fact in session.list("city")] == [("city", "Rome")]
        session.delete("city")
        assert session.value("city") == "Porto"

    def test_a_fact_that_expires_uncovers_the_variable_of_its_name(self, memory: Memory, clock: FakeClock) -> None:
        session = memory.scope(user="ada").session("s1")
        _record(memory, "s1", {"city": "Porto"})
        session.set("city", "Rome", ttl="1h")
        assert session.value("city") == "Rome"
        clock.advance(7_200)
        assert session.value("city") == "Porto"
        assert [(fact.key, fact.value) for fact in session.list("city")] == [("city", "Porto")]

    def test_variables_are_read_as_of_a_moment(self, memory: Memory) -> None:
        session = memory.scope(user="ada").session("s1")
        _record(memory, "s1", {"city": "Porto"})
        then = session.get("abl.session")
        assert then is not None
        _record(memory, "s1", {"city": "Rome"})
        assert session.value("city") == "Rome"
        assert session.value("city", as_of=then.updated_at) == "Porto"
        stood = {fact.key: fact.value for fact in session.list(as_of=then.updated_at)}
        assert stood["city"] == "Porto"

    def test_variables_end_with_their_session(self, memory: Memory) -> None:
        session = memory.scope(user="ada").session("s1")
        _record(memory, "s1", {"city": "Porto"})
        assert session.value("city") == "Porto"
        session.end()
        assert session.get("city") is None
        assert session.list() == []


def _record(memory: Memory, session: str, variables: dict[str, object]) -> None:
    """Keep variables as a language does: in the record of a session, whose key no caller may write."""
    payload = msgspec.Raw(encode({"vars": variables}))
    scope = Scope.of(tenant=memory.tenant, session=session)
    memory.perform(SetFact(scope=scope, key=SESSION_RECORD, payload=payload))


class ErasurePromises:
    """Erased means gone, for exactly the one who was named."""

    def test_an_erasure_removes_everything_at_and_below_a_subject(self, memory: Memory, clock: FakeClock) -> None:
        ada, agent, bob = memory.scope(user="ada"), memory.scope(user="ada", agent="x"), memory.scope(user="bob")
        for place in (ada, agent, bob):
            place.set("k", 1, idempotency_key="r1")
            place.set("k", 2)
            place.set("deleted", 1)
            place.delete("deleted")
            place.set("short", 1, ttl=60)
        then = clock.now()
        clock.advance(120)
        receipt = memory.erase(user="ada")
        assert receipt.scope == ada.scope
        assert receipt.removed == {
            "facts": 4,
            "revisions": 10,
            "entries": 0,
            "idempotency_keys": 2,
            "approvals": 0,
            "ledger_texts": 0,
            "content_keys": 2,
            "sessions": 0,
        }
        for place in (ada, agent):
            assert place.list() == []
            assert place.list(as_of=then) == []
            for key in ("k", "deleted", "short"):
                assert place.get(key) is None
                assert place.history(key) == []
                assert place.get(key, as_of=then) is None
        assert bob.value("k") == 2
        assert [r.value for r in bob.history("k")] == [1, 2]
        assert len(bob.history("deleted")) == 2
        assert bob.set("k", 1, idempotency_key="r1").version == 1

    def test_an_erasure_takes_the_sessions_a_subject_owns(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        hers, of_agent, his = (
            ada.session("s1"),
            memory.scope(user="ada", agent="x").session("s2"),
            bob.session("s3"),
        )
        for session in (hers, of_agent, his):
            session.set("k", 1)
        receipt = memory.erase(user="ada")
        assert (receipt.removed["sessions"], receipt.removed["facts"]) == (2, 2)
        for session in (hers, of_agent):
            assert session.get("k") is None
            assert session.history("k") == []
        assert his.value("k") == 1
        assert all(finding.ok for finding in memory.inspect())

    def test_an_erasure_takes_sessions_of_sessions_too(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        inner, other = ada.session("s1").session("s2"), bob.session("s3").session("s4")
        inner.set("k", "ada's")
        other.set("k", "bob's")
        memory.erase(user="ada")
        assert inner.get("k") is None
        assert inner.history("k") == []
        assert other.value("k") == "bob's"
        assert all(finding.ok for finding in memory.inspect())

    def test_an_erasure_takes_what_lies_below_an_owned_tree_and_the_ledger_agrees(self, memory: Memory) -> None:
        for tree, owner in (("t1", "ada"), ("t2", "bob")):
            memory.perform(StartSession(scope=Scope.of(tree=tree), owner=Scope.of(user=owner)))
            below = memory.scope(tree=tree, agent="x")
            for place in (below, below.session(f"of {tree}")):
                place.set("k", owner)
                place.remember(f"{owner} likes tea", collection="notes")
        assert memory.erase(user="ada").removed["facts"] == 2
        for place in (memory.scope(tree="t1", agent="x"), memory.scope(session="of t1")):
            assert (place.list(), place.entries(collection="notes")) == ([], [])
        assert memory.scope(session="of t2").value("k") == memory.scope(tree="t2", agent="x").value("k") == "bob"
        assert [finding for finding in memory.inspect() if not finding.ok] == []

    def test_erasing_one_agent_of_a_user_leaves_the_rest_of_the_user(self, memory: Memory, ada: ScopedMemory) -> None:
        x, xx = memory.scope(user="ada", agent="x"), memory.scope(user="ada", agent="xx")
        for place in (ada, x, xx):
            place.set("k", 1)
        assert memory.erase(user="ada", agent="x").removed["facts"] == 1
        assert x.get("k") is None
        assert (ada.value("k"), xx.value("k")) == (1, 1)
        assert x.set("k", 2).version == 2
        assert all(finding.ok for finding in memory.inspect())

    def test_look_alike_users_stay(self, memory: Memory) -> None:
        for name in LOOK_ALIKES:
            memory.scope(user=name).set("k", name)
            memory.scope(user=name, agent="x").set("k", name)
            memory.scope(user=name).session(f"s {name}").set("k", name)
        assert memory.erase(user="a").removed["facts"] == 3
        for name in LOOK_ALIKES[1:]:
            assert memory.scope(user=name).value("k") == name
            assert memory.scope(user=name, agent="x").value("k") == name
            assert memory.scope(user=name).session(f"s {name}").value("k") == name
            assert len(memory.scope(user=name).history("k")) == 1
        assert memory.scope(user="a").get("k") is None

    def test_nothing_erased_is_ever_used_again(self, memory: Memory, ada: ScopedMemory) -> None:
        ids = {ada.set("k", n).id for n in range(5)}
        ada.set("other", 1)
        memory.erase(user="ada")
        again = ada.set("k", "again")
        assert again.version > 5
        assert again.id not in ids
        assert ada.set("other", 1).version > 1
        assert ada.value("k") == "again"
        assert len(ada.history("k")) == 1
        memory.erase(user="ada")
        assert ada.set("k", "once more").version > again.version

    def test_no_version_of_an_owned_session_is_used_again(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        held = [ada.session("s1").set("k", n).version for n in range(3)][-1]
        bob.session("s2").set("k", 1)
        memory.erase(user="ada")
        assert ada.session("s1").set("k", "again").version > held
        assert bob.session("s2").set("k", 2).version == 2

    def test_no_version_of_an_ended_session_is_used_again_after_its_erasure(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        held = [ada.session("s1").set("k", n).version for n in range(3)][-1]
        ada.session("s1").end()
        memory.erase(user="ada")
        try:
            again = ada.session("s1").set("k", "again")
        except ScopeEnded:
            return  # an ended session that stays ended keeps the promise too
        assert again.version > held

    def test_the_receipt_names_the_event_in_the_ledger(self, memory: Memory, clock: FakeClock) -> None:
        memory.scope(user="ada").set("k", 1)
        memory.scope(user="bob").set("k", 1)
        receipt = memory.erase(user="ada")
        memory.scope(user="bob").set("k", 2)
        event = memory.ledger.events(start=receipt.position, limit=1)[0]
        assert (event.effect, event.scope, event.resource) == ("erase", "user:ada", receipt.id)
        assert (event.actor, event.decision, event.position) == ("owner", "allow", receipt.position)
        assert event.detail["removed"] == receipt.removed
        assert receipt.at >= clock.now()
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())

    def test_an_erasure_removes_what_waits_for_approval(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory.write", level="approve")
        agent = memory.acting_as("agent")
        waiting: dict[str, str] = {}
        for user in ("ada", "bob"):
            with pytest.raises(ApprovalRequired) as caught:
                agent.scope(user=user).set("k", f"secret of {user}")
            waiting[user] = caught.value.approval
        assert memory.erase(user="ada").removed["approvals"] == 1
        assert [approval.id for approval in memory.approvals.list(status="all")] == [waiting["bob"]]
        with pytest.raises(NotFound):
            memory.approvals.approve(waiting["ada"])
        memory.approvals.approve(waiting["bob"])
        assert memory.scope(user="ada").get("k") is None
        assert memory.scope(user="bob").value("k") == "secret of bob"

    def test_an_erasure_reaches_into_batches_that_wait(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory.write", level="approve")
        agent = memory.acting_as("agent")
        with pytest.raises(ApprovalRequired), agent.batch() as batch:
            batch.set(agent.scope(user="bob"), "k", "of bob")
            batch.set(agent.scope(user="ada"), "k", "secret of ada")
        assert b"secret of ada" in msgspec.json.encode(memory.approvals.list())
        memory.erase(user="ada")
        assert b"secret of ada" not in msgspec.json.encode(memory.approvals.list(status="all"))
        for approval in memory.approvals.list():
            memory.approvals.approve(approval.id)
        assert memory.scope(user="ada").get("k") is None

    def test_erasing_kept_text_leaves_the_chain_whole(self, store: Store, clock: FakeClock) -> None:
        with Memory(store, clock=clock, keep_text=True) as memory:
            memory.scope(user="ada").set("k", "secret of ada")
            memory.scope(user="bob").set("k", "secret of bob")
            anchor = memory.ledger.anchor()
            assert memory.erase(user="ada").removed["ledger_texts"] == 1
            assert [event.text for event in memory.ledger.events()][:2] == [None, "secret of bob"]
            assert memory.ledger.verify(anchor=anchor).ok

    def test_erasing_an_unknown_user_gives_a_receipt_of_zeros(self, memory: Memory) -> None:
        memory.scope(user="bob").set("k", 1)
        receipt = memory.erase(user="nobody")
        assert set(receipt.removed.values()) == {0}
        assert memory.ledger.events(start=receipt.position)[0].effect == "erase"
        assert memory.scope(user="bob").value("k") == 1

    def test_an_erasure_without_a_subject_is_refused(self, memory: Memory, store: Store) -> None:
        memory.scope(user="ada").set("k", 1)
        memory.scope().set("k", 1)
        before = snapshot(store)
        with pytest.raises(UsageError):
            memory.erase()
        assert snapshot(store) == before

    def test_an_erasure_needs_its_permission(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.set("k", 1)
        writer = memory.acting_as("writer", policy=Policy.of(allow=("memory.read", "memory.write")))
        with pytest.raises(Denied) as caught:
            writer.erase(user="ada")
        assert caught.value.capability == "memory.erase"
        assert ada.value("k") == 1
        eraser = memory.acting_as("eraser", policy=Policy.of(allow=("memory.erase",)))
        assert eraser.erase(user="ada").removed["facts"] == 1
        assert memory.ledger.tail(1)[0].actor == "eraser"

    def test_content_hashes_of_the_erased_cannot_be_compared_any_more(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        for user in (ada, bob):
            user.set("k", "same")
        memory.erase(user="ada")
        ada.set("k", "same")
        bob.set("k", "same")
        hashes = {(e.scope, e.position): e.content for e in memory.ledger.events() if e.effect == "set_fact"}
        adas = [content for (scope, _), content in hashes.items() if scope == "user:ada"]
        bobs = [content for (scope, _), content in hashes.items() if scope == "user:bob"]
        assert len(set(adas)) == 2
        assert len(set(bobs)) == 1

    @requires(Capability.RESTART)
    def test_the_erased_stay_erased_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        for user in ("ada", "bob"):
            for n in range(3):
                memory.scope(user=user).set("k", n)
        receipt = memory.erase(user="ada")
        again = reopen()
        assert again.scope(user="ada").history("k") == []
        assert again.scope(user="bob").value("k") == 2
        assert present(again.scope(user="ada").set("k", 1)).version > 3
        assert again.ledger.events(start=receipt.position, limit=1)[0].resource == receipt.id
        assert all(finding.ok for finding in again.inspect())
