"""Run a worker's tasks one after another, with pauses, until it is told to stop; and how a call is repeated."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from soak_ground import WORKERS, Ground, Worker
from soak_journal import Journal

from memoranda.errors import Busy, MemorandaError, Unavailable

T = TypeVar("T")
Task = Callable[[], None]

_PATIENCE = 150.0
"""Seconds in which what may be repeated has to be answered: a server that was killed is long back by then."""
_PAUSE = 0.3


class Start(msgspec.Struct):
    """What a worker is told on its command line, as JSON."""

    ground: Ground
    worker: str
    address: str
    pause: float
    """Seconds between two tasks, on average."""


def read_start() -> tuple[Start, Worker, Journal]:
    """Return what this process was told, who it is, and its journal."""
    start = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Start, dec_hook=lambda kind, text: kind(text))
    worker = next(one for one in WORKERS if one.name == start.worker)
    return start, worker, Journal(start.ground.journal(worker.name))


def work(start: Start, journal: Journal, tasks: Mapping[Task, int]) -> None:
    """Do the tasks, each as often as its share of the whole says, until the stop file is there."""
    choose = random.Random(f"{start.worker}-{journal.next}")
    while not start.ground.stop.exists():
        [task] = choose.choices(list(tasks), list(tasks.values()))
        try:
            task()
        except MemorandaError as error:
            # Whatever a task does not expect is a finding.
            fault = journal.ask("fault", task=task.__name__)
            journal.say(fault, "refused", code=error.code, message=str(error))
        if not start.ground.hurry.exists():
            time.sleep(choose.expovariate(1 / start.pause))


def until_answered(call: Callable[[], T], *passing: type[MemorandaError]) -> T:
    """Make a call that may be repeated until it is answered, and return the answer; `passing` is waited out too."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return call()
        except (Unavailable, Busy, *passing):
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE)


def may_have_happened(error: MemorandaError) -> bool:
    """Say whether a call that failed so may have been carried out."""
    return isinstance(error, Unavailable) and bool(error.details.get("sent", True))


def meet(ground: Ground, every: float = 2.0) -> None:
    """Wait for the next of the moments at which all processes come together; in a hurry none waits.

    They come every so many seconds, by the clock that the processes of a machine share.
    """
    if not ground.hurry.exists():
        time.sleep(every - time.perf_counter() % every)
