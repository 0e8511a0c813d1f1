"""Routes `/memory/facts`: JSON values by key, with versions and history."""

from __future__ import annotations

from functools import partial

import msgspec
from litestar import Response, Router, delete, get, post, put
from litestar.params import FromQuery, JSONBody

from memoranda.api.scoped import Batch
from memoranda.errors import NotFound, UsageError
from memoranda.model.text import quote
from memoranda.server.auth.principals import Access
from memoranda.server.pagination import decode_cursor, decode_number, page
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
    Source,
    StrictRequest,
    SubScope,
    caller_memory,
    decode_idempotency_key,
    decode_name,
)
from memoranda.server.responses import (
    EtagResponse,
    JsonResponse,
    etag_matches,
    expected_version,
    not_modified,
    problem_specs,
    version_etag,
)
from memoranda.server.thread_pool import run_read, run_write
from memoranda.wire.memory import (
    BatchedWrite,
    Fact,
    Facts,
    History,
    WriteFact,
    WriteFacts,
    Written,
    fact_json,
    revision_json,
)


@get("/", sync_to_thread=True, responses=problem_specs(), summary="List facts")
def list_facts(
    request: StrictRequest,
    prefix: FromQuery[str] = "",
    domain: FromQuery[str | None] = None,
    below: SubScope = None,
    as_of: AsOf = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[Facts]:
    """Return the facts at and below a key, ordered by key."""
    most = request.page_bytes
    found = caller_memory(request.auth, below).list(
        prefix, domain=domain, after=decode_cursor(after), limit=limit + 1, max_bytes=most, as_of=as_of
    )
    kept, go_on = page(found, limit, lambda fact: fact.key, max_bytes=most, out=fact_json)
    return JsonResponse(Facts(facts=kept, next=go_on))


@post("/", sync_to_thread=True, status_code=200, responses=problem_specs(404, 409, 507), summary="Write several facts")
def write_facts(request: StrictRequest, data: JSONBody[WriteFacts], idempotency_key: IdempotencyKey = None) -> Written:
    """Set and delete several facts, all or none: if one fails, nothing changes."""
    with request.auth.memory.batch(idempotency_key=decode_idempotency_key(idempotency_key)) as batch:
        for number, write in enumerate(data.writes):
            _add(batch, request.auth, write, number)
    return Written(results=[one if isinstance(one, bool) else fact_json(one) for one in batch.results])


def _add(batch: Batch, access: Access, write: BatchedWrite, number: int) -> None:
    """Add a write to a batch; errors contain its position."""
    at = f"$.writes[{number}]"
    try:
        place = caller_memory(access, write.scope)
        if not write.delete:
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


@get("/{key:str}", responses=problem_specs(404), summary="Get a fact")
async def get_fact(
    request: StrictRequest,
    key: Name,
    below: SubScope = None,
    as_of: AsOf = None,
    if_none_match: IfNoneMatch = None,
) -> Response[Fact]:
    """Return the active fact, or its value at `as_of`."""
    access = request.auth
    fact = await run_read(access.memory, partial(caller_memory(access, below).get, decode_name(key), as_of=as_of))
    if fact is None:
        raise _missing(decode_name(key))
    tag = version_etag(fact.version)
    if etag_matches(tag, if_none_match):
        return not_modified(tag)
    return EtagResponse(fact_json(fact), tag)


@put("/{key:str}", status_code=200, responses=problem_specs(404, 409, 507), summary="Set a fact")
async def set_fact(
    request: StrictRequest,
    key: Name,
    data: JSONBody[WriteFact],
    below: SubScope = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[Fact]:
    """Write a fact. `If-Match` or `expect` is the version it must have; `If-None-Match: *` means it must not exist."""

    def write(access: Access) -> Fact:
        fact = caller_memory(access, below).set(
            decode_name(key),
            data.value,
            expect=expected_version(if_match, if_none_match, data.expect),
            ttl=data.ttl,
            domain=data.domain,
            source=data.source,
            idempotency_key=decode_idempotency_key(idempotency_key),
        )
        return fact_json(fact)

    fact = await run_write(request, write)
    return EtagResponse(fact, version_etag(fact.version))


@delete("/{key:str}", sync_to_thread=True, responses=problem_specs(404, 409, 507), summary="Delete a fact")
def delete_fact(
    request: StrictRequest,
    key: Name,
    below: SubScope = None,
    source: Source = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Delete a fact. Its history is kept. With `If-None-Match: *` an existing fact is a conflict."""
    expect = expected_version(if_match, if_none_match)
    if not caller_memory(request.auth, below).delete(
        decode_name(key), expect=expect, source=source, idempotency_key=decode_idempotency_key(idempotency_key)
    ):
        raise _missing(decode_name(key))


@get("/{key:str}/history", sync_to_thread=True, responses=problem_specs(404), summary="Get the history of a fact")
def read_history(
    request: StrictRequest, key: Name, below: SubScope = None, after: After = None, limit: PageLimit = LARGEST_PAGE
) -> Response[History]:
    """Return the revisions of a key, oldest first."""
    most = request.page_bytes
    revisions = caller_memory(request.auth, below).history(
        decode_name(key), after=decode_number(after), limit=limit + 1, max_bytes=most
    )
    if not revisions and after is None:
        raise _missing(decode_name(key))
    kept, go_on = page(revisions, limit, lambda one: one.version, max_bytes=most, out=revision_json)
    return JsonResponse(History(revisions=kept, next=go_on))


def _missing(key: str) -> NotFound:
    return NotFound(f"unknown fact {quote(key)}", hint="GET /memory/facts lists all facts", key=key)


router = Router(
    "/memory/facts", route_handlers=[list_facts, write_facts, get_fact, set_fact, delete_fact, read_history]
)
