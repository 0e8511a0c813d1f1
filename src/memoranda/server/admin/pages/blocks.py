"""Memory blocks: their texts, the origin of each line, and edits that never overwrite a newer text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import cast

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.api.blocks import Blocks
from memoranda.engine.facts import FindFacts
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
from memoranda.model.fact import Fact, Revision
from memoranda.model.lesson import Source
from memoranda.model.scope import Scope
from memoranda.server.admin.context import PAGE_BYTES, PageContext, Question, field_error
from memoranda.server.admin.html import address, redirect
from memoranda.server.pagination import decode_number, page_from
from memoranda.sleep import sources_of

PAGE = 100
LIMITS = {"core": CORE_CHARACTERS, "archival": ARCHIVAL_CHARACTERS}


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a block and its origin."""

    number: int
    text: str
    since: Revision | None
    """The revision that added it; None where it is not known any more."""
    sources: list[Source]
    """The parts of conversations that it was learned from."""


@get("/blocks", sync_to_thread=True)
def list_blocks(
    context: NamedDependency[PageContext],
    user: FromQuery[str] = "",
    agent: FromQuery[str] = "",
    question: Question = "",
    after: FromQuery[str | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Show the blocks of a user and of the user's agents; without a user, those of all visible users.

    With a query, also show the archival lines that an agent would be reminded of.
    """
    matches: list[BlockMatch] | None = None
    user = user.strip()
    if user or not context.sees_everybody:
        owner = user or context.principal.user
        blocks = context.memory.scope(user=owner).blocks
        found = [(owner, block) for block in blocks.list(scope="all")]
        if question.strip():
            matches = blocks.recall(question, agent=agent.strip() or None)
    else:
        owner = ""
        found = _all_blocks(context)
    shown, onwards = page_from(found, decode_number(after), PAGE, max_bytes=PAGE_BYTES)
    return context.show(
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
        writable=bool(owner) and context.may_write(context.memory.scope(user=owner).scope, key_of("core")),
    )


@get("/blocks/one", sync_to_thread=True)
def see_block(
    context: NamedDependency[PageContext],
    user: FromQuery[str],
    block: FromQuery[str],
    agent: FromQuery[str] = "",
    before: FromQuery[int | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Show a block with the origin of its lines and a page of its history."""
    return _page(context, user, agent, _type(block), before=before, done=done)


@post("/blocks/one", sync_to_thread=True, status_code=200)
def save_block(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Save a text if the block has not changed since the page was loaded; otherwise show both texts."""
    text = context.field("text")
    return _change(context, "saved", Blocks.update, text, text=text)


@post("/blocks/undo", sync_to_thread=True, status_code=200)
def undo_block(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Restore the previous text of a block."""
    return _change(context, "restored", Blocks.undo)


@post("/blocks/delete", sync_to_thread=True, status_code=200)
def delete_block(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Delete a block if it has not changed since the page was loaded."""
    return _change(context, "deleted", Blocks.delete)


def _change(
    context: PageContext, done: str, change: Callable[..., object], *content: str, text: str | None = None
) -> Response[bytes]:
    """Change the block that the form names, unless it was changed since the page was loaded."""
    user, agent, block = context.field("user"), context.field("agent"), _type(context.field("block"))
    try:
        change(_blocks(context, user, agent), block, *content, expected_updated_at=context.field("stamp") or None)
    except (UsageError, Conflict) as error:
        return _page(context, user, agent, block, text=text, error=error)
    return redirect(address("/blocks/one", user=user, agent=agent, block=block, done=done))


def line_origins(history: Iterable[Revision]) -> dict[str, Revision]:
    """Return, for each current line of a block, the revision since which it has been there."""
    since: dict[str, Revision] = {}
    for revision in history:
        lines = {line for _, line in lines_of(revision.value)} if isinstance(revision.value, str) else set[str]()
        since = {line: since.get(line, revision) for line in lines}
    return since


def _page(
    context: PageContext,
    user: str,
    agent: str,
    block: BlockType,
    *,
    text: str | None = None,
    before: int | None = None,
    done: str = "",
    error: MemorandaError | None = None,
) -> Response[bytes]:
    blocks = _blocks(context, user, agent)
    current = blocks.get(block)
    history = blocks.history(block, newest=True, before=before, limit=PAGE + 1)
    conflict = isinstance(error, Conflict)
    return context.show(
        "block.html",
        section="blocks",
        done=done,
        user=user,
        agent=agent,
        block=block,
        current=current,
        text=text if text is not None else "" if current is None else current.content,
        lines=[] if current is None else _lines(context, user, agent, current, _revisions(blocks, block)),
        history=history[:PAGE],
        onwards=history[PAGE - 1].version if len(history) > PAGE else None,
        limit=LIMITS[block],
        entries=CORE_ENTRIES if block == "core" else None,
        # Only a conflicting text needs both versions side by side.
        conflict=conflict and text is not None,
        field_error=None if error is None else field_error(error, field="text"),
        writable=context.may_write(_scope(context, user, agent), key_of(block)),
    )


def _revisions(blocks: Blocks, block: BlockType) -> Iterator[Revision]:
    """Yield every revision of a block, oldest first, page by page."""
    last = 0
    while portion := blocks.history(block, after=last, limit=PAGE):
        yield from portion
        last = portion[-1].version


def _lines(context: PageContext, user: str, agent: str, block: Block, history: Iterable[Revision]) -> list[Line]:
    since = line_origins(history)
    return [
        Line(
            number=number,
            text=line,
            since=since.get(line),
            sources=sources_of(context.memory, line, user=user, agent=agent or None),
        )
        for number, line in lines_of(block.content)
    ]


def _all_blocks(context: PageContext) -> list[tuple[str, Block]]:
    facts: list[Fact] = []
    for block in BLOCK_TYPES:
        facts += context.memory.perform(FindFacts(scope=context.shared, key=key_of(block), internal=True))
    facts.sort(key=lambda fact: (fact.scope.path, BLOCK_TYPES.index(as_block(fact).block_type)))
    return [(fact.scope.parts[0][1], as_block(fact)) for fact in facts]


def _blocks(context: PageContext, user: str, agent: str) -> Blocks:
    return context.memory.at(_scope(context, user, agent)).blocks


def _scope(context: PageContext, user: str, agent: str) -> Scope:
    ids = {"user": user, "agent": agent} if agent else {"user": user}
    return Scope.of(tenant=context.principal.tenant, **ids)


def _type(block: str) -> BlockType:
    key_of(cast("BlockType", block))  # raises if it is not a block type
    return cast("BlockType", block)
