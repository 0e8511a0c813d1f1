"""Work in a thread in, its events out as they happen, to as many as listen; it goes on when nobody does any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Any, Generic, TypeAlias, TypeVar

from memoranda.errors import MemorandaError

EVENT_STREAM = "text/event-stream"
STILL_HERE = b": still here\n\n"
"""A comment, which is no event."""
_QUIET = 15.0
"""Seconds without an event after which a comment is sent: proxies close what seems dead."""

_log = logging.getLogger(__name__)
Result = TypeVar("Result")

Tell: TypeAlias = Callable[[int, bytes], None]
"""Called with the number of an event and the event as it is sent."""


class EventStream(Generic[Result]):
    """The events of some work, those that were and those to come, and what came of it."""

    def __init__(self, work: Callable[[Tell], Result]) -> None:
        """Begin the work, in a thread."""
        self._told: list[tuple[int, bytes]] = []
        self._over = False
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._work = self._loop.run_in_executor(None, self._done, work)
        self._work.add_done_callback(_note_failure)

    async def begun(self) -> None:
        """Return once it has told an event or is over; raise what it raised before its first event."""
        while not self._told and not self._over:
            await self._news.wait()
        if not self._told:
            await self.result()

    async def result(self) -> Result:
        """Return what came of the work, or raise as it did."""
        return await asyncio.shield(self._work)

    def when_over(self, act: Callable[[], object]) -> None:
        """Call this once the work is over."""
        self._work.add_done_callback(lambda _: act())

    async def after(self, number: int = -1) -> AsyncGenerator[bytes]:
        """Yield the events with a higher number until the work is over, as many at once as there are."""
        place = 0
        while place < len(self._told) or not self._over:
            news = self._news
            waiting = [event for told, event in self._told[place:] if told > number]
            place = len(self._told)
            if waiting:
                yield b"".join(waiting)
            elif not self._over and not await _happens(news):
                yield STILL_HERE

    def _done(self, work: Callable[[Tell], Result]) -> Result:
        try:
            return work(lambda number, event: self._on_loop(self._add, number, event))
        finally:
            self._on_loop(self._end)

    def _on_loop(self, act: Callable[..., None], *given: Any) -> None:
        # Whoever listened may be gone with the whole server; the work is to be done all the same.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act, *given)

    def _add(self, number: int, event: bytes) -> None:
        self._told.append((number, event))
        self._wake()

    def _end(self) -> None:
        self._over = True
        self._wake()

    def _wake(self) -> None:
        # Each who waits holds the one of its time, so that nobody misses what comes between two looks.
        self._news.set()
        self._news = asyncio.Event()


class UnderWay:
    """Work that is under way in this process, by what it is known by: who lost its stream can listen again."""

    def __init__(self) -> None:
        """Begin with none."""
        self._streams: dict[Hashable, EventStream[Any]] = {}

    def find(self, key: Hashable) -> EventStream[Any] | None:
        """Return the events of work that is under way; None where there is none, or it has told nothing yet."""
        return self._streams.get(key)

    async def begin(self, key: Hashable, work: Callable[[Tell], Result]) -> EventStream[Result]:
        """Begin work as `stream_of` does; it can be found until it is over."""
        stream = await stream_of(work)
        self._streams[key] = stream
        stream.when_over(lambda: self._streams.pop(key, None))
        return stream


async def stream_of(work: Callable[[Tell], Result]) -> EventStream[Result]:
    """Begin work that tells its events; return once it has told the first, or raise what it raised before."""
    stream = EventStream(work)
    await stream.begun()
    return stream


async def _happens(event: asyncio.Event) -> bool:
    """Return whether something happens before it has been quiet for too long."""
    try:
        async with asyncio.timeout(_QUIET):
            return await event.wait()
    except TimeoutError:
        return False


def _note_failure(work: asyncio.Future[Result]) -> None:
    """Log what nobody else will: a failure of ours in work whose caller has been told only that it failed."""
    error = None if work.cancelled() else work.exception()
    if error is not None and not isinstance(error, MemorandaError):
        _log.error("a turn failed", exc_info=error)
