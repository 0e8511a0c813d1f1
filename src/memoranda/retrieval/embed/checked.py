"""What an embedder returned in, unit vectors or an error that says what is wrong with them out.

Embedders are written by others too. What one of them gives is looked at before it is stored: a NaN in an index makes
every later comparison with it meaningless, and silently so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.errors import EmbeddingFailed
from memoranda.model.text import quote
from memoranda.retrieval.embed.base import Vectors

# Above what rounding does to a unit vector in single precision, below what anybody could notice.
_ROUNDING = 1e-5
# What an index takes of a stored vector: how far the square of its length may be from one.
_STORED_ROUNDING = 1e-3
_SAME_DIRECTION = 0.999


def check_vectors(
    given: object, *, embedder: str, count: int, dimension: int, rows: Sequence[int] | None = None
) -> Vectors:
    """Return `count` float32 rows of unit length, or raise EmbeddingFailed naming the first bad one.

    Rows of another length than one are brought to it; what has no direction (zeros, NaN, infinity) is refused.
    `rows` says where the texts stood among those that the caller gave, when they are only some of them.
    """
    vectors = _as_matrix(given, embedder)
    if vectors.shape != (count, dimension):
        raise _wrong(embedder, f"gave vectors of shape {vectors.shape} for {count} texts, not {(count, dimension)}")
    return vectors if _are_unit(vectors) else _to_unit_or_refuse(vectors, embedder, rows or range(count))


def vector_faults(stored: Sequence[bytes], dimension: int, expected: Vectors | None) -> list[str | None]:
    """Return for each stored vector what is wrong with it, or None; `expected` is what it should point to, if known.

    Directions are compared, not bytes: processors and libraries add up in different orders.
    """
    faults: list[str | None] = []
    for row, blob in enumerate(stored):
        faults.append(_vector_fault(blob, dimension, None if expected is None else expected[row]))
    return faults


def _vector_fault(blob: bytes, dimension: int, expected: Vectors | None) -> str | None:
    if len(blob) != 4 * dimension:
        return f"has {len(blob)} bytes instead of {4 * dimension}"
    vector = np.frombuffer(blob, "<f4")
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(np.vdot(vector, vector))
        cosine = 1.0 if expected is None else float(np.vdot(vector, expected))
    # A comparison with NaN is never true.
    if not abs(square - 1.0) <= _STORED_ROUNDING:
        return "is not a vector of unit length"
    if not cosine >= _SAME_DIRECTION:
        return f"is not that of its text: their cosine is {cosine:.3f}"
    return None


def _are_unit(vectors: Vectors) -> bool:
    # A comparison with NaN is never true.
    if len(vectors) == 1:  # a query, for which all the rest would take several times as long
        return abs(float(np.vdot(vectors, vectors)) - 1.0) <= 2 * _ROUNDING
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors)
    return bool((np.abs(squares - 1.0) <= 2 * _ROUNDING).all())


def _as_matrix(given: object, embedder: str) -> Vectors:
    try:
        vectors: NDArray[Any] = np.asarray(given)
        if vectors.dtype != np.float32 or not vectors.flags.c_contiguous:
            with np.errstate(over="ignore"):
                vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise _wrong(embedder, f"gave {quote(type(given).__name__)}, which is no matrix of numbers") from error
    return vectors


def _to_unit_or_refuse(vectors: Vectors, embedder: str, rows: Sequence[int]) -> Vectors:
    wide = vectors.astype(np.float64)  # so that the squares of large numbers stay finite
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0.0))
    if len(bad):
        first = int(bad[0])
        held = "only zeros" if lengths[first] == 0.0 else "NaN" if np.isnan(wide[first]).any() else "infinity"
        raise _wrong(embedder, f"gave a vector of {held} for text number {rows[first] + 1}", row=rows[first])
    return (wide / lengths[:, None]).astype(np.float32)


def _wrong(embedder: str, what: str, **details: int) -> EmbeddingFailed:
    hint = "Nothing was stored; see what the embedder returns for this text alone"
    return EmbeddingFailed(f"the embedder {quote(embedder)} {what}", hint=hint, retryable=False, **details)
