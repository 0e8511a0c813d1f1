"""Memory blocks: what a block may contain, listing blocks, and recall of their lines.

A block is a fact, so it is written, deleted and read as one; only its limits and its lines are special.
"""

from __future__ import annotations

from collections.abc import Iterator

from memoranda.engine.verbs import Call, Outcome, filter_by_key, verb
from memoranda.errors import InvalidKey
from memoranda.model.block import (
    ARCHIVAL_KEY,
    BLOCK_TYPES,
    BLOCKS,
    BlockMatch,
    agent_scope,
    check_content,
    key_of,
    lines_of,
    owner_of,
)
from memoranda.model.effect import ReadEffect
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode
from memoranda.store.base import FactQuery, Reader


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

    def demands(self) -> Iterator[tuple[str, Scope, str | None]]:
        """Yield the right to read each archive."""
        for archive in self.archives:
            yield self.capability, archive, self.place


@verb(RecallBlocks)
def recall_blocks(rows: Reader, effect: RecallBlocks, call: Call) -> Outcome[list[BlockMatch]]:
    """Return the lines of a user's archival block, and of one agent's, that contain words of a query, best first.

    They are ranked together: a word is rare if few lines of both archives contain it. Equal scores keep the order of
    the lines, the user's first. An empty query returns all lines in that order.
    """
    lines = [
        (fact, number, line)
        for archive in effect.archives
        if (fact := rows.fact(archive, ARCHIVAL_KEY)) is not None and fact.active_at(call.now)
        for number, line in lines_of(fact.value)
    ]
    if effect.query.strip():
        from memoranda.retrieval.bm25 import rank_lines

        scored = rank_lines(effect.query, [line for _, _, line in lines])
    else:
        scored = [(place, 0.0) for place in range(len(lines))]
    if effect.min_score is not None:
        least = effect.min_score
        scored = [(place, score) for place, score in scored if score >= least]
    found = [_match(*lines[place], score) for place, score in scored[: effect.limit]]
    return Outcome(found, (_recall_note(effect, found),))


def _match(fact: Fact, number: int, line: str, score: float) -> BlockMatch:
    scope, agent = owner_of(fact.scope)
    return BlockMatch(
        content=line, score=score, scope=scope, agent_id=agent, line_number=number, updated_at=fact.updated_at
    )


def _recall_note(effect: RecallBlocks, found: list[BlockMatch]) -> Note:
    detail: dict[str, object] = {"results": [f"{match.scope}:{match.line_number}" for match in found]}
    if effect.agent is not None:
        detail["agent"] = effect.agent
    return Note(
        effect=effect.name,
        scope=effect.scope.path,
        key=effect.place,
        payload=encode(effect.query),
        detail=detail,
    )
