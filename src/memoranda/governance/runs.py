"""Runs of programs: recording their events in the ledger, reading them, and verifying their chains.

Each event of a run is one event of the tenant's ledger. It names the run, its number in it, and the hash of the run's
event before it, so a run can be shown and verified by itself. A process that resumes a run says from which
event: of two that resume from the same event one gets a Conflict, and nothing of it is stored. The record of a run is
the fact `runs.run` in the scope `run:<id>`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, ClassVar, cast

import msgspec

from memoranda.engine.facts import ListFacts, SetFact, WriteFacts, write_facts
from memoranda.engine.pages import take_within
from memoranda.engine.reviews import hold
from memoranda.engine.sessions import EndScope, StartSession, end_scope, start_session
from memoranda.engine.verbs import Call, Outcome, verb, within_scope
from memoranda.errors import Conflict, Corrupt, Hint, NotFound, NotVerified, ScopeEnded, UsageError
from memoranda.governance.approvals import find_approval
from memoranda.governance.ledger import LedgerEnd, Signature
from memoranda.model.effect import Approval, Demand, Effect, ReadEffect
from memoranda.model.event import (
    GENESIS,
    OVER,
    RUN_EVENTS,
    Event,
    Language,
    Note,
    Recorded,
    RunEvent,
    RunNote,
    RunStatus,
    RunStep,
    RunSummary,
    RunVerification,
    hash_event,
    unchained_hash,
)
from memoranda.model.fact import Fact, was_imported
from memoranda.model.names import RUN_RECORD, STEPS, lies_under, require_label, step_key, why_not_a_name
from memoranda.model.scope import LONGEST_ID, Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode, hash_body, hash_content
from memoranda.store.base import ContentKey, Erasure, FactQuery, Reader, Session, Transaction

_LEDGER_POSITION = "position"
"""The field of a run's record that says from which ledger position on the writes beside it were recorded."""


class RunEffect(Effect, frozen=True, kw_only=True):
    """An effect about one run, whose scope is `run:<id>`."""

    run: str


class RecordRun(RunEffect, frozen=True, kw_only=True, tag="record_run"):
    """Chain notes to the events of a run, and write its own record, all or nothing.

    `index` and `previous` are the number and the hash of the run's newest event, 0 and GENESIS before the first: if
    the run has been resumed elsewhere meanwhile, they no longer match. The first record begins the run's scope.
    """

    capability: ClassVar[str] = "runs.write"
    mutates: ClassVar[bool] = True
    index: int
    previous: str
    notes: tuple[RunNote, ...] = ()
    writes: tuple[SetFact, ...] = ()
    owner: Scope | None = None
    """The owner of the run, given with its first events: erasing the owner erases the run too."""
    ends: Scope | None = None
    """The scope of what its owner remembers for this run alone, `<owner>/run:<id>`, which ends with the run."""

    def demands(self) -> Iterator[Demand]:
        """Yield the right to run programs, and to write what is not the run's own record.

        Ending `ends` needs no right of its own.
        """
        yield self.capability, self.reach, None
        for write in self.others:
            yield from write.demands()

    @property
    def others(self) -> tuple[SetFact, ...]:
        """The writes that are not about the run itself."""
        return tuple(one for one in self.writes if one.scope != self.scope or not _is_about_run(one.key))

    def weight(self) -> tuple[int, int]:
        """Return the number of writes and the bytes of their values."""
        return _weight(self.writes)

    def refusable_weight(self) -> tuple[int, int]:
        """Return the weight without the record of a run that has begun: it has to be able to end."""
        return _weight(self.others if self.index else self.writes)


def _is_about_run(key: str) -> bool:
    return lies_under(key, "runs") or lies_under(key, STEPS)


def _weight(writes: tuple[SetFact, ...]) -> tuple[int, int]:
    return len(writes), sum(write.weight()[1] for write in writes)


def _within(effect: RecordRun) -> Sequence[Scope] | None:
    # What ends a scope has the tenant to itself.
    return None if effect.ends is not None else (effect.scope, *(write.scope for write in effect.writes))


@verb(RecordRun, can_wait=False, within=_within)
def record_run(rows: Transaction, effect: RecordRun, call: Call) -> Outcome[Recorded]:
    """Chain notes to the newest event of a run and write its record, if the caller resumes from that event.

    The notes are chained here and not by the gate, because each one names the hash of the event before it.
    """
    _ensure_running(rows, effect.scope, effect.run)
    index, head = rows.head(effect.scope.tenant, effect.run) or (0, GENESIS)
    if index != effect.index or (head != effect.previous and not _was_head(rows, effect)):
        raise Conflict(
            f"run `{effect.run}` is at event {index}, not at event {effect.index}",
            hint="It was resumed elsewhere: read it again",
            expected=effect.index,
            actual=index,
        )
    end = LedgerEnd(rows, Signature.of(effect, call))
    begun: tuple[Note, ...] = ()
    if index == 0:
        begun = start_session(rows, StartSession(scope=effect.scope, owner=effect.owner), call).notes
    end.reserve(len(begun) + len(effect.notes) + len(effect.writes))
    for note in begun:
        end.chain(note)
    for note in effect.notes:
        index += 1
        head = end.chain(_run_event_note(note, effect, index, head))
    facts: tuple[Fact, ...] = ()
    if effect.writes:
        position = end.next_position
        stamped = tuple(_with_chain_end(write, index, head, position) for write in effect.writes)
        written = write_facts(rows, WriteFacts(scope=effect.scope, writes=stamped), call)
        facts = tuple(fact for fact in written.value if isinstance(fact, Fact))
        for note in written.notes:
            end.chain(note)
    if effect.ends is not None:
        _ensure_own(rows, effect.scope, effect.ends)
        for note in end_scope(rows, EndScope(scope=effect.ends), call).notes:
            end.chain(note)
    return Outcome(Recorded(index=index, head=head, position=end.keep(), facts=facts))


def _was_head(rows: Reader, effect: RecordRun) -> bool:
    """Return whether the caller knows the newest event by the hash that it had before it was chained.

    On PostgreSQL events are recorded before they are chained, and a move to another database chains them.
    """
    newest = deque(rows.bodies(effect.scope.tenant, run=effect.run), maxlen=1)
    return any(effect.previous == unchained_hash(body) for _, _, body in newest)


class HoldStep(RunEffect, frozen=True, kw_only=True, tag="hold_step"):
    """Let a step of a run wait for a decision. Once it is approved, the run may resume."""

    capability: ClassVar[str] = "runs.write"
    mutates: ClassVar[bool] = True
    step: str
    needs: str
    """The capability that the step asks for, as its program names it."""
    about: dict[str, Any] = {}  # noqa: RUF012  # msgspec copies it
    """What is shown to the person who decides."""

    def pending_detail(self) -> dict[str, Any]:
        """Return the run and the step."""
        return {"run": self.run, "step": self.step}


@verb(HoldStep, within=within_scope)
def hold_step(rows: Transaction, effect: HoldStep, call: Call) -> Outcome[Approval | HoldStep]:
    """Let a step wait for a decision; once it is approved, return it: its run may resume."""
    if call.decision == "approved":
        detail = {"capability": effect.needs, "step": effect.step}
        return Outcome(effect, (Note(effect=effect.name, scope=effect.scope.path, resource=effect.run, detail=detail),))
    require_label("step", effect.step)
    require_label("capability", effect.needs)
    _ensure_running(rows, effect.scope, effect.run)
    approval, note = hold(rows, effect, effect.needs, call)
    return Outcome(approval, (note,))


def _ensure_running(rows: Reader, scope: Scope, run: str) -> None:
    if "%" in run or scope.path != f"run:{run}":  # most ids need no escape, and this is asked for every step
        own = _run_scope(scope.tenant, run)
        if scope != own:
            raise UsageError(f"run {quote(run)} is recorded in `{own}`, not in `{scope}`", hint="Name its own scope")
    session = rows.get(Session, scope)
    if session is None:
        if rows.get(Erasure, scope) is not None:
            raise ScopeEnded(f"run `{run}` was erased", hint="Start another run")
    elif session.ended_at is not None:
        raise ScopeEnded(f"`{scope}` has ended", hint="Start another run", ended_at=session.ended_at)


def _ensure_own(rows: Reader, scope: Scope, ends: Scope) -> None:
    """Raise UsageError unless a scope belongs to the owner of this run and to the run."""
    session = rows.get(Session, scope)
    owner = None if session is None else session.owner
    if owner is None or ends != Scope(owner.tenant, f"{owner.path}/{scope.path}"):
        raise UsageError(
            f"`{ends}` does not belong to the owner of `{scope}` and to that run",
            hint="A run ends what its owner was to remember for it alone, and nothing else",
        )


def _run_event_note(note: RunNote, effect: RecordRun, index: int, previous: str) -> Note:
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


def _with_chain_end(write: SetFact, index: int, head: str, position: int) -> SetFact:
    """Return the write of the run's record with the end of its chain, which the caller cannot know; others unchanged.

    The record also says from which ledger position on these writes were recorded: resuming the run compares them.
    """
    if write.key != RUN_RECORD:
        return write
    record: Any = decode(bytes(write.payload))
    if not isinstance(record, dict):
        raise UsageError(f"{quote(record)} cannot be the record of a run", hint="Write a summary of the run")
    stamped = {**cast("dict[str, Any]", record), "events": index, "head": head, _LEDGER_POSITION: position}
    return msgspec.structs.replace(write, payload=msgspec.Raw(encode(stamped)))


class ReadRuns(ReadEffect, frozen=True, kw_only=True, tag="read_runs"):
    """Read the status of runs, newest first: of one, or of those with a program, language, status or owner."""

    capability: ClassVar[str] = "runs.read"
    run: str | None = None
    program: str | None = None
    language: Language | None = None
    status: RunStatus | None = None
    owner: Scope | None = None
    """Only runs whose memory is here or below."""
    after: tuple[datetime, str] | None = None
    """When the last run seen started, and its id."""
    limit: int | None = None

    def demands(self) -> Iterator[Demand]:
        """Yield the right to see the runs of an owner, or all of them."""
        yield self.capability, self.reach if self.owner is None else self.owner, None


@verb(ReadRuns)
def read_runs(rows: Reader, effect: ReadRuns, call: Call) -> Outcome[list[RunSummary]]:
    """Return the status of runs, those that started last first."""
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


class ReadRunEvents(RunEffect, frozen=True, kw_only=True, tag="read_run_events"):
    """Read the events of one run, in order."""

    capability: ClassVar[str] = "runs.read"
    mutates: ClassVar[bool] = False
    after: int = 0
    """The position of the last event seen."""
    limit: int | None = None
    max_bytes: int | None = None


@verb(ReadRunEvents)
def read_run_events(rows: Reader, effect: ReadRunEvents, call: Call) -> Outcome[list[RunEvent]]:
    """Return the events of a run, in order."""
    if not can_be_a_run(effect.run):
        return Outcome([])
    events = rows.events(effect.scope.tenant, start=effect.after + 1, limit=effect.limit, run=effect.run)
    return Outcome(take_within(map(_run_event, events), lambda event: event.detail, effect.max_bytes))


class ReadKeptRun(RunEffect, frozen=True, kw_only=True, tag="read_kept_run"):
    """Read the stored state of a run: its input, its results and its status. Nothing if it has another owner."""

    capability: ClassVar[str] = "runs.read"
    mutates: ClassVar[bool] = False
    owner: Scope
    """The owner of the run: reading the run takes the right to read the owner's memory."""
    verified: bool = False
    """Whether to refuse a run that its ledger does not vouch for, as resuming it needs and looking at it does not."""

    def demands(self) -> Iterator[Demand]:
        """Yield the right to see runs, and to read the memory of the owner."""
        yield self.capability, self.reach, None
        yield ListFacts.capability, self.owner, "runs"


@verb(ReadKeptRun)
def read_kept_run(rows: Reader, effect: ReadKeptRun, call: Call) -> Outcome[list[Fact]]:
    """Return the facts that a run is stored as, if it belongs to this owner."""
    tenant = effect.scope.tenant
    record = record_of(rows, tenant, effect.run, call.now)
    if record is None or summary_of(record).scope != effect.owner.path:
        return Outcome([])
    facts = list(rows.facts(FactQuery(_run_scope(tenant, effect.run), active_at=call.now, prefix="runs")))
    if effect.verified:
        ensure_verified(rows, record, facts, call.now)
    return Outcome(facts)


class ReadSteps(ReadEffect, frozen=True, kw_only=True, tag="read_steps"):
    """Read the step records of a run or a session, in order; the scope is that of the run or session."""

    capability: ClassVar[str] = "runs.read"
    owner: Scope | None = None
    """The owner of the run: reading its steps takes the right to read the owner's memory. None for a session."""
    after: int = 0
    """The number of the last record seen."""
    limit: int | None = None
    max_bytes: int | None = None

    def demands(self) -> Iterator[Demand]:
        """Yield the rights that reading the run takes; for a session, to read what is there."""
        if self.owner is None:
            yield ListFacts.capability, self.scope, STEPS
        else:
            yield self.capability, None, None
            yield ListFacts.capability, self.owner, "runs"


@verb(ReadSteps)
def read_steps(rows: Reader, effect: ReadSteps, call: Call) -> Outcome[list[RunStep]]:
    """Return step records in order; none of a run that belongs to another owner."""
    if effect.owner is not None:
        run = effect.scope.parts[-1][1]
        record = record_of(rows, effect.scope.tenant, run, call.now)
        if record is None or summary_of(record).scope != effect.owner.path:
            return Outcome([])
    steps = islice(_steps(rows, effect, call.now), effect.limit)
    return Outcome(take_within(steps, lambda one: one, effect.max_bytes))


def _steps(rows: Reader, effect: ReadSteps, now: datetime) -> Iterator[RunStep]:
    """Yield step records, reading one part of them after the other: a part may be large."""
    after = step_key(effect.after)
    while True:
        query = FactQuery(effect.scope, active_at=now, prefix=STEPS, after=after, limit=1)
        part = next(iter(rows.facts(query)), None)
        if part is None:
            return
        after = part.key
        yield from (step for step in msgspec.convert(part.value, list[RunStep]) if step.number > effect.after)


class ReadDecision(RunEffect, frozen=True, kw_only=True, tag="read_decision"):
    """Read the decision about a step that a run waits for."""

    capability: ClassVar[str] = "runs.read"
    mutates: ClassVar[bool] = False
    approval: str


@verb(ReadDecision)
def read_decision(rows: Reader, effect: ReadDecision, call: Call) -> Outcome[Approval]:
    """Return the approval that a step of this run waits for, decided or not."""
    approval = find_approval(rows, effect.scope.tenant, effect.approval)
    if approval is None or approval.scope != _run_scope(effect.scope.tenant, effect.run).path:
        raise NotFound(
            f"the run {quote(effect.run)} does not wait for the approval {quote(effect.approval)}",
            hint="It may have been erased with the owner of the run",
        )
    return Outcome(approval)


class VerifyRun(RunEffect, frozen=True, kw_only=True, tag="verify_run"):
    """Walk the chain of one run, and compare its end with the run's record."""

    capability: ClassVar[str] = "runs.read"
    mutates: ClassVar[bool] = False


@verb(VerifyRun)
def verify(rows: Reader, effect: VerifyRun, call: Call) -> Outcome[RunVerification]:
    """Return whether the chain of a run is whole."""
    return Outcome(verify_run(rows, effect.scope.tenant, effect.run, call.now))


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


# records


def _run_scope(tenant: str, run: str) -> Scope:
    """Return the scope of a run."""
    return Scope.of(tenant=tenant, run=run)


def can_be_a_run(run: str) -> bool:
    """Return whether a text from a caller can be the id of a run."""
    return why_not_a_name(run, longest=LONGEST_ID) is None


def records_of_runs(rows: Reader, tenant: str, now: datetime, owner: Scope | None = None) -> list[Fact]:
    """Return the records of the runs of a tenant, or of those that belong to an owner and to scopes below it."""
    if owner is not None and owner.tenant != tenant:
        return []
    if owner is None:
        query = FactQuery(Scope(tenant), below=True, key=RUN_RECORD)
    else:
        query = FactQuery(owner, owned=True, key=RUN_RECORD)
    return [fact for fact in rows.facts(query) if fact.active_at(now) and fact.scope.shape == ("run",)]


def run_id(record: Fact) -> str:
    """Return the run that a record is of."""
    return record.scope.parts[-1][1]


def record_of(rows: Reader, tenant: str, run: str, now: datetime) -> Fact | None:
    """Return the record of one run; None where there is none, or its time is up."""
    fact = rows.fact(_run_scope(tenant, run), RUN_RECORD) if can_be_a_run(run) else None
    return fact if fact is not None and fact.active_at(now) else None


def is_imported(record: Fact) -> bool:
    """Return whether a run was imported: its events are in the ledger of the memory that it was exported from."""
    return was_imported(record.origin)


def summary_of(record: Fact) -> RunSummary:
    """Return the summary of a run from its record."""
    id = run_id(record)
    try:
        return msgspec.convert({**record.value, "id": id}, RunSummary)
    except (TypeError, msgspec.ValidationError) as error:
        raise Corrupt(
            f"the record of run `{id}` cannot be read: {error}", hint="The history of its scope has older ones"
        ) from error


# verification


class _ChainDetail(msgspec.Struct, frozen=True, gc=False):
    previous: str = ""
    digest: str = ""


class _Link(msgspec.Struct, frozen=True, gc=False):
    """What the bytes of an event say about its place; all the rest they say is in their hash."""

    tenant: str
    position: int
    effect: str
    resource: str | None
    version: int | None
    detail: _ChainDetail


_decode_link = msgspec.json.Decoder(_Link).decode


class _Walk(msgspec.Struct):
    """The state of a walk along a run's chain."""

    length: int = 0
    head: str = GENESIS
    body: bytes = b""
    """The JSON of the newest event."""
    kind: str = ""
    digest: str = ""
    """Of the program's text, as the first event says."""

    def ends_in(self, hash: str) -> bool:
        """Return whether a hash is that of the newest event, perhaps as it was before the event was chained."""
        return hash == self.head or (bool(self.body) and hash == unchained_hash(self.body))

    def result(self, index: int | None, reason: str) -> RunVerification:
        return RunVerification(ok=not reason, length=self.length, head=self.head, index=index, reason=reason)


def verify_run(rows: Reader, tenant: str, run: str, now: datetime) -> RunVerification:
    """Walk the chain of a run, compare its end with the run's record, and return the first bad index and why."""
    walk = _Walk()
    for position, hash, body in rows.bodies(tenant, run=run) if can_be_a_run(run) else ():
        reason = _advance(walk, body, hash, tenant, position, run)
        if reason:
            return walk.result(walk.length + 1, reason)
    record = record_of(rows, tenant, run, now)
    if record is None:
        if not walk.length:
            raise NotFound(f"unknown run {quote(run)}", hint=Hint("list", "runs"))
        return walk.result(None, "")  # its record was erased, or its time was up
    if not walk.length and is_imported(record):
        return walk.result(1, "the run was imported: its events are in the ledger of the memory that it came from")
    try:
        return walk.result(*_end_fault(walk, summary_of(record)))
    except Corrupt as damage:
        return walk.result(None, damage.message)


def ensure_verified(rows: Reader, record: Fact, facts: list[Fact], now: datetime) -> None:
    """Raise NotVerified for a run whose chain is broken, or whose facts differ from the ledger."""
    tenant, run = record.scope.tenant, run_id(record)
    found = verify_run(rows, tenant, run, now)
    reason = f"event {found.index}: {found.reason}" if found.index is not None else found.reason
    if not reason:
        reason = _ledger_mismatch(rows, record, facts)
    if reason:
        raise NotVerified(
            f"the run {quote(run)} cannot be resumed, because its ledger does not vouch for it: {reason}",
            hint=("Cancel it and start another one", Hint("command", f"runs show {run}")),
            run=run,
        )


def _ledger_mismatch(rows: Reader, record: Fact, facts: list[Fact]) -> str:
    """Return how a fact of a run differs from the ledger; empty if none does."""
    tenant, scope = record.scope.tenant, record.scope.path
    stamp: Any = record.value.get(_LEDGER_POSITION)
    writes: dict[str, Event] = {}
    if type(stamp) is int and stamp > 0:
        # One batch wrote the record and nearly always everything with it; one more event shows what is missing.
        batch = rows.events(tenant, start=stamp, limit=len(facts) + 1)
        writes = _last_writes(takewhile(lambda event: event.scope == scope, list(batch)), scope)
    if any(fact.key not in writes for fact in facts):
        # Written by an earlier version, or a part of the journal is older: read the ledger from the run's start.
        start = next((position for position, _, _ in rows.bodies(tenant, run=run_id(record))), 1)
        writes = _last_writes(rows.events(tenant, start=start), scope)
    key = rows.get(ContentKey, tenant, scope)
    for fact in facts:
        event = writes.pop(fact.key, None)
        if (
            key is None
            or event is None
            or event.version != fact.version
            or event.content != hash_content(key.secret, encode(fact.value))
            or (event.hash and hash_event(event) != event.hash)
            or was_imported(fact.origin)
        ):
            return f"{quote(fact.key)} is not what was written last"
    return next((f"{quote(key)} was written and is missing" for key in writes), "")


def _last_writes(events: Iterable[Event], scope: str) -> dict[str, Event]:
    """Return the last event that wrote each fact of the runtime in a scope, as far as the fact was not removed."""
    writes: dict[str, Event] = {}
    for event in events:
        if event.scope != scope or event.key is None or not lies_under(event.key, "runs"):
            continue
        if event.effect == "set_fact":
            writes[event.key] = event
        elif event.effect in ("delete_fact", "expire_fact"):
            writes.pop(event.key, None)
    return writes


def broken_runs(rows: Reader, tenant: str, now: datetime) -> Iterator[str]:
    """Yield a description of each broken run of a tenant."""
    for fact in records_of_runs(rows, tenant, now):
        if not is_imported(fact):
            found = verify_run(rows, tenant, run_id(fact), now)
            if not found.ok:
                yield f"run `{run_id(fact)}` at event {found.index}: {found.reason}"


def _advance(walk: _Walk, body: bytes, hash: str, tenant: str, position: int, run: str) -> str:
    """Advance to the next event; return why it cannot be the next one."""
    if hash_body(body) != hash:
        return "its content does not match its hash"
    try:
        link = _decode_link(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it cannot be read: {error}"
    reason = _misfit(link, walk, tenant, position, run)
    if not reason:
        walk.length, walk.head, walk.body, walk.kind = walk.length + 1, hash, body, link.effect
        walk.digest = walk.digest or link.detail.digest
    return reason


def _misfit(link: _Link, walk: _Walk, tenant: str, position: int, run: str) -> str:
    if (link.tenant, link.position, link.resource) != (tenant, position, run) or link.effect not in RUN_EVENTS:
        return f"it is not an event of this run: it says it is position {link.position} of `{link.tenant}`"
    if link.version != walk.length + 1:
        return f"it is missing: the next one here says it is event {link.version}"
    if not walk.ends_in(link.detail.previous):
        return "it does not follow the event before it"
    if (link.effect == "exec_start") != (walk.length == 0):
        return "a run begins with exec_start, and only once"
    if walk.kind == "exec_end":
        return "it comes after the end of the run"
    return ""


def _end_fault(walk: _Walk, record: RunSummary) -> tuple[int | None, str]:
    """Return the index at which the chain's end and the run's record disagree, and why; None where they agree."""
    length = walk.length
    if walk.digest and record.digest != walk.digest:
        return 1, "the run began with another program than its record says"
    if record.status != "running":
        if record.events > length:
            return length + 1, f"the chain ends before it, but the run's record speaks of {record.events} events"
        if record.events < length:
            return record.events + 1, f"the run is {record.status} since the event before it, its record says"
        if not walk.ends_in(record.head):
            return length, "it is not the event that the run's record names"
    if record.status in OVER and walk.kind != "exec_end":
        return length + 1, f"the run is {record.status}, but its exec_end is missing"
    if record.status not in OVER and walk.kind == "exec_end":
        return length, f"it ends the run, but the run's record says that it is {record.status}"
    return None, ""
