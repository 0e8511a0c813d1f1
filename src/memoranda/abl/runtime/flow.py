"""The steps of a flow: an agent that may go on in; actions done until it waits, ends or gives control away, out."""

from __future__ import annotations

from typing import Any

from memoranda.abl.runtime.failures import REPEAT, answer_fault, apologise
from memoranda.abl.runtime.plan import Block, Halt, Leap, Signal, StepPlan, choose
from memoranda.abl.runtime.recalling import recall
from memoranda.abl.runtime.work import Departure, Fault, Work
from memoranda.abl.variables import SessionSlot

_LONGEST_PATH = 20


def run_flow(work: Work) -> None:
    """Do actions and go through steps until the turn is paused or control is given away."""
    tried: dict[tuple[int, int], int] = {}
    while not work.paused and work.departure is None:
        frame = work.frame
        stack = frame.state.stack
        if not stack:
            _carry(work, _end_of_step(work))
            continue
        number, place = stack[-1]
        block = frame.plan.blocks[number]
        if place >= len(block.actions):
            stack.pop()
            _carry(work, _end_of_block(work, block))
            continue
        try:
            signal = block.actions[place](work)
        except Fault as fault:
            where = (number, place)
            signal = answer_fault(work, fault, tried.get(where, 0), run_aside)
            if signal is REPEAT:
                tried[where] = tried.get(where, 0) + 1
                continue
        if type(signal) is not Halt:
            stack[-1][1] = place + 1
        _note_refusals(work)
        _carry(work, signal)
    if work.paused and work.frame.state.wait == "halted":
        _give_up_aside(work)


def _give_up_aside(work: Work) -> None:
    """Let the step wait as before where the answer to an intent came to nothing: nobody is held in it."""
    state, plan = work.frame.state, work.frame.plan
    begins = [place for place, (number, _) in enumerate(state.stack) if number in plan.asides]
    if not begins:
        return
    del state.stack[begins[0] :]
    if not state.stack:
        state.wait = "input"
        return
    number, place = state.stack[-1]
    actions = plan.blocks[number].actions
    state.wait = getattr(actions[place], "waits", "") if place < len(actions) else ""


def run_aside(work: Work, block: Block) -> Signal:
    """Do the actions of a block beside the flow, as hooks and handlers are; return where they lead, if anywhere."""
    waiting: list[tuple[Block, int]] = [(block, 0)]
    waited = work.frame.state.wait
    while waiting:
        here, place = waiting.pop()
        if place >= len(here.actions):
            if here.then is not None:
                return here.then
            continue
        signal = here.actions[place](work)
        waiting.append((here, place + 1))
        if type(signal) is Block:
            waiting.append((signal, 0))
        elif type(signal) is tuple:
            waiting.extend((one, 0) for one in reversed(signal))
        elif type(signal) is Halt:
            if work.paused and not work.departure:
                # There is no step whose place could be kept.
                work.paused, work.frame.state.wait = False, waited
                work.note("warning", "what stands beside the flow cannot wait for the user")
            return None
        elif signal is not None:
            return signal
    return None


def _note_refusals(work: Work) -> None:
    refusals = work.frame.facts.refusals
    if refusals:
        for told in refusals:
            work.note("refused", "a read", **told)
        refusals.clear()


def _carry(work: Work, signal: Signal) -> None:
    """Do what an action gave: go deeper, go elsewhere, or stop."""
    if signal is None or type(signal) is Halt:
        return
    stack = work.frame.state.stack
    if type(signal) is Block:
        stack.append([signal.number, 0])
    elif type(signal) is tuple:
        stack.extend([block.number, 0] for block in reversed(signal))
    elif type(signal) is Leap:
        leap_to(work, signal)


def _end_of_block(work: Work, block: Block) -> Signal:
    if block.then is not None:
        return block.then
    if block.stays and not work.frame.state.stack:
        _stay(work)
    return None


def _stay(work: Work) -> None:
    """Wait for other words, unless the step was answered too often in a way that leads nowhere."""
    step = work.frame.step
    if step is None or not exhausted(work, step):
        work.wait("input")


def _end_of_step(work: Work) -> Signal:
    """Return what follows when all actions of a step are done: a choice by the user's words, then `THEN`."""
    state, step = work.frame.state, work.frame.step
    if step is None:
        entry = work.frame.plan.entry
        if entry is None or state.step is not None:
            work.wait("input")
            return None
        return Leap("step", entry)
    if step.on_input:
        if not (work.fresh or work.answered == step.name):
            work.wait("input")
            return None
        branch = choose(step.on_input, work)
        work.fresh, work.answered = False, None
        if branch is None:
            count_attempt(work, step)
            _stay(work)
            return None
        work.note("chosen", branch.text or "ELSE", by="the user's words")
        if branch.block.then is None:
            count_attempt(work, step)
        return branch.block
    return follow(work, step)


def follow(work: Work, step: StepPlan) -> Signal:
    """Return where a finished step leads: its `THEN`, or the end of the flow."""
    branch = choose(step.then, work)
    if branch is None:
        return Leap("complete")
    if branch.text:
        work.note("chosen", branch.text, by="THEN")
    if branch.block.then is not None and branch.block.then.kind in ("handoff", "escalate"):
        # The step is done: when control comes back, it must not lead away again.
        leave(work)
    return branch.block if branch.block.actions else branch.block.then or Leap("complete")


def count_attempt(work: Work, step: StepPlan) -> None:
    """Count an answer that led nowhere as another attempt at the step."""
    attempts = work.frame.state.attempts
    attempts[step.name] = attempts.get(step.name, 0) + 1


def leap_to(work: Work, leap: Leap) -> None:
    """Go where a target says."""
    state = work.frame.state
    if leap.kind == "step":
        enter(work, leap.name)
    elif leap.kind == "retry":
        enter(work, state.step or work.frame.plan.entry or "")
    elif leap.kind == "backtrack":
        enter(work, state.path[-1] if state.path else state.step or work.frame.plan.entry or "")
    elif leap.kind == "complete":
        leave(work)
        work.departure = Departure("complete")
    elif leap.kind == "escalate":
        work.departure = Departure("escalate", reason=work.render(leap.reason) if leap.reason else "")
    elif leap.kind == "handoff":
        work.departure = Departure("handoff", agent=leap.name)


def enter(work: Work, name: str) -> None:
    """Enter a step by a transition: reset what is reset by step, look at its guard, and begin its actions."""
    frame = work.frame
    work.transitions += 1
    if work.transitions > work.behaviour.transitions:
        stop_looping(work)
        return
    leave(work)
    step = frame.plan.steps[name]
    state = frame.state
    state.step, state.stack, state.wait, state.turns = name, [[step.block.number, 0]], "", 0
    state.asked, state.presented, state.again = None, False, []
    reset(work, "per_step")
    work.note("entered", name)
    recall(work, f"step:enter:{name}", "step:enter:*")
    if step.when is not None and not work.test(step.when):
        work.note("skipped", name, because="its WHEN does not hold")
        state.stack = []
        _carry(work, follow(work, step))
        return
    state.attempts[name] = state.attempts.get(name, 0) + 1
    exhausted(work, step)


def exhausted(work: Work, step: StepPlan) -> bool:
    """Leave a step that was attempted too often; say whether that was so."""
    if step.max_attempts is None or work.frame.state.attempts.get(step.name, 0) <= step.max_attempts:
        return False
    work.note("exhausted", step.name, attempts=step.max_attempts)
    work.frame.state.attempts[step.name] = 0
    work.frame.state.stack = []
    _carry(work, step.on_exhausted or Leap("complete"))
    return True


def leave(work: Work) -> None:
    """Leave the present step, if there is one."""
    state = work.frame.state
    if state.step is None:
        return
    recall(work, f"step:exit:{state.step}", "step:exit:*")
    work.note("left", state.step)
    state.path = [*state.path[-_LONGEST_PATH:], state.step]
    state.step, state.stack = None, []


def reset(work: Work, when: str) -> None:
    """Give the variables that begin anew at this point their initial values."""
    plan = work.frame.plan
    for name in plan.resets.get(when, ()):
        work.assign(name, initial_value(work, plan.declarations.session[name]))


def initial_value(work: Work, slot: SessionSlot) -> Any:
    """Return what a variable begins with, computed now; null where its declaration says nothing."""
    return None if slot.initial is None else work.value(slot.initial)


def stop_looping(work: Work) -> None:
    """Stop a flow that goes from step to step without an end, and say so."""
    limit = work.behaviour.transitions
    work.note("stopped", "the flow", why=f"{limit} steps were entered in one turn, so it counts as looping")
    apologise(work, "", "This is going in circles, so I stopped. Please try something else.")
    work.wait("halted")
