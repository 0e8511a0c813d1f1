"""What an expression is made of: frozen nodes that know where they stand in the source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, cast

import msgspec

from recollect.lang.source import Span


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
    """Give each path that an expression reads, as long as it is written, for those who check names and access."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        path = path_of(here)
        if path is not None:
            yield path, here.span
        else:
            waiting.extend(reversed(list(children(here))))
