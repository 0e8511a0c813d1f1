"""Group commit: many callers, one sync, and each answers for itself alone."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from processes import run_process

from memoranda.errors import Busy, Corrupt
from memoranda.model.event import event_body
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.store.base import ContentKey, Erasure, FactQuery, Session, TenantState
from memoranda.store.sql import rows as sql_rows
from memoranda.store.sqlite import SqliteStore
from memoranda.store.sqlite.group_commit import LARGEST_BATCH

ADA = Scope.of(user="ada")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def put(rows, key: str, value: int) -> None:
    fact = Fact(id="fact_1", scope=ADA, key=key, value=None, version=1, created_at=NOON, updated_at=NOON)
    rows.put_fact(fact, str(value).encode())


def value(reader, key: str) -> int:
    found = reader.fact(ADA, key)
    return found.value if found else 0


def stored_value(store: SqliteStore, key: str) -> int:
    return store.read(lambda rows: value(rows, key), snapshot=False)


def increment(rows) -> int:
    put(rows, "count", value(rows, "count") + 1)
    return value(rows, "count")


def together(*works: Callable[[], object]) -> list[BaseException | None]:
    """Run each in a thread of its own; return what each raised."""
    raised: list[BaseException | None] = [None] * len(works)

    def run(place: int, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            raised[place] = error

    threads = [threading.Thread(target=run, args=item) for item in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return raised


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(str(tmp_path / "m.db") if request.param == "file" else ":memory:") as store:
        yield store


def in_one_batch(store: SqliteStore, *works: Callable[[], object]) -> list[BaseException | None]:
    """Hold the connection until all have queued up, so that the leader finds them all; return what each raised."""
    raised: list[list[BaseException | None]] = []
    runner = threading.Thread(target=lambda: raised.append(together(*works)))
    with store._writer._lock:
        runner.start()
        deadline = time.monotonic() + 30
        while len(store._writer._queue) < len(works):
            assert time.monotonic() < deadline
            time.sleep(0.001)
    runner.join(60)
    return raised[0]


def test_no_increment_is_lost_whoever_leads(store: SqliteStore):
    seen: list[int] = []

    def fifty() -> None:
        seen.extend(store.transact(increment) for _ in range(50))

    assert together(*[fifty] * 8) == [None] * 8
    assert stored_value(store, "count") == 400
    assert sorted(seen) == list(range(1, 401))  # each caller got its own result


def test_what_is_queued_goes_into_one_commit(store: SqliteStore):
    before = store._writer.commits
    assert in_one_batch(store, *[lambda: store.transact(increment)] * 8) == [None] * 8
    assert store._writer.commits - before == 1
    store.transact(increment)
    assert store._writer.commits - before == 2


def test_more_than_a_batch_is_several_commits(store: SqliteStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("memoranda.store.sqlite.group_commit.LARGEST_BATCH", 3)
    assert LARGEST_BATCH > 3
    before = store._writer.commits
    assert in_one_batch(store, *[lambda: store.transact(increment)] * 8) == [None] * 8
    assert store._writer.commits - before == 3
    assert stored_value(store, "count") == 8


class Deliberate(BaseException):
    """Not even an Exception."""


@pytest.mark.parametrize("error", [ValueError("no"), Deliberate("no"), SystemExit(3)])
def test_an_exception_undoes_its_own_work_alone(store: SqliteStore, error: BaseException):
    def fail(rows) -> None:
        increment(rows)
        put(rows, "gone", 1)
        raise error

    works = [lambda: store.transact(increment)] * 3
    raised = in_one_batch(store, *works, lambda: store.transact(fail), *works)
    assert [place for place in raised if place is not None] == [error]
    assert raised[3] is error
    assert "fail" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert stored_value(store, "count") == 6
    assert stored_value(store, "gone") == 0


def test_a_lone_failure_leaves_nothing(store: SqliteStore):
    def fail(rows) -> None:
        increment(rows)
        raise ValueError

    with pytest.raises(ValueError):
        store.transact(fail)
    assert stored_value(store, "count") == 0
    assert store.transact(increment) == 1


def test_a_statement_that_fails_undoes_its_own_work_alone(store: SqliteStore):
    def fail(rows) -> None:
        put(rows, "gone", 1)
        rows._run("put_fact", *[None] * 15)  # NOT NULL is violated: SQLite undoes the statement, not the rest

    raised = in_one_batch(store, lambda: store.transact(increment), lambda: store.transact(fail))
    assert raised[0] is None
    assert type(raised[1]).__name__ == "StorageError"
    assert raised[1] is not None and isinstance(raised[1].__cause__, apsw.ConstraintError)
    assert (stored_value(store, "count"), stored_value(store, "gone")) == (1, 0)


def test_when_sqlite_gives_up_the_transaction_everybody_is_told(store: SqliteStore):
    def fail(rows) -> None:
        rows.connection.execute("ROLLBACK")
        raise apsw.FullError("as a full disk does")

    works = [lambda: store.transact(increment)] * 3
    raised = in_one_batch(store, *works, lambda: store.transact(fail))
    assert [type(error).__name__ for error in raised] == ["Full"] * 4
    assert len({id(error) for error in raised}) == 4  # an error each
    assert stored_value(store, "count") == 0
    assert store.transact(increment) == 1


def test_an_interrupt_strikes_the_leader_and_not_the_others(store: SqliteStore):
    struck: list[str] = []

    def interrupted_once(rows) -> None:
        increment(rows)
        if not struck:
            struck.append(threading.current_thread().name)
            raise KeyboardInterrupt

    raised = in_one_batch(store, *[lambda: store.transact(interrupted_once)] * 4)
    assert [type(error) for error in raised].count(KeyboardInterrupt) == 1
    assert raised.count(None) == 3
    assert stored_value(store, "count") == 3
    assert store.transact(increment) == 4


@pytest.mark.parametrize("how", ["transact", "scrub", "close"])
def test_calling_the_store_from_its_own_work_is_refused(store: SqliteStore, how: str):
    inner = {"transact": lambda: store.transact(increment), "scrub": store.scrub, "close": store.close}[how]

    def nested(rows) -> None:
        increment(rows)
        inner()

    with pytest.raises(RuntimeError, match="inside a transaction"):
        store.transact(nested)
    assert stored_value(store, "count") == 0
    inner()  # outside it is allowed


def test_a_transaction_sees_its_own_writes_and_readers_do_not_yet(tmp_path: Path):
    with SqliteStore(str(tmp_path / "m.db")) as store:

        def work(rows) -> tuple[int, int]:
            increment(rows)
            return value(rows, "count"), stored_value(store, "count")

        assert store.transact(work) == (1, 0)
        assert stored_value(store, "count") == 1


def test_a_read_stays_at_its_moment(tmp_path: Path):
    with SqliteStore(str(tmp_path / "m.db")) as store:

        def work(rows) -> tuple[int, int, int]:
            before = value(rows, "count")
            store.transact(increment)
            return before, value(rows, "count"), stored_value(store, "count")

        assert store.read(work) == (0, 0, 1)


def test_a_read_may_write_while_others_do(store: SqliteStore):
    def many(rounds: int = 30) -> None:
        for _ in range(rounds):
            store.transact(increment)

    def read_then_write() -> None:
        for _ in range(30):
            store.read(lambda rows: (value(rows, "count"), store.transact(increment)))

    assert together(many, read_then_write, many, read_then_write) == [None] * 4
    assert stored_value(store, "count") == 120


def test_an_error_in_a_read_gives_the_reader_back(store: SqliteStore):
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            store.read(lambda rows: 1 / 0)
    assert store.transact(increment) == 1
    assert store.read(lambda rows: value(rows, "count")) == 1
    assert store.scrub()


def test_an_iterator_does_not_outlive_its_read(store: SqliteStore):
    store.transact(increment)
    for ask in (lambda rows: rows.facts(FactQuery(ADA, below=True)), lambda rows: rows.events("default")):
        store.read(lambda rows, ask=ask: list(ask(rows)))
        for leaked in (store.read(ask), store.transact(ask)):
            with pytest.raises(RuntimeError, match="outlived"):
                list(leaked)


@pytest.mark.parametrize("position", [0, 1, 2, 4])
def test_an_event_out_of_place_is_refused(store: SqliteStore, append_event, position: int):
    first = store.transact(lambda rows: append_event(rows, 1))
    second = store.transact(lambda rows: append_event(rows, 2, text={"t": 1}))
    with pytest.raises(Corrupt, match=f"event {position} ") as caught:
        store.transact(lambda rows: append_event(rows, position))
    assert caught.value.position == position
    third = store.transact(lambda rows: append_event(rows, 3))
    assert store.read(lambda rows: list(rows.events("default"))) == [first, second, third]


def test_long_answers_are_read_page_by_page(store: SqliteStore, append_event):
    def fill(rows) -> None:
        for number in range(1, 601):
            put(rows, f"k{number:03}", number)
            append_event(rows, number)

    store.transact(fill)
    for start, limit in [(1, None), (1, 0), (1, 5), (1, 256), (1, 257), (300, 512), (600, 1), (601, None)]:
        found = store.read(
            lambda rows, s=start, m=limit: [each.position for each in rows.events("default", start=s, limit=m)]
        )
        assert found == list(range(1, 601))[start - 1 :][:limit]
    below = store.read(lambda rows: [each.key for each in rows.facts(FactQuery(Scope(), below=True))])
    assert below == [f"k{number:03}" for number in range(1, 601)]
    leaked, _ = store.read(lambda rows: (events := rows.events("default"), next(events)))
    with pytest.raises(RuntimeError, match="outlived"):
        list(leaked)


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
connection.close()
print("released", flush=True)
sys.stdin.readline()
"""


def test_a_lock_held_elsewhere_is_busy_and_can_be_tried_again(tmp_path: Path):
    path = str(tmp_path / "m.db")
    with SqliteStore(path, busy_timeout=0.1) as store:
        store.transact(increment)
        command = [sys.executable, "-c", HOLD, path]
        with run_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdin and other.stdout
            assert other.stdout.readline() == "held\n"
            raised = together(*[lambda: store.transact(increment)] * 3)
            assert [type(error) for error in raised] == [Busy] * 3
            assert raised[0] is not None and isinstance(raised[0].__cause__, apsw.BusyError)
            assert store.scrub() is False
            assert stored_value(store, "count") == 1  # readers do not wait for writers
            other.stdin.write("\n")
            other.stdin.flush()
            assert other.stdout.readline() == "released\n"
            assert store.transact(increment) == 2
            assert store.scrub() is True
            other.stdin.write("\n")
            other.stdin.flush()


def test_several_events_are_appended_together_or_not_at_all(store: SqliteStore, append_event):
    first = store.transact(lambda rows: append_event(rows, 1))

    def append(*positions: int):
        made = [msgspec.structs.replace(first, position=one, hash=f"sha256:{one}") for one in positions]
        return lambda rows: rows.append_events([(event, event_body(event)) for event in made])

    for wrong in ((1, 2), (3, 4), (2, 2), (2, 4), (2, 1)):
        with pytest.raises(Corrupt, match="cannot follow"):
            store.transact(append(*wrong))
    assert store.read(lambda rows: rows.head("default")) == (1, "sha256:1")
    store.transact(append(2, 3, 4))
    assert store.read(lambda rows: [event.position for event in rows.events("default")]) == [1, 2, 3, 4]
    assert store.read(lambda rows: rows.head("default")) == (4, "sha256:4")


def known(rows: Any) -> dict[str, Any]:
    """Ask what a writer keeps in mind."""
    scope = Scope(path="run:r1")
    return {
        "session": rows.get(Session, scope),
        "erasure": rows.get(Erasure, scope),
        "key": getattr(rows.get(ContentKey, "default", "run:r1"), "secret", None),
        "state": rows.tenant_state("default"),
        "head": rows.head("default"),
        "run": rows.head("default", "r1"),
    }


def change(rows: Any, number: int, append_event: Any) -> None:
    """Change all of it."""
    moment = datetime(2026, 5, 1, number, tzinfo=UTC)
    scope = Scope(path="run:r1")
    rows.put(Session(scope=scope, owner=None, started_at=moment))
    rows.put(Erasure(id=str(number), scope=scope, at=moment, version_floor=number))
    rows.put(ContentKey("default", "run:r1", bytes([number])))
    rows.set_tenant_state("default", TenantState(number, number))
    append_event(rows, number, effect="step_record", resource="r1")


def test_what_a_writer_keeps_in_mind_is_what_was_committed_last(tmp_path: Path, append_event):
    with SqliteStore(str(tmp_path / "m.db")) as store, SqliteStore(str(tmp_path / "m.db")) as other:
        for number, writer in enumerate((store, other, store, store, other), start=1):
            writer.transact(lambda rows, number=number: change(rows, number, append_event))
            for reader in (store, other):
                found = reader.transact(known)
                assert found == other.read(known) == store.read(known)
                assert (found["head"], found["run"][1]) == ((number, f"sha256:{number}"), f"sha256:{number}")
                assert (found["key"], found["state"].epoch) == (bytes([number]), number)
                assert (found["session"].started_at.hour, found["erasure"].version_floor) == (number, number)


def test_what_was_undone_is_not_kept_in_mind(store: SqliteStore, append_event):
    store.transact(lambda rows: change(rows, 1, append_event))
    before = store.transact(known)

    def undone(rows: Any) -> None:
        change(rows, 2, append_event)
        assert known(rows) != before
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):
            store.transact(undone)
        assert store.transact(known) == before
    in_one_batch(store, lambda: store.transact(undone), lambda: store.transact(known))
    assert store.transact(known) == before
    store.transact(lambda rows: change(rows, 2, append_event))
    assert store.transact(known) == store.read(known) != before


def test_what_was_erased_is_not_kept_in_mind(store: SqliteStore, append_event):
    store.transact(lambda rows: change(rows, 1, append_event))
    assert store.transact(known)["key"] == b"\x01"
    store.transact(lambda rows: rows.remove_below(Scope(path="run:r1")))
    found = store.transact(known)
    assert (found["session"], found["key"]) == (None, None)
    assert found["run"] is not None


def test_a_full_cache_starts_again(store: SqliteStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sql_rows, "_CACHE_SIZE", 3)

    keys = [ContentKey("default", f"user:{number}", bytes([number])) for number in range(10)]

    def use(rows: Any) -> list[ContentKey | None]:
        for key in keys:
            rows.put(key)
        return [rows.get(ContentKey, "default", f"user:{number}") for number in range(11)]

    assert store.transact(use) == [*keys, None]
