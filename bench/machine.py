"""Describe the machine that the figures were measured on."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw
from measuring import Times, time_each

HOLLOW = ("tmpfs", "ramfs")
"""File systems whose fsync does nothing."""

QUICKEST_SYNC = 20.0
"""Microseconds. No disk syncs more quickly; what does only says that it has."""


def describe(peers: Sequence[str]) -> dict[str, str]:
    """Return the machine and the versions, ours and those of the peers' distributions, ready to be printed."""
    about = {
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
        "machine": f"{_cpu()}, {len(os.sched_getaffinity(0))} cores, {_memory_gb():.0f} GB of memory",
        "system": platform.platform(),
        "Python": platform.python_version(),
        "Memoranda": f"{version('memoranda')}, apsw {version('apsw')}, SQLite {apsw.sqlite_lib_version()}",
    }
    if peers:
        installed = [f"{name} {_version(name)}" for name in peers]
        about["peers"] = ", ".join([*installed, f"SQLite {sqlite3.sqlite_version} (Python's)"])
    return about


def load() -> str:
    """Return the load averages over 1, 5 and 15 minutes."""
    return " ".join(f"{one:.2f}" for one in os.getloadavg())


def busy() -> bool:
    """Say whether more processes want to run than there are cores, before any of ours does."""
    return os.getloadavg()[0] > len(os.sched_getaffinity(0))


def file_system(folder: Path) -> str:
    """Return the type of the file system that a folder is on."""
    place = folder.resolve()
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, type_, *_ = line.split()
        if place.is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, type_
    return kind


def time_syncs(folder: Path, *, count: int) -> Times:
    """Write a page over an old one and sync it, as a commit to a warm log does; return the times."""
    pages = 256
    file = os.open(folder / "sync", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(file, bytes(4096 * pages), 0)
        os.fsync(file)

        def sync(turn: int) -> None:
            os.pwrite(file, b"r" * 4096, 4096 * (turn % pages))
            os.fdatasync(file)

        return Times(tuple(time_each(sync, range(count))), count)
    finally:
        os.close(file)


def time_loops(*, count: int) -> Times:
    """Run a loop of plain Python again and again; return the times: two runs can be compared by them."""

    def loop(turn: int) -> int:
        total = turn
        for number in range(10_000):
            total += number * number
        return total

    return Times(tuple(time_each(loop, range(count))), count)


def resident_memory(process: int | str = "self") -> float:
    """Return the resident memory of a process in MB, as the kernel has it."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"the kernel does not say how much memory the process {process} has")


def cpu_time(process: int) -> float:
    """Return the seconds that a process has computed so far, in all its threads."""
    numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
