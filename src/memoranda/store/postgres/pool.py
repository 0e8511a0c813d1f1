"""Questions from many threads in, each asked on a connection that nobody else uses meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Lock, Semaphore

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper

from memoranda.errors import Busy
from memoranda.store.postgres.address import Settings
from memoranda.store.postgres.rights import Rights
from memoranda.store.postgres.rows import Connection, Rows
from memoranda.store.sql.misuse import closed

MOST = 16
"""Connections of one process: several processes share what a server gives, which is 100 unless somebody says more."""

_STATEMENTS = 256
"""Statements that a connection keeps prepared."""


class Pool:
    """Connections to a database: opened when needed, kept until the pool is closed, replaced when they are lost."""

    def __init__(self, settings: Settings) -> None:
        """Open nothing yet: the first caller will."""
        self._settings = settings
        self._rights = Rights(settings.url)
        self._idle: deque[Rows] = deque()
        self._room = Semaphore(MOST)
        self._door = Lock()
        self._closed = False

    @contextmanager
    def rows(self) -> Generator[Rows]:
        """Give out a connection to whoever asks, and take it back whole or not at all."""
        if not self._room.acquire(timeout=self._settings.busy_timeout):
            raise Busy(
                f"`{self._settings.url}`: all {MOST} connections of this process are in use",
                hint="Try again; give busy_timeout more seconds, or use fewer threads",
                url=self._settings.url,
            )
        try:
            rows = self._take()
            try:
                yield rows
            finally:
                rows.end()
                self._give_back(rows)
        finally:
            self._room.release()

    def distrust(self) -> None:
        """Close what is idle: one connection was lost, and the others most likely with it."""
        with self._door:
            doubtful = list(self._idle)
            self._idle.clear()
        for rows in doubtful:
            _close(rows.connection)

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self._closed = True
        self.distrust()

    def _take(self) -> Rows:
        if self._closed:
            raise closed(self._settings.url)
        with self._door:
            if self._idle:
                return self._idle.pop()
        return Rows(self._connect(), self._settings.url, self._rights)

    def _give_back(self, rows: Rows) -> None:
        sound = rows.connection.info.transaction_status == TransactionStatus.IDLE
        with self._door:
            if sound and not self._closed:
                self._idle.append(rows)
                return
        _close(rows.connection)

    def _connect(self) -> Connection:
        connection = psycopg.connect(
            **self._settings.parameters, autocommit=True, prepare_threshold=2, cursor_factory=psycopg.RawCursor
        )
        connection.prepared_max = _STATEMENTS
        # All our numbers are BIGINT; told apart by their size, they would make many statements of one.
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        return connection


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.close()
