"""Writing to PostgreSQL: one tenant's writers take turns, others do not wait; what is lost on the way is done again."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import postgres_server
import psycopg
import pytest
from added import add_entry

import memoranda
from memoranda.errors import Busy, ReadOnly, StorageError, Unavailable
from memoranda.model.entry import Entry
from memoranda.model.scope import Scope
from memoranda.store.base import EntryQuery, FactQuery, TenantState
from memoranda.store.postgres import PostgresStore, connection
from memoranda.testing.crash import Round, kill_rounds

Server = postgres_server.PostgresServer
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(database: str) -> Iterator[PostgresStore]:
    with PostgresStore(database) as opened:
        yield opened


def state(revision: int) -> Callable[[Any], None]:
    return lambda rows: rows.set_tenant_state("default", TenantState(revision, 0))


def revision_of(store: PostgresStore, tenant: str = "default") -> int:
    return store.read(lambda rows: rows.tenant_state(tenant)).revision


def end_connection(postgres: Server, rows: Any) -> None:
    """Let the server end the connection that a work runs on."""
    with psycopg.connect(postgres.url(), autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 60000)", (rows.connection.info.backend_pid,))  # and wait for it


ADD = """
import sys
import memoranda

with memoranda.open(sys.argv[1], busy_timeout=60) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(50):
        memory.scope(user="ada").update("count", lambda count: count + 1)
    print("done", flush=True)
"""


def test_four_processes_lose_no_update(database: str, run_child: Callable[..., Any]):
    with memoranda.open(database) as memory:
        memory.scope(user="ada").set("count", 0)
        children = [run_child(ADD, database) for _ in range(4)]
        assert [one.hear() for one in children] == ["ready"] * 4
        for one in children:
            one.say()
        assert [one.hear() for one in children] == ["done"] * 4
        fact = memory.scope(user="ada").get("count")
        assert fact is not None
        assert (fact.value, fact.version) == (200, 201)
        assert memory.ledger.verify().ok


WRITE = """
import sys
import memoranda

with memoranda.open(sys.argv[1], embedder="hashing:32") as memory:
    ada = memory.scope(user="ada")
    for number in range(10_000):
        key = f"k{sys.argv[2]}.n{number}"
        ada.set(key, number)
        ada.remember(key, collection="notes", key=key)
        print(key, flush=True)
"""


@pytest.mark.slow
def test_what_was_acknowledged_outlives_the_killed_process(database: str):
    acknowledged: list[str] = []

    def check(life: Round) -> None:
        acknowledged.extend(life.acknowledged)
        with memoranda.open(database, embedder="hashing:32") as memory:
            ada = memory.scope(user="ada")
            missing = [key for key in acknowledged if ada.get(key) is None]
            assert missing == []
            assert {entry.key for entry in ada.entries(collection="notes")} >= set(acknowledged)
            assert memory.ledger.verify().ok
            assert all(finding.ok for finding in memory.inspect())

    lives = kill_rounds(WRITE, database, rounds=3, acknowledgements=(1, 20), check=check)
    assert all(life.killed and life.acknowledged for life in lives)


def test_writers_of_one_tenant_take_turns_and_others_do_not_wait(database: str):
    with PostgresStore(database, busy_timeout=0.2) as store:
        inside, leave = threading.Event(), threading.Event()

        def slow(rows: Any) -> None:
            rows.set_tenant_state("default", TenantState(1, 0))
            inside.set()
            assert leave.wait(60)

        with ThreadPoolExecutor(1) as threads:
            writing = threads.submit(store.transact, slow)
            assert inside.wait(60)
            store.transact(lambda rows: rows.set_tenant_state("other", TenantState(7, 0)))
            with pytest.raises(Busy, match="busy_timeout"):
                store.transact(state(2))
            assert (revision_of(store), revision_of(store, "other")) == (0, 7)  # nor do readers wait
            leave.set()
            writing.result()
        assert revision_of(store) == 1
        store.transact(state(2))
        assert revision_of(store) == 2


def test_a_transaction_sees_what_the_one_before_it_wrote(store: PostgresStore):
    def add(rows: Any) -> int:
        found = rows.tenant_state("default").revision + 1
        rows.set_tenant_state("default", TenantState(found, 0))
        return found

    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(lambda _: store.transact(add), range(40)))
    assert sorted(numbers) == list(range(1, 41))


def test_a_deadlock_is_ended_and_both_are_kept(store: PostgresStore):
    met = threading.Barrier(2)
    runs: list[str] = []

    def both(first: str, second: str) -> Callable[[Any], None]:
        def work(rows: Any) -> None:
            runs.append(first)
            held = rows.tenant_state(first).revision
            if runs.count(first) == 1:
                met.wait(60)
            rows.set_tenant_state(second, TenantState(rows.tenant_state(second).revision + 1, 0))
            rows.set_tenant_state(first, TenantState(held + 1, 0))

        return work

    with ThreadPoolExecutor(2) as threads:
        for future in [threads.submit(store.transact, both(*pair)) for pair in (("a", "b"), ("b", "a"))]:
            future.result()
    assert len(runs) == 3  # one of the two ran again
    assert (revision_of(store, "a"), revision_of(store, "b")) == (2, 2)


def test_a_work_that_fails_leaves_nothing_and_the_connection_whole(store: PostgresStore):
    def fail(rows: Any) -> None:
        rows.set_tenant_state("default", TenantState(5, 0))
        raise ZeroDivisionError

    store.transact(state(1))
    with pytest.raises(ZeroDivisionError):
        store.transact(fail)
    with pytest.raises(ZeroDivisionError):
        store.read(lambda rows: 1 // 0)
    assert revision_of(store) == 1
    store.transact(state(2))
    assert revision_of(store) == 2


@pytest.mark.parametrize("answered", [True, False])
def test_a_work_that_goes_on_after_a_failed_statement_is_not_taken_for_kept(store: PostgresStore, answered: bool):
    def go_on(rows: Any) -> None:
        rows.set_tenant_state("default", TenantState(5, 0))
        with suppress(psycopg.Error):
            rows.connection.execute("SELECT 1 / 0").fetchall()
        if answered:
            rows._pipeline.sync()

    with pytest.raises(StorageError, match=r"nothing of the write was kept|pipeline aborted"):
        store.transact(go_on)
    assert revision_of(store) == 0
    store.transact(state(1))
    assert revision_of(store) == 1


def test_an_error_is_told_without_the_statement_beneath_it(store: PostgresStore):
    with pytest.raises(StorageError, match="nowhere") as caught:
        store.read(lambda rows: rows.connection.execute("SELECT secret FROM nowhere"))  # type: ignore[attr-defined]
    assert "secret" not in str(caught.value)
    assert "secret" in str(caught.value.__cause__)


def test_work_inside_a_transaction_does_not_call_the_store_again(store: PostgresStore):
    for again in (lambda: store.transact(state(2)), store.scrub, store.close):
        with pytest.raises(RuntimeError, match="use the transaction it was given"):
            store.transact(lambda rows, again=again: again())
    store.read(lambda rows: store.transact(state(3)))  # a read is not a transaction, so it may
    assert revision_of(store) == 3


def test_a_read_stays_at_its_moment_and_cannot_write(store: PostgresStore):
    store.transact(state(1))

    def look(rows: Any) -> tuple[int, int]:
        before = rows.tenant_state("default").revision
        store.transact(state(2))
        rows.reset()  # this is about what the database says
        return before, rows.tenant_state("default").revision

    assert store.read(look) == (1, 1)
    assert revision_of(store) == 2
    with pytest.raises(ReadOnly, match="target_session_attrs"):  # what a replica says, too
        store.read(lambda rows: rows.set_tenant_state("default", TenantState(9, 0)))  # type: ignore[attr-defined]
    assert revision_of(store) == 2


def test_an_iterator_does_not_outlive_its_read(store: PostgresStore):
    escaped = store.read(lambda rows: rows.facts(FactQuery(Scope(), below=True)))
    with pytest.raises(RuntimeError, match="outlived"):
        list(escaped)
    assert store.read(lambda rows: list(rows.facts(FactQuery(Scope(), below=True)))) == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_that_is_ended_in_mid_work_costs_nothing(postgres: Server, store: PostgresStore, when: str):
    runs: list[int] = []

    def work(rows: Any) -> str:
        runs.append(rows.connection.info.backend_pid)
        if len(runs) == 1 and when == "before":
            end_connection(postgres, rows)
        rows.set_tenant_state("default", TenantState(rows.tenant_state("default").revision + 1, 0))
        if len(runs) == 1 and when == "after":
            end_connection(postgres, rows)
            rows.tenant_state("other")
        return "kept"

    assert store.transact(work) == "kept"
    assert len(set(runs)) == len(runs) == 2
    assert revision_of(store) == 1


def test_a_read_whose_connection_is_ended_reads_again(postgres: Server, store: PostgresStore):
    store.transact(state(4))
    ended: list[bool] = []

    def look(rows: Any) -> int:
        if not ended:
            end_connection(postgres, rows)
            ended.append(True)
        return rows.tenant_state("default").revision

    assert store.read(look) == 4
    assert ended == [True]


def leave_unanswered(postgres: Server, store: PostgresStore, *, kept: bool) -> connection.PostgresRows:
    """Let the server end the connection of the next write just before, or just after, it is kept."""
    (rows,) = store._pool._idle
    commit = rows.commit

    def commit_unanswered() -> Any:
        answer = commit() if kept else None
        rows._pipeline.sync()  # type: ignore[union-attr]
        end_connection(postgres, rows)
        return answer or commit()

    rows.commit = commit_unanswered  # type: ignore[method-assign]
    return rows


@pytest.mark.parametrize("kept", [True, False])
def test_a_write_whose_commit_was_not_answered_is_there_once(postgres: Server, database: str, kept: bool):
    with memoranda.open(database) as memory:
        ada = memory.scope(user="ada")
        ada.set("count", 0)
        store: PostgresStore = memory._gate._store  # type: ignore[attr-defined, assignment]
        rows = leave_unanswered(postgres, store, kept=kept)
        written = ada.set("count", 1)
        assert written.version == 2
        fact = ada.get("count")
        assert fact is not None
        assert (fact.value, fact.version) == (1, 2)
        assert memory.ledger.verify().ok
        assert all(one is not rows for one in store._pool._idle)  # the lost connection went


def test_a_write_without_a_trace_whose_commit_was_not_answered_is_told_as_unknown(
    postgres: Server, store: PostgresStore
):
    leave_unanswered(postgres, store, kept=True)
    with pytest.raises(Unavailable, match=r"may or may not be there.*Look before"):
        store.transact(state(1))
    assert revision_of(store) == 1


def test_a_server_that_is_restarted_is_waited_for(postgres: Server, database: str):
    with memoranda.open(database, busy_timeout=30) as memory:
        ada = memory.scope(user="ada")
        ada.set("count", 0)
        stop = threading.Event()

        def count() -> int:
            acknowledged = 0
            while not stop.is_set():
                ada.update("count", lambda found: found + 1)
                acknowledged += 1
            return acknowledged

        with ThreadPoolExecutor(2) as threads:
            counting = [threads.submit(count) for _ in range(2)]
            for how in (signal.SIGINT, signal.SIGQUIT):
                time.sleep(0.1)
                postgres.stop(how)
                postgres.start()
            time.sleep(0.1)
            stop.set()
            acknowledged = sum(future.result(60) for future in counting)
        assert acknowledged > 0
        assert ada.value("count") == acknowledged
        assert memory.ledger.verify().ok


def test_a_server_that_stays_away_is_told_after_the_patience_is_over(postgres: Server, database: str):
    with PostgresStore(database, busy_timeout=0.3) as store:
        store.transact(state(1))
        postgres.stop()
        try:
            for attempt in (lambda: store.transact(state(2)), lambda: revision_of(store), store.mark):
                with pytest.raises(Unavailable, match="Check that the server runs"):
                    attempt()
        finally:
            postgres.start()
        assert revision_of(store) == 1


def test_a_number_is_higher_than_all_before_it_whoever_was_given_those(database: str):
    def add(rows: Any, tenant: str) -> int:
        entry = Entry(
            id="e", scope=Scope(tenant, "user:ada"), collection="notes", content=None, metadata={}, created_at=NOON
        )
        return add_entry(rows, entry)

    with PostgresStore(database) as store, PostgresStore(database) as other:

        def work(rows: Any) -> list[int]:
            ours = [add(rows, "a") for _ in range(6)]  # takes some numbers more than it gives
            theirs = other.transact(lambda more: add(more, "b"))
            return [*ours, theirs, add(rows, "b"), add(rows, "a")]

        numbers = store.transact(work)
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("boundary", [2**15, 2**31])
def test_entries_are_found_when_their_numbers_outgrow_a_smaller_type(postgres: Server, database: str, boundary: int):
    """The driver chose the type of the first pages of an index, and refused the larger numbers of a later one."""
    postgres.execute(f"ALTER SEQUENCE memoranda.numbers RESTART WITH {boundary - 3_200}")
    for _ in range(2):  # the second memory builds its index from all entries
        with memoranda.open(database, embedder="hashing:8") as memory:
            ada = memory.scope(user="ada")
            if ada.entries(collection="notes", limit=1) == []:
                for begin in range(0, 3_500, 500):
                    items = [{"content": f"lighthouse {number}"} for number in range(begin, begin + 500)]
                    ada.remember_many(items, collection="notes")
            assert ada.recall("lighthouse 3499", collection="notes").results[0].content == "lighthouse 3499"
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT max(sequence) > %s FROM memoranda.entries", (boundary,)).fetchone() == (True,)


def test_vectors_are_kept_after_those_of_their_embedder_were_dropped_in_the_same_work(store: PostgresStore):
    entry = Entry(id="e", scope=Scope(), collection="notes", content=None, metadata={}, created_at=NOON)

    def work(rows: Any) -> list[int]:
        sequences = [add_entry(rows, entry) for _ in range(2)]
        for _ in range(2):
            for sequence in sequences:
                rows.put_vector("default", sequence, "e", b"1234")
            assert rows.vector_counts("default", "notes") == {"e": 2}
            assert rows.remove_vectors("default", "notes", "e") == 2
        rows.put_vector("default", sequences[1], "e", b"5678")
        return sequences

    first, second = store.transact(work)
    query = EntryQuery(tenant="default", collection="notes", limit=9)
    found = store.read(lambda rows: list(rows.index_rows(query, "e")))
    assert first < second and [(one.sequence, one.vector) for one in found] == [(second, b"5678")]


def test_an_interrupted_work_leaves_nothing_and_the_store_goes_on(store: PostgresStore):
    def interrupted(rows: Any) -> None:
        rows.set_tenant_state("default", TenantState(5, 0))
        raise KeyboardInterrupt

    for call in (store.transact, store.read):
        with pytest.raises(KeyboardInterrupt):
            call(interrupted if call == store.transact else lambda rows: (_ for _ in ()).throw(KeyboardInterrupt))
        assert revision_of(store) == 0
    store.transact(state(1))
    assert revision_of(store) == 1


@pytest.mark.slow
def test_nothing_that_was_acknowledged_is_lost_when_a_standby_takes_over():
    programs = postgres_server.programs()
    if programs is None:
        pytest.skip("PostgreSQL is not here")
    first = Server(programs)
    second = Server(programs, following=first)
    try:
        first.execute("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        hosts = f"postgresql://owner@/postgres?host={first.folder},{second.folder}&target_session_attrs=read-write"
        with memoranda.open(hosts, busy_timeout=30) as memory:
            ada = memory.scope(user="ada")
            ada.set("count", 0)
            acknowledged, enough = 0, threading.Event()

            def count() -> None:
                nonlocal acknowledged
                while acknowledged < 60:
                    ada.update("count", lambda found: found + 1)
                    acknowledged += 1
                    if acknowledged == 20:
                        enough.set()

            with ThreadPoolExecutor(1) as threads:
                counting = threads.submit(count)
                assert enough.wait(60)
                first.stop(signal.SIGQUIT)
                second.execute("SELECT pg_promote()", "ALTER SYSTEM SET synchronous_standby_names = ''")
                second.execute("SELECT pg_reload_conf()")
                counting.result(60)
            assert ada.value("count") == acknowledged == 60
            assert len(ada.history("count")) == 61
            assert memory.ledger.verify().ok
    finally:
        second.remove()
        first.remove()


def test_more_threads_than_connections_wait_their_turn(database: str):
    with PostgresStore(database, pool=2) as store, ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: revision_of(store), range(32))) == [0] * 32
    with PostgresStore(database, busy_timeout=0.1, pool=2) as store:
        with pytest.raises(Busy, match=r"all 2 connections.*`pool` of more than 2"):
            store.read(lambda one: store.read(lambda two: store.read(lambda three: None)))
        assert revision_of(store) == 0


@pytest.mark.parametrize(("durability", "setting"), [("full", "on"), ("normal", "off")])
def test_durability_is_what_the_server_is_told(database: str, durability: Any, setting: str):
    with PostgresStore(database, durability=durability) as store:
        asked = store.transact(lambda rows: rows.connection.execute("SHOW synchronous_commit").fetchone())  # type: ignore[attr-defined]
        assert asked == (setting,)


def test_a_scrub_rewrites_the_tables_and_gives_way_to_those_who_read(postgres: Server, database: str):
    with PostgresStore(database, busy_timeout=0.1) as store:
        store.transact(state(1))
        assert store.scrub() is True

        def look(rows: Any) -> bool:
            list(rows.facts(FactQuery(Scope("default"), below=True, key="k")))
            return store.scrub()

        assert store.read(look) is False
        assert store.scrub() is True
        assert revision_of(store) == 1


def test_what_was_to_be_prepared_behind_an_error_is_prepared_again(database: str):
    """The driver takes a statement that follows an error in a pipeline for prepared, and forgets that only at times."""

    def fail(rows: Any) -> None:
        rows.connection.execute("SELECT 1 / 0")
        rows.tenant_state("default")

    with PostgresStore(database, pool=1, busy_timeout=0) as store:
        for works in (False, False, True, False):
            if works:
                store.transact(state(1))
            else:
                with pytest.raises(StorageError, match="division by zero"):
                    store.transact(fail)
        store.transact(state(2))
        assert revision_of(store) == 2
