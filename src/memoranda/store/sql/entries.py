"""The store contract on named SQL statements: collections and their entries.

Sequences of entries, and the numbers that mark a shelf as changed, come from one counter. So a mark is greater than
every sequence and every mark before it, even where everything was erased.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from memoranda.errors import LimitExceeded
from memoranda.model.clock import to_micros
from memoranda.model.entry import Collection, Entry, Indexed, NewEntry, Shelf, ShelfState
from memoranda.model.fact import Origin
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.sql.decoder import Row
from memoranda.store.sql.rows import FIRST_PAGE, Rows, cache, micros, page_size, scopes_under

T = TypeVar("T")

SLOTS = 256
"""Embedders whose vectors one collection can have at a time; SQLite's statements multiply sequences by it."""

LONG_PAGE = 1024
"""Rows of one page of what an index needs; each has about a kilobyte."""

_ENTRY_PAGE = 256
"""Entries of one page with their contents; each has up to 80 kilobytes."""


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

    def __init__(self, url: str) -> None:
        """Start with empty caches; `url` is for errors."""
        super().__init__(url)
        self._shelf_numbers: dict[Shelf, int] = {}
        self._collections: dict[tuple[str, str], Collection] = {}
        self._slots: dict[tuple[str, str, str], int] = {}

    def clear_caches(self) -> None:
        """Forget what was read: another connection has written since, or what was written here was undone."""
        super().clear_caches()
        self._shelf_numbers.clear()
        self._collections.clear()
        self._slots.clear()

    # what a backend implements

    @abstractmethod
    def _insert_entries(self, rows: Sequence[tuple[Any, ...]]) -> list[int]:
        """Run `add_entry` for each of these rows; return the sequences that the entries were given."""

    @abstractmethod
    def _take_number(self) -> int:
        """Return the next number of the counter that entries and removals share."""

    # reading

    def collections(self, tenant: str) -> list[Collection]:
        """Return the tenant's collections."""
        return [self._decoder.collection(tenant, row) for row in self._all("list_collections", tenant)]

    def collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection."""
        known = self._collections.get((tenant, name))
        if known is None:
            known = self.find_collection(tenant, name)
            if known is not None:
                cache(self._collections, (tenant, name), known)
        return known

    def find_collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection without caching it, for use outside a transaction."""
        row = self._row("get_collection", tenant, name)
        return None if row is None else self._decoder.collection(tenant, row)

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return the state of a shelf."""
        place = shelf.scope.tenant, shelf.scope.path, shelf.collection
        if shelf.namespace is None:
            row = self._row("get_namespaces_state", *place)
        else:
            row = self._row("get_shelf_state", *place, shelf.namespace)
        return ShelfState() if row is None or row[0] is None else ShelfState(*row)

    def shelves(self, tenant: str, collection: str) -> list[tuple[Shelf, int]]:
        """Return the shelves of a collection, with their number of live entries."""
        rows = self._all("list_shelves", tenant, collection)
        return [
            (Shelf(self._decoder.scope(tenant, path), collection, namespace), count) for path, namespace, count in rows
        ]

    def indexed(self, shelf: Shelf, embedder: str, *, after: int = 0) -> Iterator[Indexed]:
        """Yield what an index needs of the live entries of a shelf."""
        tenant = shelf.scope.tenant
        if shelf.namespace is not None:
            count = sum(self._value("count_live", tenant, number, after) for number, _ in self._numbers(shelf))
            return Counted(self._page_indexed(shelf, shelf.namespace, embedder, after, self._work), count)
        live = [
            (sequence, namespace)
            for number, namespace in self._numbers(shelf)
            for (sequence,) in self._all("list_live", tenant, number, after)
        ]
        return Counted(self._look_up_indexed(shelf, embedder, live, self._work), len(live))

    def standing(self, shelf: Shelf) -> list[int]:
        """Return the sequences of the live entries of a shelf."""
        return sorted(sequence for (sequence,) in self._on_shelf("list_live", shelf, 0))

    def entries(self, tenant: str, sequences: Sequence[int]) -> list[Entry]:
        """Return the entries of these sequences that are there."""
        return list(self._decoder.entries(tenant, self._all("list_entries", tenant, self._array(sequences))))

    def entry(self, tenant: str, id: str) -> Entry | None:
        """Return one entry by id."""
        return next(self._decoder.entries(tenant, self._all("get_entry", tenant, id)), None)

    def entry_of_key(self, shelf: Shelf, key: str) -> Entry | None:
        """Return the live entry of a key."""
        return max(self._entries_on_shelf("list_entries_of_key", shelf, key), key=_sequence, default=None)

    def entries_alike(self, shelf: Shelf, digest: bytes) -> list[Entry]:
        """Return the live entries of a digest."""
        return sorted(self._entries_on_shelf("list_entries_alike", shelf, digest), key=_sequence)

    def known_digests(self, shelf: Shelf, digests: Sequence[bytes]) -> set[bytes]:
        """Return those of these digests that live entries have."""
        return {digest for (digest,) in self._on_shelf("list_digests", shelf, self._array(digests))}

    def known_keys(self, shelf: Shelf, keys: Sequence[str]) -> set[str]:
        """Return those of these keys that live entries have."""
        return {key for (key,) in self._on_shelf("list_keys", shelf, self._array(keys))}

    def ended_since(self, shelf: Shelf, digest: bytes, moment: datetime) -> bool:
        """Say whether an entry of this digest ended at or after a moment."""
        return bool(self._on_shelf("find_ended", shelf, to_micros(moment), digest))

    def entries_as_of(self, shelf: Shelf, embedder: str, moment: datetime) -> Iterator[Indexed]:
        """Yield what an index needs of the entries that were active at a moment."""
        active = [
            (sequence, namespace)
            for number, namespace in self._numbers(shelf)
            for (sequence,) in self._all("list_active", shelf.scope.tenant, number, to_micros(moment))
        ]
        return Counted(self._look_up_indexed(shelf, embedder, active, self._work), len(active))

    def entries_below(self, scope: Scope) -> Iterator[Entry]:
        """Yield the live entries at and below a scope."""
        ranges = scopes_under(scope.path)
        rows = [row for each in ranges for row in self._all("list_live_below", scope.tenant, *each)]
        return self._look_up_entries(scope.tenant, sorted(sequence for (sequence,) in rows), self._work)

    def expired_entries(self, tenant: str, now: datetime, limit: int) -> list[Entry]:
        """Return expired entries."""
        return list(self._decoder.entries(tenant, self._all("list_expired_entries", tenant, to_micros(now), limit)))

    def vector(self, tenant: str, sequence: int, embedder: str) -> bytes | None:
        """Return the vector that an embedder made of an entry."""
        return self._value("get_vector", tenant, sequence, embedder)

    def without_vector(self, tenant: str, collection: str, embedder: str, limit: int, *, after: int = 0) -> list[Entry]:
        """Return entries of a collection without a vector of an embedder."""
        slot = self._value("get_slot", tenant, collection, embedder)
        missing = self._all("list_without_vector", tenant, collection, slot, after, limit)
        return sorted(self.entries(tenant, [sequence for (sequence,) in missing]), key=_sequence)

    def indexed_entries(
        self, tenant: str, collection: str, embedder: str, limit: int, *, after: int = 0
    ) -> list[tuple[Entry, Indexed]]:
        """Return entries of a collection with what an index gets of them, unchecked."""
        slot = self._value("get_slot", tenant, collection, embedder)
        if slot is None:
            return []
        page = self._all("page_indexed_entries", tenant, collection, after, slot, limit)
        entries = {entry.sequence: entry for entry in self.entries(tenant, [row[0] for row in page])}
        return [(entries[row[0]], Indexed(row[0], entries[row[0]].namespace, *row[1:])) for row in page]

    def vector_counts(self, tenant: str, collection: str) -> dict[str, int]:
        """Return how many entries of a collection have a vector, by embedder."""
        return dict(self._all("list_vector_counts", tenant, collection))

    # writing

    def put_collection(self, collection: Collection) -> None:
        """Keep a collection; another embedder changes the state of its shelves."""
        tenant, name = collection.tenant, collection.name
        before = self.collection(tenant, name)
        self._collections.clear()
        space, successor = encode(collection.space), collection.successor
        self._run(
            "put_collection",
            tenant,
            name,
            to_micros(collection.created_at),
            space,
            None if successor is None else encode(successor),
        )
        switched = before is not None and before.space.embedder != collection.space.embedder
        if switched and self._all("list_shelves_of", tenant, name):
            self._run("mark_collection", tenant, name, self._take_number())

    def remove_collection(self, tenant: str, name: str) -> int:
        """Remove a collection with its entries."""
        self._shelf_numbers.clear()
        self._collections.clear()
        self._slots.clear()
        self._run("remove_collection", tenant, name)
        self._run("remove_collection_texts", tenant, name)
        self._run("remove_collection_vectors", tenant, name)
        entries = self._count("remove_collection_entries", tenant, name)
        self._run("remove_collection_shelves", tenant, name)
        self._run("remove_collection_spaces", tenant, name)
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
        shared = to_micros(created_at), micros(expires_at), origin.actor, origin.door, origin.source
        sequences = self._insert_entries(
            [(tenant, number, e.id, e.key, *shared, e.digest, e.analysis, e.metadata, e.payload) for e in entries]
        )
        for index, embedder in enumerate(embedders):
            slot = self._slot_for(tenant, shelf.collection, embedder)
            vectors = [
                (tenant, sequence, slot, e.vectors[index]) for sequence, e in zip(sequences, entries, strict=True)
            ]
            self._run_all("add_vector", vectors)
        self._count_entries(tenant, number, sequences)
        return sequences

    def put_vector(self, tenant: str, sequence: int, embedder: str, vector: bytes) -> None:
        """Keep the vector of an entry."""
        if self._count("put_vector", tenant, sequence, embedder, vector):
            return
        for entry in self.entries(tenant, [sequence]):  # the entry exists: the embedder needs a slot
            self._add_space(tenant, entry.collection, embedder)
            self._run("put_vector", tenant, sequence, embedder, vector)

    def remove_vectors(self, tenant: str, collection: str, embedder: str) -> int:
        """Remove the vectors that an embedder made of a collection's entries."""
        slot = self._value("get_slot", tenant, collection, embedder)
        if slot is None:
            return 0
        self._slots.clear()
        removed = self._count("remove_vectors", tenant, collection, slot)
        self._run("remove_space", tenant, collection, embedder)
        return removed

    def end_entry(self, tenant: str, sequence: int, at: datetime) -> None:
        """End an entry."""
        number = self._value("end_entry", tenant, sequence, to_micros(at))
        if number is not None:
            self._run("mark_shelf", tenant, number, self._take_number(), 1)

    def remove_entry(self, tenant: str, sequence: int) -> None:
        """Remove an entry with its vectors and its ledger text."""
        row = self._row("remove_entry", tenant, sequence)
        if row is not None:
            number, live = row
            self._run("remove_entry_vectors", tenant, sequence)
            self._run("forget_entry_texts", tenant, sequence, number)
            self._run("mark_shelf", tenant, number, self._take_number(), int(live))

    # helpers

    def _erase(self, scope: Scope, kinds: Iterable[str]) -> dict[str, int]:
        counts = super()._erase(scope, kinds)
        self._shelf_numbers.clear()
        erased = 0
        for each in scopes_under(scope.path):
            self._run("erase_vectors", scope.tenant, *each)
            erased += self._count("erase_entries", scope.tenant, *each)
            self._run("erase_shelves", scope.tenant, *each)
        return {**counts, "entries": erased}

    def _numbers(self, shelf: Shelf) -> list[tuple[int, str]]:
        """Return the numbers and namespaces of a shelf: at most one, or those of every namespace."""
        place = shelf.scope.tenant, shelf.scope.path, shelf.collection
        if shelf.namespace is None:
            return [(number, namespace) for number, namespace in self._all("list_namespaces", *place)]
        number = self._shelf_numbers.get(shelf)
        if number is None:
            row = self._row("get_shelf", *place, shelf.namespace)
            if row is None:
                return []
            number = cache(self._shelf_numbers, shelf, row[0])
        return [(number, shelf.namespace)]

    def _shelf_number(self, shelf: Shelf) -> int:
        """Return the number of the shelf of one namespace, adding the shelf if there is none."""
        for number, _ in self._numbers(shelf):
            return number
        added = self._value("add_shelf", shelf.scope.tenant, shelf.scope.path, shelf.collection, shelf.namespace)
        return cache(self._shelf_numbers, shelf, added)

    def _count_entries(self, tenant: str, number: int, sequences: Sequence[int]) -> None:
        """Count new entries on their shelf."""
        self._run("fill_shelf", tenant, number, sequences[-1], sequences[0], len(sequences))

    def _on_shelf(self, name: str, shelf: Shelf, *values: Any) -> list[Row]:
        tenant = shelf.scope.tenant
        return [row for number, _ in self._numbers(shelf) for row in self._all(name, tenant, number, *values)]

    def _entries_on_shelf(self, name: str, shelf: Shelf, sought: str | bytes) -> Iterable[Entry]:
        found = self._on_shelf(name, shelf, sought)
        return self._decoder.entries(shelf.scope.tenant, found) if found else ()  # mostly none: an entry is new

    def _slot_for(self, tenant: str, collection: str, embedder: str) -> int:
        """Return the slot of an embedder in a collection, adding one if it has none."""
        space = tenant, collection, embedder
        slot = self._slots.get(space)
        if slot is None:
            slot = self._value("get_slot", *space)
            slot = cache(self._slots, space, self._add_space(*space) if slot is None else slot)
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
        collection = self.collection(shelf.scope.tenant, shelf.collection)
        spaces = () if collection is None else (collection.space, collection.successor)
        return next((4 * space.dimension for space in spaces if space and space.embedder == embedder), None)

    def _page_indexed(self, shelf: Shelf, namespace: str, embedder: str, after: int, work: int) -> Iterator[Indexed]:
        self._check_work(work)
        tenant, size = shelf.scope.tenant, self._vector_size(shelf, embedder)
        slot = self._value("get_slot", tenant, shelf.collection, embedder)
        for number, _ in self._numbers(shelf) if slot is not None else ():
            while True:
                self._check_work(work)
                page = self._all("page_indexed", tenant, number, after, slot, LONG_PAGE)
                yield from self._decoder.index_rows(namespace, page, size)
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
        for page in _pages(places, LONG_PAGE) if slot is not None else ():
            self._check_work(work)
            found = self._all("list_indexed", tenant, self._array([sequence for sequence, _ in page]), slot)
            rows = {row[0]: row for row in found}
            for sequence, namespace in page:
                if sequence in rows:
                    yield from self._decoder.index_rows(namespace, [rows[sequence]], size)

    def _look_up_entries(self, tenant: str, sequences: list[int], work: int) -> Iterator[Entry]:
        begin, size = 0, FIRST_PAGE
        while begin < len(sequences):
            self._check_work(work)
            page = self._all("list_entries", tenant, self._array(sequences[begin : begin + size]))
            yield from sorted(self._decoder.entries(tenant, page), key=_sequence)
            begin += size
            size = page_size(page, _ENTRY_PAGE) if page else size


def _pages(items: list[T], size: int) -> Iterator[list[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _sequence(entry: Entry) -> int:
    return entry.sequence
