"""The library's JSONata evaluator, with a limit on everything it does.

The library counts nothing while it runs, and leaves its last evaluator behind in the thread. Here each evaluation is an
object of its own that counts its depth, work and time. Two common shapes are recognised before evaluating: a plain path
(`$name.field.field`), and a loop that only appends to its `$accumulator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any, cast

from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.lang.expression.patterns import compile_pattern
from memoranda.model.clock import to_micros
from memoranda.workflow.jsonata_functions import (
    FRAME,
    NULL,
    Bounds,
    Functions,
    JException,
    Jsonata,
    LimitReached,
    Utils,
    text_of,
)

NOT_DIRECT: Any = object()
"""The result of `follow` if a list is on the path: the library maps over its items."""


def direct_path(tree: Any) -> tuple[str, ...] | None:
    """Return the variable and the fields of a tree that is a plain path; None for any other tree."""
    steps = tree.steps if tree.type == "path" else [tree]
    first = steps[0]
    if first.type != "variable" or first.value in (None, "", "$"):
        return None
    if any(step.type != "name" for step in steps[1:]) or tree.keep_singleton_array:
        return None
    for step in (tree, *steps):
        parts = (step.predicate, step.stages, step.group, step.focus, step.index, step.ancestor, step.tuple)
        if step.keep_array or any(part is not None for part in parts):
            return None
    return tuple(str(step.value) for step in steps)


def append_operand(tree: Any, variable: str) -> Any | None:
    """Return the second part of `$append($variable, …)` and `[$variable, …]`; None for any other tree."""
    if any(part is not None for part in (tree.predicate, tree.stages, tree.group)) or tree.keep_array:
        return None
    if tree.type == "function" and (tree.procedure.type, tree.procedure.value) == ("variable", "append"):
        parts = tree.arguments
    elif tree.type == "unary" and tree.value == "[":
        parts = tree.expressions
    else:
        return None
    if len(parts) != 2 or direct_path(parts[0]) != (variable,):
        return None
    # A literal list inside a literal list is one item of it.
    return parts[1] if tree.type == "function" or parts[1].value != "[" else None


def follow(found: Any, fields: tuple[str, ...]) -> Any:
    """Return the value at the end of a path of fields; None if there is none, the library's null for null."""
    for field in fields:
        if type(found) is not dict:
            return NOT_DIRECT if isinstance(found, list) else None
        items = cast("dict[str, Any]", found)
        if field not in items:
            return None
        found = items[field]
    return NULL if found is None else found


_GLANCE = 64
"""Operators between two checks of the clock."""
_MAKERS = frozenset({"unary", "function", "apply"})
"""Types of nodes that build a new value."""
_PLAIN_KINDS = {
    "path": "evaluate_path",
    "binary": "evaluate_binary",
    "unary": "evaluate_unary",
    "name": "evaluate_name",
    "condition": "evaluate_condition",
    "block": "evaluate_block",
    "bind": "evaluate_bind_expression",
    "variable": "evaluate_variable",
    "lambda": "evaluate_lambda",
    "partial": "evaluate_partial_application",
    "apply": "evaluate_apply_expression",
    "transform": "evaluate_transform_expression",
}


def regex(pattern: str, flags: Any) -> Any:
    """Compile a regular expression with RE2, which runs in linear time."""
    return compile_pattern(pattern, ("i" if flags.case_insensitive else "") + ("m" if flags.multiline else ""))


class Evaluation(Jsonata):
    """One evaluation: the library's evaluator with limits, and without state that is left behind in the thread."""

    def __init__(self, variables: Mapping[str, Any], bounds: Bounds, run: ExpressionRun) -> None:
        """Bind the variables and start the clock."""
        # No `super().__init__`: it would parse a text, and make itself the evaluator of this thread.
        self.bounds = bounds
        self.run = run
        self.parser = Jsonata.get_parser()
        self.regex_engine = regex
        self.environment = Jsonata.Frame(FRAME)
        self.environment.bindings.update(
            {name: NULL if value is None else value for name, value in variables.items()} | {"$": {}}
        )
        self.input: Any = {}
        self._deadline = perf_counter() + bounds.seconds
        self._depth = 0
        self._used = 0
        self._until_look = _GLANCE
        self._weights: dict[int, tuple[Any, int]] = {}
        self._millis: int | None = None

    def raw(self, tree: Any) -> Any:
        """Return the value of a tree in the library's form; None if there is none."""
        # The thread's state is restored: other code in the process may use the library too.
        here: dict[str, Any] = Jsonata.CURRENT.__dict__
        before = dict(here)
        Jsonata.CURRENT.jsonata = self
        try:
            return self.eval(tree, self.input, self.environment)
        finally:
            here.clear()
            here.update(before)

    @property
    def millis(self) -> int:
        """The time of this evaluation, drawn from the run at its first use."""
        if self._millis is None:
            self._millis = int(self.run.draw("now", lambda: to_micros(self.run.clock.now()) // 1000))
        return self._millis

    # the library's evaluator, bounded

    def eval(self, expr: Any, input: Any, environment: Any) -> Any:
        """Return the raw value of a node; every other method calls this for its parts."""
        self._until_look -= 1
        if self._until_look <= 0:
            self._look()
        self._depth += 1
        if self._depth > self.bounds.depth:
            raise LimitReached("the depth of the expression's calls", self.bounds.depth)
        try:
            result = self._value(expr, input, environment)
        except JException as fault:
            # The innermost node is the place of the fault; the library's own is often that of an argument.
            if not hasattr(fault, "placed"):
                fault.location, fault.placed = expr.position, True
            raise
        # A fault ends the evaluation, so the depth is restored only here.
        self._depth -= 1
        if result is None:
            return None
        if isinstance(result, str):
            if len(result) > self.bounds.text:
                raise LimitReached("the text that an expression made", self.bounds.text)
            return result
        if expr.type in _MAKERS or expr.group is not None:
            self._used += self._weigh(result)
        if isinstance(result, list):
            return self._sequence(expr, result)
        return result

    def _value(self, expr: Any, input: Any, environment: Any) -> Any:
        kind = expr.type
        method = _PLAIN_KINDS.get(kind)
        if method is not None:
            result = getattr(self, method)(expr, input, environment)
        elif kind in ("string", "number", "value"):
            result = expr.value if expr.value is not None else NULL
        elif kind == "function":
            result = self.evaluate_function(expr, input, environment, Utils.NONE)
        elif kind == "regex":
            result = expr.value
        elif kind == "wildcard":
            self._weigh(input)
            result = self.evaluate_wildcard(expr, input)
        elif kind == "descendant":
            self._weigh(input)
            result = self.evaluate_descendants(expr, input)
        else:
            result = environment.lookup(expr.slot.label) if kind == "parent" else None
        for item in expr.predicate or ():
            result = self.evaluate_filter(item.expr, result, environment)
        if expr.group is not None and kind != "path":
            result = self.evaluate_group_expression(expr.group, result, environment)
        return result

    def evaluate_path(self, expr: Any, input: Any, environment: Any) -> Any:
        """Follow a path; a plain one needs no evaluation of its steps."""
        known: tuple[str, ...] | None = expr.__dict__.get("direct", ())
        if known == ():
            # Cached on the tree, which belongs to one program; every thread would write the same value.
            known = expr.direct = direct_path(expr)
        if known is not None:
            found = follow(environment.lookup(known[0]), known[1:])
            if found is not NOT_DIRECT:
                return found
        return Jsonata.evaluate_path(self, expr, input, environment)

    def _sequence(self, expr: Any, result: Any) -> Any:
        """Return a list as JSONata does: a sequence of one is its item, an empty one is nothing."""
        if len(result) > self.bounds.items:
            raise LimitReached("the list that an expression made", self.bounds.items)
        self._used += len(result)
        if not Utils.is_sequence(result) or result.tuple_stream:
            return result
        if expr.keep_array:
            result.keep_singleton = True
        if not result:
            return None
        return result if len(result) > 1 or result.keep_singleton else result[0]

    def _look(self) -> None:
        """Count the work since the last check, and stop if it is too much or has taken too long."""
        self._used += _GLANCE
        self._until_look = _GLANCE
        if self._used > self.bounds.work:
            raise LimitReached("the work of the expression", self.bounds.work)
        if perf_counter() > self._deadline:
            raise LimitReached("time", self.bounds.seconds)

    def _weigh(self, value: Any) -> int:
        """Return how many values a value contains, counting a shared one each time it occurs.

        A list that contains the same list twice, nested forty times, takes little memory and forever to traverse.
        """
        if not isinstance(value, list | dict):
            return 1
        known = self._weights.get(id(cast("Any", value)))
        if known is not None:
            return known[1]
        items = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        weight = 1
        for item in items:
            weight += self._weigh(item) if isinstance(item, list | dict) else 1
            if weight > self.bounds.items:
                raise LimitReached("the value that an expression made", self.bounds.items)
        # Keep the value as well: an id is unique only while its object lives.
        self._weights[id(cast("Any", value))] = (value, weight)
        return weight

    def apply_inner(self, proc: Any, args: Any, input: Any, environment: Any) -> Any:
        """Call a function; reject non-callables here, because the library would print them."""
        if not self.is_function_like(proc):
            raise JException("T1006", -1)
        if not Functions.is_lambda(proc):
            for arg in args:
                self._weigh(arg)
        return Jsonata.apply_inner(self, proc, args, input, environment)

    def evaluate_binary(self, expr: Any, input: Any, environment: Any) -> Any:
        """Evaluate a binary operator; for `and` and `or` the library would swallow errors."""
        if expr.value not in ("and", "or"):
            return Jsonata.evaluate_binary(self, expr, input, environment)
        left = Jsonata.boolize(self.eval(expr.lhs, input, environment))
        if left == (expr.value == "or"):
            return left
        return Jsonata.boolize(self.eval(expr.rhs, input, environment))

    def evaluate_numeric_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """Evaluate an arithmetic operator; the library would truncate the fraction of a remainder."""
        if op == "%" and Utils.is_numeric(lhs) and Utils.is_numeric(rhs):
            left, right = float(lhs), float(rhs)
            rest = abs(left) % abs(right)
            return Utils.convert_number(-rest if left < 0 else rest)
        return Jsonata.evaluate_numeric_expression(self, lhs, rhs, op)

    def evaluate_equality_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """Compare two values of limited size."""
        self._weigh(lhs)
        self._weigh(rhs)
        return Jsonata.evaluate_equality_expression(self, lhs, rhs, op)

    def evaluate_includes_expression(self, lhs: Any, rhs: Any) -> Any:
        """Look for a value in a list; unlike in Python, `true` is not equal to 1."""
        self._weigh(lhs)
        self._weigh(rhs)
        if lhs is None or rhs is None:
            return False
        items = cast("list[Any]", rhs) if isinstance(rhs, list) else [rhs]
        return any(Utils.is_deep_equal(item, lhs) for item in items)

    def evaluate_string_concat(self, lhs: Any, rhs: Any) -> str:
        """Concatenate two values as text."""
        return (text_of(lhs) or "") + (text_of(rhs) or "")

    def evaluate_range_expression(self, lhs: Any, rhs: Any) -> Any:
        """Return a range of integers as a real list; the library's is lazy and looks empty to other code."""
        made = Jsonata.evaluate_range_expression(self, lhs, rhs)
        if made is None:
            return None
        if len(made) > self.bounds.items:
            raise LimitReached("the list that an expression made", self.bounds.items)
        return list(range(int(lhs), int(rhs) + 1))

    def evaluate_group_expression(self, expr: Any, input: Any, environment: Any) -> Any:
        """Build an object; the library would write into an empty list, which may belong to a variable."""
        if isinstance(input, list) and not input:
            input = None
        return Jsonata.evaluate_group_expression(self, expr, input, environment)
