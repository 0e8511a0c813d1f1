"""Check steps and rules: transitions, variables, conditions, constraints and return handlers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memoranda.abl.checker.memory import is_read_only
from memoranda.abl.checker.outline import Lead, Outline, paths_of
from memoranda.abl.document import (
    PREFIXES,
    Action,
    Call,
    Check,
    Clear,
    Flow,
    Gather,
    Interruption,
    OnFail,
    Respond,
    Rule,
    Set,
    Step,
    Transform,
)
from memoranda.abl.keywords import RETURN_ACTIONS, type_name
from memoranda.abl.lines import unquote
from memoranda.abl.sections.actions import RANGE
from memoranda.abl.variables import SYSTEM
from memoranda.errors import UsageError
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.document import Raw
from memoranda.lang.expression.nodes import UNKNOWN, Logical, Node, Path, Unary, children, literal, path_of
from memoranda.lang.expression.patterns import compile_pattern
from memoranda.lang.source import Span
from memoranda.model.text import quote


def check_flow(whole: Outline, diagnostics: Diagnostics) -> None:
    """Check transitions, templates, attempts and limits."""
    if whole.closed:
        _check_templates(whole, diagnostics)
    complete = whole.closed and _check_targets(whole, diagnostics)
    flow = whole.document.flow
    if flow is not None:
        _check_labels(flow, diagnostics)
        for step in flow.steps:
            _check_attempts(step, diagnostics)
        # The transition to a step may be unreadable or misspelled.
        if complete and whole.sound:
            _check_reachable(whole, flow, diagnostics)
    for part, _ in whole.parts:
        if isinstance(part, Transform):
            _check_limit(whole, part, diagnostics)


# --- where steps lead -------------------------------------------------------------------------------------------


def _check_targets(whole: Outline, diagnostics: Diagnostics) -> bool:
    """Report unknown steps; return whether there are none."""
    flow = whole.document.flow
    named = [lead.to for lead in whole.leads if lead.kind == "step"]
    if flow is not None:
        named.extend(flow.order)
        if flow.entry_point is not None:
            named.append(flow.entry_point)
    unknown = [name for name in named if name.text not in whole.steps]
    known = (*whole.steps, "COMPLETE", "ESCALATE")
    for name in unknown:
        hint = whole.hints.did_you_mean(name.text, known, otherwise=_list_of(whole.steps))
        diagnostics.error("unknown_step", f"unknown step {quote(name.text)}", name.span, hint=hint)
    return not unknown


def _list_of(steps: Iterable[str]) -> str:
    names = list(steps)
    if len(names) < 2:
        return f"The only step is {names[0]}" if names else "This agent has no steps"
    return f"The steps are {', '.join(names[:8])}{' and others' if len(names) > 8 else ''}"


def _check_reachable(whole: Outline, flow: Flow, diagnostics: Diagnostics) -> None:
    ways: dict[str | None, set[str]] = {}
    for lead in whole.leads:
        if _is_way(whole, lead):
            ways.setdefault(lead.step, set()).add(lead.to.text)
    entry = flow.entry
    waiting = [*(ways.get(None, ())), *((entry,) if entry is not None else ())]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(ways.get(name, ()))
    for name, step in whole.steps.items():
        if name not in reached:
            message = f"the step {quote(name)} is never reached"
            hint = f"Nothing leads there from {quote(entry)}, where the flow begins"
            diagnostics.warning("unreachable", message, step.name.span, hint=hint)


def _is_way(whole: Outline, lead: Lead) -> bool:
    """Return whether a transition leads to a step, which may be named like a keyword such as COMPLETE."""
    return lead.kind != "handoff" and lead.to.text in whole.steps


def _check_labels(flow: Flow, diagnostics: Diagnostics) -> None:
    seen: set[str] = set()
    for digression in (*flow.global_digressions, *(each for step in flow.steps for each in step.digressions)):
        label = " ".join(digression.intent.text.split()).casefold()
        if label in seen:
            message = f"a digression {quote(digression.intent.text)} is declared a second time in this flow"
            hint = "Give it another label, or move the first to `global_digressions`"
            diagnostics.error("duplicate", message, digression.intent.span, hint=hint)
        seen.add(label)


# --- single steps -----------------------------------------------------------------------------------------------


def _check_attempts(step: Step, diagnostics: Diagnostics) -> None:
    if step.max_attempts is not None and step.on_exhausted is None:
        message = f"{quote(step.name.text)} has `MAX_ATTEMPTS` and does not say what follows them"
        diagnostics.warning("no_way_on", message, step.name.span, hint="Add `ON_EXHAUSTED: step`, or ESCALATE")
    elif step.on_exhausted is not None and step.max_attempts is None:
        message = "`ON_EXHAUSTED` never happens without `MAX_ATTEMPTS`"
        diagnostics.warning("no_effect", message, step.on_exhausted.span, hint="Add `MAX_ATTEMPTS: 3`")


def _check_templates(whole: Outline, diagnostics: Diagnostics) -> None:
    names = [template.name.text for template in whole.document.templates]
    for part, _ in whole.parts:
        if isinstance(part, Respond) and part.named and part.text.text not in names:
            hint = whole.hints.did_you_mean(part.text.text, names, otherwise="Declare it below `TEMPLATES`")
            diagnostics.error(
                "unknown_template", f"unknown template {quote(part.text.text)}", part.text.span, hint=hint
            )


def _check_limit(whole: Outline, transform: Transform, diagnostics: Diagnostics) -> None:
    raw = transform.limit
    if raw is not None and not _can_limit(literal(whole.programs.node(raw))):
        message = f"`LIMIT` cannot be {quote(raw.text)}"
        diagnostics.error("wrong_value", message, raw.span, hint="How many items stay: 0 or more")


def _can_limit(value: Any) -> bool:
    if type(value) in (int, float):
        return value >= 0
    return value is UNKNOWN or value is None


def check_variables(whole: Outline, diagnostics: Diagnostics) -> None:
    """Check written names, counters, dependencies between fields, and variables that are never set."""
    for write in whole.writes:
        if is_read_only(write.name):
            message = f"`{write.by}` cannot change {quote(write.name)}: the name is reserved"
            diagnostics.error("reserved_name", message, write.path.span, hint="Use a variable of your own")
    _check_counters(whole, diagnostics)
    _check_cycles(whole, diagnostics)
    if whole.closed and whole.sound:
        _check_unset(whole, diagnostics)


# --- counters ---------------------------------------------------------------------------------------------------


def _check_counters(whole: Outline, diagnostics: Diagnostics) -> None:
    """Warn about variables that are reset with each step and compared before the step changes them."""
    fresh = {name for name, variable in whole.session.items() if variable.reset == "per_step"}
    for step in whole.steps.values() if fresh else ():
        if step.when is not None:
            _check_counter(whole, step.when, fresh, diagnostics)
        waiting = fresh - _names_changed_while_waiting(whole, step)
        for action in step.body:
            if isinstance(action, Check):
                _check_counter(whole, action.condition, waiting, diagnostics)
            # The fields of a tool's result may become variables.
            waiting = set[str]() if isinstance(action, Call) else waiting - _names_changed([action])


def _check_counter(whole: Outline, condition: Raw, names: set[str], diagnostics: Diagnostics) -> None:
    node = whole.programs.node(condition)
    for path, span, _ in paths_of(node) if node is not None else ():
        if path[0] in names:
            _note_counter(path[0], span, diagnostics)


def _note_counter(name: str, span: Span, diagnostics: Diagnostics) -> None:
    message = f"{quote(name)} always has its initial value here: `RESET: per_step` sets it back as the step begins"
    diagnostics.warning("never_counts", message, span, hint="Declare it with `RESET: per_session`, or use MAX_ATTEMPTS")


def _names_changed_while_waiting(whole: Outline, step: Step) -> set[str]:
    flow = whole.document.flow
    asides: list[Interruption] = [*step.sub_intents, *step.digressions, *(flow.global_digressions if flow else ())]
    hooks = [hook for hook in whole.document.hooks if hook.name.text.casefold().endswith("_turn")]
    return _names_changed([action for aside in (*asides, *hooks) for action in aside.body])


def _names_changed(actions: Iterable[Action]) -> set[str]:
    names: set[str] = set()
    for action in actions:
        match action:
            case Set():
                names |= {one.target.text.partition(".")[0] for one in action.assignments}
            case Clear():
                names |= {name.text.partition(".")[0] for name in action.names}
            case Gather():
                names |= {field.name.text for field in action.fields}
            case Transform():
                names.add(action.into.text.partition(".")[0])
            case _:
                pass
    return names


# --- fields that wait for each other ------------------------------------------------------------------------------


def _check_cycles(whole: Outline, diagnostics: Diagnostics) -> None:
    """Report fields that are never asked for, because each waits for the other."""
    for part, _ in whole.parts:
        if not isinstance(part, Gather):
            continue
        waits = {field.name.text: [other.text for other in field.depends_on] for field in part.fields}
        noted: set[str] = set()
        for field in part.fields:
            for other in field.depends_on:
                awaited = _all_dependencies(other.text, waits)
                if field.name.text in awaited - noted:
                    noted |= awaited
                    message = f"{quote(field.name.text)} waits for {quote(other.text)}, which waits for it in turn"
                    diagnostics.error("wrong_value", message, other.span, hint="One of them has to be asked for first")


def _all_dependencies(name: str, waits: Mapping[str, list[str]]) -> set[str]:
    """Return a field and everything it depends on."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            waiting.extend(waits.get(here, ()))
    return found


# --- variables that are never set -------------------------------------------------------------------------------


def _check_unset(whole: Outline, diagnostics: Diagnostics) -> None:
    """Warn about triggers and fields that wait for a variable that nothing sets."""
    if not _is_scripted(whole):
        return
    named = whole.written | set(whole.session)
    known = {*named, *SYSTEM, *PREFIXES, *(path.partition(".")[0] for path in whole.facts)}
    for field, _ in whole.fields:
        for other in field.depends_on:
            if other.text.partition(".")[0] not in known:
                message = (
                    f"nothing in this agent sets {quote(other.text)}, so {quote(field.name.text)} is never asked for"
                )
                diagnostics.warning("never_set", message, other.span, hint=whole.hints.did_you_mean(other.text, named))
    for read in whole.reads:
        if read.use.place != "remember WHEN" or read.path[0] in known or len(read.path) > 1:
            continue
        message = f"nothing in this agent sets {quote(read.text)}, so this trigger never stores anything"
        diagnostics.warning("never_set", message, read.span, hint=whole.hints.did_you_mean(read.text, named))


def _is_scripted(whole: Outline) -> bool:
    """Return whether only the document sets variables: no tool, no model, no other agent."""
    document = whole.document
    others = whole.calls or document.handoffs or document.delegates
    loads = any(recall.domain is not None for recall in document.memory.recall) if document.memory else False
    return bool(whole.steps) and not others and not loads and not any(step.reasoning for step in whole.steps.values())


_NUMBERS = ("number", "integer")
_FALSE = {"number": "0", "boolean": "false"}


def check_conditions(whole: Outline, diagnostics: Diagnostics) -> None:
    """Warn about a bare number or boolean in a condition, whose 0 or false counts as missing."""
    fields = _types_of_fields(whole)
    declared = {**_types_of_declarations(whole), **fields}
    for use in whole.uses:
        node = whole.programs.node(use.raw) if use.kind == "condition" else None
        gathering = use.place == "COMPLETE_WHEN"
        for path, span in _bare_paths(node) if node is not None else ():
            name = ".".join(path)
            # Elsewhere `IF: confirmed` is intended; only for a gathered number does it mean "is set".
            kind = declared.get(name) if gathering else fields.get(name)
            if kind == "number" or (kind == "boolean" and gathering):
                message = f"{quote(name)} counts as missing when it is {_FALSE[kind]}"
                diagnostics.warning("truthiness", message, span, hint=f"Write `{name} IS SET`, or compare it")


def _bare_paths(node: Node) -> Iterator[tuple[Path, Span]]:
    """Yield the paths in a condition that are not compared with anything."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        path = path_of(here)
        if path is not None:
            yield path, here.span
        elif isinstance(here, Logical):
            waiting.extend(reversed(here.operands))
        elif isinstance(here, Unary) and here.operator == "not":
            waiting.append(here.operand)


def _types_of_fields(whole: Outline) -> dict[str, str]:
    types: dict[str, str] = {}
    for field, _ in whole.fields:
        if field.range or field.list:
            types[field.name.text] = "object" if field.range else "array"
        elif field.type is not None:
            kind = type_name(field.type.text)
            types[field.name.text] = "number" if kind in _NUMBERS else kind or "any"
    return types


def _types_of_declarations(whole: Outline) -> dict[str, str]:
    declared = {name: variable.type for name, variable in whole.session.items()}
    declared |= {path: fact.type for path, fact in whole.facts.items()}
    return {name: kind for name, kind in declared.items() if kind is not None}


def check_fields(whole: Outline, diagnostics: Diagnostics) -> None:
    """Check that the rules about the values of fields can be followed."""
    for field, _ in whole.fields:
        patterns = [*([field.pattern] if field.pattern else [])]
        for rule in field.validate:
            name, text = rule.name.text.casefold(), rule.value.text.strip("\"' ")
            if name in ("pattern", "regex"):
                patterns.append(unquote(rule.value))
            elif (name in _BOUNDS and not _BOUND.fullmatch(text)) or (name == "range" and not RANGE.search(text)):
                message = f"the rule {quote(rule.name.text)} needs a number or a date, not {quote(text or 'nothing')}"
                diagnostics.error("wrong_value", message, rule.name.span, hint="min(1), range(1, 10)")
            elif name in ("enum", "options", "values", "one_of") and not text:
                message = f"the rule {quote(rule.name.text)} names no values"
                diagnostics.error("wrong_value", message, rule.name.span, hint="enum(small, large)")
        for pattern in patterns:
            try:
                compile_pattern(pattern.text)
            except UsageError as error:
                diagnostics.error("bad_pattern", error.message, pattern.span, hint=str(error.hint or ""))


_BOUNDS = (
    *("min", "minimum", "min_value", "max", "maximum", "max_value"),
    *("min_length", "minlength", "min_items", "max_length", "maxlength", "max_items"),
)
_BOUND = re.compile(r"-?\d+(?:\.\d+)?|\d{4}-\d{2}-\d{2}\S*|today|tomorrow|yesterday|now", re.IGNORECASE)


def check_constraints(whole: Outline, diagnostics: Diagnostics) -> None:
    """Check each rule; their conditions are checked with all others."""
    for phase in whole.document.constraints:
        for rule in phase.rules:
            _check_checkpoint(whole, rule, diagnostics)
            _check_on_fail(rule, diagnostics)
            _check_implication(whole, rule, diagnostics)


def _check_checkpoint(whole: Outline, rule: Rule, diagnostics: Diagnostics) -> None:
    before = rule.before
    if before is None or before.kind == "returning":
        return
    if before.kind == "other":
        message = f"the rule has no effect: {quote(f'BEFORE {before.target.text}')} is not a checkpoint"
        hint = "Use `BEFORE calling TOOL` or `BEFORE returning results`, or say when it applies with `WHEN:`"
        diagnostics.warning("inert_rule", message, before.target.span, hint=hint)
    elif whole.tools and before.target.text not in whole.tools:
        name = before.target.text
        called = {call.tool.text for call in whole.calls}
        if name not in called:
            message = f"the rule never applies: `TOOLS` declares no {quote(name)}"
            diagnostics.warning(
                "undeclared_tool", message, before.target.span, hint=whole.hints.did_you_mean(name, whole.tools)
            )


def _check_on_fail(rule: Rule, diagnostics: Diagnostics) -> None:
    failure = rule.on_fail
    if rule.severity == "warning":
        if failure is not None and _effects_of(failure) != {"respond"}:
            message = "the rule only warns: its message is logged, and nothing else of `ON_FAIL` happens"
            hint = "Give it a message, or write REQUIRE to stop the agent"
            diagnostics.warning("only_logged", message, failure.span, hint=hint)
    elif failure is None or (failure.form == "structured" and not _effects_of(failure)):
        message = f"`{rule.keyword}` has no `ON_FAIL`: the user is told only that it cannot be done"
        diagnostics.warning("no_on_fail", message, rule.condition.span, hint='Add `ON_FAIL: "…"` below the rule')


def _effects_of(failure: OnFail) -> set[str]:
    """Return the effects of a broken rule, by their keywords."""
    words = ("respond", "handoff", "collect", "goto", "retry", "then")
    return {word for word in words if getattr(failure, word)}


def _check_implication(whole: Outline, rule: Rule, diagnostics: Diagnostics) -> None:
    node = whole.programs.node(rule.condition)
    implication = _find_implication(node) if rule.keyword == "RESTRICT" and node is not None else None
    if implication is not None:
        message = "`IMPLIES` reads backwards in `RESTRICT`: it forbids what the implication allows"
        hint = "Write REQUIRE with the implication, or RESTRICT with AND"
        diagnostics.warning("implies_in_restrict", message, implication.span, hint=hint)


def _find_implication(node: Node) -> Logical | None:
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, Logical) and here.operator == "implies":
            return here
        waiting.extend(children(here))
    return None


def check_coordination(whole: Outline, diagnostics: Diagnostics) -> None:
    """Check that every named return handler exists, and that rules hand over to agents that the document names.

    Whether the other agents exist is known only when agents are loaded together.
    """
    if not whole.closed:
        return
    handlers = [handler.name.text for handler in whole.document.return_handlers]
    for handoff in whole.document.handoffs:
        handler = handoff.on_return.handler if handoff.on_return else None
        if handler is None or handler.text in handlers:
            continue
        if handler.literal:
            message = f"{quote(handler.text, longest=40)} is not a return handler: only a model is told"
            hint = "Declare it below `RETURN_HANDLERS` to say what follows"
            diagnostics.warning("only_words", message, handler.span, hint=hint)
            continue
        actions = ", ".join(RETURN_ACTIONS)
        hint = whole.hints.did_you_mean(
            handler.text,
            (*handlers, *RETURN_ACTIONS),
            otherwise=f"Declare it below `RETURN_HANDLERS`, or use one of {actions}",
        )
        message = f"unknown return handler {quote(handler.text)}"
        diagnostics.error("unknown_handler", message, handler.span, hint=hint)
