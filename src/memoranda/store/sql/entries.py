"""The store contract on named SQL statements: collections and their entries.

Sequences of entries, and the numbers that mark a shelf as changed, come from one counter. So a mark is greater than
every sequence and every mark before it, even where everything was erased.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, TypeVar

import msgspec

from memoranda.errors import LimitExceeded
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.entry import Collection, Entry, Indexed, NewEntry, Shelf, ShelfState
from memoranda.model.scope import Scope
from memoranda.model.trust import RANK_OF, TRUSTED, Origin
from memoranda.model.value import decode
from memoranda.store.base import EntryQuery, PlainRow, Portion
from memoranda.store.sql.rows import (
    FIRST_PAGE,
    Row,
    Rows,
    Statements,
    micros,
    origin_of,
    page_size,
    scope_range,
    scopes_under,
)

T = TypeVar("T")

SLOTS = 256
"""Embedders whose vectors one collection can have at a time; SQLite's statements multiply sequences by it."""

MOST_REMOVALS = 10_000
"""Removals that are listed for a shelf, at least; an index that missed more compares all entries."""
_TRIM_AFTER = 1_000

LONG_PAGE = 1024
"""Rows of one page of what an index needs; each has about a kilobyte."""

_VECTOR_PAGE = 8_192
"""Vectors that are read at once by their sequences."""

_ENTRY_PAGE = 256
"""Entries of one page with their contents; each has up to 80 kilobytes."""


_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode

_ENTRIES = Statements(
    EntryQuery,
    {
        "list_entries": ({"tenant", "sequences"}, set()),
        "get_entry": ({"tenant", "id"}, set()),
        "list_expired_entries": ({"tenant", "expired_by", "limit"}, set()),
        "list_without_vector": ({"tenant", "collection", "without_vector_of", "limit"}, {"after"}),
        "list_entries_of_key": ({"shelf", "key"}, set()),
        "list_entries_alike": ({"shelf", "digest"}, set()),
        "list_chain": ({"shelf", "chain"}, set()),
        "list_ended": ({"shelf", "digest", "ended_since", "limit"}, set()),
        "list_live_below": ({"below"}, set()),
    },
)
_INDEX_ROWS = Statements(
    EntryQuery,
    {
        "list_live": ({"shelf"}, {"after"}),
        "list_active": ({"shelf", "active_at"}, set()),
        "page_indexed_entries": ({"tenant", "collection", "limit"}, {"after"}),
    },
)


class Counted(Iterator[T]):
    """An iterator with a `operator.length_hint`, so that its user can allocate memory once."""

    def __init__(self, items: Iterator[T], count: int) -> None:
        """Wrap an iterator of about `count` items."""
        self._items = items
        self._count = count

    def __iter__(self) -> Iterator[T]:
        """Return the wrapped iterator: a call of `__next__` below would cost as much as an item."""
        return self._items

    def __next__(self) -> T:
        """Return the next item."""
        return next(self._items)

    def __length_hint__(self) -> int:
        """Return the number of items at the start."""
        return self._count


class EntryRows(Rows):
    """A transaction on one connection, complete with collections and entries."""

    # what a backend implements

    @abstractmethod
    def _insert_entries(self, rows: Sequence[tuple[Any, ...]]) -> list[int]:
        """Run `add_entry` for each of these rows; return the sequences that the entries were given."""

    @abstractmethod
    def _insert_vectors(
        self,
        tenant: str,
        slot: int,
        sequences: Sequence[int],
        entries: Sequence[NewEntry],
        index: int,
        expires_at: int | None,
    ) -> None:
        """Keep the vectors that the embedder of a slot made of new entries: of each the one with this index."""

    @abstractmethod
    def _take_number(self) -> int:
        """Return the next number of the counter that entries and removals share."""

    # reading

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return the state of a shelf."""
        place = shelf.scope.tenant, shelf.scope.path, shelf.collection
        if shelf.namespace is None:
            row = self._row("get_namespaces_state", *place)
        else:
            row = self._row("get_shelf_state", *place, shelf.namespace)
        return ShelfState() if row is None or row[0] is None else ShelfState(*row)

    def shelf_states(self, scope: Scope, *, below: bool = False) -> list[tuple[Shelf, ShelfState]]:
        """Return the shelves of a scope with their states."""
        ranges = scopes_under(scope.path) if below else [scope_range(scope.path)]
        rows = [row for each in ranges for row in self._all("list_shelf_states", scope.tenant, *each)]
        return [
            (Shelf(self._scope(scope.tenant, path), collection, namespace), ShelfState(newest, removed))
            for path, collection, namespace, newest, removed in rows
        ]

    def shelves(self, tenant: str, collection: str) -> list[tuple[Shelf, int]]:
        """Return the shelves of a collection, with their number of live entries."""
        rows = self._all("list_shelves", tenant, collection)
        return [(Shelf(self._scope(tenant, path), collection, namespace), count) for path, namespace, count in rows]

    def entries(self, query: EntryQuery) -> Iterator[Entry]:
        """Return the entries that a query asks for."""
        statement = _ENTRIES.choose(query)
        tenant, shelf = query.tenant, query.shelf
        if query.below is not None:
            tenant, ranges = query.below.tenant, scopes_under(query.below.path)
            live = [row for each in ranges for row in self._all(statement, tenant, *each)]
            return self._look_up_entries(tenant, sorted(sequence for (sequence,) in live), self._work)
        if shelf is not None:
            sought: tuple[Any, ...] = (next(one for one in (query.key, query.chain, query.digest) if one is not None),)
            if query.ended_since is not None:
                sought = to_micros(query.ended_since), query.digest, query.limit
            found = self._on_shelf(statement, shelf, *sought)
            if not found:  # mostly: an entry is new
                return iter(())
            return iter(sorted(self._entries_of(shelf.scope.tenant, found), key=_sequence))
        if query.sequences is not None:
            found = self._all(statement, tenant, self._array(query.sequences))
        elif query.id is not None:
            found = self._all(statement, tenant, query.id)
        elif query.expired_by is not None:
            found = self._all(statement, tenant, to_micros(query.expired_by), query.limit)
        else:
            slot = self._value("get_slot", tenant, query.collection, query.without_vector_of)
            missing = self._all(statement, tenant, query.collection, slot, query.after, query.limit)
            found = self._all("list_entries", tenant, self._array([sequence for (sequence,) in missing]))
            return iter(sorted(self._entries_of(tenant, found), key=_sequence))
        return self._entries_of(tenant, found)

    def live_sequences(self, shelf: Shelf) -> list[int]:
        """Return the sequences of the live entries of a shelf."""
        return sorted(sequence for (sequence,) in self._on_shelf("list_live", shelf, 0))

    def removed_since(self, shelf: Shelf, mark: int) -> list[int] | None:
        """Return the sequences of the entries that ended or were removed since a shelf had a mark, if that is known."""
        tenant, found = shelf.scope.tenant, list[int]()
        marks = self._all("list_marks", tenant, shelf.scope.path, shelf.collection)
        marks = [(number, last) for number, namespace, last in marks if shelf.namespace in (None, namespace)]
        for number, last in marks:
            seen = min(mark, last)
            for at, before, sequence in self._all("list_removals", tenant, number, mark):
                if before > seen:
                    return None  # something in between was not listed, or is not any longer
                seen = at
                found.append(sequence)
            if seen != last:
                return None
        return found if marks else None

    def shelf_sizes(self, shelf: Shelf) -> dict[str, int]:
        """Return the number of live entries of a shelf, by namespace."""
        rows = self._all("list_sizes", shelf.scope.tenant, shelf.scope.path, shelf.collection)
        return {namespace: count for namespace, count in rows if count and shelf.namespace in (None, namespace)}

    def portions(self, shelf: Shelf, *, gone: bool = True) -> list[Portion]:
        """Return no portions: a database that does not keep them has none."""
        return []

    def parts(self, shelf: Shelf, firsts: Sequence[int], names: Sequence[str]) -> list[tuple[int, str, bytes]]:
        """Return nothing."""
        return []

    def vectors(self, shelf: Shelf, sequences: Sequence[int], embedder: str) -> list[tuple[int, bytes]]:
        """Return the vectors of entries."""
        tenant = shelf.scope.tenant
        slot = self._value("get_slot", tenant, shelf.collection, embedder)
        if slot is None:
            return []
        return [
            row
            for page in _pages(sorted(sequences), _VECTOR_PAGE)
            for row in self._all("list_vectors", tenant, self._array(page), slot)
        ]

    def known(self, shelf: Shelf, *, keys: Sequence[str] = (), digests: Sequence[bytes] = ()) -> set[str | bytes]:
        """Return those of these keys and digests that live entries have."""
        found = self._on_shelf("list_keys", shelf, self._array(keys)) if keys else []
        found += self._on_shelf("list_digests", shelf, self._array(digests)) if digests else []
        return {value for (value,) in found}

    def index_rows(self, query: EntryQuery, embedder: str) -> Iterator[Indexed]:
        """Return what an index needs of entries."""
        statement = _INDEX_ROWS.choose(query)
        shelf = query.shelf
        if shelf is None:
            slot = self._value("get_slot", query.tenant, query.collection, embedder)
            place = query.tenant, query.collection, query.after
            found = [] if slot is None else self._all(statement, *place, slot, query.limit)
            return (Indexed(*row) for row in found)
        tenant, after = shelf.scope.tenant, query.after
        if query.active_at is None and shelf.namespace is not None:
            count = sum(self._value("count_live", tenant, number, after) for number, _ in self._numbers(shelf))
            return Counted(self._page_indexed(shelf, shelf.namespace, embedder, after, self._work), count)
        bound = after if query.active_at is None else to_micros(query.active_at)
        places = [
            (sequence, namespace)
            for number, namespace in self._numbers(shelf)
            for (sequence,) in self._all(statement, tenant, number, bound)
        ]
        return Counted(self._look_up_indexed(shelf, embedder, places, self._work), len(places))

    def vector_counts(self, tenant: str, collection: str) -> dict[str, int]:
        """Return how many entries of a collection have a vector, by embedder."""
        return dict(self._all("list_vector_counts", tenant, collection))

    # writing

    def put(self, row: PlainRow) -> None:
        """Keep a row; another embedder of a collection changes the state of its shelves."""
        before = self.get(Collection, row.tenant, row.name) if isinstance(row, Collection) else None
        super().put(row)
        if before is not None and isinstance(row, Collection) and before.space.embedder != row.space.embedder:
            if self._all("list_shelves_of", row.tenant, row.name):
                self._run("mark_collection", row.tenant, row.name, self._take_number())

    def remove(self, kind: type[PlainRow], *key: Any) -> int:
        """Remove a row, a collection with its entries."""
        super().remove(kind, *key)
        if kind is not Collection:
            return 0
        self._known.clear()
        self._run("remove_collection_texts", *key)
        self._run("remove_collection_vectors", *key)
        entries = self._count("remove_collection_entries", *key)
        self._run("remove_collection_removals", *key)
        self._run("remove_collection_shelves", *key)
        self._run("remove_collection_spaces", *key)
        return entries

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
        """Keep new entries with their vectors."""
        tenant, number = shelf.scope.tenant, self._shelf_number(shelf)
        who = origin.actor, origin.door, origin.source, origin.kind, RANK_OF[origin.trust]
        shared = to_micros(created_at), micros(expires_at), *who
        sequences = self._insert_entries(
            [(tenant, number, e.id, e.key, *shared, e.digest, e.analysis, e.metadata, e.payload) for e in entries]
        )
        for index, embedder in enumerate(embedders):
            slot = self._slot_for(tenant, shelf.collection, embedder)
            self._insert_vectors(tenant, slot, sequences, entries, index, shared[1])
        self._count_entries(tenant, number, sequences)
        return sequences

    def put_vector(self, tenant: str, sequence: int, embedder: str, vector: bytes) -> None:
        """Keep the vector of an entry."""
        if self._count("put_vector", tenant, sequence, embedder, vector):
            return
        for entry in self.entries(
            EntryQuery(tenant=tenant, sequences=[sequence])
        ):  # it exists: the embedder needs a slot
            self._add_space(tenant, entry.collection, embedder)
            self._run("put_vector", tenant, sequence, embedder, vector)

    def remove_vectors(self, tenant: str, collection: str, embedder: str) -> int:
        """Remove the vectors that an embedder made of a collection's entries."""
        slot = self._value("get_slot", tenant, collection, embedder)
        if slot is None:
            return 0
        self._known.clear()
        removed = self._count("remove_vectors", tenant, collection, slot)
        self._run("remove_space", tenant, collection, embedder)
        return removed

    def end_entry(self, tenant: str, sequence: int, at: datetime) -> None:
        """End an entry."""
        number = self._value("end_entry", tenant, sequence, to_micros(at))
        if number is not None:
            self._mark_removal(tenant, number, sequence, ended=1)

    def remove_entry(self, tenant: str, sequence: int) -> None:
        """Remove an entry with its vectors and its ledger text."""
        row = self._row("remove_entry", tenant, sequence)
        if row is not None:
            number, live = row
            self._run("remove_entry_vectors", tenant, sequence)
            self._run("forget_entry_texts", tenant, sequence, number)
            self._mark_removal(tenant, number, sequence, ended=int(live))

    def add_portion(self, shelf: Shelf, portion: Portion, parts: Mapping[str, bytes]) -> bool:
        """Keep nothing."""
        return False

    def note_gone(self, shelf: Shelf, portion: Portion) -> None:
        """Do nothing: there are none."""

    def remove_portions(self, shelf: Shelf, sequence: int | None = None) -> None:
        """Do nothing: there are none."""

    def remove_below(self, scope: Scope, *, keep_records: bool = False) -> dict[str, int]:
        """Remove everything at and below a scope, with its entries."""
        counts = super().remove_below(scope, keep_records=keep_records)
        erased = 0
        for each in scopes_under(scope.path):
            self._run("erase_vectors", scope.tenant, *each)
            erased += self._count("erase_entries", scope.tenant, *each)
            self._run("erase_removals", scope.tenant, *each)
            self._run("erase_shelves", scope.tenant, *each)
        return {**counts, "entries": erased}

    def _mark_removal(self, tenant: str, number: int, sequence: int, *, ended: int) -> None:
        """Give a shelf another mark for an entry that ended or was removed, and list that entry."""
        mark = self._take_number()
        self._run("add_removal", tenant, number, mark, sequence)
        self._run("mark_shelf", tenant, number, mark, ended)
        if mark % _TRIM_AFTER == 0:
            self._run("trim_removals", tenant, number, MOST_REMOVALS)

    # decoding

    def _entries_of(self, tenant: str, rows: Iterable[Row]) -> Iterator[Entry]:
        """Yield the entries of rows that start with their scope."""
        scope: Scope | None = None
        for row in rows:
            path, collection, namespace, sequence, id, key, created_at, expires_at, ended_at = row[:9]
            metadata, payload = row[14:]
            if scope is None or path != scope.path:
                scope = self._scope(tenant, path)
            try:
                content = decode(payload)
                fields = _decode_metadata(metadata)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise self._corrupt(f"entry {sequence} in `{scope}`", error, sequence=sequence) from error
            yield Entry(
                id=id,
                scope=scope,
                collection=collection,
                namespace=namespace,
                key=key,
                content=content,
                metadata=fields,
                created_at=from_micros(created_at),
                expires_at=None if expires_at is None else from_micros(expires_at),
                ended_at=None if ended_at is None else from_micros(ended_at),
                origin=origin_of(*row[9:14]),
                sequence=sequence,
            )

    def _index_rows_of(
        self, namespace: str, rows: Iterable[Row], size: int | None, origins: dict[int, Origin]
    ) -> Iterator[Indexed]:
        """Yield what an index needs; `size` is the length of a vector in bytes, None if it is not known."""
        for sequence, metadata, expires_at, analysis, vector in rows:
            if len(vector) != size and (size is not None or len(vector) % 4):
                why = ValueError(f"it has {len(vector)} bytes")
                raise self._corrupt(f"the vector of entry {sequence}", why, sequence=sequence)
            origin = origins.get(sequence, TRUSTED) if origins else TRUSTED
            yield Indexed(sequence, namespace, metadata, expires_at, analysis, vector, origin)

    def _origins_for_index(self, tenant: str, number: int, after: int) -> dict[int, Origin]:
        """Return the origins on a shelf that have a source or are not fully trusted, by the sequences of entries."""
        found = self._all("list_told_origins", tenant, number, after)
        return {sequence: origin_of(*columns) for sequence, *columns in found}

    # helpers

    def _numbers(self, shelf: Shelf) -> list[tuple[int, str]]:
        """Return the numbers and namespaces of a shelf: at most one, or those of every namespace."""
        place = shelf.scope.tenant, shelf.scope.path, shelf.collection
        if shelf.namespace is None:
            return [(number, namespace) for number, namespace in self._all("list_namespaces", *place)]
        number = self._known.get(shelf)
        if number is None:
            row = self._row("get_shelf", *place, shelf.namespace)
            if row is None:
                return []
            number = self._cache(shelf, row[0])
        return [(number, shelf.namespace)]

    def _shelf_number(self, shelf: Shelf) -> int:
        """Return the number of the shelf of one namespace, adding the shelf if there is none."""
        for number, _ in self._numbers(shelf):
            return number
        added = self._value("add_shelf", shelf.scope.tenant, shelf.scope.path, shelf.collection, shelf.namespace)
        return self._cache(shelf, added)

    def _count_entries(self, tenant: str, number: int, sequences: Sequence[int]) -> None:
        """Count new entries on their shelf."""
        self._run("fill_shelf", tenant, number, sequences[-1], sequences[0], len(sequences))

    def _on_shelf(self, name: str, shelf: Shelf, *values: Any) -> list[Row]:
        tenant = shelf.scope.tenant
        return [row for number, _ in self._numbers(shelf) for row in self._all(name, tenant, number, *values)]

    def _slot_for(self, tenant: str, collection: str, embedder: str) -> int:
        """Return the slot of an embedder in a collection, adding one if it has none."""
        space = tenant, collection, embedder
        slot = self._known.get(("slot", *space))
        if slot is None:
            slot = self._value("get_slot", *space)
            slot = self._cache(("slot", *space), self._add_space(*space) if slot is None else slot)
        return slot

    def _add_space(self, tenant: str, collection: str, embedder: str) -> int:
        used = {slot for (slot,) in self._all("list_slots", tenant, collection)}
        free = next((slot for slot in range(SLOTS) if slot not in used), None)
        if free is None:
            raise LimitExceeded(
                f"the collection `{collection}` keeps vectors of {SLOTS} embedders already",
                hint="Remove the vectors of those it no longer uses",
                limit=SLOTS,
                actual=SLOTS + 1,
            )
        self._run("add_space", tenant, collection, embedder, free)
        return free

    def _vector_size(self, shelf: Shelf, embedder: str) -> int | None:
        """Return the length of an embedder's vectors in bytes, None if the collection does not know the embedder."""
        collection = self.get(Collection, shelf.scope.tenant, shelf.collection)
        spaces = () if collection is None else (collection.space, collection.successor)
        return next((4 * space.dimension for space in spaces if space and space.embedder == embedder), None)

    def _page_indexed(self, shelf: Shelf, namespace: str, embedder: str, after: int, work: int) -> Iterator[Indexed]:
        self._check_work(work)
        tenant, size = shelf.scope.tenant, self._vector_size(shelf, embedder)
        slot = self._value("get_slot", tenant, shelf.collection, embedder)
        for number, _ in self._numbers(shelf) if slot is not None else ():
            origins = self._origins_for_index(tenant, number, after)
            while True:
                self._check_work(work)
                page = self._all("page_indexed", tenant, number, after, slot, LONG_PAGE)
                yield from self._index_rows_of(namespace, page, size, origins)
                if len(page) < LONG_PAGE:
                    break
                after = page[-1][0]

    def _look_up_indexed(
        self, shelf: Shelf, embedder: str, places: list[tuple[int, str]], work: int
    ) -> Iterator[Indexed]:
        self._check_work(work)
        tenant, size = shelf.scope.tenant, self._vector_size(shelf, embedder)
        slot = self._value("get_slot", tenant, shelf.collection, embedder)
        places.sort()
        after = places[0][0] - 1 if places else 0
        origins: dict[int, Origin] = {}
        for number, _ in self._numbers(shelf):
            origins |= self._origins_for_index(tenant, number, after)
        for page in _pages(places, LONG_PAGE) if slot is not None else ():
            self._check_work(work)
            found = self._all("list_indexed", tenant, self._array([sequence for sequence, _ in page]), slot)
            rows = {row[0]: row for row in found}
            for namespace, of_it in groupby(page, key=_namespace):
                known = [rows[sequence] for sequence, _ in of_it if sequence in rows]
                yield from self._index_rows_of(namespace, known, size, origins)

    def _look_up_entries(self, tenant: str, sequences: list[int], work: int) -> Iterator[Entry]:
        begin, size = 0, FIRST_PAGE
        while begin < len(sequences):
            self._check_work(work)
            page = self._all("list_entries", tenant, self._array(sequences[begin : begin + size]))
            yield from sorted(self._entries_of(tenant, page), key=_sequence)
            begin += size
            size = page_size(page, _ENTRY_PAGE) if page else size


def _pages(items: list[T], size: int) -> Iterator[list[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _namespace(place: tuple[int, str]) -> str:
    return place[1]


def _sequence(entry: Entry) -> int:
    return entry.sequence
