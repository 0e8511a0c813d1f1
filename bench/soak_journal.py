"""The journal of a process: what it asked for and was answered, also if it is killed.

A line is written before a call is made, and one is synced after its answer came. A call without an answer may have
happened or not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

Outcome = Literal["answered", "refused", "unsent", "doubtful"]
"""Refused by the server; certainly never sent to it; or unknown, because the answer was lost."""


class _Line(msgspec.Struct, omit_defaults=True):
    n: int
    at: float
    op: str = ""
    what: dict[str, Any] = {}
    outcome: Outcome | Literal[""] = ""
    took: float = 0.0
    got: dict[str, Any] = {}


class Deed(msgspec.Struct):
    """One thing that a process asked for, and what came of it."""

    by: str
    n: int
    at: float
    """Seconds by the clock that all processes of a machine share, when it was asked for."""
    op: str
    what: dict[str, Any]
    outcome: Outcome = "doubtful"
    took: float = 0.0
    """Seconds until the answer, all repetitions and pauses between them included."""
    got: dict[str, Any] = {}


class Journal:
    """The deeds of one process, in a file that it alone writes; what an earlier life of it wrote stays."""

    def __init__(self, file: Path) -> None:
        """Go on where the file ends; a line that a kill cut short is ended first."""
        earlier = read_deeds(file) if file.exists() else []
        self.next = max((deed.n for deed in earlier), default=-1) + 1
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        if earlier and not file.read_bytes().endswith(b"\n"):
            os.write(self._file, b"\n")
        self._asked: dict[int, float] = {}

    def ask(self, op: str, **what: Any) -> int:
        """Say what will be asked for; return its number."""
        n, self.next = self.next, self.next + 1
        self._write(_Line(n, time.perf_counter(), op, what))
        self._asked[n] = time.perf_counter()
        return n

    def say(self, n: int, outcome: Outcome, **got: Any) -> None:
        """Say what came of it; it is on the disk when this returns."""
        took = time.perf_counter() - self._asked.pop(n)
        self._write(_Line(n, time.perf_counter(), outcome=outcome, took=took, got=got))
        os.fdatasync(self._file)

    def _write(self, line: _Line) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")


def read_deeds(file: Path) -> list[Deed]:
    """Return the deeds of one process, in the order it asked for them."""
    deeds: dict[int, Deed] = {}
    for line in _lines(file.read_bytes().split(b"\n")):
        if line.op:
            deeds[line.n] = Deed(file.stem, line.n, line.at, line.op, line.what)
        elif line.outcome:
            deed = deeds[line.n]
            deed.outcome, deed.took, deed.got = line.outcome, line.took, line.got
    return list(deeds.values())


def _lines(texts: Iterable[bytes]) -> Iterable[_Line]:
    for text in texts:
        try:
            yield msgspec.json.decode(text, type=_Line)
        except msgspec.DecodeError:
            continue  # cut short by a kill
