"""The steps of a program in, how they ended out, on record: the last event of a run, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from memoranda.model.limits import Limits
from memoranda.model.run import RunStatus
from memoranda.model.value import encode_checked
from memoranda.runs.failures import Failure
from memoranda.runs.recording import Recorder
from memoranda.runs.waiting import Unrecorded, Waiting

T = TypeVar("T")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended."""

    status: RunStatus
    output: Any = None
    error: Failure | None = None
    waiting: Waiting | None = None
    position: tuple[Any, ...] = ()
    """Of a run that waits, where it stands; empty for those that go on from their beginning."""


def execute(
    recorder: Recorder,
    act: Callable[[], Outcome],
    keep: Callable[[Outcome], T],
    *,
    limits: Limits,
    said: dict[str, Any] | None = None,
) -> T:
    """Do what a run does; `keep` writes down what came of it, with the last events. `said` goes into the last one."""

    def end(outcome: Outcome) -> T:
        if outcome.status != "waiting":
            detail: dict[str, Any] = {"status": outcome.status, **(said or {})}
            if outcome.error is not None:
                detail |= {"error": outcome.error.type, "at": outcome.error.step}
            recorder.note("exec_end", payload=encode_checked(outcome.output, limits), detail=detail)
        return keep(outcome)

    try:
        return end(_acted(act, end))
    except Unrecorded as broken:
        raise broken.error from broken


def _acted(act: Callable[[], Outcome], end: Callable[[Outcome], Any]) -> Outcome:
    try:
        return act()
    except Unrecorded:
        raise
    except BaseException as error:
        # A run that nobody ends would look as if it still went on. If it cannot be recorded either, that is how it is.
        message = f"the run was interrupted by {type(error).__name__}"
        with suppress(Unrecorded):
            end(Outcome(status="failed", error=Failure(type="runtime", message=message)))
        raise
