"""The clock of a test: it stands still until the test waits."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta


class ScriptClock:
    """A clock that shows one moment, and moves only by what a test waits."""

    def __init__(self, moment: str) -> None:
        """Begin at a moment in ISO 8601."""
        self._moment = datetime.fromisoformat(moment)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the moment shown."""
        return self._moment

    def wait(self, seconds: float) -> None:
        """Go on by so many seconds, at once."""
        with self._lock:
            self._moment += timedelta(seconds=seconds)
