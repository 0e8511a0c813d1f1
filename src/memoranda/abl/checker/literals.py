"""The node of an expression in; what it is, where it is written down and a type cannot have it, out."""

from __future__ import annotations

import re
from typing import Any

from memoranda.abl.variables import fits
from memoranda.lang.expression.literals import UNKNOWN, literal
from memoranda.lang.expression.nodes import Binary, Constant, Node
from memoranda.lang.template import Template

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_WORDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
}


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
