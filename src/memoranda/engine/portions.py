"""Indexes of large shelves in the database, in portions, so that a process need not load all of them.

A portion is a run of some thousand entries of one namespace. The process that needs it makes it from the rows, in a
transaction of its own, which ensures that nothing of it was removed meanwhile. What removes memory removes its portion
in the same transaction; it is made again later. What has no portion is indexed in memory: newer entries, and what a
removal left.

Locks are taken before connections, never the other way round: who ranks by an index reads parts of it meanwhile.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from memoranda.engine.indexes import Changed
from memoranda.errors import StorageError
from memoranda.model.entry import Collection, Indexed, Shelf, ShelfState, Space
from memoranda.model.limits import Limits
from memoranda.model.scope import Scope
from memoranda.store.base import EntryQuery, Portion, Reader, Store, Transaction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memoranda.retrieval.index.stored import StoredIndex

T = TypeVar("T")

ROWS = 16_384
"""Entries of a portion. Each word of a portion is a row of the database, so smaller ones would need more of these."""

_UNSTORED = 2
"""Portions are made when this many portions' worth of entries are in none."""
_MOST_UNSTORED = 4
"""With this many portions' worth in none, as while older programs may write, the shelf is searched in memory."""
_BYTES_PER_NUMBER, _BYTES_PER_ENTRY = 5, 280
"""What an index in memory takes for each entry: by the numbers of its vector, and beside them."""
_MOST_CHANGES = 3
_WORTH_NOTING = 2_000
"""What ended is noted in the portions once it is as much."""
_WORTH_MAKING_AGAIN = 8
"""A portion is made again once an eighth of its entries has ended."""
# Portions whose vectors are read at once: what was compared is dropped before the next is read.
_TOGETHER = 1
_MOST_SIZES = 10_000
# Seconds until portions are written again after that failed.
_PAUSE = 60.0


class StoredShelf:
    """The index of a shelf in portions, and the state of the shelf that it shows."""

    def __init__(self) -> None:
        """Start without an index."""
        self.lock = threading.Lock()
        self.index: StoredIndex | None = None
        self.space: Space | None = None
        self.state = ShelfState()
        self.portions: tuple[Portion, ...] = ()
        self.rows = 0
        """Rows of the index when it was loaded; those that came later are in memory."""
        self.removals = 0
        """How many entries ended since the portions have their marks, about."""
        self.size = 0
        """How many bytes it took when it last changed."""

    def note_size(self) -> None:
        """Ask how many bytes it takes, which waits for those who rank by it."""
        self.size = 0 if self.index is None else self.index.nbytes


class _Size(NamedTuple):
    """How many entries a shelf has in a state, and how many it may have to be searched in memory."""

    state: ShelfState
    entries: int
    most: int


class _Range(NamedTuple):
    """Sequences of one namespace that no portion covers, both ends excluded; None if it has no end."""

    namespace: str
    after: int
    before: int | None


class _Plan(NamedTuple):
    """What there is of the index of a shelf, and what is missing."""

    state: ShelfState
    space: Space
    portions: tuple[Portion, ...]
    gone: list[int] | None
    """What ended of the portions; None if that is not known, or they are of another embedder."""
    removals: int
    """What ended since they have their marks."""
    ranges: tuple[_Range, ...]
    missing: int
    """Entries in these ranges."""


class _Changes(NamedTuple):
    """What came and went on a shelf until a state."""

    state: ShelfState
    new: list[Indexed]
    gone: list[int]


class _Made(NamedTuple):
    """A portion that is not kept yet."""

    portion: Portion
    parts: dict[str, bytes]


class PortionBook:
    """Opens the indexes of large shelves whose portions a store keeps, and makes what is missing."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Take the store that portions are written to."""
        self._store = store
        self._most_bytes = limits.index_bytes if limits.shelf_bytes is None else limits.shelf_bytes
        self._sizes: dict[Shelf, _Size] = {}
        self._refused = 0.0
        """When portions could not be written last, as `time.monotonic` counts."""

    def new_shelf(self) -> StoredShelf:
        """Return a shelf whose index is not loaded yet."""
        return StoredShelf()

    def is_large(self, store: Store, shelf: Shelf, state: ShelfState) -> bool:
        """Return whether the index of a shelf in this state would take more memory than it may."""
        known = self._sizes.get(shelf)
        # No entry comes without a higher sequence: so most shelves are asked for once.
        if known is None or (known.state != state and known.entries + state.newest - known.state.newest > known.most):
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            known = self._sizes[shelf] = store.read(lambda rows: self._size(rows, shelf, state), snapshot=False)
        return known.state == state and known.entries > known.most

    def _size(self, rows: Reader, shelf: Shelf, state: ShelfState) -> _Size:
        collection = rows.get(Collection, shelf.scope.tenant, shelf.collection)
        each = _BYTES_PER_NUMBER * (0 if collection is None else collection.space.dimension) + _BYTES_PER_ENTRY
        return _Size(state, sum(rows.shelf_sizes(shelf).values()), self._most_bytes // each)

    def bring_up(self, store: Store, shelf: Shelf, held: StoredShelf, *, now: int) -> bool:
        """Bring the index of a shelf up to its rows; return False if the shelf has to be searched in memory.

        The caller has the lock of the index.
        """
        from memoranda.retrieval.index.segment import Damaged

        for _ in range(_MOST_CHANGES):
            if held.index is not None and now >= held.index.expired_at and self._follow(store, shelf, held):
                return True
            held.index = None
            if not self._make_missing(store, shelf):
                return False
            try:
                if store.read(lambda rows: _load(rows, store, shelf, held)):
                    held.note_size()
                    return True
            except Damaged as error:
                self.drop(shelf, str(error))
        return False

    def _follow(self, store: Store, shelf: Shelf, held: StoredShelf) -> bool:
        """Bring an index up to its rows; return False if it has to be loaded anew."""
        changes = store.read(lambda rows: _changes(rows, shelf, held))
        index = held.index
        if changes is None or index is None:
            return False
        if changes.state != held.state:
            held.removals += len(changes.gone)
            if held.removals > _WORTH_NOTING:
                self._write(shelf, lambda rows: _note_gone(rows, shelf))
                held.removals = 0
            with index.lock:  # not while a connection is held: who has this lock may wait for one
                index.add(changes.new)
                index.remove(changes.gone)
            held.state = changes.state
            held.note_size()
        return True

    def drop(self, shelf: Shelf, why: str) -> None:
        """Remove the portions of a shelf, which are damaged: they are made again from the rows."""
        _warn(
            "The stored index of `%s` in `%s` is dropped, and made again from the rows: %s",
            shelf.collection,
            shelf.scope,
            why,
        )
        self._write(shelf, lambda rows: rows.remove_portions(shelf))

    def _make_missing(self, store: Store, shelf: Shelf) -> bool:
        """Make portions of what has none, if that is much; return whether the rest may be indexed in memory."""
        enough = _UNSTORED * ROWS
        while True:
            plan = store.read(lambda rows: _plan(rows, shelf))
            if plan is None:
                return False
            if plan.gone is None:
                if not self._write(shelf, lambda rows: rows.remove_portions(shelf) or True):
                    return False
            elif plan.removals > _WORTH_NOTING and self._write(shelf, lambda rows: _note_gone(rows, shelf)):
                continue
            elif plan.missing < enough:
                return bool(plan.portions)  # without any there is no spread of vectors to measure by
            elif not self._make(store, shelf, plan):
                return plan.missing < _MOST_UNSTORED * ROWS
            else:
                enough = ROWS

    def _make(self, store: Store, shelf: Shelf, plan: _Plan) -> bool:
        """Make a portion of the first range that has none; return whether there is one now."""
        place, where = msgspec.structs.replace(shelf, namespace=plan.ranges[0].namespace), plan.ranges[0]

        def keep(rows: Transaction, made: _Made | None) -> bool | None:
            """Keep the portion; None if it is out of date."""
            if made is None or not _is_unchanged(rows, place, made.portion):
                return None
            return rows.add_portion(place, made.portion, made.parts)

        made = store.read(lambda rows: _make(rows, place, where, plan.space))
        kept = self._write(shelf, lambda rows: keep(rows, made))
        if kept is None:
            # Something of it was removed meanwhile, or another process was quicker: now no other writer goes on.
            kept = self._write(
                shelf,
                lambda rows: _has_portion(rows, place, where) or keep(rows, _make(rows, place, where, plan.space)),
            )
        return bool(kept)

    def _write(self, shelf: Shelf, work: Callable[[Transaction], T]) -> T | None:
        """Write portions; return None if that is not possible now, as while no primary answers."""
        if self._refused and time.monotonic() - self._refused < _PAUSE:
            return None
        subject = Scope(shelf.scope.tenant, shelf.scope.path.partition("/")[0])
        try:
            return self._store.transact(work, within=(subject,))
        except StorageError as error:
            self._refused = time.monotonic()
            _warn("Stored indexes of `%s` cannot be written: %s", shelf.scope, error)
            return None


def _plan(rows: Reader, shelf: Shelf) -> _Plan | None:
    """Return what there is of the index of a shelf; None if the collection does not exist."""
    collection = rows.get(Collection, shelf.scope.tenant, shelf.collection)
    if collection is None:
        return None
    space, portions = collection.space, tuple(rows.portions(shelf))
    if any(one.embedder != space.embedder for one in portions):
        gone = None
    else:
        gone = rows.removed_since(shelf, min(one.mark for one in portions)) if portions else []
    removals = 0 if gone is None else len(gone)
    if gone is not None:
        gone += [sequence for one in portions for sequence in one.gone]
    ranges: list[_Range] = []
    for namespace in sorted(rows.shelf_sizes(shelf)):
        after = 0
        for one in portions:
            if one.namespace == namespace:
                if one.first > after + 1:
                    ranges.append(_Range(namespace, after, one.first))
                after = one.last
        ranges.append(_Range(namespace, after, None))
    counted = [(_count(rows, shelf, one, space), one) for one in ranges]
    missing = sum(count for count, _ in counted)
    # Gaps first, and of what is newer where most is.
    counted.sort(key=lambda pair: (pair[1].before is None, -pair[0]))
    ranges = [one for count, one in counted if count]
    return _Plan(rows.shelf_state(shelf), space, portions, gone, removals, tuple(ranges), missing)


def _note_gone(rows: Transaction, shelf: Shelf) -> bool:
    """Note in each portion what ended of it: the list of removals has room for some thousands only.

    One of which an eighth is gone is removed, to be made again.
    """
    for namespace in sorted({one.namespace for one in rows.portions(shelf)}):
        place = msgspec.structs.replace(shelf, namespace=namespace)
        state, portions = rows.shelf_state(place), rows.portions(place)
        listed = rows.removed_since(place, min(one.mark for one in portions))
        if listed is None:
            return False
        for one in portions:
            gone = {*one.gone, *(sequence for sequence in listed if one.first <= sequence <= one.last)}
            if len(gone) * _WORTH_MAKING_AGAIN > ROWS:
                rows.remove_portions(place, one.first)
            else:
                rows.note_gone(place, msgspec.structs.replace(one, mark=state.removed, gone=tuple(sorted(gone))))
    return True


def _count(rows: Reader, shelf: Shelf, where: _Range, space: Space) -> int:
    place = msgspec.structs.replace(shelf, namespace=where.namespace)
    ends = [where.after] if where.before is None else [where.after, where.before - 1]
    counts = [length_hint(rows.index_rows(EntryQuery(shelf=place, after=end), space.embedder)) for end in ends]
    return counts[0] - (0 if where.before is None else counts[1])


def _rows_in(rows: Reader, shelf: Shelf, where: _Range, space: Space) -> Iterator[Indexed]:
    place = msgspec.structs.replace(shelf, namespace=where.namespace)
    found = rows.index_rows(EntryQuery(shelf=place, after=where.after), space.embedder)
    return itertools.takewhile(lambda one: where.before is None or one.sequence < where.before, found)


def _make(rows: Reader, shelf: Shelf, where: _Range, space: Space) -> _Made | None:
    """Return a portion of the first entries in a range."""
    state = rows.shelf_state(shelf)
    entries = list(itertools.islice(_rows_in(rows, shelf, where, space), ROWS))
    if not entries:
        return None
    is_last = len(entries) < ROWS and where.before is not None
    portion = Portion(
        namespace=where.namespace,
        first=where.after + 1,
        last=where.before - 1 if is_last and where.before is not None else entries[-1].sequence,
        mark=state.removed,
        embedder=space.embedder,
    )
    return _Made(portion, _parts_of(entries, space))


def _parts_of(entries: list[Indexed], space: Space) -> dict[str, bytes]:
    from memoranda.retrieval.index.shelf import ShelfIndex
    from memoranda.retrieval.index.stored import StoredIndex

    index = ShelfIndex(space.dimension)
    index.add(entries)
    return StoredIndex.parts_of(index)


def _is_unchanged(rows: Transaction, shelf: Shelf, portion: Portion) -> bool:
    """Return whether a portion may be kept: nothing of it ended since it was made, and there is no other one."""
    gone = rows.removed_since(shelf, portion.mark)
    if gone is None or any(portion.first <= sequence <= portion.last for sequence in gone):
        return False
    return all(one.last < portion.first or portion.last < one.first for one in rows.portions(shelf, gone=False))


def _has_portion(rows: Transaction, shelf: Shelf, where: _Range) -> bool:
    return any(one.first == where.after + 1 for one in rows.portions(shelf, gone=False))


def _changes(rows: Reader, shelf: Shelf, held: StoredShelf) -> _Changes | None:
    """Return what came and went since the state of an index; None if it has to be loaded anew."""
    index, space, state = held.index, held.space, rows.shelf_state(shelf)
    collection = rows.get(Collection, shelf.scope.tenant, shelf.collection)
    if index is None or space is None or collection is None or collection.space != space:
        return None
    current = {one.run for one in rows.portions(shelf, gone=False)}
    if not {one.run for one in held.portions} <= current or index.rows - held.rows >= _UNSTORED * ROWS:
        return None
    gone = rows.removed_since(shelf, held.state.removed) if state.removed != held.state.removed else []
    if gone is None:
        return None
    if state == held.state:
        return _Changes(state, [], [])
    new = rows.index_rows(EntryQuery(shelf=shelf, after=held.state.newest), space.embedder)
    return None if length_hint(new) >= _UNSTORED * ROWS else _Changes(state, list(new), gone)


def _load(rows: Reader, store: Store, shelf: Shelf, held: StoredShelf) -> bool:
    """Load the index of a shelf from its portions; return False if they changed a moment ago."""
    from memoranda.retrieval.index.stored import ROWS as EACH_ROW
    from memoranda.retrieval.index.stored import StoredIndex

    plan = _plan(rows, shelf)
    if plan is None or plan.gone is None or plan.missing >= _MOST_UNSTORED * ROWS:
        return False
    space, newest = plan.space, max((one.last for one in plan.portions), default=0)
    local: list[dict[str, bytes]] = []
    later: list[Indexed] = []
    for where in plan.ranges:
        found = list(_rows_in(rows, shelf, where, space))
        older = [one for one in found if one.sequence <= newest]
        if older:  # rows of an index are in the order of their sequences
            local.append(_parts_of(older, space))
        later += found[len(older) :]
    parts = _Parts(store, shelf, plan.portions, local)
    of_rows = {number: part for number, _, part in parts.read_from(rows, (EACH_ROW,))}
    embedder = space.embedder

    def vectors(sequences: NDArray[np.int64]) -> list[tuple[int, bytes]]:
        asked: list[int] = sequences.tolist()
        return store.read(lambda rows: rows.vectors(shelf, asked, embedder), snapshot=False)

    index = StoredIndex(space.dimension, [of_rows[number] for number in sorted(of_rows)], parts, vectors)
    held.rows = index.rows
    index.add(sorted(later, key=lambda one: one.sequence))
    index.remove(plan.gone)
    held.index, held.space, held.state, held.portions = index, space, plan.state, plan.portions
    held.removals = plan.removals
    return True


class _Parts:
    """Reads parts of the portions of a shelf, and of those that are made of rows that have none."""

    def __init__(
        self, store: Store, shelf: Shelf, portions: Sequence[Portion], local: Sequence[dict[str, bytes]]
    ) -> None:
        self._store, self._shelf = store, shelf
        self._portions, self._local = portions, local

    def __call__(self, names: Sequence[str]) -> Iterator[tuple[int, str, bytes]]:
        """Yield some parts: number of the portion, name, and bytes; raise `Changed` if a portion is gone."""
        from memoranda.retrieval.index.stored import VECTORS

        together = _TOGETHER if VECTORS in names else max(len(self._portions), 1)
        for start in range(0, len(self._portions), together):
            yield from self._store.read(
                lambda rows, start=start: list(self._read(rows, names, start, start + together))
            )
        yield from self._of_local(names)

    def read_from(self, rows: Reader, names: Sequence[str]) -> Iterator[tuple[int, str, bytes]]:
        """Yield the same, from rows that are being read."""
        yield from self._read(rows, names, 0, len(self._portions))
        yield from self._of_local(names)

    def _of_local(self, names: Sequence[str]) -> Iterator[tuple[int, str, bytes]]:
        for number, parts in enumerate(self._local, len(self._portions)):
            yield from ((number, name, parts[name]) for name in names if name in parts)

    def _read(self, rows: Reader, names: Sequence[str], start: int, end: int) -> Iterator[tuple[int, str, bytes]]:
        from memoranda.retrieval.index.segment import Damaged
        from memoranda.retrieval.index.stored import IN_EACH

        current = {one.run for one in rows.portions(self._shelf, gone=False)}
        if not {one.run for one in self._portions} <= current:
            raise Changed
        counts: Counter[str] = Counter()
        asked = self._portions[start:end]
        for number, name, part in _read_parts(rows, self._shelf, asked, names):
            counts[name] += 1
            yield start + number, name, part
        if any(counts[name] != len(asked) for name in IN_EACH.intersection(names)):
            raise Damaged("a part of the index of a portion is missing")


def entries_with(rows: Reader, shelf: Shelf, words: list[str], is_in: Callable[[Any], bool]) -> Iterator[int]:
    """Yield the sequences of entries in the portions of a shelf that have all these words.

    0 means that the text that `is_in` looks for is in the metadata of one.
    """
    from memoranda.retrieval.index.stored import words_and_values

    portions = rows.portions(shelf, gone=False)
    if portions:

        def read(names: Sequence[str]) -> Iterator[tuple[int, str, bytes]]:
            return _read_parts(rows, shelf, portions, names)

        for found in words_and_values(len(portions), read, words):
            yield from found.sequences
            yield from (0 for value in found.values if is_in(value))


def _read_parts(
    rows: Reader, shelf: Shelf, portions: Sequence[Portion], names: Sequence[str]
) -> Iterator[tuple[int, str, bytes]]:
    """Yield some parts of portions: number, name and bytes."""
    numbers = {(one.namespace, one.first): number for number, one in enumerate(portions)}
    for namespace in sorted({one.namespace for one in portions}):
        place = msgspec.structs.replace(shelf, namespace=namespace)
        firsts = [one.first for one in portions if one.namespace == namespace]
        for first, name, part in rows.parts(place, firsts, names):
            yield numbers[namespace, first], name, part


def _warn(message: str, *values: object) -> None:
    import logging

    logging.getLogger("memoranda.portions").warning(message, *values)
