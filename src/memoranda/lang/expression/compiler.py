"""Compile expression nodes to closures. Languages with functions as values add `FUNCTIONAL`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from memoranda.lang.expression import nodes
from memoranda.lang.expression.dialect import (
    Closure,
    Dialect,
    ExpressionRun,
    Names,
    Resolve,
    check_text,
    evaluation_error,
    exceeded,
    with_span,
)
from memoranda.lang.expression.nodes import Node, Path
from memoranda.lang.expression.patterns import compile_pattern, search

MISSING: Any = object()
"""The result of a lookup without a value; null is None."""


class Layer:
    """Variables of a loop or a function that shadow the outer ones."""

    __slots__ = ("inner", "outer")

    def __init__(self, inner: Mapping[str, Any], outer: Names) -> None:
        """Combine inner and outer names."""
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


def _is_shadowed(names: Names, name: str) -> bool:
    while type(names) is Layer:
        if name in names.inner:
            return True
        names = names.outer
    return False


class Compilation:
    """Compiles the nodes of one expression; the compilers of single nodes use it for their parts."""

    def __init__(self, dialect: Dialect, resolve: Resolve | None = None, *, looped: bool = False) -> None:
        """Start outside a loop; see `compile_node`."""
        self.dialect = dialect
        self._resolve = resolve
        self._looped = looped

    def compile(self, node: Node) -> Closure:
        """Compile a node."""
        return self.dialect.compilers[type(node)](node, self)

    def plain_name(self, node: Node) -> str | None:
        """Return the name of a node that reads a plain variable; None for all other nodes."""
        if type(node) is not nodes.Name or node.name in self.dialect.names:
            return None
        return None if self._resolve and self._resolve((node.name,)) else node.name

    def inside_loop(self) -> Compilation:
        """Return a compilation for a loop body, whose names the fields of an item may shadow."""
        return Compilation(self.dialect, self._resolve, looped=True)

    def path(self, path: Path) -> Closure:
        """Compile a dotted path."""
        plain = self._plain_path(path)
        resolved = self._resolve(path) if self._resolve else None
        if resolved is None:
            return plain
        taken, read = resolved
        special = _descend(read, path[taken:], self.dialect)
        if not self._looped:
            return special
        head = path[0]
        return lambda names, run: plain(names, run) if _is_shadowed(names, head) else special(names, run)

    def _plain_path(self, path: Path) -> Closure:
        head = path[0]
        own = self.dialect.names.get(head)
        return _descend(own or (lambda names, run: names.get(head)), path[1:], self.dialect)


def _descend(read: Closure, rest: Path, dialect: Dialect) -> Closure:
    if not rest:
        return read
    member = dialect.member

    def descend(names: Names, run: ExpressionRun) -> Any:
        value = read(names, run)
        for name in rest:
            if type(value) is dict and name in value:
                value = cast("dict[str, Any]", value)[name]
            else:
                value = member(value, name)
        return value

    return descend


def compile_node(node: Node, dialect: Dialect, *, resolve: Resolve | None = None) -> Closure:
    """Compile a node to a closure.

    `resolve` lets a caller read some paths in its own way, such as those stored in a memory.
    """
    return Compilation(dialect, resolve).compile(node)


def _constant(node: nodes.Constant, to: Compilation) -> Closure:
    value = node.value
    return lambda names, run: value


def _name(node: nodes.Name, to: Compilation) -> Closure:
    return to.path((node.name,))


def _member(node: nodes.Member, to: Compilation) -> Closure:
    path = nodes.path_of(node)
    return to.path(path) if path else _descend(to.compile(node.of), (node.name,), to.dialect)


def _index(node: nodes.Index, to: Compilation) -> Closure:
    of, at, index = to.compile(node.of), to.compile(node.at), to.dialect.index
    if type(node.at) is nodes.Constant:
        place = node.at.value
        return lambda names, run: index(of(names, run), place)
    return lambda names, run: index(of(names, run), at(names, run))


def _call(node: nodes.Call, to: Compilation) -> Closure:
    function = to.dialect.functions[node.function]
    arguments = tuple(to.compile(argument) for argument in node.arguments)
    call, uses_run = function.call, function.uses_run
    if len(arguments) == 1 and not uses_run:
        (only,) = arguments
        return lambda names, run: _check_size(call(only(names, run)), run)

    def run_call(names: Names, run: ExpressionRun) -> Any:
        values = [argument(names, run) for argument in arguments]
        return _check_size(call(run, *values) if uses_run else call(*values), run)

    return run_call


def _check_size(value: Any, run: ExpressionRun) -> Any:
    if type(value) is str:
        check_text(value, run.bounds.text)
    elif type(value) is list and len(cast("list[Any]", value)) > run.bounds.items:
        raise exceeded("a list", run.bounds.items)
    return cast("Any", value)


def _unary(node: nodes.Unary, to: Compilation) -> Closure:
    operate, operand = to.dialect.unary[node.operator], to.compile(node.operand)
    name = to.plain_name(node.operand)
    if name is not None:
        # Most conditions are about one variable: reading it here saves a call.
        return lambda names, run: operate(names.get(name))
    return lambda names, run: operate(operand(names, run))


def _binary(node: nodes.Binary, to: Compilation) -> Closure:
    operate, left, right = to.dialect.binary[node.operator], to.compile(node.left), to.compile(node.right)
    if node.operator == "+":
        # The only operator whose result can be larger than both operands.
        return lambda names, run: _check_size(operate(left(names, run), right(names, run)), run)
    if type(node.right) is nodes.Constant:
        value, name = node.right.value, to.plain_name(node.left)
        if name is not None:
            return lambda names, run: operate(names.get(name), value)
        return lambda names, run: operate(left(names, run), value)
    if node.operator == "in" and type(node.right) is nodes.ListOf:
        # Build a constant list once.
        items = [item.value for item in node.right.items if type(item) is nodes.Constant]
        if len(items) == len(node.right.items):
            return lambda names, run: operate(left(names, run), items)
    return lambda names, run: operate(left(names, run), right(names, run))


def _logical(node: nodes.Logical, to: Compilation) -> Closure:
    truthy = to.dialect.truthy
    operands = tuple(to.compile(operand) for operand in node.operands)
    if node.operator == "implies":
        condition, consequence = operands
        return lambda names, run: not truthy(condition(names, run)) or truthy(consequence(names, run))
    stop = node.operator == "or"

    def decide(names: Names, run: ExpressionRun) -> bool:
        for operand in operands:
            value = operand(names, run)
            if (value if type(value) is bool else truthy(value)) is stop:
                return stop
        return not stop

    return decide


def _matches(node: nodes.Matches, to: Compilation) -> Closure:
    text, word, flags = to.compile(node.text), to.dialect.word, node.flags
    written = to.compile(node.pattern)

    def match(names: Names, run: ExpressionRun) -> bool:
        value, pattern = text(names, run), written(names, run)
        if value is None or type(pattern) is not str:
            return False
        captures = search(compile_pattern(pattern, flags), word(value))
        if captures is None:
            return False
        run.captures = captures
        return True

    return match


def _list(node: nodes.ListOf, to: Compilation) -> Closure:
    items = tuple(to.compile(item) for item in node.items)
    return lambda names, run: [item(names, run) for item in items]


def _object(node: nodes.ObjectOf, to: Compilation) -> Closure:
    fields = tuple((name, to.compile(value)) for name, value in node.fields)
    return lambda names, run: {name: value(names, run) for name, value in fields}


CORE: Mapping[type[Node], Callable[[Any, Compilation], Closure]] = {
    nodes.Constant: _constant,
    nodes.Name: _name,
    nodes.Member: _member,
    nodes.Index: _index,
    nodes.Call: _call,
    nodes.Unary: _unary,
    nodes.Binary: _binary,
    nodes.Logical: _logical,
    nodes.Matches: _matches,
    nodes.ListOf: _list,
    nodes.ObjectOf: _object,
}
"""Compilers of the nodes that every language has."""


class Expression:
    """A compiled expression, which can be run many times and from any thread."""

    __slots__ = ("_paths", "closure", "node", "truthy")

    def __init__(self, node: Node, dialect: Dialect, *, resolve: Resolve | None = None) -> None:
        """Compile a node once; see `compile_node`."""
        self.node = node
        self._paths: tuple[Path, ...] | None = None
        self.closure = compile_node(node, dialect, resolve=resolve)
        """Computes the value, for callers with an `ExpressionRun` of their own."""
        self.truthy = dialect.truthy
        """Returns whether a value counts as true."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths that it mentions, without local names."""
        if self._paths is None:
            self._paths = tuple(dict.fromkeys(path for path, _ in nodes.paths_read(self.node)))
        return self._paths

    def value(self, names: Names, run: ExpressionRun | None = None) -> Any:
        """Compute the value with variables."""
        return self.closure(names, run or ExpressionRun())

    def test(self, names: Names, run: ExpressionRun | None = None) -> bool:
        """Return whether the value counts as true."""
        value = self.closure(names, run or ExpressionRun())
        return value if type(value) is bool else self.truthy(value)


_NODES_A_ROUND = 20
"""Nodes of a function that cost as much as one loop iteration."""


class Arrow:
    """A function value: a closure over the variables where it is written."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        """Wrap a callable that takes a run and the arguments."""
        self.call = call


def _conditional(node: nodes.Conditional, to: Compilation) -> Closure:
    test, truthy = to.compile(node.test), to.dialect.truthy
    then, otherwise = to.compile(node.then), to.compile(node.otherwise)
    return lambda names, run: then(names, run) if truthy(test(names, run)) else otherwise(names, run)


def _fallback(node: nodes.Fallback, to: Compilation) -> Closure:
    value, otherwise = to.compile(node.value), to.compile(node.otherwise)

    def first_there(names: Names, run: ExpressionRun) -> Any:
        found = value(names, run)
        return otherwise(names, run) if found is None else found

    return first_there


def _if_present(node: nodes.IfPresent, to: Compilation) -> Closure:
    of, then = to.compile(node.of), to.compile(node.then)

    def go_on(names: Names, run: ExpressionRun) -> Any:
        value = of(names, run)
        return None if value is None else then(Layer({nodes.HELD: value}, names), run)

    return go_on


def _block(node: nodes.Block, to: Compilation) -> Closure:
    bindings = tuple((name, to.compile(value)) for name, value in node.bindings)
    result = to.compile(node.result)

    def compute(names: Names, run: ExpressionRun) -> Any:
        own: dict[str, Any] = {}
        inside = Layer(own, names)
        for name, value in bindings:
            own[name] = value(inside, run)
        return result(inside, run)

    return compute


def _lambda(node: nodes.Lambda, to: Compilation) -> Closure:
    body = to.compile(node.body)
    binders = tuple(_binder(taken) for taken in node.parameters)
    cost = 1 + nodes.measure(node.body)[0] // _NODES_A_ROUND

    def make(names: Names, run: ExpressionRun) -> Arrow:
        def call(run: ExpressionRun, *arguments: Any) -> Any:
            run.step(cost)
            own: dict[str, Any] = {}
            for place, bind in enumerate(binders):
                bind(arguments[place] if place < len(arguments) else None, own)
            run.calls += 1
            try:
                if run.calls > run.bounds.calls:
                    raise exceeded("the nesting of functions that call one another", run.bounds.calls)
                return body(Layer(own, names), run)
            finally:
                run.calls -= 1

        return Arrow(call)

    return make


def _binder(taken: nodes.Pattern) -> Callable[[Any, dict[str, Any]], None]:
    names = taken.names
    if taken.kind == "whole":
        ((_, name),) = names
        return lambda value, own: own.__setitem__(name, value)
    if taken.kind == "items":

        def bind_items(value: Any, own: dict[str, Any]) -> None:
            if type(value) is not list:
                raise evaluation_error("a function that destructures a list was called with something else")
            items = cast("list[Any]", value)
            own.update((name, items[at] if at < len(items) else None) for at, (_, name) in enumerate(names))

        return bind_items

    def bind_fields(value: Any, own: dict[str, Any]) -> None:
        if type(value) is not dict:
            raise evaluation_error("a function that destructures an object was called with something else")
        fields = cast("dict[str, Any]", value)
        own.update((name, fields.get(field)) for field, name in names)

    return bind_fields


def _invoke(node: nodes.Invoke, to: Compilation) -> Closure:
    function = to.compile(node.function)
    arguments = tuple(to.compile(argument) for argument in node.arguments)
    shown = f"`{node.function.name}`" if isinstance(node.function, nodes.Name) else "this"

    def call(names: Names, run: ExpressionRun) -> Any:
        called = function(names, run)
        if type(called) is not Arrow:
            raise with_span(evaluation_error(f"{shown} is not a function", "Only functions can be called"), node.span)
        return called.call(run, *[argument(names, run) for argument in arguments])

    return call


FUNCTIONAL: Mapping[type[Node], Callable[[Any, Compilation], Closure]] = {
    nodes.Conditional: _conditional,
    nodes.Fallback: _fallback,
    nodes.IfPresent: _if_present,
    nodes.Block: _block,
    nodes.Lambda: _lambda,
    nodes.Invoke: _invoke,
}
"""Compilers of the nodes of languages with function values, local names and choices."""
