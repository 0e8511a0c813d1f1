"""A value and a declared type in; whether it fits, and the value as declared, out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, cast

import msgspec

from memoranda.abl.understanding.answers import listed
from memoranda.abl.understanding.choices import find_option
from memoranda.abl.understanding.contacts import EMAIL, is_phone
from memoranda.abl.understanding.days import find_days
from memoranda.abl.understanding.numbers import read_number
from memoranda.abl.understanding.reading import refused
from memoranda.abl.understanding.shapes import Kind, Shape, read_shape
from memoranda.abl.understanding.times import Clocked, at, find_times, iso, next_at, read_moment
from memoranda.abl.understanding.vocabulary import NO, YES
from memoranda.abl.understanding.words import LONGEST, Said, fold
from memoranda.lang.expression.wording import word

_MISFIT = (False, None)
_LONGEST_DATE = 64
_ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_Coercion = Callable[[Any, datetime], tuple[bool, Any]]


def coerce(value: Any, type: str | None, *, now: datetime) -> tuple[bool, Any]:
    """Return whether a value fits a type, and the value as that type declares it; as it was if it does not fit.

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
        chosen = find_option(word(value), shape.choices) if isinstance(value, str | int | float) else None
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
        return cast("list[Any]", read) if isinstance(read, list) else listed(value)
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
    return (True, word(value)) if isinstance(value, str | int | float) else _MISFIT


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
        return True, iso(value)
    exact = read_moment(value, now) if isinstance(value, str) and len(value) <= _LONGEST_DATE else None
    if exact is not None:
        return True, exact
    found = _day_and_time(value, now)
    if found is None:
        return _MISFIT
    day, clocked = found
    if day is None:
        day = next_at(clocked, now) if clocked else None
    return (True, at(day, clocked, now)) if day else _MISFIT


def _time(value: Any, now: datetime) -> tuple[bool, Any]:
    found = find_times(Said(value)) if isinstance(value, str) and len(value) <= _LONGEST_DATE else []
    return (True, found[0].iso()) if len(found) == 1 else _MISFIT


def _day_and_time(value: Any, now: datetime) -> tuple[date | None, Clocked | None] | None:
    if isinstance(value, datetime):
        return value.date(), None
    if isinstance(value, date):
        return value, None
    if not isinstance(value, str) or len(value) > _LONGEST_DATE:
        return None
    said = Said(value)
    days = [day for day in find_days(said, now.date()) if not refused(said.words, day.first, day.last)]
    times = [found for found in find_times(said) if not refused(said.words, found.first, found.last)]
    if len(days) > 1 or len(times) > 1 or not (days or times):
        return None
    day = days[0].settle(now.date()) if days else None
    return None if days and day is None else (day, times[0] if times else None)


def _email(value: Any, now: datetime) -> tuple[bool, Any]:
    said = value.strip() if isinstance(value, str) else ""
    return (True, said) if EMAIL.fullmatch(said) else _MISFIT


def _phone(value: Any, now: datetime) -> tuple[bool, Any]:
    said = " ".join(word(value).split()) if isinstance(value, str | int) and not isinstance(value, bool) else ""
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
