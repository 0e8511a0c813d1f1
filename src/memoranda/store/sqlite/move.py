"""One side of a move that is a SQLite file."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import apsw

from memoranda.errors import NotFound, StorageError
from memoranda.store.sql.errors import UNFINISHED
from memoranda.store.sql.move import Side, Table, Target, check_schema, closing_on_error
from memoranda.store.sql.rows import Row
from memoranda.store.sqlite.connection import (
    APPLICATION_ID,
    RELEASED_ID,
    SCHEMA,
    VERSION,
    Connection,
    Settings,
    SqliteRows,
    close,
    migrate,
    open_reader,
    open_writer,
)
from memoranda.store.sqlite.dialect import HERE, SQLITE
from memoranda.store.sqlite.errors import translate
from memoranda.store.sqlite.store import SqliteStore

_TEXTS = SQLITE.parse((HERE / "move.sql").read_text(encoding="utf-8"))
_KEYS = {"shelves": ("number",), "entries": ("sequence",), "vectors": ("place",)}
"""Where an index has other columns than in PostgreSQL, which has the tenant in each."""
_PLACED = {"definitions": "place", "grants": "place", "approvals": "place", "rejections": "place", "shelves": "number"}
"""Tables with a number of their own, which PostgreSQL takes from a sequence."""


class SqliteSide(Side):
    """A SQLite file that is read."""

    kind = "sqlite"

    def __init__(self, connection: Connection, url: str, path: str) -> None:
        """Use a connection to the file at a path."""
        super().__init__(url, SqliteRows(connection, url))
        self.path = path
        self.connection = connection

    def identity(self) -> tuple[Any, ...]:
        """Return the file itself, whatever names it has."""
        found = os.stat(self.path)
        return self.kind, found.st_dev, found.st_ino

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Read one snapshot until the context ends."""
        with self.translating():
            self.connection.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                self.rows.reset()
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    @contextmanager
    def translating(self) -> Generator[None]:
        """Raise errors of the driver as ours."""
        try:
            yield
        except apsw.Error as error:
            raise translate(error, self.url) from error

    def close(self) -> None:
        """Close the connection."""
        close(self.connection)

    def count(self, table: Table) -> int:
        """Return the number of rows of a table."""
        with self.translating():
            return self.connection.execute(_fill("count_rows", table=table.name)).get

    def counters(self) -> dict[str, int]:
        """Return the highest number that was given out, of entries and by table."""
        with self.translating():
            found = {"entries": self.connection.execute(_TEXTS["get_number"]).get}
            for name, column in _PLACED.items():
                found[name] = self.connection.execute(_fill("get_highest", column=column, table=name)).get
        return {name: number for name, number in found.items() if number}

    def _list_columns(self, table: Table) -> tuple[str, ...]:
        if table.name == "vectors":
            return ("sequence", "slot", "tenant", "vector")
        with self.translating():
            names = {name for (name,) in self.connection.execute(_TEXTS["list_columns"], (table.name,)).fetchall()}
        return tuple(sorted(names | {"tenant"}))

    def _key(self, table: Table) -> tuple[str, ...]:
        return _KEYS.get(table.name, table.key)

    def _rows_after(self, table: Table, after: tuple[Any, ...]) -> Generator[Row]:
        key = self._key(table)
        statement = _fill(
            "read_rows_after" if after else "read_rows",
            columns=", ".join(self.columns(table)),
            key=", ".join(key),
            marks=", ".join("?" * len(key)),
            rows=_TEXTS.get(f"rows_of_{table.name}", table.name),
        )
        last = after
        try:
            for row in self.connection.cursor().execute(statement, after):
                last = row[-len(key) :]
                yield row
        except UnicodeDecodeError as error:
            raise self._damaged(table, self._next_key(table, last), f"a text is not UTF-8: {error}") from error

    def _next_key(self, table: Table, after: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the key of the row after one that was read, with what is not UTF-8 written out."""
        key = self._key(table)
        statement = _fill(
            "read_next_key",
            key=", ".join(f"CAST({column} AS BLOB)" for column in key),
            rows=_TEXTS.get(f"rows_of_{table.name}", table.name),
            after=f"WHERE ({', '.join(key)}) > ({', '.join('?' * len(key))})" if after else "",
            order=", ".join(key),
        )
        found = self.connection.execute(statement, after).get
        parts: tuple[bytes, ...] = found if len(key) > 1 else (found,)
        return tuple(part.decode(errors="backslashreplace") for part in parts)


class SqliteTarget(SqliteSide, Target):
    """A SQLite file that a move writes to."""

    @contextmanager
    def writing(self) -> Generator[None]:
        """Write one transaction until the context ends."""
        with self.translating():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    def is_unfinished(self) -> bool:
        """Return whether a move to this database has not ended."""
        with self.translating():
            return check_schema(self.url, _schema_version(self.connection), VERSION)

    def lock(self) -> None:
        """Do nothing: in SQLite a transaction that writes is the only one."""

    def mark(self) -> None:
        """Make the table `move`, and keep every program from opening the database."""
        self.connection.execute(_TEXTS["create_move"])
        self.connection.pragma("user_version", UNFINISHED + VERSION)
        for name, _ in self._indexes():
            self.connection.execute(_fill("drop_index", index=name))

    def finish(self, counters: dict[str, int]) -> None:
        """Make the indexes, drop the table `move`, and let programs open the database."""
        present = self._indexes()
        for name, statement in _indexes_of_schema():
            if (name, statement) not in present:
                with self.writing():
                    self.connection.execute(statement)
        self.connection.pragma("synchronous", "full")
        with self.writing():
            if "entries" in counters:
                self.connection.execute(_TEXTS["forget_number"])
                self.connection.execute(_TEXTS["keep_number"], (counters["entries"],))
            self.connection.execute(_TEXTS["drop_move"])
            self.connection.pragma("user_version", VERSION)
        with self.translating():
            self.connection.wal_checkpoint(None, apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def empty(self, table: Table) -> None:
        """Remove the rows of a table."""
        self.connection.execute(_fill("empty_table", table=table.name))

    def has_rows(self, table: Table) -> bool:
        """Return whether a table has any rows."""
        return bool(self.connection.execute(_fill("has_rows", table=table.name)).get)

    def _insert(self, table: Table, rows: list[Row]) -> None:
        columns = self.columns(table)
        if table.name == "vectors":
            statement = _TEXTS["insert_vectors"]
        else:
            # An entry has its tenant from its shelf.
            written = [index for index, name in enumerate(columns) if (table.name, name) != ("entries", "tenant")]
            if len(written) < len(columns):
                rows = [tuple(row[index] for index in written) for row in rows]
            statement = _fill(
                "insert_rows",
                table=table.name,
                columns=", ".join(columns[index] for index in written),
                marks=", ".join("?" * len(written)),
            )
        before = self.connection.total_changes()
        try:
            self.connection.cursor().executemany(statement, rows)
        except apsw.Error as error:
            raise self.cannot_write(table, None, translate(error, self.url)) from error
        missing = len(rows) - (self.connection.total_changes() - before)
        if missing:
            raise self.cannot_write(table, None, StorageError(f"`{self.url}`: {missing} rows have no entry"))

    def _get_states(self) -> dict[str, bytes]:
        with self.translating():
            return dict(self.connection.execute(_TEXTS["list_states"]).fetchall())  # pyright: ignore[reportReturnType]

    def _put_state(self, name: str, state: bytes, before: bytes | None) -> bool:
        if before is None:
            self.connection.execute(_TEXTS["add_state"], (name, state))
        else:
            self.connection.execute(_TEXTS["replace_state"], (name, state, before))
        return self.connection.changes() == 1

    def _indexes(self) -> set[tuple[str, str]]:
        return {(str(name), str(text)) for name, text in self.connection.execute(_TEXTS["list_indexes"]).fetchall()}


def open_source(path: str, *, busy_timeout: float) -> SqliteSide:
    """Return a file that exists, brought to the current schema, as one side of a move."""
    if not os.path.exists(path):
        raise NotFound(f"no database exists at `{path}`", hint="Name the file that is to be moved", path=path)
    SqliteStore(path, busy_timeout=busy_timeout).close()
    settings = _settings(path, busy_timeout)
    try:
        return SqliteSide(open_reader(settings), path, settings.path)
    except apsw.Error as error:
        raise translate(error, path) from error


def open_target(path: str, *, busy_timeout: float, creates: bool) -> SqliteTarget | None:
    """Return a file as the target of a move; None if it has no tables, and they are not to be created."""
    settings = _settings(path, busy_timeout)
    if not creates and not os.path.exists(path):
        return None
    try:
        connection = open_writer(settings)
    except apsw.Error as error:
        raise translate(error, path) from error
    target = SqliteTarget(connection, path, settings.path)
    with closing_on_error(target), target.translating():
        if not target.is_unfinished():
            if not creates and not _schema_version(connection):
                target.close()
                return None
            migrate(connection, path, patience=busy_timeout)
        connection.pragma("cache_size", -64_000)  # the rows of some tables come in another order than that of their key
        # No program relies on the file yet, and each page is written together with how far it was copied.
        connection.pragma("synchronous", "normal")
    return target


def _schema_version(connection: Connection) -> int:
    """Return the number of the schema of a file; 0 if it is not one of ours, which opening it refuses."""
    is_ours = connection.pragma("application_id") in (APPLICATION_ID, RELEASED_ID)
    return connection.pragma("user_version") if is_ours else 0


def _settings(path: str, busy_timeout: float) -> Settings:
    return Settings(path=os.path.abspath(path), durability="full", busy_timeout=busy_timeout, vfs=None)


def _indexes_of_schema() -> list[tuple[str, str]]:
    connection = cast(Connection, apsw.Connection(":memory:"))
    connection.execute(SCHEMA)
    found = [(str(name), str(text)) for name, text in connection.execute(_TEXTS["list_indexes"]).fetchall()]
    connection.close()
    return found


def _fill(name: str, **parts: str) -> str:
    """Return a statement with its parts filled in: names of this module and of the schema, never of a user."""
    text = _TEXTS[name]
    for part, value in parts.items():
        text = text.replace(f"<{part}>", value)
    return text
