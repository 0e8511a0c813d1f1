"""The node of an expression in; the value it is written as, if it is written down, and whether a type has it, out."""

from __future__ import annotations

import re
from typing import Any

from recollect.abl.variables import fits
from recollect.lang.expression.nodes import Binary, Constant, ListOf, Node, ObjectOf, Unary
from recollect.lang.template import Template

UNKNOWN: Any = object()
"""What an expression gives whose value is known only when it runs."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WORDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
}


def literal(node: Node | None) -> Any:
    """Return the value that an expression is written as; of an array or object, only that it is one."""
    match node:
        case Constant():
            return node.value
        case ListOf():
            return list[Any]()
        case ObjectOf():
            return dict[str, Any]()
        case Unary(operator="-", operand=Constant(value=int() | float() as value)):
            return -value
        case _:
            return UNKNOWN


def in_words(value: Any) -> str:
    """Return what kind of value it is, for a message."""
    return next((word for kind, word in _WORDS.items() if type(value) is kind), "null")


def mismatch(node: Node | None, type_name: str | None) -> str | None:
    """Return what a literal is, if that does not fit the declared type; None where it fits or cannot be known."""
    if node is None or type_name is None:
        return None
    if isinstance(node, Template):
        return None if type_name in ("string", "date", "datetime") else "text"
    if type_name in ("date", "datetime") and _is_unquoted_date(node):
        return "a subtraction"
    value = literal(node)
    if value is UNKNOWN or fits(value, type_name):
        return None
    return "text that is no date" if type_name in ("date", "datetime") and type(value) is str else in_words(value)


def cannot_become(node: Node | None, type_name: str) -> str | None:
    """Return what a literal is, if it cannot even be converted to a type, as arguments of tools are."""
    value = literal(node)
    if type(value) is str and type_name == "number":
        return None if _NUMBER.fullmatch(value.strip()) else "text"
    if type(value) is str and type_name == "boolean":
        return None if value.casefold() in ("true", "false", "yes", "no") else "text"
    if type(value) in (list, dict) and type_name in ("string", "number", "boolean", "date", "datetime"):
        return in_words(value)
    return None


def _is_unquoted_date(node: Node) -> bool:
    """Say whether a date was written without quotes, which makes it two subtractions."""
    return isinstance(node, Binary) and node.operator == "-" and isinstance(node.right, Constant)
