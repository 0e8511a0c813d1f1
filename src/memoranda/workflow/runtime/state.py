"""The state of a running workflow: `Execution` is shared by the whole run, a `Strand` belongs to one sequence of steps.

A run begins with one strand. Each branch of a `parallel` gets a strand of its own, which sees the state as it was when
the branch began, plus its own changes; the changes of all branches are merged afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from threading import Lock, RLock
from typing import Any, Protocol

from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.errors import Hint, LimitExceeded
from memoranda.lang.egress import EgressPolicy
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.model.omission import Omissions
from memoranda.runs.outcome import CallResult, Paused, Waiting
from memoranda.runs.provenance import Provenance, Provenances
from memoranda.runs.recorder import Recorder
from memoranda.runs.records import WorkingMemory
from memoranda.workflow.actions.base import Stopped
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.document import Value
from memoranda.workflow.expressions import Template, is_true
from memoranda.workflow.jsonata import UNDEFINED
from memoranda.workflow.keywords import RESERVED_CONTEXT
from memoranda.workflow.runtime.plan import ModelChoice, Plan
from memoranda.workflow.threads import Thread

OUTPUT = ("outputs",)
"""The path under which the provenance of the output of a run is kept."""


class Stop:
    """A cancellation flag; when it is set, the flags inside it count as set too."""

    __slots__ = ("_lock", "_outer", "_over")

    def __init__(self, around: Stop | None = None) -> None:
        """Create a flag that is not set, inside `around`."""
        self._outer: tuple[Stop, ...] = () if around is None else (*around._outer, around)
        self._lock = RLock()
        self._over = False

    def set(self) -> None:
        """Set the flag, once no change is in progress inside it."""
        with self._lock:
            self._over = True

    def check(self) -> None:
        """Raise Stopped if the flag is set."""
        if self._over or any(one._over for one in self._outer):
            raise Stopped("this was stopped")

    @contextmanager
    def while_running(self) -> Generator[None]:
        """Keep the flag from being set during a change; raise Stopped if it is set already."""
        with ExitStack() as held:
            # From the outside in, so that there is no deadlock.
            for one in (*self._outer, self):
                held.enter_context(one._lock)
            self.check()
            yield


@dataclass(slots=True, eq=False)
class Strand:
    """What one sequence of steps sees and changes."""

    memory: WorkingMemory
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])
    context: dict[str, Any] = field(default_factory=dict[str, Any])
    stop: Stop = field(default_factory=Stop)
    may_wait: bool = True
    """Whether the run can be suspended here."""
    result: Any = UNDEFINED
    iteration: dict[str, Any] | None = None
    accumulator: Any = UNDEFINED
    changed_outputs: dict[str, Any] = field(default_factory=dict[str, Any])
    changed_context: dict[str, Any] = field(default_factory=dict[str, Any])
    provenances: Provenances = field(default_factory=Provenances)
    """Where the values of variables come from that are not the workflow's own."""

    def variables(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables of expressions; a missing one is left out, so that reading it is not an error."""
        seen: dict[str, Any] = {
            "input": input,
            "context": {**self.context, RESERVED_CONTEXT: self.memory.values},
            "output": self.outputs,
        }
        if self.iteration is not None:
            seen["iteration"] = self.iteration
        if self.accumulator is not UNDEFINED:
            seen["accumulator"] = self.accumulator
        if self.result is not UNDEFINED:
            seen["result"] = self.result
        return seen

    def give(self, name: str, value: Any, provenance: Provenance) -> None:
        """Store the output of a task or a loop under its name."""
        self.outputs[name] = self.changed_outputs[name] = value
        self.provenances.put(("output", name), provenance)

    def set_context(self, values: Mapping[str, Any], provenance: Provenance) -> None:
        """Set values in the context."""
        for name in values:
            self.provenances.put(("context", name), provenance)
        # A new dictionary each time: an expression may be reading the old one.
        self.context = {**self.context, **values}
        self.changed_context.update(values)

    def fork(self) -> Strand:
        """Return a strand for a branch, which sees the present state of this one."""
        return replace(
            self,
            memory=self.memory.branch(),
            outputs=dict(self.outputs),
            stop=Stop(self.stop),
            may_wait=False,
            changed_outputs={},
            changed_context={},
            provenances=Provenances(self.provenances),
        )

    def join(self, branch: Strand) -> None:
        """Merge the changes of a branch; its memory writes are visible already."""
        made_of = branch.provenances
        for name, value in branch.changed_outputs.items():
            self.give(name, value, made_of.of([("output", name)]))
        for name, value in branch.changed_context.items():
            self.set_context({name: value}, made_of.of([("context", name)]))
        self.result = branch.result
        self.provenances.put(("result",), made_of.of([("result",)]))


class Reach(Protocol):
    """What a run can reach besides its memory: models, the network, and other workflows."""

    def model(self, choice: ModelChoice | None) -> Model | None:
        """Return the model of a choice, or the one that replaces all models."""
        ...

    @property
    def egress(self) -> EgressPolicy:
        """Where requests may go."""
        ...

    def call(
        self, name: str, input: Mapping[str, Any], by: Execution, stop: Stop, provenance: Provenance
    ) -> CallResult:
        """Run another workflow for the same owner; `provenance` is where its input comes from."""
        ...

    def resume(self, run: str) -> CallResult:
        """Resume a called workflow that was waiting."""
        ...

    def cancel(self, run: str) -> None:
        """Cancel a called workflow that is waiting."""
        ...


class Suspended(Paused):
    """The run waits. While this propagates, it collects the position, from the innermost step outwards."""

    def __init__(self, waiting: Waiting) -> None:
        """Start with an empty position."""
        super().__init__(waiting)
        self.position: list[Any] = []

    def within(self, place: Any) -> None:
        """Prepend the position inside the enclosing step."""
        self.position.insert(0, place)


@dataclass(eq=False)
class Execution:
    """The state of one execution that all strands share."""

    plan: Plan
    _: KW_ONLY
    id: str
    owner: str
    input: dict[str, Any]
    memory: Memory
    recorder: Recorder
    behaviour: Behaviour
    reach: Reach
    depth: int = 1
    """The depth of workflow calls, including this one."""
    messages: list[str] = field(default_factory=list[str])
    steps: int = 0
    thread: Thread | None = None
    """The conversation that it is part of, once opened."""
    omissions: Callable[[], Omissions] = Omissions
    """Reads what models are not told, because it was forgotten since the run began."""
    said: list[tuple[datetime | None, Any]] = field(default_factory=list[tuple[datetime | None, Any]])
    """What is delivered to it now, which has no moment, and the history that it has read."""
    _lock: Lock = field(default_factory=Lock, init=False)

    def count_step(self) -> None:
        """Count a task; raise LimitExceeded if there are too many."""
        with self._lock:
            self.steps += 1
        most = self.behaviour.steps
        if self.steps > most:
            raise LimitExceeded(
                f"the run executed more than {most:,} tasks",
                hint=("Look for an endless loop", Hint("python", "Load with Behaviour(steps=…)")),
                limit=most,
                actual=self.steps,
            )

    def drawing(self) -> ExpressionRun:
        """Return the source of time and randomness for expressions."""
        return ExpressionRun(clock=self.memory.clock, ids=self.memory.ids)

    def value(self, template: Template | Value, strand: Strand) -> Any:
        """Return what a template, or a value of the document, is in a strand."""
        found = template if isinstance(template, Template) else self.plan.templates[template.path]
        return found.value(strand.variables(self.input), self.drawing(), bounds=self.behaviour.bounds)

    def provenance_of(self, template: Template | Value, strand: Strand) -> Provenance:
        """Return where what a template, or a value of the document, is in a strand comes from."""
        found = template if isinstance(template, Template) else self.plan.templates[template.path]
        paths = found.paths
        made_of = strand.provenances.of(paths)
        for path in paths:
            if path[0] == "context" and path[1:2] in ((), (RESERVED_CONTEXT,)):
                made_of |= strand.memory.provenance_of(path[2:3] or None)
        return made_of

    def test(self, value: Value, strand: Strand) -> bool:
        """Return whether a value of the document is true in a strand."""
        return is_true(self.value(value, strand))
