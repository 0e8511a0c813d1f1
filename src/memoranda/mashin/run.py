"""A run of a machine: resume it, decide about it, cancel it, replay it, and simulate it under other permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from memoranda.lang.expression.dialect import ExpressionRun as Drawing
from memoranda.mashin.permissions import Permissions
from memoranda.mashin.runtime.execution import Begun, Execution, Resources, Spending
from memoranda.mashin.runtime.flow import execute
from memoranda.model.event import Decision, RunStatus, RunSummary
from memoranda.runs.outcome import Failure, Outcome, Waiting
from memoranda.runs.provenance import Provenance, Provenances
from memoranda.runs.recorder import Recorder
from memoranda.runs.run import RunHandle
from memoranda.runs.storage import Journal, JournalEntry, StoredRun, run_scope

if TYPE_CHECKING:
    from memoranda.mashin.machine import Machine


class Run(RunHandle["Machine"]):
    """A run of a machine that has ended, or waits."""

    def __init__(self, machine: Machine, stored: StoredRun, *, steps: dict[str, Any] | None = None) -> None:
        """Wrap a stored run; `machine.run` and `machine.find` make these."""
        super().__init__(machine, stored)
        self._steps = steps
        self._spending: Spending | None = None

    @property
    def machine(self) -> str:
        """The name of its machine."""
        return self._stored.summary.program

    @property
    def input(self) -> dict[str, Any]:
        """Its input, with defaults."""
        return Begun.read(self._stored.begun).input

    @property
    def used(self) -> dict[str, int]:
        """What it has used of its budget, by name, the machines it called included."""
        return Begun.read(self._stored.begun).used

    @property
    def _provenance(self) -> Provenance:
        return Begun.read(self._stored.begun).output_made_of

    @property
    def steps(self) -> dict[str, Any]:
        """The value of each step, by name; for a run that was found again, from a replay.

        If its machine may not run here, only the stored values.
        """
        if self._steps is None:
            results = {entry.step: entry.value for entry in self._stored.entries if entry.kind == "result"}
            self._steps = self.replay().steps if self._program.is_installed else results
        return self._steps

    @property
    def results(self) -> dict[str, Any]:
        """The value of each step, as `steps`."""
        return self.steps

    # decide and resume

    def approve(self, *, reason: str = "") -> Run:
        """Approve the step that waits, and resume; a run that another actor began waits for them to resume it."""
        return self._decide(self._memory.approvals.approve, reason)

    def refuse(self, *, reason: str = "") -> Run:
        """Refuse the step that waits; the run continues with its `on failure`, or fails."""
        return self._decide(self._memory.approvals.refuse, reason)

    def _decide(self, decide: Callable[..., object], reason: str) -> Run:
        if self.is_ours:
            self._program.ensure_ready()
        self._reload_waiting()
        decide(self._approval(), reason=reason)
        return self.resume() if self.is_ours else self

    @property
    def is_ours(self) -> bool:
        """Whether the run has the same actor as this handle: only that actor may resume it."""
        return self._stored.summary.actor == self._program.actor

    def _accept(self, waiting: Waiting, payload: Any) -> Any:
        contract = self._program.plan.contracts.get(waiting.step)
        if contract is None:
            return payload
        drawing = Drawing(clock=self._memory.clock, ids=self._memory.ids)
        return contract.answer(payload, run=drawing, what="the event")

    def resume_within(self, spending: Spending) -> Run:
        """Resume the run for the machine that called it, within the budget of that machine."""
        self._spending = spending
        return self.resume()

    def _resume_after(self, called: str) -> Run:
        # Check the called machine first: it is too late once this run has resumed.
        self._program.find_called(called)._program.ensure_ready()
        return self._resume_with(None)

    def _resume_with(self, entry: JournalEntry | None) -> Run:
        return self._program.resume_run(self._reload_waiting(), entry, spending=self._spending)

    # replay

    def replay(self) -> Replay:
        """Run the same steps again on what was recorded; nothing is asked, read or written."""
        self._program.ensure_installed()
        execution, outcome = _execute_again(self._program, self._stored)
        return Replay(
            status=outcome.status,
            output=outcome.output,
            error=outcome.error,
            steps=execution.steps,
            differences=tuple(_differences(self._program, self._stored, execution, outcome)),
        )

    def simulate(
        self, *, allow: Iterable[str] = (), approve: Iterable[str] = (), deny: Iterable[str] = ()
    ) -> Simulation:
        """Replay the run under changed permissions, to see what would have been denied."""
        self._program.ensure_installed()
        permissions = self._program.plan.permissions.replace(allow=allow, approve=approve, deny=deny)
        before, _ = _execute_again(self._program, self._stored)
        was: dict[tuple[str, str, int], Decision] = {
            (step, about, time): decision for step, about, time, decision, _ in _decisions(before)
        }
        execution, outcome = _execute_again(self._program, self._stored, permissions)
        return Simulation(
            status=outcome.status,
            output=outcome.output,
            error=outcome.error,
            decisions=tuple(
                Decided(step=step, capability=about, decision=decision, was=was.get((step, about, time)), reason=reason)
                for step, about, time, decision, reason in _decisions(execution)
            ),
        )


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
        made_of=Provenances({("input",): begun.provenance} if begun.provenance else {}),
    )


def _execute_again(
    machine: Machine, stored: StoredRun, permissions: Permissions | None = None
) -> tuple[Execution, Outcome]:
    memory, summary, begun = machine.memory, stored.summary, Begun.read(stored.begun)
    execution = make_execution(
        machine,
        summary,
        begun,
        journal=Journal(stored.entries, limits=memory.limits),
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


def _differences(machine: Machine, stored: StoredRun, execution: Execution, outcome: Outcome) -> list[str]:
    summary = stored.summary
    # A run that waits, or was cancelled while it did, has no end of its own to compare.
    ended = summary.status not in ("waiting", "cancelled")
    found: list[str] = []
    if machine.plan.digest != summary.digest:
        found.append("the text of the machine is another one")
    if outcome.status != summary.status and ended:
        found.append(f"it was {summary.status} and is {outcome.status}")
    if outcome.output != stored.output:
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
