"""Time and identity: clocks, moments, durations and ids."""

from __future__ import annotations

import os
import re
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Annotated, Protocol

import msgspec

from memoranda.errors import InvalidDuration, UsageError
from memoranda.model.text import quote

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with a zone, in a record: without one it cannot be compared with others."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)


class Clock(Protocol):
    """A source of time as aware datetimes; tests pass one that they can move."""

    def now(self) -> datetime:
        """Return the present moment, aware of its zone."""
        ...


class SystemClock:
    """The machine's own clock, in UTC."""

    def now(self) -> datetime:
        """Return the present moment in UTC."""
        return datetime.now(UTC)


def utc_now(clock: Clock) -> datetime:
    """Return the present moment of a clock in UTC, whatever its own time zone."""
    return clock.now().astimezone(UTC)


def moment_after(previous: datetime | None, now: datetime) -> datetime:
    """Return now, or one tick after the previous moment if the clock has not moved on since."""
    return now if previous is None or now > previous else previous + _TICK


def to_micros(moment: datetime) -> int:
    """Turn an aware datetime into whole microseconds since 1970, the unit of stores."""
    since = moment - EPOCH
    # Several times as fast as dividing by a microsecond, and asked for a dozen times in a write.
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_micros(micros: int) -> datetime:
    """Turn stored microseconds back into a datetime in UTC."""
    return EPOCH + timedelta(microseconds=micros)


def parse_moment(moment: datetime | str) -> int:
    """Turn a datetime or ISO 8601 text into microseconds; without a zone it is read as UTC."""
    try:
        read = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        # In UTC, so that a moment outside the range of datetime is found here.
        return to_micros(read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC))
    except (ValueError, OverflowError, AttributeError):
        raise UsageError(
            f"{quote(moment)} is not a moment", hint="Write it as ISO 8601, such as 2026-04-30T16:20:00Z", value=moment
        ) from None


Duration = str | int | timedelta

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PATTERN = re.compile(r"([1-9][0-9]*)([smhdw])", re.ASCII)
LONGEST_DURATION = 100 * 366 * 86_400
"""A century in seconds. A longer time to live is a typo; facts without one are permanent."""


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
    if 0 < seconds <= LONGEST_DURATION:
        return seconds
    raise not_a_duration(duration)


def not_a_duration(given: object) -> InvalidDuration:
    """Return the error for a value that is not a duration, ready to be raised."""
    return InvalidDuration(
        f"{quote(given)} is not a duration between one second and a century",
        hint="Write a positive whole number and one unit, such as 90s, 15m, 24h, 30d or 2w",
        value=given,
    )


class Ids(Protocol):
    """A source of ids; tests pass one that counts."""

    def new(self, kind: str) -> str:
        """Return an id for a new thing of this kind, different from every other."""
        ...


class SystemIds:
    """Random ids that sort by the time they were made; definitions get UUIDs, as workflow files write them."""

    def new(self, kind: str) -> str:
        """Return `fact_019a8c…` for a fact, a UUID for a definition."""
        if kind == "definition":
            return str(uuid.uuid4())
        return f"{kind}_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"

    def new_many(self, kind: str, count: int) -> list[str]:
        """Return as many ids, for anything but definitions; asking the system once takes a third of the time."""
        begin, drawn = f"{kind}_{time.time_ns() // 1_000_000:012x}", os.urandom(10 * count).hex()
        return [begin + drawn[at : at + 20] for at in range(0, 20 * count, 20)]


def new_ids(ids: Ids, kind: str, count: int) -> list[str]:
    """Return as many ids of a source, in their order."""
    if type(ids) is SystemIds:
        return ids.new_many(kind, count)
    return [ids.new(kind) for _ in range(count)]
