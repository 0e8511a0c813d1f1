"""Do the work of the server without a server: write blocks, recall entries, build prompts.

As a program, `server_engine.py FILE DURABILITY` is the process that does it; it answers lines of a verb and a count.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path

from children import Child, answer_lines
from corpus import COLLECTION, LIMIT
from measuring import Operation, run_in_threads, time_each
from server_ground import (
    AGENT,
    BLOCKS,
    FULL_USER,
    MESSAGE,
    POLICY,
    REMINDERS,
    USER,
    block_agent,
    block_text,
    full_core,
    questions,
)

import memoranda
from memoranda.chat.agent import Agent
from memoranda.chat.prompt import preview


def start(file: Path, *, durability: str) -> Child:
    """Return a process that has opened a database; ask it `put-8`, `recall` or `preview`, and how often."""
    return Child(__file__, file, durability)


WRITERS = (1, 8, 32)
"""Threads that write at the same time."""
_PAUSE = 0.0001
"""Seconds: about what a server waits for the next request of one connection."""


def _verbs(memory: memoranda.Memory) -> dict[str, Callable[[int], list[int]]]:
    asked = itertools.cycle(questions())
    scope = memory.scope(user=USER)
    agent = Agent(id=AGENT, instructions="You keep the log of a lighthouse, and answer those who ask about it.")

    def recall(turn: int) -> None:
        scope.recall(next(asked), collection=COLLECTION, limit=LIMIT)

    def look(turn: int) -> None:
        prompt = preview(memory, agent, MESSAGE, user=FULL_USER, memory_policy=POLICY)
        if prompt.reminders.count("<memory ") != REMINDERS or prompt.system.count(full_core()) != 2:
            raise RuntimeError(f"the prompt does not have full core memory and {REMINDERS} reminders")

    return {
        "recall": lambda count: _each_after_a_pause(recall, count),
        "preview": lambda count: _each_after_a_pause(look, count),
        **{f"put-{threads}": _writing(memory, threads) for threads in WRITERS},
    }


def _each_after_a_pause(operation: Operation, count: int) -> list[int]:
    """Return the nanoseconds of each, begun after a pause as a server begins after it has waited for a request.

    Who computes without a pause is put behind all others by a busy system, and would seem slower than the server.
    """
    taken: list[int] = []
    for turn in range(count):
        time.sleep(_PAUSE)
        taken += time_each(operation, range(turn, turn + 1))
    return taken


def _writing(memory: memoranda.Memory, threads: int) -> Callable[[int], list[int]]:
    """Return what lets so many threads replace blocks, each its own; it gives the nanoseconds of all together."""
    writers = [memory.scope(user=USER, agent=block_agent(number)).blocks for number in range(BLOCKS)]
    texts = [block_text(turn) for turn in range(64)]

    def write(count: int) -> list[int]:
        stamps = [blocks.get("core").updated_at for blocks in writers[:threads]]

        def replace(turn: int) -> None:
            number = turn % threads
            block = writers[number].update(
                "core", texts[turn // threads % len(texts)], expected_updated_at=stamps[number]
            )
            stamps[number] = block.updated_at

        seconds = run_in_threads(replace, threads=threads, turns=range(count))
        return [round(seconds * 1e9)]

    return write


if __name__ == "__main__":
    with memoranda.open(sys.argv[1], durability=sys.argv[2]) as opened:
        answer_lines(_verbs(opened))
