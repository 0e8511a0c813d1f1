"""Conversations that are over in, memory blocks that know what was said in them out: memory made while nobody waits.

A conversation has settled when no reply is being made and nothing was said for a while. Then there is one job for it,
up to its newest part. The job asks an extractor what the conversation teaches and writes that to the core and archival
blocks, with where it came from and with the news that the job is done: all in one transaction, or nothing. Who changes
a block meanwhile wins; the job reads again and starts from there. It runs with the rights of one user only, so that
nothing of one user can reach another.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from recollect.api.memory import Memory
from recollect.chat.conversations import (
    ConversationRecord,
    ConversationSummary,
    conversation_scope,
    list_conversations,
    read_conversation,
    source_label,
)
from recollect.errors import Conflict
from recollect.model.block import Block, as_block, is_block_key
from recollect.model.duration import Duration, parse_duration
from recollect.model.effect import WriteFacts
from recollect.model.fact import Fact
from recollect.model.text import quote, words_of
from recollect.sleep.consolidating import SLEEP, Change, LeftOut, Merged, merge
from recollect.sleep.extracting import Extractor, extract_by_rules, spoken_by_user
from recollect.sleep.jobs import (
    MOST_ATTEMPTS,
    Job,
    JobState,
    enqueue,
    fail,
    find_job,
    finished,
    get_job,
    lease,
    list_jobs,
    put_off,
    retry,
)
from recollect.sleep.shelves import only_for, places_of, read_shelves
from recollect.sleep.taking_back import KIND, RACES, take_back_orphans

DELAY = 300
"""Seconds without a word after which a conversation has settled; with 0, as soon as the reply is there."""
_EVERY = 30.0


class Consolidated(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a conversation."""

    conversation_id: str
    user: str
    last_seq: int
    """The number of the newest part that was looked at."""
    changes: tuple[Change, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    blocks: tuple[Block, ...] = ()
    """The blocks that were written."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of a job came to."""

    job: Job
    """The job as it stands after it."""
    consolidated: Consolidated | None = None
    """None where it failed, or was put off because the conversation goes on."""
    failed: bool = False
    """Whether it failed; the job says why."""


def settle(memory: Memory, *, delay: Duration = DELAY) -> list[Job]:
    """Ask for a job for each conversation that has settled since it was last looked at; return the new jobs.

    What was learned from conversations that were erased since is taken back.
    """
    wait = _waiting(delay)
    known = list_conversations(memory)
    take_back_orphans(memory, known)
    marks = {job.scope: job.mark for job in sleep_jobs(memory)}
    asked: list[Job | None] = []
    for one in known:
        scope = conversation_scope(memory, one.user, one.id)
        if marks.get(scope, 0) < one.last_seq and _has_settled(one, _now(memory), wait):
            # What was said first is learned first, so that what was said later takes its place.
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
    """Do the jobs that are due, and return what each came to. What fails is kept with its job, and raised nowhere."""
    name = worker or memory.ids.new("worker")
    return list(_run_each(memory, extractor, _waiting(delay), name, limit, most_attempts))


def run_sleep_time(
    memory: Memory, conversation_id: str, *, user: str, extractor: Extractor = extract_by_rules
) -> Consolidated:
    """Consolidate one conversation now, however long ago its last word was said; a second time changes nothing.

    While a reply is being made, or somebody else does the same, it is a Conflict. What fails is raised, and kept with
    the job.
    """
    conversation = read_conversation(memory, user, conversation_id)
    if conversation.active:
        raise Conflict(f"a reply is being made in {quote(conversation_id)}", hint="Wait until it is finished")
    scope = conversation_scope(memory, user, conversation_id)
    enqueue(memory, scope, KIND, mark=conversation.last_seq)
    job = get_job(memory, scope, KIND)
    if job.done >= conversation.last_seq:
        return Consolidated(conversation_id=conversation_id, user=user, last_seq=job.done)
    if job.state == "dead" or (job.state == "waiting" and not job.is_due(_now(memory))):
        job = retry(memory, job)
    taken = lease(memory, job, worker=memory.ids.new("worker"))
    if taken is None:
        raise Conflict(f"somebody else consolidates {quote(conversation_id)} now", hint="Look again in a moment")
    try:
        return _consolidate(memory, conversation, taken, extractor)
    except Exception as error:
        _note_failure(memory, taken, error, MOST_ATTEMPTS)
        raise


def sleep_jobs(memory: Memory, *, user: str | None = None, state: JobState | None = None) -> list[Job]:
    """Return the jobs that consolidate conversations, of one user or of all: what waits, what failed, and why."""
    return list_jobs(memory, KIND, user=user, state=state)


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What one look of a worker came to."""

    memory: Memory | None = None
    """Where it looked; None where it could not even find out where to look."""
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
        self._wait = _waiting(delay)
        self._every = every
        self._report = report
        self._most_attempts = most_attempts
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure = ""
        """Why the last look failed as a whole, such as a disk that is full; empty when it did not."""

    def start(self) -> None:
        """Begin to look; a second time changes nothing."""
        if self._thread is None:
            self._ending.clear()
            self._thread = threading.Thread(target=self._work, name="recollect-sleep", daemon=True)
            self._thread.start()

    def stop(self, *, timeout: float | None = None) -> None:
        """Finish the job at hand and end; a second time changes nothing.

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
        name = memory.ids.new("worker")
        yield from _run_each(memory, self._extractor, self._wait, name, None, self._most_attempts)

    def _work(self) -> None:
        while not self._ending.is_set():
            failures: list[Exception] = []
            for one in self._looks():
                self._report(one)
                failures += [one.failure] if one.failure is not None else []
            self.failure = _said(failures[0]) if failures else ""
            self._ending.wait(self._every)

    # The thread goes on, whatever fails: a database that cannot be reached now may be there next time, and what is
    # wrong with one tenant keeps no other from its memory. `failure` and the report say what it was.
    def _looks(self) -> Iterator[Looked]:
        try:
            for memory in self._found():
                yield self._worked_on(memory)
                if self._ending.is_set():
                    return
        except Exception as error:
            yield Looked(failure=error)

    def _worked_on(self, memory: Memory) -> Looked:
        ran: list[Ran] = []
        try:
            for one in self._look_at(memory):
                ran.append(one)
                if self._ending.is_set():
                    break
            jobs = Counter[str](job.state for job in sleep_jobs(memory))
        except Exception as error:
            return Looked(memory=memory, ran=tuple(ran), failure=error)
        return Looked(memory=memory, ran=tuple(ran), jobs=jobs)


def _said(error: Exception) -> str:
    return f"{getattr(error, 'code', type(error).__name__)}: {words_of(error)}"


def _run_each(
    memory: Memory, extractor: Extractor, wait: timedelta, worker: str, limit: int | None, most_attempts: int
) -> Iterator[Ran]:
    """Do the jobs that are due one by one, as long as somebody asks for the next."""
    due = [job for job in sleep_jobs(memory) if job.is_due(_now(memory))]
    for job in due[:limit]:
        ran = _run(memory, job, extractor, wait, worker, most_attempts)
        if ran is not None:
            yield ran


def _waiting(delay: Duration) -> timedelta:
    return timedelta(0) if delay == 0 else timedelta(seconds=parse_duration(delay))


def _has_settled(one: ConversationSummary, now: datetime, wait: timedelta) -> bool:
    return not one.active and now - one.last_at >= wait


def _run(
    memory: Memory, job: Job, extractor: Extractor, wait: timedelta, worker: str, most_attempts: int
) -> Ran | None:
    """Do one job; None where somebody else has it, or it was erased meanwhile."""
    taken = lease(memory, job, worker=worker)
    if taken is None:
        return None
    ids = dict(job.scope.parts)
    try:
        conversation = read_conversation(memory, ids["user"], ids["thread"])
        if not _has_settled(conversation, _now(memory), wait):
            # A new message restarts the wait.
            since = _now(memory) if conversation.active else conversation.last_at
            return Ran(job=put_off(memory, taken, until=since + wait, mark=conversation.last_seq))
        consolidated = _consolidate(memory, conversation, taken, extractor)
        return Ran(job=get_job(memory, job.scope, KIND), consolidated=consolidated)
    # The extractor is somebody else's code: whatever it does wrong is kept with the job, and tried again.
    except Exception as error:
        failed = _note_failure(memory, taken, error, most_attempts)
        return None if failed is None else Ran(job=failed, failed=True)


def _note_failure(memory: Memory, job: Job, error: Exception, most_attempts: int) -> Job | None:
    """Keep why a job failed; None where somebody else has it now, or it was erased."""
    try:
        return fail(memory, job, error, most_attempts=most_attempts)
    except Conflict:
        return None


def _consolidate(memory: Memory, conversation: ConversationRecord, job: Job, extractor: Extractor) -> Consolidated:
    """Let an extractor look at what was said since the last time, and write what it learned."""
    own = only_for(memory, conversation.user).through(SLEEP)
    new = [part for part in conversation.parts if part.seq > job.done]
    places = places_of(own, conversation.user, conversation.agent_id)
    learned = extractor(new, read_shelves(own, places).standing())
    moments = {part.seq: part.at for part in spoken_by_user(new)}
    source = source_label(conversation.id, conversation.last_seq)
    for race in range(RACES):
        shelves = read_shelves(own, places)
        merged = merge(shelves.by_scope, learned, conversation=conversation.id, moments=moments)
        result = _result(merged, conversation.agent_id, source)
        writes = [
            *shelves.writes(own, merged.texts, merged.books, source=source),
            finished(own, job, done=conversation.last_seq, result=result),
        ]
        try:
            facts: list[Fact] = own.perform(WriteFacts(scope=places["user"], writes=tuple(writes)))
        except Conflict:
            # Whoever has the job now will do it; a block that somebody else wrote is read again.
            if race == RACES - 1 or not _is_ours(own, job):
                raise
            continue
        return Consolidated(
            conversation_id=conversation.id,
            user=conversation.user,
            last_seq=conversation.last_seq,
            changes=merged.changes,
            left_out=merged.left_out,
            blocks=tuple(as_block(fact) for fact in facts if is_block_key(fact.key)),
        )
    raise AssertionError("the last race is won or raised")


def _result(merged: Merged, agent: str, source: str) -> dict[str, Any]:
    """Return what a job says that it did: how much, and where to find it, not what."""
    return {
        "written": [f"{scope}.{block}" for scope, block in merged.texts],
        "added": sum(change.change == "added" for change in merged.changes),
        "removed": sum(change.change == "removed" for change in merged.changes),
        "left_out": sum(one.why != "known" for one in merged.left_out),
        "agent": agent,
        "source": source,
    }


def _is_ours(memory: Memory, job: Job) -> bool:
    standing = find_job(memory, job.scope, KIND)
    return standing is not None and standing.version == job.version


def _now(memory: Memory) -> datetime:
    return memory.clock.now().astimezone(UTC)
