"""The embedder protocol, and the checks on the vectors that embedders return and stores keep.

Embedders are also written by others. Their vectors are checked before they are stored: a NaN in an index silently makes
every later comparison with it meaningless.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memoranda.errors import EmbeddingFailed
from memoranda.model.entry import Calibration
from memoranda.model.text import quote

Vectors = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of unit length, one row each."""

    @property
    def id(self) -> str:
        """The name that is stored with a collection: embedders share it only if their vectors are comparable."""
        ...

    @property
    def dimension(self) -> int:
        """The dimension of the vectors."""
        ...

    @property
    def calibration(self) -> Calibration | None:
        """How cosines become relevances; None if that has to be measured first (`calibrate`)."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order; raise `EmbeddingFailed` rather than return only some."""
        ...


@runtime_checkable
class WeightingEmbedder(Embedder, Protocol):
    """An embedder whose query vector is a weighted sum over words."""

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
        """Return the unit vector (a single row) of a query with weighted words."""
        ...


def as_bytes(vectors: Vectors) -> list[bytes]:
    """Return each vector as bytes, as a store keeps it."""
    whole, size = vectors.tobytes(), vectors.itemsize * vectors.shape[1]
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def takes_weights(embedder: Embedder) -> TypeGuard[WeightingEmbedder]:
    """Return whether an embedder takes weights, without evaluating its properties.

    `isinstance` would evaluate them, and a remote embedder may have to send a request for its dimension.
    """
    return hasattr(type(embedder), "embed_weighted")


def to_unit(sums: Vectors) -> Vectors:
    """Scale each row to unit length, in place.

    A row of zeros becomes the first axis: texts without words are similar to each other and to little else, and no NaN
    gets into an index.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    if not lengths.all():
        nothing = lengths == 0.0
        sums[nothing, 0] = 1.0
        lengths[nothing] = 1.0
    sums /= lengths[:, None]
    return sums


# Above the rounding of a unit vector in single precision, below any noticeable difference.
_ROUNDING = 1e-5
# Tolerance for the squared length of a stored vector.
_STORED_ROUNDING = 1e-3
_SAME_DIRECTION = 0.999


def check_vectors(
    given: object, *, embedder: str, count: int, dimension: int, rows: Sequence[int] | None = None
) -> Vectors:
    """Return `count` float32 rows of unit length, or raise `EmbeddingFailed` naming the first bad one.

    Rows are scaled to unit length; rows without a direction (zeros, NaN, infinity) are rejected. `rows` has the
    positions of the texts in the caller's list, if they are only some of them.
    """
    vectors = _as_matrix(given, embedder)
    if vectors.shape != (count, dimension):
        raise _wrong(embedder, f"returned shape {vectors.shape} for {count} texts, not {(count, dimension)}")
    return vectors if _are_unit(vectors) else _scale_to_unit(vectors, embedder, rows or range(count))


def vector_faults(stored: Sequence[bytes], dimension: int, expected: Vectors | None) -> list[str | None]:
    """Return for each stored vector what is wrong with it, or None; `expected` has the right vectors, if known.

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
    if len(vectors) == 1:  # a query: several times faster than the general case
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
        raise _wrong(embedder, f"returned {quote(type(given).__name__)}, not a matrix of numbers") from error
    return vectors


def _scale_to_unit(vectors: Vectors, embedder: str, rows: Sequence[int]) -> Vectors:
    wide = vectors.astype(np.float64)  # so that the squares of large numbers stay finite
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0.0))
    if len(bad):
        first = int(bad[0])
        held = "only zeros" if lengths[first] == 0.0 else "NaN" if np.isnan(wide[first]).any() else "infinity"
        raise _wrong(embedder, f"returned a vector of {held} for text number {rows[first] + 1}", row=rows[first])
    return (wide / lengths[:, None]).astype(np.float32)


def _wrong(embedder: str, what: str, **details: int) -> EmbeddingFailed:
    hint = "Nothing was stored; check what the embedder returns for this text alone"
    return EmbeddingFailed(f"the embedder {quote(embedder)} {what}", hint=hint, retryable=False, **details)
