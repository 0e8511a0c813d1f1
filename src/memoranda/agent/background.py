"""A coroutine in, its result out, for callers that are not async and for those inside a running loop alike.

Clients of model providers keep connections that belong to one event loop. So there is one for the process, on a
daemon thread of its own, and every request runs there.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

P = TypeVar("P")
T = TypeVar("T")

_GRACE = 1.0
"""Seconds that a coroutine has to end after its time is up; a loop that does not end it then is stuck."""


class Background:
    """An event loop on a thread of its own, begun when it is first needed."""

    def __init__(self) -> None:
        """Begin without a thread."""
        self._beginning = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T], *, timeout: float) -> T:
        """Return what a coroutine gives; raise what it raises, or TimeoutError after so many seconds."""
        loop = self._running()
        future = asyncio.run_coroutine_threadsafe(_within(work, timeout), loop)
        try:
            return future.result(timeout + _GRACE)
        except TimeoutError:
            if not future.done():
                # Something on the loop blocks it. The next request must not wait for that.
                self._give_up(loop)
            raise
        finally:
            future.cancel()

    def stream(
        self, work: Callable[[Callable[[P], None]], Coroutine[Any, Any, T]], *, timeout: float
    ) -> Generator[P, None, T]:
        """Yield what a coroutine tells while it runs, then return what it gives; raise as `run` does.

        Who stops listening ends it.
        """
        loop = self._running()
        told: queue.SimpleQueue[P | None] = queue.SimpleQueue()
        ends = time.monotonic() + timeout + _GRACE
        future = asyncio.run_coroutine_threadsafe(_within(work(told.put), timeout), loop)
        future.add_done_callback(lambda _: told.put(None))
        try:
            while (piece := told.get(timeout=max(0.0, ends - time.monotonic()))) is not None:
                yield piece
            return future.result()
        except queue.Empty:
            self._give_up(loop)
            raise TimeoutError from None
        finally:
            future.cancel()

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine whose result nobody waits for."""
        asyncio.run_coroutine_threadsafe(work, self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._beginning:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="memoranda-models", daemon=True).start()
            return self._loop

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._beginning:
            if self._loop is loop:
                self._loop = None

    def forget(self) -> None:
        """Begin anew in a forked process, which does not have the thread."""
        self._beginning = threading.Lock()
        self._loop = None


async def _within(work: Coroutine[Any, Any, T], timeout: float) -> T:
    async with asyncio.timeout(timeout):
        return await work


BACKGROUND = Background()
"""The loop of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BACKGROUND.forget)
