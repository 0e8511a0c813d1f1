"""Commits in, whether the next one waits for others to join it, and for how long, out.

Threads that write again and again come back a moment after a commit has let them go. One commit for all of them is
cheaper than two for half of them each, so whoever leads may wait for those who wrote a moment ago. Three rules keep
that from costing more than it saves. A lone writer never waits. Waiting ends when nobody came for half as long as a
commit takes. And where not all came, the next chances to wait are let go by: twice as many as the last time, and half
as many again for each time that all did come.
"""

from __future__ import annotations

from collections.abc import Sized
from threading import Lock

SHORTEST = 50e-6
"""Seconds: a commit that takes less is not worth sharing, and timers are not much finer."""

MOST_LET_GO = 64
"""Chances to wait that are let go by, at most, before it is tried again."""


class Company:
    """Those who are expected to join the next commit. Everything but `wait` is for whoever holds the writer's door."""

    def __init__(self) -> None:
        """Expect nobody."""
        self._regulars = 0  # how many wrote around the last commit: in it, or queued while it was under way
        self._took = 0.0
        self._patience = 0.0
        self._expected = 0  # how many end the waiting; 0 while nobody waits
        self._let_go = 0
        self._penalty = 1
        self._all_here = Lock()  # whoever waits sleeps on it; open once all have come
        self._all_here.acquire()

    @property
    def commit_takes(self) -> float:
        """The seconds that a commit takes, by the quicker of the last two; 0 before there were any."""
        return 2 * self._patience

    def committed(self, *, together: int, meanwhile: int, seconds: float) -> None:
        """Note that so many were committed together, that so many queued meanwhile, and how long it took."""
        self._regulars = together + meanwhile
        # Of two, because now and then a commit takes many times longer: it moves the log into the file.
        self._patience = min(seconds, self._took) / 2
        self._took = seconds

    def worth_waiting(self, present: int) -> bool:
        """Say whether to wait for more than those who are here, and get ready for them."""
        if present >= self._regulars or self._patience < SHORTEST / 2:
            return False
        if self._let_go:
            self._let_go -= 1
            return False
        self._expected = self._regulars
        return True

    def joined(self, present: int) -> None:
        """Note that somebody came; the last who is expected ends the waiting."""
        if present == self._expected and self._all_here.locked():
            self._all_here.release()

    def wait(self, queue: Sized) -> None:
        """Sleep until all have come to the queue, or nobody comes any more."""
        before = len(queue)
        while not self._all_here.acquire(timeout=self._patience) and len(queue) > before:
            before = len(queue)

    def stop_waiting(self, present: int) -> None:
        """Note that the waiting has ended, and learn from it."""
        if present >= self._expected:
            self._penalty = max(self._penalty // 2, 1)
        else:
            self._penalty = self._let_go = min(2 * self._penalty, MOST_LET_GO)
        self._expected = 0
        self._all_here.acquire(blocking=False)
