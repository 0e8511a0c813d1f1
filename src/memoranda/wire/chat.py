"""Chat, conversations, agent sessions and sleep-time jobs on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from memoranda.model.block import MOST_MATCHES, BlockScope, BlockType, check_lines
from memoranda.model.limits import check_count
from memoranda.wire.codec import between

EventType = Literal["start", "delta", "retract", "tool_request", "tool_response", "end", "error"]
Lines = Annotated[int, between(1, MOST_MATCHES)]


class MemoryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which memory the model sees in this run; omitted fields keep the values of the agent."""

    archival_mode: Literal["tool_only", "auto", "off"] | msgspec.UnsetType = msgspec.UNSET
    archival_limit: Lines | msgspec.UnsetType = msgspec.UNSET
    archival_min_score: float | msgspec.UnsetType | None = msgspec.UNSET
    include_user_core: bool | msgspec.UnsetType = msgspec.UNSET
    include_agent_core: bool | msgspec.UnsetType = msgspec.UNSET
    definitions: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Slugs of memory definitions whose records are shown, and may be updated."""
    collections: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Collections that are searched too: `kb`, or `project:atlas#kb`."""

    def __post_init__(self) -> None:
        """Check the limit with the engine's own error."""
        if self.archival_limit is not msgspec.UNSET:
            check_lines(self.archival_limit, path="archival_limit")


class SendMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message to an agent. One that is sent again with the same `message_id` is answered once."""

    message: str
    conversation_id: str
    message_id: str
    stream: bool = True
    """Whether the reply is streamed as server-sent events; otherwise it is one JSON object."""
    memory_policy: MemoryPolicy | None = None
    model: str | None = None
    """The model of this run, as `provider:model`, instead of the agent's own."""
    temperature: float | None = None
    max_tokens: Annotated[int, between(1)] | None = None

    def __post_init__(self) -> None:
        """Check the number of tokens with the engine's own error."""
        check_count("number of tokens", self.max_tokens, least=1, path="max_tokens")


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The model usage of a reply."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of an agent."""

    text: str
    agent_id: str
    conversation_id: str
    message_id: str
    parts: list[Part]
    usage: Usage
    replayed: bool = False
    """Whether the message was answered before and this is the earlier reply."""


class ChatEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a server-sent event of a reply."""

    type: EventType
    seq: int
    """The `id` of the event, increasing within the conversation, with gaps."""
    conversation_id: str
    message_id: str
    content: str = ""
    call_id: str = ""
    tool: str = ""
    timestamp: datetime
    metadata: dict[str, Any] = {}


class PreviewPrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message whose prompt is previewed."""

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
    """What a model would be sent: the system prompt, the messages, and the hidden reminders of this message."""

    system: str
    messages: list[PromptMessage]
    system_reminders: str = ""
    tools: list[PromptTool] = []
    token_estimate: int


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a conversation that is not hidden from the user."""

    seq: int
    kind: Literal["user", "agent_text", "tool_request", "tool_response", "system_event"]
    text: str
    """The text; of a tool call its arguments, of a tool result the result, as JSON."""
    at: datetime
    message_id: str
    call_id: str = ""
    tool: str = ""
    failed: bool = False


ConversationKind = Literal["chat", "workflow"]


class ConversationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation without its parts."""

    id: str
    agent_id: str
    opened_at: datetime
    last_at: datetime
    last_seq: int
    has_active_generation: bool
    kind: ConversationKind = "chat"
    workflow: str = ""
    """Of a conversation with a workflow: the name of the workflow that was last part of it."""
    closed: bool = False
    """Whether no message can be added."""


class Conversation(ConversationSummary, frozen=True, kw_only=True):
    """A conversation with its parts, ordered by `seq`; if there are more, `next` is the `after` of the next page."""

    parts: list[Part]
    next: int | None = None


class Conversations(msgspec.Struct, frozen=True, kw_only=True):
    """A page of conversations, most recently active first."""

    conversations: list[ConversationSummary]
    next: str | None = None


SessionStatus = Literal["waiting", "completed", "escalated", "handed_off", "blocked"]


class StartSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to start; `vars` are variables that the agent declares as input."""

    project: str = "default"
    vars: dict[str, Any] = {}


class SayToSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of the user."""

    text: str


class SessionTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a turn."""

    number: int
    messages: list[str]
    status: SessionStatus
    agent: str
    """The active agent."""
    step: str | None = None
    """The current step."""
    escalation: dict[str, Any] | None = None
    """For a person who takes over: the reason, the priority and the context."""


class PastTurn(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier turn; the first one has no input."""

    number: int
    input: str | None = None
    messages: list[str]
    status: SessionStatus


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session with its turns; if there are more, `next` is the `after` of the next page."""

    id: str
    agent: str
    """The active agent."""
    project: str
    status: SessionStatus
    step: str | None = None
    turns: list[PastTurn]
    next: int | None = None


JobState = Literal["waiting", "running", "done", "dead"]


class SleepJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that learns from a conversation, and its result."""

    user: str
    conversation_id: str
    kind: str = "sleep"
    """`sleep` for a conversation that has settled, `learn` for messages whose model failed."""
    state: JobState
    attempts: int
    due_at: datetime
    finished_at: datetime | None = None
    error: str = ""
    """The error of the last attempt."""
    added: int = 0
    """Number of lines added to the blocks by the last run; of a job of the kind `learn`, of statements."""
    removed: int = 0
    undone: bool = False
    """Whether that was undone."""


class SleepJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs, ordered by due time."""

    jobs: list[SleepJob]
    next: str | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A line added to a block or removed from it."""

    change: Literal["added", "removed"]
    scope: BlockScope
    block: BlockType
    line: str


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that an undo made to the blocks."""

    changes: list[Change]


class ForgottenConversation(msgspec.Struct, frozen=True, kw_only=True):
    """The lines removed with a conversation: those learned only from it."""

    removed: list[str]
