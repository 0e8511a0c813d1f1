"""One run of a machine: what came of it, and how to go on with it, look at it, verify it and replay it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from memoranda.lang.expression.dialect import Run as Drawing
from memoranda.mashin.keeping import begun_of
from memoranda.mashin.replaying import Replay, Simulation, replay_run, simulate_run
from memoranda.mashin.runtime.plan import WaitFor
from memoranda.model.run import OVER
from memoranda.model.value import decode, encode_checked
from memoranda.runs.handle import RunHandle
from memoranda.runs.journal import Noted
from memoranda.runs.keeping import KeptRun

if TYPE_CHECKING:
    from memoranda.mashin.machine import Machine
    from memoranda.mashin.runtime.budget import Spending


class Run(RunHandle):
    """A run of a machine that has ended, or waits for somebody."""

    def __init__(self, machine: Machine, kept: KeptRun, *, steps: dict[str, Any] | None = None) -> None:
        """Stand on what is kept of a run; `machine.run` and `machine.find` make these."""
        super().__init__(machine.memory, kept)
        self._machine = machine
        self._steps = steps

    @property
    def machine(self) -> str:
        """The name of its machine."""
        return self._kept.summary.program

    @property
    def input(self) -> dict[str, Any]:
        """What it began with, defaults filled in."""
        return begun_of(self._kept.begun).input

    @property
    def used(self) -> dict[str, int]:
        """What it has used of its budget, by name; what the machines used that it called is counted, too."""
        return begun_of(self._kept.begun).used

    @property
    def steps(self) -> dict[str, Any]:
        """What each step gave, by name; of a run that was found again, by replaying it.

        Of a machine that may not run here, what was kept of its steps.
        """
        if self._steps is None:
            kept = {entry.step: entry.value for entry in self._kept.entries if entry.kind == "result"}
            self._steps = self.replay().steps if self._machine.is_installed else kept
        return self._steps

    # going on

    def approve(self, *, reason: str = "") -> Run:
        """Approve the step that waits, and go on; a run that somebody else began waits for them to resume it."""
        return self._decide(self._machine.memory.approvals.approve, reason)

    def refuse(self, *, reason: str = "") -> Run:
        """Refuse the step that waits; the run goes on with its `on failure`, or fails."""
        return self._decide(self._machine.memory.approvals.refuse, reason)

    def _decide(self, decide: Callable[..., object], reason: str) -> Run:
        if self.is_ours:
            self._machine.ensure_ready()
        self._as_it_waits()
        decide(self._approval(), reason=reason)
        return self.resume() if self.is_ours else self

    @property
    def is_ours(self) -> bool:
        """Whether the run acts for whom this handle acts for: nobody goes on with it under other rights."""
        return self._kept.summary.actor == self._machine.actor

    def deliver(self, payload: Any = None) -> Run:
        """Give the run the event it waits for; a payload that does not fit is refused, and the run waits on."""
        self._machine.ensure_ready()
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
        self._machine.ensure_installed()
        waiting = self._require_waiting()
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
        # Before this run goes on: what cannot, must not be found out on the way.
        self._machine.find_called(waiting.run or "")._machine.ensure_ready()
        return self._go_on(None, spending)

    def cancel(self, *, reason: str = "", force: bool = False) -> Run:
        """End a run that waits, and the run of another machine that it waits for.

        With `force`, one that is `running` is ended too: its process may be gone. If it is not, it gets a Conflict with
        its next step. What it asked somebody to approve can still be decided, and nothing comes of it.
        """
        if force and self.status == "running":
            return self._machine.cancelled(self._as_it_runs(), reason)
        waiting = self._require_waiting()
        if waiting.run is not None:
            called = self._machine.find_called(waiting.run, verified=False)
            if called.status not in OVER:
                called.cancel(reason=reason, force=force)
        return self._machine.cancelled(self._as_it_waits(verified=False), reason)

    def _go_on(self, entry: Noted | None, spending: Spending | None = None) -> Run:
        return self._machine.resumed(self._as_it_waits(), entry, spending=spending)

    def _approval(self) -> str:
        waiting = self._waits_for("approval")
        assert waiting.approval is not None, "a run that waits for approval has asked for it"
        return waiting.approval

    # looking back

    def replay(self) -> Replay:
        """Run the same steps once more on what was recorded: nothing is asked, read or written."""
        self._machine.ensure_installed()
        return replay_run(self._machine, self._kept)

    def simulate(
        self, *, allow: Iterable[str] = (), approve: Iterable[str] = (), deny: Iterable[str] = ()
    ) -> Simulation:
        """Replay the run under changed permissions: what would have been denied?"""
        self._machine.ensure_installed()
        changed = self._machine.plan.permissions.changed(allow=allow, approve=approve, deny=deny)
        return simulate_run(self._machine, self._kept, changed)
