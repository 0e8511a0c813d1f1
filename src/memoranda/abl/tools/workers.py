"""Calls in, their results within a time limit out: run on threads of our own, which a stuck call cannot hold up.

Python cannot stop a thread. A call that takes too long is left to itself: its thread is given up, and the next call
gets another. The threads are daemons, so that none of them keeps the process from ending.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import asyncio

MOST_IDLE = 4
"""Threads that wait for the next call; more of them end after their work."""
MOST_STUCK = 64
"""Threads that may be given up and still be running before no further call is begun."""


class Ran(NamedTuple):
    """How a call ended: done with a value or what it raised, given up because it was late, or never begun."""

    ending: Literal["done", "late", "stuck"]
    value: Any = None
    error: BaseException | None = None


class _Job:
    __slots__ = ("abandoned", "call", "cancel", "context", "done", "error", "value")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.context = contextvars.copy_context()
        self.done = threading.Lock()
        self.done.acquire()
        self.value: Any = None
        self.error: BaseException | None = None
        self.abandoned = False
        self.cancel: Callable[[], object] | None = None

    def abandon(self) -> None:
        """Ask a coroutine to stop; an ordinary function cannot be asked."""
        self.abandoned = True
        if self.cancel is not None:
            self.cancel()


class _Here(threading.local):
    """What the worker of this thread is doing, and its event loop, made when a coroutine first needs one."""

    job: _Job | None = None
    runner: asyncio.Runner | None = None


_here = _Here()


class _Worker:
    __slots__ = ("_pool", "inbox")

    def __init__(self, pool: Workers) -> None:
        self._pool = pool
        self.inbox: SimpleQueue[_Job | None] = SimpleQueue()
        threading.Thread(target=self._work, name="memoranda-tool", daemon=True).start()

    def _work(self) -> None:
        while (job := self.inbox.get()) is not None:
            _here.job = job
            try:
                job.value = job.context.run(job.call)
            # A tool that raises SystemExit must not end the thread before its caller was told.
            except BaseException as error:
                job.error = error
            job.done.release()
            _here.job = job = None
        if _here.runner is not None:
            _here.runner.close()
        self._pool.forget_stuck(self)


class Workers:
    """A few threads that run calls one at a time each; there are as many as calls at the same moment."""

    def __init__(self, *, most_stuck: int = MOST_STUCK) -> None:
        """Begin without threads; they come with the first calls."""
        self._idle: list[_Worker] = []
        self._stuck: set[_Worker] = set()
        self._most_stuck = most_stuck

    def run(self, call: Callable[[], Any], *, timeout: float) -> Ran:
        """Run a call and return how it ended; one that takes longer than so many seconds is given up."""
        if len(self._stuck) >= self._most_stuck:
            return Ran("stuck")
        job = _Job(call)
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self)
        worker.inbox.put(job)
        try:
            in_time = job.done.acquire(timeout=timeout)
        except BaseException:
            self._give_up(worker, job)
            raise
        if not in_time:
            self._give_up(worker, job)
            return Ran("late")
        if len(self._idle) < MOST_IDLE:
            self._idle.append(worker)
        else:
            worker.inbox.put(None)
        return Ran("done", job.value, job.error)

    @property
    def stuck(self) -> int:
        """How many threads were given up and still run."""
        return len(self._stuck)

    def _give_up(self, worker: _Worker, job: _Job) -> None:
        # In this order: the worker leaves the set when it reads the None, which it cannot do before.
        self._stuck.add(worker)
        worker.inbox.put(None)
        job.abandon()

    def forget_stuck(self, worker: _Worker) -> None:
        """Take note that a thread has ended after all."""
        self._stuck.discard(worker)

    def forget_all(self) -> None:
        """Begin anew in a forked process, which has none of the threads."""
        self._idle.clear()
        self._stuck.clear()


def await_here(awaitable: Awaitable[Any]) -> Any:
    """Return what a coroutine gives, run on the event loop of the worker whose call this is."""
    # Most tools are plain functions, and asyncio takes long to import.
    import asyncio

    if _here.runner is None:
        _here.runner = asyncio.Runner()
    return _here.runner.run(_as_task(awaitable, _here.job), context=contextvars.copy_context())


async def _as_task(awaitable: Awaitable[Any], job: _Job | None) -> Any:
    import asyncio

    if job is not None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        job.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        # The caller may have given up between the start of the call and the line above.
        if job.abandoned:
            task.cancel()
    return await awaitable


WORKERS = Workers()
"""The threads of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKERS.forget_all)
