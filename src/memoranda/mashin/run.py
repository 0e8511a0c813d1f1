"""A run of a machine: resume it, decide about it, cancel it, replay it, and simulate it under other permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from memoranda.lang.expression.dialect import ExpressionRun as Drawing
from memoranda.mashin.permissions import Permissions
from memoranda.mashin.runtime.execution import Begun, Execution, Resources, Spending
from memoranda.mashin.runtime.flow import execute
from memoranda.model.event import OVER, Decision, RunStatus, RunSummary
from memoranda.model.value import decode, encode_checked
from memoranda.runs.outcome import Failure, Outcome, Waiting
from memoranda.runs.recorder import Recorder
from memoranda.runs.run import RunHandle
from memoranda.runs.storage import Journal, JournalEntry, StoredRun, run_scope

if TYPE_CHECKING:
    from memoranda.mashin.machine import Machine


class Run(RunHandle):
    """A run of a machine that has ended, or waits."""

    def __init__(self, machine: Machine, kept: StoredRun, *, steps: dict[str, Any] | None = None) -> None:
        """Wrap a stored run; `machine.run` and `machine.find` make these."""
        super().__init__(machine.memory, kept)
        self._machine = machine
        self._steps = steps

    @property
    def machine(self) -> str:
        """The name of its machine."""
        return self._kept.summary.program

    @property
    def input(self) -> dict[str, Any]:
        """Its input, with defaults."""
        return Begun.read(self._kept.begun).input

    @property
    def used(self) -> dict[str, int]:
        """What it has used of its budget, by name, the machines it called included."""
        return Begun.read(self._kept.begun).used

    @property
    def steps(self) -> dict[str, Any]:
        """The value of each step, by name; for a run that was found again, from a replay.

        If its machine may not run here, only the stored values.
        """
        if self._steps is None:
            stored = {entry.step: entry.value for entry in self._kept.entries if entry.kind == "result"}
            self._steps = self.replay().steps if self._machine.is_installed else stored
        return self._steps

    # decide and resume

    def approve(self, *, reason: str = "") -> Run:
        """Approve the step that waits, and resume; a run that another actor began waits for them to resume it."""
        return self._decide(self._machine.memory.approvals.approve, reason)

    def refuse(self, *, reason: str = "") -> Run:
        """Refuse the step that waits; the run continues with its `on failure`, or fails."""
        return self._decide(self._machine.memory.approvals.refuse, reason)

    def _decide(self, decide: Callable[..., object], reason: str) -> Run:
        if self.is_ours:
            self._machine.ensure_ready()
        self._reload_waiting()
        decide(self._approval(), reason=reason)
        return self.resume() if self.is_ours else self

    @property
    def is_ours(self) -> bool:
        """Whether the run has the same actor as this handle: only that actor may resume it."""
        return self._kept.summary.actor == self._machine.actor

    def deliver(self, payload: Any = None) -> Run:
        """Deliver the event that the run waits for; a payload that does not fit is refused, and the run still waits."""
        self._machine.ensure_ready()
        waiting = self._require_waiting_for("event")
        if self._is_late(waiting):
            return self.resume()
        memory = self._machine.memory
        payload = decode(encode_checked(payload, memory.limits))
        contract = self._machine.plan.contracts.get(waiting.step)
        if contract is not None:
            drawing = Drawing(clock=memory.clock, ids=memory.ids)
            payload = contract.answer(payload, run=drawing, what="the event")
        return self._resume_with(JournalEntry(step=waiting.step, time=waiting.time, kind="event", value=payload))

    def resume(self, *, spending: Spending | None = None) -> Run:
        """Resume the run if what it waits for is there: a decision, a deadline, or the run of another machine.

        A run that still waits is returned as it is.
        """
        self._machine.ensure_installed()
        waiting = self._require_waiting()
        if waiting.kind == "approval":
            approval = self._machine.memory.runs.decision(self.id, self._approval())
            if approval.status == "pending":
                return self
            about = {"approval": approval.id, "by": approval.decided_by, "reason": approval.reason}
            verdict = JournalEntry(
                step=waiting.step, time=waiting.time, kind="verdict", value=approval.status, about=about
            )
            return self._resume_with(verdict, spending)
        if waiting.kind == "event":
            if not self._is_late(waiting):
                return self
            late = JournalEntry(step=waiting.step, time=waiting.time, kind="event", about={"timeout": True})
            return self._resume_with(late, spending)
        # Check the called machine first: it is too late once this run has resumed.
        self._machine.find_called(waiting.run or "")._machine.ensure_ready()
        return self._resume_with(None, spending)

    def cancel(self, *, reason: str = "", force: bool = False) -> Run:
        """Cancel a run that waits, and the run of another machine that it waits for.

        With `force`, also one that is `running`: its process may be gone. If it is not, its next step gets a Conflict.
        An approval that it asked for can still be decided, without effect.
        """
        if force and self.status == "running":
            return self._machine.cancel_run(self._reload_running(), reason)
        waiting = self._require_waiting()
        if waiting.run is not None:
            called = self._machine.find_called(waiting.run, verified=False)
            if called.status not in OVER:
                called.cancel(reason=reason, force=force)
        return self._machine.cancel_run(self._reload_waiting(verified=False), reason)

    def _resume_with(self, entry: JournalEntry | None, spending: Spending | None = None) -> Run:
        return self._machine.resume_run(self._reload_waiting(), entry, spending=spending)

    def _approval(self) -> str:
        waiting = self._require_waiting_for("approval")
        assert waiting.approval is not None, "a run that waits for approval has asked for it"
        return waiting.approval

    # replay

    def replay(self) -> Replay:
        """Run the same steps again on what was recorded; nothing is asked, read or written."""
        self._machine.ensure_installed()
        return _replay(self._machine, self._kept)

    def simulate(
        self, *, allow: Iterable[str] = (), approve: Iterable[str] = (), deny: Iterable[str] = ()
    ) -> Simulation:
        """Replay the run under changed permissions, to see what would have been denied."""
        self._machine.ensure_installed()
        permissions = self._machine.plan.permissions.replace(allow=allow, approve=approve, deny=deny)
        return _simulate(self._machine, self._kept, permissions)


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The result of replaying a run."""

    status: RunStatus
    output: Any
    error: Failure | None
    steps: dict[str, Any]
    differences: tuple[str, ...]
    """What differs from the recorded run, in words."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.differences


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about a step: as it was, and as it would be."""

    step: str
    capability: str
    decision: Decision
    was: Decision | None
    """None where the run had not reached it."""
    reason: str = ""


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """A run under other permissions, as far as the recorded data allows."""

    status: RunStatus
    output: Any
    error: Failure | None
    decisions: tuple[Decided, ...]

    @property
    def denied(self) -> tuple[Decided, ...]:
        """The steps that would have been denied."""
        return tuple(one for one in self.decisions if one.decision == "deny")

    @property
    def pending(self) -> tuple[Decided, ...]:
        """The steps that would have waited for a person; the simulation continues as if they were approved."""
        return tuple(one for one in self.decisions if one.decision == "pending")

    @property
    def changed(self) -> tuple[Decided, ...]:
        """The decisions that would have been different."""
        return tuple(one for one in self.decisions if one.decision != one.was)


def _replay(machine: Machine, kept: StoredRun) -> Replay:
    execution, outcome = _execute_again(machine, kept, None)
    return Replay(
        status=outcome.status,
        output=outcome.output,
        error=outcome.error,
        steps=execution.steps,
        differences=tuple(_differences(machine, kept, execution, outcome)),
    )


def _simulate(machine: Machine, kept: StoredRun, permissions: Permissions) -> Simulation:
    before, _ = _execute_again(machine, kept, None)
    was: dict[tuple[str, str, int], Decision] = {
        (step, about, time): decision for step, about, time, decision, _ in _decisions(before)
    }
    execution, outcome = _execute_again(machine, kept, permissions)
    return Simulation(
        status=outcome.status,
        output=outcome.output,
        error=outcome.error,
        decisions=tuple(
            Decided(step=step, capability=about, decision=decision, was=was.get((step, about, time)), reason=reason)
            for step, about, time, decision, reason in _decisions(execution)
        ),
    )


def make_execution(
    machine: Machine,
    summary: RunSummary,
    begun: Begun,
    *,
    journal: Journal,
    recorder: Recorder,
    spending: Spending,
    resources: Resources | None = None,
    permissions: Permissions | None = None,
    assumed: Mapping[str, Any] | None = None,
    waiting: Waiting | None = None,
) -> Execution:
    """Return the state of a run before its first step; without resources it takes everything from the journal."""
    memory = machine.memory
    return Execution(
        plan=machine.plan,
        permissions=permissions or machine.plan.permissions,
        id=summary.id,
        mode="test" if summary.mode == "test" else "live",
        input=begun.input,
        context=begun.context,
        journal=journal,
        recorder=recorder,
        spending=spending,
        behaviour=begun.chosen.over(machine.behaviour),
        clock=memory.clock,
        ids=memory.ids,
        limits=memory.limits,
        guards=machine.guards,
        resources=resources,
        assumed=assumed or {},
        waited=waiting,
    )


def _execute_again(machine: Machine, kept: StoredRun, permissions: Permissions | None) -> tuple[Execution, Outcome]:
    memory, summary, begun = machine.memory, kept.summary, Begun.read(kept.begun)
    execution = make_execution(
        machine,
        summary,
        begun,
        journal=Journal(kept.entries, limits=memory.limits),
        recorder=Recorder(None, run_scope(memory.tenant, summary.id), summary.id),
        spending=Spending(begun.budget, begun.before),
        permissions=permissions,
    )
    return execution, execute(execution, lambda outcome: outcome)


def _decisions(execution: Execution) -> list[tuple[str, str, int, Decision, str]]:
    """Return the first decisions about steps: step, capability or guard, ordinal of the visit, decision, and why."""
    found: list[tuple[str, str, int, Decision, str]] = []
    times: dict[tuple[str, str], int] = {}
    for note in execution.recorder.made:
        if note.kind == "policy_decision" and note.step is not None and note.decision not in ("approved", "refused"):
            about = str(note.detail.get("capability") or note.detail.get("guard") or "")
            time = times[note.step, about] = times.get((note.step, about), 0) + 1
            found.append((note.step, about, time, note.decision, str(note.detail.get("reason", ""))))
    return found


def _differences(machine: Machine, kept: StoredRun, execution: Execution, outcome: Outcome) -> list[str]:
    summary = kept.summary
    # A run that waits, or was cancelled while it did, has no end of its own to compare.
    ended = summary.status not in ("waiting", "cancelled")
    found: list[str] = []
    if machine.plan.digest != summary.digest:
        found.append("the text of the machine is another one")
    if outcome.status != summary.status and ended:
        found.append(f"it was {summary.status} and is {outcome.status}")
    if outcome.output != kept.output:
        found.append("the output is another one")
    was = (summary.error or {}).get("type")
    now = outcome.error.type if outcome.error else None
    if was != now and ended:
        found.append(f"the failure was {was} and is {now}")
    recorded = [(event.kind, event.step, event.decision) for event in machine.memory.runs.events(summary.id)]
    if summary.status == "cancelled":
        recorded = recorded[:-1]
    made = [(note.kind, note.step, note.decision) for note in execution.recorder.made][: len(recorded)]
    if summary.events and made != recorded:
        place = next((n for n, (one, two) in enumerate(zip(made, recorded, strict=False)) if one != two), len(made))
        found.append(f"from event {place + 1} on, other things happen")
    return found
