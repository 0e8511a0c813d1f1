"""A part of the work in, what another agent made of it out: `DELEGATE`, as a section and as an action."""

from __future__ import annotations

from typing import Any

from memoranda.abl.runtime.activating import activate, finish, first_frame
from memoranda.abl.runtime.coordination import find_departure, mark_done
from memoranda.abl.runtime.flow import run_flow
from memoranda.abl.runtime.plan import DelegatePlan, Do, Signal
from memoranda.abl.runtime.remembering import remember, store_result
from memoranda.abl.runtime.work import Departure, Fault, Frame, Work


def delegate(work: Work, plan: DelegatePlan) -> None:
    """Let another agent do a part of the work on values that it is given, and take over what it gives back."""
    if plan.when is not None:
        mark_done(work, "delegated", plan.number)
    given = {name: work.value(value) for name, value in plan.input}
    purpose = work.render(plan.purpose) if plan.purpose else ""
    for attempt in range(2):
        other = consult(work, plan.agent, given, purpose)
        if other is not None:
            for theirs, put in plan.returns:
                put(work, other.value_at(theirs, work.run))
            return
        if plan.on_failure != "retry" or attempt:
            break
    _delegation_failed(work, plan)


def _delegation_failed(work: Work, plan: DelegatePlan) -> None:
    if plan.on_failure == "escalate":
        work.departure = Departure("escalate", reason=f"{plan.agent} could not do its part")
    elif plan.on_failure == "respond" and plan.failure_message is not None:
        work.say(work.render(plan.failure_message))
    elif plan.on_failure not in ("continue", "retry"):
        raise Fault("agent_unavailable", f"the agent `{plan.agent}` could not do its part")


def consult(work: Work, agent: str, given: dict[str, Any], purpose: str = "") -> Frame | None:
    """Run another agent on some values until it is done; return where it stands, or None when it is not done then.

    It sees nothing of the session but what it is given, and it cannot speak to the user.
    """
    member = work.team(agent)
    if member is None:
        work.note("delegated", agent, failed="it is not loaded")
        return None
    if work.consulting >= work.behaviour.handoffs:
        work.note("stopped", "the agents", why=f"{work.consulting} of them wait for each other")
        return None
    active = work.frame
    frame = first_frame(member, active.facts.session)
    frame.names.update({name: active.names.get(name) for name in ("session_id", "user_id", "project_id", "tenant_id")})
    with work.aside(frame, purpose):
        activate(work, given)
        run_flow(work)
        remember(work, frame)
        finished = _finished(work)
    work.note("delegated", agent, given=given, finished=finished)
    return frame if finished else None


def _finished(work: Work) -> bool:
    """Say whether an agent that was asked has done its part, by its flow or by what its sections say; then end it."""
    departure = work.departure or find_departure(work)
    if departure is None or departure.kind != "complete":
        return False
    if departure.number is not None:
        store_result(work, work.frame, work.frame.plan.completes[departure.number])
    finish(work)
    return True


def compile_consult(agent: str) -> Do:
    """Return an action that asks another agent, as `DELEGATE` declares it, else with nothing but its own memory."""

    def run(work: Work) -> Signal:
        plan = next((plan for plan in work.frame.plan.delegates if plan.agent == agent), None)
        if plan is None:
            plan = DelegatePlan(number=-1, agent=agent, when=None, input=(), returns=())
        delegate(work, plan)
        return None

    return run
