"""A message in, a turn that holds its conversation out: parts are added to it until it is answered or given up.

While a reply is being made the conversation is held by whoever makes it, for a time: two replies are never made at
once, and who died while making one does not hold it for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from memoranda.api.memory import Memory
from memoranda.chat.conversations import History, conversation_scope
from memoranda.chat.keeping import (
    Active,
    ConversationState,
    MessageState,
    message_key,
    message_write,
    read_parts,
    read_state,
    with_parts,
    write_state,
)
from memoranda.chat.parts import INTERRUPTED, Draft, Part, Usage
from memoranda.errors import Conflict, IdempotencyMismatch, UsageError
from memoranda.model.clock import utc_now
from memoranda.model.effect import GetFact, GetFacts, SetFact
from memoranda.model.fact import Fact
from memoranda.model.key import CHAT_RECORD
from memoranda.model.scope import Scope
from memoranda.model.text import quote, require_label

_EVENTS_SKIPPED = 10_000_000
"""Numbers of events that are left out when an interrupted reply is taken up: nobody knows which of them were seen.

More than the characters of any reply, for each of which there is a number."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was answered before, and how."""

    parts: tuple[Part, ...]
    usage: Usage
    last_event: int
    """The number of the last event of the reply."""


def find_answer(memory: Memory, user: str, id: str, *, agent_id: str, message_id: str, text: str) -> Answered | None:
    """Return how an agent answered a message before; None where it did not, IdempotencyMismatch where it was another.

    Where the conversation is one with another agent, it is a UsageError.
    """
    require_label("message id", message_id)
    scope = conversation_scope(memory, user, id)
    kept, message = _known(memory, scope, message_id)
    if kept is not None:
        ensure_agent(id, kept.agent_id, agent_id)
    return None if message is None else _answer_to(memory, scope, message, text)


def is_being_answered(memory: Memory, user: str, id: str, *, message_id: str) -> bool:
    """Return whether a reply to this message is being made, by whomever."""
    standing = read_state(memory, conversation_scope(memory, user, id))
    if standing is None:
        return False
    kept, _ = standing
    return kept.active is not None and kept.active.message_id == message_id and kept.is_held(utc_now(memory.clock))


class OpenTurn:
    """A reply that is being made: adds parts to its conversation, which it holds until it is answered or given up.

    It writes only as long as it holds the conversation: where somebody took it over, it fails with a Conflict.
    """

    def __init__(
        self, memory: Memory, scope: Scope, kept: ConversationState, version: int, message: MessageState, lease: float
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
        self._write(drafts, message_write(self._scope, self._message))

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
            message_write(self._scope, message),
            held=False,
            events_ahead=1,
        )

    def give_up(self) -> None:
        """Let go of the conversation without an answer: who sends the same message again goes on from here."""
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
    standing, known = _known(memory, scope, message_id)
    now = utc_now(memory.clock)
    kept = standing or ConversationState(agent_id=agent_id, opened_at=now, last_at=now)
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
    standing = read_state(memory, scope)
    if standing is None:
        return None
    draft = Draft(kind="system_event", text=text, covers=covers)
    kept, parts = with_parts(standing[0], [draft], utc_now(memory.clock), "")
    try:
        write_state(memory, scope, msgspec.structs.replace(kept, covered=covers), parts, expect=history.version)
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


def _known(memory: Memory, scope: Scope, message_id: str) -> tuple[ConversationState | None, MessageState | None]:
    """Return where a conversation stands, and what is known of a message, as they were in one moment."""
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
