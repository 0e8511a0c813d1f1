"""What mashin's operators mean: values in, a value or an `EvaluationFailed` out.

There is one null. Operators do not guess: apart from `+`, which joins as soon as one side is text, each wants operands
of its own kind and says so otherwise.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, TypeGuard, cast

from memoranda.lang.expression.faults import failed
from memoranda.lang.expression.functional import Arrow
from memoranda.lang.expression.scalars import LARGEST, settle
from memoranda.lang.expression.wording import word

_BITS = 63
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)
"""More digits than any number has."""
_SCALARS = frozenset({bool, int, float, str})


def truthy(value: Any) -> bool:
    """Say whether a value counts as true: everything but false, null, 0 and the empty text."""
    return bool(value) if value is None or type(value) in _SCALARS else True


def kind(value: Any) -> str:
    """Return what `typeof` says of a value."""
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
    "unknown": "something that is no value",
}


def shown_kind(value: Any) -> str:
    """Return the kind of a value as messages name it."""
    return _SHOWN[kind(value)]


def is_number(value: Any) -> TypeGuard[int | float]:
    """Say whether a value is a number; a boolean is none."""
    return type(value) is int or type(value) is float


def is_whole(value: Any, *, least: int) -> bool:
    """Say whether a value is a whole number that is not less than another; 3.0 is one."""
    return is_number(value) and value == value // 1 and value >= least


def settled(result: int | float, what: str) -> int | float:
    """Return a result that JSON can hold, or say that there is none."""
    kept = settle(result)
    if kept is None:
        raise failed(f"the result of {what} is too large a number", "Compute with smaller numbers")
    return kept


def number(value: Any, what: str) -> int | float:
    """Return a value that has to be a number, within what can be kept."""
    if not is_number(value):
        raise failed(f"{what} needs a number, not {shown_kind(value)}")
    return value if -LARGEST <= value <= LARGEST else settled(value, what)


def in_digits(value: int | float, places: int) -> Decimal:
    """Return a number with so many digits behind the point, as it is written: a half is rounded away from zero."""
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), context=_EXACT)


def whole(value: Any, what: str) -> int:
    """Return a value that has to be a whole number."""
    known = number(value, what)
    if known != int(known):
        raise failed(f"{what} needs a whole number, not {word(known)}")
    return int(known)


def equal(left: Any, right: Any) -> bool:
    """Say whether two values are equal as JSON, without any coercion; of lists and maps, what they hold counts."""
    waiting: list[tuple[Any, Any]] = [(left, right)]
    # Parts that several places share are compared once, or a small program could ask for endless work.
    seen: set[tuple[int, int]] = set()
    while waiting:
        one, two = waiting.pop()
        if one is two or (id(one), id(two)) in seen:
            continue
        same = kind(one)
        if same != kind(two):
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
    def ordered(left: Any, right: Any) -> bool:
        if (is_number(left) and is_number(right)) or (type(left) is str and type(right) is str):
            return compare(left, right)
        raise failed(
            f"`{sign}` cannot compare {shown_kind(left)} with {shown_kind(right)}",
            "Compare two numbers or two texts; `??` gives a value where there is none",
        )

    return ordered


def add(left: Any, right: Any) -> Any:
    """Add numbers, join lists, and join as text if either side is text; null joins as nothing."""
    if is_number(left) and is_number(right):
        return settled(number(left, "`+`") + number(right, "`+`"), "`+`")
    if type(left) is str or type(right) is str:
        return shown(left) + shown(right)
    if type(left) is list and type(right) is list:
        return cast("list[Any]", left) + cast("list[Any]", right)
    raise failed(
        f"`+` cannot add {shown_kind(left)} and {shown_kind(right)}", "It adds numbers, joins lists, and joins text"
    )


def shown(value: Any) -> str:
    """Return a value as text: nothing for null, JSON for lists and maps."""
    if type(value) is Arrow:
        raise failed("a function has no text", "Call it")
    return word(value)


def _arithmetic(sign: str, operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], int | float]:
    what = f"`{sign}`"

    def compute(left: Any, right: Any) -> int | float:
        one, two = number(left, what), number(right, what)
        try:
            return settled(operate(one, two), what)
        except ZeroDivisionError:
            raise failed(f"{what} divides by zero", "Test the divisor before") from None
        except (OverflowError, ValueError):
            raise failed(f"{what} has no result for {word(one)} and {word(two)}") from None

    return compute


def _remainder(left: int | float, right: int | float) -> int | float:
    if right == 0:
        raise ZeroDivisionError
    # With the sign of the dividend, as in JavaScript; `%` of Python has that of the divisor.
    return math.fmod(left, right)


def _power(left: int | float, right: int | float) -> int | float:
    if left == 0 and right < 0:
        raise ZeroDivisionError
    if type(left) is int and type(right) is int and 0 <= right <= _BITS:
        return left**right
    return math.pow(left, right)


def _bits(sign: str, operate: Callable[[int, int], int]) -> Callable[[Any, Any], int | float]:
    what = f"`{sign}`"
    return lambda left, right: settled(operate(whole(left, what), whole(right, what)), what)


def _shift(sign: str, operate: Callable[[int, int], int]) -> Callable[[Any, Any], int | float]:
    what = f"`{sign}`"

    def shift(left: Any, right: Any) -> int | float:
        places = whole(right, what)
        if not 0 <= places <= _BITS:
            raise failed(f"{what} shifts by 0 to {_BITS} places, not by {places}")
        return settled(operate(whole(left, what), places), what)

    return shift


def is_in(item: Any, container: Any) -> bool:
    """Say whether a list holds an item, a map has a name, or a text contains another."""
    if type(container) is list:
        return any(equal(item, each) for each in cast("list[Any]", container))
    if type(container) is dict:
        return type(item) is str and item in container
    if type(container) is str and type(item) is str:
        return item in container
    raise failed(
        f"`in` cannot look for {shown_kind(item)} in {shown_kind(container)}", "Look in a list, a map or a text"
    )


def member(value: Any, name: str) -> Any:
    """Return a field of a value; null for one that it does not have. Lists and texts have a length."""
    if value is None:
        raise failed(f"null has no field `{name}`", "Write `?.` where a value may be missing")
    if type(value) is dict:
        return cast("dict[str, Any]", value).get(name)
    return len(value) if name == "length" and type(value) in (str, list) else None


def index(value: Any, at: Any) -> Any:
    """Return an item of a list or a character of a text by its place, or a field by its name; null where none is.

    A negative place counts from the end.
    """
    if value is None:
        raise failed(f"null has no item {word([at])[1:-1]}", "Write `?.[` where a value may be missing")
    if type(value) is dict:
        return cast("dict[str, Any]", value).get(shown(at)) if at is not None else None
    if type(value) in (list, str):
        if type(at) is str:
            return member(value, at)
        place = whole(at, "an index")
        return value[place] if -len(value) <= place < len(value) else None
    raise failed(f"{shown_kind(value)} has no items")


def negate(value: Any) -> int | float:
    """Return the negative of a number."""
    return -number(value, "`-`")


UNARY: dict[str, Callable[[Any], Any]] = {
    "-": negate,
    "not": lambda value: not truthy(value),
    "~": lambda value: ~whole(value, "`~`"),
    "typeof": kind,
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
