"""Enqueue, lease, retry and finish jobs, which are stored as facts; see `memoranda.model.job`."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import msgspec

from memoranda.api.memory import Memory
from memoranda.chat.conversation import read_each
from memoranda.engine.facts import FindFacts, GetFact, SetFact
from memoranda.errors import Conflict, NotFound
from memoranda.model.clock import utc_now
from memoranda.model.fact import Fact
from memoranda.model.job import LEASE, MOST_ATTEMPTS, Job, JobState, job_key, read_job
from memoranda.model.scope import Scope
from memoranda.model.text import quote, words_of


def enqueue(memory: Memory, scope: Scope, kind: str, *, mark: int, due_at: datetime | None = None) -> Job | None:
    """Enqueue work up to a mark and return the job; None if it is already enqueued, running, done or dead.

    A job with a lower mark gets the new one and starts afresh, because the failure may have been about the old work.
    """
    current = find_job(memory, scope, kind)
    if current is not None and (current.mark >= mark or current.state == "running"):
        return None
    wanted = Job(
        scope=scope,
        kind=kind,
        state="waiting",
        mark=mark,
        done=current.done if current else 0,
        due_at=due_at or utc_now(memory.clock),
        result=current.result if current else {},
        finished_at=current.finished_at if current else None,
        version=current.version if current else 0,
    )
    try:
        return _keep(memory, wanted)
    except Conflict:
        return None  # a concurrent writer saw the same work


def find_job(memory: Memory, scope: Scope, kind: str) -> Job | None:
    """Return the job of a kind in a scope, or None."""
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=job_key(kind)))
    return None if fact is None else read_job(fact, kind)


def get_job(memory: Memory, scope: Scope, kind: str) -> Job:
    """Return the job of a kind in a scope, or raise `NotFound`."""
    found = find_job(memory, scope, kind)
    if found is None:
        raise NotFound(f"`{scope}` has no job {quote(kind)}", hint="Nothing was enqueued there, or it was erased")
    return found


def list_jobs(memory: Memory, kind: str, *, user: str | None = None, state: JobState | None = None) -> list[Job]:
    """Return the jobs of a kind, of one user or of all, by due time; one that cannot be read is logged."""
    below = Scope.of(tenant=memory.tenant) if user is None else Scope.of(tenant=memory.tenant, user=user)
    facts: list[Fact] = memory.perform(FindFacts(scope=below, key=job_key(kind), internal=True))
    found = read_each(facts, lambda fact: read_job(fact, kind))
    wanted = [job for job in found if state is None or job.state == state]
    return sorted(wanted, key=lambda job: (job.due_at, job.scope.path))


def lease(memory: Memory, job: Job, *, worker: str) -> Job | None:
    """Lease a job that is due, and return it; None if another worker was faster."""
    now = utc_now(memory.clock)
    if not job.is_due(now):
        return None
    taken = msgspec.structs.replace(
        job, state="running", attempts=job.attempts + 1, worker=worker, leased_until=now + LEASE
    )
    try:
        return _keep(memory, taken)
    except Conflict:
        return None


def finish_effect(memory: Memory, job: Job, *, done: int, result: dict[str, Any]) -> SetFact:
    """Return the write that marks a job as done, to be committed together with its result.

    The write raises `Conflict` if another worker has taken the job over.
    """
    return _write(msgspec.structs.replace(job.after_success(utc_now(memory.clock), done=done), result=result))


def amend_effect(job: Job, result: dict[str, Any]) -> SetFact:
    """Return the write that replaces a job's result; it raises `Conflict` if the job has changed."""
    return _write(msgspec.structs.replace(job, result=result))


def put_off(memory: Memory, job: Job, *, until: datetime, mark: int) -> Job:
    """Postpone a job; this does not count as an attempt."""
    attempts = max(job.attempts - 1, 0)
    return _keep(memory, job.after_release(due_at=until, mark=mark, attempts=attempts, state="waiting"))


def fail(memory: Memory, job: Job, error: BaseException, *, most_attempts: int = MOST_ATTEMPTS) -> Job:
    """Record a failure; the job waits for its next attempt, longer each time, or is dead after the last."""
    code = getattr(error, "code", type(error).__name__)
    said = f"{code}: {words_of(error)}"
    return _keep(memory, job.after_failure(said, utc_now(memory.clock), most_attempts=most_attempts))


def retry(memory: Memory, job: Job) -> Job:
    """Make a dead or waiting job due now, with all its attempts left."""
    return _keep(memory, job.after_release(state="waiting", due_at=utc_now(memory.clock), attempts=0))


def _keep(memory: Memory, job: Job) -> Job:
    fact: Fact = memory.perform(_write(job))
    return msgspec.structs.replace(job, version=fact.version)


def _write(job: Job) -> SetFact:
    return SetFact(scope=job.scope, key=job_key(job.kind), payload=msgspec.Raw(job.payload), expect=job.version)


_ending: ContextVar[threading.Event | None] = ContextVar("_ending", default=None)


class Interrupted(Exception):
    """The worker of this thread was asked to stop: its job is released, and the attempt does not count."""


def interrupt_on(event: threading.Event) -> None:
    """Make `check_interrupt` raise in this thread once an event is set; in other threads it never does."""
    _ending.set(event)


def check_interrupt() -> None:
    """Raise `Interrupted` if this thread was asked to stop. Call it between portions of a few milliseconds."""
    event = _ending.get()
    if event is not None and event.is_set():
        raise Interrupted
