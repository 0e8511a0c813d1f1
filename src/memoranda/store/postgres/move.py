"""One side of a move that is a PostgreSQL database."""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from memoranda.errors import Busy, InvalidValue, NotFound, Unavailable
from memoranda.store.postgres.deadline import LONGEST_REWRITE
from memoranda.store.postgres.dialect import HERE, POSTGRES
from memoranda.store.postgres.errors import translate
from memoranda.store.postgres.migration import SCHEMA, VERSION, Manner, migrate
from memoranda.store.postgres.pool import Pool, read_address
from memoranda.store.postgres.store import PostgresStore
from memoranda.store.sql.errors import UNFINISHED
from memoranda.store.sql.move import COPIED, Side, Table, Target, check_schema, closing_on_error, name_row
from memoranda.store.sql.rows import Row

_TEXTS = POSTGRES.parse((HERE / "move.sql").read_text(encoding="utf-8"))
_INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+) ON .*?;", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"\bline (\d+)")
_ALL_TABLES = ", ".join(f"memoranda.{table.name}" for table in COPIED)
_PATIENCE = 30.0
"""Seconds for which making the schema of a target waits for locks."""


class PostgresSide(Side):
    """A PostgreSQL database that is read."""

    kind = "postgres"

    def __init__(self, url: str, busy_timeout: float) -> None:
        """Open a connection."""
        settings = read_address(url, durability="full", busy_timeout=busy_timeout)
        with ExitStack() as closing:
            closing.enter_context(_translating(settings.url))
            pool = Pool(settings)
            closing.callback(pool.close)
            rows = closing.enter_context(pool.rows())
            rows.connection.limit = LONGEST_REWRITE
            rows.connection.execute(_statement("prepare_session"), (str(max(1, int(busy_timeout * 1000))),))
            self._closing = closing.pop_all()
        super().__init__(settings.url, rows)
        self.connection = rows.connection
        self._address, self._patience = url, busy_timeout
        self._types: dict[str, dict[str, str]] = {}

    def identity(self) -> tuple[Any, ...]:
        """Return the cluster and the database."""
        return self.kind, *self._fetch("get_identity")

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Read one snapshot until the context ends, in which every event is chained."""
        with self.translating():
            self._begin_chained()
            try:
                self._fetch("prefer_indexes")
                yield
            finally:
                self._roll_back()

    def _begin_chained(self) -> None:
        deadline = time.monotonic() + self._patience
        while True:
            self.connection.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if not self.schema_version():
                return
            unchained = [
                tenant for (tenant,) in self.connection.execute(_statement("list_unchained_tenants")).fetchall()
            ]
            if not unchained:
                return
            self._roll_back()
            if time.monotonic() > deadline:
                raise Busy(
                    f"`{self.url}`: others write to it so fast that its ledger has no end",
                    hint="Stop the programs that write to it",
                    url=self.url,
                )
            with PostgresStore(self._address) as store:
                for tenant in unchained:
                    store.settle(tenant)

    def _roll_back(self) -> None:
        self.rows.reset()
        with suppress(psycopg.Error):
            self.connection.execute(b"ROLLBACK")

    def translating(self) -> AbstractContextManager[None]:
        """Raise errors of the driver as ours."""
        return _translating(self.url)

    def close(self) -> None:
        """Close the connection."""
        self._closing.close()

    def count(self, table: Table) -> int:
        """Return the number of rows of a table."""
        return self._fetch("count_rows", rows=self._rows_of(table))[0]

    def counters(self) -> dict[str, int]:
        """Return the highest number that was given out, of entries and by table."""
        found = {"entries": self._fetch("get_number")[0]}
        with self.translating():
            placed = self.connection.execute(_statement("list_placed")).fetchall()
        for table, _, sequence in placed:
            found[table] = self._fetch("get_last", sequence=sequence)[0]
        return {name: number for name, number in found.items() if number}

    def check_owner(self) -> None:
        """Raise an error unless the role owns the tables, if there are any: from others, rows may be hidden."""
        found = self.connection.execute(_statement("owns_tables")).fetchone()
        if found and not found[0]:
            raise Unavailable(
                f"`{self.url}`: this role does not own the tables, and a move needs every row of them",
                hint="Sign in as the role that owns them",
                url=self.url,
            )

    def schema_version(self) -> int:
        """Return the number of the schema; 0 without tables of ours."""
        return self._fetch("get_version")[0] if self._fetch("has_relation", "migrated")[0] else 0

    def _list_columns(self, table: Table) -> tuple[str, ...]:
        return tuple(self._types_of(table))

    def _key(self, table: Table) -> tuple[str, ...]:
        return table.key

    def _types_of(self, table: Table) -> dict[str, str]:
        """Return the columns of a table, sorted by name, with their types."""
        if table.name not in self._types:
            with self.translating():
                found = self.connection.execute(_statement("list_columns"), (table.name,)).fetchall()
            self._types[table.name] = dict(found)
        return self._types[table.name]

    def _rows_after(self, table: Table, after: tuple[Any, ...]) -> Generator[Row]:
        columns, types = self.columns(table), self._types_of(table)
        statement = _fill(
            "read_rows_after" if after else "read_rows",
            columns=", ".join(columns),
            key=", ".join(table.key),
            values=sql.SQL(", ").join(map(sql.Literal, after)).as_string(self.connection),
            rows=self._rows_of(table),
        )
        with self.connection.cursor().copy(statement) as copy:
            copy.set_types([types[name] for name in (*columns, *table.key)])
            yield from copy.rows()

    def _rows_of(self, table: Table) -> str:
        return _TEXTS.get(f"rows_of_{table.name}", f"memoranda.{table.name}")

    def _fetch(self, name: str, *values: Any, **parts: str) -> Row:
        with self.translating():
            found = self.connection.execute(_fill(name, **parts), values).fetchone()
        assert found is not None, "it returns one row"
        return found


class PostgresTarget(PostgresSide, Target):
    """A PostgreSQL database that a move writes to."""

    @contextmanager
    def writing(self) -> Generator[None]:
        """Write one transaction until the context ends."""
        with self.translating(), self.connection.transaction():
            self._fetch("write_without_waiting")
            yield

    def is_unfinished(self) -> bool:
        """Return whether a move to this database has not ended."""
        with self.translating():
            return check_schema(self.url, self.schema_version(), VERSION)

    def lock(self) -> None:
        """Keep other writers out until the transaction ends."""
        self._execute("lock_tables", tables=_ALL_TABLES)

    def mark(self) -> None:
        """Make the table `move`, and keep every program from opening the database."""
        self._execute("create_move")
        self._execute("mark_version", UNFINISHED + VERSION)
        for found in _INDEX.finditer(SCHEMA):
            self._execute("drop_index", index=found[1])
        self._execute("empty_table", table="tenants")  # of rows that say nothing

    def finish(self, counters: dict[str, int]) -> None:
        """Make the indexes, drop the table `move`, and let programs open the database."""
        for found in _INDEX.finditer(SCHEMA):
            if not self._fetch("has_relation", found[1])[0]:
                with self.translating():
                    self.connection.execute(found[0].encode())
        with self.translating():
            placed = self.connection.execute(_statement("list_placed")).fetchall()
        with self.translating(), self.connection.transaction():
            if "entries" in counters:
                self._execute("keep_number", counters["entries"])
            for table, column, sequence in placed:
                given = str(counters.get(table, 0))
                self._execute("keep_last", table=table, column=column, sequence=sequence, given=given)
            self._execute("keep_positions")
            self._execute("drop_move")
            self._execute("mark_version", VERSION)
        with self.translating():
            self._execute("analyze", tables=_ALL_TABLES)

    def empty(self, table: Table) -> None:
        """Remove the rows of a table."""
        self._execute("empty_table", table=table.name)

    def has_rows(self, table: Table) -> bool:
        """Return whether a table has any rows."""
        return self._fetch("has_rows", rows=self._rows_of(table))[0]

    def _insert(self, table: Table, rows: list[Row]) -> None:
        columns = self.columns(table)
        self._check_texts(table, columns, rows)
        types = self._types_of(table)
        statement = _fill("insert_rows", table=table.name, columns=", ".join(columns))
        try:
            with self.connection.cursor().copy(statement) as copy:
                copy.set_types([types[name] for name in columns])
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            line = _LINE.search(error.diag.context or "")
            row = rows[int(line[1]) - 1] if line and int(line[1]) <= len(rows) else None
            raise self.cannot_write(table, row, translate(error, self.url)) from error

    def _check_texts(self, table: Table, columns: tuple[str, ...], rows: list[Row]) -> None:
        """Refuse a text that PostgreSQL cannot hold, and say in which row it is."""
        for row in rows:
            for index, value in enumerate(row):
                if isinstance(value, str) and "\0" in value:
                    key = [row[columns.index(name)] for name in table.key]
                    raise InvalidValue(
                        f"`{columns[index]}` of the row {name_row(table.key, key)} of `{table.name}` has a NUL, "
                        "a character that PostgreSQL cannot store",
                        hint="Change or forget that row in the source, then move again",
                        path=columns[index],
                        table=table.name,
                    )

    def _get_states(self) -> dict[str, bytes]:
        with self.translating():
            return dict(self.connection.cursor(binary=True).execute(_statement("list_states")).fetchall())

    def _put_state(self, name: str, state: bytes, before: bytes | None) -> bool:
        if before is None:
            return self._execute("add_state", name, state) == 1
        return self._execute("replace_state", name, state, before) == 1

    def _execute(self, name: str, *values: Any, **parts: str) -> int:
        return self.connection.execute(_fill(name, **parts), values).rowcount


def open_source(url: str, *, busy_timeout: float) -> PostgresSide:
    """Return a database that has our tables, brought to the current schema, as one side of a move."""
    side = PostgresSide(url, busy_timeout)
    with closing_on_error(side), side.translating():
        side.check_owner()
        if not side.schema_version():
            raise NotFound(f"`{side.url}` has no memory", hint="Name the database that is to be moved", url=side.url)
        migrate(side.connection, Manner(side.url, "on", _PATIENCE))
    return side


def open_target(url: str, *, busy_timeout: float, creates: bool) -> PostgresTarget | None:
    """Return a database as the target of a move; None if it has no tables, and they are not to be created."""
    target = PostgresTarget(url, busy_timeout)
    with closing_on_error(target), target.translating():
        target.check_owner()
        if not target.is_unfinished():
            if not creates and not target.schema_version():
                target.close()
                return None
            migrate(target.connection, Manner(target.url, "on", _PATIENCE))
    return target


@contextmanager
def _translating(url: str) -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, url) from error


def _statement(name: str) -> bytes:
    return _TEXTS[name].encode()


def _fill(name: str, **parts: str) -> bytes:
    """Return a statement with its parts filled in: names of this module and of the schema, and quoted literals."""
    text = _TEXTS[name]
    for part, value in parts.items():
        text = text.replace(f"<{part}>", value)
    return text.encode()
