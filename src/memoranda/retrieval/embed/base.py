"""What every embedder promises: texts in, unit vectors out, and a name that says which space they are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memoranda.model.collection import Calibration

Vectors = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of unit length, one row each."""

    @property
    def id(self) -> str:
        """What is stored with a collection: two embedders share an id only if their vectors can be compared."""
        ...

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        ...

    @property
    def calibration(self) -> Calibration | None:
        """How its cosines become relevances; None where that has to be measured first (`calibrate`)."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, in order; raise EmbeddingFailed, and never return only some."""
        ...


@runtime_checkable
class WeightingEmbedder(Embedder, Protocol):
    """An embedder whose vector of a query is a sum over its words, so that each word can be given a weight."""

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
        """Return one unit vector (a single row) of a query whose words count as much as their weights say."""
        ...


def as_bytes(vectors: Vectors) -> list[bytes]:
    """Return each vector as bytes of its own, as a store keeps it."""
    whole, size = vectors.tobytes(), vectors.itemsize * vectors.shape[1]
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def takes_weights(embedder: Embedder) -> TypeGuard[WeightingEmbedder]:
    """Say whether an embedder takes weights, without asking it anything.

    `isinstance` would look at its properties too, and an embedder on a server may have to ask for its dimension.
    """
    return hasattr(type(embedder), "embed_weighted")
