"""A value and the rules of its field in; a sentence about what is wrong with it, or None, out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, cast

from memoranda.abl.understanding.choices import find_option
from memoranda.abl.understanding.coercion import coerce
from memoranda.abl.understanding.contacts import EMAIL, is_phone
from memoranda.lang.expression.patterns import compile_pattern, search
from memoranda.lang.expression.wording import word
from memoranda.model.text import quote

_MOST_SHOWN = 12
_Rule = Callable[[Any, Any, datetime], str | None]


def validate(value: Any, rules: Mapping[str, Any], *, now: datetime) -> str | None:
    """Return None for a value that keeps the rules, else one sentence for the user.

    Of a list each item is checked, of a range both ends. Rules that nobody knows are left to others. `message` is said
    instead of the sentence, if there is one. A pattern that cannot be used raises a `UsageError`.

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
    """Return what a rule looks at: the items of a list and the ends of a range, but a list itself for its length."""
    if isinstance(value, list) and rule not in _LENGTHS:
        return cast("list[Any]", value)
    if isinstance(value, dict) and {"from", "to"} >= cast("dict[Any, Any]", value).keys():
        return [end for end in cast("dict[Any, Any]", value).values() if end is not None]
    return [value]


# --- bounds ---------------------------------------------------------------------------------------------------------


def _comparable(value: Any, bound: Any, now: datetime) -> tuple[Any, Any, str] | None:
    """Return value and bound as things that can be compared, and the bound for people; None if they cannot be."""
    known, number = coerce(bound, "number", now=now)
    if known:
        fits, given = coerce(value, "number", now=now)
        if fits:
            return given, number, word(number)
        return (len(value), number, f"{word(number)} characters") if isinstance(value, str) else None
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
    return len(word(value)), "characters"


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
    texts = tuple(word(option).strip() for option in cast("list[Any]", options))
    if find_option(word(value), texts) is not None:
        return None
    shown = ", ".join(texts[:_MOST_SHOWN]) + (", …" if len(texts) > _MOST_SHOWN else "")
    return f"Please choose one of these: {shown}."


def _is_email(value: Any, bound: Any, now: datetime) -> str | None:
    fits = isinstance(value, str) and EMAIL.fullmatch(value.strip())
    return None if fits else f"{quote(value, longest=40)} is not an e-mail address, such as ada@example.org."


def _is_phone(value: Any, bound: Any, now: datetime) -> str | None:
    fits = isinstance(value, str | int) and is_phone(word(value).strip())
    return None if fits else f"{quote(value, longest=40)} is not a telephone number, such as +44 20 7946 0958."


def _is_url(value: Any, bound: Any, now: datetime) -> str | None:
    fits = isinstance(value, str) and value.startswith(("http://", "https://")) and "." in value and " " not in value
    return None if fits else f"{quote(value, longest=40)} is not a web address, such as https://example.org."


def _like(value: Any, bound: Any, now: datetime) -> str | None:
    if not isinstance(bound, str):
        return None
    found = search(compile_pattern(bound), word(value))
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
