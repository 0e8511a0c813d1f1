"""Connections for readers: each is used by one thread at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import RLock, get_ident
from time import monotonic, sleep
from typing import TypeVar
from weakref import WeakSet

from memoranda.store.sql.misuse import closed
from memoranda.store.sqlite.commit import GroupCommit
from memoranda.store.sqlite.connection import Connection, Settings, close, leak, open_reader
from memoranda.store.sqlite.rows import Rows

T = TypeVar("T")

MOST_IDLE = 32
"""Connections kept open while nobody reads; more are opened when needed and closed after."""


class ReaderPool:
    """Connections to a file. Readers wait neither for each other nor for the writer."""

    def __init__(self, settings: Settings, url: str) -> None:
        """Open nothing yet: the first reader will."""
        self._settings = settings
        self._url = url
        self._closed = False
        self._most_idle = MOST_IDLE
        self._idle: deque[Rows] = deque()
        self._open: WeakSet[Rows] = WeakSet()  # idle and in use; one that an interrupt lost closes itself
        self._opening = RLock()

    def glance(self, ask: Callable[[Rows], T]) -> T:
        """Ask one thing that nothing is kept in mind of; a single statement is a moment of its own."""
        rows = self._take()
        try:
            return ask(rows)
        finally:
            self._give_back(rows)

    def read(self, work: Callable[[Rows], T]) -> T:
        """Run work on one snapshot."""
        rows = self._take()
        try:
            rows.thread = get_ident()
            rows.connection.execute("BEGIN DEFERRED")
            return work(rows)
        finally:
            rows.thread = None
            rows.end_turn()
            rows.forget()
            if rows.connection.in_transaction:  # SQLite may have ended it itself, after an error
                rows.connection.execute("COMMIT")
            self._give_back(rows)

    def mark(self) -> tuple[Rows, int]:
        """Return who looked, and what it saw: for each connection SQLite counts the commits of all others."""
        rows = self._take()
        try:
            return rows, rows.connection.execute("PRAGMA data_version").get
        finally:
            self._give_back(rows)

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self._closed = True
        self._most_idle = 0
        self._trim(0)

    def suspend(self, deadline: float) -> bool:
        """Close every connection, and keep readers waiting until `resume`; False where some are in use for longer.

        This thread itself may be in the middle of a read: waiting for that would be in vain.
        """
        if any(rows.thread == get_ident() for rows in list(self._open)):
            return False
        if not self._opening.acquire(timeout=max(0.0, deadline - monotonic())):
            return False
        self._most_idle = 0
        self._trim(0, keep_log=True)
        while self._open and monotonic() < deadline:
            sleep(0.001)
        return not self._open

    def resume(self) -> None:
        """Let readers go on after `suspend`."""
        self._most_idle = 0 if self._closed else MOST_IDLE
        with suppress(RuntimeError):  # where it could not be had, or an interrupt came first
            self._opening.release()

    def abandon(self) -> None:
        """Never touch a connection again, in a forked process: they are the parent's."""
        self._closed = True
        for rows in self._open:
            leak(rows.connection)

    def _take(self) -> Rows:
        try:
            return self._idle.pop()
        except IndexError:
            with self._opening:
                if self._closed:
                    raise closed(self._url) from None
                rows = Rows(open_reader(self._settings), self._url)
                self._open.add(rows)
            return rows

    def _give_back(self, rows: Rows) -> None:
        self._idle.append(rows)
        # In this order: a close that misses these rows has already set the number that is read here.
        if len(self._idle) > self._most_idle:
            self._trim(self._most_idle, keep_log=not self._closed)

    def _trim(self, most: int, *, keep_log: bool = False) -> None:
        while len(self._idle) > most:
            try:
                rows = self._idle.popleft()
            except IndexError:
                return  # another thread took the last one
            close(rows.connection, keep_log=keep_log)
            self._open.discard(rows)


class SharedConnection:
    """The one connection of a database in memory, which has no second one: readers and the writer take turns."""

    def __init__(self, writer: GroupCommit, url: str) -> None:
        """Share the writer's connection."""
        self._writer = writer
        self._url = url
        self._idle: list[Rows] = []  # more than one only where a read reads again; the writer keeps others out

    def glance(self, ask: Callable[[Rows], T]) -> T:
        """Ask one thing that nothing is kept in mind of."""

        def look(connection: Connection) -> T:
            rows = self._take(connection)
            try:
                return ask(rows)
            finally:
                self._idle.append(rows)

        return self._writer.in_hand(look)

    def read(self, work: Callable[[Rows], T]) -> T:
        """Run work while nobody else writes. No BEGIN: inside a transaction's own work one is open already."""

        def look(connection: Connection) -> T:
            rows = self._take(connection)
            try:
                return work(rows)
            finally:
                rows.end_turn()
                rows.forget()
                self._idle.append(rows)

        return self._writer.in_hand(look)

    def mark(self) -> int:
        """Return how many rows the only connection has written."""
        return self._writer.in_hand(lambda connection: connection.total_changes())

    def _take(self, connection: Connection) -> Rows:
        return self._idle.pop() if self._idle else Rows(connection, self._url)

    def close(self) -> None:
        """Have nothing to close: the connection is the writer's."""
