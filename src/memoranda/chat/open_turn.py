"""An open turn: a reply in progress, with a lease on its conversation.

Parts are added to it until it is answered or given up. Because of the lease, two replies are never made at the same
time, and a process that died while making one does not block the conversation forever.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from memoranda.api.memory import Memory
from memoranda.chat.conversation import (
    INTERRUPTED,
    History,
    conversation_scope,
    message_key,
    message_write,
    read_parts,
    read_state,
    with_parts,
    write_state,
)
from memoranda.engine.facts import GetFact, GetFacts, SetFact
from memoranda.errors import Conflict, IdempotencyMismatch, UsageError
from memoranda.model.clock import utc_now
from memoranda.model.conversation import Active, ConversationState, Draft, MessageState, Part, Usage
from memoranda.model.fact import Fact
from memoranda.model.names import CHAT_RECORD, require_label
from memoranda.model.scope import Scope
from memoranda.model.text import quote

_EVENTS_SKIPPED = 10_000_000
"""Event numbers to skip when an interrupted reply is resumed: it is unknown which of them were seen.

More than any reply has characters, each of which takes a number."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was answered before, with its answer."""

    parts: tuple[Part, ...]
    usage: Usage
    last_event: int
    """The number of the last event of the reply."""


def find_answer(memory: Memory, user: str, id: str, *, agent_id: str, message_id: str, text: str) -> Answered | None:
    """Return the earlier answer to a message, if there is one.

    Raises IdempotencyMismatch if the id was used for another text, and UsageError for another agent's conversation.
    """
    require_label("message id", message_id)
    scope = conversation_scope(memory, user, id)
    kept, message = _read_states(memory, scope, message_id)
    if kept is not None:
        ensure_agent(id, kept.agent_id, agent_id)
    return None if message is None else _answer_to(memory, scope, message, text)


def is_being_answered(memory: Memory, user: str, id: str, *, message_id: str) -> bool:
    """Return whether a reply to this message is in progress, in any process."""
    found = read_state(memory, conversation_scope(memory, user, id))
    if found is None:
        return False
    kept, _ = found
    return kept.active is not None and kept.active.message_id == message_id and kept.is_held(utc_now(memory.clock))


class OpenTurn:
    """A reply in progress, with a lease on its conversation until it is answered or given up.

    If another process has taken over the conversation, every write raises a Conflict.
    """

    def __init__(
        self, memory: Memory, scope: Scope, kept: ConversationState, version: int, message: MessageState, lease: float
    ) -> None:
        """Create a turn without a lease; `begin_turn` acquires it."""
        self._memory = memory
        self._scope = scope
        self._kept = kept
        self._version = version
        self._message = message
        self._lease = timedelta(seconds=lease)
        self.parts: list[Part] = []
        """The parts of this turn, in order; for a resumed turn, also the earlier ones."""

    def next_event(self, words: str = "") -> int:
        """Return the number of a new event, higher than all before it in this conversation.

        An event with text takes one number for each character. So the number of the last event that a client saw tells
        how much of a reply it has, even if the events are gone.
        """
        self._kept = msgspec.structs.replace(self._kept, events=self._kept.events + (len(words) or 1))
        return self._kept.events

    def begin(self, drafts: Sequence[Draft]) -> None:
        """Add the user's message, and acquire the lease."""
        self._write(drafts, message_write(self._scope, self._message))

    def resume(self, earlier: Sequence[Part]) -> None:
        """Acquire the lease again, with the parts from before the interruption."""
        self._kept = msgspec.structs.replace(self._kept, events=self._kept.events + _EVENTS_SKIPPED)
        self.parts += earlier
        self._write(
            [
                Draft(kind="tool_response", text=INTERRUPTED, call_id=call.call_id, tool=call.tool, failed=True)
                for call in _pending_calls(earlier)
            ]
        )

    def add(self, drafts: Sequence[Draft]) -> list[Part]:
        """Add parts, all or nothing, and extend the lease; return them with their numbers.

        Events for the agent's text come before it is stored, those for tool calls and results afterwards.
        """
        return self._write(drafts)

    def answer(self, text: str, usage: Usage) -> list[Part]:
        """Add the agent's answer, mark the message as answered, and release the lease."""
        # The `end` event is still to come. It is counted now, because nothing is written after it.
        last_event = self._kept.events + 1
        message = msgspec.structs.replace(self._message, last=self._kept.seq + 1, usage=usage, last_event=last_event)
        return self._write(
            [Draft(kind="agent_text", text=text)],
            message_write(self._scope, message),
            held=False,
            events_ahead=1,
        )

    def give_up(self) -> None:
        """Release the lease without an answer; sending the same message again resumes from here."""
        self._write((), held=False)

    def _write(self, drafts: Sequence[Draft], *also: SetFact, held: bool = True, events_ahead: int = 0) -> list[Part]:
        now = utc_now(self._memory.clock)
        kept, parts = with_parts(self._kept, drafts, now, self._message.id)
        active = Active(message_id=self._message.id, until=now + self._lease) if held else None
        kept = msgspec.structs.replace(kept, active=active)
        written = msgspec.structs.replace(kept, events=kept.events + events_ahead)
        self._version = write_state(self._memory, self._scope, written, parts, *also, expect=self._version)
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
    """Store the user's message and acquire the lease; return the turn, or None if `history` is out of date.

    An interrupted turn is resumed with its parts. If the message was answered meanwhile, the answer is returned. Raises
    Conflict while another reply is in progress.

    Args:
        memory: where the conversation is stored.
        user: the user.
        id: the conversation.
        history: the conversation as the caller read it.
        agent_id: the agent; a conversation has only one.
        message_id: identifies the message if it is sent again.
        drafts: the user's message, and additions for the model alone.
        lease: seconds after the newest part until another process may take over the conversation.
    """
    require_label("message id", message_id)
    scope = conversation_scope(memory, user, id)
    found, known = _read_states(memory, scope, message_id)
    now = utc_now(memory.clock)
    kept = found or ConversationState(agent_id=agent_id, opened_at=now, last_at=now)
    ensure_agent(id, kept.agent_id, agent_id)
    _ensure_free(kept, id, now)
    message = known or MessageState(id=message_id, first=kept.seq + 1)
    earlier: list[Part] = []
    if known is not None:
        answered = _answer_to(memory, scope, message, drafts[0].text)
        if answered is not None:
            return answered
        earlier = read_parts(memory, scope, message.first - 1, kept.seq)
        _ensure_same(earlier[0], message_id, drafts[0].text)
        _ensure_newest(earlier, message_id)
    turn = OpenTurn(memory, scope, kept, history.version, message, lease)
    # The write expects the version of the history: if that is out of date, nothing is written.
    try:
        if known is not None:
            turn.resume(earlier)
        else:
            turn.begin(drafts)
    except Conflict:
        return None
    return turn


def add_summary(memory: Memory, user: str, id: str, *, history: History, text: str, covers: int) -> Part | None:
    """Add a summary that replaces all parts up to a number; return it, or None if `history` is out of date."""
    scope = conversation_scope(memory, user, id)
    found = read_state(memory, scope)
    if found is None:
        return None
    draft = Draft(kind="system_event", text=text, covers=covers)
    kept, parts = with_parts(found[0], [draft], utc_now(memory.clock), "")
    try:
        write_state(memory, scope, msgspec.structs.replace(kept, covered=covers), parts, expect=history.version)
    except Conflict:
        return None
    return parts[0]


def ensure_agent(id: str, actual: str, agent_id: str) -> None:
    """Refuse a conversation with another agent: each agent has a memory of its own."""
    if actual != agent_id:
        raise UsageError(
            f"the conversation {quote(id)} is with the agent {quote(actual)}, not with {quote(agent_id)}",
            hint="Use a separate conversation for each agent",
            value=agent_id,
        )


def _read_states(memory: Memory, scope: Scope, message_id: str) -> tuple[ConversationState | None, MessageState | None]:
    """Return the record of a conversation and the state of a message, read in one snapshot."""
    gets = (GetFact(scope=scope, key=CHAT_RECORD), GetFact(scope=scope, key=message_key(message_id)))
    found: list[Fact | None] = memory.perform(GetFacts(scope=scope, gets=gets))
    record, message = found
    return (
        None if record is None else msgspec.convert(record.value, ConversationState),
        None if message is None else msgspec.convert(message.value, MessageState),
    )


def _answer_to(memory: Memory, scope: Scope, message: MessageState, text: str) -> Answered | None:
    if message.last is None:
        return None
    parts = read_parts(memory, scope, message.first - 1, message.last)
    _ensure_same(parts[0], message.id, text)
    return Answered(parts=tuple(parts), usage=message.usage, last_event=message.last_event)


def _ensure_free(kept: ConversationState, id: str, now: datetime) -> None:
    if kept.active is not None and kept.is_held(now):
        raise Conflict(
            f"a reply is in progress in the conversation {quote(id)}",
            hint="Wait for it; the same message id is not answered twice",
            conversation_id=id,
            message_id=kept.active.message_id,
        )


def _ensure_same(first: Part, message_id: str, text: str) -> None:
    if first.text != text:
        raise IdempotencyMismatch(
            f"the message id {quote(message_id)} was used for another message in this conversation",
            hint="Use a new message id for each message, and the same one to send a message again",
            message_id=message_id,
        )


def _ensure_newest(parts: Sequence[Part], message_id: str) -> None:
    if any(part.message_id != message_id for part in parts):
        raise Conflict(
            f"the conversation continued without an answer to the message {quote(message_id)}",
            hint="Send it as a new message, with a new message id",
            message_id=message_id,
        )


def _pending_calls(parts: Sequence[Part]) -> list[Part]:
    """Return the tool calls at the end of a turn that have no result."""
    place = max((place for place, part in enumerate(parts) if part.kind == "tool_request"), default=-1)
    told = {part.call_id for part in parts[place + 1 :] if part.kind == "tool_response"}
    begin = place
    while begin > 0 and parts[begin - 1].kind == "tool_request":
        begin -= 1
    return [part for part in parts[max(begin, 0) : place + 1] if part.call_id not in told]
