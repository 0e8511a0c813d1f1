"""Parts of a conversation in, the messages that a model is sent out: the same parts always give the same messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from memoranda.agent.models import Said, ToolCall
from memoranda.chat.memory_prompt import escape
from memoranda.chat.parts import INTERRUPTED, Part


def messages_of(parts: Sequence[Part]) -> tuple[Said, ...]:
    """Return the messages of a conversation, in their order, the newest summary in the place of what it stands for."""
    summary = newest_summary(parts)
    covered = summary.covers if summary else 0
    spoken = [part for part in parts if part.seq > covered and part.kind != "system_event"]
    first = () if summary is None else (Said("user", _fenced(summary.text)),)
    return (*first, *_messages(spoken))


def newest_summary(parts: Sequence[Part]) -> Part | None:
    """Return the summary that stands for the most of a conversation, if there is one."""
    return next((part for part in reversed(parts) if part.kind == "system_event" and part.covers), None)


def _fenced(summary: str) -> str:
    return f"<conversation_summary>\n{escape(summary)}\n</conversation_summary>"


def _messages(parts: Sequence[Part]) -> Iterator[Said]:
    """Yield the messages: words and calls that follow each other were one reply, and each call has its result."""
    words, calls = "", list[Part]()
    waiting: dict[str, Part] = {}
    for part in parts:
        if part.kind == "tool_request":
            if not calls:
                yield from _unanswered(waiting)
            calls.append(part)
            continue
        if calls:
            yield _reply(words, calls)
            waiting = {call.call_id: call for call in calls}
            words, calls = "", []
        if part.kind == "tool_response":
            waiting.pop(part.call_id, None)
            yield Said("tool", part.text, call_id=part.call_id, tool=part.tool)
            continue
        yield from _unanswered(waiting)
        if words:
            yield Said("assistant", words)
        words = part.text if part.kind == "agent_text" else ""
        if part.kind in ("user", "reminders"):
            yield Said("user", part.text)
    if calls:
        yield _reply(words, calls)
        waiting = {call.call_id: call for call in calls}
        words = ""
    yield from _unanswered(waiting)
    if words:
        yield Said("assistant", words)


def _reply(words: str, calls: Sequence[Part]) -> Said:
    made = (ToolCall(call.call_id, call.tool, _arguments(call)) for call in calls)
    return Said("assistant", words, tuple(made))


def _arguments(call: Part) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.json.decode(call.text))


def _unanswered(waiting: dict[str, Part]) -> Iterator[Said]:
    for call in waiting.values():
        yield Said("tool", INTERRUPTED, call_id=call.call_id, tool=call.tool)
    waiting.clear()
