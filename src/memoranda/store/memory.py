"""The reference store: the contract of `store/base.py` on plain dictionaries.

Slow and obvious on purpose. Every table is a dictionary; a transaction copies them all and restores the copies if the
work fails. Values are kept as JSON text, so that no caller can change them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from memoranda.errors import Busy, Corrupt, Unavailable
from memoranda.model.clock import to_micros
from memoranda.model.definition import Definition
from memoranda.model.effect import Approval
from memoranda.model.entry import Collection, Entry, Indexed, NewEntry, Shelf, ShelfState
from memoranda.model.event import Event, event_body, run_of
from memoranda.model.fact import Fact, Origin, Revision
from memoranda.model.names import collection_key, lies_under
from memoranda.model.policy import Grant
from memoranda.model.scope import Scope
from memoranda.model.value import decode, encode
from memoranda.store.base import Erasure, Replay, Session, TenantState, Transaction, Window, text_place

T = TypeVar("T")


class _StoredEntry(msgspec.Struct, frozen=True):
    """An entry with what was derived from it."""

    entry: Entry
    payload: bytes
    metadata: bytes
    digest: bytes
    analysis: bytes


class _Tables(msgspec.Struct):
    """All tables."""

    facts: dict[tuple[Scope, str], tuple[Fact, bytes]] = {}
    revisions: dict[tuple[Scope, str, int], tuple[Revision, bytes | None]] = {}
    collections: dict[tuple[str, str], Collection] = {}
    entries: dict[int, _StoredEntry] = {}
    vectors: dict[tuple[int, str], bytes] = {}
    shelves: dict[Shelf, ShelfState] = {}
    last_number: int = 0
    """Entries and removals share this counter."""
    tenants: dict[str, TenantState] = {}
    definitions: dict[tuple[str, str], Definition] = {}
    grants: dict[tuple[str, str], Grant] = {}
    approvals: dict[tuple[str, str], Approval] = {}
    sessions: dict[Scope, Session] = {}
    replays: dict[tuple[Scope, str], Replay] = {}
    usage: dict[tuple[str, str, Window], tuple[int, int]] = {}
    erasures: list[Erasure] = []
    content_keys: dict[tuple[str, str], bytes] = {}
    events: dict[str, list[Event]] = {}

    def copy(self) -> _Tables:
        tables: dict[str, Any] = {name: copy(getattr(self, name)) for name in self.__struct_fields__}
        tables["events"] = {tenant: events.copy() for tenant, events in self.events.items()}
        return _Tables(**tables)


class MemoryStore:
    """A store that lasts as long as the process."""

    url = "memory"
    waits = False

    def __init__(self) -> None:
        """Start with empty tables."""
        self._tables: _Tables | None = _Tables()
        self._lock = threading.RLock()
        self._turns = 0

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run work on the tables; restore the old ones if it fails."""
        with self._lock:
            before = self._open_tables().copy()
            try:
                return work(_Rows(self._open_tables()))
            except BaseException:
                self._tables = before
                raise
            finally:
                self._turns += 1

    def attempt(self, work: Callable[[Transaction], T]) -> T:
        """Run work on the tables unless another thread uses them."""
        if not self._lock.acquire(blocking=False):
            raise Busy(
                "this memory is in use, and this write was not to wait", hint="Wait for it, in a thread", url=self.url
            )
        try:
            return self.transact(work)
        finally:
            self._lock.release()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run work while no other thread writes."""
        with self._lock:
            return work(_Rows(self._open_tables()))

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact of a key, expired or not."""
        return self.read(lambda rows: rows.fact(scope, key))

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return the state of a shelf."""
        return self.read(lambda rows: rows.shelf_state(shelf))

    def collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection."""
        return self.read(lambda rows: rows.collection(tenant, name))

    def mark(self, tenant: str | None = None) -> int:
        """Return the number of transactions so far."""
        return self._turns

    def check(self) -> Sequence[str]:
        """Return nothing: dictionaries are not damaged."""
        return []

    def warnings(self) -> Sequence[str]:
        """Return nothing: only this program uses the dictionaries."""
        return []

    def scrub(self) -> bool:
        """Return True: removed rows are gone."""
        return True

    def close(self) -> None:
        """Drop the tables."""
        self._tables = None

    def _open_tables(self) -> _Tables:
        if self._tables is None:
            raise Unavailable("this memory is closed", hint="Open it again", url=self.url)
        return self._tables


class _Rows:
    """A transaction on the tables."""

    def __init__(self, tables: _Tables) -> None:
        self._t = tables

    # facts and their history

    def fact(self, scope: Scope, key: str) -> Fact | None:
        row = self._t.facts.get((scope, key))
        return _fact(row) if row else None

    def bare_fact(self, scope: Scope, key: str) -> Fact | None:
        row = self._t.facts.get((scope, key))
        return msgspec.structs.replace(row[0], value=None, origin=Origin()) if row else None

    def facts(
        self,
        scope: Scope,
        *,
        now: datetime,
        prefix: str = "",
        domain: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> list[Fact]:
        found = [
            _fact(row)
            for (owner, key), row in sorted(self._t.facts.items(), key=_by_scope_and_key)
            if owner == scope
            and lies_under(key, prefix)
            and key > after
            and row[0].active_at(now)
            and (domain is None or row[0].domain == domain)
        ]
        return found[:limit]

    def facts_as_of(
        self, scope: Scope, moment: datetime, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[Fact]:
        keys = {
            key for owner, key, _ in self._t.revisions if owner == scope and lies_under(key, prefix) and key > after
        }
        newest = [self.revision_at(scope, key, moment) for key in sorted(keys)]
        facts = [revision.as_fact() for revision in newest if revision and _readable(revision)]
        return [fact for fact in facts if fact.active_at(moment)][:limit]

    def facts_below(self, scope: Scope) -> Iterator[Fact]:
        for (owner, _), row in sorted(self._t.facts.items(), key=_by_scope_and_key):
            if scope.covers(owner):
                yield _fact(row)

    def facts_named(
        self, tenant: str, key: str, *, below: str = "", after: str | None = None, limit: int | None = None
    ) -> list[Fact]:
        rows = sorted(self._t.facts.items(), key=_by_scope_and_key)
        found = [_fact(row) for (owner, name), row in rows if owner.tenant == tenant and name == key]
        return [
            fact
            for fact in found
            if (not below or fact.scope.path.startswith(f"{below}/")) and (after is None or fact.scope.path > after)
        ][:limit]

    def facts_owned(self, owner: Scope, key: str) -> list[Fact]:
        found = [self.fact(session, key) for session in self.sessions_owned(owner)]
        return [fact for fact in found if fact is not None]

    def expired(self, tenant: str, now: datetime, limit: int) -> list[Fact]:
        rows = sorted(self._t.facts.items(), key=_by_scope_and_key)
        gone = [_fact(row) for (owner, _), row in rows if owner.tenant == tenant and not row[0].active_at(now)]
        return gone[:limit]

    def revisions(self, scope: Scope, key: str, *, after: int = 0, limit: int | None = None) -> list[Revision]:
        rows = [row for (owner, name, _), row in self._t.revisions.items() if (owner, name) == (scope, key)]
        found = sorted((_revision(row) for row in rows), key=lambda revision: revision.version)
        return [revision for revision in found if revision.version > after][:limit]

    def newest_revisions(
        self, scope: Scope, key: str, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        found = reversed(self.revisions(scope, key))
        return [revision for revision in found if before is None or revision.version < before][:limit]

    def revision(self, scope: Scope, key: str, version: int) -> Revision | None:
        row = self._t.revisions.get((scope, key, version))
        return _revision(row) if row else None

    def revision_at(self, scope: Scope, key: str, moment: datetime) -> Revision | None:
        earlier = [revision for revision in self.revisions(scope, key) if revision.at <= moment]
        return earlier[-1] if earlier else None

    def revisions_below(self, scope: Scope) -> Iterator[Revision]:
        rows = sorted(self._t.revisions.items(), key=lambda item: (item[0][0].path, *item[0][1:]))
        return (_revision(row) for (owner, _, _), row in rows if scope.covers(owner))

    def last_version(self, scope: Scope, key: str) -> int:
        return max((revision.version for revision in self.revisions(scope, key)), default=0)

    # collections and their entries

    def collections(self, tenant: str) -> list[Collection]:
        return [one for (owner, _), one in sorted(self._t.collections.items()) if owner == tenant]

    def collection(self, tenant: str, name: str) -> Collection | None:
        return self._t.collections.get((tenant, name))

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        states = [state for place, state in self._t.shelves.items() if _holds(shelf, place)]
        newest = max((state.newest for state in states), default=0)
        return ShelfState(newest, max((state.removed for state in states), default=0))

    def shelves(self, tenant: str, collection: str) -> list[tuple[Shelf, int]]:
        places = [place for place in self._t.shelves if _belongs(place, tenant, collection)]
        counted = [(place, len(self.standing(place))) for place in sorted(places, key=_by_scope_and_namespace)]
        return [(place, count) for place, count in counted if count]

    def indexed(self, shelf: Shelf, embedder: str, *, after: int = 0) -> Iterator[Indexed]:
        on_shelf = [sequence for sequence in self.standing(shelf) if sequence > after]
        return self._index_rows(on_shelf, embedder)

    def standing(self, shelf: Shelf) -> list[int]:
        return [kept.entry.sequence for kept in self._entries_on(shelf) if kept.entry.ended_at is None]

    def entries(self, tenant: str, sequences: Sequence[int]) -> list[Entry]:
        found = [self._t.entries.get(sequence) for sequence in set(sequences)]
        return [_entry(kept) for kept in found if kept is not None and kept.entry.scope.tenant == tenant]

    def entry(self, tenant: str, id: str) -> Entry | None:
        of_id = [kept for kept in self._entries_of(tenant) if kept.entry.id == id]
        return _entry(of_id[-1]) if of_id else None

    def entry_of_key(self, shelf: Shelf, key: str) -> Entry | None:
        under_key = [kept for kept in self._entries_on(shelf) if kept.entry.key == key and kept.entry.ended_at is None]
        return _entry(under_key[-1]) if under_key else None

    def entries_alike(self, shelf: Shelf, digest: bytes) -> list[Entry]:
        return [
            _entry(kept) for kept in self._entries_on(shelf) if kept.digest == digest and kept.entry.ended_at is None
        ]

    def known_digests(self, shelf: Shelf, digests: Sequence[bytes]) -> set[bytes]:
        return {kept.digest for kept in self._entries_on(shelf) if kept.entry.ended_at is None} & set(digests)

    def known_keys(self, shelf: Shelf, keys: Sequence[str]) -> set[str]:
        live = [kept.entry for kept in self._entries_on(shelf) if kept.entry.ended_at is None]
        return {entry.key for entry in live if entry.key is not None} & set(keys)

    def ended_since(self, shelf: Shelf, digest: bytes, moment: datetime) -> bool:
        ends = [kept.entry.ended_at for kept in self._entries_on(shelf) if kept.digest == digest]
        return any(end is not None and end >= moment for end in ends)

    def entries_as_of(self, shelf: Shelf, embedder: str, moment: datetime) -> Iterator[Indexed]:
        active = [kept.entry.sequence for kept in self._entries_on(shelf) if kept.entry.active_at(moment)]
        return self._index_rows(active, embedder)

    def entries_below(self, scope: Scope) -> Iterator[Entry]:
        for kept in self._entries_of(scope.tenant):
            if scope.covers(kept.entry.scope) and kept.entry.ended_at is None:
                yield _entry(kept)

    def expired_entries(self, tenant: str, now: datetime, limit: int) -> list[Entry]:
        entries = [_entry(kept) for kept in self._entries_of(tenant)]
        gone = [(entry.expires_at, entry) for entry in entries if entry.expires_at is not None]
        return [entry for expiry, entry in sorted(gone, key=_by_expiry) if expiry <= now][:limit]

    def vector(self, tenant: str, sequence: int, embedder: str) -> bytes | None:
        return self._t.vectors.get((sequence, embedder)) if self.entries(tenant, [sequence]) else None

    def without_vector(self, tenant: str, collection: str, embedder: str, limit: int, *, after: int = 0) -> list[Entry]:
        of_collection = [kept for kept in self._entries_of(tenant) if kept.entry.collection == collection]
        kept = [one for one in of_collection if one.entry.sequence > after]
        return [_entry(one) for one in kept if (one.entry.sequence, embedder) not in self._t.vectors][:limit]

    def indexed_entries(
        self, tenant: str, collection: str, embedder: str, limit: int, *, after: int = 0
    ) -> list[tuple[Entry, Indexed]]:
        of_collection = [
            kept.entry.sequence for kept in self._entries_of(tenant) if kept.entry.collection == collection
        ]
        found = self._index_rows([sequence for sequence in of_collection if sequence > after], embedder)
        return [(_entry(self._t.entries[one.sequence]), one) for one in found][:limit]

    def vector_counts(self, tenant: str, collection: str) -> dict[str, int]:
        counted = {one.entry.sequence for one in self._entries_of(tenant) if one.entry.collection == collection}
        embedders = [embedder for sequence, embedder in self._t.vectors if sequence in counted]
        return {embedder: embedders.count(embedder) for embedder in sorted(set(embedders))}

    # definitions, grants, approvals

    def tenants(self) -> list[str]:
        of_facts = {scope.tenant for scope, _ in self._t.facts}
        of_collections = {tenant for tenant, _ in self._t.collections}
        return sorted({*self._t.tenants, *self._t.events, *of_facts, *of_collections})

    def tenant_state(self, tenant: str) -> TenantState:
        return self._t.tenants.get(tenant, TenantState())

    def definitions(self, tenant: str) -> list[Definition]:
        return [_copy(one) for one in self._t.definitions.values() if one.tenant == tenant]

    def grants(self, tenant: str) -> list[Grant]:
        return [grant for grant in self._t.grants.values() if grant.tenant == tenant]

    def approvals(self, tenant: str, *, after: str = "", limit: int | None = None) -> list[Approval]:
        found = [approval for approval in self._t.approvals.values() if approval.tenant == tenant]
        begin = next((number for number, one in enumerate(found, 1) if one.id == after), 0)
        return found[begin:][:limit]

    def approval(self, tenant: str, id: str) -> Approval | None:
        return self._t.approvals.get((tenant, id))

    # sessions, idempotency, quotas, erasures

    def session(self, scope: Scope) -> Session | None:
        return self._t.sessions.get(scope)

    def sessions_owned(self, scope: Scope) -> list[Scope]:
        owned = [one.scope for one in self._t.sessions.values() if one.owner is not None and scope.covers(one.owner)]
        return sorted(owned, key=lambda session: session.path)

    def replay(self, scope: Scope, key: str) -> Replay | None:
        return self._t.replays.get((scope, key))

    def usage(self, tenant: str, actor: str, window: Window) -> tuple[int, int]:
        return self._t.usage.get((tenant, actor, window), (0, 0))

    def erasure(self, scope: Scope) -> Erasure | None:
        covering = [erasure for erasure in self._t.erasures if erasure.scope.covers(scope)]
        return covering[-1] if covering else None

    # ledger

    def content_key(self, tenant: str, scope: str) -> bytes | None:
        return self._t.content_keys.get((tenant, scope))

    def head(self, tenant: str) -> tuple[int, str] | None:
        events = self._t.events.get(tenant)
        return (events[-1].position, events[-1].hash) if events else None

    def events(
        self, tenant: str, *, start: int = 1, limit: int | None = None, run: str | None = None
    ) -> Iterator[Event]:
        asked = [event for event in self._t.events.get(tenant, []) if run is None or run_of(event) == run]
        return iter([event for event in asked if event.position >= start][:limit])

    def run_head(self, tenant: str, run: str) -> tuple[int, str] | None:
        newest = next(reversed(list(self.events(tenant, run=run))), None)
        return None if newest is None else (newest.version or 0, newest.hash)

    def bodies(self, tenant: str, *, run: str | None = None) -> Iterator[tuple[int, str, bytes]]:
        for event in self.events(tenant, run=run):
            yield event.position, event.hash, event_body(event)

    # writing

    def put_fact(self, fact: Fact, payload: bytes) -> None:
        self._t.facts[fact.scope, fact.key] = (fact, payload)

    def remove_fact(self, scope: Scope, key: str) -> None:
        self._t.facts.pop((scope, key), None)

    def add_revision(self, revision: Revision, payload: bytes | None) -> None:
        self._t.revisions[revision.scope, revision.key, revision.version] = (revision, payload)

    def forget_revisions(self, tenant: str, now: datetime) -> int:
        outlived = [
            (place, revision)
            for place, (revision, payload) in self._t.revisions.items()
            if revision.scope.tenant == tenant
            and payload is not None
            and revision.expires_at is not None
            and revision.expires_at <= now
        ]
        for place, revision in outlived:
            self._t.revisions[place] = (msgspec.structs.replace(revision, forgotten=True), None)
        gone = {(revision.scope.path, revision.key, revision.version) for _, revision in outlived}
        self._forget_texts(tenant, lambda event: text_place(event) in gone)
        return len(outlived)

    def remove_memory(self, scope: Scope) -> dict[str, int]:
        return {
            "facts": _drop(self._t.facts, lambda place: scope.covers(place[0])),
            "revisions": _drop(self._t.revisions, lambda place: scope.covers(place[0])),
            "entries": self._drop_shelves(lambda place: scope.covers(place.scope)),
            "idempotency_keys": _drop(self._t.replays, lambda place: scope.covers(place[0])),
            "ledger_texts": self._forget_texts(
                scope.tenant, lambda event: scope.covers(Scope(event.tenant, event.scope))
            ),
            "content_keys": _drop(self._t.content_keys, lambda place: scope.covers(Scope(*place))),
        }

    def remove_replays(self, tenant: str, before: datetime) -> int:
        old = {place for place, replay in self._t.replays.items() if replay.at < before}
        return _drop(self._t.replays, lambda place: place[0].tenant == tenant and place in old)

    def put_collection(self, collection: Collection) -> None:
        before = self._t.collections.get((collection.tenant, collection.name))
        self._t.collections[collection.tenant, collection.name] = collection
        places = [place for place in self._t.shelves if _belongs(place, collection.tenant, collection.name)]
        if places and before is not None and before.space.embedder != collection.space.embedder:
            self._mark(*places)

    def remove_collection(self, tenant: str, name: str) -> int:
        self._t.collections.pop((tenant, name), None)
        for kept in self._entries_of(tenant):
            if kept.entry.collection == name:
                self._forget_texts_of(kept.entry)
        return self._drop_shelves(lambda place: _belongs(place, tenant, name))

    def add_entries(
        self,
        shelf: Shelf,
        entries: Sequence[NewEntry],
        embedders: Sequence[str],
        *,
        created_at: datetime,
        expires_at: datetime | None,
        origin: Origin,
    ) -> list[int]:
        sequences: list[int] = []
        for new in entries:
            sequence = self._next_number()
            entry = Entry(
                id=new.id,
                scope=shelf.scope,
                collection=shelf.collection,
                namespace=shelf.namespace or "",
                key=new.key,
                content=None,  # read anew each time, as the metadata are
                metadata={},
                created_at=created_at,
                expires_at=expires_at,
                origin=origin,
                sequence=sequence,
            )
            self._t.entries[sequence] = _StoredEntry(entry, new.payload, new.metadata, new.digest, new.analysis)
            for embedder, vector in zip(embedders, new.vectors, strict=True):
                self._t.vectors[sequence, embedder] = vector
            # A new namespace is not a removal for readers of all of them; after an erasure, a scope starts above
            # all that it ever had.
            begins = self.shelf_state(Shelf(shelf.scope, shelf.collection)).removed or sequence
            removed = self._t.shelves.get(_place(entry), ShelfState(0, begins)).removed
            self._t.shelves[_place(entry)] = ShelfState(sequence, removed)
            sequences.append(sequence)
        return sequences

    def put_vector(self, tenant: str, sequence: int, embedder: str, vector: bytes) -> None:
        if self.entries(tenant, [sequence]):
            self._t.vectors[sequence, embedder] = vector

    def remove_vectors(self, tenant: str, collection: str, embedder: str) -> int:
        kept = self._entries_of(tenant)
        doomed = {(one.entry.sequence, embedder) for one in kept if one.entry.collection == collection}
        return _drop(self._t.vectors, lambda place: place in doomed)

    def end_entry(self, tenant: str, sequence: int, at: datetime) -> None:
        kept = self._t.entries.get(sequence)
        if kept is not None and kept.entry.scope.tenant == tenant and kept.entry.ended_at is None:
            ended = msgspec.structs.replace(kept.entry, ended_at=at)
            self._t.entries[sequence] = msgspec.structs.replace(kept, entry=ended)
            self._mark(_place(ended))

    def remove_entry(self, tenant: str, sequence: int) -> None:
        kept = self._t.entries.get(sequence)
        if kept is not None and kept.entry.scope.tenant == tenant:
            self._forget_texts_of(kept.entry)
            self._drop_entries({sequence})
            self._mark(_place(kept.entry))

    def set_tenant_state(self, tenant: str, state: TenantState) -> None:
        self._t.tenants[tenant] = state

    def put_definition(self, definition: Definition) -> None:
        self._t.definitions[definition.tenant, definition.id] = _copy(definition)

    def remove_definition(self, tenant: str, id: str) -> None:
        self._t.definitions.pop((tenant, id), None)

    def put_grant(self, grant: Grant) -> None:
        self._t.grants[grant.tenant, grant.id] = grant

    def remove_grant(self, tenant: str, id: str) -> None:
        self._t.grants.pop((tenant, id), None)

    def put_approval(self, approval: Approval) -> None:
        self._t.approvals[approval.tenant, approval.id] = approval

    def put_session(self, session: Session) -> None:
        self._t.sessions[session.scope] = session

    def put_replay(self, replay: Replay) -> None:
        self._t.replays[replay.scope, replay.key] = replay

    def add_usage(self, tenant: str, actor: str, window: Window, writes: int, bytes: int) -> None:
        used = self.usage(tenant, actor, window)
        _drop(
            self._t.usage,
            lambda place: (
                place[:2] == (tenant, actor) and place[2].seconds == window.seconds and place[2].begins < window.begins
            ),
        )
        self._t.usage[tenant, actor, window] = (used[0] + writes, used[1] + bytes)

    def erase_below(self, scope: Scope) -> dict[str, int]:
        doomed = {
            place
            for place, approval in self._t.approvals.items()
            if scope.covers(Scope(approval.tenant, approval.scope))
        }
        return {
            **self.remove_memory(scope),
            "approvals": _drop(self._t.approvals, lambda place: place in doomed),
            "sessions": _drop(self._t.sessions, scope.covers),
        }

    def newest_below(self, scope: Scope) -> tuple[int, datetime | None]:
        used = [(row[0].version, row[0].at) for place, row in self._t.revisions.items() if scope.covers(place[0])]
        used += [(erasure.version_floor, erasure.at) for erasure in self._t.erasures if scope.covers(erasure.scope)]
        used += [(0, kept.entry.created_at) for kept in self._t.entries.values() if scope.covers(kept.entry.scope)]
        return max((version for version, _ in used), default=0), max((at for _, at in used), default=None)

    def add_erasure(self, erasure: Erasure) -> None:
        self._t.erasures.append(erasure)

    def put_content_key(self, tenant: str, scope: str, key: bytes) -> None:
        self._t.content_keys[tenant, scope] = key

    def append_events(self, events: Sequence[tuple[Event, bytes]]) -> None:
        for event, _ in events:
            kept = self._t.events.setdefault(event.tenant, [])
            if event.position != len(kept) + 1:
                raise Corrupt(
                    f"event {event.position} cannot follow event {len(kept)}",
                    hint="Verify the ledger; the event was not written",
                    position=event.position,
                )
            kept.append(event)

    def _entries_of(self, tenant: str) -> list[_StoredEntry]:
        return [kept for _, kept in sorted(self._t.entries.items()) if kept.entry.scope.tenant == tenant]

    def _entries_on(self, shelf: Shelf) -> list[_StoredEntry]:
        return [kept for kept in self._entries_of(shelf.scope.tenant) if _holds(shelf, _place(kept.entry))]

    def _index_rows(self, sequences: list[int], embedder: str) -> Iterator[Indexed]:
        for sequence in sequences:
            kept, vector = self._t.entries[sequence], self._t.vectors.get((sequence, embedder))
            if vector is not None:
                expiry = kept.entry.expires_at
                micros = None if expiry is None else to_micros(expiry)
                yield Indexed(sequence, kept.entry.namespace, kept.metadata, micros, kept.analysis, vector)

    def _next_number(self) -> int:
        self._t.last_number += 1
        return self._t.last_number

    def _mark(self, *places: Shelf) -> None:
        """Give shelves a state that they never had before."""
        removed = self._next_number()
        for place in places:
            self._t.shelves[place] = ShelfState(self._t.shelves[place].newest, removed)

    def _drop_shelves(self, doomed: Callable[[Shelf], bool]) -> int:
        _drop(self._t.shelves, doomed)
        return self._drop_entries({place for place, kept in self._t.entries.items() if doomed(_place(kept.entry))})

    def _drop_entries(self, sequences: set[int]) -> int:
        _drop(self._t.vectors, lambda place: place[0] in sequences)
        return _drop(self._t.entries, lambda sequence: sequence in sequences)

    def _forget_texts_of(self, entry: Entry) -> None:
        about = entry.scope.path, collection_key(entry.collection), -entry.sequence
        self._forget_texts(entry.scope.tenant, lambda event: text_place(event) == about)

    def _forget_texts(self, tenant: str, doomed: Callable[[Event], bool]) -> int:
        events = self._t.events.get(tenant, [])
        places = [place for place, event in enumerate(events) if event.text is not None and doomed(event)]
        for place in places:
            events[place] = msgspec.structs.replace(events[place], text=None)
        return len(places)


def _copy(definition: Definition) -> Definition:
    return msgspec.structs.replace(definition, schema=decode(encode(definition.schema)))


def _fact(row: tuple[Fact, bytes]) -> Fact:
    return msgspec.structs.replace(row[0], value=decode(row[1]))


def _revision(row: tuple[Revision, bytes | None]) -> Revision:
    revision, payload = row
    return msgspec.structs.replace(revision, value=None if payload is None else decode(payload))


def _entry(kept: _StoredEntry) -> Entry:
    return msgspec.structs.replace(kept.entry, content=decode(kept.payload), metadata=decode(kept.metadata))


def _place(entry: Entry) -> Shelf:
    return Shelf(entry.scope, entry.collection, entry.namespace)


def _holds(shelf: Shelf, place: Shelf) -> bool:
    """Say whether a shelf, perhaps of every namespace, includes the shelf of one namespace."""
    return shelf == place or shelf == Shelf(place.scope, place.collection)


def _belongs(place: Shelf, tenant: str, collection: str) -> bool:
    return (place.scope.tenant, place.collection) == (tenant, collection)


def _readable(revision: Revision) -> bool:
    return revision.change == "set" and not revision.forgotten


def _by_scope_and_key(item: tuple[tuple[Scope, str], Any]) -> tuple[str, str, str]:
    (scope, key), _ = item
    return scope.tenant, scope.path, key


def _by_scope_and_namespace(place: Shelf) -> tuple[str, str]:
    return place.scope.path, place.namespace or ""


def _by_expiry(item: tuple[datetime, Entry]) -> tuple[datetime, int]:
    expiry, entry = item
    return expiry, entry.sequence


def _drop(table: dict[Any, Any], doomed: Callable[[Any], bool]) -> int:
    places = [place for place in table if doomed(place)]
    for place in places:
        del table[place]
    return len(places)
