"""Values in, the text that people read out: numbers without noise, lists and objects as compact JSON."""

from __future__ import annotations

import math
from typing import Any, cast

import msgspec

from memoranda.errors import InvalidValue
from memoranda.lang.expression.bounds import DEFAULT_BOUNDS, exceeded
from memoranda.model.text import quote, without_halves

_DEEPEST = 64
_encoder = msgspec.json.Encoder()


def word(value: Any, *, most: int = DEFAULT_BOUNDS.text) -> str:
    """Return a value as text: nothing for null, `true`, `36` for 36.0, JSON for lists and objects."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if type(value) in (list, dict):
        parts: list[str] = []
        _write(value, parts, most, _DEEPEST)
        return "".join(parts)
    return _scalar(value)


def number_word(number: int | float) -> str:
    """Return a number as JavaScript would show it: no `.0`, and exponents without padding."""
    if type(number) is int:
        # Python refuses to print very long integers; no JSON number needs more digits than a float has.
        return str(number) if -(10**21) < number < 10**21 else number_word(_as_float(number))
    if math.isfinite(number) and number == int(number) and abs(number) < 1e21:
        return str(int(number))
    mantissa, mark, exponent = repr(number).partition("e")
    return f"{mantissa}e{int(exponent):+d}" if mark else mantissa


def _as_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        raise exceeded("a number", 10**308) from None


def _scalar(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if type(value) is int or type(value) is float:
        return number_word(value)
    raise InvalidValue(
        f"{quote(type(value).__name__)} is not a value that an expression can show",
        hint="Give expressions text, numbers, booleans, None, lists and dicts",
        path="$",
    )


def _write(value: Any, parts: list[str], left: int, depth: int) -> int:
    """Append the JSON of a value and return how many characters are left; shared parts are counted each time."""
    if depth < 0:
        raise exceeded("the nesting of a value", _DEEPEST)
    if type(value) is list:
        opening, closing = "[", "]"
        entries = [("", item) for item in cast("list[Any]", value)]
    elif type(value) is dict:
        opening, closing = "{", "}"
        entries = [(f"{_quoted(name)}:", item) for name, item in cast("dict[Any, Any]", value).items()]
    else:
        parts.append("null" if value is None else _quoted(value) if type(value) is str else _scalar(value))
        return _spend(left, parts[-1])
    for place, (name, item) in enumerate(entries):
        parts.append(f"{opening if place == 0 else ','}{name}")
        left = _write(item, parts, _spend(left, parts[-1]), depth - 1)
    parts.append(closing if entries else opening + closing)
    return _spend(left, parts[-1])


def _quoted(text: Any) -> str:
    return _encoder.encode(without_halves(str(text))).decode()


def _spend(left: int, part: str) -> int:
    if len(part) > left:
        raise exceeded("a list or object as text", DEFAULT_BOUNDS.text)
    return left - len(part)
