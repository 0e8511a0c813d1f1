"""One execution of a plan: whose it is, what all of its strands share, and what it may reach."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any, Protocol

import msgspec

from memoranda.agent.models import Model
from memoranda.api.memory import Memory
from memoranda.errors import LimitExceeded
from memoranda.lang.egress import EgressPolicy
from memoranda.lang.expression.dialect import Run
from memoranda.runs.recording import Recorder
from memoranda.runs.waiting import Paused, Waiting
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.expressions import Template
from memoranda.workflow.runtime.plan import ModelChoice, Plan
from memoranda.workflow.runtime.strand import Stop, Strand
from memoranda.workflow.threads import Thread


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """What came of another workflow that was called."""

    run: str
    status: str
    output: Any = None
    message: str = ""
    messages: tuple[str, ...] = ()
    """What it said meanwhile."""


class Reach(Protocol):
    """What a run can reach beside its memory: models, and other workflows."""

    def model(self, choice: ModelChoice | None) -> Model | None:
        """Return the model of a choice; the one that was passed for all of them, where there is one."""
        ...

    @property
    def egress(self) -> EgressPolicy:
        """Where requests may go."""
        ...

    def call(self, name: str, input: Mapping[str, Any], by: Work, stop: Stop) -> Called:
        """Run another workflow for the same owner, until it is stopped."""
        ...

    def take_up(self, run: str) -> Called:
        """Go on with a workflow that was called and waited."""
        ...

    def give_up(self, run: str) -> None:
        """Cancel a workflow that was called and waits."""
        ...


class Suspended(Paused):
    """The run waits; on its way out this learns where it stood, from the innermost step to the flow."""

    def __init__(self, waiting: Waiting) -> None:
        """Begin with what is waited for, nowhere yet."""
        super().__init__(waiting)
        self.position: list[Any] = []

    def within(self, place: Any) -> None:
        """Say where this is inside of the next larger step."""
        self.position.insert(0, place)


class Work:
    """The state of one execution that all of its strands share."""

    def __init__(
        self,
        plan: Plan,
        *,
        id: str,
        owner: str,
        input: dict[str, Any],
        memory: Memory,
        recorder: Recorder,
        behaviour: Behaviour,
        reach: Reach,
        depth: int = 1,
        messages: list[str] | None = None,
        steps: int = 0,
    ) -> None:
        """Begin, or go on, with what was said and done so far."""
        self.plan = plan
        self.id = id
        self.owner = owner
        self.thread: Thread | None = None
        """The conversation that it is part of, once it is opened."""
        self.input = input
        self.memory = memory
        self.recorder = recorder
        self.behaviour = behaviour
        self.reach = reach
        self.depth = depth
        """How many workflows call one another, this one included."""
        self.messages = messages if messages is not None else []
        self.steps = steps
        self._lock = Lock()

    def count_step(self) -> None:
        """Count a task that is done, and refuse one too many."""
        with self._lock:
            self.steps += 1
        most = self.behaviour.steps
        if self.steps > most:
            raise LimitExceeded(
                f"the run did more than {most:,} tasks",
                hint="Look for a loop that goes on and on, or load with Behaviour(steps=…)",
                limit=most,
                actual=self.steps,
            )

    def drawing(self) -> Run:
        """Return where an expression takes its time and its chances from."""
        return Run(clock=self.memory.clock, ids=self.memory.ids)

    def value(self, template: Template, strand: Strand) -> Any:
        """Return what a template gives among what a strand sees."""
        return template.value(strand.variables(self.input), self.drawing(), bounds=self.behaviour.bounds)

    def test(self, template: Template, strand: Strand) -> bool:
        """Return whether a template holds among what a strand sees."""
        return template.test(strand.variables(self.input), self.drawing(), bounds=self.behaviour.bounds)
