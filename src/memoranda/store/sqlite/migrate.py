"""Creating the tables of a new database, and migrating those of an older one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import apsw

from memoranda.errors import ForeignDatabase
from memoranda.store.sql.dialect import read_migrations
from memoranda.store.sql.errors import newer_schema
from memoranda.store.sqlite.connection import IN_MEMORY, Connection
from memoranda.store.sqlite.dialect import HERE, SQL

APPLICATION_ID = int.from_bytes(b"MMRD", "big")
"""The application id in the header of our files."""

_RELEASED_ID = int.from_bytes(b"RCLT", "big")
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
    if connection.pragma("application_id") not in (APPLICATION_ID, _RELEASED_ID):
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
