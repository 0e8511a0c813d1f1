"""The tree of an expression in, its raw value out: the library's evaluator with a limit on everything it does.

The library counts nothing while it runs, and leaves the last evaluator behind for whoever comes next in the thread.
Here each evaluation is one of its own, which counts its depth, its work and its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any, cast

from memoranda.lang.expression.dialect import Run
from memoranda.lang.expression.patterns import compile_pattern
from memoranda.model.clock import to_micros
from memoranda.workflow.functions import FRAME, text_of
from memoranda.workflow.library import NULL, Functions, JException, Jsonata, Utils
from memoranda.workflow.limits import Bounds, Stop
from memoranda.workflow.paths import NOT_DIRECT, direct_path, follow

_GLANCE = 64
"""Operators between two looks at the clock."""
_MAKERS = frozenset({"unary", "function", "apply"})
"""Kinds of nodes that put values together to a new one."""
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
    """Return the pattern of a regular expression, compiled so that it always ends."""
    return compile_pattern(pattern, ("i" if flags.case_insensitive else "") + ("m" if flags.multiline else ""))


class Evaluation(Jsonata):
    """One evaluation: the library's evaluator with a limit on everything, and without its traces between threads."""

    def __init__(self, variables: Mapping[str, Any], bounds: Bounds, run: Run) -> None:
        """Begin with nothing used."""
        # The library's own would parse a text, and leave itself behind as the evaluator of this thread.
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
        """Return the value of a tree as the library has it; None where there is none."""
        # What the thread had before comes back: others in the process may use the library too.
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
        """The moment of this evaluation, drawn when it is first asked for."""
        if self._millis is None:
            self._millis = int(self.run.draw("now", lambda: to_micros(self.run.clock.now()) // 1000))
        return self._millis

    # the library's evaluator, bounded

    def eval(self, expr: Any, input: Any, environment: Any) -> Any:
        """Return the raw value of a node; every other method comes back here for its parts."""
        self._until_look -= 1
        if self._until_look <= 0:
            self._look()
        self._depth += 1
        if self._depth > self.bounds.depth:
            raise Stop("the depth of the expression's calls", self.bounds.depth)
        try:
            result = self._value(expr, input, environment)
        except JException as fault:
            # The innermost node is where it happened; the library's own places are often those of an argument.
            if not hasattr(fault, "placed"):
                fault.location, fault.placed = expr.position, True
            raise
        # After a fault nothing goes on, so the depth is only counted back here.
        self._depth -= 1
        if result is None:
            return None
        if isinstance(result, str):
            if len(result) > self.bounds.text:
                raise Stop("the text that an expression made", self.bounds.text)
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
        """Follow a path; one that only names fields of a variable needs no evaluation of its steps."""
        known: tuple[str, ...] | None = expr.__dict__.get("direct", ())
        if known == ():
            # Kept with the tree, which belongs to one program; whichever thread comes first writes the same.
            known = expr.direct = direct_path(expr)
        if known is not None:
            found = follow(environment.lookup(known[0]), known[1:])
            if found is not NOT_DIRECT:
                return found
        return Jsonata.evaluate_path(self, expr, input, environment)

    def _sequence(self, expr: Any, result: Any) -> Any:
        """Return a list as JSONata gives it: a sequence of one is its item, an empty one is nothing."""
        if len(result) > self.bounds.items:
            raise Stop("the list that an expression made", self.bounds.items)
        self._used += len(result)
        if not Utils.is_sequence(result) or result.tuple_stream:
            return result
        if expr.keep_array:
            result.keep_singleton = True
        if not result:
            return None
        return result if len(result) > 1 or result.keep_singleton else result[0]

    def _look(self) -> None:
        """Count what was done since the last look, and stop where it is too much or has taken too long."""
        self._used += _GLANCE
        self._until_look = _GLANCE
        if self._used > self.bounds.work:
            raise Stop("the work of the expression", self.bounds.work)
        if perf_counter() > self._deadline:
            raise Stop("time", self.bounds.seconds)

    def _weigh(self, value: Any) -> int:
        """Return how many values there are in a value, those counted twice that stand in it twice.

        A list of two that holds the same list twice, forty times over, is small to keep and endless to go through.
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
                raise Stop("the value that an expression made", self.bounds.items)
        # With the value itself, so that its id stays its own.
        self._weights[id(cast("Any", value))] = (value, weight)
        return weight

    def apply_inner(self, proc: Any, args: Any, input: Any, environment: Any) -> Any:
        """Call a function; what is none is refused here, before the library prints it."""
        if not self.is_function_like(proc):
            raise JException("T1006", -1)
        if not Functions.is_lambda(proc):
            for arg in args:
                self._weigh(arg)
        return Jsonata.apply_inner(self, proc, args, input, environment)

    def evaluate_binary(self, expr: Any, input: Any, environment: Any) -> Any:
        """Compute with two values; the library hides what goes wrong behind `and` and `or`."""
        if expr.value not in ("and", "or"):
            return Jsonata.evaluate_binary(self, expr, input, environment)
        left = Jsonata.boolize(self.eval(expr.lhs, input, environment))
        if left == (expr.value == "or"):
            return left
        return Jsonata.boolize(self.eval(expr.rhs, input, environment))

    def evaluate_numeric_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """Compute with two numbers; the library cuts the fraction off a remainder."""
        if op == "%" and Utils.is_numeric(lhs) and Utils.is_numeric(rhs):
            left, right = float(lhs), float(rhs)
            rest = abs(left) % abs(right)
            return Utils.convert_number(-rest if left < 0 else rest)
        return Jsonata.evaluate_numeric_expression(self, lhs, rhs, op)

    def evaluate_equality_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """Compare two values, neither of which may be endless."""
        self._weigh(lhs)
        self._weigh(rhs)
        return Jsonata.evaluate_equality_expression(self, lhs, rhs, op)

    def evaluate_includes_expression(self, lhs: Any, rhs: Any) -> Any:
        """Look for a value in a list; unlike in Python, true is not one."""
        self._weigh(lhs)
        self._weigh(rhs)
        if lhs is None or rhs is None:
            return False
        items = cast("list[Any]", rhs) if isinstance(rhs, list) else [rhs]
        return any(Utils.is_deep_equal(item, lhs) for item in items)

    def evaluate_string_concat(self, lhs: Any, rhs: Any) -> str:
        """Put two values together as text."""
        return (text_of(lhs) or "") + (text_of(rhs) or "")

    def evaluate_range_expression(self, lhs: Any, rhs: Any) -> Any:
        """Return whole numbers from one to another; the library's list of them is empty to all but its own methods."""
        made = Jsonata.evaluate_range_expression(self, lhs, rhs)
        if made is None:
            return None
        if len(made) > self.bounds.items:
            raise Stop("the list that an expression made", self.bounds.items)
        return list(range(int(lhs), int(rhs) + 1))

    def evaluate_group_expression(self, expr: Any, input: Any, environment: Any) -> Any:
        """Put an object together; the library writes into a list that is empty, which may be a variable's."""
        if isinstance(input, list) and not input:
            input = None
        return Jsonata.evaluate_group_expression(self, expr, input, environment)
