"""Conversations that are over in, memory blocks that know what was said in them out: memory made while nobody waits.

A conversation has settled when no reply is being made and nothing was said for a while. Then there is one job for it,
up to its newest part. The job asks an extractor what the conversation teaches and writes that to the core and archival
blocks, with where it came from and with the news that the job is done: all in one transaction, or nothing. Who changes
a block meanwhile wins; the job reads again and starts from there. It runs with the rights of one user only, so that
nothing of one user can reach another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import msgspec

from memoranda.api.memory import Memory
from memoranda.chat.conversations import (
    ConversationRecord,
    ConversationSummary,
    conversation_of,
    conversation_scope,
    list_conversations,
    read_conversation,
    source_label,
)
from memoranda.errors import Conflict
from memoranda.model.block import Block, as_block, is_block_key
from memoranda.model.clock import utc_now
from memoranda.model.duration import Duration, parse_duration
from memoranda.model.effect import WriteFacts
from memoranda.model.fact import Fact
from memoranda.model.text import quote
from memoranda.sleep.consolidating import SLEEP, Change, LeftOut, Merged, merge
from memoranda.sleep.extracting import Extractor, extract_by_rules, spoken_by_user
from memoranda.sleep.interrupt import Interrupted, check_interrupt
from memoranda.sleep.jobs import (
    KIND,
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
from memoranda.sleep.shelves import RACES, only_for, places_of, read_shelves
from memoranda.sleep.taking_back import take_back_orphans

DELAY = 300
"""Seconds without a word after which a conversation has settled; with 0, as soon as the reply is there."""


_UNINTERRUPTED = 100
"""Conversations that are looked at before somebody may ask to stop."""


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
    wait = waiting_time(delay)
    known = list_conversations(memory)
    take_back_orphans(memory, known)
    marks = {job.scope: job.mark for job in sleep_jobs(memory)}
    asked: list[Job | None] = []
    for number, one in enumerate(known, 1):
        if not number % _UNINTERRUPTED:
            check_interrupt()
        scope = conversation_scope(memory, one.user, one.id)
        if marks.get(scope, 0) < one.last_seq and _has_settled(one, utc_now(memory.clock), wait):
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
    wait = waiting_time(delay)
    return list(
        islice(run_each(memory, extractor=extractor, wait=wait, worker=name, most_attempts=most_attempts), limit)
    )


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
    if job.state == "dead" or (job.state == "waiting" and not job.is_due(utc_now(memory.clock))):
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


def run_each(
    memory: Memory, *, extractor: Extractor, wait: timedelta, worker: str, most_attempts: int
) -> Iterator[Ran]:
    """Do the jobs that are due one by one, as long as somebody asks for the next; yield what each came to."""
    for job in [one for one in sleep_jobs(memory) if one.is_due(utc_now(memory.clock))]:
        ran = _run(memory, job, extractor, wait, worker, most_attempts)
        if ran is not None:
            yield ran


def waiting_time(delay: Duration) -> timedelta:
    """Return how long nothing has to be said; unlike other durations it may be 0."""
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
    try:
        conversation = read_conversation(memory, *conversation_of(job.scope))
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
