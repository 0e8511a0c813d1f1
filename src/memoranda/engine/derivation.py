"""Derivation: what a memory was made of, and how far it can be trusted for that.

A copy, a summary or an answer is trusted no more than the least trusted of its sources. This is decided once, when it
is written, so that it stays so when a source is no longer readable, or is trusted more later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from memoranda.engine.refs import Target, demand_of, find_target
from memoranda.engine.verbs import Call
from memoranda.errors import NotFound, UsageError
from memoranda.model.entry import CONVERSATIONS, STATEMENTS, Entry
from memoranda.model.fact import Fact
from memoranda.model.ref import Ref, as_ref
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import Origin, Trust, independent_origin, is_at_least, lowest
from memoranda.store.base import EntryQuery, Link, Reader, Transaction

MESSAGES = ("chat.parts", "threads.messages")
"""The prefixes of the keys of messages, which end with their numbers."""


class Source(NamedTuple):
    """What something is derived from; the version is that of a fact."""

    ref: str
    version: int
    trust: Trust


def find_sources(rows: Reader, tenant: str, named: Iterable[str], call: Call) -> list[Source]:
    """Return what refs name, or raise NotFound for one that is not there, or that the caller may not read."""
    return [_readable_source(rows, tenant, one, call) for one in named]


def _readable_source(rows: Reader, tenant: str, named: str, call: Call) -> Source:
    target = find_source(rows, tenant, named, call)
    if target is None or not call.may(rows, demand_of(target, "memory.read")):
        raise NotFound(
            f"{quote(named)} is not something to derive from: it is not there, or you may not read it",
            hint="Pass the `ref` of something that a recall finds now",
            value=named,
            path="derived_from",
        )
    return source_of(str(as_ref(named, tenant=tenant)), target)


def find_source(rows: Reader, tenant: str, named: str, call: Call) -> Target | None:
    """Return what a ref names now, anywhere in a tenant."""
    ref = as_ref(named, tenant=tenant)
    if ref.kind == "message":
        return None if ref.scope is None else _message(rows, ref.scope, ref.name)
    if ref.scope is not None:
        return find_target(rows, ref.scope, str(ref), call.now)
    entry = next(rows.entries(EntryQuery(tenant=tenant, id=ref.name)), None)
    return entry if entry is not None and entry.is_current_at(call.now) else None


def _message(rows: Reader, scope: Scope, number: str) -> Fact | None:
    keys = (f"{prefix}.{number:0>12}" for prefix in MESSAGES) if number.isascii() and number.isdigit() else ()
    return next((fact for key in keys if (fact := rows.fact(scope, key)) is not None), None)


def message_refs(statement: Entry) -> list[str]:
    """Return the refs of the messages that a statement was read in, as its metadata say."""
    found: Any = statement.metadata.get("said_in") if statement.collection == STATEMENTS else None
    return [ref for ref in cast("list[Any]", found) if isinstance(ref, str)] if isinstance(found, list) else []


def messages_for(rows: Reader, tenant: str, named: Iterable[str], trust: Trust) -> Iterator[tuple[str, Entry | Fact]]:
    """Yield the newest rows of those messages that something of this trust may speak about.

    Metadata are whatever their writer says: what a tool wrote must not make a user's message look untrue.
    """
    for ref in named:
        kind, _, id = ref.rpartition(":")
        if kind in ("", "entry"):
            message: Entry | Fact | None = next(rows.entries(EntryQuery(tenant=tenant, id=id)), None)
        else:
            message = _message_of(rows, tenant, ref)
        if message is not None and is_at_least(trust, message.origin.trust):
            yield ref, message


def _message_of(rows: Reader, tenant: str, named: str) -> Fact | None:
    try:
        ref = as_ref(named, tenant=tenant)
    except UsageError:
        return None
    return None if ref.kind != "message" or ref.scope is None else _message(rows, ref.scope, ref.name)


def source_of(ref: str, target: Target) -> Source:
    """Return a target as a source of something."""
    if isinstance(target, Entry):
        return Source(ref, 0, target.origin.trust)
    fact = target if isinstance(target, Fact) else target.block
    return Source(ref, fact.version, fact.origin.trust)


def limit_to(origin: Origin, sources: Iterable[Source]) -> Origin:
    """Return an origin that is trusted no more than any of these sources."""
    least: list[Trust] = [one.trust for one in sources]
    return origin.at_most(lowest("high", *least))


def call_for_sources(rows: Reader, tenant: str, named: Sequence[str], call: Call) -> tuple[Call, list[Source]]:
    """Return the call as it may write what is derived from these refs, and what they name.

    What replaces something has to be trusted as far as that: a derived write with less is held as a conflict.
    """
    if not named:
        return call, []
    sources = find_sources(rows, tenant, dict.fromkeys(named), call)
    origin = limit_to(call.origin, sources)
    if is_at_least(origin.trust, call.origin.trust):
        return call, sources
    if call.decision == "approved":  # an actor who may replace it has seen it
        return msgspec.structs.replace(call, origin=origin), sources
    return msgspec.structs.replace(call, origin=origin, authority=lowest(call.authority, origin.trust)), sources


def editing(call: Call, *texts: Fact | None) -> Call:
    """Return the call as it may change a part of some texts: what stays in them is trusted no more than before."""
    before: list[Trust] = [text.origin.trust for text in texts if text is not None]
    origin = call.origin.at_most(lowest("high", *before))
    return call if origin is call.origin else msgspec.structs.replace(call, origin=origin)


def is_original(rows: Reader, tenant: str, ref: str, origin: Origin) -> bool:
    """Return whether a memory is not made of what another origin says; messages are what its own writer was told."""
    version = 0
    if ref.startswith("fact:"):
        named = as_ref(ref, tenant=tenant)
        fact = None if named.scope is None else rows.fact(named.scope, named.name)
        version = 0 if fact is None else fact.version
    links = rows.links(tenant, child=ref)
    return all(
        _is_by(rows, tenant, one.parent, one.parent_version, origin)
        for one in links
        if one.version == version and one.parent != ref
    )


def _is_by(rows: Reader, tenant: str, ref: str, version: int, origin: Origin) -> bool:
    named = as_ref(ref, tenant=tenant)
    if named.kind == "message":
        return True
    if named.scope is None:
        entry = next(rows.entries(EntryQuery(tenant=tenant, id=named.name)), None)
        is_message = entry is not None and entry.collection == CONVERSATIONS
        return entry is not None and (is_message or independent_origin(entry.origin) == independent_origin(origin))
    revision = rows.revision(named.scope, named.name, version=version) if named.kind == "fact" else None
    return revision is not None and independent_origin(revision.origin) == independent_origin(origin)


def link(rows: Transaction, scope: Scope, child: str, version: int, sources: Iterable[Source]) -> None:
    """Record what something was derived from."""
    for one in sources:
        if (one.ref, one.version) != (child, version):
            rows.put(Link(scope=scope, child=child, version=version, parent=one.ref, parent_version=one.version))


def fact_ref(scope: Scope, key: str) -> str:
    """Return the ref of a fact."""
    return str(Ref("fact", scope, key))
