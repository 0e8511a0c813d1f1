"""Let several writers increment counters at once, and count the increments that were kept.

Each writer reads the counter, pauses, and writes it back one higher. As a program, `races.py ADDRESS COUNT` is one
of several processes that do so to the same Memoranda database.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from measuring import run_in_threads
from report import Line

import memoranda

THREADS = 8
PER_THREAD = 25
PROCESSES = 4
PER_PROCESS = 50
TOTAL = THREADS * PER_THREAD

_PAUSE = 0.0015
_NAMESPACE = ("users", "ada")
_KEY = "counter"


def race_ours_in_threads(address: str) -> int:
    """Return how many of the raises eight threads kept through `scope.update`."""
    with memoranda.open(address) as memory:
        scope = memory.scope(user="threads")
        scope.set(_KEY, 0)
        run_in_threads(lambda turn: scope.update(_KEY, raise_slowly), threads=THREADS, turns=range(TOTAL))
        return scope.value(_KEY)


def race_ours_in_processes(address: str) -> int:
    """Return how many of the raises four processes kept through `scope.update`."""
    with memoranda.open(address) as memory:
        memory.scope(user="ada").set(_KEY, 0)
    command = [sys.executable, __file__, address, str(PER_PROCESS)]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(PROCESSES)]
    time.sleep(1)  # all have imported what they need and wait for their input to end
    for child in children:
        child.stdin.close()
    for child in children:
        if child.wait():
            raise RuntimeError(f"a racing process failed with code {child.returncode}; see above")
    with memoranda.open(address) as memory:
        return memory.scope(user="ada").value(_KEY)


def race_peer(store: Any) -> int:
    """Return how many of the raises eight threads kept through a LangGraph store's get and put."""
    store.put(_NAMESPACE, _KEY, {"count": 0}, index=False)

    def raise_once(turn: int) -> None:
        count = raise_slowly(store.get(_NAMESPACE, _KEY).value["count"])
        store.put(_NAMESPACE, _KEY, {"count": count}, index=False)

    run_in_threads(raise_once, threads=THREADS, turns=range(TOTAL))
    return store.get(_NAMESPACE, _KEY).value["count"]


def kept_line(what: str, kept: int, peers: str) -> Line:
    """Return the line of a race in which none of the raises may be lost."""
    return Line(what, f"{kept} of {TOTAL}", peers, str(kept), kept, TOTAL, "at least", "all 200")


def raise_slowly(count: int) -> int:
    """Return one more, after a pause in which others get in between."""
    time.sleep(_PAUSE)
    return count + 1


def _run_process(address: str, count: int, wait: Callable[[], object]) -> None:
    with memoranda.open(address, busy_timeout=60) as memory:
        scope = memory.scope(user="ada")
        wait()
        for _ in range(count):
            scope.update(_KEY, raise_slowly)


if __name__ == "__main__":
    _run_process(sys.argv[1], int(sys.argv[2]), sys.stdin.read)
