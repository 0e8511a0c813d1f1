"""The node of a value in, the value itself out where it is written down and no run is needed to know it."""

from __future__ import annotations

from typing import Any

from recollect.lang.expression.nodes import Constant, ListOf, Node, ObjectOf, Unary

UNKNOWN: Any = object()
"""What a value is that only a run can tell."""


def literal(node: Node | None) -> Any:
    """Return a value that is written down: text, number, true, false or null; a list or map by its kind, empty."""
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Unary) and node.operator == "-" and isinstance(node.operand, Constant):
        value = node.operand.value
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else UNKNOWN
    if isinstance(node, ListOf):
        return []
    if isinstance(node, ObjectOf):
        return {}
    return UNKNOWN


def is_number(value: Any) -> bool:
    """Say whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: Any, *, least: int) -> bool:
    """Say whether a value is a whole number that is not less than another."""
    return is_number(value) and value == value // 1 and value >= least
