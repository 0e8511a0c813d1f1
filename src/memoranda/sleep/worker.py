"""Consolidate conversations into memory blocks once they have settled.

A conversation has settled when no reply is in progress and nothing was said for a while. Then one job is enqueued for
it, up to its newest part. The job asks an extractor what the conversation teaches, and writes that to the core and
archival blocks, with its sources and the state of the job, in one transaction. If a block changes meanwhile,
the job reads again and starts over. It runs with the permissions of one user only, so that nothing of one user can
reach another.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import msgspec

from memoranda.api.memory import Memory
from memoranda.chat.conversation import (
    ConversationRecord,
    ConversationSummary,
    conversation_of,
    conversation_scope,
    list_conversations,
    read_conversation,
    source_label,
)
from memoranda.engine.facts import WriteFacts
from memoranda.errors import Conflict
from memoranda.model.block import Block, as_block
from memoranda.model.clock import Duration, parse_duration, utc_now
from memoranda.model.fact import Fact
from memoranda.model.names import is_block
from memoranda.model.text import quote, words_of
from memoranda.sleep.consolidation import (
    RACES,
    SLEEP,
    Change,
    LeftOut,
    Merge,
    limit_to_user,
    merge,
    places_of,
    read_blocks,
)
from memoranda.sleep.extraction import Extractor, extract_by_rules, spoken_by_user
from memoranda.sleep.jobs import (
    KIND,
    MOST_ATTEMPTS,
    Interrupted,
    Job,
    JobState,
    check_interrupt,
    enqueue,
    fail,
    find_job,
    finish_effect,
    get_job,
    interrupt_on,
    lease,
    list_jobs,
    put_off,
    retry,
)
from memoranda.sleep.undo import take_back_orphans

DELAY = 300
"""Seconds of silence after which a conversation has settled; with 0, as soon as the reply is complete."""


_CHECK_EVERY = 100
"""Number of conversations between two checks for an interrupt."""


class Consolidated(msgspec.Struct, frozen=True, kw_only=True):
    """The result of consolidating a conversation."""

    conversation_id: str
    user: str
    last_seq: int
    """The sequence number of the newest part that was read."""
    changes: tuple[Change, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    blocks: tuple[Block, ...] = ()
    """The blocks that were written."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run of a job."""

    job: Job
    """The job after the run."""
    consolidated: Consolidated | None = None
    """None if it failed, or was postponed because the conversation continues."""
    failed: bool = False
    """Whether it failed; the job has the error."""


def settle(memory: Memory, *, delay: Duration = DELAY) -> list[Job]:
    """Enqueue a job for each conversation that has settled since its last job; return the new jobs.

    What was learned from conversations that have been erased since is removed.
    """
    wait = waiting_time(delay)
    known = list_conversations(memory, kind="chat")
    take_back_orphans(memory, known)
    marks = {job.scope: job.mark for job in sleep_jobs(memory)}
    asked: list[Job | None] = []
    for number, one in enumerate(known, 1):
        if not number % _CHECK_EVERY:
            check_interrupt()
        scope = conversation_scope(memory, one.user, one.id)
        if marks.get(scope, 0) < one.last_seq and _has_settled(one, utc_now(memory.clock), wait):
            # Learned in the order it was said, so that later statements replace earlier ones.
            asked.append(enqueue(memory, scope, KIND, mark=one.last_seq, due_at=one.last_at + wait))
    return [job for job in asked if job is not None]


def run_due(
    memory: Memory,
    *,
    extractor: Extractor = extract_by_rules,
    delay: Duration = DELAY,
    worker: str = "",
    limit: int | None = None,
    most_attempts: int = MOST_ATTEMPTS,
) -> list[Ran]:
    """Run the jobs that are due and return their results. Failures are recorded in the jobs, not raised."""
    name = worker or memory.ids.new("worker")
    wait = waiting_time(delay)
    return list(
        islice(run_each(memory, extractor=extractor, wait=wait, worker=name, most_attempts=most_attempts), limit)
    )


def run_sleep_time(
    memory: Memory, conversation_id: str, *, user: str, extractor: Extractor = extract_by_rules
) -> Consolidated:
    """Consolidate one conversation now, without waiting for it to settle; a second call changes nothing.

    Raises `Conflict` while a reply is in progress, or another worker has the job. Failures are raised, and recorded in
    the job.
    """
    conversation = read_conversation(memory, user, conversation_id, kind="chat")
    if conversation.active:
        raise Conflict(f"a reply is in progress in {quote(conversation_id)}", hint="Wait until it is finished")
    scope = conversation_scope(memory, user, conversation_id)
    enqueue(memory, scope, KIND, mark=conversation.last_seq)
    job = get_job(memory, scope, KIND)
    if job.done >= conversation.last_seq:
        return Consolidated(conversation_id=conversation_id, user=user, last_seq=job.done)
    if job.state == "dead" or (job.state == "waiting" and not job.is_due(utc_now(memory.clock))):
        job = retry(memory, job)
    taken = lease(memory, job, worker=memory.ids.new("worker"))
    if taken is None:
        raise Conflict(f"another worker is consolidating {quote(conversation_id)}", hint="Try again in a moment")
    try:
        return _consolidate(memory, conversation, taken, extractor)
    except Exception as error:
        _note_failure(memory, taken, error, MOST_ATTEMPTS)
        raise


def sleep_jobs(memory: Memory, *, user: str | None = None, state: JobState | None = None) -> list[Job]:
    """Return the jobs that consolidate conversations, of one user or of all, with their states and errors."""
    return list_jobs(memory, KIND, user=user, state=state)


def run_each(
    memory: Memory, *, extractor: Extractor, wait: timedelta, worker: str, most_attempts: int
) -> Iterator[Ran]:
    """Run the jobs that are due one by one, as the caller iterates; yield their results."""
    for job in [one for one in sleep_jobs(memory) if one.is_due(utc_now(memory.clock))]:
        ran = _run(memory, job, extractor, wait, worker, most_attempts)
        if ran is not None:
            yield ran


def waiting_time(delay: Duration) -> timedelta:
    """Parse the delay before a conversation has settled; unlike other durations it may be 0."""
    return timedelta(0) if delay == 0 else timedelta(seconds=parse_duration(delay))


def _has_settled(one: ConversationSummary, now: datetime, wait: timedelta) -> bool:
    return not one.active and now - one.last_at >= wait


def _run(
    memory: Memory, job: Job, extractor: Extractor, wait: timedelta, worker: str, most_attempts: int
) -> Ran | None:
    """Run one job; None if another worker has it, or it was erased meanwhile."""
    taken = lease(memory, job, worker=worker)
    if taken is None:
        return None
    try:
        conversation = read_conversation(memory, *conversation_of(job.scope), kind="chat")
        if not _has_settled(conversation, utc_now(memory.clock), wait):
            # A new message restarts the wait.
            since = utc_now(memory.clock) if conversation.active else conversation.last_at
            return Ran(job=put_off(memory, taken, until=since + wait, mark=conversation.last_seq))
        consolidated = _consolidate(memory, conversation, taken, extractor)
        return Ran(job=get_job(memory, job.scope, KIND), consolidated=consolidated)
    except Interrupted:
        with suppress(Conflict):
            put_off(memory, taken, until=utc_now(memory.clock), mark=taken.mark)
        raise
    # The extractor may be third-party code: any error is recorded in the job, and it is retried.
    except Exception as error:
        failed = _note_failure(memory, taken, error, most_attempts)
        return None if failed is None else Ran(job=failed, failed=True)


def _note_failure(memory: Memory, job: Job, error: Exception, most_attempts: int) -> Job | None:
    """Record why a job failed; None if another worker has it now, or it was erased."""
    try:
        return fail(memory, job, error, most_attempts=most_attempts)
    except Conflict:
        return None


def _consolidate(memory: Memory, conversation: ConversationRecord, job: Job, extractor: Extractor) -> Consolidated:
    """Extract lessons from what was said since the last time, and write them."""
    own = limit_to_user(memory, conversation.user).through(SLEEP)
    new = [part for part in conversation.parts if part.seq > job.done]
    places = places_of(own, conversation.user, conversation.agent_id)
    learned = extractor(new, read_blocks(own, places).standing())
    moments = {part.seq: part.at for part in spoken_by_user(new)}
    source = source_label(conversation.id, conversation.last_seq)
    for race in range(RACES):
        snapshot = read_blocks(own, places)
        merged = merge(snapshot.by_scope, learned, conversation=conversation.id, moments=moments)
        result = _result(merged, conversation.agent_id, source)
        writes = [
            *snapshot.writes(own, merged.texts, merged.books, source=source),
            finish_effect(own, job, done=conversation.last_seq, result=result),
        ]
        try:
            facts: list[Fact] = own.perform(WriteFacts(scope=places["user"], writes=tuple(writes)))
        except Conflict:
            # If another worker has the job it will do it; a changed block is read again.
            if race == RACES - 1 or not _is_ours(own, job):
                raise
            continue
        return Consolidated(
            conversation_id=conversation.id,
            user=conversation.user,
            last_seq=conversation.last_seq,
            changes=merged.changes,
            left_out=merged.left_out,
            blocks=tuple(as_block(fact) for fact in facts if is_block(fact.scope, fact.key)),
        )
    raise AssertionError("the last race is won or raised")


def _result(merged: Merge, agent: str, source: str) -> dict[str, Any]:
    """Return the result to store in the job: how much was changed and where, not what."""
    return {
        "written": [f"{scope}.{block}" for scope, block in merged.texts],
        "added": sum(change.change == "added" for change in merged.changes),
        "removed": sum(change.change == "removed" for change in merged.changes),
        "left_out": sum(one.why != "known" for one in merged.left_out),
        "agent": agent,
        "source": source,
    }


def _is_ours(memory: Memory, job: Job) -> bool:
    current = find_job(memory, job.scope, KIND)
    return current is not None and current.version == job.version


_EVERY = 30.0
"""Seconds between two rounds."""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one round of a worker over one memory."""

    memory: Memory | None = None
    """The memory; None if the memories could not be listed, or the worker was asked to stop."""
    ran: tuple[Ran, ...] = ()
    jobs: Mapping[str, int] = {}
    """The number of jobs in each state afterwards."""
    failure: Exception | None = None
    """Why the round failed as a whole, such as a full disk. Failures of jobs are recorded in the jobs."""


class SleepWorker:
    """A background thread that consolidates conversations as they settle.

    Several workers may share a database, in one process or in many: each job is run by one of them.
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
        """Create a worker that is not started.

        Args:
            memories: one memory, or a function that returns a handle for each tenant.
            extractor: extracts what a conversation teaches.
            delay: silence after which a conversation has settled.
            every: seconds between two rounds.
            most_attempts: number of attempts before a job is dead.
            report: called in the thread with the result of each round over a memory.
        """
        self._memories = memories
        self._extractor = extractor
        self._delay = delay
        self._wait = waiting_time(delay)
        self._every = every
        self._report = report
        self._most_attempts = most_attempts
        self._ending = threading.Event()
        """Tells a thread to end. Each thread has its own, so that a restart does not revive an old one."""
        self._thread: threading.Thread | None = None
        self.failure = ""
        """Why the last round failed as a whole, such as a full disk; empty if it did not."""

    def start(self) -> None:
        """Start the thread, unless it is running."""
        if self._thread is None:
            self._ending = threading.Event()
            self._thread = threading.Thread(
                target=self._work, args=(self._ending,), name="memoranda-sleep", daemon=True
            )
            self._thread.start()

    def stop(self, *, timeout: float | None = None) -> None:
        """Stop the thread, if it is running.

        It finishes its current job, but extraction by rules is interrupted, and its job released for the next worker. A
        job that takes longer than `timeout` goes to another worker once its lease has expired.
        """
        self._ending.set()
        if self._thread is not None:
            self._thread.join(timeout)
            self._thread = None

    def look(self) -> list[Ran]:
        """Run one round in this thread: enqueue settled conversations, and run the jobs that are due."""
        return [ran for memory in self._handles() for ran in self._look_at(memory)]

    def _handles(self) -> Iterable[Memory]:
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
            self.failure = _describe(failures[0]) if failures else ""
            ending.wait(self._every)

    # The thread survives any failure: a database may be reachable again next time, and a failure of one tenant must not
    # affect the others. `failure` and the report have the error.
    def _looks(self, ending: threading.Event) -> Iterator[Looked]:
        try:
            for memory in self._handles():
                yield self._look_safely(memory, ending)
                if ending.is_set():
                    return
        except Exception as error:
            yield Looked(failure=error)

    def _look_safely(self, memory: Memory, ending: threading.Event) -> Looked:
        ran: list[Ran] = []
        try:
            for one in self._look_at(memory):
                ran.append(one)
                if ending.is_set():
                    break
            states = Counter[str](job.state for job in sleep_jobs(memory))
        except Interrupted:
            return Looked(ran=tuple(ran))
        except Exception as error:
            return Looked(memory=memory, ran=tuple(ran), failure=error)
        return Looked(memory=memory, ran=tuple(ran), jobs=states)


def _describe(error: Exception) -> str:
    return f"{getattr(error, 'code', type(error).__name__)}: {words_of(error)}"
