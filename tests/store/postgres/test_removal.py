"""Erasing on PostgreSQL makes no other tenant wait; the receipt says what is left; a scrub rewrites one tenant's."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import psycopg
import pytest
from postgres_server import PostgresServer, make_released_schema

import memoranda
from memoranda.model.clock import SystemClock
from memoranda.model.scope import Scope
from memoranda.store.base import FactQuery
from memoranda.store.postgres import PostgresStore, removal
from memoranda.store.postgres.dialect import PARTITIONED, SQL
from memoranda.testing.conformance.base import present

MARK = "the heron by the weir"

FILL = """
WITH made AS (
    INSERT INTO memoranda.facts (tenant, scope, key, id, version, created_at, updated_at, actor, door, payload)
    SELECT %(tenant)s, 'user:ada', 'k' || n, 'f' || n, 1, 0, 0, 'owner', 'python', convert_to('"' || n || '"', 'UTF8')
    FROM generate_series(1, %(count)s) AS n
    RETURNING tenant, scope, key, id, payload
)
INSERT INTO memoranda.revisions
    (tenant, scope, key, version, fact_id, change, at, created_at, actor, door, forgotten, payload)
SELECT tenant, scope, key, 1, id, 'set', 0, 0, 'owner', 'python', 0, payload FROM made
"""
"""Facts of a tenant and their history, as many as are wanted."""


def test_every_table_that_an_erasure_empties_is_vacuumed():
    erasing = b" ".join(sql for name, sql in SQL.items() if name.startswith("erase_"))
    emptied = {table.decode() for table in re.findall(rb"memoranda\.remove_(\w+)", erasing)}
    assert {"facts", "entries", "omissions"} <= emptied <= set(removal.CONTENT)
    assert set(PARTITIONED) - set(removal.CONTENT) == {"events"}  # from which nothing is ever removed


def place_of(url: str, tenant: str) -> int | None:
    """Return the number of a tenant's partitions."""
    with psycopg.connect(url) as connection:
        (place,) = present(connection.execute(SQL["get_partition"].replace(b"$1", b"%s"), (tenant,)).fetchone())
        return place


class Tenants(NamedTuple):
    """Three tenants; the first two share their partitions."""

    erased: str
    neighbour: str
    other: str


@pytest.fixture
def tenants(database: str) -> Tenants:
    by_place: dict[int | None, list[str]] = {}
    for number in itertools.count():
        name = f"tenant {number}"
        by_place.setdefault(place_of(database, name), []).append(name)
        shared = next((names for names in by_place.values() if len(names) == 2), None)
        if shared and len(by_place) > 1:
            other = next(names[0] for names in by_place.values() if names is not shared)
            return Tenants(shared[0], shared[1], other)
    raise AssertionError


def dead_rows(url: str, tenant: str, table: str = "facts") -> int:
    """Return how many dead rows the partition of a tenant has, as the server counts them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        asked = "SELECT pg_stat_get_dead_tuples(to_regclass(%s))"
        (count,) = present(connection.execute(asked, [f"memoranda.{table}_{place_of(url, tenant)}"]).fetchone())
        return count


def files_with(server: PostgresServer, url: str, mark: str) -> list[str]:
    """Return which of our tables, or of what they put beside them, have a text somewhere in their files."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        rows = connection.execute("""
            SELECT relname, pg_relation_filepath(oid) FROM pg_class
            WHERE relkind IN ('r', 't', 'i') AND (relnamespace = 'memoranda'::regnamespace OR relkind = 't')
        """).fetchall()
    return sorted(name for name, path in rows if mark.encode() in (server.data / path).read_bytes())


def test_an_erasure_leaves_no_dead_rows_and_its_receipt_says_what_it_leaves(database: str):
    with memoranda.open(database, tenant="a", embedder="hashing:64") as memory:
        ada = memory.scope(user="ada")
        ada.set("bird", MARK)
        ada.remember(MARK, collection="notes")
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DELETE FROM memoranda.facts WHERE tenant = 'a'")
        assert dead_rows(database, "a") > 0  # so much for a removal without more
        ada.set("bird", MARK)
        receipt = memory.erase(user="ada")
        assert receipt.removed["facts"] == 1
        for table in ("facts", "revisions", "entries", "vectors", "content_keys"):
            assert dead_rows(database, "a", table) == 0, table
        assert not receipt.scrubbed
        remains = receipt.remains
        assert (remains.rows, remains.dead_rows, remains.free_space, remains.copies) == (
            "gone",
            "gone",
            "remains",
            "untested",
        )
        assert remains.reason is None


def test_what_the_server_does_not_say_in_english_is_not_claimed(database: str, monkeypatch: pytest.MonkeyPatch):
    with memoranda.open(database, tenant="a") as memory:
        memory.scope(user="ada").set("bird", MARK)
        monkeypatch.setattr(removal, "_HORIZON", re.compile(r"Grenze: (\d+)"))
        remains = memory.erase(user="ada").remains
        assert (remains.dead_rows, remains.reason) == (
            "untested",
            "the server does not say in English what it has removed",
        )


def test_an_erasure_takes_away_what_was_deleted_or_replaced_before(postgres: PostgresServer, database: str):
    with memoranda.open(database, tenant="a") as memory:
        ada = memory.scope(user="ada")
        ada.set("bird", MARK)
        ada.set("bird", "wren")
        ada.delete("bird")
        assert dead_rows(database, "a") >= 1
        receipt = memory.erase(user="ada")
        assert receipt.removed["facts"] == 0
        assert receipt.remains.dead_rows == "gone"
        assert dead_rows(database, "a") == 0


def test_what_an_open_transaction_can_still_read_is_said_to_remain(database: str):
    with psycopg.connect(database) as reading, memoranda.open(database, tenant="a", busy_timeout=0.2) as memory:
        ada = memory.scope(user="ada")
        ada.set("bird", MARK)
        reading.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reading.execute("SELECT 1 FROM memoranda.tenants").fetchall()
        receipt = memory.erase(user="ada")
        assert receipt.remains.dead_rows == "remains"
        assert "older transactions" in present(receipt.remains.reason)
        assert reading.execute("SELECT count(*) FROM memoranda.facts WHERE tenant = 'a'").fetchone() == (1,)
        reading.rollback()
        ada.set("bird", MARK)
        assert memory.erase(user="ada").remains.dead_rows == "gone"


def test_an_erasure_waits_a_moment_for_transactions_that_end(database: str):
    with (
        psycopg.connect(database) as reading,
        memoranda.open(database, tenant="a", busy_timeout=30.0) as memory,
        ThreadPoolExecutor(1) as threads,
    ):
        memory.scope(user="ada").set("bird", MARK)
        reading.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reading.execute("SELECT 1 FROM memoranda.tenants").fetchall()
        erasing = threads.submit(memory.erase, user="ada")
        time.sleep(0.3)
        assert not erasing.done()
        reading.rollback()
        assert erasing.result(20).remains.dead_rows == "gone"


def test_what_the_receipt_says_remains_is_gone_after_a_scrub(postgres: PostgresServer, database: str):
    with memoranda.open(database, tenant="a", embedder="hashing:64") as memory:
        ada = memory.scope(user="ada")
        ada.set("bird", MARK)
        ada.remember(MARK, collection="notes")
        before = files_with(postgres, database, MARK)
        assert {name.rpartition("_")[0] for name in before} == {"facts", "revisions", "entries"}
        assert memory.erase(user="ada").remains.free_space == "remains"
        assert files_with(postgres, database, MARK) != []  # which is why it says so
        assert memory.scrub() is True
        assert files_with(postgres, database, MARK) == []


def test_a_scrub_rewrites_the_partitions_of_its_tenant_and_waits_for_no_other(database: str, tenants: Tenants):
    def files() -> dict[str, int]:
        asked = (
            "SELECT relname, relfilenode FROM pg_class WHERE relnamespace = 'memoranda'::regnamespace AND relkind = 'r'"
        )
        with psycopg.connect(database) as connection:
            return dict(connection.execute(asked).fetchall())

    places = [place_of(database, name) for name in tenants]
    before = files()
    with psycopg.connect(database) as using, PostgresStore(database, busy_timeout=0.1) as store:
        using.execute(f"LOCK TABLE memoranda.facts_{places[2]} IN ACCESS SHARE MODE".encode())
        assert store.scrub(tenants.erased) is True
        rewritten = {name for name, file in files().items() if file != before[name]}
        expected = {f"{table}_{places[0]}" for table in PARTITIONED if table != "events"}
        assert {name for name in rewritten if name[-1].isdigit()} == expected
        assert store.scrub(tenants.other) is False  # whose facts are in use
        assert store.scrub() is False


def test_a_scrub_of_tables_without_partitions_rewrites_them_whole(postgres: PostgresServer):
    postgres.execute("CREATE DATABASE plain")
    url = postgres.url("plain")
    try:
        make_released_schema(url)
        with memoranda.open(url, tenant="a") as memory:
            memory.in_tenant("b").scope(user="bob").set("bird", "wren")
            memory.scope(user="ada").set("bird", MARK)
            receipt = memory.erase(user="ada")
            assert (receipt.scrubbed, receipt.remains.dead_rows) == (False, "gone")
            assert files_with(postgres, url, MARK) == ["facts", "revisions"]
            assert memory.scrub() is True
            assert files_with(postgres, url, MARK) == []
            assert memory.in_tenant("b").scope(user="bob").value("bird") == "wren"
            noticed = [finding for finding in memory.inspect() if finding.what == "schema of the database"]
            assert all(finding.ok for finding in noticed)
            assert any("the tables are not partitioned" in finding.detail for finding in noticed)
    finally:
        postgres.execute("DROP DATABASE plain WITH (FORCE)")


def rounds_until(url: str, tenant: str, done: Future[Any]) -> Iterator[float]:
    """Write and read until something is done; yield how long each round took."""
    with memoranda.open(url, tenant=tenant, busy_timeout=60.0) as memory:
        bob = memory.scope(user="bob")
        while not done.done():
            began = time.perf_counter()
            bob.set("count", 1)
            assert bob.value("count") == 1
            yield time.perf_counter() - began


def test_nobody_waits_for_an_erasure_and_those_in_its_partition_wait_for_a_scrub(database: str, tenants: Tenants):
    """A wait is one round of a neighbour that takes as long as three hundred of its rounds take otherwise."""
    alone: Future[Any] = Future()
    usual = list(itertools.islice(rounds_until(database, tenants.neighbour, alone), 100))
    wait = 3 * sum(usual)
    with psycopg.connect(database) as reading, ThreadPoolExecutor(4) as threads:
        reading.execute(FILL.encode(), {"tenant": tenants.erased, "count": 4000})
        reading.commit()
        # A reader all the while: an erasure must not wait for it with others behind, and a scrub does. Its snapshot
        # also keeps the vacuum from removing anything, so that it is tried again and again.
        reading.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reading.execute("SELECT count(*) FROM memoranda.facts, memoranda.revisions LIMIT 1").fetchall()

        def erase() -> int:
            with memoranda.open(database, tenant=tenants.erased, busy_timeout=2 * wait) as memory:
                return memory.erase(user="ada").removed["facts"]

        def longest_during(work: Future[Any], tenant: str) -> tuple[int, float]:
            rounds = list(rounds_until(database, tenant, work))
            return len(rounds), max(rounds)

        erasing = threads.submit(erase)
        neighbour = threads.submit(longest_during, erasing, tenants.neighbour)
        other = threads.submit(longest_during, erasing, tenants.other)
        assert erasing.result(60) == 4000
        for count, longest in (neighbour.result(60), other.result(60)):
            assert count > 10
            assert longest < wait

        def scrub() -> bool:
            with PostgresStore(database, busy_timeout=2 * wait) as store:
                return store.scrub(tenants.erased)

        scrubbing = threads.submit(scrub)
        neighbour = threads.submit(longest_during, scrubbing, tenants.neighbour)
        other = threads.submit(longest_during, scrubbing, tenants.other)
        assert scrubbing.result(60) is False  # because of the one who reads
        assert neighbour.result(60)[1] > wait  # the test does see a wait
        assert other.result(60)[1] < wait


def test_a_retried_vacuum_leaves_the_connection_as_it_was(database: str):
    with PostgresStore(database, busy_timeout=0.2) as store:
        store.reclaim("a")
        store.scrub("a")

        def settings(rows: object) -> tuple[str, ...]:
            connection = rows.connection  # type: ignore[attr-defined]
            return tuple(
                connection.execute(f"SHOW {name}").fetchone()[0] for name in ("lock_timeout", "client_min_messages")
            )

        assert store.read(settings, snapshot=False) == ("0", "notice")  # type: ignore[arg-type]
        assert (
            list(store.read(lambda rows: list(rows.facts(FactQuery(Scope("a"), active_at=SystemClock().now()))))) == []
        )
