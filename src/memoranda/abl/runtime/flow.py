"""Run the steps of a flow until the agent waits, ends or gives control away; handle errors by `ON_ERROR`."""

from __future__ import annotations

from typing import Any

from memoranda.abl.runtime.memory import recall
from memoranda.abl.runtime.plan import AGAIN, Block, ErrorPlan, Halt, Leap, Signal, StepPlan, choose
from memoranda.abl.runtime.work import Departure, StepError, Work
from memoranda.abl.variables import SessionSlot

_LONGEST_PATH = 20


def run_flow(work: Work) -> None:
    """Run actions and steps until the turn is paused or control is given away."""
    tried: dict[tuple[int, int], int] = {}
    while not work.paused and work.departure is None:
        frame = work.frame
        stack = frame.state.stack
        if not stack:
            _apply_signal(work, _end_of_step(work))
            continue
        number, place = stack[-1]
        block = frame.plan.blocks[number]
        if place >= len(block.actions):
            stack.pop()
            _apply_signal(work, _end_of_block(work, block))
            continue
        try:
            signal = block.actions[place](work)
        except StepError as error:
            where = (number, place)
            signal = _handle_error(work, error, tried.get(where, 0))
            if signal is _REPEAT:
                tried[where] = tried.get(where, 0) + 1
                continue
        if type(signal) is not Halt:
            stack[-1][1] = place + 1
        _note_refusals(work)
        _apply_signal(work, signal)
    if work.paused and work.frame.state.wait == "halted":
        _leave_aside(work)


def _leave_aside(work: Work) -> None:
    """Return to the step if the answer to an intent failed, so that the user is not stuck in it."""
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


def run_block(work: Work, block: Block) -> Signal:
    """Run a block outside the flow, as hooks and handlers do; return where it leads, if anywhere."""
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
                # Outside the flow there is no position to come back to.
                work.paused, work.frame.state.wait = False, waited
                work.note("warning", "an action outside the flow cannot wait for the user")
            return None
        elif signal is not None:
            return signal
    return None


def _note_refusals(work: Work) -> None:
    refusals = work.frame.facts.refusals
    if refusals:
        for detail in refusals:
            work.note("refused", "a read", **detail)
        refusals.clear()


def _apply_signal(work: Work, signal: Signal) -> None:
    """Enter the blocks or go to the target that an action returned."""
    if signal is None or type(signal) is Halt:
        return
    stack = work.frame.state.stack
    if type(signal) is Block:
        stack.append([signal.number, 0])
    elif type(signal) is tuple:
        stack.extend([block.number, 0] for block in reversed(signal))
    elif type(signal) is Leap:
        go_to(work, signal)


def _end_of_block(work: Work, block: Block) -> Signal:
    if block.then is not None:
        return block.then
    if block.stays and not work.frame.state.stack:
        _wait_for_input(work)
    return None


def _wait_for_input(work: Work) -> None:
    """Wait for other words, unless the step was attempted too often."""
    step = work.frame.step
    if step is None or not leave_if_exhausted(work, step):
        work.wait("input")


def _end_of_step(work: Work) -> Signal:
    """Return what follows the actions of a step: a branch by the user's words, else `THEN`."""
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
            _wait_for_input(work)
            return None
        work.note("chosen", branch.text or "ELSE", by="the user's words")
        if branch.block.then is None:
            count_attempt(work, step)
        return branch.block
    return _target_after(work, step)


def _target_after(work: Work, step: StepPlan) -> Signal:
    """Return where `THEN` leads after a step; the end of the flow without it."""
    branch = choose(step.then, work)
    if branch is None:
        return Leap("complete")
    if branch.text:
        work.note("chosen", branch.text, by="THEN")
    if branch.block.then is not None and branch.block.then.kind in ("handoff", "escalate"):
        # The step is finished: when control returns, it must not give control away again.
        leave(work)
    return branch.block if branch.block.actions else branch.block.then or Leap("complete")


def count_attempt(work: Work, step: StepPlan) -> None:
    """Count another attempt at a step."""
    attempts = work.frame.state.attempts
    attempts[step.name] = attempts.get(step.name, 0) + 1


def go_to(work: Work, leap: Leap) -> None:
    """Go to a target: enter a step, or give control away."""
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
    """Enter a step: reset variables, check its condition, and start its actions."""
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
        _apply_signal(work, _target_after(work, step))
        return
    state.attempts[name] = state.attempts.get(name, 0) + 1
    leave_if_exhausted(work, step)


def leave_if_exhausted(work: Work, step: StepPlan) -> bool:
    """Leave a step that was attempted too often; say whether it was left."""
    if step.max_attempts is None or work.frame.state.attempts.get(step.name, 0) <= step.max_attempts:
        return False
    work.note("exhausted", step.name, attempts=step.max_attempts)
    work.frame.state.attempts[step.name] = 0
    work.frame.state.stack = []
    _apply_signal(work, step.on_exhausted or Leap("complete"))
    return True


def leave(work: Work) -> None:
    """Leave the current step, if there is one."""
    state = work.frame.state
    if state.step is None:
        return
    recall(work, f"step:exit:{state.step}", "step:exit:*")
    work.note("left", state.step)
    state.path = [*state.path[-_LONGEST_PATH:], state.step]
    state.step, state.stack = None, []


def reset(work: Work, when: str) -> None:
    """Set the variables that are reset at this point to their initial values."""
    plan = work.frame.plan
    for name in plan.resets.get(when, ()):
        work.assign(name, initial_value(work, plan.declarations.session[name]))


def initial_value(work: Work, slot: SessionSlot) -> Any:
    """Evaluate the initial value of a variable; None without a declared one."""
    return None if slot.initial is None else work.value(slot.initial)


def stop_looping(work: Work) -> None:
    """Stop a flow that loops, and tell the user."""
    limit = work.behaviour.transitions
    work.note("stopped", "the flow", why=f"{limit} steps were entered in one turn, so it counts as looping")
    say_error(work, "", "This is going in circles, so I stopped. Please try something else.")
    work.wait("halted")


# --- errors ---------------------------------------------------------------------------------------------------------

DEFAULT_MESSAGE = "Something went wrong. Please try again."

_FALLBACK_TYPES = {
    "tool_timeout": ("tool_timeout", "timeout", "tool_error"),
    "api_error": ("api_error", "tool_error"),
    "tool_error": ("tool_error", "api_error"),
    "validation_error": ("validation_error", "invalid_input"),
    "llm_error": ("llm_error", "api_error"),
}
"""The types under which an error is looked up, the closest first; `unknown_error` and `default` catch the rest."""

_REPEAT = Block(-1, None, stays=False)
"""The signal to run the same action again."""


def _handle_error(work: Work, error: StepError, tried: int) -> Signal:
    """Return what follows an error: another attempt, another step, the next action, or a pause with a message."""
    work.note("error", error.kind, message=error.message, subtype=error.subtype or None)
    handler = _find_handler(work, error)
    if handler is None:
        say_error(work, error.kind)
        work.wait("halted")
        return AGAIN
    if tried < min(handler.retry, work.behaviour.retries):
        work.behaviour.sleep(_delay(handler, tried))
        return _REPEAT
    signal = run_block(work, handler.block)
    return _target_after_error(work, handler) if signal is None else signal


def say_error(work: Work, kind: str, otherwise: str = DEFAULT_MESSAGE) -> None:
    """Say the text of `MESSAGES` for an error type, or for any error, or else a default."""
    messages = work.frame.plan.messages
    template = messages.get(kind) or messages.get("error_default")
    work.say(work.render(template) if template else otherwise)


def _find_handler(work: Work, error: StepError) -> ErrorPlan | None:
    """Return the handler of an error: the step's before the agent's, one for its subtype before a general one."""
    step = work.frame.step
    kinds = (*_FALLBACK_TYPES.get(error.kind, (error.kind,)), "unknown_error", "default")
    for handlers in (step.on_error if step else (), work.frame.plan.on_error):
        for kind in kinds:
            for handler in sorted(handlers, key=lambda one: not one.subtypes):
                if handler.type == kind and (not handler.subtypes or error.subtype in handler.subtypes):
                    return handler
    return None


def _delay(handler: ErrorPlan, tried: int) -> float:
    factor = {"linear": tried + 1, "exponential": 2**tried}.get(handler.backoff, 1)
    return min(handler.delay * factor, handler.longest)


def _target_after_error(work: Work, handler: ErrorPlan) -> Signal:
    then = handler.then
    if then is None or then.kind == "continue":
        if then is None and not handler.back_to:
            work.wait("halted")
            return AGAIN
        return Leap("step", handler.back_to) if handler.back_to else None
    if then.kind == "backtrack":
        return Leap("step", handler.back_to) if handler.back_to else Leap("backtrack")
    return then
