"""Runs of machines and workflows, and approvals, on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from memoranda.model.effect import Approval as StoredApproval
from memoranda.model.effect import Cause, Change, Contested, Status
from memoranda.model.event import Language, RunStatus
from memoranda.model.event import RunEvent as RunEvent
from memoranda.model.event import RunStep as RunStep
from memoranda.model.event import RunSummary as RunSummary
from memoranda.model.event import RunVerification as RunVerification
from memoranda.model.program import Bindings as Bindings
from memoranda.model.program import StepBinding as StepBinding
from memoranda.model.trust import Origin, OriginKind, Trust
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
    language: Language
    digest: str
    """Of the text of its program."""
    started_at: datetime
    ended_at: datetime | None = None
    parent: str | None = None
    """The run that it was called from."""
    recorded: int = 0
    """The number of its newest step record; 0 where none are kept."""


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
    kind: OriginKind = "user"
    """What kind of origin asked for it."""
    trust: Trust = "high"
    cause: Cause = "policy"
    """Why it waits: a policy, a conflict with something more trusted, or what was found in it (`quarantine`)."""
    findings: list[str] = []
    """What was found in it, by kind and rule."""


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """A page of approvals, oldest first."""

    approvals: list[Approval]
    next: str | None = None


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """What is current in one place, and a write that waits because it is trusted less."""

    id: str
    """The approval that decides about it; a write of several places has one for all of them."""
    scope: str
    key: str
    """The key of a fact or entry, or the ref of an entry or line."""
    collection: str | None = None
    namespace: str = ""
    change: Change
    """What the write would do: set, delete, supersede or forget."""
    current: Any
    current_origin: Origin | None
    proposed: Any
    """Null for a deletion."""
    proposed_origin: Origin
    at: datetime


class Conflicts(msgspec.Struct, frozen=True, kw_only=True):
    """A page of conflicts, oldest first."""

    conflicts: list[Conflict]
    next: str | None = None


class Resolve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a conflict is decided: keep what is current, or take what was proposed."""

    verdict: Literal["keep", "take"]
    reason: str = ""


class Decide(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason of a decision, recorded with it."""

    reason: str = ""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, and the result of the approved effect."""

    approval: Approval
    result: Any = None


def approval_json(approval: StoredApproval) -> Approval:
    """Return an approval as its wire type."""
    fields: dict[str, Any] = msgspec.structs.asdict(approval)
    fields |= {"effect": plain(approval.effect), "findings": list(approval.findings)}
    del fields["rules"]  # by which it is decided again, not something to show
    return Approval(**fields)


def conflict_json(conflict: Contested) -> Conflict:
    """Return a conflict as its wire type."""
    fields: dict[str, Any] = msgspec.structs.asdict(conflict)
    fields |= {"scope": conflict.scope.path, "current": plain(conflict.current), "proposed": plain(conflict.proposed)}
    return Conflict(**fields)


def decision_json(approval: StoredApproval, result: Any) -> Decided:
    """Return a decision as its wire type."""
    return Decided(approval=approval_json(approval), result=plain(result))


class RunSteps(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what was recorded of the steps of a run or a session, in order."""

    steps: list[RunStep]
    next: str | None = None


ProgramKind = Literal["machine", "workflow", "agent", "chat_agent"]


class ProgramFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was found in the text of a program."""

    severity: Literal["error", "warning", "note"]
    code: str
    message: str
    hint: str = ""
    line: int | None = None
    column: int | None = None


class ProgramSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A program of the server; one whose file could not be loaded has `errors` and no digest."""

    kind: ProgramKind
    name: str
    file: str
    """The name of its file, without folders."""
    digest: str | None = None
    """The hash of its text."""
    title: str = ""
    inputs: dict[str, Any] | None = None
    """JSON schema of its input; null if it takes any."""
    bindings: Bindings = Bindings()
    diagnostics: list[ProgramFinding] = []
    """Warnings and notes."""
    errors: list[ProgramFinding] = []
    loaded_at: datetime | None = None


class ProgramList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of programs, by name."""

    programs: list[ProgramSummary]
    next: str | None = None


class ProgramVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a program, by its digest."""

    digest: str
    current: bool
    """Whether new runs use it."""
    installed: bool
    """Whether runs that began with it can be resumed here."""
    loaded_at: datetime | None = None
    """When this process loaded it first; null if it did not."""
    runs: int = 0
    """Number of the caller's runs that began with it."""


class ProgramVersions(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of a program, newest first."""

    versions: list[ProgramVersion]


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """What a reload changed: programs as `kind name`, those that are new, have another text, or are gone."""

    added: list[str] = []
    changed: list[str] = []
    removed: list[str] = []
    failed: list[str] = []
    """Files that could not be loaded before either, and still cannot."""
