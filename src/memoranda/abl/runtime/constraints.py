"""Check the rules of an agent at its checkpoints, and apply the first broken one.

A rule without `BEFORE` is checked wherever the agent is about to do something that the user or the world notices. A
rule that was checked is checked again only after one of the variables that it reads has changed, in the same turn or in
later ones; a rule that reads a fact or the time is checked in each turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from memoranda.abl.runtime.active_turn import ActiveTurn, Departure, RuleChecks
from memoranda.abl.runtime.plan import AGAIN, FailurePlan, FieldPlan, RulePlan, Signal, Transition
from memoranda.abl.runtime.state import Collecting, Remedy
from memoranda.lang.expression.compiler import Layer
from memoranda.lang.expression.nodes import Path

DEFAULT_MESSAGE = "That is not possible right now."
_MOST_WARNINGS = 50
"""Maximum number of saved warnings; the state of a session is written in every turn, so it must not grow."""

Checkpoint = Literal["call", "complete", "results", "reply", "question", "prompt", "step", "hook"]
"""What the agent is about to do: call a tool or another agent; end; return results; send a message; ask for a field;
send the opening message of a step that then waits; enter a step; run an action of a hook or of ON_START."""

_SILENT: frozenset[Checkpoint] = frozenset(("prompt", "step", "hook"))
"""Checkpoints that only a rule stops whose variables changed in this turn.

A user has to be able to go elsewhere and to hear a question while a rule is broken.
"""
_OPEN_TO_DIGRESSIONS: frozenset[Checkpoint] = frozenset(("complete", "results", "reply", "question", "prompt", "step"))
"""Checkpoints that a digression passes, so that "cancel" always works; it cannot call tools either."""


class CallArguments:
    """A tool call that rules judge: its tool, its arguments by name, and the paths that they are computed from."""

    __slots__ = ("paths", "tool", "values")

    def __init__(self, tool: str, values: Mapping[str, Any], paths: Iterable[Path] = ()) -> None:
        """Describe a call."""
        self.tool = tool
        self.values = values
        self.paths = (*paths, *((name,) for name in values))


def check_rules(
    turn: ActiveTurn,
    checkpoint: Checkpoint,
    call: CallArguments | None = None,
    *,
    step: str | None = None,
    missing: Iterable[FieldPlan] = (),
) -> Signal:
    """Apply the first broken rule of a checkpoint; return None if what follows may happen.

    `step` is the step that is about to be entered; by default the agent stays in its step. `missing` are the fields
    that a question is about: a rule that only waits for one of them does not stop it.
    """
    frame = turn.frame
    always = call is not None or checkpoint in frame.plan.checkpoints
    if not frame.plan.rules or not (always or frame.unsettled or frame.names.changed):
        return None
    checks = turn.rule_checks
    checks.refresh(frame)
    if not (always or checks.unchecked):
        return None
    starts = turn.opening and frame.state.step is None and checkpoint in ("call", "reply", "question", "prompt")
    if turn.in_hook or starts:
        checkpoint = "hook"
    if turn.steps_of_digression and checkpoint in _OPEN_TO_DIGRESSIONS:
        return None
    here = frame.state.step if step is None else step
    for rule in frame.plan.rules_at(f"calling {call.tool}" if call else checkpoint):
        if rule.number in checks.excused or not _is_due(turn, checks, rule, checkpoint, call):
            continue
        if _is_suspended(turn, rule, call, here):
            continue
        names = _breaking_names(turn, checks, rule, call)
        if names is None:
            continue
        # It asks where its answer is used: at the first action of the step.
        if checkpoint == "step" and rule.failure is not None and rule.failure.collect:
            continue
        if _waits_for_answer(turn, rule, missing):
            continue
        turn.note("rule", rule.text, holds=False, checkpoint=rule.checkpoint or checkpoint)
        signal = _apply(turn, checks, rule, call, names)
        if signal is not None:
            return signal
    return None


def _breaking_names(turn: ActiveTurn, checks: RuleChecks, rule: RulePlan, call: CallArguments | None) -> Any:
    """Check a rule; return the names with which it is broken, or None if it holds, or only warns."""
    frame = turn.frame
    views = _views(turn, checks, rule, call)
    broken = next((names for names in views if _is_broken(rule, turn, names)), None)
    if broken is not None and not rule.warns:
        return broken
    of_session = views[0] is frame.names
    if of_session:
        checks.unchecked.discard(rule.number)
    if broken is not None:
        _warn(rule, turn, broken)
        return None
    frame.state.remedies.pop(rule.number, None)
    if rule.settles and of_session:
        frame.unsettled.discard(rule.number)
    return None


def _views(turn: ActiveTurn, checks: RuleChecks, rule: RulePlan, call: CallArguments | None) -> tuple[Any, ...]:
    """Return the names that a rule has to hold for: those of the session, and with the arguments of a call on top.

    A rule about a call is judged by its arguments alone; any other must hold in the session, whatever they are.
    """
    names = turn.frame.names
    if call is None or rule.inputs.isdisjoint(call.values):
        return (names,)
    with_arguments = Layer(call.values, names)
    if rule.checkpoint or rule.number not in checks.unchecked:
        return (with_arguments,)
    return names, with_arguments


def _waits_for_answer(turn: ActiveTurn, rule: RulePlan, missing: Iterable[FieldPlan]) -> bool:
    """Say whether a rule only waits for a field that the question is about."""
    asked = {field.name for field in missing if turn.frame.names.get(field.name) is None}
    return not rule.inputs.isdisjoint(asked) and rule.inputs.isdisjoint(turn.taken)


def is_any_broken(turn: ActiveTurn) -> bool:
    """Say whether a rule of severity `error` without a checkpoint is broken now."""
    rules = turn.frame.plan.rules_at("reply")
    return any(not rule.warns and _is_broken(rule, turn, turn.frame.names) for rule in rules)


def _is_due(
    turn: ActiveTurn, checks: RuleChecks, rule: RulePlan, checkpoint: Checkpoint, call: CallArguments | None
) -> bool:
    """Say whether a rule has to be checked here: it may have changed, or it is about this checkpoint."""
    if rule.checkpoint:
        return True
    if call is not None and checkpoint == "call" and not rule.inputs.isdisjoint(call.values):
        return True
    if checkpoint in _SILENT or (turn.opening and checkpoint in ("reply", "question")):
        return rule.number in checks.unchecked and rule.number in checks.touched
    return rule.number in checks.unchecked


def _is_suspended(turn: ActiveTurn, rule: RulePlan, call: CallArguments | None, step: str | None) -> bool:
    """Say whether the remedy of a rule is under way: the step to which the rule led has not done its work yet."""
    remedies = turn.frame.state.remedies
    remedy = remedies.get(rule.number)
    if remedy is None or rule.checkpoint == "results":
        return False
    if remedy.step != step:
        del remedies[rule.number]
        return False
    if not rule.inputs.isdisjoint(turn.taken):
        return False
    # The step may call tools to repair what the rule found, but not the one that the rule stopped.
    return call is None or not (call.tool == remedy.tool or _overlap(rule.paths, call.paths))


def _overlap(some: Iterable[Path], others: Iterable[Path]) -> bool:
    others = tuple(others)
    return any(one[: len(two)] == two[: len(one)] for one in some for two in others)


def _is_broken(rule: RulePlan, turn: ActiveTurn, names: Any) -> bool:
    if rule.gate is not None and not turn.test(rule.gate, names):
        return False
    return turn.test(rule.condition, names) is rule.forbids


def _warn(rule: RulePlan, turn: ActiveTurn, names: Any) -> None:
    template = rule.failure.respond if rule.failure else None
    message = turn.render(template, names) if template else rule.text
    warnings: list[str] = turn.frame.names.get("_constraint_warnings") or []
    turn.frame.names["_constraint_warnings"] = [*warnings[1 - _MOST_WARNINGS :], message]
    turn.note("warning", message, rule=rule.text)


# --- what a broken rule does ---------------------------------------------------------------------------------


def _apply(turn: ActiveTurn, checks: RuleChecks, rule: RulePlan, call: CallArguments | None, names: Any) -> Signal:
    """Apply a broken rule: respond, ask for values, go elsewhere, or give control away.

    In one turn a rule says its message once, and leads to a step again only if a variable that it reads has changed.
    """
    own = turn.frame.names
    own["constraint_failures"] = (own.get("constraint_failures") or 0) + 1
    failure = rule.failure or FailurePlan(form="respond")
    turn.note("blocked", rule.text, by=failure.form)
    first = rule.number not in checks.fired
    checks.fired.add(rule.number)
    if first and failure.respond is not None:
        turn.say(turn.render(failure.respond, names))
    elif first and failure.form == "respond":
        turn.say(DEFAULT_MESSAGE)
    # The words that the rule stopped must not be used where it leads.
    words = turn.fresh, turn.answered
    turn.fresh, turn.answered = False, None
    if failure.form == "escalate":
        reason = turn.render(failure.reason, names) if failure.reason else rule.text
        turn.departure = Departure("escalate", reason=reason, by_rule=True)
        return AGAIN
    if failure.handoff:
        turn.departure = Departure("handoff", agent=failure.handoff, reason=rule.text, by_rule=True)
        return AGAIN
    if failure.collect:
        return _collect(turn, rule, failure, unused=words[0])
    if failure.goto is not None:
        if rule.number not in checks.led:
            checks.led.add(rule.number)
            return _lead_to(turn, rule, failure.goto, call)
        turn.note("stopped", "repeating", why="the step to which a rule led changed nothing that the rule reads")
        if not turn.messages:
            turn.say(DEFAULT_MESSAGE)
    elif failure.retry or failure.then == "retry":
        turn.retried += 1
        if turn.retried <= turn.behaviour.retries:
            return _lead_to(turn, rule, Transition("retry"), call)
        turn.note("stopped", "repeating", why=f"a rule was still broken after {turn.behaviour.retries} attempts")
    elif failure.then == "continue":
        checks.excused.add(rule.number)
        turn.fresh, turn.answered = words
        return None
    _halt(turn, rule, asks=first and failure.form == "respond")
    return AGAIN


def _collect(turn: ActiveTurn, rule: RulePlan, failure: FailurePlan, *, unused: bool) -> Signal:
    """Ask for the missing values; if none is missing, for all of them again."""
    names, state = turn.frame.names, turn.frame.state
    fields = [name for name in failure.collect if names.get(name) is None] or list(failure.collect)
    state.collecting = Collecting(fields, rule.number, failure.then or "retry", words=names.get("input"), unused=unused)
    if failure.respond is None:
        turn.say(turn.frame.plan.fields[fields[0]].question(turn))
    turn.blocked = True
    turn.wait("collect")
    return AGAIN


def _lead_to(turn: ActiveTurn, rule: RulePlan, target: Transition, call: CallArguments | None) -> Signal:
    """Go to the step that repairs what the rule found; its questions are asked again, even if they have answers."""
    state = turn.frame.state
    name = target.name if target.kind == "step" else state.step or turn.frame.plan.entry or ""
    state.remedies[rule.number] = Remedy(name, call.tool if call else "")
    asked = _field_names(turn, name)
    known = [field for field in asked if turn.frame.names.get(field) is not None]
    read = [field for field in known if field in rule.inputs]
    turn.ask_again = read or (known if known == asked else [])
    turn.taken = []
    return target


def _field_names(turn: ActiveTurn, step: str | None) -> list[str]:
    """Return the names of the fields that a step gathers."""
    plan = turn.frame.plan.steps.get(step) if step is not None else None
    return [field.name for field in plan.fields] if plan is not None else []


def _halt(turn: ActiveTurn, rule: RulePlan, *, asks: bool) -> None:
    """Stop what the rule forbids, and wait where the user's words were read, so that other words can repair it.

    Fields that the rule reads are asked for, or may be given again; no variable is cleared.
    """
    turn.blocked = True
    frame, state = turn.frame, turn.frame.state
    if rule.checkpoint == "results":
        turn.wait("halted")
        return
    point = turn.waited_at
    if point is not None and point.frame is frame:
        point.restore()
    elif state.step is None and not state.stack and state.path:
        *state.path, state.step = state.path
    here = _field_names(turn, state.step)
    read = [name for name in frame.plan.fields if name in rule.inputs]
    missing = [name for name in read if frame.names.get(name) is None]
    again = [name for name in read if name not in missing]
    if not read:
        # Other answers may lead elsewhere, so the user may change what was said last.
        again = [name for name in turn.taken if name in here]
    state.again = list(dict.fromkeys((*again, *state.again)))
    if asks and missing:
        state.again = list(dict.fromkeys((missing[0], *state.again)))
        turn.say(frame.plan.fields[missing[0]].question(turn))
    if state.wait == "gather" and state.again:
        state.asked = missing[0] if missing else next((name for name in again if name == state.asked), state.again[0])
    turn.wait(state.wait or "halted")
