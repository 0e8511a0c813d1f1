"""Where control goes after a turn: to a person, to another agent and back, or to the end of an agent's work."""

from __future__ import annotations

from typing import Literal

from memoranda.abl.runtime.activating import activate, finish, next_frame, run_handler
from memoranda.abl.runtime.flow import enter, reset
from memoranda.abl.runtime.plan import ContextPlan, HandoffPlan
from memoranda.abl.runtime.remembering import remember, store_result
from memoranda.abl.runtime.rules import broken_rule
from memoranda.abl.runtime.state import Grant, Mind
from memoranda.abl.runtime.work import Departure, Frame, Work
from memoranda.lang.expression.program import Expression


def find_departure(work: Work) -> Departure | None:
    """Return what the sections of the active agent say after a turn: a person, another agent, or the end."""
    plan = work.frame.plan
    for number, trigger in enumerate(plan.escalations):
        if work.test(trigger.when) and not _done_before(work, "escalated", number):
            mark_done(work, "escalated", number)
            reason = work.render(trigger.reason) if trigger.reason else ""
            return Departure("escalate", reason=reason, priority=trigger.priority, tags=trigger.tags)
    for handoff in plan.handoffs:
        if handoff.when is not None and work.test(handoff.when) and not _done_before(work, "handed", handoff.number):
            return Departure("handoff", agent=handoff.to, number=handoff.number)
    for delegate in plan.delegates:
        if (
            delegate.when is not None
            and work.test(delegate.when)
            and not _done_before(work, "delegated", delegate.number)
        ):
            return Departure("delegate", agent=delegate.agent, number=delegate.number)
    for number, complete in enumerate(plan.completes):
        if work.test(complete.when) and not _done_before(work, "completed", number):
            return Departure("complete", number=number)
    return None


Once = Literal["handed", "delegated", "escalated", "completed"]
"""What is done once until its condition was false, as the mind of an agent calls it."""


def _done(mind: Mind, what: Once) -> list[int]:
    return getattr(mind, what)


def _done_before(work: Work, what: Once, number: int) -> bool:
    """Say whether it was done since its condition last became true; what comes back is not sent off every turn."""
    return number in _done(work.frame.state.mind, what)


def mark_done(work: Work, what: Once, number: int) -> None:
    """Keep in mind that something an agent leads to was done; see `rearm`."""
    mind = work.frame.state.mind
    setattr(mind, what, [*_done(mind, what), number])


def hear_anew(work: Work) -> None:
    """Let handoffs that are about the user's words be done again for other words."""
    mind = work.frame.state.mind
    if mind.handed:
        by_words = {plan.number for plan in work.frame.plan.handoffs if plan.by_words}
        mind.handed = [number for number in mind.handed if number not in by_words]


def rearm(work: Work) -> None:
    """Let what an agent leads to be done again when its condition no longer holds."""
    mind, plan = work.frame.state.mind, work.frame.plan
    if not (mind.handed or mind.delegated or mind.escalated or mind.completed):
        return
    conditions: dict[Once, dict[int, Expression | None]] = {
        "handed": {one.number: one.when for one in plan.handoffs},
        "delegated": {one.number: one.when for one in plan.delegates},
        "escalated": {number: one.when for number, one in enumerate(plan.escalations)},
        "completed": {number: one.when for number, one in enumerate(plan.completes)},
    }
    for what, whens in conditions.items():
        done = _done(mind, what)
        if done:
            still = [number for number in done if (when := whens.get(number)) is not None and work.test(when)]
            setattr(mind, what, still)


def escalate(work: Work, departure: Departure) -> None:
    """Call a person: the session waits for one, with what they should know."""
    seen = {path: work.frame.value_at(path, work.run) for path in work.frame.plan.context_for_human}
    context = {path: value for path, value in seen.items() if value is not None}
    work.session.status = "escalated"
    work.escalation = {
        "reason": departure.reason,
        "priority": departure.priority,
        "tags": list(departure.tags),
        "context": context,
    }
    shown = work.frame.shown(context)
    work.note("escalated", departure.reason or work.frame.plan.name, priority=departure.priority, context=shown)


def hand_off(work: Work, departure: Departure) -> bool:
    """Make another agent active; say whether it goes on in this turn."""
    plan = work.frame.plan
    handoff = _plan_of(work, departure)
    member = work.team(departure.agent)
    if member is None:
        return _unreachable(work, departure, handoff)
    given = {path: work.frame.value_at(path, work.run) for path in handoff.context.values} if handoff else {}
    if handoff:
        given.update({name: work.value(value) for name, value in handoff.context.set})
    summary = work.render(handoff.context.summary) if handoff and handoff.context.summary else None
    grants = _grants(work.frame, handoff.context) if handoff else {}
    shown = work.frame.shown(given) or None
    work.note("handed_off", departure.agent, by=plan.name, because=departure.reason or None, given=shown)
    returns = bool(handoff and handoff.returns)
    work.frame.names["handoff"] = {"completed": False, "to": departure.agent}
    # An agent that gives away a conversation which it was to give back gives that away too.
    way_back = work.frame.state.handoff
    if handoff is not None and returns:
        mark_done(work, "handed", handoff.number)
    else:
        _retire(work)
    frame = next_frame(work, member, grants)
    frame.state.handoff = handoff.number if handoff and returns else way_back
    before = frame.state.mind
    frame.state.mind = Mind(
        hidden=before.hidden,
        injected=before.injected,
        summary=summary or "",
        by_rule=departure.by_rule,
        history=_history(work, handoff),
    )
    work.moved, work.answered = True, None
    work.frames.append(frame)
    _take_over_names(work, frame)
    work.frame = frame
    work.session.status = "waiting"
    activate(work, {name: value for name, value in given.items() if value is not None})
    return True


def _grants(frame: Frame, context: ContextPlan) -> dict[str, Grant]:
    """Return what the next agent may use of the active one's memory."""
    find = frame.plan.declarations.find
    return {path: frame.facts.grant(path, access, find(path)) for path, access in context.grants}


def _plan_of(work: Work, departure: Departure) -> HandoffPlan | None:
    handoffs = work.frame.plan.handoffs
    if departure.number is not None:
        return next(plan for plan in handoffs if plan.number == departure.number)
    return next((plan for plan in handoffs if plan.to == departure.agent), None)


def _history(work: Work, handoff: HandoffPlan | None) -> tuple[int, int | None]:
    """Return from which turn on the next agent sees the whole conversation, and how many messages before it."""
    mode = handoff.context.history if handoff else "auto"
    if mode in ("none", "summary_only"):
        return work.session.number, 0
    if mode == "last_n" and handoff and handoff.context.count:
        return work.session.number, handoff.context.count
    return 0, None


_PASSED_ON = (
    *("input", "last_input", "turn_count", "language", "locale", "channel"),
    *("session_id", "user_id", "project_id", "tenant_id"),
)
"""Names of the runtime that are the same for every agent of a session."""


def _take_over_names(work: Work, frame: Frame) -> None:
    for name in _PASSED_ON:
        if name in work.frame.names:
            frame.names[name] = work.frame.names[name]


def _retire(work: Work) -> None:
    """Take the conversation from the active agent; its variables stay with it until the session ends."""
    finish(work)
    frame = work.frames.pop()
    frame.state.step, frame.state.stack, frame.state.wait, frame.state.collecting = None, [], "done", None
    work.resting[frame.plan.name] = frame


def _unreachable(work: Work, departure: Departure, handoff: HandoffPlan | None) -> bool:
    """Hand over to an agent that is not loaded here: by what the handoff says for that case, else to the program."""
    failure = handoff.on_failure if handoff else ""
    if failure == "continue":
        work.note("warning", f"the agent `{departure.agent}` is not loaded, and the flow goes on")
        work.departure = None
        return False
    if failure == "escalate":
        escalate(work, Departure("escalate", reason=f"the agent {departure.agent} cannot be reached"))
        return False
    if failure == "respond" and handoff and handoff.failure_message:
        work.note("warning", f"the agent `{departure.agent}` is not loaded")
        work.say(work.render(handoff.failure_message))
        work.wait("halted")
        return False
    if handoff is not None:
        mark_done(work, "handed", handoff.number)
    work.session.status = "handed_off"
    work.frame.names["handoff"] = {"completed": False, "to": departure.agent}
    work.note("handed_off", departure.agent, by=work.frame.plan.name, because=departure.reason or None, here=False)
    return False


def complete(work: Work, departure: Departure) -> bool:
    """End the active agent's work; say whether another agent goes on in this turn."""
    frame = work.frame
    if departure.number is not None:
        plan = frame.plan.completes[departure.number]
        if plan.respond is not None:
            work.say(work.render(plan.respond))
        store_result(work, frame, plan)
        mark_done(work, "completed", departure.number)
    work.note("completed", frame.plan.name)
    frame.state.wait, frame.state.step, frame.state.stack = "done", None, []
    if frame.state.handoff is None or len(work.frames) < 2:
        finish(work)
        work.session.status = "completed"
        return False
    return _come_back(work)


def _come_back(work: Work) -> bool:
    """Give control back to the agent that handed over; say whether the turn goes on with what it remembers and does."""
    child = work.frame
    number = child.state.handoff
    _retire(work)
    work.frame = parent = work.frames[-1]
    work.moved, work.answered = False, None
    parent.names["input"] = child.names.get("input")
    parent.names["turn_count"] = child.names.get("turn_count")
    parent.names["handoff"] = {"completed": True, "to": child.plan.name}
    reset(work, "per_activation")
    resumes = _take_back(work, child, number)
    if resumes and not work.opening:
        work.fresh = True
    if work.departure is not None or work.paused:
        return True
    if child.state.mind.by_rule and (not resumes or broken_rule(work, "turn") is not None):
        # A broken rule stopped what was going on, and what was stopped does not go on while one is broken.
        remember(work, parent)
        return False
    if parent.state.step is None and not parent.state.stack:
        # Control had left at the end of a step: there is no place to go on from but the words of the user.
        if not resumes or parent.plan.entry is None:
            parent.state.wait, work.paused = "done", True
            return True
        enter(work, parent.plan.entry)
    return True


def _take_back(work: Work, child: Frame, number: int | None) -> bool:
    """Do what a handoff says for the return; say whether the user's words are taken up again."""
    plans = work.frame.plan.handoffs
    # The agent may have been edited while the other one had the conversation.
    handoff = next((plan for plan in plans if plan.number == number and plan.to == child.plan.name), None)
    for theirs, put in handoff.map if handoff else ():
        put(work, child.value_at(theirs, work.run))
    for put, value in handoff.set if handoff else ():
        put(work, work.value(value))
    work.note("returned", work.frame.plan.name, by=child.plan.name)
    handler = work.frame.plan.return_handlers.get(handoff.handler or "") if handoff else None
    if handler is not None:
        run_handler(work, handler)
    return bool(handoff and handoff.action == "resume_intent") or bool(handler and handler.resume_intent)
