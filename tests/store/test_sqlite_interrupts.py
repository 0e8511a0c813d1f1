"""A caller who is interrupted while waiting for a shared commit takes nobody else down with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.commit import GroupCommit


class InterruptedLock:
    """What an interrupted caller sleeps on: instead of being woken, it gets a KeyboardInterrupt."""

    def __init__(self) -> None:
        self.struck = threading.Event()

    def acquire(self) -> None:
        assert self.struck.wait(30)
        raise KeyboardInterrupt

    def release(self) -> None:
        """Wake nobody: the caller has left."""


class Callers:
    """Threads that write, one of them interrupted while it waits."""

    def __init__(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.lock = InterruptedLock()
        self.ran: list[str] = []
        self.ended: dict[str, str] = {}
        self._queued = threading.Semaphore(0)
        queue_up = GroupCommit._queue_up

        def queue(commit: GroupCommit, ticket: Any) -> None:
            if threading.current_thread().name == "interrupted":
                ticket.called = self.lock
            queue_up(commit, ticket)
            self._queued.release()

        monkeypatch.setattr(GroupCommit, "_queue_up", queue)

    def start(self, name: str, work: Callable[[], object] = lambda: None) -> threading.Thread:
        """Start a caller and return once it has queued its work."""

        def run(_: object) -> None:
            self.ran.append(name)
            work()

        def call() -> None:
            try:
                self.store.transact(run)
                self.ended[name] = "returned"
            except KeyboardInterrupt:
                self.ended[name] = "interrupted"

        thread = threading.Thread(target=call, name=name, daemon=True)
        thread.start()
        assert self._queued.acquire(timeout=30)
        return thread


@pytest.fixture
def callers(tmp_path, monkeypatch: pytest.MonkeyPatch):
    with SqliteStore(str(tmp_path / "m.db")) as store:
        yield Callers(store, monkeypatch)


def finish(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(8)
    assert [thread.name for thread in threads if thread.is_alive()] == []


def test_work_that_nobody_had_begun_is_never_run(callers: Callers):
    begun, go_on = threading.Event(), threading.Event()
    leader = callers.start("leader", lambda: (begun.set(), go_on.wait(30)))
    assert begun.wait(30)
    interrupted = callers.start("interrupted")
    other = callers.start("other")
    callers.lock.struck.set()
    finish(interrupted)
    go_on.set()
    finish(leader, other)
    assert callers.ran == ["leader", "other"]
    assert callers.ended == {"leader": "returned", "interrupted": "interrupted", "other": "returned"}


def test_an_interrupted_caller_does_not_take_the_wake_of_another(callers: Callers):
    begun, go_on, second_begun, second_go_on = (threading.Event() for _ in range(4))
    first = callers.start("first", lambda: (begun.set(), go_on.wait(30)))
    assert begun.wait(30)
    second = callers.start("second", lambda: (second_begun.set(), second_go_on.wait(30)))
    interrupted = callers.start("interrupted")  # in one batch with the second, which leads it, and the last
    last = callers.start("last")
    go_on.set()
    assert second_begun.wait(30)
    callers.lock.struck.set()
    finish(interrupted)
    second_go_on.set()
    finish(first, second, last)
    assert callers.ran == ["first", "second", "interrupted", "last"]
    assert callers.ended["last"] == "returned"
    callers.start("later").join(8)
    assert callers.ended["later"] == "returned"
