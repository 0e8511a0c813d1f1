"""Compile and evaluate JSONata expressions, as a thin layer over the `jsonata-python` library.

A program is evaluated over variables (`$input`, `$context`, …); in a workflow it has no input document. The result is
plain JSON, or `UNDEFINED` for a path that leads nowhere. Time, randomness and ids come from the run, so that a replay
gives the same result, and no expression can reach a file, a socket or a Python object.

The library counts nothing while it runs, and leaves its last evaluator behind in the thread. Here each evaluation is an
object of its own that counts its depth, work and time. Two common shapes are recognised before evaluating: a plain path
(`$name.field.field`), and a loop that only appends to its `$accumulator`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from math import floor, fmod, inf, isfinite
from time import perf_counter
from typing import Any, Final, Literal, cast

import msgspec

from memoranda.errors import EvaluationFailed, MemorandaError, SourceError, UsageError
from memoranda.lang.diagnostics import unclosed_quote_message
from memoranda.lang.expression.dialect import ExpressionRun, exceeded
from memoranda.model.clock import to_micros
from memoranda.model.text import quote
from memoranda.workflow.jsonata_functions import (
    DEFAULT_BOUNDS,
    FRAME,
    GLANCE,
    REFUSED,
    Bounds,
    LimitReached,
    Signature,
    deep_copy,
    is_function,
    merge_sort,
    text_of,
)
from memoranda.workflow.jsonata_library import NULL, Functions, JException, Jsonata, Utils
from memoranda.workflow.jsonata_numbers import is_exact, is_number, number
from memoranda.workflow.jsonata_syntax import Reads, append_operand, direct_path, parser, reads_of


class Undefined(Enum):
    """The type of `UNDEFINED`."""

    UNDEFINED = "undefined"

    def __bool__(self) -> Literal[False]:
        """Return False: in a condition, undefined is false."""
        return False

    def __repr__(self) -> str:
        """Return its name."""
        return "UNDEFINED"


UNDEFINED: Final = Undefined.UNDEFINED
"""The result of an expression that finds nothing; unlike null, it is not a value."""

NOT_DIRECT: Any = object()
"""The result of `follow` if a list is on the path: the library maps over its items."""


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


def _with_nulls(value: Any) -> Any:
    """Return a value with the library's null in place of None, which means a missing value to it."""
    if isinstance(value, dict):
        return {key: _with_nulls(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_with_nulls(item) for item in cast("list[Any]", value)]
    return NULL if value is None else value


def _nulls_at(value: Any, fields: list[str]) -> Any:
    """Return a variable with the library's nulls below a path of fields, where the expression reads it."""
    if fields and isinstance(value, dict) and fields[0] in value:
        entries = cast("dict[str, Any]", value)
        before = entries[fields[0]]
        found = _nulls_at(before, fields[1:])
        return entries if found is before else entries | {fields[0]: found}
    if not isinstance(value, dict | list):
        return NULL if value is None else value
    try:
        # Encoding is many times faster than walking through the value, and most values contain no null.
        has_null = b"null" in msgspec.json.encode(cast("Any", value))
    except (TypeError, UnicodeEncodeError, RecursionError):
        has_null = True
    return _with_nulls(value) if has_null else cast("Any", value)


class Evaluation(Jsonata):
    """One evaluation: the library's evaluator with limits, and without state that is left behind in the thread."""

    def __init__(
        self, variables: Mapping[str, Any], bounds: Bounds, run: ExpressionRun, document: Any = UNDEFINED
    ) -> None:
        """Bind the variables and the input document, and start the clock."""
        # No `super().__init__`: it would parse a text, and make itself the evaluator of this thread.
        self.bounds = bounds
        self.run = run
        self.parser = parser()
        self.environment = Jsonata.Frame(FRAME)
        self.environment.bindings.update({name: NULL if value is None else value for name, value in variables.items()})
        self.document = document
        self._deadline = perf_counter() + bounds.seconds
        self._depth = 0
        self._used = 0
        self._until_look = GLANCE
        self._weights: dict[int, tuple[Any, int]] = {}
        self._millis: int | None = None

    def raw(self, tree: Any, paths: Iterable[tuple[str, ...]]) -> Any:
        """Return the value of a tree that reads these paths, in the library's form; None if there is none."""
        self._bind_nulls(paths)
        document = None if self.document is UNDEFINED else _with_nulls(self.document)
        self.environment.bindings["$"] = document
        if isinstance(document, list):
            # The language takes a list as one document, not as a sequence of them.
            document = Utils.create_sequence(document)
            document.outer_wrapper = True
        # The thread's state is restored: other code in the process may use the library too.
        here: dict[str, Any] = Jsonata.CURRENT.__dict__
        before = dict(here)
        Jsonata.CURRENT.jsonata = self
        try:
            return self.eval(tree, document, self.environment)
        finally:
            here.clear()
            here.update(before)

    def _bind_nulls(self, paths: Iterable[tuple[str, ...]]) -> None:
        bindings = self.environment.bindings
        for name, *fields in paths:
            if name in bindings:
                bindings[name] = _nulls_at(bindings[name], fields)

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
            self.check_limits()
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
            found = follow(environment.lookup(known[0]) if known[0] else input, known[1:])
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

    def check_limits(self) -> None:
        """Count the work since the last check, and stop if it is too much or has taken too long."""
        self._used += GLANCE
        self._until_look = GLANCE
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
        operator = expr.value
        if operator not in ("and", "or", "?:", "??"):
            return Jsonata.evaluate_binary(self, expr, input, environment)
        left = self.eval(expr.lhs, input, environment)
        if operator == "??":
            return self.eval(expr.rhs, input, environment) if left is None else left
        is_true = Jsonata.boolize(left)
        if operator == "?:":
            return left if is_true else self.eval(expr.rhs, input, environment)
        if is_true == (operator == "or"):
            return is_true
        return Jsonata.boolize(self.eval(expr.rhs, input, environment))

    def evaluate_unary(self, expr: Any, input: Any, environment: Any) -> Any:
        """Evaluate a prefix operator; the library would negate through a float."""
        if expr.value != "-":
            return Jsonata.evaluate_unary(self, expr, input, environment)
        value = self.eval(expr.expression, input, environment)
        if value is not None and not is_number(value):
            raise JException("D1002", -1, "-", value)
        return None if value is None else number(-value)

    def evaluate_numeric_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """Evaluate an arithmetic operator: exactly for integers, which the library would convert to floats."""
        for value, code in ((lhs, "T2001"), (rhs, "T2002")):
            if value is not None and not is_number(value):
                raise JException(code, -1, op, value)
        if lhs is None or rhs is None:
            return None
        if op == "+":
            return number(lhs + rhs)
        if op == "-":
            return number(lhs - rhs)
        if op == "*":
            return number(lhs * rhs)
        if not rhs:
            raise JException("D1001", -1, "division by zero")
        if op == "/":
            return number(lhs // rhs if isinstance(lhs, int) and isinstance(rhs, int) and not lhs % rhs else lhs / rhs)
        if isinstance(lhs, int) and isinstance(rhs, int):
            return abs(lhs) % abs(rhs) * (-1 if lhs < 0 else 1)
        return number(fmod(lhs, rhs))

    def evaluate_equality_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """Compare two values of limited size."""
        self._weigh(lhs)
        self._weigh(rhs)
        if lhs is None or rhs is None:
            return False
        return Utils.is_deep_equal(lhs, rhs) == (op == "=")

    def evaluate_comparison_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """Compare two numbers or texts; the library would compare an integer with a float as floats."""
        if not (is_number(lhs) and is_number(rhs)):
            return Jsonata.evaluate_comparison_expression(self, lhs, rhs, op)
        if op in ("<", "<="):
            return lhs < rhs or (op == "<=" and lhs == rhs)
        return lhs > rhs or (op == ">=" and lhs == rhs)

    def evaluate_filter(self, predicate: Any, input: Any, environment: Any) -> Any:
        """Select items by a condition or by positions; the library would round negative positions up."""
        results = Utils.create_sequence()
        items = _items(input)
        is_stream = results.tuple_stream = getattr(input, "tuple_stream", False)
        if predicate.type == "number":
            at = floor(predicate.value)
            item = items[at] if -len(items) <= at < len(items) else None
            if isinstance(item, list):
                return cast("Any", item)
            return results if item is None else Utils.create_sequence(item)
        for index, item in enumerate(items):
            within = self.create_frame_from_tuple(environment, item) if is_stream else environment
            found = self.eval(predicate, item["@"] if is_stream else item, within)
            positions = cast("list[Any]", found) if isinstance(found, list) else [found]
            if all(is_number(position) for position in positions):
                chosen = [floor(position) for position in positions]
                results.extend(item for at in chosen if at == index or at + len(items) == index)
            elif Jsonata.boolize(found):
                results.append(item)
        return results

    def evaluate_sort_expression(self, expr: Any, input: Any, environment: Any) -> Any:
        """Sort by the terms of an order-by operator."""
        if len(input) < 2:
            return input
        compare = Jsonata.ComparatorWrapper(self, expr, environment, getattr(input, "tuple_stream", False)).compare
        made = Utils.JList(merge_sort(input, lambda one, other: compare(one, other) > 0))
        made.tuple_stream = getattr(input, "tuple_stream", False)
        return made

    def evaluate_transform_expression(self, expr: Any, input: Any, environment: Any) -> Any:
        """Return the function of a transform operator."""
        return Transform(self, expr, environment)

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
        for value, code in ((lhs, "T2003"), (rhs, "T2004")):
            if value is not None and not (is_number(value) and value == value // 1):
                raise JException(code, -1, value)
        if lhs is None or rhs is None or lhs > rhs:
            return None
        if rhs - lhs >= self.bounds.items:
            raise LimitReached("the list that an expression made", self.bounds.items)
        return list(range(int(lhs), int(rhs) + 1))

    def evaluate_group_expression(self, expr: Any, input: Any, environment: Any) -> Any:
        """Build an object; the library would write into an empty list, which may belong to a variable."""
        if isinstance(input, list) and not input:
            input = None
        return Jsonata.evaluate_group_expression(self, expr, input, environment)


class Transform(Jsonata.JFunction):
    """The function of a transform operator; the library's would copy through JSON, with fifteen digits of a number."""

    def __init__(self, evaluation: Evaluation, expr: Any, environment: Any) -> None:
        """Keep what the operator is evaluated with."""
        Jsonata.JFunction.__init__(self, None, None)
        self.signature = Signature("<(oa):o>", "transform")
        self._evaluation = evaluation
        self._expr = expr
        self._environment = environment

    def call(self, input: Any, args: Any) -> Any:
        """Return a copy of the first argument with the changes applied."""
        if args[0] is None:
            return None
        copied = deep_copy(args[0])
        for match in _items(self._evaluation.eval(self._expr.pattern, copied, self._environment)):
            self._change(match)
        return copied

    def _change(self, match: Any) -> None:
        update = self._evaluation.eval(self._expr.update, match, self._environment)
        if update is not None and not isinstance(update, dict):
            raise JException("T2011", -1, update)
        if isinstance(match, dict) and update:
            cast("dict[str, Any]", match).update(cast("dict[str, Any]", update))
        elif update and not isinstance(match, list):
            raise JException("T2011", -1, match)
        if self._expr.delete is None:
            return
        names = _items(self._evaluation.eval(self._expr.delete, match, self._environment))
        if not all(isinstance(name, str) for name in names):
            raise JException("T2012", -1, names)
        for name in names if isinstance(match, dict) else ():
            cast("dict[str, Any]", match).pop(name, None)


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


# programs


_LEAKS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Python errors that the library lets through for impossible requests: `1/0`, `$number('x')`."""
_NO_END = "S0101"
"""The library's error code for a string without its closing quote."""
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*+('?)|"(?:\\.|[^"\\])*+("?)""", re.DOTALL)
_LONGEST = 200
_SPLIT = "Compute a part of it in a task of its own"
_NAME = f"${string.ascii_letters}{string.digits}_"


class Program:
    """A compiled expression; it has no state of a run, so threads can share it."""

    __slots__ = ("_direct", "_paths", "_tree", "reads", "text")

    def __init__(self, text: str, tree: Any, reads: Reads) -> None:
        """Wrap the syntax tree of an expression."""
        self.text = text
        self.reads = reads.outside
        self._tree = tree
        self._direct = direct_path(tree)
        self._paths = reads.paths

    def adding_to(self, variable: str) -> Program | None:
        """Return the program of the added part if all this one does is append to a list variable; else None."""
        part = append_operand(self._tree, variable)
        return None if part is None else Program(self.text, part, reads_of(part))

    def evaluate(
        self,
        variables: Mapping[str, Any],
        *,
        document: Any = UNDEFINED,
        bounds: Bounds = DEFAULT_BOUNDS,
        run: ExpressionRun | None = None,
    ) -> Any | Undefined:
        """Return the value for these variables, named without the dollar sign; `UNDEFINED` if there is none.

        Fields that follow no variable, and `$`, are those of `document`. Raises an EvaluationFailed whose `.start` and
        `.end` are the place in the text, or a LimitExceeded.
        """
        direct = self._direct
        if direct is not None and direct[0] in variables:
            found = follow(variables[direct[0]], direct[1:])
            if found is not NOT_DIRECT:
                return _plain(found, bounds)
        evaluation = Evaluation(variables, bounds, run or ExpressionRun(), document)
        return _evaluate_tree(self._tree, self._paths, self.text, evaluation)


def compile(text: str, *, bounds: Bounds = DEFAULT_BOUNDS) -> Program:
    """Compile an expression, cached by its text; raise a SourceError for invalid JSONata."""
    if len(text) > bounds.source:
        message = f"the expression has {len(text):,} characters, the limit is {bounds.source:,}"
        raise _invalid(message, 0, 1, hint=_SPLIT)
    return _compile(text, bounds.depth)


def evaluate(
    text: str, variables: Mapping[str, Any] | None = None, *, run: ExpressionRun | None = None
) -> Any | Undefined:
    """Return the value of an expression, written without its `=`, for these variables.

    >>> evaluate("$sum($input.prices)", {"input": {"prices": [2, 3]}})
    5
    >>> evaluate("$input.name")
    UNDEFINED
    """
    return compile(text).evaluate(variables or {}, run=run)


@lru_cache(maxsize=2048)
def _compile(text: str, depth: int) -> Program:
    try:
        tree = parser().parse(text)
    except JException as fault:
        opened = _open_quote(text) if fault.error == _NO_END else None
        if opened is None:
            raise _invalid(f"the expression is not valid JSONata: {_words(fault)}", *_place(fault, text)) from None
        hint = f"End the text with {text[opened]}"
        raise _invalid(unclosed_quote_message(text[opened:]), opened, opened + 1, hint=hint, unclosed=True) from None
    except RecursionError:
        raise _too_deep(depth) from None
    except UsageError as fault:
        raise _invalid(fault.message, 0, len(text), hint=fault.hint) from None
    except _LEAKS:
        # The tokenizer has no error of its own for a lone `!` or an unterminated comment.
        raise _invalid("the expression is not valid JSONata", 0, len(text)) from None
    try:
        reads = reads_of(tree)
    except RecursionError:
        raise _too_deep(depth) from None
    if reads.height > depth:
        raise _too_deep(depth)
    return Program(text, tree, reads)


def _too_deep(depth: int) -> SourceError:
    return _invalid(f"the expression is nested more than {depth} levels deep", 0, 1, hint=_SPLIT)


def _invalid(message: str, start: int, end: int, *, hint: str = "", unclosed: bool = False) -> SourceError:
    return SourceError(message, hint=hint, start=start, end=end, unclosed=unclosed, diagnostics=(), report=message)


def _open_quote(text: str) -> int | None:
    """Return the position of the quote that is never closed."""
    return next((found.start() for found in _QUOTED.finditer(text) if not (found[1] or found[2])), None)


def _place(fault: Any, text: str) -> tuple[int, int]:
    """Return the span of a fault; the library gives the end of a token, and often the token."""
    end = min(max(int(fault.location or 0), 0), len(text))
    for token in (fault.expected, fault.current):
        written = token if isinstance(token, str) else ""
        for shown in (written, f"${written}"):
            if shown and text[:end].endswith(shown):
                return end - len(shown), end
    if text[:end].endswith("("):
        return len(text[: end - 1].rstrip(_NAME)), end - 1
    # Something missing at the end is marked at the last character before it, which is on the same line.
    end = min(end, len(text.rstrip()))
    return max(end - 1, 0), max(end, 1)


def _words(fault: Any) -> str:
    """Return the message of a fault, as part of a sentence."""
    # The library was translated from Java, which calls functions by another name.
    said = _cut(str(fault).strip()).replace("(end)", "the end").replace("Object", "function")
    return said[:1].lower() + said[1:] if said[1:2].islower() else said


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _evaluate_tree(tree: Any, paths: Iterable[tuple[str, ...]], text: str, evaluation: Evaluation) -> Any | Undefined:
    """Return the value of a tree as plain JSON; raise the library's errors as ours."""
    bounds = evaluation.bounds
    try:
        return _plain(evaluation.raw(tree, paths), bounds)
    except LimitReached as stop:
        raise stop.refusal() from None
    except JException as fault:
        start, end = _place(fault, text)
        message = f"the expression has no value: {_words(fault)}"
        raise EvaluationFailed(message, hint=_hint(fault), span=None, start=start, end=end) from None
    except RecursionError:
        raise exceeded("the depth of the expression's calls", bounds.depth) from None
    except MemorandaError:
        raise
    except _LEAKS as leak:
        message = f"the expression has no value: {_cut(str(leak)) or type(leak).__name__}"
        raise EvaluationFailed(message, span=None, start=0, end=len(text)) from leak


def _hint(fault: Any) -> str:
    name = fault.current if isinstance(fault.current, str) else ""
    if fault.error == "T1006" and name in REFUSED:
        return "Only expressions in the file are evaluated, never the contents of a value"
    return ""


# --- results -------------------------------------------------------------------------------------------------------


class _Size(msgspec.Struct):
    """How much of the limits is left while a result is copied."""

    bounds: Bounds
    values: int
    characters: int


def _plain(value: Any, bounds: Bounds) -> Any | Undefined:
    """Return a raw value as JSON that shares nothing with the variables, or UNDEFINED."""
    if value is None:
        return UNDEFINED
    size = _Size(bounds, bounds.items, bounds.text)
    try:
        made = _copy(value, size)
    except LimitReached as stop:
        raise stop.refusal() from None
    except RecursionError:
        raise exceeded("the depth of a value", bounds.depth) from None
    if made is UNDEFINED:
        message = "the expression gives a function, which is not a JSON value"
        raise EvaluationFailed(message, hint="Call it: `$name(…)`", span=None, start=0, end=1)
    return made


def _copy(value: Any, size: _Size) -> Any:
    size.values -= 1
    if size.values < 0:
        raise LimitReached("the result of an expression", size.bounds.items)
    if value is None or value is NULL:
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _count_text(value, size)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        made = {_count_text(key, size): _copy(item, size) for key, item in entries.items()}
        return {key: item for key, item in made.items() if item is not UNDEFINED}
    if isinstance(value, list):
        return [made for item in cast("list[Any]", value) if (made := _copy(item, size)) is not UNDEFINED]
    if is_function(value):
        return UNDEFINED
    raise EvaluationFailed(f"{quote(value)} is not a JSON value", span=None, start=0, end=1)


def _number(value: float) -> float:
    if isinstance(value, int) and is_exact(value):
        return value
    try:
        made = float(value)
    except OverflowError:
        made = inf
    if not isfinite(made):
        raise EvaluationFailed(f"`{made}` is not a JSON number", span=None, start=0, end=1)
    return made


def _count_text(text: str, size: _Size) -> str:
    size.characters -= len(text)
    if size.characters < 0:
        raise LimitReached("the text of a result", size.bounds.text)
    return text
