"""Chat agents defined in `chat.toml`, and the built-in echo model."""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Generator
from typing import Any

import msgspec

from memoranda.agent.models import Ask, Reply
from memoranda.agent.prompt import unescape
from memoranda.chat.agent import Agent, MemoryPolicy, policy_for
from memoranda.errors import UsageError
from memoranda.model.text import quote

CHAT_FILE = "chat.toml"
"""The file in the agent folder that defines the chat agents."""


class _ChatAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[agents.<id>]` table."""

    model: str | None = None
    instructions: str = ""
    memory_policy: dict[str, Any] = {}
    memory_tools: bool = True
    max_rounds: int = 8
    timeout: float = 60.0
    temperature: float | None = None
    max_tokens: int | None = None


def read_chat_agents(text: str, *, file: str = CHAT_FILE) -> list[Agent]:
    """Parse the chat agents of a TOML text, one `[agents.<id>]` table each.

    >>> read_chat_agents('[agents.porter]' + chr(10) + 'model = "openai:gpt-5.2"')[0].id
    'porter'
    """
    try:
        tables = msgspec.convert(tomllib.loads(text), dict[str, dict[str, _ChatAgent]])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{file} is not valid: {error}", hint="Write tables such as [agents.porter]") from error
    unknown = sorted(set(tables) - {"agents"})
    if unknown:
        raise UsageError(
            f"{file} has an unknown table {quote(unknown[0])}", hint="Write tables such as [agents.porter]"
        )
    return [_agent(id, one, file) for id, one in tables.get("agents", {}).items()]


def find_model(name: str | None) -> EchoModel | str | None:
    """Return the built-in echo model for its name; any other name unchanged."""
    return EchoModel() if name == ECHO_MODEL else name


def _agent(id: str, one: _ChatAgent, file: str) -> Agent:
    try:
        return Agent(
            id=id,
            model=find_model(one.model),
            instructions=one.instructions,
            memory_policy=policy_for(one.memory_policy, MemoryPolicy()),
            memory_tools=one.memory_tools,
            max_rounds=one.max_rounds,
            timeout=one.timeout,
            temperature=one.temperature,
            max_tokens=one.max_tokens,
        )
    except UsageError as error:
        raise UsageError(f"the agent {quote(id)} in {file} is not valid: {error.message}", hint=error.advice) from error


ECHO_MODEL = "demo:parrot"
"""The model name of `EchoModel`."""

_TAG = re.compile(r"<(?:core|memory)(?: [^<>]*)?>\n")
_REMINDERS = "<system_reminders>"
_TOKEN = 4
_WORD = re.compile(r"(?<!\s)\s*+\S+")
_PACE, _LONGEST = 0.03, 1.0
"""Seconds between two words, and at most for all of them."""


class EchoModel:
    """A model for demos and tests: it repeats the user's message and lists the memory it is shown.

    It needs no provider and no key.
    """

    name = ECHO_MODEL

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        """Return the reply to one request."""
        messages = [one.text for one in ask.messages if one.role == "user"]
        words = next((text for text in reversed(messages) if not text.startswith(_REMINDERS)), "")
        reminded = messages[-1] if messages and messages[-1].startswith(_REMINDERS) else ""
        known = [*_contents(ask.instructions, "core"), *_contents(reminded, "memory")]
        lines = [line for text in known for line in unescape(text).splitlines() if line.strip()]
        text = "\n".join([f"You said: {words}", *(["What I know of you:", *lines] if lines else [])])
        return Reply(text, tokens_in=len(ask.instructions) // _TOKEN, tokens_out=len(text) // _TOKEN)

    def stream(self, ask: Ask, *, timeout: float = 30.0) -> Generator[str | Reply]:
        """Yield the reply word by word, and then as a whole."""
        reply = self.reply(ask, timeout=timeout)
        words: list[str] = _WORD.findall(reply.text)
        for word in words:
            time.sleep(min(_PACE, _LONGEST / len(words)))
            yield word
        yield reply


def _contents(text: str, tag: str) -> list[str]:
    """Return the contents of all elements with a tag."""
    pieces = text.split(f"\n</{tag}>")[:-1]
    return [
        piece[begin.end() :] for piece in pieces if (begin := _TAG.search(piece)) and begin[0].startswith(f"<{tag}")
    ]
