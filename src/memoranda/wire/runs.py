"""Runs of machines and workflows, and approvals, on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from memoranda.model.effect import Approval as StoredApproval
from memoranda.model.effect import Status
from memoranda.model.event import RunEvent as RunEvent
from memoranda.model.event import RunStatus
from memoranda.model.event import RunSummary as RunSummary
from memoranda.model.event import RunVerification as RunVerification
from memoranda.wire.codec import plain


class StartRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The input of a program; `mode` is for machines, `thread` for conversational workflows."""

    input: dict[str, Any] = {}
    mode: Literal["live", "test"] = "live"
    thread: str | None = None


class DeliverToRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The event that a run waits for."""

    payload: Any = None


class DecideRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason of a decision; with `step`, decide only if the run waits at that step."""

    reason: str = ""
    step: str | None = None


class CancelRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason to cancel a run; with `force`, cancel even a run that seems to be active."""

    reason: str = ""
    force: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run with its status, its output, and the output of each step or task."""

    id: str
    program: str
    status: RunStatus
    output: Any = None
    outputs: dict[str, Any] = {}
    messages: list[Any] = []
    error: dict[str, Any] | None = None
    waiting: dict[str, Any] | None = None


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of runs, newest first."""

    runs: list[RunSummary]
    next: str | None = None


class RunEvents(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the ledger events of a run, in order; `next` is the cursor of the next page, null at the end."""

    events: list[RunEvent]
    next: str | None = None


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """An effect that needs approval, and the decision."""

    id: str
    tenant: str
    scope: str
    actor: str
    door: str
    capability: str
    effect: dict[str, Any] | None
    """The effect to carry out; null once it was decided or its subject was erased."""
    requested_at: datetime
    status: Status = "pending"
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str = ""


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """A page of approvals, oldest first."""

    approvals: list[Approval]
    next: str | None = None


class Decide(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason of a decision, recorded with it."""

    reason: str = ""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, and the result of the approved effect."""

    approval: Approval
    result: Any = None


def approval_json(approval: StoredApproval) -> Approval:
    """Return an approval as its wire type."""
    return Approval(**{**msgspec.structs.asdict(approval), "effect": plain(approval.effect)})


def decision_json(approval: StoredApproval, result: Any) -> Decided:
    """Return a decision as its wire type."""
    return Decided(approval=approval_json(approval), result=plain(result))
