"""Routes of entries: learn, remember, recall, context, list, supersede and forget."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, post
from litestar.params import FromQuery, JSONBody, QueryParameter

from memoranda.api.scoped import ScopedMemory
from memoranda.errors import InvalidFilter, NotFound
from memoranda.model.entry import check_mode
from memoranda.model.ref import Ref, as_ref
from memoranda.model.text import quote
from memoranda.model.trust import check_trust
from memoranda.server.chat_agents import find_model
from memoranda.server.pagination import decode_cursor, decode_number, encode_cursor, page
from memoranda.server.requests import PAGE, After, Name, PageLimit, ScopeName, StrictRequest, caller_memory
from memoranda.server.responses import JsonResponse, in_thread
from memoranda.wire.codec import fit_bytes
from memoranda.wire.memory import (
    AllRemembered,
    AskContext,
    Collections,
    Context,
    Copied,
    CopyTo,
    Entries,
    Entry,
    Forget,
    Forgotten,
    LeakProbes,
    Learn,
    Learned,
    Lineage,
    Namespaces,
    ProbeLeaks,
    Recall,
    RecallAnywhere,
    Recalled,
    Reject,
    Rejection,
    Rejections,
    Remember,
    RememberAnywhere,
    Remembered,
    RememberMany,
    RememberText,
    Removed,
    Restored,
    Scopes,
    Supersede,
    Superseded,
    SupersedeDescribed,
    Undo,
    Validate,
    Validated,
    context_json,
    entry_json,
    recall_json,
    rejection_json,
)

Namespace = Annotated[str | None, QueryParameter(description="A namespace of the collection. Default: all of them.")]
Filter = Annotated[str | None, QueryParameter(description='Only entries with these metadata: `{"year": 2025}`.')]
Newest = Annotated[bool, QueryParameter(description="The newest first.")]
Prefix = Annotated[str, QueryParameter(description="How the names begin.")]


@post("/memory/learn", **in_thread("Learn from a conversation", 409, 502, 507, status=200))
def learn(request: StrictRequest, data: JSONBody[Learn], named: ScopeName = None) -> Learned:
    """Keep the messages that are new, and bring what they state up to date; the same messages again change nothing."""
    return caller_memory(request.auth, named).learn(
        data.messages,
        conversation=data.conversation,
        agent=data.agent,
        model=find_model(data.model),
        at=data.at,
        source=data.source,
    )


@post("/memory/context", **in_thread("Get the context of an agent", 404, 409, 502, status=200))
def read_context(request: StrictRequest, data: JSONBody[AskContext], named: ScopeName = None) -> Context:
    """Return what an agent should be told now: core blocks, records, and what answers the query, within a budget."""
    asked = {name: getattr(data, name) for name in data.__struct_fields__ if name != "query"}
    return context_json(caller_memory(request.auth, named).context(data.query, **asked))


@get("/collections", **in_thread("List collections"))
def list_collections(
    request: StrictRequest,
    prefix: Prefix = "",
    after: After = None,
    limit: PageLimit = PAGE,
    named: ScopeName = None,
) -> Response[Collections]:
    """Return the collections with entries of the caller, and their number, by name.

    A caller who may read the memory of everyone gets those of the whole tenant. With a `scope`, these are the
    collections of that scope alone.
    """
    last = decode_cursor(after)
    if named is None:
        below = None if request.auth.reads_everything else request.auth.principal.scope
        listed = request.auth.memory.collections.list(below=below, prefix=prefix)
    else:
        listed = caller_memory(request.auth, named).collections(prefix=prefix)
    found = [one for one in listed if one.name > last]
    kept, go_on = page(found, limit, lambda one: one.name, max_bytes=request.page_bytes)
    return JsonResponse(Collections(collections=kept, next=go_on))


@post("/remember", **in_thread("Remember an entry", 409, 502, 507, status=201))
def remember_anywhere(
    request: StrictRequest, data: JSONBody[RememberAnywhere], named: ScopeName = None
) -> Response[Remembered]:
    """Store text or JSON so that recall finds it, in the collection `notes` unless another is named."""
    return _remember(request, data.collection, data, named)


@post(
    "/collections/{collection:str}/remember",
    **in_thread("Remember an entry in a collection", 409, 502, 507, status=201),
)
def remember(
    request: StrictRequest, collection: Name, data: JSONBody[Remember], named: ScopeName = None
) -> Response[Remembered]:
    """Store text or JSON so that recall finds it; `stored` is false if the same entry exists."""
    return _remember(request, collection, data, named)


def _remember(request: StrictRequest, collection: str, data: Remember, named: str | None) -> Response[Remembered]:
    done = caller_memory(request.auth, named).remember(
        data.content,
        collection=collection,
        metadata=data.metadata,
        namespace=data.namespace,
        ttl=data.ttl,
        key=data.key,
        chunk=data.chunk,
        source=data.source,
        derived_from=data.derived_from,
        requires_confirmation=data.requires_confirmation,
    )
    return Response(done, status_code=201)


@post("/collections/{collection:str}/entries", **in_thread("Remember several entries", 409, 502, 507, status=201))
def remember_many(
    request: StrictRequest, collection: Name, data: JSONBody[RememberMany], named: ScopeName = None
) -> AllRemembered:
    """Store several entries, all or none, and return the result for each."""
    done = caller_memory(request.auth, named).remember_many(
        [msgspec.structs.asdict(item) for item in data.items],
        collection=collection,
        namespace=data.namespace,
        ttl=data.ttl,
        source=data.source,
        derived_from=data.derived_from,
    )
    return AllRemembered(remembered=done)


@post("/collections/{collection:str}/texts", **in_thread("Remember a long text in chunks", 409, 502, 507, status=201))
def remember_text(
    request: StrictRequest, collection: Name, data: JSONBody[RememberText], named: ScopeName = None
) -> AllRemembered:
    """Store a long text in chunks, split between paragraphs or sentences; recall can return neighbouring chunks."""
    done = caller_memory(request.auth, named).remember_text(
        data.text,
        collection=collection,
        chunk=data.chunk,
        metadata=data.metadata,
        namespace=data.namespace,
        ttl=data.ttl,
        source=data.source,
    )
    return AllRemembered(remembered=done)


@post("/recall", **in_thread("Recall anything", 409, 502, status=200))
def recall_anywhere(
    request: StrictRequest, data: JSONBody[RecallAnywhere], named: ScopeName = None, after: After = None
) -> Response[Recalled]:
    """Return what matches a query, best first: entries, facts, records, lines of blocks and messages.

    `kinds`, `collections` and `scopes` narrow that; a `collection` is searched alone.
    """
    narrowing = {"kinds": data.kinds, "collections": data.collections, "scopes": data.scopes}
    return _recall(request, data, named, after, collection=data.collection, **narrowing)


@post("/collections/{collection:str}/recall", **in_thread("Recall entries", 409, 502, status=200))
def recall(
    request: StrictRequest, collection: Name, data: JSONBody[Recall], named: ScopeName = None, after: After = None
) -> Response[Recalled]:
    """Return the entries that match a query, best first; an empty query returns the newest.

    If the matches are too large for one response, send the same query with `after` set to `next` for the rest.
    """
    return _recall(request, data, named, after, collection=collection)


def _recall(
    request: StrictRequest, data: Recall, named: str | None, after: str | None, **places: Any
) -> Response[Recalled]:
    seen, most = decode_number(after), request.page_bytes
    found = caller_memory(request.auth, named).recall(
        data.query,
        namespace=data.namespace,
        limit=max(0, data.limit - seen),
        threshold=data.threshold,
        filter=data.filter,
        as_of=data.as_of,
        mode=check_mode(data.mode),
        expand=data.expand,
        min_trust=check_trust(data.min_trust),
        exact=data.exact,
        offset=seen,
        max_bytes=most,
        **places,
    )
    recalled = recall_json(found)
    results = fit_bytes(recalled.results, most)
    go_on = encode_cursor(str(seen + len(results))) if len(results) < found.count else None
    return JsonResponse(msgspec.structs.replace(recalled, results=results, count=len(results), next=go_on))


@get("/collections/{collection:str}/entries", **in_thread("List entries"))
def list_entries(
    request: StrictRequest,
    collection: Name,
    namespace: Namespace = None,
    filter: Filter = None,
    newest: Newest = False,
    key: Annotated[str | None, QueryParameter(description="Only the entry with this key.")] = None,
    named: ScopeName = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[Entries]:
    """Return the caller's entries of a collection, oldest first unless `newest`."""
    place = caller_memory(request.auth, named)
    if key is None:
        return _page_of_entries(request, place, collection, namespace, filter, newest, after, limit)
    entry = place.entry(key=key, collection=collection, namespace=namespace or "")
    return JsonResponse(Entries(entries=[] if entry is None else [entry_json(entry)]))


@get("/entries", **in_thread("List the entries of all collections"))
def list_all_entries(
    request: StrictRequest,
    namespace: Namespace = None,
    filter: Filter = None,
    newest: Newest = False,
    named: ScopeName = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[Entries]:
    """Return the caller's entries of all collections, oldest first unless `newest`."""
    place = caller_memory(request.auth, named)
    return _page_of_entries(request, place, None, namespace, filter, newest, after, limit)


def _page_of_entries(
    request: StrictRequest,
    place: ScopedMemory,
    collection: str | None,
    namespace: str | None,
    filter: str | None,
    newest: bool,
    after: str | None,
    limit: int,
) -> Response[Entries]:
    most = request.page_bytes
    found = place.entries(
        collection=collection,
        namespace=namespace,
        filter=_decode_filter(filter),
        newest=newest,
        after=decode_number(after),
        limit=limit + 1,
        max_bytes=most,
    )
    kept, go_on = page(found, limit, lambda entry: entry.sequence, max_bytes=most, out=entry_json)
    return JsonResponse(Entries(entries=kept, next=go_on))


def _decode_filter(filter: str | None) -> dict[str, Any] | None:
    """Return the filter of a query parameter."""
    if filter is None:
        return None
    try:
        return msgspec.json.decode(filter, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        raise InvalidFilter(
            f"{quote(filter)} is not a filter", hint='Send a JSON object such as {"year": 2025}', path="filter"
        ) from None


@get("/entries/{entry:str}", **in_thread("Get an entry", 404))
def get_entry(request: StrictRequest, entry: Name, named: ScopeName = None) -> Response[Entry]:
    """Return a current entry of the caller by its id or ref."""
    found = caller_memory(request.auth, named).entry(entry)
    if found is None:
        raise _missing(entry)
    return JsonResponse(entry_json(found))


@get("/entries/{entry:str}/history", **in_thread("Get the history of an entry", 404))
def read_entry_history(
    request: StrictRequest, entry: Name, named: ScopeName = None, after: After = None, limit: PageLimit = PAGE
) -> Response[Entries]:
    """Return what an entry replaced, itself, and what replaced it, oldest first."""
    seen, most = decode_number(after), request.page_bytes
    chain = [one for one in caller_memory(request.auth, named).entry_history(entry) if one.sequence > seen]
    if not chain and not seen:
        raise _missing(entry)
    kept, go_on = page(chain, limit, lambda one: one.sequence, max_bytes=most, out=entry_json)
    return JsonResponse(Entries(entries=kept, next=go_on))


@post("/entries/{entry:str}/supersede", **in_thread("Supersede an entry", 404, 409, 502, 507, status=200))
def supersede(request: StrictRequest, entry: Name, data: JSONBody[Supersede], named: ScopeName = None) -> Superseded:
    """Put something else in the place of an entry, by its id or ref, or of a fact or a line by its ref.

    What was superseded already is a conflict, which names the current one.
    """
    return caller_memory(request.auth, named).supersede(
        str(as_ref(entry)), data.content, metadata=data.metadata, ttl=data.ttl, source=data.source
    )


@post("/memory/supersede", **in_thread("Supersede what is described", 404, 409, 502, 507, status=200))
def supersede_described(
    request: StrictRequest, data: JSONBody[SupersedeDescribed], named: ScopeName = None
) -> Superseded:
    """Put something else in the place of the entry or line that fits a description best; if none does, remember it."""
    return caller_memory(request.auth, named).supersede(
        content=data.content,
        about=data.about,
        collection=data.collection,
        metadata=data.metadata,
        ttl=data.ttl,
        source=data.source,
    )


@post("/memory/forget", **in_thread("Forget", 507, status=200))
def forget_memory(request: StrictRequest, data: JSONBody[Forget], named: ScopeName = None) -> Forgotten:
    """Forget what an id, a key, a filter, an identifier or a description names, all of it or nothing.

    `count` may be 0. Then `candidates` are what a description may have meant.
    """
    return caller_memory(request.auth, named).forget(
        data.id,
        collection=data.collection,
        key=data.key,
        namespace=data.namespace,
        where=data.where,
        identifier=data.identifier,
        inside=data.inside,
        about=data.about,
        dry_run=data.dry_run,
    )


@post("/memory/probe", **in_thread("Probe for leaks", 404, status=200))
def probe_leaks(request: StrictRequest, data: JSONBody[ProbeLeaks], named: ScopeName = None) -> LeakProbes:
    """Return where a text is left, place by place; null is a place that was not tested."""
    return caller_memory(request.auth, named).leak_probes(data.content)


@post("/memory/undo", **in_thread("Undo a forget or a supersede", 404, 409, 507, status=200))
def undo(request: StrictRequest, data: JSONBody[Undo], named: ScopeName = None) -> Restored:
    """Bring back what a forget or a supersede ended, all of it or nothing."""
    return caller_memory(request.auth, named).undo(data.token)


@post("/rejections", **in_thread("Reject a value", 404, 507))
def reject(request: StrictRequest, data: JSONBody[Reject], named: ScopeName = None) -> Rejection:
    """End a value at and below a scope, and refuse it there from now on: by a ref, as a text, or under a key."""
    return rejection_json(caller_memory(request.auth, named).reject(data.value, key=data.key, reason=data.reason))


@get("/rejections", **in_thread("List rejections"))
def list_rejections(request: StrictRequest, named: ScopeName = None) -> Rejections:
    """Return what was rejected at and below a scope, oldest first; never the values."""
    found = caller_memory(request.auth, named).rejections()
    return Rejections(rejections=[rejection_json(one) for one in found])


@delete("/rejections/{rejection:str}", **in_thread("Withdraw a rejection", 404, 507, status=200))
def withdraw(request: StrictRequest, rejection: Name, named: ScopeName = None) -> Rejection:
    """Take a rejection back, so that its value may be written again; what it ended stays ended until it is undone."""
    return rejection_json(caller_memory(request.auth, named).withdraw(rejection))


@get("/memory/lineage", **in_thread("Get the lineage of a memory", 404))
def read_lineage(request: StrictRequest, ref: FromQuery[str], named: ScopeName = None) -> Lineage:
    """Return what an entry, a fact or a line was derived from, and what was derived from it."""
    return caller_memory(request.auth, named).lineage(ref)


@post("/memory/copy", **in_thread("Copy an entry or a fact", 404, 409, 502, 507, status=200))
def copy_memory(request: StrictRequest, data: JSONBody[CopyTo], named: ScopeName = None) -> Copied:
    """Copy an entry or a fact to another scope: it is trusted no more there, and is forgotten with the original."""
    done = caller_memory(request.auth, named).copy(data.ref, to=data.to)
    if isinstance(done, Remembered):
        return Copied(ref=done.ref, scope=data.to)
    return Copied(ref=str(Ref("fact", done.scope, done.key)), scope=done.scope.path)


@post("/memory/validate", **in_thread("Validate an entry or a fact", 404, 409, 507, status=200))
def validate_memory(request: StrictRequest, data: JSONBody[Validate], named: ScopeName = None) -> Validated:
    """Trust an entry or a fact as far as the caller is trusted, who has to be a user and not its writer."""
    return caller_memory(request.auth, named).validate(data.ref, expect=data.expect, reason=data.reason)


@get("/namespaces", **in_thread("List namespaces"))
def list_namespaces(
    request: StrictRequest,
    collection: FromQuery[str | None] = None,
    prefix: Prefix = "",
    named: ScopeName = None,
) -> Namespaces:
    """Return the namespaces in which the caller has entries."""
    return Namespaces(namespaces=caller_memory(request.auth, named).namespaces(collection=collection, prefix=prefix))


@get("/scopes", **in_thread("List scopes"))
def list_scopes(
    request: StrictRequest, prefix: Prefix = "", after: After = None, limit: PageLimit = PAGE
) -> Response[Scopes]:
    """Return the scopes of the tenant that have facts or entries; for administrators."""
    found = request.auth.memory.scopes(prefix=prefix, after=decode_cursor(after), limit=limit + 1)
    paths = [scope.path for scope in found]
    kept, go_on = page(paths, limit, lambda path: path, max_bytes=request.page_bytes)
    return JsonResponse(Scopes(scopes=kept, next=go_on))


@delete("/collections/{collection:str}/entries/{entry:str}", **in_thread("Forget an entry", 404, 507))
def forget(
    request: StrictRequest, collection: Name, entry: Name, namespace: FromQuery[str] = "", named: ScopeName = None
) -> None:
    """Forget an entry: recalls no longer find it, except with an earlier `as_of`."""
    place = caller_memory(request.auth, named)
    if not place.forget(str(as_ref(entry)), collection=collection, namespace=namespace):
        raise _missing(entry)


@delete("/collections/{collection:str}/entries", **in_thread("Forget an entry by its key", 404, 507))
def forget_key(
    request: StrictRequest,
    collection: Name,
    key: FromQuery[str],
    namespace: FromQuery[str] = "",
    named: ScopeName = None,
) -> None:
    """Forget the entry with a key."""
    if not caller_memory(request.auth, named).forget(key=key, collection=collection, namespace=namespace):
        raise _missing(key)


@delete("/collections/{collection:str}", **in_thread("Delete a collection", 404, 507, status=200))
def delete_collection(request: StrictRequest, collection: Name) -> Removed:
    """Delete a collection with the entries of all users of the tenant; for administrators."""
    return Removed(entries=request.auth.memory.collections.delete(collection))


def _missing(entry: str) -> NotFound:
    return NotFound(f"unknown entry {quote(entry)}", hint="GET …/entries lists them")
