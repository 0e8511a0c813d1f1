"""Tests start processes in one way only, which leaves nothing behind."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import run_process

TESTS = Path(__file__).parents[1]
STARTERS = {"Popen": "processes.py", "Fork": "warm_memoranda.py"}
"""What starts a process, and the one file that may call it."""


def test_a_process_is_over_and_its_pipes_are_closed_when_its_block_fails() -> None:
    command = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"]
    pipe = subprocess.PIPE
    with (
        pytest.raises(KeyError, match="of the block"),
        run_process(command, stdin=pipe, stdout=pipe, stderr=pipe) as process,
    ):
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "begun\n"
        process.stdin.write("what nobody reads")
        pipes = (process.stdin, process.stdout, process.stderr)
        raise KeyError("of the block")
    assert process.returncode == -signal.SIGKILL
    assert [one.closed for one in pipes] == [True, True, True]


def test_a_process_that_has_ended_is_left_alone() -> None:
    with run_process([sys.executable, "-c", "print('ü')"], stdout=subprocess.PIPE) as process:
        assert process.communicate() == ("ü\n", None)
    assert process.returncode == 0


def starts(source: str) -> list[tuple[str, int]]:
    """Return the calls that start a process directly: the name, and the line."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = [(getattr(call.func, "attr", getattr(call.func, "id", "")), call.lineno) for call in calls]
    return [(name, line) for name, line in named if name in STARTERS]


def test_no_test_starts_a_process_by_itself() -> None:
    assert starts("import subprocess as s\ns.Popen([])\nFork()") == [("Popen", 2), ("Fork", 3)]
    bare = [
        f"{path.relative_to(TESTS)}:{line}: {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name, line in starts(path.read_text(encoding="utf-8"))
        if path != TESTS / "support" / STARTERS[name]
    ]
    assert bare == [], "`with run_process(…)` or `with run_fork(…)` starts it, and closes its pipes"
