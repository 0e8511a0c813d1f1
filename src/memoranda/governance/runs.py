"""Runs of programs in the ledger: notes in, a chain of the run's own inside the tenant's chain out.

Each event of a run is one event of the tenant's ledger. It names the run, its number in it, and the hash of the run's
event before it, so a run can be shown and verified by itself. Who goes on with a run says where it stood: of two who
go on from the same event one gets a Conflict, and nothing of it is kept.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import msgspec

from memoranda.engine.call import Call, Outcome, Verb
from memoranda.engine.facts import write_facts
from memoranda.engine.portions import take_within
from memoranda.engine.sessions import end_scope, start_session
from memoranda.errors import Conflict, NotFound, ScopeEnded, UsageError
from memoranda.governance.approvals import find_approval
from memoranda.governance.ledger import LedgerEnd, Signature
from memoranda.governance.run_records import can_be_a_run, record_of, records_of_runs, scope_of, summary_of
from memoranda.governance.verifying_runs import LEDGER_POSITION, ensure_verified, verify_run
from memoranda.model.approval import Approval
from memoranda.model.effect import (
    EffectBase,
    EndScope,
    HoldStep,
    ReadDecision,
    ReadKeptRun,
    ReadRunEvents,
    ReadRuns,
    RecordRun,
    SetFact,
    StartSession,
    VerifyRun,
    WriteFacts,
)
from memoranda.model.event import GENESIS, Event, Note
from memoranda.model.fact import Fact
from memoranda.model.key import RUN_RECORD
from memoranda.model.run import Recorded, RunEvent, RunNote, RunSummary, RunVerification
from memoranda.model.scope import Scope
from memoranda.model.text import quote, require_label
from memoranda.model.value import decode, encode
from memoranda.store.base import Reader, Transaction


def record_run(rows: Transaction, effect: RecordRun, call: Call, signature: Signature) -> Recorded:
    """Chain a run's notes to its newest event and write its record, if that event is where the caller goes on from."""
    _ensure_goes_on(rows, effect.scope, effect.run)
    index, head = rows.run_head(effect.scope.tenant, effect.run) or (0, GENESIS)
    if index != effect.index or head != effect.previous:
        raise Conflict(
            f"run `{effect.run}` stands at event {index}, and this does not go on from there",
            hint="Somebody else goes on with this run: read it again",
            expected=effect.index,
            actual=index,
        )
    end = LedgerEnd(rows, signature)
    if index == 0:
        for note in start_session(rows, StartSession(scope=effect.scope, owner=effect.owner), call).notes:
            end.chain(note)
    for note in effect.notes:
        index += 1
        head = end.chain(_placed(note, effect, index, head))
    facts: tuple[Fact, ...] = ()
    if effect.writes:
        position = end.position + 1
        stamped = tuple(_stamped(write, index, head, position) for write in effect.writes)
        written = write_facts(rows, WriteFacts(scope=effect.scope, writes=stamped), call)
        facts = tuple(fact for fact in written.value if isinstance(fact, Fact))
        for note in written.notes:
            end.chain(note)
    if effect.ends is not None:
        _ensure_own(rows, effect.scope, effect.ends)
        for note in end_scope(rows, EndScope(scope=effect.ends), call).notes:
            end.chain(note)
    return Recorded(index=index, head=head, position=end.keep(), facts=facts)


def ensure_holdable(rows: Reader, effect: HoldStep) -> None:
    """Refuse to hold a step whose run is over, or one that nobody could decide about."""
    require_label("step", effect.step)
    require_label("capability", effect.needs)
    _ensure_goes_on(rows, effect.scope, effect.run)


def go_on(rows: Transaction, effect: HoldStep, call: Call) -> Outcome[HoldStep]:
    """Return the step that was approved: its run may go on, whoever runs it."""
    detail = {"capability": effect.needs, "step": effect.step}
    return Outcome(effect, (Note(effect=effect.name, scope=effect.scope.path, resource=effect.run, detail=detail),))


def _ensure_goes_on(rows: Reader, scope: Scope, run: str) -> None:
    if "%" in run or scope.path != f"run:{run}":  # most ids need no escape, and this is asked for every step
        own = scope_of(scope.tenant, run)
        if scope != own:
            raise UsageError(f"run {quote(run)} is recorded in `{own}`, not in `{scope}`", hint="Name its own scope")
    session = rows.session(scope)
    if session is None:
        if rows.erasure(scope) is not None:
            raise ScopeEnded(f"run `{run}` was erased, and nothing more is kept of it", hint="Start another run")
    elif session.ended_at is not None:
        raise ScopeEnded(f"`{scope}` has ended", hint="Start another run", ended_at=session.ended_at)


def _ensure_own(rows: Reader, scope: Scope, ends: Scope) -> None:
    """Refuse to end what does not belong to the owner of this run and to the run."""
    session = rows.session(scope)
    owner = None if session is None else session.owner
    if owner is None or ends != Scope(owner.tenant, f"{owner.path}/{scope.path}"):
        raise UsageError(
            f"`{ends}` does not belong to the owner of `{scope}` and to that run",
            hint="A run ends what its owner was to remember for it alone, and nothing else",
        )


def _placed(note: RunNote, effect: RecordRun, index: int, previous: str) -> Note:
    detail = {**note.detail, "previous": previous}
    if note.step is not None:
        detail["step"] = note.step
    return Note(
        effect=note.kind,
        scope=effect.scope.path,
        resource=effect.run,
        version=index,
        payload=note.payload,
        detail=detail,
        decision=note.decision,
    )


def _stamped(write: SetFact, index: int, head: str, position: int) -> SetFact:
    """Return a write as it is; that of the run's record with the end of its chain, which its writer cannot know.

    The record also says from which position on the ledger tells of these writes: who resumes the run compares them.
    """
    if write.key != RUN_RECORD:
        return write
    record: Any = decode(bytes(write.payload))
    if not isinstance(record, dict):
        raise UsageError(f"{quote(record)} cannot be the record of a run", hint="Write a RunSummary")
    stamped = {**cast("dict[str, Any]", record), "events": index, "head": head, LEDGER_POSITION: position}
    return msgspec.structs.replace(write, payload=msgspec.Raw(encode(stamped)))


def read_runs(rows: Reader, effect: ReadRuns, call: Call) -> Outcome[list[RunSummary]]:
    """Return where runs stand, those that started last first."""
    tenant = effect.scope.tenant
    if effect.run is None:
        found = [summary_of(fact) for fact in records_of_runs(rows, tenant, call.now, effect.owner)]
    else:
        record = record_of(rows, tenant, effect.run, call.now)
        found = [] if record is None else [summary_of(record)]
    found = [run for run in found if _is_asked_for(run, effect)]
    found.sort(key=_start, reverse=True)
    return Outcome(found[: effect.limit])


def _is_asked_for(run: RunSummary, effect: ReadRuns) -> bool:
    asked = ((effect.program, run.program), (effect.language, run.language), (effect.status, run.status))
    seen = effect.after is not None and _start(run) >= effect.after
    return not seen and all(wanted in (None, found) for wanted, found in asked)


def _start(run: RunSummary) -> tuple[datetime, str]:
    return run.started_at, run.id


def read_run_events(rows: Reader, effect: ReadRunEvents, call: Call) -> Outcome[list[RunEvent]]:
    """Return the events of a run, in order."""
    if not can_be_a_run(effect.run):
        return Outcome([])
    events = rows.events(effect.scope.tenant, start=effect.after + 1, limit=effect.limit, run=effect.run)
    return Outcome(take_within(map(_run_event, events), lambda event: event.detail, effect.max_bytes))


def read_kept_run(rows: Reader, effect: ReadKeptRun, call: Call) -> Outcome[list[Fact]]:
    """Return the facts that a run is kept as, if it belongs to whom the caller says."""
    tenant = effect.scope.tenant
    record = record_of(rows, tenant, effect.run, call.now)
    if record is None or summary_of(record).scope != effect.owner.path:
        return Outcome([])
    facts = list(rows.facts(scope_of(tenant, effect.run), now=call.now, prefix="runs"))
    if effect.verified:
        ensure_verified(rows, record, facts, call.now)
    return Outcome(facts)


def read_decision(rows: Reader, effect: ReadDecision, call: Call) -> Outcome[Approval]:
    """Return the approval that a step of a run waits for, decided or not; those of others are none of its business."""
    approval = find_approval(rows, effect.scope.tenant, effect.approval)
    if approval is None or approval.scope != scope_of(effect.scope.tenant, effect.run).path:
        raise NotFound(
            f"the run {quote(effect.run)} waits for no approval {quote(effect.approval)}",
            hint="It may have been erased with whom the run belongs to",
        )
    return Outcome(approval)


def verify(rows: Reader, effect: VerifyRun, call: Call) -> Outcome[RunVerification]:
    """Return whether the chain of a run is whole."""
    return Outcome(verify_run(rows, effect.scope.tenant, effect.run, call.now))


RUNS: dict[type[EffectBase], Verb] = {
    HoldStep: go_on,
    ReadRuns: read_runs,
    ReadRunEvents: read_run_events,
    ReadDecision: read_decision,
    ReadKeptRun: read_kept_run,
    VerifyRun: verify,
}


def _run_event(event: Event) -> RunEvent:
    detail = dict(event.detail)
    return RunEvent(
        run=event.resource or "",
        index=event.version or 0,
        position=event.position,
        at=event.at,
        actor=event.actor,
        kind=cast("Any", event.effect),
        step=detail.pop("step", None),
        decision=event.decision,
        content=event.content,
        prev_hash=detail.pop("previous", ""),
        detail=detail,
        hash=event.hash,
    )
