"""What an expression is made of: frozen nodes that know where they stand in the source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, cast

import msgspec

from memoranda.lang.source import Span


class Node(msgspec.Struct, frozen=True):
    """Anything that has a value. A language adds nodes of its own, and a compiler for each to its dialect."""

    span: Span


class Constant(Node, frozen=True):
    """A value written down: `3`, `"east"`, `true`, `null`."""

    value: str | int | float | bool | None


class Name(Node, frozen=True):
    """The first segment of a path, or all of it."""

    name: str


class Member(Node, frozen=True):
    """A field of what stands left of the dot."""

    of: Node
    name: str


class Index(Node, frozen=True):
    """An item of a list by its place, or a field by a computed name."""

    of: Node
    at: Node


class Call(Node, frozen=True):
    """A function of the dialect and its arguments; of a method, the first is what it is called on."""

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
    """Operands of which only as many are evaluated as it takes; `implies` has exactly two."""

    operator: Literal["and", "or", "implies"]
    operands: tuple[Node, ...]


class Matches(Node, frozen=True):
    """Whether a text matches a pattern; what the groups held can be read afterwards."""

    text: Node
    pattern: Node
    flags: str = ""


class ListOf(Node, frozen=True):
    """A list written down."""

    items: tuple[Node, ...]


class ObjectOf(Node, frozen=True):
    """An object written down: names and their values, in order."""

    fields: tuple[tuple[str, Node], ...]


class Conditional(Node, frozen=True):
    """One value or another; only the one that is chosen is evaluated."""

    test: Node
    then: Node
    otherwise: Node


class Fallback(Node, frozen=True):
    """A value, or another where it is null."""

    value: Node
    otherwise: Node


class Method(Node, frozen=True):
    """A method of the dialect, called on a value that decides what it means."""

    of: Node
    name: str
    arguments: tuple[Node, ...]


class Pattern(msgspec.Struct, frozen=True):
    """What a parameter takes apart: a whole value, the items of a list, or the fields of an object."""

    kind: Literal["whole", "items", "fields"]
    names: tuple[tuple[str, str], ...]
    """Pairs (what is read, the name it gets); of items and whole values the first is empty."""


class Lambda(Node, frozen=True):
    """A function written down: parameters, and the expression that they are for."""

    parameters: tuple[Pattern, ...]
    body: Node


class Invoke(Node, frozen=True):
    """A function that is a value, called."""

    function: Node
    arguments: tuple[Node, ...]


class Block(Node, frozen=True):
    """Names for values, each seen by those after it, and the value of it all."""

    bindings: tuple[tuple[str, Node], ...]
    result: Node


HELD = "?."
"""The name of what `IfPresent` holds; no grammar can write it."""


class IfPresent(Node, frozen=True):
    """Null where a value is null; otherwise what is read from it, where it is called `HELD`."""

    of: Node
    then: Node


Path: TypeAlias = tuple[str, ...]


def children(node: Node) -> Iterator[Node]:
    """Give the nodes right below a node, in the order of the source."""
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
    """Return how many nodes there are and how high they are stacked, without recursion."""
    count, height, level = 0, 0, [node]
    while level:
        count += len(level)
        height += 1
        level = [below for above in level for below in children(above)]
    return count, height


def path_of(node: Node) -> Path | None:
    """Return `a.b.c` as its segments; None for anything that is not names and dots."""
    names: list[str] = []
    while isinstance(node, Member):
        names.append(node.name)
        node = node.of
    if not isinstance(node, Name):
        return None
    names.append(node.name)
    return tuple(reversed(names))


def paths_read(node: Node) -> Iterator[tuple[Path, Span]]:
    """Give each path that an expression reads, as long as it is written, for those who check names and access.

    Names that the expression itself gives, to parameters or to values, are not read from outside.
    """
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
