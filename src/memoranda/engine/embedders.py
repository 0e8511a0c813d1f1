"""The embedders at hand: a name, an id or a space in, what makes its vectors out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from memoranda.errors import EmbedderError, EmbedderMismatch, UsageError
from memoranda.model.collection import Space
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.retrieval.embed.base import Embedder
    from memoranda.retrieval.embed.caching import CachingEmbedder

# Embedders that an id alone brings back. One that reads a folder or calls a server is used only where it is asked for.
_BUILT_IN = ("wordllama", "hashing")


class EmbedderBook:
    """The embedders at hand: the one that new collections get, and those that old ones were made with."""

    def __init__(self, default: str | Embedder) -> None:
        """Keep what was chosen; it is loaded when it is first needed."""
        self._choice = default
        self._default: CachingEmbedder | None = None
        self._known: dict[str, CachingEmbedder] = {}
        self._made: list[Embedder] = []

    def default(self) -> CachingEmbedder:
        """Return the embedder that new collections get."""
        if self._default is None:
            self._default = self.load(self._choice)
        return self._default

    def load(self, choice: str | Embedder) -> CachingEmbedder:
        """Return an embedder, given itself or by the name that settings have for it; it stays at hand."""
        from memoranda.retrieval.embed.caching import cached
        from memoranda.retrieval.embed.naming import resolve

        if isinstance(choice, str):
            choice = resolve(choice)
            self._made.append(choice)
        elif not hasattr(cast(object, type(choice)), "embed"):
            hint = "Name one, such as `wordllama`, or pass an object with id, dimension, calibration and embed"
            raise UsageError(f"{quote(choice)} is no embedder", hint=hint, value=choice)
        loaded = cached(choice)
        return self._known.setdefault(loaded.id, loaded)

    def close(self) -> None:
        """Let go of what embedders hold that were made here, such as connections; one that was given stays open."""
        for made in self._made:
            end: Callable[[], None] | None = getattr(made, "close", None)
            if end is not None:
                end()

    def of(self, space: Space) -> CachingEmbedder:
        """Return the embedder of a space, or say how it can be had."""
        known = self._known.get(space.embedder) or self._known.get(self.default().id)
        if known is None or known.id != space.embedder:
            known = self._by_id(space.embedder)
        if known.dimension != space.dimension:
            raise EmbedderMismatch(
                f"this collection has vectors of {space.dimension} numbers, and `{known.id}` makes {known.dimension}",
                hint="Open it with the embedder it was made with, and give another one another id",
                expected=space.dimension,
                actual=known.dimension,
            )
        return known

    def reproducing(self, space: Space) -> CachingEmbedder | None:
        """Return the embedder that makes the vectors of a space again, offline; None where there is none."""
        try:
            known = self._known.get(space.embedder) or self._known.get(self.default().id)
        except (UsageError, EmbedderError):  # the default cannot be loaded; built-in ones do not need it
            known = None
        try:
            if known is None or known.id != space.embedder:
                known = self._by_id(space.embedder)
            if not known.reproducible:
                return None
            known.embed(["hello"])  # a model may be there, and what runs it not
        except (UsageError, EmbedderError):
            return None
        return known

    def space_of(self, embedder: Embedder) -> Space:
        """Return the space of an embedder, measuring its calibration where it does not know it."""
        from memoranda.retrieval.calibration import calibrate

        calibration = embedder.calibration or calibrate(embedder)
        return Space(embedder=embedder.id, dimension=embedder.dimension, calibration=calibration)

    def _by_id(self, id: str) -> CachingEmbedder:
        if id.partition(":")[0] in _BUILT_IN:
            return self.load(id)
        default = self.default().id
        raise EmbedderMismatch(
            f"this collection needs the embedder `{id}`, and this memory has `{default}`",
            hint=f"Open it with embedder=…, or move the collection to `{default}`: memoranda collections reembed …",
            expected=id,
            actual=default,
        )
