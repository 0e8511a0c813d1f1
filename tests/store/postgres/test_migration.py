"""Programs of two versions use one database while it is migrated, and no other waits behind a migration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress

import psycopg
import pytest
from postgres_server import PostgresServer, make_released_schema

import memoranda
from memoranda.errors import Busy, MigrationNeeded
from memoranda.store.postgres import PostgresStore, connection, migration
from memoranda.store.postgres.migration import MIGRATIONS, VERSION, steps_of
from memoranda.testing.conformance.base import present

NEXT = """
-- step: concurrently
CREATE INDEX CONCURRENTLY facts_by_color ON memoranda.facts (tenant COLLATE "POSIX", door) WHERE door = 'color';
-- step: pre
ALTER TABLE memoranda.facts ADD COLUMN color TEXT COLLATE "C";
-- step: post
ALTER TABLE memoranda.facts DROP COLUMN color;
CREATE TABLE memoranda.finished (tenant TEXT);
"""
"""A migration as a later version might bring it."""

WHOLE = "CREATE TABLE memoranda.finished (tenant TEXT);"

INDEXES = """
SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relname LIKE 'facts_by_color%' ORDER BY relname
"""

AsVersion = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def as_version(monkeypatch: pytest.MonkeyPatch) -> AsVersion:
    """Return a function that lets this process be a program of another version, one step later than today's."""

    @contextmanager
    def become(added: str | None) -> Iterator[None]:
        known = MIGRATIONS if added is None else (*MIGRATIONS, added)
        with monkeypatch.context() as patched:
            patched.setattr(migration, "MIGRATIONS", known)
            patched.setattr(migration, "VERSION", len(known))
            yield

    return become


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let those who write be programs of the version before, whatever version this process is."""
    monkeypatch.setattr(connection, "check_version", lambda *found: None)


@pytest.fixture(params=["partitioned", "unpartitioned"])
def changing(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[str]:
    """Return the address of a database that a test may migrate: a new one, or one that 0.1.0 made."""
    postgres.execute("CREATE DATABASE changing")
    if request.param == "unpartitioned":
        make_released_schema(postgres.url("changing"))
    yield postgres.url("changing")
    postgres.execute("DROP DATABASE changing WITH (FORCE)")


def answers(url: str, asked: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as asking:
        return asking.execute(asked.encode()).fetchall()


def test_released_migrations_have_steps_that_are_known():
    for number, text in enumerate(MIGRATIONS, 1):
        assert steps_of(text).keys() <= {"concurrently", "pre", "post"} or steps_of(text).keys() == {"whole"}, number
    assert steps_of(NEXT).keys() == {"concurrently", "pre", "post"}


def test_programs_of_two_versions_write_side_by_side_until_it_is_finished(changing: str, as_version: AsVersion):
    with memoranda.open(changing) as old:
        old.finish_migration()  # of what brought it here
        old.scope(user="ada").set("tea", "green")
        with as_version(NEXT):
            new = memoranda.open(changing)
            assert new.scope(user="ada").set("tea", "black").version == 2
        # Programs that know one number compare it with theirs.
        assert answers(changing, "SELECT version, prepared FROM memoranda.migrated") == [(VERSION, VERSION + 1)]
        for number in range(3):
            assert old.scope(user="ada").set("tea", number).version == 3 + 2 * number
            with as_version(NEXT):
                assert new.scope(user="ada").set("tea", number).version == 4 + 2 * number
        with memoranda.open(changing) as restarted:
            assert restarted.scope(user="bob").set("tea", "none").version == 1
            assert restarted.ledger.verify().ok
        with as_version(NEXT), new:
            (told,) = [one.detail for one in new.inspect() if "finish the migration" in one.detail]
            assert f"programs of schema {VERSION} may still write" in told
            assert "memoranda upgrade --finish" in told
            assert answers(changing, "SELECT to_regclass('memoranda.finished')") == [(None,)]
            assert new.finish_migration() is True
            assert new.finish_migration() is False
            assert answers(changing, "SELECT to_regclass('memoranda.finished')::text") == [("memoranda.finished",)]
            assert not [one for one in new.inspect() if "finish the migration" in one.detail]
            assert new.scope(user="ada").set("tea", "white").version == 9
            assert new.ledger.verify().ok
        with pytest.raises(MigrationNeeded):
            old.scope(user="ada").set("tea", "red")
        with pytest.raises(MigrationNeeded):
            memoranda.open(changing)
    with as_version(NEXT), memoranda.open(changing) as new:
        assert new.scope(user="ada").value("tea") == "white"


def test_an_older_program_does_not_finish_what_it_does_not_know(changing: str, as_version: AsVersion):
    with memoranda.open(changing) as old:
        old.finish_migration()
        with as_version(NEXT):
            memoranda.open(changing).close()
        with pytest.raises(MigrationNeeded):
            old.finish_migration()
        assert old.scope(user="ada").set("tea", "green").version == 1


def test_a_migration_without_steps_refuses_older_programs_at_once(changing: str, as_version: AsVersion):
    with memoranda.open(changing) as old:
        old.scope(user="ada").set("tea", "green")
        with as_version(WHOLE), memoranda.open(changing) as new:
            assert new.scope(user="ada").set("tea", "black").version == 2
            assert new.finish_migration() is False
        with pytest.raises(MigrationNeeded):
            old.scope(user="ada").set("tea", "red")


def test_what_0_1_0_wrote_is_there_after_its_migration(postgres: PostgresServer):
    postgres.execute("CREATE DATABASE changing")
    url = postgres.url("changing")
    try:
        make_released_schema(url)
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute("""
                INSERT INTO recollect.facts
                    (tenant, scope, key, id, version, created_at, updated_at, actor, door, payload)
                VALUES ('default', 'user:ada', 'tea', 'fact_1', 1, 5, 5, 'owner', 'mcp', '"green"')
            """)
        with memoranda.open(url) as memory:
            fact = present(memory.scope(user="ada").get("tea"))
            assert (fact.value, fact.version, fact.origin.kind) == ("green", 1, "assistant")
            # No program of 0.1.0 can use it any more: its tables had another name.
            whole = max(number for number, text in enumerate(MIGRATIONS, 1) if "whole" in steps_of(text))
            assert answers(url, "SELECT version, prepared FROM memoranda.migrated") == [(whole, VERSION)]
    finally:
        postgres.execute("DROP DATABASE changing WITH (FORCE)")


@pytest.mark.parametrize("interrupted", [False, True])
def test_indexes_are_made_while_others_write(changing: str, as_version: AsVersion, unchecked: None, interrupted: bool):
    PostgresStore(changing).close()
    partitions = len(answers(changing, "SELECT 1 FROM pg_inherits WHERE inhparent = 'memoranda.facts'::regclass"))
    if interrupted:  # what that leaves is an index that is not valid
        table = "facts_3" if partitions else "facts"
        index = "facts_by_color" + table.removeprefix("facts")
        with psycopg.connect(changing, autocommit=True) as owner:
            owner.execute(f"CREATE INDEX {index} ON memoranda.{table} (scope)".encode())
            owner.execute(
                f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'memoranda.{index}'::regclass".encode()
            )
    memory = memoranda.open(changing)
    with as_version(NEXT), memory, ThreadPoolExecutor(1) as threads, psycopg.connect(changing) as writing:
        # The index waits for a transaction that writes, and other writers do not wait for the index.
        writing.execute("LOCK TABLE memoranda.facts IN ROW EXCLUSIVE MODE")
        upgrading = threads.submit(lambda: PostgresStore(changing).close())
        wait_for(lambda: is_waiting(changing, "%INDEX CONCURRENTLY"))
        for number in range(3):
            memory.scope(user="ada").set("tea", number)
        assert not upgrading.done()
        writing.rollback()
        upgrading.result(30)
    found = answers(changing, INDEXES)
    assert len(found) == 1 + partitions
    assert {valid for _, valid in found} == {True}
    made = answers(changing, "SELECT indexdef FROM pg_indexes WHERE indexname LIKE 'facts_by_color%'")
    assert all("door = 'color'" in str(definition) for (definition,) in made)


def is_waiting(url: str, statement: str) -> bool:
    asked = f"SELECT 1 FROM pg_stat_activity WHERE query LIKE '{statement}%' AND wait_event_type = 'Lock'"
    return answers(url, asked) != []


def wait_for(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(("lock_timeout", "written"), [(None, 10), ("60000", 0)], ids=["short", "long"])
def test_nobody_waits_behind_a_migration_that_waits_for_a_table(
    changing: str,
    as_version: AsVersion,
    unchecked: None,
    monkeypatch: pytest.MonkeyPatch,
    lock_timeout: str | None,
    written: int,
):
    """With a long timeout everybody does: so the test sees who waits."""
    added = "-- step: pre\nALTER TABLE memoranda.facts ADD COLUMN color TEXT;\n"
    if lock_timeout:
        monkeypatch.setattr(migration, "LOCK_TIMEOUT", lock_timeout)
    PostgresStore(changing).close()
    memory = memoranda.open(changing, busy_timeout=0.4)
    with as_version(added), memory, ThreadPoolExecutor(1) as threads, psycopg.connect(changing) as reading:
        reading.execute("SELECT 1 FROM memoranda.facts").fetchall()
        upgrading = threads.submit(lambda: PostgresStore(changing, busy_timeout=30.0).close())
        wait_for(lambda: is_waiting(changing, "ALTER TABLE"))
        count = 0
        with suppress(Busy):
            while count < 10:
                memory.scope(user="ada").set("tea", count)
                count += 1
        assert not upgrading.done()
        assert count == written
        reading.rollback()
        upgrading.result(30)
        assert answers(changing, "SELECT prepared FROM memoranda.migrated") == [(VERSION + 1,)]


def test_a_finish_waits_for_those_who_write_and_gives_up_in_time(changing: str, as_version: AsVersion):
    with memoranda.open(changing, busy_timeout=0.4) as old:
        old.finish_migration()
        old.scope(user="ada").set("tea", "green")
        with as_version(NEXT), memoranda.open(changing, busy_timeout=0.4) as new, psycopg.connect(changing) as writing:
            writing.execute("SELECT 1 FROM memoranda.tenants FOR UPDATE")
            with pytest.raises(Busy):
                new.finish_migration()
            writing.rollback()
            assert new.finish_migration() is True


def test_programs_that_open_at_once_migrate_once(changing: str, as_version: AsVersion):
    PostgresStore(changing).close()
    with as_version(NEXT), ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(lambda: PostgresStore(changing, busy_timeout=20.0).close()) for _ in range(4)]:
            done.result(60)
        assert answers(changing, "SELECT prepared FROM memoranda.migrated") == [(VERSION + 1,)]
