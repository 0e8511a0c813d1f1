"""Start and end agents, and pass control between them: escalation, handoff, delegation."""

from __future__ import annotations

from typing import Any, Literal

from memoranda.abl.runtime.constraints import broken_rule
from memoranda.abl.runtime.flow import enter, go_to, initial_value, reset, run_block, run_flow, say_error
from memoranda.abl.runtime.memory import FrameFacts, SessionFacts, recall, remember, store_result
from memoranda.abl.runtime.plan import ContextPlan, DelegatePlan, Do, HandlerPlan, HandoffPlan, Leap, Signal
from memoranda.abl.runtime.state import FrameState, Mind, PathGrant
from memoranda.abl.runtime.work import Departure, Frame, StepError, TeamMember, Work, owner_of_shared, process_value
from memoranda.lang.expression.compiler import Expression

# --- activation ------------------------------------------------------------------------------------------------------


def first_frame(member: TeamMember, facts: SessionFacts) -> Frame:
    """Create the frame of the agent that a session begins with."""
    name = member.plan.name
    return Frame(member, FrameState(name), FrameFacts(facts, name, {}), key="")


def next_frame(work: Work, member: TeamMember, grants: dict[str, PathGrant]) -> Frame:
    """Return the frame of an agent that takes over: its earlier one, else a new one with a unique key."""
    name = member.plan.name
    facts = FrameFacts(work.frame.facts.session, name, grants)
    frame = work.resting.pop(name, None)
    if frame is None:
        taken = {other.key for other in work.all_frames()}
        key, number = name, 1
        while key in taken:
            number += 1
            key = f"{name}~{number}"
        frame = Frame(member, FrameState(name), facts, key=key)
    frame.use_facts(facts)
    frame.state.grants = grants
    return frame


def activate(work: Work, given: dict[str, Any]) -> None:
    """Activate the agent: set its variables, run recalls and hooks, and prepare `ON_START` before its flow."""
    frame = work.frame
    state, plan = frame.state, frame.plan
    first = not state.begun
    state.step, state.stack, state.wait, state.attempts = None, [], "", {}
    language = plan.document.language
    if language is not None:
        frame.names.setdefault("language", language.text)
    if first:
        reset(work, "per_session")
        reset(work, "per_step")
        refresh_shared(work)
    reset(work, "per_activation")
    if language is not None and frame.names.get("language") is None:
        # It is also declared as a variable without an initial value.
        frame.names["language"] = language.text
    for path, value in given.items():
        name, *below = path.split(".")
        work.assign(name, value, tuple(below))
    work.note("activated", plan.name, first=first)
    if first:
        recall(work, "session:start")
    recall(work, f"agent:{plan.name}:before", "agent:*:before")
    if first:
        state.begun = True
        run_hook(work, "before_agent")
        if plan.on_start is not None:
            # Its actions may wait for the user; the flow begins after them.
            state.stack = [[plan.on_start.block.number, 0]]


def refresh_shared(work: Work) -> None:
    """Read the variables with `RESET: never`, which other sessions may have changed."""
    for name in work.frame.plan.resets.get("never", ()):
        known, value = process_value(*owner_of_shared(work.session, work.frame), name)
        slot = work.frame.plan.declarations.session[name]
        if known:
            work.frame.names[name] = value
        else:
            work.assign(name, initial_value(work, slot))


def run_hook(work: Work, name: str) -> None:
    """Run a hook of the active agent, if it has one."""
    hook = work.frame.plan.hooks.get(name)
    if hook is not None:
        work.note("hook", name)
        run_handler(work, hook)


def run_handler(work: Work, handler: HandlerPlan) -> None:
    """Run a handler outside the flow and go where it leads; an error stops the turn only if it is critical."""
    try:
        signal = run_block(work, handler.block)
    except StepError as error:
        work.note("error", error.kind, message=error.message)
        if handler.critical:
            say_error(work, error.kind)
            work.wait("halted")
        return
    if type(signal) is Leap:
        go_to(work, signal)


def finish_agent(work: Work) -> None:
    """Run the hook and the recalls for the end of an agent."""
    run_hook(work, "after_agent")
    recall(work, f"agent:{work.frame.plan.name}:after", "agent:*:after")


# --- departures ------------------------------------------------------------------------------------------------------


def find_departure(work: Work) -> Departure | None:
    """Return the first escalation, handoff, delegation or end of the active agent that is due."""
    plan = work.frame.plan
    for number, trigger in enumerate(plan.escalations):
        if work.test(trigger.when) and not _was_done(work, "escalated", number):
            _mark_done(work, "escalated", number)
            reason = work.render(trigger.reason) if trigger.reason else ""
            return Departure("escalate", reason=reason, priority=trigger.priority, tags=trigger.tags)
    for handoff in plan.handoffs:
        if handoff.when is not None and work.test(handoff.when) and not _was_done(work, "handed", handoff.number):
            return Departure("handoff", agent=handoff.to, number=handoff.number)
    for delegate in plan.delegates:
        if delegate.when is not None and work.test(delegate.when) and not _was_done(work, "delegated", delegate.number):
            return Departure("delegate", agent=delegate.agent, number=delegate.number)
    for number, complete in enumerate(plan.completes):
        if work.test(complete.when) and not _was_done(work, "completed", number):
            return Departure("complete", number=number)
    return None


Once = Literal["handed", "delegated", "escalated", "completed"]
"""The attributes of `Mind` with the numbers of what is done once until its condition was false again."""


def _was_done(work: Work, what: Once, number: int) -> bool:
    return number in getattr(work.frame.state.mind, what)


def _mark_done(work: Work, what: Once, number: int) -> None:
    """Remember that a departure was made, so that it is not made again before `rearm`."""
    mind = work.frame.state.mind
    setattr(mind, what, [*getattr(mind, what), number])


def rearm_handoffs_by_words(work: Work) -> None:
    """Allow handoffs again whose conditions depend on the user's words."""
    mind = work.frame.state.mind
    if mind.handed:
        by_words = {plan.number for plan in work.frame.plan.handoffs if plan.by_words}
        mind.handed = [number for number in mind.handed if number not in by_words]


def rearm(work: Work) -> None:
    """Allow departures again whose conditions are no longer true."""
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
        done: list[int] = getattr(mind, what)
        if done:
            still = [number for number in done if (when := whens.get(number)) is not None and work.test(when)]
            setattr(mind, what, still)


# --- escalation and handoff ------------------------------------------------------------------------------------------


def escalate(work: Work, departure: Departure) -> None:
    """Escalate to a person: the session waits for one, with the context they need."""
    seen = {path: work.frame.value_at(path, work.run) for path in work.frame.plan.context_for_human}
    context = {path: value for path, value in seen.items() if value is not None}
    work.session.status = "escalated"
    work.escalation = {
        "reason": departure.reason,
        "priority": departure.priority,
        "tags": list(departure.tags),
        "context": context,
    }
    shown = work.frame.redact(context)
    work.note("escalated", departure.reason or work.frame.plan.name, priority=departure.priority, context=shown)


def hand_off(work: Work, departure: Departure) -> bool:
    """Hand over to another agent; say whether the turn continues."""
    plan = work.frame.plan
    handoff = _find_handoff(work, departure)
    member = work.team(departure.agent)
    if member is None:
        return _handle_unreachable(work, departure, handoff)
    given = {path: work.frame.value_at(path, work.run) for path in handoff.context.values} if handoff else {}
    if handoff:
        given.update({name: work.value(value) for name, value in handoff.context.set})
    summary = work.render(handoff.context.summary) if handoff and handoff.context.summary else None
    grants = _grants(work.frame, handoff.context) if handoff else {}
    shown = work.frame.redact(given) or None
    work.note("handed_off", departure.agent, by=plan.name, because=departure.reason or None, given=shown)
    returns = bool(handoff and handoff.returns)
    work.frame.names["handoff"] = {"completed": False, "to": departure.agent}
    # An agent that was to return the conversation passes this duty on with it.
    way_back = work.frame.state.handoff
    if handoff is not None and returns:
        _mark_done(work, "handed", handoff.number)
    else:
        _deactivate(work)
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
    _copy_names(work, frame)
    work.frame = frame
    work.session.status = "waiting"
    activate(work, {name: value for name, value in given.items() if value is not None})
    return True


def _grants(frame: Frame, context: ContextPlan) -> dict[str, PathGrant]:
    """Return the paths of the active agent's memory that the next agent may use."""
    find = frame.plan.declarations.find
    return {path: frame.facts.grant(path, access, find(path)) for path, access in context.grants}


def _find_handoff(work: Work, departure: Departure) -> HandoffPlan | None:
    handoffs = work.frame.plan.handoffs
    if departure.number is not None:
        return next(plan for plan in handoffs if plan.number == departure.number)
    return next((plan for plan in handoffs if plan.to == departure.agent), None)


def _history(work: Work, handoff: HandoffPlan | None) -> tuple[int, int | None]:
    """Return the turn from which the next agent sees the conversation, and the number of messages before it."""
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


def _copy_names(work: Work, frame: Frame) -> None:
    for name in _PASSED_ON:
        if name in work.frame.names:
            frame.names[name] = work.frame.names[name]


def _deactivate(work: Work) -> None:
    """Deactivate the active agent; it keeps its variables until the session ends."""
    finish_agent(work)
    frame = work.frames.pop()
    frame.state.step, frame.state.stack, frame.state.wait, frame.state.collecting = None, [], "done", None
    work.resting[frame.plan.name] = frame


def _handle_unreachable(work: Work, departure: Departure, handoff: HandoffPlan | None) -> bool:
    """Handle a handoff to an agent that is not loaded: as `ON_FAILURE` says, else hand over to the calling program."""
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
        _mark_done(work, "handed", handoff.number)
    work.session.status = "handed_off"
    work.frame.names["handoff"] = {"completed": False, "to": departure.agent}
    work.note("handed_off", departure.agent, by=work.frame.plan.name, because=departure.reason or None, here=False)
    return False


def complete(work: Work, departure: Departure) -> bool:
    """End the active agent; say whether another agent continues the turn."""
    frame = work.frame
    if departure.number is not None:
        plan = frame.plan.completes[departure.number]
        if plan.respond is not None:
            work.say(work.render(plan.respond))
        store_result(work, frame, plan)
        _mark_done(work, "completed", departure.number)
    work.note("completed", frame.plan.name)
    frame.state.wait, frame.state.step, frame.state.stack = "done", None, []
    if frame.state.handoff is None or len(work.frames) < 2:
        finish_agent(work)
        work.session.status = "completed"
        return False
    return _return_to_parent(work)


def _return_to_parent(work: Work) -> bool:
    """Return control to the agent that handed over; say whether the turn continues."""
    child = work.frame
    number = child.state.handoff
    _deactivate(work)
    work.frame = parent = work.frames[-1]
    work.moved, work.answered = False, None
    parent.names["input"] = child.names.get("input")
    parent.names["turn_count"] = child.names.get("turn_count")
    parent.names["handoff"] = {"completed": True, "to": child.plan.name}
    reset(work, "per_activation")
    resumes = _apply_return(work, child, number)
    if resumes and not work.opening:
        work.fresh = True
    if work.departure is not None or work.paused:
        return True
    if child.state.mind.by_rule and (not resumes or broken_rule(work, "turn") is not None):
        # A broken rule had stopped the flow, which does not continue while a rule is broken.
        remember(work, parent)
        return False
    if parent.state.step is None and not parent.state.stack:
        # Control had left at the end of a step, so only the user's words can continue the flow.
        if not resumes or parent.plan.entry is None:
            parent.state.wait, work.paused = "done", True
            return True
        enter(work, parent.plan.entry)
    return True


def _apply_return(work: Work, child: Frame, number: int | None) -> bool:
    """Apply the return section of a handoff; say whether the user's words are used again."""
    plans = work.frame.plan.handoffs
    # The agent may have been edited in the meantime.
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


# --- delegation ------------------------------------------------------------------------------------------------------


def delegate(work: Work, plan: DelegatePlan) -> None:
    """Run another agent on some inputs, and assign its results."""
    if plan.when is not None:
        _mark_done(work, "delegated", plan.number)
    given = {name: work.value(value) for name, value in plan.input}
    purpose = work.render(plan.purpose) if plan.purpose else ""
    for attempt in range(2):
        other = _consult(work, plan.agent, given, purpose)
        if other is not None:
            for theirs, put in plan.returns:
                put(work, other.value_at(theirs, work.run))
            return
        if plan.on_failure != "retry" or attempt:
            break
    _handle_failed_delegation(work, plan)


def _handle_failed_delegation(work: Work, plan: DelegatePlan) -> None:
    if plan.on_failure == "escalate":
        work.departure = Departure("escalate", reason=f"{plan.agent} could not do its part")
    elif plan.on_failure == "respond" and plan.failure_message is not None:
        work.say(work.render(plan.failure_message))
    elif plan.on_failure not in ("continue", "retry"):
        raise StepError("agent_unavailable", f"the agent `{plan.agent}` could not do its part")


def _consult(work: Work, agent: str, given: dict[str, Any], purpose: str = "") -> Frame | None:
    """Run another agent on some inputs; return its frame if it completed, else None.

    It sees nothing of the session but its inputs, and it cannot talk to the user.
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
    with work.acting_as(frame, purpose):
        activate(work, given)
        run_flow(work)
        remember(work, frame)
        finished = _complete_delegate(work)
    work.note("delegated", agent, given=given, finished=finished)
    return frame if finished else None


def _complete_delegate(work: Work) -> bool:
    """End a delegate whose flow or sections say that it is complete; say whether it is."""
    departure = work.departure or find_departure(work)
    if departure is None or departure.kind != "complete":
        return False
    if departure.number is not None:
        store_result(work, work.frame, work.frame.plan.completes[departure.number])
    finish_agent(work)
    return True


def compile_delegate(agent: str) -> Do:
    """Return an action that delegates to an agent, with the inputs that `DELEGATE` declares for it, if any."""

    def run(work: Work) -> Signal:
        plan = next((plan for plan in work.frame.plan.delegates if plan.agent == agent), None)
        if plan is None:
            plan = DelegatePlan(number=-1, agent=agent, when=None, input=(), returns=())
        delegate(work, plan)
        return None

    return run
