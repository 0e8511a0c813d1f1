"""mashin's nodes in, closures out: what names, fields, calls and methods mean, and what all of it may cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from memoranda.errors import EvaluationFailed
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.expression.bounds import exceeded
from memoranda.lang.expression.compiler import MISSING, Layer
from memoranda.lang.expression.dialect import Closure, Compilation, Dialect, Names, Run
from memoranda.lang.expression.faults import failed, located
from memoranda.lang.expression.functional import FUNCTIONAL, Arrow
from memoranda.lang.expression.nodes import (
    HELD,
    Binary,
    Call,
    Index,
    Logical,
    Member,
    Method,
    Name,
    Node,
    Unary,
    path_of,
)
from memoranda.lang.template import WITH_TEMPLATES
from memoranda.mashin.expression.methods import METHODS
from memoranda.mashin.expression.namespaces import FUNCTIONS, GLOBALS
from memoranda.mashin.expression.semantics import BINARY, UNARY, index, member, shown, shown_kind, truthy
from memoranda.model.text import quote

STEPS, INPUT = "steps", "input"
_ROOTS = (STEPS, INPUT)
_ITEMS_A_ROUND = 64
_CHARACTERS_A_ROUND = 1024
"""How much of a list and of a text costs as much as one round of a loop."""
_DEEPEST = 64
_SHOWN_NAMES = 8


class Outcome(Node, frozen=True):
    """A whole program: its value must be one that can be kept."""

    value: Node


def _charge(value: Any, run: Run) -> Any:
    """Count the work that a text or list stands for, and return it."""
    if type(value) is str:
        if len(value) >= _CHARACTERS_A_ROUND:
            run.step(len(value) // _CHARACTERS_A_ROUND)
    elif type(value) is list or type(value) is dict:
        size = len(cast("list[Any]", value))
        if size >= _ITEMS_A_ROUND:
            run.step(size // _ITEMS_A_ROUND)
    return cast("Any", value)


def _made(value: Any, run: Run) -> Any:
    """Return what an operator or function made, or refuse it as too large."""
    if type(value) is str:
        if len(value) > run.bounds.text:
            raise exceeded("the text that an expression made", run.bounds.text, len(value))
    elif (type(value) is list or type(value) is dict) and len(cast("list[Any]", value)) > run.bounds.items:
        raise exceeded("a list or map", run.bounds.items, len(cast("list[Any]", value)))
    return _charge(value, run)


# Names and fields


def _name(node: Name, to: Compilation) -> Closure:
    name, span, root = node.name, node.span, node.name in _ROOTS

    def read(names: Names, run: Run) -> Any:
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
            raise located(_undefined(name, names), span)
        return value

    return read


def _undefined(name: str, names: Names) -> EvaluationFailed:
    known = dict.fromkeys(_known_names(names))
    listed = ", ".join(quote(each) for each in list(known)[:_SHOWN_NAMES])
    otherwise = f"Known here: {listed}" if known else "There are no names here"
    return failed(f"the name {quote(name)} is not defined", did_you_mean(name, (*known, *GLOBALS), otherwise=otherwise))


def _known_names(names: Names) -> Iterator[str]:
    while type(names) is Layer:
        yield from (name for name in names.inner if name != HELD)
        names = names.outer
    for inside in (names.get(STEPS), names.get(INPUT), names):
        if isinstance(inside, dict):
            yield from cast("dict[str, Any]", inside)


def _shown_path(node: Node) -> str:
    path = path_of(node)
    return quote(".".join(path)) if path and path[0] != HELD else "the value before it"


def _member(node: Member, to: Compilation) -> Closure:
    of, name, span, shown_of = to.compile(node.of), node.name, node.span, _shown_path(node.of)

    def read(names: Names, run: Run) -> Any:
        value = of(names, run)
        if type(value) is dict:
            return cast("dict[str, Any]", value).get(name)
        if value is None:
            hint = "Write `?.` where a value may be missing"
            raise located(failed(f"{shown_of} is null, so it has no field {quote(name)}", hint), span)
        return member(value, name)

    return read


def _index(node: Index, to: Compilation) -> Closure:
    of, at, span = to.compile(node.of), to.compile(node.at), node.span

    def read(names: Names, run: Run) -> Any:
        try:
            return index(of(names, run), at(names, run))
        except EvaluationFailed as fault:
            raise located(fault, span) from None

    return read


# Operators


def _unary(node: Unary, to: Compilation) -> Closure:
    operate, operand, span = to.dialect.unary[node.operator], to.compile(node.operand), node.span

    def compute(names: Names, run: Run) -> Any:
        try:
            return operate(operand(names, run))
        except EvaluationFailed as fault:
            raise located(fault, span) from None

    return compute


def _binary(node: Binary, to: Compilation) -> Closure:
    operate, span = to.dialect.binary[node.operator], node.span
    left, right = to.compile(node.left), to.compile(node.right)
    costly = node.operator in ("==", "!=", "in", "+")

    def compute(names: Names, run: Run) -> Any:
        one, two = left(names, run), right(names, run)
        if costly:
            _charge(one, run)
            _charge(two, run)
        try:
            result = operate(one, two)
        except EvaluationFailed as fault:
            raise located(fault, span) from None
        return _made(result, run) if costly else result

    return compute


def _logical(node: Logical, to: Compilation) -> Closure:
    *first, last = (to.compile(operand) for operand in node.operands)
    stop = node.operator == "or"

    def decide(names: Names, run: Run) -> Any:
        for operand in first:
            value = operand(names, run)
            if truthy(value) is stop:
                return value
        return last(names, run)

    return decide


# Calls


def _call(node: Call, to: Compilation) -> Closure:
    function, span = to.dialect.functions[node.function], node.span
    arguments = tuple(to.compile(argument) for argument in node.arguments)
    call, uses_run = function.call, function.uses_run

    def run_call(names: Names, run: Run) -> Any:
        values = [_charge(argument(names, run), run) for argument in arguments]
        try:
            return _made(call(run, *values) if uses_run else call(*values), run)
        except EvaluationFailed as fault:
            raise located(fault, span) from None

    return run_call


def _method(node: Method, to: Compilation) -> Closure:
    of, name, span = to.compile(node.of), node.name, node.span
    kinds, shown_of = METHODS[node.name].on, _shown_path(node.of)
    arguments = tuple(to.compile(argument) for argument in node.arguments)

    def run_method(names: Names, run: Run) -> Any:
        value = of(names, run)
        call = kinds.get(cast("type[Any]", type(value)))
        if call is None:
            raise located(_no_method(value, name, shown_of), span)
        _charge(value, run)
        values = [argument(names, run) for argument in arguments]
        try:
            return _made(call(run, value, *values), run)
        except EvaluationFailed as fault:
            raise located(fault, span) from None

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
        return failed(f"{shown_of} is null, so it has no `{name}`", "Write `?.` where a value may be missing")
    having = " and ".join(dict.fromkeys(_PLURALS[kind] for kind in METHODS[name].on))
    return failed(f"`{name}` is a method of {having}, and {shown_of} is {shown_kind(value)}")


# The whole


_HOLDING = frozenset({list, dict, Arrow})
"""What may hold a function, or more than it seems to."""


def _outcome(node: Outcome, to: Compilation) -> Closure:
    value = to.compile(node.value)

    def compute(names: Names, run: Run) -> Any:
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


def _check_plain(result: Any, run: Run) -> None:
    """Refuse a result that holds a function, or that is small only because its parts are shared."""
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
                raise failed("a function cannot be kept as a value", "Call it, or leave it out of the result")
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
    Name: _name,
    Member: _member,
    Index: _index,
    Unary: _unary,
    Binary: _binary,
    Logical: _logical,
    Call: _call,
    Method: _method,
    Outcome: _outcome,
}

MASHIN = Dialect(
    truthy=truthy,
    word=shown,
    unary=UNARY,
    binary=BINARY,
    member=member,
    index=index,
    functions=FUNCTIONS,
    names={},
    compilers={**WITH_TEMPLATES, **FUNCTIONAL, **_OWN},
)
"""What mashin's expressions mean."""
