"""The SQLite store: many readers and one writer at a time, in any number of threads and processes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from glob import iglob
from threading import RLock, get_ident
from time import monotonic, sleep
from types import TracebackType
from typing import TypeVar
from weakref import WeakSet

import apsw

from memoranda.model.probes import Remains
from memoranda.model.scope import Scope
from memoranda.store.base import Reader, Transaction
from memoranda.store.sql.errors import use_after_close, use_after_fork
from memoranda.store.sqlite.connection import (
    IN_MEMORY,
    Connection,
    Durability,
    Settings,
    SqliteRows,
    close,
    leak,
    open_reader,
)
from memoranda.store.sqlite.dialect import SQL
from memoranda.store.sqlite.errors import translate
from memoranda.store.sqlite.fork import track, untrack
from memoranda.store.sqlite.group_commit import GroupCommit

T = TypeVar("T")

MOST_IDLE = 32
"""Reading connections that stay open when idle; more are opened if needed and closed after use."""


class SqliteStore:
    """A store in a SQLite file, or in memory at `:memory:`.

    >>> with SqliteStore(":memory:") as store:
    ...     store.read(lambda rows: rows.tenants())
    []
    """

    waits = False
    keeps_portions = False

    def __init__(
        self,
        path: str,
        *,
        durability: Durability = "full",
        busy_timeout: float = 5.0,
        vfs: str | None = None,
    ) -> None:
        """Open the file, creating it if there is none and migrating it if it is old.

        With `durability="normal"`, a power cut may lose the last commits; a crash of the process never does.
        `busy_timeout` is how many seconds a write waits for other processes before it raises `Busy`.
        """
        self.url = path
        # Readers are opened later, and the program may change its working directory before that.
        full_path = path if path == IN_MEMORY else os.path.abspath(path)
        settings = Settings(path=full_path, durability=durability, busy_timeout=busy_timeout, vfs=vfs)
        self._pid = os.getpid()
        self._busy_timeout = busy_timeout
        self._opened = False
        self.path = full_path
        if path != IN_MEMORY:
            track(self)  # before opening it: another thread may fork meanwhile
        try:
            self._writer = GroupCommit(settings, path)
        except BaseException as error:
            untrack(self)
            if isinstance(error, apsw.Error):
                raise translate(error, path) from error
            raise
        self._readers = SharedConnection(self._writer, path) if path == IN_MEMORY else ReaderPool(settings, path)
        self._opened = True

    def transact(
        self, work: Callable[[Transaction], T], *, wait: bool = True, within: Sequence[Scope] | None = None
    ) -> T:
        """Run work in one transaction and return once it is durable. There is one writer, whatever works are within.

        Work may run in the thread of another caller with which it shares the commit. So it must not take a lock that
        its own caller holds, nor call `transact` again.
        """
        self._check_process()
        return self._writer.run(work, at_once=not wait)

    def read(self, work: Callable[[Reader], T], *, snapshot: bool = True) -> T:
        """Run work on one snapshot, or without one."""
        self._check_process()
        try:
            return self._readers.read(work) if snapshot else self._readers.query(work)
        except apsw.Error as error:
            raise translate(error, self.url) from error

    def settle(self, tenant: str) -> None:
        """Return at once: events are chained as they are appended."""

    def mark(self, tenant: str | None = None) -> Hashable:
        """Return a mark that changes whenever any process writes anything, or anything of a tenant."""
        self._check_process()
        try:
            if tenant is None:
                return self._readers.mark()
            # For a reader, every commit of this process looks like one of another; the writer knows its own.
            known, end = self._writer.ledger_end(tenant)
        except apsw.Error as error:
            raise translate(error, self.url) from error
        return end if known else self.read(lambda rows: rows.head(tenant), snapshot=False)

    def check(self) -> Sequence[str]:
        """Check every page and index; return what is wrong, in words."""
        self._check_process()
        found = [] if self.path == IN_MEMORY else _lost_files(self.path)
        try:
            lines = self._readers.read(_integrity)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            return [*found, str(error)]  # too damaged to be checked
        except apsw.Error as error:
            raise translate(error, self.url) from error
        return [*found, *(line for line in lines if line != "ok")]

    def warnings(self) -> Sequence[str]:
        """Return nothing: SQLite has no roles."""
        return []

    def holds_bytes(self, needle: bytes) -> bool | None:
        """Return whether any page of the database has these bytes, free ones included.

        The pages come from SQLite: a process that opens the file itself loses its locks when it closes it again.
        """
        self._check_process()
        try:
            return self._readers.read(lambda rows: needle in rows.connection.serialize("main"))
        except apsw.Error as error:
            raise translate(error, self.url) from error

    def notices(self) -> Sequence[str]:
        """Return nothing: a file is migrated as a whole, and has no partitions."""
        return []

    def reclaim(self, tenant: str) -> Remains:
        """Rewrite the file: writers of all tenants take turns in it anyway."""
        if self.scrub():
            return Remains()
        return Remains(free_space="remains", log="remains", reason="others are reading the file")

    def scrub(self, tenant: str | None = None) -> bool:
        """Rewrite the file, whatever tenant is named, and empty its log; return False if others are using it."""
        self._check_process()
        try:
            self._writer.run_alone(_rewrite)
        except (apsw.BusyError, apsw.LockedError):
            return False
        except apsw.Error as error:
            raise translate(error, self.url) from error
        return True

    def finish_migration(self) -> bool:
        """Return False: opening an older file migrates it at once, and refuses older programs."""
        return False

    def close(self) -> None:
        """Close all connections; in a forked child, which has none, do nothing."""
        if os.getpid() == self._pid:
            self._writer.close()  # first: it raises if it is called from inside a transaction
            self._readers.close()

    def suspend(self) -> bool:
        """Close all connections before a fork, and block callers until `resume`.

        Return False if that is not possible: this thread is inside a transaction, or others take longer than
        `busy_timeout`. Then the forked child will not be able to open the file.
        """
        deadline = monotonic() + self._busy_timeout
        readers = self._readers if self._opened else None
        return isinstance(readers, ReaderPool) and self._writer.suspend(deadline) and readers.suspend(deadline)

    def resume(self) -> None:
        """Unblock callers after `suspend`; connections are opened again when needed."""
        if self._opened and isinstance(self._readers, ReaderPool):
            self._readers.resume()
            self._writer.resume()

    def abandon(self) -> None:
        """Never use the connections again: this process was forked, and they are its parent's."""
        if self._opened and isinstance(self._readers, ReaderPool):
            self._writer.abandon()
            self._readers.abandon()

    def __enter__(self) -> SqliteStore:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    def _check_process(self) -> None:
        # SQLite's locks and caches belong to one process; a forked child that used them would damage the file.
        if os.getpid() != self._pid:
            raise use_after_fork(self.url)


class ReaderPool:
    """Reading connections to a file. Readers wait neither for each other nor for the writer."""

    def __init__(self, settings: Settings, url: str) -> None:
        """Open no connection yet."""
        self._settings = settings
        self._url = url
        self._closed = False
        self._most_idle = MOST_IDLE
        self._idle: deque[SqliteRows] = deque()
        self._open: WeakSet[SqliteRows] = WeakSet()  # idle or in use; one that an interrupt lost is garbage collected
        self._opening = RLock()

    def query(self, work: Callable[[SqliteRows], T]) -> T:
        """Run work without a transaction: each of its statements has a snapshot of its own."""
        rows = self._take()
        try:
            rows.thread = get_ident()
            return work(rows)
        finally:
            rows.thread = None
            rows.reset()
            self._give_back(rows)

    def read(self, work: Callable[[SqliteRows], T]) -> T:
        """Run work on one snapshot."""
        rows = self._take()
        try:
            rows.thread = get_ident()
            rows.connection.execute("BEGIN DEFERRED")
            return work(rows)
        finally:
            rows.thread = None
            rows.reset()
            if rows.connection.in_transaction:  # SQLite may have ended it itself, after an error
                rows.connection.execute("COMMIT")
            self._give_back(rows)

    def mark(self) -> tuple[SqliteRows, int]:
        """Return a connection and its `data_version`: SQLite counts, per connection, the commits of all others."""
        rows = self._take()
        try:
            return rows, rows.connection.execute("PRAGMA data_version").get
        finally:
            self._give_back(rows)

    def close(self) -> None:
        """Close idle connections now, the others after use."""
        self._closed = True
        self._most_idle = 0
        self._trim(0)

    def suspend(self, deadline: float) -> bool:
        """Close all connections and block readers until `resume`; return False if some are in use for too long.

        If this thread itself is inside a read, waiting would be pointless.
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
        """Unblock readers after `suspend`."""
        self._most_idle = 0 if self._closed else MOST_IDLE
        with suppress(RuntimeError):  # `suspend` did not get the lock, or was interrupted
            self._opening.release()

    def abandon(self) -> None:
        """Never use the connections again, in a forked process: they are the parent's."""
        self._closed = True
        for rows in self._open:
            leak(rows.connection)

    def _take(self) -> SqliteRows:
        try:
            return self._idle.pop()
        except IndexError:
            with self._opening:
                if self._closed:
                    raise use_after_close(self._url) from None
                rows = SqliteRows(open_reader(self._settings), self._url)
                self._open.add(rows)
            return rows

    def _give_back(self, rows: SqliteRows) -> None:
        self._idle.append(rows)
        # In this order: a `close` that misses these rows has already changed `_most_idle`.
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
    """The only connection of a database in memory, which readers share with the writer."""

    def __init__(self, writer: GroupCommit, url: str) -> None:
        """Use the writer's connection."""
        self._writer = writer
        self._url = url
        self._idle: list[SqliteRows] = []  # several only if a read reads again; the writer excludes other threads

    def read(self, work: Callable[[SqliteRows], T]) -> T:
        """Run work while no other thread writes. No BEGIN: called from a work, a transaction is already open."""

        def run(connection: Connection) -> T:
            rows = self._idle.pop() if self._idle else SqliteRows(connection, self._url)
            try:
                return work(rows)
            finally:
                rows.reset()
                self._idle.append(rows)

        return self._writer.run_reading(run)

    query = read

    def mark(self) -> int:
        """Return how many rows the connection has written."""
        return self._writer.run_reading(lambda connection: connection.total_changes())

    def close(self) -> None:
        """Do nothing: the connection is the writer's."""


def _lost_files(path: str) -> list[str]:
    """Name the processes that write to this file or its log after it was deleted or replaced.

    Their commits are lost when they end. Only Linux shows them, and only the processes of this user.
    """
    found: list[str] = []
    path = os.path.realpath(path)
    gone = {f"{path}{suffix} (deleted)": f"{path}{suffix}" for suffix in ("", "-wal")}
    for link in iglob("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(link)
        except OSError:
            continue  # the process has ended, or belongs to another user
        if target in gone:
            process = link.split("/")[2]
            found.append(f"process {process} writes to `{gone[target]}`, which was deleted: its commits will be lost")
    return sorted(set(found))


def _integrity(rows: SqliteRows) -> list[str]:
    return [line for (line,) in rows.connection.execute("PRAGMA integrity_check").fetchall()]


def _rewrite(connection: Connection) -> None:
    connection.execute(SQL["vacuum"])
    connection.wal_checkpoint(None, apsw.SQLITE_CHECKPOINT_TRUNCATE)
