"""The tools that the runtime itself gives a model: set variables, hand over, and delegate to other agents."""

from __future__ import annotations

from typing import Any, cast

from memoranda.abl.document import PREFIXES
from memoranda.abl.runtime.active_turn import ActiveTurn, Departure
from memoranda.abl.runtime.constraints import check_rules
from memoranda.abl.runtime.coordination import delegate
from memoranda.abl.runtime.gather import complaint_about
from memoranda.abl.runtime.plan import AGAIN, DelegatePlan, HandoffPlan, ModelVariable, Signal
from memoranda.abl.tools.outcome import Outcome, failure_outcome
from memoranda.abl.tools.parameters import type_schema
from memoranda.abl.variables import CATEGORY, KEPT_FROM_VIEW, fits
from memoranda.agent.models import ToolSpec
from memoranda.lang.diagnostics import did_you_mean
from memoranda.model.text import quote
from memoranda.runs.provenance import OWN, Provenance, together

SET_VARIABLES = "set_variables"
HAND_OFF = "hand_off"
DELEGATE = "delegate"
NAMES = (SET_VARIABLES, HAND_OFF, DELEGATE)
NOT_SET = "not set"


def specs(turn: ActiveTurn, *, routes: bool) -> tuple[ToolSpec, ...]:
    """Return the tools for the model; only if it `routes`, those that involve other agents."""
    plan = turn.frame.plan
    found = [_set_variables_spec(plan.model_variables)]
    if routes and plan.handoffs:
        what = "Hand the conversation over to another agent, when one of these conditions applies."
        found.append(_routing_spec(turn, HAND_OFF, what, {one.to: one.condition for one in plan.handoffs}))
    if routes and plan.delegates:
        what = "Let another agent do a part of the task and give you its results; the user does not notice."
        found.append(_routing_spec(turn, DELEGATE, what, {one.agent: one.condition for one in plan.delegates}))
    return tuple(found)


def _set_variables_spec(variables: tuple[ModelVariable, ...]) -> ToolSpec:
    properties = {one.path: {"description": one.description, **_schema(one)} for one in variables}
    values: dict[str, Any] = {"type": "object", "properties": properties}
    return ToolSpec(
        SET_VARIABLES,
        "Keep values that the user gave or that you found, by the name of their variable. Null removes a value.",
        {"type": "object", "properties": {"values": values}, "required": ["values"]},
    )


def _schema(variable: ModelVariable) -> dict[str, Any]:
    if variable.options:
        return {"enum": [*variable.options, None]}
    return type_schema(variable.type) if variable.type else {}


def _routing_spec(turn: ActiveTurn, name: str, what: str, targets: dict[str, str]) -> ToolSpec:
    lines = [what]
    for agent, condition in targets.items():
        member = turn.team(agent)
        about = member.plan.document.description or member.plan.document.goal if member else None
        told = [about.text] if about else []
        lines.append(f"- {agent}: {'. '.join([*told, f'When: {condition}'] if condition else told)}")
    schema = {
        "type": "object",
        "properties": {"agent": {"enum": list(targets)}, "reason": {"type": "string"}},
        "required": ["agent"],
    }
    return ToolSpec(name, "\n".join(lines), schema)


def variables_to_set(turn: ActiveTurn) -> dict[str, Any]:
    """Return the variables that the model may set, for its prompt: what each is for, and its current value."""
    frame = turn.frame
    found: dict[str, Any] = {}
    for variable in frame.plan.model_variables:
        fact = variable.fact
        readable = fact is None or (fact.access != "write" and not fact.sensitive)
        value = frame.value_at(variable.path, turn.run) if readable else KEPT_FROM_VIEW
        about: dict[str, Any] = {
            "type": variable.type,
            "description": variable.description,
            "one of": list(variable.options),
            "remembered as": list(variable.remembered),
        }
        found[variable.path] = {name: given for name, given in about.items() if given}
        shown = turn.hide(frame.redact({variable.path: value})[variable.path])
        found[variable.path]["value"] = NOT_SET if value is None else shown
    return found


def call(turn: ActiveTurn, name: str, arguments: dict[str, Any]) -> tuple[Outcome, Signal, Provenance]:
    """Run one of these tools; return what the model is told, where the agent goes, and what the first is made of."""
    if name == SET_VARIABLES:
        return _set_variables(turn, arguments.get("values")), None, OWN
    agent = str(arguments.get("agent"))
    if name == HAND_OFF:
        return *_hand_off(turn, agent, str(arguments.get("reason") or "")), OWN
    return _delegate(turn, agent)


# --- variables -------------------------------------------------------------------------------------------------


def _set_variables(turn: ActiveTurn, values: Any) -> Outcome:
    if not isinstance(values, dict):
        return failure_outcome("validation_error", "`values` has to be an object")
    kept: list[str] = []
    refused: dict[str, str] = {}
    for path, value in cast("dict[str, Any]", values).items():
        problem = _set(turn, path, value)
        if problem:
            turn.note("refused", path, why=problem)
            refused[path] = problem
        else:
            kept.append(path)
    return Outcome({"kept": kept, "refused": refused} if refused else {"kept": kept})


def _set(turn: ActiveTurn, path: str, value: Any) -> str:
    """Set a variable for the model; return what is wrong, if anything is."""
    frame, plan = turn.frame, turn.frame.plan
    variable = next((one for one in plan.model_variables if one.path == path), None)
    if variable is None:
        return _set_undeclared(turn, path, value)
    if variable.options and value is not None:
        chosen = [option for option in variable.options if str(value).casefold() == option.casefold()]
        if not chosen:
            return f"{quote(value)} is not one of {', '.join(variable.options)}"
        value = chosen[0]
    elif not fits(value, variable.type):
        return f"`{path}` has to be of the type {variable.type}"
    field = plan.fields.get(path)
    complaint = complaint_about(turn, field, value) if field is not None and value is not None else ""
    if complaint:
        return complaint
    if path == CATEGORY:
        frame.names[CATEGORY] = value
    elif variable.fact is not None:
        refusals = len(_refusals(turn))
        frame.facts.write(turn, variable.fact, (), value, turn.session.said)
        refused = _refusals(turn)[refusals:]
        return refused[0] if refused else ""
    else:
        turn.assign(path, value, provenance=turn.session.said)
    turn.note("set", path, to=value, by="the model")
    return ""


def _refusals(turn: ActiveTurn) -> list[str]:
    return [str(entry.detail.get("why")) for entry in turn.happened if entry.kind == "refused"]


def _set_undeclared(turn: ActiveTurn, path: str, value: Any) -> str:
    plan = turn.frame.plan
    known = [one.path for one in plan.model_variables]
    # Paths such as `user.…` are facts, which rules read and a model must not invent.
    if not path.isidentifier() or path in PREFIXES or plan.is_system(path):
        return did_you_mean(path, known, otherwise="The agent does not know this variable")
    if not plan.may_infer((path,)):
        return "a rule reads it, and it is neither gathered nor declared `INPUT: true`"
    turn.assign(path, value, provenance=turn.session.said)
    turn.note("set", path, to=value, by="the model")
    return ""


# --- other agents ----------------------------------------------------------------------------------------------


def _hand_off(turn: ActiveTurn, agent: str, reason: str) -> tuple[Outcome, Signal]:
    plan = next((one for one in turn.frame.plan.handoffs if one.to == agent), None)
    if plan is None:
        return _unknown(turn, agent, [one.to for one in turn.frame.plan.handoffs]), None
    if not _may_route(turn, plan):
        return _not_yet(turn, agent, plan.condition), None
    turn.departure = Departure("handoff", agent=agent, reason=reason, number=plan.number)
    return Outcome(), AGAIN


def _delegate(turn: ActiveTurn, agent: str) -> tuple[Outcome, Signal, Provenance]:
    plan = next((one for one in turn.frame.plan.delegates if one.agent == agent), None)
    if plan is None:
        return _unknown(turn, agent, [one.agent for one in turn.frame.plan.delegates]), None, OWN
    if not _may_route(turn, plan):
        return _not_yet(turn, agent, plan.condition), None, OWN
    signal = check_rules(turn, "call")
    if signal is not None:
        return Outcome(), signal, OWN
    delegate(turn, plan)
    found = {mine: turn.derive_at(turn.frame, mine) for mine, _ in plan.returns}
    made_of = together(provenance for _, provenance in found.values())
    return Outcome({path: value for path, (value, _) in found.items()}), None, made_of


def _may_route(turn: ActiveTurn, plan: HandoffPlan | DelegatePlan) -> bool:
    """Say whether a condition lets the model decide: it is true, or it is about what the user wants."""
    return plan.when is None or plan.model_decides or turn.test(plan.when)


def _unknown(turn: ActiveTurn, agent: str, known: list[str]) -> Outcome:
    known_agents = ", ".join(known)
    message = f"unknown agent {quote(agent)}. {did_you_mean(agent, known, otherwise=f'Known: {known_agents}')}"
    turn.note("refused", agent, why=message)
    return failure_outcome("validation_error", message)


def _not_yet(turn: ActiveTurn, agent: str, condition: str) -> Outcome:
    message = f"{agent} is only for when this is true: {condition}"
    turn.note("refused", agent, why=message)
    return failure_outcome("validation_error", message)
