"""Conversations as they travel: where they stand, and their parts in order."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a conversation that is not hidden from the user."""

    seq: int
    kind: Literal["user", "agent_text", "tool_request", "tool_response", "system_event"]
    text: str
    """What was said; of a call its arguments, of its result the result, both as JSON."""
    at: datetime
    message_id: str
    call_id: str = ""
    tool: str = ""
    failed: bool = False


class ConversationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Where a conversation stands."""

    id: str
    agent_id: str
    opened_at: datetime
    last_at: datetime
    last_seq: int
    has_active_generation: bool


class Conversation(ConversationSummary, frozen=True, kw_only=True):
    """A conversation with its parts, ordered by `seq`; where there are more, `next` is the `after` that gives them."""

    parts: list[Part]
    next: int | None = None


class Conversations(msgspec.Struct, frozen=True, kw_only=True):
    """A page of conversations, the one spoken in last first."""

    conversations: list[ConversationSummary]
    next: str | None = None
