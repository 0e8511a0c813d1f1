"""Record the memory and the open files of processes over time."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from machine import resident_memory


@dataclass
class Watched:
    """One process that lives as long as the run: seconds since its beginning, resident MB, open files."""

    pid: int
    looks: list[tuple[float, float, int]] = field(default_factory=list)

    def look(self, now: float) -> None:
        """Take one look."""
        self.looks.append((now, resident_memory(self.pid), open_files(self.pid)))

    def memory_after(self, start: float) -> Trend:
        """Return how its memory went from a moment on."""
        return trend([(at, memory) for at, memory, _ in self.looks if at >= start])

    def files_after(self, start: float) -> Trend:
        """Return how many files it had open from a moment on."""
        return trend([(at, float(files)) for at, _, files in self.looks if at >= start])


@dataclass(frozen=True)
class Trend:
    """The straight line that lies nearest to what was seen."""

    first: float
    """What the line says at its beginning."""
    growth: float
    """What the line says at its end, less that."""
    hourly: float


def trend(points: list[tuple[float, float]]) -> Trend:
    """Return the line through points of seconds and values; a flat one where there are too few."""
    if len(points) < 3:
        return Trend(points[-1][1] if points else 0.0, 0.0, 0.0)
    line = statistics.linear_regression(*zip(*points, strict=True))
    first, last = points[0][0], points[-1][0]
    return Trend(line.intercept + line.slope * first, line.slope * (last - first), line.slope * 3600)


def open_files(pid: int) -> int:
    """Return how many file descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def workers_of(pid: int) -> list[int]:
    """Return the processes that a server started to answer for it: not the one that keeps track of shared things."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


def is_running(pid: int) -> bool:
    """Say whether there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def memory_curves(watched: Mapping[str, Watched]) -> dict[str, list[tuple[float, float]]]:
    """Return minutes and resident MB of each process."""
    return {name: [(at / 60, memory) for at, memory, _ in one.looks] for name, one in watched.items()}
