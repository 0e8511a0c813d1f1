"""Memories in, conversations consolidated as they settle out: a thread that looks again and again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from memoranda.api.memory import Memory
from memoranda.model.duration import Duration
from memoranda.model.text import words_of
from memoranda.sleep.extracting import Extractor, extract_by_rules
from memoranda.sleep.interrupt import Interrupted, interrupt_on
from memoranda.sleep.jobs import MOST_ATTEMPTS
from memoranda.sleep.sleeping import DELAY, Ran, run_each, settle, sleep_jobs, waiting_time

_EVERY = 30.0
"""Seconds between two looks."""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What one look of a worker came to."""

    memory: Memory | None = None
    """Where it looked; None where it could not find out where to look, or was asked to stop."""
    ran: tuple[Ran, ...] = ()
    jobs: Mapping[str, int] = {}
    """How many jobs stand how, after it."""
    failure: Exception | None = None
    """Why the look failed as a whole, such as a disk that is full. What fails in a job is kept with the job."""


class SleepWorker:
    """A thread that consolidates conversations as they settle, beside whatever the program does.

    Several may work on one database, in one process or in many: each job is done by one of them.
    """

    def __init__(
        self,
        memories: Memory | Callable[[], Iterable[Memory]],
        *,
        extractor: Extractor = extract_by_rules,
        delay: Duration = DELAY,
        every: float = _EVERY,
        most_attempts: int = MOST_ATTEMPTS,
        report: Callable[[Looked], None] = lambda looked: None,
    ) -> None:
        """Do nothing yet.

        Args:
            memories: where to look: one memory, or what gives a handle for each tenant.
            extractor: says what a conversation teaches.
            delay: how long nothing has to be said before a conversation has settled.
            every: seconds between two looks.
            most_attempts: how often a job is tried before it is given up.
            report: is told what each look at a memory came to, in the thread.
        """
        self._memories = memories
        self._extractor = extractor
        self._delay = delay
        self._wait = waiting_time(delay)
        self._every = every
        self._report = report
        self._most_attempts = most_attempts
        self._ending = threading.Event()
        """Tells a thread to end. Each has its own: one that was not waited for must not go on with the next."""
        self._thread: threading.Thread | None = None
        self.failure = ""
        """Why the last look failed as a whole, such as a disk that is full; empty when it did not."""

    def start(self) -> None:
        """Begin to look; a second time changes nothing."""
        if self._thread is None:
            self._ending = threading.Event()
            self._thread = threading.Thread(
                target=self._work, args=(self._ending,), name="memoranda-sleep", daemon=True
            )
            self._thread.start()

    def stop(self, *, timeout: float | None = None) -> None:
        """End the thread; a second time changes nothing.

        It finishes the job under way, except that reading by rules is given back after a moment, for the next worker.
        A job that takes longer than `timeout` is another worker's once its lease is over.
        """
        self._ending.set()
        if self._thread is not None:
            self._thread.join(timeout)
            self._thread = None

    def look(self) -> list[Ran]:
        """Look once, in this thread: ask for what has settled, and do what is due."""
        return [ran for memory in self._found() for ran in self._look_at(memory)]

    def _found(self) -> Iterable[Memory]:
        return [self._memories] if isinstance(self._memories, Memory) else self._memories()

    def _look_at(self, memory: Memory) -> Iterator[Ran]:
        settle(memory, delay=self._delay)
        yield from run_each(
            memory,
            extractor=self._extractor,
            wait=self._wait,
            worker=memory.ids.new("worker"),
            most_attempts=self._most_attempts,
        )

    def _work(self, ending: threading.Event) -> None:
        interrupt_on(ending)
        while not ending.is_set():
            failures: list[Exception] = []
            for one in self._looks(ending):
                self._report(one)
                failures += [one.failure] if one.failure is not None else []
            self.failure = _said(failures[0]) if failures else ""
            ending.wait(self._every)

    # The thread goes on, whatever fails: a database that cannot be reached now may be there next time, and what is
    # wrong with one tenant keeps no other from its memory. `failure` and the report say what it was.
    def _looks(self, ending: threading.Event) -> Iterator[Looked]:
        try:
            for memory in self._found():
                yield self._worked_on(memory, ending)
                if ending.is_set():
                    return
        except Exception as error:
            yield Looked(failure=error)

    def _worked_on(self, memory: Memory, ending: threading.Event) -> Looked:
        ran: list[Ran] = []
        try:
            for one in self._look_at(memory):
                ran.append(one)
                if ending.is_set():
                    break
            jobs = Counter[str](job.state for job in sleep_jobs(memory))
        except Interrupted:
            return Looked(ran=tuple(ran))
        except Exception as error:
            return Looked(memory=memory, ran=tuple(ran), failure=error)
        return Looked(memory=memory, ran=tuple(ran), jobs=jobs)


def _said(error: Exception) -> str:
    return f"{getattr(error, 'code', type(error).__name__)}: {words_of(error)}"
