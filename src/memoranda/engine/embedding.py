"""Embedders, and the words and vectors that are made of an effect's texts before its transaction begins.

An embedder may take seconds and fail, and reading words takes longer than writing rows. So the gate has both done
first, while nothing is locked, and a verb only looks them up. If the collection has moved to another space meanwhile,
the look-up raises `Stale`, and the gate starts over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.errors import EmbedderError, EmbedderMismatch, Hint, UsageError
from memoranda.model.entry import Collection, Space
from memoranda.model.text import quote
from memoranda.model.value import canonical
from memoranda.store.base import Reader

if TYPE_CHECKING:
    from memoranda.retrieval.embed.base import CachingEmbedder, Embedder

# Embedders that an id is enough to load. One that reads a folder or calls a server has to be asked for.
_BUILT_IN = ("wordllama", "hashing")


class EmbedderBook:
    """The embedders in use: the one that new collections get, and those that existing ones were made with."""

    def __init__(self, default: str | Embedder) -> None:
        """Choose the default; it is loaded when it is first needed."""
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
        """Return an embedder, given as an object or by the name that settings use for it, and keep it."""
        from memoranda.retrieval.embed.base import with_cache
        from memoranda.retrieval.embed.registry import resolve

        if isinstance(choice, str):
            choice = resolve(choice)
            self._made.append(choice)
        elif not hasattr(cast(object, type(choice)), "embed"):
            hint = "Name one, such as `wordllama`, or pass an object with id, dimension, calibration and embed"
            raise UsageError(f"{quote(choice)} is not an embedder", hint=hint, value=choice)
        loaded = with_cache(choice)
        return self._known.setdefault(loaded.id, loaded)

    def local(self) -> CachingEmbedder:
        """Return an embedder that needs no network: the default, or the built-in one where the default does."""
        try:
            default = self.default()
        except (UsageError, EmbedderError):
            return self.load(_BUILT_IN[0])
        return default if default.reproducible else self.load(_BUILT_IN[0])

    def close(self) -> None:
        """Close the embedders that were made here, such as their connections; one that was passed in stays open."""
        for made in self._made:
            end: Callable[[], None] | None = getattr(made, "close", None)
            if end is not None:
                end()

    def of(self, space: Space) -> CachingEmbedder:
        """Return the embedder of a space, or raise what to do to get it."""
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
            hint=(Hint("embedder"), Hint("command", f"collections reembed NAME --to {default}")),
            expected=id,
            actual=default,
        )


class Stale(Exception):
    """What a write was prepared for has changed: a collection has moved to another space, or records have changed."""


class Derived(msgspec.Struct, frozen=True):
    """The words of an effect's texts, their vectors by embedder, and the space of a new collection."""

    words: dict[str, bytes] = {}
    vectors: dict[str, dict[str, bytes]] = {}
    space: Space | None = None

    def analysis(self, text: str) -> bytes:
        """Return the words of a text, packed."""
        try:
            return self.words[text]
        except KeyError:
            raise Stale("a text that was not there") from None

    def vector(self, space: Space, text: str) -> bytes:
        """Return the vector of a text in a space."""
        try:
            return self.vectors[space.embedder][text]
        except KeyError:
            raise Stale(space.embedder) from None

    def new_space(self) -> Space:
        """Return the space that a new collection gets."""
        if self.space is None:
            raise Stale("a collection that was there is gone")
        return self.space


Texts = dict[Space | None, list[str]]
"""The texts to embed by space; None is the space of collections that do not exist yet."""


def texts_by_space(rows: Reader, tenant: str, texts: Iterable[tuple[str, list[str]]]) -> Texts:
    """Return the texts of collections, by name, under every space in which their vectors are needed."""
    wanted: Texts = {}
    for name, of_collection in texts:
        for space in _spaces(rows.get(Collection, tenant, name)):
            wanted.setdefault(space, []).extend(of_collection)
    return wanted


def _spaces(collection: Collection | None) -> list[Space | None]:
    if collection is None:
        return [None]
    return [collection.space] if collection.successor is None else [collection.space, collection.successor]


def derive(wanted: Texts, embedders: EmbedderBook, *, has_words: bool = False) -> Derived:
    """Return the vectors of texts in each space, and their words unless they are stored already."""
    new = embedders.space_of(embedders.default()) if None in wanted else None
    vectors: dict[str, dict[str, bytes]] = {}
    for place, texts in wanted.items():
        space = place or new
        if space is not None:
            vectors.setdefault(space.embedder, {}).update(_embed(space, texts, embedders))
    words: dict[str, bytes] = {}
    if not has_words:
        distinct = dict.fromkeys(text for texts in wanted.values() for text in texts)
        if len(distinct) < 2:
            pack_words = word_packer()
            words = {text: pack_words(text) for text in distinct}
        else:
            from memoranda.retrieval.analysis.batch import pack_all

            words = dict(zip(distinct, pack_all(list(distinct)), strict=True))
    return Derived(words, vectors, new)


def _embed(space: Space, texts: Sequence[str], embedders: EmbedderBook) -> dict[str, bytes]:
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, embedders.of(space).embed_as_bytes(distinct), strict=True))


@functools.cache
def word_packer() -> Callable[[str], bytes]:
    """Return what packs the words of a text; it is imported when first needed, and cached because that is slow."""
    from memoranda.retrieval.analysis.analyser import analyse, pack

    return lambda text: pack(analyse(text))


def words_of(text: str) -> list[str]:
    """Return the words that an index has of a text, each once."""
    from memoranda.retrieval.analysis.analyser import analyse

    terms = analyse(text).terms
    return terms.split(" ") if terms else []


def text_of(content: Any) -> str:
    """Return the text by which a content is found: itself, or canonical JSON where it is data."""
    return content if isinstance(content, str) else canonical(content).decode()
