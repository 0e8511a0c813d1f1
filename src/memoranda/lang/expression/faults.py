"""What goes wrong while an expression runs, as one typed error that knows its place."""

from __future__ import annotations

from memoranda.errors import EvaluationFailed
from memoranda.lang.source import Span


def failed(message: str, hint: str = "") -> EvaluationFailed:
    """Return the error of an operator or function, which does not know where it stands."""
    return EvaluationFailed(message, hint=hint, span=None)


def located(fault: EvaluationFailed, span: Span) -> EvaluationFailed:
    """Return the error with its place, unless a part further inside gave it one."""
    if fault.details.get("span") is None:
        fault.details["span"] = span
    return fault
