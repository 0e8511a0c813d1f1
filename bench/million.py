"""A number of facts in, the times of gets and sets and the memory of a process that uses them out.

As a program, `million.py FILE FACTS GETS SETS` opens the database, does that many random gets and sets, and
prints what it took as JSON: a process of its own, so that its memory is nobody else's.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from measuring import time_each
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import recollect

PER_USER = 100
CHUNK = 1_000

Pick = Callable[[int], list[tuple[recollect.ScopedMemory, str]]]


class Usage(msgspec.Struct, frozen=True):
    """What one process took: nanoseconds of each get and set, and its resident memory in MB."""

    gets: list[int]
    sets: list[int]
    rss_opened: float
    rss_used: float


def build(path: Path, facts: int) -> None:
    """Write this many facts of one tenant through the public API, a thousand to a batch, at full durability."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with recollect.open(str(path)) as memory, Progress(*columns, transient=True) as progress:
        task = progress.add_task(f"writing {facts:,} facts", total=facts)
        for start in range(0, facts, CHUNK):
            with memory.batch() as batch:
                for number in range(start, min(start + CHUNK, facts)):
                    user, key = place_of(number)
                    batch.set(memory.scope(user=user), key, value_of(number))
            progress.advance(task, min(CHUNK, facts - start))


def place_of(number: int) -> tuple[str, str]:
    """Return the user and the key of a fact."""
    user, trait = divmod(number, PER_USER)
    return f"user-{user:06}", f"profile.trait_{trait:03}"


def value_of(number: int) -> dict[str, Any]:
    """Return a value of about 100 bytes of JSON."""
    return {"language": "en", "plan": "pro", "note": "prefers short answers over long ones", "number": number}


def use_in_process(path: Path, facts: int, *, gets: int, sets: int) -> Usage:
    """Use a database in a new process; return what that took."""
    command = [sys.executable, __file__, str(path), str(facts), str(gets), str(sets)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Usage)


def use(path: str, facts: int, gets: int, sets: int) -> Usage:
    """Do random gets and sets of facts that are there; return what that took."""
    source = random.Random(facts)
    with recollect.open(path) as memory:
        opened = resident_memory()

        def pick(count: int) -> list[tuple[recollect.ScopedMemory, str]]:
            places = (place_of(source.randrange(facts)) for _ in range(count))
            return [(memory.scope(user=user), key) for user, key in places]

        taken_by_gets = _time_on(pick, get_one, gets)
        taken_by_sets = _time_on(pick, set_one, sets)
        return Usage(taken_by_gets, taken_by_sets, opened, resident_memory())


def get_one(scope: recollect.ScopedMemory, key: str) -> None:
    """Read a fact that has to be there."""
    if scope.get(key) is None:
        raise RuntimeError(f"the fact {key} of {scope} is not there")


def set_one(scope: recollect.ScopedMemory, key: str) -> None:
    """Change a fact."""
    scope.set(key, value_of(0))


def _time_on(pick: Pick, operation: Callable[..., None], count: int) -> list[int]:
    """Time an operation on places that are picked outside of the timing, a hundred ahead."""
    taken: list[int] = []
    while len(taken) < count:
        places = pick(100)
        taken += time_each(lambda turn, places=places: operation(*places[turn]), range(len(places)))
    return taken


def resident_memory() -> float:
    """Return the resident memory of this process in MB, as the kernel has it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel does not say how much memory this process has")


if __name__ == "__main__":
    path, *counts = sys.argv[1:]
    usage = use(path, *(int(count) for count in counts))
    json.dump(msgspec.to_builtins(usage), sys.stdout)
