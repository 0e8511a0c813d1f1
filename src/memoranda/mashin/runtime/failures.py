"""What ends a step early: a failure that can be caught, or a jump; and errors in, failures out."""

from __future__ import annotations

from typing import Any, Literal

from memoranda.errors import (
    EvaluationFailed,
    MemorandaError,
    ModelError,
    ModelFailed,
    QuotaExceeded,
    Refused,
    SchemaViolation,
)
from memoranda.model.text import cleaned
from memoranda.runs.failures import LONGEST_MESSAGE, Failed, Failure, details_of

FailureType = Literal[
    "permission_denied",
    "timeout",
    "model",
    "invalid_answer",
    "contract",
    "budget_exceeded",
    "guard",
    "machine",
    "runtime",
]
_OF_MODELS: dict[str, FailureType] = {"timeout": "timeout", "invalid_answer": "invalid_answer"}


class Jumped(Exception):
    """A `goto`: the flow that goes on in place of the one that runs."""

    def __init__(self, flow: str) -> None:
        """Carry the flow's name."""
        super().__init__(flow)
        self.flow = flow


def failed(type: FailureType, message: str, step: str, *, hint: str = "", **details: Any) -> Failed:
    """Return a failure of this type, ready to be raised."""
    given = {"hint": hint, **details} if hint else details
    return Failed(Failure(type=type, message=message, step=step, details=given))


def failure_of(error: MemorandaError, step: str) -> Failure:
    """Return an error of the engine, of a model or of an expression as the failure of a step."""
    message = cleaned(error.message, longest=LONGEST_MESSAGE)
    return Failure(type=_type_of(error), message=message, step=step, details=details_of(error))


def _type_of(error: MemorandaError) -> FailureType:
    if isinstance(error, QuotaExceeded):
        return "budget_exceeded"
    if isinstance(error, Refused):
        return "permission_denied"
    if isinstance(error, ModelFailed):
        return _OF_MODELS.get(error.details.get("reason", ""), "model")
    if isinstance(error, ModelError):
        return "model"
    if isinstance(error, SchemaViolation) and not isinstance(error, EvaluationFailed):
        return "contract"
    return "runtime"
