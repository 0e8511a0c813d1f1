"""Conditions in; those that ask whether a value is true where they mean whether it is there, out."""

from __future__ import annotations

from collections.abc import Iterator

from memoranda.abl.checker.outline import Outline
from memoranda.abl.type_names import type_name
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.nodes import Logical, Node, Path, Unary, path_of
from memoranda.lang.source import Span
from memoranda.model.text import quote

_NUMBERS = ("number", "integer")
_FALSE = {"number": "0", "boolean": "false"}


def check_conditions(whole: Outline, said: Diagnostics) -> None:
    """Check every condition for a bare number or boolean, whose 0 or false counts as missing."""
    fields = _types_of_fields(whole)
    declared = {**_declared_types(whole), **fields}
    for use in whole.uses:
        node = whole.programs.node(use.raw) if use.kind == "condition" else None
        gathering = use.place == "COMPLETE_WHEN"
        for path, span in _bare(node) if node is not None else ():
            name = ".".join(path)
            # Elsewhere `IF: confirmed` says what it means; only a collected number is asked for to be there.
            kind = declared.get(name) if gathering else fields.get(name)
            if kind == "number" or (kind == "boolean" and gathering):
                message = f"{quote(name)} counts as missing when it is {_FALSE[kind]}"
                said.warning("truthiness", message, span, hint=f"Write `{name} IS SET`, or compare it")


def _bare(node: Node) -> Iterator[tuple[Path, Span]]:
    """Give the paths that stand in a condition as they are, not compared with anything."""
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


def _declared_types(whole: Outline) -> dict[str, str]:
    declared = {name: variable.type for name, variable in whole.session.items()}
    declared |= {path: fact.type for path, fact in whole.facts.items()}
    return {name: kind for name, kind in declared.items() if kind is not None}
