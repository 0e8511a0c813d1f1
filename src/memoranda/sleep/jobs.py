"""Work that waits, as facts: asked for once, taken by one worker at a time, tried again later, and seen by everybody.

A job is a fact of the scope that it works for, so that whoever erases the scope erases its job. There is one job of a
kind in a scope. Its `mark` says how far the work is to go; a job that has gone so far is not done again.

    waiting ──lease──▶ running ──finished──▶ done
       ▲                  │
       └──── fail, until it is dead; a lease that is over is as good as waiting
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from memoranda.api.memory import Memory
from memoranda.errors import Conflict, NotFound
from memoranda.model.clock import utc_now
from memoranda.model.effect import FindFacts, GetFact, SetFact
from memoranda.model.fact import Fact
from memoranda.model.key import check_key
from memoranda.model.scope import Scope
from memoranda.model.text import cleaned, quote, words_of
from memoranda.model.value import encode

KIND = "sleep"
"""The kind of the jobs that consolidate conversations."""
JobState = Literal["waiting", "running", "done", "dead"]

MOST_ATTEMPTS = 5
"""How often a job is tried before it is given up."""
FIRST_PAUSE = timedelta(minutes=1)
"""How long a job waits after it failed for the first time; twice as long after each further failure."""
LONGEST_PAUSE = timedelta(hours=1)
LEASE = timedelta(minutes=5)
"""How long a worker has for a job before another may take it."""
_LONGEST_ERROR = 300


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work, as it stood when it was read."""

    scope: Scope
    kind: str
    state: JobState
    mark: int
    """How far it is to go."""
    done: int = 0
    """How far it has gone."""
    attempts: int = 0
    """How often it was begun since it last succeeded."""
    due_at: datetime
    """Not before this moment."""
    worker: str = ""
    """Who has it, while it runs."""
    leased_until: datetime | None = None
    finished_at: datetime | None = None
    error: str = ""
    """Why it last failed."""
    result: dict[str, Any] = {}
    """What it came to when it last succeeded."""
    version: int = 0
    """The version of its fact: who changes it has to know it."""

    def is_due(self, now: datetime) -> bool:
        """Say whether a worker may take it now."""
        if self.state == "running":
            return self.leased_until is not None and self.leased_until <= now
        return self.state == "waiting" and self.due_at <= now


def enqueue(memory: Memory, scope: Scope, kind: str, *, mark: int, due_at: datetime | None = None) -> Job | None:
    """Ask for work up to a mark, and return the job; None where it was asked for, done or given up already.

    A job that waits for less is asked for more, and starts afresh: what failed may have been what came before.
    """
    standing = find_job(memory, scope, kind)
    if standing is not None and (standing.mark >= mark or standing.state == "running"):
        return None
    wanted = Job(
        scope=scope,
        kind=kind,
        state="waiting",
        mark=mark,
        done=standing.done if standing else 0,
        due_at=due_at or utc_now(memory.clock),
        result=standing.result if standing else {},
        finished_at=standing.finished_at if standing else None,
        version=standing.version if standing else 0,
    )
    try:
        return _keep(memory, wanted)
    except Conflict:
        return None  # whoever was faster saw the same work


def find_job(memory: Memory, scope: Scope, kind: str) -> Job | None:
    """Return the job of a kind in a scope; None where there is none."""
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=_key(kind)))
    return None if fact is None else _job(fact, kind)


def get_job(memory: Memory, scope: Scope, kind: str) -> Job:
    """Return the job of a kind in a scope, or raise NotFound."""
    found = find_job(memory, scope, kind)
    if found is None:
        raise NotFound(
            f"there is no job {quote(kind)} in `{scope}`", hint="Nothing was asked for there, or it was erased"
        )
    return found


def list_jobs(memory: Memory, kind: str, *, user: str | None = None, state: JobState | None = None) -> list[Job]:
    """Return the jobs of a kind, of one user or of all, those that are due first in front."""
    below = Scope.of(tenant=memory.tenant) if user is None else Scope.of(tenant=memory.tenant, user=user)
    facts: list[Fact] = memory.perform(FindFacts(scope=below, key=_key(kind)))
    found = [_job(fact, kind) for fact in facts]
    wanted = [job for job in found if state is None or job.state == state]
    return sorted(wanted, key=lambda job: (job.due_at, job.scope.path))


def lease(memory: Memory, job: Job, *, worker: str) -> Job | None:
    """Take a job that is due, for a time, and return it; None where somebody was faster."""
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


def finished(memory: Memory, job: Job, *, done: int, result: dict[str, Any]) -> SetFact:
    """Return the write that says that a job has gone so far, and what it came to, for a batch with what it did.

    It is a Conflict where somebody has taken the job over.
    """
    return _write(
        _freed(
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


def amended(job: Job, result: dict[str, Any]) -> SetFact:
    """Return the write that says something else of what a job came to, for a batch; Conflict where it has changed."""
    return _write(msgspec.structs.replace(job, result=result))


def put_off(memory: Memory, job: Job, *, until: datetime, mark: int) -> Job:
    """Let a job wait until a moment because it is not time yet; that was no attempt."""
    return _keep(memory, _freed(job, due_at=until, mark=mark, attempts=max(job.attempts - 1, 0), state="waiting"))


def fail(memory: Memory, job: Job, error: BaseException, *, most_attempts: int = MOST_ATTEMPTS) -> Job:
    """Say why a job failed; it waits for its next attempt, longer each time, or is dead after the last."""
    pause = min(FIRST_PAUSE * 2 ** max(job.attempts - 1, 0), LONGEST_PAUSE)
    code = getattr(error, "code", type(error).__name__)
    return _keep(
        memory,
        _freed(
            job,
            state="dead" if job.attempts >= most_attempts else "waiting",
            due_at=utc_now(memory.clock) + pause,
            error=cleaned(f"{code}: {words_of(error)}", longest=_LONGEST_ERROR),
        ),
    )


def retry(memory: Memory, job: Job) -> Job:
    """Let a job that was given up, or that waits for its next attempt, be due now, with all its attempts before it."""
    return _keep(memory, _freed(job, state="waiting", due_at=utc_now(memory.clock), attempts=0))


def _freed(job: Job, **changes: Any) -> Job:
    return msgspec.structs.replace(job, worker="", leased_until=None, **changes)


def _keep(memory: Memory, job: Job) -> Job:
    fact: Fact = memory.perform(_write(job))
    return msgspec.structs.replace(job, version=fact.version)


def _write(job: Job) -> SetFact:
    # Where it is and what it is called is what its place says.
    kept = {name: part for name, part in msgspec.to_builtins(job).items() if name not in ("scope", "kind", "version")}
    return SetFact(scope=job.scope, key=_key(job.kind), payload=msgspec.Raw(encode(kept)), expect=job.version)


def _job(fact: Fact, kind: str) -> Job:
    place = {"scope": msgspec.to_builtins(fact.scope), "kind": kind, "version": fact.version}
    return msgspec.convert({**fact.value, **place}, Job)


def _key(kind: str) -> str:
    return check_key(f"jobs.{kind}")
