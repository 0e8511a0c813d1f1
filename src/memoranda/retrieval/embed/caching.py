"""An embedder in, the same one out that remembers what it embedded, works in batches and looks at what it gives."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from memoranda.errors import EmbeddingFailed, MemorandaError, UsageError
from memoranda.model.collection import Calibration
from memoranda.model.text import quote
from memoranda.retrieval.embed.base import Embedder, Vectors, as_bytes, takes_weights
from memoranda.retrieval.embed.checked import check_vectors


def cached(embedder: Embedder, *, capacity: int = 4_096, batch: int = 256) -> CachingEmbedder:
    """Return an embedder that asks the given one only for texts it has not lately embedded, `batch` at a time.

    At most `capacity` vectors are kept; the texts are not, only their hashes. One that takes weights still does.
    """
    if isinstance(embedder, CachingEmbedder):
        return embedder
    kind = WeightingCachingEmbedder if takes_weights(embedder) else CachingEmbedder
    return kind(embedder, capacity=capacity, batch=batch)


class CachingEmbedder:
    """The embedder it was given, behind a cache. Safe in many threads; every vector it gives has been checked."""

    def __init__(self, embedder: Embedder, *, capacity: int, batch: int) -> None:
        """Take the embedder, how many vectors to keep, and how many texts to embed at once."""
        if capacity < 0 or batch < 1:
            hint = "The capacity is a number of vectors from 0 on, the batch a number of texts from 1 on"
            raise UsageError(f"no cache has capacity {quote(capacity)} and batch {quote(batch)}", hint=hint)
        self._embedder = embedder
        self._capacity = capacity
        self._batch = batch
        self._lock = threading.Lock()
        # As bytes, which are made and put together again in a third of the time that as many arrays take.
        self._known: OrderedDict[bytes, bytes] = OrderedDict()

    @property
    def id(self) -> str:
        """Return the name of the space, which a cache does not change."""
        return self._embedder.id

    @property
    def dimension(self) -> int:
        """Return how many numbers a vector has."""
        return self._embedder.dimension

    @property
    def calibration(self) -> Calibration | None:
        """Return how the cosines become relevances, or None where that has to be measured first."""
        return self._embedder.calibration

    @property
    def reproducible(self) -> bool:
        """Whether the embedder says that it makes the same vectors again at any time, without a network."""
        return bool(getattr(type(self._embedder), "reproducible", False))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order; raise EmbeddingFailed, and never return only some.

        When a later batch fails, the vectors of the earlier ones stay in the cache, so that trying again costs only
        the rest.
        """
        together = bytearray().join(self.embed_as_bytes(texts))
        return np.frombuffer(together, np.float32).reshape(len(texts), self.dimension)

    def embed_as_bytes(self, texts: Sequence[str]) -> list[bytes]:
        """Return each vector that `embed` would as bytes of its own, as a store keeps it."""
        if len(texts) == 1:  # what is remembered or asked by itself
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
            given = self._ask(self._embedder.embed, [texts[row] for row in part])
            vectors = self._checked(given, rows=part)
            fresh = dict(zip([keys[row] for row in part], as_bytes(vectors), strict=True))
            found.update(fresh)
            self._keep(list(fresh.items()))
        return [found[key] for key in keys]

    def __repr__(self) -> str:
        """Return what is behind the cache."""
        return f"cached({self._embedder!r})"

    def _embed_one(self, text: str) -> bytes:
        key = _hash(text)
        with self._lock:
            vector = self._known.get(key)
            if vector is not None:
                self._known.move_to_end(key)
                return vector
        vector = self._checked(self._ask(self._embedder.embed, [text]), rows=(0,)).tobytes()
        self._keep([(key, vector)])
        return vector

    def _ask(self, embed: Callable[..., Vectors], *given: Sequence[Any]) -> Vectors:
        """Return what an embedder gives. What it does wrong becomes one kind of error: it may be somebody else's."""
        try:
            return embed(*given)
        except MemorandaError:
            raise
        except Exception as error:
            raise EmbeddingFailed(
                f"the embedder {quote(self.id)} failed: {type(error).__name__}: {quote(str(error), longest=200)}",
                hint="Nothing was stored; see why it fails for this text alone",
                retryable=False,
            ) from error

    def _checked(self, vectors: object, *, rows: Sequence[int]) -> Vectors:
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
    """The same for an embedder that takes weights. Weighted queries are checked, and not kept: they hardly recur."""

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
        """Return one unit vector (a single row) of a query whose words count as much as their weights say."""
        inner = self._embedder
        assert takes_weights(inner)
        return self._checked(self._ask(inner.embed_weighted, words, weights), rows=(0,))


def _hash(text: str) -> bytes:
    """Return what stands for a text: 16 bytes, so that no two of all texts in a lifetime share it."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
