"""Connections to SQLite: how they are opened and migrated, and how the statements of `store/sql` run on them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Literal, Protocol, cast

import apsw
import msgspec

from memoranda.errors import ForeignDatabase
from memoranda.model.entry import NewEntry
from memoranda.model.value import encode
from memoranda.store.base import TenantState
from memoranda.store.sql.dialect import read_migrations
from memoranda.store.sql.entries import EntryRows
from memoranda.store.sql.errors import lost_commits, newer_schema
from memoranda.store.sql.rows import Row
from memoranda.store.sqlite.dialect import HERE, SQL

Durability = Literal["full", "normal"]

IN_MEMORY = ":memory:"

_STATEMENTS = 256
"""Prepared statements that a connection caches: one conversation runs more than APSW's default of 100."""

LONGEST_LOG = 4_000
"""Pages in the write-ahead log before it is checkpointed: 16 MB. Compared with the default, pages that are written
often are copied a quarter as often; the wal-index is still one block, so that a reader needs one lookup."""


class Cursor(Protocol):
    """What the store uses of `apsw.Cursor`."""

    @property
    def get(self) -> Any:
        """The only row, or the only value of the only row; None without a row."""
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

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that are left, each when it is asked for."""
        ...


class Backup(Protocol):
    """What the store uses of `apsw.Backup`."""

    def step(self, npages: int = -1, /) -> bool:
        """Copy this many pages, or all."""
        ...

    def __enter__(self) -> Backup:
        """Return the backup itself."""
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

    def serialize(self, name: str, /) -> bytes:
        """Return the pages of a database."""
        ...

    def execute(self, statements: str, bindings: Sequence[Any] | None = None, /) -> Cursor:
        """Run statements with values bound by place."""
        ...

    def cursor(self) -> Cursor:
        """Return a cursor, which can run many statements."""
        ...

    def pragma(self, name: str, value: Any = None, /) -> Any:
        """Return a setting, or change it."""
        ...

    def changes(self) -> int:
        """Return the number of rows that the last statement wrote."""
        ...

    def total_changes(self) -> int:
        """Return the number of rows that were written since the connection was opened."""
        ...

    def last_insert_rowid(self) -> int:
        """Return the rowid of the row inserted last."""
        ...

    def set_busy_timeout(self, milliseconds: int, /) -> None:
        """Set how long to wait for another process that writes."""
        ...

    def backup(self, databasename: str, sourceconnection: Any, sourcedatabasename: str, /) -> Backup:
        """Start copying another database into this one."""
        ...

    def wal_checkpoint(self, dbname: str | None = None, mode: int = ..., /) -> tuple[int, int]:
        """Copy the write-ahead log into the file."""
        ...

    def config(self, op: int, /, *values: Any) -> Any:
        """Change one of SQLite's settings for this connection."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How the connections of one store are opened."""

    path: str
    durability: Durability
    busy_timeout: float
    vfs: str | None


def open_writer(settings: Settings, *, create: bool = True) -> Connection:
    """Open the writing connection, creating the file if there is none; change nothing in it yet."""
    connection = _open(settings, apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0))
    # FULL syncs the log at every commit, so what was acknowledged survives a power cut; NORMAL only at checkpoints.
    connection.pragma("synchronous", settings.durability)
    connection.pragma("wal_autocheckpoint", LONGEST_LOG)
    connection.pragma("secure_delete", True)  # removed content is overwritten, not left in free pages
    connection.pragma("cache_size", -8_000)  # more would duplicate the page cache of the system
    return connection


def open_reader(settings: Settings) -> Connection:
    """Open a connection that only reads.

    It must still be able to write the wal-index, hence READWRITE; without CREATE, so that opening a file that was
    removed meanwhile fails instead of creating an empty one.
    """
    connection = _open(settings, apsw.SQLITE_OPEN_READWRITE)
    connection.pragma("query_only", True)
    connection.pragma("cache_size", -4_000)
    return connection


def close(connection: Connection, *, keep_log: bool = False) -> None:
    """Close a connection, ignoring errors: what was acknowledged is durable by now.

    The last connection to close copies the log into the file and removes it, unless `keep_log` is true.
    """
    with suppress(apsw.Error):
        if keep_log:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()


def leak(connection: Connection) -> None:
    """Prevent a connection from being closed when it is garbage collected.

    In a forked process, closing would roll back and unlock the parent's connection.
    """
    with suppress(ImportError):  # a Python without ctypes
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _open(settings: Settings, flags: int) -> Connection:
    # NOMUTEX: a connection is only ever used by the thread that took it from the pool or holds the write lock.
    flags |= apsw.SQLITE_OPEN_NOMUTEX
    opened = apsw.Connection(settings.path, flags, settings.vfs, statementcachesize=_STATEMENTS)
    opened.set_busy_timeout(int(settings.busy_timeout * 1000))
    # Without this SQLite plans a statement again whenever its values change, which costs more than running it.
    opened.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection = cast(Connection, opened)
    connection.pragma("trusted_schema", False)  # a foreign file cannot run functions
    connection.pragma("cell_size_check", True)  # damaged pages are noticed when they are read
    return connection


class SqliteRows(EntryRows):
    """A transaction on one connection, used by one thread at a time."""

    def __init__(self, connection: Connection, url: str, *, ledger_ends: dict[str, int] | None = None) -> None:
        """Use a connection; no tenant's ledger may be shorter than `ledger_ends` says."""
        super().__init__(url)
        self.connection = connection
        self.thread: int | None = None
        """The thread that is reading with it."""
        cursor = connection.cursor()
        self._execute, self._execute_all = cursor.execute, cursor.executemany
        self._ledger_ends = {} if ledger_ends is None else ledger_ends

    def note_ledger_ends(self) -> None:
        """Record the length of each known ledger before the caches are cleared: none may be shorter afterwards."""
        self._ledger_ends.update((tenant, length) for tenant, (_, length, _) in self._tenants.items())

    def _tenant(self, tenant: str) -> tuple[TenantState, int, str]:
        known = self._tenants.get(tenant)
        if known is None:
            known = super()._tenant(tenant)
            if known[1] < self._ledger_ends.get(tenant, 0):
                self._tenants.clear()
                raise lost_commits(self._url, tenant, known[1], self._ledger_ends[tenant])
        return known

    def _all(self, name: str, *values: Any) -> list[Row]:
        try:
            return self._execute(SQL[name], values).fetchall()
        except UnicodeDecodeError as error:
            raise self._corrupt("a text", error) from error

    def _value(self, name: str, *values: Any) -> Any:
        try:
            return self._execute(SQL[name], values).get  # half the cost of a list
        except UnicodeDecodeError as error:
            raise self._corrupt("a text", error) from error

    _row = _value

    def _run(self, name: str, *values: Any) -> None:
        self._execute(SQL[name], values)

    def _count(self, name: str, *values: Any) -> int:
        self._execute(SQL[name], values)
        return self.connection.changes()

    def _array(self, values: Sequence[int] | Sequence[str] | Sequence[bytes]) -> str:
        return encode([value.hex() if isinstance(value, bytes) else value for value in values]).decode()

    def _insert_entries(self, rows: Sequence[tuple[Any, ...]]) -> list[int]:
        # There is one writer, so they get consecutive numbers.
        self._execute_all(SQL["add_entry"], rows)
        end = self.connection.last_insert_rowid() + 1  # half the cost of RETURNING
        return list(range(end - len(rows), end))

    def _insert_vectors(
        self,
        tenant: str,
        slot: int,
        sequences: Sequence[int],
        entries: Sequence[NewEntry],
        index: int,
        expires_at: int | None,
    ) -> None:
        self._execute_all(
            SQL["add_vector"],
            [
                (sequence, slot, expires_at, entry.metadata, entry.analysis, entry.vectors[index])
                for sequence, entry in zip(sequences, entries, strict=True)
            ],
        )

    def _take_number(self) -> int:
        return self._value("take_number")


APPLICATION_ID = int.from_bytes(b"MMRD", "big")
"""The application id in the header of our files."""

RELEASED_ID = int.from_bytes(b"RCLT", "big")
"""The application id of 0.1.0."""

SCHEMA = (HERE / "schema.sql").read_text(encoding="utf-8")
"""The current schema."""

MIGRATIONS = read_migrations(HERE)
"""The steps from an empty database to the current schema; its `user_version` counts those that were applied."""

VERSION = len(MIGRATIONS)


def migrate(connection: Connection, url: str, *, patience: float) -> None:
    """Bring a new or older database to the current schema; raise an error if it is foreign or newer."""
    if url == IN_MEMORY:
        _copy_schema(connection)
        return
    connection.execute("BEGIN")
    try:
        # On one snapshot: if another process created the tables in between, the file would look foreign.
        found = _identify(connection, url)
    finally:
        connection.execute("ROLLBACK")
    if connection.pragma("journal_mode") != "wal":
        _use_wal(connection, patience)
    if found == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # The previous owner of the lock may have done it.
        found = _identify(connection, url)
        _apply(connection, [SCHEMA] if found == 0 else MIGRATIONS[found:])
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _copy_schema(connection: Connection) -> None:
    """Copy the schema into a database in memory, which is always new; creating it takes ten times as long."""
    made: Any = apsw.Connection(IN_MEMORY)
    made.deserialize("main", _empty_database())
    # Not deserialized directly: such a database can grow to 1 GB only.
    with connection.backup("main", made, "main") as copy:
        copy.step()
    made.close()


@cache
def _empty_database() -> bytes:
    """Return the file of a database that has the current schema and no rows."""
    connection = apsw.Connection(IN_MEMORY)
    _apply(cast(Connection, connection), [SCHEMA])
    return connection.serialize("main")


def _apply(connection: Connection, steps: Sequence[str]) -> None:
    """Apply the last steps to the current schema, and record that."""
    for step in steps:
        connection.execute(step)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", VERSION)


def check_version(found: int, url: str) -> None:
    """Raise an error if a newer program has migrated the database since it was opened."""
    if found != VERSION:
        raise newer_schema(url, found, VERSION)


def _identify(connection: Connection, url: str) -> int:
    """Return the number of migrations that were applied: 0 for an empty database."""
    if connection.pragma("application_id") not in (APPLICATION_ID, RELEASED_ID):
        if connection.execute(SQL["count_tables"]).get:
            raise ForeignDatabase(
                f"`{url}` is a database of another program",
                hint="Give Memoranda a file of its own",
                url=url,
            )
        return 0
    found: int = connection.pragma("user_version")
    if found > VERSION:
        raise newer_schema(url, found, VERSION)
    return found


def _use_wal(connection: Connection, patience: float) -> None:
    """Switch to a write-ahead log. SQLite does not wait for locks when switching, so we do."""
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.pragma("journal_mode", "wal")
            return
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
