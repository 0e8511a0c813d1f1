"""How a run ends or pauses, and `execute`, which takes a program there and puts the end on record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from memoranda.errors import NEUTRAL_WORDS, MemorandaError, render_hint
from memoranda.model.event import RunStatus
from memoranda.model.limits import Limits
from memoranda.model.text import storable_text
from memoranda.model.value import encode_checked
from memoranda.runs.provenance import OWN, Provenance

if TYPE_CHECKING:
    from memoranda.runs.recorder import Recorder

T = TypeVar("T")

LONGEST_MESSAGE = 4_000
"""Maximum length of a stored error message, in characters."""
_LONGEST_DETAIL = 1_000


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a step failed, or the run that ended with it."""

    type: str
    """One of the failure types of the run's language."""
    message: str
    step: str = ""
    details: dict[str, Any] = {}

    def __str__(self) -> str:
        """Return the step and the message."""
        return f"{self.step}: {self.message}" if self.step else self.message


class StepFailed(Exception):
    """A step failed; the program may handle it."""

    def __init__(self, failure: Failure) -> None:
        """Wrap a failure."""
        super().__init__(failure.message)
        self.failure = failure


def details_of(error: MemorandaError) -> dict[str, Any]:
    """Return the details, hint and code of an error, as far as they can be stored."""
    details = {name: _shorten(value) for name, value in error.details.items() if _is_storable(value)}
    hint = render_hint(error.advice, NEUTRAL_WORDS)
    if hint:
        details["hint"] = _shorten(hint)
    return {**details, "code": error.code}


def _is_storable(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return value is None or isinstance(value, str)


def _shorten(value: Any) -> Any:
    return storable_text(value, longest=_LONGEST_DETAIL) if isinstance(value, str) else value


class Waiting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run waits for: a decision about a step, an event from outside, or the run of another program."""

    kind: Literal["approval", "event", "run"]
    step: str
    time: int = 1
    """How many times the step had been entered, this time included."""
    capability: str | None = None
    approval: str | None = None
    event: str | None = None
    deadline: datetime | None = None
    run: str | None = None
    about: dict[str, Any] = {}
    """The request, shortened, for the person who decides."""


class Paused(Exception):
    """The run has to wait; only the end of its execution catches this."""

    def __init__(self, waiting: Waiting) -> None:
        """Wrap what the run waits for."""
        super().__init__(waiting.kind)
        self.waiting = waiting


class Unrecorded(Exception):
    """The run's events cannot be written, so it must not continue; only the end of its execution catches this."""

    def __init__(self, error: MemorandaError) -> None:
        """Wrap the error of the write."""
        super().__init__(error.message)
        self.error = error


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended."""

    status: RunStatus
    output: Any = None
    error: Failure | None = None
    waiting: Waiting | None = None
    position: tuple[Any, ...] = ()
    """Where a waiting run continues; empty for a run that executes again from its beginning."""


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a called program as its caller sees it: its status, its output, or why it failed."""

    run: str
    status: RunStatus
    output: Any = None
    message: str = ""
    messages: tuple[str, ...] = ()
    """The messages that it sent meanwhile."""
    provenance: Provenance = OWN
    """Where its output comes from."""


def execute(
    recorder: Recorder,
    act: Callable[[], Outcome],
    keep: Callable[[Outcome], T],
    *,
    limits: Limits,
    said: dict[str, Any] | None = None,
) -> T:
    """Execute a program; `keep` stores the outcome with the last events, and `said` is added to the last event."""

    def end(outcome: Outcome) -> T:
        if outcome.status != "waiting":
            detail: dict[str, Any] = {"status": outcome.status, **(said or {})}
            if outcome.error is not None:
                detail |= {"error": outcome.error.type, "at": outcome.error.step}
            recorder.note("exec_end", payload=encode_checked(outcome.output, limits), detail=detail)
        return keep(outcome)

    try:
        try:
            outcome = act()
        except Unrecorded:
            raise
        except BaseException as error:
            # Without a last event the run would look as if it were still running.
            message = f"the run was interrupted by {type(error).__name__}"
            with suppress(Unrecorded):
                end(Outcome(status="failed", error=Failure(type="runtime", message=message)))
            raise
        return end(outcome)
    except Unrecorded as broken:
        raise broken.error from broken
