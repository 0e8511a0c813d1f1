"""A request to stop, seen by work that takes long.

A worker sets it for its own thread; elsewhere nothing ever asks to stop.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar

_ending: ContextVar[threading.Event | None] = ContextVar("_ending", default=None)


class Interrupted(Exception):
    """The worker of this thread was asked to stop: what is under way is given back, and counts as no attempt."""


def interrupt_on(event: threading.Event) -> None:
    """Let `check_interrupt` raise in this thread once an event is set."""
    _ending.set(event)


def check_interrupt() -> None:
    """Raise `Interrupted` if this thread was asked to stop. Call it between portions of a few milliseconds."""
    event = _ending.get()
    if event is not None and event.is_set():
        raise Interrupted
