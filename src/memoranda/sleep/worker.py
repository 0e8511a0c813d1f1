"""Learn from conversations once they have settled, and from messages whose model failed.

A conversation has settled when no reply is in progress and nothing was said for a while. Then one job is enqueued for
it, up to its newest part. The job asks an extractor what the conversation states, and learns it with the same effect as
`ScopedMemory.learn`, which also writes each statement as a line of a memory block, and the state of the job, all in one
transaction. It runs with the permissions of one user only, so that nothing of one user can reach another.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from memoranda.api.learn import known_lines, learn_again, statement_of
from memoranda.api.memory import Memory
from memoranda.chat.conversation import (
    ConversationRecord,
    ConversationSummary,
    conversation_of,
    conversation_scope,
    list_conversations,
    log_unreadable,
    read_conversation,
    source_label,
)
from memoranda.engine.blocks import LEARNED
from memoranda.engine.learning import Learn, ReadStatements, Stated
from memoranda.engine.omissions import ReadOmissions
from memoranda.errors import Conflict, Denied
from memoranda.learning.extraction import Extracted, Extractor, Known
from memoranda.learning.extraction import extract_by_rules as read_by_rules
from memoranda.learning.messages import Message
from memoranda.model.block import Block
from memoranda.model.clock import Duration, parse_duration, utc_now
from memoranda.model.conversation import Part
from memoranda.model.job import LEARN, MOST_ATTEMPTS, SLEEP, Job, JobState, job_key, scope_of_job
from memoranda.model.lesson import Learned, LeftOut, LineChange
from memoranda.model.names import CHAT_RECORD
from memoranda.model.omission import Omissions
from memoranda.model.ref import Ref
from memoranda.model.scope import Scope
from memoranda.model.text import quote, words_of
from memoranda.sleep.jobs import (
    Interrupted,
    check_interrupt,
    enqueue,
    fail,
    finish_effect,
    get_job,
    interrupt_on,
    lease,
    list_jobs,
    put_off,
    retry,
)
from memoranda.sleep.undo import limit_to, take_back_orphans

DELAY = 300
"""Seconds of silence after which a conversation has settled; with 0, as soon as the reply is complete."""


_CHECK_EVERY = 100
"""Number of conversations between two checks for an interrupt."""


def extract_by_rules(messages: Sequence[Message], known: Sequence[Known] = ()) -> list[Extracted]:
    """Return what the user plainly said about themselves, by a table of patterns, without a model.

    Names, places, time zones, jobs, languages, diets, preferences and lasting wishes go to the core block; likes,
    favourites, people, plans and notes to the archive. It stops if its worker is asked to.
    """
    return read_by_rules(messages, known, between=check_interrupt)


class Consolidated(msgspec.Struct, frozen=True, kw_only=True):
    """The result of consolidating a conversation."""

    conversation_id: str
    user: str
    last_seq: int
    """The sequence number of the newest part that was read."""
    changes: tuple[LineChange, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    blocks: tuple[Block, ...] = ()
    """The blocks that were written."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run of a job."""

    job: Job
    """The job after the run."""
    consolidated: Consolidated | None = None
    """None if it failed, was postponed because the conversation continues, or is a job of `learn`."""
    learned: Learned | None = None
    """What a job of `learn` learned from messages whose model had failed."""
    failed: bool = False
    """Whether it failed; the job has the error."""


def settle(memory: Memory, *, delay: Duration = DELAY) -> list[Job]:
    """Enqueue a job for each conversation that has settled since its last job; return the new jobs.

    What was learned from conversations that have been erased since is removed.
    """
    wait = waiting_time(delay)
    known = list_conversations(memory, kind="chat")
    take_back_orphans(memory, known)
    marks = {job.scope: job.mark for job in list_jobs(memory, SLEEP)}
    asked: list[Job | None] = []
    for number, one in enumerate(known, 1):
        if not number % _CHECK_EVERY:
            check_interrupt()
        scope = conversation_scope(memory, one.user, one.id)
        if marks.get(scope, 0) < one.last_seq and _has_settled(one, utc_now(memory.clock), wait):
            # Learned in the order it was said, so that later statements replace earlier ones.
            try:
                asked.append(enqueue(memory, scope, SLEEP, mark=one.last_seq, due_at=one.last_at + wait))
            except msgspec.ValidationError as fault:
                log_unreadable(scope, job_key(SLEEP), fault)
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
    enqueue(memory, scope, SLEEP, mark=conversation.last_seq)
    job = get_job(memory, scope, SLEEP)
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
    """Return the jobs of one user or of all, by due time, with their states and errors.

    Jobs of the kind `sleep` learn from conversations that have settled, those of the kind `learn` from messages whose
    model failed.
    """
    found = [job for kind in (SLEEP, LEARN) for job in list_jobs(memory, kind, user=user, state=state)]
    return sorted(found, key=lambda job: (job.due_at, job.scope.path))


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
        if job.kind == LEARN:
            return _read_again(memory, taken, extractor, most_attempts)
        conversation = read_conversation(memory, *conversation_of(job.scope), kind="chat")
        if not _has_settled(conversation, utc_now(memory.clock), wait):
            # A new message restarts the wait.
            since = utc_now(memory.clock) if conversation.active else conversation.last_at
            return Ran(job=put_off(memory, taken, until=since + wait, mark=conversation.last_seq))
        consolidated = _consolidate(memory, conversation, taken, extractor)
        return Ran(job=get_job(memory, job.scope, SLEEP), consolidated=consolidated)
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


def _read_again(memory: Memory, job: Job, extractor: Extractor, most_attempts: int) -> Ran:
    """Learn from messages whose model failed."""
    home = Scope.parse(job.work["scope"], tenant=memory.tenant)
    if scope_of_job(home, job.work["conversation"]) != job.scope:
        # A job that was forged in one scope must not make the worker act in another.
        refusal = Denied(f"a job in `{job.scope}` cannot learn in `{home}`", hint="Erase the conversation of the job")
        return Ran(job=fail(memory, job, refusal, most_attempts=0), failed=True)
    own = limit_to(memory, home).through(LEARNED)
    learned = learn_again(own.perform, job, extractor)
    if learned is None:
        own.perform(finish_effect(memory, job, done=job.mark, result={}))
    after = get_job(memory, job.scope, LEARN)
    if after.state == "running" and after.work["keys"] == job.work["keys"]:
        error = Conflict("none of its messages was read", hint="Retry the job")
        return Ran(job=fail(memory, after, error, most_attempts=most_attempts), failed=True)
    if after.state == "running":  # more messages have come, which could not be read either
        after = put_off(memory, after, until=utc_now(memory.clock), mark=after.mark)
    return Ran(job=after, learned=learned or Learned(conversation=job.work["conversation"]))


def _consolidate(memory: Memory, conversation: ConversationRecord, job: Job, extractor: Extractor) -> Consolidated:
    """Learn what was said since the last time."""
    home, agent = Scope.of(tenant=memory.tenant, user=conversation.user), conversation.agent_id
    own = limit_to(memory, home).through(LEARNED)
    parts = [part for part in conversation.parts if part.seq > job.done and not part.hidden]
    parts = _without_forgotten(memory, job.scope, conversation.opened_at, parts)
    messages = [_message(part) for part in parts]
    known = known_lines(own.perform(ReadStatements(scope=home, agent=agent, lines=True)))
    refs = [str(Ref("message", job.scope, str(part.seq))) for part in parts]
    extracted = extractor(messages, known) if messages else []
    found = [_statement(one, messages, refs, conversation.user) for one in extracted]
    source = source_label(conversation.id, conversation.last_seq)
    learned: Learned = own.perform(
        Learn(
            scope=home,
            conversation=conversation.id,
            agent=agent,
            statements=tuple(found),
            source=source,
            lines=True,
            job=finish_effect(own, job, done=conversation.last_seq, result={"agent": agent, "source": source}),
        )
    )
    return Consolidated(
        conversation_id=conversation.id,
        user=conversation.user,
        last_seq=conversation.last_seq,
        changes=learned.lines,
        left_out=learned.left_out,
        blocks=_blocks_of(own, conversation, learned),
    )


def _without_forgotten(memory: Memory, scope: Scope, since: datetime, parts: list[Part]) -> list[Part]:
    """Return parts without the sentences that quote what was forgotten since: they are not learned again."""
    omissions: Omissions = memory.perform(ReadOmissions(scope=scope, key=CHAT_RECORD, since=since))
    if not omissions:
        return parts
    left = ((part, omissions.made_since(part.at).other_sentences(part.text)) for part in parts)
    return [msgspec.structs.replace(part, text=text) for part, text in left if text]


def _message(part: Part) -> Message:
    role = "user" if part.kind == "user" else "assistant" if part.kind == "agent_text" else "tool"
    return Message(role=role, text=part.text, at=part.at, id=str(part.seq))


def _statement(found: Extracted, messages: Sequence[Message], refs: Sequence[str], user: str) -> Stated:
    """Return what an extractor found as a statement; only what the user said counts as its source."""
    said = [place for place in found.messages if 0 <= place < len(messages) and messages[place].role == "user"]
    stated = statement_of(msgspec.structs.replace(found, messages=tuple(said) or (0,)), messages, user)
    return msgspec.structs.replace(stated, said_in=tuple(refs[place] for place in said))


def _blocks_of(memory: Memory, conversation: ConversationRecord, learned: Learned) -> tuple[Block, ...]:
    places = {(change.scope, change.block) for change in learned.lines}
    blocks = memory.scope(user=conversation.user, agent=conversation.agent_id).blocks.list(scope="all")
    return tuple(block for block in blocks if (block.scope, block.block_type) in places)


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
