"""A duration as a program writes it in, what is wrong with it out: the same words in every language."""

from __future__ import annotations

import re

from memoranda.errors import InvalidDuration
from memoranda.model.duration import parse_duration

_LOOSE = re.compile(r"\s*0*([1-9][0-9]{0,8})\s*([smhdw])[a-z]*\s*", re.IGNORECASE | re.ASCII)
_TIMED = re.compile(r"\s*([0-9]{1,9})\s*(ms|s|m|h|d)[a-z]*\s*", re.IGNORECASE | re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WEEK = 7


def refuse_duration(text: str, *, weeks: bool = True) -> str | None:
    """Return what to write in place of a text that is no duration, as a hint; None for one that is.

    >>> refuse_duration("30d") is None
    True
    >>> refuse_duration("30 days")
    'Did you mean `30d`?'
    """
    if _is_duration(text) and (weeks or not text.endswith("w")):
        return None
    units = "90s, 15m, 24h, 30d or 2w" if weeks else "90s, 15m, 24h or 30d"
    near = _LOOSE.fullmatch(text)
    if near:
        count, unit = int(near[1]), near[2].lower()
        meant = f"{count * _WEEK}d" if unit == "w" and not weeks else f"{count}{unit}"
        if _is_duration(meant):
            return f"Did you mean `{meant}`?"
    return f"Write a whole number and one unit, such as {units}; at most a century"


def meant_milliseconds(text: str) -> int | None:
    """Return how many milliseconds a duration in words or with a unit is; None for a text that is none.

    >>> meant_milliseconds("2 seconds")
    2000
    """
    near = _TIMED.fullmatch(text)
    return int(near[1]) * _MILLISECONDS[near[2].lower()] if near else None


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except InvalidDuration:
        return False
    return True
