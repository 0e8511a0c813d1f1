"""The tree of an expression in; the variables, fields and functions it reads out, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import msgspec

Kind = Literal["variable", "function", "field"]

_ONE = ("lhs", "rhs", "expression", "condition", "then", "_else", "procedure", "body")
_ONE_INSIDE = ("group", "pattern", "update", "delete", "expr")
_MANY = ("steps", "expressions", "arguments")
_MANY_INSIDE = ("predicate", "stages", "terms", "rhs_terms")
_PAIRS = ("lhs_object", "rhs_object")
"""Where the parts of a node stand; those inside are evaluated against what the node gives, not what it was given."""


class Read(msgspec.Struct, frozen=True):
    """Something an expression reads: `$output.save.id` as a variable and its fields, a function, or a bare field.

    A bare field is looked for in the input document, which is empty in a workflow.
    """

    kind: Kind
    path: tuple[str, ...]
    start: int
    end: int


class _Walk:
    def __init__(self) -> None:
        self.found: list[Read] = []
        self.bound: set[str] = set()
        self.height = 0

    def node(self, node: Any, depth: int, *, root: bool) -> None:
        """Go through a node; `root` says that it is evaluated against the input document itself."""
        self.height = max(self.height, depth)
        self._names(node)
        kind = node.type
        if kind == "path":
            self._path(node, depth, root=root)
            return
        if kind == "variable":
            self._variable(node, [])
        elif kind == "name" and root:
            self._add("field", node, 0)
        for child, inside in _children(node):
            if child is node.procedure and child.type == "variable":
                self._add("function", child, 1)
            else:
                self.node(child, depth + 1, root=root and not inside)

    def _path(self, node: Any, depth: int, *, root: bool) -> None:
        first = node.steps[0]
        if first.type == "variable":
            fields: list[Any] = []
            for before, step in pairwise(node.steps):
                # After a filter or a name for an item, a field is one of the items.
                if step.type != "name" or before.stages or before.predicate or before.focus or before.index:
                    break
                fields.append(step)
            self._variable(first, fields)
        elif first.type == "name" and root:
            self._add("field", first, 0)
        for number, step in enumerate(node.steps):
            self._names(step)
            if step.type not in ("variable", "name"):
                self.node(step, depth + 1, root=root and not number)
                continue
            for child, _ in _children(step):
                self.node(child, depth + 1, root=False)
        if node.group is not None:
            self.node(node.group, depth + 1, root=False)

    def _variable(self, node: Any, fields: list[Any]) -> None:
        if node.value in ("", "$", None):
            return
        path = (str(node.value), *(str(field.value) for field in fields))
        end = fields[-1].position if fields else node.position
        self.found.append(Read("variable", path, node.position - len(path[0]) - 1, end))

    def _add(self, kind: Kind, node: Any, sign: int) -> None:
        """Take over the name of a node, before which there may be a sign."""
        name = str(node.value)
        self.found.append(Read(kind, (name,), max(node.position - len(name) - sign, 0), node.position))

    def _names(self, node: Any) -> None:
        """Remember the names that the expression itself gives."""
        if node.type == "bind" and node.lhs is not None:
            self.bound.add(str(node.lhs.value))
        if node.type == "lambda":
            self.bound.update(str(argument.value) for argument in node.arguments or ())
        for name in (node.focus, node.index):
            if isinstance(name, str):
                self.bound.add(name)
        for stage in node.stages or ():
            if stage.type == "index":
                self.bound.add(str(stage.value))


def _children(node: Any) -> Iterator[tuple[Any, bool]]:
    """Give the parts of a node, and whether each is evaluated against something else than the node itself."""
    # The left side of a binding and the arguments of a function that is written down are names, not values.
    names = {"bind": "lhs", "lambda": "arguments"}.get(node.type)
    for name in (*_ONE, *_ONE_INSIDE):
        child = getattr(node, name)
        if hasattr(child, "type") and name != names:
            yield child, name in _ONE_INSIDE
    for name in (*_MANY, *_MANY_INSIDE):
        if name != names:
            yield from ((child, name in _MANY_INSIDE) for child in getattr(node, name) or () if hasattr(child, "type"))
    for name in _PAIRS:
        yield from ((child, False) for pair in getattr(node, name) or () for child in pair)


def look_through(tree: Any) -> tuple[tuple[Read, ...], int]:
    """Return what a tree reads that it does not give itself, in the order of the text, and how high it is."""
    walk = _Walk()
    walk.node(tree, 1, root=True)
    read = (one for one in walk.found if one.kind == "field" or one.path[0] not in walk.bound)
    return tuple(sorted(dict.fromkeys(read), key=lambda one: (one.start, one.end))), walk.height
