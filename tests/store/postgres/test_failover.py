"""A primary that freezes or goes: nothing waits for ever, reads go on, and nothing that was acknowledged is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import postgres_server
import psycopg
import pytest

import memoranda
from memoranda.errors import Busy, ReadOnly, Unavailable
from memoranda.store.base import TenantState
from memoranda.store.postgres import PostgresStore, connection, deadline, pool

Server = postgres_server.PostgresServer
PATIENCE = 60.0


class Pair:
    """A primary and its standby, and addresses that name them."""

    def __init__(self, primary: Server, standby: Server) -> None:
        self.primary, self.standby = primary, standby

    def url(self, *servers: Server, target: str = "") -> str:
        folders = ",".join(str(one.folder) for one in servers or (self.primary, self.standby))
        return f"postgresql://owner@/postgres?host={folders}{target and '&target_session_attrs=' + target}"

    def caught_up(self) -> bool:
        asked = "SELECT pg_current_wal_insert_lsn()::text", "SELECT pg_last_wal_replay_lsn() >= '{}'"
        with psycopg.connect(self.primary.url(), autocommit=True) as one:
            (position,) = one.execute(asked[0]).fetchone() or ("",)
        with psycopg.connect(self.standby.url(), autocommit=True) as other:
            return other.execute(asked[1].format(position).encode()).fetchone() == (True,)

    def catch_up(self) -> None:
        until = time.monotonic() + PATIENCE
        while not self.caught_up():
            assert time.monotonic() < until
            time.sleep(0.01)


def start_pair(*, synchronous: bool = False) -> Pair:
    programs = postgres_server.programs()
    if programs is None:
        pytest.skip("PostgreSQL is not here")
    primary = Server(programs)
    try:
        standby = Server(programs, following=primary)
    except BaseException:
        primary.remove()
        raise
    if synchronous:
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
    return Pair(primary, standby)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Return two servers that tests freeze, and leave as they were."""
    pair = start_pair()
    PostgresStore(pair.primary.url()).close()
    yield pair
    pair.standby.remove()
    pair.primary.remove()


@pytest.fixture
def thawed(pair: Pair) -> Iterator[Pair]:
    pair.primary.empty()
    pair.catch_up()
    yield pair
    pair.primary.thaw()
    pair.standby.thaw()


@pytest.fixture
def failing() -> Iterator[Pair]:
    """Return two servers of which one is to be promoted, with synchronous replication."""
    pair = start_pair(synchronous=True)
    yield pair
    pair.standby.remove()
    pair.primary.remove()


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notice sooner that a server is frozen; what is tested does not depend on how soon."""
    monkeypatch.setattr(deadline, "SILENCE", 0.3)
    for module in (deadline, pool):
        monkeypatch.setattr(module, "PROBE", 0.7)


def state(revision: int) -> Callable[[Any], None]:
    return lambda rows: rows.set_tenant_state("default", TenantState(revision, 0))


def revision(store: Any) -> int:
    return store.read(lambda rows: rows.tenant_state("default").revision)


def seconds(call: Callable[[], Any]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def refused(call: Callable[[], Any], match: str) -> float:
    """Return after how many seconds a call was refused."""
    began = time.monotonic()
    with pytest.raises(Unavailable, match=match):
        call()
    return time.monotonic() - began


def host_of(store: PostgresStore) -> str:
    """Return which server answers a read."""
    return store.read(lambda rows: rows.connection.info.host)  # type: ignore[attr-defined]


def is_done(call: Callable[[], Any]) -> bool:
    """Return whether a call was carried out; it may find no primary yet."""
    try:
        call()
    except Unavailable:
        return False
    return True


# one server that freezes


def test_no_call_waits_for_a_frozen_server_for_ever(thawed: Pair):
    with PostgresStore(thawed.primary.url(), busy_timeout=0.2) as store:
        store.transact(state(1))
        assert revision(store) == 1
        calls = [
            lambda: store.transact(state(2)),
            lambda: revision(store),
            lambda: store.read(lambda rows: rows.tenant_state("default"), snapshot=False),
            store.mark,
            store.check,
            store.warnings,
            store.scrub,
        ]
        thawed.primary.freeze()
        with ThreadPoolExecutor(len(calls)) as threads:  # together: each takes as long as all
            took = [
                one.result(PATIENCE)
                for one in [threads.submit(refused, call, "does not answer|timeout") for call in calls]
            ]
        assert max(took) < 15, took
        assert refused(lambda: PostgresStore(thawed.primary.url(), busy_timeout=0.2), "timeout") < 15
        thawed.primary.thaw()
        store.transact(state(3))
        assert revision(store) == 3


def test_a_server_that_freezes_in_the_middle_of_a_work_is_given_up_and_so_is_its_rollback(thawed: Pair):
    with PostgresStore(thawed.primary.url(), busy_timeout=0.2) as store:

        def fail(rows: Any) -> None:
            rows.set_tenant_state("default", TenantState(5, 0))
            thawed.primary.freeze()
            raise ZeroDivisionError

        began = time.monotonic()
        with pytest.raises(ZeroDivisionError):
            store.transact(fail)
        assert time.monotonic() - began < 15
        thawed.primary.thaw()
        assert revision(store) == 0


def test_a_server_that_freezes_behind_a_network_is_given_up(thawed: Pair):
    gate = postgres_server.Turnstile(thawed.primary)
    try:
        with PostgresStore(gate.url.replace("127.0.0.1", "localhost"), busy_timeout=0.2) as store:
            store.transact(state(1))
            thawed.primary.freeze()
            assert refused(lambda: store.transact(state(2)), "localhost:[0-9]+` does not answer|timeout") < 15
            thawed.primary.thaw()
            store.transact(state(3))
            assert revision(store) == 3
    finally:
        gate.close()


def test_a_server_that_freezes_while_its_tables_are_made_is_given_up(pair: Pair):
    pair.primary.execute("CREATE DATABASE bare")
    try:
        with psycopg.connect(pair.primary.url("bare")) as other, ThreadPoolExecutor(1) as threads:
            other.execute("SELECT pg_advisory_xact_lock(x'6d656d6f72616e64'::bigint)")
            opening = threads.submit(
                refused, lambda: PostgresStore(pair.primary.url("bare"), busy_timeout=30), "answer"
            )
            waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            _wait_until(lambda: bool(other.execute(waiting).fetchall()))
            time.sleep(1)  # it goes on waiting for the lock as long as the server answers others
            assert not opening.done()
            pair.primary.freeze()
            assert opening.result(PATIENCE) < 15
            pair.primary.thaw()
        PostgresStore(pair.primary.url("bare")).close()
    finally:
        pair.primary.thaw()
        pair.primary.execute("DROP DATABASE bare WITH (FORCE)")


def test_a_slow_statement_and_a_wait_for_a_lock_are_not_taken_for_a_frozen_server(
    thawed: Pair, monkeypatch: pytest.MonkeyPatch
):
    asked: list[bool] = []
    asks = deadline.answers_within

    def answers(conninfo: bytes, within: float) -> bool:
        asked.append(asks(conninfo, within))
        return asked[-1]

    monkeypatch.setattr(deadline, "answers_within", answers)
    with PostgresStore(thawed.primary.url(), busy_timeout=1.0) as store:
        pids = store.read(
            lambda rows: [
                rows.connection.execute("SELECT pg_backend_pid() FROM pg_sleep(0.6)").fetchone(),  # type: ignore[attr-defined]
                rows.connection.info.backend_pid,  # type: ignore[attr-defined]
            ]
        )
        assert pids[0] == (pids[1],)
        with psycopg.connect(thawed.primary.url()) as other:
            other.execute("INSERT INTO memoranda.tenants VALUES ('default', 0, 0, 0, '') ON CONFLICT DO NOTHING")
            with pytest.raises(Busy, match="busy_timeout"):
                store.transact(state(1))
    assert asked and all(asked)


def test_a_statement_takes_no_longer_than_the_setting_or_what_the_address_says(thawed: Pair):
    def slow(rows: Any) -> None:
        rows.connection.execute("SELECT pg_sleep(2)").fetchone()

    with PostgresStore(thawed.primary.url(), statement_timeout=0.1) as store:
        for call in (store.read, store.transact):
            assert refused(lambda call=call: call(slow), "statement_timeout") < 2
        assert revision(store) == 0
    shown: list[Any] = []
    address = thawed.primary.url() + "&options=-c%20statement_timeout%3D7s"
    with PostgresStore(address, statement_timeout=0.1) as store:
        store.read(lambda rows: shown.append(rows.connection.execute("SHOW statement_timeout").fetchone()))  # type: ignore[attr-defined]
    assert shown == [("7s",)]


# a primary that freezes, and a standby beside it


@pytest.mark.parametrize("target", ["", "read-write"])
def test_reads_go_on_while_the_primary_is_frozen_and_writes_say_that_there_is_none_yet(thawed: Pair, target: str):
    with memoranda.open(thawed.url(target=target), busy_timeout=0.5, embedder="hashing:64") as memory:
        ada = memory.scope(user="ada")
        ada.set("kiln.cone", 6)
        ada.remember("The kiln is lit on Fridays", collection="notes")
        memory.settle()
        thawed.catch_up()
        assert memory.staleness() == 0.0
        before = memory.mark()
        thawed.primary.freeze()
        assert seconds(lambda: ada.value("kiln.cone")) < 10
        assert ada.value("kiln.cone") == 6
        assert seconds(lambda: ada.value("kiln.cone")) < 2, "each read waits for the frozen host"
        assert ada.recall("kiln", collection="notes").count == 1
        assert ada.recall("kiln").count >= 1
        assert memory.mark() != before
        with pytest.raises(Unavailable, match=r"no primary yet: `.*` is a standby.*pg_promote"):
            ada.set("kiln.cone", 7)
        assert 0 < memory.staleness() < PATIENCE
        thawed.primary.thaw()
        _wait_until(lambda: is_done(lambda: ada.set("kiln.cone", 8)))
        assert ada.value("kiln.cone") == 8
        assert memory.ledger.verify().ok


def test_a_read_never_goes_back_behind_what_this_process_wrote(thawed: Pair):
    with memoranda.open(thawed.url(), busy_timeout=0.5) as memory:
        ada = memory.scope(user="ada")
        ada.set("kiln.cone", 6)
        thawed.catch_up()
        thawed.standby.execute("SELECT pg_wal_replay_pause()")
        try:
            ada.set("kiln.cone", 7)
            thawed.primary.freeze()
            with pytest.raises(Unavailable, match="no primary yet"):
                ada.value("kiln.cone")
        finally:
            thawed.standby.execute("SELECT pg_wal_replay_resume()")
        _wait_until(lambda: is_done(lambda: ada.value("kiln.cone")))
        assert ada.value("kiln.cone") == 7
        thawed.primary.thaw()
        _wait_until(lambda: is_done(memory.settle))


def test_what_others_were_writing_when_the_primary_froze_keeps_no_read_from_the_standby(thawed: Pair):
    with memoranda.open(thawed.url(), busy_timeout=0.5) as memory:
        ada = memory.scope(user="ada")
        ada.set("kiln.cone", 6)
        ada.set("kiln.cone", 7)
        memory.settle()
        thawed.catch_up()
        positions = memory._gate._store._log  # type: ignore[attr-defined]
        known = list(positions._transactions)
        assert len(known) == 2 and all(number is not None for _, number in known)
        far = 1 << 40  # the log of the primary went on, and the standby never gets that

        def move_on(transactions: list[tuple[int, str | None]]) -> None:
            positions._transactions.clear()
            positions._transactions.extend((position + far, number) for position, number in transactions)
            positions.changed += far

        thawed.primary.freeze()
        move_on(known)
        assert ada.value("kiln.cone") == 7
        for missing in (str(1 << 40), None):
            move_on([*known, (known[-1][0], missing)])
            with pytest.raises(Unavailable, match="no primary yet"):
                ada.value("kiln.cone")
        thawed.primary.thaw()
        _wait_until(lambda: is_done(memory.settle))


def test_an_index_that_is_ahead_of_a_standby_shows_what_that_has_and_later_everything_once(thawed: Pair):
    with (
        memoranda.open(thawed.url(), busy_timeout=0.2, embedder="hashing:64") as memory,
        memoranda.open(thawed.primary.url(), embedder="hashing:64") as other,
    ):
        ada, theirs = memory.scope(user="ada"), other.scope(user="ada")

        def found() -> list[str]:
            return sorted(
                str(match.content) for match in ada.recall("firing", limit=50).results if match.kind != "fact"
            )

        theirs.remember("firing 1", collection="notes")
        assert found() == ["firing 1"]
        thawed.catch_up()
        thawed.standby.execute("SELECT pg_wal_replay_pause()")
        try:
            theirs.remember_many([{"content": f"firing {number}"} for number in (2, 3)], collection="notes")
            assert found() == ["firing 1", "firing 2", "firing 3"]
            thawed.primary.freeze()
            assert found() == ["firing 1"]
        finally:
            thawed.standby.execute("SELECT pg_wal_replay_resume()")
        _wait_until(lambda: len(found()) > 1)
        assert found() == ["firing 1", "firing 2", "firing 3"]
        assert ada.recall("firing", collection="notes").count == 3
        thawed.primary.thaw()
        _wait_until(lambda: is_done(memory.settle))


def test_what_a_standby_showed_is_not_cached_under_the_mark_of_the_primary(thawed: Pair):
    with PostgresStore(thawed.url(), busy_timeout=PATIENCE) as store:
        reading = store.reading
        before = reading.mark()
        assert reading.mark() == before
        thawed.primary.freeze()
        hosts = [host_of(reading)]
        thawed.primary.thaw()
        _wait_until(lambda: is_done(store.check))
        _wait_until(lambda: hosts.append(host_of(reading)) or hosts[-1] == str(thawed.primary.folder))
        assert hosts[0] == str(thawed.standby.folder)
        after = reading.mark()
        assert after != before
        assert after[1:] == before[1:]  # type: ignore[index]  # nothing else tells them apart
        assert reading.mark() == after


def test_a_program_that_starts_during_a_failover_can_read(thawed: Pair):
    with memoranda.open(thawed.url()) as memory:
        memory.scope(user="ada").set("kiln.cone", 6)
    thawed.catch_up()
    thawed.primary.freeze()
    with memoranda.open(thawed.url(), busy_timeout=0.2) as memory:
        assert memory.scope(user="ada").value("kiln.cone") == 6
        with pytest.raises(Unavailable, match="no primary yet"):
            memory.scope(user="ada").set("kiln.cone", 7)
        thawed.primary.thaw()
        _wait_until(lambda: is_done(memory.settle))


# reads from a standby by option


def asked_of(memory: memoranda.Memory) -> str:
    """Return which server answers a read of a memory."""
    return host_of(memory._gate._reading)  # type: ignore[arg-type]


def test_a_standby_answers_what_only_reads_and_shows_what_was_written_here(thawed: Pair):
    with memoranda.open(thawed.url(), read_from="standby", embedder="hashing:64") as memory:
        ada = memory.scope(user="ada")
        for number in range(20):
            ada.set("count", number)
            assert ada.value("count") == number
            ada.remember(f"firing {number}", collection="notes")
            assert ada.recall(f"firing {number}", collection="notes", limit=50).count == number + 1
        memory.settle()
        thawed.catch_up()
        assert asked_of(memory) == str(thawed.standby.folder)
        assert 0 <= memory.staleness() < 1
        assert ada.update("count", lambda count: count + 1).value == 20
        assert memory.ledger.verify().ok


def test_a_standby_that_lags_is_passed_over_until_it_has_what_was_written_here(thawed: Pair):
    options: dict[str, Any] = {"read_from": "standby", "embedder": "hashing:64"}
    with memoranda.open(thawed.url(), **options) as memory, memoranda.open(thawed.primary.url()) as other:
        ada = memory.scope(user="ada")
        ada.set("kiln.cone", 6)
        memory.settle()
        thawed.catch_up()
        assert asked_of(memory) == str(thawed.standby.folder)
        thawed.standby.execute("SELECT pg_wal_replay_pause()")
        try:
            other.scope(user="ada").set("kiln.cone", 7)
            assert ada.value("kiln.cone") == 6  # what others wrote comes later
            assert memory.staleness() > 0
            mark = memory.mark()
            ada.set("oven", "on")
            assert asked_of(memory) == str(thawed.primary.folder)
            assert (ada.value("oven"), ada.value("kiln.cone")) == ("on", 7)
            assert memory.mark() != mark
        finally:
            thawed.standby.execute("SELECT pg_wal_replay_resume()")
        thawed.catch_up()
        assert asked_of(memory) == str(thawed.standby.folder)
        assert ada.value("kiln.cone") == 7


def test_a_write_that_was_refused_by_something_newer_is_read_anew(thawed: Pair):
    with (
        memoranda.open(thawed.url(), read_from="standby") as memory,
        memoranda.open(thawed.primary.url()) as other,
    ):
        ada = memory.scope(user="ada")
        ada.set("count", 0)
        memory.settle()
        thawed.catch_up()
        thawed.standby.execute("SELECT pg_wal_replay_pause()")
        try:
            other.scope(user="ada").set("count", 10)
            assert ada.value("count") == 0
            assert ada.update("count", lambda count: count + 1, attempts=2).value == 11
        finally:
            thawed.standby.execute("SELECT pg_wal_replay_resume()")


def test_without_a_standby_that_answers_the_primary_does(thawed: Pair):
    with memoranda.open(thawed.primary.url(), read_from="standby") as memory:
        memory.scope(user="ada").set("kiln.cone", 6)
        assert memory.scope(user="ada").value("kiln.cone") == 6
        assert asked_of(memory) == str(thawed.primary.folder)
        assert memory.staleness() == 0.0
    with memoranda.open(thawed.url(), read_from="standby", busy_timeout=5) as memory:
        ada = memory.scope(user="ada")
        ada.set("kiln.cone", 7)
        memory.settle()
        thawed.catch_up()
        assert asked_of(memory) == str(thawed.standby.folder)
        thawed.standby.freeze()
        assert seconds(lambda: ada.value("kiln.cone")) < 10
        assert asked_of(memory) == str(thawed.primary.folder)
        thawed.standby.thaw()


def test_a_read_that_replay_cancels_is_answered_by_the_primary(thawed: Pair):
    with PostgresStore(thawed.url(), read_from="standby") as store:
        thawed.catch_up()
        hosts: list[str] = []

        def look(rows: Any) -> None:
            hosts.append(rows.connection.info.host)
            if len(hosts) == 1:
                raise psycopg.errors.SerializationFailure("canceling statement due to conflict with recovery")

        store.reading.read(look)
        assert hosts == [str(thawed.standby.folder), str(thawed.primary.folder)]


def test_a_standby_that_was_opened_on_purpose_is_read_only(thawed: Pair):
    with PostgresStore(thawed.primary.url()) as store:
        store.transact(state(4))
    thawed.catch_up()
    for url in (thawed.standby.url(), thawed.url(thawed.standby, target="any"), thawed.url(target="standby")):
        with PostgresStore(url, busy_timeout=0.1) as store:
            assert revision(store) == 4
            with pytest.raises(ReadOnly, match="target_session_attrs=read-write"):
                store.transact(state(5))
    with pytest.raises(Unavailable, match="no primary yet"):
        PostgresStore(thawed.url(thawed.standby, target="read-write"), busy_timeout=0.1)
    with PostgresStore(thawed.url(target="prefer-standby")) as store:
        assert host_of(store) == str(thawed.standby.folder)


# a standby that takes over


def test_a_standby_takes_over_from_a_frozen_primary_and_nothing_that_was_acknowledged_is_lost(failing: Pair):
    with memoranda.open(failing.url(), busy_timeout=PATIENCE, embedder="hashing:64") as memory:
        ada = memory.scope(user="ada")
        ada.set("count", 0)
        ada.remember("The kiln is lit on Fridays", collection="notes")
        stop, acknowledged = threading.Event(), [0]

        def write() -> None:
            while not stop.is_set():
                ada.update("count", lambda found: found + 1)
                acknowledged[0] += 1

        def read() -> list[int]:
            seen: list[int] = []
            while not stop.is_set():
                assert ada.recall("kiln", collection="notes").count == 1
                seen.append(ada.value("count"))
            return seen

        with ThreadPoolExecutor(2) as threads:
            writing, reading = threads.submit(write), threads.submit(read)
            try:
                _wait_until(lambda: acknowledged[0] >= 20)
                failing.primary.freeze()
                failing.standby.promote()
                held = acknowledged[0]
                _wait_until(lambda: acknowledged[0] >= held + 20)
            finally:
                stop.set()
            writing.result(PATIENCE)
            seen = reading.result(PATIENCE)
        assert ada.value("count") == acknowledged[0]
        assert seen == sorted(seen), "a reader went back"
        assert len(ada.history("count", limit=1_000)) == acknowledged[0] + 1
        assert memory.ledger.verify().ok
        failing.primary.thaw()  # it still takes itself for the primary, and is not believed
        memory._gate._store._pool.distrust()  # type: ignore[attr-defined]
        assert asked_of(memory) == str(failing.standby.folder)


def test_a_commit_that_waits_for_a_frozen_standby_is_not_taken_for_one_that_failed(
    failing: Pair, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connection, "LONGEST_COMMIT", 1.0)
    with PostgresStore(failing.primary.url(), busy_timeout=0.2) as store:
        with memoranda.open(failing.primary.url()) as memory:
            memory.scope(user="ada").set("count", 0)
        failing.standby.freeze()
        with memoranda.open(failing.primary.url(), busy_timeout=0.2) as memory:
            with pytest.raises(Unavailable, match="may or may not be there"):
                memory.scope(user="ada").set("count", 1)
            assert memory.scope(user="ada").value("count") == 0  # the server shows it once the standby has it
            failing.standby.thaw()
            _wait_until(lambda: memory.scope(user="ada").value("count") == 1)
            memory.scope(user="ada").set("count", 2)
        assert store.check() == []


def test_a_former_primary_that_goes_on_is_not_believed(failing: Pair):
    with PostgresStore(failing.url(), busy_timeout=PATIENCE) as store:
        store.transact(state(1))
        failing.standby.promote()  # both take themselves for the primary now
        failing.primary.execute("ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
        with PostgresStore(failing.standby.url()) as other:
            other.transact(state(2))
        store._pool.distrust()
        store._pool._hosts.rotate(1)  # as if the first one had been tried last
        assert revision(store) == 2
        store._pool.distrust()
        store._pool._hosts.rotate(1)
        store.transact(state(3))
        assert revision(store) == 3
    with PostgresStore(failing.standby.url()) as other:
        assert revision(other) == 3


def _wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)
