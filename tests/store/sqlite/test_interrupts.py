"""A caller that is interrupted, at any moment, does not affect the others and leaves no lock behind."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest

from memoranda.model.scope import Scope
from memoranda.store.sqlite import SqliteStore, group_commit
from memoranda.store.sqlite import store as store_module
from memoranda.store.sqlite.group_commit import GroupCommit


class InterruptedLock:
    """What an interrupted caller sleeps on: instead of being woken, it gets a KeyboardInterrupt."""

    def __init__(self) -> None:
        self.struck = threading.Event()

    def acquire(self) -> None:
        assert self.struck.wait(30)
        raise KeyboardInterrupt

    def release(self) -> None:
        """Do nothing: the waiting caller has left."""


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


class Strike:
    """Raise a KeyboardInterrupt at the n-th place where Python would look for a signal, in the code of the writer.

    Python looks when a call returns and when a function begins. A profiler's function is called just there, and what it
    raises takes the place of the result, which is what happens to an interrupted caller.
    """

    def __init__(self, place: int) -> None:
        self.left = place
        self.struck = False

    def __enter__(self) -> Strike:
        self._before = sys.getprofile()
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *raised: object) -> None:
        sys.setprofile(self._before)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if (
            event == "c_call"
            or self.struck
            or frame.f_code.co_filename not in (group_commit.__file__, store_module.__file__)
        ):
            return
        self.left -= 1
        if self.left < 0:
            self.struck = True
            raise KeyboardInterrupt


def assert_free(store: SqliteStore, probe: apsw.Connection) -> None:
    """Assert that the file's lock and the writer's are free, that no writer leads, and that all may write."""
    probe.execute("BEGIN IMMEDIATE")
    probe.execute("ROLLBACK")
    wrote: list[int] = []
    thread = threading.Thread(target=lambda: wrote.append(store.transact(lambda rows: 1)), daemon=True)
    thread.start()
    thread.join(20)
    assert wrote == [1]
    assert store.transact(lambda rows: 2) == 2
    assert store.read(lambda rows: 3) == 3
    writer = store._writer
    assert (writer._leader, writer._running, writer._holder, writer._batch) == (None, None, None, None)
    assert not writer._queue and not writer._done


@pytest.mark.parametrize("action", ["transact", "at once", "mark", "read", "alone", "a work that fails"])
def test_an_interrupt_at_any_moment_leaves_no_lock_behind(tmp_path: Path, action: str) -> None:
    path = str(tmp_path / "m.db")
    tenant = Scope.of(user="ada").tenant

    def fail(rows: object) -> None:
        raise ValueError

    def act(store: SqliteStore) -> None:
        match action:
            case "transact":
                store.transact(lambda rows: rows.tenants())
            case "at once":
                store.transact(lambda rows: rows.tenants(), wait=False)
            case "mark":
                store.mark(tenant)
            case "read":
                store.read(lambda rows: rows.tenants())
            case "alone":
                store._writer.run_alone(lambda connection: connection.execute("SELECT 1").get)
            case _:
                with pytest.raises(ValueError):
                    store.transact(fail)

    with SqliteStore(path, busy_timeout=0.0) as store:
        act(store)
        probe = apsw.Connection(path)
        for place in range(1_000):
            with Strike(place) as strike:
                try:
                    act(store)
                except KeyboardInterrupt:
                    assert strike.struck
            assert_free(store, probe)
            if not strike.struck:
                break
        else:
            pytest.fail("there is no end of places")
        assert place > 5  # the control: there were moments to strike at
        probe.close()


class Led:
    """A thread that leads a batch of four, interrupted at one place, and the three that it writes for."""

    def __init__(self, store: SqliteStore, place: int) -> None:
        self.store = store
        self.strike = Strike(place)
        self.ran: list[str] = []
        self.returned: list[str] = []
        self._others = [threading.Thread(target=self._call, args=(name,), daemon=True) for name in "abc"]
        self._taken = threading.Event()

    def write(self) -> None:
        holder = threading.Thread(target=self._hold, daemon=True)
        holder.start()
        assert self._taken.wait(20)
        with self.strike:
            try:
                self._call("own")
            except KeyboardInterrupt:
                assert self.strike.struck
        finish(holder, *self._others)

    def _call(self, name: str) -> None:
        self.store.transact(lambda rows: self.ran.append(name))
        self.returned.append(name)

    def _hold(self) -> None:
        """Have the lock until all have queued, the leader first."""
        writer = self.store._writer
        with writer._lock:
            self._taken.set()
            deadline = time.monotonic() + 20
            while writer._leader is None and not self.strike.struck and time.monotonic() < deadline:
                time.sleep(0)
            for other in self._others:
                other.start()
            while len(writer._queue) < 3 and time.monotonic() < deadline:
                time.sleep(0)


def test_an_interrupt_of_a_leader_at_any_moment_is_unnoticed_by_those_it_writes_for(tmp_path: Path) -> None:
    path = str(tmp_path / "m.db")
    with SqliteStore(path) as store:
        probe = apsw.Connection(path)
        for place in range(1_000):
            led = Led(store, place)
            led.write()
            assert sorted({*led.returned} - {"own"}) == ["a", "b", "c"], place
            assert {*"abc"} <= {*led.ran}
            assert_free(store, probe)
            if not led.strike.struck:
                break
        else:
            pytest.fail("there is no end of places")
        assert place > 20
        probe.close()
