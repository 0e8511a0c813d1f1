"""Creating the tables of a new database, and migrating those of an older one."""

from __future__ import annotations

from typing import Any

import psycopg

from memoranda.errors import ForeignDatabase, Unavailable
from memoranda.store.postgres.dialect import HERE, SQL
from memoranda.store.sql.dialect import read_migrations
from memoranda.store.sql.errors import newer_schema

SCHEMA = (HERE / "schema.sql").read_text(encoding="utf-8")
"""The current schema, without its name."""

MIGRATIONS = read_migrations(HERE)
"""The steps from an empty database to the current schema; the table `migrated` counts those that were applied."""

VERSION = len(MIGRATIONS)


def migrate(connection: psycopg.Connection[tuple[Any, ...]], url: str, manner: tuple[str, str]) -> None:
    """Bring a new or older database to the current schema; raise an error if it is foreign or newer.

    `manner` is the values of PostgreSQL's `lock_timeout` and `synchronous_commit`.
    """
    if _identify(connection, url) == VERSION:
        return
    with connection.transaction():
        connection.execute(SQL["set_manner"], manner)
        connection.execute(SQL["lock_schema"])
        if _row(connection, "has_released_schema")[0]:
            connection.execute(SQL["rename_schema"])
        # The previous owner of the lock may have done it.
        found = _identify(connection, url)
        if found == VERSION:
            return
        if found is None:
            connection.execute(SQL["create_schema"])
        elif found:
            # New tables belong to the owner of the old ones, whatever role migrates.
            connection.execute(SQL["act_as_owner"])
        for step in MIGRATIONS[found:] if found else [SCHEMA]:
            connection.execute(step.encode())
        connection.execute(SQL["forget_version"])
        connection.execute(SQL["keep_version"], (VERSION,))


def check_version(found: int, url: str) -> None:
    """Raise an error if a newer program has migrated the database since it was opened."""
    if found != VERSION:
        raise newer_schema(url, found, VERSION)


def _identify(connection: psycopg.Connection[tuple[Any, ...]], url: str) -> int | None:
    """Return the number of migrations that were applied: 0 for an empty schema, None without a schema."""
    encoding, has_schema, has_version, tables = _row(connection, "get_surroundings")
    if encoding != "UTF8":
        raise Unavailable(
            f"`{url}` has the encoding {encoding}",
            hint="Give Memoranda a database of its own: createdb --encoding UTF8 NAME",
            url=url,
        )
    if not has_schema:
        return None
    if not has_version:
        if tables:
            raise ForeignDatabase(
                f"`{url}` has a schema `memoranda` of another program",
                hint="Give Memoranda a database of its own",
                url=url,
            )
        return 0
    (found,) = _row(connection, "get_version")
    if found > VERSION:
        raise newer_schema(url, found, VERSION)
    return found


def _row(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> tuple[Any, ...]:
    row = connection.execute(SQL[name]).fetchone()
    assert row is not None, "it returns one row"
    return row
