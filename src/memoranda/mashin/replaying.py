"""A run that is kept in, the same steps once more out: on what was recorded, without memory, models or writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from memoranda.mashin.keeping import begun_of
from memoranda.mashin.permissions import Permissions
from memoranda.mashin.runtime.budget import Spending
from memoranda.mashin.runtime.execution import Outcome, execute
from memoranda.mashin.runtime.failures import Failure
from memoranda.mashin.runtime.work import Work
from memoranda.model.event import Decision
from memoranda.model.run import RunStatus
from memoranda.runs.journal import Journal
from memoranda.runs.keeping import KeptRun, run_scope
from memoranda.runs.recording import Recorder

if TYPE_CHECKING:
    from memoranda.mashin.machine import Machine


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A run, taken once more."""

    status: RunStatus
    output: Any
    error: Failure | None
    steps: dict[str, Any]
    differences: tuple[str, ...]
    """What is not as it was, in words."""

    @property
    def same(self) -> bool:
        """Whether everything came out as it did then."""
        return not self.differences


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """One decision about a step: as it was, and as it would be."""

    step: str
    capability: str
    decision: Decision
    was: Decision | None
    """None where the run had not come to it."""
    reason: str = ""


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would have been under other permissions, as far as what was recorded can tell."""

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
        """The steps that would have had to wait for a person; the simulation goes on as if they were approved."""
        return tuple(one for one in self.decisions if one.decision == "pending")

    @property
    def changed(self) -> tuple[Decided, ...]:
        """The decisions that would have been others."""
        return tuple(one for one in self.decisions if one.decision != one.was)


def replay_run(machine: Machine, kept: KeptRun) -> Replay:
    """Take the steps of a run again and compare what comes out."""
    work, outcome = _again(machine, kept, None)
    return Replay(
        status=outcome.status,
        output=outcome.output,
        error=outcome.error,
        steps=work.steps,
        differences=tuple(_differences(machine, kept, work, outcome)),
    )


def simulate_run(machine: Machine, kept: KeptRun, permissions: Permissions) -> Simulation:
    """Take the steps of a run again under other permissions."""
    before, _ = _again(machine, kept, None)
    was: dict[tuple[str, str, int], Decision] = {
        (step, about, time): decision for step, about, time, decision, _ in _decisions(before)
    }
    work, outcome = _again(machine, kept, permissions)
    return Simulation(
        status=outcome.status,
        output=outcome.output,
        error=outcome.error,
        decisions=tuple(
            Decided(step=step, capability=about, decision=decision, was=was.get((step, about, time)), reason=reason)
            for step, about, time, decision, reason in _decisions(work)
        ),
    )


def _again(machine: Machine, kept: KeptRun, permissions: Permissions | None) -> tuple[Work, Outcome]:
    memory, summary, begun = machine.memory, kept.summary, begun_of(kept.begun)
    work = Work(
        machine.plan,
        id=summary.id,
        mode="test" if summary.mode == "test" else "live",
        input=begun.input,
        context=begun.context,
        journal=Journal(kept.entries, limits=memory.limits),
        recorder=Recorder(None, run_scope(memory.tenant, summary.id), summary.id),
        spending=Spending(begun.budget, begun.before),
        behaviour=begun.chosen.over(machine.behaviour),
        clock=memory.clock,
        ids=memory.ids,
        limits=memory.limits,
        guards=machine.guards,
        permissions=permissions,
    )
    return work, execute(work, lambda outcome: outcome)


def _decisions(work: Work) -> list[tuple[str, str, int, Decision, str]]:
    """Return the first decisions about steps: the step, the capability or guard, the how-manieth time, and why."""
    found: list[tuple[str, str, int, Decision, str]] = []
    times: dict[tuple[str, str], int] = {}
    for note in work.recorder.made:
        if note.kind == "policy_decision" and note.step is not None and note.decision not in ("approved", "refused"):
            about = str(note.detail.get("capability") or note.detail.get("guard") or "")
            time = times[note.step, about] = times.get((note.step, about), 0) + 1
            found.append((note.step, about, time, note.decision, str(note.detail.get("reason", ""))))
    return found


def _differences(machine: Machine, kept: KeptRun, work: Work, outcome: Outcome) -> list[str]:
    summary = kept.summary
    # What waits, or was cancelled while it did, has no end of its own to compare.
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
    made = [(note.kind, note.step, note.decision) for note in work.recorder.made][: len(recorded)]
    if summary.events and made != recorded:
        place = next((n for n, (one, two) in enumerate(zip(made, recorded, strict=False)) if one != two), len(made))
        found.append(f"from event {place + 1} on, other things happen")
    return found
