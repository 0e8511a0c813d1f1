"""The indexes in memory: one for each shelf, brought up to the moment that the caller reads.

An index is derived data. It follows its shelf by sequence number, so it sees what other processes wrote and removed;
it is made from the rows whenever it is missing, and dropped when it was not used for long or its owner is erased.
With it goes a cache of recently recalled entries, which is valid as long as nothing is removed from the shelf.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from memoranda.model.entry import Collection, Entry, Match, Shelf, ShelfState, Space
from memoranda.model.scope import Scope
from memoranda.store.base import EntryQuery, Reader, Store

if TYPE_CHECKING:
    from memoranda.engine.memory_index import MemoryIndex
    from memoranda.engine.portions import PortionBook, StoredShelf
    from memoranda.engine.segments import SegmentBook
    from memoranda.retrieval.index.segment import Contents
    from memoranda.retrieval.index.shelf import ShelfIndex

_AT_ONCE = 1_000_000
"""Microseconds by which the moments of threads that ask together may differ; a clock further behind was set back."""


# A segment is made again once enough has changed, or it was removed; of a million rows every two minutes at most.
_BETWEEN_SEALINGS, _ROWS_OF_A_SEALING = 10.0, 80_000

_MOST_CACHED, _LONGEST_CACHED, _MOST_FIELDS = 512, 1_000, 16
"""Limits of an entry cache: entries, characters of a text, and fields of metadata."""
_BYTES_OF_AN_ENTRY = 1_800
_PLAIN = frozenset({str, int, float, bool, type(None)})

_Place = tuple[Shelf, str]
_NOTHING = ShelfState()


class EntryCache:
    """Recently read entries of a shelf: short texts with flat metadata.

    An entry never changes until it ends or is removed, and then its shelf has a new value of `removed`.
    """

    def __init__(self) -> None:
        """Start without entries."""
        self._removed = 0
        self._entries: dict[int, Entry] = {}
        self._matches: dict[int, Match] = {}
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The approximate size of the entries."""
        return len(self._entries) * _BYTES_OF_AN_ENTRY

    def lookup(self, state: ShelfState, sequences: Sequence[int]) -> list[Entry]:
        """Return the cached entries among these sequences, if the shelf is in this state; do not change them."""
        with self._lock:
            known = self._entries if self._removed == state.removed else {}
            return [entry for sequence in sequences if (entry := known.get(sequence)) is not None]

    def texts(self) -> list[Any]:
        """Return the contents and metadata of the cached entries."""
        with self._lock:
            return [[entry.content, entry.metadata] for entry in self._entries.values()]

    def entries(self, rows: Reader, shelf: Shelf, sequences: Sequence[int]) -> list[Entry]:
        """Return the entries of these sequences on a shelf; do not change them."""
        state = rows.shelf_state(shelf)
        removed, found = state.removed, self.lookup(state, sequences)
        have = {entry.sequence for entry in found}
        missing = sorted(sequence for sequence in sequences if sequence not in have)
        read = list(rows.entries(EntryQuery(tenant=shelf.scope.tenant, sequences=missing)))
        with self._lock:
            if self._removed != removed or len(self._entries) + len(read) > _MOST_CACHED:
                self._removed, self._entries, self._matches = removed, {}, {}
            self._entries.update((entry.sequence, entry) for entry in read if _is_small(entry))
        return found + read

    def match(self, entry: Entry, make: Callable[[], Match]) -> Match:
        """Return an earlier match of an entry, or make one: a copy with another score costs a tenth of a new match."""
        match = self._matches.get(entry.sequence)
        if match is None:
            match = make()
            if entry.sequence in self._entries:
                self._matches[entry.sequence] = match
        return match


class _Held:
    """An index and the state of the shelf that it shows."""

    def __init__(self, place: _Place, index: ShelfIndex, space: Space) -> None:
        self.is_new = True
        """Whether a segment may have it."""
        self.sealed_rows = 0
        """Rows of its segment."""
        self.next_sealing = 0.0
        self.place = place
        self.index = index
        self.space = space
        self.state = _NOTHING
        self.size = 0
        """How many bytes it took when that was last asked."""
        self.lock = threading.Lock()
        self.cache = EntryCache()

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.cache.nbytes


class OpenShelf(msgspec.Struct, frozen=True):
    """What a recall searches: the index of a shelf, the space of its vectors, and cached entries."""

    index: ShelfIndex
    space: Space
    cache: EntryCache


class Changed(Exception):  # a signal to the recall, which no caller sees
    """A portion was removed while it was used, or is damaged: the index has to be loaded again."""

    def __init__(self, damage: str | None = None) -> None:
        """Say what is damaged, if anything is."""
        super().__init__(damage)
        self.damage = damage


class IndexBook:
    """The indexes in memory, up to a number of bytes."""

    def __init__(
        self, most_bytes: int, segments: SegmentBook | None = None, portions: PortionBook | None = None
    ) -> None:
        """Start with none in memory; those of large shelves may be in segments, or in portions of the store."""
        self._most_bytes = most_bytes
        self.segments = segments
        self._portions = portions
        self._stored: OrderedDict[Shelf, StoredShelf] = OrderedDict()
        self._held: OrderedDict[_Place, _Held] = OrderedDict()
        self._current: dict[Shelf, _Held] = {}
        """The index of each shelf in its present space; a collection that moved may have an older one too."""
        self._used: set[_Place] = set()
        """Indexes that were used since sizes were last measured: the others have not grown."""
        self._latest = 0
        """The latest moment of any request."""
        self._subjects: OrderedDict[Scope, MemoryIndex] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, shelf: Shelf, state: ShelfState, *, now: int) -> OpenShelf | None:
        """Return the index of a shelf if it is in memory and in this state; `now` is in microseconds."""
        with self._lock:
            was_set_back = self._is_set_back(now)
            held = self._current.get(shelf)
            if held is None or state == _NOTHING or was_set_back:
                return None
            self._use(held)
        with held.lock:
            # Whatever became of the collection would be another state.
            return OpenShelf(held.index, held.space, held.cache) if held.state == state else None

    def open_stored(self, store: Store, shelf: Shelf, state: ShelfState, *, now: int) -> OpenShelf | None:
        """Return the index of a shelf that is so large that the store keeps it in portions; None for others.

        It is at least as new as this state of the shelf. `now` is in microseconds.
        """
        if self._portions is None or state == _NOTHING or not self._portions.is_large(store, shelf, state):
            return None
        with self._lock:
            held = self._stored.get(shelf)
            if held is None:
                held = self._stored[shelf] = self._portions.new_shelf()
            self._stored.move_to_end(shelf)
        with held.lock:
            if not self._portions.bring_up(store, shelf, held, now=now):
                return None
            index, space = held.index, held.space
            assert index is not None and space is not None, "it was brought up"
        self._let_go_of_stored(held)
        return OpenShelf(index, space, EntryCache())

    def reopen_stored(self, shelf: Shelf, damage: str | None = None) -> None:
        """Load the index of a shelf again when it is next opened; if its portions are damaged, make them again."""
        with self._lock:
            self._stored.pop(shelf, None)
        if damage is not None and self._portions is not None:
            self._portions.drop(shelf, damage)

    def _let_go_of_stored(self, newest: StoredShelf) -> None:
        """Drop the least recently used of these indexes until the rest fits, never the one in use."""
        with self._lock:
            total = sum(held.size for held in self._stored.values())
            for shelf, held in list(self._stored.items()):
                if total <= self._most_bytes:
                    return
                if held is not newest:
                    total -= held.size
                    del self._stored[shelf]

    def open(self, rows: Reader, shelf: Shelf, *, now: int) -> OpenShelf | None:
        """Return the index of a shelf, at least as new as these rows.

        None if the collection does not exist. `now` is in microseconds.
        """
        state = rows.shelf_state(shelf)
        collection = rows.get(Collection, shelf.scope.tenant, shelf.collection)
        with self._lock:
            was_set_back = self._is_set_back(now)
            if collection is None:
                return None
            place, space = (shelf, collection.space.embedder), collection.space
            if state == _NOTHING:
                self._drop(place)  # erased: nothing of it stays in memory
                return OpenShelf(_new_index(space), space, EntryCache())
            held = self._held.get(place)
            if held is None:
                held = self._held[place] = _Held(place, _new_index(space), space)
            self._current[shelf] = held
            self._use(held)
        with held.lock:
            if was_set_back and now < held.index.expired_at:  # what had expired by then has not
                held.index, held.state = _new_index(space), _NOTHING
            elif held.is_new and self.segments is not None:
                self._start_from_segment(held, rows, shelf, state, now)
            held.is_new = False
            # Another thread, which reads a later moment, may have brought it further: it is never turned back.
            if state.newest > held.state.newest or state.removed > held.state.removed:
                _follow(held, rows, shelf, state)
                self._let_go(held)
                self._seal(held, rows, shelf)
            return OpenShelf(held.index, space, held.cache)

    def _start_from_segment(self, held: _Held, rows: Reader, shelf: Shelf, state: ShelfState, now: int) -> None:
        """Take the index of a shelf from a segment, if there is one. The caller holds its lock."""
        from memoranda.engine.segments import Place
        from memoranda.retrieval.index.shelf import ShelfIndex

        assert self.segments is not None
        found = self.segments.find(rows, Place(shelf.scope, shelf), held.space.embedder)
        if found is None:
            return
        about, segment = found
        sealed = about.shelf_states.get(shelf, _NOTHING)
        index = ShelfIndex.load(segment, held.space.dimension)
        if now >= index.expired_at and sealed.newest <= state.newest and sealed.removed <= state.removed:
            held.index, held.state, held.sealed_rows = index, sealed, index.rows

    def _seal(self, held: _Held, rows: Reader, shelf: Shelf) -> None:
        """Let a segment be made of an index that is large and has none, or an old one. The caller holds its lock."""
        if self.segments is None:
            return
        from memoranda.engine import segments
        from memoranda.engine.segments import About, Place

        index, state, space = held.index, held.state, held.space
        if index.rows < segments.WORTH_SEALING or time.monotonic() < held.next_sealing:
            return
        place = Place(shelf.scope, shelf)
        name = self.segments.name(rows, place)
        changed = abs(index.rows - held.sealed_rows) + index.rows - len(index)
        if name is None or (
            held.sealed_rows and changed * segments.WORTH_SEALING_AGAIN < index.rows and self.segments.has(name)
        ):
            return
        about = About.of(rows, shelf.scope, {shelf: state}, space)
        held.next_sealing = time.monotonic() + _BETWEEN_SEALINGS * max(1.0, index.rows / _ROWS_OF_A_SEALING)

        def save() -> Contents | None:
            with held.lock:
                if held.index is not index or held.state != state:
                    held.next_sealing = 0.0
                    return None
                with index.lock:
                    held.sealed_rows = index.rows
                    _ = index.context  # the next process needs it as well
                    return index.save()

        self.segments.seal(place, name, about, save)

    def of_subject(self, root: Scope) -> MemoryIndex:
        """Return the index over everything of a subject, which the caller brings up to date."""
        from memoranda.engine.memory_index import MemoryIndex

        with self._lock:
            index = self._subjects.get(root)
            if index is None:
                index = self._subjects[root] = MemoryIndex(root, self.segments)
            self._subjects.move_to_end(root)
            return index

    def note_growth(self, index: MemoryIndex) -> None:
        """Drop the least recently used indexes of subjects, if all of them take too much, but not this one."""
        size = index.nbytes
        if size == index.size:
            return
        index.size = size
        with self._lock:
            total = sum(one.size for one in self._subjects.values())
            for root, one in list(self._subjects.items()):
                if total <= self._most_bytes:
                    return
                if one is not index:
                    total -= one.size
                    del self._subjects[root]

    def drop(self, scope: Scope, *, collection: str | None = None) -> None:
        """Forget the indexes at and below a scope, of one collection or of all."""

        def goes(shelf: Shelf) -> bool:
            return scope.covers(shelf.scope) and collection in (None, shelf.collection)

        with self._lock:
            for place in [place for place in self._held if goes(place[0])]:
                self._drop(place)
            for shelf in [shelf for shelf in self._stored if goes(shelf)]:
                del self._stored[shelf]
            for root in [root for root in self._subjects if scope.covers(root) or root.covers(scope)]:
                del self._subjects[root]

    def remove_segments(self, tenant: str, path: str | None) -> bool:
        """Remove the segments of a scope's subject, or of a tenant, from this host; return whether they are gone."""
        return self.segments is None or self.segments.remove(tenant, path)

    def close(self) -> None:
        """Finish writing segments."""
        if self.segments is not None:
            self.segments.close()

    def texts(self, scope: Scope) -> Iterator[Any]:
        """Yield the texts at and below a scope that are in memory, without messages, which stay as they were said."""
        with self._lock:
            held = [one for (shelf, _), one in self._held.items() if scope.covers(shelf.scope)]
            subjects = [index for root, index in self._subjects.items() if scope.covers(root) or root.covers(scope)]
        for one in held:
            yield from one.cache.texts()
        for index in subjects:
            for part in list(index.parts.values()):
                items = [one for one in list(part.items.values()) if scope.covers(one.group.scope)]
                yield from ([one.text, one.metadata] for one in items if one.group.kind != "message")

    @property
    def mapped_bytes(self) -> int:
        """Bytes of segments that are mapped: shared by the processes of the host, and not counted in `nbytes`."""
        with self._lock:
            parts = [part.index for subject in self._subjects.values() for part in subject.parts.values()]
            return sum(index.mapped_bytes for index in [held.index for held in self._held.values()] + parts)

    @property
    def nbytes(self) -> int:
        """How many bytes the indexes take."""
        with self._lock:
            shelves = sum(held.nbytes for held in self._held.values())
            shelves += sum(held.size for held in self._stored.values())
            return shelves + sum(index.size for index in self._subjects.values())

    def _is_set_back(self, now: int) -> bool:
        """Return whether the clock was set back. The caller holds the lock."""
        self._latest = max(self._latest, now)
        return now < self._latest - _AT_ONCE

    def _use(self, held: _Held) -> None:
        """Mark an index as used. The caller holds the lock."""
        self._held.move_to_end(held.place)
        self._used.add(held.place)

    def _drop(self, place: _Place) -> None:
        """Drop one index. The caller holds the lock."""
        held = self._held.pop(place, None)
        self._used.discard(place)
        if held is not None and self._current.get(place[0]) is held:
            del self._current[place[0]]

    def _let_go(self, newest: _Held) -> None:
        """Drop the least recently used indexes until the rest fits, never the one in use."""
        with self._lock:
            used = [held for place in self._used if (held := self._held.get(place)) is not None]
            self._used.clear()
        for held in used:  # not under our lock: a thread that ranks by one of them holds that one's lock
            held.size = held.nbytes
        with self._lock:
            size = sum(held.size for held in self._held.values())
            for place, held in list(self._held.items()):
                if size <= self._most_bytes:
                    return
                if held is not newest:
                    size -= held.size
                    self._drop(place)


def _new_index(space: Space) -> ShelfIndex:
    from memoranda.retrieval.index.shelf import ShelfIndex

    return ShelfIndex(space.dimension)


def _is_small(entry: Entry) -> bool:
    """Return whether an entry is worth caching: small, with metadata that a shallow copy protects."""
    content, metadata = entry.content, entry.metadata
    return (
        type(content) is str
        and len(content) <= _LONGEST_CACHED
        and len(metadata) <= _MOST_FIELDS
        and all(type(value) in _PLAIN and len(str(value)) <= _LONGEST_CACHED for value in metadata.values())
    )


def _follow(held: _Held, rows: Reader, shelf: Shelf, state: ShelfState) -> None:
    """Bring an index up to a state of its shelf; start a new one if that fails."""
    before, held.state = held.state, _NOTHING
    index, held.index = held.index, _new_index(held.space)
    gone: set[int] = set()
    listed = rows.removed_since(shelf, before.removed) if before.removed != state.removed else []
    if before != _NOTHING and listed is not None:
        gone.update(listed)
    elif before != _NOTHING:
        known = set(index.sequences().tolist()) | index.lapsed
        standing = set(rows.live_sequences(shelf))
        if any(sequence <= before.newest for sequence in standing - known):
            # Entries got vectors after later ones had theirs, as a collection that moved: begin anew.
            index, before = held.index, held.state
        else:
            gone = known - standing
    new = rows.index_rows(EntryQuery(shelf=shelf, after=before.newest), held.space.embedder)
    with index.lock:  # a thread that ranks by it meanwhile sees either an entry or its replacement
        index.add(new)
        index.remove(gone)
    held.index, held.state = index, state
