"""An embedder for tests: feature hashing of words, without a model. Only shared words make texts similar."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from memoranda.errors import UsageError
from memoranda.model.entry import Calibration
from memoranda.model.text import quote
from memoranda.retrieval.embed.base import Vectors, to_unit

_WORDS = re.compile(r"\w+")

# The cosine is about the share of common words: two words of five make a relevance of one half.
_CALIBRATION = Calibration(middle=0.4, steepness=10.0)


class Hashing:
    """Each word adds or subtracts 1 at a position given by its hash; the same on every machine and in every version."""

    reproducible = True

    def __init__(self, dimension: int = 256) -> None:
        """Create an embedder; the smaller the dimension, the more words collide."""
        if dimension < 1:
            raise UsageError(f"{quote(dimension)} is not a valid dimension", hint="Use at least 1, for example 256")
        self._dimension = dimension

    @property
    def id(self) -> str:
        """Return `hashing:` and the dimension."""
        return f"hashing:{self._dimension}"

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return self._dimension

    @property
    def calibration(self) -> Calibration:
        """Return how the share of common words becomes a relevance."""
        return _CALIBRATION

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order."""
        sums = np.zeros((len(texts), self._dimension), np.float32)
        for row, text in enumerate(texts):
            self._add(sums, row, text, 1.0)
        return to_unit(sums)

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
        """Return the unit vector (a single row) of a query with weighted words."""
        sums = np.zeros((1, self._dimension), np.float32)
        for word, weight in zip(words, weights, strict=True):
            self._add(sums, 0, word, weight)
        return to_unit(sums)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"Hashing({self._dimension})"

    def _add(self, sums: Vectors, row: int, text: str, weight: float) -> None:
        for word in _WORDS.findall(text.casefold()):
            place, sign = _hash(word)
            sums[row, place % self._dimension] += sign * weight


@lru_cache(maxsize=16_384)
def _hash(word: str) -> tuple[int, int]:
    """Return a large number for a word, and an independent sign."""
    digest = blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest[:7], "little"), 1 if digest[7] & 1 else -1
