"""The order of one turn: input, rules, flow, memory, and where control goes."""

from __future__ import annotations

from typing import Any, Literal

from memoranda.abl.runtime.active_turn import ActiveTurn, Departure, Position, StepError
from memoranda.abl.runtime.constraints import check_rules
from memoranda.abl.runtime.coordination import (
    activate,
    complete,
    delegate,
    escalate,
    find_departure,
    hand_off,
    rearm,
    rearm_handoffs_by_words,
    refresh_shared,
    run_hook,
)
from memoranda.abl.runtime.flow import count_attempt, go_to, leave_if_exhausted, run_flow, say_error
from memoranda.abl.runtime.gather import GatherAction, find_category, find_interruption, find_values, keep_values
from memoranda.abl.runtime.memory import remember
from memoranda.abl.runtime.plan import FieldPlan, InterruptionPlan, Transition
from memoranda.abl.runtime.state import Collecting
from memoranda.runs.provenance import OWN

NO_MODEL = "I cannot answer: I need a language model, and none is set up."
Verdict = Literal["passed", "held", "elsewhere"]


def open_session(turn: ActiveTurn, given: dict[str, Any]) -> None:
    """Take the opening turn: activate the agent and run it until it waits."""
    try:
        activate(turn, {name: (value, OWN) for name, value in given.items()})
    except StepError as error:
        _handle_error(turn, error)
    _finish_turn(turn)


def take_turn(turn: ActiveTurn) -> None:
    """Take a turn with the user's words."""
    refresh_shared(turn)
    turn.waited_at = Position(turn.frame)
    for frame in turn.all_frames():
        frame.unsettle_rules()
    names = turn.frame.names
    names["last_input"], names["input"] = names.get("input"), turn.text
    names["turn_count"] = (names.get("turn_count") or 0) + 1
    turn.note("input", turn.text)
    rearm_handoffs_by_words(turn)
    try:
        find_category(turn)
        run_hook(turn, "before_turn")
        if not turn.paused and turn.departure is None:
            _apply_input(turn)
    except StepError as error:
        _handle_error(turn, error)
    _finish_turn(turn)


def _finish_turn(turn: ActiveTurn) -> None:
    """Run the flow, remember, and pass control on, until the session waits."""
    changes = 0
    while True:
        try:
            if not turn.paused:
                run_flow(turn)
            remember(turn, turn.frame)
            departure = _choose_departure(turn)
            stopped = _check_departure(turn, departure)
            if stopped is not None:
                if stopped == "elsewhere":
                    continue
                break
            verdict = _judge_reply(turn, departure)
            if verdict == "held" or (departure is None and verdict == "passed"):
                _say_without_model(turn)
                break
            if verdict == "elsewhere":
                continue
            assert departure is not None
            changes += 1
            if changes > turn.behaviour.handoffs:
                turn.note("stopped", "the agents", why="control changed hands too often in one turn")
                break
            if not _depart(turn, departure):
                break
        except StepError as error:
            _handle_error(turn, error)
            break
    try:
        run_hook(turn, "after_turn")
    except StepError as error:
        turn.note("error", error.kind, message=error.message)


def _say_without_model(turn: ActiveTurn) -> None:
    """Tell the user, once, if only a model could have answered, and the agent has none."""
    frame = turn.frame
    silent = not (turn.messages or turn.opening or frame.state.notes.unanswered)
    if silent and frame.state.wait == "reasoning" and frame.member.model is None:
        frame.state.notes.unanswered = True
        turn.say(NO_MODEL)


def _check_departure(turn: ActiveTurn, departure: Departure | None) -> Verdict | None:
    """Check the rules before the agent ends, delegates or waits; None if it may."""
    if departure is None:
        # If the turn says anything, it is a question, or was checked.
        signal = None if turn.blocked else check_rules(turn, "prompt" if turn.messages or turn.opening else "reply")
    elif departure.kind in ("complete", "delegate"):
        signal = check_rules(turn, "complete" if departure.kind == "complete" else "call")
    else:
        return None
    if signal is None:
        return None
    if turn.departure is not None and turn.departure.kind not in ("complete", "delegate"):
        # The rule gives control away; this is checked no further.
        turn.paused = True
        return "elsewhere"
    turn.departure = None
    if type(signal) is Transition:
        turn.paused = False
        go_to(turn, signal)
        return "held" if turn.paused else "elsewhere"
    if turn.frame.state.collecting is not None and departure is not None and departure.kind == "complete":
        # The agent ends when the values are given.
        turn.frame.state.held, turn.frame.state.held_end = [], True
    return "held"


def _choose_departure(turn: ActiveTurn) -> Departure | None:
    """Return where control goes after a turn: where the flow gave it, else where the agent's sections give it.

    An escalation or handoff that is due takes precedence over the end of the flow.
    """
    if turn.departure is not None and turn.departure.kind != "complete":
        return turn.departure
    rearm(turn)
    found = find_departure(turn)
    if found is None and turn.frame.state.wait == "done":
        # Its flow handed over to an agent that has returned, so nothing is left to do.
        return Departure("complete")
    if turn.departure is None or (found is not None and found.kind in ("escalate", "handoff")):
        return found
    return turn.departure


def _handle_error(turn: ActiveTurn, error: StepError) -> None:
    """Handle an error outside of any step."""
    turn.note("error", error.kind, message=error.message, subtype=error.subtype or None)
    say_error(turn, error.kind)
    turn.wait(turn.frame.state.wait or "halted")


def _depart(turn: ActiveTurn, departure: Departure) -> bool:
    """Give control away; say whether the turn continues with an agent."""
    turn.departure, turn.paused = None, False
    if departure.kind in ("escalate", "handoff") and turn.frame.state.wait == "gather":
        # The agent that takes over speaks, so no one would answer the question of this one.
        del turn.messages[turn.question_from :]
    if departure.kind == "escalate":
        escalate(turn, departure)
        return False
    if departure.kind == "handoff":
        return hand_off(turn, departure)
    if departure.kind == "delegate":
        waited = turn.frame.state.wait
        plan = next(plan for plan in turn.frame.plan.delegates if plan.number == departure.number)
        delegate(turn, plan)
        # The agent waits for the same as before, but the result may trigger another departure.
        turn.frame.state.wait = waited
        turn.paused = bool(waited)
        return True
    return complete(turn, departure)


# --- input -------------------------------------------------------------------------------------------


def _apply_input(turn: ActiveTurn) -> None:
    """Pass the user's words to an intent, a GATHER or the questions of a rule."""
    state = turn.frame.state
    if state.wait == "done":
        turn.session.status = "waiting"
        activate(turn, {})
        return
    interruption = _find_interruption(turn)
    if interruption is None and state.wait == "collect" and state.collecting is not None:
        if not _collect(turn, state.collecting):
            return
        # The words that the rule stopped are used again.
        interruption = _find_interruption(turn) if turn.fresh else None
        turn.waited_at = Position(turn.frame)
    elif interruption is None:
        _take_values(turn)
    if state.wait == "returning" and not _retry_reply(turn):
        return
    if interruption is not None:
        _interrupt(turn, interruption)


def _find_interruption(turn: ActiveTurn) -> InterruptionPlan | None:
    plan = turn.frame.plan
    choices = plan.interruptions.get(turn.frame.state.step, plan.digressions)
    found = find_interruption(turn, choices) if choices else None
    if found is not None:
        turn.frame.names["intent"] = found.label
        turn.note("intent", found.label)
    return found


def _take_values(turn: ActiveTurn) -> None:
    """Pass the words to the GATHER that asked, and to fields elsewhere that a broken rule reads."""
    state = turn.frame.state
    gather: GatherAction | None = None
    if state.wait == "gather" and state.stack:
        number, place = state.stack[-1]
        action = turn.frame.plan.blocks[number].actions[place]
        gather = action if isinstance(action, GatherAction) else None
    elsewhere: list[str] = []
    if state.again:
        # Before the GATHER takes values, which removes its fields from `again`.
        own = [field.name for field in gather.fields] if gather is not None else []
        elsewhere = [name for name in state.again if name not in own and name in turn.frame.plan.fields]
    taken = gather is not None and gather.take(turn)
    if elsewhere and not taken and (state.wait != "reasoning" or turn.frame.member.model is None):
        taken = _take_elsewhere(turn, elsewhere)
    if gather is not None and not taken and turn.frame.step is not None:
        step = turn.frame.step
        count_attempt(turn, step)
        leave_if_exhausted(turn, step)


def _take_elsewhere(turn: ActiveTurn, names: list[str]) -> bool:
    """Take values of fields that a broken rule reads; say whether there were any. The words stay for ON_INPUT."""
    state = turn.frame.state
    fields = [turn.frame.plan.fields[name] for name in names]
    # Any words fit a text, so they are taken for one only if the user was asked for it.
    asked = next(
        (field for field in fields if field.wanted.type not in (None, "string") or not _has_value(turn, field)), None
    )
    taken = keep_values(turn, fields, find_values(turn, fields, asked.name if asked else None, "pattern"))
    state.again = [name for name in state.again if name not in taken]
    if taken and state.wait != "input":
        turn.fresh = False
    return bool(taken)


def _has_value(turn: ActiveTurn, field: FieldPlan) -> bool:
    return turn.frame.names.get(field.name) is not None


def _collect(turn: ActiveTurn, collecting: Collecting) -> bool:
    """Take values that a broken rule asked for; say whether none is missing."""
    fields = turn.frame.plan.fields
    left = [fields[name] for name in collecting.fields if name not in collecting.given]
    asked = left[0].name if left else None
    taken = keep_values(turn, left, find_values(turn, left, asked, "hybrid"))
    collecting.given.extend(taken)
    turn.fresh = False
    left = [field for field in left if field.name not in collecting.given]
    if left:
        turn.say(left[0].question(turn))
        turn.wait("collect")
        return False
    turn.frame.state.collecting = None
    if collecting.then == "continue":
        turn.rule_checks.excused.add(collecting.rule)
    number_and_place = turn.frame.state.stack[-1] if turn.frame.state.stack else None
    held = turn.frame.state.held is not None
    turn.frame.state.wait = "returning" if held else _wait_at(turn, number_and_place)
    if collecting.words is not None:
        turn.text = turn.frame.names["input"] = collecting.words
        turn.fresh = collecting.unused
    return True


def _wait_at(turn: ActiveTurn, place: list[int] | None) -> Any:
    """Return what the agent waited for before a rule stopped it."""
    if place is None:
        return ""
    actions = turn.frame.plan.blocks[place[0]].actions
    return "gather" if place[1] < len(actions) and isinstance(actions[place[1]], GatherAction) else ""


def _interrupt(turn: ActiveTurn, interruption: InterruptionPlan) -> None:
    """Answer an intent, then return to the step or go elsewhere."""
    turn.fresh = False
    turn.steps_of_digression = 2
    state = turn.frame.state
    if interruption.goto is not None and not interruption.block.actions:
        go_to(turn, interruption.goto)
        return
    # The position in the step stays: a GATHER asks again for what is missing afterwards.
    turn.reasked = interruption.responds and interruption.clears
    turn.reread = interruption.clears
    state.stack.append([interruption.block.number, 0])
    if state.wait == "input":
        state.wait = ""


# --- reply --------------------------------------------------------------------------------------------------


def _judge_reply(turn: ActiveTurn, departure: Departure | None) -> Verdict:
    """Check the rules for returning results, if the turn is about to return them."""
    if departure is None:
        return "passed" if turn.blocked else _check_reply(turn, ends=False)
    return _check_reply(turn, ends=True) if departure.kind == "complete" else "passed"


def _check_reply(turn: ActiveTurn, *, ends: bool) -> Verdict:
    """Return whether the messages of the turn pass the rules; if not, they are held back until they do."""
    state = turn.frame.state
    if not turn.frame.plan.rules_at("results") or not (turn.messages or ends):
        return "passed"
    if not (ends or turn.given_results or turn.behaviour.returning == "every_reply"):
        return "passed"
    held, turn.messages = turn.messages, []
    waited = state.wait
    signal = check_rules(turn, "results")
    if signal is None:
        turn.messages = [*held, *turn.messages]
        return "passed"
    turn.departure = turn.departure if turn.departure and turn.departure.kind != "complete" else None
    if type(signal) is Transition:
        turn.paused = False
        go_to(turn, signal)
        # A flow that was stopped for looping has told the user already, and must not loop again.
        return "held" if turn.paused else "elsewhere"
    state.held, state.held_end = held, ends
    if state.wait == "halted":
        state.wait = "returning"
    if not ends:
        state.notes.waited = waited
    return "held"


def _retry_reply(turn: ActiveTurn) -> bool:
    """Check a reply again that a rule held back; say whether the turn continues."""
    state = turn.frame.state
    held, ends = state.held or [], state.held_end
    state.held, state.held_end, state.wait = None, False, ""
    turn.messages, before = [*held], turn.messages
    turn.given_results = True
    verdict = _check_reply(turn, ends=ends)
    if verdict == "held":
        return False
    turn.messages = [*before, *turn.messages]
    if verdict == "elsewhere":
        return True
    if ends:
        turn.departure = Departure("complete")
        return True
    state.wait, state.notes.waited = state.notes.waited, ""
    turn.fresh = False
    return True
