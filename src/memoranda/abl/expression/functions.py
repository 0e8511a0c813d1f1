"""The functions that ABL expressions can call. They accept arguments of any type and raise only limits.

Each is written in capitals (`UPPER(name)`) or in lower case after `abl.` (`abl.upper(name)`). Numbers may be given as
text; text functions read null as the empty text. What cannot be computed is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, cast
from zoneinfo import ZoneInfo

from memoranda.abl.expression.semantics import add, divide, equal, member, multiply, number, subtract
from memoranda.lang.expression.dialect import ExpressionRun, Function, check_text
from memoranda.lang.expression.values import (
    format_date,
    format_money,
    join_texts,
    moment,
    moment_text,
    padding,
    repeat_text,
    replace_text,
    settle,
    to_text,
)
from memoranda.model.clock import EPOCH

_MASK = re.compile(r"(?:(?P<where>first|last)(?P<count>[0-9]{1,3})|(?P<head>[0-9]{1,3})\*(?P<tail>[0-9]{1,3}))")
_ISO_DAY = "YYYY-MM-DD"
_MOST_DIGITS = 15
_LONGEST_ID = 64


def _numbers(values: tuple[Any, ...]) -> list[int | float] | None:
    """Return arguments, or the items of a single list, as numbers; None unless all of them are."""
    if len(values) == 1 and type(values[0]) is list:
        values = tuple(cast("list[Any]", values[0]))
    known = [number(value) for value in values]
    return [each for each in known if each is not None] if None not in known else None


def _plus(one: Any, two: Any) -> Any:
    return None if number(one) is None or number(two) is None else add(number(one), number(two))


def _least(*values: Any) -> int | float | None:
    known = _numbers(values)
    return min(known) if known else None


def _most(*values: Any) -> int | float | None:
    known = _numbers(values)
    return max(known) if known else None


def _absolute(value: Any) -> int | float | None:
    known = number(value)
    return None if known is None else abs(known)


def round_decimal(value: Any, digits: Any = 0) -> int | float | None:
    """Round half away from zero, in decimal: 2.675 to two digits is 2.68."""
    known, places = number(value), _count(digits)
    if known is None or places is None:
        return None
    places = max(-_MOST_DIGITS, min(_MOST_DIGITS, places))
    try:
        exact = Decimal(repr(known)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    except InvalidOperation:
        # More digits than a decimal context has: there is no fraction to round.
        return settle(known)
    return settle(float(exact)) if places > 0 else settle(int(exact))


def _count(value: Any) -> int | None:
    known = number(value)
    return None if known is None else int(max(-1e9, min(1e9, known)))


def _substring(text: Any, start: Any, end: Any = None) -> str:
    whole = to_text(text)
    first, last = (
        max(0, min(len(whole), _count(place) or 0)) if place is not None else len(whole) for place in (start or 0, end)
    )
    return whole[min(first, last) : max(first, last)]


def _replace(run: ExpressionRun, text: Any, old: Any, new: Any) -> str:
    return replace_text(to_text(text), to_text(old), to_text(new), longest=run.bounds.text)


def _split(text: Any, separator: Any) -> list[str]:
    whole, between = to_text(text), to_text(separator)
    return whole.split(between) if between else list(whole)


def _join(run: ExpressionRun, items: Any, separator: Any = ",") -> str:
    if type(items) is not list:
        return to_text(items)
    return join_texts(map(to_text, cast("list[Any]", items)), to_text(separator), longest=run.bounds.text)


def _repeat(run: ExpressionRun, text: Any, times: Any) -> str:
    return repeat_text(to_text(text), max(0, _count(times) or 0), longest=run.bounds.text)


def _padding(run: ExpressionRun, text: Any, length: Any, fill: Any) -> tuple[str, str]:
    whole = to_text(text)
    return whole, padding((_count(length) or 0) - len(whole), to_text(fill), longest=run.bounds.text)


def _pad_start(run: ExpressionRun, text: Any, length: Any, fill: Any = " ") -> str:
    whole, pad = _padding(run, text, length, fill)
    return pad + whole


def _pad_end(run: ExpressionRun, text: Any, length: Any, fill: Any = " ") -> str:
    whole, pad = _padding(run, text, length, fill)
    return whole + pad


def mask(text: Any, shape: Any, fill: Any = "*") -> str:
    """Mask a text except its first or last characters; a text that is too short is masked whole."""
    whole, mark = to_text(text), to_text(fill)[:1] or "*"
    found = _MASK.fullmatch(to_text(shape))
    head = tail = 0
    if found and found["where"] == "first":
        head = int(found["count"])
    elif found and found["where"] == "last":
        tail = int(found["count"])
    elif found:
        head, tail = int(found["head"]), int(found["tail"])
    hidden = len(whole) - head - tail
    return whole[:head] + mark * hidden + whole[len(whole) - tail :] if hidden > 0 else mark * len(whole)


def format_instant(value: Any, shape: Any = _ISO_DAY, zone: Any = None) -> str | None:
    """Format a date by YYYY, MM, DD, HH, mm and ss in an IANA time zone; null if either is invalid.

    A date without a time is the same date in every zone.
    """
    when = _instant(value)
    if when is None:
        return None
    try:
        local = when.astimezone(ZoneInfo(to_text(zone))) if zone is not None and to_text(zone) != "UTC" else when
    except (OSError, ValueError, OverflowError, KeyError):
        return None
    is_day = type(value) is str and len(value) == len(_ISO_DAY)
    return format_date(when if is_day else local, to_text(shape) or _ISO_DAY)


def _instant(value: Any) -> datetime | None:
    """Convert ISO text, or milliseconds since 1970, to a moment."""
    if type(value) is int or type(value) is float:
        try:
            return EPOCH + timedelta(milliseconds=value)
        except (OverflowError, ValueError):
            return None
    return moment(value)


def ordinal(value: Any) -> str:
    """Format an integer as 1st, 2nd, 3rd, 4th; anything else as text."""
    known = number(value)
    known = None if known is None else settle(known)
    if type(known) is not int:
        return to_text(value)
    last, teens = abs(known) % 10, 10 < abs(known) % 100 < 14
    return f"{known}{'th' if teens else _ENDINGS.get(last, 'th')}"


_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def is_number(value: Any) -> bool:
    """Return whether a value is a number or numeric text."""
    return type(value) is not bool and number(value) is not None


def _is_array(value: Any) -> bool:
    return type(value) is list


def _is_string(value: Any) -> bool:
    return type(value) is str


def _length(value: Any) -> int:
    return len(value) if type(value) in (str, list) else 0


def _find(items: Any, field: Any, value: Any) -> int:
    names = to_text(field).split(".")
    for place, item in enumerate(cast("list[Any]", items) if type(items) is list else ()):
        for name in names:
            item = cast("dict[str, Any]", item)[name] if type(item) is dict and name in item else member(item, name)
        if equal(item, value):
            return place
    return -1


def _array_find(items: Any, field: Any, value: Any) -> Any:
    place = _find(items, field, value)
    return items[place] if place >= 0 else None


def _keys(value: Any) -> list[str]:
    return list(cast("dict[str, Any]", value)) if type(value) is dict else []


def _values(value: Any) -> list[Any]:
    return list(cast("dict[str, Any]", value).values()) if type(value) is dict else []


def _merge(*values: Any) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for value in values:
        if type(value) is dict:
            merged.update(cast("dict[str, Any]", value))
    return merged


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def now(run: ExpressionRun) -> str:
    """Return the current time as ISO 8601 text in UTC, to the millisecond."""
    return moment_text(run.clock.now())


def _now_ms(run: ExpressionRun) -> int:
    return int(run.clock.now().timestamp() * 1_000)


def _today(run: ExpressionRun) -> str:
    return now(run)[:10]


def unique_id(run: ExpressionRun, length: Any = 6) -> str:
    """Return `length` letters and digits from the source of ids. Not a secret."""
    count = max(1, min(_LONGEST_ID, _count(length) or 1))
    # One id per character is always enough.
    made = ""
    for _ in range(count):
        if len(made) >= count:
            break
        made = run.ids.new("unique").rpartition("_")[2] + made
    return made[-count:].rjust(count, "0")


def _table(*functions: Function) -> Mapping[str, Function]:
    return {function.name: function for function in functions}


def _of_text(change: Callable[[str], str]) -> Callable[[Any], str]:
    return lambda value: change(to_text(value))


def _money(run: ExpressionRun, value: Any, code: Any = "USD", locale: Any = "en-US") -> str | None:
    known = number(value)
    return None if known is None else check_text(format_money(known, to_text(code), to_text(locale)), run.bounds.text)


FUNCTIONS: Mapping[str, Function] = _table(
    Function("ADD", _plus, 2, 2),
    Function("SUB", subtract, 2, 2),
    Function("MUL", multiply, 2, 2),
    Function("DIV", divide, 2, 2),
    Function("ROUND", round_decimal, 1, 2),
    Function("ABS", _absolute, 1, 1),
    Function("MIN", _least, 1, None),
    Function("MAX", _most, 1, None),
    Function("UPPER", _of_text(str.upper), 1, 1),
    Function("LOWER", _of_text(str.lower), 1, 1),
    Function("TRIM", _of_text(str.strip), 1, 1),
    Function("SUBSTRING", _substring, 2, 3),
    Function("REPLACE", _replace, 3, 3, uses_run=True),
    Function("SPLIT", _split, 2, 2),
    Function("JOIN", _join, 1, 2, uses_run=True),
    Function("PAD_START", _pad_start, 2, 3, uses_run=True),
    Function("PAD_END", _pad_end, 2, 3, uses_run=True),
    Function("REPEAT", _repeat, 2, 2, uses_run=True),
    Function("MASK", mask, 2, 3),
    Function("FORMAT_CURRENCY", _money, 1, 3, uses_run=True),
    Function("FORMAT_DATE", format_instant, 1, 3),
    Function("ORDINAL", ordinal, 1, 1),
    Function("IS_ARRAY", _is_array, 1, 1),
    Function("IS_NUMBER", is_number, 1, 1),
    Function("IS_STRING", _is_string, 1, 1),
    Function("TO_NUMBER", number, 1, 1),
    Function("TO_STRING", to_text, 1, 1),
    Function("LENGTH", _length, 1, 1),
    Function("ARRAY_FIND", _array_find, 3, 3),
    Function("ARRAY_FIND_INDEX", _find, 3, 3),
    Function("OBJECT_KEYS", _keys, 1, 1),
    Function("OBJECT_VALUES", _values, 1, 1),
    Function("OBJECT_MERGE", _merge, 1, None),
    Function("COALESCE", _coalesce, 1, None),
    Function("NOW", now, 0, 0, uses_run=True),
    Function("NOW_MS", _now_ms, 0, 0, uses_run=True),
    Function("TODAY", _today, 0, 0, uses_run=True),
    Function("UNIQUE_ID", unique_id, 0, 1, uses_run=True),
)
"""All functions by name; the grammar ignores case."""
