"""Learning: keep the messages of a conversation, and what they state, in one transaction.

Messages are entries of the collection `conversations`. Statements are entries of the collection `statements`, each
under a key made of its subject and attribute, so that the entries of one key are a chain: the newest is true now, and
the ones before it are found as of earlier moments. Nothing is deleted, and the same call twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from memoranda.engine.embedding import Texts, texts_by_space
from memoranda.engine.entries import EMBEDDING_TAKES_TIME, Item, embed_texts, entry_of_key, store_items
from memoranda.engine.forget import undo_token
from memoranda.engine.sessions import ensure_open
from memoranda.engine.verbs import Call, Outcome, Preparation, verb
from memoranda.model.clock import from_micros
from memoranda.model.effect import Demand, ReadEffect, WriteEffect
from memoranda.model.entry import CONVERSATIONS, STATEMENTS, Entry, Shelf
from memoranda.model.event import Note
from memoranda.model.fact import with_source
from memoranda.model.lesson import Learned, Lesson, Verdict
from memoranda.model.names import collection_key
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.base import EntryQuery, Reader, Transaction

_MOST_KNOWN = 200
"""Statements that a model is told are known: the newest ones."""


_MOST_OUTDATED = 100
"""Messages that a statement may outdate: the newest ones of its chain."""


class Turn(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A message to keep. If there is an entry under its key, it was kept before."""

    key: str
    text: str
    metadata: msgspec.Raw
    at: int | None = None
    """When it was said, in microseconds; now if None."""


class Stated(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Something that messages state."""

    key: str
    text: str
    value: str
    """What two statements under one key are compared by: they agree if it is the same."""
    at: int | None = None
    """When it was said, in microseconds."""
    valid_from: int | None = None
    """Since when it is true, in microseconds, where a message says so."""
    ends: bool = False
    """Whether the messages say that it is no longer true."""
    metadata: dict[str, Any] = {}
    messages: tuple[int, ...] = ()
    """The places among the turns of the messages that state it."""
    for_agent: bool = False
    """Whether it matters only to the agent of the conversation."""


class Learn(WriteEffect, frozen=True, kw_only=True, tag="learn"):
    """Keep messages and what they state."""

    conversation: str
    agent: str | None = None
    turns: tuple[Turn, ...] = ()
    statements: tuple[Stated, ...] = ()
    source: str | None = None

    def demands(self) -> Iterator[Demand]:
        """Yield the right to write each collection."""
        yield self.capability, self.scope, collection_key(CONVERSATIONS)
        for scope in dict.fromkeys(self.place_of(stated) for stated in self.statements):
            yield self.capability, scope, collection_key(STATEMENTS)

    def weight(self) -> tuple[int, int]:
        """Return the number of messages and statements, and the bytes of their texts."""
        texts = [one.text for one in (*self.turns, *self.statements)]
        return len(texts), sum(len(text.encode()) for text in texts)

    def place_of(self, stated: Stated) -> Scope:
        """Return the scope of a statement: that of the effect, or the one of its agent."""
        if not stated.for_agent or self.agent is None or self.scope.shape != ("user",):
            return self.scope
        return Scope.of(tenant=self.scope.tenant, user=self.scope.parts[0][1], agent=self.agent)


class ReadStatements(ReadEffect, frozen=True, kw_only=True, tag="read_statements"):
    """Read which of some messages were kept before, and what is stated now."""

    capability: ClassVar[str] = "memory.read"
    keys: tuple[str, ...] = ()

    def demands(self) -> Iterator[Demand]:
        """Yield the right to read each collection."""
        for collection in (CONVERSATIONS, STATEMENTS):
            yield self.capability, self.scope, collection_key(collection)


class KnownBefore(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of messages that were kept before, and the current statements, newest first."""

    keys: frozenset[str] = frozenset()
    statements: tuple[Entry, ...] = ()


@verb(ReadStatements)
def read_statements(rows: Reader, effect: ReadStatements, call: Call) -> Outcome[KnownBefore]:
    """Return which messages were kept before, and what is stated now."""
    keys = rows.known(Shelf(effect.scope, CONVERSATIONS, ""), keys=list(effect.keys))
    shelf = Shelf(effect.scope, STATEMENTS, "")
    newest = sorted(rows.live_sequences(shelf), reverse=True)[:_MOST_KNOWN]
    found = rows.entries(EntryQuery(tenant=effect.scope.tenant, sequences=newest)) if newest else ()
    current = sorted((entry for entry in found if entry.is_current_at(call.now)), key=lambda one: -one.sequence)
    return Outcome(KnownBefore(keys=frozenset(str(key) for key in keys), statements=tuple(current)))


def _texts(rows: Reader, effect: Learn, call: Call) -> Texts:
    ensure_open(rows, effect.scope)
    turns, statements = [turn.text for turn in effect.turns], [said_text(one) for one in effect.statements]
    found = [(CONVERSATIONS, turns)] if turns else []
    return texts_by_space(rows, effect.scope.tenant, [*found, (STATEMENTS, statements)] if statements else found)


@verb(Learn, preparation=Preparation(inquire=_texts, prepare=embed_texts, busy=EMBEDDING_TAKES_TIME))
def learn(rows: Transaction, effect: Learn, call: Call) -> Outcome[Learned]:
    """Keep the messages that are not there yet, and bring what they state up to date."""
    ensure_open(rows, effect.scope)
    refs, notes, new = _keep_turns(rows, effect, call)
    lessons: list[Lesson] = []
    for stated in effect.statements:
        lesson, about = _take(rows, effect, stated, refs, call)
        lessons.append(lesson)
        notes += about
    if notes:  # a call that changes nothing leaves no event
        detail = {"conversation": effect.conversation, "messages": len(new), "statements": len(lessons)}
        notes.append(Note(effect=effect.name, scope=effect.scope.path, detail=detail))
    learned = Learned(
        conversation=effect.conversation,
        messages=tuple(new),
        known_messages=len(effect.turns) - len(new),
        lessons=tuple(lessons),
        undo=(undo_token(rows, effect.scope.tenant, len(notes)),) if notes else (),
    )
    return Outcome(learned, tuple(notes))


def _keep_turns(rows: Transaction, effect: Learn, call: Call) -> tuple[list[str], list[Note], list[str]]:
    """Store the messages that are new; return the refs of all, the notes, and the refs of the new ones."""
    if not effect.turns:
        return [], [], []
    shelf = Shelf(effect.scope, CONVERSATIONS, "")
    known = rows.known(shelf, keys=[turn.key for turn in effect.turns])
    new = [turn for turn in effect.turns if turn.key not in known]
    items = [
        Item(payload=msgspec.Raw(encode(turn.text)), metadata=turn.metadata, key=turn.key, at=turn.at) for turn in new
    ]
    ids: dict[str, str] = {}
    notes: list[Note] = []
    if items:
        origin = with_source(call.origin, effect.source)
        stored, notes = store_items(rows, shelf, items, call, at=call.now, expires_at=None, origin=origin)
        ids = {turn.key: one.id for turn, one in zip(new, stored, strict=True)}
    needed = {place for stated in effect.statements for place in stated.messages}
    refs: list[str] = []
    for place, turn in enumerate(effect.turns):
        if turn.key not in ids and place in needed and (entry := entry_of_key(rows, shelf, turn.key)) is not None:
            ids[turn.key] = entry.id
        refs.append(f"entry:{ids[turn.key]}" if turn.key in ids else "")
    return refs, notes, [f"entry:{ids[turn.key]}" for turn in new]


def _take(rows: Transaction, effect: Learn, stated: Stated, refs: list[str], call: Call) -> tuple[Lesson, list[Note]]:
    """Bring the chain of a statement up to date; return what became of it, and the notes."""
    shelf = Shelf(effect.place_of(stated), STATEMENTS, "")
    said_in = tuple(refs[place] for place in stated.messages)
    current = entry_of_key(rows, shelf, stated.key)
    if current is not None and not current.is_current_at(call.now):
        current = None
    at = call.now if stated.at is None else from_micros(stated.at)
    begins = stated.at if stated.valid_from is None else stated.valid_from
    agrees = current is not None and current.metadata.get("value") == stated.value

    def lesson(verdict: Verdict, ref: str | None = None, replaced: Entry | None = None) -> Lesson:
        return Lesson(
            text=stated.text,
            verdict=verdict,
            key=stated.key,
            ref=ref,
            replaced=None if replaced is None else f"entry:{replaced.id}",
            said_in=said_in,
            valid_from=None if stated.valid_from is None else from_micros(stated.valid_from),
        )

    if current is None and stated.ends:
        return lesson("outdated"), []
    if current is not None:
        known = f"entry:{current.id}"
        if agrees and not stated.ends:
            return lesson("confirmed", known), []
        if current.moment("time") > at:
            return lesson("outdated", known), []
        if stated.ends and not agrees:
            return lesson("confirmed", known), []  # "I no longer live in Oslo" says nothing about Porto
    metadata: dict[str, Any] = {
        **stated.metadata,
        "value": "" if stated.ends else stated.value,
        "said_in": list(said_in),
        "time": at.isoformat(),
        # Statements say what they say alone: none lends words to the one before it.
        "thread": stated.key,
    }
    if stated.valid_from is not None:
        metadata["valid_from"] = from_micros(stated.valid_from).isoformat()
    if current is not None:
        metadata["replaces"] = current.id
        # The messages behind what is no longer true are found all the same, marked and after what is true now.
        before = [*current.metadata.get("outdates", ()), *current.metadata.get("said_in", ())]
        metadata["outdates"] = [ref.removeprefix("entry:") for ref in before][-_MOST_OUTDATED:]
    item = Item(
        payload=msgspec.Raw(encode(said_text(stated))),
        metadata=msgspec.Raw(encode(metadata)),
        key=stated.key,
        at=begins,
    )
    origin = with_source(call.origin, effect.source)
    stored, notes = store_items(rows, shelf, [item], call, at=call.now, expires_at=None, origin=origin)
    verdict: Verdict = "added" if current is None else "ended" if stated.ends else "replaced"
    return lesson(verdict, f"entry:{stored[0].id}", current), notes


def said_text(stated: Stated) -> str:
    """Return the text of a statement's entry; the end of something is worth remembering too."""
    return f"No longer true: {stated.text}" if stated.ends else stated.text
