"""Child processes that repeat an operation and report how long it took.

Each child is a separate process, so that its memory can be measured alone. It reads lines with a verb and a count, and
answers each with the times and its resident memory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from types import TracebackType

import msgspec
from machine import resident_memory


class Answer(msgspec.Struct, frozen=True):
    """What a process says after a turn: nanoseconds of each operation, and its resident memory in MB."""

    times: list[int]
    rss: float


class Child:
    """A process that was started with a program of this folder and its arguments."""

    def __init__(self, program: str, *arguments: object) -> None:
        """Start it."""
        command = [sys.executable, program, *map(str, arguments)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, verb: str, count: int) -> Answer:
        """Let it do something so many times; return its answer."""
        return msgspec.json.decode(self.exchange(f"{verb} {count}"), type=Answer)

    def exchange(self, line: str) -> bytes:
        """Give it a line; return the line that it answers with."""
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process ended with {self._process.wait()} instead of answering `{line}`")
        return answer

    def __enter__(self) -> Child:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let it end."""
        self._process.communicate()


def answer_lines(verbs: Mapping[str, Callable[[int], list[int]]]) -> None:
    """Do what each line of the input asks for, and print what that took; a verb returns the times of each."""
    for line in sys.stdin:
        verb, count = line.split()
        times = verbs[verb](int(count))
        print(msgspec.json.encode(Answer(times, resident_memory())).decode(), flush=True)
