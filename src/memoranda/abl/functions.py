"""The functions that ABL expressions may call: arguments of any type in, a value out, never an exception but a limit.

Each is written in capitals (`UPPER(name)`) or small behind `abl.` (`abl.upper(name)`). Numbers may come as text; text
functions read null as the empty text. What cannot be computed is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, cast
from zoneinfo import ZoneInfo

from memoranda.abl.expression.semantics import add, divide, equal, member, multiply, number, subtract
from memoranda.lang.expression.bounds import check_text
from memoranda.lang.expression.currency import format_money
from memoranda.lang.expression.dialect import Function, Run
from memoranda.lang.expression.scalars import moment, moment_word, settle
from memoranda.lang.expression.texts import date_word, joined, padding, repeated, replaced
from memoranda.lang.expression.wording import word
from memoranda.model.clock import EPOCH

_MASK = re.compile(r"(?:(?P<where>first|last)(?P<count>[0-9]{1,3})|(?P<head>[0-9]{1,3})\*(?P<tail>[0-9]{1,3}))")
_ISO_DAY = "YYYY-MM-DD"
_MOST_DIGITS = 15
_LONGEST_ID = 64


def _numbers(values: tuple[Any, ...]) -> list[int | float] | None:
    """Return arguments as numbers, those of a single list as well; None unless all of them are."""
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


def rounded(value: Any, digits: Any = 0) -> int | float | None:
    """Round half away from zero, in decimal: 2.675 to two digits is 2.68."""
    known, places = number(value), _count(digits)
    if known is None or places is None:
        return None
    places = max(-_MOST_DIGITS, min(_MOST_DIGITS, places))
    try:
        exact = Decimal(repr(known)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    except InvalidOperation:
        # More digits than a decimal context holds: there is nothing behind the point to round.
        return settle(known)
    return settle(float(exact)) if places > 0 else settle(int(exact))


def _count(value: Any) -> int | None:
    known = number(value)
    return None if known is None else int(max(-1e9, min(1e9, known)))


def _substring(text: Any, start: Any, end: Any = None) -> str:
    whole = word(text)
    first, last = (
        max(0, min(len(whole), _count(place) or 0)) if place is not None else len(whole) for place in (start or 0, end)
    )
    return whole[min(first, last) : max(first, last)]


def _replace(run: Run, text: Any, old: Any, new: Any) -> str:
    return replaced(word(text), word(old), word(new), longest=run.bounds.text)


def _split(text: Any, separator: Any) -> list[str]:
    whole, between = word(text), word(separator)
    return whole.split(between) if between else list(whole)


def _join(run: Run, items: Any, separator: Any = ",") -> str:
    if type(items) is not list:
        return word(items)
    return joined(map(word, cast("list[Any]", items)), word(separator), longest=run.bounds.text)


def _repeat(run: Run, text: Any, times: Any) -> str:
    return repeated(word(text), max(0, _count(times) or 0), longest=run.bounds.text)


def _padding(run: Run, text: Any, length: Any, fill: Any) -> tuple[str, str]:
    whole = word(text)
    return whole, padding((_count(length) or 0) - len(whole), word(fill), longest=run.bounds.text)


def _pad_start(run: Run, text: Any, length: Any, fill: Any = " ") -> str:
    whole, pad = _padding(run, text, length, fill)
    return pad + whole


def _pad_end(run: Run, text: Any, length: Any, fill: Any = " ") -> str:
    whole, pad = _padding(run, text, length, fill)
    return whole + pad


def masked(text: Any, shape: Any, fill: Any = "*") -> str:
    """Hide a text but for its first or last characters; a text too short to hide anything is hidden whole."""
    whole, mark = word(text), word(fill)[:1] or "*"
    found = _MASK.fullmatch(word(shape))
    head = tail = 0
    if found and found["where"] == "first":
        head = int(found["count"])
    elif found and found["where"] == "last":
        tail = int(found["count"])
    elif found:
        head, tail = int(found["head"]), int(found["tail"])
    hidden = len(whole) - head - tail
    return whole[:head] + mark * hidden + whole[len(whole) - tail :] if hidden > 0 else mark * len(whole)


def formatted_date(value: Any, shape: Any = _ISO_DAY, zone: Any = None) -> str | None:
    """Write a date by YYYY, MM, DD, HH, mm and ss, in the time zone of an IANA name; null for no date or no zone.

    A day without a time is the same day in every zone.
    """
    when = _instant(value)
    if when is None:
        return None
    try:
        local = when.astimezone(ZoneInfo(word(zone))) if zone is not None and word(zone) != "UTC" else when
    except (OSError, ValueError, OverflowError, KeyError):
        return None
    is_day = type(value) is str and len(value) == len(_ISO_DAY)
    return date_word(when if is_day else local, word(shape) or _ISO_DAY)


def _instant(value: Any) -> datetime | None:
    """Return ISO text, or milliseconds since 1970, as a moment."""
    if type(value) is int or type(value) is float:
        try:
            return EPOCH + timedelta(milliseconds=value)
        except (OverflowError, ValueError):
            return None
    return moment(value)


def ordinal(value: Any) -> str:
    """Write a whole number as 1st, 2nd, 3rd, 4th; anything else as it is."""
    known = number(value)
    known = None if known is None else settle(known)
    if type(known) is not int:
        return word(value)
    last, teens = abs(known) % 10, 10 < abs(known) % 100 < 14
    return f"{known}{'th' if teens else _ENDINGS.get(last, 'th')}"


_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def is_number(value: Any) -> bool:
    """Say whether a value is a number or a text that is one, as a user types it."""
    return type(value) is not bool and number(value) is not None


def _is_array(value: Any) -> bool:
    return type(value) is list


def _is_string(value: Any) -> bool:
    return type(value) is str


def _length(value: Any) -> int:
    return len(value) if type(value) in (str, list) else 0


def _find(items: Any, field: Any, value: Any) -> int:
    names = word(field).split(".")
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


def now(run: Run) -> str:
    """Return the present moment as ISO 8601 text in UTC, to the millisecond."""
    return moment_word(run.clock.now())


def unique_id(run: Run, length: Any = 6) -> str:
    """Return letters and digits from the source of ids: the end of an id, as long as was asked for. No secret."""
    count = max(1, min(_LONGEST_ID, _count(length) or 1))
    # Once for every character is enough, whatever the source of ids gives.
    made = ""
    for _ in range(count):
        if len(made) >= count:
            break
        made = run.ids.new("unique").rpartition("_")[2] + made
    return made[-count:].rjust(count, "0")


def _table(*functions: Function) -> Mapping[str, Function]:
    return {function.name: function for function in functions}


def _of_text(change: Callable[[str], str]) -> Callable[[Any], str]:
    return lambda value: change(word(value))


def _money(run: Run, value: Any, code: Any = "USD", locale: Any = "en-US") -> str | None:
    known = number(value)
    return None if known is None else check_text(format_money(known, word(code), word(locale)), run.bounds.text)


FUNCTIONS: Mapping[str, Function] = _table(
    Function("ADD", _plus, 2, 2),
    Function("SUB", subtract, 2, 2),
    Function("MUL", multiply, 2, 2),
    Function("DIV", divide, 2, 2),
    Function("ROUND", rounded, 1, 2),
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
    Function("MASK", masked, 2, 3),
    Function("FORMAT_CURRENCY", _money, 1, 3, uses_run=True),
    Function("FORMAT_DATE", formatted_date, 1, 3),
    Function("ORDINAL", ordinal, 1, 1),
    Function("IS_ARRAY", _is_array, 1, 1),
    Function("IS_NUMBER", is_number, 1, 1),
    Function("IS_STRING", _is_string, 1, 1),
    Function("TO_NUMBER", number, 1, 1),
    Function("TO_STRING", word, 1, 1),
    Function("LENGTH", _length, 1, 1),
    Function("ARRAY_FIND", _array_find, 3, 3),
    Function("ARRAY_FIND_INDEX", _find, 3, 3),
    Function("OBJECT_KEYS", _keys, 1, 1),
    Function("OBJECT_VALUES", _values, 1, 1),
    Function("OBJECT_MERGE", _merge, 1, None),
    Function("COALESCE", _coalesce, 1, None),
    Function("NOW", now, 0, 0, uses_run=True),
    Function("UNIQUE_ID", unique_id, 0, 1, uses_run=True),
)
"""All of them by name; the grammar finds them whatever the case."""
