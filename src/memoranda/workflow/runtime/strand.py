"""One line of steps: what they see, what they change, and whether they are to stop.

A run begins with one strand. Branches of a `parallel` get strands of their own, which see everything as it was when
they began, and themselves; what they changed is put together afterwards.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any

from memoranda.workflow.actions.base import Stopped
from memoranda.workflow.jsonata import UNDEFINED
from memoranda.workflow.keywords import RESERVED_CONTEXT
from memoranda.workflow.records import WorkingMemory


class Stop:
    """Says whether something is over; what is inside of it is over too."""

    __slots__ = ("_lock", "_outer", "_over")

    def __init__(self, around: Stop | None = None) -> None:
        """Begin as not over, inside of something else."""
        self._outer: tuple[Stop, ...] = () if around is None else (*around._outer, around)
        self._lock = RLock()
        self._over = False

    def set(self) -> None:
        """End it, as soon as nothing is being changed inside of it."""
        with self._lock:
            self._over = True

    def check(self) -> None:
        """Raise Stopped once it is over."""
        if self._over or any(one._over for one in self._outer):
            raise Stopped("this was cut off")

    @contextmanager
    def going_on(self) -> Generator[None]:
        """Change something while it is not over: it does not end in between."""
        with ExitStack() as held:
            # From the outside in, so that two never wait for each other.
            for one in (*self._outer, self):
                held.enter_context(one._lock)
            self.check()
            yield


class Strand:
    """What a line of steps sees and changes."""

    __slots__ = (
        "accumulator",
        "changed_context",
        "changed_outputs",
        "context",
        "iteration",
        "may_wait",
        "memory",
        "outputs",
        "result",
        "stop",
    )

    def __init__(
        self,
        memory: WorkingMemory,
        *,
        outputs: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        stop: Stop | None = None,
        may_wait: bool = True,
    ) -> None:
        """Begin with what is known."""
        self.memory = memory
        self.outputs: dict[str, Any] = dict(outputs or {})
        self.context: dict[str, Any] = dict(context or {})
        self.result: Any = UNDEFINED
        self.iteration: dict[str, Any] | None = None
        self.accumulator: Any = UNDEFINED
        self.stop = stop or Stop()
        self.may_wait = may_wait
        """Whether the run can be suspended here."""
        self.changed_outputs: dict[str, Any] = {}
        self.changed_context: dict[str, Any] = {}

    def variables(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """Return what expressions see; what is not there is left out, so that reading it is no error."""
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

    def give(self, name: str, value: Any) -> None:
        """Put what a task or a loop gave under its name."""
        self.outputs[name] = self.changed_outputs[name] = value

    def set_context(self, values: Mapping[str, Any]) -> None:
        """Put values into the context."""
        # A new one each time: an expression may be reading the old one.
        self.context = {**self.context, **values}
        self.changed_context.update(values)

    def fork(self) -> Strand:
        """Return a strand for a branch: it sees what this one sees now."""
        branch = Strand(
            self.memory.branch(),
            outputs=self.outputs,
            context=self.context,
            stop=Stop(self.stop),
            may_wait=False,
        )
        branch.result, branch.iteration, branch.accumulator = self.result, self.iteration, self.accumulator
        return branch

    def join(self, branch: Strand) -> None:
        """Take over what a branch has changed; its memory is shown already."""
        for name, value in branch.changed_outputs.items():
            self.give(name, value)
        if branch.changed_context:
            self.set_context(branch.changed_context)
        self.result = branch.result
