"""One run of a machine: what came of it, and how to go on with it, look at it, verify it and replay it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import msgspec

from recollect.errors import Conflict, RunFailed, UsageError
from recollect.lang.expression.dialect import Run as Drawing
from recollect.mashin.keeping import begun_of
from recollect.mashin.replaying import Replay, Simulation, replay_run, simulate_run
from recollect.mashin.runtime.failures import Failure
from recollect.mashin.runtime.plan import WaitFor
from recollect.model.run import RunEvent, RunStatus, RunSummary, RunVerification
from recollect.model.text import quote
from recollect.model.value import decode, encode_checked
from recollect.runs.journal import Noted
from recollect.runs.keeping import KeptRun, read_run
from recollect.runs.waiting import Waiting

if TYPE_CHECKING:
    from recollect.mashin.machine import Machine
    from recollect.mashin.runtime.budget import Spending


class Run:
    """A run that has ended, or waits for somebody."""

    def __init__(self, machine: Machine, kept: KeptRun, *, steps: dict[str, Any] | None = None) -> None:
        """Stand on what is kept of a run; `machine.run` and `machine.find` make these."""
        self._machine = machine
        self._kept = kept
        self._steps = steps

    @property
    def id(self) -> str:
        """Its id."""
        return self._kept.summary.id

    @property
    def machine(self) -> str:
        """The name of its machine."""
        return self._kept.summary.machine

    @property
    def status(self) -> RunStatus:
        """Where it stands: completed, failed, waiting, or running in some process."""
        return self._kept.summary.status

    @property
    def summary(self) -> RunSummary:
        """Everything there is to say about it, without its data."""
        return self._kept.summary

    @property
    def input(self) -> dict[str, Any]:
        """What it began with, defaults filled in."""
        return begun_of(self._kept.begun).input

    @property
    def output(self) -> Any:
        """What the machine gave; None unless it has completed."""
        return self._kept.output

    @property
    def steps(self) -> dict[str, Any]:
        """What each step gave, by name; of a run that was found again, by replaying it."""
        if self._steps is None:
            self._steps = self.replay().steps
        return self._steps

    @property
    def error(self) -> Failure | None:
        """Why it failed."""
        error = self._kept.summary.error
        return None if error is None else msgspec.convert(error, Failure)

    @property
    def waiting(self) -> Waiting | None:
        """What it waits for."""
        waiting = self._kept.summary.waiting
        return None if waiting is None else msgspec.convert(waiting, Waiting)

    @property
    def events(self) -> list[RunEvent]:
        """Its events in the ledger, in order."""
        return self._machine.memory.runs.events(self.id)

    def verify(self) -> RunVerification:
        """Return whether its events are whole, in order and as they were written."""
        return self._machine.memory.runs.verify(self.id)

    def check(self) -> Self:
        """Return this run, or raise RunFailed if it failed."""
        error = self.error
        if error is not None:
            where = f" at {quote(error.step)}" if error.step else ""
            raise RunFailed(
                f"the machine {quote(self.machine)} failed{where}: {error.message}",
                hint=str(error.details.get("hint", "")),
                run=self.id,
                type=error.type,
                step=error.step,
            )
        return self

    # going on

    def approve(self, *, reason: str = "") -> Run:
        """Approve the step that waits, and go on; a run that somebody else began waits for them to resume it."""
        self._machine.memory.approvals.approve(self._approval(), reason=reason)
        return self.resume() if self.is_ours else self

    def refuse(self, *, reason: str = "") -> Run:
        """Refuse the step that waits; the run goes on with its `on failure`, or fails."""
        self._machine.memory.approvals.refuse(self._approval(), reason=reason)
        return self.resume() if self.is_ours else self

    @property
    def is_ours(self) -> bool:
        """Whether the run acts for whom this handle acts for: nobody goes on with it under other rights."""
        return self._kept.summary.actor == self._machine.actor

    def deliver(self, payload: Any = None) -> Run:
        """Give the run the event it waits for; a payload that does not fit is refused, and the run waits on."""
        waiting = self._waits_for("event")
        if self._is_late(waiting):
            return self.resume()
        payload = decode(encode_checked(payload, self._machine.memory.limits))
        step = self._machine.plan.steps[waiting.step]
        if isinstance(step, WaitFor) and step.schema is not None:
            memory = self._machine.memory
            drawing = Drawing(clock=memory.clock, ids=memory.ids)
            payload = step.schema.answer(payload, run=drawing, what="the event")
        return self._go_on(Noted(step=waiting.step, time=waiting.time, kind="event", value=payload))

    def resume(self, *, spending: Spending | None = None) -> Run:
        """Go on if what the run waits for is there: a decision, the end of a time, the run of another machine.

        A run that still waits is returned as it is.
        """
        waiting = self.waiting
        if waiting is None:
            raise Conflict(
                f"the run {quote(self.id)} is {self.status} and waits for nothing",
                hint="Only a run that waits can be resumed",
                expected="waiting",
                actual=self.status,
            )
        if waiting.kind == "approval":
            approval = self._machine.memory.runs.decision(self.id, self._approval())
            if approval.status == "pending":
                return self
            about = {"approval": approval.id, "by": approval.decided_by, "reason": approval.reason}
            return self._go_on(
                Noted(step=waiting.step, time=waiting.time, kind="verdict", value=approval.status, about=about),
                spending,
            )
        if waiting.kind == "event":
            if not self._is_late(waiting):
                return self
            late = Noted(step=waiting.step, time=waiting.time, kind="event", about={"timeout": True})
            return self._go_on(late, spending)
        return self._go_on(None, spending)

    def _go_on(self, entry: Noted | None, spending: Spending | None = None) -> Run:
        # What is kept may be newer than this handle: somebody else may have gone on with the run.
        kept = read_run(self._machine.memory, self.id)
        if kept.summary.waiting != self._kept.summary.waiting:
            raise Conflict(
                f"the run {quote(self.id)} went on elsewhere in the meantime",
                hint="Find it again to see where it stands",
                expected="waiting",
                actual=kept.summary.status,
            )
        return self._machine.resumed(kept, entry, spending=spending)

    def _approval(self) -> str:
        waiting = self._waits_for("approval")
        assert waiting.approval is not None, "a run that waits for approval has asked for it"
        return waiting.approval

    def _waits_for(self, kind: str) -> Waiting:
        waiting = self.waiting
        if waiting is None or waiting.kind != kind:
            stands = f"waits for {_article(waiting.kind)}" if waiting else f"is {self.status}"
            raise UsageError(
                f"the run {quote(self.id)} {stands}, not waiting for {_article(kind)}",
                hint="Look at run.waiting",
                value=self.id,
            )
        return waiting

    def _is_late(self, waiting: Waiting) -> bool:
        now: datetime = self._machine.memory.clock.now()
        return waiting.deadline is not None and now >= waiting.deadline

    # looking back

    def replay(self) -> Replay:
        """Run the same steps once more on what was recorded: nothing is asked, read or written."""
        return replay_run(self._machine, self._kept)

    def simulate(
        self, *, allow: Iterable[str] = (), approve: Iterable[str] = (), deny: Iterable[str] = ()
    ) -> Simulation:
        """Replay the run under changed permissions: what would have been denied?"""
        changed = self._machine.plan.permissions.changed(allow=allow, approve=approve, deny=deny)
        return simulate_run(self._machine, self._kept, changed)

    def __repr__(self) -> str:
        """Return its id and where it stands."""
        return f"<recollect.mashin.Run {self.id} of {self.machine}: {self.status}>"


def _article(kind: str) -> str:
    return "another run" if kind == "run" else f"an {kind}"
