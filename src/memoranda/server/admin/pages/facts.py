"""Facts of a scope: what is known, since when, by whom and through which door; and what was known before."""

from __future__ import annotations

from datetime import datetime
from itertools import takewhile
from typing import Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Conflict, MemorandaError, NotFound, UsageError
from memoranda.model.effect import ReadLedger
from memoranda.model.fact import Fact, Revision
from memoranda.model.text import quote
from memoranda.server.admin.desk import PAGE_BYTES, Desk, writing
from memoranda.server.admin.forms import fault_of, read_json, status_of
from memoranda.server.admin.pages.definitions import definition_of
from memoranda.server.admin.parameters import Place
from memoranda.server.admin.rendering import address, as_json, redirect
from memoranda.server.paging import decode_cursor, page
from memoranda.wire.bounds import fitting

PAGE = 100
_RECENT = 500
"""Events at the end of the ledger that are looked through for scopes to suggest."""
_SUGGESTED = 12


@get("/facts", sync_to_thread=True)
def list_facts(
    desk: NamedDependency[Desk],
    place: Place = "",
    prefix: FromQuery[str] = "",
    as_of: FromQuery[str] = "",
    after: FromQuery[str | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Return a page of the facts of a scope, now or as they stood at a moment."""
    asked = {"scope": place.strip() or str(desk.caller.scope), "prefix": prefix.strip(), "as_of": as_of}
    found: list[Fact] = []
    fault, status, onwards = None, 200, None
    try:
        listed = _beginning_with(desk.at(asked["scope"]), asked["prefix"], decode_cursor(after), as_of.strip() or None)
        found, onwards = page(listed, PAGE, lambda fact: fact.key, max_bytes=PAGE_BYTES)
    except UsageError as error:
        fault, status = fault_of(error, field="scope"), status_of(error)
    return desk.show(
        "facts.html",
        section="facts",
        status=status,
        done=done,
        facts=found,
        asked=asked,
        fault=fault,
        onwards=onwards,
        suggested=recent_scopes(desk),
        writable=fault is None and not as_of and desk.may_write(desk.scope(asked["scope"]), asked["prefix"] or "any"),
    )


@get("/facts/one", sync_to_thread=True)
def see_fact(
    desk: NamedDependency[Desk],
    place: Place,
    key: FromQuery[str],
    before: FromQuery[int | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Return a fact with a page of what happened to it, newest first."""
    fact, history = _read(desk, place, key, before=before)
    if fact is None and not history:
        raise NotFound(
            f"there is no fact {quote(key)} in `{desk.scope(place)}`", hint="It was never written, or erased"
        )
    return _page(desk, place, key, fact, history, done=done)


@get("/facts/new", sync_to_thread=True)
def begin_fact(desk: NamedDependency[Desk], place: Place = "", key: FromQuery[str] = "") -> Response[bytes]:
    """Return an empty form."""
    desk.ensure(writing(desk.scope(place), key or "any"))
    return _new(desk, scope=place or str(desk.caller.scope), key=key)


@post("/facts/new", sync_to_thread=True, status_code=200)
def create_fact(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Write a fact that must not exist yet."""
    scope, key, text, ttl = (desk.field(name) for name in ("scope", "key", "value", "ttl"))
    try:
        desk.at(scope).set(key.strip(), read_json(text, "value"), expect=0, ttl=ttl.strip() or None)
    except (UsageError, Conflict) as error:
        return _new(desk, scope=scope, key=key, text=text, ttl=ttl, error=error)
    return redirect(address("/facts/one", scope=scope, key=key.strip(), done="saved"))


@post("/facts/one", sync_to_thread=True, status_code=200)
def save_fact(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Write another value, if the fact is still the one that was shown."""
    scope, key, text, ttl = (desk.field(name) for name in ("scope", "key", "value", "ttl"))
    try:
        kept = desk.at(scope).get(key)
        desk.at(scope).set(
            key,
            read_json(text, "value"),
            expect=_version(desk.field("version")),
            ttl=ttl.strip() or None,
            domain=kept.domain if kept else None,
        )
    except (UsageError, Conflict) as error:
        fact, history = _read(desk, scope, key)
        return _page(desk, scope, key, fact, history, text=text, ttl=ttl, error=error)
    return redirect(address("/facts/one", scope=scope, key=key, done="saved"))


@post("/facts/delete", sync_to_thread=True, status_code=200)
def delete_fact(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Delete a fact, if it is still the one that was shown. Its history stays, and can be brought back."""
    scope, key = desk.field("scope"), desk.field("key")
    try:
        desk.at(scope).delete(key, expect=_version(desk.field("version")))
    except Conflict as error:
        fact, history = _read(desk, scope, key)
        return _page(desk, scope, key, fact, history, error=error)
    return redirect(address("/facts/one", scope=scope, key=key, done="deleted"))


@post("/facts/restore", sync_to_thread=True, status_code=200)
def restore_fact(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Write a value again that the fact had before, with the time to live that it had."""
    scope, key = desk.field("scope"), desk.field("key")
    wanted = _version(desk.field("restored"))
    earlier = next(iter(desk.at(scope).history(key, after=wanted - 1, limit=1)), None)
    if earlier is None or earlier.version != wanted or earlier.change != "set" or earlier.forgotten:
        raise NotFound(f"version {wanted} of {quote(key)} holds no value any more", hint="Choose another one")
    lived = None if earlier.expires_at is None else max(1, int((earlier.expires_at - earlier.at).total_seconds()))
    try:
        desk.at(scope).set(key, earlier.value, expect=_version(desk.field("version")), ttl=lived, domain=earlier.domain)
    except (UsageError, Conflict) as error:
        fact, history = _read(desk, scope, key)
        return _page(desk, scope, key, fact, history, error=error)
    return redirect(address("/facts/one", scope=scope, key=key, done="restored"))


def _beginning_with(place: ScopedMemory, beginning: str, after: str, as_of: str | None) -> list[Fact]:
    """Return more than a page of facts whose keys begin with a text, if there are so many; also with half a name."""
    above, _, half = beginning.rpartition(".")
    if not half:
        return place.list(above, after=after, limit=PAGE + 1, max_bytes=PAGE_BYTES, as_of=as_of)
    itself = None if after else place.get(beginning, as_of=as_of)
    others = place.list(above, after=after or beginning, limit=PAGE + 1, max_bytes=PAGE_BYTES, as_of=as_of)
    return [*([itself] if itself else []), *takewhile(lambda fact: fact.key.startswith(beginning), others)]


def _read(desk: Desk, scope: str, key: str, *, before: int | None = None) -> tuple[Fact | None, list[Revision]]:
    """Return a fact, and more than a page of its revisions, newest first, if there are that many."""
    place = desk.at(scope)
    history = place.history(key, newest=True, before=before, limit=PAGE + 1, max_bytes=PAGE_BYTES)
    return place.get(key), history


def _page(
    desk: Desk,
    scope: str,
    key: str,
    fact: Fact | None,
    history: list[Revision],
    *,
    done: str = "",
    text: str | None = None,
    ttl: str | None = None,
    error: MemorandaError | None = None,
) -> Response[bytes]:
    definition = None if fact is None else definition_of(desk, fact)
    now = desk.memory.clock.now()
    shown = fitting(history[:PAGE], PAGE_BYTES)
    return desk.show(
        "fact.html",
        section="facts",
        status=200 if error is None else status_of(error),
        done=done,
        scope_path=str(desk.scope(scope)),
        key=key,
        fact=fact,
        history=_with_old_values(history)[: len(shown)],
        onwards=shown[-1].version if len(shown) < len(history) else None,
        definition=definition,
        text=text if text is not None else "" if fact is None else as_json(fact.value),
        ttl=ttl if ttl is not None else "" if fact is None or definition else _left(fact.expires_at, now),
        fault=None if error is None else fault_of(error, field=_field_of(error)),
        editable=desk.may_edit(desk.scope(scope), key),
    )


def _new(
    desk: Desk, *, scope: str, key: str = "", text: str = '""', ttl: str = "", error: MemorandaError | None = None
) -> Response[bytes]:
    return desk.show(
        "fact_new.html",
        section="facts",
        status=200 if error is None else status_of(error),
        values={"scope": scope, "key": key, "value": text, "ttl": ttl},
        fault=None if error is None else fault_of(error, field=_field_of(error)),
    )


def _field_of(error: MemorandaError) -> str:
    fields = {"invalid_duration": "ttl", "invalid_key": "key", "invalid_scope": "scope"}
    return fields.get(error.code, "value")


def _with_old_values(history: list[Revision]) -> list[tuple[Revision, Any]]:
    """Return each revision, newest first, with the value that it took the place of."""
    before: list[Any] = [*(one.value if one.change == "set" else None for one in history[1:]), None]
    return list(zip(history, before, strict=False))


def _left(end: datetime | None, now: datetime) -> str:
    return "" if end is None else f"{max(1, int((end - now).total_seconds()))}s"


def _version(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise UsageError(f"{quote(text)} is no version", hint="Open the page again", path="version")
    return int(text)


def _is_browsed(scope: str) -> bool:
    """Say whether a scope is one that people look into; runs have pages of their own."""
    return bool(scope) and not scope.startswith("run:")


def recent_scopes(desk: Desk) -> list[str]:
    """Return scopes that were written to lately; for who may not see the ledger, their own."""
    if not desk.may(ReadLedger(scope=desk.shared)):
        return [str(desk.caller.scope)]
    recent = reversed(desk.memory.ledger.tail(_RECENT, max_bytes=PAGE_BYTES))
    return list(dict.fromkeys(event.scope for event in recent if _is_browsed(event.scope)))[:_SUGGESTED]


handlers = [list_facts, see_fact, begin_fact, create_fact, save_fact, delete_fact, restore_fact]
