"""Collections: their entries, and recall with an explanation of each score."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.engine.collections import ReadCollections
from memoranda.engine.forget import Forget
from memoranda.errors import UsageError
from memoranda.model.entry import MODES, Entry, Holding, Match, Mode
from memoranda.server.admin.context import PAGE_BYTES, PageContext, Place, Question, field_error
from memoranda.server.admin.html import address, redirect
from memoranda.server.pagination import decode_number, page

PAGE = 50
_MATCHES = 20


@get("/collections", sync_to_thread=True)
def list_collections(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Show the collections with their sizes."""
    return context.show("collections.html", section="collections", collections=collections_of(context))


@get("/collections/one", sync_to_thread=True)
def see_collection(
    context: NamedDependency[PageContext],
    name: FromQuery[str],
    place: Place = "",
    query_text: Question = "",
    mode: FromQuery[Mode] = "hybrid",
    after: FromQuery[str | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Show what a query recalls from a scope; without a query, a page of its entries."""
    whose = place.strip() or str(context.principal.scope)
    matches: list[Match] = []
    entries: list[Entry] = []
    problem = onwards = None
    try:
        memory = context.at(whose)
        if query_text.strip():
            matches = memory.recall(query_text, collection=name, limit=_MATCHES, mode=mode).results
        else:
            found = memory.entries(collection=name, after=decode_number(after), limit=PAGE + 1, max_bytes=PAGE_BYTES)
            entries, onwards = page(found, PAGE, lambda entry: entry.sequence, max_bytes=PAGE_BYTES)
    except UsageError as error:
        problem = field_error(error, field="scope")
    return context.show(
        "collection.html",
        section="collections",
        done=done,
        name=name,
        scope=whose,
        query=query_text,
        mode=mode,
        modes=MODES,
        matches=matches,
        entries=entries,
        onwards=onwards,
        field_error=problem,
        writable=problem is None and context.may(Forget(scope=context.scope(whose), collection=name, id="any")),
    )


@post("/collections/forget", sync_to_thread=True, status_code=200)
def forget_entry(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Forget an entry: recalls no longer find it, except with an earlier `as_of`."""
    name, scope = context.field("name"), context.field("scope")
    gone = context.at(scope).forget(context.field("id"), collection=name, namespace=context.field("namespace"))
    where = address("/collections/one", name=name, scope=scope, done="forgotten" if gone else "unchanged")
    return redirect(where)


def collections_of(context: PageContext) -> list[Holding]:
    """Return the collections of the tenant, or those with entries of the caller."""
    everything = context.may(ReadCollections(scope=context.shared))
    return context.memory.collections.list(below=None if everything else context.principal.scope)
