"""Many writers of one block: threads with one stamp, and processes that read, change and write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import memoranda

THREADS = 64
PROCESSES = 4
WRITES = 15

# Adds lines of its own to a block that others change too, and says how often it came too late.
WRITER = """
import sys, memoranda
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
conflicts = 0
with memoranda.open(path, busy_timeout=60) as memory:
    blocks = memory.scope(user="ada").blocks
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        while True:
            current = blocks.get("archival")
            text, stamp = f"{current.content}\\n{name}.{number}", current.updated_at.isoformat()
            try:
                blocks.update("archival", text, expected_updated_at=stamp)
                break
            except memoranda.Conflict:
                conflicts += 1
print(conflicts, flush=True)
"""


def test_of_many_threads_with_one_stamp_exactly_one_wins(tmp_path: Path) -> None:
    with memoranda.open(tmp_path / "memory.db", busy_timeout=60) as memory:
        blocks = memory.scope(user="ada").blocks
        first = blocks.update("core", "first", expected_updated_at=None)
        start = Barrier(THREADS)

        def write(number: int) -> memoranda.Block | None:
            start.wait()
            try:
                return blocks.update("core", f"from {number}", expected_updated_at=first.updated_at)
            except memoranda.Conflict as conflict:
                assert conflict.current_updated_at > first.updated_at
                return None

        with ThreadPoolExecutor(THREADS) as threads:
            written = [block for block in threads.map(write, range(THREADS)) if block is not None]
        assert written == [blocks.get("core")]
        assert len(blocks.history("core")) == 2


def test_processes_that_read_change_and_write_lose_no_line(tmp_path: Path, run_child: Any) -> None:
    path = str(tmp_path / "memory.db")
    with memoranda.open(path, busy_timeout=60) as memory:
        blocks = memory.scope(user="ada").blocks
        blocks.update("archival", "begin", expected_updated_at=None)
        writers = [run_child(WRITER, path, f"p{number}", WRITES) for number in range(PROCESSES)]
        told = writers[0].run_together(writers)
        assert all(int(conflicts) >= 0 for [conflicts] in told)
        text = blocks.get("archival")
        assert text is not None
        lines = text.content.split("\n")
        assert lines[0] == "begin"
        assert sorted(lines[1:]) == sorted(f"p{name}.{number}" for name in range(PROCESSES) for number in range(WRITES))
        stamps = [one.at for one in blocks.history("archival")]
        assert stamps == sorted(set(stamps))
        assert len(stamps) == 1 + PROCESSES * WRITES
        assert [match.line_number for match in blocks.recall("begin")] == [1]
        assert all(finding.ok for finding in memory.inspect())
