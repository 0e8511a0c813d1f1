"""Jobs: work that is done later, tried again if it fails, and never lost.

A job is a fact of the scope that it works for, so erasing the scope erases the job. A scope has one job of each kind.
Its `mark` says how far the work has to go; a job that has reached its mark does not run again.

    waiting ──lease──▶ running ──finish──▶ done
       ▲                  │
       └──── fail, until it is dead; an expired lease counts as waiting
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any, Literal, Self

import msgspec

from memoranda.model.clock import Moment
from memoranda.model.fact import Fact
from memoranda.model.names import check_key, why_not_a_name
from memoranda.model.scope import ENDING_KINDS, LONGEST_ID, SHARED, Scope
from memoranda.model.text import storable_text
from memoranda.model.value import encode

SLEEP = "sleep"
"""The kind of the jobs that learn from chats once they have settled."""
LEARN = "learn"
"""The kind of the jobs that read messages whose model failed."""
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
    due_at: Moment
    """Earliest time of the next attempt."""
    worker: str = ""
    """The worker that runs it."""
    leased_until: Moment | None = None
    finished_at: Moment | None = None
    error: str = ""
    """Why it last failed."""
    work: dict[str, Any] = {}
    """What it has to do, if that does not follow from its scope."""
    result: dict[str, Any] = {}
    """The result of the last success."""
    version: int = 0
    """The version of its fact, expected by the next write."""

    def is_due(self, now: datetime) -> bool:
        """Return whether a worker may take it now."""
        if self.state == "running":
            return self.leased_until is not None and self.leased_until <= now
        return self.state == "waiting" and self.due_at <= now

    def after_release(self, **changes: Any) -> Self:
        """Return the job with changes, without a worker."""
        return msgspec.structs.replace(self, worker="", leased_until=None, **changes)

    def after_failure(self, error: str, now: datetime, *, most_attempts: int = MOST_ATTEMPTS) -> Self:
        """Return the job as it waits for its next attempt, longer each time, or is dead after the last."""
        pause = min(FIRST_PAUSE * 2 ** max(self.attempts - 1, 0), LONGEST_PAUSE)
        return self.after_release(
            state="dead" if self.attempts >= most_attempts else "waiting",
            due_at=now + pause,
            error=storable_text(error, longest=_LONGEST_ERROR),
        )

    def after_success(self, now: datetime, *, done: int) -> Self:
        """Return the job as it is done."""
        mark = max(self.mark, done)
        return self.after_release(state="done", done=done, mark=mark, attempts=0, error="", finished_at=now)

    @property
    def conversation(self) -> tuple[str, str]:
        """The user, or else the scope, and the id of the conversation that it reads."""
        ids = dict(self.scope.parts)
        return ids.get("user", self.work.get("scope") or SHARED), self.work.get("conversation", ids["thread"])

    @property
    def payload(self) -> bytes:
        """Its fact as JSON; the scope, the kind and the version follow from the fact itself."""
        parts = msgspec.to_builtins(self)
        return encode({name: parts[name] for name in parts if name not in ("scope", "kind", "version")})


def read_job(fact: Fact, kind: str) -> Job:
    """Return the job that a fact is; raise msgspec.ValidationError if it is none."""
    place = {"scope": msgspec.to_builtins(fact.scope), "kind": kind, "version": fact.version}
    return msgspec.convert({**msgspec.convert(fact.value, dict[str, Any]), **place}, Job)


def job_key(kind: str) -> str:
    """Return the key of a scope's job of a kind."""
    return check_key(f"jobs.{kind}")


def scope_of_job(scope: Scope, conversation: str) -> Scope | None:
    """Return the scope of the job that reads messages of a conversation again; None in a scope that will end."""
    ids = dict(scope.parts)
    if not ids.keys().isdisjoint(ENDING_KINDS):
        return None
    if "thread" in ids:
        return scope
    name = conversation if why_not_a_name(conversation, longest=LONGEST_ID) is None else _digest(conversation)
    return Scope.of(tenant=scope.tenant, **ids, thread=name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
