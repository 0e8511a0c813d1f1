"""A TOML text in, the agents that can be chatted with out; the name of a model in, who answers under it out."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec

from memoranda.chat.agents import Agent
from memoranda.chat.memory_policy import MemoryPolicy, policy_for
from memoranda.errors import UsageError
from memoranda.model.text import quote
from memoranda.server.parrot import PARROT, Parrot

CHAT_FILE = "chat.toml"
"""The file, in the folder of agents, that describes those who can be chatted with."""


class _ChatAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the chat file."""

    model: str | None = None
    instructions: str = ""
    memory_policy: dict[str, Any] = {}
    memory_tools: bool = True
    max_rounds: int = 8
    timeout: float = 60.0
    temperature: float | None = None
    max_tokens: int | None = None


def read_chat_agents(text: str, *, file: str = CHAT_FILE) -> list[Agent]:
    """Return the agents that a TOML text describes: one table each, `[agents.<id>]`.

    >>> read_chat_agents('[agents.porter]' + chr(10) + 'model = "openai:gpt-5.2"')[0].id
    'porter'
    """
    try:
        said = msgspec.convert(tomllib.loads(text), dict[str, dict[str, _ChatAgent]])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{file} cannot be used: {error}", hint="Write tables such as [agents.porter]") from error
    unknown = sorted(set(said) - {"agents"})
    if unknown:
        raise UsageError(f"{quote(unknown[0])} is not known in {file}", hint="Write tables such as [agents.porter]")
    return [_agent(id, one, file) for id, one in said.get("agents", {}).items()]


def model_named(name: str | None) -> Parrot | str | None:
    """Return who answers under a name: a model of this server's own, or the name for whoever connects it."""
    return Parrot() if name == PARROT else name


def _agent(id: str, one: _ChatAgent, file: str) -> Agent:
    try:
        return Agent(
            id=id,
            model=model_named(one.model),
            instructions=one.instructions,
            memory_policy=policy_for(one.memory_policy, MemoryPolicy()),
            memory_tools=one.memory_tools,
            max_rounds=one.max_rounds,
            timeout=one.timeout,
            temperature=one.temperature,
            max_tokens=one.max_tokens,
        )
    except UsageError as error:
        raise UsageError(f"the agent {quote(id)} of {file} cannot be used: {error.message}", hint=error.hint) from error
