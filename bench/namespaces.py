"""Measure recalls, and the memory they use, in a database of many namespaces.

As a program, `namespaces.py FILE NAMESPACES INDEX_BYTES` opens the database and answers as many recalls as each line
of its input asks for: `first` goes to namespaces that it has not been in, `again` to those it has.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from children import Answer, Child, answer_lines
from corpus import COLLECTION, LIMIT, make_note
from measuring import Times, time_each
from report import show_progress

import memoranda

PER_NAMESPACE = 1_000
BOUND = 64 << 20
"""The bytes that the third process lets its indexes take."""
SLACK = 96
"""MB that a process may grow beside its indexes: caches of SQLite, the embedder's pages, what a recall works with."""
TURN = 25
ROUNDS = 16


@dataclass(frozen=True)
class Used:
    """What one process took: the first recalls of namespaces, later ones, and its memory in MB."""

    first: Times
    times: Times
    touched: int
    rss_opened: float
    rss: float


@dataclass(frozen=True)
class Usage:
    """The three processes, and the seconds that filling the large database took."""

    many: Used
    one: Used
    bounded: Used
    seconds: float


def use(folder: Path, count: int) -> Usage:
    """Fill a database of many namespaces and one of one; recall in both in turns, then in the first with less room."""
    large, small = folder / "many.db", folder / "one.db"
    start = time.perf_counter()
    _build(large, count)
    seconds = time.perf_counter() - start
    _build(small, 1)
    generous = memoranda.Limits().index_bytes
    touched = min(count, TURN * ROUNDS // 2)
    with ExitStack() as stack:
        many = stack.enter_context(Child(__file__, large, count, generous))
        one = stack.enter_context(Child(__file__, small, 1, generous))
        in_many, in_one = _use_in_turns([many, one], [touched, 1])
    with Child(__file__, large, count, BOUND) as bounded:
        (in_bounded,) = _use_in_turns([bounded], [touched])
    return Usage(in_many, in_one, in_bounded, seconds)


def _build(path: Path, count: int) -> None:
    """Write the namespaces through the public API, one call for each, at full durability."""
    with memoranda.open(path) as memory, show_progress(f"writing {count:,} namespaces", count) as advance:
        scope = memory.scope(user="mara")
        for number in range(count):
            notes = [make_note(number * PER_NAMESPACE + one) for one in range(PER_NAMESPACE)]
            items = [{"content": note.text, "metadata": note.metadata} for note in notes]
            scope.remember_many(items, collection=COLLECTION, namespace=_name(number))
            advance(1)


def _use_in_turns(children: list[Child], touched: list[int]) -> list[Used]:
    opened = [child.ask("again", 0).rss for child in children]
    first = [child.ask("first", count).times for child, count in zip(children, touched, strict=True)]
    answers: list[list[Answer]] = [[] for _ in children]
    for number in range(ROUNDS):
        # Each turn begins with another one, so that none is always the first after a pause.
        for place in sorted(range(len(children)), reverse=number % 2 == 1):
            answers[place].append(children[place].ask("again", TURN))
    return [
        Used(
            Times(tuple(first[place]), len(first[place])),
            Times(tuple(taken for answer in answers[place] for taken in answer.times), TURN),
            touched[place],
            opened[place],
            answers[place][-1].rss,
        )
        for place in range(len(children))
    ]


def recall_when_asked(path: str, count: int, index_bytes: int) -> None:
    """Recall in random namespaces, as the lines of the input ask for."""
    source = random.Random(count)
    unseen = source.sample(range(count), count)
    seen: list[int] = []
    with memoranda.open(path, limits=memoranda.Limits(index_bytes=index_bytes)) as memory:
        scope = memory.scope(user="mara")
        # Before anything is timed the embedder is loaded, in a namespace that is not there.
        scope.recall("hello", collection=COLLECTION, namespace="nowhere")

        def recall_in(places: list[int]) -> list[int]:
            asked = [make_note(place * PER_NAMESPACE + source.randrange(PER_NAMESPACE)).question for place in places]

            def once(turn: int) -> None:
                found = scope.recall(asked[turn], collection=COLLECTION, namespace=_name(places[turn]), limit=LIMIT)
                if not found.results:
                    raise RuntimeError(f"nothing was found in {_name(places[turn])}")

            return time_each(once, range(len(places)))

        def recall_first(count: int) -> list[int]:
            places = [unseen.pop() for _ in range(count)]
            seen.extend(places)
            return recall_in(places)

        answer_lines({"first": recall_first, "again": lambda count: recall_in(source.choices(seen or [0], k=count))})


def _name(number: int) -> str:
    return f"project-{number:06}"


if __name__ == "__main__":
    recall_when_asked(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
