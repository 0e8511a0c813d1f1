"""Texts in, vectors of hashed words out: no model and no meaning, only the words that two texts share. For tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from memoranda.errors import UsageError
from memoranda.model.collection import Calibration
from memoranda.model.text import quote
from memoranda.retrieval.embed.base import Vectors
from memoranda.retrieval.embed.unit import to_unit

_WORDS = re.compile(r"\w+")

# Its cosine is about the share of words in common: two words of five in each make a text as relevant as not.
_CALIBRATION = Calibration(middle=0.4, steepness=10.0)


class Hashing:
    """Each word adds or takes one at a place that its hash names; equal on every machine, in every version."""

    reproducible = True

    def __init__(self, dimension: int = 256) -> None:
        """Take how many numbers a vector has; the fewer, the more words fall on one place."""
        if dimension < 1:
            raise UsageError(f"{quote(dimension)} is no dimension", hint="Give a number from 1 on, such as 256")
        self._dimension = dimension

    @property
    def id(self) -> str:
        """Return the name of the space."""
        return f"hashing:{self._dimension}"

    @property
    def dimension(self) -> int:
        """Return how many numbers a vector has."""
        return self._dimension

    @property
    def calibration(self) -> Calibration:
        """Return how the share of words in common becomes a relevance."""
        return _CALIBRATION

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order."""
        sums = np.zeros((len(texts), self._dimension), np.float32)
        for row, text in enumerate(texts):
            self._add(sums, row, text, 1.0)
        return to_unit(sums)

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
        """Return one unit vector (a single row) of a query whose words count as much as their weights say."""
        sums = np.zeros((1, self._dimension), np.float32)
        for word, weight in zip(words, weights, strict=True):
            self._add(sums, 0, word, weight)
        return to_unit(sums)

    def __repr__(self) -> str:
        """Return how to make it."""
        return f"Hashing({self._dimension})"

    def _add(self, sums: Vectors, row: int, text: str, weight: float) -> None:
        for word in _WORDS.findall(text.casefold()):
            place, sign = _hash(word)
            sums[row, place % self._dimension] += sign * weight


@lru_cache(maxsize=16_384)
def _hash(word: str) -> tuple[int, int]:
    """Return a large number for a word, and a sign that does not depend on it."""
    digest = blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest[:7], "little"), 1 if digest[7] & 1 else -1
