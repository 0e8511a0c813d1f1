"""Who asks in; how long they have to wait, if at all, out: a token bucket for each key."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable

from recollect.errors import QuotaExceeded, UsageError
from recollect.model.text import quote

MOST = 10_000
"""Buckets that are kept. Full ones go first: who starts with a full one anew has lost nothing."""


class RateLimit:
    """So many requests a second for each key, and so many at once after a rest. Each worker process counts its own."""

    def __init__(self, rate: float, burst: int | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        """Allow `rate` requests a second; 0 allows any number. `burst` is twice the rate where it is not given."""
        if not (math.isfinite(rate) and rate >= 0):
            raise UsageError(f"{quote(rate)} is not a number of requests a second", hint="Use 0 for no limit")
        self._rate = rate
        self._room = float(burst or max(1, math.ceil(2 * rate)))
        self._now = now
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, who: Hashable) -> None:
        """Count a request, or refuse it saying how long to wait."""
        if not self._rate:
            return
        now = self._now()
        left, since = self._buckets.get(who, (self._room, now))
        left = min(self._room, left + (now - since) * self._rate)
        if left < 1:
            wait = (1 - left) / self._rate
            raise QuotaExceeded(
                f"more than {self._rate:g} requests a second with one key",
                hint=f"Wait {wait:.3g} s",
                retry_after=wait,
            )
        if who not in self._buckets and len(self._buckets) >= MOST:
            self._make_room(now)
        self._buckets[who] = (left - 1, now)

    def _make_room(self, now: float) -> None:
        full = [who for who, (left, since) in self._buckets.items() if left + (now - since) * self._rate >= self._room]
        for who in full or list(self._buckets)[: MOST // 10]:
            del self._buckets[who]
