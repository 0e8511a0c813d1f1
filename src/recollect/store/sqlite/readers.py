"""Questions from many threads in, each answered on a connection that nobody else uses meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from recollect.store.sql.misuse import closed
from recollect.store.sqlite.commit import GroupCommit
from recollect.store.sqlite.connection import Connection, Settings, close, open_reader
from recollect.store.sqlite.rows import Rows

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
        self._idle: deque[Rows] = deque()

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
            rows.connection.execute("BEGIN DEFERRED")
            return work(rows)
        finally:
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
        self._trim(0)

    def _take(self) -> Rows:
        try:
            return self._idle.pop()
        except IndexError:
            if self._closed:
                raise closed(self._url) from None
            return Rows(open_reader(self._settings), self._url)

    def _give_back(self, rows: Rows) -> None:
        idle = self._idle
        idle.append(rows)
        # In this order: a close that misses these rows has already set the flag that is read here.
        if self._closed:
            self._trim(0)
        elif len(idle) > MOST_IDLE:
            self._trim(MOST_IDLE)

    def _trim(self, most: int) -> None:
        while len(self._idle) > most:
            try:
                rows = self._idle.popleft()
            except IndexError:
                return  # another thread took the last one
            close(rows.connection)


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
