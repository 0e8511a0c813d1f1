"""Sessions of agents as they travel: how one begins, what is said, and what came of each turn."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SessionStatus = Literal["waiting", "completed", "escalated", "handed_off", "blocked"]


class StartSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a session begins; `vars` are variables that the agent declares as input."""

    project: str = "default"
    vars: dict[str, Any] = {}


class SayToSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user says."""

    text: str


class SessionTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one turn."""

    number: int
    messages: list[str]
    status: SessionStatus
    agent: str
    """The agent that has the conversation now."""
    step: str | None = None
    """The step that it is in."""
    escalation: dict[str, Any] | None = None
    """For a person who takes over: why, how urgent, and what they should know."""


class PastTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, and what was said to it; the first turn is before any input."""

    number: int
    input: str | None = None
    messages: list[str]
    status: SessionStatus


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session stands, with its turns; where there are more, `next` is the `after` that gives them."""

    id: str
    agent: str
    """The agent that has the conversation now."""
    project: str
    status: SessionStatus
    step: str | None = None
    turns: list[PastTurn]
    next: int | None = None
