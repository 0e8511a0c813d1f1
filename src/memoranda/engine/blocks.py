"""Memory blocks: what a block may contain, what follows from an edit, listing blocks, and recall of their lines.

A block is a fact, so it is written, deleted and read as one; only its limits and its lines are special.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from memoranda.engine.entries import end_entry, entry_of_key
from memoranda.engine.recall import RecallAll, find_items
from memoranda.engine.verbs import Call, Outcome, filter_by_key, verb
from memoranda.errors import InvalidKey
from memoranda.model.block import (
    ARCHIVAL_KEY,
    BLOCK_TYPES,
    BLOCKS,
    BlockMatch,
    agent_scope,
    canonical_digest,
    canonical_line,
    check_content,
    key_of,
    lines_of,
    owner_of,
)
from memoranda.model.effect import Demand, ReadEffect
from memoranda.model.entry import STATEMENTS, Shelf
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.lesson import LearnedLine
from memoranda.model.ref import Ref, line_digest
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode
from memoranda.store.base import FactQuery, Reader, Store, Transaction

BOOK = "sleep.learned"
"""The key of the book of a scope: what is known of the learned lines of its blocks."""
LEARNED = "sleep"
"""The door of what is written to blocks because it was learned, whatever asked for it: all else is an edit by hand."""

Book = dict[str, LearnedLine]
"""Learned lines by the digests of their texts."""


def read_book(rows: Reader, scope: Scope) -> Book:
    """Return what is known of the learned lines of a scope."""
    fact = rows.fact(scope, BOOK)
    return {} if fact is None else msgspec.convert(fact.value, Book)


def end_removed_statements(rows: Transaction, scope: Scope, key: str, text: str, call: Call) -> list[Note]:
    """End the statements whose learned lines are no longer in a block after an edit by hand; return the notes."""
    book = {} if call.origin.door == LEARNED else read_book(rows, scope)
    if not book:
        return []
    texts = {key_of(block): rows.fact(scope, key_of(block)) for block in BLOCK_TYPES}
    before = texts[key]
    if before is None:
        return []
    left = {key: text, **{name: fact.value for name, fact in texts.items() if fact is not None and name != key}}
    present = {canonical_line(line) for one in left.values() for _, line in lines_of(one)}
    notes: list[Note] = []
    for _, line in lines_of(before.value):
        known = book.get(canonical_digest(line))
        if known is None or not known.key or canonical_line(line) in present:
            continue
        entry = entry_of_key(rows, Shelf(scope, STATEMENTS, ""), known.key)
        if entry is not None and canonical_line(str(entry.content)) == canonical_line(line):
            notes.append(end_entry(rows, entry, call.now))
    return notes


if TYPE_CHECKING:
    from memoranda.retrieval.rank import Ranked


def ensure_block(scope: Scope, key: str, payload: bytes) -> None:
    """Raise what is wrong with a fact among the blocks, whichever door it comes through."""
    owner_of(scope)
    for block in BLOCK_TYPES:
        if key == key_of(block):
            check_content(block, decode(payload))
            return
    raise InvalidKey(f"{quote(key)} is not a memory block", hint=f"Types are {', '.join(BLOCK_TYPES)}", value=key)


class ListBlocks(ReadEffect, frozen=True, kw_only=True, tag="list_blocks"):
    """Read the memory blocks of every agent of a user."""

    @property
    def place(self) -> str | None:
        """The prefix of the keys of blocks."""
        return BLOCKS


@verb(ListBlocks, read_filtered=filter_by_key)
def list_blocks(rows: Reader, effect: ListBlocks, call: Call) -> Outcome[list[Fact]]:
    """Return the blocks of every agent of a user."""
    owner_of(effect.scope)
    found = [
        fact
        for block in BLOCK_TYPES
        for fact in rows.facts(FactQuery(effect.scope, below=True, key=key_of(block)))
        if fact.active_at(call.now) and fact.scope.shape == ("user", "agent")
    ]
    return Outcome(found)


class RecallBlocks(ReadEffect, frozen=True, kw_only=True, tag="recall_blocks"):
    """Find lines of a user's archival block, and of one agent's too; an empty query lists them in their order."""

    query: str
    agent: str | None = None
    limit: int = 10
    min_score: float | None = None

    @property
    def place(self) -> str | None:
        """The key of archival blocks."""
        return ARCHIVAL_KEY

    @property
    def archives(self) -> tuple[Scope, ...]:
        """The scopes whose archival blocks are searched: the user's, and the agent's where one is named."""
        return (self.scope,) if self.agent is None else (self.scope, agent_scope(self.scope, self.agent))

    def demands(self) -> Iterator[Demand]:
        """Yield the right to read each archive."""
        for archive in self.archives:
            yield self.capability, archive, self.place


@verb(RecallBlocks, reads_often=True)
def recall_blocks(store: Store, effect: RecallBlocks, call: Call) -> Outcome[list[BlockMatch]]:
    """Return the lines of a user's archival block, and of one agent's, that answer a query, best first.

    A line matches if it shares a word with the query or its meaning is near enough. Equal scores keep the order of the
    lines, the user's first. An empty query returns all lines in that order.
    """
    if not effect.query.strip():
        found = store.read(lambda rows: list(_lines(rows, effect, call)))
        if effect.min_score is not None:
            found = [match for match in found if match.score >= effect.min_score]
    else:
        asked = RecallAll(
            scope=effect.scope,
            query=effect.query,
            kinds=("line",),
            block="archival",
            scopes=effect.archives,
            # Lines are ranked by more than their scores: among these are those with the best.
            limit=_SPARE + 3 * effect.limit,
        )
        near = [one for one in find_items(store, asked, call) if _is_near(one[1], effect.min_score)]
        places = {scope: place for place, scope in enumerate(effect.archives)}
        near.sort(key=lambda one: (-one[1].score, places[one[0].group.scope], one[0].metadata["line_number"]))
        found = [
            _match(line.group.scope, line.metadata["line_number"], line.text, ranked.score, line.updated_at)
            for line, ranked in near[: effect.limit]
        ]
    found = found[: effect.limit]
    return Outcome(found, (_recall_note(effect, found),))


_SPARE = 50
"""Lines that are looked at in addition, to order them by their scores."""
_NEAR = 0.5
"""The score from which a line without a word of the query counts as a match."""


def _is_near(ranked: Ranked, min_score: float | None) -> bool:
    if min_score is not None:
        return ranked.score >= min_score
    return bool(ranked.why.matched) or ranked.score >= _NEAR


def _lines(rows: Reader, effect: RecallBlocks, call: Call) -> Iterator[BlockMatch]:
    for archive in effect.archives:
        fact = rows.fact(archive, ARCHIVAL_KEY)
        if fact is not None and fact.active_at(call.now):
            for number, line in lines_of(fact.value):
                yield _match(archive, number, line, 0.0, fact.updated_at)


def _match(place: Scope, number: int, line: str, score: float, updated_at: datetime) -> BlockMatch:
    scope, agent = owner_of(place)
    return BlockMatch(content=line, score=score, scope=scope, agent_id=agent, line_number=number, updated_at=updated_at)


def _recall_note(effect: RecallBlocks, found: list[BlockMatch]) -> Note:
    detail: dict[str, object] = {"results": [f"{match.scope}:{match.line_number}" for match in found]}
    if found:
        places = {owner_of(archive): archive for archive in effect.archives}
        names = [(places[match.scope, match.agent_id], line_digest(match.content)) for match in found]
        detail["lines"] = [str(Ref("line", place, f"archival:{digest}")) for place, digest in names]
    if effect.agent is not None:
        detail["agent"] = effect.agent
    return Note(
        effect=effect.name,
        scope=effect.scope.path,
        key=effect.place,
        payload=encode(effect.query),
        detail=detail,
    )
