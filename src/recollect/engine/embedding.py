"""Effects that hold text in, the vectors they need out: made before a transaction begins, never inside one.

An embedder may take seconds and fail. So the gate asks for vectors first, while nothing is locked, and a verb only
looks them up. Should the collection have moved to another space in the meantime, the look-up fails as `Stale`, and
the gate begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from recollect.errors import EmbedderMismatch, RecollectError
from recollect.model.collection import Space
from recollect.model.effect import EffectBase, Import, ReembedEntries, Remember, WriteLines
from recollect.model.key import LINED
from recollect.model.value import canonical, decode
from recollect.store.base import Reader

if TYPE_CHECKING:
    from recollect.retrieval.embed.base import Embedder

T = TypeVar("T")
Read = Callable[[Callable[[Reader], T]], T]

LINES = "blocks"
"""The collection that the lines of texts are kept in; a caller's own collection cannot have this name."""


# Embedders that an id alone brings back. One that reads a folder or calls a server is used only where it is asked for.
_BUILT_IN = ("wordllama", "hashing")


class Stale(Exception):
    """The collection has moved to another space since its vectors were made."""


class EmbedderBook:
    """The embedders at hand: the one that new collections get, and those that old ones were made with."""

    def __init__(self, default: str | Embedder) -> None:
        """Keep what was chosen; it is loaded when it is first needed."""
        self._choice = default
        self._default: Embedder | None = None
        self._known: dict[str, Embedder] = {}

    def default(self) -> Embedder:
        """Return the embedder that new collections get."""
        if self._default is None:
            self._default = self.load(self._choice)
        return self._default

    def load(self, choice: str | Embedder) -> Embedder:
        """Return an embedder, given itself or by the name that settings have for it; it stays at hand."""
        from recollect.retrieval.embed.caching import cached
        from recollect.retrieval.embed.naming import resolve

        loaded = cached(resolve(choice) if isinstance(choice, str) else choice)
        return self._known.setdefault(loaded.id, loaded)

    def of(self, space: Space) -> Embedder:
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

    def space_of(self, embedder: Embedder) -> Space:
        """Return the space of an embedder, measuring its calibration where it does not know it."""
        from recollect.retrieval.calibration import calibrate

        calibration = embedder.calibration or calibrate(embedder)
        return Space(embedder=embedder.id, dimension=embedder.dimension, calibration=calibration)

    def _by_id(self, id: str) -> Embedder:
        if id.partition(":")[0] in _BUILT_IN:
            return self.load(id)
        default = self.default().id
        raise EmbedderMismatch(
            f"this collection needs the embedder `{id}`, and this memory has `{default}`",
            hint=f"Open it with embedder=…, or move the collection to `{default}`: recollect collections reembed …",
            expected=id,
            actual=default,
        )


class Embedded(msgspec.Struct, frozen=True):
    """Vectors by embedder and text, and the space that a new collection gets."""

    space: Space | None = None
    vectors: dict[str, dict[str, bytes]] = {}

    def new_space(self) -> Space:
        """Return the space that a new collection gets."""
        if self.space is None:
            raise Stale("a collection that was there is gone")
        return self.space

    def vector(self, space: Space, text: str) -> bytes:
        """Return the vector of a text in a space."""
        try:
            return self.vectors[space.embedder][text]
        except KeyError:
            raise Stale(space.embedder) from None


def needs_vectors(effect: EffectBase) -> bool:
    """Say whether an effect holds text that has to be embedded."""
    return isinstance(effect, Remember | WriteLines | ReembedEntries) or (
        isinstance(effect, Import) and bool(effect.entries or any(fact.key in LINED for fact in effect.facts))
    )


def embed_for(read: Read[dict[Space, list[str]]], effect: EffectBase, embedders: EmbedderBook) -> Embedded:
    """Return the vectors that an effect needs, in every space that its collections are in or move to."""
    new_space: Space | None = None

    def spaces(rows: Reader) -> dict[Space, list[str]]:
        nonlocal new_space
        wanted: dict[Space, list[str]] = {}
        for name, texts in _texts(rows, effect):
            collection = rows.collection(effect.scope.tenant, name)
            if collection is None:
                new_space = new_space or embedders.space_of(embedders.default())
                wanted.setdefault(new_space, []).extend(texts)
                continue
            homes = [collection.space] if not isinstance(effect, ReembedEntries) else []
            for space in (*homes, collection.successor):
                if space is not None:
                    wanted.setdefault(space, []).extend(texts)
        return wanted

    vectors = {space.embedder: _embed(space, texts, embedders) for space, texts in read(spaces).items()}
    return Embedded(new_space, vectors)


def text_of(payload: bytes) -> str:
    """Return the text by which a content is found: itself, or canonical JSON where it is data."""
    content = decode(payload)
    return content if isinstance(content, str) else canonical(content).decode()


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return the lines of a text that say something, with their numbers from 1 on."""
    return [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]


def _texts(rows: Reader, effect: EffectBase) -> list[tuple[str, list[str]]]:
    if isinstance(effect, Remember):
        return [(effect.collection, [text_of(bytes(item.payload)) for item in effect.items])]
    if isinstance(effect, WriteLines):
        return [(LINES, [line for _, line in lines_of(effect.text)])]
    if isinstance(effect, Import):
        texts: dict[str, list[str]] = {}
        for entry in effect.entries:
            texts.setdefault(entry.collection, []).append(text_of(bytes(entry.payload)))
        for fact in effect.facts:
            if fact.key in LINED:
                lines = lines_of(text_of(bytes(fact.payload)))
                texts.setdefault(LINES, []).extend(line for _, line in lines)
        return list(texts.items())
    if isinstance(effect, ReembedEntries):
        collection = rows.collection(effect.scope.tenant, effect.collection)
        if collection is None or collection.successor is None:
            return []
        waiting = rows.without_vector(
            effect.scope.tenant,
            effect.collection,
            collection.successor.embedder,
            effect.limit,
            after=effect.after,
        )
        return [(effect.collection, [text_of(canonical(entry.content)) for entry in waiting])]
    raise RecollectError(f"`{effect.name}` holds no text to embed")


def _embed(space: Space, texts: Sequence[str], embedders: EmbedderBook) -> dict[str, bytes]:
    distinct = list(dict.fromkeys(texts))
    embedder = embedders.of(space)
    return {text: vector.tobytes() for text, vector in zip(distinct, embedder.embed(distinct), strict=True)}
