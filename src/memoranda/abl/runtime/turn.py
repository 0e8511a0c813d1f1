"""The order of one turn: input, rules, flow, memory, and where control goes."""

from __future__ import annotations

from typing import Any, Literal

from memoranda.abl.runtime.constraints import apply_rule, broken_rule
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
from memoranda.abl.runtime.gather import GatherAction, find_interruption, find_values, keep_values, question
from memoranda.abl.runtime.memory import remember
from memoranda.abl.runtime.plan import InterruptionPlan, Leap
from memoranda.abl.runtime.state import Collecting
from memoranda.abl.runtime.work import Departure, StepError, Work

Verdict = Literal["passed", "held", "elsewhere"]


def open_session(work: Work, given: dict[str, Any]) -> None:
    """Take the opening turn: activate the agent and run it until it waits."""
    try:
        activate(work, given)
    except StepError as error:
        _handle_error(work, error)
    _finish_turn(work)


def take_turn(work: Work) -> None:
    """Take a turn with the user's words."""
    refresh_shared(work)
    names = work.frame.names
    names["last_input"], names["input"] = names.get("input"), work.text
    names["turn_count"] = (names.get("turn_count") or 0) + 1
    work.note("input", work.text)
    rearm_handoffs_by_words(work)
    try:
        run_hook(work, "before_turn")
        if not work.paused and work.departure is None:
            _apply_input(work)
    except StepError as error:
        _handle_error(work, error)
    _finish_turn(work)


def _finish_turn(work: Work) -> None:
    """Run the flow, remember, and pass control on, until the session waits."""
    changes = 0
    while True:
        try:
            if not work.paused:
                run_flow(work)
            remember(work, work.frame)
            departure = _choose_departure(work)
            verdict = _judge_reply(work, departure)
            if verdict == "held" or (departure is None and verdict == "passed"):
                break
            if verdict == "elsewhere":
                continue
            assert departure is not None
            changes += 1
            if changes > work.behaviour.handoffs:
                work.note("stopped", "the agents", why="control changed hands too often in one turn")
                break
            if not _depart(work, departure):
                break
        except StepError as error:
            _handle_error(work, error)
            break
    try:
        run_hook(work, "after_turn")
    except StepError as error:
        work.note("error", error.kind, message=error.message)


def _choose_departure(work: Work) -> Departure | None:
    """Return where control goes after a turn: where the flow gave it, else where the agent's sections give it.

    An escalation or handoff that is due takes precedence over the end of the flow.
    """
    if work.departure is not None and work.departure.kind != "complete":
        return work.departure
    rearm(work)
    found = find_departure(work)
    if found is None and work.frame.state.wait == "done":
        # Its flow handed over to an agent that has returned, so nothing is left to do.
        return Departure("complete")
    if work.departure is None or (found is not None and found.kind in ("escalate", "handoff")):
        return found
    return work.departure


def _handle_error(work: Work, error: StepError) -> None:
    """Handle an error outside of any step."""
    work.note("error", error.kind, message=error.message, subtype=error.subtype or None)
    say_error(work, error.kind)
    work.wait(work.frame.state.wait or "halted")


def _depart(work: Work, departure: Departure) -> bool:
    """Give control away; say whether the turn continues with an agent."""
    work.departure, work.paused = None, False
    if departure.kind == "escalate":
        escalate(work, departure)
        return False
    if departure.kind == "handoff":
        return hand_off(work, departure)
    if departure.kind == "delegate":
        waited = work.frame.state.wait
        plan = next(plan for plan in work.frame.plan.delegates if plan.number == departure.number)
        delegate(work, plan)
        # The agent waits for the same as before, but the result may trigger another departure.
        work.frame.state.wait = waited
        work.paused = bool(waited)
        return True
    return complete(work, departure)


# --- input -------------------------------------------------------------------------------------------


def _apply_input(work: Work) -> None:
    """Pass the user's words to an intent, a GATHER or the questions of a rule; then check the rules."""
    state = work.frame.state
    if state.wait == "done":
        work.session.status = "waiting"
        activate(work, {})
        _check_rules(work)
        return
    interruption = _find_interruption(work)
    if interruption is None and state.wait == "collect" and state.collecting is not None:
        if not _collect(work, state.collecting):
            return
        # The words that the rule stopped are used again.
        interruption = _find_interruption(work) if work.fresh else None
    elif interruption is None:
        _take_values(work)
    if state.wait == "returning" and not _retry_reply(work):
        return
    if not _check_rules(work):
        return
    if interruption is not None:
        _interrupt(work, interruption)


def _find_interruption(work: Work) -> InterruptionPlan | None:
    plan = work.frame.plan
    choices = plan.interruptions.get(work.frame.state.step, plan.digressions)
    found = find_interruption(work, choices) if choices else None
    if found is not None:
        work.frame.names["intent"] = found.label
        work.note("intent", found.label)
    return found


def _take_values(work: Work) -> None:
    """Pass the words to the GATHER that asked."""
    state = work.frame.state
    if state.wait == "gather" and state.stack:
        number, place = state.stack[-1]
        action: Any = work.frame.plan.blocks[number].actions[place]
        if isinstance(action, GatherAction) and not action.take(work) and work.frame.step is not None:
            step = work.frame.step
            count_attempt(work, step)
            leave_if_exhausted(work, step)


def _collect(work: Work, collecting: Collecting) -> bool:
    """Take values that a broken rule asked for; say whether none is missing."""
    fields = work.frame.plan.fields
    left = [fields[name] for name in collecting.fields if name not in collecting.given]
    asked = left[0].name if left else None
    taken = keep_values(work, left, find_values(work, left, asked, "hybrid"))
    collecting.given.extend(taken)
    work.fresh = False
    left = [field for field in left if field.name not in collecting.given]
    if left:
        work.say(question(work, left[0]))
        work.wait("collect")
        return False
    work.frame.state.collecting = None
    if collecting.then == "continue":
        work.frame.state.excused.append(collecting.rule)
    number_and_place = work.frame.state.stack[-1] if work.frame.state.stack else None
    held = work.frame.state.held is not None
    work.frame.state.wait = "returning" if held else _wait_at(work, number_and_place)
    if collecting.words is not None:
        work.text = work.frame.names["input"] = collecting.words
        work.fresh = collecting.unused
    return True


def _wait_at(work: Work, place: list[int] | None) -> Any:
    """Return what the agent waited for before a rule stopped it."""
    if place is None:
        return ""
    actions = work.frame.plan.blocks[place[0]].actions
    return "gather" if place[1] < len(actions) and isinstance(actions[place[1]], GatherAction) else ""


def _check_rules(work: Work) -> bool:
    """Check the rules of every turn; say whether the turn may continue."""
    rule = broken_rule(work, "turn")
    state = work.frame.state
    waited = state.wait
    signal = apply_rule(work, rule) if rule is not None else None
    if signal is None:
        state.again = []
        return True
    if type(signal) is Leap:
        # The words that the rule stopped must not be used where it leads.
        work.fresh, work.answered = False, None
        go_to(work, signal)
        return False
    if state.wait == "halted":
        # The position in the flow stays; the user may rephrase what was refused.
        state.wait = waited
        state.again = [name for name in work.taken if name not in state.again] + state.again
    return False


def _interrupt(work: Work, interruption: InterruptionPlan) -> None:
    """Answer an intent, then return to the step or go elsewhere."""
    work.fresh = False
    state = work.frame.state
    if interruption.goto is not None and not interruption.block.actions:
        go_to(work, interruption.goto)
        return
    # The position in the step stays: a GATHER asks again for what is missing afterwards.
    work.reasked = interruption.responds and (interruption.clears or not interruption.resume)
    state.stack.append([interruption.block.number, 0])
    if state.wait == "input":
        state.wait = ""


# --- reply --------------------------------------------------------------------------------------------------


def _judge_reply(work: Work, departure: Departure | None) -> Verdict:
    """Check the rules for returning results, if the turn is about to return them."""
    if departure is None:
        return "passed" if work.blocked else _check_reply(work, ends=False)
    return _check_reply(work, ends=True) if departure.kind == "complete" else "passed"


def _check_reply(work: Work, *, ends: bool) -> Verdict:
    """Return whether the messages of the turn pass the rules; if not, they are held back until they do."""
    state = work.frame.state
    if "returning" not in work.frame.plan.rules or not (work.messages or ends):
        return "passed"
    if not (ends or work.given_results or work.behaviour.returning == "every_reply"):
        return "passed"
    rule = broken_rule(work, "returning")
    if rule is None:
        return "passed"
    held, work.messages = work.messages, []
    waited = state.wait
    signal = apply_rule(work, rule)
    if signal is None:
        work.messages = [*held, *work.messages]
        return "passed"
    work.departure = work.departure if work.departure and work.departure.kind != "complete" else None
    if type(signal) is Leap:
        work.paused = False
        go_to(work, signal)
        # A flow that was stopped for looping has told the user already, and must not loop again.
        return "held" if work.paused else "elsewhere"
    state.held, state.held_end = held, ends
    if state.wait == "halted":
        state.wait = "returning"
    if not ends:
        state.mind.waited = waited
    return "held"


def _retry_reply(work: Work) -> bool:
    """Check a reply again that a rule held back; say whether the turn continues."""
    state = work.frame.state
    held, ends = state.held or [], state.held_end
    state.held, state.held_end, state.wait = None, False, ""
    work.messages, before = [*held], work.messages
    work.given_results = True
    verdict = _check_reply(work, ends=ends)
    if verdict == "held":
        return False
    work.messages = [*before, *work.messages]
    if verdict == "elsewhere":
        return True
    if ends:
        work.departure = Departure("complete")
        return True
    state.wait, state.mind.waited = state.mind.waited, ""
    work.fresh = False
    return True
