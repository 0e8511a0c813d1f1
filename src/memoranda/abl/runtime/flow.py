"""Run the steps of a flow until the agent waits, ends or gives control away; handle errors by `ON_ERROR`."""

from __future__ import annotations

from time import monotonic

from memoranda.abl.runtime.active_turn import ActiveTurn, Departure, StepError
from memoranda.abl.runtime.constraints import check_rules
from memoranda.abl.runtime.memory import recall
from memoranda.abl.runtime.plan import AGAIN, Block, ErrorPlan, Halt, Signal, StepPlan, Transition, choose
from memoranda.abl.variables import SessionSlot

_LONGEST_PATH = 20


def run_flow(turn: ActiveTurn) -> None:
    """Run actions and steps until the turn is paused or control is given away."""
    tried: dict[tuple[int, int], int] = {}
    while not turn.paused and turn.departure is None:
        frame = turn.frame
        stack = frame.state.stack
        if not stack:
            _apply_signal(turn, _end_of_step(turn))
            continue
        number, place = stack[-1]
        block = frame.plan.blocks[number]
        if place >= len(block.actions):
            stack.pop()
            _apply_signal(turn, _end_of_block(turn, block))
            continue
        try:
            signal = block.actions[place](turn)
        except StepError as error:
            where = (number, place)
            signal = _handle_error(turn, error, tried.get(where, 0))
            if signal is _REPEAT:
                tried[where] = tried.get(where, 0) + 1
                continue
        if type(signal) is not Halt:
            stack[-1][1] = place + 1
        if turn.frame.facts.refusals:
            _note_refusals(turn)
        if signal is not None:
            _apply_signal(turn, signal)
    if turn.paused and turn.frame.state.wait == "halted":
        _leave_aside(turn)


def _leave_aside(turn: ActiveTurn) -> None:
    """Return to the step if the answer to an intent failed, so that the user is not stuck in it."""
    state, plan = turn.frame.state, turn.frame.plan
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


def run_block(turn: ActiveTurn, block: Block) -> Signal:
    """Run a block outside the flow, as hooks and handlers do; return where it leads, if anywhere."""
    waiting: list[tuple[Block, int]] = [(block, 0)]
    waited = turn.frame.state.wait
    while waiting:
        here, place = waiting.pop()
        if place >= len(here.actions):
            if here.then is not None:
                return here.then
            continue
        broken = turn.frame.names.get("constraint_failures")
        signal = here.actions[place](turn)
        waiting.append((here, place + 1))
        if type(signal) is Block:
            waiting.append((signal, 0))
        elif type(signal) is tuple:
            waiting.extend((one, 0) for one in reversed(signal))
        elif type(signal) is Halt:
            if turn.paused and not turn.departure:
                # Outside the flow there is no position to come back to.
                turn.paused, turn.frame.state.wait = False, waited
                if turn.frame.names.get("constraint_failures") == broken:
                    turn.note("warning", "an action outside the flow cannot wait for the user")
            return None
        elif signal is not None:
            return signal
    return None


def _note_refusals(turn: ActiveTurn) -> None:
    refusals = turn.frame.facts.refusals
    for detail in refusals:
        turn.note("refused", "a read", **detail)
    refusals.clear()


def _apply_signal(turn: ActiveTurn, signal: Signal) -> None:
    """Enter the blocks or go to the target that an action returned."""
    if signal is None or type(signal) is Halt:
        return
    stack = turn.frame.state.stack
    if type(signal) is Block:
        stack.append([signal.number, 0])
    elif type(signal) is tuple:
        stack.extend([block.number, 0] for block in reversed(signal))
    elif type(signal) is Transition:
        go_to(turn, signal)


def _end_of_block(turn: ActiveTurn, block: Block) -> Signal:
    if block.then is not None:
        return block.then
    if block.stays and not turn.frame.state.stack:
        _wait_for_input(turn)
    return None


def _wait_for_input(turn: ActiveTurn) -> None:
    """Wait for other words, unless the step was attempted too often."""
    step = turn.frame.step
    if step is None or not leave_if_exhausted(turn, step):
        turn.wait("input")


def _end_of_step(turn: ActiveTurn) -> Signal:
    """Return what follows the actions of a step: a branch by the user's words, else `THEN`."""
    state, step = turn.frame.state, turn.frame.step
    if step is None:
        entry = turn.frame.plan.entry
        if entry is None or state.step is not None:
            turn.wait("input")
            return None
        return Transition("step", entry)
    if step.on_input:
        if not (turn.fresh or turn.answered == step.name):
            turn.wait("input")
            return None
        branch = choose(step.on_input, turn)
        turn.fresh, turn.answered = False, None
        if branch is None:
            count_attempt(turn, step)
            _wait_for_input(turn)
            return None
        turn.note("chosen", branch.text or "ELSE", by="the user's words")
        if branch.block.then is None:
            count_attempt(turn, step)
        return branch.block
    return _target_after(turn, step)


def _target_after(turn: ActiveTurn, step: StepPlan) -> Signal:
    """Return where `THEN` leads after a step; the end of the flow without it."""
    branch = choose(step.then, turn)
    if branch is None:
        return Transition("complete")
    if branch.text:
        turn.note("chosen", branch.text, by="THEN")
    if branch.block.then is not None and branch.block.then.kind in ("handoff", "escalate"):
        # The step is finished: when control returns, it must not give control away again.
        leave(turn)
    return branch.block if branch.block.actions else branch.block.then or Transition("complete")


def count_attempt(turn: ActiveTurn, step: StepPlan) -> None:
    """Count another attempt at a step."""
    attempts = turn.frame.state.attempts
    attempts[step.name] = attempts.get(step.name, 0) + 1


def go_to(turn: ActiveTurn, transition: Transition) -> None:
    """Go to a target: enter a step, or give control away."""
    state = turn.frame.state
    if transition.kind == "step":
        enter(turn, transition.name)
    elif transition.kind == "retry":
        enter(turn, state.step or turn.frame.plan.entry or "")
    elif transition.kind == "backtrack":
        enter(turn, state.path[-1] if state.path else state.step or turn.frame.plan.entry or "")
    elif transition.kind == "complete":
        leave(turn)
        turn.departure = Departure("complete")
    elif transition.kind == "escalate":
        turn.departure = Departure("escalate", reason=turn.render(transition.reason) if transition.reason else "")
    elif transition.kind == "handoff":
        turn.departure = Departure("handoff", agent=transition.name)


def enter(turn: ActiveTurn, name: str) -> None:
    """Enter a step: reset variables, check its condition, and start its actions."""
    frame = turn.frame
    turn.transitions += 1
    if turn.transitions > turn.behaviour.transitions:
        stop_looping(turn)
        return
    if turn.deadline is not None and monotonic() > turn.deadline:
        turn.note("stopped", frame.plan.name, why="the time that the other agent gives it is over")
        turn.wait("halted")
        return
    turn.steps_of_digression = max(turn.steps_of_digression - 1, 0)
    signal = check_rules(turn, "step", step=name)
    if signal is not None:
        _apply_signal(turn, signal)
        return
    leave(turn)
    step = frame.plan.steps[name]
    state = frame.state
    state.step, state.stack, state.wait, state.turns = name, [[step.block.number, 0]], "", 0
    state.asked, state.presented = None, False
    state.again, turn.ask_again = turn.ask_again, []
    reset(turn, "per_step")
    turn.note("entered", name)
    recall(turn, f"step:enter:{name}", "step:enter:*")
    if step.when is not None and not turn.test(step.when):
        turn.note("skipped", name, because="its WHEN does not hold")
        state.stack = []
        _apply_signal(turn, _target_after(turn, step))
        return
    state.attempts[name] = state.attempts.get(name, 0) + 1
    leave_if_exhausted(turn, step)


def leave_if_exhausted(turn: ActiveTurn, step: StepPlan) -> bool:
    """Leave a step that was attempted too often; say whether it was left."""
    if step.max_attempts is None or turn.frame.state.attempts.get(step.name, 0) <= step.max_attempts:
        return False
    turn.note("exhausted", step.name, attempts=step.max_attempts)
    turn.frame.state.attempts[step.name] = 0
    turn.frame.state.stack = []
    _apply_signal(turn, step.on_exhausted or Transition("complete"))
    return True


def leave(turn: ActiveTurn) -> None:
    """Leave the current step, if there is one."""
    state = turn.frame.state
    if state.step is None:
        return
    recall(turn, f"step:exit:{state.step}", "step:exit:*")
    turn.note("left", state.step)
    state.path = [*state.path[-_LONGEST_PATH:], state.step]
    state.step, state.stack = None, []


def reset(turn: ActiveTurn, when: str) -> None:
    """Set the variables that are reset at this point to their initial values."""
    plan = turn.frame.plan
    for name in plan.resets.get(when, ()):
        assign_initial_value(turn, plan.declarations.session[name])


def assign_initial_value(turn: ActiveTurn, slot: SessionSlot) -> None:
    """Set a variable to its initial value; None without a declared one."""
    if slot.initial is None:
        turn.assign(slot.name, None)
        return
    value, provenance = turn.derive(slot.initial)
    turn.assign(slot.name, value, (), provenance)


def stop_looping(turn: ActiveTurn) -> None:
    """Stop a flow that loops, and tell the user."""
    limit = turn.behaviour.transitions
    turn.note("stopped", "the flow", why=f"{limit} steps were entered in one turn, so it counts as looping")
    say_error(turn, "", "This is going in circles, so I stopped. Please try something else.")
    turn.wait("halted")


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


def _handle_error(turn: ActiveTurn, error: StepError, tried: int) -> Signal:
    """Return what follows an error: another attempt, another step, the next action, or a pause with a message."""
    turn.note("error", error.kind, message=error.message, subtype=error.subtype or None)
    handler = _find_handler(turn, error)
    if handler is None:
        say_error(turn, error.kind)
        turn.wait("halted")
        return AGAIN
    if tried < min(handler.retry, turn.behaviour.retries):
        turn.behaviour.sleep(_delay(handler, tried))
        return _REPEAT
    signal = run_block(turn, handler.block)
    return _target_after_error(turn, handler) if signal is None else signal


def say_error(turn: ActiveTurn, kind: str, otherwise: str = DEFAULT_MESSAGE) -> None:
    """Say the text of `MESSAGES` for an error type, or for any error, or else a default."""
    messages = turn.frame.plan.messages
    template = messages.get(kind) or messages.get("error_default")
    turn.say(turn.render(template) if template else otherwise)


def _find_handler(turn: ActiveTurn, error: StepError) -> ErrorPlan | None:
    """Return the handler of an error: the step's before the agent's, one for its subtype before a general one."""
    step = turn.frame.step
    kinds = (*_FALLBACK_TYPES.get(error.kind, (error.kind,)), "unknown_error", "default")
    for handlers in (step.on_error if step else (), turn.frame.plan.on_error):
        for kind in kinds:
            for handler in sorted(handlers, key=lambda one: not one.subtypes):
                if handler.type == kind and (not handler.subtypes or error.subtype in handler.subtypes):
                    return handler
    return None


def _delay(handler: ErrorPlan, tried: int) -> float:
    factor = {"linear": tried + 1, "exponential": 2**tried}.get(handler.backoff, 1)
    return min(handler.delay * factor, handler.longest)


def _target_after_error(turn: ActiveTurn, handler: ErrorPlan) -> Signal:
    then = handler.then
    if then is None or then.kind == "continue":
        if then is None and not handler.back_to:
            turn.wait("halted")
            return AGAIN
        return Transition("step", handler.back_to) if handler.back_to else None
    if then.kind == "backtrack":
        return Transition("step", handler.back_to) if handler.back_to else Transition("backtrack")
    return then
