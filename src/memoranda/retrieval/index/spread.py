"""How the meaning of entries is spread in an index, so that some of them can be compared with all without reading all.

Similarity counts in standard deviations from the mean of the index, after each entry has taken a little from its
neighbours. That sum is linear in the query: an entry with its neighbours is one vector, so the mean and the variance of
all similarities follow from the mean and the covariance of these vectors. They are measured in a sample of the entries,
and again after a part of the index has changed: a query then costs one small product.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.index.neighbours import Context

Numbers = NDArray[np.floating[Any]]
Rows = NDArray[np.intp]

_MOST, _FEWEST, _PRODUCTS = 65_536, 8_192, 1 << 32
"""How many entries are measured (of fewer, all are): the time grows with the square of the dimension."""
# Rows whose neighbours are gathered at once.
_PORTION = 2_048


class Spread(NamedTuple):
    """Means and covariance of the vectors of an index."""

    mean: NDArray[np.float32]
    """The mean of all vectors."""
    middle: Numbers
    """The mean of the vectors with what they take from their neighbours, each relative to `mean`."""
    covariance: Numbers
    """The covariance of the same."""
    alone: Numbers
    """The covariance of all vectors by themselves."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return sum(array.nbytes for array in self)

    def of(self, vector: Numbers, seen: Seen | None = None) -> tuple[float, float, float]:
        """Return the mean cosine with a vector, and the mean and variance of cosines with those of neighbours.

        What was seen of all cosines shows how far the sample was from the whole.
        """
        exact = vector.astype(np.float64)
        variance = float(exact @ self.covariance @ exact)
        if seen is not None and (expected := float(seen.vector @ self.alone @ seen.vector)) > 0:
            variance *= seen.variance / expected
        return float(self.mean @ vector), float(self.middle @ exact), max(variance, 0.0)


class Seen(NamedTuple):
    """The variance of the cosines of all vectors with one that is like a query."""

    vector: Numbers
    variance: float


def measure_spread(matrix: NDArray[np.float32], context: Context, present: Rows) -> Spread:
    """Measure the spread of the vectors of some rows, those that are present; the rows are in ascending order."""
    dimension = matrix.shape[1]
    most = min(_MOST, max(_FEWEST, _PRODUCTS // dimension**2))
    sample = present if len(present) <= most else present[np.linspace(0, len(present) - 1, most).astype(np.intp)]
    total = np.zeros(dimension)
    for start in range(0, len(sample), _PORTION):
        total += matrix.take(sample[start : start + _PORTION], axis=0).sum(axis=0, dtype=np.float64)
    mean = (total / len(sample)).astype(np.float32)
    middle, products, alone = np.zeros(dimension), np.zeros((dimension, dimension)), np.zeros((dimension, dimension))
    for start in range(0, len(sample), _PORTION):
        rows = sample[start : start + _PORTION]
        together = matrix.take(rows, axis=0) - mean
        alone += together.T @ together
        for beside, sense in zip(context.beside, context.sense, strict=False):
            others = beside.take(rows)
            linked = (others < len(matrix)).nonzero()[0]
            if len(linked):
                shares = sense.take(rows.take(linked))[:, np.newaxis]
                together[linked] += shares * (matrix.take(others.take(linked), axis=0) - mean)
        middle += together.sum(axis=0, dtype=np.float64)
        products += together.T @ together
    middle /= len(sample)
    products /= len(sample)
    products -= np.outer(middle, middle)
    alone /= len(sample)
    return Spread(mean, middle, products, alone)
