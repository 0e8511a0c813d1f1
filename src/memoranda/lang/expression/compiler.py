"""Nodes in, closures out: an expression is compiled once and run many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from memoranda.lang.expression.bounds import check_text, exceeded
from memoranda.lang.expression.dialect import Closure, Compilation, Dialect, Names, Resolve, Run
from memoranda.lang.expression.nodes import (
    Binary,
    Call,
    Constant,
    Index,
    ListOf,
    Logical,
    Matches,
    Member,
    Name,
    Node,
    ObjectOf,
    Path,
    Unary,
    path_of,
)
from memoranda.lang.expression.patterns import compile_pattern, search

MISSING: Any = object()
"""What a lookup gives when a name is not there at all; a null that is there is None."""


class Layer:
    """Variables of a loop or a function in front of those around it."""

    __slots__ = ("inner", "outer")

    def __init__(self, inner: Mapping[str, Any], outer: Names) -> None:
        """Put some names in front of others."""
        self.inner = inner
        self.outer = outer

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the innermost value of a name, or the default."""
        names: Names = self
        while type(names) is Layer:
            value = names.inner.get(name, MISSING)
            if value is not MISSING:
                return value
            names = names.outer
        return names.get(name, default)


def _shadowed(names: Names, name: str) -> bool:
    while type(names) is Layer:
        if name in names.inner:
            return True
        names = names.outer
    return False


class _Compiling:
    def __init__(self, dialect: Dialect, resolve: Resolve | None, *, looped: bool) -> None:
        self._dialect = dialect
        self._resolve = resolve
        self._looped = looped

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    def compile(self, node: Node) -> Closure:
        return self._dialect.compilers[type(node)](node, self)

    def plain_name(self, node: Node) -> str | None:
        if type(node) is not Name or node.name in self._dialect.names:
            return None
        return None if self._resolve and self._resolve((node.name,)) else node.name

    def inside_loop(self) -> Compilation:
        return _Compiling(self._dialect, self._resolve, looped=True)

    def path(self, path: Path) -> Closure:
        plain = self._plain_path(path)
        resolved = self._resolve(path) if self._resolve else None
        if resolved is None:
            return plain
        taken, read = resolved
        special = _descend(read, path[taken:], self._dialect)
        if not self._looped:
            return special
        head = path[0]
        return lambda names, run: plain(names, run) if _shadowed(names, head) else special(names, run)

    def _plain_path(self, path: Path) -> Closure:
        head = path[0]
        own = self._dialect.names.get(head)
        return _descend(own or (lambda names, run: names.get(head)), path[1:], self._dialect)


def _descend(read: Closure, rest: Path, dialect: Dialect) -> Closure:
    if not rest:
        return read
    member = dialect.member

    def descend(names: Names, run: Run) -> Any:
        value = read(names, run)
        for name in rest:
            if type(value) is dict and name in value:
                value = cast("dict[str, Any]", value)[name]
            else:
                value = member(value, name)
        return value

    return descend


def compile_node(node: Node, dialect: Dialect, *, resolve: Resolve | None = None) -> Closure:
    """Return a closure that gives the value of a node.

    `resolve` lets a caller read some paths in its own way, such as those that are kept in a memory.
    """
    return _Compiling(dialect, resolve, looped=False).compile(node)


def _constant(node: Constant, to: Compilation) -> Closure:
    value = node.value
    return lambda names, run: value


def _name(node: Name, to: Compilation) -> Closure:
    return to.path((node.name,))


def _member(node: Member, to: Compilation) -> Closure:
    path = path_of(node)
    return to.path(path) if path else _descend(to.compile(node.of), (node.name,), to.dialect)


def _index(node: Index, to: Compilation) -> Closure:
    of, at, index = to.compile(node.of), to.compile(node.at), to.dialect.index
    if type(node.at) is Constant:
        place = node.at.value
        return lambda names, run: index(of(names, run), place)
    return lambda names, run: index(of(names, run), at(names, run))


def _call(node: Call, to: Compilation) -> Closure:
    function = to.dialect.functions[node.function]
    arguments = tuple(to.compile(argument) for argument in node.arguments)
    call, uses_run = function.call, function.uses_run
    if len(arguments) == 1 and not uses_run:
        (only,) = arguments
        return lambda names, run: _kept_small(call(only(names, run)), run)

    def run_call(names: Names, run: Run) -> Any:
        values = [argument(names, run) for argument in arguments]
        return _kept_small(call(run, *values) if uses_run else call(*values), run)

    return run_call


def _kept_small(value: Any, run: Run) -> Any:
    if type(value) is str:
        check_text(value, run.bounds.text)
    elif type(value) is list and len(cast("list[Any]", value)) > run.bounds.items:
        raise exceeded("a list", run.bounds.items)
    return cast("Any", value)


def _unary(node: Unary, to: Compilation) -> Closure:
    operate, operand = to.dialect.unary[node.operator], to.compile(node.operand)
    name = to.plain_name(node.operand)
    if name is not None:
        # Most conditions are about one variable: reading it here spares a call each.
        return lambda names, run: operate(names.get(name))
    return lambda names, run: operate(operand(names, run))


def _binary(node: Binary, to: Compilation) -> Closure:
    operate, left, right = to.dialect.binary[node.operator], to.compile(node.left), to.compile(node.right)
    if node.operator == "+":
        # The one operator whose result can be larger than both operands.
        return lambda names, run: _kept_small(operate(left(names, run), right(names, run)), run)
    if type(node.right) is Constant:
        value, name = node.right.value, to.plain_name(node.left)
        if name is not None:
            return lambda names, run: operate(names.get(name), value)
        return lambda names, run: operate(left(names, run), value)
    if node.operator == "in" and type(node.right) is ListOf:
        # A list that is only looked through, and always the same, is made once.
        items = [item.value for item in node.right.items if type(item) is Constant]
        if len(items) == len(node.right.items):
            return lambda names, run: operate(left(names, run), items)
    return lambda names, run: operate(left(names, run), right(names, run))


def _logical(node: Logical, to: Compilation) -> Closure:
    truthy = to.dialect.truthy
    operands = tuple(to.compile(operand) for operand in node.operands)
    if node.operator == "implies":
        condition, consequence = operands
        return lambda names, run: not truthy(condition(names, run)) or truthy(consequence(names, run))
    stop = node.operator == "or"

    def decide(names: Names, run: Run) -> bool:
        for operand in operands:
            value = operand(names, run)
            if (value if type(value) is bool else truthy(value)) is stop:
                return stop
        return not stop

    return decide


def _matches(node: Matches, to: Compilation) -> Closure:
    text, word, flags = to.compile(node.text), to.dialect.word, node.flags
    written = to.compile(node.pattern)

    def match(names: Names, run: Run) -> bool:
        value, pattern = text(names, run), written(names, run)
        if value is None or type(pattern) is not str:
            return False
        captures = search(compile_pattern(pattern, flags), word(value))
        if captures is None:
            return False
        run.captures = captures
        return True

    return match


def _list(node: ListOf, to: Compilation) -> Closure:
    items = tuple(to.compile(item) for item in node.items)
    return lambda names, run: [item(names, run) for item in items]


def _object(node: ObjectOf, to: Compilation) -> Closure:
    fields = tuple((name, to.compile(value)) for name, value in node.fields)
    return lambda names, run: {name: value(names, run) for name, value in fields}


CORE: Mapping[type[Node], Callable[[Any, Compilation], Closure]] = {
    Constant: _constant,
    Name: _name,
    Member: _member,
    Index: _index,
    Call: _call,
    Unary: _unary,
    Binary: _binary,
    Logical: _logical,
    Matches: _matches,
    ListOf: _list,
    ObjectOf: _object,
}
"""How the nodes that every language has are compiled."""
