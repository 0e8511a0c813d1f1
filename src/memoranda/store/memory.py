"""The reference store: the contract of `store/base.py` on plain dictionaries.

Slow and obvious on purpose. Every table is a dictionary; a transaction copies them all and restores the copies if the
work fails. Values are kept as JSON text, so that no caller can change them.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from memoranda.errors import Busy, Corrupt, Unavailable
from memoranda.model.clock import to_micros
from memoranda.model.definition import Definition
from memoranda.model.effect import Approval
from memoranda.model.entry import Collection, Entry, Indexed, NewEntry, Shelf, ShelfState
from memoranda.model.event import GENESIS, RUN_EVENTS, Event, event_body
from memoranda.model.fact import Fact, Revision
from memoranda.model.guard import GuardRule
from memoranda.model.names import collection_key, lies_under
from memoranda.model.omission import Omission
from memoranda.model.policy import Grant
from memoranda.model.probes import Remains
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.model.trust import TRUSTED, Origin
from memoranda.model.value import decode, encode
from memoranda.store.base import (
    ContentKey,
    EntryQuery,
    Erasure,
    FactQuery,
    Link,
    PlainRow,
    Portion,
    Progress,
    Replay,
    Reserved,
    RevisionQuery,
    ScopeEpoch,
    SegmentPiece,
    Session,
    TenantState,
    Transaction,
    Widen,
    Window,
    subject_of,
    subjects_by_tenant,
    text_place,
)

_MOST_REMOVALS = 1_000

T = TypeVar("T")
R = TypeVar("R", bound=PlainRow)


class _StoredEntry(msgspec.Struct, frozen=True):
    """An entry with what was derived from it."""

    entry: Entry
    payload: bytes
    metadata: bytes
    digest: bytes
    analysis: bytes


class _Tables(msgspec.Struct):
    """All tables."""

    plain: dict[tuple[Any, ...], Any] = {}
    """Plain rows but erasures, by kind, tenant and the rest of their key."""
    facts: dict[tuple[Scope, str], tuple[Fact, bytes]] = {}
    revisions: dict[tuple[Scope, str, int], tuple[Revision, bytes | None]] = {}
    entries: dict[int, _StoredEntry] = {}
    vectors: dict[tuple[int, str], bytes] = {}
    shelves: dict[Shelf, ShelfState] = {}
    removals: dict[Shelf, tuple[tuple[int, int, int], ...]] = {}
    """For the last entries that ended or were removed: the mark for it, the one before, and the sequence."""
    last_number: int = 0
    """Entries and removals share this counter."""
    tenants: dict[str, TenantState] = {}
    usage: dict[tuple[str, str, Window], tuple[int, int]] = {}
    erasures: list[Erasure] = []
    events: dict[str, list[Event]] = {}

    def copy(self) -> _Tables:
        tables: dict[str, Any] = {name: copy(getattr(self, name)) for name in self.__struct_fields__}
        tables["events"] = {tenant: events.copy() for tenant, events in self.events.items()}
        return _Tables(**tables)


class MemoryStore:
    """A store that lasts as long as the process."""

    url = "memory"
    waits = False
    keeps_portions = False

    def __init__(self) -> None:
        """Start with empty tables."""
        self._tables: _Tables | None = _Tables()
        self._lock = threading.RLock()
        self._turns = 0

    def transact(
        self, work: Callable[[Transaction], T], *, wait: bool = True, within: Sequence[Scope] | None = None
    ) -> T:
        """Run work on the tables; restore the old ones if it fails.

        There is one writer, but work that goes beyond the scopes that it is within is noticed, and run again.
        """
        if not self._lock.acquire(blocking=wait):
            raise Busy(
                "this memory is in use, and this write was not to wait", hint="Wait for it, in a thread", url=self.url
            )
        try:
            if within is not None:
                with suppress(Widen):
                    return self._run(lambda tables: work(_RowsWithin(tables, subjects_by_tenant(within))))
            return self._run(lambda tables: work(_Rows(tables)))
        finally:
            self._lock.release()

    def _run(self, work: Callable[[_Tables], T]) -> T:
        before = self._open_tables().copy()
        try:
            return work(self._open_tables())
        except BaseException:
            self._tables = before
            raise
        finally:
            self._turns += 1

    def read(self, work: Callable[[Transaction], T], *, snapshot: bool = True) -> T:
        """Run work while no other thread writes."""
        with self._lock:
            return work(_Rows(self._open_tables()))

    def settle(self, tenant: str) -> None:
        """Return at once: events are chained as they are appended."""

    def mark(self, tenant: str | None = None) -> int:
        """Return the number of transactions so far."""
        return self._turns

    def check(self) -> Sequence[str]:
        """Return nothing: dictionaries are not damaged."""
        return []

    def warnings(self) -> Sequence[str]:
        """Return nothing: only this program uses the dictionaries."""
        return []

    def holds_bytes(self, needle: bytes) -> bool | None:
        """Return None: dictionaries have no bytes."""
        return None

    def notices(self) -> Sequence[str]:
        """Return nothing: dictionaries have no state to tell of."""
        return []

    def reclaim(self, tenant: str) -> Remains:
        """Return that removed rows are gone."""
        return Remains()

    def scrub(self, tenant: str | None = None) -> bool:
        """Return True: removed rows are gone."""
        return True

    def finish_migration(self) -> bool:
        """Return False: dictionaries are made anew by each program."""
        return False

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

    # plain rows

    def get(self, kind: type[R], *key: Any) -> R | None:
        if kind is Erasure:
            covering: list[Any] = [erasure for erasure in self._t.erasures if erasure.scope.covers(key[0])]
            return covering[-1] if covering else None
        place = (key[0].tenant, key[0].path, *key[1:]) if isinstance(key[0], Scope) else key
        return _copy(self._t.plain.get((kind, *place)))

    def scan(
        self, kind: type[R], tenant: str, *, below: Scope | None = None, after: str = "", limit: int | None = None
    ) -> list[R]:
        places = [place for place in self._t.plain if place[:2] == (kind, tenant)]
        if kind in (Collection, Session, Omission):
            places.sort(key=lambda place: place[2])
        if after:
            places = places[next((number for number, place in enumerate(places, 1) if place[2] == after), 0) :]
        found = [_copy(self._t.plain[place]) for place in places]
        if kind is Omission:
            found = [row for row in found if row.subject == (below.path if below else "")]
        elif below is not None:
            owned = attrgetter("scope" if kind in (StoredRejection, Replay) else "owner")
            found = [row for row in found if owned(row) is not None and below.covers(owned(row))]
        return found[:limit]

    def put(self, row: PlainRow) -> None:
        if isinstance(row, Erasure):
            self._t.erasures.append(row)
            return
        place = (type(row), *_KEYS[type(row)](row))
        before, self._t.plain[place] = self._t.plain.get(place), _copy(row)
        if isinstance(row, Collection) and before is not None and before.space.embedder != row.space.embedder:
            shelves = [shelf for shelf in self._t.shelves if _belongs(shelf, row.tenant, row.name)]
            if shelves:
                self._mark(*shelves)

    def remove(self, kind: type[PlainRow], *key: Any) -> int:
        if kind is SegmentPiece:
            tenant, subject = key
            mine = SegmentPiece, tenant
            _drop(self._t.plain, lambda place: place[:2] == mine and subject in (None, place[2]))
            return 0
        self._t.plain.pop((kind, *key), None)
        if kind is not Collection:
            return 0
        tenant, name = key
        for kept in self._entries_of(tenant):
            if kept.entry.collection == name:
                self._forget_texts_of(kept.entry)
        return self._drop_shelves(lambda place: _belongs(place, tenant, name))

    def links(self, tenant: str, *, child: str | None = None, parent: str | None = None) -> list[Link]:
        links = [row for place, row in self._t.plain.items() if place[:2] == (Link, tenant)]
        found = [one for one in links if child in (None, one.child) and parent in (None, one.parent)]
        return sorted(found, key=_KEYS[Link])

    # facts and their history

    def fact(self, scope: Scope, key: str, *, value: bool = True) -> Fact | None:
        row = self._t.facts.get((scope, key))
        if row is None:
            return None
        return _fact(row) if value else msgspec.structs.replace(row[0], value=None)

    def facts(self, query: FactQuery) -> Iterator[Fact]:
        scope = query.scope
        if query.owned:
            scopes = {session.scope for session in self.scan(Session, scope.tenant, below=scope)}
        else:
            scopes = {place for place, _ in self._t.facts if place == scope or (query.below and scope.covers(place))}
        if query.as_of is None:
            places = sorted(self._t.facts.items(), key=_by_scope_and_key)
            found = [_fact(row) for (place, _), row in places if place in scopes]
        else:
            found = self._facts_as_of(scope, query.as_of)
        return itertools.islice((fact for fact in found if _is_asked_for(fact, query)), query.limit)

    def _facts_as_of(self, scope: Scope, moment: datetime) -> list[Fact]:
        keys = sorted({key for place, key, _ in self._t.revisions if place == scope})
        newest = [self.revision(scope, key, at=moment) for key in keys]
        facts = [one.as_fact() for one in newest if one and one.change == "set" and not one.forgotten]
        return [fact for fact in facts if fact.active_at(moment)]

    def revision(
        self, scope: Scope, key: str, *, version: int | None = None, at: datetime | None = None
    ) -> Revision | None:
        for revision in self.revisions(RevisionQuery(scope, key, newest_first=True)):
            if version in (None, revision.version) and (at is None or revision.at <= at):
                return revision
        return None

    def revisions(self, query: RevisionQuery) -> Iterator[Revision]:
        rows = sorted(
            self._t.revisions.items(), key=lambda item: (item[0][0].path, *item[0][1:]), reverse=query.newest_first
        )
        found = [
            _revision(row)
            for (scope, key, version), row in rows
            if (query.scope.covers(scope) if query.key is None else (scope, key) == (query.scope, query.key))
            and version > query.after
            and (query.before is None or version < query.before)
        ]
        return iter(found[: query.limit])

    # collections and their entries

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        states = [state for place, state in self._t.shelves.items() if _holds(shelf, place)]
        newest = max((state.newest for state in states), default=0)
        return ShelfState(newest, max((state.removed for state in states), default=0))

    def shelf_states(self, scope: Scope, *, below: bool = False) -> list[tuple[Shelf, ShelfState]]:
        places = [place for place in self._t.shelves if (scope.covers(place.scope) if below else scope == place.scope)]
        ordered = sorted(places, key=lambda place: (place.scope.path, place.collection, place.namespace or ""))
        return [(place, self._t.shelves[place]) for place in ordered]

    def shelves(self, tenant: str, collection: str) -> list[tuple[Shelf, int]]:
        places = [place for place in self._t.shelves if _belongs(place, tenant, collection)]
        counted = [(place, len(self.live_sequences(place))) for place in sorted(places, key=_by_scope_and_namespace)]
        return [(place, count) for place, count in counted if count]

    def entries(self, query: EntryQuery) -> Iterator[Entry]:
        found = self._matching(query)
        if query.id is not None:
            found = found[-1:]
        if (bound := query.expired_by) is not None:
            found.sort(key=lambda kept: kept.entry.expires_at or bound)
        return itertools.islice(map(_entry, found), query.limit)

    def live_sequences(self, shelf: Shelf) -> list[int]:
        return [kept.entry.sequence for kept in self._matching(EntryQuery(shelf=shelf))]

    def removed_since(self, shelf: Shelf, mark: int) -> list[int] | None:
        found: list[int] = []
        shelves = [(place, state) for place, state in self._t.shelves.items() if _holds(shelf, place)]
        for place, state in shelves:
            seen = min(mark, state.removed)
            for at, before, sequence in self._t.removals.get(place, ()):
                if at > mark:
                    if before > seen:
                        return None
                    seen = at
                    found.append(sequence)
            if seen != state.removed:
                return None
        return found if shelves else None

    def shelf_sizes(self, shelf: Shelf) -> dict[str, int]:
        return dict(Counter(kept.entry.namespace for kept in self._matching(EntryQuery(shelf=shelf))))

    def portions(self, shelf: Shelf, *, gone: bool = True) -> list[Portion]:
        return []

    def parts(self, shelf: Shelf, firsts: Sequence[int], names: Sequence[str]) -> list[tuple[int, str, bytes]]:
        return []

    def vectors(self, shelf: Shelf, sequences: Sequence[int], embedder: str) -> list[tuple[int, bytes]]:
        own = {kept.entry.sequence for kept in self._entries_of(shelf.scope.tenant)}
        found = [(one, self._t.vectors.get((one, embedder))) for one in sorted(own.intersection(sequences))]
        return [(one, vector) for one, vector in found if vector is not None]

    def known(self, shelf: Shelf, *, keys: Sequence[str] = (), digests: Sequence[bytes] = ()) -> set[str | bytes]:
        live = self._matching(EntryQuery(shelf=shelf))
        return {value for kept in live for value in (kept.entry.key, kept.digest) if value in (*keys, *digests)} - {
            None
        }

    def index_rows(self, query: EntryQuery, embedder: str) -> Iterator[Indexed]:
        sequences = [kept.entry.sequence for kept in self._matching(query)]
        rows = self._index_rows(sequences, embedder, with_origin=query.shelf is not None)
        return itertools.islice(rows, query.limit)

    def vector_counts(self, tenant: str, collection: str) -> dict[str, int]:
        counted = {one.entry.sequence for one in self._entries_of(tenant) if one.entry.collection == collection}
        embedders = [embedder for sequence, embedder in self._t.vectors if sequence in counted]
        return {embedder: embedders.count(embedder) for embedder in sorted(set(embedders))}

    # tenants, quotas

    def tenants(self) -> list[str]:
        of_facts = {scope.tenant for scope, _ in self._t.facts}
        of_collections = {place[1] for place in self._t.plain if place[0] is Collection}
        return sorted({*self._t.tenants, *self._t.events, *of_facts, *of_collections})

    def scopes(self, tenant: str, *, prefix: str = "", after: str = "", limit: int | None = None) -> list[str]:
        of_facts = {scope.path for scope, _ in self._t.facts if scope.tenant == tenant}
        of_entries = {kept.entry.scope.path for kept in self._entries_of(tenant) if kept.entry.ended_at is None}
        paths = sorted(path for path in of_facts | of_entries if path.startswith(prefix))
        return [path for path in paths if path > after][:limit]

    def tenant_state(self, tenant: str) -> TenantState:
        return self._t.tenants.get(tenant, TenantState())

    def usage(self, tenant: str, actor: str, window: Window) -> tuple[int, int]:
        return self._t.usage.get((tenant, actor, window), (0, 0))

    # ledger

    def head(self, tenant: str, run: str | None = None) -> tuple[int, str] | None:
        newest = next(reversed(list(self.events(tenant, run=run))), None)
        if newest is None:
            return None
        return newest.position if run is None else newest.version or 0, newest.hash

    def progress(self, tenant: str) -> Progress:
        return Progress(len(self._t.events.get(tenant, ())))

    def events(
        self, tenant: str, *, start: int = 1, limit: int | None = None, run: str | None = None
    ) -> Iterator[Event]:
        found = [event for event in self._t.events.get(tenant, []) if event.position >= start]
        if run is not None:
            found = [event for event in found if event.effect in RUN_EVENTS and event.resource == run]
        return iter(found[:limit])

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

    def expire(
        self, tenant: str, now: datetime, *, replays_before: datetime, limit: int | None = None
    ) -> dict[str, int]:
        outlived = [
            (place, revision)
            for place, (revision, payload) in self._t.revisions.items()
            if revision.scope.tenant == tenant
            and payload is not None
            and revision.expires_at is not None
            and revision.expires_at <= now
        ]
        if limit is not None and len(outlived) > limit:
            last = sorted(_expiry(revision) for _, revision in outlived)[limit - 1]
            outlived = [(place, revision) for place, revision in outlived if _expiry(revision) <= last]
        for place, revision in outlived:
            self._t.revisions[place] = (msgspec.structs.replace(revision, forgotten=True), None)
        gone = {(revision.scope.path, revision.key, revision.version) for _, revision in outlived}
        self._forget_texts(tenant, lambda event: text_place(event) in gone)
        replays = [(place, row) for place, row in self._t.plain.items() if place[:2] == (Replay, tenant)]
        old = {place for place, replay in replays if replay.at < replays_before}
        return {"revisions": len(outlived), "idempotency_keys": _drop(self._t.plain, old.__contains__)}

    def remove_below(self, scope: Scope, *, keep_records: bool = False) -> dict[str, int]:
        memory = {
            "facts": _drop(self._t.facts, lambda place: scope.covers(place[0])),
            "revisions": _drop(self._t.revisions, lambda place: scope.covers(place[0])),
            "entries": self._drop_shelves(lambda place: scope.covers(place.scope)),
            "idempotency_keys": self._drop_below(Replay, scope),
            "ledger_texts": self._forget_texts(
                scope.tenant, lambda event: scope.covers(Scope(event.tenant, event.scope))
            ),
            "content_keys": self._drop_below(ContentKey, scope),
        }
        self._drop_below(Link, scope)
        self._drop_below(Omission, scope)
        self.remove(SegmentPiece, scope.tenant, scope.path.partition("/")[0] or None)
        if keep_records:
            return memory
        return {
            **memory,
            "approvals": self._drop_below(Approval, scope),
            "rejections": self._drop_below(StoredRejection, scope),
            "sessions": self._drop_below(Session, scope),
        }

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
        if any(self.entries(EntryQuery(tenant=tenant, sequences=[sequence]))):
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
            self._mark_removal(ended)

    def remove_entry(self, tenant: str, sequence: int) -> None:
        kept = self._t.entries.get(sequence)
        if kept is not None and kept.entry.scope.tenant == tenant:
            self._forget_texts_of(kept.entry)
            self._drop_entries({sequence})
            self._mark_removal(kept.entry)

    def add_portion(self, shelf: Shelf, portion: Portion, parts: Mapping[str, bytes]) -> bool:
        return False

    def note_gone(self, shelf: Shelf, portion: Portion) -> None:
        pass

    def remove_portions(self, shelf: Shelf, sequence: int | None = None) -> None:
        pass

    def set_tenant_state(self, tenant: str, state: TenantState) -> None:
        self._t.tenants[tenant] = state

    def add_usage(self, tenant: str, actor: str, window: Window, writes: int, bytes: int) -> None:
        used = self.usage(tenant, actor, window)
        _drop(
            self._t.usage,
            lambda place: (
                place[:2] == (tenant, actor) and place[2].seconds == window.seconds and place[2].begins < window.begins
            ),
        )
        self._t.usage[tenant, actor, window] = (used[0] + writes, used[1] + bytes)

    def newest_below(self, scope: Scope) -> tuple[int, datetime | None]:
        used = [(row[0].version, row[0].at) for place, row in self._t.revisions.items() if scope.covers(place[0])]
        used += [(erasure.version_floor, erasure.at) for erasure in self._t.erasures if scope.covers(erasure.scope)]
        used += [(0, kept.entry.created_at) for kept in self._t.entries.values() if scope.covers(kept.entry.scope)]
        return max((version for version, _ in used), default=0), max((at for _, at in used), default=None)

    def reserve(self, tenant: str, count: int, *, together: bool = False) -> Reserved:
        position, head = self.head(tenant) or (0, GENESIS)
        return Reserved(range(position + 1, position + 1 + count), head)

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

    def _matching(self, query: EntryQuery) -> list[_StoredEntry]:
        scope = query.below or (query.shelf.scope if query.shelf else Scope(query.tenant))
        return [kept for kept in self._entries_of(scope.tenant) if self._is_asked_for(kept, query)]

    def _is_asked_for(self, kept: _StoredEntry, query: EntryQuery) -> bool:
        entry = kept.entry
        if query.ended_since is not None:
            in_time = entry.ended_at is not None and entry.ended_at >= query.ended_since
        elif query.chain is not None:
            in_time = True
        elif query.active_at is not None:
            in_time = entry.active_at(query.active_at)
        else:
            in_time = bool(query.tenant) or entry.ended_at is None  # whole tenants are asked for ended ones too
        return (
            in_time
            and entry.sequence > query.after
            and query.collection in (None, entry.collection)
            and (query.shelf is None or _holds(query.shelf, _place(entry)))
            and (query.below is None or query.below.covers(entry.scope))
            and (query.sequences is None or entry.sequence in query.sequences)
            and query.id in (None, entry.id)
            and query.key in (None, entry.key)
            and query.chain in (None, entry.key, entry.id)
            and query.digest in (None, kept.digest)
            and (query.expired_by is None or (entry.expires_at is not None and entry.expires_at <= query.expired_by))
            and (query.without_vector_of is None or (entry.sequence, query.without_vector_of) not in self._t.vectors)
        )

    def _index_rows(self, sequences: list[int], embedder: str, *, with_origin: bool) -> Iterator[Indexed]:
        for sequence in sequences:
            kept, vector = self._t.entries[sequence], self._t.vectors.get((sequence, embedder))
            if vector is not None:
                expiry = kept.entry.expires_at
                micros = None if expiry is None else to_micros(expiry)
                said_by = kept.entry.origin
                is_told = with_origin and (said_by.trust != "high" or said_by.source is not None)
                origin = said_by if is_told else TRUSTED
                yield Indexed(sequence, kept.entry.namespace, kept.metadata, micros, kept.analysis, vector, origin)

    def _next_number(self) -> int:
        self._t.last_number += 1
        return self._t.last_number

    def _mark(self, *places: Shelf) -> None:
        """Give shelves a state that they never had before."""
        removed = self._next_number()
        for place in places:
            self._t.shelves[place] = ShelfState(self._t.shelves[place].newest, removed)

    def _mark_removal(self, entry: Entry) -> None:
        place = _place(entry)
        before = self._t.shelves[place].removed
        self._mark(place)
        removal = self._t.shelves[place].removed, before, entry.sequence
        self._t.removals[place] = (*self._t.removals.get(place, ()), removal)[-_MOST_REMOVALS:]

    def _drop_below(
        self, kind: type[Replay | ContentKey | Approval | StoredRejection | Omission | Session | Link], scope: Scope
    ) -> int:
        rows = [(place, row.scope) for place, row in self._t.plain.items() if place[:2] == (kind, scope.tenant)]
        doomed = {place for place, at in rows if scope.covers(at if isinstance(at, Scope) else Scope(scope.tenant, at))}
        return _drop(self._t.plain, doomed.__contains__)

    def _drop_shelves(self, doomed: Callable[[Shelf], bool]) -> int:
        _drop(self._t.shelves, doomed)
        _drop(self._t.removals, doomed)
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


_RULES = (Collection, Definition, Grant, GuardRule, StoredRejection, ScopeEpoch, Erasure, Approval, ContentKey)
"""Plain rows that only change while their tenant has no other writer, or that are added and never replaced."""
_ADDED = (Approval, ContentKey)


class _RowsWithin(_Rows):
    """A transaction that stays within some subjects, and otherwise reads what others do not change meanwhile."""

    def __init__(self, tables: _Tables, subjects: Mapping[str, frozenset[str]]) -> None:
        super().__init__(tables)
        self._subjects = subjects

    def _check(self, scope: Scope, *, below: bool = False) -> None:
        if subject_of(scope.path) not in self._subjects.get(scope.tenant, ()) or (below and not scope.path):
            raise Widen(str(scope))

    def get(self, kind: type[R], *key: Any) -> R | None:
        if kind is Replay:
            self._check(key[0])
        return super().get(kind, *key)

    def scan(
        self, kind: type[R], tenant: str, *, below: Scope | None = None, after: str = "", limit: int | None = None
    ) -> list[R]:
        if kind not in _RULES:
            self._check(below or Scope(tenant), below=kind is not Omission)
        return super().scan(kind, tenant, below=below, after=after, limit=limit)

    def put(self, row: PlainRow) -> None:
        if isinstance(row, _RULES):
            if not isinstance(row, _ADDED):
                raise Widen(type(row).__name__)
        else:
            self._check(Scope(row.tenant, row.subject) if isinstance(row, SegmentPiece) else row.scope)
        super().put(row)

    def remove(self, kind: type[PlainRow], *key: Any) -> int:
        if kind is not SegmentPiece or key[1] is None:
            raise Widen(kind.__name__)
        self._check(Scope(*key))
        return super().remove(kind, *key)

    def fact(self, scope: Scope, key: str, *, value: bool = True) -> Fact | None:
        self._check(scope)
        return super().fact(scope, key, value=value)

    def facts(self, query: FactQuery) -> Iterator[Fact]:
        self._check(query.scope, below=query.below or query.owned)
        return super().facts(query)

    def revisions(self, query: RevisionQuery) -> Iterator[Revision]:
        self._check(query.scope, below=query.key is None)
        return super().revisions(query)

    def _matching(self, query: EntryQuery) -> list[_StoredEntry]:
        if query.shelf is not None:
            self._check(query.shelf.scope)
        if query.below is not None:
            self._check(query.below, below=True)
        found = super()._matching(query)
        for kept in found:
            self._check(kept.entry.scope)
        return found

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        self._check(shelf.scope)
        return super().shelf_state(shelf)

    def put_fact(self, fact: Fact, payload: bytes) -> None:
        self._check(fact.scope)
        super().put_fact(fact, payload)

    def remove_fact(self, scope: Scope, key: str) -> None:
        self._check(scope)
        super().remove_fact(scope, key)

    def add_revision(self, revision: Revision, payload: bytes | None) -> None:
        self._check(revision.scope)
        super().add_revision(revision, payload)

    def put_vector(self, tenant: str, sequence: int, embedder: str, vector: bytes) -> None:
        raise Widen("vectors")

    def remove_vectors(self, tenant: str, collection: str, embedder: str) -> int:
        raise Widen("vectors")

    def end_entry(self, tenant: str, sequence: int, at: datetime) -> None:
        self._ensure_known(sequence)
        super().end_entry(tenant, sequence, at)

    def remove_entry(self, tenant: str, sequence: int) -> None:
        self._ensure_known(sequence)
        super().remove_entry(tenant, sequence)

    def _ensure_known(self, sequence: int) -> None:
        if (kept := self._t.entries.get(sequence)) is not None:
            self._check(kept.entry.scope)

    def set_tenant_state(self, tenant: str, state: TenantState) -> None:
        raise Widen("rules")

    def expire(
        self, tenant: str, now: datetime, *, replays_before: datetime, limit: int | None = None
    ) -> dict[str, int]:
        raise Widen("expiry")

    def remove_below(self, scope: Scope, *, keep_records: bool = False) -> dict[str, int]:
        raise Widen("erasure")


_KEYS: dict[type[PlainRow], Callable[[Any], tuple[Any, ...]]] = {
    Collection: attrgetter("tenant", "name"),
    Definition: attrgetter("tenant", "id"),
    Grant: attrgetter("tenant", "id"),
    GuardRule: attrgetter("tenant", "scope", "origin"),
    Approval: attrgetter("tenant", "id"),
    StoredRejection: attrgetter("scope.tenant", "id"),
    Omission: attrgetter("scope.tenant", "id"),
    Session: attrgetter("scope.tenant", "scope.path"),
    Replay: attrgetter("scope.tenant", "scope.path", "key"),
    ContentKey: attrgetter("tenant", "scope"),
    Link: attrgetter("scope.tenant", "child", "version", "parent", "parent_version"),
    ScopeEpoch: attrgetter("tenant", "scope"),
    SegmentPiece: attrgetter("tenant", "subject", "name", "number"),
}


def _copy(row: Any) -> Any:
    """Return a row; a definition with a schema of its own, which the caller may change."""
    return msgspec.structs.replace(row, schema=decode(encode(row.schema))) if isinstance(row, Definition) else row


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


def _is_asked_for(fact: Fact, query: FactQuery) -> bool:
    return (
        query.key in (None, fact.key)
        and lies_under(fact.key, query.prefix)
        and query.domain in (None, fact.domain)
        and (query.active_at is None or fact.active_at(query.active_at))
        and (query.expired_by is None or not fact.active_at(query.expired_by))
        and (query.after is None or query.after < (fact.scope.path if query.key is not None else fact.key))
    )


def _by_scope_and_key(item: tuple[tuple[Scope, str], Any]) -> tuple[str, str, str]:
    (scope, key), _ = item
    return scope.tenant, scope.path, key


def _by_scope_and_namespace(place: Shelf) -> tuple[str, str]:
    return place.scope.path, place.namespace or ""


def _expiry(revision: Revision) -> datetime:
    assert revision.expires_at is not None
    return revision.expires_at


def _drop(table: dict[Any, Any], doomed: Callable[[Any], bool]) -> int:
    places = [place for place in table if doomed(place)]
    for place in places:
        del table[place]
    return len(places)
