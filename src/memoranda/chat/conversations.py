"""Conversations of chat: whose they are, what was said in them and where they stand, as they are read.

A conversation is kept in the scope `user:<user>/thread:<id>`; `keeping.py` says as which facts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from memoranda.api.memory import Memory
from memoranda.chat.keeping import ConversationState, digest, read_parts, read_state
from memoranda.chat.parts import Part
from memoranda.errors import NotFound
from memoranda.model.clock import utc_now
from memoranda.model.effect import FindFacts
from memoranda.model.fact import Fact
from memoranda.model.key import CHAT_RECORD
from memoranda.model.limits import check_count
from memoranda.model.scope import Scope
from memoranda.model.text import LONGEST_LABEL, quote


class ConversationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Where a conversation stood when it was read."""

    id: str
    user: str
    agent_id: str
    opened_at: datetime
    last_at: datetime
    """The moment of its newest part."""
    last_seq: int
    """The number of its newest part."""
    active: bool
    """Whether a reply is being made."""


class ConversationRecord(ConversationSummary, frozen=True, kw_only=True):
    """A whole conversation as it stood when it was read."""

    parts: tuple[Part, ...]


def read_conversation(
    memory: Memory, user: str, conversation_id: str, *, after: int = 0, max_bytes: int | None = None
) -> ConversationRecord:
    """Return a conversation with its parts, all of them or those after a number; raise NotFound where there is none.

    With `max_bytes` they end with the part that exceeds it.
    """
    check_count("sequence", after)
    scope = conversation_scope(memory, user, conversation_id)
    standing = read_state(memory, scope)
    if standing is None:
        message = f"`{user}` has no conversation {quote(conversation_id)}"
        raise NotFound(message, hint="It was never begun, or was erased", value=conversation_id)
    kept, _ = standing
    parts = read_parts(memory, scope, after, kept.seq, max_bytes)
    return ConversationRecord(**_summary(memory, scope, kept), parts=tuple(parts))


def list_conversations(memory: Memory, user: str | None = None) -> list[ConversationSummary]:
    """Return the conversations of a user, or of every user of the tenant, the one spoken in last first."""
    home = Scope.of(tenant=memory.tenant) if user is None else Scope.of(tenant=memory.tenant, user=user)
    facts: list[Fact] = memory.perform(FindFacts(scope=home, key=CHAT_RECORD))
    kept = [(fact.scope, msgspec.convert(fact.value, ConversationState)) for fact in facts]
    found = [ConversationSummary(**_summary(memory, scope, state)) for scope, state in kept]
    return sorted(found, key=lambda one: (one.last_at, one.user, one.id), reverse=True)


def conversation_scope(memory: Memory, user: str, id: str) -> Scope:
    """Return where a conversation is kept."""
    return Scope.of(tenant=memory.tenant, user=user, thread=id)


def conversation_of(scope: Scope) -> tuple[str, str]:
    """Return whose conversation is kept in a scope, and which; the way back from `conversation_scope`."""
    ids = dict(scope.parts)
    return ids["user"], ids["thread"]


def source_label(id: str, seq: int) -> str:
    """Return what the history of a memory calls the part of a conversation that it was learned from."""
    label = f"conversation:{id}#{seq}"
    return label if len(label) <= LONGEST_LABEL else f"conversation:{digest(id)}#{seq}"


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is shown of a conversation: its parts since the newest summary, that summary among them."""

    version: int
    """The version of the conversation's record; 0 before it was begun."""
    agent_id: str | None = None
    """Whom the user speaks with; None before it was begun."""
    active: bool = False
    """Whether a reply is being made."""
    parts: tuple[Part, ...] = ()


def read_history(memory: Memory, user: str, id: str) -> History:
    """Return what a model is shown of a conversation before the user speaks; empty where it was not begun."""
    scope = conversation_scope(memory, user, id)
    standing = read_state(memory, scope)
    if standing is None:
        return History(version=0)
    kept, version = standing
    parts = read_parts(memory, scope, kept.covered, kept.seq)
    active = kept.is_held(utc_now(memory.clock))
    return History(version=version, agent_id=kept.agent_id, active=active, parts=tuple(parts))


def _summary(memory: Memory, scope: Scope, kept: ConversationState) -> dict[str, Any]:
    user, id = conversation_of(scope)
    return {
        "id": id,
        "user": user,
        "agent_id": kept.agent_id,
        "opened_at": kept.opened_at,
        "last_at": kept.last_at,
        "last_seq": kept.seq,
        "active": kept.is_held(utc_now(memory.clock)),
    }
