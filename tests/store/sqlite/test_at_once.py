"""Writes that are done at once or not begun: no other thread, no other process and no slow disk is waited for."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import apsw
import pytest

from memoranda.errors import Busy
from memoranda.store.sqlite import SqliteStore
from memoranda.store.sqlite.group_commit import SLOW_COMMIT, BatchWait

LONG = 60.0
"""Seconds that a write waits for other processes, if it waits at all: no test takes as long."""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "m.db")


@pytest.fixture
def store(path):
    with SqliteStore(path, busy_timeout=LONG) as store:
        commits_take(store, SLOW_COMMIT / 2)
        yield store


def commits_take(store: SqliteStore, seconds: float) -> None:
    """Make the store believe that its disk is so slow."""
    wait = BatchWait()
    for _ in range(2):
        wait.note_commit(together=1, meanwhile=0, seconds=seconds)
    store._writer._batch_wait = wait


def refused(store: SqliteStore) -> bool:
    """Say whether a write at once is refused; one that is refused has not begun."""
    ran: list[str] = []
    try:
        store.transact(lambda rows: ran.append("ran"), wait=False)
    except Busy:
        assert ran == []
        return True
    assert ran == ["ran"]
    return False


def test_a_quick_disk_is_written_to_and_a_slow_one_is_not(store: SqliteStore):
    assert not refused(store)
    commits_take(store, SLOW_COMMIT * 2)
    assert refused(store)
    commits = store._writer.commits
    store.transact(lambda rows: None)
    assert store._writer.commits == commits + 1


def test_before_anything_was_committed_it_is_tried(store: SqliteStore):
    store._writer._batch_wait = BatchWait()
    assert not refused(store)


def test_another_process_that_writes_is_not_waited_for(store: SqliteStore, path: str):
    with closing(apsw.Connection(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        assert refused(store)
        assert time.monotonic() - start < LONG / 2
        other.execute("ROLLBACK")
    assert not refused(store)


def test_those_who_do_wait_wait_as_long_as_before(store: SqliteStore, path: str):
    """What was set for the one that does not wait is set back."""
    with closing(apsw.Connection(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert refused(store)
        done = threading.Event()
        waiting = threading.Thread(target=lambda: store.transact(lambda rows: done.set()), daemon=True)
        waiting.start()
        assert not done.wait(0.5)
        other.execute("ROLLBACK")
    assert done.wait(30)
    waiting.join(30)
    assert store._writer.run_alone(lambda connection: connection.pragma("busy_timeout")) == LONG * 1000


def test_who_has_the_connection_is_not_waited_for(store: SqliteStore):
    holds, let_go = threading.Event(), threading.Event()
    holder = threading.Thread(
        target=lambda: store._writer.run_alone(lambda connection: (holds.set(), let_go.wait(30))), daemon=True
    )
    holder.start()
    assert holds.wait(30)
    assert refused(store)
    let_go.set()
    holder.join(30)
    assert not refused(store)


def test_what_fails_at_once_is_undone_and_told(store: SqliteStore):
    def fail(rows) -> None:
        rows.put(None)

    with pytest.raises(KeyError, match="NoneType"):
        store.transact(fail, wait=False)
    assert not refused(store)


def test_those_who_queue_behind_it_are_not_refused_with_it(store: SqliteStore, path: str):
    """It fails at once only for itself: writers that arrive meanwhile wait as always."""
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []
    begin = store._writer._begin

    def begin_slowly(connection, *, at_once: bool) -> None:
        if at_once:
            begun.set()
            assert go_on.wait(30)
        begin(connection, at_once=at_once)

    store._writer._begin = begin_slowly
    with closing(apsw.Connection(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        hurried = threading.Thread(target=lambda: done.append("refused" if refused(store) else "kept"), daemon=True)
        hurried.start()
        assert begun.wait(30)
        behind = threading.Thread(
            target=lambda: (store.transact(lambda rows: None), done.append("behind")), daemon=True
        )
        behind.start()
        while not store._writer._queue:
            time.sleep(0.001)
        go_on.set()
        hurried.join(30)
        assert done == ["refused"]
        other.execute("ROLLBACK")
    behind.join(30)
    assert done == ["refused", "behind"]
