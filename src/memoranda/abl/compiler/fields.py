"""GATHER and its fields in; what to look for in the user's words, and how to ask, out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from memoranda.abl import document as abl
from memoranda.abl.expression.programs import evaluate
from memoranda.abl.runtime.gathering import Gathering
from memoranda.abl.runtime.plan import FieldPlan
from memoranda.abl.tree import Raw
from memoranda.abl.type_names import type_name
from memoranda.abl.understanding.wanted import Wanted
from memoranda.abl.values import unquote
from memoranda.errors import SourceError

if TYPE_CHECKING:
    from memoranda.abl.compiler.context import Compiler


def compile_gather(to: Compiler, node: abl.Gather, step: abl.Step | None = None) -> Gathering:
    """Return a gathering; in a step it knows when it is complete and what is shown before its question."""
    presents = [action.text for action in step.body if isinstance(action, abl.Present)] if step else []
    return Gathering(
        tuple(compile_field(to, field) for field in node.fields),
        complete_when=to.optional(step.complete_when) if step else None,
        corrections=bool(step and step.corrections),
        presents=tuple(to.template(text) for text in presents),
        strategy=node.strategy or "llm",
    )


def compile_field(to: Compiler, node: abl.Field) -> FieldPlan:
    """Return a field: what it looks like in the user's words, how to ask for it, what it must fulfil."""
    name = node.name.text
    slot = to.declarations.session.get(name)
    rules = {argument.name.text.casefold(): _literal(argument.value) for argument in node.validate}
    options = tuple(option.text for option in node.options)
    if not options and isinstance(rules.get("enum"), list):
        options = tuple(str(option) for option in rules["enum"])
    kind = _type(node.type.text) if node.type else slot.type if slot else None
    wanted = Wanted(
        name=name,
        type=kind,
        options=options,
        hints=tuple(hint.text for hint in node.hints),
        range=node.range,
        list=node.list or (kind == "array"),
    )
    active = node.activation.text.casefold() if node.activation else ""
    field = FieldPlan(
        name=name,
        wanted=wanted,
        wanted_when_asked=msgspec.structs.replace(wanted, asked=True),
        required=node.required and active != "optional",
        prompt=to.text(node.prompt),
        default=to.optional(node.default),
        validation=to.optional(node.validation),
        rules=rules,
        depends_on=tuple(other.text for other in node.depends_on),
        active_when=to.optional(node.active_when),
        asks=node.prompt_mode == "ask",
        infer=node.infer,
        description=" ".join(hint.text for hint in node.hints),
    )
    to.fields.setdefault(name, field)
    return field


def _type(written: str) -> str:
    """Return a type in small letters; the values that it lists (`Economy|Business`) stay as they are written."""
    return written.casefold() if type_name(written) else written


def add_collected(to: Compiler, name: str, compared: str | None) -> None:
    """Make sure that a value which a rule collects can be asked for."""
    slot = to.declarations.session.get(name)
    if name not in to.fields:
        wanted = Wanted(name=name, type=slot.type if slot and slot.type else compared)
        to.fields[name] = FieldPlan(
            name=name, wanted=wanted, wanted_when_asked=msgspec.structs.replace(wanted, asked=True)
        )


def _literal(raw: Raw) -> Any:
    """Return the value of a rule about a field; what is no expression is a text."""
    text = unquote(raw)
    if text is not raw:
        return text.text
    try:
        value = evaluate(raw.text, {})
    except SourceError:
        return raw.text
    return raw.text if value is None else value
