"""Expression nodes: frozen values that know their place in the source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, cast

import msgspec

from memoranda.lang.source import Span


class Node(msgspec.Struct, frozen=True):
    """Anything with a value. A language adds nodes of its own, and a compiler for each to its dialect."""

    span: Span


class Constant(Node, frozen=True):
    """A literal: `3`, `"east"`, `true`, `null`."""

    value: str | int | float | bool | None


class Name(Node, frozen=True):
    """A name: the first segment of a path."""

    name: str


class Member(Node, frozen=True):
    """A field of the value left of a dot."""

    of: Node
    name: str


class Index(Node, frozen=True):
    """An item of a list by its index, or a field by a computed name."""

    of: Node
    at: Node


class Call(Node, frozen=True):
    """A call of a function of the dialect; the receiver of a method is the first argument."""

    function: str
    arguments: tuple[Node, ...]


class Unary(Node, frozen=True):
    """An operator of the dialect and its operand."""

    operator: str
    operand: Node


class Binary(Node, frozen=True):
    """An operator of the dialect between two operands, both of which are always evaluated."""

    operator: str
    left: Node
    right: Node


class Logical(Node, frozen=True):
    """A short-circuit operator; `implies` has exactly two operands."""

    operator: Literal["and", "or", "implies"]
    operands: tuple[Node, ...]


class Matches(Node, frozen=True):
    """Whether a text matches a pattern; its groups can be read afterwards."""

    text: Node
    pattern: Node
    flags: str = ""


class ListOf(Node, frozen=True):
    """A list literal."""

    items: tuple[Node, ...]


class ObjectOf(Node, frozen=True):
    """An object literal."""

    fields: tuple[tuple[str, Node], ...]


class Conditional(Node, frozen=True):
    """One value or another; only the chosen one is evaluated."""

    test: Node
    then: Node
    otherwise: Node


class Fallback(Node, frozen=True):
    """A value, or another if it is null."""

    value: Node
    otherwise: Node


class Method(Node, frozen=True):
    """A method call; the type of the receiver decides its meaning."""

    of: Node
    name: str
    arguments: tuple[Node, ...]


class Pattern(msgspec.Struct, frozen=True):
    """A parameter of a function: a whole value, or a destructured list or object."""

    kind: Literal["whole", "items", "fields"]
    names: tuple[tuple[str, str], ...]
    """Pairs (field, local name); for items and whole values the field is empty."""


class Lambda(Node, frozen=True):
    """A function literal."""

    parameters: tuple[Pattern, ...]
    body: Node


class Invoke(Node, frozen=True):
    """A call of a function value."""

    function: Node
    arguments: tuple[Node, ...]


class Block(Node, frozen=True):
    """Local bindings, each visible to those after it, and a result."""

    bindings: tuple[tuple[str, Node], ...]
    result: Node


HELD = "?."
"""The name of the value of `IfPresent`; no grammar can write it."""


class IfPresent(Node, frozen=True):
    """Null if a value is null; otherwise an expression over it, where its name is `HELD`."""

    of: Node
    then: Node


Path: TypeAlias = tuple[str, ...]


def children(node: Node) -> Iterator[Node]:
    """Yield the direct children of a node, in source order."""
    for name in node.__struct_fields__:
        value: Any = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif type(value) is tuple:
            for item in cast("tuple[Any, ...]", value):
                part = cast("tuple[Any, ...]", item)[1] if type(item) is tuple else item
                if isinstance(part, Node):
                    yield part


def measure(node: Node) -> tuple[int, int]:
    """Return the number of nodes and the height of the tree, without recursion."""
    count, height, level = 0, 0, [node]
    while level:
        count += len(level)
        height += 1
        level = [below for above in level for below in children(above)]
    return count, height


def path_of(node: Node) -> Path | None:
    """Return the segments of `a.b.c`; None for anything but names and dots."""
    names: list[str] = []
    while isinstance(node, Member):
        names.append(node.name)
        node = node.of
    if not isinstance(node, Name):
        return None
    names.append(node.name)
    return tuple(reversed(names))


def paths_read(node: Node) -> Iterator[tuple[Path, Span]]:
    """Yield each path that an expression reads, with its span; local names are left out."""
    waiting: list[tuple[Node, frozenset[str]]] = [(node, frozenset())]
    while waiting:
        here, bound = waiting.pop()
        path = path_of(here)
        if path is None:
            waiting.extend(reversed(list(_below(here, bound))))
        elif path[0] not in bound:
            yield path, here.span


def _below(node: Node, bound: frozenset[str]) -> Iterator[tuple[Node, frozenset[str]]]:
    if isinstance(node, Lambda):
        yield node.body, bound.union(name for taken in node.parameters for _, name in taken.names)
    elif isinstance(node, Block):
        for name, value in node.bindings:
            yield value, bound
            bound = bound | {name}
        yield node.result, bound
    elif isinstance(node, IfPresent):
        yield node.of, bound
        yield node.then, bound | {HELD}
    else:
        for below in children(node):
            yield below, bound


UNKNOWN: Any = object()
"""A value that only a run can tell."""


def literal(node: Node | None) -> Any:
    """Return the value of a literal, an empty list or dict for list and object literals, else UNKNOWN."""
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
