"""Functions in, what they gave out, as it comes: threads that nobody has to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

import msgspec


class Ended(msgspec.Struct, frozen=True):
    """How a function ended: what it gave, or what it raised."""

    number: int
    value: Any = None
    error: BaseException | None = None


Endings = SimpleQueue[Ended]


def start(act: Callable[[], Any], endings: Endings, *, number: int = 0) -> None:
    """Begin a function in a thread of its own, which puts how it ended into a queue."""
    context = copy_context()

    def run() -> None:
        try:
            ended = Ended(number, context.run(act))
        except BaseException as error:
            # Whoever waits raises it, in the thread that can handle it.
            ended = Ended(number, error=error)
        endings.put(ended)

    # Nothing has to wait for one that was cut off, not even the end of the program.
    threading.Thread(target=run, daemon=True, name="memoranda-workflow").start()


def within(seconds: float, act: Callable[[], Any]) -> Any:
    """Return what a function gives within some time; raise TimeoutError when it is over, and let the function be."""
    endings: Endings = SimpleQueue()
    start(act, endings)
    try:
        ended = endings.get(timeout=min(seconds, threading.TIMEOUT_MAX))
    except Empty:
        raise TimeoutError from None
    if ended.error is not None:
        raise ended.error
    return ended.value
