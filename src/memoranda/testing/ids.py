"""Ids for tests: the same program gets the same ids each time."""

from __future__ import annotations

import threading
from collections import Counter


class CountingIds:
    """Ids that count, each kind for itself.

    >>> ids = CountingIds()
    >>> ids.new("fact"), ids.new("fact"), ids.new("definition")
    ('fact_0001', 'fact_0002', '00000000-0000-4000-8000-000000000001')
    """

    def __init__(self) -> None:
        """Begin each kind at one."""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def new(self, kind: str) -> str:
        """Return the next id of this kind; definitions get the shape of a UUID, as in `SystemIds`."""
        with self._lock:
            self._counts[kind] += 1
            count = self._counts[kind]
        return f"00000000-0000-4000-8000-{count:012d}" if kind == "definition" else f"{kind}_{count:04d}"
