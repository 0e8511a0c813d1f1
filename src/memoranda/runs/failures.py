"""Why a step of a run failed: an error in, what is kept of it out."""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec

from memoranda.errors import MemorandaError
from memoranda.model.text import cleaned

LONGEST_MESSAGE = 4_000
"""Characters of an error's message that are kept."""
_LONGEST = 1_000
"""Characters of one detail."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a step failed, and a run that ended with it."""

    type: str
    """In one word, of those that its language has."""
    message: str
    step: str = ""
    details: dict[str, Any] = {}

    def __str__(self) -> str:
        """Return the step and what happened."""
        return f"{self.step}: {self.message}" if self.step else self.message


class Failed(Exception):
    """A step failed; whoever handles failures may go on from here."""

    def __init__(self, failure: Failure) -> None:
        """Carry a failure to whoever handles it."""
        super().__init__(failure.message)
        self.failure = failure


def details_of(error: MemorandaError) -> dict[str, Any]:
    """Return what an error says beside its message, as far as it can be kept."""
    told = {name: _kept(value) for name, value in error.details.items() if _can_be_kept(value)}
    if error.hint:
        told["hint"] = _kept(error.hint)
    return {**told, "code": error.code}


def _can_be_kept(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return value is None or isinstance(value, str)


def _kept(value: Any) -> Any:
    return cleaned(value, longest=_LONGEST) if isinstance(value, str) else value
