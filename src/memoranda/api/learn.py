"""Learn from a conversation that was held anywhere: keep its messages, and what they state."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from memoranda.engine.entries import GetEntry
from memoranda.engine.learning import KnownBefore, Learn, ReadStatements, Stated, Turn, Unread
from memoranda.errors import MemorandaError
from memoranda.learning.extraction import Extracted, Extractor, Known, extract_by_model, extract_by_rules
from memoranda.learning.messages import Message, Role, read_messages, read_moment, with_time
from memoranda.model.block import canonical_line
from memoranda.model.clock import to_micros
from memoranda.model.effect import Effect
from memoranda.model.entry import CONVERSATIONS, Entry
from memoranda.model.job import Job
from memoranda.model.lesson import Learned
from memoranda.model.names import check_label
from memoranda.model.scope import Scope
from memoranda.model.text import storable_text
from memoranda.model.trust import OriginKind
from memoranda.model.value import encode

_PORTION = 200
"""Messages that are kept in one transaction; a longer conversation takes several."""
_LONGEST_TEXT = 12_000
"""Characters of one entry; a longer message is kept in parts."""


Perform: TypeAlias = Callable[[Effect], Any]


def learn_from(
    perform: Perform,
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
    extract = extract_by_rules if model is None else _ModelReader(model)
    # Keys follow from the messages alone, whatever time is assumed for them.
    keys = _keys(said, id)
    said = said if at is None else with_time(said, read_moment(at))
    return _learn_portions(perform, scope, said, keys, id, agent, extract, source)


def learn_again(perform: Perform, job: Job, extract: Extractor) -> Learned | None:
    """Read the messages of a job whose model failed; None if they are gone. Raises what the extractor raises."""
    work = job.work
    scope = Scope.parse(work["scope"], tenant=job.scope.tenant)
    kept = {key: message for key in work["keys"] if (message := _message_under(perform, scope, key)) is not None}
    if not kept:
        return None
    if work["model"] is not None:
        extract = extract_by_model(work["model"])
    return _learn_portions(
        perform, scope, list(kept.values()), list(kept), work["conversation"], work["agent"], extract, work["source"]
    )


def _learn_portions(
    perform: Perform,
    scope: Scope,
    messages: Sequence[Message],
    keys: Sequence[str],
    conversation: str,
    agent: str | None,
    extract: Extractor,
    source: str | None,
) -> Learned:
    results: list[Learned] = []
    for begin in range(0, len(messages), _PORTION):
        end = begin + _PORTION
        part = _Portion(scope, conversation, agent, messages[begin:end], keys[begin:end])
        results.append(part.learn(perform, extract, source))
    return _sum(conversation, results)


def _message_under(perform: Perform, scope: Scope, key: str) -> Message | None:
    """Return a message as it was kept, its parts joined."""
    entries: list[Entry] = []
    while True:
        name = f"{key}.{len(entries) + 1}" if entries else key
        entry: Entry | None = perform(GetEntry(scope=scope, collection=CONVERSATIONS, key=name))
        if entry is None:
            break
        entries.append(entry)
        if "part" not in entry.metadata:
            break
    if not entries:
        return None
    about = entries[0].metadata
    return Message(
        role=about["role"],
        text="".join(str(entry.content) for entry in entries),
        name=about.get("actor") if about["role"] == "user" else None,
        at=entries[0].moment("time"),
        attachments=tuple(about.get("attachments", ())),
    )


class _ModelReader:
    """Asks a model until it fails, and notes why instead of raising it."""

    def __init__(self, model: object) -> None:
        self._extract = extract_by_model(model)
        self.name = model if isinstance(model, str) else None
        self.failure = ""

    def __call__(self, messages: Sequence[Message], known: Sequence[Known]) -> list[Extracted]:
        if self.failure:  # it is not asked for each portion of a long conversation
            return []
        try:
            return self._extract(messages, known)
        # A model may be code of the caller: whatever it raises, the messages are kept, and the result says why.
        except Exception as error:
            self.failure = error.message if isinstance(error, MemorandaError) else f"{type(error).__name__}: {error}"
            return []


_KIND_OF_ROLE: dict[Role, OriginKind] = {
    "user": "user",
    "system": "assistant",
    "assistant": "assistant",
    "tool": "tool_external",
}
"""What each role of a message is as an origin. A system message is what a program told its model, not a user."""


class _Portion:
    """Some messages of a conversation as turns; a long message takes several."""

    def __init__(
        self, scope: Scope, conversation: str, agent: str | None, messages: Sequence[Message], keys: Sequence[str]
    ) -> None:
        self._scope = scope
        self._conversation = conversation
        self._agent = agent
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
                        kind=_KIND_OF_ROLE[message.role],
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

    def learn(self, perform: Perform, extract: Extractor, source: str | None) -> Learned:
        """Keep the messages, and what those that were not read before state."""
        asked = ReadStatements(scope=self._scope, keys=self.keys, conversation=self._conversation)
        known: KnownBefore = perform(asked)
        statements, unread = self._read(known, extract)
        return perform(
            Learn(
                scope=self._scope,
                conversation=self._conversation,
                agent=self._agent,
                turns=self.turns,
                statements=statements,
                source=source,
                unread=unread,
            )
        )

    def _read(self, known: KnownBefore, extract: Extractor) -> tuple[tuple[Stated, ...], Unread | None]:
        """Return what the new messages state, and which could not be read because a model failed."""
        new = {place for place, key in enumerate(self._keys) if key not in known.keys}
        if not new:
            return (), None
        found = extract(self._messages, known_lines(known))
        if isinstance(extract, _ModelReader) and extract.failure:
            keys = tuple(self._keys[place] for place in sorted(new))
            return (), Unread(keys=keys, error=extract.failure, model=extract.name)
        taken = [one for one in found if not new.isdisjoint(one.messages)]
        return tuple(self._statement(one) for one in taken), None

    def _statement(self, extracted: Extracted) -> Stated:
        stated = statement_of(extracted, self._messages, self._user)
        return msgspec.structs.replace(stated, messages=tuple(self._first[place] for place in extracted.messages))


def statement_of(extracted: Extracted, messages: Sequence[Message], user: str | None) -> Stated:
    """Return what an extractor found as a statement about its speaker, without the refs of its messages."""
    statement, said = extracted.statement, messages[max(extracted.messages)]
    other = said.name if said.name and said.name.casefold() != (user or "").casefold() else None
    return Stated(
        key=extracted.key if other is None else f"{other.casefold()}:{extracted.key}",
        text=statement.text if other is None else f"{other}: {statement.text}",
        value=statement.value,
        at=None if said.at is None else to_micros(said.at),
        valid_from=None if statement.valid_from is None else to_micros(statement.valid_from),
        ends=statement.ends,
        metadata={"attribute": statement.attribute, **({"actor": actor} if (actor := other or user) else {})},
        for_agent=extracted.for_agent,
        replaces=extracted.replaces,
        also_ends=extracted.ends,
        block="core" if statement.core else "archival",
    )


def known_lines(before: KnownBefore) -> list[Known]:
    """Return what an extractor is told is known: statements, and the lines of blocks that say something else."""
    found = [Known(str(entry.content), entry.key or "") for entry in before.statements]
    texts = {canonical_line(one.text) for one in found}
    return [*found, *(Known(line, key) for line, key in before.lines if canonical_line(line) not in texts)]


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
        lines=tuple(change for one in results for change in one.lines),
        held=tuple(dict.fromkeys(id for one in results for id in one.held)),
        refused=tuple(reason for one in results for reason in one.refused),
        findings=tuple(dict.fromkeys(finding for one in results for finding in one.findings)),
        pending=next((one.pending for one in results if one.pending is not None), None),
        retry_at=next((one.retry_at for one in results if one.retry_at is not None), None),
    )
