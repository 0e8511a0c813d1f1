"""The operators of ABL with their coercions; none raises on values of the wrong type.

Null and undefined are one value, None. Arithmetic on anything but numbers gives None, and so does division by zero.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, cast

from memoranda.lang.expression.dialect import exceeded
from memoranda.lang.expression.values import LARGEST, moment, settle, to_text

_NUMERIC = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DAY = timedelta(days=1)
_NUMBERS = frozenset({int, float})
_DEEPEST = 64
_LONGEST_NUMBER = 400
_SAFE_DIGITS = 18


def truthy(value: Any) -> bool:
    """Return whether a value counts as true: not false, 0, "", "false", null, [] or {}."""
    return bool(value) and value != "false"


def number_in(text: str) -> int | float | None:
    """Return the number that a text spells, or None."""
    text = text.strip()
    # Most answers are small integers, which need no pattern.
    if len(text) <= _SAFE_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    if len(text) > _LONGEST_NUMBER or not _NUMERIC.fullmatch(text):
        return None
    return settle(float(text))


def number(value: Any) -> int | float | None:
    """Convert a value to a number: numeric text is parsed, true is 1, false is 0, anything else None."""
    if type(value) in _NUMBERS:
        return value if -LARGEST <= value <= LARGEST else settle(value)
    if type(value) is str:
        return number_in(value)
    return int(value) if type(value) is bool else None


def equal(left: Any, right: Any, depth: int = _DEEPEST) -> bool:
    """Compare two values: numeric text and a number as numbers, lists and objects by content."""
    if type(left) is type(right):
        return _equal_inside(left, right, depth) if type(left) in (list, dict) else left == right
    if left is None or right is None:
        return False
    if type(left) is str and type(right) in _NUMBERS:
        return number_in(left) == right
    if type(right) is str and type(left) in _NUMBERS:
        return left == number_in(right)
    return left == right if type(left) in _NUMBERS and type(right) in _NUMBERS else False


def _equal_inside(left: Any, right: Any, depth: int) -> bool:
    if depth == 0:
        raise exceeded("the nesting of a value", _DEEPEST)
    if len(left) != len(right):
        return False
    if type(left) is list:
        pairs = zip(cast("list[Any]", left), right, strict=True)
        return all(equal(one, two, depth - 1) for one, two in pairs)
    return all(name in right and equal(item, right[name], depth - 1) for name, item in left.items())


def unequal(left: Any, right: Any) -> bool:
    """Negate `equal`, for null too."""
    return not equal(left, right)


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare_values(left: Any, right: Any) -> bool:
        if type(left) in _NUMBERS and type(right) in _NUMBERS:
            return compare(left, right)
        one = _magnitude(left)
        two = None if one is None else _magnitude(right)
        if two is not None:
            return compare(one, two)
        if type(left) is str and type(right) is str:
            early, late = moment(left), moment(right)
            return compare(early, late) if early and late else compare(left, right)
        # Text that is not a number, or an object, is neither greater nor less than a number.
        return False

    return compare_values


def _magnitude(value: Any) -> int | float | None:
    if value is None:
        return 0
    return len(cast("list[Any]", value)) if type(value) is list else number(value)


def add(left: Any, right: Any) -> Any:
    """Add numbers, also a numeric text to a number; join lists; otherwise join both as text.

    Null with a number gives null; with text it is the empty text.
    """
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return _sum(left, right)
    if type(left) is str and type(right) is str:
        return left + right
    if type(left) is list and type(right) is list:
        return cast("list[Any]", left) + cast("list[Any]", right)
    if number(left) is not None and number(right) is not None:
        return _sum(left, right)
    if (left is None or right is None) and _countable(left) and _countable(right):
        return None
    return to_text(left) + to_text(right)


def _countable(value: Any) -> bool:
    return value is None or type(value) in (int, float, bool)


def _arithmetic(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], int | float | None]:
    def compute(left: Any, right: Any) -> int | float | None:
        if type(left) in _NUMBERS and type(right) in _NUMBERS:
            one, two = left, right
        else:
            one, two = number(left), number(right)
            if one is None or two is None:
                return None
        try:
            result = operate(one, two)
        except (ZeroDivisionError, OverflowError, ValueError):
            return None
        # Most results are small integers, which need no normalization.
        return result if type(result) is int and -LARGEST <= result <= LARGEST else settle(result)

    return compute


_sum = _arithmetic(operator.add)
_difference = _arithmetic(operator.sub)
multiply = _arithmetic(operator.mul)
divide = _arithmetic(lambda left, right: left / right)
# With the sign of the dividend, as in JavaScript; `%` of Python has that of the divisor.
modulo = _arithmetic(math.fmod)


def subtract(left: Any, right: Any) -> int | float | None:
    """Subtract numbers, or return the whole days between two ISO dates."""
    late, early = moment(left), moment(right)
    return math.trunc((late - early) / _DAY) if late and early else _difference(left, right)


def negate(value: Any) -> int | float | None:
    """Negate a number; None for anything else."""
    known = number(value)
    return None if known is None else -known


def is_in(item: Any, container: Any) -> bool:
    """Return whether a list contains an item, an object has a name, or a text contains another."""
    if type(container) is list:
        for each in cast("list[Any]", container):  # a generator in `any` takes twice as long
            if equal(item, each):
                return True
        return False
    if item is None or type(item) in (list, dict):
        return False
    if type(container) is dict:
        return to_text(item) in container
    return to_text(item) in to_text(container) if container is not None else False


def contains(container: Any, item: Any) -> bool:
    """Return whether a list, object or text contains something: `is_in` with operands swapped."""
    return is_in(item, container)


def starts_with(text: Any, start: Any) -> bool:
    """Return whether a text starts with another; false for null."""
    return text is not None and start is not None and to_text(text).startswith(to_text(start))


def ends_with(text: Any, end: Any) -> bool:
    """Return whether a text ends with another; false for null."""
    return text is not None and end is not None and to_text(text).endswith(to_text(end))


def is_set(value: Any) -> bool:
    """Return whether a value is not null."""
    return value is not None


def is_empty(value: Any) -> bool:
    """Return whether a value is null, "", [] or {}."""
    return value is None or value == "" or (type(value) in (list, dict) and not value)


def member(value: Any, name: str) -> Any:
    """Return the length of a text or list, or an item by its index; else None."""
    if name == "length" and type(value) in (str, list):
        return len(value)
    return index(value, name) if type(value) is list and name.isdigit() else None


def index(value: Any, at: Any) -> Any:
    """Return an item of a list or a character of a text by index, or a field by name; else None."""
    if type(value) is dict:
        return cast("dict[str, Any]", value).get(to_text(at)) if type(at) in (str, int, float) else None
    if type(value) not in (list, str) or type(at) is bool:
        return None
    place = at if type(at) is int else _place(at)
    return value[place] if type(place) is int and 0 <= place < len(value) else None


def _place(at: Any) -> int | float | None:
    known = number(at)
    return None if known is None else settle(known)


UNARY: dict[str, Callable[[Any], Any]] = {
    "-": negate,
    "not": lambda value: not truthy(value),
    "is set": is_set,
    "empty": is_empty,
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "==": equal,
    "!=": unequal,
    "<": _comparison(operator.lt),
    "<=": _comparison(operator.le),
    ">": _comparison(operator.gt),
    ">=": _comparison(operator.ge),
    "in": is_in,
    "contains": contains,
    "startsWith": starts_with,
    "endsWith": ends_with,
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": modulo,
}


def display_text(value: Any) -> str:
    """Return a value as a template shows it: a computed number without the noise of binary fractions.

    >>> display_text(0.1 + 0.2), display_text(299.97 * 1.12), display_text(2.0), display_text("0.30")
    ('0.3', '335.9664', '2', '0.30')
    """
    return to_text(float(f"{value:.15g}")) if type(value) is float else to_text(value)


def amount_text(value: Any) -> str:
    """Return a value after a currency sign: a fraction has two digits, rounded half up.

    >>> amount_text(299.97 * 1.12), amount_text(336.0), amount_text(35.5), amount_text(7)
    ('335.97', '336', '35.50', '7')
    """
    if type(value) is not float or not math.isfinite(value) or abs(value) >= _MOST_CENTS:
        return display_text(value)
    amount = round_cents(value)
    return str(amount) if amount != int(amount) else str(int(amount))


_MOST_CENTS = 1e13
"""From here on, a float has no exact cents."""


def round_cents(value: float) -> Decimal:
    """Return an amount of money with two digits after the point."""
    return Decimal(f"{value:.15g}").quantize(Decimal("0.01"), ROUND_HALF_UP)
