"""The trace of a turn: what happened, in order, as values and as readable text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from memoranda.errors import MemorandaError
from memoranda.runs.outcome import details_of

Kind = Literal[
    "input",
    "hook",
    "intent",
    "gathered",
    "corrected",
    "invalid",
    "asked",
    "rule",
    "entered",
    "left",
    "skipped",
    "exhausted",
    "chosen",
    "checked",
    "set",
    "cleared",
    "transformed",
    "called",
    "model",
    "remembered",
    "forgot",
    "recalled",
    "activated",
    "returned",
    "warning",
    "refused",
    "blocked",
    "error",
    "handed_off",
    "delegated",
    "escalated",
    "completed",
    "ended",
    "stopped",
    "logged",
]

EVENTS = frozenset(
    "called remembered forgot recalled warning refused blocked error".split()
    + "handed_off delegated escalated completed ended stopped".split()
)
"""The kinds that matter to the calling program; the others explain how the turn got there."""

LOGGED = frozenset({"warning", "stopped"})
"""The kinds that are logged."""

_LONGEST = 120
_LONGEST_MESSAGE = 400
_MESSAGES = frozenset({"failed", "message", "why"})
"""Details that end with what to do, so they are shown whole."""


class TraceEntry(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened in a turn: its kind, what it is about, and details."""

    kind: Kind
    about: str
    detail: Mapping[str, Any] = {}

    def __str__(self) -> str:
        """Return the entry as one line, without `details`, which repeats the other values for programs."""
        detail = ", ".join(
            f"{name} {_shorten(value, _LONGEST_MESSAGE if name in _MESSAGES else _LONGEST)}"
            for name, value in self.detail.items()
            if value is not None and name != "details"
        )
        line = f"{self.kind.replace('_', ' ')} {self.about}".rstrip()
        return f"{line}: {detail}" if detail else line


class Trace(tuple[TraceEntry, ...]):
    """The entries of a turn, in order; as text, one line each."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return one line for each entry."""
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        """Return the number of entries."""
        return f"<Trace of {len(self)} entries>"

    @property
    def events(self) -> tuple[TraceEntry, ...]:
        """The entries that matter to the calling program."""
        return tuple(entry for entry in self if entry.kind in EVENTS)


def refusal(error: MemorandaError) -> dict[str, Any]:
    """Return the details of a trace entry about a refusal: the reason, the error code and its details."""
    return {"why": error.message, "code": error.code, "details": details_of(error)}


def _shorten(value: Any, longest: int) -> str:
    if isinstance(value, str):
        text = value
    else:
        try:
            text = msgspec.json.encode(value).decode()
        except (TypeError, UnicodeEncodeError):
            text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
