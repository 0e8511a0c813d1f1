"""The state of one execution of a plan: its input, its budget, its journal, and the resources it can reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.errors import (
    EvaluationFailed,
    MemorandaError,
    ModelError,
    ModelFailed,
    QuotaExceeded,
    Refused,
    SchemaViolation,
)
from memoranda.lang.document import Raw
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.mashin.behaviour import DEFAULT_BEHAVIOUR, Behaviour, Budget
from memoranda.mashin.contracts import Contract
from memoranda.mashin.document import Compute
from memoranda.mashin.guards import ActiveGuard
from memoranda.mashin.permissions import Permissions
from memoranda.mashin.plan import Plan
from memoranda.model.clock import Clock, Ids, parse_duration
from memoranda.model.entry import Mode
from memoranda.model.limits import Limits
from memoranda.model.scope import Scope
from memoranda.model.text import storable_text
from memoranda.model.value import encode
from memoranda.runs.outcome import LONGEST_MESSAGE, CallResult, Failure, StepFailed, Waiting, details_of
from memoranda.runs.provenance import OWN, Provenance, Provenances
from memoranda.runs.recorder import Recorder
from memoranda.runs.storage import EntryKind, Journal, JournalEntry

RunMode = Literal["live", "test"]


# failures

FailureType = Literal[
    "permission_denied",
    "timeout",
    "model",
    "invalid_answer",
    "contract",
    "budget_exceeded",
    "guard",
    "machine",
    "runtime",
]
_MODEL_FAILURES: dict[str, FailureType] = {"timeout": "timeout", "invalid_answer": "invalid_answer"}


class Jumped(Exception):
    """A `goto`: another flow replaces the one that runs."""

    def __init__(self, flow: str) -> None:
        """Name the flow."""
        super().__init__(flow)
        self.flow = flow


def step_failed(type: FailureType, message: str, step: str, *, hint: str = "", **details: Any) -> StepFailed:
    """Return a failure of this type, ready to be raised."""
    given = {"hint": hint, **details} if hint else details
    return StepFailed(Failure(type=type, message=message, step=step, details=given))


def failure_of(error: MemorandaError, step: str) -> Failure:
    """Return an error of the engine, of a model or of an expression as the failure of a step."""
    message = storable_text(error.message, longest=LONGEST_MESSAGE)
    return Failure(type=_failure_type(error), message=message, step=step, details=details_of(error))


def _failure_type(error: MemorandaError) -> FailureType:
    if isinstance(error, QuotaExceeded):
        return "budget_exceeded"
    if isinstance(error, Refused):
        return "permission_denied"
    if isinstance(error, ModelFailed):
        return _MODEL_FAILURES.get(error.details.get("reason", ""), "model")
    if isinstance(error, ModelError):
        return "model"
    if isinstance(error, SchemaViolation) and not isinstance(error, EvaluationFailed):
        return "contract"
    return "runtime"


# what a run begins with, and its budget


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of the behaviour that a run began with; they hold wherever it resumes."""

    without_namespace: Literal["all", "unnamed"]
    recall: Mode
    flows: int
    keep: int | None
    """Seconds."""

    @classmethod
    def of(cls, behaviour: Behaviour) -> Chosen:
        """Return the choices to store with a run."""
        return cls(
            without_namespace=behaviour.without_namespace,
            recall=behaviour.recall,
            flows=behaviour.flows,
            keep=None if behaviour.keep is None else parse_duration(behaviour.keep),
        )

    def over(self, behaviour: Behaviour) -> Behaviour:
        """Return the behaviour of another process with these choices."""
        return msgspec.structs.replace(
            behaviour, without_namespace=self.without_namespace, recall=self.recall, flows=self.flows
        )


class Begun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run began with, and what it has used of its budget, as it is stored."""

    input: dict[str, Any]
    context: dict[str, Any] = {}
    budget: Budget
    chosen: Chosen = Chosen.of(DEFAULT_BEHAVIOUR)
    provenance: Provenance = OWN
    """Where the input comes from, as far as a machine that called it knows."""
    before: dict[str, int] = {}
    """What its callers had used of the budget by then."""
    used: dict[str, int] = {}
    """What it has used itself, the machines it called included."""
    output_made_of: Provenance = OWN
    """Where its output comes from, once it has one."""

    @classmethod
    def read(cls, stored: Any) -> Begun:
        """Read it from what is stored of a run."""
        return msgspec.convert(stored, cls)


_RESOURCES = {
    "steps": "steps",
    "model_calls": "requests to models",
    "tokens": "tokens",
    "writes": "writes to memory",
    "machine_calls": "calls of machines",
}
_NOTHING_USED = (0,) * len(_RESOURCES)


class Spending:
    """What a run has used of its budget, shared with the machines it calls."""

    __slots__ = ("budget", "flows", "machine_calls", "machines", "model_calls", "steps", "tokens", "writes")

    def __init__(self, budget: Budget, before: Mapping[str, int] | None = None) -> None:
        """Start with what the callers of the run have used."""
        self.budget = budget
        self.steps = 0
        self.model_calls = 0
        self.tokens = 0
        self.writes = 0
        self.machine_calls = 0
        self.flows = 0
        """Number of nested flows now."""
        self.machines = 0
        """Number of nested machines now."""
        self.add(before or {})

    def step(self, step: str) -> None:
        """Count a step, or raise where the budget has none left."""
        self.steps += 1
        limit = self.budget.steps
        if limit is not None and self.steps > limit:
            raise _exceeded("steps", limit, step)

    def spend(self, what: str, step: str) -> StepFailed | None:
        """Count one more of a resource, or return why the budget does not allow it."""
        limit: int | None = getattr(self.budget, what)
        used: int = getattr(self, what)
        if limit is not None and used >= limit:
            return _exceeded(what, limit, step)
        setattr(self, what, used + 1)
        return None

    def totals(self) -> tuple[int, ...]:
        """Return what was used so far, in the order of the budget."""
        return self.steps, self.model_calls, self.tokens, self.writes, self.machine_calls

    def since(self, before: tuple[int, ...] = _NOTHING_USED) -> dict[str, int]:
        """Return what was used since then, or in all, by name."""
        totals = self.totals()
        if totals == before:
            return {}
        return {name: now - then for name, then, now in zip(_RESOURCES, before, totals, strict=True) if now != then}

    def add(self, spent: Mapping[str, int]) -> None:
        """Count what an earlier execution or another run has used."""
        for name, amount in spent.items():
            setattr(self, name, getattr(self, name) + amount)

    def out_of_tokens(self, step: str) -> StepFailed | None:
        """Return why no model can be asked once all tokens are used."""
        limit = self.budget.tokens
        return _exceeded("tokens", limit, step) if limit is not None and self.tokens >= limit else None


def _exceeded(what: str, limit: int, step: str) -> StepFailed:
    message = f"the run may use {limit:,} {_RESOURCES[what]}, and this would be one more"
    hint = f"Give the run a budget with more {what}"
    return step_failed("budget_exceeded", message, step, hint=hint, limit=limit, what=what)


# the execution


class Callee(Protocol):
    """A machine that another can call."""

    @property
    def plan(self) -> Plan:
        """Its compiled text."""
        ...

    def run_for(self, inputs: dict[str, Any], by: Execution, provenance: Provenance) -> CallResult:
        """Run it for another machine; `provenance` is where the input comes from."""
        ...


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a run can reach: memory through the gate, models and other machines."""

    base: Memory
    """The memory that the machine was loaded with."""
    memory: Memory
    """The machine's own handle, narrowed to its permissions."""
    scope: Scope
    """The scope of its memory."""
    machines: Mapping[str, Callee]
    resume: Callable[[str, Execution], CallResult]
    """Resumes the waiting run of a called machine, by its id."""
    model: Callable[[str | None], Model]
    """The model of a name."""


class Execution(msgspec.Struct, kw_only=True):
    """The state of one execution. Without resources, everything comes from the journal."""

    plan: Plan
    permissions: Permissions
    id: str
    mode: RunMode
    input: dict[str, Any]
    context: dict[str, Any]
    journal: Journal
    recorder: Recorder
    spending: Spending
    behaviour: Behaviour
    clock: Clock
    ids: Ids
    limits: Limits
    guards: tuple[ActiveGuard, ...] = ()
    resources: Resources | None = None
    assumed: Mapping[str, Any] = {}
    waited: Waiting | None = None
    """What the run waited for before it was resumed."""
    steps: dict[str, Any] = {}
    names: dict[str, Any] = {}
    asked: bool = False
    """Whether it has asked a model or a machine."""
    stores_reply: bool = False
    """Whether it ended with `remember` steps after it had asked: then its output is what they follow."""
    reply: Any = None
    """The value that the last step other than `remember` gave."""
    made_of: Provenances = msgspec.field(default_factory=Provenances)
    """Where the input and the values of steps come from that are not the machine's own."""
    last_made_of: Provenance = OWN
    """Where the value of the last step comes from, or the failure of the steps that failed."""
    reply_made_of: Provenance = OWN
    output_made_of: Provenance = OWN
    _visits: dict[str, int] = {}

    def __post_init__(self) -> None:
        """Set the names that expressions can read."""
        steps = {"steps": self.steps, "state": self.steps}
        self.names = {"input": self.input, **steps, "context": self.context, "error": None}

    def keep(self, step: str, value: Any, provenance: Provenance) -> None:
        """Store the value of a step, and where it comes from."""
        self.steps[step] = value
        self.made_of.put(("steps", step), provenance)

    def provenance_of(self, paths: Iterable[tuple[str, ...]]) -> Provenance:
        """Return where what is made of some paths comes from; a name alone may be that of a step."""
        return self.made_of.of([one for path in paths for one in _places(path)])

    def enter(self, step: str) -> Visit:
        """Enter a step."""
        time = self._visits[step] = self._visits.get(step, 0) + 1
        drawn = self.journal.find(step, time, "drawn")
        recorded: Any = None if drawn is None else [tuple(one) for one in drawn.value]
        if drawn is None and self.resources is None:
            recorded = []
        return Visit(self, step, time, ExpressionRun(clock=self.clock, ids=self.ids, recorded=recorded))


def _places(path: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    """Return what a path may read: a bare name is a step, or a field of the input."""
    if path[0] in ("input", "context", "error", "steps"):
        return (path,)
    return (("steps", *path[1:]),) if path[0] == "state" else (("steps", *path), ("input", *path))


class Visit:
    """One time that a step is entered."""

    __slots__ = ("_encoded", "about", "calls", "execution", "noted", "provenance", "run", "step", "time")

    def __init__(self, execution: Execution, step: str, time: int, run: ExpressionRun) -> None:
        """Start with nothing drawn."""
        self.execution = execution
        self.step = step
        self.time = time
        """How many times the step has been entered, this time included."""
        self.run = run
        self.about: dict[str, Any] = {}
        """Details for the ledger."""
        self.provenance = OWN
        """Where the value of the step comes from: from all expressions that were computed in it, and its effect."""
        self.calls: list[dict[str, Any]] = []
        """Machines that a model has called."""
        self._encoded: tuple[Any, bytes] | None = None
        self.noted = False
        """Whether its event was made."""

    def value(self, what: Raw | Compute) -> Any:
        """Return the value of an expression or of a `compute` step."""
        execution = self.execution
        program = execution.plan.programs[what.span]
        if execution.made_of:
            self.provenance |= execution.provenance_of(program.paths)
        return program.closure(execution.names, self.run)

    def test(self, condition: Raw) -> bool:
        """Return whether the value of an expression counts as true."""
        return self.execution.plan.programs[condition.span].test(self.execution.names, self.run)

    @property
    def contract(self) -> Contract | None:
        """The fields that the step returns or waits for."""
        return self.execution.plan.contracts.get(self.step)

    def find(self, kind: EntryKind) -> JournalEntry | None:
        """Return the journal's entry about this visit."""
        return self.execution.journal.find(self.step, self.time, kind)

    def record(
        self, kind: EntryKind, value: Any = None, *, error: Any = None, about: dict[str, Any] | None = None
    ) -> JournalEntry:
        """Add an entry about this visit to the journal."""
        entry = JournalEntry(step=self.step, time=self.time, kind=kind, value=value, error=error, about=about or {})
        self._encoded = (value, self.execution.journal.add(entry))
        return entry

    def payload(self, value: Any) -> bytes:
        """Return the step's value as JSON, reusing the encoding of the journal."""
        return self._encoded[1] if self._encoded is not None and self._encoded[0] is value else encode(value)

    def leave(self) -> None:
        """Record what was drawn, so that it is the same when the run resumes or is replayed."""
        if self.run.drawn and self.find("drawn") is None:
            self.record("drawn", [list(one) for one in self.run.drawn])
