"""schema.sql, the migrations and the files of queries agree with each other and with the code that names them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import memoranda.store.postgres
from memoranda.store.postgres.dialect import PARTITIONED, SQL, statements
from memoranda.store.postgres.migration import MIGRATIONS, SCHEMA
from memoranda.store.sqlite.dialect import SQL as SQL_OF_SQLITE

PACKAGE = Path(memoranda.store.postgres.__file__).parent
SHARED = PACKAGE.parent / "sql"
TABLES = 31
PARTITIONS = 8
UNPARTITIONED = SCHEMA.replace(" PARTITION BY HASH (tenant)", "")
"""The schema as databases have it that are older than partitions, once they are migrated."""

COLUMNS = """
SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default, is_identity
FROM information_schema.columns WHERE table_schema = 'memoranda'
"""
INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'memoranda'"
STORAGE = """
SELECT relname, attname, attstorage, reloptions FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relnamespace = 'memoranda'::regnamespace AND attnum > 0 AND relkind IN ('r', 'p')
"""
SECURED = """
SELECT relname, relrowsecurity, polname, polcmd, pg_get_expr(polqual, polrelid) FROM pg_class
LEFT JOIN pg_policy ON polrelid = pg_class.oid
WHERE relnamespace = 'memoranda'::regnamespace AND relkind IN ('r', 'p')
"""
FUNCTIONS = """
SELECT proname, prosecdef, proconfig, proacl, pg_get_function_arguments(oid), prosrc FROM pg_proc
WHERE pronamespace = 'memoranda'::regnamespace
"""
MADE = (COLUMNS, INDEXES, STORAGE, SECURED, FUNCTIONS)

Connection = psycopg.Connection[Any]


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened


def made_by(connection: Connection, *scripts: str) -> set[tuple[Any, ...]]:
    """Return all there is in a schema that these scripts make, and leave the one that is there as it was."""
    with connection.transaction(force_rollback=True):
        connection.execute("ALTER SCHEMA memoranda RENAME TO put_aside; CREATE SCHEMA memoranda")
        for script in scripts:
            connection.execute(script.encode())
        rows = [connection.execute(asked.encode()).fetchall() for asked in MADE]
    return {tuple(map(str, row)) for some in rows for row in some}


@pytest.mark.capability("migration", backend="postgres")
def test_the_migrations_in_order_give_the_schema(connection: Connection):
    assert SCHEMA.count(" PARTITION BY HASH (tenant);") == len(PARTITIONED)
    assert made_by(connection, UNPARTITIONED) == made_by(connection, *MIGRATIONS)
    # The comparison does see a difference.
    assert made_by(connection, UNPARTITIONED) != made_by(
        connection, *MIGRATIONS, "CREATE TABLE memoranda.stray (a int)"
    )


WITHOUT_PORTIONS = """
DROP TABLE memoranda.portions, memoranda.parts;
DO $$
DECLARE
    held REGPROCEDURE;
BEGIN
    FOR held IN
        SELECT oid FROM pg_proc WHERE pronamespace = 'memoranda'::regnamespace AND proname ~ '^remove_(portions|parts)'
    LOOP
        EXECUTE format('DROP FUNCTION %s', held);
    END LOOP;
END
$$
"""
"""Makes the seventh version of the schema of the eighth."""


@pytest.mark.parametrize("schema", [SCHEMA, UNPARTITIONED], ids=["partitioned", "unpartitioned"])
def test_the_tables_of_portions_are_added_to_databases_of_both_kinds(connection: Connection, schema: str):
    assert made_by(connection, schema, WITHOUT_PORTIONS, MIGRATIONS[7]) == made_by(connection, schema)
    assert made_by(connection, schema, WITHOUT_PORTIONS) != made_by(connection, schema)


def test_each_partition_is_as_its_table_would_be(connection: Connection):
    """Those who use a partition need what the table has: its indexes, storage, policies, rights and functions."""

    def named(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(re.sub(rf"\b((?:remove_)?(?:{'|'.join(PARTITIONED)}))(_[0-9])(?=_|\b)", r"\1", one) for one in row)

    def bare(rows: set[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
        """Without the names of indexes, which PostgreSQL makes up for partitions."""
        return {(row[0], re.sub(r"INDEX \w+", "INDEX", row[2])) if "INDEX" in str(row[2]) else row for row in rows}

    partitioned = bare({named(row) for row in made_by(connection, SCHEMA)})
    whole = bare(made_by(connection, UNPARTITIONED))
    assert whole - partitioned == set()
    # Each is there as often as it should be.
    indexes = connection.execute("SELECT tablename FROM pg_indexes WHERE schemaname = 'memoranda'").fetchall()
    counted = Counter(table for (table,) in indexes)
    for table in PARTITIONED:
        assert [counted[f"{table}_{place}"] for place in range(PARTITIONS)] == [counted[table]] * PARTITIONS


def test_a_partition_is_the_one_that_the_server_keeps_a_tenant_in(connection: Connection):
    seen: set[int] = set()
    for number in range(64):
        tenant = f"tenant {number} ü"
        connection.execute(
            "INSERT INTO memoranda.content_keys (tenant, scope, key) VALUES (%s, 'user:ada', 'k')", (tenant,)
        )
        asked = SQL["get_partition"].replace(b"$1", b"%s")
        ((place,),) = connection.execute(asked, (tenant,)).fetchall()
        found = connection.execute(
            f"SELECT count(*) FROM memoranda.content_keys_{place} WHERE tenant = %s".encode(), (tenant,)
        ).fetchone()
        assert found == (1,)
        seen.add(place)
    assert seen == set(range(PARTITIONS))


def test_the_statements_of_a_partition_name_it_and_no_table_that_has_partitions():
    for name, sql in statements(3).items():
        if name in ("list_tenants", "get_rights", "get_partition", "list_notices"):  # which are about all tenants
            continue
        for table in PARTITIONED:
            assert re.findall(rb"memoranda\.(?:remove_)?%s\b" % table.encode(), sql) == [], name
    assert statements(3)["get_fact"] != statements(4)["get_fact"] != statements(None)["get_fact"] == SQL["get_fact"]


RIGHTS_TO_REJECTIONS = """
SELECT has_table_privilege('tenders', 'memoranda.rejections', 'SELECT'),
    has_table_privilege('tenders', 'memoranda.rejections', 'INSERT'),
    has_column_privilege('tenders', 'memoranda.rejections', 'messages', 'UPDATE'),
    has_column_privilege('tenders', 'memoranda.tenants', 'rejected', 'UPDATE'),
    has_function_privilege('tenders', 'memoranda.remove_rejections(text, tid[])', 'EXECUTE'),
    has_column_privilege('tenders', 'memoranda.rejections', 'tenant', 'UPDATE')
"""


RIGHTS_TO_PARTS = """
SELECT has_table_privilege('tenders', 'memoranda.parts', 'SELECT'),
    has_table_privilege('tenders', 'memoranda.parts', 'INSERT'),
    has_table_privilege('tenders', 'memoranda.portions', 'INSERT'),
    has_function_privilege('tenders', 'memoranda.remove_parts(text, tid[])', 'EXECUTE'),
    has_function_privilege('tenders', 'memoranda.remove_portions(text, tid[])', 'EXECUTE'),
    has_column_privilege('tenders', 'memoranda.parts', 'tenant', 'UPDATE')
"""


def test_roles_of_the_third_version_get_the_rights_to_rejections(connection: Connection):
    with connection.transaction(force_rollback=True):
        connection.execute("ALTER SCHEMA memoranda RENAME TO put_aside; CREATE SCHEMA memoranda")
        connection.execute("CREATE ROLE tenders NOLOGIN")
        for script in MIGRATIONS[:3]:
            connection.execute(script.encode())
        connection.execute("SELECT memoranda.grant_rights('tenders')")
        for script in MIGRATIONS[3:]:
            connection.execute(script.encode())
        assert connection.execute(RIGHTS_TO_REJECTIONS).fetchone() == (True, True, True, True, True, False)
        assert connection.execute(RIGHTS_TO_PARTS).fetchone() == (True, True, True, True, True, False)


def test_migrations_are_numbered_without_gaps():
    numbers = [int(file.name[:4]) for file in sorted((PACKAGE / "migrations").glob("*.sql"))]
    assert numbers == list(range(1, len(MIGRATIONS) + 1))


def test_every_key_and_every_index_is_led_by_its_tenant(connection: Connection):
    indexes = connection.execute(INDEXES).fetchall()
    whole = {table for table, _, _ in indexes if not table[-1].isdigit()}
    assert len(whole) == TABLES - 1  # all but the one row that says the version
    assert [name for _, name, made in indexes if not re.search(r"\(tenant\b", made)] == []


def test_no_table_shows_a_row_to_roles_that_were_not_given_its_tenant(connection: Connection):
    secured = {table: (on, policy) for table, on, policy, _, _ in connection.execute(SECURED).fetchall()}
    apart = {"roles": (True, "own_rows"), "migrated": (True, "for_everybody")}
    assert len(secured) == TABLES + PARTITIONS * len(PARTITIONED)
    assert {table: found for table, found in secured.items() if found != (True, "own_tenants")} == apart


def test_texts_are_ordered_by_their_code_points(connection: Connection):
    texts = [row for row in connection.execute(COLUMNS).fetchall() if row[2] == "text"]
    assert len(texts) > 60
    assert [row[:2] for row in texts if row[3] != "C"] == []


def test_every_query_is_used_and_every_used_query_exists():
    code = "".join(file.read_text() for folder in (PACKAGE, SHARED) for file in folder.glob("*.py"))
    named = set(
        re.findall(r'(?:SQL\[|_(?:all|row|value|run|count|pages_below|on_shelf)\(|_row\(\w+, )\s*"(\w+)"', code)
    )
    assert named <= set(SQL) <= set(re.findall(r'"(\w+)"', code))


def test_every_statement_uses_all_of_its_parameters():
    text = "".join(file.read_text() for file in (*SHARED.glob("*.sql"), PACKAGE / "queries.sql"))
    declared = re.findall(r"^-- name: (\w+)\(([\w, ]*)\)(?: \[postgres\])?$", text, re.MULTILINE)
    assert {name for name, _ in declared} == set(SQL)
    for name, parameters in declared:
        wanted = len(parameters.split(", ")) if parameters else 0
        assert set(map(int, re.findall(rb"\$(\d+)", SQL[name]))) - {0} == set(range(1, wanted + 1)), name


def test_both_stores_take_the_same_values_for_the_same_names():
    def values(sql: str) -> int:
        return max((int(number) for number in re.findall(r"[$?](\d+)", sql)), default=0)

    # In SQLite an entry gets its number by itself, and what an index needs of it is kept beside its vector.
    shared = set(SQL) & set(SQL_OF_SQLITE) - {"add_entry", "add_vector"}
    assert len(shared) > 100
    assert {name for name in shared if values(SQL[name].decode()) != values(SQL_OF_SQLITE[name])} == set()


def test_every_query_is_described():
    text = (PACKAGE / "queries.sql").read_text()
    described = re.findall(r"^-- name: \w+\([\w, ]*\)\n-- [A-Z].*\.$", text, re.MULTILINE)
    assert len(described) == len(re.findall(r"^-- name: ", text, re.MULTILINE))


def test_no_sql_hides_in_the_code():
    pattern = re.compile(r'"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|VACUUM)\b')
    assert pattern.search('execute("SELECT 1")')
    found = {file.name: pattern.findall(file.read_text()) for file in PACKAGE.glob("*.py")}
    assert {name: hits for name, hits in found.items() if hits} == {"dialect.py": ["SELECT"]}  # what DELETE becomes


def test_rows_are_removed_where_they_are_and_by_the_owner_alone(connection: Connection):
    """However many rows a tenant has, removing one of them looks at that one."""
    functions = {row[0]: row for row in connection.execute(FUNCTIONS).fetchall() if row[0].startswith("remove_")}
    plain = set(re.findall(r"memoranda\.remove_(\w+)", " ".join(sql.decode() for sql in SQL.values())))
    assert len(plain) == TABLES - 8  # all but roles, migrated, erasures, epochs, and those of the ledger's order
    parts = {f"{table}_{place}" for table in PARTITIONED for place in range(PARTITIONS)} - {
        f"events_{place}" for place in range(PARTITIONS)
    }
    assert {name[len("remove_") :] for name in functions} == plain - set(PARTITIONED) | parts
    for name, as_owner, settings, acl, _, source in functions.values():
        assert (as_owner, settings) == (True, ["search_path=pg_catalog, pg_temp"]), name
        assert [given for given in acl if given.startswith("=")] == [], name  # nothing to PUBLIC
        (delete,) = re.findall(r"DELETE FROM .*?;", source)
        with connection.transaction(force_rollback=True):
            connection.execute("SET LOCAL enable_seqscan = off")
            plan = connection.execute(f"EXPLAIN (GENERIC_PLAN) {delete}".encode()).fetchall()
        assert "Tid Scan" in str(plan), name


@pytest.mark.parametrize("schema", [SCHEMA, UNPARTITIONED], ids=["partitioned", "unpartitioned"])
@pytest.mark.parametrize("role", ["owner", "tenant_reader"])
def test_no_query_has_to_read_a_whole_table(connection: Connection, role: str, schema: str):
    """Where PostgreSQL may read a table from end to end only if nothing else would do, it never does."""
    plans = {}
    with connection.transaction(force_rollback=True):
        connection.execute("ALTER SCHEMA memoranda RENAME TO put_aside; CREATE SCHEMA memoranda")
        connection.execute(schema.encode())  # tables without statistics
        connection.execute("CREATE ROLE tenant_reader; SELECT memoranda.grant_rights('tenant_reader')")
        connection.execute(f"SET LOCAL ROLE {role}; SET LOCAL enable_seqscan = off".encode())
        for name, sql in statements(3 if schema is SCHEMA else None).items():
            if name in ("forget_version", "keep_version") and role != "owner":  # who alone migrates
                continue
            if re.match(rb"(SELECT|INSERT|UPDATE|DELETE|WITH)\b", sql):
                lines = connection.execute(b"EXPLAIN (GENERIC_PLAN) " + sql).fetchall()
                plans[name] = "\n".join(line for (line,) in lines)
    assert len(plans) > 100
    scans = {name for name, plan in plans.items() if re.search(r"Seq Scan on (?!migrated|pg_)", plan)}
    # One statement leaps from tenant to tenant, and asks two small tables for all they have.
    assert scans - {"list_tenants", "forget_version"} == set()
    # Nor is each row of one table held against each of another.
    assert {name for name, plan in plans.items() if "Join Filter" in plan} <= {"list_vector_counts"}
