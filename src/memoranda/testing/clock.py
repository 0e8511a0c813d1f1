"""A clock for tests: it stands still until it is moved."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class FakeClock:
    """A clock that shows one moment until a test moves it, forwards or backwards.

    >>> clock = FakeClock()
    >>> clock.advance(1.5)
    >>> clock.now().isoformat()
    '2026-01-01T00:00:01.500000+00:00'
    """

    def __init__(self, start: datetime | None = None) -> None:
        """Begin at `start`, or at the first moment of 2026; without a zone it is read as UTC."""
        self._lock = threading.Lock()
        self._moment = _utc(start or datetime(2026, 1, 1, tzinfo=UTC))

    def now(self) -> datetime:
        """Return the moment shown, in UTC."""
        with self._lock:
            return self._moment

    def advance(self, seconds: float) -> None:
        """Move by this many seconds; a negative number is a clock that was set back."""
        with self._lock:
            self._moment += timedelta(seconds=seconds)

    def set(self, moment: datetime) -> None:
        """Show this moment; without a zone it is read as UTC."""
        with self._lock:
            self._moment = _utc(moment)


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
