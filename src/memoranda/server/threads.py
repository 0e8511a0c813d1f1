"""Work that waits for the disk in, its results on the event loop out: the threads of one server process.

Every write passes here, and what asyncio's own pool takes to hand one over is as much as the write itself computes: two
futures that are chained, four locks, and a second turn of the loop. Here it is one future and one queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

from anyio.to_thread import run_sync
from litestar.concurrency import sync_to_thread

from memoranda.api.memory import Memory
from memoranda.errors import Busy
from memoranda.server.bodies import StrictRequest
from memoranda.server.callers import Access

T = TypeVar("T")
_SMALL = 16_384
"""Bytes of a body that are checked, hashed and written before anybody could have come."""

_Work: TypeAlias = tuple["asyncio.Future[Any]", asyncio.AbstractEventLoop, Callable[..., Any], tuple[Any, ...]]


class Threads(ThreadPoolExecutor):
    """An executor for one event loop, which alone may hand work over to it."""

    def __init__(self, most: int) -> None:
        """Have no thread yet; begin one whenever all are busy, until there are so many."""
        super().__init__(most)
        self._most = most
        self._begun: list[Thread] = []
        self._handed_over: SimpleQueue[_Work | None] = SimpleQueue()
        self._under_way = 0

    def submit(  # pyright: ignore[reportIncompatibleMethodOverride]  # asyncio takes a future of its own as it is
        self, fn: Callable[..., Any], /, *args: Any
    ) -> asyncio.Future[Any]:
        """Let a thread call a function; return what the loop can wait for."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._under_way += 1
        if len(self._begun) < min(self._under_way, self._most):
            self._begun.append(Thread(target=self._work, name=f"memoranda-{len(self._begun)}", daemon=True))
            self._begun[-1].start()
        self._handed_over.put((future, loop, fn, args))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do what was handed over, and end."""
        for _ in self._begun:
            self._handed_over.put(None)
        while wait and self._begun:
            self._begun.pop().join()

    def _work(self) -> None:
        while (work := self._handed_over.get()) is not None:
            future, loop, fn, args = work
            result: Any = None
            fault: BaseException | None = None
            try:
                result = fn(*args)
            # Whoever waits for the future is told, whatever it was.
            except BaseException as error:
                # A future refuses this one, and then nobody would ever be told.
                fault = RuntimeError("a thread raised StopIteration") if isinstance(error, StopIteration) else error
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._settle, future, result, fault)
            # While this waits for the next, nothing of the last one is held.
            del work, future, fn, args, result, fault

    def _settle(self, future: asyncio.Future[Any], result: Any, fault: BaseException | None) -> None:
        self._under_way -= 1
        if future.done():
            return  # whoever waited has given up
        if fault is None:
            future.set_result(result)
        else:
            future.set_exception(fault)


async def read_row(memory: Memory, read: Callable[[], T]) -> T:
    """Return what a read of one row gives: at once from a file, which takes less than a thread; else from a thread."""
    return await run_sync(read) if memory.waits else read()


async def write_row(request: StrictRequest, write: Callable[[Access], T]) -> T:
    """Return what a write of one row gives: at once where that holds up nobody; else from a thread.

    With one request under way, handing it to a thread and back takes as long as the write itself computes. It is done
    here as long as nobody else is served, it is small, and the store need not wait to write it.
    """
    alone = request.app.state.metrics.in_flight == 1
    if alone and not request.auth.memory.waits and len(await request.body()) <= _SMALL:
        try:
            return write(request.auth.at_once)
        except Busy:
            pass  # nothing was kept
    return await sync_to_thread(write, request.auth)
