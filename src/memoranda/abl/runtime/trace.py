"""What happened in a turn, in order: for programs as events, for people as a readable trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, overload

import msgspec

from memoranda.errors import MemorandaError
from memoranda.runs.failures import details_of

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
]

EVENTS: frozenset[Kind] = frozenset(
    {
        "called",
        "remembered",
        "forgot",
        "recalled",
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
    }
)
"""What a program around the agent would want to know; the rest explains how it came to it."""

_LONGEST = 120


class Happening(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened: its kind, what it is about, and what there is to know of it."""

    kind: Kind
    about: str
    detail: Mapping[str, Any] = {}

    def __str__(self) -> str:
        """Return it as one line. What `details` holds is for programs: the words before it say the same."""
        told = ", ".join(
            f"{name} {_shown(value)}" for name, value in self.detail.items() if value is not None and name != "details"
        )
        line = f"{self.kind.replace('_', ' ')} {self.about}".rstrip()
        return f"{line}: {told}" if told else line


class Trace(Sequence[Happening]):
    """The happenings of a turn; as text, one line each."""

    def __init__(self, happenings: Sequence[Happening] = ()) -> None:
        """Hold what happened."""
        self._happenings = tuple(happenings)

    @overload
    def __getitem__(self, index: int) -> Happening: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Happening]: ...
    def __getitem__(self, index: int | slice) -> Happening | Sequence[Happening]:
        """Return one or several of them."""
        return self._happenings[index]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._happenings)

    def __iter__(self) -> Iterator[Happening]:
        """Give them in order."""
        return iter(self._happenings)

    def __str__(self) -> str:
        """Return one line for each."""
        return "\n".join(str(happening) for happening in self._happenings)

    def __repr__(self) -> str:
        """Return what it is, and how long."""
        return f"<Trace of {len(self._happenings)} happenings>"

    @property
    def events(self) -> tuple[Happening, ...]:
        """Those that a program around the agent would want to know."""
        return tuple(happening for happening in self._happenings if happening.kind in EVENTS)


def refusal(error: MemorandaError) -> dict[str, Any]:
    """Return what a trace says about something that was refused: why, the code of the error, and its details."""
    return {"why": error.message, "code": error.code, "details": details_of(error)}


def _shown(value: Any) -> str:
    if isinstance(value, str):
        text = value
    else:
        try:
            text = msgspec.json.encode(value).decode()
        except (TypeError, UnicodeEncodeError):
            text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
