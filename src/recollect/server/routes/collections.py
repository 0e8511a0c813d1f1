"""`/collections`: what is remembered and found by meaning."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Response, Router, delete, get, post
from litestar.params import FromQuery, JSONBody, QueryParameter

from recollect.errors import NotFound
from recollect.model.text import quote
from recollect.server.answers import problems
from recollect.server.paging import decode_cursor, decode_number, page
from recollect.server.parameters import PAGE, After, Below, Handle, Name, PageLimit, Reach
from recollect.server.places import name_of, own
from recollect.wire.collections import (
    Collections,
    Entries,
    Holding,
    Recall,
    Recalled,
    Remember,
    Remembered,
    entry_out,
    recalled_out,
)

Namespace = Annotated[str | None, QueryParameter(description="A part of the collection; without it, all of them.")]


@get("/", sync_to_thread=True, responses=problems(), summary="List collections")
def list_collections(memory: Handle, after: After = None, limit: PageLimit = PAGE) -> Collections:
    """Return the tenant's collections with their embedders, by name."""
    last = decode_cursor(after)
    found = [one for one in memory.collections.list() if one.name > last]
    kept, go_on = page(found, limit, lambda one: one.name)
    return Collections(collections=[msgspec.convert(one, Holding, from_attributes=True) for one in kept], next=go_on)


@post(
    "/{collection:str}/remember",
    sync_to_thread=True,
    status_code=201,
    responses=problems(409, 502, 507),
    summary="Remember something",
)
def remember(access: Reach, collection: Name, data: JSONBody[Remember], below: Below = None) -> Response[Remembered]:
    """Store text or JSON so that recall finds it. `stored` is false where the same stood there already."""
    done = own(access, below).remember(
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
    "/{collection:str}/recall",
    sync_to_thread=True,
    status_code=200,
    responses=problems(409, 502),
    summary="Recall what was remembered",
)
def recall(access: Reach, collection: Name, data: JSONBody[Recall], below: Below = None) -> Recalled:
    """Return what answers a query, best first; an empty query gives the newest."""
    found = own(access, below).recall(
        data.query,
        collection=name_of(collection),
        namespace=data.namespace,
        limit=data.limit,
        threshold=data.threshold,
        filter=data.filter,
        as_of=data.as_of,
        mode=data.mode,
        expand=data.expand,
    )
    return recalled_out(found)


@get("/{collection:str}/entries", sync_to_thread=True, responses=problems(), summary="List entries")
def list_entries(
    access: Reach,
    collection: Name,
    namespace: Namespace = None,
    below: Below = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Entries:
    """Return the caller's entries in the order they came."""
    found = own(access, below).entries(
        collection=name_of(collection), namespace=namespace, after=decode_number(after), limit=limit + 1
    )
    kept, go_on = page(found, limit, lambda entry: entry.sequence)
    return Entries(entries=[entry_out(entry) for entry in kept], next=go_on)


@delete(
    "/{collection:str}/entries/{entry:str}",
    sync_to_thread=True,
    responses=problems(404, 507),
    summary="Forget an entry",
)
def forget(access: Reach, collection: Name, entry: Name, namespace: FromQuery[str] = "", below: Below = None) -> None:
    """Forget one entry: it is no longer recalled, except as of an earlier moment."""
    place = own(access, below)
    if not place.forget(name_of(entry), collection=name_of(collection), namespace=namespace):
        raise NotFound(f"there is no entry {quote(entry)}", hint="GET …/entries lists those there are")


router = Router("/collections", route_handlers=[list_collections, remember, recall, list_entries, forget])
