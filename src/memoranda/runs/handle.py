"""A run as its program's user holds it: where it stands, what came of it, its events, and what it waits for."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from memoranda.api.memory import Memory
from memoranda.errors import Conflict, RunFailed, UsageError
from memoranda.model.run import RunEvent, RunStatus, RunSummary, RunVerification
from memoranda.model.text import quote
from memoranda.runs.failures import Failure
from memoranda.runs.keeping import KeptRun, read_run
from memoranda.runs.sources import program_of
from memoranda.runs.waiting import Waiting


class RunHandle:
    """A run that is over, or waits for somebody."""

    def __init__(self, memory: Memory, kept: KeptRun) -> None:
        """Stand on what is kept of a run."""
        self._memory = memory
        self._kept = kept

    @property
    def id(self) -> str:
        """Its id."""
        return self._kept.summary.id

    @property
    def status(self) -> RunStatus:
        """Where it stands: completed, failed, cancelled, waiting, or running in some process."""
        return self._kept.summary.status

    @property
    def summary(self) -> RunSummary:
        """Everything there is to say about it, without its data."""
        return self._kept.summary

    @property
    def output(self) -> Any:
        """What the program gave; None unless it has completed."""
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
        """Return whether its events are whole, in order and as they were written."""
        return self._memory.runs.verify(self.id)

    def check(self) -> Self:
        """Return this run, or raise RunFailed if it failed."""
        error = self.error
        if error is not None:
            where = f" at {quote(error.step)}" if error.step else ""
            raise RunFailed(
                f"the {program_of(self.summary)} failed{where}: {error.message}",
                hint=str(error.details.get("hint", "")),
                run=self.id,
                type=error.type,
                step=error.step,
            )
        return self

    # going on

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

    def _waits_for(self, kind: str) -> Waiting:
        waiting = self.waiting
        if waiting is None or waiting.kind != kind:
            stands = f"waits for {_article(waiting.kind)}" if waiting else f"is {self.status}"
            raise UsageError(
                f"the run {quote(self.id)} {stands}, not waiting for {_article(kind)}",
                hint="Look at run.waiting",
                value=self.id,
            )
        return waiting

    def _is_late(self, waiting: Waiting) -> bool:
        return waiting.deadline is not None and self._memory.clock.now() >= waiting.deadline

    def _as_it_waits(self, *, verified: bool = True) -> KeptRun:
        """Return what is kept of the run now, or raise Conflict: somebody else may have gone on with it.

        What goes on is `verified` first: its chain, and that it is kept as the ledger says. A run can be cancelled
        without that.
        """
        kept = read_run(self._memory, self.id, verified=verified)
        if (kept.summary.status, kept.summary.head) != (self.status, self._kept.summary.head):
            raise self._gone_on_elsewhere(kept.summary.status)
        return kept

    def _as_it_runs(self) -> KeptRun:
        """Return what is kept of a run that nobody may be running any more, with its newest event."""
        kept, last = read_run(self._memory, self.id), self.events[-1]
        if kept.summary.status != "running":
            raise self._gone_on_elsewhere(kept.summary.status)
        return msgspec.structs.replace(
            kept, summary=msgspec.structs.replace(kept.summary, events=last.index, head=last.hash)
        )

    def _gone_on_elsewhere(self, status: str) -> Conflict:
        return Conflict(
            f"the run {quote(self.id)} went on elsewhere in the meantime",
            hint="Find it again to see where it stands",
            expected="waiting",
            actual=status,
        )

    def __repr__(self) -> str:
        """Return its id and where it stands."""
        return f"<{type(self).__module__.rpartition('.')[0]}.Run {self.id} of {self.summary.program}: {self.status}>"


def _article(kind: str) -> str:
    return "another run" if kind == "run" else f"an {kind}"
