"""The records of conversations, as they are stored in facts: chats, and conversations with workflows."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from memoranda.model.clock import Moment

PartKind = Literal["user", "agent_text", "tool_request", "tool_response", "system_event", "reminders"]
"""The kind of a part: a message of the user or the agent, a tool call or its result, or an addition of the system."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A part before it has a number."""

    kind: PartKind
    text: str
    """The text of a message; for a tool call its arguments, for a result the result, both as JSON."""
    hidden: bool = False
    """Whether only the model sees it."""
    call_id: str = ""
    """For a tool call and its result: the id of the call."""
    tool: str = ""
    failed: bool = False
    """For a result: whether the call failed."""
    covers: int = 0
    """For a summary: the number of the last part that it replaces."""


class Part(Draft, frozen=True, kw_only=True):
    """One part of a conversation."""

    seq: int
    """Its number in the conversation, starting at 1."""
    at: Moment
    message_id: str
    """The message of the user that it belongs to."""
    event: int = 0
    """The number of its last event; 0 if it has none."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a reply: requests to the model, input tokens and output tokens."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Active(msgspec.Struct, frozen=True, kw_only=True):
    """The lease of a reply in progress: for which message, and until when."""

    message_id: str
    until: Moment


class ConversationState(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a conversation."""

    agent_id: str
    opened_at: Moment
    last_at: Moment
    seq: int = 0
    events: int = 0
    covered: int = 0
    """The number of the last part that a summary replaces."""
    active: Active | None = None

    def is_held(self, now: datetime) -> bool:
        """Return whether a reply is in progress and its lease has not expired."""
        return self.active is not None and now < self.active.until


class MessageState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a user's message: its first part and, once it is answered, its last."""

    id: str
    first: int
    last: int | None = None
    last_event: int = 0
    usage: Usage = Usage()


class ThreadState(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a conversation with a workflow; its id and its owner are in the scope."""

    opened_at: Moment
    last_at: Moment
    channel: str | None = None
    count: int = 0
    closed: bool = False
    workflow: str | None = None


class ThreadMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a message in a conversation with a workflow."""

    text: str
    sender: str
    by_owner: bool
    at: Moment
