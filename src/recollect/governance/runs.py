"""Runs of programs in the ledger: notes in, a chain of the run's own inside the tenant's chain out.

Each event of a run is one event of the tenant's ledger. It names the run, its number in it, and the hash of the run's
event before it, so a run can be shown and verified by itself. Who goes on with a run says where it stood: of two who
go on from the same event one gets a Conflict, and nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

import msgspec

from recollect.engine.call import Call, Outcome, Verb
from recollect.engine.facts import write_facts
from recollect.engine.sessions import start_session
from recollect.errors import Conflict, Corrupt, NotFound, ScopeEnded, UsageError
from recollect.governance.approvals import find_approval
from recollect.governance.ledger import LedgerEnd, Signature
from recollect.model.approval import Approval
from recollect.model.effect import (
    EffectBase,
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
from recollect.model.event import GENESIS, Event, Note, hash_body
from recollect.model.fact import Fact
from recollect.model.key import RUN_RECORD
from recollect.model.run import OVER, RUN_EVENTS, Recorded, RunEvent, RunNote, RunSummary, RunVerification
from recollect.model.scope import LONGEST_ID, Scope
from recollect.model.text import quote, require_label, why_not_a_name
from recollect.model.value import decode, encode
from recollect.store.base import Reader, Transaction

# going on with a run


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
        stamped = tuple(_stamped(write, index, head) for write in effect.writes)
        written = write_facts(rows, WriteFacts(scope=effect.scope, writes=stamped), call)
        facts = tuple(fact for fact in written.value if isinstance(fact, Fact))
        for note in written.notes:
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
        own = _scope_of(scope.tenant, run)
        if scope != own:
            raise UsageError(f"run {quote(run)} is recorded in `{own}`, not in `{scope}`", hint="Name its own scope")
    session = rows.session(scope)
    if session is None:
        if rows.erasure(scope) is not None:
            raise ScopeEnded(f"run `{run}` was erased, and nothing more is kept of it", hint="Start another run")
    elif session.ended_at is not None:
        raise ScopeEnded(f"`{scope}` ended at {session.ended_at}", hint="Start another run")


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


def _stamped(write: SetFact, index: int, head: str) -> SetFact:
    """Return a write as it is; that of the run's record with the end of its chain, which its writer cannot know."""
    if write.key != RUN_RECORD:
        return write
    record = decode(bytes(write.payload))
    if not isinstance(record, dict):
        raise UsageError(f"{quote(record)} cannot be the record of a run", hint="Write a RunSummary")
    return msgspec.structs.replace(write, payload=msgspec.Raw(encode({**record, "events": index, "head": head})))


# looking at runs


def read_runs(rows: Reader, effect: ReadRuns, call: Call) -> Outcome[list[RunSummary]]:
    """Return where runs stand, those that started last first."""
    tenant = effect.scope.tenant
    if effect.run is None:
        found = [_summary(fact) for fact in _records(rows, tenant, call.now, effect.owner)]
    else:
        record = _record_of(rows, tenant, effect.run, call.now)
        found = [] if record is None else [_summary(record)]
    found = [run for run in found if _is_asked_for(run, effect)]
    found.sort(key=_start, reverse=True)
    return Outcome(found[: effect.limit])


def _is_asked_for(run: RunSummary, effect: ReadRuns) -> bool:
    asked = ((effect.program, run.program), (effect.language, run.language), (effect.status, run.status))
    seen = effect.after is not None and _start(run) >= effect.after
    return not seen and all(wanted in (None, found) for wanted, found in asked)


def _start(run: RunSummary) -> tuple[datetime, str]:
    return run.started_at, run.id


def broken_runs(rows: Reader, tenant: str, now: datetime) -> Iterator[str]:
    """Yield, in words, which runs of a tenant are not whole."""
    for fact in _records(rows, tenant, now):
        if not _imported(fact):
            found = verify_run(rows, tenant, _run_id(fact), now)
            if not found.ok:
                yield f"run `{_run_id(fact)}` at event {found.index}: {found.reason}"


def read_run_events(rows: Reader, effect: ReadRunEvents, call: Call) -> Outcome[list[RunEvent]]:
    """Return the events of a run, in order."""
    if not _can_be_a_run(effect.run):
        return Outcome([])
    return Outcome([_run_event(event) for event in rows.events(effect.scope.tenant, run=effect.run)])


def read_kept_run(rows: Reader, effect: ReadKeptRun, call: Call) -> Outcome[list[Fact]]:
    """Return the facts that a run is kept as, if it belongs to whom the caller says."""
    tenant = effect.scope.tenant
    record = _record_of(rows, tenant, effect.run, call.now)
    if record is None or _summary(record).scope != effect.owner.path:
        return Outcome([])
    return Outcome(list(rows.facts(_scope_of(tenant, effect.run), now=call.now, prefix="runs")))


def read_decision(rows: Reader, effect: ReadDecision, call: Call) -> Outcome[Approval]:
    """Return the approval that a step of a run waits for, decided or not; those of others are none of its business."""
    approval = find_approval(rows, effect.scope.tenant, effect.approval)
    if approval is None or approval.scope != _scope_of(effect.scope.tenant, effect.run).path:
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


def _scope_of(tenant: str, run: str) -> Scope:
    return Scope.of(tenant=tenant, run=run)


def _can_be_a_run(run: str) -> bool:
    return why_not_a_name(run, longest=LONGEST_ID) is None


def _records(rows: Reader, tenant: str, now: datetime, owner: Scope | None = None) -> list[Fact]:
    facts = rows.facts_named(tenant, RUN_RECORD) if owner is None else rows.facts_owned(owner, RUN_RECORD)
    return [fact for fact in facts if fact.active_at(now) and fact.scope.shape == ("run",)]


def _run_id(record: Fact) -> str:
    return record.scope.parts[-1][1]


def _record_of(rows: Reader, tenant: str, run: str, now: datetime) -> Fact | None:
    fact = rows.fact(_scope_of(tenant, run), RUN_RECORD) if _can_be_a_run(run) else None
    return fact if fact is not None and fact.active_at(now) else None


def _imported(record: Fact) -> bool:
    """Say whether a run came with a file: its events stand in the ledger of the memory that it was exported from."""
    return (record.origin.source or "").startswith("import:")


def _summary(fact: Fact) -> RunSummary:
    id = _run_id(fact)
    try:
        return msgspec.convert({**fact.value, "id": id}, RunSummary)
    except (TypeError, msgspec.ValidationError) as error:
        raise Corrupt(
            f"the record of run `{id}` cannot be read: {error}", hint="The history of its scope holds older ones"
        ) from error


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


# verifying one run


class _Said(msgspec.Struct, frozen=True, gc=False):
    previous: str = ""


class _Link(msgspec.Struct, frozen=True, gc=False):
    """What the bytes of an event say about its place; all the rest they say is in their hash."""

    tenant: str
    position: int
    effect: str
    resource: str | None
    version: int | None
    detail: _Said


_decode_link = msgspec.json.Decoder(_Link).decode


class _Walked(msgspec.Struct):
    """How far a walk along a run's chain has come."""

    length: int = 0
    head: str = GENESIS
    kind: str = ""

    def found(self, index: int | None, reason: str) -> RunVerification:
        return RunVerification(ok=not reason, length=self.length, head=self.head, index=index, reason=reason)


def verify_run(rows: Reader, tenant: str, run: str, now: datetime) -> RunVerification:
    """Walk the chain of a run, compare its end with the run's record, and return the first bad index and why.

    Only the run's own events are looked at. Whether they still stand in the tenant's chain is for `verify` in
    `ledger.py` to say.
    """
    walked = _Walked()
    for position, hash, body in rows.bodies(tenant, run=run) if _can_be_a_run(run) else ():
        reason = _step_on(walked, body, hash, tenant, position, run)
        if reason:
            return walked.found(walked.length + 1, reason)
    record = _record_of(rows, tenant, run, now)
    if record is None:
        if not walked.length:
            raise NotFound(f"there is no run {quote(run)}", hint="List them with memory.runs.list()")
        return walked.found(None, "")  # its record was erased, or its time was up
    if not walked.length and _imported(record):
        return walked.found(1, "the run was imported: its events are in the ledger of the memory that it came from")
    try:
        return walked.found(*_end_fault(walked, _summary(record)))
    except Corrupt as damage:
        return walked.found(None, damage.message)


def _step_on(walked: _Walked, body: bytes, hash: str, tenant: str, position: int, run: str) -> str:
    """Go on to the next event; return why it cannot be the next one."""
    if hash_body(body) != hash:
        return "its content does not match its hash"
    try:
        link = _decode_link(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it cannot be read: {error}"
    reason = _misplaced(link, walked, tenant, position, run)
    if not reason:
        walked.length, walked.head, walked.kind = walked.length + 1, hash, link.effect
    return reason


def _misplaced(link: _Link, walked: _Walked, tenant: str, position: int, run: str) -> str:
    if (link.tenant, link.position, link.resource) != (tenant, position, run) or link.effect not in RUN_EVENTS:
        return f"it is not an event of this run: it says it is position {link.position} of `{link.tenant}`"
    if link.version != walked.length + 1:
        return f"it is missing: the next one here says it is event {link.version}"
    if link.detail.previous != walked.head:
        return "it does not follow the event before it"
    if (link.effect == "exec_start") != (walked.length == 0):
        return "a run begins with exec_start, and only once"
    if walked.kind == "exec_end":
        return "it comes after the end of the run"
    return ""


def _end_fault(walked: _Walked, record: RunSummary) -> tuple[int | None, str]:
    """Return the index at which the chain's end and the run's record disagree, and why; None where they agree."""
    length = walked.length
    if record.status != "running":
        if record.events > length:
            return length + 1, f"the chain ends before it, but the run's record speaks of {record.events} events"
        if record.events < length:
            return record.events + 1, f"the run is {record.status} since the event before it, its record says"
        if record.head != walked.head:
            return length, "it is not the event that the run's record names"
    if record.status in OVER and walked.kind != "exec_end":
        return length + 1, f"the run is {record.status}, but its exec_end is missing"
    if record.status not in OVER and walked.kind == "exec_end":
        return length, f"it ends the run, but the run's record says that it is {record.status}"
    return None, ""
