"""Learn from a conversation that was held anywhere: keep its messages, and what they state."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from memoranda.engine.learning import KnownBefore, Learn, ReadStatements, Stated, Turn
from memoranda.errors import ModelError
from memoranda.governance.gate import Caller, Gate
from memoranda.learning.extraction import Extracted, Extractor, Known, extract_by_model, extract_by_rules
from memoranda.learning.messages import Message, read_messages, read_moment, with_time
from memoranda.model.clock import to_micros
from memoranda.model.lesson import Learned
from memoranda.model.names import check_label
from memoranda.model.scope import Scope
from memoranda.model.text import storable_text
from memoranda.model.value import encode

_PORTION = 200
"""Messages that are kept in one transaction; a longer conversation takes several."""
_LONGEST_TEXT = 12_000
"""Characters of one entry; a longer message is kept in parts."""


def learn_from(
    gate: Gate,
    caller: Caller,
    scope: Scope,
    messages: object,
    *,
    conversation: str | None,
    agent: str | None,
    model: object,
    at: datetime | str | float | None,
    source: str | None,
) -> Learned:
    """Keep the messages that are new and bring what they state up to date; see `ScopedMemory.learn`."""
    check_label("conversation", conversation)
    check_label("agent", agent)
    check_label("source", source)
    said = read_messages(messages)
    id = conversation if conversation is not None else _conversation_id(said)
    extract = extract_by_rules if model is None else extract_by_model(model)
    # Keys follow from the messages alone, whatever time is assumed for them.
    keys = _keys(said, id)
    said = said if at is None else with_time(said, read_moment(at))
    results: list[Learned] = []
    for begin in range(0, len(said), _PORTION):
        part = _Portion(scope, id, agent, said[begin : begin + _PORTION], keys[begin : begin + _PORTION])
        known: KnownBefore = gate.perform(ReadStatements(scope=scope, keys=part.keys), caller)
        statements, pending = part.statements(known, extract)
        effect = Learn(
            scope=scope, conversation=id, agent=agent, turns=part.turns, statements=statements, source=source
        )
        learned: Learned = gate.perform(effect, caller)
        results.append(msgspec.structs.replace(learned, pending=pending))
    return _sum(id, results)


class _Portion:
    """Some messages of a conversation as turns; a long message takes several."""

    def __init__(
        self, scope: Scope, conversation: str, agent: str | None, messages: Sequence[Message], keys: Sequence[str]
    ) -> None:
        self._messages = messages
        self._user = dict(scope.parts).get("user")
        self._keys = keys
        self._first: list[int] = []
        """The place of the first turn of each message."""
        turns: list[Turn] = []
        for message, key in zip(messages, keys, strict=True):
            self._first.append(len(turns))
            about = self._metadata(message, conversation, agent)
            at = None if message.at is None else to_micros(message.at)
            text = storable_text(message.text)
            for number, begin in enumerate(range(0, max(len(text), 1), _LONGEST_TEXT)):
                metadata = about if len(text) <= _LONGEST_TEXT else {**about, "part": number + 1}
                turns.append(
                    Turn(
                        key=f"{key}.{number + 1}" if number else key,
                        text=text[begin : begin + _LONGEST_TEXT],
                        metadata=msgspec.Raw(encode(metadata)),
                        at=at,
                    )
                )
        self.turns = tuple(turns)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the messages."""
        return tuple(self._keys)

    def _metadata(self, message: Message, conversation: str, agent: str | None) -> dict[str, Any]:
        about: dict[str, Any] = {"thread": conversation, "role": message.role}
        actor = message.name or (self._user if message.role == "user" else agent)
        if actor:
            about["actor"] = actor
        if agent is not None:
            about["agent"] = agent
        if message.at is not None:
            about["time"] = message.at.isoformat()
        if message.attachments:
            about["attachments"] = list(message.attachments)
        return about

    def statements(self, known: KnownBefore, extract: Extractor) -> tuple[tuple[Stated, ...], str | None]:
        """Return what the new messages state; and why that is not known yet, if a model failed."""
        new = {place for place, key in enumerate(self._keys) if key not in known.keys}
        if not new:
            return (), None
        try:
            found = extract(self._messages, _current_statements(known))
        except ModelError as error:
            return (), error.message
        return tuple(self._statement(one) for one in found if not new.isdisjoint(one.messages)), None

    def _statement(self, extracted: Extracted) -> Stated:
        statement, said = extracted.statement, self._messages[max(extracted.messages)]
        other = said.name if said.name and said.name.casefold() != (self._user or "").casefold() else None
        return Stated(
            key=extracted.key if other is None else f"{other.casefold()}:{extracted.key}",
            text=statement.text if other is None else f"{other}: {statement.text}",
            value=statement.value,
            at=None if said.at is None else to_micros(said.at),
            valid_from=None if statement.valid_from is None else to_micros(statement.valid_from),
            ends=statement.ends,
            metadata={"attribute": statement.attribute, **({"actor": actor} if (actor := other or self._user) else {})},
            messages=tuple(self._first[place] for place in extracted.messages),
            for_agent=extracted.for_agent,
        )


def _current_statements(before: KnownBefore) -> list[Known]:
    return [Known(str(entry.content), entry.key or "") for entry in before.statements]


def _conversation_id(messages: Sequence[Message]) -> str:
    """Return the id of a conversation without one: it follows from how it begins."""
    return f"conversation-{_digest(messages[0])}" if messages else ""


def _keys(messages: Iterable[Message], conversation: str) -> list[str]:
    """Return the key of each message: the conversation, what was said, and which time of saying it this is."""
    seen: Counter[str] = Counter()
    keys: list[str] = []
    for message in messages:
        digest = _digest(message)
        seen[digest] += 1
        keys.append(f"{_short(conversation)}:{digest}" + (f":{seen[digest]}" if seen[digest] > 1 else ""))
    return keys


def _digest(message: Message) -> str:
    at = "" if message.at is None else message.at.isoformat()
    said = "\0".join((message.role, message.name or "", message.id or "", at, message.text, *message.attachments))
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def _short(conversation: str) -> str:
    """Return a conversation's id, or its digest where a key would become too long."""
    return conversation if len(conversation) <= 100 else hashlib.sha256(conversation.encode()).hexdigest()[:20]


def _sum(conversation: str, results: Sequence[Learned]) -> Learned:
    return Learned(
        conversation=conversation,
        messages=tuple(ref for one in results for ref in one.messages),
        known_messages=sum(one.known_messages for one in results),
        lessons=tuple(lesson for one in results for lesson in one.lessons),
        undo=tuple(token for one in results for token in one.undo),
        pending=next((one.pending for one in results if one.pending is not None), None),
    )
