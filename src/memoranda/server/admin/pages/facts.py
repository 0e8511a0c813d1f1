"""Facts of a scope: browse, edit, delete, and restore earlier versions."""

from __future__ import annotations

from datetime import datetime
from itertools import takewhile
from typing import Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Conflict, MemorandaError, NotFound, UsageError
from memoranda.governance.ledger import ReadLedger
from memoranda.model.fact import Fact, Revision
from memoranda.model.names import is_internal
from memoranda.model.text import quote
from memoranda.server.admin.context import (
    PAGE_BYTES,
    PageContext,
    Place,
    field_error,
    read_json,
    write_effect,
)
from memoranda.server.admin.html import address, as_json, redirect
from memoranda.server.admin.pages.definitions import definition_of
from memoranda.server.pagination import decode_cursor, page
from memoranda.wire.codec import fit_bytes

PAGE = 100
_RECENT = 500
"""Number of recent ledger events from which scopes are suggested."""
_SUGGESTED = 12


@get("/facts", sync_to_thread=True)
def list_facts(
    context: NamedDependency[PageContext],
    place: Place = "",
    prefix: FromQuery[str] = "",
    as_of: FromQuery[str] = "",
    internal: FromQuery[str] = "",
    after: FromQuery[str | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Show a page of the facts of a scope, now or at `as_of`."""
    asked = {"scope": place.strip() or str(context.principal.scope), "prefix": prefix.strip(), "as_of": as_of}
    asked["internal"] = internal and "true"
    found: list[Fact] = []
    problem = onwards = None
    try:
        listed = _facts_with_prefix(
            context.at(asked["scope"]),
            asked["prefix"],
            decode_cursor(after),
            as_of=as_of.strip() or None,
            internal=bool(internal),
        )
        found, onwards = page(listed, PAGE, lambda fact: fact.key, max_bytes=PAGE_BYTES)
    except UsageError as error:
        problem = field_error(error, field="scope")
    return context.show(
        "facts.html",
        section="facts",
        done=done,
        facts=found,
        asked=asked,
        field_error=problem,
        onwards=onwards,
        suggested=recent_scopes(context),
        writable=problem is None
        and not as_of
        and context.may_write(context.scope(asked["scope"]), asked["prefix"] or "any"),
    )


@get("/facts/one", sync_to_thread=True)
def see_fact(
    context: NamedDependency[PageContext],
    place: Place,
    key: FromQuery[str],
    before: FromQuery[int | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Show a fact with a page of its history, newest first."""
    return _page(context, place, key, before=before, done=done)


@get("/facts/new", sync_to_thread=True)
def begin_fact(context: NamedDependency[PageContext], place: Place = "", key: FromQuery[str] = "") -> Response[bytes]:
    """Show an empty form."""
    context.ensure(write_effect(context.scope(place), key or "any"))
    return _new(context, scope=place or str(context.principal.scope), key=key)


@post("/facts/new", sync_to_thread=True, status_code=200)
def create_fact(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Write a fact that must not exist yet."""
    scope, key, text, ttl = (context.field(name) for name in ("scope", "key", "value", "ttl"))
    try:
        context.at(scope).set(key.strip(), read_json(text, "value"), expect=0, ttl=ttl.strip() or None)
    except (UsageError, Conflict) as error:
        return _new(context, scope=scope, key=key, text=text, ttl=ttl, error=error)
    return redirect(address("/facts/one", scope=scope, key=key.strip(), done="saved"))


@post("/facts/one", sync_to_thread=True, status_code=200)
def save_fact(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Write a new value if the fact has not changed since the page was loaded."""
    scope, key, text, ttl = (context.field(name) for name in ("scope", "key", "value", "ttl"))
    try:
        kept = context.at(scope).get(key)
        context.at(scope).set(
            key,
            read_json(text, "value"),
            expect=_version(context.field("version")),
            ttl=ttl.strip() or None,
            domain=kept.domain if kept else None,
        )
    except (UsageError, Conflict) as error:
        return _page(context, scope, key, text=text, ttl=ttl, error=error)
    return redirect(address("/facts/one", scope=scope, key=key, done="saved"))


@post("/facts/delete", sync_to_thread=True, status_code=200)
def delete_fact(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Delete a fact if it has not changed since the page was loaded. Its history is kept."""
    scope, key = context.field("scope"), context.field("key")
    try:
        context.at(scope).delete(key, expect=_version(context.field("version")))
    except Conflict as error:
        return _page(context, scope, key, error=error)
    return redirect(address("/facts/one", scope=scope, key=key, done="deleted"))


@post("/facts/restore", sync_to_thread=True, status_code=200)
def restore_fact(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Restore an earlier value with the time to live that it had."""
    scope, key = context.field("scope"), context.field("key")
    wanted = _version(context.field("restored"))
    earlier = next(iter(context.at(scope).history(key, after=wanted - 1, limit=1)), None)
    if earlier is None or earlier.version != wanted or earlier.change != "set" or earlier.forgotten:
        raise NotFound(f"version {wanted} of {quote(key)} no longer has a value", hint="Choose another version")
    lived = None if earlier.expires_at is None else max(1, int((earlier.expires_at - earlier.at).total_seconds()))
    try:
        context.at(scope).set(
            key, earlier.value, expect=_version(context.field("version")), ttl=lived, domain=earlier.domain
        )
    except (UsageError, Conflict) as error:
        return _page(context, scope, key, error=error)
    return redirect(address("/facts/one", scope=scope, key=key, done="restored"))


def _facts_with_prefix(
    place: ScopedMemory, beginning: str, after: str, *, as_of: str | None, internal: bool
) -> list[Fact]:
    """Return up to one more than a page of facts whose keys begin with a text, which may end inside a name."""
    above, _, half = beginning.rpartition(".")
    options: dict[str, Any] = {"limit": PAGE + 1, "max_bytes": PAGE_BYTES, "as_of": as_of, "internal": internal}
    if not half:
        return place.list(above, after=after, **options)
    is_hidden = after or (not internal and is_internal(place.scope, beginning))
    itself = None if is_hidden else place.get(beginning, as_of=as_of)
    others = place.list(above, after=after or beginning, **options)
    return [*([itself] if itself else []), *takewhile(lambda fact: fact.key.startswith(beginning), others)]


def _page(
    context: PageContext,
    scope: str,
    key: str,
    *,
    before: int | None = None,
    done: str = "",
    text: str | None = None,
    ttl: str | None = None,
    error: MemorandaError | None = None,
) -> Response[bytes]:
    place = context.at(scope)
    history = place.history(key, newest=True, before=before, limit=PAGE + 1, max_bytes=PAGE_BYTES)
    fact = place.get(key)
    if fact is None and not history and error is None:
        raise NotFound(f"unknown fact {quote(key)} in `{place.scope}`", hint="It was never written, or was erased")
    definition = None if fact is None else definition_of(context, fact)
    now = context.memory.clock.now()
    shown = fit_bytes(history[:PAGE], PAGE_BYTES)
    return context.show(
        "fact.html",
        section="facts",
        done=done,
        scope_path=str(context.scope(scope)),
        key=key,
        fact=fact,
        history=_with_old_values(history)[: len(shown)],
        onwards=shown[-1].version if len(shown) < len(history) else None,
        definition=definition,
        text=text if text is not None else "" if fact is None else as_json(fact.value),
        ttl=ttl if ttl is not None else "" if fact is None or definition else _remaining_ttl(fact.expires_at, now),
        field_error=None if error is None else field_error(error, field=_field_of(error)),
        editable=context.may_edit(context.scope(scope), key),
    )


def _new(
    context: PageContext,
    *,
    scope: str,
    key: str = "",
    text: str = '""',
    ttl: str = "",
    error: MemorandaError | None = None,
) -> Response[bytes]:
    return context.show(
        "fact_new.html",
        section="facts",
        values={"scope": scope, "key": key, "value": text, "ttl": ttl},
        field_error=None if error is None else field_error(error, field=_field_of(error)),
    )


def _field_of(error: MemorandaError) -> str:
    fields = {"invalid_duration": "ttl", "invalid_key": "key", "invalid_scope": "scope"}
    return fields.get(error.code, "value")


def _with_old_values(history: list[Revision]) -> list[tuple[Revision, Any]]:
    """Return each revision, newest first, with the value that it replaced."""
    before: list[Any] = [*(one.value if one.change == "set" else None for one in history[1:]), None]
    return list(zip(history, before, strict=False))


def _remaining_ttl(end: datetime | None, now: datetime) -> str:
    return "" if end is None else f"{max(1, int((end - now).total_seconds()))}s"


def _version(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise UsageError(f"{quote(text)} is not a version", hint="Reload the page", path="version")
    return int(text)


def _is_browsable(scope: str) -> bool:
    """Return whether a scope is worth suggesting; runs have their own pages."""
    return bool(scope) and not scope.startswith("run:")


def recent_scopes(context: PageContext) -> list[str]:
    """Return recently written scopes, or the caller's own if they may not read the ledger."""
    if not context.may(ReadLedger(scope=context.shared)):
        return [str(context.principal.scope)]
    recent = reversed(context.memory.ledger.tail(_RECENT, max_bytes=PAGE_BYTES))
    return list(dict.fromkeys(event.scope for event in recent if _is_browsable(event.scope)))[:_SUGGESTED]
