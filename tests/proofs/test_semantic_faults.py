"""Every storage call fails while entries are remembered, forgotten, moved and erased: all of a step is there, or none.

On a file the calls of its disk fail; on PostgreSQL the connection is lost, or the server.

The program that lived through it goes on with the index it has. What that finds is what a fresh one finds.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import apsw
import postgres_server
import pytest
from broken_indexes import follow_no_removals
from cut_connections import FaultyLine

import memoranda
from memoranda import Memory, StorageError
from memoranda.store.base import Store
from memoranda.store.postgres import PostgresStore
from memoranda.store.sqlite import SqliteStore
from memoranda.testing import CountingIds, FakeClock, FaultyDisk, Point, Trial, sweep
from memoranda.testing.faults import ErrorName

STRIDE = 1 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 59
"""At ordinary depth one point of `STRIDE` is tried, and each series starts at another one."""

HOME, MOVED = "hashing:64", "hashing:96"
State = dict[str, frozenset[str]]
"""What can be found, by user, and the embedder of the collection under the name `embedder`."""


@pytest.fixture(autouse=True)
def in_memory_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the files of the trials where a sync costs nothing: the faults come from the VFS, not from the disk."""
    if os.access("/dev/shm", os.W_OK):
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")


def items(*names: str) -> list[dict[str, Any]]:
    return [{"content": f"{name} grows in the garden", "metadata": {"name": name}, "key": name} for name in names]


def of(memory: Memory, user: str) -> memoranda.ScopedMemory:
    return memory.scope(user=user)


def remember(memory: Memory, user: str, *names: str, ttl: str | None = None) -> None:
    of(memory, user).remember_many(items(*names), collection="notes", ttl=ttl)


def plus(state: State, user: str, *names: str) -> State:
    return {**state, user: state.get(user, frozenset()) | set(names)}


def minus(state: State, user: str, *names: str) -> State:
    return {**state, user: state.get(user, frozenset()) - set(names)}


# Per step its name, what is done, and what can be found after it.
STEPS: list[tuple[str, Callable[[Memory], object], Callable[[State], State]]] = [
    (
        "remember",
        lambda memory: remember(memory, "ada", "fern", "moss", "reed"),
        lambda state: plus(state, "ada", "fern", "moss", "reed"),
    ),
    ("short", lambda memory: remember(memory, "ada", "dew", ttl="1s"), lambda state: plus(state, "ada", "dew")),
    ("bob", lambda memory: remember(memory, "bob", "pine", "oak"), lambda state: plus(state, "bob", "pine", "oak")),
    (
        "replace",
        lambda memory: of(memory, "bob").remember(
            "it was a larch all along", collection="notes", key="pine", metadata={"name": "larch"}
        ),
        lambda state: plus(minus(state, "bob", "pine"), "bob", "larch"),
    ),
    (
        "forget",
        lambda memory: of(memory, "ada").forget(collection="notes", key="moss"),
        lambda state: minus(state, "ada", "moss"),
    ),
    ("expire", lambda memory: None, lambda state: minus(state, "ada", "dew")),
    ("sweep", lambda memory: memory.sweep(), lambda state: state),
    (
        "move",
        lambda memory: memory.collections.reembed("notes", MOVED, batch=2),
        lambda state: {**state, "embedder": frozenset({MOVED})} if "embedder" in state else state,
    ),
    ("late", lambda memory: remember(memory, "bob", "ash"), lambda state: plus(state, "bob", "ash")),
    (
        "erase",
        lambda memory: memory.erase(user="ada"),
        lambda state: {**state, "ada": frozenset()},
    ),
    ("last", lambda memory: remember(memory, "ada", "sage"), lambda state: plus(state, "ada", "sage")),
]


def find(memory: Memory) -> State:
    """What can be found just now."""
    state: State = {}
    for user in ("ada", "bob"):
        recalled = of(memory, user).recall("what grows in the garden", collection="notes", limit=100)
        names = [match.metadata["name"] for match in recalled.results]
        assert len(names) == len(set(names)), f"{names} has something twice"
        state[user] = frozenset(names)
        gone = {"ada": "moss", "bob": "pine"}[user]  # in a stale index it would take the only place
        best = of(memory, user).recall(f"{gone} grows in the garden", collection="notes", limit=1)
        assert best.count == bool(names), f"something that is gone hides what {user} has"
    holdings = memory.collections.list()
    if holdings:
        state["embedder"] = frozenset({holdings[0].embedder})
    return state


def rankings(memory: Memory) -> list[tuple[str, float]]:
    return [
        (match.id, round(match.score, 5))
        for user in ("ada", "bob")
        for query in ("fern and oak", "larch")
        for match in of(memory, user).recall(query, collection="notes", limit=100).results
    ]


class Life:
    """Goes through the steps on a failing store, and looks after each of them what can be found."""

    def __init__(self, disk: FaultyDisk | FaultyLine) -> None:
        self.disk = disk
        self.memory: Memory | None = None
        self.open_questions = 0
        self.clean_failures = 0

    def open_failing(self, trial: Trial) -> Store:
        """Open the store whose calls fail."""
        raise NotImplementedError

    def open_sound(self, trial: Trial) -> Store:
        """Open what is left with a store whose calls do not fail."""
        raise NotImplementedError

    def run(self, trial: Trial) -> None:
        self.possible: list[State] = [{"ada": frozenset(), "bob": frozenset()}]
        self.clock = FakeClock()
        self.memory = None
        failure: StorageError | None = None
        self.memory = Memory(self.open_failing(trial), clock=self.clock, ids=CountingIds(), embedder=HOME)
        for name, act, expected in STEPS:
            before = self.possible
            after = [self.with_home(expected(state), name) for state in before]
            if name == "expire":
                self.clock.advance(1)
            try:
                act(self.memory)
            except StorageError as error:
                failure = error
                self.possible = [*before, *(state for state in after if state not in before)]
            except memoranda.NotFound:  # there is no collection to move, as nothing could be remembered
                assert name == "move" and any("embedder" not in state for state in before)
            else:
                trial.acknowledged.append(name)
                self.possible = after
            try:
                self.look(self.memory, name)
            except StorageError as error:
                failure = error
        if failure is not None:
            raise failure

    def with_home(self, state: State, name: str) -> State:
        """The collection is made with the first entry, in the space that new ones get."""
        stores = name in ("remember", "short", "bob", "replace", "late", "last")
        return {"embedder": frozenset({HOME}), **state} if stores else state

    def look(self, memory: Memory, after: str) -> None:
        """What is found is one of the states that there may be; from now on it is the only one."""
        found = find(memory)
        assert found in self.possible, f"after `{after}` there is {found}, and not one of {self.possible}"
        self.open_questions += len(self.possible) > 1 and found != self.possible[0]
        self.clean_failures += len(self.possible) > 1 and found == self.possible[0]
        self.possible = [found]

    def check(self, trial: Trial) -> None:
        with Memory(self.open_sound(trial), clock=self.clock, ids=CountingIds(), embedder=HOME) as fresh:
            if self.memory is not None:
                self.look(fresh, "reopening")
                assert find(self.memory) == self.possible[0]
                assert rankings(self.memory) == rankings(fresh), "the index of who lived through it is stale"
                self.memory.close()
            fresh.settle()
            assert [finding for finding in fresh.inspect() if not finding.ok] == []
            remember(fresh, "carol", "thyme")
            assert fresh.scope(user="carol").recall("thyme", collection="notes").count == 1


class FileLife(Life):
    """On a file, whose disk fails."""

    disk: FaultyDisk

    def open_failing(self, trial: Trial) -> Store:
        return SqliteStore(str(trial.directory / "memory.db"), vfs=self.disk.vfs, busy_timeout=0.1)

    def open_sound(self, trial: Trial) -> Store:
        path = str(trial.directory / "memory.db")
        store = SqliteStore(path)
        with closing(apsw.Connection(path)) as connection:
            assert connection.pragma("integrity_check") == "ok"
        return store


class ServerLife(Life):
    """On a server, whose connections are lost."""

    disk: FaultyLine

    def __init__(self, server: postgres_server.PostgresServer, line: FaultyLine) -> None:
        super().__init__(line)
        self.server = server

    def open_failing(self, trial: Trial) -> Store:
        return PostgresStore(self.disk.url, busy_timeout=0.25 if trial.point.persistent else 30.0)

    def open_sound(self, trial: Trial) -> Store:
        return PostgresStore(self.server.url())


@pytest.mark.slow
@pytest.mark.capability("fault sweep", backend="postgres")
@pytest.mark.parametrize(
    ("error", "persistent", "step"),
    [("answer", False, 197), ("answer", True, 173), ("commit", False, 5), ("commit", True, 5), ("crash", False, 211)],
    ids=lambda one: str(one),
)
def test_each_step_happens_whole_or_not_at_all_on_a_server(
    postgres: postgres_server.PostgresServer, error: str, persistent: bool, step: int
):
    with FaultyLine(postgres) as line:
        life = ServerLife(postgres, line)
        done = sweep(
            life.run,
            life.check,
            disk=line,
            prepare=lambda trial: postgres.empty(),
            errors=[error],
            persistent=[persistent],
            expected=(StorageError,),
            first=9 if error == "crash" else 2,
            step=(11 if error == "crash" else 1) if STRIDE == 1 else step,
        )
    assert done.complete and len(done.points) >= 2
    if persistent:
        assert life.clean_failures > 0
    else:
        assert done.raised <= 1 and life.clean_failures <= 1  # but for an address that does not answer at first


@pytest.mark.slow
@pytest.mark.parametrize("error", ["ioerr", "full"])
def test_each_step_happens_whole_or_not_at_all(error: ErrorName):
    first = 1 if STRIDE == 1 else {"ioerr": 12, "full": 14}[error]
    with FaultyDisk() as disk:
        life = FileLife(disk)
        done = sweep(
            life.run,
            life.check,
            disk=disk,
            errors=[error],
            expected=(StorageError,),
            first=first,
            step=STRIDE,
            firsts=["sync"],
        )
    assert done.complete
    assert len(done.points) > 10
    assert {"write", "sync"} <= set(done.hits)
    assert {point.persistent for point in done.points} == {True, False}
    assert life.clean_failures > 5


@pytest.fixture
def life() -> Iterator[Life]:
    with FaultyDisk() as disk:
        yield FileLife(disk)


def try_once(life: Life, tmp_path: Any) -> Trial:
    trial = Trial(tmp_path, Point("ioerr", False, 0))
    life.run(trial)
    life.check(trial)
    return trial


def test_without_a_fault_the_whole_life_is_lived(life: Life, tmp_path: Any):
    """The control: the steps do work, and what each of them does can be seen."""
    trial = try_once(life, tmp_path)
    assert trial.acknowledged == [name for name, _, _ in STEPS]
    assert life.possible == [
        {"ada": frozenset({"sage"}), "bob": frozenset({"larch", "oak", "ash"}), "embedder": frozenset({MOVED})}
    ]


def test_an_index_that_does_not_follow_is_found_out(life: Life, tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    """The control: were removals not followed, the check would see it even though entries are read from the rows."""
    follow_no_removals(monkeypatch)
    with pytest.raises(AssertionError, match=r"hides what|there is"):
        try_once(life, tmp_path)
    assert life.memory is not None
    life.memory.close()


def test_a_step_that_is_half_done_is_found_out(life: Life, tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    """The other control: were many entries stored one by one, a fault between them would show."""

    def one_by_one(memory: Memory, user: str, *names: str, ttl: str | None = None) -> None:
        for item in items(*names):
            of(memory, user).remember_many([item], collection="notes", ttl=ttl)

    monkeypatch.setitem(globals(), "remember", one_by_one)
    with pytest.raises(AssertionError, match="and not one of"):
        sweep(life.run, life.check, disk=life.disk, errors=["full"], expected=(StorageError,), most=400, step=11)
    assert life.memory is not None
    life.memory.close()
