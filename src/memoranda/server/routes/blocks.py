"""`/memory/blocks` and `/memory/recall`: texts of the caller, and of the caller's agents, that are replaced whole."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache, partial
from typing import Annotated, Literal
from urllib.parse import urlencode

import msgspec
from litestar import Response, Router, delete, get, post, put
from litestar.params import FromPath, JSONBody, QueryParameter

from memoranda.api.blocks import Blocks
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import NotFound, UsageError
from memoranda.model.block import BLOCK_TYPES, key_of
from memoranda.model.clock import from_micros, parse_moment
from memoranda.model.effect import DeleteFact
from memoranda.model.scope import Scope
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.callers import Access
from memoranda.server.paging import cursor_fault, decode_cursor, decode_number, page
from memoranda.server.parameters import LARGEST_PAGE, After, IfMatch, IfNoneMatch, Once, PageLimit, Source, once
from memoranda.server.tags import Encoded, Tagged, expected_moment, is_known, not_modified, tag_of_moment
from memoranda.server.threads import read_row, write_row
from memoranda.wire.blocks import Block, BlockMatch, BlockScope, BlockType, RecallBlocks, UndoBlock, UpdateBlock
from memoranda.wire.facts import History, revision_out

Whose = Annotated[
    BlockScope | None, QueryParameter(name="scope", description="`user`, or `agent` together with `agent_id`.")
]
Listed = Annotated[
    Literal["user", "agent", "all"] | None,
    QueryParameter(name="scope", description="Whose blocks: `all` is both. Without it, the user's, or `agent_id`'s."),
]
# Text, for us to read: Litestar takes the word `null` for nothing at all, and then nothing would be compared.
Stamp = Annotated[
    str | None, QueryParameter(description="The `updated_at` that it must still have: ISO 8601, UTC without a zone.")
]
AgentId = Annotated[str | None, QueryParameter(description="The agent whose block is meant.")]


@get("/blocks", sync_to_thread=True, responses=problems(), summary="List blocks")
def list_blocks(
    request: StrictRequest,
    listed: Listed = None,
    agent_id: AgentId = None,
    after: After = None,
    limit: PageLimit = LARGEST_PAGE,
) -> Response[list[Block]]:
    """Return the caller's blocks; `agent` those of agents instead, `all` both.

    Where there are more, the header `Link` names the address of the next ones, as `rel="next"`.
    """
    blocks = request.auth.own.blocks if agent_id is None else _place(request.auth, None, agent_id).blocks
    # Not after the one that a cursor names: that may be deleted by now.
    rest = [one for one in blocks.list(scope=listed) if after is None or _order(one) > _order_in(after)]
    found, go_on = page(rest, limit, lambda one: "{1}{0}".format(*_order(one)), max_bytes=request.page_bytes)
    if go_on is None:
        return Encoded(found)
    given = {"scope": listed, "agent_id": agent_id, "limit": str(limit), "after": go_on}
    query = urlencode({name: value for name, value in given.items() if value is not None})
    return Encoded(found, {"link": f'<?{query}>; rel="next"'})


@get("/blocks/{block_type:str}", responses=problems(404), summary="Get a block")
async def get_block(
    request: StrictRequest,
    block_type: FromPath[BlockType],
    whose: Whose = None,
    agent_id: AgentId = None,
    if_none_match: IfNoneMatch = None,
) -> Response[Block]:
    """Return a block with the stamp that its next writer has to know."""
    block = await read_row(request.auth.memory, partial(_blocks(request.auth, whose, agent_id).get, block_type))
    if block is None:
        raise _missing(block_type)
    tag = tag_of_moment(block.updated_at)
    if is_known(tag, if_none_match):
        return not_modified(tag)
    return Tagged(block, tag)


@put(
    "/blocks/{block_type:str}",
    status_code=200,
    responses=problems(409, 507),
    summary="Replace a block",
)
async def update_block(
    request: StrictRequest,
    block_type: FromPath[BlockType],
    data: JSONBody[UpdateBlock],
    whose: Whose = None,
    agent_id: AgentId = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    idempotency_key: Once = None,
) -> Response[Block]:
    """Replace the whole text of a block, if it is still the one that was read; null makes one that must not exist."""

    def write(access: Access) -> Block:
        return _blocks(access, whose, agent_id).update(
            block_type,
            data.content,
            expected_updated_at=_expected(data.expected_updated_at, if_match, if_none_match),
            source=data.source,
            idempotency_key=once(idempotency_key),
        )

    block = await write_row(request, write)
    return Tagged(block, tag_of_moment(block.updated_at))


@delete("/blocks/{block_type:str}", sync_to_thread=True, responses=problems(404, 409, 507), summary="Delete a block")
def delete_block(
    request: StrictRequest,
    block_type: FromPath[BlockType],
    whose: Whose = None,
    agent_id: AgentId = None,
    expected_updated_at: Stamp = None,
    source: Source = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> None:
    """Delete a block; with a stamp, only if it is still that one. `If-None-Match: *` says that there must be none."""
    given = msgspec.UNSET if expected_updated_at is None else from_micros(parse_moment(expected_updated_at))
    said = not (given is msgspec.UNSET and if_match is None and if_none_match is None)
    expected = _expected(given, if_match, if_none_match) if said else None
    place = _place(request.auth, whose, agent_id)
    if said and expected is None:
        # To `delete` None says that it may be any block; what must not be there is a conflict where it is.
        there = request.auth.memory.perform(
            DeleteFact(scope=place.scope, key=key_of(block_type), expect=0, source=source)
        )
    else:
        there = place.blocks.delete(block_type, expected_updated_at=expected, source=source)
    if not there:
        raise _missing(block_type)


@get("/blocks/{block_type:str}/history", sync_to_thread=True, responses=problems(404), summary="Get a block's history")
def read_block_history(
    request: StrictRequest,
    block_type: FromPath[BlockType],
    whose: Whose = None,
    agent_id: AgentId = None,
    after: After = None,
    limit: PageLimit = LARGEST_PAGE,
) -> Response[History]:
    """Return the texts that a block had, oldest first: what it was, since when, by whom."""
    most = request.page_bytes
    revisions = _blocks(request.auth, whose, agent_id).history(
        block_type, after=decode_number(after), limit=limit + 1, max_bytes=most
    )
    if not revisions and after is None:
        raise _missing(block_type)
    kept, go_on = page(revisions, limit, lambda one: one.version, max_bytes=most, out=revision_out)
    return Encoded(History(revisions=kept, next=go_on))


@post(
    "/blocks/{block_type:str}/undo",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 507),
    summary="Bring back a block's text from before",
)
def undo_block(
    request: StrictRequest,
    block_type: FromPath[BlockType],
    data: JSONBody[UndoBlock],
    whose: Whose = None,
    agent_id: AgentId = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response[Block]:
    """Bring back the text that a block had before its newest one, or before it was deleted; undoing twice redoes."""
    block = _blocks(request.auth, whose, agent_id).undo(
        block_type, expected_updated_at=_expected(data.expected_updated_at, if_match, if_none_match)
    )
    return Tagged(block, tag_of_moment(block.updated_at))


@post("/recall", sync_to_thread=True, status_code=200, responses=problems(), summary="Recall lines of archival blocks")
def recall_blocks(request: StrictRequest, data: JSONBody[RecallBlocks]) -> list[BlockMatch]:
    """Return the lines that answer a query, best first; an empty query lists them in their order."""
    blocks = request.auth.own.blocks
    return blocks.recall(data.query, agent=data.agent_id, limit=data.limit, min_score=data.min_score)


def _order(block: Block) -> tuple[str, int]:
    """Return where a block comes in a list: the user's own first, then by agent."""
    return block.agent_id or "", BLOCK_TYPES.index(block.block_type)


def _order_in(cursor: str) -> tuple[str, int]:
    place = decode_cursor(cursor)
    if place[0] not in "01":
        raise cursor_fault(cursor)
    return place[1:], int(place[0])


def _blocks(access: Access, whose: BlockScope | None, agent_id: str | None) -> Blocks:
    return _place(access, whose, agent_id).blocks


def _place(access: Access, whose: BlockScope | None, agent_id: str | None) -> ScopedMemory:
    if agent_id is None:
        if whose == "agent":
            raise UsageError("a block of an agent needs its id", hint="Add agent_id=…", path="agent_id")
        return access.own
    if whose == "user":
        raise UsageError(
            "a block of the user belongs to no agent",
            hint="Leave out agent_id, or ask for scope=agent",
            path="agent_id",
        )
    return access.memory.at(_scope_of(access.caller.tenant, access.caller.user, agent_id))


@lru_cache(1_024)
def _scope_of(tenant: str, user: str, agent_id: str) -> Scope:
    """Return the scope of one of a user's agents; whoever reads a block writes it soon, and then again."""
    return Scope.of(tenant=tenant, user=user, agent=agent_id)


def _expected(
    given: datetime | msgspec.UnsetType | None, if_match: str | None, if_none_match: str | None
) -> datetime | None:
    """Return the stamp that a write must find, None for no block at all; one of body and headers has to say it."""
    in_headers, moment = expected_moment(if_match, if_none_match)
    if given is msgspec.UNSET:
        if not in_headers:
            raise UsageError(
                "`$.expected_updated_at` of the body is missing",
                hint="Send the updated_at last read, or null to make a block that does not exist",
                path="$.expected_updated_at",
            )
        return moment
    if in_headers and _instant(given) != _instant(moment):
        raise UsageError(
            "the headers and the body expect different stamps",
            hint="Say it in one place",
            path="$.expected_updated_at",
        )
    return given


def _instant(moment: datetime | None) -> int | None:
    return None if moment is None else parse_moment(moment)


def _missing(block: BlockType) -> NotFound:
    return NotFound(
        f"there is no {block} block", hint='PUT it with "expected_updated_at": null to make one', block=block
    )


router = Router(
    "/memory",
    route_handlers=[
        list_blocks,
        get_block,
        update_block,
        delete_block,
        read_block_history,
        undo_block,
        recall_blocks,
    ],
)
