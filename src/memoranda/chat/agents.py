"""An agent as configuration: what it is told, which model answers for it, what it may call, and what it remembers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from memoranda.chat.memory_policy import MemoryPolicy
from memoranda.chat.tools import RECALL_MEMORY, UPDATE_MEMORY, Tool
from memoranda.errors import UsageError
from memoranda.model.limits import check_count
from memoranda.model.scope import Scope
from memoranda.model.text import quote


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a user speaks with in a chat.

    >>> Agent(id="librarian", model="openai:gpt-5.2", instructions="You lend books.").memory_policy.archival_mode
    'tool_only'
    """

    id: str
    """What it is called; its memory of a user is kept under this name."""
    model: Any = None
    """Who answers: `provider:model`, a model of pydantic-ai, or anything that replies."""
    instructions: str = ""
    tools: tuple[Tool, ...] = ()
    memory_policy: MemoryPolicy = MemoryPolicy()
    memory_tools: bool = True
    """Whether it has `update_memory` and `recall_memory`."""
    max_rounds: int = 8
    """How often it may call tools in one turn."""
    timeout: float = 60.0
    """Seconds that the model has for each reply."""
    temperature: float | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be an agent, whoever made it."""
        Scope.of(agent=self.id)
        _check(self, "instructions", isinstance(cast(object, self.instructions), str), "Pass text")
        _check(self, "memory_policy", isinstance(cast(object, self.memory_policy), MemoryPolicy), "Pass a MemoryPolicy")
        for one in cast("Iterable[object]", self.tools):
            _check(self, "tools", isinstance(one, Tool), "Make each of a function with tool(…), or a Tool")
        check_count("number of rounds", self.max_rounds, least=1)
        check_count("number of tokens", self.max_tokens, least=1)
        timed = type(self.timeout) in (int, float) and math.isfinite(self.timeout) and self.timeout > 0
        _check(self, "timeout", timed, "Pass seconds")
        _refuse_twins([*(one.name for one in self.tools), *((UPDATE_MEMORY, RECALL_MEMORY) * self.memory_tools)])


def _check(agent: Agent, field: str, fits: bool, hint: str) -> None:
    if not fits:
        value = getattr(agent, field)
        raise UsageError(f"{quote(value)} cannot be the `{field}` of an agent", hint=hint, path=field, value=value)


def _refuse_twins(names: list[str]) -> None:
    twin = next((name for name, count in Counter(names).items() if count > 1), None)
    if twin in (UPDATE_MEMORY, RECALL_MEMORY):
        raise UsageError(
            f"a tool is called {quote(twin)}, the name of one for memory blocks",
            hint="Give yours another name, or pass memory_tools=False",
            value=twin,
        )
    if twin is not None:
        raise UsageError(f"there are two tools {quote(twin)}", hint="Name each once", value=twin)
