"""The outcome of a tool call: a value or a failure."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

FailureKind = Literal["tool_error", "tool_timeout", "validation_error", "api_error"]


class ToolFailure(msgspec.Struct, frozen=True):
    """Why a call failed: its kind as `ON_ERROR` names it, and a message."""

    kind: FailureKind
    message: str
    subtype: str = ""
    """The class of an exception, the code of a MemorandaError, or an HTTP status."""
    details: dict[str, Any] = {}
    """The details of a MemorandaError."""


class Outcome(msgspec.Struct, frozen=True):
    """The result of a call as JSON values, or a failure."""

    value: Any = None
    failure: ToolFailure | None = None


def failure_outcome(kind: FailureKind, message: str, subtype: str = "") -> Outcome:
    """Return the outcome of a failed call."""
    return Outcome(failure=ToolFailure(kind, message, subtype))


class ToolError(Exception):
    """Raised inside a call to end it with a failure of a certain kind."""

    def __init__(self, kind: FailureKind, message: str, subtype: str = "") -> None:
        """Create an error with its failure."""
        super().__init__(message)
        self.failure = ToolFailure(kind, message, subtype)
