"""Opening: new, old, newer, foreign and broken files; several at once; closing; forking."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from processes import run_process

from memoranda.errors import Busy, Corrupt, ForeignDatabase, MigrationNeeded, StorageError, Unavailable
from memoranda.model.event import event_body
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.store.base import FactQuery
from memoranda.store.sqlite import SqliteStore
from memoranda.store.sqlite import connection as module
from memoranda.store.sqlite.connection import APPLICATION_ID, MIGRATIONS, VERSION

ADA = Scope.of(user="ada")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def fact(key: str = "k") -> Fact:
    return Fact(id="fact_1", scope=ADA, key=key, value=None, version=1, created_at=NOON, updated_at=NOON)


def write(store: SqliteStore, key: str = "k", payload: bytes = b"1") -> None:
    store.transact(lambda rows: rows.put_fact(fact(key), payload))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "m.db")


def pragma(path: str, name: str, **default: None) -> int | str | None:
    connection = sqlite3.connect(path)
    try:
        row = connection.execute(f"PRAGMA {name}").fetchone()
        return row[0] if row or not default else None
    finally:
        connection.close()


def test_a_new_file_is_made_and_what_is_written_stays(path: str):
    with SqliteStore(path) as store:
        write(store)
    with SqliteStore(path) as store:
        assert store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False) == Fact(
            id="fact_1", scope=ADA, key="k", value=1, version=1, created_at=NOON, updated_at=NOON
        )
        assert store.url == path
        assert store.check() == []


def test_the_file_says_whose_it_is(path: str):
    SqliteStore(path).close()
    assert pragma(path, "application_id") == APPLICATION_ID == int.from_bytes(b"MMRD", "big")
    assert pragma(path, "user_version") == VERSION
    assert pragma(path, "journal_mode") == "wal"


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("normal", 1)])
def test_durability_is_how_often_the_log_is_synced(path: str, durability, synchronous: int):
    with SqliteStore(path, durability=durability) as store:
        assert store._writer.run_alone(lambda connection: connection.pragma("synchronous")) == synchronous
        assert store._writer.run_alone(lambda connection: connection.pragma("secure_delete")) == 1


def test_a_missing_folder_is_unavailable(tmp_path: Path):
    with pytest.raises(Unavailable, match="folder") as caught:
        SqliteStore(str(tmp_path / "nowhere" / "m.db"))
    assert isinstance(caught.value.__cause__, apsw.CantOpenError)


def test_a_folder_is_not_a_database(tmp_path: Path):
    with pytest.raises(StorageError):
        SqliteStore(str(tmp_path))


@pytest.mark.parametrize("content", [b"hello", b"not a database " * 1000])
def test_a_file_that_is_no_database_is_corrupt_and_left_alone(path: str, content: bytes):
    Path(path).write_bytes(content)
    with pytest.raises(Corrupt, match=r"m\.db"):
        SqliteStore(path)
    assert Path(path).read_bytes() == content


def test_an_empty_file_becomes_a_database(path: str):
    Path(path).touch()
    with SqliteStore(path) as store:
        write(store)
        assert store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False) is not None


def test_the_database_of_another_program_is_foreign_and_left_alone(path: str):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(ForeignDatabase, match="another program"):
        SqliteStore(path)
    assert Path(path).read_bytes() == before
    assert pragma(path, "journal_mode") == "delete"


def test_a_newer_database_is_refused_and_left_alone(path: str):
    with SqliteStore(path) as store:
        write(store)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(MigrationNeeded) as caught:
        SqliteStore(path)
    assert (caught.value.found, caught.value.wanted) == (VERSION + 1, VERSION)
    assert Path(path).read_bytes() == before


def test_an_older_database_is_migrated_whole_or_not_at_all(path: str, monkeypatch: pytest.MonkeyPatch):
    with SqliteStore(path) as store:
        write(store)
    monkeypatch.setattr(module, "VERSION", VERSION + 2)
    steps = (*module.MIGRATIONS, "CREATE TABLE later (a TEXT) STRICT", "CREATE TABLE facts (a TEXT) STRICT")
    monkeypatch.setattr(module, "MIGRATIONS", steps)
    with pytest.raises(StorageError, match="already exists"):
        SqliteStore(path)
    assert pragma(path, "user_version") == VERSION
    assert pragma(path, "table_list(later)", default=None) is None
    monkeypatch.setattr(module, "MIGRATIONS", (*steps[:-1], "CREATE TABLE last (a TEXT) STRICT"))
    with SqliteStore(path) as store:
        assert store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False) is not None
    assert pragma(path, "user_version") == VERSION + 2


def test_a_file_of_the_second_schema_gets_runs(tmp_path: Path, append_event):
    path = tmp_path / "m.db"
    connection = apsw.Connection(str(path))
    for migration in MIGRATIONS[:2]:
        connection.execute(migration)
    connection.execute("INSERT INTO tenants VALUES ('default', 0, 0, 1, 'sha256:1')")
    with SqliteStore(":memory:") as scratch:
        old = scratch.transact(lambda rows: append_event(rows, 1))
    connection.execute("INSERT INTO events VALUES ('default', 1, 'sha256:1', ?)", (event_body(old),))
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 2)
    connection.close()
    with SqliteStore(str(path)) as store:
        new = store.transact(lambda rows: append_event(rows, 2, effect="exec_start", resource="r1"))
        assert store.read(lambda rows: list(rows.events("default"))) == [old, new]
        assert store.read(lambda rows: list(rows.events("default", run="r1"))) == [new]
        assert store.read(lambda rows: rows.head("default", "r1")) == (1, "sha256:2")
    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == VERSION > 2
    connection.close()


def test_a_program_that_has_grown_old_meanwhile_refuses_to_write(path: str):
    with SqliteStore(path) as store:
        write(store, "before")
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        connection.close()
        with pytest.raises(MigrationNeeded):
            write(store, "after")
        assert store.read(lambda rows: rows.fact(ADA, "before"), snapshot=False) is not None
        assert store.read(lambda rows: rows.fact(ADA, "after"), snapshot=False) is None


def test_a_relative_path_means_where_it_was_opened(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with SqliteStore("m.db") as store:
        write(store)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False) is not None
    assert not (tmp_path / "elsewhere" / "m.db").exists()


OPEN_AND_WRITE = """
import sys
from datetime import UTC, datetime
from memoranda.model.event import event_body
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.store.sqlite import SqliteStore
sys.stdin.readline()
now = datetime(2026, 1, 1, tzinfo=UTC)
with SqliteStore(sys.argv[1]) as store:
    fact = Fact(id="f", scope=Scope(), key=sys.argv[2], value=None, version=1, created_at=now, updated_at=now)
    store.transact(lambda rows: rows.put_fact(fact, b"1"))
"""


@pytest.mark.parametrize("attempt", range(3))
def test_four_processes_may_create_one_file_at_once(path: str, attempt: int):
    with ExitStack() as running:
        children = [
            running.enter_context(
                run_process([sys.executable, "-c", OPEN_AND_WRITE, path, f"k{number}"], stdin=subprocess.PIPE)
            )
            for number in range(4)
        ]
        for child in children:  # all have started, and wait for this line
            assert child.stdin
            child.stdin.write("\n")
            child.stdin.flush()
        assert [child.wait(30) for child in children] == [0, 0, 0, 0]
    with SqliteStore(path) as store:
        assert store.check() == []
        assert len(store.read(lambda rows: list(rows.facts(FactQuery(Scope(), active_at=NOON))))) == 4


def test_a_file_that_another_makes_while_it_is_looked_at_is_not_foreign(path: str, monkeypatch: pytest.MonkeyPatch):
    """Another tries to make the file between the look at its mark and the look at its tables, and has to wait."""
    identify, made = module._identify, []

    class Overtaken:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def pragma(self, name: str):
            value = self._connection.pragma(name)
            if not made:
                made.append(name)
                with suppress(Busy):
                    SqliteStore(path, busy_timeout=0).close()
            return value

        def execute(self, sql: str):
            return self._connection.execute(sql)

    def be_overtaken(connection: Any, url: str) -> int:
        looked_at: Any = connection if made else Overtaken(connection)
        return identify(looked_at, url)

    monkeypatch.setattr(module, "_identify", be_overtaken)
    with SqliteStore(path) as store:
        assert made == ["application_id"]  # it did try in between
        assert store.check() == []
        write(store)


def test_a_file_that_another_made_meanwhile_is_taken_as_it_is(path: str, monkeypatch: pytest.MonkeyPatch):
    use_wal = module._use_wal

    def be_overtaken(connection, patience: float) -> None:
        monkeypatch.setattr(module, "_use_wal", use_wal)
        with SqliteStore(path) as other:
            write(other)
        use_wal(connection, patience)

    monkeypatch.setattr(module, "_use_wal", be_overtaken)
    with SqliteStore(path) as store:
        assert module._use_wal is use_wal
        assert store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False) is not None


@pytest.mark.parametrize("place", ["file", "memory"])
def test_a_closed_store_is_unavailable(path: str, place: str):
    store = SqliteStore(path if place == "file" else ":memory:")
    write(store)
    assert store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False) is not None
    store.close()
    store.close()
    for use in (
        lambda: store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False),
        lambda: store.read(lambda rows: rows.tenants()),
        lambda: write(store),
        lambda: store.check(),
        lambda: store.scrub(),
    ):
        with pytest.raises(Unavailable, match="closed"):
            use()


def test_closing_leaves_one_file(path: str, tmp_path: Path):
    store = SqliteStore(path)
    write(store)
    assert Path(path + "-wal").exists()
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["m.db"]


def test_readers_that_are_busy_while_the_store_closes_are_closed_when_done(path: str, tmp_path: Path):
    store = SqliteStore(path)
    write(store)

    def work(rows) -> int:
        store.close()
        return len(list(rows.facts(FactQuery(ADA, active_at=NOON))))

    assert store.read(work) == 1
    with pytest.raises(Unavailable):
        store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False)
    assert [file.name for file in tmp_path.iterdir()] == ["m.db"]


def in_child(action) -> str:
    """Run an action in a forked child; return what it answered."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = str(action())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_must_open_its_own(path: str):
    with SqliteStore(path) as store:
        write(store)
        assert store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False) is not None
        for use in (
            lambda: store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False),
            lambda: store.read(lambda rows: rows.tenants()),
            lambda: write(store, "child"),
            lambda: store.check(),
            lambda: store.scrub(),
        ):
            assert in_child(use).startswith("Unavailable: ")
            assert "after forking" in in_child(use)
        assert in_child(store.close) == "None"

        def open_own() -> bool:
            with SqliteStore(path) as own:
                write(own, "child")
                return own.read(lambda rows: rows.fact(ADA, "child")) is not None

        assert in_child(open_own) == "True"
        assert store.read(lambda rows: rows.fact(ADA, "child"), snapshot=False) is not None
        write(store, "parent")
        assert store.check() == []


def test_memory_is_shared_by_threads_and_gone_after(path: str):
    with SqliteStore(":memory:") as store:
        write(store)
        assert store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False) is not None
        assert store.transact(lambda rows: store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False)) is not None
        assert store.check() == []
        assert store.scrub()
        with SqliteStore(":memory:") as other:
            assert other.read(lambda rows: rows.fact(ADA, "k")) is None


def test_the_mark_of_one_store_changes_when_another_on_the_file_writes(path: str) -> None:
    with SqliteStore(path) as ours, SqliteStore(path) as theirs:
        before = ours.mark()
        assert ours.mark() == before
        write(theirs)
        assert ours.mark() != before
