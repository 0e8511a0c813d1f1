"""The events of a run, written as its chain in the ledger.

Events are written together with the next effect of the program, before it happens: what was allowed is on record
first. A run that executes again after a pause makes its events anew; those already in the ledger are skipped. Events
may come from several threads.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any

from memoranda.api.memory import Memory
from memoranda.engine.facts import SetFact
from memoranda.errors import MemorandaError
from memoranda.governance.runs import RecordRun
from memoranda.model.event import GENESIS, Decision, Recorded, RunEventKind, RunNote
from memoranda.model.scope import Scope
from memoranda.runs.outcome import Unrecorded
from memoranda.runs.steps import NO_STEP, OpenStep, StepLog, current_step

_BATCH = 256
"""Maximum number of events that wait where the program has no effects."""


class Recorder:
    """Collects the events of one execution; without a memory, as in a replay, it does not write them."""

    def __init__(
        self,
        memory: Memory | None,
        scope: Scope,
        run: str,
        *,
        index: int = 0,
        head: str = GENESIS,
        passed: int = 0,
        owner: Scope | None = None,
    ) -> None:
        """Continue after the event with this index and hash; skip the first `passed` events of this execution."""
        self._memory = memory
        self._scope = scope
        self._run = run
        self._owner = owner
        self._passed = passed
        self.index = index
        self.head: str = head
        self.made: list[RunNote] = []
        """Every event of an execution without a memory."""
        self._count = 0
        self._waiting: list[RunNote] = []
        self._lock = RLock()
        self.steps: StepLog | None = None
        """What is recorded of its steps, where anything is."""
        self.opening: Callable[[], tuple[SetFact, ...]] | None = None
        """Makes the writes that go with the first events."""

    def note(
        self,
        kind: RunEventKind,
        step: str | None = None,
        *,
        decision: Decision = "allow",
        payload: bytes | None = None,
        detail: dict[str, Any],
    ) -> None:
        """Add an event; the next flush writes it."""
        event = RunNote(kind=kind, step=step, decision=decision, payload=payload, detail=detail)
        with self._lock:
            self._count += 1
            if self._memory is None:
                self.made.append(event)
            elif self._count > self._passed:
                self._waiting.append(event)
                if len(self._waiting) >= _BATCH:
                    self.flush()

    def step(self, step: str, type: str) -> OpenStep:
        """Return a step that begins, to be recorded at the end of its `with` block."""
        return NO_STEP if self.steps is None else self.steps.step(step, type)

    @property
    def current_step(self) -> OpenStep:
        """The step that runs now."""
        # Where nothing is recorded, the step in the context is one of the program that called this one.
        return NO_STEP if self.steps is None else current_step()

    def is_known(self) -> bool:
        """Return whether an earlier execution made the newest event of this one."""
        return self._count <= self._passed

    @property
    def catching_up(self) -> bool:
        """Whether this execution has not reached the point where the run paused."""
        return self._count < self._passed

    def flush(self, writes: tuple[SetFact, ...] = (), *, ends: Scope | None = None) -> Recorded | None:
        """Write the waiting events, these facts and the end of a scope of the run in one transaction."""
        with self._lock:
            if self._memory is None or not (self._waiting or writes):
                self._waiting.clear()
                return None
            if self.opening is not None:
                writes = writes or self.opening()
                self.opening = None
            effect = RecordRun(
                scope=self._scope,
                run=self._run,
                index=self.index,
                previous=self.head,
                notes=tuple(self._waiting),
                writes=writes,
                owner=self._owner,
                ends=ends,
            )
            try:
                recorded: Recorded = self._memory.perform(effect)
            except MemorandaError as error:
                raise Unrecorded(error) from error
            self.index, self.head = recorded.index, recorded.head
            self._waiting.clear()
            return recorded
