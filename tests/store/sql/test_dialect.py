"""Statements that are written once become those of each database."""

from __future__ import annotations

import pytest

from memoranda.store.postgres.dialect import POSTGRES
from memoranda.store.sql.dialect import Dialect
from memoranda.store.sqlite.dialect import SQLITE


def both(text: str) -> tuple[str, str]:
    """Return a statement as SQLite and as PostgreSQL get it."""
    return SQLITE.parse(text)["it"], POSTGRES.parse(text)["it"]


def test_statements_are_split_by_name():
    text = (
        "-- heading\n\n-- name: one()\n-- First.\nSELECT 1;\n\n-- name: two()\n-- Second.\n-- Really.\nSELECT\n  2;\n"
    )
    assert Dialect("any", "?", ()).parse(text) == {"one": "SELECT 1;", "two": "SELECT\n  2;"}


def test_parameters_are_numbered_as_they_are_declared():
    text = "-- name: it(tenant, low, high)\n-- It.\nSELECT :high, :low, :tenant, :low::text;\n"
    assert both(text) == ("SELECT ?3, ?2, ?1, ?2;", "SELECT $3, $2, $1, $2::text;")


def test_a_parameter_that_is_not_declared_is_an_error():
    with pytest.raises(ValueError, match="loww"):
        SQLITE.parse("-- name: it(low)\n-- It.\nSELECT :loww;\n")


def test_each_database_gets_its_own_text_and_its_own_parts():
    text = (
        "-- part: where [sqlite]\nhere\n\n-- part: where [postgres]\nthere\n\n"
        "-- name: it() [sqlite]\n-- It.\nSELECT 1 FROM {where};\n\n"
        "-- name: it() [postgres]\n-- It.\nSELECT 2 FROM {where};\n"
    )
    assert both(text) == ("SELECT 1 FROM here;", "SELECT 2 FROM there;")


def test_an_upsert_writes_the_parameters_as_columns():
    lite, postgres = both("-- name: it(tenant, id, rule)\n-- It.\nUPSERT INTO memoranda.grants KEY (tenant, id);\n")
    assert lite.split("\n") == [
        "INSERT INTO grants (tenant, id, rule)",
        "VALUES (?1, ?2, ?3)",
        "ON CONFLICT (tenant, id) DO UPDATE SET rule = excluded.rule;",
    ]
    assert postgres == lite.replace("grants", "memoranda.grants").replace("?", "$")


def test_lists_and_hints_are_written_for_each_database():
    text = (
        "-- name: it(tenant, keys)\n-- It.\nSELECT 1 FROM memoranda.facts INDEXED BY facts_by_key\n"
        'WHERE tenant COLLATE "POSIX" = :tenant AND key = ANY (:keys::text[]);\n'
    )
    assert both(text) == (
        "SELECT 1 FROM facts INDEXED BY facts_by_key\nWHERE tenant = ?1 AND key IN (SELECT value FROM json_each(?2));",
        'SELECT 1 FROM memoranda.facts\nWHERE tenant COLLATE "POSIX" = $1 AND key = ANY ($2::text[]);',
    )


def test_postgres_removes_rows_by_a_function():
    assert both(
        "-- name: it(tenant, id)\n-- It.\nDELETE FROM memoranda.grants\nWHERE tenant = :tenant AND id = :id;\n"
    ) == (
        "DELETE FROM grants\nWHERE tenant = ?1 AND id = ?2;",
        "SELECT memoranda.remove_grants($1, ARRAY(SELECT ctid FROM memoranda.grants WHERE tenant = $1 AND id = $2));",
    )
