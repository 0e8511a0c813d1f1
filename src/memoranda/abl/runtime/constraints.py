"""Check the rules of an agent at a checkpoint, and apply the first broken one."""

from __future__ import annotations

from memoranda.abl.runtime.gather import question
from memoranda.abl.runtime.plan import AGAIN, FailurePlan, Leap, RulePlan, Signal
from memoranda.abl.runtime.state import Collecting
from memoranda.abl.runtime.work import Departure, Work

DEFAULT_MESSAGE = "That is not possible right now."
_MOST_WARNINGS = 50
"""Maximum number of saved warnings; the state of a session is written in every turn, so it must not grow."""


def broken_rule(work: Work, checkpoint: str) -> RulePlan | None:
    """Return the first broken rule of a checkpoint that is more than a warning, in the order of the file."""
    rules = work.frame.plan.rules.get(checkpoint)
    if not rules:
        return None
    excused = work.frame.state.excused
    for rule in rules:
        if rule.number in excused:
            excused.remove(rule.number)
            continue
        if not _is_broken(rule, work):
            continue
        if not rule.warns:
            work.note("rule", rule.text, holds=False, checkpoint=checkpoint)
            return rule
        _warn(rule, work)
    return None


def _is_broken(rule: RulePlan, work: Work) -> bool:
    if rule.gate is not None and not work.test(rule.gate):
        return False
    return work.test(rule.condition) is rule.forbids


def _warn(rule: RulePlan, work: Work) -> None:
    template = rule.failure.respond if rule.failure else None
    message = work.render(template) if template else rule.text
    warnings: list[str] = work.frame.names.get("_constraint_warnings") or []
    work.frame.names["_constraint_warnings"] = [*warnings[1 - _MOST_WARNINGS :], message]
    work.note("warning", message, rule=rule.text)


def apply_rule(work: Work, rule: RulePlan) -> Signal:
    """Apply a broken rule: respond, ask for values, go elsewhere, or give control away."""
    names = work.frame.names
    names["constraint_failures"] = (names.get("constraint_failures") or 0) + 1
    failure = rule.failure or FailurePlan(form="respond")
    work.note("blocked", rule.text, by=failure.form)
    if failure.respond is not None:
        work.say(work.render(failure.respond))
    elif failure.form == "respond":
        work.say(DEFAULT_MESSAGE)
    if failure.form == "escalate":
        work.departure = Departure("escalate", reason=rule.text, by_rule=True)
        return AGAIN
    if failure.handoff:
        work.departure = Departure("handoff", agent=failure.handoff, reason=rule.text, by_rule=True)
        return AGAIN
    if failure.collect:
        return _collect(work, rule, failure)
    return _after(work, failure)


def _collect(work: Work, rule: RulePlan, failure: FailurePlan) -> Signal:
    """Ask for the missing values; if none is missing, for all of them again."""
    names, state = work.frame.names, work.frame.state
    fields = [name for name in failure.collect if names.get(name) is None] or list(failure.collect)
    state.collecting = Collecting(
        fields,
        rule.number,
        failure.then or "retry",
        words=names.get("input"),
        unused=rule.checkpoint == "turn" and (work.fresh or work.answered is not None),
    )
    if failure.respond is None:
        work.say(question(work, work.frame.plan.fields[fields[0]]))
    work.blocked = True
    work.wait("collect")
    return AGAIN


def _after(work: Work, failure: FailurePlan) -> Signal:
    if failure.goto is not None:
        return failure.goto
    if failure.retry or failure.then == "retry":
        work.retried += 1
        if work.retried <= work.behaviour.retries:
            return Leap("retry")
        work.note("stopped", "repeating", why=f"a rule was still broken after {work.behaviour.retries} attempts")
    elif failure.then == "continue":
        return None
    work.blocked = True
    work.wait("halted")
    return AGAIN
