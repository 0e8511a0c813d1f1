"""Build the prompt of a chat turn from the agent, the conversation and memory.

`preview` and `chat` both use `assemble`, so a preview is exactly what is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from memoranda.agent.models import Ask, Said, ToolCall, ToolSpec
from memoranda.agent.prompt import MEMORY_NOTICE, escape, wrap
from memoranda.api.context import ContextPlan, build_context, mounted_records, render_item, render_items
from memoranda.api.memory import Memory
from memoranda.chat.agent import Agent, MemoryPolicy, policy_for
from memoranda.chat.conversation import INTERRUPTED, History, read_history
from memoranda.chat.memory_tools import Mounts, Seen, tools_for
from memoranda.chat.open_turn import ensure_agent
from memoranda.engine.blocks import RecallBlocks
from memoranda.engine.recall import RecallAll
from memoranda.errors import InvalidValue, LimitExceeded
from memoranda.model.block import BlockScope
from memoranda.model.conversation import Part
from memoranda.model.limits import larger_limit
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import Trust, lowest
from memoranda.model.value import encode, encode_checked


def messages_of(parts: Sequence[Part]) -> tuple[Said, ...]:
    """Return the messages of a conversation, with the newest summary in place of the parts that it covers."""
    summary = newest_summary(parts)
    covered = summary.covers if summary else 0
    spoken = [part for part in parts if part.seq > covered and part.kind != "system_event"]
    if summary is None:
        return tuple(_messages(spoken))
    told = f"<conversation_summary>\n{escape(summary.text)}\n</conversation_summary>"
    return (Said("user", told), *_messages(spoken))


def newest_summary(parts: Sequence[Part]) -> Part | None:
    """Return the newest summary of a conversation, if there is one."""
    return next((part for part in reversed(parts) if part.kind == "system_event" and part.covers), None)


def _messages(parts: Sequence[Part]) -> Iterator[Said]:
    """Yield the messages: text and tool calls in a row are one reply, and each call gets a result."""
    words, calls = "", list[Part]()
    waiting: dict[str, Part] = {}
    for part in parts:
        if part.kind == "tool_request":
            if not calls:
                yield from _missing_results(waiting)
            calls.append(part)
            continue
        if calls:
            yield _reply(words, calls)
            waiting = {call.call_id: call for call in calls}
            words, calls = "", []
        if part.kind == "tool_response":
            waiting.pop(part.call_id, None)
            yield Said("tool", part.text, call_id=part.call_id, tool=part.tool, failed=part.failed)
            continue
        yield from _missing_results(waiting)
        if words:
            yield Said("assistant", words)
        words = part.text if part.kind == "agent_text" else ""
        if part.kind in ("user", "reminders"):
            yield Said("user", part.text)
    if calls:
        yield _reply(words, calls)
        waiting = {call.call_id: call for call in calls}
        words = ""
    yield from _missing_results(waiting)
    if words:
        yield Said("assistant", words)


def _reply(words: str, calls: Sequence[Part]) -> Said:
    made = (ToolCall(call.call_id, call.tool, msgspec.json.decode(call.text, type=dict[str, Any])) for call in calls)
    return Said("assistant", words, tuple(made))


def _missing_results(waiting: dict[str, Part]) -> Iterator[Said]:
    for call in waiting.values():
        yield Said("tool", INTERRUPTED, call_id=call.call_id, tool=call.tool, failed=True)
    waiting.clear()


_BYTES_PER_TOKEN = 4


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is sent: the system prompt, the messages, and the reminders as one more user message."""

    system: str
    messages: tuple[Said, ...]
    """The conversation so far, ending with the user's new message; it includes the reminders of earlier turns."""
    reminders: str = ""
    """The lines of archival memory that match the message; may be empty."""
    tools: tuple[ToolSpec, ...] = ()
    token_estimate: int
    """The approximate number of tokens, at four bytes each; models count differently."""

    @property
    def sent(self) -> tuple[Said, ...]:
        """The messages as they are sent, including the reminders."""
        return (*self.messages, Said("user", self.reminders)) if self.reminders else self.messages


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt, the memory blocks that it shows, and what is mounted beside them."""

    prompt: Prompt
    seen: Seen
    mounts: Mounts
    told: Trust = "high"
    """How far the least trusted memory in the prompt is trusted."""


def preview(
    memory: Memory,
    agent: Agent,
    message: str,
    *,
    user: str,
    conversation_id: str | None = None,
    memory_policy: MemoryPolicy | Mapping[str, Any] | None = None,
) -> Prompt:
    """Return the prompt that `chat` would send for a message, in a conversation or at the start of one.

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
    memory: Memory,
    agent: Agent,
    history: History,
    message: str | None,
    *,
    user: str,
    policy: MemoryPolicy,
    told_to: str | None = None,
) -> Assembled:
    """Return the prompt for a new message, or without one, for resuming the last turn.

    `told_to` is the conversation whose model gets it, as the ledger then says; None for a preview.
    """
    mine = Scope.of(tenant=memory.tenant, user=user)
    ours = Scope.of(tenant=memory.tenant, user=user, agent=agent.id)
    core: dict[BlockScope, Scope] = {}
    if policy.include_user_core:
        core["user"] = mine
    if policy.include_agent_core:
        core["agent"] = ours
    mounts = Mounts(
        records=mounted_records(ours, policy.definitions, memory.perform),
        collections=policy.mounted_collections(ours),
    )
    said = messages_of(history.parts)
    lines: RecallBlocks | None = None
    searches: tuple[RecallAll, ...] = ()
    if message is not None:
        said = (*said, Said("user", message))
        if policy.archival_mode == "auto":
            limit, least = policy.archival_limit, policy.archival_min_score
            lines = RecallBlocks(scope=mine, query=message, agent=agent.id, limit=limit, min_score=least)
            searches = mounts.searches(message)
    plan = ContextPlan(
        scope=ours,
        core=tuple(core.values()),
        records=mounts.records,
        lines=lines,
        searches=searches,
        limit=policy.archival_limit,
        threshold=policy.archival_min_score,
    )
    context = build_context(plan, memory.perform)
    if told_to is not None:
        memory.record_prompt(ours, context.refs, to=f"conversation:{told_to}")
    shown = render_items([item for item in context.items if item.score is None])
    reminded = wrap("system_reminders", [render_item(item) for item in context.items if item.score is not None])
    tools = (*(tool.spec for tool in agent.tools), *(tools_for(mounts) if agent.memory_tools else ()))
    system = "\n\n".join(part for part in (agent.instructions, MEMORY_NOTICE, shown) if part)
    prompt = Prompt(system=system, messages=said, reminders=reminded, tools=tools, token_estimate=0)
    prompt = msgspec.structs.replace(prompt, token_estimate=_estimate(prompt))
    stamps = {item.scope: item.updated_at for item in context.items if item.kind == "core"}
    seen: Seen = {("core", owner): stamps.get(scope) for owner, scope in core.items()}
    trusts: list[Trust] = [item.origin.trust for item in context.items]
    return Assembled(prompt=prompt, seen=seen, mounts=mounts, told=lowest("high", *trusts))


def ask_of(agent: Agent, prompt: Prompt) -> Ask:
    """Return the model request for a prompt."""
    return Ask(
        prompt.system, prompt.sent, tools=prompt.tools, temperature=agent.temperature, max_tokens=agent.max_tokens
    )


def check_message(memory: Memory, message: str) -> None:
    """Refuse a message that is not text, is empty, or is too long."""
    if not isinstance(cast(object, message), str) or not message.strip():
        raise InvalidValue(
            f"{quote(message)} is not a valid message", hint="Pass a text that is not empty", path="message"
        )
    size = len(encode_checked(message, memory.limits))
    if size > memory.limits.content_bytes:
        raise LimitExceeded(
            f"the message takes {size:,} bytes, the limit is {memory.limits.content_bytes:,}",
            hint=("Shorten it", larger_limit("content_bytes")),
            limit=memory.limits.content_bytes,
            actual=size,
            what="content_bytes",
        )


def _estimate(prompt: Prompt) -> int:
    return -(-len(encode((prompt.system, prompt.sent, prompt.tools))) // _BYTES_PER_TOKEN)
