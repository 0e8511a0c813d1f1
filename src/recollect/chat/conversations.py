"""Conversations of chat as facts: what was said in, and back in its order, with where each conversation stands.

A conversation is kept in the scope `user:<user>/thread:<id>`. There `chat.conversation` says where it stands, each part
of it is a fact below `chat.parts`, and each message of the user has one below `chat.messages`, by which a message that
is sent again is known.

Parts are only added, never changed. While a reply is being made the conversation is held by whoever makes it, for a
time: two replies are never made at once, and who died while making one does not hold it for good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from recollect.api.memory import Memory
from recollect.errors import Conflict, IdempotencyMismatch, NotFound, UsageError
from recollect.model.effect import FindFacts, GetFact, GetFacts, ListFacts, SetFact, WriteFacts
from recollect.model.fact import Fact
from recollect.model.key import CHAT_RECORD
from recollect.model.limits import check_count
from recollect.model.scope import Scope
from recollect.model.text import LONGEST_LABEL, quote, require_label
from recollect.model.value import encode, encode_checked

PartKind = Literal["user", "agent_text", "tool_request", "tool_response", "system_event", "reminders"]
"""What a part is: said by the user or the agent, a call of a tool or what it gave, or what the system adds."""

_PARTS, _MESSAGES = "chat.parts", "chat.messages"
INTERRUPTED = encode({"error": "This call was interrupted. It is not known whether it was carried out."}).decode()
"""What a model is told of a call that nobody lived to tell about: providers want a result for each."""
_EVENTS_SKIPPED = 10_000_000
"""Numbers of events that are left out when an interrupted reply is taken up: nobody knows which of them were seen.

More than the characters of any reply, for each of which there is a number."""
_TOLD_WHEN_KEPT = frozenset({"tool_request", "tool_response"})


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A part before it has its place: what is said, and by what."""

    kind: PartKind
    text: str
    """What was said; of a call its arguments, of its result the result, both as JSON."""
    hidden: bool = False
    """Whether only the model is shown it."""
    call_id: str = ""
    """Of a call and of its result: which call it is."""
    tool: str = ""
    failed: bool = False
    """Of a result: whether the call failed."""
    covers: int = 0
    """Of a summary: the number of the last part that it stands for."""


class Part(Draft, frozen=True, kw_only=True):
    """One part of a conversation."""

    seq: int
    """Its number in the conversation, from 1 on."""
    at: datetime
    message_id: str
    """The message of the user that it belongs to."""
    event: int = 0
    """The number of the last event that tells of it; 0 of what no event tells."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply took: requests to the model, and the tokens that it read and wrote."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


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


def read_conversation(memory: Memory, user: str, id: str, *, after: int = 0) -> ConversationRecord:
    """Return a conversation with its parts, all of them or those after a number; raise NotFound where there is none."""
    check_count("sequence", after)
    scope = conversation_scope(memory, user, id)
    standing = _standing(memory, scope)
    if standing is None:
        raise NotFound(f"`{user}` has no conversation {quote(id)}", hint="It was never begun, or was erased", value=id)
    kept, _ = standing
    parts = _parts(memory, scope, after, kept.seq)
    return ConversationRecord(**_summary(memory, scope, kept), parts=tuple(parts))


def list_conversations(memory: Memory, user: str | None = None) -> list[ConversationSummary]:
    """Return the conversations of a user, or of every user of the tenant, the one spoken in last first."""
    home = Scope.of(tenant=memory.tenant) if user is None else Scope.of(tenant=memory.tenant, user=user)
    facts: list[Fact] = memory.perform(FindFacts(scope=home, key=CHAT_RECORD))
    found = [ConversationSummary(**_summary(memory, fact.scope, msgspec.convert(fact.value, _Kept))) for fact in facts]
    return sorted(found, key=lambda one: (one.last_at, one.user, one.id), reverse=True)


def conversation_scope(memory: Memory, user: str, id: str) -> Scope:
    """Return where a conversation is kept."""
    return Scope.of(tenant=memory.tenant, user=user, thread=id)


def source_label(id: str, seq: int) -> str:
    """Return what the history of a memory calls the part of a conversation that it was learned from."""
    label = f"conversation:{id}#{seq}"
    return label if len(label) <= LONGEST_LABEL else f"conversation:{_digest(id)}#{seq}"


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is shown of a conversation: its parts since the newest summary, that summary among them."""

    version: int
    """The version of the conversation's record; 0 before it was begun."""
    agent_id: str | None = None
    """Whom the user speaks with; None before it was begun."""
    active: bool = False
    """Whether a reply is being made."""
    parts: tuple[Part, ...] = ()


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was answered before, and how."""

    parts: tuple[Part, ...]
    usage: Usage
    last_event: int
    """The number of the last event of the reply."""


def read_history(memory: Memory, user: str, id: str) -> History:
    """Return what a model is shown of a conversation before the user speaks; empty where it was not begun."""
    scope = conversation_scope(memory, user, id)
    standing = _standing(memory, scope)
    if standing is None:
        return History(version=0)
    kept, version = standing
    parts = _parts(memory, scope, kept.covered, kept.seq)
    active = _is_held(kept, _now(memory))
    return History(version=version, agent_id=kept.agent_id, active=active, parts=tuple(parts))


def find_answer(memory: Memory, user: str, id: str, *, message_id: str, text: str) -> Answered | None:
    """Return how a message was answered before; None where it was not, IdempotencyMismatch where it was another."""
    require_label("message id", message_id)
    scope = conversation_scope(memory, user, id)
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=_message_key(message_id)))
    return None if fact is None else _answer_to(memory, scope, msgspec.convert(fact.value, _Message), text)


def is_being_answered(memory: Memory, user: str, id: str, *, message_id: str) -> bool:
    """Return whether a reply to this message is being made, by whomever."""
    standing = _standing(memory, conversation_scope(memory, user, id))
    if standing is None:
        return False
    kept, _ = standing
    return kept.active is not None and kept.active.message_id == message_id and _is_held(kept, _now(memory))


class OpenTurn:
    """A reply that is being made: adds parts to its conversation, which it holds until it is answered or given up.

    It writes only as long as it holds the conversation: where somebody took it over, it fails with a Conflict.
    """

    def __init__(
        self, memory: Memory, scope: Scope, kept: _Kept, version: int, message: _Message, lease: float
    ) -> None:
        """Hold nothing yet; `begin_turn` makes these."""
        self._memory = memory
        self._scope = scope
        self._kept = kept
        self._version = version
        self._message = message
        self._lease = timedelta(seconds=lease)
        self.parts: list[Part] = []
        """The parts of this turn, in order; of one that was taken up, also those from before."""

    def next_event(self, words: str = "") -> int:
        """Return a number for an event, higher than all before it in this conversation.

        An event with words takes as many numbers as these have characters. So the number of the last event that
        somebody saw says how much of a reply that was, even when the events are gone.
        """
        self._kept = msgspec.structs.replace(self._kept, events=self._kept.events + (len(words) or 1))
        return self._kept.events

    def begin(self, drafts: Sequence[Draft]) -> None:
        """Add what the user said, and hold the conversation."""
        self._write(drafts, _set(self._scope, _message_key(self._message.id), self._message))

    def take_up(self, earlier: Sequence[Part]) -> None:
        """Hold the conversation again, with the parts that were there when the turn was interrupted."""
        self._kept = msgspec.structs.replace(self._kept, events=self._kept.events + _EVENTS_SKIPPED)
        self.parts += earlier
        self._write(
            [
                Draft(kind="tool_response", text=INTERRUPTED, call_id=call.call_id, tool=call.tool, failed=True)
                for call in _unanswered(earlier)
            ]
        )

    def add(self, drafts: Sequence[Draft]) -> list[Part]:
        """Add parts, all or none, and hold the conversation for longer; return them with their numbers.

        What the agent says is told before it is kept, calls and their results afterwards.
        """
        return self._write(drafts)

    def answer(self, text: str, usage: Usage) -> list[Part]:
        """Add the agent's last words, keep the message as answered, and let go of the conversation."""
        # One event is still to be told, the end. It is counted now, because nothing is written after it.
        last_event = self._kept.events + 1
        message = msgspec.structs.replace(self._message, last=self._kept.seq + 1, usage=usage, last_event=last_event)
        return self._write(
            [Draft(kind="agent_text", text=text)],
            _set(self._scope, _message_key(message.id), message),
            held=False,
            events_ahead=1,
        )

    def give_up(self) -> None:
        """Let go of the conversation without an answer: who sends the same message again goes on from here."""
        self._write((), held=False)

    def _write(self, drafts: Sequence[Draft], *also: SetFact, held: bool = True, events_ahead: int = 0) -> list[Part]:
        now = _now(self._memory)
        kept, parts = _with_parts(self._kept, drafts, now, self._message.id)
        active = _Active(message_id=self._message.id, until=now + self._lease) if held else None
        kept = msgspec.structs.replace(kept, active=active)
        written = msgspec.structs.replace(kept, events=kept.events + events_ahead)
        self._version = _keep(self._memory, self._scope, written, parts, *also, expect=self._version)
        self._kept = kept
        self.parts += parts
        return parts


def begin_turn(
    memory: Memory,
    user: str,
    id: str,
    *,
    history: History,
    agent_id: str,
    message_id: str,
    drafts: Sequence[Draft],
    lease: float,
) -> OpenTurn | Answered | None:
    """Keep what the user said and hold the conversation; return the turn, or None where `history` is no longer true.

    A turn that was interrupted is taken up: its parts stay as they are. Of a message that was answered meanwhile, the
    answer is returned. Raises Conflict while a reply is being made.

    Args:
        memory: where it is kept.
        user: whose conversation it is.
        id: which one.
        history: the conversation as the caller read it.
        agent_id: whom the user speaks with; a conversation has one agent.
        message_id: what the message is known by when it is sent again.
        drafts: what the user says, and what is added to it for the model alone.
        lease: seconds after which somebody else may take the conversation over, counted from the newest part.
    """
    require_label("message id", message_id)
    scope = conversation_scope(memory, user, id)
    gets = (GetFact(scope=scope, key=CHAT_RECORD), GetFact(scope=scope, key=_message_key(message_id)))
    found: list[Fact | None] = memory.perform(GetFacts(scope=scope, gets=gets))
    record, known = found
    now = _now(memory)
    kept = _Kept(agent_id=agent_id, opened_at=now, last_at=now)
    if record is not None:
        kept = msgspec.convert(record.value, _Kept)
        ensure_agent(id, kept.agent_id, agent_id)
        _ensure_free(kept, id, now)
    message = _Message(id=message_id, first=kept.seq + 1)
    earlier: list[Part] = []
    if known is not None:
        message = msgspec.convert(known.value, _Message)
        answered = _answer_to(memory, scope, message, drafts[0].text)
        if answered is not None:
            return answered
        earlier = _parts(memory, scope, message.first - 1, kept.seq)
        _ensure_same(earlier[0], message_id, drafts[0].text)
        _ensure_newest(earlier, message_id)
    turn = OpenTurn(memory, scope, kept, history.version, message, lease)
    # The version of the history is what the record is expected at: who read an older one writes nothing.
    try:
        if known is not None:
            turn.take_up(earlier)
        else:
            turn.begin(drafts)
    except Conflict:
        return None
    return turn


def add_summary(memory: Memory, user: str, id: str, *, history: History, text: str, covers: int) -> Part | None:
    """Add a summary that stands for all parts up to a number; return it, or None where `history` is no longer true."""
    scope = conversation_scope(memory, user, id)
    standing = _standing(memory, scope)
    if standing is None:
        return None
    draft = Draft(kind="system_event", text=text, covers=covers)
    kept, parts = _with_parts(standing[0], [draft], _now(memory), "")
    try:
        _keep(memory, scope, msgspec.structs.replace(kept, covered=covers), parts, expect=history.version)
    except Conflict:
        return None
    return parts[0]


def ensure_agent(id: str, actual: str, agent_id: str) -> None:
    """Refuse to speak with one agent in a conversation with another: each has a memory of its own."""
    if actual != agent_id:
        raise UsageError(
            f"the conversation {quote(id)} is one with the agent {quote(actual)}, not with {quote(agent_id)}",
            hint="Begin a conversation of its own with each agent",
            value=agent_id,
        )


class _Active(msgspec.Struct, frozen=True, kw_only=True):
    """That a reply is being made: to which message, and until when nobody else may make one."""

    message_id: str
    until: datetime


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What the record of a conversation holds."""

    agent_id: str
    opened_at: datetime
    last_at: datetime
    seq: int = 0
    events: int = 0
    covered: int = 0
    """The number of the last part that a summary stands for."""
    active: _Active | None = None


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a message of the user: its first part and, once it was answered, its last."""

    id: str
    first: int
    last: int | None = None
    last_event: int = 0
    usage: Usage = Usage()


def _answer_to(memory: Memory, scope: Scope, message: _Message, text: str) -> Answered | None:
    if message.last is None:
        return None
    parts = _parts(memory, scope, message.first - 1, message.last)
    _ensure_same(parts[0], message.id, text)
    return Answered(parts=tuple(parts), usage=message.usage, last_event=message.last_event)


def _standing(memory: Memory, scope: Scope) -> tuple[_Kept, int] | None:
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=CHAT_RECORD))
    return None if fact is None else (msgspec.convert(fact.value, _Kept), fact.version)


def _summary(memory: Memory, scope: Scope, kept: _Kept) -> dict[str, Any]:
    ids = dict(scope.parts)
    return {
        "id": ids["thread"],
        "user": ids["user"],
        "agent_id": kept.agent_id,
        "opened_at": kept.opened_at,
        "last_at": kept.last_at,
        "last_seq": kept.seq,
        "active": _is_held(kept, _now(memory)),
    }


def _is_held(kept: _Kept, now: datetime) -> bool:
    return kept.active is not None and now < kept.active.until


def _parts(memory: Memory, scope: Scope, after: int, last: int) -> list[Part]:
    """Return the parts after a number, up to and with another: what was added since is newer than the reader knows."""
    facts: list[Fact] = memory.perform(
        ListFacts(scope=scope, prefix=_PARTS, after=_part_key(after), limit=max(last - after, 0))
    )
    parts = [msgspec.convert(fact.value, Part) for fact in facts]
    return [part for part in parts if part.seq <= last]


def _with_parts(kept: _Kept, drafts: Iterable[Draft], now: datetime, message_id: str) -> tuple[_Kept, list[Part]]:
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


def _keep(memory: Memory, scope: Scope, kept: _Kept, parts: Sequence[Part], *also: SetFact, expect: int) -> int:
    """Write the record and what came with it, all or none; return the record's version."""
    # The record is what two writers meet at: the slower one has written nothing.
    writes = [_set(scope, CHAT_RECORD, kept, expect=expect), *also]
    for part in parts:
        payload = msgspec.Raw(encode_checked(msgspec.to_builtins(part), memory.limits))
        writes.append(SetFact(scope=scope, key=_part_key(part.seq), payload=payload, expect=0, echo=False))
    return memory.perform(WriteFacts(scope=scope, writes=tuple(writes)))[0].version


def _set(scope: Scope, key: str, value: object, *, expect: int | None = None) -> SetFact:
    payload = msgspec.Raw(encode(msgspec.to_builtins(value)))
    return SetFact(scope=scope, key=key, payload=payload, expect=expect, echo=False)


def _ensure_free(kept: _Kept, id: str, now: datetime) -> None:
    if kept.active is not None and _is_held(kept, now):
        raise Conflict(
            f"a reply is being made in the conversation {quote(id)}",
            hint="Wait for it; the same message under the same message id is not answered twice",
            conversation_id=id,
            message_id=kept.active.message_id,
        )


def _ensure_same(first: Part, message_id: str, text: str) -> None:
    if first.text != text:
        raise IdempotencyMismatch(
            f"the message id {quote(message_id)} was used for another message in this conversation",
            hint="Use a fresh message id for each message, and the same one to send a message again",
            message_id=message_id,
        )


def _ensure_newest(parts: Sequence[Part], message_id: str) -> None:
    if any(part.message_id != message_id for part in parts):
        raise Conflict(
            f"the conversation went on without an answer to the message {quote(message_id)}",
            hint="Send it as a new message, under a fresh message id",
            message_id=message_id,
        )


def _unanswered(parts: Sequence[Part]) -> list[Part]:
    """Return the calls at the end of a turn that have no result."""
    place = max((place for place, part in enumerate(parts) if part.kind == "tool_request"), default=-1)
    told = {part.call_id for part in parts[place + 1 :] if part.kind == "tool_response"}
    begin = place
    while begin > 0 and parts[begin - 1].kind == "tool_request":
        begin -= 1
    return [part for part in parts[max(begin, 0) : place + 1] if part.call_id not in told]


def _part_key(seq: int) -> str:
    return f"{_PARTS}.{seq:012}"


def _message_key(message_id: str) -> str:
    return f"{_MESSAGES}.{_digest(message_id)}"


def _digest(text: str) -> str:
    # Ids may hold dots and be long; a segment of a key may not.
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _now(memory: Memory) -> datetime:
    return memory.clock.now().astimezone(UTC)
