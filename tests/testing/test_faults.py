"""The faulty disk really fails, fails as a real disk does, and SQLite in WAL mode survives every point."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from memoranda.testing import CODES, FaultyDisk, Trial, sweep


@pytest.fixture
def disk():
    with FaultyDisk() as disk:
        yield disk


def connect(path: Path, vfs: str | None = None) -> apsw.Connection:
    connection = apsw.Connection(str(path), vfs=vfs)
    try:
        assert connection.pragma("journal_mode", "wal") == "wal"
        connection.pragma("synchronous", "full")
        connection.pragma("wal_autocheckpoint", 4)
    except BaseException:
        connection.close()
        raise
    return connection


def count(connection: apsw.Connection) -> int:
    return connection.execute("SELECT count(*) FROM line").get


def write_lines(trial: Trial, disk: FaultyDisk) -> None:
    with closing(connect(trial.directory / "m.db", disk.vfs)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS line (number INTEGER PRIMARY KEY, text TEXT)")
        for number in range(6):
            connection.execute("INSERT INTO line VALUES (?, ?)", (number, "x" * 3000))
            trial.acknowledged.append(number)


def check_lines(trial: Trial) -> None:
    with closing(connect(trial.directory / "m.db")) as connection:
        assert connection.pragma("integrity_check") == "ok"
        known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'line'").get
        found = {number for (number,) in connection.execute("SELECT number FROM line")} if known else set()
        assert set(trial.acknowledged) <= found


@pytest.mark.slow
def test_sqlite_survives_every_fault(disk: FaultyDisk):
    done = sweep(lambda trial: write_lines(trial, disk), check_lines, disk=disk)
    assert done.complete
    assert len(done.points) > 50
    assert 0 < done.raised <= len(done.points)
    assert set(done.hits) == set(CODES["ioerr"])
    assert {(point.error, point.persistent) for point in done.points} == {
        ("ioerr", False),
        ("ioerr", True),
        ("full", False),
        ("full", True),
    }


def test_sweep_finds_a_body_that_acknowledges_too_early(disk: FaultyDisk):
    def boast(trial: Trial) -> None:
        with closing(connect(trial.directory / "m.db", disk.vfs)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS line (number INTEGER PRIMARY KEY, text TEXT)")
            trial.acknowledged.append(1)
            connection.execute("INSERT INTO line VALUES (1, 'too early')")

    with pytest.raises(AssertionError) as caught:
        sweep(boast, check_lines, disk=disk)
    assert "Point(" in caught.value.__notes__[0]


def test_sweep_stops_at_an_unexpected_error(disk: FaultyDisk):
    def careless(trial: Trial) -> None:
        try:
            write_lines(trial, disk)
        except apsw.Error as error:
            raise KeyError("lost") from error

    with pytest.raises(KeyError, match="lost"):
        sweep(careless, check_lines, disk=disk)


def test_sweep_does_not_excuse_a_body_that_fails_without_a_fault(disk: FaultyDisk):
    def broken(trial: Trial) -> None:
        raise apsw.IOError("not from the disk")

    with pytest.raises(apsw.IOError, match="not from the disk"):
        sweep(broken, lambda trial: None, disk=disk)


def test_sweep_says_when_it_stopped_early(disk: FaultyDisk):
    done = sweep(lambda trial: write_lines(trial, disk), check_lines, disk=disk, most=2, errors=["full"])
    assert not done.complete
    assert [(point.persistent, point.at) for point in done.points] == [(False, 1), (False, 2), (True, 1), (True, 2)]


def test_sweep_prepares_before_the_fault_is_armed(disk: FaultyDisk):
    seen: list[bool] = []

    def prepare(trial: Trial) -> None:
        write_lines(trial, disk)
        trial.acknowledged.clear()

    def read(trial: Trial) -> None:
        seen.append((trial.directory / "m.db").exists())
        with closing(apsw.Connection(str(trial.directory / "m.db"), vfs=disk.vfs)) as connection:
            trial.acknowledged.extend(number for (number,) in connection.execute("SELECT number FROM line"))

    done = sweep(read, check_lines, disk=disk, prepare=prepare, errors=["ioerr"])
    assert done.points and all(seen)


@pytest.mark.parametrize(("error", "raised"), [("ioerr", apsw.IOError), ("full", apsw.FullError)])
def test_the_nth_call_fails_once(disk: FaultyDisk, tmp_path: Path, error, raised):
    with closing(connect(tmp_path / "m.db", disk.vfs)) as connection:
        connection.execute("CREATE TABLE line (number)")
        before = disk.calls
        connection.execute("INSERT INTO line VALUES (1)")
        assert disk.calls > before
        disk.fail(at=1, error=error)
        with pytest.raises(raised):
            connection.execute("INSERT INTO line VALUES (2)")
        assert disk.fired and sum(disk.hits.values()) == 1
        connection.execute("INSERT INTO line VALUES (3)")
        assert count(connection) == 2


def test_a_persistent_fault_lasts_until_healed(disk: FaultyDisk, tmp_path: Path):
    with closing(connect(tmp_path / "m.db", disk.vfs)) as connection:
        connection.execute("CREATE TABLE line (number)")
        disk.fail(at=1, persistent=True)
        for _ in range(3):
            with pytest.raises(apsw.IOError):
                connection.execute("INSERT INTO line VALUES (1)")
        assert sum(disk.hits.values()) >= 3
        disk.heal()
        connection.execute("INSERT INTO line VALUES (2)")
        assert count(connection) == 1


def test_codes_are_those_of_a_real_disk(disk: FaultyDisk, tmp_path: Path):
    with closing(connect(tmp_path / "m.db", disk.vfs)) as connection:
        connection.execute("CREATE TABLE line (number)")
        seen: set[int] = set()
        for at in range(1, 9):
            disk.fail(at=at)
            try:
                connection.execute("INSERT INTO line VALUES (1)")
            except apsw.IOError as error:
                seen.add(getattr(error, "extendedresult"))  # noqa: B009 (apsw's types do not name it)
            disk.heal()
        assert {apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_FSYNC} <= seen


def test_a_failing_checkpoint_does_not_fail_the_commit(disk: FaultyDisk, tmp_path: Path):
    # The reason for not subclassing apsw.VFSFile: there the INSERT below raises, and its row is kept.
    with closing(connect(tmp_path / "m.db", disk.vfs)) as connection:
        connection.execute("CREATE TABLE line (number)")
        connection.pragma("wal_autocheckpoint", 1)
        outcomes: list[bool] = []
        for at in range(1, 12):
            before = count(connection)
            disk.fail(at=at, error="full")
            try:
                connection.execute("INSERT INTO line VALUES (1)")
            except apsw.FullError:
                assert count(connection) == before
            else:
                assert count(connection) == before + 1
                outcomes.append(disk.fired)
            disk.heal()
        assert True in outcomes, "no fault fell into a checkpoint"


def test_shared_memory_of_the_log_works_between_connections_and_processes(disk: FaultyDisk, tmp_path: Path):
    path = tmp_path / "m.db"
    with closing(connect(path, disk.vfs)) as first, closing(connect(path, disk.vfs)) as second:
        assert first.pragma("locking_mode") == "normal"
        first.execute("CREATE TABLE line (number); BEGIN IMMEDIATE; INSERT INTO line VALUES (1)")
        with pytest.raises(apsw.BusyError):
            second.execute("INSERT INTO line VALUES (2)")
        assert count(second) == 0
        first.execute("COMMIT")
        assert count(second) == 1
        other = "import apsw, sys; apsw.Connection(sys.argv[1]).execute('INSERT INTO line VALUES (3)')"
        subprocess.run([sys.executable, "-c", other, str(path)], check=True)
        assert count(first) == count(second) == 2


def test_disks_are_separate_and_go_away(tmp_path: Path):
    with FaultyDisk() as one, FaultyDisk() as two:
        assert one.vfs != two.vfs and {one.vfs, two.vfs} <= set(apsw.vfs_names())
        left = connect(tmp_path / "m.db", one.vfs)
        with closing(connect(tmp_path / "n.db", two.vfs)) as right:
            left.execute("CREATE TABLE line (number)")
            right.execute("CREATE TABLE line (number)")
            one.fail(at=1, persistent=True)
            right.execute("INSERT INTO line VALUES (1)")
            with pytest.raises(apsw.IOError):
                left.execute("INSERT INTO line VALUES (1)")
    assert not {one.vfs, two.vfs} & set(apsw.vfs_names())
    with closing(left):  # a connection that outlives its disk finds it healed
        left.execute("INSERT INTO line VALUES (1)")
        assert count(left) == 1
