"""The handle of a run: its status, output and events, what it waits for, and how it resumes and is cancelled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Self, TypeVar

import msgspec

from memoranda.errors import Conflict, Hint, RunFailed, UsageError
from memoranda.model.event import OVER, RunEvent, RunStatus, RunStep, RunSummary, RunVerification
from memoranda.model.text import quote
from memoranda.model.value import decode, encode_checked
from memoranda.runs.outcome import CallResult, Failure, Waiting
from memoranda.runs.program import RecordedProgram, describe_program
from memoranda.runs.provenance import OWN, Provenance
from memoranda.runs.storage import EntryKind, JournalEntry, StoredRun, read_run

ProgramT = TypeVar("ProgramT", bound=RecordedProgram[Any, Any, Any])


class RunHandle(ABC, Generic[ProgramT]):
    """A run that has ended, or waits."""

    def __init__(self, program: ProgramT, stored: StoredRun) -> None:
        """Wrap a stored run; its program makes these."""
        self._program = program
        self._memory = program.memory
        self._stored = stored

    @property
    def id(self) -> str:
        """Its id."""
        return self._stored.summary.id

    @property
    def status(self) -> RunStatus:
        """Its status: completed, failed, cancelled, waiting, or running in some process."""
        return self._stored.summary.status

    @property
    def summary(self) -> RunSummary:
        """Everything about it except its data."""
        return self._stored.summary

    @property
    def output(self) -> Any:
        """Its output; None unless it has completed."""
        return self._stored.output

    @property
    def error(self) -> Failure | None:
        """Why it failed."""
        error = self._stored.summary.error
        return None if error is None else msgspec.convert(error, Failure)

    @property
    def waiting(self) -> Waiting | None:
        """What it waits for."""
        waiting = self._stored.summary.waiting
        return None if waiting is None else msgspec.convert(waiting, Waiting)

    @property
    @abstractmethod
    def results(self) -> dict[str, Any]:
        """The value of each step or task, by name."""

    @property
    def messages(self) -> list[str]:
        """The messages it has sent to its owner."""
        return []

    @property
    def events(self) -> list[RunEvent]:
        """Its events in the ledger, in order."""
        return self._memory.runs.events(self.id)

    @property
    def step_records(self) -> list[RunStep]:
        """What was recorded of its steps, in order; empty unless its program was loaded with a `Recording`."""
        return self._memory.runs.steps(self.id)

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

    @property
    def call_result(self) -> CallResult:
        """The run as the program that called it sees it."""
        return CallResult(
            run=self.id,
            status=self.status,
            output=self.output,
            message=self.error.message if self.error else "",
            messages=tuple(self.messages),
            provenance=self._provenance,
        )

    @property
    def _provenance(self) -> Provenance:
        """Where the output comes from."""
        return OWN

    # resume and cancel

    def deliver(self, payload: Any = None) -> Self:
        """Deliver the event that the run waits for; a payload that does not fit is refused, and the run still waits."""
        self._program.ensure_ready()
        waiting = self._require_waiting_for("event")
        if self._is_late(waiting):
            return self.resume()
        payload = self._accept(waiting, decode(encode_checked(payload, self._memory.limits)))
        return self._resume_with(_entry(waiting, "event", payload))

    def resume(self) -> Self:
        """Resume the run if what it waits for is there: a decision, a deadline, or the run of another program.

        A run that still waits is returned as it is.
        """
        self._program.ensure_installed()
        waiting = self._require_waiting()
        if waiting.kind == "run":
            return self._resume_after(waiting.run or "")
        arrived = self._verdict(waiting) if waiting.kind == "approval" else self._timeout(waiting)
        return self if arrived is None else self._resume_with(arrived)

    def cancel(self, *, reason: str = "", force: bool = False) -> Self:
        """Cancel a run that waits, and the run of another program that it waits for.

        With `force`, also one that is `running`: its process may be gone. If it is not, its next step gets a Conflict.
        Records of the run alone are removed. An approval that it asked for can still be decided, without effect.
        """
        if force and self.status == "running":
            return self._program.cancel_run(self._reload_running(), reason)
        waiting = self._require_waiting()
        if waiting.run is not None:
            called = self._program.find_called(waiting.run, verified=False)
            if called.status not in OVER:
                called.cancel(reason=reason, force=force)
        return self._program.cancel_run(self._reload_waiting(verified=False), reason)

    def _accept(self, waiting: Waiting, payload: Any) -> Any:
        """Return a delivered payload as the program gets it, or refuse it; a language may check it here."""
        return payload

    @abstractmethod
    def _resume_after(self, called: str) -> Self:
        """Resume the run that waits for the run of another program."""

    def _resume_with(self, entry: JournalEntry | None) -> Self:
        return self._program.resume_run(self._reload_waiting(), entry)

    def _verdict(self, waiting: Waiting) -> JournalEntry | None:
        """Return the decision about the step that waits; None while there is none."""
        approval = self._memory.runs.decision(self.id, self._approval())
        if approval.status == "pending":
            return None
        about = {"approval": approval.id, "by": approval.decided_by, "reason": approval.reason}
        return _entry(waiting, "verdict", approval.status, about)

    def _timeout(self, waiting: Waiting) -> JournalEntry | None:
        return _entry(waiting, "event", None, {"timeout": True}) if self._is_late(waiting) else None

    def _approval(self) -> str:
        waiting = self._require_waiting_for("approval")
        assert waiting.approval is not None, "a run that waits for approval has asked for it"
        return waiting.approval

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
        stored = read_run(self._memory, self.id, verified=verified)
        if (stored.summary.status, stored.summary.head) != (self.status, self._stored.summary.head):
            raise self._conflict(stored.summary.status)
        return stored

    def _reload_running(self) -> StoredRun:
        """Return a run whose process may be gone, with its newest event."""
        stored, last = read_run(self._memory, self.id), self.events[-1]
        if stored.summary.status != "running":
            raise self._conflict(stored.summary.status)
        return msgspec.structs.replace(
            stored, summary=msgspec.structs.replace(stored.summary, events=last.index, head=last.hash)
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


def _entry(waiting: Waiting, kind: EntryKind, value: Any, about: dict[str, Any] | None = None) -> JournalEntry:
    return JournalEntry(step=waiting.step, time=waiting.time, kind=kind, value=value, about=about or {})


def _article(kind: str) -> str:
    return "another run" if kind == "run" else f"an {kind}"
