"""Wrap an embedder with a cache, batching, and a check of every vector."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from memoranda.errors import EmbeddingFailed, MemorandaError, UsageError
from memoranda.model.entry import Calibration
from memoranda.model.text import quote
from memoranda.retrieval.embed.base import Embedder, Vectors, as_bytes, check_vectors, takes_weights


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
            for key, vector in fresh[-capacity:] if capacity else ():
                known[key] = vector
                known.move_to_end(key)
            while len(known) > capacity:
                known.popitem(last=False)


class WeightingCachingEmbedder(CachingEmbedder):
    """The same for an embedder that takes weights. Weighted queries are not cached, because they hardly recur."""

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
        """Return the unit vector (a single row) of a query with weighted words."""
        inner = self._embedder
        assert takes_weights(inner)
        return self._check(self._call(inner.embed_weighted, words, weights), rows=(0,))


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
