"""Housekeeping of a server: sweeps of expired data and leftovers, and reloads of programs.

Every process has a housekeeper, but one sweeps at a time, across all servers of a database: a sweep is a job, and a
job is leased. What has expired is removed in small portions, with pauses between them for other writers.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

from memoranda.api.memory import Memory
from memoranda.api.transfer import remove_parts
from memoranda.engine.erasure import EndIdleSessions, IdleSessions, Sweep, Swept
from memoranda.errors import MemorandaError
from memoranda.model.clock import parse_duration, utc_now
from memoranda.model.scope import Scope
from memoranda.server.auth.keys import SYSTEM_TENANT
from memoranda.server.metrics import SWEPT_KINDS, Metrics
from memoranda.server.programs import Programs
from memoranda.server.settings import Settings

_log = logging.getLogger(__name__)

_KIND = "sweep"
_DOOR = "housekeeping"
_PORTION = 100
"""Rows of each kind that are removed in one transaction: a few milliseconds."""
_SHARE = 1.0
"""Seconds of pause after each second of work."""
_LONGEST = 120.0
"""Seconds of one sweep, far less than a lease; the next one continues at once."""
_LOOK = 0.5
"""Seconds between two looks whether programs are to be reloaded."""


class Housekeeper:
    """The thread of a server process that sweeps and reloads."""

    def __init__(self, settings: Settings, memory: Memory, metrics: Metrics, programs: Programs) -> None:
        """Take what it keeps in order."""
        self._settings = settings
        self._memory = memory
        self._metrics = metrics
        self._programs = programs
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memoranda-housekeeping", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, *, timeout: float) -> None:
        """Stop it after the portion that it removes now."""
        self._stop.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        every = self._settings.sweep_every
        look_every = min(every, 60.0)
        next_look = time.monotonic()
        while not self._stop.wait(_LOOK if not every else min(_LOOK, every)):
            self._attempt("reload", self._programs.refresh)
            if every and time.monotonic() >= next_look:
                next_look = time.monotonic() + look_every
                self._attempt("sweep", self._sweep)

    def _attempt(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            # The thread goes on: the database may be back for the next attempt.
            if what == "sweep":
                self._metrics.sweeps["failed"] += 1
            _log.exception("a %s failed", what)

    def _sweep(self) -> None:
        """Sweep if it is due and no other process does."""
        from memoranda.sleep.jobs import enqueue, fail, find_job, lease, put_off

        system = self._memory.in_tenant(SYSTEM_TENANT).through(_DOOR)
        scope = Scope(SYSTEM_TENANT)
        job = find_job(system, scope, _KIND) or enqueue(system, scope, _KIND, mark=1)
        taken = None if job is None else lease(system, job, worker=f"{socket.gethostname()}:{os.getpid()}")
        if taken is None:
            return
        try:
            swept, done = self._sweep_all()
        except MemorandaError as error:
            fail(system, taken, error, most_attempts=taken.attempts + 1)
            raise
        pause = self._settings.sweep_every if done else 0.0
        put_off(system, taken, until=utc_now(system.clock) + timedelta(seconds=pause), mark=taken.mark)
        self._metrics.sweeps["done"] += 1
        self._metrics.swept.update(swept)
        if any(swept.values()):
            _log.info("expired data was swept", extra={"fields": {kind: swept[kind] for kind in swept if swept[kind]}})

    def _sweep_all(self) -> tuple[Counter[str], bool]:
        """Return what was removed, and whether that was everything."""
        swept: Counter[str] = Counter()
        ends = time.monotonic() + _LONGEST
        for portion in self._portions():
            begun = time.monotonic()
            swept.update(portion())
            if self._stop.wait(min(_SHARE * (time.monotonic() - begun), 1.0)) or time.monotonic() > ends:
                return swept, False
        return swept, True

    def _portions(self) -> Iterator[Callable[[], Counter[str]]]:
        """Yield what is to be done, each a short piece of work."""
        for tenant in self._memory.tenants():
            yield from self._tenant_portions(self._memory.in_tenant(tenant).through(_DOOR))
        yield self._remove_files

    def _tenant_portions(self, memory: Memory) -> Iterator[Callable[[], Counter[str]]]:
        scope, more = Scope(memory.tenant), True

        def sweep() -> Counter[str]:
            nonlocal more
            found: Swept = memory.perform(Sweep(scope=scope, limit=_PORTION))
            more = found.more
            return Counter({kind: getattr(found, kind, 0) for kind in SWEPT_KINDS})

        while more:
            yield sweep
        if not self._settings.keep_sessions:
            return
        before = utc_now(memory.clock) - timedelta(seconds=parse_duration(self._settings.keep_sessions))
        after: str | None = None
        more = True

        def end_sessions() -> Counter[str]:
            nonlocal after, more
            found: IdleSessions = memory.perform(EndIdleSessions(scope=scope, before=before, after=after))
            after, more = found.after, found.after is not None
            return Counter({"sessions": found.ended})

        while more:
            yield end_sessions

    def _remove_files(self) -> Counter[str]:
        """Remove what killed exports left beside the database."""
        url = self._memory.url
        folder = Path(url).parent if url != ":memory:" and "://" not in url else None
        now = utc_now(self._memory.clock).timestamp()
        return Counter({"files": remove_parts(folder, now) if folder is not None and folder.is_dir() else 0})
