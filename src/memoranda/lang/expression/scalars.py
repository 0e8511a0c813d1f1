"""Results of arithmetic and ISO text in, numbers that JSON can hold and moments in UTC out."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any

LARGEST = 2**63 - 1
"""The largest whole number that is kept exactly."""
_EXACT = 2**53
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)


def settle(result: int | float) -> int | float | None:
    """Return a result that JSON can hold: whole floats as integers, none beyond 64 bits, no infinity, no NaN."""
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
    """Return an ISO 8601 date or time as a moment in UTC; without a zone it is read as UTC. None for other values."""
    if type(value) is not str or not _DATE.fullmatch(value):
        return None
    try:
        read = datetime.fromisoformat(value)
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def moment_word(when: datetime) -> str:
    """Return a moment as ISO 8601 text in UTC, to the millisecond."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
