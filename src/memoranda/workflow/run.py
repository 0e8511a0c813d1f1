"""One run of a workflow: what came of it, and how to go on with it, or to end it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memoranda.errors import UsageError
from memoranda.model.run import OVER
from memoranda.model.text import quote
from memoranda.model.value import decode, encode, encode_checked
from memoranda.runs.handle import RunHandle
from memoranda.runs.keeping import KeptRun
from memoranda.runs.waiting import Waiting
from memoranda.workflow.actions.waiting import REPLY
from memoranda.workflow.keeping import Begun, State
from memoranda.workflow.keywords import RESERVED_CONTEXT

if TYPE_CHECKING:
    from memoranda.workflow.workflow import Workflow


class Run(RunHandle):
    """A run of a workflow that is over, or waits for somebody."""

    def __init__(
        self, workflow: Workflow, kept: KeptRun, begun: Begun, state: State, *, records: dict[str, Any] | None = None
    ) -> None:
        """Stand on what is kept of a run; `flow.run` and `flow.find` make these."""
        super().__init__(workflow.memory, kept)
        self._workflow = workflow
        self._begun = begun
        self._state = state
        self._records = records
        waiting = self.waiting
        self._called = workflow.standing(waiting.run if waiting is not None else None)
        """Where the run stands that this one waits for, and those that it waits for."""

    @property
    def workflow(self) -> str:
        """The name of its workflow."""
        return self.summary.program

    @property
    def owner(self) -> str:
        """Whose memory it has."""
        return self._begun.owner

    @property
    def thread(self) -> str | None:
        """The conversation that it is part of."""
        return self._begun.thread

    @property
    def input(self) -> dict[str, Any]:
        """What it began with."""
        return self._begun.input

    @property
    def outputs(self) -> dict[str, Any]:
        """What each task and each named loop gave last, by name; of a failed run, what was done so far."""
        return self._state.outputs

    @property
    def context(self) -> dict[str, Any]:
        """What `$context` holds: the records by slug at `memory`, of a run that was found again as they stand now."""
        if self._records is None:
            self._records = self._workflow.records_of(self.id, self._begun)
        return {**self._state.context, RESERVED_CONTEXT: decode(encode(self._records))}

    @property
    def messages(self) -> list[str]:
        """What it said to its owner."""
        return list(self._state.messages)

    def deliver(self, payload: Any = None) -> Run:
        """Give the run what it waits for, and go on; a text also becomes the owner's message in the thread.

        If it waits for a workflow that it called, that one is given it, and this one goes on when that one is over.
        """
        self._workflow.ensure_installed()
        payload = decode(encode_checked(payload, self._memory.limits))
        waiting = self._require_waiting()
        if waiting.kind == "run":
            called = self._called_run(waiting)
            if called.status == "running":
                raise self._gone_on_elsewhere(called.status)
            if called.status == "waiting":
                called.deliver(payload)
            return self._workflow.gone_on(self._as_it_waits(), ())
        waiting = self._waits_for("event")
        if self._is_late(waiting):
            return self.resume()
        if payload is None and waiting.event == REPLY:
            raise UsageError(
                f"the run {quote(self.id)} waits for what its owner says, and nothing is delivered",
                hint='Deliver "…" or {"text": "…"}; `resume` sees whether its time is over',
            )
        self._workflow.ensure_said(self._begun, payload)
        return self._workflow.gone_on(self._as_it_waits(), (payload,))

    def _called_run(self, waiting: Waiting) -> Run:
        """Return the run that this one waits for, or raise Conflict: somebody else may have gone on with it."""
        called = self._workflow.find_called(waiting.run or "")
        if ((called.id, called.summary.head), *called._called) != self._called:
            raise self._gone_on_elsewhere(called.status)
        return called

    def resume(self) -> Run:
        """Go on if what the run waits for is there: the end of a time, or of the workflow that it called.

        A run that still waits is returned as it is.
        """
        self._workflow.ensure_installed()
        waiting = self._require_waiting()
        if waiting.kind == "run":
            called = self._workflow.find_called(waiting.run or "")
            moved = called.resume() if called.status == "waiting" else called
            if moved is called and called.status not in OVER:
                return self
            return self._workflow.gone_on(self._as_it_waits(), ())
        if not self._is_late(waiting):
            return self
        # What comes too late is nothing.
        return self._workflow.gone_on(self._as_it_waits(), (None,))

    def cancel(self, *, reason: str = "", force: bool = False) -> Run:
        """End a run that waits, and the workflow that it called and waits for; the records of both runs are removed.

        With `force`, one that is `running` is ended too: its process may be gone. If it is not, it gets a Conflict with
        its next task.
        """
        if force and self.status == "running":
            return self._workflow.cancelled(self._as_it_runs(), reason)
        waiting = self._require_waiting()
        if waiting.run is not None:
            called = self._workflow.find_called(waiting.run, verified=False)
            if called.status not in OVER:
                called.cancel(reason=reason, force=force)
        return self._workflow.cancelled(self._as_it_waits(verified=False), reason)
