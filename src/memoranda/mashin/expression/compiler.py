"""Compile mashin expressions to closures: names, fields, calls and methods, and what each may cost.

`compile_expression` takes text and raises a `SourceError`; `evaluate` also runs it. A file that is parsed as a whole
uses `Programs`, which notes the diagnostics with those of the file, and then `expression`.

Among the variables, `steps` and `input` are maps whose fields can also be read by their bare names: a parameter comes
first, then `let`, then a step, then an input, then any other variable, such as `context` and `error`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from memoranda.errors import EvaluationFailed
from memoranda.lang.diagnostics import Diagnostics, did_you_mean, source_error
from memoranda.lang.document import Raw
from memoranda.lang.expression import nodes
from memoranda.lang.expression.compiler import FUNCTIONAL, MISSING, Arrow, Compilation, Expression, Layer
from memoranda.lang.expression.dialect import (
    DEFAULT_BOUNDS,
    Bounds,
    Closure,
    Dialect,
    ExpressionRun,
    Names,
    evaluation_error,
    exceeded,
    with_span,
)
from memoranda.lang.expression.nodes import Node
from memoranda.lang.source import Excerpt, Source, Span
from memoranda.lang.template import WITH_TEMPLATES
from memoranda.mashin.expression.functions import FUNCTIONS, GLOBALS
from memoranda.mashin.expression.methods import METHODS
from memoranda.mashin.expression.operators import BINARY, UNARY, describe_type, index, member, text_of, truthy
from memoranda.mashin.expression.parser import Place, parse_stretch
from memoranda.model.clock import Clock, Ids
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.mashin.document import Compute


STEPS, INPUT = "steps", "input"
_ROOTS = (STEPS, INPUT)
_ITEMS_A_ROUND = 64
_CHARACTERS_A_ROUND = 1024
"""Items of a list, and characters of a text, that cost as much as one iteration of a loop."""
_DEEPEST = 64
_SHOWN_NAMES = 8


class Outcome(Node, frozen=True):
    """A whole program, whose value must be storable."""

    value: Node


def _charge(value: Any, run: ExpressionRun) -> Any:
    """Return a value after counting the work of processing it."""
    if type(value) is str:
        if len(value) >= _CHARACTERS_A_ROUND:
            run.step(len(value) // _CHARACTERS_A_ROUND)
    elif type(value) is list or type(value) is dict:
        size = len(cast("list[Any]", value))
        if size >= _ITEMS_A_ROUND:
            run.step(size // _ITEMS_A_ROUND)
    return cast("Any", value)


def _check_size(value: Any, run: ExpressionRun) -> Any:
    """Return the result of an operator or function, or refuse it as too large."""
    if type(value) is str:
        if len(value) > run.bounds.text:
            raise exceeded("the text that an expression made", run.bounds.text, len(value))
    elif (type(value) is list or type(value) is dict) and len(cast("list[Any]", value)) > run.bounds.items:
        raise exceeded("a list or map", run.bounds.items, len(cast("list[Any]", value)))
    return _charge(value, run)


# Names and fields


def _name(node: nodes.Name, to: Compilation) -> Closure:
    name, span, root = node.name, node.span, node.name in _ROOTS

    def read(names: Names, run: ExpressionRun) -> Any:
        scope = names
        while type(scope) is Layer:
            value = scope.inner.get(name, MISSING)
            if value is not MISSING:
                return value
            scope = scope.outer
        if not root:
            for part in _ROOTS:
                known = scope.get(part)
                if type(known) is dict and name in known:
                    return cast("dict[str, Any]", known)[name]
        value = scope.get(name, MISSING)
        if value is MISSING:
            raise with_span(_name_error(name, names), span)
        return value

    return read


def _name_error(name: str, names: Names) -> EvaluationFailed:
    known = dict.fromkeys(_visible_names(names))
    listed = ", ".join(quote(each) for each in list(known)[:_SHOWN_NAMES])
    otherwise = f"Known here: {listed}" if known else "There are no names here"
    return evaluation_error(
        f"the name {quote(name)} is not defined", did_you_mean(name, (*known, *GLOBALS), otherwise=otherwise)
    )


def _visible_names(names: Names) -> Iterator[str]:
    while type(names) is Layer:
        yield from (name for name in names.inner if name != nodes.HELD)
        names = names.outer
    for inside in (names.get(STEPS), names.get(INPUT), names):
        if isinstance(inside, dict):
            yield from cast("dict[str, Any]", inside)


def _path_text(node: Node) -> str:
    path = nodes.path_of(node)
    return quote(".".join(path)) if path and path[0] != nodes.HELD else "the value before it"


def _member(node: nodes.Member, to: Compilation) -> Closure:
    of, name, span, shown_of = to.compile(node.of), node.name, node.span, _path_text(node.of)

    def read(names: Names, run: ExpressionRun) -> Any:
        value = of(names, run)
        if type(value) is dict:
            return cast("dict[str, Any]", value).get(name)
        if value is None:
            hint = "Write `?.` where a value may be missing"
            raise with_span(evaluation_error(f"{shown_of} is null, so it has no field {quote(name)}", hint), span)
        return member(value, name)

    return read


def _index(node: nodes.Index, to: Compilation) -> Closure:
    of, at, span = to.compile(node.of), to.compile(node.at), node.span

    def read(names: Names, run: ExpressionRun) -> Any:
        try:
            return index(of(names, run), at(names, run))
        except EvaluationFailed as fault:
            raise with_span(fault, span) from None

    return read


# Operators


def _unary(node: nodes.Unary, to: Compilation) -> Closure:
    operate, operand, span = to.dialect.unary[node.operator], to.compile(node.operand), node.span

    def compute(names: Names, run: ExpressionRun) -> Any:
        try:
            return operate(operand(names, run))
        except EvaluationFailed as fault:
            raise with_span(fault, span) from None

    return compute


def _binary(node: nodes.Binary, to: Compilation) -> Closure:
    operate, span = to.dialect.binary[node.operator], node.span
    left, right = to.compile(node.left), to.compile(node.right)
    costly = node.operator in ("==", "!=", "in", "+")

    def compute(names: Names, run: ExpressionRun) -> Any:
        one, two = left(names, run), right(names, run)
        if costly:
            _charge(one, run)
            _charge(two, run)
        try:
            result = operate(one, two)
        except EvaluationFailed as fault:
            raise with_span(fault, span) from None
        return _check_size(result, run) if costly else result

    return compute


def _logical(node: nodes.Logical, to: Compilation) -> Closure:
    *first, last = (to.compile(operand) for operand in node.operands)
    stop = node.operator == "or"

    def decide(names: Names, run: ExpressionRun) -> Any:
        for operand in first:
            value = operand(names, run)
            if truthy(value) is stop:
                return value
        return last(names, run)

    return decide


# Calls


def _call(node: nodes.Call, to: Compilation) -> Closure:
    function, span = to.dialect.functions[node.function], node.span
    arguments = tuple(to.compile(argument) for argument in node.arguments)
    call, uses_run = function.call, function.uses_run

    def run_call(names: Names, run: ExpressionRun) -> Any:
        values = [_charge(argument(names, run), run) for argument in arguments]
        try:
            return _check_size(call(run, *values) if uses_run else call(*values), run)
        except EvaluationFailed as fault:
            raise with_span(fault, span) from None

    return run_call


def _method(node: nodes.Method, to: Compilation) -> Closure:
    of, name, span = to.compile(node.of), node.name, node.span
    kinds, shown_of = METHODS[node.name].on, _path_text(node.of)
    arguments = tuple(to.compile(argument) for argument in node.arguments)

    def run_method(names: Names, run: ExpressionRun) -> Any:
        value = of(names, run)
        call = kinds.get(cast("type[Any]", type(value)))
        if call is None:
            raise with_span(_no_method(value, name, shown_of), span)
        _charge(value, run)
        values = [argument(names, run) for argument in arguments]
        try:
            return _check_size(call(run, value, *values), run)
        except EvaluationFailed as fault:
            raise with_span(fault, span) from None

    return run_method


_PLURALS: Mapping[type, str] = {
    list: "lists",
    str: "texts",
    dict: "maps",
    int: "numbers",
    float: "numbers",
    bool: "booleans",
}


def _no_method(value: Any, name: str, shown_of: str) -> EvaluationFailed:
    if value is None:
        return evaluation_error(f"{shown_of} is null, so it has no `{name}`", "Write `?.` where a value may be missing")
    having = " and ".join(dict.fromkeys(_PLURALS[kind] for kind in METHODS[name].on))
    return evaluation_error(f"`{name}` is a method of {having}, and {shown_of} is {describe_type(value)}")


# The whole


_HOLDING = frozenset({list, dict, Arrow})
"""Values that may contain a function, or be much larger than they look."""


def _outcome(node: Outcome, to: Compilation) -> Closure:
    value = to.compile(node.value)

    def compute(names: Names, run: ExpressionRun) -> Any:
        try:
            result = value(names, run)
        except RecursionError:
            raise exceeded("the nesting of calls", run.bounds.calls) from None
        if type(result) in _HOLDING:
            _check_plain(result, run)
        return result

    return compute


def _inside(value: Any) -> list[Any]:
    return list(cast("dict[str, Any]", value).values()) if type(value) is dict else value


def _check_plain(result: Any, run: ExpressionRun) -> None:
    """Refuse a result that contains a function, or that is small only because its parts are shared."""
    level: list[Any] = [result]
    count, most = 0, 10 * run.bounds.items
    characters, longest = 0, 100 * run.bounds.text
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for value in level:
            if type(value) is str:
                characters += len(value)
                if characters > longest:
                    raise exceeded("all text of the value that an expression made", longest, characters)
            elif type(value) is Arrow:
                raise evaluation_error("a function cannot be kept as a value", "Call it, or leave it out of the result")
            elif type(value) is list or type(value) is dict:
                inside = _inside(value)
                count += len(inside)
                if count > most:
                    raise exceeded("the value that an expression made", most, count)
                below.extend(inside)
        if not below:
            return
        level = below
    raise exceeded("the nesting of a value", _DEEPEST)


_OWN: Mapping[type[Node], Callable[[Any, Compilation], Closure]] = {
    nodes.Name: _name,
    nodes.Member: _member,
    nodes.Index: _index,
    nodes.Unary: _unary,
    nodes.Binary: _binary,
    nodes.Logical: _logical,
    nodes.Call: _call,
    nodes.Method: _method,
    Outcome: _outcome,
}

MASHIN = Dialect(
    truthy=truthy,
    word=text_of,
    unary=UNARY,
    binary=BINARY,
    member=member,
    index=index,
    functions=FUNCTIONS,
    names={},
    compilers={**WITH_TEMPLATES, **FUNCTIONAL, **_OWN},
)
"""The semantics of mashin expressions."""


def parse_expression(
    text: Excerpt, diagnostics: Diagnostics, *, names: Collection[str] = (), bounds: Bounds = DEFAULT_BOUNDS
) -> Node | None:
    """Return the node of an expression in a file; None after noting what is wrong with it.

    `names` are defined before it, so that functions among them can be called.
    """
    return parse_stretch(text, 0, len(text.text), Place(diagnostics, bounds, frozenset(names)))


def expression(node: Node) -> Expression:
    """Compile a parsed expression, or the bindings and the result of a `compute` step."""
    return Expression(Outcome(node.span, node), MASHIN)


def compile_expression(text: str, *, name: str = "expression") -> Expression:
    """Compile the text of an expression, or raise a SourceError with every diagnostic."""
    diagnostics = Diagnostics(Source(name, text))
    node = parse_expression(Excerpt(text), diagnostics)
    if node is None:
        raise source_error(diagnostics.source, diagnostics.sorted())
    return expression(node)


_cached_expression = lru_cache(maxsize=256)(compile_expression)


def evaluate(text: str, scope: Names, *, clock: Clock | None = None, ids: Ids | None = None) -> Any:
    """Return the value of an expression with these variables.

    >>> evaluate("'Hello ${input.name ?? 'guest'}'", {"input": {"name": "Ada"}})
    'Hello Ada'
    """
    return _cached_expression(text).value(scope, ExpressionRun(clock=clock, ids=ids))


_LAYOUT = frozenset({"unclosed_quote", "unclosed_bracket"})


class Programs:
    """The expressions of a file, parsed when they are first asked for and cached by their place."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        """Note diagnostics with those of the file."""
        self.diagnostics = diagnostics
        self._nodes: dict[Span, Node | None] = {}
        # The reader of lines has reported an expression that never ends.
        self._broken = tuple(one.span.start for one in diagnostics.sorted() if one.code in _LAYOUT)

    def node(self, raw: Raw, names: Collection[str] = ()) -> Node | None:
        """Return the node of an expression, or None if it has errors; `names` are defined before it by `let`."""
        if raw.span not in self._nodes:
            broken = bisect_left(self._broken, raw.span.start) < bisect_left(self._broken, raw.span.end)
            self._nodes[raw.span] = None if broken else parse_expression(raw.excerpt, self.diagnostics, names=names)
        return self._nodes[raw.span]

    def expressions(self) -> dict[Span, Expression]:
        """Compile everything that was parsed without errors."""
        return {span: expression(node) for span, node in self._nodes.items() if node is not None}

    def body(self, step: Compute) -> Node | None:
        """Return the node of a `compute` step, bindings and result together; None if a part of it has errors."""
        bindings: list[tuple[str, Node]] = []
        for let in step.lets:
            value = self.node(let.value, [name for name, _ in bindings])
            if value is None:
                return None
            bindings.append((let.name.text, value))
        result = self.node(step.result, [name for name, _ in bindings]) if step.result else None
        return nodes.Block(step.span, tuple(bindings), result) if result and bindings else result
