"""Entries in the order they came, out of it who stands beside whom: the chain of each thread, and how far to trust it.

What was said just before and after an entry tells what the entry is about, but only where entries that follow each
other belong together. That is measured, for each namespace: neighbours that are no more alike than any two entries
lend each other nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.index.growing import Growing

ThreadKey = tuple[str, str | int | None]
"""A namespace and the thread that an entry says it belongs to; None is the one chain of those that say nothing."""

NOBODY = -1
"""In place of a row that is not there."""

# How far neighbours are trusted before anything was measured: a declared thread wholly, bare arrival by half.
_TRUST_DECLARED, _TRUST_ARRIVAL = 1.0, 0.5
_LINKS_BEFORE_TRUST = 20
# Neighbours that are this much more alike than any two entries are trusted wholly; what is less than the first may be
# chance.
_CHANCE, _COHERENT = 0.01, 0.08
# Above this mean cosine all entries are the same, and nothing can be measured.
_ALL_ALIKE = 0.999
# From so many rows on, linking them together is quicker than one by one.
_WORTH_TOGETHER = 16
# Rows compared at once: few enough that both sides stay in the processor's cache.
_PORTION = 256


class Threads:
    """The neighbours of each row within its thread. Rows are numbered by the owner and taken out one by one."""

    def __init__(self, dimension: int) -> None:
        """Start without rows, for vectors of so many numbers."""
        self._dimension = dimension
        self._previous = Growing(np.int64)
        self._next = Growing(np.int64)
        self._thread = Growing(np.int64)
        self._number_of: dict[ThreadKey, int] = {}
        self._last: list[int] = []
        self._group: list[int] = []
        """The group of each thread: threads of one namespace that are declared, or not."""
        self._groups: dict[tuple[str, bool], int] = {}
        self._cohesion: list[_Cohesion] = []

    @property
    def previous(self) -> NDArray[np.int64]:
        """The row before each row in its thread, or NOBODY."""
        return self._previous.rows

    @property
    def next(self) -> NDArray[np.int64]:
        """The row after each row in its thread, or NOBODY."""
        return self._next.rows

    @property
    def thread(self) -> NDArray[np.int64]:
        """The number of each row's thread."""
        return self._thread.rows

    @property
    def count(self) -> int:
        """How many threads there are."""
        return len(self._last)

    @property
    def declared(self) -> NDArray[np.bool_]:
        """For each thread, whether its entries say that they belong to it."""
        declared = np.fromiter((declared for _, declared in self._groups), np.bool_, len(self._groups))
        return declared[self._group]

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        rows = self._previous.nbytes + self._next.nbytes + self._thread.nbytes
        return rows + len(self._last) * 150 + len(self._groups) * 8 * self._dimension

    def trust(self) -> NDArray[np.float32]:
        """Return for each thread how far its neighbours are trusted, from 0 to 1."""
        trusts = [
            cohesion.trust(_TRUST_DECLARED if declared else _TRUST_ARRIVAL)
            for (_, declared), cohesion in zip(self._groups, self._cohesion, strict=True)
        ]
        return np.array(trusts, np.float32)[self._group]

    def add(self, keys: Sequence[ThreadKey], matrix: NDArray[np.float32]) -> None:
        """Add rows, each at the end of its thread; the matrix holds the vectors of these rows and all before."""
        first = len(self._thread)
        known = map(self._number_of.get, keys)
        threads = [self._number(key) if thread is None else thread for key, thread in zip(keys, known, strict=True)]
        before: list[int] = []
        last = self._last
        for row, thread in enumerate(threads, start=first):
            before.append(last[thread])
            last[thread] = row
        self._thread.extend(threads)
        self._previous.extend(before)
        self._next.extend(np.full(len(keys), NOBODY))
        if len(keys) < _WORTH_TOGETHER:
            following = self.next
            for row, (thread, previous) in enumerate(zip(threads, before, strict=True), start=first):
                cohesion = self._cohesion[self._group[thread]]
                cohesion.count += 1
                cohesion.total += matrix[row]
                if previous != NOBODY:
                    following[previous] = row
                    cohesion.join(matrix[previous], matrix[row])
        else:
            self._link_together(first, matrix)

    def _link_together(self, first: int, matrix: NDArray[np.float32]) -> None:
        """Count the rows from `first` on and what links them to the ones before them."""
        rows = np.arange(first, len(self._thread))
        previous = self.previous[first:]
        linked = previous != NOBODY
        self.next[previous[linked]] = rows[linked]
        of_rows: list[int] = [self._group[thread] for thread in self.thread[first:].tolist()]
        groups = np.array(of_rows)
        alike = np.where(linked, _alike(matrix, first, previous), 0)
        for group in set(of_rows):
            members = groups == group
            cohesion = self._cohesion[group]
            cohesion.count += int(members.sum())
            cohesion.total += _total(matrix, rows[members])
            cohesion.links += int((members & linked).sum())
            cohesion.alike += float(alike[members].sum(dtype=np.float64))

    def remove(self, rows: Iterable[int], matrix: NDArray[np.float32]) -> None:
        """Take rows out of their threads: those before and after become neighbours."""
        previous, following = self.previous, self.next
        for row in rows:
            thread = int(self.thread[row])
            before, after = int(previous[row]), int(following[row])
            cohesion = self._cohesion[self._group[thread]]
            vector = matrix[row]
            cohesion.count -= 1
            cohesion.total -= vector
            if before != NOBODY:
                following[before] = after
                cohesion.cut(vector, matrix[before])
            if after == NOBODY:
                self._last[thread] = before
            else:
                previous[after] = before
                cohesion.cut(vector, matrix[after])
                if before != NOBODY:
                    cohesion.join(matrix[before], matrix[after])
            previous[row] = following[row] = NOBODY

    def keep(self, rows: NDArray[np.intp], renumbered: NDArray[np.int64]) -> None:
        """Let only these rows stay, which must be all that were not removed, and give each its new number."""
        # NOBODY is -1, and so the last place of the numbers: it stays nobody.
        renumbered = np.append(renumbered, NOBODY)
        for links in (self._previous, self._next):
            links.keep(rows)
            links.rows[:] = renumbered[links.rows]
        self._thread.keep(rows)
        used, threads = np.unique(self.thread, return_inverse=True)
        self._thread.rows[:] = threads
        keys = list(self._number_of)
        self._number_of = {keys[thread]: number for number, thread in enumerate(used.tolist())}
        self._last = [int(renumbered[self._last[thread]]) for thread in used.tolist()]
        self._group = [self._group[thread] for thread in used.tolist()]

    def around(self, row: int, reach: int) -> tuple[list[int], list[int]]:
        """Return up to `reach` rows before a row and as many after it, in the order of the thread."""
        before = self._walk(self.previous, row, reach)
        return before[::-1], self._walk(self.next, row, reach)

    @staticmethod
    def _walk(links: NDArray[np.int64], row: int, reach: int) -> list[int]:
        met: list[int] = []
        while len(met) < reach and (row := int(links[row])) != NOBODY:
            met.append(row)
        return met

    def _number(self, key: ThreadKey) -> int:
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._last)
            self._last.append(NOBODY)
            named = (key[0], key[1] is not None)
            group = self._groups.setdefault(named, len(self._groups))
            if group == len(self._cohesion):
                self._cohesion.append(_Cohesion(self._dimension))
            self._group.append(group)
        return number


class _Cohesion:
    """How much more alike neighbours are than any two entries, kept up as entries come and go."""

    __slots__ = ("alike", "count", "links", "total")

    def __init__(self, dimension: int) -> None:
        self.count = 0
        self.total: NDArray[np.float64] = np.zeros(dimension)
        self.links = 0
        self.alike = 0.0

    def join(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> None:
        """Count a pair that became neighbours."""
        self.links += 1
        self.alike += float(one @ other)

    def cut(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> None:
        """Forget a pair that no longer are neighbours."""
        self.links -= 1
        self.alike -= float(one @ other)

    def trust(self, at_first: float) -> float:
        """Return how far neighbours are trusted: as at first, until enough of them were seen."""
        measured = 0.0
        if self.links:
            # The mean cosine of all pairs follows from the length of the sum: nothing has to be compared.
            by_chance = (float(self.total @ self.total) / self.count - 1) / (self.count - 1)
            if by_chance < _ALL_ALIKE:
                measured = (self.alike / self.links - by_chance) / (1 - by_chance)
        cohesive = min(max((measured - _CHANCE) / (_COHERENT - _CHANCE), 0.0), 1.0)
        # By squares: of what was believed at first, nothing is left among hundreds of links that say otherwise.
        believed, seen = _LINKS_BEFORE_TRUST**2, self.links**2
        return (believed * at_first + seen * cohesive) / (believed + seen)


def _total(matrix: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of ascending rows, in double precision so that rows can be taken out of it again."""
    total = np.zeros(matrix.shape[1])
    together = int(rows[-1] - rows[0]) + 1 == len(rows)
    for start in range(0, len(rows), _PORTION):
        some = rows[start : start + _PORTION]
        vectors = matrix[some[0] : some[-1] + 1] if together else matrix[some]
        total += vectors.sum(axis=0, dtype=np.float64)
    return total


def _alike(matrix: NDArray[np.float32], first: int, others: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the cosines of the rows from `first` on with others, pair by pair."""
    cosines = np.empty(len(others), np.float32)
    for start in range(0, len(others), _PORTION):
        some = others[start : start + _PORTION]
        vectors = matrix[first + start : first + start + len(some)]
        np.einsum("ij,ij->i", vectors, matrix[some], out=cosines[start : start + len(some)])
    return cosines
