"""A compiled expression: variables in, a value or a verdict out."""

from __future__ import annotations

from typing import Any

from memoranda.lang.expression.compiler import compile_node
from memoranda.lang.expression.dialect import Dialect, Names, Resolve, Run
from memoranda.lang.expression.nodes import Node


class Expression:
    """An expression that is ready to run, as often as one likes and from any thread."""

    __slots__ = ("closure", "node", "truthy")

    def __init__(self, node: Node, dialect: Dialect, *, resolve: Resolve | None = None) -> None:
        """Compile a node once; see `compile_node`."""
        self.node = node
        self.closure = compile_node(node, dialect, resolve=resolve)
        """Gives the value among variables; for those who bring their own run."""
        self.truthy = dialect.truthy
        """Says whether a value counts as true."""

    def value(self, names: Names, run: Run | None = None) -> Any:
        """Return the value among these variables."""
        return self.closure(names, run or Run())

    def test(self, names: Names, run: Run | None = None) -> bool:
        """Return whether the value counts as true."""
        value = self.closure(names, run or Run())
        return value if type(value) is bool else self.truthy(value)
