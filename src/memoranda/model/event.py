"""Events of the ledger and of runs, and the hashes that chain them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal, get_args

import msgspec

from memoranda.model.fact import Fact
from memoranda.model.result import Result
from memoranda.model.value import canonical, hash_body

GENESIS = "sha256:" + "0" * 64
"""What the first event of a chain names as its predecessor."""

Decision = Literal["allow", "deny", "pending", "approved", "refused"]


class Note(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a verb says happened, before it becomes an event of the ledger."""

    effect: str
    scope: str = ""
    key: str | None = None
    resource: str | None = None
    version: int | None = None
    payload: bytes | None = None
    """The content as JSON. The ledger stores its keyed hash, and the text only with `ledger_text`."""
    detail: dict[str, Any] = {}
    decision: Decision | None = None
    """What was decided, where it is not what the gate decided about the whole effect."""


class Event(Result, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One event: who did what, through which door, to which memory, and whether it was allowed.

    `content` is a keyed hash of the value. `text`, if the ledger stores it, is not part of the hash, so that erasing it
    later leaves the chain whole. Only it and `hash` have defaults: what is left out is not hashed. On PostgreSQL `hash`
    and `prev_hash` are empty while an event before this one is missing, whose writer is about to commit.
    """

    tenant: str
    position: int
    at: datetime
    actor: str
    door: str
    effect: str
    decision: Decision
    scope: str
    key: str | None
    resource: str | None
    version: int | None
    content: str | None
    epoch: int
    """How often the tenant's permissions had changed by then."""
    detail: dict[str, Any]
    prev_hash: str
    hash: str = ""
    text: Any = None


_decode_event = msgspec.json.Decoder(Event).decode


def hash_event(event: Event) -> str:
    """Return the hash an event must carry: SHA-256 over the canonical JSON of all it says and its predecessor."""
    return hash_body(event_body(event))


def event_body(event: Event) -> bytes:
    """Return the canonical JSON that is hashed and stored: every field but `hash` and `text`."""
    if event.hash or event.text is not None:
        event = msgspec.structs.replace(event, hash="", text=None)
    return canonical(event)


def unchained_hash(body: bytes) -> str:
    """Return the hash that an event had before it was chained, when its `prev_hash` was empty, from its JSON."""
    return hash_event(msgspec.structs.replace(_decode_event(body), prev_hash=""))


class Anchor(msgspec.Struct, frozen=True):
    """The length and head of a chain at one moment; stored elsewhere, it reveals a cut-off tail."""

    length: int
    head: str


class Verification(Result, frozen=True, kw_only=True):
    """Whether a chain is whole; if not, the first bad position and why."""

    ok: bool
    length: int
    head: str
    position: int | None = None
    reason: str = ""


RunEventKind = Literal["exec_start", "step_record", "policy_decision", "exec_end"]
RUN_EVENTS = frozenset(get_args(RunEventKind))
"""The effects of the events that belong to a run, their `resource`: its start, its steps, what was decided, its end."""

Language = Literal["mashin", "workflow"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

RunStatus = Literal["running", "waiting", "completed", "failed", "cancelled"]
RUN_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
OVER: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled"})
"""The final statuses of a run."""


class RunNote(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One event of a run, before it becomes an event of the ledger."""

    kind: RunEventKind
    step: str | None = None
    decision: Decision = "allow"
    payload: bytes | None = None
    """Content as JSON. The ledger stores its keyed hash, and the text only with `ledger_text`."""
    detail: dict[str, Any] = {}
    """Names and numbers, never content: an erasure cannot remove it."""


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a run, as it is in the ledger.

    `index` counts from 1 in its run, `position` in the tenant's ledger. `prev_hash` is the hash of the run's event
    before this one.
    """

    run: str
    index: int
    position: int
    at: datetime
    actor: str
    kind: RunEventKind
    step: str | None
    decision: Decision
    content: str | None
    detail: dict[str, Any]
    prev_hash: str
    hash: str


StepStatus = Literal["completed", "failed", "waiting", "stopped"]


class RunStep(Result, frozen=True, kw_only=True):
    """What was recorded of a step of a run, or of a turn of an agent.

    A value that was cut is `{"truncated": true, "bytes": …, "start": …}`, and is named in `truncated`. Where only
    hashes are kept, a value is `{"hash": …, "bytes": …}`.
    """

    _columns: ClassVar[tuple[str, ...]] = ("number", "step", "type", "status", "seconds")
    number: int
    """In the order in which the steps began, from 1."""
    step: str
    type: str
    """The action of a task, the kind of a step, or what an agent did."""
    status: StepStatus
    started_at: datetime
    seconds: float
    parent: int | None = None
    """The number of the step that it is part of, such as the task whose model called it."""
    attempts: int = 1
    inputs: Any = None
    output: Any = None
    messages: tuple[dict[str, Any], ...] = ()
    """To and from models: `role`, `text`, `calls`, `tool`, and of replies `model`, `tokens_in` and `tokens_out`."""
    reads: tuple[str, ...] = ()
    """Refs of the memory that was read."""
    writes: tuple[str, ...] = ()
    error: dict[str, Any] | None = None
    run: str | None = None
    """The run of the program that it called."""
    truncated: tuple[str, ...] = ()
    """Names of the fields that were cut."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run's chain after a record: where the next one continues."""

    index: int
    head: str
    position: int
    facts: tuple[Fact, ...] = ()
    """What the writes made, in their order."""


class RunSummary(Result, frozen=True, kw_only=True):
    """The status of a run: the fact `runs.run` in its scope, to which the ledger adds `events` and `head`."""

    id: str
    language: Language
    """What its program is written in: a machine, or a workflow."""
    program: str
    """The program's name."""
    digest: str
    """Of the program's text."""
    status: RunStatus
    started_at: datetime
    mode: str = "live"
    actor: str = ""
    scope: str = ""
    """Where its memory is."""
    ended_at: datetime | None = None
    steps: int = 0
    events: int = 0
    """The index of its newest event when the record was written."""
    head: str = ""
    """The hash of that event."""
    error: dict[str, Any] | None = None
    waiting: dict[str, Any] | None = None
    parent: str | None = None
    """The run that this one was called from."""
    recorded: int = 0
    """The number of its newest step record; 0 where none are kept."""


class RunVerification(Result, frozen=True, kw_only=True):
    """Whether the chain of one run is whole and ends where its record says; if not, the first bad index and why."""

    ok: bool
    length: int
    head: str
    index: int | None = None
    reason: str = ""
