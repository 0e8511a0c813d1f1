"""An embedder for promises about embedders: it tells what it was asked for, and fails on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memoranda.errors import EmbeddingFailed
from memoranda.model.collection import Calibration
from memoranda.retrieval.embed.base import Vectors
from memoranda.retrieval.embed.hashing import Hashing


class WatchedEmbedder:
    """Hashed words under another name, which cannot be found again by that name."""

    def __init__(self, id: str = "watched", dimension: int = 64) -> None:
        """Take the name and the dimension that it claims."""
        self._hashing = Hashing(dimension)
        self.id = id
        self.dimension = dimension
        self.asked: list[str] = []
        self.fails_on: str | None = None
        self.spoil: Callable[[Vectors], Vectors] | None = None

    @property
    def calibration(self) -> Calibration:
        """Return that of hashed words."""
        return self._hashing.calibration

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of hashed words, spoiled where that was asked for; fail on the text to fail on."""
        self.asked.extend(texts)
        if self.fails_on in texts:
            raise EmbeddingFailed("the embedder was told to fail", hint="Tell it not to", retryable=True)
        vectors = self._hashing.embed(texts)
        return self.spoil(vectors) if self.spoil is not None else vectors
