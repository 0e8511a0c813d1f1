"""A clock and a source of ids that tests control."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta


class FakeClock:
    """A clock that stays at one moment until a test moves it, forwards or backwards.

    >>> clock = FakeClock()
    >>> clock.advance(1.5)
    >>> clock.now().isoformat()
    '2026-01-01T00:00:01.500000+00:00'
    """

    def __init__(self, start: datetime | None = None) -> None:
        """Start at `start`, or at the first moment of 2026; without a time zone it is in UTC."""
        self._lock = threading.Lock()
        self._moment = _utc(start or datetime(2026, 1, 1, tzinfo=UTC))

    def now(self) -> datetime:
        """Return the current moment of this clock, in UTC."""
        with self._lock:
            return self._moment

    def advance(self, seconds: float) -> None:
        """Move the clock by this many seconds; a negative number sets it back."""
        with self._lock:
            self._moment += timedelta(seconds=seconds)

    def set(self, moment: datetime) -> None:
        """Set the clock; without a time zone the moment is in UTC."""
        with self._lock:
            self._moment = _utc(moment)


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


class CountingIds:
    """Ids that count, separately for each kind.

    >>> ids = CountingIds()
    >>> ids.new("fact"), ids.new("fact"), ids.new("definition")
    ('fact_0001', 'fact_0002', '00000000-0000-4000-8000-000000000001')
    """

    def __init__(self) -> None:
        """Start each kind at one."""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def new(self, kind: str) -> str:
        """Return the next id of this kind; definitions get the shape of a UUID, as in `SystemIds`."""
        with self._lock:
            self._counts[kind] += 1
            count = self._counts[kind]
        return f"00000000-0000-4000-8000-{count:012d}" if kind == "definition" else f"{kind}_{count:04d}"
