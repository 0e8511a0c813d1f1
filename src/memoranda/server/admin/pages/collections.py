"""Collections: what was remembered in them, and what a question finds there, with the reasons."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.errors import UsageError
from memoranda.model.collection import Holding
from memoranda.model.effect import Forget, ReadCollections
from memoranda.model.entry import Entry
from memoranda.model.recall import MODES, Match, Mode
from memoranda.server.admin.desk import PAGE_BYTES, Desk
from memoranda.server.admin.forms import fault_of, status_of
from memoranda.server.admin.parameters import Place, Question
from memoranda.server.admin.rendering import address, redirect
from memoranda.server.paging import decode_number, page

PAGE = 50
_MATCHES = 20


@get("/collections", sync_to_thread=True)
def list_collections(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Return the collections, and how much is in them."""
    return desk.show("collections.html", section="collections", collections=collections_of(desk))


@get("/collections/one", sync_to_thread=True)
def see_collection(
    desk: NamedDependency[Desk],
    name: FromQuery[str],
    place: Place = "",
    query_text: Question = "",
    mode: FromQuery[Mode] = "hybrid",
    after: FromQuery[str | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Return what a question finds among the entries of a scope; without one, a page of these entries."""
    whose = place.strip() or str(desk.caller.scope)
    matches: list[Match] = []
    entries: list[Entry] = []
    fault, status, onwards = None, 200, None
    try:
        memory = desk.at(whose)
        if query_text.strip():
            matches = memory.recall(query_text, collection=name, limit=_MATCHES, mode=mode).results
        else:
            found = memory.entries(collection=name, after=decode_number(after), limit=PAGE + 1, max_bytes=PAGE_BYTES)
            entries, onwards = page(found, PAGE, lambda entry: entry.sequence, max_bytes=PAGE_BYTES)
    except UsageError as error:
        fault, status = fault_of(error, field="scope"), status_of(error)
    return desk.show(
        "collection.html",
        section="collections",
        status=status,
        done=done,
        name=name,
        scope=whose,
        query=query_text,
        mode=mode,
        modes=MODES,
        matches=matches,
        entries=entries,
        onwards=onwards,
        fault=fault,
        writable=fault is None and desk.may(Forget(scope=desk.scope(whose), collection=name, id="any")),
    )


@post("/collections/forget", sync_to_thread=True, status_code=200)
def forget_entry(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Forget one entry: it is no longer recalled, except as of an earlier moment."""
    name, scope = desk.field("name"), desk.field("scope")
    gone = desk.at(scope).forget(desk.field("id"), collection=name, namespace=desk.field("namespace"))
    where = address("/collections/one", name=name, scope=scope, done="forgotten" if gone else "unchanged")
    return redirect(where)


def collections_of(desk: Desk) -> list[Holding]:
    """Return the collections of the tenant; for who may not see those, what is in them of their own."""
    everything = desk.may(ReadCollections(scope=desk.shared))
    return desk.memory.collections.list(below=None if everything else desk.caller.scope)


handlers = [list_collections, see_collection, forget_entry]
