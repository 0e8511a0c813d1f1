"""Effects on memory blocks in, facts and matches out: what a block may hold, and what recall of its lines means.

A block is a fact, so it is written, deleted and read as one; only its limits and its lines are its own.
"""

from __future__ import annotations

from memoranda.engine.call import Call, Outcome
from memoranda.errors import InvalidKey
from memoranda.model.block import ARCHIVAL_KEY, BLOCK_TYPES, BlockMatch, check_content, key_of, lines_of, owner_of
from memoranda.model.effect import ListBlocks, RecallBlocks
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode
from memoranda.store.base import Reader


def ensure_block(scope: Scope, key: str, payload: bytes) -> None:
    """Refuse what cannot stand where blocks are kept, through whichever door it comes."""
    owner_of(scope)
    for block in BLOCK_TYPES:
        if key == key_of(block):
            check_content(block, decode(payload))
            return
    raise InvalidKey(f"{quote(key)} is no memory block", hint=f"Types are {', '.join(BLOCK_TYPES)}", value=key)


def list_blocks(rows: Reader, effect: ListBlocks, call: Call) -> Outcome[list[Fact]]:
    """Return the blocks of every agent of a user."""
    owner_of(effect.scope)
    found = [
        fact
        for block in BLOCK_TYPES
        for fact in rows.facts_named(effect.scope.tenant, key_of(block), below=effect.scope.path)
        if fact.active_at(call.now) and fact.scope.shape == ("user", "agent")
    ]
    return Outcome(found)


def recall_blocks(rows: Reader, effect: RecallBlocks, call: Call) -> Outcome[list[BlockMatch]]:
    """Return the archival lines of a user, and of one agent where it is named, that hold words of a query, best first.

    They are ranked together: a word counts as rare that few lines of both archives hold. Equal scores stand in the
    order of the lines, the user's first. Without words to look for, all lines answer, in that order.
    """
    lines = [
        (fact, number, line)
        for archive in effect.archives
        if (fact := rows.fact(archive, ARCHIVAL_KEY)) is not None and fact.active_at(call.now)
        for number, line in lines_of(fact.value)
    ]
    if effect.query.strip():
        from memoranda.retrieval.lines import rank_lines

        scored = rank_lines(effect.query, [line for _, _, line in lines])
    else:
        scored = [(place, 0.0) for place in range(len(lines))]
    if effect.min_score is not None:
        least = effect.min_score
        scored = [(place, score) for place, score in scored if score >= least]
    return Outcome([_match(*lines[place], score) for place, score in scored[: effect.limit]])


def _match(fact: Fact, number: int, line: str, score: float) -> BlockMatch:
    scope, agent = owner_of(fact.scope)
    return BlockMatch(
        content=line, score=score, scope=scope, agent_id=agent, line_number=number, updated_at=fact.updated_at
    )


def recall_blocks_note(effect: RecallBlocks, found: list[BlockMatch]) -> Note:
    """Return what the ledger says of a recall: its query as content, and which lines of whose archive it gave out."""
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
