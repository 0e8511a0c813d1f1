"""Connections to SQLite, set up as the store needs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol, cast

import apsw
import msgspec

Durability = Literal["full", "normal"]

IN_MEMORY = ":memory:"

_STATEMENTS = 256
"""Statements kept prepared. APSW lets go of what was not among the last so many that ran, and one conversation runs
more than the 100 that it keeps by itself."""

LONGEST_LOG = 4_000
"""Pages in the log before it is moved into the file: 16 MB. Pages that are written again and again are then moved once
instead of four times, and its directory is still one piece, so that readers find a page with one look."""


class Cursor(Protocol):
    """What the store uses of `apsw.Cursor`."""

    @property
    def get(self) -> Any:
        """The one row of a statement that finds at most one."""
        ...

    def execute(self, statements: str, bindings: Sequence[Any] | None = None, /) -> Cursor:
        """Run statements with values bound by place."""
        ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Sequence[Any]], /) -> Cursor:
        """Run statements once for each of these values."""
        ...

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that are left."""
        ...


class Copying(Protocol):
    """What the store uses of `apsw.Backup`."""

    def step(self, npages: int = -1, /) -> bool:
        """Copy so many pages, or all."""
        ...

    def __enter__(self) -> Copying:
        """Return the copying itself."""
        ...

    def __exit__(self, *raised: object) -> bool | None:
        """End it."""
        ...


class Connection(Protocol):
    """What the store uses of `apsw.Connection`, whose own types name a `Buffer` that Python 3.11 does not have."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def execute(self, statements: str, bindings: Sequence[Any] | None = None, /) -> Cursor:
        """Run statements with values bound by place."""
        ...

    def cursor(self) -> Cursor:
        """Return something to run statements with again and again."""
        ...

    def pragma(self, name: str, value: Any = None, /) -> Any:
        """Return a setting, or change it."""
        ...

    def changes(self) -> int:
        """Return how many rows the last statement wrote."""
        ...

    def total_changes(self) -> int:
        """Return how many rows were written since it was opened."""
        ...

    def last_insert_rowid(self) -> int:
        """Return the number that the newest row was given."""
        ...

    def set_busy_timeout(self, milliseconds: int, /) -> None:
        """Wait so long for another process that writes."""
        ...

    def backup(self, databasename: str, sourceconnection: Any, sourcedatabasename: str, /) -> Copying:
        """Begin to copy all of another database into this one."""
        ...

    def wal_checkpoint(self, dbname: str | None = None, mode: int = ..., /) -> tuple[int, int]:
        """Move the log into the file."""
        ...

    def config(self, op: int, /, *values: Any) -> Any:
        """Change one of SQLite's settings for this connection."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How the connections of one store are opened."""

    path: str
    durability: Durability
    busy_timeout: float
    vfs: str | None


def open_writer(settings: Settings, *, create: bool = True) -> Connection:
    """Open the one connection that writes, making the file when there is none; touch nothing in it yet."""
    connection = _open(settings, apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0))
    # FULL syncs the log at every commit, so what was acknowledged survives a power cut; NORMAL only at checkpoints.
    connection.pragma("synchronous", settings.durability)
    connection.pragma("wal_autocheckpoint", LONGEST_LOG)
    connection.pragma("secure_delete", True)  # removed content is overwritten, not left in free pages
    connection.pragma("cache_size", -8_000)  # the system keeps the file in memory too: more would be kept twice
    return connection


def open_reader(settings: Settings) -> Connection:
    """Open a connection that only reads.

    It must still be able to write the wal-index, hence READWRITE; without CREATE, so that a reader opened
    after somebody removed the file says so instead of starting an empty one.
    """
    connection = _open(settings, apsw.SQLITE_OPEN_READWRITE)
    connection.pragma("query_only", True)
    connection.pragma("cache_size", -4_000)
    return connection


def close(connection: Connection, *, keep_log: bool = False) -> None:
    """Close a connection. That cannot fail in a way that matters: what was acknowledged is durable by now.

    The last connection to close moves the log into the file and removes it, unless it is told to keep it.
    """
    with suppress(apsw.Error):
        if keep_log:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()


def leak(connection: Connection) -> None:
    """Keep a connection from ever being closed, which happens when nothing refers to it any more.

    Closing would roll back and unlock in memory that a forked process shares with its parent.
    """
    with suppress(ImportError):  # a Python without ctypes
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _open(settings: Settings, flags: int) -> Connection:
    # NOMUTEX: a connection is only ever used by the thread that took it from the pool or holds the write lock.
    flags |= apsw.SQLITE_OPEN_NOMUTEX
    opened = apsw.Connection(settings.path, flags, settings.vfs, statementcachesize=_STATEMENTS)
    opened.set_busy_timeout(int(settings.busy_timeout * 1000))
    # Without this SQLite plans a statement anew whenever its values change, which costs more than running it.
    opened.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection = cast(Connection, opened)
    connection.pragma("trusted_schema", False)  # a file from elsewhere cannot make us run its functions
    connection.pragma("cell_size_check", True)  # damaged pages are noticed where they are read
    return connection
