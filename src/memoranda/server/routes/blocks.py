"""Routes `/memory/blocks` and `/memory/recall`: memory blocks of the caller and of the caller's agents."""

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
from memoranda.engine.facts import DeleteFact
from memoranda.errors import NotFound, UsageError
from memoranda.model.block import BLOCK_TYPES, key_of
from memoranda.model.clock import from_micros, parse_moment
from memoranda.model.scope import Scope
from memoranda.server.auth.principals import Access
from memoranda.server.pagination import decode_cursor, decode_number, invalid_cursor, page
from memoranda.server.requests import (
    LARGEST_PAGE,
    After,
    IdempotencyKey,
    IfMatch,
    IfNoneMatch,
    PageLimit,
    Source,
    StrictRequest,
    decode_idempotency_key,
)
from memoranda.server.responses import (
    EtagResponse,
    JsonResponse,
    etag_matches,
    expected_moment,
    not_modified,
    problem_specs,
    time_etag,
)
from memoranda.server.thread_pool import run_read, run_write
from memoranda.wire.memory import (
    Block,
    BlockMatch,
    BlockScope,
    BlockType,
    History,
    RecallBlocks,
    UndoBlock,
    UpdateBlock,
    revision_json,
)

Owner = Annotated[
    BlockScope | None, QueryParameter(name="scope", description="`user`, or `agent` together with `agent_id`.")
]
OwnerFilter = Annotated[
    Literal["user", "agent", "all"] | None,
    QueryParameter(
        name="scope", description="The owner of the blocks; `all` for both. Default: the user, or `agent_id`."
    ),
]
# Parsed by us: Litestar would read the word `null` as None, and then nothing would be compared.
Stamp = Annotated[
    str | None,
    QueryParameter(description="The `updated_at` that it must still have: ISO 8601, UTC unless it has an offset."),
]
AgentId = Annotated[str | None, QueryParameter(description="The agent that owns the block.")]


@get("/blocks", sync_to_thread=True, responses=problem_specs(), summary="List blocks")
def list_blocks(
    request: StrictRequest,
    listed: OwnerFilter = None,
    agent_id: AgentId = None,
    after: After = None,
    limit: PageLimit = LARGEST_PAGE,
) -> Response[list[Block]]:
    """Return the caller's blocks; with `scope` `agent` those of the agents, with `all` both.

    If there are more, the header `Link` contains the URL of the next page, as `rel="next"`.
    """
    blocks = request.auth.own.blocks if agent_id is None else _place(request.auth, None, agent_id).blocks
    # By order, because the last block of the previous page may have been deleted since.
    rest = [one for one in blocks.list(scope=listed) if after is None or _order(one) > _order_in(after)]
    found, go_on = page(rest, limit, lambda one: "{1}{0}".format(*_order(one)), max_bytes=request.page_bytes)
    if go_on is None:
        return JsonResponse(found)
    given = {"scope": listed, "agent_id": agent_id, "limit": str(limit), "after": go_on}
    query = urlencode({name: value for name, value in given.items() if value is not None})
    return JsonResponse(found, {"link": f'<?{query}>; rel="next"'})


@get("/blocks/{block_type:str}", responses=problem_specs(404), summary="Get a block")
async def get_block(
    request: StrictRequest,
    block_type: FromPath[BlockType],
    whose: Owner = None,
    agent_id: AgentId = None,
    if_none_match: IfNoneMatch = None,
) -> Response[Block]:
    """Return a block with the `updated_at` that its next update needs."""
    block = await run_read(request.auth.memory, partial(_blocks(request.auth, whose, agent_id).get, block_type))
    if block is None:
        raise _missing(block_type)
    tag = time_etag(block.updated_at)
    if etag_matches(tag, if_none_match):
        return not_modified(tag)
    return EtagResponse(block, tag)


@put(
    "/blocks/{block_type:str}",
    status_code=200,
    responses=problem_specs(409, 507),
    summary="Replace a block",
)
async def update_block(
    request: StrictRequest,
    block_type: FromPath[BlockType],
    data: JSONBody[UpdateBlock],
    whose: Owner = None,
    agent_id: AgentId = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[Block]:
    """Replace the text of a block if it has not changed since it was read; null creates a new block."""

    def write(access: Access) -> Block:
        return _blocks(access, whose, agent_id).update(
            block_type,
            data.content,
            expected_updated_at=_expected(data.expected_updated_at, if_match, if_none_match),
            source=data.source,
            idempotency_key=decode_idempotency_key(idempotency_key),
        )

    block = await run_write(request, write)
    return EtagResponse(block, time_etag(block.updated_at))


@delete(
    "/blocks/{block_type:str}", sync_to_thread=True, responses=problem_specs(404, 409, 507), summary="Delete a block"
)
def delete_block(
    request: StrictRequest,
    block_type: FromPath[BlockType],
    whose: Owner = None,
    agent_id: AgentId = None,
    expected_updated_at: Stamp = None,
    source: Source = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> None:
    """Delete a block; with `expected_updated_at`, only if it has not changed since."""
    given = msgspec.UNSET if expected_updated_at is None else from_micros(parse_moment(expected_updated_at))
    said = not (given is msgspec.UNSET and if_match is None and if_none_match is None)
    expected = _expected(given, if_match, if_none_match) if said else None
    place = _place(request.auth, whose, agent_id)
    if said and expected is None:
        # `If-None-Match: *`. For `delete`, None means any block; here an existing block is a conflict.
        there = request.auth.memory.perform(
            DeleteFact(scope=place.scope, key=key_of(block_type), expect=0, source=source)
        )
    else:
        there = place.blocks.delete(block_type, expected_updated_at=expected, source=source)
    if not there:
        raise _missing(block_type)


@get(
    "/blocks/{block_type:str}/history",
    sync_to_thread=True,
    responses=problem_specs(404),
    summary="Get the history of a block",
)
def read_block_history(
    request: StrictRequest,
    block_type: FromPath[BlockType],
    whose: Owner = None,
    agent_id: AgentId = None,
    after: After = None,
    limit: PageLimit = LARGEST_PAGE,
) -> Response[History]:
    """Return the revisions of a block, oldest first."""
    most = request.page_bytes
    revisions = _blocks(request.auth, whose, agent_id).history(
        block_type, after=decode_number(after), limit=limit + 1, max_bytes=most
    )
    if not revisions and after is None:
        raise _missing(block_type)
    kept, go_on = page(revisions, limit, lambda one: one.version, max_bytes=most, out=revision_json)
    return JsonResponse(History(revisions=kept, next=go_on))


@post(
    "/blocks/{block_type:str}/undo",
    sync_to_thread=True,
    status_code=200,
    responses=problem_specs(404, 409, 507),
    summary="Undo the last change of a block",
)
def undo_block(
    request: StrictRequest,
    block_type: FromPath[BlockType],
    data: JSONBody[UndoBlock],
    whose: Owner = None,
    agent_id: AgentId = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response[Block]:
    """Restore the previous text of a block, or a deleted block; undoing twice redoes the change."""
    block = _blocks(request.auth, whose, agent_id).undo(
        block_type, expected_updated_at=_expected(data.expected_updated_at, if_match, if_none_match)
    )
    return EtagResponse(block, time_etag(block.updated_at))


@post(
    "/recall",
    sync_to_thread=True,
    status_code=200,
    responses=problem_specs(),
    summary="Recall lines of archival blocks",
)
def recall_blocks(request: StrictRequest, data: JSONBody[RecallBlocks]) -> list[BlockMatch]:
    """Return the archival lines that match a query, best first; an empty query lists all of them."""
    blocks = request.auth.own.blocks
    return blocks.recall(data.query, agent=data.agent_id, limit=data.limit, min_score=data.min_score)


def _order(block: Block) -> tuple[str, int]:
    """Return the sort key of a block: the user's own first, then by agent."""
    return block.agent_id or "", BLOCK_TYPES.index(block.block_type)


def _order_in(cursor: str) -> tuple[str, int]:
    place = decode_cursor(cursor)
    if place[0] not in "01":
        raise invalid_cursor(cursor)
    return place[1:], int(place[0])


def _blocks(access: Access, whose: BlockScope | None, agent_id: str | None) -> Blocks:
    return _place(access, whose, agent_id).blocks


def _place(access: Access, whose: BlockScope | None, agent_id: str | None) -> ScopedMemory:
    if agent_id is None:
        if whose == "agent":
            raise UsageError("`scope=agent` needs an agent", hint="Add `agent_id`", path="agent_id")
        return access.own
    if whose == "user":
        raise UsageError(
            "`scope=user` and an agent contradict each other",
            hint="Leave out agent_id, or set scope=agent",
            path="agent_id",
        )
    return access.memory.at(_scope_of(access.principal.tenant, access.principal.user, agent_id))


@lru_cache(1_024)
def _scope_of(tenant: str, user: str, agent_id: str) -> Scope:
    """Return the scope of a user's agent; cached, because blocks are read and written repeatedly."""
    return Scope.of(tenant=tenant, user=user, agent=agent_id)


def _expected(
    given: datetime | msgspec.UnsetType | None, if_match: str | None, if_none_match: str | None
) -> datetime | None:
    """Return the `updated_at` that a write expects, None for a new block; body or headers must contain it."""
    in_headers, moment = expected_moment(if_match, if_none_match)
    if given is msgspec.UNSET:
        if not in_headers:
            raise UsageError(
                "`$.expected_updated_at` of the body is missing",
                hint="Send the last updated_at, or null to create a block",
                path="$.expected_updated_at",
            )
        return moment
    if in_headers and _instant(given) != _instant(moment):
        raise UsageError(
            "the headers and the body expect different versions",
            hint="Send only one of them",
            path="$.expected_updated_at",
        )
    return given


def _instant(moment: datetime | None) -> int | None:
    return None if moment is None else parse_moment(moment)


def _missing(block: BlockType) -> NotFound:
    return NotFound(
        f"there is no {block} block", hint='PUT it with "expected_updated_at": null to create one', block=block
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
