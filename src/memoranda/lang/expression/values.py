"""Values of expressions: numbers that JSON can hold, moments, and values as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, cast

import msgspec

from memoranda.errors import InvalidValue
from memoranda.lang.expression.dialect import DEFAULT_BOUNDS, exceeded
from memoranda.model.text import quote, without_halves

LARGEST = 2**63 - 1
"""The largest integer that is stored exactly."""
_EXACT = 2**53
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)


def settle(result: int | float) -> int | float | None:
    """Normalize a number for JSON: integral floats become integers, and infinity and NaN become None."""
    if type(result) is float:
        if not math.isfinite(result):
            return None
        return int(result) if result.is_integer() and abs(result) <= _EXACT else result
    if -LARGEST <= result <= LARGEST:
        return result
    try:
        return float(result)
    except OverflowError:
        return None


def moment(value: Any) -> datetime | None:
    """Return an ISO 8601 date or time as a moment in UTC, the default zone; None for other values."""
    if type(value) is not str or not _DATE.fullmatch(value):
        return None
    try:
        read = datetime.fromisoformat(value)
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def moment_text(when: datetime) -> str:
    """Return a moment as ISO 8601 text in UTC, to the millisecond."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_DEEPEST = 64
_encoder = msgspec.json.Encoder()


def to_text(value: Any, *, most: int = DEFAULT_BOUNDS.text) -> str:
    """Return a value as text: empty for null, `true`, `36` for 36.0, JSON for lists and objects."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if type(value) in (list, dict):
        parts: list[str] = []
        _write(value, parts, most, _DEEPEST)
        return "".join(parts)
    return _scalar(value)


def number_text(number: int | float) -> str:
    """Return a number as JavaScript would show it: no `.0`, and exponents without padding."""
    if type(number) is int:
        # Python refuses to print very long integers.
        return str(number) if -(10**21) < number < 10**21 else number_text(_as_float(number))
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
        return number_text(value)
    raise InvalidValue(
        f"{quote(type(value).__name__)} is not a value that an expression can show",
        hint="Give expressions text, numbers, booleans, None, lists and dicts",
        path="$",
    )


def _write(value: Any, parts: list[str], left: int, depth: int) -> int:
    """Append the JSON of a value and return the remaining number of characters."""
    if depth < 0:
        raise exceeded("the nesting of a value", _DEEPEST)
    if type(value) is list:
        opening, closing = "[", "]"
        entries = [("", item) for item in cast("list[Any]", value)]
    elif type(value) is dict:
        opening, closing = "{", "}"
        entries = [(f"{_json_string(name)}:", item) for name, item in cast("dict[Any, Any]", value).items()]
    else:
        parts.append("null" if value is None else _json_string(value) if type(value) is str else _scalar(value))
        return _spend(left, parts[-1])
    for place, (name, item) in enumerate(entries):
        parts.append(f"{opening if place == 0 else ','}{name}")
        left = _write(item, parts, _spend(left, parts[-1]), depth - 1)
    parts.append(closing if entries else opening + closing)
    return _spend(left, parts[-1])


def _json_string(text: Any) -> str:
    return _encoder.encode(without_halves(str(text))).decode()


def _spend(left: int, part: str) -> int:
    if len(part) > left:
        raise exceeded("a list or object as text", DEFAULT_BOUNDS.text)
    return left - len(part)


_DATE_PARTS = re.compile("YYYY|MM|DD|HH|mm|ss")
_MADE = "the text that an expression made"


def repeat_text(text: str, times: int, *, longest: int) -> str:
    """Repeat a text."""
    if len(text) * times > longest:
        raise exceeded(_MADE, longest, len(text) * times)
    return text * times


def padding(missing: int, fill: str, *, longest: int) -> str:
    """Return `missing` characters of repeated `fill`; empty if either is empty.

    >>> padding(5, "ab", longest=100)
    'ababa'
    """
    if missing <= 0 or not fill:
        return ""
    if missing > longest:
        raise exceeded(_MADE, longest, missing)
    return (fill * (missing // len(fill) + 1))[:missing]


def replace_text(text: str, old: str, new: str, *, longest: int, most: int = -1) -> str:
    """Replace a part of a text everywhere, or at most `most` times."""
    count = text.count(old) if most < 0 else min(most, text.count(old))
    grown = len(text) + count * (len(new) - len(old))
    if grown > longest:
        raise exceeded(_MADE, longest, grown)
    return text.replace(old, new, most)


def join_texts(parts: Iterable[str], between: str, *, longest: int) -> str:
    """Join texts, and stop as soon as the result is too long."""
    left, kept = longest + len(between), list[str]()
    for part in parts:
        left -= len(part) + len(between)
        if left < 0:
            raise exceeded(_MADE, longest)
        kept.append(part)
    return between.join(kept)


def format_date(when: datetime, shape: str) -> str:
    """Format a moment by YYYY, MM, DD, HH, mm and ss; other characters of `shape` stay as they are.

    >>> format_date(datetime(2026, 4, 30, 16, 5), "DD.MM.YYYY, HH:mm")
    '30.04.2026, 16:05'
    """
    parts = {
        "YYYY": f"{when.year:04d}",
        "MM": f"{when.month:02d}",
        "DD": f"{when.day:02d}",
        "HH": f"{when.hour:02d}",
        "mm": f"{when.minute:02d}",
        "ss": f"{when.second:02d}",
    }
    return _DATE_PARTS.sub(lambda found: parts[found[0]], shape)


_NO_BREAK, _NARROW = "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}"


class _Style(msgspec.Struct, frozen=True):
    group: str
    point: str
    symbol_first: bool
    grouping: int = 3
    """Digits of each group above the first three; two in India."""


_ENGLISH = _Style(",", ".", symbol_first=True)
_GERMAN = _Style(".", ",", symbol_first=False)
_STYLES = {
    "en": _ENGLISH,
    "en-IN": _Style(",", ".", symbol_first=True, grouping=2),
    "hi": _Style(",", ".", symbol_first=True, grouping=2),
    "ja": _ENGLISH,
    "zh": _ENGLISH,
    "ko": _ENGLISH,
    "de": _GERMAN,
    "es": _GERMAN,
    "it": _GERMAN,
    "da": _GERMAN,
    "tr": _Style(".", ",", symbol_first=True),
    "pt": _Style(".", ",", symbol_first=True),
    "nl": _Style(".", ",", symbol_first=True),
    "fr": _Style(_NARROW, ",", symbol_first=False),
    "sv": _Style(_NO_BREAK, ",", symbol_first=False),
    "pl": _Style(_NO_BREAK, ",", symbol_first=False),
    "ru": _Style(_NO_BREAK, ",", symbol_first=False),
    "de-CH": _Style("’", ".", symbol_first=True),
}
_SYMBOLS = {
    "USD": "$",
    "EUR": "€",
    "GBP": "£",
    "JPY": "¥",
    "INR": "₹",
    "KRW": "₩",
    "CNY": "CN¥",
    "BRL": "R$",
    "CAD": "CA$",
    "AUD": "A$",
    "MXN": "MX$",
    "ILS": "₪",
    "VND": "₫",
}
_DIGITS = {"JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "ISK": 0, "BHD": 3, "KWD": 3, "OMR": 3, "TND": 3, "JOD": 3}


def format_money(amount: int | float, code: str, locale: str) -> str:
    """Return `$1,234.50` for 1234.5, USD and en-US; an unknown locale is read as English, a currency keeps its code."""
    code = code.strip().upper()[:3]
    style = _STYLES.get(locale) or _STYLES.get(locale.replace("_", "-").partition("-")[0].lower()) or _ENGLISH
    digits = _DIGITS.get(code, 2)
    try:
        exact = abs(Decimal(repr(amount))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    except InvalidOperation:
        # More than 28 digits: cents do not matter.
        return f"{code} {number_text(amount)}"
    whole, _, cents = f"{exact:f}".partition(".")
    figure = style.group.join(_groups(whole, style.grouping)) + (style.point + cents if cents else "")
    sign = "-" if amount < 0 and exact else ""
    symbol = _SYMBOLS.get(code, code)
    if not style.symbol_first:
        return f"{sign}{figure}{_NO_BREAK}{symbol}"
    apart = _NO_BREAK if symbol == code or style.point == "," else ""
    return f"{sign}{symbol}{apart}{figure}"


def _groups(whole: str, size: int) -> list[str]:
    head, groups = whole[:-3], [whole[-3:]]
    while head:
        groups.insert(0, head[-size:])
        head = head[:-size]
    return groups
