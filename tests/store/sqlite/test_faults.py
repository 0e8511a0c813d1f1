"""Full, failing, read-only or damaged disks give errors of ours, and nothing is half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

import memoranda
from memoranda.errors import Corrupt, Full, ReadOnly, Unavailable
from memoranda.model.fact import Fact, Revision
from memoranda.model.scope import Scope
from memoranda.store.base import FactQuery
from memoranda.store.sqlite import SqliteStore
from memoranda.testing.faults import FaultyDisk, Trial, sweep

ADA = Scope.of(user="ada")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

DEEP = os.environ.get("MEMORANDA_DEPTH") == "deep"
WRITES = 5 if DEEP else 2
ERRORS = ("ioerr", "full") if DEEP else ("ioerr",)
"""A full disk is tried in `tests/proofs` too."""


def write(store: SqliteStore, key: str, payload: bytes = b"1") -> None:
    """Keep a fact and its revision: both are there, or neither."""
    fact = Fact(id="fact_1", scope=ADA, key=key, value=None, version=1, created_at=NOON, updated_at=NOON)
    revision = Revision(fact_id="fact_1", scope=ADA, key=key, version=1, change="set", at=NOON, created_at=NOON)

    def work(rows) -> None:
        rows.put_fact(fact, payload)
        rows.add_revision(revision, payload)

    store.transact(work)


def kept(store: SqliteStore, key: str) -> tuple[bool, bool]:
    return store.read(lambda rows: (rows.fact(ADA, key) is not None, rows.revision(ADA, key, version=1) is not None))


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with FaultyDisk() as disk:
        yield disk


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "m.db")


def test_a_full_database_refuses_one_write_and_takes_the_next(path: str):
    with SqliteStore(path) as store:
        write(store, "first")
        pages = store._writer.run_alone(lambda connection: connection.pragma("page_count"))
        store._writer.run_alone(lambda connection: connection.pragma("max_page_count", pages + 2))
        with pytest.raises(Full, match="room") as caught:
            write(store, "large", b'"' + b"x" * 100_000 + b'"')
        assert isinstance(caught.value.__cause__, apsw.FullError)
        assert kept(store, "large") == (False, False)
        write(store, "small")
        assert kept(store, "small") == kept(store, "first") == (True, True)
        assert store.check() == []


def test_a_full_disk_keeps_nothing_and_recovers(path: str, disk: FaultyDisk):
    with SqliteStore(path, vfs=disk.vfs) as store:
        write(store, "before")
        assert kept(store, "before") == (True, True)  # opens a reader while files can be opened
        disk.fail(1, persistent=True, error="full")
        with pytest.raises(Full):
            write(store, "during")
        assert disk.fired
        assert kept(store, "during") == (False, False)
        disk.heal()
        write(store, "after")
        assert kept(store, "before") == kept(store, "after") == (True, True)
        assert store.check() == []


def test_a_failing_disk_is_unavailable(path: str, disk: FaultyDisk):
    with SqliteStore(path, vfs=disk.vfs) as store:
        write(store, "before")
        disk.fail(1, persistent=True)
        with pytest.raises(Unavailable, match="disk") as caught:
            write(store, "during")
        assert isinstance(caught.value.__cause__, apsw.IOError)
        disk.heal()
        write(store, "after")
        assert kept(store, "during") == (False, False)


@pytest.mark.slow
def test_every_acknowledged_write_survives_every_fault(disk: FaultyDisk):
    def body(trial: Trial) -> None:
        with SqliteStore(str(trial.directory / "m.db"), vfs=disk.vfs) as store:
            for number in range(WRITES):
                write(store, f"k{number}", b'"' + b"x" * 5_000 + b'"')
                trial.acknowledged.append(f"k{number}")
            if DEEP:
                store.scrub()

    def check(trial: Trial) -> None:
        with SqliteStore(str(trial.directory / "m.db"), vfs=disk.vfs) as store:
            for number in range(WRITES):
                fact, revision = kept(store, f"k{number}")
                assert fact == revision
                assert fact or f"k{number}" not in trial.acknowledged
            assert store.check() == []

    swept = sweep(body, check, disk=disk, errors=ERRORS)
    assert swept.complete
    assert swept.raised > 20


READ_ONLY = """
import sys
import apsw
from memoranda.model.scope import Scope
from memoranda.store.base import TenantState
from memoranda.store.sqlite import SqliteStore


class ReadOnlyFile(apsw.VFSFile):
    def __init__(self, name, flags):
        given = list(flags)
        if given[0] & apsw.SQLITE_OPEN_MAIN_DB:
            given[0] &= ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            given[0] |= apsw.SQLITE_OPEN_READONLY
        super().__init__("", name, given)
        flags[1] = given[1]


class ReadOnlyDisk(apsw.VFS):
    def __init__(self):
        super().__init__("read-only", "")

    def xOpen(self, name, flags):
        return ReadOnlyFile(name, flags)


disk = ReadOnlyDisk()
store = SqliteStore(sys.argv[1], vfs="read-only")
assert store.read(lambda rows: rows.fact(Scope.of(user="ada"), "k"), snapshot=False).value == 1
try:
    store.transact(lambda rows: rows.set_tenant_state("t", TenantState(1, 1)))
except Exception as error:
    print(type(error).__name__, type(error.__cause__).__name__)
assert store.read(lambda rows: rows.fact(Scope.of(user="ada"), "k"), snapshot=False).value == 1
assert store.read(lambda rows: rows.tenants()) == ["default"]
store.close()
"""


def test_a_file_that_cannot_be_written_is_read_only(path: str):
    # In a process of its own: a VFS written with apsw must outlive its connections, also at interpreter exit.
    with SqliteStore(path) as store:
        write(store, "k")
    done = subprocess.run([sys.executable, "-c", READ_ONLY, path], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("ReadOnly ReadOnlyError\n", "")
    assert ReadOnly.code == "read_only"
    with SqliteStore(path) as store:  # the same write where writing is allowed
        write(store, "k2")


def damage(path: str, first_page: int, pages: int) -> None:
    with open(path, "r+b") as file:
        file.seek(first_page * 4096)
        file.write(b"\xa5" * 4096 * pages)


def test_damage_in_the_middle_is_found_and_named(path: str):
    with SqliteStore(path) as store:
        for number in range(200):
            write(store, f"k{number:03}", b'"' + b"x" * 900 + b'"')
        assert store.check() == []
    size = Path(path).stat().st_size // 4096
    damage(path, size // 2, 20)
    with SqliteStore(path) as store:
        assert store.check() != []
        with pytest.raises(Corrupt, match=r"m\.db.*backup") as caught:
            store.read(lambda rows: [rows.fact(ADA, f"k{number:03}") for number in range(200)])
        assert isinstance(caught.value.__cause__, apsw.CorruptError)
        with pytest.raises(Corrupt):
            store.read(lambda rows: [rows.fact(ADA, f"k{number:03}") for number in range(200)], snapshot=False)
        with pytest.raises(Corrupt):
            for number in range(200):
                write(store, f"k{number:03}", b"2")


def test_damage_at_the_start_is_found_when_opening(path: str):
    SqliteStore(path).close()
    SqliteStore(path).close()
    damage(path, 0, 1)
    with pytest.raises(Corrupt, match=r"m\.db"):
        SqliteStore(path)


def tamper(path: str, sql: str) -> None:
    connection = apsw.Connection(path)
    connection.pragma("writable_schema", True)
    connection.execute(sql)
    assert connection.changes() == 1
    connection.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE events SET body = x'7b' WHERE position = 2",
        "UPDATE events SET body = '{\"tenant\": 1}' WHERE position = 2",
        "UPDATE events SET body = x'ff' WHERE position = 2",
        "UPDATE event_texts SET text = x'ff' WHERE position = 2",
    ],
)
def test_an_event_that_does_not_decode_is_corrupt_at_its_position(path: str, append_event, sql: str):
    with SqliteStore(path) as store:
        first, *_ = store.transact(lambda rows: [append_event(rows, position, text="said") for position in (1, 2, 3)])
        assert len(store.read(lambda rows: list(rows.events("default")))) == 3
    tamper(path, sql.replace("'{", "CAST('{").replace("}'", "}' AS BLOB)"))
    with SqliteStore(path) as store:
        with pytest.raises(Corrupt, match="event 2") as caught:
            store.read(lambda rows: list(rows.events("default")))
        assert caught.value.position == 2
        assert store.read(lambda rows: next(rows.events("default"))) == first


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE facts SET payload = x'7b'",
        "UPDATE facts SET payload = x'22ff22'",
        "UPDATE facts SET scope = 'nonsense'",
        "UPDATE facts SET domain = CAST(x'ff' AS TEXT)",
    ],
)
def test_a_fact_that_does_not_decode_is_corrupt(path: str, sql: str):
    with SqliteStore(path) as store:
        write(store, "k")
        assert len(store.read(lambda rows: list(rows.facts(FactQuery(Scope("default"), below=True, key="k"))))) == 1
    tamper(path, sql)
    with SqliteStore(path) as store, pytest.raises(Corrupt, match="cannot be read"):
        store.read(lambda rows: list(rows.facts(FactQuery(Scope("default"), below=True, key="k"))))


def test_a_text_that_does_not_decode_is_corrupt_whichever_way_it_is_read(path: str):
    with SqliteStore(path) as store:
        write(store, "k")
        assert store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False) is not None
    tamper(path, "UPDATE facts SET actor = CAST(x'ff' AS TEXT)")
    with SqliteStore(path) as store:
        for read in (
            lambda: store.read(lambda rows: rows.fact(ADA, "k"), snapshot=False),
            lambda: store.transact(lambda rows: rows.fact(ADA, "k")),
        ):
            with pytest.raises(Corrupt, match="cannot be read"):
                read()


def test_an_inspection_of_a_damaged_file_says_so_whatever_its_rows_hold(path: str):
    with memoranda.open(path) as memory:
        memory.scope(user="ada").set("k", 1)
        assert all(finding.ok for finding in memory.inspect())
    open_to_any_type = "UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'events'"
    strict_again = "UPDATE sqlite_schema SET sql = sql || ' STRICT' WHERE name = 'events'"
    for sql in (open_to_any_type, "UPDATE events SET body = 7", strict_again):
        tamper(path, sql)
    with memoranda.open(path) as memory:
        (finding,) = memory.inspect()
    assert not finding.ok
    assert "events.body" in finding.detail
