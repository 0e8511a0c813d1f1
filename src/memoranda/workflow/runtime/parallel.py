"""Branches in, what they changed put together out: steps at the same time, each on a strand of its own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from queue import SimpleQueue

from memoranda.workflow.runtime.strand import Strand
from memoranda.workflow.runtime.threads import Ended, Endings, start

Branch = Callable[[Strand], object]


def run_all(strand: Strand, branches: Sequence[Branch], *, at_once: int) -> None:
    """Run all branches and take over what they changed, in their order; the first that fails stops the others."""
    for branch in list(run_in_order(strand, branches, at_once=at_once)):
        strand.join(branch)


def run_any(strand: Strand, branches: Sequence[Branch], *, at_once: int) -> None:
    """Run branches until one has succeeded, and take over what that one changed.

    One that fails before fails all of them.
    """
    strands = [strand.fork() for _ in branches]
    for ended in _endings(strands, branches, at_once):
        if ended.error is not None:
            raise ended.error
        strand.join(strands[ended.number])
        return


def run_in_order(strand: Strand, branches: Sequence[Branch], *, at_once: int) -> Generator[Strand]:
    """Run all branches and yield their strands in their order, each as soon as those before it are done.

    The first that fails stops the others, and so does whoever stops looking.
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
    """Yield how branches end, as they do; whoever stops looking stops those that still run."""
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
