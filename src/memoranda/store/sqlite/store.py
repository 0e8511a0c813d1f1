"""The store in one SQLite file: many readers at once, one writer at a time, shared by threads and processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from glob import iglob
from time import monotonic
from types import TracebackType
from typing import TypeVar

import apsw

from memoranda.model.collection import Collection
from memoranda.model.entry import Shelf, ShelfState
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.store.base import Reader, Transaction
from memoranda.store.sql.misuse import forked
from memoranda.store.sqlite import fork
from memoranda.store.sqlite.commit import GroupCommit
from memoranda.store.sqlite.connection import IN_MEMORY, Connection, Durability, Settings
from memoranda.store.sqlite.errors import translate
from memoranda.store.sqlite.queries import SQL
from memoranda.store.sqlite.readers import ReaderPool, SharedConnection
from memoranda.store.sqlite.rows import Rows

T = TypeVar("T")


class SqliteStore:
    """A store in a SQLite file, or in memory at `:memory:`.

    >>> with SqliteStore(":memory:") as store:
    ...     store.read(lambda rows: rows.tenants())
    []
    """

    waits = False

    def __init__(
        self,
        path: str,
        *,
        durability: Durability = "full",
        busy_timeout: float = 5.0,
        vfs: str | None = None,
    ) -> None:
        """Open the file, making it where there is none and migrating it where it is old.

        `durability="normal"` may lose the last commits in a power cut, never in a crash of the process.
        `busy_timeout` is how many seconds a write waits for other processes before it gives up as `Busy`.
        """
        self.url = path
        # Readers are opened later, perhaps after the program has changed its directory.
        full_path = path if path == IN_MEMORY else os.path.abspath(path)
        settings = Settings(path=full_path, durability=durability, busy_timeout=busy_timeout, vfs=vfs)
        self._pid = os.getpid()
        self._busy_timeout = busy_timeout
        self._opened = False
        self.path = full_path
        if path != IN_MEMORY:
            fork.track(self)  # before it is opened: another thread may fork meanwhile
        try:
            self._writer = GroupCommit(settings, path)
        except BaseException as error:
            fork.untrack(self)
            if isinstance(error, apsw.Error):
                raise translate(error, path) from error
            raise
        self._readers = SharedConnection(self._writer, path) if path == IN_MEMORY else ReaderPool(settings, path)
        self._opened = True

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run work in one transaction and return once it is durable.

        Work may run in the thread of another caller with whom it shares the commit. So it must not take a lock
        that its own caller holds, nor call `transact` again.
        """
        self._check_process()
        return self._writer.run(work)

    def attempt(self, work: Callable[[Transaction], T]) -> T:
        """Run work in one transaction, unless that means waiting for another writer or for a slow disk."""
        self._check_process()
        return self._writer.run(work, at_once=True)

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run work on one consistent moment."""
        self._check_process()
        try:
            return self._readers.read(work)
        except apsw.Error as error:
            raise translate(error, self.url) from error

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact at this key, expired or not."""
        return self._glance(lambda rows: rows.fact(scope, key))

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return what tells this state of a shelf from any other."""
        return self._glance(lambda rows: rows.shelf_state(shelf))

    def collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection."""
        return self._glance(lambda rows: rows.find_collection(tenant, name))

    def mark(self, tenant: str | None = None) -> Hashable:
        """Return a mark that is another one once anybody, in any process, has written anything; or to that tenant."""
        self._check_process()
        try:
            if tenant is not None:
                # What this process writes elsewhere makes every reader look anew, but not the one who wrote it.
                known, end = self._writer.ledger_end(tenant)
                return end if known else self._readers.glance(lambda rows: rows.find_head(tenant))
            return self._readers.mark()
        except apsw.Error as error:
            raise translate(error, self.url) from error

    def check(self) -> Sequence[str]:
        """Look at every page and index; return what is wrong, in words."""
        self._check_process()
        found = [] if self.path == IN_MEMORY else _lost_files(self.path)
        try:
            lines = self._readers.read(_integrity)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            return [*found, str(error)]  # too damaged even to be looked through
        except apsw.Error as error:
            raise translate(error, self.url) from error
        return [*found, *(line for line in lines if line != "ok")]

    def warnings(self) -> Sequence[str]:
        """Return nothing: SQLite has no roles, and the rights are those of the file."""
        return []

    def scrub(self) -> bool:
        """Rewrite the file and empty its log; say False when others use the database just now."""
        self._check_process()
        try:
            self._writer.alone(_rewrite)
        except (apsw.BusyError, apsw.LockedError):
            return False
        except apsw.Error as error:
            raise translate(error, self.url) from error
        return True

    def close(self) -> None:
        """Let go of the file. In a forked child there is nothing to let go of: the parent's store stays whole."""
        if os.getpid() == self._pid:
            self._writer.close()  # first, because it refuses when called from inside a transaction's own work
            self._readers.close()

    def suspend(self) -> bool:
        """Close every connection for a fork, and keep callers waiting until `resume`.

        Return False where that cannot be: this thread is in the middle of a transaction, or others take longer than
        `busy_timeout`. Then the child of the fork will not be able to open the file.
        """
        deadline = monotonic() + self._busy_timeout
        readers = self._readers if self._opened else None
        return isinstance(readers, ReaderPool) and self._writer.suspend(deadline) and readers.suspend(deadline)

    def resume(self) -> None:
        """Let callers go on after `suspend`; connections are opened again when they are needed."""
        if self._opened and isinstance(self._readers, ReaderPool):
            self._readers.resume()
            self._writer.resume()

    def abandon(self) -> None:
        """Never touch the file again: this process was forked, and the store is its parent's."""
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

    def _glance(self, ask: Callable[[Rows], T]) -> T:
        """Ask one thing."""
        self._check_process()
        try:
            return self._readers.glance(ask)
        except apsw.Error as error:
            raise translate(error, self.url) from error

    def _check_process(self) -> None:
        # SQLite's locks and caches belong to the process that took them; a child that used them would do damage.
        if os.getpid() != self._pid:
            raise forked(self.url)


def _lost_files(path: str) -> list[str]:
    """Return which processes write to this database or its log after the file was deleted or replaced.

    What they commit is lost when they end. Linux tells, of the processes that this user may look into.
    """
    found: list[str] = []
    path = os.path.realpath(path)
    gone = {f"{path}{suffix} (deleted)": f"{path}{suffix}" for suffix in ("", "-wal")}
    for link in iglob("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(link)
        except OSError:
            continue  # it has ended, or is another user's
        if target in gone:
            process = link.split("/")[2]
            found.append(f"process {process} writes to `{gone[target]}`, which was deleted: its commits will be lost")
    return sorted(set(found))


def _integrity(rows: Rows) -> list[str]:
    return [line for (line,) in rows.connection.execute("PRAGMA integrity_check").fetchall()]


def _rewrite(connection: Connection) -> None:
    connection.execute(SQL["vacuum"])
    connection.wal_checkpoint(None, apsw.SQLITE_CHECKPOINT_TRUNCATE)
