"""The operators of mashin expressions.

There is one null. Operators do not coerce: except for `+`, which joins if one side is text, each raises
`EvaluationFailed` for operands of another type.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, TypeGuard, cast

from memoranda.lang.expression.compiler import Arrow
from memoranda.lang.expression.dialect import evaluation_error
from memoranda.lang.expression.values import LARGEST, settle, to_text

_BITS = 63
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)
"""More digits than any number needs."""
_SCALARS = frozenset({bool, int, float, str})


def truthy(value: Any) -> bool:
    """Return whether a value counts as true: everything but false, null, 0 and the empty text."""
    return bool(value) if value is None or type(value) in _SCALARS else True


def type_of(value: Any) -> str:
    """Return the `typeof` a value."""
    if value is None:
        return "null"
    return _KINDS.get(cast("type[Any]", type(value)), "unknown")


_KINDS: dict[type, str] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "list",
    dict: "object",
    Arrow: "function",
}
_SHOWN = {
    "boolean": "a boolean",
    "number": "a number",
    "string": "text",
    "list": "a list",
    "object": "a map",
    "function": "a function",
    "null": "null",
    "unknown": "something that is not a value",
}


def describe_type(value: Any) -> str:
    """Return the type of a value, for messages."""
    return _SHOWN[type_of(value)]


def is_number(value: Any) -> TypeGuard[int | float]:
    """Return whether a value is a number; a boolean is not."""
    return type(value) is int or type(value) is float


def is_whole(value: Any, *, least: int) -> bool:
    """Return whether a value is a whole number of at least `least`; 3.0 is one."""
    return is_number(value) and value == value // 1 and value >= least


def fit_number(result: int | float, what: str) -> int | float:
    """Return a number that fits into JSON, or raise."""
    kept = settle(result)
    if kept is None:
        raise evaluation_error(f"the result of {what} is too large a number", "Compute with smaller numbers")
    return kept


def number(value: Any, what: str) -> int | float:
    """Return a value that has to be a number."""
    if not is_number(value):
        raise evaluation_error(f"{what} needs a number, not {describe_type(value)}")
    return value if -LARGEST <= value <= LARGEST else fit_number(value, what)


def in_digits(value: int | float, places: int) -> Decimal:
    """Round a number to some decimal places as it is written, with halves away from zero."""
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), context=_EXACT)


def whole(value: Any, what: str) -> int:
    """Return a value that has to be a whole number."""
    known = number(value, what)
    if known != int(known):
        raise evaluation_error(f"{what} needs a whole number, not {to_text(known)}")
    return int(known)


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON, without coercion; lists and maps compare by content."""
    waiting: list[tuple[Any, Any]] = [(left, right)]
    # Shared parts are compared once, or a small program could cause exponential work.
    seen: set[tuple[int, int]] = set()
    while waiting:
        one, two = waiting.pop()
        if one is two or (id(one), id(two)) in seen:
            continue
        same = type_of(one)
        if same != type_of(two):
            return False
        if same == "list":
            items, others = cast("list[Any]", one), cast("list[Any]", two)
            if len(items) != len(others):
                return False
            waiting.extend(zip(items, others, strict=True))
        elif same == "object":
            fields, theirs = cast("dict[str, Any]", one), cast("dict[str, Any]", two)
            if fields.keys() != theirs.keys():
                return False
            waiting.extend((value, theirs[name]) for name, value in fields.items())
        elif same == "unknown" or one != two:
            return False
        seen.add((id(one), id(two)))
    return True


def _ordering(sign: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def order(left: Any, right: Any) -> bool:
        if (is_number(left) and is_number(right)) or (type(left) is str and type(right) is str):
            return compare(left, right)
        raise evaluation_error(
            f"`{sign}` cannot compare {describe_type(left)} with {describe_type(right)}",
            "Compare two numbers or two texts; `??` gives a value where there is none",
        )

    return order


def add(left: Any, right: Any) -> Any:
    """Add numbers, join lists, and join as text if either side is text; null joins as empty text."""
    if is_number(left) and is_number(right):
        return fit_number(number(left, "`+`") + number(right, "`+`"), "`+`")
    if type(left) is str or type(right) is str:
        return text_of(left) + text_of(right)
    if type(left) is list and type(right) is list:
        return cast("list[Any]", left) + cast("list[Any]", right)
    raise evaluation_error(
        f"`+` cannot add {describe_type(left)} and {describe_type(right)}",
        "It adds numbers, joins lists, and joins text",
    )


def text_of(value: Any) -> str:
    """Return a value as text: empty for null, JSON for lists and maps."""
    if type(value) is Arrow:
        raise evaluation_error("a function has no text", "Call it")
    return to_text(value)


def _arithmetic(sign: str, operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], int | float]:
    what = f"`{sign}`"

    def compute(left: Any, right: Any) -> int | float:
        one, two = number(left, what), number(right, what)
        try:
            return fit_number(operate(one, two), what)
        except ZeroDivisionError:
            raise evaluation_error(f"{what} divides by zero", "Test the divisor before") from None
        except (OverflowError, ValueError):
            raise evaluation_error(f"{what} has no result for {to_text(one)} and {to_text(two)}") from None

    return compute


def _remainder(left: int | float, right: int | float) -> int | float:
    if right == 0:
        raise ZeroDivisionError
    # With the sign of the dividend, as in JavaScript; Python uses that of the divisor.
    return math.fmod(left, right)


def _power(left: int | float, right: int | float) -> int | float:
    if left == 0 and right < 0:
        raise ZeroDivisionError
    if type(left) is int and type(right) is int and 0 <= right <= _BITS:
        return left**right
    return math.pow(left, right)


def _bits(sign: str, operate: Callable[[int, int], int]) -> Callable[[Any, Any], int | float]:
    what = f"`{sign}`"
    return lambda left, right: fit_number(operate(whole(left, what), whole(right, what)), what)


def _shift(sign: str, operate: Callable[[int, int], int]) -> Callable[[Any, Any], int | float]:
    what = f"`{sign}`"

    def shift(left: Any, right: Any) -> int | float:
        places = whole(right, what)
        if not 0 <= places <= _BITS:
            raise evaluation_error(f"{what} shifts by 0 to {_BITS} places, not by {places}")
        return fit_number(operate(whole(left, what), places), what)

    return shift


def is_in(item: Any, container: Any) -> bool:
    """Return whether a list contains an item, a map a name, or a text another text."""
    if type(container) is list:
        return any(equal(item, each) for each in cast("list[Any]", container))
    if type(container) is dict:
        return type(item) is str and item in container
    if type(container) is str and type(item) is str:
        return item in container
    raise evaluation_error(
        f"`in` cannot look for {describe_type(item)} in {describe_type(container)}", "Look in a list, a map or a text"
    )


def member(value: Any, name: str) -> Any:
    """Return a field of a value, or null; lists and texts have a `length`."""
    if value is None:
        raise evaluation_error(f"null has no field `{name}`", "Write `?.` where a value may be missing")
    if type(value) is dict:
        return cast("dict[str, Any]", value).get(name)
    return len(value) if name == "length" and type(value) in (str, list) else None


def index(value: Any, at: Any) -> Any:
    """Return an item of a list, a character of a text, or a field of a map, or null.

    A negative index counts from the end.
    """
    if value is None:
        raise evaluation_error(f"null has no item {to_text([at])[1:-1]}", "Write `?.[` where a value may be missing")
    if type(value) is dict:
        return cast("dict[str, Any]", value).get(text_of(at)) if at is not None else None
    if type(value) in (list, str):
        if type(at) is str:
            return member(value, at)
        place = whole(at, "an index")
        return value[place] if -len(value) <= place < len(value) else None
    raise evaluation_error(f"{describe_type(value)} has no items")


def negate(value: Any) -> int | float:
    """Return the negative of a number."""
    return -number(value, "`-`")


UNARY: dict[str, Callable[[Any], Any]] = {
    "-": negate,
    "not": lambda value: not truthy(value),
    "~": lambda value: ~whole(value, "`~`"),
    "typeof": type_of,
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": _ordering("<", operator.lt),
    "<=": _ordering("<=", operator.le),
    ">": _ordering(">", operator.gt),
    ">=": _ordering(">=", operator.ge),
    "in": is_in,
    "+": add,
    "-": _arithmetic("-", operator.sub),
    "*": _arithmetic("*", operator.mul),
    "/": _arithmetic("/", lambda left, right: left / right),
    "%": _arithmetic("%", _remainder),
    "**": _arithmetic("**", _power),
    "&": _bits("&", lambda left, right: left & right),
    "|": _bits("|", lambda left, right: left | right),
    "^": _bits("^", lambda left, right: left ^ right),
    "<<": _shift("<<", lambda left, right: left << right),
    ">>": _shift(">>", lambda left, right: left >> right),
}
