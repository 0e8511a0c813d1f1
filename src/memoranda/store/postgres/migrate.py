"""An open connection in; the same connection, sure to hold our current schema, out."""

from __future__ import annotations

from typing import Any

import psycopg

from memoranda.errors import ForeignDatabase, Unavailable
from memoranda.store.postgres.queries import HERE, SQL
from memoranda.store.sql.misuse import newer
from memoranda.store.sql.queries import read_migrations

SCHEMA = (HERE / "schema.sql").read_text(encoding="utf-8")
"""The whole current schema, but for its name."""

MIGRATIONS = read_migrations(HERE)
"""The steps from nothing to the current schema; the table `migrated` says how many a database has taken."""

VERSION = len(MIGRATIONS)


def migrate(connection: psycopg.Connection[tuple[Any, ...]], url: str, manner: tuple[str, str]) -> None:
    """Bring a new or older database to the current schema; refuse one that is not ours, or newer, untouched.

    `manner` is how long to wait for others who do the same, and for the disk, as PostgreSQL writes it.
    """
    if _identify(connection, url) == VERSION:
        return
    with connection.transaction():
        connection.execute(SQL["set_manner"], manner)
        connection.execute(SQL["lock_schema"])
        if _row(connection, "has_released_schema")[0]:
            connection.execute(SQL["rename_schema"])
        # Whoever had the lock before us may have done it all.
        found = _identify(connection, url)
        if found == VERSION:
            return
        if found is None:
            connection.execute(SQL["create_schema"])
        elif found:
            # What a superuser, or another member of the owner's role, adds belongs to the owner of the rest.
            connection.execute(SQL["act_as_owner"])
        for step in MIGRATIONS[found:] if found else [SCHEMA]:
            connection.execute(step.encode())
        connection.execute(SQL["forget_version"])
        connection.execute(SQL["keep_version"], (VERSION,))


def check_version(found: int, url: str) -> None:
    """Refuse to go on when another, newer program has migrated the database since it was opened."""
    if found != VERSION:
        raise newer(url, found, VERSION)


def _identify(connection: psycopg.Connection[tuple[Any, ...]], url: str) -> int | None:
    """Return how many migrations the database has taken: 0 for an empty schema, None where there is none."""
    encoding, has_schema, has_version, tables = _row(connection, "get_surroundings")
    if encoding != "UTF8":
        raise Unavailable(
            f"`{url}` keeps its texts as {encoding}",
            hint="Give Memoranda a database of its own that keeps every text: createdb --encoding UTF8 NAME",
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
        raise newer(url, found, VERSION)
    return found


def _row(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> tuple[Any, ...]:
    row = connection.execute(SQL[name]).fetchone()
    assert row is not None, "it asks for one row"
    return row
