"""Shelves in, their indexes in memory out, each brought up to the moment that the caller reads.

An index is derived data. It follows its shelf by sequence number, so it sees what other processes wrote and removed;
it is made again from the rows whenever it is missing, and dropped when it was not used for long or its owner is erased.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from recollect.model.collection import Space
from recollect.model.entry import Shelf, ShelfState
from recollect.model.scope import Scope
from recollect.store.base import Reader

if TYPE_CHECKING:
    from recollect.retrieval.index.shelf import ShelfIndex

_AT_ONCE = 1_000_000
"""Microseconds by which the moments of threads that ask together may differ; a clock further behind was set back."""


_Place = tuple[Shelf, str]


class _Held:
    """An index and the state of the shelf that it shows."""

    def __init__(self, index: ShelfIndex) -> None:
        self.index = index
        self.state = ShelfState()
        self.size = 0
        """How many bytes it took when that was last asked."""
        self.lock = threading.Lock()


class IndexBook:
    """The indexes in memory, at most so many bytes of them."""

    def __init__(self, most_bytes: int) -> None:
        """Start with none."""
        self._most_bytes = most_bytes
        self._held: OrderedDict[_Place, _Held] = OrderedDict()
        self._used: set[_Place] = set()
        """Those that were used since sizes were last asked: the others have not grown."""
        self._latest = 0
        """The latest moment at which somebody asked for any of them."""
        self._lock = threading.Lock()

    def index(self, rows: Reader, shelf: Shelf, space: Space, *, now: int) -> ShelfIndex:
        """Return the index of a shelf, as far as these rows know; never behind them. `now` is in microseconds."""
        from recollect.retrieval.index.shelf import ShelfIndex

        state, place = rows.shelf_state(shelf), (shelf, space.embedder)
        with self._lock:
            self._latest = max(self._latest, now)
            was_set_back = now < self._latest - _AT_ONCE
        if state == ShelfState():
            with self._lock:
                self._held.pop(place, None)  # erased: nothing of it stays in memory
                self._used.discard(place)
            return ShelfIndex(space.dimension)
        with self._lock:
            held = self._held.get(place)
            if held is None:
                held = self._held[place] = _Held(ShelfIndex(space.dimension))
            self._held.move_to_end(place)
            self._used.add(place)
        with held.lock:
            if was_set_back and now < held.index.expired_at:  # what had expired by then has not
                held.index, held.state = ShelfIndex(space.dimension), ShelfState()
            # Another thread, which reads a later moment, may have brought it further: it is never turned back.
            if state.newest > held.state.newest or state.removed > held.state.removed:
                _follow(held, rows, shelf, space, state)
                self._let_go(held)
            return held.index

    def drop(self, scope: Scope, *, collection: str | None = None) -> None:
        """Forget the indexes at and below a scope, of one collection or of all."""

        def goes(shelf: Shelf) -> bool:
            return scope.covers(shelf.scope) and collection in (None, shelf.collection)

        with self._lock:
            for place in [place for place in self._held if goes(place[0])]:
                del self._held[place]
                self._used.discard(place)

    @property
    def nbytes(self) -> int:
        """How many bytes the indexes take."""
        with self._lock:
            return sum(held.index.nbytes for held in self._held.values())

    def _let_go(self, newest: _Held) -> None:
        """Drop the indexes that were not used for the longest time, until the rest fits; never the one in use."""
        with self._lock:
            used = [held for place in self._used if (held := self._held.get(place)) is not None]
            self._used.clear()
        for held in used:  # not under our lock: whoever ranks by one of them holds the lock of that one
            held.size = held.index.nbytes
        with self._lock:
            size = sum(held.size for held in self._held.values())
            for place, held in list(self._held.items()):
                if size <= self._most_bytes:
                    return
                if held is not newest:
                    size -= held.size
                    del self._held[place]
                    self._used.discard(place)


def _follow(held: _Held, rows: Reader, shelf: Shelf, space: Space, state: ShelfState) -> None:
    """Bring an index up to a state of its shelf; begin a new one where that goes wrong."""
    before, held.state = held.state, ShelfState()
    index, held.index = held.index, type(held.index)(space.dimension)
    gone: set[int] = set()
    if before != ShelfState() and state.removed != before.removed:
        known = set(index.sequences().tolist()) | index.lapsed
        standing = set(rows.standing(shelf))
        if any(sequence <= before.newest for sequence in standing - known):
            # Entries got vectors after later ones had theirs, as a collection that moved: begin anew.
            index, before = held.index, held.state
        else:
            gone = known - standing
    new = rows.indexed(shelf, space.embedder, after=before.newest)
    with index.lock:  # whoever ranks by it meanwhile sees both, one entry and what takes its place
        index.add(new)
        index.remove(gone)
    held.index, held.state = index, state
