"""The node of a value in, the value itself out where it is written down and no run is needed to know it."""

from __future__ import annotations

from typing import Any

from memoranda.lang.expression.nodes import Constant, ListOf, Node, ObjectOf, Unary

UNKNOWN: Any = object()
"""What a value is that only a run can tell."""


def literal(node: Node | None) -> Any:
    """Return a value that is written down: text, number, true, false or null; of a list or an object an empty one."""
    match node:
        case Constant():
            return node.value
        case Unary(operator="-", operand=Constant(value=int() | float() as value)) if not isinstance(value, bool):
            return -value
        case ListOf():
            return list[Any]()
        case ObjectOf():
            return dict[str, Any]()
        case _:
            return UNKNOWN
