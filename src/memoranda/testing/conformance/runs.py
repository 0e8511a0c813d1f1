"""Runs: a chain of their own inside the ledger, gone on with by one at a time, gone with whom they belong to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memoranda.api.memory import Memory
from memoranda.engine.erasure import EndIdleSessions, IdleSessions
from memoranda.engine.facts import SetFact
from memoranda.engine.sessions import EndScope, StartSession
from memoranda.errors import (
    ApprovalRequired,
    Conflict,
    Denied,
    InvalidKey,
    NotFound,
    QuotaExceeded,
    ScopeEnded,
    UsageError,
)
from memoranda.governance.runs import HoldStep, RecordRun
from memoranda.model.effect import Approval
from memoranda.model.event import GENESIS, Recorded, RunNote, RunStatus
from memoranda.model.names import RUN_RECORD, SESSION_RECORD, step_key
from memoranda.model.policy import Policy, Quota, Rule
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.base import Session, Store
from memoranda.testing.conformance.base import Capability, assert_raises, present, requires
from memoranda.testing.fakes import FakeClock

NOWHERE = Recorded(index=0, head=GENESIS, position=0)
"""The head of a run that has not begun."""

START, STEP, END = (RunNote(kind=kind) for kind in ("exec_start", "step_record", "exec_end"))


def _scope(run: str) -> Scope:
    return Scope.of(run=run)


def _record(
    memory: Memory,
    run: str,
    after: Recorded,
    *notes: RunNote,
    writes: tuple[SetFact, ...] = (),
    ends: Scope | None = None,
) -> Recorded:
    return memory.perform(
        RecordRun(
            scope=_scope(run), run=run, index=after.index, previous=after.head, notes=notes, writes=writes, ends=ends
        )
    )


def _own(run: str, key: str, value: Any) -> SetFact:
    return SetFact(scope=_scope(run), key=key, payload=msgspec.Raw(encode(value)))


def _summary(memory: Memory, run: str, status: RunStatus, *, machine: str = "kiln") -> SetFact:
    about = {"language": "mashin", "program": machine, "digest": "d1"}
    value = {**about, "status": status, "started_at": memory.clock.now()}
    return _own(run, RUN_RECORD, value)


def _begin(memory: Memory, run: str, *, owner: str | None = "ada") -> Recorded:
    writes = (_summary(memory, run, "running"),)
    whose = None if owner is None else Scope.of(user=owner)
    begin = RecordRun(scope=_scope(run), run=run, index=0, previous=GENESIS, notes=(START,), writes=writes, owner=whose)
    return memory.perform(begin)


def _finish(memory: Memory, run: str, *, owner: str = "ada", machine: str = "kiln") -> Recorded:
    head = _record(memory, run, _begin(memory, run, owner=owner), STEP, STEP)
    return _record(memory, run, head, END, writes=(_summary(memory, run, "completed", machine=machine),))


def _pause(memory: Memory, run: str) -> Approval:
    machine = memory.acting_as("machine:kiln", policy=Policy.of(allow=("runs",)))
    return machine.perform(HoldStep(scope=_scope(run), run=run, step="fire", needs="http", about={"to": 1200}))


class RunPromises:
    """What a machine did is written once, in order, provably, and goes with whom it belongs to."""

    def test_a_run_is_a_chain_inside_the_chain(self, memory: Memory, clock: FakeClock) -> None:
        first = _begin(memory, "r1")
        memory.scope(user="ada").set("between", 1)
        decided = RunNote(kind="policy_decision", step="fire", decision="deny", detail={"capability": "http"})
        done = RunNote(kind="step_record", step="fire", payload=b'{"heat":1200}', detail={"attempt": 2})
        second = _record(memory, "r1", first, decided, done)
        assert (first.index, second.index) == (1, 3)
        events = memory.runs.events("r1")
        assert [(one.index, one.kind, one.step, one.decision) for one in events] == [
            (1, "exec_start", None, "allow"),
            (2, "policy_decision", "fire", "deny"),
            (3, "step_record", "fire", "allow"),
        ]
        assert [one.detail for one in events] == [{}, {"capability": "http"}, {"attempt": 2}]
        assert [one.prev_hash for one in events] == [GENESIS, events[0].hash, events[1].hash]
        assert (events[0].hash, events[2].hash) == (first.head, second.head)
        assert [one.content is not None for one in events] == [False, False, True]
        assert {(one.run, one.at, one.actor) for one in events} == {("r1", clock.now(), "owner")}
        whole = {event.position: event for event in memory.ledger.events()}
        assert [whole[one.position].effect for one in events] == [one.kind for one in events]
        between = [
            event.effect for position, event in whole.items() if position not in {one.position for one in events}
        ]
        assert between == ["start_session", "set_fact", "set_fact"]
        assert second.position == max(whole) and memory.ledger.verify().ok

    def test_the_first_record_begins_the_scope_of_a_run(self, memory: Memory, store: Store) -> None:
        machine = memory.acting_as("machine:kiln", policy=Policy.of(allow=("runs.write",)))
        head = _begin(machine, "r1", owner="ada")
        _record(machine, "r2", NOWHERE, START)
        owned = store.read(lambda rows: rows.scan(Session, "default", below=Scope.of(user="ada")))
        assert [session.scope for session in owned] == [_scope("r1")]
        _record(machine, "r1", head, STEP)
        effects = [(event.effect, event.scope) for event in memory.ledger.events()]
        assert effects.count(("start_session", "run:r1")) == effects.count(("start_session", "run:r2")) == 1
        memory.perform(StartSession(scope=_scope("r3"), owner=Scope.of(user="bob")))
        with pytest.raises(UsageError, match="belongs to"):
            _begin(machine, "r3", owner="ada")
        assert _begin(machine, "r3", owner="bob").index == 1

    def test_runs_are_told_apart(self, memory: Memory, open_beside: Callable[..., Memory]) -> None:
        one, two = _begin(memory, "r1"), _begin(memory, "r2")
        one = _record(memory, "r1", one, STEP)
        two = _record(memory, "r2", two, STEP, STEP)
        other = open_beside(tenant="other")
        other.perform(
            RecordRun(scope=Scope.of(tenant="other", run="r1"), run="r1", index=0, previous=GENESIS, notes=(START,))
        )
        assert [event.index for event in memory.runs.events("r1")] == [1, 2]
        assert [event.index for event in memory.runs.events("r2")] == [1, 2, 3]
        assert len(other.runs.events("r1")) == 1
        assert {event.hash for event in memory.runs.events("r1")} & {
            event.hash for event in memory.runs.events("r2")
        } == set()
        assert memory.runs.verify("r1").head == one.head and memory.runs.verify("r2").head == two.head

    def test_events_of_a_run_are_read_by_position(self, memory: Memory, store: Store) -> None:
        _finish(memory, "r1")
        _finish(memory, "r2")

        def kinds(**given: Any) -> list[tuple[str, int | None]]:
            return store.read(lambda rows: [(one.effect, one.version) for one in rows.events("default", **given)])

        every = [("exec_start", 1), ("step_record", 2), ("step_record", 3), ("exec_end", 4)]
        assert kinds(run="r1") == kinds(run="r2") == every
        assert kinds(run="r3") == []
        assert kinds(run="r1", limit=2) == every[:2]
        third = memory.runs.events("r1")[2].position
        assert kinds(run="r1", start=third) == every[2:]
        assert kinds(run="r1", start=third, limit=1) == every[2:3]
        assert len(kinds()) > 2 * len(every)
        head = store.read(lambda rows: rows.head("default", "r1"))
        assert head == (4, memory.runs.events("r1")[-1].hash)
        assert store.read(lambda rows: (rows.head("default", "r3"), rows.head("other", "r1"))) == (None, None)
        bodies = store.read(lambda rows: list(rows.bodies("default", run="r1")))
        assert [(position, hash) for position, hash, _ in bodies] == [
            (event.position, event.hash) for event in memory.runs.events("r1")
        ]
        assert all(b'"resource":"r1"' in body for _, _, body in bodies)

    def test_of_two_that_resume_from_the_same_event_one_loses(self, memory: Memory, second: Memory) -> None:
        head = _begin(memory, "r1")
        won = _record(memory, "r1", head, STEP)
        length = memory.ledger.verify().length
        with pytest.raises(Conflict) as lost:
            _record(second, "r1", head, STEP, writes=(_own("r1", "runs.lost", 1),))
        assert (lost.value.expected, lost.value.actual) == (1, 2)
        for wrong in (
            NOWHERE,
            Recorded(index=2, head=GENESIS, position=0),
            Recorded(index=3, head=won.head, position=0),
        ):
            assert_raises(Conflict, _record, second, "r1", wrong, STEP)
        assert memory.ledger.verify().length == length
        assert memory.at(_scope("r1")).value("runs.lost") is None
        assert _record(second, "r1", won, STEP).index == 3

    def test_the_record_of_a_run_says_where_its_chain_ends(self, memory: Memory) -> None:
        done = _finish(memory, "r1")
        record = memory.runs.get("r1")
        assert (record.status, record.program, record.events, record.head) == ("completed", "kiln", 4, done.head)
        assert [fact.key for fact in done.facts] == [RUN_RECORD]
        found = memory.runs.verify("r1")
        assert (found.ok, found.length, found.head, found.index) == (True, 4, done.head, None)
        assert _record(memory, "r1", done).head == done.head  # nothing said, nothing chained

    def test_a_record_is_kept_with_the_events_or_not_at_all(self, memory: Memory) -> None:
        head = _begin(memory, "r1")
        refused = SetFact(scope=_scope("r1"), key="runs.begun", payload=msgspec.Raw(b"1"), expect=7)
        assert_raises(Conflict, _record, memory, "r1", head, STEP, writes=(_own("r1", "runs.part", 1), refused))
        assert len(memory.runs.events("r1")) == 1 and memory.at(_scope("r1")).get("runs.part") is None
        _record(memory, "r1", head, STEP, writes=(_own("r1", "runs.part", 1),))
        assert len(memory.runs.events("r1")) == 2 and memory.at(_scope("r1")).value("runs.part") == 1

    def test_runs_are_listed_newest_first(self, memory: Memory, clock: FakeClock) -> None:
        _finish(memory, "r1")
        clock.advance(5)
        _finish(memory, "r2", machine="lathe")
        clock.advance(5)
        _begin(memory, "r3")
        runs = memory.runs
        assert [run.id for run in runs.list()] == ["r3", "r2", "r1"]
        assert [run.id for run in runs.list(limit=1)] == ["r3"]
        assert [run.id for run in runs.list(program="kiln")] == ["r3", "r1"]
        assert [run.id for run in runs.list(status="completed")] == ["r2", "r1"]
        assert [run.id for run in runs.list(program="lathe", status="running")] == []

    def test_runs_are_found_by_whose_they_are_and_page_by_page(self, memory: Memory, clock: FakeClock) -> None:
        for run, owner in (("r1", "ada"), ("r2", "ad"), ("r3", "ada"), ("r4", None), ("r5", "ada")):
            _begin(memory, run, owner=owner)
            clock.advance(5)
        memory.perform(StartSession(scope=Scope.of(session="s1"), owner=Scope.of(user="ada")))
        runs, ada = memory.runs, Scope.of(user="ada")
        mine = runs.list(owner=ada)
        assert [run.id for run in mine] == ["r5", "r3", "r1"]
        assert [run.id for run in runs.list()] == ["r5", "r4", "r3", "r2", "r1"]
        assert runs.list(owner=ada, limit=1) == mine[:1]
        for last in mine:
            behind = mine[mine.index(last) + 1 :]
            assert runs.list(owner=ada, after=(last.started_at, last.id)) == behind
        assert runs.list(owner=Scope.of(user="a")) == []
        assert runs.list(owner=ada, status="completed") == []
        guest = memory.acting_as("user:ada", policy=Policy(rules=(Rule("allow", "runs.read", ada),)))
        assert guest.runs.list(owner=ada) == mine
        for others in (None, Scope.of(user="ad")):
            assert_raises(Denied, guest.runs.list, owner=others)

    def test_no_owner_leads_to_the_runs_of_another_tenant(self, memory: Memory) -> None:
        other, theirs = memory.in_tenant("other"), Scope.of(tenant="other", user="ada")
        place = Scope.of(tenant="other", run="r1")
        record = msgspec.structs.replace(_summary(memory, "r1", "running"), scope=place)
        begin = RecordRun(scope=place, run="r1", index=0, previous=GENESIS, notes=(START,), writes=(record,))
        other.perform(msgspec.structs.replace(begin, owner=theirs))
        assert [run.id for run in other.runs.list(owner=theirs)] == ["r1"]
        guest = memory.acting_as("guest", policy=Policy.of(allow=("runs.read",)))
        assert memory.runs.list(owner=theirs) == guest.runs.list(owner=theirs) == []

    def test_an_unknown_run_is_not_found(self, memory: Memory) -> None:
        _finish(memory, "r1")
        assert memory.runs.get("r1").id == "r1"
        for unknown in ("r2", "", "\0", "r" * 300, " "):
            for ask in (memory.runs.get, memory.runs.events, memory.runs.verify):
                assert_raises(NotFound, ask, unknown)
        with pytest.raises(UsageError, match="status"):
            memory.runs.list(status="lost")  # pyright: ignore[reportArgumentType]: what a caller without types may do

    def test_a_run_is_recorded_in_its_own_scope_alone(self, memory: Memory) -> None:
        for scope, run in ((Scope.of(user="ada"), "r1"), (_scope("r2"), "r1"), (_scope("a/b"), "a%2Fb")):
            with pytest.raises(UsageError, match="recorded in"):
                memory.perform(RecordRun(scope=scope, run=run, index=0, previous=GENESIS, notes=(START,)))
        for run in ("r1", "a/b", "a%2Fb"):
            assert _record(memory, run, NOWHERE, START).index == 1
            assert [event.run for event in memory.runs.events(run)] == [run]
        with pytest.raises(UsageError, match="record of a run"):
            _record(memory, "r4", NOWHERE, START, writes=(_own("r4", RUN_RECORD, ["running"]),))

    def test_permission_to_run_machines_covers_their_records_and_nothing_else(self, memory: Memory) -> None:
        machine = memory.acting_as("machine:kiln", policy=Policy.of(allow=("runs.write",)))
        head = _record(machine, "r1", NOWHERE, START, writes=(_own("r1", "runs.begun", 1),))
        outside = SetFact(scope=Scope.of(user="ada"), key="runs.begun", payload=msgspec.Raw(b"1"))
        for write in (_own("r1", "notes", 1), _own("r2", "runs.begun", 1), outside):
            with pytest.raises(Denied) as denied:
                _record(machine, "r1", head, STEP, writes=(write,))
            assert denied.value.capability == "memory.write"
        with pytest.raises(Denied, match=r"runs\.read"):
            machine.runs.events("r1")
        reader = memory.acting_as("clerk", policy=Policy.of(allow=("runs.read",)))
        assert len(reader.runs.events("r1")) == 1
        with pytest.raises(Denied, match=r"runs\.write"):
            _record(reader, "r1", head, STEP)
        writer = memory.acting_as("machine:lathe", policy=Policy.of(allow=("runs.write", "memory.write")))
        assert _record(writer, "r1", head, STEP, writes=(outside,)).index == 2

    def test_the_record_of_a_run_cannot_be_written_as_a_fact(self, memory: Memory) -> None:
        _finish(memory, "r1")
        place = memory.at(_scope("r1"))
        for key in (RUN_RECORD, "runs", "runs.journal.1"):
            with pytest.raises(InvalidKey, match="only runs can write it"):
                place.set(key, {})
        with pytest.raises(InvalidKey, match="only runs can write it"):
            place.delete(RUN_RECORD)
        memory.scope(user="ada").set(RUN_RECORD, present(place.get(RUN_RECORD)).value)
        memory.scope(user="ada", run="r2").set(RUN_RECORD, {"status": "running"})
        assert [one.id for one in memory.runs.list()] == ["r1"]
        assert place.set("mashing", 1).version == 1
        assert present(place.get(RUN_RECORD)).value["status"] == memory.runs.get("r1").status == "completed"

    def test_recording_does_not_wait_for_an_approval(self, memory: Memory) -> None:
        careful = memory.acting_as("machine:kiln", policy=Policy.of(approve=("runs.write",)))
        with pytest.raises(Denied, match="needs approval"):
            _record(careful, "r1", NOWHERE, START)
        assert memory.approvals.list() == []
        with pytest.raises(ApprovalRequired):
            careful.perform(HoldStep(scope=_scope("r1"), run="r1", step="fire", needs="http"))
        assert len(memory.approvals.list()) == 1

    def test_only_what_a_run_writes_counts_against_a_quota(self, memory: Memory) -> None:
        policy = Policy.of(allow=("*",), quota=Quota(writes=2, per="1h"))
        machine = memory.acting_as("machine:kiln", policy=policy)
        head = _record(machine, "r1", NOWHERE, START, writes=(_own("r1", "runs.a", 1), _own("r1", "runs.b", 1)))
        for _ in range(5):
            head = _record(machine, "r1", head, STEP, STEP)
        elsewhere = SetFact(scope=Scope.of(user="ada"), key="cone", payload=msgspec.Raw(b"6"))
        with pytest.raises(QuotaExceeded, match="2 writes"):
            _record(machine, "r1", head, STEP, writes=(elsewhere,))
        assert len(memory.runs.events("r1")) == 11
        # What it says about itself is counted, but not refused: it could not come to an end.
        _record(machine, "r1", head, STEP, writes=(_own("r1", "runs.c", 1),))
        assert len(memory.runs.events("r1")) == 12
        with pytest.raises(QuotaExceeded, match="has used 3"):
            _record(machine, "r2", NOWHERE, START, writes=(_own("r2", "runs.a", 1),))

    def test_a_waiting_step_is_decided_by_another_actor(self, memory: Memory) -> None:
        _begin(memory, "r1")
        approval = _pause(memory, "r1")
        assert (approval.status, approval.capability, approval.actor) == ("pending", "http", "machine:kiln")
        assert [one.id for one in memory.approvals.list()] == [approval.id]
        asked = memory.ledger.tail(1)[0]
        assert (asked.effect, asked.decision, asked.resource) == ("hold_step", "pending", approval.id)
        assert asked.detail == {"capability": "http", "run": "r1", "step": "fire"}
        asker = memory.acting_as("machine:kiln", policy=Policy.of(allow=("*",)))
        with pytest.raises(Denied, match="cannot decide"):
            asker.approvals.approve(approval.id)
        decided = memory.approvals.approve(approval.id, reason="it is a weekday")
        assert decided.approval.status == "approved"
        assert (decided.result.run, decided.result.step, decided.result.about) == ("r1", "fire", {"to": 1200})
        gone_on = memory.ledger.tail(1)[0]
        assert (gone_on.effect, gone_on.decision, gone_on.actor) == ("hold_step", "approved", "machine:kiln")
        assert len(memory.runs.events("r1")) == 1  # what it means for the run is for the run to say

    def test_a_step_that_is_refused_stays_where_it_is(self, memory: Memory) -> None:
        _begin(memory, "r1")
        approval = _pause(memory, "r1")
        assert memory.approvals.refuse(approval.id, reason="too hot").result is None
        assert memory.approvals.get(approval.id).status == "refused"
        assert [event.effect for event in memory.ledger.tail(2)] == ["hold_step", "decide"]
        assert_raises(Conflict, memory.approvals.approve, approval.id)

    def test_readers_of_runs_see_decisions_about_steps_and_no_other_approval(self, memory: Memory) -> None:
        _begin(memory, "r1")
        _begin(memory, "r2")
        approval, other = _pause(memory, "r1"), _pause(memory, "r2")
        viewer = memory.acting_as("viewer", policy=Policy.of(allow=("runs.read",)))
        assert viewer.runs.decision("r1", approval.id).status == "pending"
        memory.approvals.approve(approval.id)
        memory.approvals.refuse(other.id, reason="too hot")
        assert viewer.runs.decision("r1", approval.id).status == "approved"
        assert viewer.runs.decision("r2", other.id).reason == "too hot"
        for run, named in (("r1", other.id), ("r1", "approval_none"), ("r3", approval.id), ("r1", "\0")):
            assert_raises(NotFound, viewer.runs.decision, run, named)
        assert_raises(Denied, viewer.approvals.list)
        assert_raises(Denied, memory.acting_as("stranger", policy=Policy.of()).runs.decision, "r1", approval.id)

    def test_a_step_that_no_actor_may_decide_is_not_held(self, memory: Memory) -> None:
        _begin(memory, "r1")
        for step, needs in (("", "http"), ("fire", ""), ("fire", "\0")):
            assert_raises(UsageError, memory.perform, HoldStep(scope=_scope("r1"), run="r1", step=step, needs=needs))
        with pytest.raises(UsageError, match="recorded in"):
            memory.perform(HoldStep(scope=Scope.of(user="ada"), run="r1", step="fire", needs="http"))
        assert memory.approvals.list() == []
        assert _pause(memory, "r1").status == "pending"

    def test_a_run_that_was_ended_cannot_be_gone_on_with(self, memory: Memory) -> None:
        head = _record(memory, "r1", _begin(memory, "r1"), STEP)
        memory.perform(EndScope(scope=_scope("r1")))
        assert_raises(ScopeEnded, _record, memory, "r1", head, STEP)
        assert_raises(ScopeEnded, _pause, memory, "r1")
        assert len(memory.runs.events("r1")) == 2 and memory.runs.verify("r1").ok
        assert_raises(NotFound, memory.runs.get, "r1")

    def test_a_run_takes_with_it_what_its_owner_remembered_for_it_alone(self, memory: Memory) -> None:
        machine = memory.acting_as("machine:kiln", policy=Policy.of(allow=("runs.write",)))
        head = _begin(memory, "r1")
        own, beside = Scope.of(user="ada", run="r1"), Scope.of(user="ada", run="r2")
        for place in (own, beside, Scope.of(user="ada"), Scope.of(user="bob", run="r1")):
            memory.at(place).set("glaze", "celadon")
            if place != own:
                assert_raises(UsageError, _record, machine, "r1", head, END, ends=place)
        assert memory.at(own).value("glaze") == "celadon", "nothing is ended by a record that is refused"
        _record(machine, "r1", head, END, writes=(_summary(memory, "r1", "completed"),), ends=own)
        assert memory.at(own).history("glaze") == []
        assert_raises(ScopeEnded, memory.at(own).set, "glaze", "tenmoku")
        assert memory.at(beside).value("glaze") == memory.scope(user="ada").value("glaze") == "celadon"
        assert [(one.effect, one.actor) for one in memory.ledger.events()][-1] == ("end_scope", "machine:kiln")
        assert memory.ledger.verify().ok and all(finding.ok for finding in memory.inspect())

    def test_erasing_a_user_takes_the_runs_that_belong_to_them(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        keeping = open_beside(keep_text=True)
        said = RunNote(kind="step_record", payload=b'{"heard":"a secret"}')
        for run, owner in (("r1", "ada"), ("r2", "bob")):
            _record(keeping, run, _begin(keeping, run, owner=owner), said)
            _pause(keeping, run)
        before = memory.runs.events("r1")

        def texts() -> list[tuple[str, Any]]:
            return [(one.scope, one.text) for one in memory.ledger.events() if one.effect == "step_record"]

        assert texts() == [("run:r1", {"heard": "a secret"}), ("run:r2", {"heard": "a secret"})]
        memory.erase(user="ada")
        assert texts() == [("run:r1", None), ("run:r2", {"heard": "a secret"})]
        assert [run.id for run in memory.runs.list()] == ["r2"]
        assert list(memory.at(_scope("r1")).list()) == []
        assert [one.scope for one in memory.approvals.list()] == ["run:r2"]
        assert memory.runs.events("r1") == before and memory.runs.verify("r1").ok
        assert all(finding.ok for finding in memory.inspect())

    def test_a_run_whose_owner_was_erased_meanwhile_keeps_nothing_more(self, memory: Memory) -> None:
        mine, theirs = _begin(memory, "r1", owner="ada"), _begin(memory, "r2", owner="bob")
        said = RunNote(kind="step_record", payload=b'"a secret"')
        mine = _record(memory, "r1", mine, said)
        memory.erase(user="ada")
        with pytest.raises(ScopeEnded, match="erased"):
            _record(memory, "r1", mine, said, writes=(_own("r1", "runs.journal", "a secret"),))
        with pytest.raises(ScopeEnded, match="erased"):
            _pause(memory, "r1")
        assert memory.at(_scope("r1")).get("runs.journal") is None
        assert _record(memory, "r2", theirs, said).index == 2

    def test_the_record_of_a_run_ends_with_its_time_to_live(self, memory: Memory, clock: FakeClock) -> None:
        head = _begin(memory, "r1")
        short = msgspec.structs.replace(_summary(memory, "r1", "completed"), ttl=60)
        _record(memory, "r1", head, END, writes=(short,))
        assert [run.status for run in memory.runs.list()] == ["completed"]
        clock.advance(61)
        assert memory.runs.list() == []
        assert_raises(NotFound, memory.runs.get, "r1")
        assert memory.runs.verify("r1").ok and len(memory.runs.events("r1")) == 2
        memory.sweep()
        assert all(finding.ok for finding in memory.inspect())

    def test_step_records_are_read_in_order_and_from_a_number_on(self, memory: Memory) -> None:
        step = {"type": "x", "status": "completed", "started_at": "2030-01-01T00:00:00Z", "seconds": 0.5}
        head = NOWHERE
        for numbers in ((1, 2, 3), (7, 9), (12,)):
            part = encode([{"number": one, "step": f"s{one}", **step} for one in numbers])
            write = SetFact(scope=_scope("r1"), key=step_key(numbers[-1]), payload=msgspec.Raw(part))
            begun = (START,) if head is NOWHERE else (STEP,)
            writes = (write, _summary(memory, "r1", "running"))
            head = _record(memory, "r1", head, *begun, writes=writes)
        assert [one.number for one in memory.runs.steps("r1")] == [1, 2, 3, 7, 9, 12]
        assert [one.step for one in memory.runs.steps("r1", after=2, limit=3)] == ["s3", "s7", "s9"]
        assert [one.number for one in memory.runs.steps("r1", after=9)] == [12]
        assert memory.runs.steps("r1", after=12) == []
        assert len(memory.runs.steps("r1", max_bytes=1)) == 2
        assert memory.runs.verify("r1").ok and all(finding.ok for finding in memory.inspect())

    def test_a_sweep_leaves_nothing_of_a_run_whose_time_is_over(self, memory: Memory, clock: FakeClock) -> None:
        head = _begin(memory, "r1")
        left = SetFact(scope=_scope("r1"), key="runs.journal.000000", payload=msgspec.Raw(b"[1]"))
        summary = msgspec.structs.replace(_summary(memory, "r1", "completed"), ttl=60)
        _record(memory, "r1", head, END, writes=(left, summary))
        _finish(memory, "r2")
        clock.advance(61)
        swept = memory.sweep()
        assert (swept.runs, len(memory.runs.list())) == (1, 1)
        assert memory.scope(run="r1").list(internal=True) == []
        assert memory.runs.verify("r1").ok and len(memory.runs.events("r1")) == 2
        assert memory.sweep().runs == 0
        assert all(finding.ok for finding in memory.inspect())

    def test_sessions_that_were_not_used_for_long_are_ended(self, memory: Memory, clock: FakeClock) -> None:
        for id in ("a", "b", "c"):
            scope = Scope.of(session=id)
            memory.perform(StartSession(scope=scope, owner=Scope.of(user="ada")))
            memory.perform(SetFact(scope=scope, key=SESSION_RECORD, payload=msgspec.Raw(encode({"vars": {}}))))
            clock.advance(100)
        before, after = clock.now() - timedelta(seconds=150), None
        ended = 0
        while True:
            effect = EndIdleSessions(scope=Scope("default"), before=before, after=after, limit=1)
            found: IdleSessions = memory.perform(effect)
            ended, after = ended + found.ended, found.after
            if after is None:
                break
        assert ended == 2
        kept = [id for id in ("a", "b", "c") if memory.scope(session=id).list(internal=True)]
        assert kept == ["c"]
        assert all(finding.ok for finding in memory.inspect())

    def test_a_chain_and_a_record_that_disagree_are_found(self, memory: Memory) -> None:
        head = _begin(memory, "r1")
        assert memory.runs.verify("r1").ok
        head = _record(memory, "r1", head, writes=(_summary(memory, "r1", "failed"),))
        unended = memory.runs.verify("r1")
        assert (unended.ok, unended.index) == (False, 2) and "exec_end" in unended.reason
        head = _record(memory, "r1", head, END)
        uncounted = memory.runs.verify("r1")
        assert (uncounted.ok, uncounted.index) == (False, 2) and "since" in uncounted.reason
        head = _record(memory, "r1", head, writes=(_summary(memory, "r1", "running"),))
        ended = memory.runs.verify("r1")
        assert (ended.ok, ended.index) == (False, 2) and "running" in ended.reason
        head = _record(memory, "r1", head, writes=(_summary(memory, "r1", "failed"),))
        assert memory.runs.verify("r1").ok
        _record(memory, "r1", head, STEP, writes=(_summary(memory, "r1", "failed"),))
        after = memory.runs.verify("r1")
        assert (after.ok, after.index) == (False, 3) and "after the end" in after.reason
        broken = [finding for finding in memory.inspect() if not finding.ok]
        assert [finding.what for finding in broken] == ["runs of default agree with the ledger"]

    def test_a_run_begins_once(self, memory: Memory) -> None:
        head = _record(memory, "r1", NOWHERE, STEP)
        found = memory.runs.verify("r1")
        assert (found.ok, found.index) == (False, 1)
        head = _record(memory, "r2", NOWHERE, START)
        assert memory.runs.verify("r2").ok
        _record(memory, "r2", head, START)
        found = memory.runs.verify("r2")
        assert (found.ok, found.index) == (False, 2)

    def test_a_run_that_was_exported_is_not_imported(self, memory: Memory, elsewhere: Memory, tmp_path: Path) -> None:
        done = _finish(memory, "r1")
        memory.scope(user="ada").set("name", "Ada")
        memory.export(tmp_path / "all.jsonl")
        imported = elsewhere.import_file(tmp_path / "all.jsonl")
        assert imported.written == 1 and elsewhere.scope(user="ada").value("name") == "Ada"
        assert ("run:r1", "runs.run") in [(one.scope, one.key) for one in imported.refusals]
        assert imported.refused == len(imported.refusals)
        assert elsewhere.runs.list() == [] and len(memory.runs.list()) == 1
        assert all(finding.ok for finding in elsewhere.inspect())
        assert_raises(Conflict, _record, elsewhere, "r1", done, STEP)

    @requires(Capability.RESTART)
    def test_a_run_goes_on_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        head = _begin(memory, "r1")
        approval = _pause(memory, "r1")
        events = memory.runs.events("r1")
        again = reopen()
        assert again.runs.events("r1") == events
        assert again.approvals.get(approval.id) == approval
        assert again.approvals.approve(approval.id).result.run == "r1"
        head = _record(again, "r1", head, STEP)
        _record(again, "r1", head, END, writes=(_summary(again, "r1", "completed"),))
        assert again.runs.verify("r1").ok and again.runs.events("r1")[1].prev_hash == events[0].hash
