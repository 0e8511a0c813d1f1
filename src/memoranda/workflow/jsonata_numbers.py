"""Numbers of expressions: integers that stay exact, their texts, and `$formatNumber`, which XPath 3.1 defines."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from functools import reduce
from itertools import pairwise
from math import gcd, isfinite
from typing import Any

import msgspec

from memoranda.workflow.jsonata_library import JException

EXACT = 2**53
"""Up to here a float holds every integer."""


def is_exact(value: int) -> bool:
    """Return whether an integer stays one; beyond 64 bits it becomes a float, as every number is in JavaScript."""
    return -(2**63) <= value < 2**64


def is_number(value: Any) -> bool:
    """Return whether a value is a number; in JSON, unlike in Python, true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: float) -> float:
    """Return the result of a calculation: an integer where it is exact, else a float."""
    if isinstance(value, int):
        if is_exact(value):
            return value
        try:
            value = float(value)
        except OverflowError:
            raise JException("D1001", -1, "more than 308 digits") from None
    if not isfinite(value):
        raise JException("D1001", -1, value)
    return int(value) if abs(value) < EXACT and value.is_integer() else value


def number_word(value: float) -> str:
    """Return a number as JSONata writes it: integers whole, fractions with fifteen digits, as JavaScript does."""
    if isinstance(value, int):
        return str(value)
    rounded = value if value.is_integer() else float(f"{value:.15g}")
    if 1e-6 <= abs(rounded) < 1e21 or not rounded:
        written = f"{Decimal(repr(rounded)):f}"
        return written.removesuffix(".0")
    digits, _, exponent = repr(rounded).partition("e")
    return f"{digits}e{int(exponent):+d}"


def round_half_even(value: float, places: int) -> float:
    """Return a number rounded to decimal places, halves to the even neighbour, by the digits that are shown of it."""
    if isinstance(value, int) and places >= 0:
        return value
    if abs(places) > 400:
        return value if places > 0 else 0
    with localcontext() as context:
        context.prec = 1000
        rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
        return int(rounded) if isinstance(value, int) else float(rounded)


# pictures

_SYMBOLS = {
    "decimal-separator": ".",
    "grouping-separator": ",",
    "exponent-separator": "e",
    "minus-sign": "-",
    "percent": "%",
    "per-mille": "‰",
    "zero-digit": "0",
    "digit": "#",
    "pattern-separator": ";",
}


class _Picture(msgspec.Struct, frozen=True):
    """One of the two parts of a picture, and where its digits go."""

    prefix: str
    suffix: str
    scale: int
    """The power of ten that the number is multiplied by: 2 for percent, 3 for per mille."""
    scaling: int
    """How many digits a number with an exponent has before its decimal separator."""
    least_integer: int
    least_fraction: int
    most_fraction: int
    exponent: int | None
    """How many digits the exponent has; None without one."""
    integer_groups: tuple[int, ...]
    fraction_groups: tuple[int, ...]
    """Before how many digits, counted from the decimal separator, a grouping separator is written."""


def format_number(value: float | None, picture: str, options: Mapping[str, Any] | None) -> str | None:
    """Return a number as its picture says; None for a missing number."""
    if value is None:
        return None
    symbols: dict[str, str] = _SYMBOLS | {name: str(symbol) for name, symbol in (options or {}).items()}
    pictures = [_read(part, symbols) for part in picture.split(symbols["pattern-separator"])]
    if len(pictures) > 2:
        raise JException("D3080", -1)
    minus = symbols["minus-sign"] if value < 0 and len(pictures) == 1 else ""
    chosen = pictures[-1] if value < 0 else pictures[0]
    return f"{minus}{chosen.prefix}{_digits(abs(value), chosen, symbols)}{chosen.suffix}"


def _read(text: str, symbols: Mapping[str, str]) -> _Picture:
    family = _family(symbols)
    point, grouping, sharp = symbols["decimal-separator"], symbols["grouping-separator"], symbols["digit"]
    places = family + sharp
    active = places + point + grouping
    first = next((at for at, sign in enumerate(text) if sign in active), 0)
    last = next((at for at in range(len(text), 0, -1) if text[at - 1] in active), len(text))
    mantissa, has_exponent, exponent = text[first:last].partition(symbols["exponent-separator"])
    integer, has_point, fraction = mantissa.partition(point)
    percent, per_mille = text.count(symbols["percent"]), text.count(symbols["per-mille"])
    edges = integer[-1:] + fraction[:1] if has_point else integer[-1:]
    faults = {
        "D3081": text.count(point) > 1,
        "D3082": percent > 1,
        "D3083": per_mille > 1,
        "D3084": percent and per_mille,
        "D3085": not any(sign in places for sign in mantissa),
        "D3086": any(sign not in active for sign in mantissa),
        "D3087" if has_point else "D3088": grouping in edges and edges,
        "D3089": grouping * 2 in text,
        "D3090": any(sign in family for sign in integer[: max(integer.rfind(sharp), 0)]),
        "D3091": sharp in fraction and any(sign in family for sign in fraction[fraction.find(sharp) :]),
        "D3092": has_exponent and (percent or per_mille),
        "D3093": has_exponent and (not exponent or any(sign not in family for sign in exponent)),
    }
    for code, holds in faults.items():
        if holds:
            raise JException(code, -1)
    least_integer = scaling = _count(integer, family)
    least_fraction, most_fraction = _count(fraction, family), _count(fraction, places)
    if not least_integer and not most_fraction:
        if has_exponent:
            least_fraction = most_fraction = 1
        else:
            least_integer = 1
    if has_exponent and not least_integer and sharp in integer:
        least_integer = 1
    if not least_integer and not least_fraction:
        least_fraction = 1
    return _Picture(
        prefix=text[:first],
        suffix=text[last:],
        scale=2 if percent else 3 if per_mille else 0,
        scaling=scaling,
        least_integer=least_integer,
        least_fraction=least_fraction,
        most_fraction=most_fraction,
        exponent=len(exponent) if has_exponent else None,
        integer_groups=_group_ends(
            [_count(integer[at:], places) for at, sign in enumerate(integer) if sign == grouping]
        ),
        fraction_groups=tuple(_count(fraction[:at], places) for at, sign in enumerate(fraction) if sign == grouping),
    )


def _family(symbols: Mapping[str, str]) -> str:
    return "".join(chr(ord(symbols["zero-digit"][0]) + digit) for digit in range(10))


def _count(text: str, signs: str) -> int:
    return sum(sign in signs for sign in text)


def _group_ends(groups: list[int]) -> tuple[int, ...]:
    """Return where groups end; those of equal size go on to the left of the picture."""
    size = reduce(gcd, groups, 0)
    if not groups or {size * number for number in range(1, len(groups) + 1)} != set(groups):
        return tuple(groups)
    return tuple(range(size, 400, size))


def _digits(value: float, picture: _Picture, symbols: Mapping[str, str]) -> str:
    exponent = 0
    with localcontext() as context:
        context.prec = 1000
        scaled = Decimal(repr(value)).scaleb(picture.scale)
        if picture.exponent is not None and scaled:
            exponent = scaled.adjusted() - picture.scaling + 1
            # The reference leaves a power of ten one digit more before the decimal separator.
            exponent -= exponent > 0 and scaled.normalize().as_tuple().digits == (1,)
            scaled = scaled.scaleb(-exponent)
        scaled = scaled.quantize(Decimal(1).scaleb(-picture.most_fraction), ROUND_HALF_EVEN)
        whole, _, rest = f"{scaled:f}".partition(".")
    whole = whole.lstrip("0").rjust(picture.least_integer, "0")
    rest = rest.rstrip("0").ljust(picture.least_fraction, "0")
    family, grouping = str.maketrans("0123456789", _family(symbols)), symbols["grouping-separator"]
    made = _with_separators(whole[::-1], picture.integer_groups, grouping)[::-1].translate(family)
    if rest:
        made += symbols["decimal-separator"] + _with_separators(rest, picture.fraction_groups, grouping).translate(
            family
        )
    if picture.exponent is not None:
        power = str(abs(exponent)).rjust(picture.exponent, "0").translate(family)
        made += symbols["exponent-separator"] + (symbols["minus-sign"] if exponent < 0 else "") + power
    return made


def _with_separators(digits: str, groups: tuple[int, ...], separator: str) -> str:
    ends = [0, *sorted(end for end in groups if end < len(digits)), len(digits)]
    return separator.join(digits[start:end] for start, end in pairwise(ends))
