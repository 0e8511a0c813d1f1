"""Conversations: their parts, and how they are stored as facts and read.

A conversation lives in the scope `user:<user>/thread:<id>`: one record with its state, one fact for each part, and one
for each message of the user. Every write expects the version of the record, so that of two writers only one succeeds.

A conversation with a workflow is stored in a scope of the same kind by `memoranda.workflow.threads`; here it is listed
and read.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

import msgspec

from memoranda.api.memory import Memory
from memoranda.engine.facts import FindFacts, GetFact, ListFacts, SetFact, WriteFacts
from memoranda.engine.omissions import ReadOmissions
from memoranda.errors import InvalidScope, NotFound
from memoranda.model.clock import utc_now
from memoranda.model.conversation import ConversationState, Draft, MessageState, Part, ThreadState
from memoranda.model.fact import Fact
from memoranda.model.limits import check_count
from memoranda.model.names import CHAT_RECORD, LONGEST_LABEL, THREAD_MESSAGES, THREAD_RECORD
from memoranda.model.omission import Omissions
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import encode, encode_checked

_log = logging.getLogger(__name__)
T = TypeVar("T")

INTERRUPTED = encode({"error": "This call was interrupted. It is not known whether it was carried out."}).decode()
"""The result of a tool call whose process died; providers require a result for each call."""


_PARTS, _MESSAGES = "chat.parts", "chat.messages"
_EVENT_WHEN_STORED = frozenset({"tool_request", "tool_response"})


def read_state(memory: Memory, scope: Scope) -> tuple[ConversationState, int] | None:
    """Return the record of a conversation and its version, if there is one."""
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=CHAT_RECORD))
    return None if fact is None else (msgspec.convert(fact.value, ConversationState), fact.version)


def read_parts(memory: Memory, scope: Scope, after: int, last: int, max_bytes: int | None = None) -> list[Part]:
    """Return the parts with numbers above `after` up to `last`; later ones may have been added since."""
    most, first = max(last - after, 0), _part_key(after)
    effect = ListFacts(scope=scope, prefix=_PARTS, after=first, limit=most, max_bytes=max_bytes, internal=True)
    facts: list[Fact] = memory.perform(effect)
    parts = [msgspec.convert(fact.value, Part) for fact in facts]
    return [part for part in parts if part.seq <= last]


def with_parts(
    kept: ConversationState, drafts: Iterable[Draft], now: datetime, message_id: str
) -> tuple[ConversationState, list[Part]]:
    """Return the record with parts added, and the parts with their numbers."""
    # Times never decrease, whatever the clock does.
    at = max(now, kept.last_at)
    events = kept.events
    parts: list[Part] = []
    for seq, draft in enumerate(drafts, kept.seq + 1):
        events += draft.kind in _EVENT_WHEN_STORED
        event = events if draft.kind == "agent_text" or draft.kind in _EVENT_WHEN_STORED else 0
        parts.append(Part(**msgspec.structs.asdict(draft), seq=seq, at=at, message_id=message_id, event=event))
    if not parts:
        return kept, parts
    return msgspec.structs.replace(kept, seq=parts[-1].seq, last_at=at, events=events), parts


def write_state(
    memory: Memory, scope: Scope, kept: ConversationState, parts: Sequence[Part], *also: SetFact, expect: int
) -> int:
    """Write the record, parts and other facts, all or nothing; return the record's version."""
    # Two writers conflict on the record: the slower one writes nothing.
    writes = [_set(scope, CHAT_RECORD, kept, expect=expect), *also]
    for part in parts:
        payload = msgspec.Raw(encode_checked(msgspec.to_builtins(part), memory.limits))
        writes.append(SetFact(scope=scope, key=_part_key(part.seq), payload=payload, expect=0, echo=False))
    return memory.perform(WriteFacts(scope=scope, writes=tuple(writes)))[0].version


def message_write(scope: Scope, message: MessageState) -> SetFact:
    """Return the write of a message's state, for `write_state`."""
    return _set(scope, message_key(message.id), message)


def _set(scope: Scope, key: str, value: object, *, expect: int | None = None) -> SetFact:
    payload = msgspec.Raw(encode(msgspec.to_builtins(value)))
    return SetFact(scope=scope, key=key, payload=payload, expect=expect, echo=False)


def _part_key(seq: int) -> str:
    return f"{_PARTS}.{seq:012}"


def message_key(message_id: str) -> str:
    """Return the key of a message's state."""
    return f"{_MESSAGES}.{digest(message_id)}"


def digest(text: str) -> str:
    """Return a hash of an id, for use in a key."""
    # Unlike a segment of a key, an id may be long and contain dots.
    return hashlib.sha256(text.encode()).hexdigest()[:32]


ConversationKind = Literal["chat", "workflow"]


class ConversationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a conversation when it was read."""

    id: str
    user: str
    agent_id: str
    opened_at: datetime
    last_at: datetime
    """The time of its newest part."""
    last_seq: int
    """The number of its newest part."""
    active: bool
    """Whether a reply is in progress."""
    kind: ConversationKind = "chat"
    workflow: str = ""
    """Of a conversation with a workflow: the name of the workflow that was last part of it."""
    closed: bool = False
    """Whether no message can be added."""


class ConversationRecord(ConversationSummary, frozen=True, kw_only=True):
    """A conversation with its parts."""

    parts: tuple[Part, ...]


def read_conversation(
    memory: Memory,
    user: str,
    conversation_id: str,
    *,
    after: int = 0,
    max_bytes: int | None = None,
    kind: ConversationKind | None = None,
) -> ConversationRecord:
    """Return a conversation with its parts, or those after a number; raise NotFound if it does not exist.

    With `max_bytes`, the list ends with the part that exceeds it. If a chat and a conversation with a workflow have the
    same id, the chat is returned unless `kind` says otherwise.
    """
    check_count("sequence", after)
    scope = conversation_scope(memory, user, conversation_id)
    found = None if kind == "workflow" else read_state(memory, scope)
    if found is not None:
        state, _ = found
        parts = read_parts(memory, scope, after, state.seq, max_bytes)
        return ConversationRecord(**_summary(memory, scope, state), parts=tuple(parts))
    thread: Fact | None = None if kind == "chat" else memory.perform(GetFact(scope=scope, key=THREAD_RECORD))
    if thread is None:
        message = f"`{user}` has no conversation {quote(conversation_id)}"
        raise NotFound(message, hint="It was never begun, or was erased", value=conversation_id)
    key = f"{THREAD_MESSAGES}.{after:012}"
    effect = ListFacts(scope=scope, prefix=THREAD_MESSAGES, after=key, max_bytes=max_bytes, internal=True)
    return ConversationRecord(**_thread_summary(thread), parts=tuple(map(_thread_part, memory.perform(effect))))


def list_conversations(
    memory: Memory, user: str | None = None, *, kind: ConversationKind | None = None
) -> list[ConversationSummary]:
    """Return the conversations of a user, or of every user of the tenant, most recently active first.

    Without a `kind`, both chats and conversations with workflows.
    """
    home = Scope.of(tenant=memory.tenant) if user is None else Scope.of(tenant=memory.tenant, user=user)
    found: list[ConversationSummary] = []
    if kind != "workflow":
        chats: list[Fact] = memory.perform(FindFacts(scope=home, key=CHAT_RECORD, internal=True))
        found += read_each(chats, lambda fact: ConversationSummary(**_chat_summary(memory, fact)))
    if kind != "chat":
        threads: list[Fact] = memory.perform(FindFacts(scope=home, key=THREAD_RECORD, internal=True))
        found += read_each(threads, lambda fact: ConversationSummary(**_thread_summary(fact)))
    return sorted(found, key=lambda one: (one.last_at, one.user, one.id), reverse=True)


def read_each(facts: Iterable[Fact], read: Callable[[Fact], T]) -> Iterator[T]:
    """Yield what is read from each fact; one that cannot be read is logged, and hides none of the others."""
    for fact in facts:
        try:
            yield read(fact)
        except (msgspec.ValidationError, InvalidScope) as fault:
            log_unreadable(fact.scope, fact.key, fault)


def log_unreadable(scope: Scope, key: str, fault: Exception) -> None:
    """Log that a record was skipped; neither users nor content are logged."""
    fields = {"tenant": scope.tenant, "key": key, "reason": type(fault).__name__}
    _log.warning("a record that cannot be read was skipped", extra={"fields": fields})


def _chat_summary(memory: Memory, record: Fact) -> dict[str, Any]:
    return _summary(memory, record.scope, msgspec.convert(record.value, ConversationState))


def _thread_summary(record: Fact) -> dict[str, Any]:
    user, id = conversation_of(record.scope)
    state = msgspec.convert(record.value, ThreadState)
    return {
        "id": id,
        "user": user,
        "agent_id": "",
        "opened_at": state.opened_at,
        "last_at": state.last_at,
        "last_seq": state.count,
        "active": False,
        "kind": "workflow",
        "workflow": state.workflow or "",
        "closed": state.closed,
    }


def _thread_part(message: Fact) -> Part:
    value: dict[str, Any] = message.value
    return Part(
        kind="user" if value["by_owner"] else "agent_text",
        text=value["text"],
        seq=int(message.key.rpartition(".")[2]),
        at=datetime.fromisoformat(value["at"]),
        message_id="",
    )


def conversation_scope(memory: Memory, user: str, id: str) -> Scope:
    """Return the scope of a conversation."""
    return Scope.of(tenant=memory.tenant, user=user, thread=id)


def conversation_of(scope: Scope) -> tuple[str, str]:
    """Return the user and the id of the conversation in a scope; the inverse of `conversation_scope`."""
    ids = dict(scope.parts)
    return ids["user"], ids["thread"]


def source_label(id: str, seq: int) -> str:
    """Return the label, in the history of a memory, of the part of a conversation that it was learned from."""
    label = f"conversation:{id}#{seq}"
    return label if len(label) <= LONGEST_LABEL else f"conversation:{digest(id)}#{seq}"


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What a model sees of a conversation: its newest summary, and the parts since."""

    version: int
    """The version of the conversation's record; 0 before the conversation begins."""
    agent_id: str | None = None
    """The agent of the conversation; None before it begins."""
    active: bool = False
    """Whether a reply is in progress."""
    parts: tuple[Part, ...] = ()


def read_history(memory: Memory, user: str, id: str) -> History:
    """Return what a model sees of a conversation, without what was forgotten since; empty before it begins."""
    scope = conversation_scope(memory, user, id)
    found = read_state(memory, scope)
    if found is None:
        return History(version=0)
    kept, version = found
    parts = read_parts(memory, scope, kept.covered, kept.seq)
    # Read after the parts: what was forgotten meanwhile is left out, too.
    omissions: Omissions = memory.perform(ReadOmissions(scope=scope, key=CHAT_RECORD, since=kept.opened_at))
    active = kept.is_held(utc_now(memory.clock))
    shown = tuple(leave_out(parts, omissions)) if omissions else tuple(parts)
    return History(version=version, agent_id=kept.agent_id, active=active, parts=shown)


def leave_out(parts: Iterable[Part], omissions: Omissions) -> Iterator[Part]:
    """Yield parts as a model may see them: without what was forgotten since each was said."""
    for part in parts:
        later = omissions.made_since(part.at)
        is_json = part.kind in ("tool_request", "tool_response")
        text = later.leave_out_of_json(part.text) if is_json else later.leave_out(part.text)
        yield part if text == part.text else msgspec.structs.replace(part, text=text)


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
