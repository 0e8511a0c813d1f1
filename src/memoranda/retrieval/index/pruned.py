"""Unit vectors in, the rows nearest to a query out, without reading all of each: most are out after their head.

Turned so that their first numbers vary most (principal components), a short head of two vectors settles most of
their cosine. What the tails can add is at most the product of their lengths, which are known. So one product with
the heads gives a bound for every row, and only rows whose bound reaches the k-th best cosine are compared whole:

    cosine(q, x) = head(q)·head(x) + tail(q)·tail(x)  ≤  head(q)·head(x) + |tail(q)|·|tail(x)|

As long as few rows are left the answer is exact. Where more are left than it would pay to compare, those with the
nearest heads are, and all rows if results still turn up among the last of them: there a neighbour can be missed.

Lists over clusters, the usual way, were measured and rejected: vectors of sentences hardly cluster. Of 300,000 in
1,024 lists three in ten had to be read to find 97 of 100 neighbours.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.index.vectors import (
    WORTH_GATHERING,
    Cosines,
    Mask,
    Matrix,
    Rows,
    Vector,
    VectorTable,
    gather,
    nearest,
    reached_by,
)

PRUNE_FROM = 200_000
"""From how many rows on heads are made. They are quicker from 50,000 on, but making them holds up the first search for
a second or more, and so far comparing all rows takes few milliseconds.
"""

# A head is as long as it takes to hold this part of the squared lengths. Where that is more than so much of a
# vector, reading heads first saves too little.
_SETTLED, _LONGEST = 0.7, 0.6
# Rows from which the directions are found, and by how much a table has grown when they are looked for again.
_SAMPLE, _GROWN = 20_000, 4
# Rows that are compared whole to begin with: their k-th best is what the others have to reach.
_FIRST = 1_024
# More rows than this part of the eligible ones, and than so many for each result, are never compared whole.
_MOST, _MOST_PER_RESULT = 0.04, 8
# If more of the results than this part came from the farther half of those, others stand behind them, and all rows
# are compared.
_LATE = 0.05
# Heads are computed from so many rows at once.
_PORTION = 8_192
# Single precision is a little off; a bound has to err upwards.
_SLACK = np.float32(4e-6)


class PrunedTable(VectorTable):
    """A table of vectors that compares heads first, from `prune_from` rows on.

    The heads follow when the next search needs them: a write costs nothing here, and many share one product.
    """

    def __init__(self, dimension: int, *, prune_from: int = PRUNE_FROM) -> None:
        """Start without rows, for vectors of so many numbers."""
        super().__init__(dimension)
        self._prune_from = prune_from
        self._fitted = 0
        """How many rows there were when the directions of the heads were looked for."""
        self._heads: _Heads | None = None
        # Searches may run side by side, and the first of them makes the heads.
        self._following = threading.Lock()

    @property
    def nbytes(self) -> int:
        """How many bytes the table takes, with its heads and the room for rows to come."""
        return super().nbytes + (self._heads.nbytes if self._heads else 0)

    def top(self, query: Vector, k: int, eligible: Mask | None = None) -> tuple[Rows, Cosines]:
        """Return the k eligible rows nearest to a query and their cosines, nearest first and then older first."""
        wanted = len(self) if eligible is None else int(np.count_nonzero(eligible))
        if (
            len(self) < self._prune_from
            or k <= 0
            or wanted <= max(WORTH_GATHERING * len(self), 2 * (_FIRST + _MOST_PER_RESULT * k))
        ):
            return super().top(query, k, eligible)
        heads = self._follow()
        if heads is None:
            return super().top(query, k, eligible)
        rows, likely, bounds = heads.compare(query, eligible)
        first = np.flatnonzero(likely >= reached_by(likely, _FIRST + k))
        _, cosines = self._nearest(query, k, rows, first)
        left = np.flatnonzero(bounds >= cosines[-1] - _SLACK)
        most = max(int(_MOST * len(likely)), _FIRST + _MOST_PER_RESULT * k)
        if len(left) <= most:
            return self._nearest(query, k, rows, left)
        left = np.flatnonzero(likely >= reached_by(likely, most))
        found, cosines = self._nearest(query, k, rows, left)
        late = likely[found if rows is None else np.searchsorted(rows, found)] < reached_by(likely, most // 2)
        if np.count_nonzero(late) > _LATE * k:
            return super().top(query, k, eligible)
        return found, cosines

    def _nearest(self, query: Vector, k: int, rows: Rows | None, chosen: Rows) -> tuple[Rows, Cosines]:
        """Return the nearest of the chosen places in `rows` (None: every row)."""
        numbers = chosen if rows is None else rows[chosen]
        return nearest(self.matrix, query, k, numbers, gather(self.matrix, query, numbers))

    def keep(self, rows: NDArray[np.integer[Any]]) -> None:
        """Let only these rows stay, numbered anew in the order given."""
        if self._heads:
            self._heads.extend(self.matrix)
            self._heads.keep(rows)
        super().keep(rows)

    def _follow(self) -> _Heads | None:
        """Return the heads of all rows, or None where they would not settle enough."""
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
        """Return no heads yet, but the directions in which these rows vary most; None where none stand out."""
        sample = matrix[:: max(1, len(matrix) // _SAMPLE)].astype(np.float64)
        strengths, directions = np.linalg.eigh(sample.T @ sample)
        settled = np.cumsum(strengths[::-1]) / strengths.sum()
        # Whole multiples of eight numbers are quickest.
        length = (int(np.searchsorted(settled, _SETTLED)) // 8 + 1) * 8
        if length > _LONGEST * matrix.shape[1]:
            return None
        return cls(np.ascontiguousarray(directions[:, ::-1][:, :length], dtype=np.float32))

    def extend(self, matrix: Matrix) -> None:
        """Add the heads of the rows that have none."""
        self._heads.reserve(len(matrix))
        self._tails.reserve(len(matrix))
        for start in range(len(self._heads), len(matrix), _PORTION):
            heads, tails = self._split(matrix[start : start + _PORTION])
            self._heads.append_matrix(heads)
            self._tails.append_matrix(tails[:, np.newaxis])

    def compare(self, query: Vector, eligible: Mask | None) -> tuple[Rows | None, Cosines, Cosines]:
        """Return the eligible rows (None: every row), what their heads say their cosines are, and can be at most."""
        heads, tails = self._split(query[np.newaxis])
        likely, lengths = self._heads.product(heads[0]), self._tails.matrix[:, 0]
        rows = None if eligible is None else np.flatnonzero(eligible)
        if rows is not None:
            likely, lengths = likely[rows], lengths[rows]
        bounds = lengths * tails[0]
        bounds += likely
        return rows, likely, bounds

    def keep(self, rows: NDArray[np.integer[Any]]) -> None:
        """Let only the heads of these rows stay."""
        self._heads.keep(rows)
        self._tails.keep(rows)

    def _split(self, vectors: Matrix) -> tuple[Matrix, Vector]:
        heads = vectors @ self._directions
        whole, settled = (np.einsum("ij,ij->i", each, each) for each in (vectors, heads))
        # Taking the two apart loses half the digits of a short tail: a root of the slack, so that no tail is too short.
        return heads, np.sqrt(np.maximum(whole - settled, 0) + _SLACK)
