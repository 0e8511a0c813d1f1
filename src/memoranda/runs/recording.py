"""The events of a run in, its chain in the ledger out.

Events are written together with the next thing that reaches out of the program, before it happens: what was allowed is
on record first. A run that goes on after a pause makes its events anew, and those that are in the ledger already are
passed over. Events may come from several threads.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any

from memoranda.api.memory import Memory
from memoranda.errors import MemorandaError
from memoranda.model.effect import RecordRun, SetFact
from memoranda.model.event import GENESIS, Decision
from memoranda.model.run import Recorded, RunEventKind, RunNote
from memoranda.model.scope import Scope
from memoranda.runs.waiting import Unrecorded

_TOGETHER = 256
"""Events that may wait to be written where nothing reaches out."""


class Recorder:
    """Collects the events of one execution; without a memory, as in a replay, they are only collected."""

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
        """Go on behind the event of this index and hash; an execution that makes its events anew passes over some."""
        self._memory = memory
        self._scope = scope
        self._run = run
        self._owner = owner
        self._passed = passed
        """How many events of this execution are in the ledger already."""
        self.index = index
        self.head: str = head
        self.made: list[RunNote] = []
        """Every event of an execution that is not recorded."""
        self._count = 0
        self._waiting: list[RunNote] = []
        self._lock = RLock()
        self.opening: Callable[[], tuple[SetFact, ...]] | None = None
        """Writes that go along with the first events."""

    def note(
        self,
        kind: RunEventKind,
        step: str | None = None,
        *,
        decision: Decision = "allow",
        payload: bytes | None = None,
        detail: dict[str, Any],
    ) -> None:
        """Take an event; it is written by the next flush."""
        event = RunNote(kind=kind, step=step, decision=decision, payload=payload, detail=detail)
        with self._lock:
            self._count += 1
            if self._memory is None:
                self.made.append(event)
            elif self._count > self._passed:
                self._waiting.append(event)
                if len(self._waiting) >= _TOGETHER:
                    self.flush()

    @property
    def catching_up(self) -> bool:
        """Whether this execution has not yet come to where the run stood."""
        return self._count < self._passed

    def flush(self, writes: tuple[SetFact, ...] = (), *, ends: Scope | None = None) -> Recorded | None:
        """Write what waits, together with these writes and the end of a scope of the run, in one transaction."""
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
