"""`/memory/facts`: one JSON value at a key, with its versions."""

from __future__ import annotations

from litestar import Response, Router, delete, get, put
from litestar.params import FromQuery, JSONBody

from recollect.errors import NotFound
from recollect.model.text import quote
from recollect.server.answers import problems
from recollect.server.paging import decode_cursor, page
from recollect.server.parameters import PAGE, After, AsOf, Below, IfMatch, IfNoneMatch, Name, Once, PageLimit, Reach
from recollect.server.places import name_of, own
from recollect.server.tags import expected_version, is_known, not_modified, tag_of_version
from recollect.wire.facts import Fact, Facts, History, WriteFact, fact_out, revision_out


@get("/", sync_to_thread=True, responses=problems(), summary="List facts")
def list_facts(
    access: Reach,
    prefix: FromQuery[str] = "",
    domain: FromQuery[str | None] = None,
    below: Below = None,
    as_of: AsOf = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Facts:
    """Return the facts at and below a key, ordered by key."""
    place = own(access, below)
    found = place.list(prefix, domain=domain, after=decode_cursor(after), limit=limit + 1, as_of=as_of)
    kept, go_on = page(found, limit, lambda fact: fact.key)
    return Facts(facts=[fact_out(fact) for fact in kept], next=go_on)


# A row by its key is read while the loop waits: handing it to a thread would take longer than the reading.
@get("/{key:str}", sync_to_thread=False, responses=problems(404), summary="Get a fact")
def get_fact(
    access: Reach,
    key: Name,
    below: Below = None,
    as_of: AsOf = None,
    if_none_match: IfNoneMatch = None,
) -> Response[Fact]:
    """Return the fact at a key, now or as it stood at a moment."""
    place = own(access, below)
    fact = place.get(name_of(key), as_of=as_of)
    if fact is None:
        raise _missing(name_of(key))
    tag = tag_of_version(fact.version)
    if is_known(tag, if_none_match):
        return not_modified(tag)
    return Response(fact_out(fact), headers={"ETag": tag})


@put("/{key:str}", sync_to_thread=True, status_code=200, responses=problems(404, 409, 507), summary="Set a fact")
def set_fact(
    access: Reach,
    key: Name,
    data: JSONBody[WriteFact],
    below: Below = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    idempotency_key: Once = None,
) -> Response[Fact]:
    """Write a fact. `If-Match`, or `expect`, is what it must still be; `If-None-Match: *` means it must not exist."""
    fact = own(access, below).set(
        name_of(key),
        data.value,
        expect=expected_version(if_match, if_none_match, data.expect),
        ttl=data.ttl,
        domain=data.domain,
        source=data.source,
        idempotency_key=idempotency_key,
    )
    return Response(fact_out(fact), headers={"ETag": tag_of_version(fact.version)})


@delete("/{key:str}", sync_to_thread=True, responses=problems(404, 409, 507), summary="Delete a fact")
def delete_fact(
    access: Reach,
    key: Name,
    below: Below = None,
    if_match: IfMatch = None,
    idempotency_key: Once = None,
) -> None:
    """Delete a fact. Its history stays."""
    expect = expected_version(if_match, None)
    if not own(access, below).delete(name_of(key), expect=expect, idempotency_key=idempotency_key):
        raise _missing(name_of(key))


@get("/{key:str}/history", sync_to_thread=True, responses=problems(404), summary="Get the history of a fact")
def read_history(access: Reach, key: Name, below: Below = None) -> History:
    """Return every revision of a key, oldest first."""
    revisions = own(access, below).history(name_of(key))
    if not revisions:
        raise _missing(name_of(key))
    return History(revisions=[revision_out(revision) for revision in revisions])


def _missing(key: str) -> NotFound:
    return NotFound(f"there is no fact {quote(key)}", hint="GET /memory/facts lists those there are", key=key)


router = Router("/memory/facts", route_handlers=[list_facts, get_fact, set_fact, delete_fact, read_history])
