"""Convert values to declared types, and check them against the rules of a field."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, cast

import msgspec

from memoranda.abl.understanding.answers import list_items
from memoranda.abl.understanding.choices import find_option
from memoranda.abl.understanding.dates import (
    ClockTime,
    find_days,
    find_times,
    iso_text,
    moment_at,
    next_day_at,
    read_moment,
)
from memoranda.abl.understanding.extraction import is_refused
from memoranda.abl.understanding.fields import Kind, Shape, read_shape
from memoranda.abl.understanding.numbers import read_number
from memoranda.abl.understanding.text_fields import EMAIL, is_phone
from memoranda.abl.understanding.vocabulary import NO, YES
from memoranda.abl.understanding.words import LONGEST, Utterance, fold
from memoranda.lang.expression.patterns import compile_pattern, search
from memoranda.lang.expression.values import to_text
from memoranda.model.text import quote

_MISFIT = (False, None)
_LONGEST_DATE = 64
_ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_Coercion = Callable[[Any, datetime], tuple[bool, Any]]


def coerce(value: Any, type: str | None, *, now: datetime) -> tuple[bool, Any]:
    """Return whether a value fits a type, and the value converted to it; unchanged if it does not fit.

    >>> from datetime import UTC
    >>> now = datetime(2026, 11, 2, tzinfo=UTC)
    >>> coerce("2", "number", now=now), coerce("12 May", "date", now=now), coerce("soon", "date", now=now)
    ((True, 2), (True, '2027-05-12'), (False, 'soon'))
    """
    shape = read_shape(type)
    if value is None:
        return shape.nullable or shape.kind in ("any", "null"), None
    fits, coerced = _coerce_list(value, shape, now) if shape.many else _coerce_one(value, shape, now)
    return (True, coerced) if fits else (False, value)


def _coerce_one(value: Any, shape: Shape, now: datetime) -> tuple[bool, Any]:
    if shape.kind == "choice":
        chosen = find_option(to_text(value), shape.choices) if isinstance(value, str | int | float) else None
        return chosen is not None, chosen
    for kind in (shape.kind, *shape.others):
        fits, coerced = _COERCIONS[kind](value, now)
        if fits and not (shape.whole and type(coerced) is not int):
            return True, coerced
    return _MISFIT


def _coerce_list(value: Any, shape: Shape, now: datetime) -> tuple[bool, Any]:
    items = _items(value)
    if items is None:
        return _MISFIT
    one = msgspec.structs.replace(shape, many=False)
    coerced = [_coerce_one(item, one, now) for item in items]
    return all(fits for fits, _ in coerced), [item for _, item in coerced]


def _items(value: Any) -> list[Any] | None:
    if isinstance(value, list | tuple):
        return list(cast("list[Any]", value))
    if isinstance(value, str):
        read = _from_json(value) if value.lstrip().startswith("[") else None
        return cast("list[Any]", read) if isinstance(read, list) else list_items(value)
    return None if isinstance(value, dict) else [value]


def _from_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


# --- one kind each --------------------------------------------------------------------------------------------------


def _as_it_is(value: Any, now: datetime) -> tuple[bool, Any]:
    return True, value


def _text(value: Any, now: datetime) -> tuple[bool, Any]:
    if isinstance(value, date):
        return True, value.isoformat()
    return (True, to_text(value)) if isinstance(value, str | int | float) else _MISFIT


def _number(value: Any, now: datetime) -> tuple[bool, Any]:
    if isinstance(value, str):
        value = read_number(value) if len(value) <= LONGEST else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return _MISFIT
    return True, int(value) if isinstance(value, float) and value.is_integer() else value


def _boolean(value: Any, now: datetime) -> tuple[bool, Any]:
    if isinstance(value, bool) or (isinstance(value, int | float) and value in (0, 1)):
        return True, bool(value)
    said = fold(value.strip().rstrip(".!")) if isinstance(value, str) and len(value) <= _LONGEST_DATE else ""
    return (True, said in YES or said == "1") if said in YES or said in NO or said in ("0", "1") else _MISFIT


def _date(value: Any, now: datetime) -> tuple[bool, Any]:
    if isinstance(value, str) and _ISO_DAY.fullmatch(value):
        try:
            return True, date.fromisoformat(value).isoformat()
        except ValueError:
            return _MISFIT
    found = _day_and_time(value, now)
    return (True, found[0].isoformat()) if found and found[0] else _MISFIT


def _datetime(value: Any, now: datetime) -> tuple[bool, Any]:
    if isinstance(value, datetime):
        return True, iso_text(value)
    exact = read_moment(value, now) if isinstance(value, str) and len(value) <= _LONGEST_DATE else None
    if exact is not None:
        return True, exact
    found = _day_and_time(value, now)
    if found is None:
        return _MISFIT
    day, clock_time = found
    if day is None:
        day = next_day_at(clock_time, now) if clock_time else None
    return (True, moment_at(day, clock_time, now)) if day else _MISFIT


def _time(value: Any, now: datetime) -> tuple[bool, Any]:
    found = find_times(Utterance(value)) if isinstance(value, str) and len(value) <= _LONGEST_DATE else []
    return (True, found[0].iso_text()) if len(found) == 1 else _MISFIT


def _day_and_time(value: Any, now: datetime) -> tuple[date | None, ClockTime | None] | None:
    if isinstance(value, datetime):
        return value.date(), None
    if isinstance(value, date):
        return value, None
    if not isinstance(value, str) or len(value) > _LONGEST_DATE:
        return None
    said = Utterance(value)
    days = [day for day in find_days(said, now.date()) if not is_refused(said.words, day.first, day.last)]
    times = [found for found in find_times(said) if not is_refused(said.words, found.first, found.last)]
    if len(days) > 1 or len(times) > 1 or not (days or times):
        return None
    day = days[0].settle(now.date()) if days else None
    return None if days and day is None else (day, times[0] if times else None)


def _email(value: Any, now: datetime) -> tuple[bool, Any]:
    said = value.strip() if isinstance(value, str) else ""
    return (True, said) if EMAIL.fullmatch(said) else _MISFIT


def _phone(value: Any, now: datetime) -> tuple[bool, Any]:
    said = " ".join(to_text(value).split()) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return (True, said) if is_phone(said) else _MISFIT


def _object(value: Any, now: datetime) -> tuple[bool, Any]:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _from_json(value)
    return (True, cast("Any", value)) if isinstance(value, dict) else _MISFIT


def _nothing(value: Any, now: datetime) -> tuple[bool, Any]:
    return value is None, None


_COERCIONS: dict[Kind, _Coercion] = {
    "any": _as_it_is,
    "text": _text,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
    "datetime": _datetime,
    "time": _time,
    "email": _email,
    "phone": _phone,
    "object": _object,
    "null": _nothing,
}


# --- rules ----------------------------------------------------------------------------------------------------------

_MOST_SHOWN = 12
_Rule = Callable[[Any, Any, datetime], str | None]


def validate(value: Any, rules: Mapping[str, Any], *, now: datetime) -> str | None:
    """Return None for a value that follows the rules, else one sentence for the user.

    Of a list each item is checked, of a range both ends. Unknown rules are ignored. A `message` among the rules
    replaces the sentence. An invalid pattern raises a `UsageError`.

    >>> from datetime import UTC
    >>> validate(7, {"min": 1, "max": 6}, now=datetime(2026, 11, 2, tzinfo=UTC))
    'It can be at most 6.'
    """
    complaint = _first_complaint(value, rules, now)
    if complaint is None:
        return None
    message = rules.get("message")
    return message if isinstance(message, str) and message else complaint


def _first_complaint(value: Any, rules: Mapping[str, Any], now: datetime) -> str | None:
    for name, bound in rules.items():
        given = (bound.strip(), True) if name == "rule" and isinstance(bound, str) else (name, bound)
        key = given[0].casefold()
        rule = _RULES.get(key)
        if rule is None or given[1] in (None, False, "false"):
            continue
        for part in _parts(value, key):
            complaint = rule(part, given[1], now)
            if complaint:
                return complaint
    return None


def _parts(value: Any, rule: str) -> list[Any]:
    """Return what a rule applies to: the items of a list, the ends of a range, or for a length the list itself."""
    if isinstance(value, list) and rule not in _LENGTHS:
        return cast("list[Any]", value)
    if isinstance(value, dict) and {"from", "to"} >= cast("dict[Any, Any]", value).keys():
        return [end for end in cast("dict[Any, Any]", value).values() if end is not None]
    return [value]


# --- bounds ---------------------------------------------------------------------------------------------------------


def _comparable(value: Any, bound: Any, now: datetime) -> tuple[Any, Any, str] | None:
    """Return value and bound in comparable form, and the bound as text; None if they cannot be compared."""
    known, number = coerce(bound, "number", now=now)
    if known:
        fits, given = coerce(value, "number", now=now)
        if fits:
            return given, number, to_text(number)
        return (len(value), number, f"{to_text(number)} characters") if isinstance(value, str) else None
    fits, given = coerce(value, "datetime", now=now)
    known, moment = coerce(bound, "datetime", now=now)
    if not fits or not known:
        return None
    shown = coerce(bound, "date", now=now)
    return _moment(given, now), _moment(moment, now), str(shown[1] if shown[0] else moment)


def _moment(written: str, now: datetime) -> datetime:
    moment = datetime.fromisoformat(written)
    return moment.replace(tzinfo=moment.tzinfo or now.tzinfo) if now.tzinfo else moment.replace(tzinfo=None)


def _at_least(value: Any, bound: Any, now: datetime) -> str | None:
    compared = _comparable(value, bound, now)
    return f"It must be at least {compared[2]}." if compared and compared[0] < compared[1] else None


def _at_most(value: Any, bound: Any, now: datetime) -> str | None:
    compared = _comparable(value, bound, now)
    return f"It can be at most {compared[2]}." if compared and compared[0] > compared[1] else None


def _length(value: Any) -> tuple[int, str]:
    if isinstance(value, list | tuple):
        return len(cast("list[Any]", value)), "entries"
    return len(to_text(value)), "characters"


def _long_enough(value: Any, bound: Any, now: datetime) -> str | None:
    length, unit = _length(value)
    known, least = coerce(bound, "integer", now=now)
    return f"It needs at least {least} {unit}." if known and length < least else None


def _short_enough(value: Any, bound: Any, now: datetime) -> str | None:
    length, unit = _length(value)
    known, most = coerce(bound, "integer", now=now)
    return f"It can have at most {most} {unit}." if known and length > most else None


def _whole(value: Any, bound: Any, now: datetime) -> str | None:
    return None if coerce(value, "integer", now=now)[0] else "Please give a whole number."


def _numeric(value: Any, bound: Any, now: datetime) -> str | None:
    return None if coerce(value, "number", now=now)[0] else "Please give a number."


def _positive(value: Any, bound: Any, now: datetime) -> str | None:
    fits, number = coerce(value, "number", now=now)
    return None if fits and number > 0 else "Please give a number above zero."


# --- forms ----------------------------------------------------------------------------------------------------------


def _one_of(value: Any, bound: Any, now: datetime) -> str | None:
    options = bound.split(",") if isinstance(bound, str) else bound
    if not isinstance(options, list | tuple) or value in cast("list[Any]", options):
        return None
    texts = tuple(to_text(option).strip() for option in cast("list[Any]", options))
    if find_option(to_text(value), texts) is not None:
        return None
    shown = ", ".join(texts[:_MOST_SHOWN]) + (", …" if len(texts) > _MOST_SHOWN else "")
    return f"Please choose one of these: {shown}."


def _is_email(value: Any, bound: Any, now: datetime) -> str | None:
    fits = isinstance(value, str) and EMAIL.fullmatch(value.strip())
    return None if fits else f"{quote(value, longest=40)} is not an e-mail address, such as ada@example.org."


def _is_phone(value: Any, bound: Any, now: datetime) -> str | None:
    fits = isinstance(value, str | int) and is_phone(to_text(value).strip())
    return None if fits else f"{quote(value, longest=40)} is not a telephone number, such as +44 20 7946 0958."


def _is_url(value: Any, bound: Any, now: datetime) -> str | None:
    fits = isinstance(value, str) and value.startswith(("http://", "https://")) and "." in value and " " not in value
    return None if fits else f"{quote(value, longest=40)} is not a web address, such as https://example.org."


def _like(value: Any, bound: Any, now: datetime) -> str | None:
    if not isinstance(bound, str):
        return None
    found = search(compile_pattern(bound), to_text(value))
    return f"{quote(value, longest=40)} does not have the right form." if found is None else None


def _day(value: Any, now: datetime) -> date | None:
    fits, written = coerce(value, "date", now=now)
    return date.fromisoformat(written) if fits else None


def _future(value: Any, bound: Any, now: datetime) -> str | None:
    day = _day(value, now)
    return None if day and day > now.date() else "Please give a day that is still to come."


def _past(value: Any, bound: Any, now: datetime) -> str | None:
    day = _day(value, now)
    return None if day and day < now.date() else "Please give a day that has passed."


_LENGTHS = frozenset({"min_length", "max_length", "minlength", "maxlength", "min_items", "max_items"})
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("min", "minimum", "min_value"), _at_least),
    **dict.fromkeys(("max", "maximum", "max_value"), _at_most),
    **dict.fromkeys(("min_length", "minlength", "min_items"), _long_enough),
    **dict.fromkeys(("max_length", "maxlength", "max_items"), _short_enough),
    **dict.fromkeys(("enum", "options", "values", "one_of"), _one_of),
    **dict.fromkeys(("pattern", "regex"), _like),
    **dict.fromkeys(("integer", "whole"), _whole),
    **dict.fromkeys(("future", "future_date", "in_future"), _future),
    **dict.fromkeys(("past", "past_date", "in_past"), _past),
    "number": _numeric,
    "positive": _positive,
    "email": _is_email,
    "phone": _is_phone,
    "url": _is_url,
}
