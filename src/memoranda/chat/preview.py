"""An agent, a user and a message in, the prompt that a chat would send out, to the last byte; nothing is written.

The chat itself is sent what is assembled here, so that the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from memoranda.agent.models import Ask, Said, ToolSpec
from memoranda.api.memory import Memory
from memoranda.chat.agents import Agent
from memoranda.chat.conversations import History, read_history
from memoranda.chat.holding import ensure_agent
from memoranda.chat.memory_policy import MemoryPolicy, policy_for
from memoranda.chat.memory_prompt import MEMORY_NOTICE, reminders, user_memory
from memoranda.chat.memory_tools import MEMORY_TOOLS, Seen
from memoranda.chat.transcript import messages_of
from memoranda.errors import InvalidValue, LimitExceeded
from memoranda.model.text import quote
from memoranda.model.value import encode, encode_checked

_BYTES_PER_TOKEN = 4


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is sent: the system's part, then the messages, then the reminders as one more of the user's side."""

    system: str
    messages: tuple[Said, ...]
    """What was said so far, and last what the user says now; reminders of earlier turns stand where they were."""
    reminders: str = ""
    """The lines of archival memory that this message brings up; empty where there are none."""
    tools: tuple[ToolSpec, ...] = ()
    token_estimate: int
    """About how many tokens it takes: a token for every four bytes. Models count in ways of their own."""

    @property
    def sent(self) -> tuple[Said, ...]:
        """The messages as they are sent, the reminders among them."""
        return (*self.messages, Said("user", self.reminders)) if self.reminders else self.messages


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt, and which blocks a model sees in it."""

    prompt: Prompt
    seen: Seen


def preview(
    memory: Memory,
    agent: Agent,
    message: str,
    *,
    user: str,
    conversation_id: str | None = None,
    memory_policy: MemoryPolicy | Mapping[str, Any] | None = None,
) -> Prompt:
    """Return the prompt that `chat` would send for this message, in a conversation or at the beginning of one.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     core = memory.scope(user="ada").blocks.update("core", "- Keeps bees", expected_updated_at=None)
    ...     prompt = preview(memory, Agent(id="gardener"), "When does heather flower?", user="ada")
    ...     print(prompt.messages[0].text, "- Keeps bees" in prompt.system)
    When does heather flower? True
    """
    check_message(memory, message)
    policy = policy_for(memory_policy, agent.memory_policy)
    history = History(version=0) if conversation_id is None else read_history(memory, user, conversation_id)
    if conversation_id is not None and history.agent_id is not None:
        ensure_agent(conversation_id, history.agent_id, agent.id)
    return assemble(memory, agent, history, message, user=user, policy=policy).prompt


def assemble(
    memory: Memory, agent: Agent, history: History, message: str | None, *, user: str, policy: MemoryPolicy
) -> Assembled:
    """Return the prompt for a message after what was said so far; without one, for what was said last."""
    mine, ours = memory.scope(user=user).blocks, memory.scope(user=user, agent=agent.id).blocks
    user_core = mine.get("core") if policy.include_user_core else None
    agent_core = ours.get("core") if policy.include_agent_core else None
    said = messages_of(history.parts)
    reminded = ""
    if message is not None:
        said = (*said, Said("user", message))
        if policy.archival_mode == "auto":
            limit, least = policy.archival_limit, policy.archival_min_score
            reminded = reminders(ours.recall(message, limit=limit, min_score=least))
    tools = (*(tool.spec for tool in agent.tools), *(MEMORY_TOOLS if agent.memory_tools else ()))
    shown = user_memory(user_core, agent_core)
    system = "\n\n".join(part for part in (agent.instructions, MEMORY_NOTICE, shown) if part)
    prompt = Prompt(system=system, messages=said, reminders=reminded, tools=tools, token_estimate=0)
    prompt = msgspec.structs.replace(prompt, token_estimate=_estimate(prompt))
    seen: Seen = {}
    if policy.include_user_core:
        seen["core", "user"] = user_core.updated_at if user_core else None
    if policy.include_agent_core:
        seen["core", "agent"] = agent_core.updated_at if agent_core else None
    return Assembled(prompt=prompt, seen=seen)


def ask_of(agent: Agent, prompt: Prompt) -> Ask:
    """Return the request that a model gets for a prompt."""
    return Ask(
        prompt.system, prompt.sent, tools=prompt.tools, temperature=agent.temperature, max_tokens=agent.max_tokens
    )


def check_message(memory: Memory, message: str) -> None:
    """Refuse what is no message, or too long for one."""
    if not isinstance(cast(object, message), str) or not message.strip():
        raise InvalidValue(f"{quote(message)} is no message", hint="Pass text that says something", path="message")
    size = len(encode_checked(message, memory.limits))
    if size > memory.limits.content_bytes:
        raise LimitExceeded(
            f"the message takes {size:,} bytes, the limit is {memory.limits.content_bytes:,}",
            hint="Shorten it, or open with a larger Limits(content_bytes=…)",
            limit=memory.limits.content_bytes,
            actual=size,
            what="content_bytes",
        )


def _estimate(prompt: Prompt) -> int:
    return -(-len(encode((prompt.system, prompt.sent, prompt.tools))) // _BYTES_PER_TOKEN)
