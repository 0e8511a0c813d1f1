"""Routes `/memory`: facts, blocks and definitions."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlencode

import msgspec
from litestar import Response, delete, get, patch, post, put
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from memoranda.api.blocks import Blocks
from memoranda.api.scoped import Batch, ScopedMemory
from memoranda.engine.definitions import SHOWN_RECORDS
from memoranda.engine.facts import DeleteFact
from memoranda.errors import Denied, NotFound, UsageError
from memoranda.model.block import BLOCK_TYPES, key_of
from memoranda.model.clock import from_micros, parse_moment
from memoranda.model.fact import Fact as StoredFact
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.server.auth.principals import Access
from memoranda.server.pagination import decode_cursor, decode_number, invalid_cursor, page, page_of_list
from memoranda.server.requests import (
    LARGEST_PAGE,
    PAGE,
    After,
    AsOf,
    IdempotencyKey,
    IfMatch,
    IfNoneMatch,
    Name,
    PageLimit,
    ScopeName,
    Source,
    StrictRequest,
    caller_memory,
    decode_idempotency_key,
)
from memoranda.server.responses import (
    JsonResponse,
    etag_response,
    expected_moment,
    expected_version,
    in_thread,
    problem_specs,
    time_etag,
    version_etag,
)
from memoranda.server.thread_pool import run_read, run_write
from memoranda.wire.memory import (
    BatchedWrite,
    Block,
    BlockMatch,
    BlockScope,
    BlockType,
    ChangeDefinition,
    Definition,
    Definitions,
    Fact,
    Facts,
    Forgotten,
    History,
    NewDefinition,
    RecallBlocks,
    Records,
    Remembered,
    SchemaCheck,
    UndoBlock,
    UpdateBlock,
    WriteFact,
    WriteFacts,
    Written,
    fact_json,
    revision_json,
)

Value = TypeVar("Value")
Check = Annotated[bool, QueryParameter(description="Change nothing; say which records would no longer fit.")]
Internal = Annotated[
    bool, QueryParameter(description="Include what the runtime keeps among the facts; for administrators.")
]


@get("/memory/facts", **in_thread("List facts"))
def list_facts(
    request: StrictRequest,
    prefix: FromQuery[str] = "",
    domain: FromQuery[str | None] = None,
    named: ScopeName = None,
    as_of: AsOf = None,
    internal: Internal = False,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[Facts]:
    """Return the facts at and below a key, ordered by key."""
    if internal and not request.auth.reads_everything:
        raise Denied("only an administrator lists internal facts", hint="Leave `internal` out")
    most = request.page_bytes
    found = caller_memory(request.auth, named).list(
        prefix,
        domain=domain,
        after=decode_cursor(after),
        limit=limit + 1,
        max_bytes=most,
        as_of=as_of,
        internal=internal,
    )
    kept, go_on = page(found, limit, lambda fact: fact.key, max_bytes=most, out=fact_json)
    return JsonResponse(Facts(facts=kept, next=go_on))


@post("/memory/facts", **in_thread("Write several facts", 404, 409, 507, status=200))
def write_facts(request: StrictRequest, data: JSONBody[WriteFacts], idempotency_key: IdempotencyKey = None) -> Written:
    """Set and delete facts, remember and forget entries, all or none: if one write fails, nothing changes."""
    with request.auth.memory.batch(idempotency_key=decode_idempotency_key(idempotency_key)) as batch:
        for number, write in enumerate(data.writes):
            _add(batch, request.auth, write, number)
    results = batch.results
    return Written(
        results=[
            one if isinstance(one, bool) else fact_json(one) if isinstance(one, StoredFact) else None for one in results
        ],
        remembered=[one for one in results if isinstance(one, Remembered)],
        forgotten=[one for one in results if isinstance(one, Forgotten)],
    )


def _add(batch: Batch, access: Access, write: BatchedWrite, number: int) -> None:
    """Add a write to a batch; errors contain its position."""
    at = f"$.writes[{number}]"
    try:
        place = caller_memory(access, write.scope)
        if write.remember is not msgspec.UNSET or write.forget is not msgspec.UNSET:
            _add_entry(batch, place, write, at)
        elif write.key is msgspec.UNSET:
            raise UsageError("a write of a fact needs a `key`", hint="Send the key of the fact", path=at)
        elif not write.delete:
            if write.value is msgspec.UNSET:
                raise UsageError("a write needs `value` or `delete`", hint="Send `value`, or `delete` as true", path=at)
            batch.set(place, write.key, write.value, expect=write.expect, ttl=write.ttl, domain=write.domain)
        elif write.value is not msgspec.UNSET or write.ttl is not None or write.domain is not None:
            raise UsageError("a delete takes no `value`, `ttl` or `domain`", hint="Send two writes", path=at)
        else:
            batch.delete(place, write.key, expect=write.expect)
    except UsageError as error:
        error.details.setdefault("path", at)
        error.details["item"] = number
        raise


def _add_entry(batch: Batch, place: ScopedMemory, write: BatchedWrite, at: str) -> None:
    given = [write.key, write.value, write.remember, write.forget]
    is_more = sum(one is not msgspec.UNSET for one in given) > 1 or write.delete
    if is_more or write.expect is not None or write.ttl is not None or write.domain is not None:
        raise UsageError("a write does one thing", hint="Send several writes", path=at)
    if write.remember is not msgspec.UNSET:
        batch.remember(place, **msgspec.structs.asdict(write.remember))
    elif write.forget is not msgspec.UNSET:
        batch.forget(place, **msgspec.structs.asdict(write.forget))


@get("/memory/facts/{key:str}", responses=problem_specs(404), summary="Get a fact")
async def get_fact(
    request: StrictRequest,
    key: Name,
    named: ScopeName = None,
    as_of: AsOf = None,
    if_none_match: IfNoneMatch = None,
) -> Response[Fact]:
    """Return the active fact, or its value at `as_of`."""
    access = request.auth
    fact = await run_read(access.memory, partial(caller_memory(access, named).get, key, as_of=as_of))
    if fact is None:
        raise _unknown_fact(key)
    return etag_response(fact_json(fact), version_etag(fact.version), if_none_match)


@put("/memory/facts/{key:str}", status_code=200, responses=problem_specs(404, 409, 507), summary="Set a fact")
async def set_fact(
    request: StrictRequest,
    key: Name,
    data: JSONBody[WriteFact],
    named: ScopeName = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[Fact]:
    """Write a fact. `If-Match` or `expect` is the version it must have; `If-None-Match: *` means it must not exist."""

    def write(access: Access) -> Fact:
        fact = caller_memory(access, named).set(
            key,
            data.value,
            expect=expected_version(if_match, if_none_match, data.expect),
            ttl=data.ttl,
            domain=data.domain,
            source=data.source,
            idempotency_key=decode_idempotency_key(idempotency_key),
            derived_from=data.derived_from,
            requires_confirmation=data.requires_confirmation,
        )
        return fact_json(fact)

    fact = await run_write(request, write)
    return etag_response(fact, version_etag(fact.version))


@delete("/memory/facts/{key:str}", **in_thread("Delete a fact", 404, 409, 507))
def delete_fact(
    request: StrictRequest,
    key: Name,
    named: ScopeName = None,
    source: Source = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Delete a fact. Its history is kept. With `If-None-Match: *` an existing fact is a conflict."""
    expect = expected_version(if_match, if_none_match)
    if not caller_memory(request.auth, named).delete(
        key, expect=expect, source=source, idempotency_key=decode_idempotency_key(idempotency_key)
    ):
        raise _unknown_fact(key)


@get("/memory/facts/{key:str}/history", **in_thread("Get the history of a fact", 404))
def read_history(
    request: StrictRequest, key: Name, named: ScopeName = None, after: After = None, limit: PageLimit = LARGEST_PAGE
) -> Response[History]:
    """Return the revisions of a key, oldest first."""
    most = request.page_bytes
    revisions = caller_memory(request.auth, named).history(
        key, after=decode_number(after), limit=limit + 1, max_bytes=most
    )
    if not revisions and after is None:
        raise _unknown_fact(key)
    kept, go_on = page(revisions, limit, lambda one: one.version, max_bytes=most, out=revision_json)
    return JsonResponse(History(revisions=kept, next=go_on))


def _unknown_fact(key: str) -> NotFound:
    return NotFound(f"unknown fact {quote(key)}", hint="GET /memory/facts lists all facts", key=key)


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


@get("/memory/blocks", **in_thread("List blocks"))
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


@get("/memory/blocks/{block_type:str}", responses=problem_specs(404), summary="Get a block")
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
        raise _unknown_block(block_type)
    return etag_response(block, time_etag(block.updated_at), if_none_match)


@put(
    "/memory/blocks/{block_type:str}",
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
    return etag_response(block, time_etag(block.updated_at))


@delete("/memory/blocks/{block_type:str}", **in_thread("Delete a block", 404, 409, 507))
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
        raise _unknown_block(block_type)


@get("/memory/blocks/{block_type:str}/history", **in_thread("Get the history of a block", 404))
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
        raise _unknown_block(block_type)
    kept, go_on = page(revisions, limit, lambda one: one.version, max_bytes=most, out=revision_json)
    return JsonResponse(History(revisions=kept, next=go_on))


@post("/memory/blocks/{block_type:str}/undo", **in_thread("Undo the last change of a block", 404, 409, 507, status=200))
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
    return etag_response(block, time_etag(block.updated_at))


@post("/memory/recall", **in_thread("Recall lines of archival blocks", status=200))
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


def _unknown_block(block: BlockType) -> NotFound:
    return NotFound(
        f"there is no {block} block", hint='PUT it with "expected_updated_at": null to create one', block=block
    )


@get("/memory/definitions", **in_thread("List definitions"))
def list_definitions(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[Definitions]:
    """Return the tenant's definitions, oldest first."""
    every = request.auth.memory.definitions.list()
    kept, go_on = page_of_list(every, after, limit, lambda one: one.id, max_bytes=request.page_bytes)
    return JsonResponse(Definitions(definitions=kept, next=go_on))


@post("/memory/definitions", **in_thread("Create a definition", 409, 507))
def create_definition(request: StrictRequest, data: JSONBody[NewDefinition]) -> Definition:
    """Create a definition; from now on values of its key are validated against its schema."""
    return request.auth.memory.definitions.create(
        name=data.name,
        slug=data.slug,
        schema=data.schema,
        scope=data.scope,
        ttl=data.ttl,
        mode=data.mode,
        id=data.id,
    )


@get("/memory/definitions/{definition:str}", **in_thread("Get a definition", 404))
def get_definition(request: StrictRequest, definition: Name) -> Definition:
    """Return a definition by its id or slug."""
    return request.auth.memory.definitions.get(definition)


@patch("/memory/definitions/{definition:str}", **in_thread("Change a definition", 404, 409, 507))
def change_definition(
    request: StrictRequest, definition: Name, data: JSONBody[ChangeDefinition], check: Check = False
) -> Definition | SchemaCheck:
    """Change the given fields; if the slug changes, existing records are renamed.

    A schema that records would no longer fit is refused, unless they are kept or migrated. With `check` nothing is
    changed, and the response says which records that are.
    """
    from memoranda.workflow import migration  # which loads the expression language on first use

    changes: dict[str, Any] = {
        "name": _or_none(data.name),
        "slug": _or_none(data.slug),
        "schema": _or_none(data.schema),
        "scope": _or_none(data.scope),
        "ttl": _or_none(data.ttl),
        "clear_ttl": data.ttl is None,
        "mode": _or_none(data.mode),
        "stale": data.stale,
        "migrate": None if data.migrate is None else migration(data.migrate),
    }
    definitions = request.auth.memory.definitions
    if check:
        return definitions.update(definition, **changes, check=True)
    return definitions.update(definition, **changes, check=False)


@get("/memory/definitions/{definition:str}/stale", **in_thread("List stale records", 404))
def list_stale(
    request: StrictRequest, definition: Name, after: FromQuery[str] = "", limit: PageLimit = SHOWN_RECORDS
) -> SchemaCheck:
    """Return the records that do not fit their definition; `after` is the scope of the last one seen."""
    return request.auth.memory.definitions.stale(definition, after=after, limit=limit)


@delete("/memory/definitions/{definition:str}", **in_thread("Delete a definition", 404, 507))
def delete_definition(request: StrictRequest, definition: Name) -> None:
    """Delete a definition and its records."""
    request.auth.memory.definitions.delete(definition)


@get("/memory/definitions/{definition:str}/records", **in_thread("List records", 404))
def list_records(
    request: StrictRequest, definition: Name, after: After = None, limit: PageLimit = PAGE
) -> Response[Records]:
    """Return the active records of a definition, of all owners."""
    most = request.page_bytes
    # By scope, because an offset would skip records when others are deleted between pages.
    found = request.auth.memory.definitions.records(
        definition, after=decode_cursor(after), limit=limit + 1, max_bytes=most
    )
    kept, go_on = page(found, limit, lambda fact: fact.scope.path, max_bytes=most, out=fact_json)
    return JsonResponse(Records(records=kept, next=go_on))


def _or_none(value: Value | msgspec.UnsetType) -> Value | None:
    return None if value is msgspec.UNSET else value
