"""One run of a workflow: its stored state, and the handle to inspect, resume and cancel it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from memoranda.errors import UsageError
from memoranda.model.event import OVER
from memoranda.model.text import quote
from memoranda.model.value import decode, encode
from memoranda.runs.outcome import Waiting
from memoranda.runs.provenance import OWN, Provenance, Provenances
from memoranda.runs.run import RunHandle
from memoranda.runs.storage import JournalEntry, StoredRun
from memoranda.workflow.actions.builtin import REPLY
from memoranda.workflow.keywords import RESERVED_CONTEXT
from memoranda.workflow.runtime.state import OUTPUT, Execution, Strand

if TYPE_CHECKING:
    from memoranda.workflow.workflow import Workflow


class Begun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The arguments a run was started with."""

    input: dict[str, Any]
    owner: str
    thread: str | None = None
    depth: int = 1
    """The depth of workflow calls, including this one."""
    provenance: Provenance = OWN
    """Where the input comes from, as far as a workflow that called it knows."""


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a run that has ended or is suspended; its memory is loaded again when it resumes."""

    outputs: dict[str, Any] = {}
    context: dict[str, Any] = {}
    messages: tuple[str, ...] = ()
    steps: int = 0
    position: tuple[Any, ...] = ()
    provenances: tuple[Any, ...] = ()
    """Those of what is not the workflow's own, as JSON."""


def state_of(execution: Execution, strand: Strand, position: tuple[Any, ...]) -> State:
    """Return the state of an execution."""
    return State(
        outputs=strand.outputs,
        context=strand.context,
        messages=tuple(execution.messages),
        steps=execution.steps,
        position=position,
        provenances=tuple(strand.provenances.dump()),
    )


def entries_of(state: State) -> tuple[JournalEntry, ...]:
    """Return a state as journal entries: one for each output, then the rest."""
    outputs = (JournalEntry(step=name, time=1, kind="result", value=value) for name, value in state.outputs.items())
    rest = msgspec.to_builtins(msgspec.structs.replace(state, outputs={}))
    return (*outputs, JournalEntry(step="", time=1, kind="state", value=rest))


def state_from(entries: Iterable[JournalEntry]) -> State:
    """Return the state that journal entries hold."""
    outputs: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for entry in entries:
        if entry.kind == "result":
            outputs[entry.step] = entry.value
        elif entry.kind == "state":
            rest = entry.value
    return msgspec.convert({**rest, "outputs": outputs}, State)


class Run(RunHandle["Workflow"]):
    """A run of a workflow that is over, or waiting."""

    def __init__(self, workflow: Workflow, stored: StoredRun, *, records: dict[str, Any] | None = None) -> None:
        """Wrap a stored run; `Workflow.run` and `Workflow.find` create these."""
        super().__init__(workflow, stored)
        self._begun = msgspec.convert(stored.begun, Begun)
        self._state = state_from(stored.entries)
        self._records = records
        waiting = self.waiting
        self._called = workflow.run_heads(waiting.run if waiting is not None else None)
        """The heads of the run that this one waits for, and of those that it waits for in turn."""

    @property
    def workflow(self) -> str:
        """The name of its workflow."""
        return self.summary.program

    @property
    def owner(self) -> str:
        """The user it runs for."""
        return self._begun.owner

    @property
    def thread(self) -> str | None:
        """The conversation that it is part of."""
        return self._begun.thread

    @property
    def input(self) -> dict[str, Any]:
        """Its input."""
        return self._begun.input

    @property
    def outputs(self) -> dict[str, Any]:
        """The latest output of each task and named loop; of a failed run, those so far."""
        return self._state.outputs

    @property
    def results(self) -> dict[str, Any]:
        """The outputs of its tasks, as `outputs`."""
        return self.outputs

    @property
    def context(self) -> dict[str, Any]:
        """The `$context`, with records by slug in `memory`; a run that was found again shows their present values."""
        if self._records is None:
            self._records = self._program.records_of(self.id, self._begun)
        return {**self._state.context, RESERVED_CONTEXT: decode(encode(self._records))}

    @property
    def _provenance(self) -> Provenance:
        return Provenances.load(self._state.provenances).of([OUTPUT])

    @property
    def messages(self) -> list[str]:
        """The messages it has sent to its owner."""
        return list(self._state.messages)

    def deliver(self, payload: Any = None) -> Run:
        """Deliver what the run waits for, and resume it; a text also becomes the owner's message in the thread.

        If it waits for a workflow that it called, the payload goes to that run, and this one resumes when that is over.
        """
        self._program.ensure_installed()
        waiting = self._require_waiting()
        if waiting.kind != "run":
            return super().deliver(payload)
        called = self._child_run(waiting)
        if called.status == "running":
            raise self._conflict(called.status)
        if called.status == "waiting":
            called.deliver(payload)
        return self._resume_with(None)

    def _child_run(self, waiting: Waiting) -> Run:
        """Return the run that this one waits for; raise Conflict if it was resumed elsewhere meanwhile."""
        called = self._program.find_called(waiting.run or "")
        if ((called.id, called.summary.head), *called._called) != self._called:
            raise self._conflict(called.status)
        return called

    def _accept(self, waiting: Waiting, payload: Any) -> Any:
        if payload is None and waiting.event == REPLY:
            raise UsageError(
                f"the run {quote(self.id)} waits for a reply of its owner, but nothing was delivered",
                hint='Deliver "…" or {"text": "…"}; `resume` checks whether it has timed out',
            )
        self._program.check_delivery(self._begun, payload)
        return payload

    def _resume_after(self, called: str) -> Run:
        found = self._program.find_called(called)
        moved = found.resume() if found.status == "waiting" else found
        return self if moved is found and found.status not in OVER else self._resume_with(None)
