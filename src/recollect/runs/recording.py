"""The events of a run in, its chain in the ledger out.

Events are written together with the next thing that reaches out of the program, before it happens: what was allowed is
on record first. A run that goes on after a pause makes its events anew, and those that are in the ledger already are
passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recollect.api.memory import Memory
from recollect.errors import RecollectError
from recollect.model.effect import RecordRun, SetFact
from recollect.model.event import GENESIS, Decision
from recollect.model.run import Recorded, RunEventKind, RunNote
from recollect.model.scope import Scope
from recollect.runs.waiting import Unrecorded

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
        owner: Scope | None = None,
    ) -> None:
        """Go on behind the event of this index and hash."""
        self._memory = memory
        self._scope = scope
        self._run = run
        self._owner = owner
        self._passed = index
        """How many events of this execution are in the ledger already."""
        self.index = index
        self.head: str = head
        self.made: list[RunNote] = []
        """Every event of this execution."""
        self._waiting: list[RunNote] = []
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
        self.made.append(event)
        if len(self.made) > self._passed:
            self._waiting.append(event)
            if len(self._waiting) >= _TOGETHER:
                self.flush()

    @property
    def catching_up(self) -> bool:
        """Whether this execution has not yet come to where the run stood."""
        return len(self.made) < self._passed

    @property
    def count(self) -> int:
        """The index of the last event once everything is written."""
        return self.index + len(self._waiting)

    def flush(self, writes: tuple[SetFact, ...] = ()) -> Recorded | None:
        """Write what waits, together with these writes, in one transaction."""
        if self._memory is None or not (self._waiting or writes):
            self._waiting.clear()
            return None
        if self.opening is not None and not writes:
            writes = self.opening()
        self.opening = None
        effect = RecordRun(
            scope=self._scope,
            run=self._run,
            index=self.index,
            previous=self.head,
            notes=tuple(self._waiting),
            writes=writes,
            owner=self._owner,
        )
        try:
            recorded: Recorded = self._memory.perform(effect)
        except RecollectError as error:
            raise Unrecorded(error) from error
        self.index, self.head = recorded.index, recorded.head
        self._waiting.clear()
        return recorded
