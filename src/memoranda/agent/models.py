"""What is asked of a language model, and what it replies: one request at a time, whole or word by word.

Who is asked is a `Model`; the loop over tools is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec.structs import force_setattr, replace

from memoranda.agent.failures import failed
from memoranda.model.text import escape_hidden


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool that the model may call: its name, what it does, and the JSON schema of its parameters."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolCall(msgspec.Struct, frozen=True):
    """A call that the model wants made."""

    id: str
    name: str
    arguments: dict[str, Any]


class Said(msgspec.Struct, frozen=True):
    """One message of the conversation: of the user, of the model with its calls, or the result of a call."""

    role: Literal["user", "assistant", "tool"]
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    """Of a result: the id of the call it belongs to."""
    tool: str = ""
    """Of a result: the tool that was called."""


class Ask(msgspec.Struct, frozen=True):
    """One request: instructions, the conversation so far, the tools at hand, and the shape of the answer, if any."""

    instructions: str
    messages: tuple[Said, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, Any] | None = None
    """JSON schema of an object: then the reply has that `value`, or calls."""
    validate: bool = True
    """Whether the value has to be as the schema says; where the caller looks at it itself, any object will do."""
    temperature: float | None = None
    max_tokens: int | None = None
    once: bool = False
    """Whether this is one request on the wire too: else the provider's client may repeat one that failed."""

    def __post_init__(self) -> None:
        """Write out characters that nobody sees: remembered text could give orders in them that no person reads.

        Every surface asks through here, whatever it put into its prompt. What is stored stays as it is.
        """
        force_setattr(self, "instructions", escape_hidden(self.instructions))
        said = tuple(replace(one, text=escape_hidden(one.text)) for one in self.messages)
        force_setattr(self, "messages", said)


class Reply(msgspec.Struct, frozen=True):
    """What the model said: text, calls it wants made, or with a schema the value that was asked for."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    value: dict[str, Any] | None = None
    tokens_in: int = 0
    tokens_out: int = 0


@runtime_checkable
class Model(Protocol):
    """Anything that replies; `connect` makes one of a name or of a pydantic-ai model."""

    @property
    def name(self) -> str:
        """The name of the model, such as `openai:gpt-5.2`."""
        ...

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        """Return the reply to one request within so many seconds, or raise a ModelError."""
        ...


@runtime_checkable
class StreamingModel(Model, Protocol):
    """A model that can also be heard while it speaks."""

    def stream(self, ask: Ask, *, timeout: float = 30.0) -> Generator[str | Reply]:
        """Yield the words of a reply as they come, and last the reply, whole; raise as `reply` does."""
        ...


def hear(model: Model, ask: Ask, tell: Callable[[str], None], *, timeout: float = 30.0) -> Reply:
    """Return the reply to one request; of a model that streams, tell the words as they come."""
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
        raise failed(model.name, "broke off", reason="provider", retryable=True)
    return reply
