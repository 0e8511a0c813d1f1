"""Check the rules of an agent at a checkpoint, and apply the first broken one."""

from __future__ import annotations

from memoranda.abl.runtime.active_turn import ActiveTurn, Departure
from memoranda.abl.runtime.gather import question
from memoranda.abl.runtime.plan import AGAIN, FailurePlan, RulePlan, Signal, Transition
from memoranda.abl.runtime.state import Collecting

DEFAULT_MESSAGE = "That is not possible right now."
_MOST_WARNINGS = 50
"""Maximum number of saved warnings; the state of a session is written in every turn, so it must not grow."""


def broken_rule(turn: ActiveTurn, checkpoint: str) -> RulePlan | None:
    """Return the first broken rule of a checkpoint that is more than a warning, in the order of the file."""
    rules = turn.frame.plan.rules.get(checkpoint)
    if not rules:
        return None
    excused = turn.frame.state.excused
    for rule in rules:
        if rule.number in excused:
            excused.remove(rule.number)
            continue
        if not _is_broken(rule, turn):
            continue
        if not rule.warns:
            turn.note("rule", rule.text, holds=False, checkpoint=checkpoint)
            return rule
        _warn(rule, turn)
    return None


def _is_broken(rule: RulePlan, turn: ActiveTurn) -> bool:
    if rule.gate is not None and not turn.test(rule.gate):
        return False
    return turn.test(rule.condition) is rule.forbids


def _warn(rule: RulePlan, turn: ActiveTurn) -> None:
    template = rule.failure.respond if rule.failure else None
    message = turn.render(template) if template else rule.text
    warnings: list[str] = turn.frame.names.get("_constraint_warnings") or []
    turn.frame.names["_constraint_warnings"] = [*warnings[1 - _MOST_WARNINGS :], message]
    turn.note("warning", message, rule=rule.text)


def apply_rule(turn: ActiveTurn, rule: RulePlan) -> Signal:
    """Apply a broken rule: respond, ask for values, go elsewhere, or give control away."""
    names = turn.frame.names
    names["constraint_failures"] = (names.get("constraint_failures") or 0) + 1
    failure = rule.failure or FailurePlan(form="respond")
    turn.note("blocked", rule.text, by=failure.form)
    if failure.respond is not None:
        turn.say(turn.render(failure.respond))
    elif failure.form == "respond":
        turn.say(DEFAULT_MESSAGE)
    if failure.form == "escalate":
        turn.departure = Departure("escalate", reason=rule.text, by_rule=True)
        return AGAIN
    if failure.handoff:
        turn.departure = Departure("handoff", agent=failure.handoff, reason=rule.text, by_rule=True)
        return AGAIN
    if failure.collect:
        return _collect(turn, rule, failure)
    return _after(turn, failure)


def _collect(turn: ActiveTurn, rule: RulePlan, failure: FailurePlan) -> Signal:
    """Ask for the missing values; if none is missing, for all of them again."""
    names, state = turn.frame.names, turn.frame.state
    fields = [name for name in failure.collect if names.get(name) is None] or list(failure.collect)
    state.collecting = Collecting(
        fields,
        rule.number,
        failure.then or "retry",
        words=names.get("input"),
        unused=rule.checkpoint == "turn" and (turn.fresh or turn.answered is not None),
    )
    if failure.respond is None:
        turn.say(question(turn, turn.frame.plan.fields[fields[0]]))
    turn.blocked = True
    turn.wait("collect")
    return AGAIN


def _after(turn: ActiveTurn, failure: FailurePlan) -> Signal:
    if failure.goto is not None:
        return failure.goto
    if failure.retry or failure.then == "retry":
        turn.retried += 1
        if turn.retried <= turn.behaviour.retries:
            return Transition("retry")
        turn.note("stopped", "repeating", why=f"a rule was still broken after {turn.behaviour.retries} attempts")
    elif failure.then == "continue":
        return None
    turn.blocked = True
    turn.wait("halted")
    return AGAIN
