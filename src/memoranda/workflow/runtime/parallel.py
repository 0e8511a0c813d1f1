"""Run branches at the same time, each on a strand of its own, in threads that need not be waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

import msgspec

from memoranda.workflow.runtime.state import Strand


class Ended(msgspec.Struct, frozen=True):
    """How a function ended: its result, or its exception."""

    number: int
    value: Any = None
    error: BaseException | None = None


Endings = SimpleQueue[Ended]


def start(act: Callable[[], Any], endings: Endings, *, number: int = 0) -> None:
    """Run a function in a new thread, which puts its outcome into a queue."""
    context = copy_context()

    def run() -> None:
        try:
            ended = Ended(number, context.run(act))
        except BaseException as error:
            # Raised again in the thread that waits.
            ended = Ended(number, error=error)
        endings.put(ended)

    # A daemon: not even the end of the process waits for a branch that was stopped.
    threading.Thread(target=run, daemon=True, name="memoranda-workflow").start()


def within(seconds: float, act: Callable[[], Any]) -> Any:
    """Return the result of a function within a timeout; after a TimeoutError the function keeps running."""
    endings: Endings = SimpleQueue()
    start(act, endings)
    try:
        ended = endings.get(timeout=min(seconds, threading.TIMEOUT_MAX))
    except Empty:
        raise TimeoutError from None
    if ended.error is not None:
        raise ended.error
    return ended.value


Branch = Callable[[Strand], object]


def run_all(strand: Strand, branches: Sequence[Branch], *, at_once: int) -> None:
    """Run all branches and merge their changes in order; the first failure stops the others."""
    for branch in list(run_in_order(strand, branches, at_once=at_once)):
        strand.join(branch)


def run_any(strand: Strand, branches: Sequence[Branch], *, at_once: int) -> None:
    """Run branches until one has succeeded, and merge its changes; an earlier failure fails all."""
    strands = [strand.fork() for _ in branches]
    for ended in _endings(strands, branches, at_once):
        if ended.error is not None:
            raise ended.error
        strand.join(strands[ended.number])
        return


def run_in_order(strand: Strand, branches: Sequence[Branch], *, at_once: int) -> Generator[Strand]:
    """Run all branches and yield their strands in order, each as soon as those before it are done.

    The first failure stops the others, and so does closing the generator.
    """
    strands = [strand.fork() for _ in branches]
    done: set[int] = set()
    due = 0
    for ended in _endings(strands, branches, at_once):
        if ended.error is not None:
            raise ended.error
        done.add(ended.number)
        while due in done:
            yield strands[due]
            due += 1


def _endings(strands: Sequence[Strand], branches: Sequence[Branch], at_once: int) -> Generator[Ended]:
    """Yield the outcomes of branches as they end; closing the generator stops those that still run."""
    endings: Endings = SimpleQueue()
    waiting = iter(range(len(branches)))

    def begin_next() -> bool:
        number = next(waiting, None)
        if number is not None:
            strand, branch = strands[number], branches[number]
            start(lambda: branch(strand), endings, number=number)
        return number is not None

    running = 0
    try:
        for _ in range(min(at_once, len(branches))):
            running += begin_next()
        while running:
            ended = endings.get()
            running -= 1
            yield ended
            running += begin_next()
    finally:
        for strand in strands:
            strand.stop.set()
