"""Between agents and people: handoffs, delegations, escalations and the end of an agent's work."""

from __future__ import annotations

from typing import Any

from recollect.abl.runtime.facts import FrameFacts, SessionFacts
from recollect.abl.runtime.flow import enter, leap_to, reset, run_aside, run_flow
from recollect.abl.runtime.plan import DelegatePlan, Do, HandlerPlan, HandoffPlan, Leap, Signal
from recollect.abl.runtime.recalling import recall
from recollect.abl.runtime.remembering import remember, store_result
from recollect.abl.runtime.rules import broken_rule
from recollect.abl.runtime.shared import kept_for_the_process
from recollect.abl.runtime.state import FrameState
from recollect.abl.runtime.work import Departure, Fault, Frame, Member, Work, shared_place

# --- an agent becomes active ------------------------------------------------------------------------------------


def first_frame(member: Member, facts: SessionFacts) -> Frame:
    """Return the frame of the agent that a session begins with."""
    name = member.plan.name
    return Frame(member, FrameState(name), FrameFacts(facts, name, {}), key="")


def _frame_for(work: Work, member: Member, grants: dict[str, str]) -> Frame:
    """Return the frame of an agent that takes over: the one it had before, else a new one under a key of its own."""
    name = member.plan.name
    facts = FrameFacts(work.frame.facts.session, name, grants)
    frame = work.resting.pop(name, None)
    if frame is None:
        taken = {other.key for other in work.everyone()}
        key, number = name, 1
        while key in taken:
            number += 1
            key = f"{name}~{number}"
        frame = Frame(member, FrameState(name), facts, key=key)
    frame.use(facts)
    frame.state.grants = grants
    return frame


def activate(work: Work, given: dict[str, Any]) -> None:
    """Make the active agent begin, or begin again: variables, recalls, hooks, `ON_START`, then its flow."""
    frame = work.frame
    state, plan = frame.state, frame.plan
    first = not state.begun
    state.step, state.stack, state.wait = None, [], ""
    if plan.document.language is not None:
        frame.names.setdefault("language", plan.document.language.text)
    if first:
        reset(work, "per_session")
        reset(work, "per_step")
        refresh_shared(work)
    reset(work, "per_activation")
    for name, value in given.items():
        work.assign(name, value)
    work.note("activated", plan.name, first=first)
    if first:
        recall(work, "session:start")
    recall(work, f"agent:{plan.name}:before", "agent:*:before")
    if first:
        state.begun = True
        run_hook(work, "before_agent")
        if plan.on_start is not None:
            # Its actions may wait for the user; the flow begins when they are done.
            state.stack = [[plan.on_start.block.number, 0]]


def refresh_shared(work: Work) -> None:
    """Take over what other sessions made of the variables that live as long as the process."""
    for name in work.frame.plan.resets.get("never", ()):
        known, value = kept_for_the_process(*shared_place(work.session, work.frame), name)
        slot = work.frame.plan.declarations.session[name]
        if known:
            work.frame.names[name] = value
        else:
            work.assign(name, None if slot.initial is None else work.value(slot.initial))


def run_hook(work: Work, name: str) -> None:
    """Run a hook of the active agent, if it has one; a failure only counts when the hook is critical."""
    hook = work.frame.plan.hooks.get(name)
    if hook is not None:
        work.note("hook", name)
        run_handler(work, hook)


def run_handler(work: Work, handler: HandlerPlan) -> None:
    """Run a handler beside the flow, and go where it leads."""
    try:
        signal = run_aside(work, handler.block)
    except Fault as fault:
        work.note("error", fault.kind, message=fault.message)
        if handler.critical:
            work.say("Something went wrong. Please try again.")
            work.wait("halted")
        return
    if type(signal) is Leap:
        leap_to(work, signal)


# --- what a turn leads to ---------------------------------------------------------------------------------------


def find_departure(work: Work) -> Departure | None:
    """Return what the sections of the active agent say after a turn: a person, another agent, or the end."""
    plan = work.frame.plan
    for number, trigger in enumerate(plan.escalations):
        if work.test(trigger.when) and not _done_before(work, "escalated", number):
            _mark_done(work, "escalated", number)
            reason = work.render(trigger.reason) if trigger.reason else ""
            return Departure("escalate", reason=reason, priority=trigger.priority, tags=trigger.tags)
    for handoff in plan.handoffs:
        if handoff.when is not None and work.test(handoff.when) and not _done_before(work, "handed", handoff.number):
            return Departure("handoff", agent=handoff.to, handoff=handoff.number)
    for delegate in plan.delegates:
        if (
            delegate.when is not None
            and work.test(delegate.when)
            and not _done_before(work, "delegated", delegate.number)
        ):
            return Departure("delegate", agent=delegate.agent, handoff=delegate.number)
    for number, complete in enumerate(plan.completes):
        if work.test(complete.when) and not _done_before(work, "completed", number):
            return Departure("complete", handoff=number)
    return None


def _done_before(work: Work, what: str, number: int) -> bool:
    """Say whether it was done since its condition last became true; what comes back is not sent off every turn."""
    return number in (work.frame.state.system.get(what) or ())


def _mark_done(work: Work, what: str, number: int) -> None:
    system = work.frame.state.system
    system[what] = [*(system.get(what) or ()), number]


def hear_anew(work: Work) -> None:
    """Let handoffs that are about the user's words be done again for other words."""
    system = work.frame.state.system
    if system.get("handed"):
        by_words = {plan.number for plan in work.frame.plan.handoffs if plan.by_words}
        system["handed"] = [number for number in system["handed"] if number not in by_words]


_ONCE = ("handed", "delegated", "escalated", "completed")
"""What is done once until its condition was false, as the state of an agent keeps it in mind."""


def rearm(work: Work) -> None:
    """Let what an agent leads to be done again when its condition no longer holds."""
    system, plan = work.frame.state.system, work.frame.plan
    if system.keys().isdisjoint(_ONCE):
        return
    for what, whens in (
        ("handed", {one.number: one.when for one in plan.handoffs}),
        ("delegated", {one.number: one.when for one in plan.delegates}),
        ("escalated", {number: one.when for number, one in enumerate(plan.escalations)}),
        ("completed", {number: one.when for number, one in enumerate(plan.completes)}),
    ):
        done: list[int] | None = system.get(what)
        if done:
            system[what] = [n for n in done if (when := whens.get(n)) is not None and work.test(when)]


def escalate(work: Work, departure: Departure) -> None:
    """Call a person: the session waits for one, with what they should know."""
    names = work.frame.names
    context = {name: names.get(name) for name in work.frame.plan.context_for_human if names.get(name) is not None}
    work.session.status = "escalated"
    work.escalation = {
        "reason": departure.reason,
        "priority": departure.priority,
        "tags": list(departure.tags),
        "context": context,
    }
    work.note("escalated", departure.reason or work.frame.plan.name, priority=departure.priority, context=context)


def hand_off(work: Work, departure: Departure) -> bool:
    """Make another agent active; say whether it goes on in this turn."""
    plan = work.frame.plan
    handoff = _plan_of(work, departure)
    member = work.team(departure.agent)
    if member is None:
        return _unreachable(work, departure, handoff)
    given = {name: work.frame.names.get(name) for name in handoff.context.values} if handoff else {}
    if handoff:
        given.update({name: work.value(value) for name, value in handoff.context.set})
    summary = work.render(handoff.context.summary) if handoff and handoff.context.summary else None
    grants = dict(handoff.context.grants) if handoff else {}
    work.note("handed_off", departure.agent, by=plan.name, because=departure.reason or None, given=given or None)
    returns = bool(handoff and handoff.returns)
    work.frame.names["handoff"] = {"completed": False, "to": departure.agent}
    # An agent that gives away a conversation which it was to give back gives that away too.
    way_back = work.frame.state.handoff
    if handoff is not None and returns:
        _mark_done(work, "handed", handoff.number)
    else:
        _retire(work)
    frame = _frame_for(work, member, grants)
    frame.state.handoff = handoff.number if handoff and returns else way_back
    before = frame.state.system
    frame.state.system = {
        **{name: before[name] for name in ("hidden", "injected") if name in before},
        **({"summary": summary} if summary else {}),
        **({"by_rule": True} if departure.by_rule else {}),
        "history": _history(work, handoff),
    }
    work.moved, work.answered = True, None
    work.frames.append(frame)
    _take_over_names(work, frame)
    work.frame = frame
    work.session.status = "waiting"
    activate(work, {name: value for name, value in given.items() if value is not None})
    return True


def _plan_of(work: Work, departure: Departure) -> HandoffPlan | None:
    handoffs = work.frame.plan.handoffs
    if departure.handoff is not None:
        return next(plan for plan in handoffs if plan.number == departure.handoff)
    return next((plan for plan in handoffs if plan.to == departure.agent), None)


def _history(work: Work, handoff: HandoffPlan | None) -> list[Any]:
    """Return from which turn on the next agent sees the whole conversation, and how many messages before it."""
    mode = handoff.context.history if handoff else "auto"
    if mode in ("none", "summary_only"):
        return [work.session.number, 0]
    if mode == "last_n" and handoff and handoff.context.count:
        return [work.session.number, handoff.context.count]
    return [0, None]


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
        _mark_done(work, "handed", handoff.number)
    work.session.status = "handed_off"
    work.frame.names["handoff"] = {"completed": False, "to": departure.agent}
    work.note("handed_off", departure.agent, by=work.frame.plan.name, because=departure.reason or None, here=False)
    return False


def finish(work: Work) -> None:
    """Do what is done when an agent's work is over: its hook, and its recalls."""
    run_hook(work, "after_agent")
    recall(work, f"agent:{work.frame.plan.name}:after", "agent:*:after")


def complete(work: Work, departure: Departure) -> bool:
    """End the active agent's work; say whether another agent goes on in this turn."""
    frame = work.frame
    if departure.handoff is not None:
        plan = frame.plan.completes[departure.handoff]
        if plan.respond is not None:
            work.say(work.render(plan.respond))
        store_result(work, frame, plan)
        _mark_done(work, "completed", departure.handoff)
    work.note("completed", frame.plan.name)
    frame.state.wait, frame.state.step, frame.state.stack = "done", None, []
    if frame.state.handoff is None or len(work.frames) < 2:
        finish(work)
        work.session.status = "completed"
        return False
    return _come_back(work)


def _come_back(work: Work) -> bool:
    """Give control back to the agent that handed over; say whether it goes on with the user's words at once."""
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
        return work.departure is not None
    if child.state.system.get("by_rule") and (not resumes or broken_rule(work, "turn") is not None):
        # A broken rule stopped what was going on, and what was stopped does not go on while one is broken.
        return False
    if parent.state.step is None and not parent.state.stack:
        # Control had left at the end of a step: there is no place to go on from but the words of the user.
        if not resumes or parent.plan.entry is None:
            parent.state.wait = "done" if parent.plan.entry is not None else ""
            return False
        enter(work, parent.plan.entry)
    return True


def _take_back(work: Work, child: Frame, number: int | None) -> bool:
    """Do what a handoff says for the return; say whether the user's words are taken up again."""
    plans = work.frame.plan.handoffs
    # The agent may have been edited while the other one had the conversation.
    handoff = next((plan for plan in plans if plan.number == number and plan.to == child.plan.name), None)
    for theirs, put in handoff.map if handoff else ():
        put(work, child.names.get(theirs))
    for name, value in handoff.set if handoff else ():
        work.assign(name, work.value(value))
    work.note("returned", work.frame.plan.name, by=child.plan.name)
    handler = work.frame.plan.return_handlers.get(handoff.handler or "") if handoff else None
    if handler is not None:
        run_handler(work, handler)
    return bool(handoff and handoff.action == "resume_intent") or bool(handler and handler.resume_intent)


# --- another agent does a part ----------------------------------------------------------------------------------


def delegate(work: Work, plan: DelegatePlan) -> None:
    """Let another agent do a part of the work on values that it is given, and take over what it gives back."""
    if plan.when is not None:
        _mark_done(work, "delegated", plan.number)
    given = {name: work.value(value) for name, value in plan.input}
    purpose = work.render(plan.purpose) if plan.purpose else ""
    for attempt in range(2):
        result = consult(work, plan.agent, given, purpose)
        if result is not None:
            for theirs, put in plan.returns:
                put(work, result.get(theirs))
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


def consult(work: Work, agent: str, given: dict[str, Any], purpose: str = "") -> dict[str, Any] | None:
    """Run another agent on some values until it is done; return its variables, or None when it is not done then.

    It sees nothing of the session but what it is given, and it cannot speak to the user.
    """
    member = work.team(agent)
    if member is None:
        work.note("delegated", agent, failed="it is not loaded")
        return None
    if work.consulting >= work.behaviour.handoffs:
        work.note("stopped", "the agents", why=f"{work.consulting} of them wait for each other")
        return None
    frames, active, said = work.frames, work.frame, work.messages
    departure, paused, fresh = work.departure, work.paused, work.fresh
    text, opening, past = work.text, work.opening, work.past
    answered, blocked = work.answered, work.blocked
    frame = first_frame(member, active.facts.session)
    work.frames, work.frame, work.messages = [frame], frame, []
    work.departure, work.paused, work.fresh = None, False, False
    work.text, work.opening, work.past = purpose, not purpose, _nothing_said
    work.answered = None
    work.consulting += 1
    frame.names.update({name: active.names.get(name) for name in ("session_id", "user_id", "project_id", "tenant_id")})
    try:
        activate(work, given)
        run_flow(work)
        remember(work, frame)
        finished = _finished(work)
    finally:
        work.frames, work.frame, work.messages = frames, active, said
        work.departure, work.paused, work.fresh = departure, paused, fresh
        work.text, work.opening, work.past = text, opening, past
        work.answered, work.blocked = answered, blocked
        work.consulting -= 1
    result = {**frame.variables(), "result": frame.names.get("result")}
    work.note("delegated", agent, given=given, finished=finished)
    return result if finished else None


def _nothing_said(frame: Frame) -> list[tuple[Any, str]]:
    return []


def _finished(work: Work) -> bool:
    """Say whether an agent that was asked has done its part, by its flow or by what its sections say; then end it."""
    departure = work.departure or find_departure(work)
    if departure is None or departure.kind != "complete":
        return False
    if departure.handoff is not None:
        store_result(work, work.frame, work.frame.plan.completes[departure.handoff])
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
