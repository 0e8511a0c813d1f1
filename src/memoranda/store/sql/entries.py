"""The verbs about collections and entries in, the statements of a store's `entries.sql` on one connection out.

Sequences, and the numbers that mark a shelf as changed, are drawn from one counter. So a mark is above every sequence
and every mark that was ever there before, even where all of it was erased.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from memoranda.errors import LimitExceeded
from memoranda.model.clock import to_micros
from memoranda.model.collection import Collection
from memoranda.model.entry import Entry, Indexed, NewEntry, Shelf, ShelfState
from memoranda.model.fact import Origin
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.sql.ranges import Range, scopes_under
from memoranda.store.sql.statements import FIRST_PAGE, Statements, keep_in_mind, micros, page_size

T = TypeVar("T")

Place = tuple[Any, ...]
"""What names a shelf in a statement."""

SLOTS = 256
"""Embedders whose vectors one collection can keep at a time; SQLite's `entries.sql` multiplies sequences by it."""

LONG_PAGE = 1024
"""Rows of one page of what an index needs; each is about a kilobyte."""

_ENTRIES = 256
"""Entries of one page with their contents, each of 80 kilobytes at most."""


class Counted(Iterator[T]):
    """An iterator that says about how many there will be (`operator.length_hint`), so that room can be made at once."""

    def __init__(self, items: Iterator[T], count: int) -> None:
        """Give out these items, about so many."""
        self._items = items
        self._count = count

    def __iter__(self) -> Iterator[T]:
        """Return the items alone: they are many, and each call of ours would cost as much as one of them."""
        return self._items

    def __next__(self) -> T:
        """Return the next item."""
        return next(self._items)

    def __length_hint__(self) -> int:
        """Return how many there were at the beginning."""
        return self._count


class EntryRows(Statements):
    """The part of a transaction that is about collections and their entries."""

    def __init__(self, url: str) -> None:
        """Know nothing yet."""
        super().__init__(url)
        # The numbers of shelves, as they were read or given here last; an erasure takes them away.
        self._shelf_numbers: dict[Shelf, int] = {}
        # The collections, and the slots of embedders in them, likewise.
        self._collections: dict[tuple[str, str], Collection] = {}
        self._slots: dict[tuple[str, str, str], int] = {}

    def forget(self) -> None:
        """Drop what was kept in mind: another connection has written since, or what was written here was undone."""
        self._shelf_numbers.clear()
        self._collections.clear()
        self._slots.clear()

    # reading

    def collections(self, tenant: str) -> list[Collection]:
        """Return the tenant's collections."""
        return [self._decoding.collection(tenant, row) for row in self._all("list_collections", tenant)]

    def collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection."""
        known = self._collections.get((tenant, name))
        if known is None:
            known = self.find_collection(tenant, name)
            if known is not None:
                keep_in_mind(self._collections, (tenant, name), known)
        return known

    def find_collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection, and keep nothing in mind of it: for who asks outside of a read."""
        row = self._row("get_collection", tenant, name)
        return None if row is None else self._decoding.collection(tenant, row)

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return what tells this state of a shelf from any other."""
        place = shelf.scope.tenant, shelf.scope.path, shelf.collection
        if shelf.namespace is None:
            row = self._row("get_namespaces_state", *place)
        else:
            row = self._row("get_shelf_state", *place, shelf.namespace)
        return ShelfState() if row is None or row[0] is None else ShelfState(*row)

    def shelves(self, tenant: str, collection: str) -> list[tuple[Shelf, int]]:
        """Return where in a collection entries stand, and how many."""
        rows = self._all("list_shelves", tenant, collection)
        return [
            (Shelf(self._decoding.scope(tenant, path), collection, namespace), count) for path, namespace, count in rows
        ]

    def indexed(self, shelf: Shelf, embedder: str, *, after: int = 0) -> Iterator[Indexed]:
        """Yield what an index needs of the entries that stand on a shelf."""
        if shelf.namespace is not None:
            count = sum(self._number("count_standing", *place, after) for place, _ in self._places(shelf))
            return Counted(self._page_indexed(shelf, shelf.namespace, embedder, after, self._turn), count)
        standing = [
            (sequence, namespace)
            for place, namespace in self._places(shelf)
            for (sequence,) in self._all("list_standing", *place, after)
        ]
        return Counted(self._look_up_indexed(shelf, embedder, standing, self._turn), len(standing))

    def standing(self, shelf: Shelf) -> list[int]:
        """Return the sequences of the entries that stand on a shelf."""
        return sorted(
            sequence for place, _ in self._places(shelf) for (sequence,) in self._all("list_standing", *place, 0)
        )

    def entries(self, tenant: str, sequences: Sequence[int]) -> list[Entry]:
        """Return the entries of these sequences that are there."""
        return list(self._decoding.entries(tenant, self._all("list_entries", tenant, self._listed(sequences))))

    def entry(self, tenant: str, id: str) -> Entry | None:
        """Return one entry by id."""
        return next(self._decoding.entries(tenant, self._all("get_entry", tenant, id)), None)

    def entry_of_key(self, shelf: Shelf, key: str) -> Entry | None:
        """Return the entry that stands under a key."""
        return max(self._on_shelf("list_entries_of_key", shelf, key), key=_sequence, default=None)

    def entries_alike(self, shelf: Shelf, digest: bytes) -> list[Entry]:
        """Return the entries with this digest that stand on a shelf."""
        return sorted(self._on_shelf("list_entries_alike", shelf, digest), key=_sequence)

    def known_digests(self, shelf: Shelf, digests: Sequence[bytes]) -> set[bytes]:
        """Return those of these digests under which entries stand."""
        listed = self._listed_bytes(digests)
        return {digest for place, _ in self._places(shelf) for (digest,) in self._all("list_digests", *place, listed)}

    def known_keys(self, shelf: Shelf, keys: Sequence[str]) -> set[str]:
        """Return those of these keys under which entries stand."""
        listed = self._listed_texts(keys)
        return {key for place, _ in self._places(shelf) for (key,) in self._all("list_keys", *place, listed)}

    def ended_since(self, shelf: Shelf, digest: bytes, moment: datetime) -> bool:
        """Say whether an entry with this digest ended at or after a moment."""
        return any(
            self._one("find_ended", *place, to_micros(moment), digest) is not None for place, _ in self._places(shelf)
        )

    def entries_as_of(self, shelf: Shelf, embedder: str, moment: datetime) -> Iterator[Indexed]:
        """Yield what an index needs of the entries that were active at a moment."""
        active = [
            (sequence, namespace)
            for place, namespace in self._places(shelf)
            for (sequence,) in self._all("list_active", *place, to_micros(moment))
        ]
        return Counted(self._look_up_indexed(shelf, embedder, active, self._turn), len(active))

    def entries_below(self, scope: Scope) -> Iterator[Entry]:
        """Yield the entries that stand at and below a scope."""
        ranges = scopes_under(scope.path)
        rows = [row for each in ranges for row in self._all("list_standing_below", scope.tenant, *each)]
        return self._look_up_entries(scope.tenant, sorted(sequence for (sequence,) in rows), self._turn)

    def expired_entries(self, tenant: str, now: datetime, limit: int) -> list[Entry]:
        """Return entries whose time is up."""
        return list(self._decoding.entries(tenant, self._all("list_expired_entries", tenant, to_micros(now), limit)))

    def vector(self, tenant: str, sequence: int, embedder: str) -> bytes | None:
        """Return the vector that an embedder made of an entry."""
        row = self._one("get_vector", tenant, sequence, embedder)
        return None if row is None else row[0]

    def without_vector(self, tenant: str, collection: str, embedder: str, limit: int, *, after: int = 0) -> list[Entry]:
        """Return entries of a collection that have no vector of an embedder, from the first after a sequence."""
        slot = self._slot(tenant, collection, embedder)
        missing = self._all("list_without_vector", tenant, collection, slot, after, limit)
        return sorted(self.entries(tenant, [sequence for (sequence,) in missing]), key=_sequence)

    def indexed_entries(
        self, tenant: str, collection: str, embedder: str, limit: int, *, after: int = 0
    ) -> list[tuple[Entry, Indexed]]:
        """Return entries of a collection with what an index is given of them, unchecked."""
        slot = self._slot(tenant, collection, embedder)
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
        """Keep a collection; one that changes its embedder changes the state of its shelves."""
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
        """Drop a collection with its entries."""
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
        place = self._shelf_place(shelf)
        expiry = micros(expires_at)
        shared = to_micros(created_at), expiry, origin.actor, origin.door, origin.source
        sequences = self._insert_all(
            "add_entry",
            [(*place, e.id, e.key, *shared, e.digest, e.analysis, e.metadata, e.payload) for e in entries],
        )
        tenant = shelf.scope.tenant
        for number, embedder in enumerate(embedders):
            slot = self._slot_for(tenant, shelf.collection, embedder)
            self._add_vectors(tenant, slot, expiry, zip(sequences, entries, strict=True), number)
        self._fill_shelf(place, sequences)
        return sequences

    def put_vector(self, tenant: str, sequence: int, embedder: str, vector: bytes) -> None:
        """Keep the vector of an entry."""
        if self._count("put_vector", tenant, sequence, embedder, vector):
            return
        for entry in self.entries(tenant, [sequence]):  # it is there: what is missing is a slot for the embedder
            self._add_space(tenant, entry.collection, embedder)
            self._run("put_vector", tenant, sequence, embedder, vector)

    def remove_vectors(self, tenant: str, collection: str, embedder: str) -> int:
        """Drop the vectors that an embedder made of a collection's entries."""
        slot = self._slot(tenant, collection, embedder)
        if slot is None:
            return 0
        self._slots.clear()
        removed = self._count("remove_vectors", tenant, collection, slot)
        self._run("remove_space", tenant, collection, embedder)
        return removed

    def end_entry(self, tenant: str, sequence: int, at: datetime) -> None:
        """Let an entry end."""
        row = self._one("end_entry", tenant, sequence, to_micros(at))
        if row is not None:
            self._run("mark_shelf", *self._place(tenant, row[0]), self._take_number(), 1)

    def remove_entry(self, tenant: str, sequence: int) -> None:
        """Drop an entry with all that was made of it."""
        row = self._one("remove_entry", tenant, sequence)
        if row is not None:
            number, stood = row
            self._run("remove_entry_vectors", *self._place(tenant, sequence))
            self._run("forget_entry_texts", tenant, sequence, number)
            self._run("mark_shelf", *self._place(tenant, number), self._take_number(), int(stood))

    def _erase_entries(self, tenant: str, ranges: Iterable[Range]) -> int:
        """Drop the entries in these scopes with all that was made of them; return how many."""
        self._shelf_numbers.clear()
        erased = 0
        for each in ranges:
            self._run("erase_vectors", tenant, *each)
            erased += self._count("erase_entries", tenant, *each)
            self._run("erase_shelves", tenant, *each)
        return erased

    # finding the way

    def _places(self, shelf: Shelf) -> list[tuple[Place, str]]:
        """Return the places and namespaces of a shelf: at most one, or those of every namespace."""
        tenant = shelf.scope.tenant
        where = tenant, shelf.scope.path, shelf.collection
        if shelf.namespace is None:
            found = self._all("list_namespaces", *where)
            return [(self._place(tenant, number), namespace) for number, namespace in found]
        number = self._shelf_numbers.get(shelf)
        if number is None:
            row = self._one("get_shelf", *where, shelf.namespace)
            if row is None:
                return []
            number = keep_in_mind(self._shelf_numbers, shelf, row[0])
        return [(self._place(tenant, number), shelf.namespace)]

    def _shelf_place(self, shelf: Shelf) -> Place:
        """Return the place of the shelf of one namespace, making it where there is none."""
        tenant = shelf.scope.tenant
        number = self._shelf_numbers.get(shelf)
        if number is not None:
            return self._place(tenant, number)
        for place, _ in self._places(shelf):
            return place
        number = self._number("add_shelf", tenant, shelf.scope.path, shelf.collection, shelf.namespace)
        return self._place(tenant, keep_in_mind(self._shelf_numbers, shelf, number))

    @abstractmethod
    def _fill_shelf(self, place: Place, sequences: Sequence[int]) -> None:
        """Count new entries."""

    @abstractmethod
    def _add_vectors(
        self, tenant: str, slot: int, expiry: int | None, added: Iterable[tuple[int, NewEntry]], number: int
    ) -> None:
        """Keep in a slot the vectors of this number of entries that were just added, given with their sequences."""

    def _on_shelf(self, name: str, shelf: Shelf, sought: str | bytes) -> Iterable[Entry]:
        found = [row for place, _ in self._places(shelf) for row in self._all(name, *place, sought)]
        # Mostly nothing is: what is remembered is new.
        return self._decoding.entries(shelf.scope.tenant, found) if found else ()

    def _slot(self, tenant: str, collection: str, embedder: str) -> int | None:
        row = self._one("get_slot", tenant, collection, embedder)
        return None if row is None else row[0]

    def _slot_for(self, tenant: str, collection: str, embedder: str) -> int:
        """Return the slot of an embedder in a collection, giving it one where it has none."""
        space = tenant, collection, embedder
        slot = self._slots.get(space)
        if slot is None:
            slot = self._slot(*space)
            slot = keep_in_mind(self._slots, space, self._add_space(*space) if slot is None else slot)
        return slot

    def _add_space(self, tenant: str, collection: str, embedder: str) -> int:
        taken = {slot for (slot,) in self._all("list_slots", tenant, collection)}
        free = next((slot for slot in range(SLOTS) if slot not in taken), None)
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
        """Return how many bytes a vector of an embedder has in a collection, as far as the collection knows it."""
        collection = self.collection(shelf.scope.tenant, shelf.collection)
        spaces = () if collection is None else (collection.space, collection.successor)
        return next((4 * space.dimension for space in spaces if space and space.embedder == embedder), None)

    def _page_indexed(self, shelf: Shelf, namespace: str, embedder: str, after: int, turn: int) -> Iterator[Indexed]:
        self._check_turn(turn)
        slot, size = self._slot(shelf.scope.tenant, shelf.collection, embedder), self._vector_size(shelf, embedder)
        for place, _ in self._places(shelf) if slot is not None else ():
            while True:
                self._check_turn(turn)
                page = self._all("page_indexed", *place, after, slot, LONG_PAGE)
                yield from self._decoding.indexed(namespace, page, size)
                if len(page) < LONG_PAGE:
                    break
                after = page[-1][0]

    def _look_up_indexed(
        self, shelf: Shelf, embedder: str, places: list[tuple[int, str]], turn: int
    ) -> Iterator[Indexed]:
        self._check_turn(turn)
        slot, size = self._slot(shelf.scope.tenant, shelf.collection, embedder), self._vector_size(shelf, embedder)
        places.sort()
        for page in _pages(places, LONG_PAGE) if slot is not None else ():
            self._check_turn(turn)
            sequences = self._listed(sequence for sequence, _ in page)
            found = self._all("list_indexed", *self._place(shelf.scope.tenant, sequences), slot)
            rows = {row[0]: row for row in found}
            for sequence, namespace in page:
                if sequence in rows:
                    yield from self._decoding.indexed(namespace, [rows[sequence]], size)

    def _look_up_entries(self, tenant: str, sequences: list[int], turn: int) -> Iterator[Entry]:
        begin, size = 0, FIRST_PAGE
        while begin < len(sequences):
            self._check_turn(turn)
            page = self._all("list_entries", tenant, self._listed(sequences[begin : begin + size]))
            yield from sorted(self._decoding.entries(tenant, page), key=_sequence)
            begin += size
            size = page_size(page, _ENTRIES) if page else size


def _pages(items: list[T], size: int) -> Iterator[list[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _sequence(entry: Entry) -> int:
    return entry.sequence
