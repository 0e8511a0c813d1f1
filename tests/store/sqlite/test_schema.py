"""schema.sql, the migrations and the files of queries agree with each other and with the code that names them."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

import memoranda
import memoranda.store.sqlite
from memoranda.store.sqlite.connection import (
    APPLICATION_ID,
    IN_MEMORY,
    MIGRATIONS,
    SCHEMA,
    VERSION,
    Settings,
    migrate,
    open_writer,
)
from memoranda.store.sqlite.dialect import SQL


def blanks(sql: str) -> list[None]:
    """Return a NULL for each parameter of a statement."""
    return [None] * max((int(number) for number in re.findall(r"\?(\d+)", sql)), default=0)


PACKAGE = Path(memoranda.store.sqlite.__file__).parent
SHARED = PACKAGE.parent / "sql"


def tables(*scripts: str) -> set[tuple[apsw.SQLiteValue, ...]]:
    connection = apsw.Connection(":memory:")
    for script in scripts:
        connection.execute(script)
    return set(connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall())


@pytest.mark.capability("migration", backend="sqlite")
def test_the_migrations_in_order_give_the_schema():
    assert tables(SCHEMA) == tables(*MIGRATIONS)
    assert tables(SCHEMA) != tables(*MIGRATIONS, "CREATE TABLE stray (a)")  # the comparison does see a difference


def test_a_database_in_memory_is_made_as_one_in_a_file_is(tmp_path):
    def made(path: str) -> list[object]:
        connection = open_writer(Settings(path=path, durability="full", busy_timeout=1.0, vfs=None))
        migrate(connection, path, patience=1.0)
        told = [connection.pragma(name) for name in ("application_id", "user_version", "page_size", "integrity_check")]
        return [*told, *connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()]

    assert made(IN_MEMORY) == made(str(tmp_path / "memory.db"))
    assert made(IN_MEMORY)[:2] == [APPLICATION_ID, VERSION]


def test_databases_in_memory_have_nothing_in_common():
    with memoranda.open(":memory:") as one, memoranda.open(":memory:") as other:
        one.scope(user="ada").set("tea", "green")
        assert one.scope(user="ada").value("tea") == "green"
        assert other.scope(user="ada").get("tea") is None
        with memoranda.open(":memory:") as later:
            assert later.scope(user="ada").get("tea") is None


def test_migrations_are_numbered_without_gaps():
    numbers = [int(file.name[:4]) for file in sorted((PACKAGE / "migrations").glob("*.sql"))]
    assert numbers == list(range(1, len(MIGRATIONS) + 1))


def test_every_table_is_strict_and_led_by_its_tenant():
    connection = apsw.Connection(":memory:")
    connection.execute(SCHEMA)
    listed = connection.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'").fetchall()
    ours = {str(name): strict for name, strict in listed if not str(name).startswith("sqlite_")}
    assert len(ours) == 25
    assert all(ours.values())
    for name in ours.keys() - {"entries", "vectors", "removals"}:  # these belong to a tenant through their shelf
        leading = connection.execute(
            "SELECT name FROM pragma_index_xinfo((SELECT name FROM pragma_index_list(?) "
            "WHERE origin IN ('pk', 'u') OR partial = 0 LIMIT 1)) WHERE seqno = 0",
            (name,),
        ).get
        assert leading == "tenant", name


def test_every_query_is_used_and_every_used_query_exists():
    code = "".join(file.read_text() for folder in (PACKAGE, SHARED) for file in folder.glob("*.py"))
    named = set(re.findall(r'(?:SQL\[|_(?:all|row|value|run|count|run_all|pages_below|on_shelf)\()\s*"(\w+)"', code))
    assert named <= set(SQL) <= set(re.findall(r'"(\w+)"', code))  # some are chosen from tables


def test_every_query_can_be_prepared_and_is_described():
    connection = apsw.Connection(":memory:")
    connection.execute(SCHEMA)
    for name, sql in SQL.items():
        if name != "vacuum":
            connection.execute("EXPLAIN " + sql, blanks(sql)).fetchall()
    with pytest.raises(apsw.SQLError):
        connection.execute("EXPLAIN SELECT nothing FROM nowhere")
    text = "".join(file.read_text() for file in SHARED.glob("*.sql"))
    headings = re.findall(r"^-- name: .*$", text, re.MULTILINE)
    described = re.findall(r"^-- name: \w+\([\w, ]*\)(?: \[(?:sqlite|postgres)\])?\n-- [A-Z].*\.$", text, re.MULTILINE)
    assert len(described) == len(headings) > len(SQL)


def test_no_sql_hides_in_the_code():
    pattern = re.compile(r'"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|VACUUM)\b')
    assert pattern.search('execute("SELECT 1")')
    files = [*PACKAGE.glob("*.py"), *SHARED.glob("*.py")]
    found = {file.name: pattern.findall(file.read_text()) for file in files}
    assert {name: hits for name, hits in found.items() if hits} == {"dialect.py": ["INSERT"]}  # what UPSERT becomes


@pytest.mark.parametrize(
    "name",
    [name for name in SQL if re.match(r"(get|list|page|remove|erase|forget)_", name) and name != "list_tenants"],
)
def test_no_query_reads_a_whole_table(name: str):
    connection = apsw.Connection(":memory:")
    connection.execute(SCHEMA)
    plan = connection.execute("EXPLAIN QUERY PLAN " + SQL[name], blanks(SQL[name])).fetchall()
    details = [str(detail) for *_, detail in plan]
    scans = [one for one in details if re.match(r"SCAN (?!\(|CONSTANT|used\b|of_facts\b|json_each\b|.*SUBQUERY)", one)]
    assert scans == []
