"""One execution of a program: what it says of each step, the same once it is chained, and where it stands."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

from memoranda.model.event import Decision, Event
from memoranda.model.fact import Fact

RunEventKind = Literal["exec_start", "step_record", "policy_decision", "exec_end"]
RUN_EVENTS = frozenset(get_args(RunEventKind))
"""The effects of the ledger's events that belong to a run: its beginning, its steps, what was decided, its end."""

Language = Literal["mashin", "workflow"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

RunStatus = Literal["running", "waiting", "completed", "failed", "cancelled"]
RUN_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
OVER: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled"})
"""The statuses that a run does not leave any more."""


def run_of(event: Event) -> str | None:
    """Return the run that an event of the ledger belongs to, None for all others."""
    return event.resource if event.effect in RUN_EVENTS else None


class RunNote(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One event of a run, before the ledger gives it a place."""

    kind: RunEventKind
    step: str | None = None
    decision: Decision = "allow"
    payload: bytes | None = None
    """Content as JSON: the ledger keeps its keyed hash, and the text only when asked to."""
    detail: dict[str, Any] = {}
    """What may be known for ever: names and numbers, no content. An erasure cannot take it back."""


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a run as the ledger keeps it.

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


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run's chain stands after something was recorded: what the next record goes on from."""

    index: int
    head: str
    position: int
    facts: tuple[Fact, ...] = ()
    """What the writes made, in their order."""


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands: the fact at `runs.run` in its scope, which the ledger gives `events` and `head`."""

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


class RunVerification(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the chain of one run is whole and ends where its record says; if not, the first bad index and why."""

    ok: bool
    length: int
    head: str
    index: int | None = None
    reason: str = ""
