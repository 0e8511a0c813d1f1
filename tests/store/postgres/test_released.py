"""Databases of 0.1.0, whose schema was called `recollect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import postgres_server
import psycopg
import pytest

import memoranda
from memoranda.errors import Unavailable
from memoranda.store.postgres.migrate import MIGRATIONS, VERSION

Server = postgres_server.PostgresServer


@pytest.fixture
def released(postgres: Server) -> Iterator[str]:
    """Return the name of a database with the schema of 0.1.0, and one fact of this version in it."""
    postgres.execute("CREATE ROLE guest LOGIN", "CREATE DATABASE released")
    try:
        with memoranda.open(postgres.url("released")) as memory:
            memory.scope(user="ada").set("city", "Lisbon")
        functions = "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'memoranda'::regnamespace"
        with psycopg.connect(postgres.url("released"), autocommit=True) as connection:
            for (function,) in connection.execute(functions).fetchall():
                connection.execute(f"DROP FUNCTION {function}".encode())
            connection.execute("UPDATE memoranda.migrated SET version = 2")
            connection.execute("ALTER SCHEMA memoranda RENAME TO recollect")
        yield "released"
    finally:
        postgres.execute("DROP DATABASE released WITH (FORCE)", "DROP ROLE guest")


def schemas(postgres: Server, database: str) -> set[Any]:
    with psycopg.connect(postgres.url(database)) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname IN ('memoranda', 'recollect')")
        return {name for (name,) in found}


def test_its_schema_is_renamed_and_its_memory_goes_on(postgres: Server, released: str) -> None:
    assert schemas(postgres, released) == {"recollect"}
    with memoranda.open(postgres.url(released)) as memory:
        ada = memory.scope(user="ada")
        assert ada.value("city") == "Lisbon"
        assert ada.set("city", "Porto").version == 2
        assert memory.erase(user="ada").removed["facts"] == 1
        assert memory.ledger.verify().ok
    assert schemas(postgres, released) == {"memoranda"}


def test_only_its_owner_can_migrate_it(postgres: Server, released: str) -> None:
    with pytest.raises(Unavailable, match="owner"):
        memoranda.open(postgres.url(released, user="guest"))
    assert schemas(postgres, released) == {"recollect"}


def test_the_migrations_of_the_release_made_no_functions() -> None:
    """A function's body names its schema, so the release must not have had any for the renaming to be enough."""
    assert VERSION > 2
    assert not any("FUNCTION" in step for step in MIGRATIONS[:2])
    assert any("FUNCTION" in step for step in MIGRATIONS[2:])
