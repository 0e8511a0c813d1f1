"""Sessions: scopes that belong to somebody and come to an end."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from memoranda.api.memory import Memory
from memoranda.errors import ScopeEnded, UsageError
from memoranda.model.effect import SetFact
from memoranda.model.key import SESSION_RECORD
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.base import Store
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import Capability, requires, snapshot


class SessionPromises:
    """What belongs to a session goes with it, and an ended session stays ended."""

    def test_a_session_is_a_scope_of_its_own(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
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

    def test_ending_a_session_removes_its_facts_and_their_history(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
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

    def test_an_ended_session_cannot_be_started_again(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
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

    def test_variables_are_read_as_they_stood(self, memory: Memory) -> None:
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
