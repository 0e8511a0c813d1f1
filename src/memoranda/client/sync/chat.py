# Generated from client/aio/chat.py by memoranda.client.generate; do not edit.
"""Chat messages and streams, prompt previews, `client.conversations` and `client.sleep`."""

from __future__ import annotations

import builtins
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any, get_args

import msgspec

from memoranda.client.problems import error_named
from memoranda.client.requests import Request, body, parameters, path, policy_object, without_none
from memoranda.client.sse import BEGINNING, ServerEvent
from memoranda.client.sync.connection import Connection, collect
from memoranda.errors import Unavailable
from memoranda.model.text import quote
from memoranda.wire.chat import (
    Answer,
    Change,
    ChatEvent,
    Conversation,
    Conversations,
    ConversationSummary,
    EventType,
    Forgotten,
    JobState,
    MemoryPolicy,
    Prompt,
    SleepJob,
    SleepJobs,
    Undone,
)

_KNOWN = frozenset(get_args(EventType))


def say(connection: Connection, agent_id: str, sent: bytes, timeout: float | None) -> Answer:
    """Send a message and return the reply; its id makes it safe to send again."""
    # On a retry the first request may still be running: the header makes the server wait for its reply.
    headers = {"Last-Event-ID": BEGINNING}
    return connection.fetch(_to(agent_id, sent, timeout, headers=headers), Answer)


def stream(connection: Connection, agent_id: str, sent: bytes, timeout: float | None) -> Generator[ChatEvent]:
    """Send a message and yield its events until the reply is complete; raise its error."""
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
    """Return the prompt for a message."""
    asked = without_none(conversation_id=conversation_id, memory_policy=policy_object(memory_policy))
    place = path("agent", agent_id, "prompts", "preview")
    request = Request(method="POST", path=place, body=body(message=message, **asked), repeatable=True)
    return connection.fetch(request, Prompt)


class ConversationCalls:
    """The conversations of the API key's user."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.conversations`."""
        self._connection = connection

    def list(self, *, limit: int | None = None) -> builtins.list[ConversationSummary]:
        """Return the conversations, most recently active first."""
        place = path("conversations")
        return collect(self._connection, place, {}, Conversations, lambda page: page.conversations, limit)

    def get(self, conversation_id: str, *, after: int = 0) -> Conversation | None:
        """Return a conversation with its parts, all or those after a `seq`; None if there is none."""
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
        request = Request(method="GET", path=place, query=parameters(after=after), repeatable=True)
        return self._connection.find(request, Conversation)


def _read(event: ServerEvent, url: str) -> ChatEvent | None:
    """Decode a chat event; None for an unknown type of a newer server."""
    try:
        return msgspec.json.decode(event.data, type=ChatEvent)
    except msgspec.DecodeError as error:
        if event.event not in _KNOWN:
            return None
        raise Unavailable(
            f"{quote(url)} sent an event that this client cannot decode: {error}",
            hint="Check that the versions of client and server match",
            url=url,
            sent=True,
        ) from error


def _to(agent_id: str, sent: bytes, timeout: float | None, headers: Mapping[str, str] | None = None) -> Request:
    return Request(
        method="POST",
        path=path("agent", agent_id, "chat"),
        headers=dict(headers or {}),
        body=sent,
        repeatable=True,
        timeout=timeout,
    )


class SleepCalls:
    """Sleep-time jobs of the API key's user; an administrator may name another `user`."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.sleep`."""
        self._connection = connection

    def list(
        self,
        *,
        state: JobState | None = None,
        user: str | None = None,
        everybody: bool = False,
        limit: int | None = None,
    ) -> builtins.list[SleepJob]:
        """Return the consolidation jobs of conversations: waiting, done and failed."""
        asked = parameters(state=state, user=user, everybody=everybody or None)
        return collect(self._connection, path("sleep", "jobs"), asked, SleepJobs, lambda page: page.jobs, limit)

    def undo(self, conversation_id: str, *, user: str | None = None) -> builtins.list[Change]:
        """Undo the last consolidation of a conversation and return the changes. It will not be learned again."""
        request = Request(
            method="POST", path=path("sleep", "jobs", conversation_id, "undo"), query=parameters(user=user)
        )
        return (self._connection.fetch(request, Undone)).changes

    def forget(self, conversation_id: str, *, user: str | None = None) -> builtins.list[str]:
        """Erase a conversation; return the lines removed with it, those learned only from it."""
        request = Request(
            method="POST", path=path("sleep", "jobs", conversation_id, "forget"), query=parameters(user=user)
        )
        return (self._connection.fetch(request, Forgotten)).removed
