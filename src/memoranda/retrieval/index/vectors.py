"""Unit vectors in, the rows nearest to a query out: every row is compared, in one matrix product.

What counts as a cosine is the same for every index in this folder (`rescore`), so that an exact search and an
approximate one that looked at the same rows answer the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from memoranda.errors import EmbedderMismatch
from memoranda.retrieval.index.populating import populate

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]
Cosines = NDArray[np.float32]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

WORTH_GATHERING = 0.3
"""Up to this part of all, copying single rows together and comparing them is quicker than comparing all."""

# The matrix product may add up equal rows in different orders. What it found is summed again within this margin.
_NOISE = np.float32(2e-6)
# Numbers that are multiplied at once: few enough that rows copied together are still in the cache, and that the
# product starts no threads. Those of recalls that run side by side wait for each other, for many times the work.
_AT_ONCE = 262_144
_FEWEST = 16
# How many numbers stand in one column, at most, when the largest of many are looked for, and how many are many.
_HIGHEST, _WORTH_COLUMNS = 64, 4_096


class VectorIndex(Protocol):
    """What holds vectors by row and finds the nearest. Rows are numbered as they come and move only in `keep`."""

    def __len__(self) -> int:
        """Return how many rows there are, those that their owner took for dead too."""
        ...

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        ...

    def append(self, blobs: Sequence[bytes]) -> None:
        """Add rows, each of them little-endian float32 numbers of unit length; refuse all if one does not fit."""
        ...

    def top(self, query: Vector, k: int, eligible: Mask | None = None) -> tuple[Rows, Cosines]:
        """Return the k eligible rows nearest to a query and their cosines, nearest first and then older first."""
        ...

    def keep(self, rows: NDArray[np.integer[Any]]) -> None:
        """Let only these rows stay, numbered anew in the order given."""
        ...


class VectorTable:
    """Vectors of one dimension, by row. Rows are numbered as they come and move only in `keep`.

    It takes no lock: one writer at a time, and nobody reads meanwhile. What was given out stays as it was.
    """

    def __init__(self, dimension: int) -> None:
        """Start without rows, for vectors of so many numbers."""
        self.dimension = dimension
        self._matrix: Matrix = np.empty((0, dimension), dtype=np.float32)
        self._rows = 0

    def __len__(self) -> int:
        """Return how many rows there are, those that their owner took for dead too."""
        return self._rows

    @property
    def nbytes(self) -> int:
        """How many bytes the table takes, with the room for rows to come."""
        return self._matrix.nbytes

    @property
    def matrix(self) -> Matrix:
        """All rows, to be read and not changed."""
        return self._matrix[: self._rows]

    def append(self, blobs: Sequence[bytes]) -> None:
        """Add rows, each of them little-endian float32 numbers of unit length."""
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
        """See that so many rows fit without growing again; a first load takes no more room than it needs."""
        if rows > len(self._matrix):
            grown = np.empty((max(rows, len(self._matrix) * 3 // 2, _FEWEST), self.dimension), dtype=np.float32)
            grown[: self._rows] = self.matrix
            self._matrix = grown
            populate(grown[self._rows : rows])

    def product(self, query: Vector) -> Cosines:
        """Return the cosine of every row with a query of unit length, in single precision.

        Equal rows may differ in the last bits here; in `top` they do not.
        """
        matrix, portion = self.matrix, _portion(self.dimension)
        if len(matrix) <= portion:
            return matrix.dot(query)
        cosines = np.empty(len(matrix), dtype=np.float32)
        for start in range(0, len(matrix), portion):
            np.dot(matrix[start : start + portion], query, out=cosines[start : start + portion])
        return cosines

    def top(self, query: Vector, k: int, eligible: Mask | None = None) -> tuple[Rows, Cosines]:
        """Return the k eligible rows nearest to a query and their cosines, nearest first and then older first."""
        if eligible is None:
            return nearest(self.matrix, query, k, None, self.product(query))
        rows = np.flatnonzero(eligible)
        if len(rows) > WORTH_GATHERING * self._rows:
            return nearest(self.matrix, query, k, rows, self.product(query)[rows])
        return nearest(self.matrix, query, k, rows, gather(self.matrix, query, rows))

    def keep(self, rows: NDArray[np.integer[Any]]) -> None:
        """Let only these rows stay, numbered anew in the order given."""
        self._matrix = self.matrix[rows]
        self._rows = len(rows)

    def _refuse(self, actual: int) -> NoReturn:
        raise EmbedderMismatch(
            f"a vector has {actual} numbers where the others have {self.dimension}",
            hint="Use the embedder that the collection was made with",
            expected=self.dimension,
            actual=actual,
        )


def _portion(dimension: int) -> int:
    """Return how many rows are multiplied at once."""
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

    The rows ascend, and their cosines are known up to rounding.
    """
    if k <= 0 or not len(cosines):
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32)
    found = (cosines >= reached_by(cosines, k) - _NOISE).nonzero()[0]
    if len(found) > 4 * k:
        some = cosines[found]
        found = found[some >= np.partition(some, len(some) - k)[len(some) - k] - _NOISE]
    candidates = found if rows is None else rows[found]
    exact = rescore(matrix, query, candidates)
    order = (-exact).argsort(kind="stable")[:k]
    return candidates[order], exact[order]


def reached_by(numbers: NDArray[np.floating[Any]], k: int) -> np.floating[Any]:
    """Return a bound that at least k of the numbers reach, or all if they are fewer, and hardly more than k."""
    if k >= len(numbers):
        return numbers.min()
    height = min(_HIGHEST, len(numbers) // (2 * k))
    if height > 1 and len(numbers) > _WORTH_COLUMNS:
        # The largest of each column: k of them reach the k-th largest of these. Several times quicker than the rest.
        width = len(numbers) // height
        highest = numbers[: width * height].reshape(height, width).max(axis=0)
    else:
        highest = numbers.copy()
    highest.partition(len(highest) - k)
    return highest[len(highest) - k]


def rescore(matrix: Matrix, query: Vector, rows: Rows) -> Cosines:
    """Return the cosines of a few rows, each summed in double precision and in the same order."""
    products = np.multiply(matrix.take(rows, axis=0), query, dtype=np.float64)
    return np.add.reduce(products, axis=1).astype(np.float32)
