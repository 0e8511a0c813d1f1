"""Nearest neighbours among unit vectors: `VectorTable` compares every row, `PrunedTable` skips most of them.

Both compute final cosines with `rescore`, so that the exact search and the approximate one return the same bits for the
same rows.

In `PrunedTable` vectors are rotated so that their first components vary most (principal components): a short head of
two vectors then determines most of their cosine. The tails add at most the product of their lengths, which are known.
So one product with the heads gives a bound for every row, and only rows whose bound reaches the k-th best cosine are
compared in full:

    cosine(q, x) = head(q)·head(x) + tail(q)·tail(x)  ≤  head(q)·head(x) + |tail(q)|·|tail(x)|

While few rows are left, the result is exact. If too many are left, only those with the nearest heads are compared, or
all rows if results still turn up among the last of them; in the first case a neighbour can be missed.

Inverted lists over clusters, the usual way, were measured and rejected: vectors of sentences hardly cluster. Of 300,000
in 1,024 lists three in ten had to be read to find 97 of 100 neighbours.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from memoranda.errors import EmbedderMismatch
from memoranda.retrieval.index.segment import Contents, Segment

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]
Cosines = NDArray[np.float32]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

WORTH_GATHERING = 0.3
"""Up to this share of all rows, gathering the rows and comparing them is faster than comparing all."""

# The matrix product may add up equal rows in different orders. Candidates within this margin are summed again.
_NOISE = np.float32(2e-6)
# Numbers that are multiplied at once: few enough that gathered rows stay in the cache, and that BLAS starts no threads.
# Its threads in concurrent recalls wait for each other, for many times the work.
_AT_ONCE = 262_144
_FEWEST = 16
# Maximum height of a column in `kth_bound`, and the number of values from which columns are used.
_HIGHEST, _WORTH_COLUMNS = 64, 4_096


class VectorIndex(Protocol):
    """Vectors by row, with a search for the nearest. Rows are numbered by arrival and renumbered only by `keep`."""

    def __len__(self) -> int:
        """Return the number of rows, including removed ones that the owner has not dropped yet."""
        ...

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        ...

    def append(self, blobs: Sequence[bytes]) -> None:
        """Add rows, each little-endian float32 of unit length; raise and add none if one has another dimension."""
        ...

    def top(self, query: Vector, k: int, eligible: Mask | None = None) -> tuple[Rows, Cosines]:
        """Return the k eligible rows nearest to a query and their cosines, nearest first, ties in age order."""
        ...

    def keep(self, rows: NDArray[np.integer[Any]]) -> None:
        """Keep only these rows, renumbered in this order."""
        ...


class VectorTable:
    """An exact vector index in one matrix.

    Not thread-safe: the caller excludes readers while it writes. Results that were returned do not change.
    """

    def __init__(self, dimension: int) -> None:
        """Create a table without rows, for vectors of this dimension."""
        self.dimension = dimension
        self._matrix: Matrix = np.empty((0, dimension), dtype=np.float32)
        self._rows = 0
        self._sealed: int | None = None
        """Rows that a segment has mapped; None if the table has memory of its own."""

    def save(self, contents: Contents, name: str = "vectors") -> None:
        """Put the vectors into a segment."""
        contents.add_rows(name, self.matrix)

    def load(self, segment: Segment, name: str = "vectors") -> None:
        """Continue the vectors of a segment, in the room behind them."""
        self._matrix, self._rows = segment.rows(name)
        self._sealed = self._rows

    def __len__(self) -> int:
        """Return the number of rows, including removed ones that the owner has not dropped yet."""
        return self._rows

    @property
    def nbytes(self) -> int:
        """Size in bytes, including reserved rows, without what a segment has mapped."""
        return self._matrix.nbytes if self._sealed is None else self._matrix[self._sealed : self._rows].nbytes

    @property
    def matrix(self) -> Matrix:
        """All rows; read-only by convention."""
        return self._matrix[: self._rows]

    def append(self, blobs: Sequence[bytes]) -> None:
        """Add rows, each little-endian float32 of unit length."""
        width = 4 * self.dimension
        for blob in blobs:
            if len(blob) != width:
                self._refuse(len(blob) // 4)
        self.append_matrix(np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), self.dimension))

    def append_matrix(self, vectors: Matrix) -> None:
        """Add the rows of a matrix, each of unit length."""
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            self._refuse(vectors.shape[-1])
        end = self._rows + len(vectors)
        self.reserve(end)
        self._matrix[self._rows : end] = vectors
        self._rows = end

    def reserve(self, rows: int) -> None:
        """Make room for this many rows; a first load takes no more than it needs."""
        if rows > len(self._matrix):
            grown = np.empty((max(rows, len(self._matrix) * 3 // 2, _FEWEST), self.dimension), dtype=np.float32)
            grown[: self._rows] = self.matrix
            self._matrix, self._sealed = grown, None

    def product(self, query: Vector) -> Cosines:
        """Return the cosine of every row with a query of unit length, in single precision.

        Equal rows may differ in the last bits here, but not in `top`.
        """
        matrix, portion = self.matrix, _portion(self.dimension)
        if len(matrix) <= portion:
            return matrix.dot(query)
        cosines = np.empty(len(matrix), dtype=np.float32)
        for start in range(0, len(matrix), portion):
            np.dot(matrix[start : start + portion], query, out=cosines[start : start + portion])
        return cosines

    def top(self, query: Vector, k: int, eligible: Mask | None = None) -> tuple[Rows, Cosines]:
        """Return the k eligible rows nearest to a query and their cosines, nearest first, ties in age order."""
        if eligible is None:
            return nearest(self.matrix, query, k, None, self.product(query))
        rows = np.flatnonzero(eligible)
        if len(rows) > WORTH_GATHERING * self._rows:
            return nearest(self.matrix, query, k, rows, self.product(query)[rows])
        return nearest(self.matrix, query, k, rows, gather(self.matrix, query, rows))

    def estimate(self, query: Vector) -> tuple[Cosines, Vector]:
        """Return an estimate of the cosine of every row with a query, and the vector whose cosines these are.

        Here, they are exact.
        """
        return self.product(query), query

    def cosines(self, query: Vector, rows: Rows) -> Cosines:
        """Return the cosines of some rows with a query, in single precision."""
        return gather(self.matrix, query, rows)

    def refine(self, likely: Cosines, query: Vector, rows: Rows) -> None:
        """Replace the estimates of the cosines of some rows by these cosines, unless they are close enough."""
        likely[rows] = self.cosines(query, rows)

    def keep(self, rows: NDArray[np.integer[Any]]) -> None:
        """Keep only these rows, renumbered in this order."""
        self._matrix, self._sealed = self.matrix[rows], None
        self._rows = len(rows)

    def _refuse(self, actual: int) -> NoReturn:
        raise EmbedderMismatch(
            f"a vector has dimension {actual}, but the others have {self.dimension}",
            hint="Use the embedder that the collection was created with",
            expected=self.dimension,
            actual=actual,
        )


def _portion(dimension: int) -> int:
    return max(1, _AT_ONCE // dimension)


def gather(matrix: Matrix, query: Vector, rows: Rows) -> Cosines:
    """Return the cosines of some rows with a query, in single precision."""
    cosines = np.empty(len(rows), dtype=np.float32)
    portion = _portion(matrix.shape[1])
    room = np.empty((min(portion, len(rows)), matrix.shape[1]), dtype=np.float32)
    for start in range(0, len(rows), portion):
        some = rows[start : start + portion]
        taken = matrix.take(some, axis=0, out=room[: len(some)], mode="clip")
        np.dot(taken, query, out=cosines[start : start + len(some)])
    return cosines


def nearest(matrix: Matrix, query: Vector, k: int, rows: Rows | None, cosines: Cosines) -> tuple[Rows, Cosines]:
    """Return the k nearest of some rows (None: all), in their final order.

    The rows are in ascending order, and their cosines are given up to rounding.
    """
    if k <= 0 or not len(cosines):
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32)
    found = (cosines >= kth_bound(cosines, k) - _NOISE).nonzero()[0]
    if len(found) > 4 * k:
        some = cosines[found]
        found = found[some >= np.partition(some, len(some) - k)[len(some) - k] - _NOISE]
    candidates = found if rows is None else rows[found]
    exact = rescore(matrix, query, candidates)
    order = (-exact).argsort(kind="stable")[:k]
    return candidates[order], exact[order]


def kth_bound(numbers: NDArray[np.floating[Any]], k: int) -> np.floating[Any]:
    """Return a lower bound of the k-th largest number that hardly more than k numbers reach."""
    if k >= len(numbers):
        return numbers.min()
    height = min(_HIGHEST, len(numbers) // (2 * k))
    if height > 1 and len(numbers) > _WORTH_COLUMNS:
        # The k-th largest of the columns' maxima is such a bound, and several times faster than partitioning all.
        width = len(numbers) // height
        highest = numbers[: width * height].reshape(height, width).max(axis=0)
    else:
        highest = numbers.copy()
    highest.partition(len(highest) - k)
    return highest[len(highest) - k]


def rescore(matrix: Matrix, query: Vector, rows: Rows) -> Cosines:
    """Return the cosines of a few rows, summed in double precision and always in the same order."""
    products = np.multiply(matrix.take(rows, axis=0), query, dtype=np.float64)
    return np.add.reduce(products, axis=1).astype(np.float32)


PRUNE_FROM = 200_000
"""Number of rows from which heads are compared first. Up to this number comparing all rows takes a few milliseconds."""
# Estimates by heads alone are quicker from this part of it on.
_ESTIMATE_FROM = 0.25

# A head has this share of the squared length. If it would be longer than the second share of a vector, reading heads
# first saves too little.
_SETTLED, _LONGEST = 0.75, 0.6
# Number of rows to find the principal components, and the growth of the table after which they are found again.
_SAMPLE, _GROWN = 10_000, 4
# Rows that are compared in full first: their k-th best cosine is the one to reach.
_FIRST = 1_024
# At most this share of the eligible rows, but at least this many per result, are compared in full.
_MOST, _MOST_PER_RESULT = 0.04, 8
# If more than this share of the results came from the farther half of those, more may lie beyond, and all rows are
# compared.
_LATE = 0.05
# Heads are computed for this many rows at once.
_PORTION = 8_192
# Rounding of single precision; a bound has to err upwards.
_SLACK = np.float32(4e-6)


class PrunedTable(VectorTable):
    """A vector table that compares heads first, from `prune_from` rows on.

    Heads are computed by the next search that needs them, so that writes cost nothing.
    """

    def __init__(self, dimension: int, *, prune_from: int = PRUNE_FROM) -> None:
        """Create a table without rows, for vectors of this dimension."""
        super().__init__(dimension)
        self._prune_from = prune_from
        self._fitted = 0
        """Number of rows when the principal components were found."""
        self._heads: _Heads | None = None
        # Searches may run concurrently, and the first of them computes the heads.
        self._following = threading.Lock()

    def save(self, contents: Contents, name: str = "vectors") -> None:
        """Put the vectors into a segment, and their heads, which searches will need."""
        super().save(contents, name)
        if len(self) >= self._prune_from:
            self._current_heads()
        with self._following:
            contents.values["heads.fitted"] = self._fitted if self._heads else 0
            if self._heads:
                self._heads.save(contents)

    def load(self, segment: Segment, name: str = "vectors") -> None:
        """Continue the vectors of a segment, and their heads."""
        super().load(segment, name)
        self._fitted = segment.values["heads.fitted"]
        self._heads = _Heads.load(segment) if self._fitted else None

    @property
    def nbytes(self) -> int:
        """Size in bytes, including heads and reserved rows."""
        return super().nbytes + (self._heads.nbytes if self._heads else 0)

    def top(self, query: Vector, k: int, eligible: Mask | None = None) -> tuple[Rows, Cosines]:
        """Return the k eligible rows nearest to a query and their cosines, nearest first, ties in age order."""
        wanted = len(self) if eligible is None else int(np.count_nonzero(eligible))
        if (
            len(self) < self._prune_from
            or k <= 0
            or wanted <= max(WORTH_GATHERING * len(self), 2 * (_FIRST + _MOST_PER_RESULT * k))
        ):
            return super().top(query, k, eligible)
        heads = self._current_heads()
        if heads is None:
            return super().top(query, k, eligible)
        rows, likely, bounds = heads.compare(query, eligible)
        first = np.flatnonzero(likely >= kth_bound(likely, _FIRST + k))
        _, cosines = self._nearest(query, k, rows, first)
        left = np.flatnonzero(bounds >= cosines[-1] - _SLACK)
        most = max(int(_MOST * len(likely)), _FIRST + _MOST_PER_RESULT * k)
        if len(left) <= most:
            return self._nearest(query, k, rows, left)
        left = np.flatnonzero(likely >= kth_bound(likely, most))
        found, cosines = self._nearest(query, k, rows, left)
        late = likely[found if rows is None else np.searchsorted(rows, found)] < kth_bound(likely, most // 2)
        if np.count_nonzero(late) > _LATE * k:
            return super().top(query, k, eligible)
        return found, cosines

    @property
    def is_pruned(self) -> bool:
        """Whether a search compares heads first, so that it may miss a neighbour."""
        return len(self) >= self._prune_from

    def estimate(self, query: Vector) -> tuple[Cosines, Vector]:
        """Return an estimate of the cosine of every row with a query, and the vector whose cosines these are.

        Where there are heads, it is the part of the query that they cover.
        """
        heads = self._current_heads() if len(self) >= _ESTIMATE_FROM * self._prune_from else None
        return super().estimate(query) if heads is None else heads.estimate(query)

    def beyond_estimate(self, query: Vector) -> Cosines | float:
        """Return by row how much higher its cosine may be than `estimate` says; 0 if that is exact."""
        heads = self._current_heads() if len(self) >= _ESTIMATE_FROM * self._prune_from else None
        return 0.0 if heads is None else heads.beyond(query)

    def _nearest(self, query: Vector, k: int, rows: Rows | None, chosen: Rows) -> tuple[Rows, Cosines]:
        """Return the nearest of the chosen places in `rows` (None: every row)."""
        numbers = chosen if rows is None else rows[chosen]
        return nearest(self.matrix, query, k, numbers, gather(self.matrix, query, numbers))

    def keep(self, rows: NDArray[np.integer[Any]]) -> None:
        """Keep only these rows, renumbered in this order."""
        if self._heads:
            self._heads.extend(self.matrix)
            self._heads.keep(rows)
        super().keep(rows)

    def _current_heads(self) -> _Heads | None:
        """Return the heads of all rows, or None if heads would not help."""
        with self._following:
            if len(self) >= _GROWN * self._fitted:
                self._heads, self._fitted = _Heads.fit(self.matrix), len(self)
            if self._heads:
                self._heads.extend(self.matrix)
            return self._heads


class _Heads:
    """The head of each row, and the length of its tail."""

    __slots__ = ("_directions", "_heads", "_tails")

    def __init__(self, directions: Matrix) -> None:
        self._directions = directions
        self._heads = VectorTable(directions.shape[1])
        self._tails = VectorTable(1)

    @property
    def nbytes(self) -> int:
        return self._heads.nbytes + self._tails.nbytes + self._directions.nbytes

    @classmethod
    def fit(cls, matrix: Matrix) -> _Heads | None:
        """Find the principal components of these rows; None if too many are needed. The result has no heads yet."""
        sample = matrix[:: max(1, len(matrix) // _SAMPLE)].astype(np.float64)
        strengths, directions = np.linalg.eigh(sample.T @ sample)
        settled = np.cumsum(strengths[::-1]) / strengths.sum()
        # Multiples of eight are fastest.
        length = (int(np.searchsorted(settled, _SETTLED)) // 8 + 1) * 8
        if length > _LONGEST * matrix.shape[1]:
            return None
        return cls(np.ascontiguousarray(directions[:, ::-1][:, :length], dtype=np.float32))

    def save(self, contents: Contents) -> None:
        """Put the heads into a segment."""
        contents.arrays["heads.directions"] = self._directions
        self._heads.save(contents, "heads")
        self._tails.save(contents, "tails")

    @classmethod
    def load(cls, segment: Segment) -> _Heads:
        """Return the heads of a segment."""
        heads = cls(segment.array("heads.directions"))
        heads._heads.load(segment, "heads")
        heads._tails.load(segment, "tails")
        return heads

    def extend(self, matrix: Matrix) -> None:
        """Add the heads of the rows that have none."""
        self._heads.reserve(len(matrix))
        self._tails.reserve(len(matrix))
        for start in range(len(self._heads), len(matrix), _PORTION):
            heads, tails = self._split(matrix[start : start + _PORTION])
            self._heads.append_matrix(heads)
            self._tails.append_matrix(tails[:, np.newaxis])

    def estimate(self, query: Vector) -> tuple[Cosines, Vector]:
        """Return the cosines of all rows as estimated from the heads, and the part of the query that these cover."""
        head = self._directions.T @ query
        return self._heads.product(head), (self._directions @ head).astype(np.float32, copy=False)

    def beyond(self, query: Vector) -> Cosines:
        """Return the highest product that each row's tail may have with that of a query."""
        return self._tails.matrix[:, 0] * self._split(query[np.newaxis])[1][0]

    def compare(self, query: Vector, eligible: Mask | None) -> tuple[Rows | None, Cosines, Cosines]:
        """Return the eligible rows (None: all), their cosines as estimated from the heads, and upper bounds."""
        heads, tails = self._split(query[np.newaxis])
        likely, lengths = self._heads.product(heads[0]), self._tails.matrix[:, 0]
        rows = None if eligible is None else np.flatnonzero(eligible)
        if rows is not None:
            likely, lengths = likely[rows], lengths[rows]
        bounds = lengths * tails[0]
        bounds += likely
        return rows, likely, bounds

    def keep(self, rows: NDArray[np.integer[Any]]) -> None:
        """Keep only the heads of these rows."""
        self._heads.keep(rows)
        self._tails.keep(rows)

    def _split(self, vectors: Matrix) -> tuple[Matrix, Vector]:
        heads = vectors @ self._directions
        whole, settled = (np.einsum("ij,ij->i", each, each) for each in (vectors, heads))
        # The subtraction loses half the digits of a short tail; the slack makes sure that no tail is too short.
        return heads, np.sqrt(np.maximum(whole - settled, 0) + _SLACK)
