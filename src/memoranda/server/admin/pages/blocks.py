"""Memory blocks: their texts, where each line of them comes from, and changes that overwrite nobody's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.api.blocks import Blocks
from memoranda.errors import Conflict, MemorandaError, UsageError
from memoranda.model.block import (
    ARCHIVAL_CHARACTERS,
    BLOCK_TYPES,
    CORE_CHARACTERS,
    CORE_ENTRIES,
    Block,
    BlockMatch,
    BlockType,
    as_block,
    key_of,
    lines_of,
)
from memoranda.model.effect import FindFacts
from memoranda.model.fact import Fact, Revision
from memoranda.model.scope import Scope
from memoranda.server.admin.desk import PAGE_BYTES, Desk
from memoranda.server.admin.forms import fault_of, status_of
from memoranda.server.admin.parameters import Question
from memoranda.server.admin.rendering import address, redirect
from memoranda.server.paging import decode_number, page_from
from memoranda.sleep import sources_of
from memoranda.sleep.consolidating import Source

PAGE = 100
LIMITS = {"core": CORE_CHARACTERS, "archival": ARCHIVAL_CHARACTERS}


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a block, and why it is there."""

    number: int
    text: str
    since: Revision | None
    """The writing that brought it in; None where that is no longer known."""
    sources: list[Source]
    """The parts of conversations that it was learned from, where it was."""


@get("/blocks", sync_to_thread=True)
def list_blocks(
    desk: NamedDependency[Desk],
    user: FromQuery[str] = "",
    agent: FromQuery[str] = "",
    question: Question = "",
    after: FromQuery[str | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Return a page of the blocks of a user and of the user's agents; without one, of everybody who may be seen.

    With a question, also the archival lines that an agent would be reminded of.
    """
    matches: list[BlockMatch] | None = None
    user = user.strip()
    if user or not desk.sees_everybody:
        owner = user or desk.caller.user
        blocks = desk.memory.scope(user=owner).blocks
        found = [(owner, block) for block in blocks.list(scope="all")]
        if question.strip():
            matches = blocks.recall(question, agent=agent.strip() or None)
    else:
        owner = ""
        found = _of_everybody(desk)
    shown, onwards = page_from(found, decode_number(after), PAGE, max_bytes=PAGE_BYTES)
    return desk.show(
        "blocks.html",
        section="blocks",
        done=done,
        blocks=shown,
        onwards=onwards,
        user=owner,
        agent=agent,
        question=question,
        matches=matches,
        limits=LIMITS,
        types=BLOCK_TYPES,
        writable=bool(owner) and desk.may_write(desk.memory.scope(user=owner).scope, key_of("core")),
    )


@get("/blocks/one", sync_to_thread=True)
def see_block(
    desk: NamedDependency[Desk],
    user: FromQuery[str],
    block: FromQuery[str],
    agent: FromQuery[str] = "",
    before: FromQuery[int | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Return a block with where its lines come from, and a page of the texts that it had."""
    return _page(desk, user, agent, _type(block), before=before, done=done)


@post("/blocks/one", sync_to_thread=True, status_code=200)
def save_block(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Replace a text, if it is still the one that was shown; else show both, and let the person choose."""
    user, agent, block = desk.field("user"), desk.field("agent"), _type(desk.field("block"))
    text = desk.field("text")
    try:
        _blocks(desk, user, agent).update(block, text, expected_updated_at=desk.field("stamp") or None)
    except (UsageError, Conflict) as error:
        return _page(desk, user, agent, block, text=text, error=error)
    return redirect(address("/blocks/one", user=user, agent=agent, block=block, done="saved"))


@post("/blocks/undo", sync_to_thread=True, status_code=200)
def undo_block(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Bring back the text that a block had before its newest one."""
    user, agent, block = desk.field("user"), desk.field("agent"), _type(desk.field("block"))
    try:
        _blocks(desk, user, agent).undo(block, expected_updated_at=desk.field("stamp") or None)
    except Conflict as error:
        return _page(desk, user, agent, block, error=error)
    return redirect(address("/blocks/one", user=user, agent=agent, block=block, done="restored"))


@post("/blocks/delete", sync_to_thread=True, status_code=200)
def delete_block(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Delete a block, if it is still the one that was shown."""
    user, agent, block = desk.field("user"), desk.field("agent"), _type(desk.field("block"))
    try:
        _blocks(desk, user, agent).delete(block, expected_updated_at=desk.field("stamp") or None)
    except Conflict as error:
        return _page(desk, user, agent, block, error=error)
    return redirect(address("/blocks/one", user=user, agent=agent, block=block, done="deleted"))


def brought_in(history: Iterable[Revision]) -> dict[str, Revision]:
    """Return, for each line of a block's newest text, the revision since which it has been there without a break."""
    since: dict[str, Revision] = {}
    for revision in history:
        lines = {line for _, line in lines_of(revision.value)} if isinstance(revision.value, str) else set[str]()
        since = {line: since.get(line, revision) for line in lines}
    return since


def _page(
    desk: Desk,
    user: str,
    agent: str,
    block: BlockType,
    *,
    text: str | None = None,
    before: int | None = None,
    done: str = "",
    error: MemorandaError | None = None,
) -> Response[bytes]:
    blocks = _blocks(desk, user, agent)
    standing = blocks.get(block)
    history = blocks.history(block, newest=True, before=before, limit=PAGE + 1)
    conflict = isinstance(error, Conflict)
    return desk.show(
        "block.html",
        section="blocks",
        status=200 if error is None else status_of(error),
        done=done,
        user=user,
        agent=agent,
        block=block,
        standing=standing,
        text=text if text is not None else "" if standing is None else standing.content,
        lines=[] if standing is None else _lines(desk, user, agent, standing, _revisions(blocks, block)),
        history=history[:PAGE],
        onwards=history[PAGE - 1].version if len(history) > PAGE else None,
        limit=LIMITS[block],
        entries=CORE_ENTRIES if block == "core" else None,
        # Theirs is shown beside what was typed; with nothing typed, what is shown is theirs already.
        conflict=conflict and text is not None,
        fault=None if error is None else fault_of(error, field="text"),
        writable=desk.may_write(_scope(desk, user, agent), key_of(block)),
    )


def _revisions(blocks: Blocks, block: BlockType) -> Iterator[Revision]:
    """Yield every revision of a block, oldest first, without having all of them at once."""
    last = 0
    while portion := blocks.history(block, after=last, limit=PAGE):
        yield from portion
        last = portion[-1].version


def _lines(desk: Desk, user: str, agent: str, block: Block, history: Iterable[Revision]) -> list[Line]:
    since = brought_in(history)
    return [
        Line(
            number=number,
            text=line,
            since=since.get(line),
            sources=sources_of(desk.memory, line, user=user, agent=agent or None),
        )
        for number, line in lines_of(block.content)
    ]


def _of_everybody(desk: Desk) -> list[tuple[str, Block]]:
    facts: list[Fact] = []
    for block in BLOCK_TYPES:
        facts += desk.memory.perform(FindFacts(scope=desk.shared, key=key_of(block)))
    facts.sort(key=lambda fact: (fact.scope.path, BLOCK_TYPES.index(as_block(fact).block_type)))
    return [(fact.scope.parts[0][1], as_block(fact)) for fact in facts]


def _blocks(desk: Desk, user: str, agent: str) -> Blocks:
    return desk.memory.at(_scope(desk, user, agent)).blocks


def _scope(desk: Desk, user: str, agent: str) -> Scope:
    ids = {"user": user, "agent": agent} if agent else {"user": user}
    return Scope.of(tenant=desk.caller.tenant, **ids)


def _type(block: str) -> BlockType:
    key_of(cast("BlockType", block))  # refuses what is no type
    return cast("BlockType", block)


handlers = [list_blocks, see_block, save_block, undo_block, delete_block]
