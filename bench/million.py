"""A number of facts in, the times of gets and sets and the memory of a process that uses them out.

As a program, `million.py FILE FACTS` opens the database, does as many random gets and sets as each line of its
input asks for, and answers with what they took: a process of its own, so that its memory is nobody else's.
"""

from __future__ import annotations

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
GETS_IN_A_TURN = 200
SETS_IN_A_TURN = 40


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What one process took: nanoseconds of each get and set, and its resident memory in MB."""

    gets: list[int]
    sets: list[int]
    rss_opened: float
    rss_used: float


class Answer(msgspec.Struct, frozen=True):
    """What a process says after a turn: nanoseconds of each operation, and its resident memory in MB."""

    times: list[int]
    rss: float


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


def use_in_turns(sizes: dict[int, Path], *, gets: int, sets: int) -> dict[int, Usage]:
    """Use databases in a process each, the processes taking short turns; return what each of them took."""
    children = {facts: _start(path, facts) for facts, path in sizes.items()}
    opened = {facts: _ask(child, "get", 0).rss for facts, child in children.items()}
    answers: dict[int, dict[str, list[Answer]]] = {facts: {"get": [], "set": []} for facts in sizes}
    for verb, count, turn in (("get", gets, GETS_IN_A_TURN), ("set", sets, SETS_IN_A_TURN)):
        for number in range(count // turn):
            # Each turn begins with another one, so that none is always the first after a pause.
            for facts in sorted(children, reverse=number % 2 == 1):
                answers[facts][verb].append(_ask(children[facts], verb, turn))
    for child in children.values():
        child.communicate()
    return {
        facts: Usage(
            gets=[time for answer in answers[facts]["get"] for time in answer.times],
            sets=[time for answer in answers[facts]["set"] for time in answer.times],
            rss_opened=opened[facts],
            rss_used=answers[facts]["set"][-1].rss,
        )
        for facts in sizes
    }


def _start(path: Path, facts: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, str(path), str(facts)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _ask(child: subprocess.Popen[bytes], verb: str, count: int) -> Answer:
    """Let a process do something so many times; return its answer."""
    child.stdin.write(f"{verb} {count}\n".encode())
    child.stdin.flush()
    return msgspec.json.decode(child.stdout.readline(), type=Answer)


def answer_lines(path: str, facts: int) -> None:
    """Do what each line of the input asks for, on random facts that are there; print what that took."""
    source = random.Random(facts)
    with recollect.open(path) as memory:
        for line in sys.stdin:
            verb, count = line.split()
            places = [place_of(source.randrange(facts)) for _ in range(int(count))]
            taken = _time_on([(memory.scope(user=user), key) for user, key in places], VERBS[verb])
            print(msgspec.json.encode(Answer(taken, resident_memory())).decode(), flush=True)


def get_one(scope: recollect.ScopedMemory, key: str) -> None:
    """Read a fact that has to be there."""
    if scope.get(key) is None:
        raise RuntimeError(f"the fact {key} of {scope} is not there")


def set_one(scope: recollect.ScopedMemory, key: str) -> None:
    """Change a fact."""
    scope.set(key, value_of(0))


VERBS: dict[str, Callable[[recollect.ScopedMemory, str], None]] = {
    "get": get_one,
    "set": set_one,
}


def _time_on(places: list[tuple[recollect.ScopedMemory, str]], verb: Callable[..., None]) -> list[int]:
    return time_each(lambda turn: verb(*places[turn]), range(len(places)))


def resident_memory() -> float:
    """Return the resident memory of this process in MB, as the kernel has it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel does not say how much memory this process has")


if __name__ == "__main__":
    answer_lines(sys.argv[1], int(sys.argv[2]))
