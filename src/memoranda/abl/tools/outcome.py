"""What a tool call comes to: a value, or a failure that says what went wrong."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

FailureKind = Literal["tool_error", "tool_timeout", "validation_error", "api_error"]


class Failure(msgspec.Struct, frozen=True):
    """Why a call gave no result: its kind as `ON_ERROR` names it, and a message."""

    kind: FailureKind
    message: str
    subtype: str = ""
    """The class of the exception, the code of one of ours, or the status of an HTTP answer."""
    details: dict[str, Any] = {}
    """What one of our errors says beside its message."""


class Outcome(msgspec.Struct, frozen=True):
    """The result of a call as plain JSON values, or a failure."""

    value: Any = None
    failure: Failure | None = None


def failed(kind: FailureKind, message: str, subtype: str = "") -> Outcome:
    """Return the outcome of a call that failed."""
    return Outcome(failure=Failure(kind, message, subtype))


class Failed(Exception):
    """Raised where a call is carried out, to end it with a failure of a kind of its own."""

    def __init__(self, kind: FailureKind, message: str, subtype: str = "") -> None:
        """Keep the failure."""
        super().__init__(message)
        self.failure = Failure(kind, message, subtype)
