"""Requests to a language model, and its replies, whole or streamed.

A `Model` answers one request at a time; the loop over tool calls is in `conversation.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec.structs import force_setattr, replace

from memoranda.agent.provider import model_failure
from memoranda.model.text import escape_hidden


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool that the model may call: its name, its description, and the JSON schema of its parameters."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call of the model."""

    id: str
    name: str
    arguments: dict[str, Any]


class Said(msgspec.Struct, frozen=True):
    """One message of a conversation: of the user, of the model with its tool calls, or the result of a call."""

    role: Literal["user", "assistant", "tool"]
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    """For a result: the id of the call it belongs to."""
    tool: str = ""
    """For a result: the tool that was called."""
    failed: bool = False
    """For a result: whether the call failed; providers that mark errors are told so."""


class Ask(msgspec.Struct, frozen=True):
    """One request: instructions, the conversation so far, the tools, and the schema of the answer, if any."""

    instructions: str
    messages: tuple[Said, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, Any] | None = None
    """JSON schema of an object: then the reply has such a `value`, or calls."""
    validate: bool = True
    """Whether the value has to match the schema; False if the caller validates it."""
    temperature: float | None = None
    max_tokens: int | None = None
    once: bool = False
    """Whether to disable the retries of the provider's client."""

    def __post_init__(self) -> None:
        """Escape invisible characters: remembered text could use them for instructions that no person sees.

        Every request passes through here, whatever built its prompt. Stored data is not changed.
        """
        force_setattr(self, "instructions", escape_hidden(self.instructions))
        said = tuple(replace(one, text=escape_hidden(one.text)) for one in self.messages)
        force_setattr(self, "messages", said)


class Reply(msgspec.Struct, frozen=True):
    """The model's reply: text, tool calls, or with a schema the requested value."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    value: dict[str, Any] | None = None
    tokens_in: int = 0
    tokens_out: int = 0


class UnusableAnswer(Exception):
    """An answer that is not as requested, with its fault and its text."""

    def __init__(self, fault: str, said: str) -> None:
        """Say what is wrong, and what the model said."""
        super().__init__(fault)
        self.fault = fault
        self.said = said


@runtime_checkable
class Model(Protocol):
    """Anything that replies; `connect` creates one from a name or a pydantic-ai model."""

    @property
    def name(self) -> str:
        """The name of the model, such as `openai:gpt-5.2`."""
        ...

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        """Return the reply to one request within `timeout` seconds, or raise a ModelError."""
        ...


@runtime_checkable
class StreamingModel(Model, Protocol):
    """A model that can also stream its reply."""

    def stream(self, ask: Ask, *, timeout: float = 30.0) -> Generator[str | Reply]:
        """Yield the text of a reply as it arrives, and finally the whole reply; raise as `reply` does."""
        ...


def hear(model: Model, ask: Ask, tell: Callable[[str], None], *, timeout: float = 30.0) -> Reply:
    """Return the reply to one request; if the model streams, pass its text to `tell` as it arrives."""
    if not isinstance(model, StreamingModel):
        return model.reply(ask, timeout=timeout)
    reply: Reply | None = None
    with closing(model.stream(ask, timeout=timeout)) as said:
        for one in said:
            if isinstance(one, Reply):
                reply = one
            else:
                tell(one)
    if reply is None:
        raise model_failure(model.name, "broke off", reason="provider", retryable=True)
    return reply
