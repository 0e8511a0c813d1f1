"""Durable jobs, stored as facts, with leases and retries.

A job is a fact of the scope that it works for, so erasing the scope erases the job. A scope has one job of each kind.
Its `mark` says how far the work has to go; a job that has reached its mark does not run again.

    waiting ──lease──▶ running ──finish──▶ done
       ▲                  │
       └──── fail, until it is dead; an expired lease counts as waiting
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from memoranda.api.memory import Memory
from memoranda.engine.facts import FindFacts, GetFact, SetFact
from memoranda.errors import Conflict, NotFound
from memoranda.model.clock import utc_now
from memoranda.model.fact import Fact
from memoranda.model.names import check_key
from memoranda.model.scope import Scope
from memoranda.model.text import quote, storable_text, words_of
from memoranda.model.value import encode

KIND = "sleep"
"""The kind of the jobs that consolidate conversations."""
JobState = Literal["waiting", "running", "done", "dead"]

MOST_ATTEMPTS = 5
"""Number of attempts before a job is dead."""
FIRST_PAUSE = timedelta(minutes=1)
"""Pause after the first failure; doubled after each further one."""
LONGEST_PAUSE = timedelta(hours=1)
LEASE = timedelta(minutes=5)
"""Time that a worker has for a job before another may take it."""
_LONGEST_ERROR = 300


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job, as read at one moment."""

    scope: Scope
    kind: str
    state: JobState
    mark: int
    """How far it has to go."""
    done: int = 0
    """How far it has gone."""
    attempts: int = 0
    """Number of attempts since the last success."""
    due_at: datetime
    """Earliest time of the next attempt."""
    worker: str = ""
    """The worker that runs it."""
    leased_until: datetime | None = None
    finished_at: datetime | None = None
    error: str = ""
    """Why it last failed."""
    result: dict[str, Any] = {}
    """The result of the last success."""
    version: int = 0
    """The version of its fact, expected by the next write."""

    def is_due(self, now: datetime) -> bool:
        """Return whether a worker may take it now."""
        if self.state == "running":
            return self.leased_until is not None and self.leased_until <= now
        return self.state == "waiting" and self.due_at <= now


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
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=_key(kind)))
    return None if fact is None else _job(fact, kind)


def get_job(memory: Memory, scope: Scope, kind: str) -> Job:
    """Return the job of a kind in a scope, or raise `NotFound`."""
    found = find_job(memory, scope, kind)
    if found is None:
        raise NotFound(f"`{scope}` has no job {quote(kind)}", hint="Nothing was enqueued there, or it was erased")
    return found


def list_jobs(memory: Memory, kind: str, *, user: str | None = None, state: JobState | None = None) -> list[Job]:
    """Return the jobs of a kind, of one user or of all, by due time."""
    below = Scope.of(tenant=memory.tenant) if user is None else Scope.of(tenant=memory.tenant, user=user)
    facts: list[Fact] = memory.perform(FindFacts(scope=below, key=_key(kind), internal=True))
    found = [_job(fact, kind) for fact in facts]
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
    return _write(
        _release(
            job,
            state="done",
            done=done,
            mark=max(job.mark, done),
            attempts=0,
            error="",
            result=result,
            finished_at=utc_now(memory.clock),
        )
    )


def amend_effect(job: Job, result: dict[str, Any]) -> SetFact:
    """Return the write that replaces a job's result; it raises `Conflict` if the job has changed."""
    return _write(msgspec.structs.replace(job, result=result))


def put_off(memory: Memory, job: Job, *, until: datetime, mark: int) -> Job:
    """Postpone a job; this does not count as an attempt."""
    return _keep(memory, _release(job, due_at=until, mark=mark, attempts=max(job.attempts - 1, 0), state="waiting"))


def fail(memory: Memory, job: Job, error: BaseException, *, most_attempts: int = MOST_ATTEMPTS) -> Job:
    """Record a failure; the job waits for its next attempt, longer each time, or is dead after the last."""
    pause = min(FIRST_PAUSE * 2 ** max(job.attempts - 1, 0), LONGEST_PAUSE)
    code = getattr(error, "code", type(error).__name__)
    return _keep(
        memory,
        _release(
            job,
            state="dead" if job.attempts >= most_attempts else "waiting",
            due_at=utc_now(memory.clock) + pause,
            error=storable_text(f"{code}: {words_of(error)}", longest=_LONGEST_ERROR),
        ),
    )


def retry(memory: Memory, job: Job) -> Job:
    """Make a dead or waiting job due now, with all its attempts left."""
    return _keep(memory, _release(job, state="waiting", due_at=utc_now(memory.clock), attempts=0))


def _release(job: Job, **changes: Any) -> Job:
    return msgspec.structs.replace(job, worker="", leased_until=None, **changes)


def _keep(memory: Memory, job: Job) -> Job:
    fact: Fact = memory.perform(_write(job))
    return msgspec.structs.replace(job, version=fact.version)


def _write(job: Job) -> SetFact:
    # The scope, the kind and the version follow from the fact itself.
    kept = {name: part for name, part in msgspec.to_builtins(job).items() if name not in ("scope", "kind", "version")}
    return SetFact(scope=job.scope, key=_key(job.kind), payload=msgspec.Raw(encode(kept)), expect=job.version)


def _job(fact: Fact, kind: str) -> Job:
    place = {"scope": msgspec.to_builtins(fact.scope), "kind": kind, "version": fact.version}
    return msgspec.convert({**fact.value, **place}, Job)


def _key(kind: str) -> str:
    return check_key(f"jobs.{kind}")


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
