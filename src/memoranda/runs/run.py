"""The handle of a run: its status, output and events, and what it waits for."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from memoranda.api.memory import Memory
from memoranda.errors import Conflict, Hint, RunFailed, UsageError
from memoranda.model.event import RunEvent, RunStatus, RunSummary, RunVerification
from memoranda.model.text import quote
from memoranda.runs.outcome import Failure, Waiting
from memoranda.runs.program import describe_program
from memoranda.runs.storage import StoredRun, read_run


class RunHandle:
    """A run that has ended, or waits."""

    def __init__(self, memory: Memory, kept: StoredRun) -> None:
        """Wrap a stored run."""
        self._memory = memory
        self._kept = kept

    @property
    def id(self) -> str:
        """Its id."""
        return self._kept.summary.id

    @property
    def status(self) -> RunStatus:
        """Its status: completed, failed, cancelled, waiting, or running in some process."""
        return self._kept.summary.status

    @property
    def summary(self) -> RunSummary:
        """Everything about it except its data."""
        return self._kept.summary

    @property
    def output(self) -> Any:
        """Its output; None unless it has completed."""
        return self._kept.output

    @property
    def error(self) -> Failure | None:
        """Why it failed."""
        error = self._kept.summary.error
        return None if error is None else msgspec.convert(error, Failure)

    @property
    def waiting(self) -> Waiting | None:
        """What it waits for."""
        waiting = self._kept.summary.waiting
        return None if waiting is None else msgspec.convert(waiting, Waiting)

    @property
    def events(self) -> list[RunEvent]:
        """Its events in the ledger, in order."""
        return self._memory.runs.events(self.id)

    def verify(self) -> RunVerification:
        """Return whether its events are complete, in order and unchanged."""
        return self._memory.runs.verify(self.id)

    def check(self) -> Self:
        """Return this run, or raise RunFailed if it failed."""
        error = self.error
        if error is not None:
            where = f" at {quote(error.step)}" if error.step else ""
            raise RunFailed(
                f"the {describe_program(self.summary)} failed{where}: {error.message}",
                hint=str(error.details.get("hint", "")),
                run=self.id,
                type=error.type,
                step=error.step,
            )
        return self

    # for subclasses

    def _require_waiting(self) -> Waiting:
        waiting = self.waiting
        if waiting is None:
            raise Conflict(
                f"the run {quote(self.id)} is {self.status} and waits for nothing",
                hint="Only a run that waits can be resumed",
                expected="waiting",
                actual=self.status,
            )
        return waiting

    def _require_waiting_for(self, kind: str) -> Waiting:
        waiting = self.waiting
        if waiting is None or waiting.kind != kind:
            actual = f"waits for {_article(waiting.kind)}" if waiting else f"is {self.status}"
            raise UsageError(
                f"the run {quote(self.id)} {actual}, not waiting for {_article(kind)}",
                hint=Hint("python", "Look at run.waiting"),
                value=self.id,
            )
        return waiting

    def _is_late(self, waiting: Waiting) -> bool:
        return waiting.deadline is not None and self._memory.clock.now() >= waiting.deadline

    def _reload_waiting(self, *, verified: bool = True) -> StoredRun:
        """Return the run as it is stored now, or raise Conflict where another process has resumed it.

        Before a run resumes, its chain and its stored state are `verified`; cancelling it does not need that.
        """
        kept = read_run(self._memory, self.id, verified=verified)
        if (kept.summary.status, kept.summary.head) != (self.status, self._kept.summary.head):
            raise self._conflict(kept.summary.status)
        return kept

    def _reload_running(self) -> StoredRun:
        """Return a run whose process may be gone, with its newest event."""
        kept, last = read_run(self._memory, self.id), self.events[-1]
        if kept.summary.status != "running":
            raise self._conflict(kept.summary.status)
        return msgspec.structs.replace(
            kept, summary=msgspec.structs.replace(kept.summary, events=last.index, head=last.hash)
        )

    def _conflict(self, status: str) -> Conflict:
        return Conflict(
            f"the run {quote(self.id)} was resumed elsewhere in the meantime",
            hint="Find it again to see its status",
            expected="waiting",
            actual=status,
        )

    def __repr__(self) -> str:
        """Return its id, its program and its status."""
        return f"<{type(self).__module__.rpartition('.')[0]}.Run {self.id} of {self.summary.program}: {self.status}>"


def _article(kind: str) -> str:
    return "another run" if kind == "run" else f"an {kind}"
