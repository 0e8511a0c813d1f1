"""The conditions, expressions and templates of a document: where each is used, and its parsed program.

`uses` walks a document. `parse_programs` parses what it yields; the checker inspects what is read where.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import singledispatch
from typing import Literal

import msgspec

import memoranda.abl.document as abl
from memoranda.abl.document import Document
from memoranda.abl.expression.compiler import parse_expression, parse_template
from memoranda.abl.lines import note_remark, part, top_level_characters, unquote
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.document import Raw
from memoranda.lang.expression.nodes import Constant, Index, Name, Node
from memoranda.model.text import quote

UseKind = Literal["condition", "expression", "template", "literal"]


class Use(msgspec.Struct, frozen=True):
    """A raw text of a document and its kind; a literal is not parsed."""

    raw: Raw
    kind: UseKind
    place: str
    """The keywords that lead to it: `remember WHEN`, `TRANSFORM FILTER`."""
    step: str | None = None
    """The step around it."""
    item: str | None = None
    """The name of an array item in this place, which hides a variable of that name."""


class Programs:
    """The parsed programs of a document, by their raw text."""

    def __init__(self) -> None:
        """Start empty."""
        # Equal raws at different places are different programs, so they are keyed by identity. Holding on to the
        # raw keeps its id from being reused.
        self._nodes: dict[int, tuple[Raw, Node | None]] = {}

    def node(self, raw: Raw) -> Node | None:
        """Return the node of a raw text; None for one with errors or without a program."""
        found = self._nodes.get(id(raw))
        return None if found is None else found[1]

    def __contains__(self, raw: Raw) -> bool:
        """Return whether a raw text was parsed, even with errors."""
        return id(raw) in self._nodes

    def keep(self, raw: Raw, node: Node | None) -> None:
        """Store the node of a raw text."""
        self._nodes[id(raw)] = (raw, node)


def parse_programs(document: Document, diagnostics: Diagnostics) -> Programs:
    """Parse every program of a document once, and report all errors."""
    programs = Programs()
    for use in uses(document):
        parse = _PARSERS.get(use.kind)
        if parse is not None and use.raw not in programs:
            programs.keep(use.raw, parse(use, diagnostics))
    return programs


def _parse_expression(use: Use, diagnostics: Diagnostics) -> Node | None:
    raw = _without_remark(use.raw, diagnostics)
    if use.place == "field validation" and not _FORMULA.search(raw.text):
        return _parse_prose(use, diagnostics)
    if use.place in JUDGED and _is_prose(raw, diagnostics):
        return _judgement(raw, diagnostics)
    return parse_expression(raw.excerpt, diagnostics)


def _without_remark(raw: Raw, diagnostics: Diagnostics) -> Raw:
    """Return an expression without a comment after it."""
    if "#" not in raw.text or raw.literal:
        return raw
    for offset, character in top_level_characters(raw.text):
        if character == "#" and offset and raw.text[offset - 1].isspace():
            note_remark(diagnostics, raw.text[offset:], raw.excerpt.locate(offset, len(raw.text)))
            return part(raw, 0, offset)
    return raw


JUDGED = frozenset({"handoff WHEN", "delegate WHEN", "escalate WHEN", "complete WHEN", "remember WHEN"})
"""Conditions that may be sentences, which only a model can judge."""
JUDGEMENTS = "_judgements"
"""The name of what a model found true in this turn: an object with the sentences as its keys."""
_OPERATOR = re.compile(r"\b(?:AND|OR|NOT|IN|IS|IMPLIES)\b")


def _is_prose(raw: Raw, diagnostics: Diagnostics) -> bool:
    """Return whether a condition is a sentence: several words without an operator, and not an expression."""
    if _OPERATOR.search(raw.text) or re.search(r"[<>=]", raw.text):
        return False
    if len(raw.text.split()) < (2 if raw.literal else 3):
        return False
    return parse_expression(raw.excerpt, Diagnostics(diagnostics.source)) is None


def _judgement(raw: Raw, diagnostics: Diagnostics) -> Node:
    message = f"{quote(raw.text, longest=40)} is a sentence: a model judges it, and without one it is never true"
    diagnostics.warning("only_words", message, raw.span, hint='Compare something: `intent.category == "refund"`')
    return Index(raw.span, Name(raw.span, JUDGEMENTS), Constant(raw.span, " ".join(raw.text.split())))


def _parse_prose(use: Use, diagnostics: Diagnostics) -> Node | None:
    """Parse a text without comparisons, which may be prose for the model."""
    aside = Diagnostics(diagnostics.source)
    node = parse_expression(use.raw.excerpt, aside)
    if node is None:
        message = f"{quote(use.raw.text, longest=40)} is not an expression, so only a model can check it"
        diagnostics.warning("only_words", message, use.raw.span, hint="Compare the value: `guests >= 1`")
    return node


def _parse_template(use: Use, diagnostics: Diagnostics) -> Node | None:
    # The values of a mapping still have their quotes.
    raw = use.raw if use.raw.literal else unquote(use.raw)
    if use.place in _WITH_RESPOND and raw.text[:8].upper() == "RESPOND ":
        raw = unquote(part(raw, 8, len(raw.text)))
    return parse_template(raw.excerpt, diagnostics)


_FORMULA = re.compile(r"[<>=]|\bmatches\b|\bIS (?:NOT )?SET\b|\bIN \[|\w\(")
"""Distinguishes an expression from a sentence."""

_PARSERS: dict[UseKind, Callable[[Use, Diagnostics], Node | None]] = {
    "condition": _parse_expression,
    "expression": _parse_expression,
    "template": _parse_template,
}
_WITH_RESPOND = frozenset({"handoff ON_FAILURE", "delegate ON_FAILURE"})
"""Places where `RESPOND "…"` is one value; the template follows the keyword."""


# --- the walk ---------------------------------------------------------------------------------------------------


def uses(document: Document) -> Iterator[Use]:
    """Yield every condition, expression and template of a document, section by section."""
    yield from _texts("template", document.goal, "GOAL")
    yield from _texts("template", document.persona, "PERSONA")
    yield from _texts("template", document.instructions, "INSTRUCTIONS")
    yield from _texts("template", document.system_prompt, "SYSTEM_PROMPT")
    if document.identity is not None:
        yield from _texts("template", document.identity.role, "IDENTITY role")
        yield from _texts("template", document.identity.persona, "IDENTITY persona")
    if document.memory is not None:
        yield from _memory(document.memory)
    for phase in document.constraints:
        for rule in phase.rules:
            yield from _rule(rule)
    for tool in document.tools:
        yield from _tool(tool)
    if document.gather is not None:
        yield from in_action(document.gather, None)
    if document.flow is not None:
        yield from _flow(document.flow)
    yield from _coordination(document)
    for handler in (*document.return_handlers, *((document.on_start,) if document.on_start else ()), *document.hooks):
        yield from _handler(handler)
    yield from _errors(document.on_error, None)
    yield from _arguments("template", document.messages, "MESSAGES")
    for template in document.templates:
        yield from _texts("template", template.text, "TEMPLATES")
    if document.body is not None:
        yield from in_step(document.body, None)


def _texts(kind: UseKind, raw: Raw | None, place: str, step: str | None = None, item: str | None = None) -> list[Use]:
    return [] if raw is None else [Use(raw, kind, place, step, item)]


def _arguments(
    kind: UseKind, arguments: Iterable[abl.Argument], place: str, step: str | None = None, item: str | None = None
) -> Iterator[Use]:
    for argument in arguments:
        yield Use(argument.value, kind, place, step, item)


def _memory(memory: abl.Memory) -> Iterator[Use]:
    for variable in memory.session:
        yield from _texts("expression", variable.initial, "session INITIAL")
    for fact in memory.persistent:
        yield from _texts("expression", fact.default, "persistent DEFAULT")
    for trigger in memory.remember:
        yield Use(trigger.when, "condition", "remember WHEN")
        yield Use(trigger.value, "expression", "remember STORE")
    for recall in memory.recall:
        yield from _texts("template", recall.instruction, "recall INSTRUCTION")


def _rule(rule: abl.Rule) -> Iterator[Use]:
    yield Use(rule.condition, "condition", rule.keyword)
    yield from _texts("condition", rule.when, "rule WHEN")
    if rule.on_fail is not None:
        yield from _texts("template", rule.on_fail.respond, "rule ON_FAIL")
        yield from _texts("template", rule.on_fail.reason, "rule ON_FAIL")


def _tool(tool: abl.Tool) -> Iterator[Use]:
    for parameter in tool.parameters:
        yield from _texts("expression", parameter.default, "parameter default")
    yield from _texts("template", tool.endpoint, "tool endpoint")
    yield from _arguments("template", tool.headers, "tool headers")
    yield from _arguments("template", tool.auth_config, "tool auth_config")
    yield from _arguments("template", tool.query_params, "tool query_params")
    yield from _texts("template", tool.body, "tool body")


def _coordination(document: Document) -> Iterator[Use]:
    for handoff in document.handoffs:
        yield from _handoff(handoff)
    for delegate in document.delegates:
        yield from _texts("condition", delegate.when, "delegate WHEN")
        yield from _texts("template", delegate.purpose, "delegate PURPOSE")
        yield from _arguments("expression", delegate.input, "delegate INPUT")
        yield from _arguments("literal", delegate.returns, "delegate RETURNS")
        yield from _texts("template", delegate.use_result, "delegate USE_RESULT")
        yield from _texts("template", delegate.on_failure, "delegate ON_FAILURE")
        yield from _texts("template", delegate.failure_message, "delegate FAILURE_MESSAGE")
    for trigger in document.escalate.triggers if document.escalate else ():
        yield Use(trigger.when, "condition", "escalate WHEN")
        yield from _texts("template", trigger.reason, "escalate REASON")
    for complete in document.completes:
        yield Use(complete.when, "condition", "complete WHEN")
        yield from _texts("template", complete.respond, "complete RESPOND")
        yield from _texts("expression", complete.store_value, "complete STORE")


def _handoff(handoff: abl.Handoff) -> Iterator[Use]:
    yield from _texts("condition", handoff.when, "handoff WHEN")
    if handoff.context is not None:
        yield from _texts("template", handoff.context.summary, "handoff summary")
        yield from _arguments("expression", handoff.context.set, "handoff set")
    if handoff.on_return is not None:
        yield from _arguments("expression", handoff.on_return.map, "ON_RETURN map")
        yield from _arguments("expression", handoff.on_return.set, "ON_RETURN set")
    yield from _texts("template", handoff.on_failure, "handoff ON_FAILURE")


def _flow(flow: abl.Flow) -> Iterator[Use]:
    for digression in flow.global_digressions:
        yield from _interruption(digression, None)
    for step in flow.steps:
        yield from in_step(step, step.name.text)


def in_step(step: abl.Step, name: str | None) -> Iterator[Use]:
    """Yield the uses in a step."""
    yield from _texts("condition", step.when, "step WHEN", name)
    yield from in_actions(step.body, name)
    yield from _texts("condition", step.complete_when, "COMPLETE_WHEN", name)
    for branch in step.on_input:
        yield from in_branch(branch, name, "ON_INPUT IF")
    for handler in step.on_action:
        yield from _texts("condition", handler.condition, "ON_ACTION CONDITION", name)
        yield from in_actions(handler.body, name)
        yield from _target(handler.then, name)
    for interruption in (*step.sub_intents, *step.digressions):
        yield from _interruption(interruption, name)
    yield from _errors(step.on_error, name)
    for branch in step.then:
        yield from in_branch(branch, name, "THEN IF")
    yield from _target(step.on_exhausted, name)
    yield from _texts("template", step.goal, "step GOAL", name)
    yield from _texts("template", step.instructions, "step INSTRUCTIONS", name)
    yield from _texts("condition", step.exit_when, "EXIT_WHEN", name)
    for text in step.step_constraints:
        yield Use(text, "template", "STEP_CONSTRAINTS", name)


def _interruption(interruption: abl.Interruption, step: str | None) -> Iterator[Use]:
    yield from _texts("condition", interruption.condition, "intent CONDITION", step)
    yield from in_actions(interruption.body, step)
    yield from _target(interruption.goto, step)


def _errors(handlers: Iterable[abl.ErrorHandler], step: str | None) -> Iterator[Use]:
    for handler in handlers:
        yield from in_actions(handler.body, step)
        yield from _target(handler.then, step)


def _handler(handler: abl.Handler) -> Iterator[Use]:
    yield from in_actions(handler.body, None)
    for branch in handler.branches:
        yield from in_branch(branch, None, "BRANCHES IF")
    yield from _target(handler.then, None)


def in_branch(branch: abl.Branch, step: str | None, place: str) -> Iterator[Use]:
    """Yield the uses in a branch."""
    yield from _texts("condition", branch.condition, place, step)
    yield from in_actions(branch.body, step)
    yield from _target(branch.then, step)


def _target(target: abl.Target | None, step: str | None) -> list[Use]:
    return [] if target is None else _texts("template", target.reason, "ESCALATE REASON", step)


# --- actions ----------------------------------------------------------------------------------------------------


def in_actions(actions: Iterable[abl.Action], step: str | None) -> Iterator[Use]:
    """Yield the uses in actions."""
    for action in actions:
        yield from in_action(action, step)


@singledispatch
def in_action(action: abl.Action, step: str | None) -> Iterator[Use]:
    """Yield the uses in an action; Clear and Consult have none."""
    yield from ()


@in_action.register
def _(action: abl.Set, step: str | None) -> Iterator[Use]:
    for assignment in action.assignments:
        yield Use(assignment.value, "expression", "SET", step)


@in_action.register
def _(action: abl.Transform, step: str | None) -> Iterator[Use]:
    item = action.item.text
    yield Use(action.source, "expression", "TRANSFORM SOURCE", step)
    yield from _texts("condition", action.filter, "TRANSFORM FILTER", step, item)
    yield from _arguments("expression", action.map, "TRANSFORM MAP", step, item)
    yield from _texts("literal", action.sort_by, "TRANSFORM SORT_BY", step, item)
    yield from _texts("expression", action.limit, "TRANSFORM LIMIT", step)


@in_action.register
def _(action: abl.Call, step: str | None) -> Iterator[Use]:
    for argument in action.positional:
        yield Use(argument, "expression", "CALL argument", step)
    yield from _arguments("expression", action.named, "CALL argument", step)
    for branches, place in (
        (action.on_success, "ON_SUCCESS IF"),
        (action.on_fail, "ON_FAIL IF"),
        (action.on_result, "ON_RESULT IF"),
    ):
        for branch in branches:
            yield from in_branch(branch, step, place)


@in_action.register
def _(action: abl.Check, step: str | None) -> Iterator[Use]:
    yield Use(action.condition, "condition", "CHECK", step)
    for branch in action.on_fail:
        yield from in_branch(branch, step, "ON_FAIL IF")


@in_action.register
def _(action: abl.Respond, step: str | None) -> Iterator[Use]:
    yield Use(action.text, "literal" if action.named else "template", "RESPOND", step)


@in_action.register
def _(action: abl.Log, step: str | None) -> Iterator[Use]:
    yield from _texts("template", action.text, "LOG", step)
    for name in action.names:
        yield Use(name, "expression", "LOG", step)


@in_action.register
def _(action: abl.Present, step: str | None) -> Iterator[Use]:
    yield Use(action.text, "template", "PRESENT", step)


@in_action.register
def _(action: abl.Gather, step: str | None) -> Iterator[Use]:
    for field in action.fields:
        yield from _texts("template", field.prompt, "field prompt", step)
        yield from _texts("expression", field.default, "field default", step)
        yield from _texts("condition", field.validation, "field validation", step)
        yield from _arguments("literal", field.validate, "field validate", step)
        yield from _texts("template", field.retry_prompt, "field retry_prompt", step)
        yield from _texts("condition", field.active_when, "field activation", step)
        yield from _texts("expression", field.infer_confidence, "field infer_confidence", step)
