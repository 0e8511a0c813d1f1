"""Nodes of languages that have functions as values, names for values and choices in; closures out.

A language adds `FUNCTIONAL` to its compilers. What a name means and how a method is found stays with the language.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from memoranda.lang.expression.bounds import exceeded
from memoranda.lang.expression.compiler import Layer
from memoranda.lang.expression.dialect import Closure, Compilation, Names, Run
from memoranda.lang.expression.faults import failed, located
from memoranda.lang.expression.nodes import (
    HELD,
    Block,
    Conditional,
    Fallback,
    IfPresent,
    Invoke,
    Lambda,
    Name,
    Node,
    Pattern,
    measure,
)

_NODES_A_ROUND = 20
"""How many nodes of a function cost as much as one round of a loop."""


class Arrow:
    """A function of the program, as a value: it knows the variables of the place where it was written."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        """Keep what it does: a run and arguments in, a value out."""
        self.call = call


def _conditional(node: Conditional, to: Compilation) -> Closure:
    test, truthy = to.compile(node.test), to.dialect.truthy
    then, otherwise = to.compile(node.then), to.compile(node.otherwise)
    return lambda names, run: then(names, run) if truthy(test(names, run)) else otherwise(names, run)


def _fallback(node: Fallback, to: Compilation) -> Closure:
    value, otherwise = to.compile(node.value), to.compile(node.otherwise)

    def first_there(names: Names, run: Run) -> Any:
        found = value(names, run)
        return otherwise(names, run) if found is None else found

    return first_there


def _if_present(node: IfPresent, to: Compilation) -> Closure:
    of, then = to.compile(node.of), to.compile(node.then)

    def go_on(names: Names, run: Run) -> Any:
        value = of(names, run)
        return None if value is None else then(Layer({HELD: value}, names), run)

    return go_on


def _block(node: Block, to: Compilation) -> Closure:
    bindings = tuple((name, to.compile(value)) for name, value in node.bindings)
    result = to.compile(node.result)

    def compute(names: Names, run: Run) -> Any:
        own: dict[str, Any] = {}
        inside = Layer(own, names)
        for name, value in bindings:
            own[name] = value(inside, run)
        return result(inside, run)

    return compute


def _lambda(node: Lambda, to: Compilation) -> Closure:
    body = to.compile(node.body)
    binders = tuple(_binder(taken) for taken in node.parameters)
    cost = 1 + measure(node.body)[0] // _NODES_A_ROUND

    def make(names: Names, run: Run) -> Arrow:
        def call(run: Run, *arguments: Any) -> Any:
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


def _binder(taken: Pattern) -> Callable[[Any, dict[str, Any]], None]:
    names = taken.names
    if taken.kind == "whole":
        ((_, name),) = names
        return lambda value, own: own.__setitem__(name, value)
    if taken.kind == "items":

        def bind_items(value: Any, own: dict[str, Any]) -> None:
            if type(value) is not list:
                raise failed("a function takes a list apart, and was given something else")
            items = cast("list[Any]", value)
            own.update((name, items[at] if at < len(items) else None) for at, (_, name) in enumerate(names))

        return bind_items

    def bind_fields(value: Any, own: dict[str, Any]) -> None:
        if type(value) is not dict:
            raise failed("a function takes a map apart, and was given something else")
        fields = cast("dict[str, Any]", value)
        own.update((name, fields.get(field)) for field, name in names)

    return bind_fields


def _invoke(node: Invoke, to: Compilation) -> Closure:
    function = to.compile(node.function)
    arguments = tuple(to.compile(argument) for argument in node.arguments)
    shown = f"`{node.function.name}`" if isinstance(node.function, Name) else "this"

    def call(names: Names, run: Run) -> Any:
        called = function(names, run)
        if type(called) is not Arrow:
            raise located(failed(f"{shown} is not a function", "Only functions can be called"), node.span)
        return called.call(run, *[argument(names, run) for argument in arguments])

    return call


FUNCTIONAL: Mapping[type[Node], Callable[[Any, Compilation], Closure]] = {
    Conditional: _conditional,
    Fallback: _fallback,
    IfPresent: _if_present,
    Block: _block,
    Lambda: _lambda,
    Invoke: _invoke,
}
"""How these nodes are compiled."""
