"""Work in a thread in, its events out as they happen; the work goes on when nobody listens any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

import msgspec

from recollect.errors import RecollectError
from recollect.wire.chat import ChatEvent

EVENT_STREAM = "text/event-stream"
_QUIET = 15.0
"""Seconds without an event after which a comment is sent: proxies close what seems dead."""
_STILL_HERE = b": still here\n\n"

_log = logging.getLogger(__name__)
Result = TypeVar("Result")


def encode_event(event: ChatEvent) -> bytes:
    """Return an event as a `text/event-stream` has it; JSON has no line breaks, so the data is one line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), msgspec.json.encode(event))


class EventStream(Generic[Result]):
    """The events of some work, and what came of it. To be gone through once."""

    def __init__(self, first: bytes | None, told: asyncio.Queue[bytes | None], work: asyncio.Future[Result]) -> None:
        """Stand before the first event; `stream_of` makes these."""
        self._next = first
        self._told = told
        self._work = work

    async def result(self) -> Result:
        """Return what came of the work, or raise as it did."""
        return await asyncio.shield(self._work)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the events until the work is over."""
        while self._next is not None:
            yield self._next
            self._next = await self._following()

    async def _following(self) -> bytes | None:
        try:
            async with asyncio.timeout(_QUIET):
                return await self._told.get()
        except TimeoutError:
            return _STILL_HERE


async def stream_of(work: Callable[[Callable[[bytes], None]], Result]) -> EventStream[Result]:
    """Begin work that tells its events; return once it has told the first, or raise what it raised before."""
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[bytes | None] = asyncio.Queue()

    def tell(event: bytes | None) -> None:
        # Whoever listened may be gone with the whole server; the work is to be done all the same.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(told.put_nowait, event)

    def run() -> Result:
        try:
            return work(tell)
        finally:
            tell(None)

    future = loop.run_in_executor(None, run)
    future.add_done_callback(_note_failure)
    first = await told.get()
    if first is None:
        # It was over before it said anything: what it raised is the answer.
        await future
    return EventStream(first, told, future)


def _note_failure(work: asyncio.Future[Result]) -> None:
    """Log what nobody else will: a failure of ours in work whose caller has been told only that it failed."""
    error = None if work.cancelled() else work.exception()
    if error is not None and not isinstance(error, RecollectError):
        _log.error("a turn failed", exc_info=error)
