"""Runs of machines and workflows, as Python calls them."""

from __future__ import annotations

import builtins
from datetime import datetime

from memoranda.api.desk import Desk
from memoranda.errors import NotFound, UsageError
from memoranda.model.approval import Approval
from memoranda.model.effect import ReadDecision, ReadRunEvents, ReadRuns, VerifyRun
from memoranda.model.limits import check_count
from memoranda.model.run import LANGUAGES, RUN_STATUSES, Language, RunEvent, RunStatus, RunSummary, RunVerification
from memoranda.model.scope import Scope
from memoranda.model.text import check_label, quote


class Runs(Desk):
    r"""What machines and workflows did: where each run stands, its events, and whether they are whole.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     machine = memoranda.mashin.load('machine tea\n  implements\n    compute cup\n      "hot"\n', memory=memory)
    ...     run = machine.run({}).id
    ...     [(one.program, one.status) for one in memory.runs.list()]
    ...     memory.runs.get(run).steps, [event.kind for event in memory.runs.events(run)]
    ...     memory.runs.verify(run).ok
    [('tea', 'completed')]
    (1, ['exec_start', 'step_record', 'exec_end'])
    True
    """

    def list(
        self,
        *,
        program: str | None = None,
        language: Language | None = None,
        status: RunStatus | None = None,
        owner: Scope | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int | None = None,
    ) -> list[RunSummary]:
        """Return where runs stand, those that started last first; all of them, or those of one program or status.

        `owner` is whose runs: those whose memory is that scope or lies below it. `after` goes on behind a run, by when
        it started and its id.
        """
        check_label("program", program)
        check_count("limit", limit)
        if language is not None and language not in LANGUAGES:
            raise UsageError(f"{quote(language)} is not a language", hint=f"Programs are in {', '.join(LANGUAGES)}")
        if status is not None and status not in RUN_STATUSES:
            raise UsageError(f"{quote(status)} is not a status", hint=f"A run is one of {', '.join(RUN_STATUSES)}")
        effect = ReadRuns(
            scope=self._shared,
            program=program,
            language=language,
            status=status,
            owner=owner,
            after=after,
            limit=limit,
        )
        return self._perform(effect)

    def get(self, run: str) -> RunSummary:
        """Return where one run stands."""
        found: list[RunSummary] = self._perform(ReadRuns(scope=self._shared, run=run))
        if not found:
            raise _missing(run)
        return found[0]

    def events(
        self, run: str, *, after: int = 0, limit: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[RunEvent]:
        """Return the events of a run, in order; `after` is the position of the last one seen.

        With `max_bytes` the list ends with the event whose detail exceeds it.
        """
        check_count("position", after)
        check_count("limit", limit)
        check_count("number of bytes", max_bytes, least=1)
        effect = ReadRunEvents(scope=self._shared, run=run, after=after, limit=limit, max_bytes=max_bytes)
        found: list[RunEvent] = self._perform(effect)
        if not found and not after and limit != 0:
            raise _missing(run)
        return found

    def decision(self, run: str, approval: str) -> Approval:
        """Return what was decided about a step that a run waits with; who may see runs needs no other right."""
        return self._perform(ReadDecision(scope=self._shared, run=run, approval=approval))

    def verify(self, run: str) -> RunVerification:
        """Walk the chain of a run and compare its end with the run's record."""
        return self._perform(VerifyRun(scope=self._shared, run=run))


def _missing(run: str) -> NotFound:
    return NotFound(f"there is no run {quote(run)}", hint="List them with memory.runs.list()")
