"""Opening a database of PostgreSQL: made once, migrated, or refused with what to do; left without a trace."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import postgres_server
import psycopg
import pytest

import memoranda
from memoranda.errors import Busy, ForeignDatabase, MigrationNeeded, StorageError, Unavailable, UsageError
from memoranda.model.scope import Scope
from memoranda.store.base import TenantState
from memoranda.store.postgres import PostgresStore
from memoranda.store.postgres.migration import VERSION
from memoranda.store.sql.errors import without_secrets

Server = postgres_server.PostgresServer
SECRET = "swordfish-77"
PATIENCE = 10.0
"""Seconds after which a connection counts as left behind; nothing is measured with it."""


@pytest.fixture
def empty(postgres: Server) -> Any:
    """Return the name of a database that has no tables."""
    postgres.execute("DROP DATABASE IF EXISTS bare WITH (FORCE)", "CREATE DATABASE bare")
    yield "bare"
    postgres.execute("DROP DATABASE bare WITH (FORCE)")


def connections(postgres: Server, database: str = "postgres") -> int:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        counted = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND application_name = 'memoranda'", (database,)
        ).fetchone()
    assert counted is not None
    return counted[0]


def connections_left(postgres: Server, database: str) -> int:
    """Return how many connections stay: the server ends one a moment after its client has let go of it."""
    deadline = time.monotonic() + PATIENCE
    while (left := connections(postgres, database)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def test_the_first_to_open_makes_the_tables_and_the_next_finds_them(postgres: Server, empty: str):
    with PostgresStore(postgres.url(empty)) as store:
        assert store.read(lambda rows: rows.tenants()) == []
        store.transact(lambda rows: rows.set_tenant_state("default", TenantState(3, 2)))
    with PostgresStore(postgres.url(empty)) as store:
        assert store.read(lambda rows: rows.tenant_state("default")) == TenantState(3, 2)
        assert store.check() == []


RACE = """
import sys
from memoranda.store.postgres import PostgresStore

print("ready", flush=True)
sys.stdin.readline()
with PostgresStore(sys.argv[1]) as store:
    print(store.read(lambda rows: rows.tenants()), flush=True)
"""


def test_processes_that_open_it_at_once_make_it_once(postgres: Server, empty: str, run_child: Callable[..., Any]):
    children = [run_child(RACE, postgres.url(empty)) for _ in range(3)]
    assert [one.hear() for one in children] == ["ready"] * 3
    for one in children:
        one.say()
    assert [one.hear() for one in children] == ["[]"] * 3
    for one in children:
        one.finish()


def test_who_cannot_wait_for_the_others_is_told_that_they_are_busy(postgres: Server, empty: str):
    with psycopg.connect(postgres.url(empty)) as other:
        other.execute("SELECT pg_advisory_xact_lock(x'6d656d6f72616e64'::bigint)")
        with pytest.raises(Busy, match="busy_timeout"):
            PostgresStore(postgres.url(empty), busy_timeout=0.05)
    PostgresStore(postgres.url(empty), busy_timeout=0.05).close()


def test_an_index_that_is_not_whole_is_found(postgres: Server, empty: str):
    with PostgresStore(postgres.url(empty)) as store:
        assert store.check() == []
        spoil = "UPDATE pg_index SET indisvalid = {} WHERE indexrelid = 'memoranda.facts_by_key'::regclass"
        postgres.execute(spoil.format("false"), database=empty)
        assert store.check() == ["the index memoranda.facts_by_key is not valid"]


def test_a_newer_database_is_refused_untouched(postgres: Server, empty: str):
    url = postgres.url(empty)
    with PostgresStore(url) as store:
        store.transact(lambda rows: rows.set_tenant_state("default", TenantState(1, 1)))
        postgres.execute(f"UPDATE memoranda.migrated SET version = {VERSION + 1}", database=empty)
        with pytest.raises(MigrationNeeded) as caught:
            PostgresStore(url)
        assert (caught.value.found, caught.value.wanted) == (VERSION + 1, VERSION)
        with pytest.raises(MigrationNeeded):  # nor does a program go on to write that had opened it before
            store.transact(lambda rows: rows.set_tenant_state("default", TenantState(2, 2)))
        postgres.execute(f"UPDATE memoranda.migrated SET version = {VERSION}", database=empty)
        assert store.read(lambda rows: rows.tenant_state("default")) == TenantState(1, 1)


def test_a_schema_of_another_program_is_refused_untouched(postgres: Server, empty: str):
    postgres.execute("CREATE SCHEMA memoranda", "CREATE TABLE memoranda.facts (a int)", database=empty)
    with pytest.raises(ForeignDatabase, match="another program"):
        PostgresStore(postgres.url(empty))
    postgres.execute("DROP TABLE memoranda.facts", database=empty)  # an empty schema, made for us, is welcome
    with PostgresStore(postgres.url(empty)) as store:
        assert store.read(lambda rows: rows.tenants()) == []


def test_tables_of_others_beside_ours_do_not_matter(postgres: Server, empty: str):
    postgres.execute("CREATE TABLE facts (a int)", "CREATE TABLE migrated (b int)", database=empty)
    with PostgresStore(postgres.url(empty)) as store:
        assert store.read(lambda rows: rows.fact(Scope(), "k")) is None


def test_a_database_that_cannot_keep_every_text_is_refused(postgres: Server):
    postgres.execute("CREATE DATABASE narrow ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(Unavailable, match=r"LATIN1.*--encoding UTF8"):
            PostgresStore(postgres.url("narrow"))
    finally:
        postgres.execute("DROP DATABASE narrow WITH (FORCE)")


def test_a_database_that_is_not_there_is_told_with_how_to_make_it(postgres: Server):
    with pytest.raises(Unavailable, match=r"nowhere.*createdb"):
        PostgresStore(postgres.url("nowhere"))


def test_servers_that_are_not_there_are_all_named(tmp_path: Any):
    with pytest.raises(Unavailable, match=rf"{tmp_path}/a: .*; {tmp_path}/b: .*Check that the server runs"):
        PostgresStore(f"postgresql://owner@/team?host={tmp_path}/a,{tmp_path}/b")


def test_a_host_that_is_not_there_does_not_matter_beside_one_that_is(postgres: Server, tmp_path: Any):
    address = f"postgresql://owner@/postgres?host={tmp_path},{postgres.folder}"
    with PostgresStore(address) as store:
        assert store.check() == []
    with pytest.raises(Unavailable, match="createdb"):
        PostgresStore(address.replace("/postgres?", "/nowhere?"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"read_from": "nowhere"}, r'`nowhere` is nothing to read from.*or "standby"'),
        ({"pool": 0}, "`0` is not a number of connections.*from 1"),
        ({"pool": True}, "is not a number of connections"),
        ({"statement_timeout": 0}, "Pass statement_timeout as a number from 0.001"),
        ({"statement_timeout": float("nan")}, "Pass statement_timeout"),
        ({"busy_timeout": -1}, "Pass busy_timeout"),
    ],
)
@pytest.mark.parametrize("address", ["postgresql://owner@db.example/team", ":memory:"])
def test_options_that_mean_nothing_are_refused_before_anything_is_opened(
    address: str, options: dict[str, Any], said: str
):
    with pytest.raises(UsageError, match=said):
        memoranda.open(address, **options)


def test_what_is_for_servers_is_refused_for_a_file(tmp_path: Any):
    given: list[dict[str, Any]] = [{"read_from": "standby"}, {"statement_timeout": 1.0}]
    for options in given:
        with pytest.raises(UsageError, match="is for PostgreSQL"):
            memoranda.open(tmp_path / "team.db", **options)
    assert not (tmp_path / "team.db").exists()


def test_a_server_that_is_not_there_is_told_at_once(tmp_path: Any):
    with pytest.raises(Unavailable, match="Check that the server runs"):
        PostgresStore(f"postgresql://owner@/team?host={tmp_path}")


@pytest.fixture
def guarded(postgres: Server) -> Any:
    """Return a user that has a password, and no right to make anything."""
    postgres.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'")
    yield "guarded"
    postgres.execute("DROP OWNED BY guarded", "DROP ROLE guarded")


def test_a_password_opens_and_a_wrong_one_is_never_shown(postgres: Server, guarded: str, database: str):
    postgres.execute(
        "GRANT USAGE ON SCHEMA memoranda TO guarded",
        "GRANT SELECT ON ALL TABLES IN SCHEMA memoranda TO guarded",
        "INSERT INTO memoranda.roles (tenant, role) VALUES ('default', 'guarded')",
    )
    with PostgresStore(postgres.url(user=guarded, password=SECRET)) as store:
        assert store.read(lambda rows: rows.tenants()) == []
        assert SECRET not in store.url
    wrong = "guess-4711"
    with pytest.raises(Unavailable, match="PGPASSWORD") as caught:
        PostgresStore(postgres.url(user=guarded, password=wrong))
    told = f"{caught.value} {caught.value.details} {caught.value.__cause__}"
    assert wrong not in told
    assert "guarded" in told


@pytest.mark.parametrize("wrong", ["gu:ess/4711", "gu@ess?4711", "gu#ess&47=11", "gu%ess 47'11", 'gu\\ess"4711'])
@pytest.mark.parametrize("hosts", [1, 2])
def test_a_wrong_password_is_never_shown_whatever_is_in_it(postgres: Server, guarded: str, wrong: str, hosts: int):
    where = ",".join([str(postgres.folder)] * hosts)
    url = f"postgresql://{guarded}:{quote(wrong, safe='')}@/postgres?host={where}"
    with pytest.raises(Unavailable, match="PGPASSWORD") as caught:
        PostgresStore(url, busy_timeout=0.1)
    told = f"{caught.value} {caught.value.details} {caught.value.__cause__!r} {caught.value.hint}"
    for secret in (wrong, quote(wrong, safe=""), "4711"):
        assert secret not in told


def test_a_user_without_rights_is_told_whom_to_ask(postgres: Server, guarded: str, empty: str):
    with pytest.raises(Unavailable, match="owner of the database"):
        PostgresStore(postgres.url(empty, user=guarded, password=SECRET))
    PostgresStore(postgres.url(empty)).close()
    with pytest.raises(Unavailable, match=r"memoranda\.grant_rights"):
        PostgresStore(postgres.url(empty, user=guarded, password=SECRET))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("team.db", "team.db"),
        ("sqlite:////srv/team.db", "sqlite:////srv/team.db"),
        ("postgresql://db.example/team", "postgresql://db.example/team"),
        (f"postgresql://ada:{SECRET}@db.example:6432/team", "postgresql://ada@db.example:6432/team"),
        (f"postgres://:{SECRET}@/team?host=/run/pg", "postgres://@/team?host=/run/pg"),
        (f"postgresql://ada:{SECRET}@x@h/team", "postgresql://ada@h/team"),
        (f"postgresql://ada:a/{SECRET}@h/team", "postgresql://ada@h/team"),
        (f"postgresql://h/team?password={SECRET}&sslmode=require", "postgresql://h/team?sslmode=require"),
        (f"postgresql://h/team?sslmode=require&sslpassword={SECRET}", "postgresql://h/team?sslmode=require"),
    ],
)
def test_no_address_is_shown_with_its_password(given: str, shown: str):
    assert without_secrets(given) == shown


@pytest.mark.parametrize("damaged", ["postgresql://ada:{}%zz@h/team", "postgresql://ada:{}@[h/team"])
def test_an_address_that_cannot_be_read_is_refused_without_its_password(damaged: str):
    with pytest.raises(UsageError, match=r"postgresql://ada@\[?h.*Write postgresql://user@host") as caught:
        memoranda.open(damaged.format(SECRET))
    assert SECRET not in f"{caught.value} {caught.value.__cause__} {caught.value.details}"
    assert caught.value.__suppress_context__


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith("memoranda.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Unavailable, match=r'pip install "memoranda\[postgres\]"'):
        memoranda.open("postgresql://ada@db.example/team")
    with memoranda.open(":memory:") as memory:  # no other store needs it
        assert memory.scope(user="ada").set("k", 1).version == 1


def test_the_memory_behind_an_address_is_the_whole_engine(database: str):
    for scheme in ("postgresql", "postgres"):
        with memoranda.open(database.replace("postgresql", scheme, 1), embedder="hashing:64") as memory:
            ada = memory.scope(user="ada")
            ada.set("language", scheme)
            ada.remember("The kiln is lit on Fridays", collection="notes")
    with memoranda.open(database, embedder="hashing:64") as memory:
        ada = memory.scope(user="ada")
        assert [revision.value for revision in ada.history("language")] == ["postgresql", "postgres"]
        assert ada.recall("kiln", collection="notes").count == 1
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())


def test_a_closed_store_has_no_connection_left_and_says_that_it_is_closed(postgres: Server, empty: str):
    store = PostgresStore(postgres.url(empty))
    store.read(lambda rows: store.transact(lambda more: more.set_tenant_state("default", TenantState(1, 1))))
    assert connections(postgres, empty) == 2
    store.close()
    store.close()
    assert connections_left(postgres, empty) == 0
    for attempt in (
        lambda: store.read(lambda rows: rows.tenants()),
        lambda: store.transact(lambda rows: rows.tenants()),
        lambda: store.read(lambda rows: rows.fact(Scope(), "k"), snapshot=False),
        store.mark,
        store.check,
        store.scrub,
    ):
        with pytest.raises(Unavailable, match="is closed"):
            attempt()


def test_a_store_that_cannot_be_opened_leaves_no_connection(postgres: Server, empty: str):
    postgres.execute("CREATE SCHEMA memoranda", "CREATE TABLE memoranda.facts (a int)", database=empty)
    # A caller that keeps the error keeps the store that could not be opened: no collector closes its connection.
    with pytest.raises(ForeignDatabase) as refused:
        PostgresStore(postgres.url(empty))
    assert connections_left(postgres, empty) == 0
    assert refused.value.url == postgres.url(empty)


def test_a_forked_child_is_refused_and_the_parent_goes_on(database: str):
    with PostgresStore(database) as store:
        store.transact(lambda rows: rows.set_tenant_state("default", TenantState(1, 1)))
        pid = os.fork()
        if pid == 0:
            try:
                for attempt in (
                    lambda: store.read(lambda rows: rows.tenants()),
                    lambda: store.read(lambda rows: rows.fact(Scope(), "k"), snapshot=False),
                ):
                    try:
                        attempt()
                    except Unavailable as error:
                        if "after forking" not in str(error):
                            os._exit(1)
                    else:
                        os._exit(2)
                store.close()
                os._exit(0)
            finally:
                os._exit(3)
        assert os.waitpid(pid, 0)[1] == 0
        assert store.read(lambda rows: rows.tenant_state("default")) == TenantState(1, 1)


def test_every_error_of_opening_is_one_of_ours(postgres: Server):
    for url in (postgres.url("nowhere"), postgres.url(user="nobody-here"), "postgresql://owner@/x?host=/nonexistent"):
        with pytest.raises(StorageError) as caught:
            PostgresStore(url)
        assert caught.value.hint
        assert caught.value.url == without_secrets(url)


# a server that answers, and has no room or no time yet


REFUSALS = [
    ("53300", "sorry, too many clients already", Busy, "max_connections"),
    (
        "53300",
        "remaining connection slots are reserved for roles with the SUPERUSER attribute",
        Busy,
        "max_connections",
    ),
    ("57P03", "the database system is starting up", Unavailable, "busy_timeout"),
    ("57P03", "the database system is not yet accepting connections", Unavailable, "busy_timeout"),
]


@pytest.mark.parametrize(("code", "message", "kind", "hint"), REFUSALS)
def test_a_server_that_is_full_or_starting_is_waited_for(
    postgres: Server, code: str, message: str, kind: Any, hint: str
):
    turnstile = postgres_server.Turnstile(postgres, code, message, times=3)
    try:
        with PostgresStore(turnstile.url, busy_timeout=30.0) as store:
            assert store.check() == []
        assert turnstile.refused == 3
        turnstile._times = 1_000_000
        with pytest.raises(kind) as refused:
            PostgresStore(turnstile.url, busy_timeout=0.3)
        assert message.split(" are reserved")[0] in refused.value.message and hint in refused.value.hint
        assert turnstile.refused > 5, "it gave up before its time was over"
    finally:
        turnstile.close()


def test_a_role_that_has_no_connection_left_waits_until_another_is_closed(postgres: Server):
    PostgresStore(postgres.url()).close()
    postgres.execute("CREATE ROLE solo LOGIN SUPERUSER CONNECTION LIMIT 1")
    try:
        postgres.execute("ALTER ROLE solo NOSUPERUSER", "GRANT owner TO solo")
        only = psycopg.connect(postgres.url(user="solo"))
        with pytest.raises(Busy, match="too many connections"):
            PostgresStore(postgres.url(user="solo"), busy_timeout=0.2)
        closing = threading.Timer(0.5, only.close)
        closing.start()
        PostgresStore(postgres.url(user="solo"), busy_timeout=30.0).close()
        closing.join()
    finally:
        postgres.execute("REVOKE owner FROM solo", "DROP ROLE solo")
