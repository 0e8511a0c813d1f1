"""An open connection in; the same connection, sure to hold our current schema, out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import apsw

from memoranda.errors import ForeignDatabase
from memoranda.store.sql.misuse import newer
from memoranda.store.sql.queries import read_migrations
from memoranda.store.sqlite.connection import IN_MEMORY, Connection
from memoranda.store.sqlite.queries import HERE, SQL

APPLICATION_ID = int.from_bytes(b"MMRD", "big")
"""What marks a SQLite file as ours."""

_RELEASED_ID = int.from_bytes(b"RCLT", "big")
"""What marks a file of 0.1.0, until it is migrated."""

SCHEMA = (HERE / "schema.sql").read_text(encoding="utf-8")
"""The whole current schema."""

MIGRATIONS = read_migrations(HERE)
"""The steps from nothing to the current schema; a database's `user_version` says how many it has taken."""

VERSION = len(MIGRATIONS)


def migrate(connection: Connection, url: str, *, patience: float) -> None:
    """Bring a new or older database to the current schema; refuse one that is not ours, or newer, untouched."""
    if url == IN_MEMORY:
        _copy_schema(connection)
        return
    connection.execute("BEGIN")
    try:
        # In one moment: between two, somebody else may make the file ours, and it would look like another program's.
        found = _identify(connection, url)
    finally:
        connection.execute("ROLLBACK")
    if connection.pragma("journal_mode") != "wal":
        _use_wal(connection, patience)
    if found == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Whoever had the lock before us may have done it all.
        found = _identify(connection, url)
        _take_steps(connection, [SCHEMA] if found == 0 else MIGRATIONS[found:])
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _copy_schema(connection: Connection) -> None:
    """Give a database in memory, which is always new, the current schema: making it would take ten times as long."""
    made: Any = apsw.Connection(IN_MEMORY)
    made.deserialize("main", _empty_database())
    # Not read in directly: what is read in can grow to 1 GB only.
    with connection.backup("main", made, "main") as copy:
        copy.step()
    made.close()


@cache
def _empty_database() -> bytes:
    """Return a database that holds nothing but the current schema, as the bytes of its file."""
    connection = apsw.Connection(IN_MEMORY)
    _take_steps(cast(Connection, connection), [SCHEMA])
    return connection.serialize("main")


def _take_steps(connection: Connection, steps: Sequence[str]) -> None:
    """Take the last steps to the current schema, and note that they were taken."""
    for step in steps:
        connection.execute(step)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", VERSION)


def check_version(found: int, url: str) -> None:
    """Refuse to go on when another, newer program has migrated the database since it was opened."""
    if found != VERSION:
        raise newer(url, found, VERSION)


def _identify(connection: Connection, url: str) -> int:
    """Return how many migrations the database has taken: 0 for an empty one."""
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
        raise newer(url, found, VERSION)
    return found


def _use_wal(connection: Connection, patience: float) -> None:
    """Switch to a write-ahead log. SQLite does not wait for locks while it switches, so we do."""
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.pragma("journal_mode", "wal")
            return
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
