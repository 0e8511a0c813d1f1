"""The embedder protocol, checks of the vectors that embedders return and stores keep, and a cache in front of them.

Embedders are also written by others. Their vectors are checked before they are stored: a NaN in an index silently makes
every later comparison with it meaningless.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memoranda.errors import EmbeddingFailed, MemorandaError, UsageError
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


def with_cache(embedder: Embedder, *, capacity: int = 4_096, batch: int = 256) -> CachingEmbedder:
    """Return an embedder that calls the given one only for texts that are not cached, `batch` at a time.

    At most `capacity` vectors are cached, by the hashes of their texts. An embedder that takes weights still does.
    """
    if isinstance(embedder, CachingEmbedder):
        return embedder
    kind = WeightingCachingEmbedder if takes_weights(embedder) else CachingEmbedder
    return kind(embedder, capacity=capacity, batch=batch)


class CachingEmbedder:
    """An embedder behind a cache. Thread-safe; every vector it returns has been checked."""

    def __init__(self, embedder: Embedder, *, capacity: int, batch: int) -> None:
        """Wrap an embedder; cache up to `capacity` vectors, embed `batch` texts at once."""
        if capacity < 0 or batch < 1:
            hint = "The capacity must be at least 0, and the batch at least 1"
            raise UsageError(f"capacity {quote(capacity)} and batch {quote(batch)} are not valid", hint=hint)
        self._embedder = embedder
        self._capacity = capacity
        self._batch = batch
        self._lock = threading.Lock()
        # As bytes: they are created and joined in a third of the time that arrays take.
        self._known: OrderedDict[bytes, bytes] = OrderedDict()

    @property
    def id(self) -> str:
        """Return the id of the wrapped embedder."""
        return self._embedder.id

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return self._embedder.dimension

    @property
    def calibration(self) -> Calibration | None:
        """Return how cosines become relevances, or None if that has to be measured first."""
        return self._embedder.calibration

    @property
    def reproducible(self) -> bool:
        """Whether the embedder declares that it computes the same vectors at any time, without a network."""
        return bool(getattr(type(self._embedder), "reproducible", False))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order; raise `EmbeddingFailed` rather than return only some.

        If a batch fails, the vectors of the earlier ones stay in the cache, so that a retry computes only the rest.
        """
        together = bytearray().join(self.embed_as_bytes(texts))
        return np.frombuffer(together, np.float32).reshape(len(texts), self.dimension)

    def embed_as_bytes(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vectors of `embed` as bytes, as a store keeps them."""
        if len(texts) == 1:  # a single entry or query
            return [self._embed_one(texts[0])]
        keys = [_hash(text) for text in texts]
        found = self._look_up(keys)
        missing: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in found:
                missing.setdefault(key, row)
        pending = list(missing.values())
        for start in range(0, len(pending), self._batch):
            part = pending[start : start + self._batch]
            returned = self._call(self._embedder.embed, [texts[row] for row in part])
            vectors = self._check(returned, rows=part)
            fresh = dict(zip([keys[row] for row in part], as_bytes(vectors), strict=True))
            found.update(fresh)
            self._keep(list(fresh.items()))
        return [found[key] for key in keys]

    def __repr__(self) -> str:
        """Return the wrapped embedder's description."""
        return f"cached({self._embedder!r})"

    def _embed_one(self, text: str) -> bytes:
        key = _hash(text)
        with self._lock:
            vector = self._known.get(key)
            if vector is not None:
                self._known.move_to_end(key)
                return vector
        vector = self._check(self._call(self._embedder.embed, [text]), rows=(0,)).tobytes()
        self._keep([(key, vector)])
        return vector

    def _call(self, embed: Callable[..., Vectors], *arguments: Sequence[Any]) -> Vectors:
        """Call the embedder; any exception of third-party code becomes `EmbeddingFailed`."""
        try:
            return embed(*arguments)
        except MemorandaError:
            raise
        except Exception as error:
            raise EmbeddingFailed(
                f"the embedder {quote(self.id)} failed: {type(error).__name__}: {quote(str(error), longest=200)}",
                hint="Nothing was stored; check why it fails for this text alone",
                retryable=False,
            ) from error

    def _check(self, vectors: object, *, rows: Sequence[int]) -> Vectors:
        return check_vectors(vectors, embedder=self.id, count=len(rows), dimension=self.dimension, rows=rows)

    def _look_up(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with self._lock:
            for key in keys:
                vector = self._known.get(key)
                if vector is not None:
                    self._known.move_to_end(key)
                    found[key] = vector
        return found

    def _keep(self, fresh: list[tuple[bytes, bytes]]) -> None:
        known, capacity = self._known, self._capacity
        with self._lock:
            if capacity:
                known.update(fresh[-capacity:])
            while len(known) > capacity:
                known.popitem(last=False)


class WeightingCachingEmbedder(CachingEmbedder):
    """The same for an embedder that takes weights. Weighted queries are not cached, because they hardly recur."""

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
        """Return the unit vector (a single row) of a query with weighted words."""
        inner = self._embedder
        assert takes_weights(inner)
        return self._check(self._call(inner.embed_weighted, words, weights), rows=(0,))

    def knows(self, words: Sequence[str], weights: Sequence[float]) -> float:
        """Return how much of a query the wrapped embedder knows; 1 if it does not say."""
        asked: Callable[..., float] | None = getattr(self._embedder, "knows", None)
        return 1.0 if asked is None else asked(words, weights)


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
