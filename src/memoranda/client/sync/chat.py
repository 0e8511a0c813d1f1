# Made from client/aio/chat.py by memoranda.client.generate: change that one.
"""Chat through the server: a message to an agent, what happens while it answers, its prompt, conversations."""

from __future__ import annotations

import builtins
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any, get_args

import msgspec

from memoranda.client.calls import Call, body, given, parameters, path
from memoranda.client.events import BEGINNING, ServerEvent
from memoranda.client.messages import plain_policy
from memoranda.client.problems import error_named
from memoranda.client.sync.connection import Connection
from memoranda.client.sync.pages import collect
from memoranda.errors import Unavailable
from memoranda.model.text import quote
from memoranda.wire.chat import Answer, ChatEvent, EventType, MemoryPolicy, Prompt
from memoranda.wire.conversations import Conversation, Conversations, ConversationSummary

_KNOWN = frozenset(get_args(EventType))


def say(connection: Connection, agent_id: str, sent: bytes, timeout: float | None) -> Answer:
    """Send a message and return the answer; its id makes it safe to send again."""
    # Where it is sent again, the first may still be being answered: then that answer is waited for.
    waits = {"Last-Event-ID": BEGINNING}
    return connection.fetch(_to(agent_id, sent, timeout, headers=waits), Answer)


def stream(connection: Connection, agent_id: str, sent: bytes, timeout: float | None) -> Generator[ChatEvent]:
    """Send a message and yield what happens until the answer is whole; raise what went wrong."""
    with closing(connection.stream(_to(agent_id, sent, timeout))) as events:
        for one in events:
            event = _read(one, connection.url)
            if event is None:
                continue
            if event.type == "error":
                raise error_named(str(event.metadata.get("code", "")), event.content)
            yield event
            if event.type == "end":
                return


def preview(
    connection: Connection,
    agent_id: str,
    message: str,
    conversation_id: str | None,
    memory_policy: Mapping[str, Any] | MemoryPolicy | None,
) -> Prompt:
    """Return the prompt that a message would make."""
    asked = given(conversation_id=conversation_id, memory_policy=plain_policy(memory_policy))
    place = path("agent", agent_id, "prompts", "preview")
    call = Call(method="POST", path=place, body=body(message=message, **asked), repeatable=True)
    return connection.fetch(call, Prompt)


class ConversationCalls:
    """What the user that the API key belongs to and agents said to each other."""

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.conversations` makes these."""
        self._connection = connection

    def list(self, *, limit: int | None = None) -> builtins.list[ConversationSummary]:
        """Return where conversations stand, the one spoken in last first."""
        place = path("conversations")
        return collect(self._connection, place, {}, Conversations, lambda page: page.conversations, limit)

    def get(self, conversation_id: str, *, after: int = 0) -> Conversation | None:
        """Return a conversation with its parts, all or those after a `seq`; None where there is none."""
        found = self._read(conversation_id, after)
        if found is None:
            return None
        parts, onwards = [*found.parts], found.next
        while onwards is not None:
            rest = self._read(conversation_id, onwards)
            if rest is None:
                return None
            parts += rest.parts
            onwards = rest.next
        return msgspec.structs.replace(found, parts=parts, next=None)

    def _read(self, conversation_id: str, after: int) -> Conversation | None:
        place = path("conversations", conversation_id)
        call = Call(method="GET", path=place, query=parameters(after=after), repeatable=True)
        return self._connection.find(call, Conversation)


def _read(event: ServerEvent, url: str) -> ChatEvent | None:
    """Return an event of a chat; None for one of a kind that only a newer server knows."""
    try:
        return msgspec.json.decode(event.data, type=ChatEvent)
    except msgspec.DecodeError as error:
        if event.event not in _KNOWN:
            return None
        raise Unavailable(
            f"{quote(url)} sent an event that this client cannot read: {error}",
            hint="See whether the server is of this version or a newer one",
            url=url,
            sent=True,
        ) from error


def _to(agent_id: str, sent: bytes, timeout: float | None, headers: Mapping[str, str] | None = None) -> Call:
    return Call(
        method="POST",
        path=path("agent", agent_id, "chat"),
        headers=dict(headers or {}),
        body=sent,
        repeatable=True,
        timeout=timeout,
    )
