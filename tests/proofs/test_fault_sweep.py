"""Fail every storage call of a busy workload, once and then permanently: no acknowledged write is lost.

On a file every call of the disk fails. On PostgreSQL the connection is cut at every statement and every answer, those
to commits among them, and the server is killed at any of them.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import postgres_server
import pytest
from cut_connections import FaultyLine

import memoranda
from memoranda import MemorandaError, Memory, StorageError
from memoranda.store.base import Store
from memoranda.store.postgres import PostgresStore
from memoranda.store.sqlite import SqliteStore
from memoranda.testing import CountingIds, FakeClock, FaultyDisk, Point, Sweep, Trial, sweep
from memoranda.testing.faults import ErrorName

DEEP = os.environ.get("MEMORANDA_DEPTH") == "deep"
STRIDE = 1 if DEEP else 13
"""At ordinary depth every thirteenth point is tried, each series beginning at another one."""


class Statements:
    """The last statement that a connection was asked to run, to tell where an error came from."""

    def __init__(self) -> None:
        self.last = ""
        self._plans: dict[str, Callable[[], object]] = {}

    def when(self, beginning: str, act: Callable[[], object]) -> None:
        """Do something right before the next statement that begins like this."""
        self._plans[beginning] = act

    def watch(self, connection: apsw.Connection) -> None:
        def trace(cursor: Any, sql: str, bindings: Any) -> bool:
            if not sql.startswith("ROLLBACK"):  # that is what comes of an error
                self.last = sql
            for beginning in [each for each in self._plans if sql.startswith(each)]:
                self._plans.pop(beginning)()
            return True

        connection.exec_trace = trace


@pytest.fixture(autouse=True)
def in_memory_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the files of the trials where a sync costs nothing: the faults come from the VFS, not from the disk."""
    if os.access("/dev/shm", os.W_OK):
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")


@pytest.fixture
def statements() -> Iterator[Statements]:
    statements = Statements()
    apsw.connection_hooks.append(statements.watch)
    yield statements
    apsw.connection_hooks.remove(statements.watch)


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with FaultyDisk() as disk:
        yield disk


Seen = list[tuple[str, str, str | None]]
"""What the ledger says of a step: effect, scope and key of each event."""


def send_batch(memory: Memory) -> None:
    ada = memory.scope(user="ada")
    with memory.batch() as batch:
        for number in range(5):
            batch.set(ada, f"batch.{number}", "b" * 2000)
        batch.delete(ada, "bio")


ADA, BOB = "user:ada", "user:bob"
WRITE, DELETE, EXPIRE = "set_fact", "delete_fact", "expire_fact"
BATCH: Seen = [(WRITE, ADA, f"batch.{number}") for number in range(5)]

# A life: per step its name, what is done, and what the ledger then says. A step that comes upon nothing because an
# earlier one was refused says less, hence the alternatives.
STEPS: list[tuple[str, Callable[[Memory], Any], list[Seen]]] = [
    ("create", lambda memory: memory.scope(user="ada").create("name", "Ada"), [[(WRITE, ADA, "name")]]),
    ("set", lambda memory: memory.scope(user="ada").set("bio", "x" * 3000, ttl="1h"), [[(WRITE, ADA, "bio")]]),
    ("update", lambda memory: memory.scope(user="ada").update("name", str.upper), [[(WRITE, ADA, "name")]]),
    ("batch", send_batch, [[*BATCH, (DELETE, ADA, "bio")], BATCH]),
    (
        "define",
        lambda memory: memory.definitions.create(name="Profile", slug="profile", schema={"type": "object"}),
        [[("create_definition", "", None)]],
    ),
    ("record", lambda memory: memory.scope(user="bob").set("profile", {"a": 1}), [[(WRITE, BOB, "profile")]]),
    ("delete", lambda memory: memory.scope(user="bob").delete("profile"), [[(DELETE, BOB, "profile")], []]),
    ("large", lambda memory: memory.scope(user="bob").set("large", "l" * 60_000), [[(WRITE, BOB, "large")]]),
    ("short", lambda memory: memory.scope(user="bob").set("short", 1, ttl="1s"), [[(WRITE, BOB, "short")]]),
    ("sweep", lambda memory: memory.sweep(), [[(EXPIRE, BOB, "short")], []]),
    ("erase", lambda memory: memory.erase(user="ada"), [[("erase", ADA, None)]]),
    ("last", lambda memory: memory.scope(user="bob").set("last", 1), [[(WRITE, BOB, "last")]]),
]


class Life:
    """Goes through the steps on a store that fails, noting what was acknowledged and where the others failed."""

    def __init__(self) -> None:
        self.failed_at: dict[str, str] = {}
        self.errors: Counter[str] = Counter()
        self.open_questions = 0
        """How often a COMMIT failed, so that its outcome was unknown."""

    def open_failing(self, trial: Trial) -> Store:
        """Open the store whose calls fail."""
        raise NotImplementedError

    def open_sound(self, trial: Trial) -> Store:
        """Open what is left with a store whose calls do not fail."""
        raise NotImplementedError

    def place_of(self, error: StorageError) -> str:
        """Return where an error came from: `COMMIT` leaves the question open whether it was written."""
        raise NotImplementedError

    def run(self, trial: Trial) -> None:
        self.failed_at = {}
        failure: StorageError | None = None
        clock = FakeClock()
        with Memory(self.open_failing(trial), clock=clock, ids=CountingIds()) as memory:
            for name, act, _ in STEPS:
                if name == "sweep":
                    clock.advance(1)
                try:
                    act(memory)
                    trial.acknowledged.append(name)
                except StorageError as error:
                    self.errors[type(error).__name__] += 1
                    self.failed_at[name] = self.place_of(error)
                    failure = error
                except memoranda.NotFound:  # there is nothing to update, as the create was refused
                    self.failed_at[name] = "nothing was tried"
                try:
                    memory.scope(user="bob").list()  # reads go on meanwhile, or say why not
                except StorageError as error:
                    failure = error
        if failure is not None:
            raise failure

    def check(self, trial: Trial) -> None:
        with Memory(self.open_sound(trial), clock=late(), ids=CountingIds()) as memory:
            memory.settle()  # whatever is chained a moment after its commit
            assert memory.ledger.verify().ok
            assert [finding for finding in memory.inspect() if not finding.ok] == []
            self.check_story(trial, memory)
            assert memory.scope(user="carol").set("works", "again").version == 1

    def check_story(self, trial: Trial, memory: Memory) -> None:
        """Find each acknowledged step in the ledger, whole and in its place; of the others at most the open ones."""
        # A position that was taken when the connection was lost is unknown to the writer: the sequencer fills it.
        events = [event for event in memory.ledger.events() if event.effect != "void"]
        story = [(event.effect, event.scope, event.key) for event in events]
        for name, _, alternatives in STEPS:
            told = next((each for each in alternatives if story[: len(each)] == each), None)
            if name in trial.acknowledged:
                assert told is not None, f"`{name}` was acknowledged and is not there; what follows is {story[:3]}"
                del story[: len(told)]
            elif told and self.may_have_happened(name):
                self.open_questions += 1
                del story[: len(told)]
        assert story == [], f"of what was refused, {story} is there; failures: {self.failed_at}"
        assert len(memory.definitions.list()) == sum(
            event.effect == "create_definition" for event in memory.ledger.events()
        )

    def may_have_happened(self, name: str) -> bool:
        """Only a failed COMMIT leaves the question open."""
        return self.failed_at.get(name) == "COMMIT"


class FileLife(Life):
    """On a file, whose disk fails."""

    def __init__(self, disk: FaultyDisk, statements: Statements) -> None:
        super().__init__()
        self.disk = disk
        self.statements = statements

    def open_failing(self, trial: Trial) -> Store:
        return SqliteStore(str(trial.directory / "memory.db"), vfs=self.disk.vfs, busy_timeout=0.1)

    def open_sound(self, trial: Trial) -> Store:
        path = str(trial.directory / "memory.db")
        store = SqliteStore(path)
        with closing(apsw.Connection(path)) as connection:
            assert connection.pragma("integrity_check") == "ok"
        return store

    def place_of(self, error: StorageError) -> str:
        return self.statements.last


class ServerLife(Life):
    """On a server, whose connections are lost."""

    def __init__(self, server: postgres_server.PostgresServer, line: FaultyLine) -> None:
        super().__init__()
        self.server = server
        self.line = line
        self.unopened = 0
        """How often the store could not be opened: an address without an answer is most likely wrong."""

    def prepare(self, trial: Trial) -> None:
        self.server.empty()

    def open_failing(self, trial: Trial) -> Store:
        # A server that is started again is waited for; one that stays away is not waited for long.
        patience = 0.05 if trial.point.persistent else 30.0
        try:
            return PostgresStore(self.line.url, busy_timeout=patience)
        except StorageError:
            self.unopened += 1
            raise

    def open_sound(self, trial: Trial) -> Store:
        return PostgresStore(self.server.url())

    def place_of(self, error: StorageError) -> str:
        return "COMMIT" if "may or may not be there" in str(error) else "before"


def late() -> FakeClock:
    clock = FakeClock()
    clock.advance(1)
    return clock


@pytest.mark.slow
@pytest.mark.capability("fault sweep", backend="sqlite")
@pytest.mark.parametrize("error", ["ioerr", "full"])
def test_a_busy_life_survives_every_fault(error: ErrorName, statements: Statements):
    first = 1 if STRIDE == 1 else {"ioerr": 2, "full": 3}[error]
    with FaultyDisk() as disk:
        life = FileLife(disk, statements)
        done = sweep(
            life.run, life.check, disk=disk, errors=[error], expected=(StorageError,), first=first, step=STRIDE
        )
    assert done.complete
    assert len(done.points) > 50
    assert 50 < done.raised <= len(done.points)  # and some faults SQLite lives with, such as a failed checkpoint
    assert {"write", "sync"} <= set(done.hits)
    assert {point.persistent for point in done.points} == {True, False}
    assert set(life.errors) == {"ioerr": {"Unavailable"}, "full": {"Full"}}[error]


@pytest.fixture
def line(postgres: postgres_server.PostgresServer) -> Iterator[FaultyLine]:
    with FaultyLine(postgres) as line:
        yield line


def sweep_server(
    postgres: postgres_server.PostgresServer, line: FaultyLine, error: str, *, persistent: bool, **points: int
) -> tuple[Sweep, ServerLife]:
    """Run a life on PostgreSQL, with a fault at one point after the other."""
    life = ServerLife(postgres, line)
    options: dict[str, Any] = {"disk": line, "prepare": life.prepare, "expected": (StorageError,), **points}
    done = sweep(life.run, life.check, errors=[error], persistent=[persistent], **options)
    assert done.complete and set(done.hits) == {error}
    return done, life


def deep_step(error: str) -> int:
    """Return how far the next point is at full depth; a server that is started again takes its time."""
    return 7 if error == "crash" else 1


@pytest.mark.slow
@pytest.mark.capability("fault sweep", backend="postgres")
@pytest.mark.parametrize(
    ("error", "step"), [("statement", 53), ("answer", 59), ("commit", 3), ("crash", 97)], ids=lambda one: str(one)
)
def test_a_busy_life_does_not_notice_a_lost_connection(
    postgres: postgres_server.PostgresServer, line: FaultyLine, error: str, step: int
):
    """Whatever is lost is done again, or found to be done; only an address that does not answer at first is refused."""
    done, life = sweep_server(postgres, line, error, persistent=False, first=2, step=deep_step(error) if DEEP else step)
    assert len(done.points) >= 3
    assert done.raised == life.unopened and not life.errors, life.errors


@pytest.mark.slow
@pytest.mark.capability("fault sweep", backend="postgres")
@pytest.mark.parametrize(
    ("error", "step"), [("statement", 61), ("answer", 53), ("commit", 4), ("crash", 149)], ids=lambda one: str(one)
)
def test_a_busy_life_survives_a_server_that_stays_away(
    postgres: postgres_server.PostgresServer, line: FaultyLine, error: str, step: int
):
    done, life = sweep_server(postgres, line, error, persistent=True, first=3, step=deep_step(error) if DEEP else step)
    assert len(done.points) >= 2
    assert len(done.points) - done.raised <= 1  # the last statement ends a read, and no answer depends on it
    assert set(life.errors) == {"Unavailable"}
    assert life.open_questions > 0 or error != "commit"  # it was written, and could not be found out


@pytest.mark.capability("fault sweep", backend="postgres")
def test_a_life_on_a_server_that_boasts_is_found_out(postgres: postgres_server.PostgresServer, line: FaultyLine):
    """The control: were a write acknowledged before it is done, the check would see it."""

    class Boaster(ServerLife):
        def run(self, trial: Trial) -> None:
            trial.acknowledged.append("last")
            super().run(trial)

    life = Boaster(postgres, line)
    options: dict[str, Any] = {"disk": line, "prepare": life.prepare, "expected": (StorageError,)}
    with pytest.raises(AssertionError, match="`last` was acknowledged and is not there"):
        sweep(life.run, life.check, errors=["statement"], persistent=[True], first=20, **options)


@pytest.mark.capability("fault sweep", backend="postgres")
def test_without_a_fault_the_whole_life_is_lived_on_a_server(
    postgres: postgres_server.PostgresServer, line: FaultyLine, tmp_path: Path
):
    trial = Trial(tmp_path, Point("answer", False, 0))
    life = ServerLife(postgres, line)
    life.prepare(trial)
    life.run(trial)
    assert trial.acknowledged == [name for name, _, _ in STEPS]
    life.check(trial)


def test_the_first_calls_of_all_fail(statements: Statements):
    """Opening a new file is swept whole at any depth."""
    with FaultyDisk() as disk:
        life = FileLife(disk, statements)
        done = sweep(life.run, life.check, disk=disk, expected=(StorageError,), most=15)
    assert len(done.points) == 60 and done.raised > 30


def test_a_life_that_boasts_is_found_out(statements: Statements):
    """The control: were a write acknowledged before it is done, the check would see it."""
    with FaultyDisk() as disk:

        class Boaster(FileLife):
            def run(self, trial: Trial) -> None:
                trial.acknowledged.append("last")
                super().run(trial)

        life = Boaster(disk, statements)
        with pytest.raises(AssertionError, match="`last` was acknowledged and is not there"):
            sweep(life.run, life.check, disk=disk, errors=["full"], expected=(StorageError,))


def test_without_a_fault_the_whole_life_is_lived(tmp_path: Path, disk: FaultyDisk, statements: Statements):
    """The other control: the steps do work, and each of them can be seen."""
    trial = Trial(tmp_path, Point("ioerr", False, 0))
    life = FileLife(disk, statements)
    life.run(trial)
    assert trial.acknowledged == [name for name, _, _ in STEPS]
    life.check(trial)
    with Memory(SqliteStore(str(tmp_path / "memory.db")), clock=late()) as memory:
        events = [(event.effect, event.scope, event.key) for event in memory.ledger.events()]
    assert events[:-1] == [event for _, _, alternatives in STEPS for event in alternatives[0]]


def test_an_erasure_that_cannot_rewrite_the_file_says_so_in_its_receipt(
    path: str, disk: FaultyDisk, statements: Statements
):
    """It is committed by then: an error would say that nothing of it was kept."""
    with Memory(SqliteStore(path, vfs=disk.vfs)) as memory:
        ada = memory.scope(user="ada")
        ada.set("name", "Ada")
        statements.when("VACUUM", lambda: disk.fail(at=1, persistent=True))
        try:
            receipt = memory.erase(user="ada")
        except StorageError:
            disk.heal()
            assert ada.value("name") == "Ada", "an error was raised, and yet it was erased"
        else:
            assert not receipt.scrubbed
            disk.heal()
            assert ada.list() == []
        assert memory.scrub()


def test_errors_of_the_disk_are_typed(path: str, disk: FaultyDisk):
    """Whatever is asked of a dead disk, the answer is one of ours."""
    with Memory(SqliteStore(path, vfs=disk.vfs)) as memory:
        ada = memory.scope(user="ada")
        ada.set("name", "Ada")
        disk.fail(at=1, persistent=True)
        calls: list[Callable[[], Any]] = [
            lambda: ada.set("name", "b"),
            lambda: ada.delete("name"),
            lambda: memory.scope(user="bob").list(),
            lambda: memory.inspect(),
            lambda: memory.ledger.verify(),
            lambda: memory.erase(user="ada"),
            lambda: memory.scrub(),
            lambda: memory.sweep(),
        ]
        for call in calls:
            try:
                call()
            except MemorandaError:
                continue
        assert disk.fired
        disk.heal()
        assert ada.value("name") == "Ada"
        assert ada.set("name", "b").version == 2
