"""The fields of a document in; types that nobody knows, and modifiers that do not fit their types, out."""

from __future__ import annotations

from typing import Any

from memoranda.errors import EvaluationFailed, LimitExceeded, UsageError
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.literals import UNKNOWN
from memoranda.lang.expression.nodes import Node, paths_read
from memoranda.lang.source import Span
from memoranda.mashin.checker.outline import Outline
from memoranda.mashin.constraints import CONSTRAINTS, constraint_value
from memoranda.mashin.document import Config, Field, Type
from memoranda.mashin.expression.programs import expression
from memoranda.mashin.expression.semantics import is_number
from memoranda.mashin.faults import Faults
from memoranda.mashin.keywords import TYPES
from memoranda.mashin.shapes import read_shape
from memoranda.mashin.types import canonical, kind_of
from memoranda.model.text import quote

_OF_A_RUN = frozenset({"input", "steps", "context", "error", "state"})


def check_types(whole: Outline, said: Diagnostics) -> None:
    """Check the type and the modifiers of each field, wherever it stands."""
    for field, _ in whole.fields():
        if _type(whole, said, field.type):
            _modifiers(whole, said, field)


def _type(whole: Outline, said: Diagnostics, type_: Type) -> bool:
    if TYPES.find(type_.name) is None:
        hint = whole.hints.meant(type_.name, TYPES.names, otherwise=f"One of {', '.join(TYPES.names)}")
        said.error("unknown_type", f"{quote(type_.name)} is no type", type_.span, hint=hint)
        return False
    if type_.shape is None:
        return type_.item is None or _type(whole, said, type_.item)
    try:
        parts = read_shape(type_.shape)
    except UsageError as fault:
        said.error("wrong_shape", fault.message, fault.span, hint=fault.hint)
        return False
    return all([_type(whole, said, part.type) for part in parts])


def _modifiers(whole: Outline, said: Diagnostics, field: Field) -> None:
    name = canonical(field.type)
    written: dict[str, Any] = {}
    for config in field.constraints:
        key = config.key.text
        rule = CONSTRAINTS[key]
        if rule.types and name not in rule.types | {"any"}:
            message = f"`{key}` says something about {rule.about}, and {quote(field.name.text)} is {name}"
            said.error("wrong_modifier", message, config.key.span, hint="Remove it, or change the type")
            continue
        written[key] = _constraint(whole, said, config)
    for least, most in (("min", "max"), ("min_length", "max_length")):
        _between(said, field, written, least, most)
    if UNKNOWN not in written.values():
        _default(whole, said, field, written)


def _constraint(whole: Outline, said: Diagnostics, config: Config) -> Any:
    node = whole.programs.node(config.value)
    if node is None or _reads_unknown(whole, node):
        return UNKNOWN
    try:
        return constraint_value(config, node)
    except UsageError as fault:
        said.error("wrong_value", fault.message, config.value.span, hint=fault.hint)
        return UNKNOWN


def _reads_unknown(whole: Outline, node: Node) -> bool:
    """Say whether an expression reads a name that nothing gives, which is a fault of its own."""
    known = _OF_A_RUN | whole.inputs.keys() | whole.steps.keys()
    return any(path[0] not in known for path, _ in paths_read(node))


def _between(said: Diagnostics, field: Field, written: dict[str, Any], least: str, most: str) -> None:
    low, high = written.get(least, UNKNOWN), written.get(most, UNKNOWN)
    if is_number(low) and is_number(high) and low > high:
        config = next(one for one in field.constraints if one.key.text == most)
        message = f"no value fits: `{least}` is {low} and `{most}` is {high}"
        said.error("wrong_value", message, config.value.span, hint="Swap them")


def _default(whole: Outline, said: Diagnostics, field: Field, written: dict[str, Any]) -> None:
    """Check a default that needs nothing of a run, as it will be checked whenever it is used."""
    node = whole.programs.node(field.default) if field.default is not None else None
    if field.default is None or node is None or any(True for _ in paths_read(node)):
        return
    place, name = field.default.span, quote(field.name.text)
    try:
        value = expression(node).value({})
    except (EvaluationFailed, LimitExceeded) as fault:
        said.error("wrong_value", f"the default of {name} has no value: {fault.message}", place, hint=fault.hint)
        return
    if value is None:
        return
    faults = Faults(dropping=False)
    kind = kind_of(field.type)
    kept = kind.check(value, faults)
    if faults.found:
        _refused(said, field, kind.name, faults, place)
        return
    for key, limit in written.items():
        wrong = CONSTRAINTS[key].test(limit)(kept)
        if wrong is not None:
            said.error("wrong_value", f"the default of {name} {wrong}", place, hint="Change it, or the constraint")


def _refused(said: Diagnostics, field: Field, type_: str, faults: Faults, place: Span) -> None:
    fault = faults.found[0]
    name = quote(field.name.text)
    if type_ == "enum":
        hint = fault.hint or f"It needs {fault.expected}"
        said.error("wrong_value", f"the default of {name} is none of its choices", place, hint=hint)
    else:
        shown = quote(field.default.text, longest=40) if field.default else ""
        hint = fault.hint or f"Write a value of the type {type_}"
        said.error("wrong_type", f"the default of {name} is no {type_}: {shown}", place, hint=hint)
