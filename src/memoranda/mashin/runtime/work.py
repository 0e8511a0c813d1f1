"""One execution of a plan: what it knows, what it may use, and where its results come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.lang.expression.dialect import Run
from memoranda.mashin.behaviour import Behaviour
from memoranda.mashin.guards import ActiveGuard
from memoranda.mashin.permissions import Permissions
from memoranda.mashin.runtime.budget import Spending
from memoranda.mashin.runtime.plan import Plan
from memoranda.model.clock import Clock
from memoranda.model.ids import Ids
from memoranda.model.limits import Limits
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.runs.journal import Journal, Kind, Noted
from memoranda.runs.recording import Recorder
from memoranda.runs.waiting import Waiting

Mode = Literal["live", "test"]


class Called(msgspec.Struct, frozen=True):
    """What came of a call of another machine: how its run stands, its output, or why it failed."""

    run: str
    status: str
    output: Any = None
    message: str = ""


class Callee(Protocol):
    """A machine that can be called by another."""

    @property
    def plan(self) -> Plan:
        """What it was compiled to."""
        ...

    def called(self, inputs: dict[str, Any], by: Work) -> Called:
        """Run it for another machine."""
        ...


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """What a run can reach: memory through the gate, models and other machines."""

    base: Memory
    """What the machine was loaded with."""
    memory: Memory
    """The handle of the machine: the gate lets it do what its permissions say, and no more."""
    keeper: Memory
    """The handle that records the run."""
    scope: Scope
    """Where its memory is."""
    machines: Mapping[str, Callee]
    take_up: Callable[[str, Work], Called]
    """Goes on with a run that was called and waited, by its id."""
    model: Callable[[str | None], Model]
    """The model of a name."""


class Work:
    """The state of one execution."""

    def __init__(
        self,
        plan: Plan,
        *,
        id: str,
        mode: Mode,
        input: dict[str, Any],
        context: dict[str, Any],
        journal: Journal,
        recorder: Recorder,
        spending: Spending,
        behaviour: Behaviour,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        guards: tuple[ActiveGuard, ...] = (),
        outside: Outside | None = None,
        permissions: Permissions | None = None,
        assumed: Mapping[str, Any] | None = None,
        waiting: Waiting | None = None,
    ) -> None:
        """Begin at the first step. Without an outside, everything comes from the journal."""
        self.plan = plan
        self.id = id
        self.mode: Mode = mode
        self.input = input
        self.context = context
        self.steps: dict[str, Any] = {}
        self.names: dict[str, Any] = {
            "input": input,
            "steps": self.steps,
            "state": self.steps,
            "context": context,
            "error": None,
        }
        self.journal = journal
        self.recorder = recorder
        self.spending = spending
        self.behaviour = behaviour
        self.clock = clock
        self.ids = ids
        self.limits = limits
        self.guards = guards
        self.outside = outside
        self.permissions = permissions or plan.permissions
        self.assumed = assumed or {}
        self.waited = waiting
        """What the run waited for when it was resumed: a machine that it called goes on."""
        self._times: dict[str, int] = {}

    def take(self, step: str) -> Taking:
        """Begin to take a step."""
        time = self._times[step] = self._times.get(step, 0) + 1
        drawn = self.journal.find(step, time, "drawn")
        recorded: Any = None if drawn is None else [tuple(one) for one in drawn.value]
        if drawn is None and self.outside is None:
            recorded = []
        return Taking(self, step, time, Run(clock=self.clock, ids=self.ids, recorded=recorded))


class Taking:
    """One time that a step is taken."""

    __slots__ = ("_written", "about", "calls", "noted", "run", "step", "time", "work")

    def __init__(self, work: Work, step: str, time: int, run: Run) -> None:
        """Begin with nothing drawn."""
        self.work = work
        self.step = step
        self.time = time
        self.run = run
        self.about: dict[str, Any] = {}
        """What the ledger says about it, beside its result."""
        self.calls: list[dict[str, Any]] = []
        """Machines that a model has called."""
        self._written: tuple[Any, bytes] | None = None
        self.noted = False
        """Whether its event was made already."""

    def value(self, program: Any) -> Any:
        """Return the value of an expression among what the run knows."""
        return program.closure(self.work.names, self.run)

    def find(self, kind: Kind) -> Noted | None:
        """Return what came from outside when this step was taken before."""
        return self.work.journal.find(self.step, self.time, kind)

    def keep(self, kind: Kind, value: Any = None, *, error: Any = None, about: dict[str, Any] | None = None) -> Noted:
        """Keep what came from outside."""
        entry = Noted(step=self.step, time=self.time, kind=kind, value=value, error=error, about=about or {})
        self._written = (value, self.work.journal.add(entry))
        return entry

    def written(self, value: Any) -> bytes:
        """Return the step's value as JSON, which was made already if it came from outside as it is."""
        return self._written[1] if self._written is not None and self._written[0] is value else encode(value)

    def done(self) -> None:
        """Keep what was drawn, so that it is drawn again when the run goes on or is replayed."""
        if self.run.drawn and self.find("drawn") is None:
            self.keep("drawn", [list(one) for one in self.run.drawn])
