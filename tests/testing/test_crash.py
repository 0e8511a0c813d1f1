"""Children are killed in the middle of their work, and what they acknowledged is told exactly."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from memoranda.testing import Round, kill_rounds

COUNT = """
import sys, time
for number in range(int(sys.argv[1])):
    print(sys.argv[2], number, flush=True)
    time.sleep(0.001)
"""

INSERT = """
import apsw, itertools, sys
connection = apsw.Connection(sys.argv[1])
connection.pragma("journal_mode", "wal")
connection.pragma("synchronous", sys.argv[2])
connection.execute("CREATE TABLE IF NOT EXISTS line (round INTEGER, number INTEGER)")
if sys.argv[3] == "early":
    connection.execute("BEGIN")
for number in itertools.count():
    connection.execute("INSERT INTO line VALUES (?, ?)", (int(sys.argv[4]), number))
    print(sys.argv[4], number, flush=True)
"""


def test_children_are_killed_after_they_acknowledged():
    rounds = kill_rounds(COUNT, "1000000", rounds=3, acknowledgements=(5, 20), seed=1)
    assert [each.number for each in rounds] == [0, 1, 2]
    for each in rounds:
        assert each.killed
        assert 5 <= len(each.acknowledged) < 10_000
        assert each.acknowledged == tuple(f"{each.number} {i}" for i in range(len(each.acknowledged)))


def test_a_child_that_comes_to_its_end_was_not_killed():
    (only,) = kill_rounds(COUNT, "3", rounds=1, acknowledgements=(50, 50))
    assert only == Round(number=0, acknowledged=("0 0", "0 1", "0 2"), killed=False)


def test_a_line_cut_short_is_no_acknowledgement():
    script = "import time; print('whole', flush=True); print('cut', end='', flush=True); time.sleep(60)"
    (only,) = kill_rounds(script, rounds=1, acknowledgements=(1, 1), linger=0.2, seed=2)
    assert only.acknowledged == ("whole",) and only.killed


def test_a_child_that_fails_by_itself_is_reported():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        kill_rounds("1 / 0", rounds=1)


def test_a_child_that_hangs_is_given_up():
    begin = time.perf_counter()
    with pytest.raises(TimeoutError, match="after 0 lines"):
        kill_rounds("import time; time.sleep(60)", rounds=1, timeout=0.5)
    assert time.perf_counter() - begin < 20


def test_what_the_child_started_dies_with_it():
    script = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""
    (only,) = kill_rounds(script, rounds=1, acknowledgements=(1, 1))
    deadline = time.perf_counter() + 10
    while alive(only.acknowledged[0]):
        assert time.perf_counter() < deadline, "the grandchild is still alive"
        time.sleep(0.01)
    assert alive(str(os.getpid()))


def alive(process: str) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_the_child_gets_the_variables_it_was_given():
    (only,) = kill_rounds("import os; print(os.environ['COLOUR'])", rounds=1, environment={"COLOUR": "green"})
    assert only.acknowledged == ("green",) and "COLOUR" not in os.environ


def lost(path: Path, rounds: list[Round]) -> set[str]:
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.pragma("integrity_check") == "ok"
        found = {f"{number} {line}" for number, line in connection.execute("SELECT round, number FROM line")}
    return {line for each in rounds for line in each.acknowledged} - found


@pytest.mark.slow
def test_sqlite_keeps_what_it_acknowledged(tmp_path: Path):
    path = tmp_path / "m.db"
    seen: list[Round] = []

    def check(each: Round) -> None:
        seen.append(each)
        assert not lost(path, seen)

    rounds = kill_rounds(INSERT, str(path), "full", "late", rounds=5, check=check)
    assert rounds == seen and all(each.killed and each.acknowledged for each in rounds)


def test_a_program_that_acknowledges_too_early_is_found_out(tmp_path: Path):
    path = tmp_path / "m.db"
    rounds = kill_rounds(INSERT, str(path), "full", "early", rounds=1)
    assert lost(path, rounds)
