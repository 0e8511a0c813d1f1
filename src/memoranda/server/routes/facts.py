"""`/memory/facts`: one JSON value at a key, with its versions."""

from __future__ import annotations

from functools import partial

import msgspec
from litestar import Response, Router, delete, get, post, put
from litestar.params import FromQuery, JSONBody

from memoranda.api.batch import Batch
from memoranda.errors import NotFound, UsageError
from memoranda.model.text import quote
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.callers import Access
from memoranda.server.paging import decode_cursor, decode_number, page
from memoranda.server.parameters import (
    LARGEST_PAGE,
    PAGE,
    After,
    AsOf,
    Below,
    IfMatch,
    IfNoneMatch,
    Name,
    Once,
    PageLimit,
    Source,
    once,
)
from memoranda.server.places import name_of, own
from memoranda.server.tags import Encoded, Tagged, expected_version, is_known, not_modified, tag_of_version
from memoranda.server.threads import read_row, write_row
from memoranda.wire.facts import (
    BatchedWrite,
    Fact,
    Facts,
    History,
    WriteFact,
    WriteFacts,
    Written,
    fact_out,
    revision_out,
)


@get("/", sync_to_thread=True, responses=problems(), summary="List facts")
def list_facts(
    request: StrictRequest,
    prefix: FromQuery[str] = "",
    domain: FromQuery[str | None] = None,
    below: Below = None,
    as_of: AsOf = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[Facts]:
    """Return the facts at and below a key, ordered by key."""
    most = request.page_bytes
    found = own(request.auth, below).list(
        prefix, domain=domain, after=decode_cursor(after), limit=limit + 1, max_bytes=most, as_of=as_of
    )
    kept, go_on = page(found, limit, lambda fact: fact.key, max_bytes=most, out=fact_out)
    return Encoded(Facts(facts=kept, next=go_on))


@post("/", sync_to_thread=True, status_code=200, responses=problems(404, 409, 507), summary="Write several facts")
def write_facts(request: StrictRequest, data: JSONBody[WriteFacts], idempotency_key: Once = None) -> Written:
    """Set and delete facts, all or none of them: where one is refused or meets another version, nothing changes."""
    with request.auth.memory.batch(idempotency_key=once(idempotency_key)) as batch:
        for number, write in enumerate(data.writes):
            _add(batch, request.auth, write, number)
    return Written(results=[one if isinstance(one, bool) else fact_out(one) for one in batch.results])


def _add(batch: Batch, access: Access, write: BatchedWrite, number: int) -> None:
    """Add a write to a batch; what is wrong with it is told with its place."""
    at = f"$.writes[{number}]"
    try:
        place = own(access, write.scope)
        if not write.delete:
            if write.value is msgspec.UNSET:
                raise UsageError("a write has a value, or deletes", hint="Send `value`, or `delete` as true", path=at)
            batch.set(place, write.key, write.value, expect=write.expect, ttl=write.ttl, domain=write.domain)
        elif write.value is not msgspec.UNSET or write.ttl is not None or write.domain is not None:
            raise UsageError("what is deleted has no value, ttl or domain", hint="Send two writes", path=at)
        else:
            batch.delete(place, write.key, expect=write.expect)
    except UsageError as error:
        error.details.setdefault("path", at)
        error.details["item"] = number
        raise


@get("/{key:str}", responses=problems(404), summary="Get a fact")
async def get_fact(
    request: StrictRequest,
    key: Name,
    below: Below = None,
    as_of: AsOf = None,
    if_none_match: IfNoneMatch = None,
) -> Response[Fact]:
    """Return the fact at a key, now or as it stood at a moment."""
    access = request.auth
    fact = await read_row(access.memory, partial(own(access, below).get, name_of(key), as_of=as_of))
    if fact is None:
        raise _missing(name_of(key))
    tag = tag_of_version(fact.version)
    if is_known(tag, if_none_match):
        return not_modified(tag)
    return Tagged(fact_out(fact), tag)


@put("/{key:str}", status_code=200, responses=problems(404, 409, 507), summary="Set a fact")
async def set_fact(
    request: StrictRequest,
    key: Name,
    data: JSONBody[WriteFact],
    below: Below = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    idempotency_key: Once = None,
) -> Response[Fact]:
    """Write a fact. `If-Match`, or `expect`, is what it must still be; `If-None-Match: *` means it must not exist."""

    def write(access: Access) -> Fact:
        fact = own(access, below).set(
            name_of(key),
            data.value,
            expect=expected_version(if_match, if_none_match, data.expect),
            ttl=data.ttl,
            domain=data.domain,
            source=data.source,
            idempotency_key=once(idempotency_key),
        )
        return fact_out(fact)

    fact = await write_row(request, write)
    return Tagged(fact, tag_of_version(fact.version))


@delete("/{key:str}", sync_to_thread=True, responses=problems(404, 409, 507), summary="Delete a fact")
def delete_fact(
    request: StrictRequest,
    key: Name,
    below: Below = None,
    source: Source = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    idempotency_key: Once = None,
) -> None:
    """Delete a fact. Its history stays. `If-None-Match: *` says that there must be none: 404 is then what was hoped."""
    expect = expected_version(if_match, if_none_match)
    if not own(request.auth, below).delete(
        name_of(key), expect=expect, source=source, idempotency_key=once(idempotency_key)
    ):
        raise _missing(name_of(key))


@get("/{key:str}/history", sync_to_thread=True, responses=problems(404), summary="Get the history of a fact")
def read_history(
    request: StrictRequest, key: Name, below: Below = None, after: After = None, limit: PageLimit = LARGEST_PAGE
) -> Response[History]:
    """Return the revisions of a key, oldest first."""
    most = request.page_bytes
    revisions = own(request.auth, below).history(
        name_of(key), after=decode_number(after), limit=limit + 1, max_bytes=most
    )
    if not revisions and after is None:
        raise _missing(name_of(key))
    kept, go_on = page(revisions, limit, lambda one: one.version, max_bytes=most, out=revision_out)
    return Encoded(History(revisions=kept, next=go_on))


def _missing(key: str) -> NotFound:
    return NotFound(f"there is no fact {quote(key)}", hint="GET /memory/facts lists those there are", key=key)


router = Router(
    "/memory/facts", route_handlers=[list_facts, write_facts, get_fact, set_fact, delete_fact, read_history]
)
