"""Text such as `30d` in, seconds out."""

from __future__ import annotations

import re
from datetime import timedelta

from memoranda.errors import InvalidDuration
from memoranda.model.text import quote

Duration = str | int | timedelta

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PATTERN = re.compile(r"([1-9][0-9]*)([smhdw])", re.ASCII)
LONGEST = 100 * 366 * 86_400
"""A century in seconds. A longer time to live is a slip of the hand; leave it out to keep forever."""


def parse_duration(duration: Duration) -> int:
    """Turn `"90s"`, `"15m"`, `"24h"`, `"30d"`, `"2w"`, whole seconds or a timedelta into seconds.

    >>> parse_duration("2w")
    1209600
    """
    if isinstance(duration, str):
        match = _PATTERN.fullmatch(duration)
        seconds = int(match[1]) * _UNITS[match[2]] if match and len(duration) < 20 else 0
    elif isinstance(duration, timedelta):
        seconds = int(duration.total_seconds()) if duration.microseconds == 0 else 0
    elif isinstance(duration, bool):
        seconds = 0
    else:
        seconds = duration if isinstance(duration, int) else 0  # pyright: ignore[reportUnnecessaryIsInstance]
    if 0 < seconds <= LONGEST:
        return seconds
    raise not_a_duration(duration)


def not_a_duration(given: object) -> InvalidDuration:
    """Return the error for what is no duration, ready to be raised."""
    return InvalidDuration(
        f"{quote(given)} is not a duration between one second and a century",
        hint="Write a positive whole number and one unit, such as 90s, 15m, 24h, 30d or 2w",
        value=given,
    )
