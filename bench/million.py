"""Measure gets, sets and memory in a database of many facts.

As a program, `million.py FILE FACTS` opens the database, does as many random gets and sets as each line of its
input asks for, and answers with their times. It is a separate process, so that its memory can be measured alone.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from children import Answer, Child, answer_lines
from measuring import time_each
from report import show_progress

import memoranda

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


def build(path: Path, facts: int) -> None:
    """Write this many facts of one tenant through the public API, a thousand to a batch, at full durability."""
    with memoranda.open(str(path)) as memory, show_progress(f"writing {facts:,} facts", facts) as advance:
        for start in range(0, facts, CHUNK):
            with memory.batch() as batch:
                for number in range(start, min(start + CHUNK, facts)):
                    user, key = place_of(number)
                    batch.set(memory.scope(user=user), key, value_of(number))
            advance(min(CHUNK, facts - start))


def place_of(number: int) -> tuple[str, str]:
    """Return the user and the key of a fact."""
    user, trait = divmod(number, PER_USER)
    return f"user-{user:06}", f"profile.trait_{trait:03}"


def value_of(number: int) -> dict[str, Any]:
    """Return a value of about 100 bytes of JSON."""
    return {"language": "en", "plan": "pro", "note": "prefers short answers over long ones", "number": number}


def use_in_turns(sizes: dict[int, Path], *, gets: int, sets: int) -> dict[int, Usage]:
    """Use databases in a process each, the processes taking short turns; return what each of them took."""
    answers: dict[int, dict[str, list[Answer]]] = {facts: {"get": [], "set": []} for facts in sizes}
    with ExitStack() as stack:
        children = {facts: stack.enter_context(Child(__file__, path, facts)) for facts, path in sizes.items()}
        opened = {facts: child.ask("get", 0).rss for facts, child in children.items()}
        for verb, count, turn in (("get", gets, GETS_IN_A_TURN), ("set", sets, SETS_IN_A_TURN)):
            for number in range(count // turn):
                # Each turn begins with another one, so that none is always the first after a pause.
                for facts in sorted(children, reverse=number % 2 == 1):
                    answers[facts][verb].append(children[facts].ask(verb, turn))
    return {
        facts: Usage(
            gets=[time for answer in answers[facts]["get"] for time in answer.times],
            sets=[time for answer in answers[facts]["set"] for time in answer.times],
            rss_opened=opened[facts],
            rss_used=answers[facts]["set"][-1].rss,
        )
        for facts in sizes
    }


def use_when_asked(path: str, facts: int) -> None:
    """Get and set random facts that are there, as the lines of the input ask for."""
    source = random.Random(facts)
    with memoranda.open(path) as memory:

        def use(verb: Callable[..., None], count: int) -> list[int]:
            places = [place_of(source.randrange(facts)) for _ in range(count)]
            return _time_on([(memory.scope(user=user), key) for user, key in places], verb)

        answer_lines({"get": partial(use, get_one), "set": partial(use, set_one)})


def get_one(scope: memoranda.ScopedMemory, key: str) -> None:
    """Read a fact that has to be there."""
    if scope.get(key) is None:
        raise RuntimeError(f"the fact {key} of {scope} is not there")


def set_one(scope: memoranda.ScopedMemory, key: str) -> None:
    """Change a fact."""
    scope.set(key, value_of(0))


def _time_on(places: list[tuple[memoranda.ScopedMemory, str]], verb: Callable[..., None]) -> list[int]:
    return time_each(lambda turn: verb(*places[turn]), range(len(places)))


if __name__ == "__main__":
    use_when_asked(sys.argv[1], int(sys.argv[2]))
