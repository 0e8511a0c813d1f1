"""Chat as it travels: a message to an agent, the answer, what happens while it is made, and a prompt to look at."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from memoranda.model.block import MOST_MATCHES, check_lines
from memoranda.model.limits import check_count
from memoranda.wire.bounds import between
from memoranda.wire.conversations import Part

EventType = Literal["start", "delta", "retract", "tool_request", "tool_response", "end", "error"]
Lines = Annotated[int, between(1, MOST_MATCHES)]


class MemoryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which memory the model is shown in this run; what is left out is as the agent has it."""

    archival_mode: Literal["tool_only", "auto", "off"] | msgspec.UnsetType = msgspec.UNSET
    archival_limit: Lines | msgspec.UnsetType = msgspec.UNSET
    archival_min_score: float | msgspec.UnsetType | None = msgspec.UNSET
    include_user_core: bool | msgspec.UnsetType = msgspec.UNSET
    include_agent_core: bool | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Refuse a number of lines that cannot be asked for, in the words of the engine."""
        if self.archival_limit is not msgspec.UNSET:
            check_lines(self.archival_limit, path="archival_limit")


class SendMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the user says, and where. A message that is sent again under its `message_id` is answered once."""

    message: str
    conversation_id: str
    message_id: str
    stream: bool = True
    """Whether the answer comes as server-sent events, while it is made; else as one JSON object."""
    memory_policy: MemoryPolicy | None = None
    model: str | None = None
    """Who answers in this run, as `provider:model`, instead of the agent's own model."""
    temperature: float | None = None
    max_tokens: Annotated[int, between(1)] | None = None

    def __post_init__(self) -> None:
        """Refuse a number of tokens that says nothing, in the words of the engine."""
        check_count("number of tokens", self.max_tokens, least=1, path="max_tokens")


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer took."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's answer, and what belongs to it."""

    text: str
    agent_id: str
    conversation_id: str
    message_id: str
    parts: list[Part]
    usage: Usage
    replayed: bool = False
    """Whether the message was answered before, and this is that answer."""


class ChatEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened while an answer was made: the data of a server-sent event."""

    type: EventType
    seq: int
    """Higher than that of every event before it in the conversation, with gaps; the `id` of the event."""
    conversation_id: str
    message_id: str
    content: str = ""
    call_id: str = ""
    tool: str = ""
    timestamp: datetime
    metadata: dict[str, Any] = {}


class PreviewPrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message whose prompt is looked at: nothing is asked, nothing is written."""

    message: str
    conversation_id: str | None = None
    memory_policy: MemoryPolicy | None = None


class PromptCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model made in an earlier turn."""

    id: str
    name: str
    arguments: dict[str, Any]


class PromptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a prompt."""

    role: Literal["user", "assistant", "tool"]
    text: str
    calls: list[PromptCall] = []
    call_id: str = ""
    tool: str = ""


class PromptTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model may call."""

    name: str
    description: str
    parameters: dict[str, Any]


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a model would be sent: the system's part, the messages, and the hidden reminders of this message."""

    system: str
    messages: list[PromptMessage]
    system_reminders: str = ""
    tools: list[PromptTool] = []
    token_estimate: int
