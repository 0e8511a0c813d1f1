"""Where a conversation stands, and its parts, in; facts out; and back. They lie in the scope of the conversation.

`chat.conversation` says where it stands, each part of it is a fact below `chat.parts`, and each message of the user has
one below `chat.messages`, by which a message that is sent again is known. Parts are only added, never changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from memoranda.api.memory import Memory
from memoranda.chat.parts import Draft, Part, Usage
from memoranda.model.effect import GetFact, ListFacts, SetFact, WriteFacts
from memoranda.model.fact import Fact
from memoranda.model.key import CHAT_RECORD
from memoranda.model.scope import Scope
from memoranda.model.value import encode, encode_checked

_PARTS, _MESSAGES = "chat.parts", "chat.messages"
_TOLD_WHEN_KEPT = frozenset({"tool_request", "tool_response"})


class Active(msgspec.Struct, frozen=True, kw_only=True):
    """That a reply is being made: to which message, and until when nobody else may make one."""

    message_id: str
    until: datetime


class ConversationState(msgspec.Struct, frozen=True, kw_only=True):
    """What the record of a conversation holds."""

    agent_id: str
    opened_at: datetime
    last_at: datetime
    seq: int = 0
    events: int = 0
    covered: int = 0
    """The number of the last part that a summary stands for."""
    active: Active | None = None

    def is_held(self, now: datetime) -> bool:
        """Say whether a reply is being made, by somebody whose time is not over."""
        return self.active is not None and now < self.active.until


class MessageState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a message of the user: its first part and, once it was answered, its last."""

    id: str
    first: int
    last: int | None = None
    last_event: int = 0
    usage: Usage = Usage()


def read_state(memory: Memory, scope: Scope) -> tuple[ConversationState, int] | None:
    """Return where a conversation stands, and the version of its record; None where there is none."""
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=CHAT_RECORD))
    return None if fact is None else (msgspec.convert(fact.value, ConversationState), fact.version)


def read_parts(memory: Memory, scope: Scope, after: int, last: int, max_bytes: int | None = None) -> list[Part]:
    """Return the parts after a number, up to and with another: what was added since is newer than the reader knows."""
    facts: list[Fact] = memory.perform(
        ListFacts(scope=scope, prefix=_PARTS, after=_part_key(after), limit=max(last - after, 0), max_bytes=max_bytes)
    )
    parts = [msgspec.convert(fact.value, Part) for fact in facts]
    return [part for part in parts if part.seq <= last]


def with_parts(
    kept: ConversationState, drafts: Iterable[Draft], now: datetime, message_id: str
) -> tuple[ConversationState, list[Part]]:
    """Return the record with parts added, and the parts with their places."""
    # Parts never go back in time, whatever the clock does.
    at = max(now, kept.last_at)
    events = kept.events
    parts: list[Part] = []
    for seq, draft in enumerate(drafts, kept.seq + 1):
        events += draft.kind in _TOLD_WHEN_KEPT
        event = events if draft.kind == "agent_text" or draft.kind in _TOLD_WHEN_KEPT else 0
        parts.append(Part(**msgspec.structs.asdict(draft), seq=seq, at=at, message_id=message_id, event=event))
    if not parts:
        return kept, parts
    return msgspec.structs.replace(kept, seq=parts[-1].seq, last_at=at, events=events), parts


def write_state(
    memory: Memory, scope: Scope, kept: ConversationState, parts: Sequence[Part], *also: SetFact, expect: int
) -> int:
    """Write the record and what came with it, all or none; return the record's version."""
    # The record is what two writers meet at: the slower one has written nothing.
    writes = [_set(scope, CHAT_RECORD, kept, expect=expect), *also]
    for part in parts:
        payload = msgspec.Raw(encode_checked(msgspec.to_builtins(part), memory.limits))
        writes.append(SetFact(scope=scope, key=_part_key(part.seq), payload=payload, expect=0, echo=False))
    return memory.perform(WriteFacts(scope=scope, writes=tuple(writes)))[0].version


def message_write(scope: Scope, message: MessageState) -> SetFact:
    """Return the write that keeps what is known of a message, for `write_state` to take along."""
    return _set(scope, message_key(message.id), message)


def _set(scope: Scope, key: str, value: object, *, expect: int | None = None) -> SetFact:
    payload = msgspec.Raw(encode(msgspec.to_builtins(value)))
    return SetFact(scope=scope, key=key, payload=payload, expect=expect, echo=False)


def _part_key(seq: int) -> str:
    return f"{_PARTS}.{seq:012}"


def message_key(message_id: str) -> str:
    """Return the key of what is known of a message."""
    return f"{_MESSAGES}.{digest(message_id)}"


def digest(text: str) -> str:
    """Return what stands for an id where it cannot stand itself."""
    # Ids may hold dots and be long; a segment of a key may not.
    return hashlib.sha256(text.encode()).hexdigest()[:32]
