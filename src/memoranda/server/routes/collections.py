"""`/collections`: what is remembered and found by meaning."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Response, Router, delete, get, post
from litestar.params import FromQuery, JSONBody, QueryParameter

from memoranda.errors import NotFound
from memoranda.model.recall import check_mode
from memoranda.model.text import quote
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.paging import decode_cursor, decode_number, encode_cursor, page
from memoranda.server.parameters import PAGE, After, Below, Name, PageLimit
from memoranda.server.places import name_of, own
from memoranda.server.tags import Encoded
from memoranda.wire.bounds import fitting
from memoranda.wire.collections import (
    AllRemembered,
    Collections,
    Entries,
    Recall,
    Recalled,
    Remember,
    Remembered,
    RememberMany,
    RememberText,
    Removed,
    entry_out,
    recalled_out,
)

Namespace = Annotated[str | None, QueryParameter(description="A part of the collection; without it, all of them.")]


@get("/", sync_to_thread=True, responses=problems(), summary="List collections")
def list_collections(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[Collections]:
    """Return the collections with something of the caller in them, and how much that is, by name.

    An administrator sees those of the whole tenant.
    """
    last = decode_cursor(after)
    below = None if request.auth.caller.role == "admin" else request.auth.caller.scope
    found = [one for one in request.auth.memory.collections.list(below=below) if one.name > last]
    kept, go_on = page(found, limit, lambda one: one.name, max_bytes=request.page_bytes)
    return Encoded(Collections(collections=kept, next=go_on))


@post(
    "/{collection:str}/remember",
    sync_to_thread=True,
    status_code=201,
    responses=problems(409, 502, 507),
    summary="Remember something",
)
def remember(
    request: StrictRequest, collection: Name, data: JSONBody[Remember], below: Below = None
) -> Response[Remembered]:
    """Store text or JSON so that recall finds it. `stored` is false where the same stood there already."""
    done = own(request.auth, below).remember(
        data.content,
        collection=name_of(collection),
        metadata=data.metadata,
        namespace=data.namespace,
        ttl=data.ttl,
        key=data.key,
        source=data.source,
    )
    return Response(done, status_code=201)


@post(
    "/{collection:str}/entries",
    sync_to_thread=True,
    status_code=201,
    responses=problems(409, 502, 507),
    summary="Remember several things",
)
def remember_many(
    request: StrictRequest, collection: Name, data: JSONBody[RememberMany], below: Below = None
) -> AllRemembered:
    """Store several things, all or none of them, and say what became of each."""
    done = own(request.auth, below).remember_many(
        [msgspec.structs.asdict(item) for item in data.items],
        collection=name_of(collection),
        namespace=data.namespace,
        ttl=data.ttl,
        source=data.source,
    )
    return AllRemembered(remembered=done)


@post(
    "/{collection:str}/texts",
    sync_to_thread=True,
    status_code=201,
    responses=problems(409, 502, 507),
    summary="Remember a long text in parts",
)
def remember_text(
    request: StrictRequest, collection: Name, data: JSONBody[RememberText], below: Below = None
) -> AllRemembered:
    """Store a long text in parts, cut between paragraphs or sentences; its parts are neighbours of each other."""
    done = own(request.auth, below).remember_text(
        data.text,
        collection=name_of(collection),
        chunk=data.chunk,
        metadata=data.metadata,
        namespace=data.namespace,
        ttl=data.ttl,
        source=data.source,
    )
    return AllRemembered(remembered=done)


@post(
    "/{collection:str}/recall",
    sync_to_thread=True,
    status_code=200,
    responses=problems(409, 502),
    summary="Recall what was remembered",
)
def recall(
    request: StrictRequest, collection: Name, data: JSONBody[Recall], below: Below = None, after: After = None
) -> Response[Recalled]:
    """Return what answers a query, best first; an empty query gives the newest.

    Where the matches are too large for one answer, `next` is the `after` of the same question that gives the others.
    """
    seen, most = decode_number(after), request.page_bytes
    found = own(request.auth, below).recall(
        data.query,
        collection=name_of(collection),
        namespace=data.namespace,
        limit=max(0, data.limit - seen),
        threshold=data.threshold,
        filter=data.filter,
        as_of=data.as_of,
        mode=check_mode(data.mode),
        expand=data.expand,
        offset=seen,
        max_bytes=most,
    )
    results = fitting(recalled_out(found).results, most)
    go_on = encode_cursor(str(seen + len(results))) if len(results) < found.count else None
    return Encoded(Recalled(results=results, count=len(results), next=go_on))


@get("/{collection:str}/entries", sync_to_thread=True, responses=problems(), summary="List entries")
def list_entries(
    request: StrictRequest,
    collection: Name,
    namespace: Namespace = None,
    below: Below = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[Entries]:
    """Return the caller's entries in the order they came."""
    most = request.page_bytes
    found = own(request.auth, below).entries(
        collection=name_of(collection),
        namespace=namespace,
        after=decode_number(after),
        limit=limit + 1,
        max_bytes=most,
    )
    kept, go_on = page(found, limit, lambda entry: entry.sequence, max_bytes=most, out=entry_out)
    return Encoded(Entries(entries=kept, next=go_on))


@delete(
    "/{collection:str}/entries/{entry:str}",
    sync_to_thread=True,
    responses=problems(404, 507),
    summary="Forget an entry",
)
def forget(
    request: StrictRequest, collection: Name, entry: Name, namespace: FromQuery[str] = "", below: Below = None
) -> None:
    """Forget one entry: it is no longer recalled, except as of an earlier moment."""
    place = own(request.auth, below)
    if not place.forget(name_of(entry), collection=name_of(collection), namespace=namespace):
        raise _missing(name_of(entry))


@delete(
    "/{collection:str}/entries",
    sync_to_thread=True,
    responses=problems(404, 507),
    summary="Forget what stands under a key",
)
def forget_key(
    request: StrictRequest, collection: Name, key: FromQuery[str], namespace: FromQuery[str] = "", below: Below = None
) -> None:
    """Forget the entry that was remembered under a key."""
    if not own(request.auth, below).forget(key=key, collection=name_of(collection), namespace=namespace):
        raise _missing(key)


@delete(
    "/{collection:str}",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 507),
    summary="Delete a collection",
)
def delete_collection(request: StrictRequest, collection: Name) -> Removed:
    """Delete a collection with the entries of everybody in the tenant; for administrators."""
    return Removed(entries=request.auth.memory.collections.delete(name_of(collection)))


def _missing(entry: str) -> NotFound:
    return NotFound(f"there is no entry {quote(entry)}", hint="GET …/entries lists those there are")


router = Router(
    "/collections",
    route_handlers=[
        list_collections,
        remember,
        remember_many,
        remember_text,
        recall,
        list_entries,
        forget,
        forget_key,
        delete_collection,
    ],
)
