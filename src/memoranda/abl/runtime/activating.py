"""An agent that gets the conversation in; its variables, recalls, hooks and `ON_START` done, out; and its end."""

from __future__ import annotations

from typing import Any

from memoranda.abl.runtime.facts import FrameFacts, SessionFacts
from memoranda.abl.runtime.failures import apologise
from memoranda.abl.runtime.flow import initial_value, leap_to, reset, run_aside
from memoranda.abl.runtime.plan import HandlerPlan, Leap
from memoranda.abl.runtime.recalling import recall
from memoranda.abl.runtime.shared import kept_for_the_process
from memoranda.abl.runtime.state import FrameState, Grant
from memoranda.abl.runtime.work import Fault, Frame, Member, Work, shared_place


def first_frame(member: Member, facts: SessionFacts) -> Frame:
    """Return the frame of the agent that a session begins with."""
    name = member.plan.name
    return Frame(member, FrameState(name), FrameFacts(facts, name, {}), key="")


def next_frame(work: Work, member: Member, grants: dict[str, Grant]) -> Frame:
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
        # It is declared as a variable too, without a value to begin with.
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
            work.assign(name, initial_value(work, slot))


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
            apologise(work, fault.kind)
            work.wait("halted")
        return
    if type(signal) is Leap:
        leap_to(work, signal)


def finish(work: Work) -> None:
    """Do what is done when an agent's work is over: its hook, and its recalls."""
    run_hook(work, "after_agent")
    recall(work, f"agent:{work.frame.plan.name}:after", "agent:*:after")
