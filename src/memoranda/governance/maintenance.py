"""Maintenance: checking a database for damage, rewriting its storage, and listing its tenants.

Facts, history, entries and runs are compared with the ledger, vectors and words with their entries.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

import msgspec

from memoranda.engine.collections import entries_without_vector
from memoranda.engine.embedding import EmbedderBook, text_of, word_packer
from memoranda.engine.sessions import ending_scopes
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.errors import EmbedderError
from memoranda.governance.ledger import content_hash, verify
from memoranda.governance.runs import broken_runs
from memoranda.model.clock import to_micros
from memoranda.model.effect import ReadEffect
from memoranda.model.entry import Collection, Entry, Indexed, Space
from memoranda.model.event import Event
from memoranda.model.fact import Change, Revision
from memoranda.model.names import collection_key
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import Origin
from memoranda.model.value import canonical, decode, encode
from memoranda.store.base import EntryQuery, FactQuery, Read, Reader, RevisionQuery, Store

if TYPE_CHECKING:
    from memoranda.retrieval.embed.base import CachingEmbedder

_PORTION = 256
"""Entries that are derived again at once, each of 80 kilobytes at most."""


class Scrub(ReadEffect, frozen=True, kw_only=True, tag="scrub"):
    """Rewrite the storage of a tenant so that removed content is gone from its bytes."""

    capability: ClassVar[str] = "upkeep"


@verb(Scrub, reads_often=True, can_wait=False)
def scrub(store: Store, effect: Scrub, call: Call) -> Outcome[bool]:
    """Rewrite storage; return whether that could be done now."""
    return Outcome(store.scrub(effect.scope.tenant))


class FinishMigration(ReadEffect, frozen=True, kw_only=True, tag="finish_migration"):
    """Finish a migration of the database, for all tenants."""

    capability: ClassVar[str] = "upkeep"


@verb(FinishMigration, reads_often=True, can_wait=False)
def finish_migration(store: Store, effect: FinishMigration, call: Call) -> Outcome[bool]:
    """Refuse older programs from now on; return whether any migration was unfinished."""
    return Outcome(store.finish_migration())


class ListTenants(ReadEffect, frozen=True, kw_only=True, tag="list_tenants"):
    """List the tenants that have any data; a caller who is confined to one sees only that one."""

    capability: ClassVar[str] = "upkeep"


@verb(ListTenants, can_wait=False)
def list_tenants(rows: Reader, effect: ListTenants, call: Call) -> Outcome[list[str]]:
    """Return the tenants by name."""
    return Outcome(rows.tenants() if call.tenant is None else [call.tenant])


class Inspect(ReadEffect, frozen=True, kw_only=True, tag="inspect"):
    """Check the storage, the chains and the facts of every tenant for damage."""

    capability: ClassVar[str] = "upkeep"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was checked, and whether it is sound."""

    what: str
    ok: bool
    detail: str = ""


@verb(Inspect, reads_often=True, can_wait=False)
def inspect(store: Store, effect: Inspect, call: Call) -> Outcome[list[Finding]]:
    """Return what was checked, and whether it is sound."""
    damage = store.check()
    findings = [Finding(what=f"storage {store.url}", ok=not damage, detail="; ".join(damage[:3]))]
    if damage:
        return Outcome(findings)  # rows of a damaged file may be anything, and prove nothing
    findings += [Finding(what="rights in the database", ok=False, detail=line) for line in store.warnings()]
    findings += [Finding(what="schema of the database", ok=True, detail=line) for line in store.notices()]
    for tenant in store.read(lambda rows: rows.tenants()) if call.tenant is None else [call.tenant]:
        findings += store.read(lambda rows, tenant=tenant: inspect_tenant(rows, tenant, call.now))
        findings += inspect_index(store.read, tenant, call.embedders)
    return Outcome(findings)


def inspect_tenant(rows: Reader, tenant: str, now: datetime) -> list[Finding]:
    """Return whether a tenant's chain is whole and agrees with its facts, history, entries and runs."""
    chain = verify(rows, tenant)
    events = "1 event" if chain.length == 1 else f"{chain.length} events"
    detail = events if chain.ok else f"position {chain.position}: {chain.reason}"
    findings = [Finding(what=f"ledger of {tenant}", ok=chain.ok, detail=detail)]
    if chain.ok:
        rebuilt = _rebuild(rows, tenant)
        for what, differences in (
            ("facts", _fact_differences(rows, tenant, rebuilt)),
            ("revisions", _revision_differences(rows, tenant, rebuilt)),
            ("entries", _entry_differences(rows, tenant, rebuilt)),
            ("runs", list(broken_runs(rows, tenant, now))),
        ):
            findings.append(
                Finding(
                    what=f"{what} of {tenant} agree with the ledger",
                    ok=not differences,
                    detail=differences[0] if differences else "",
                )
            )
    return findings


def inspect_index(read: Read, tenant: str, embedders: EmbedderBook) -> list[Finding]:
    """Return whether the vectors and words of a tenant's entries follow from their texts; nothing without entries.

    Vectors are made again if that needs no network. Of the others only length and numbers are checked.
    """
    unchecked: list[str] = []
    checked = 0
    for collection in read(lambda rows: rows.scan(Collection, tenant)):
        for space in (collection.space, collection.successor):
            if space is None or not _has_indexed(read, collection, space):
                continue
            checked += 1
            embedder = embedders.reproducing(space)
            if embedder is None:
                unchecked.append(f"`{collection.name}` (`{space.embedder}` does not repeat them offline)")
            try:
                difference = next(_index_differences(read, collection, space, embedder), None)
            except EmbedderError as error:
                difference = error.message
            if difference is not None:
                return [_index_finding(tenant, f"collection `{collection.name}`: {difference}", ok=False)]
    detail = f"vectors not checked of {', '.join(unchecked)}" if unchecked else ""
    return [_index_finding(tenant, detail, ok=True)] if checked else []


def _index_finding(tenant: str, detail: str, *, ok: bool) -> Finding:
    return Finding(what=f"vectors and words of {tenant} agree with its entries", ok=ok, detail=detail)


def _has_indexed(read: Read, collection: Collection, space: Space) -> bool:
    query = EntryQuery(tenant=collection.tenant, collection=collection.name, limit=1)
    return any(read(lambda rows: list(rows.index_rows(query, space.embedder))))


def _index_differences(
    read: Read, collection: Collection, space: Space, embedder: CachingEmbedder | None
) -> Iterator[str]:
    """Yield what is stored for the index but does not follow from its entry, deriving it again in portions.

    Without an embedder, directions of vectors are not compared; all the rest is. An entry never changes and each
    portion is read at a moment of its own, so nothing is locked meanwhile.
    """
    if embedder is not None and embedder.dimension != space.dimension:
        yield f"it has vectors of {space.dimension} numbers, and `{embedder.id}` makes {embedder.dimension}"
        return
    pack_words = word_packer()
    after = 0
    while portion := _next_portion(read, collection, space, after):
        after = portion[-1][0].sequence
        texts = [text_of(entry.content) for entry, _ in portion]
        for (entry, indexed), text, fault in zip(
            portion, texts, _vector_faults(portion, texts, space, embedder), strict=True
        ):
            where = f"entry `{entry.id}` in `{entry.scope}`"
            if fault is not None:
                yield f"the vector of {where} {fault}"
            if indexed.analysis != pack_words(text):
                yield f"the stored words of {where} are not those of its text"
            if not _is_metadata_of(entry, indexed.metadata):
                yield f"the stored recall metadata of {where} are not those of the entry"
            if indexed.expires_at != (None if entry.expires_at is None else to_micros(entry.expires_at)):
                yield f"the stored recall expiry of {where} is not that of the entry"


def _is_metadata_of(entry: Entry, metadata: bytes) -> bool:
    if metadata == encode(entry.metadata):
        return True
    try:
        return canonical(decode(metadata)) == canonical(entry.metadata)  # an import may have written them differently
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _next_portion(read: Read, collection: Collection, space: Space, after: int) -> list[tuple[Entry, Indexed]]:
    query = EntryQuery(tenant=collection.tenant, collection=collection.name, after=after, limit=_PORTION)

    def look(rows: Reader) -> list[tuple[Entry, Indexed]]:
        indexed = list(rows.index_rows(query, space.embedder))
        found = rows.entries(EntryQuery(tenant=collection.tenant, sequences=[one.sequence for one in indexed]))
        entries = {entry.sequence: entry for entry in found}
        return [(entries[one.sequence], one) for one in indexed]

    return read(look)


def _vector_faults(
    portion: Sequence[tuple[Entry, Indexed]], texts: Sequence[str], space: Space, embedder: CachingEmbedder | None
) -> list[str | None]:
    from memoranda.retrieval.embed.base import vector_faults

    expected = None if embedder is None else embedder.embed(texts)
    return vector_faults([indexed.vector for _, indexed in portion], space.dimension, expected)


class _Known(msgspec.Struct, frozen=True, gc=False):
    change: Change
    version: int | None
    content: str | None
    actor: str
    door: str


class _Standing(msgspec.Struct, frozen=True):
    scope: str
    collection: str
    actor: str
    door: str
    content: str | None
    """None for one of several entries that one event speaks of: its hash is over all of them."""


class _Rebuilt(msgspec.Struct):
    """What the ledger says there should be."""

    facts: dict[tuple[str, str], _Known] = {}
    revisions: dict[tuple[str, str], dict[int, _Known]] = {}
    entries: dict[int, _Standing] = {}
    owners: dict[str, str] = {}


def _rebuild(rows: Reader, tenant: str) -> _Rebuilt:
    rebuilt = _Rebuilt()
    for event in rows.events(tenant):
        if event.decision in ("allow", "approved"):
            _replay(event, rebuilt)
    return rebuilt


_CHANGES: dict[str, Change] = {"set_fact": "set", "delete_fact": "deleted", "expire_fact": "expired"}


def _fact_differences(rows: Reader, tenant: str, rebuilt: _Rebuilt) -> list[str]:
    expected = dict(rebuilt.facts)
    found: list[str] = []
    for fact in rows.facts(FactQuery(Scope(tenant), below=True)):
        known = expected.pop((fact.scope.path, fact.key), None)
        if known is None:
            found.append(f"`{fact.key}` in `{fact.scope}` is not in the ledger")
        elif known.version != fact.version:
            found.append(f"`{fact.key}` in `{fact.scope}` is at {fact.version}, the ledger says {known.version}")
        elif known.content != content_hash(rows, tenant, fact.scope.path, encode(fact.value)):
            found.append(f"`{fact.key}` in `{fact.scope}` does not have the value that the ledger says was written")
        elif (known.actor, known.door) != (fact.origin.actor, fact.origin.door):
            found.append(f"`{fact.key}` in `{fact.scope}` {_attribution_difference(fact.origin, known)}")
    found.extend(f"`{key}` in `{scope}` is in the ledger but not in the store" for scope, key in expected)
    return found


def _revision_differences(rows: Reader, tenant: str, rebuilt: _Rebuilt) -> list[str]:
    """Compare the history of facts; what an erasure or the end of a session took is not expected any more."""
    expected = {place: dict(versions) for place, versions in rebuilt.revisions.items()}
    found: list[str] = []
    for revision in rows.revisions(RevisionQuery(Scope(tenant))):
        versions = expected.get((revision.scope.path, revision.key), {})
        known = versions.pop(revision.version, None)
        fault = _revision_fault(rows, tenant, revision, known)
        if fault:
            found.append(f"version {revision.version} of `{revision.key}` in `{revision.scope}` {fault}")
    found.extend(
        f"version {version} of `{key}` in `{scope}` is in the ledger but not in the history"
        for (scope, key), versions in expected.items()
        for version in versions
    )
    return found


def _revision_fault(rows: Reader, tenant: str, revision: Revision, known: _Known | None) -> str:
    if known is None:
        return "is not in the ledger"
    if known.change != revision.change:
        return f"is `{revision.change}`, the ledger says `{known.change}`"
    if (known.actor, known.door) != (revision.origin.actor, revision.origin.door):
        return _attribution_difference(revision.origin, known)
    if revision.change != "set":
        return ""
    if revision.forgotten:  # a sweep blanks values whose time is over, and only those
        return "" if revision.expires_at is not None else "has lost its value, though it does not expire"
    if known.content != content_hash(rows, tenant, revision.scope.path, encode(revision.value)):
        return "does not have the value that the ledger says was written"
    return ""


def _entry_differences(rows: Reader, tenant: str, rebuilt: _Rebuilt) -> list[str]:
    expected = dict(rebuilt.entries)
    found: list[str] = []
    for entry in rows.entries(EntryQuery(below=Scope(tenant))):
        known = expected.pop(entry.sequence, None)
        if known is None or (known.scope, known.collection) != (entry.scope.path, collection_key(entry.collection)):
            found.append(f"entry `{entry.id}` in `{entry.scope}` is not in the ledger")
        elif known.content not in (None, content_hash(rows, tenant, entry.scope.path, encode(entry.content))):
            found.append(f"entry `{entry.id}` in `{entry.scope}` does not have the content that was remembered")
        elif (known.actor, known.door) != (entry.origin.actor, entry.origin.door):
            found.append(f"entry `{entry.id}` in `{entry.scope}` {_attribution_difference(entry.origin, known)}")
    found.extend(
        f"entry {number} in `{known.scope}` is in the ledger but not in the store" for number, known in expected.items()
    )
    for collection in rows.scan(Collection, tenant):
        lacking = entries_without_vector(rows, collection, collection.space)
        found.extend(f"entry `{entry.id}` in `{entry.scope}` has no vector, so no recall finds it" for entry in lacking)
    return found


def _attribution_difference(origin: Origin, known: _Known | _Standing) -> str:
    return (
        f"is said to be by {quote(origin.actor)} through {quote(origin.door)}, "
        f"the ledger says by {quote(known.actor)} through {quote(known.door)}"
    )


def _replay(event: Event, rebuilt: _Rebuilt) -> None:
    place = (event.scope, event.key or "")
    change = _CHANGES.get(event.effect)
    # What was brought back keeps its author.
    actor, door = event.detail.get("by", (event.actor, event.door))
    if change is not None:
        # There may be millions of them, by few authors.
        known = _Known(change, event.version, event.content, sys.intern(actor), sys.intern(door))
        rebuilt.revisions.setdefault(place, {})[event.version or 0] = known
        if change == "set":
            rebuilt.facts[place] = known
        else:
            rebuilt.facts.pop(place, None)
    elif event.effect == "remember":
        first = event.version or 0
        last = event.detail.get("last", first)
        for sequence in range(first, last + 1):
            content = event.content if first == last else None
            rebuilt.entries[sequence] = _Standing(event.scope, event.key or "", actor, door, content)
    elif event.effect in ("forget", "expire_entry"):
        rebuilt.entries.pop(event.version or 0, None)
    elif event.effect == "delete_collection":
        for sequence in [number for number, one in rebuilt.entries.items() if one.collection == event.key]:
            del rebuilt.entries[sequence]
    elif event.effect == "start_session" and event.detail.get("owner"):
        rebuilt.owners[event.scope] = event.detail["owner"]
    elif event.effect in ("end_scope", "erase"):
        _replay_end(event, rebuilt)


def _replay_end(event: Event, rebuilt: _Rebuilt) -> None:
    """Take away what went with a scope, and with the sessions that belonged to it where it was erased."""
    gone = Scope(event.tenant, event.scope)
    owners = rebuilt.owners if event.effect == "erase" else {}

    @functools.cache
    def went(scope: str) -> bool:
        return any(map(gone.covers, _ownership(Scope(event.tenant, scope), owners)))

    for place in [place for place in rebuilt.revisions if went(place[0])]:
        del rebuilt.revisions[place]
        rebuilt.facts.pop(place, None)
    for sequence in [number for number, one in rebuilt.entries.items() if went(one.scope)]:
        del rebuilt.entries[sequence]
    # Who is erased owns nothing any more; a session of that name that begins later is another one.
    for session in [session for session in owners if went(session)]:
        del rebuilt.owners[session]


def _ownership(scope: Scope, owners: dict[str, str]) -> list[Scope]:
    """Return a scope, those that it and the sessions above it belong to, those that these belong to, and so on."""
    chain = [scope]
    for one in chain if owners else ():  # which grows meanwhile
        named = (owners.get(ending.path) for ending in ending_scopes(one))
        belongs_to = [Scope(scope.tenant, owner) for owner in named if owner is not None]
        chain += [owner for owner in belongs_to if owner not in chain]
    return chain
