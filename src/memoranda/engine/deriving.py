"""Effects that hold text in, what recall needs of it out: words and vectors, made before a transaction begins.

An embedder may take seconds and fail, and reading words takes longer than writing rows. So the gate asks for both
first, while nothing is locked, and a verb only looks them up. Should the collection have moved to another space in
the meantime, the look-up fails as `Stale`, and the gate begins again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from memoranda.engine.embedders import EmbedderBook
from memoranda.errors import MemorandaError
from memoranda.model.clock import to_micros
from memoranda.model.collection import Collection, Space
from memoranda.model.effect import EffectBase, Import, ReembedEntries, Remember
from memoranda.model.entry import Entry, Indexed
from memoranda.model.value import canonical, decode, encode
from memoranda.store.base import Read, Reader

if TYPE_CHECKING:
    from memoranda.retrieval.embed.caching import CachingEmbedder


class Stale(Exception):
    """The collection has moved to another space since its vectors were made."""


class Derived(msgspec.Struct, frozen=True):
    """What was made of an effect's texts: their words, their vectors by embedder, and the space of a new collection."""

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


_PORTION = 256
"""Entries that are derived again at once, each of 80 kilobytes at most."""
_TEXTUAL = frozenset({Remember, ReembedEntries})


def holds_text(effect: EffectBase) -> bool:
    """Say whether an effect holds text that recall will have to find."""
    return type(effect) in _TEXTUAL or (type(effect) is Import and bool(effect.entries))


Texts = dict[Space | None, list[str]]
"""The texts to embed by space; None stands for the space of collections that are yet to be made."""


def derive(wanted: Texts, effect: EffectBase, embedders: EmbedderBook) -> Derived:
    """Return the words of an effect's texts, and their vectors in every space its collections are in or move to."""
    new = embedders.space_of(embedders.default()) if None in wanted else None
    vectors: dict[str, dict[str, bytes]] = {}
    for place, texts in wanted.items():
        space = place or new
        if space is not None:
            vectors.setdefault(space.embedder, {}).update(_embed(space, texts, embedders))
    words: dict[str, bytes] = {}
    if not isinstance(effect, ReembedEntries):  # what is embedded anew has its words already
        read_words = _word_reader()
        for texts in wanted.values():
            for text in texts:
                if text not in words:
                    words[text] = read_words(text)
    return Derived(words, vectors, new)


@functools.cache
def _word_reader() -> Callable[[str], bytes]:
    """Return what packs the words of a text, imported when it is first needed; finding it each time takes too long."""
    from memoranda.retrieval.analysis.analyse import analyse
    from memoranda.retrieval.analysis.analysed import pack

    return lambda text: pack(analyse(text))


def texts_of(rows: Reader, effect: EffectBase) -> Texts:
    """Return the texts of an effect, by the spaces in which they are wanted."""
    wanted: Texts = {}
    for name, texts in _texts(rows, effect):
        collection = rows.collection(effect.scope.tenant, name)
        for space in _spaces(collection, anew=isinstance(effect, ReembedEntries)):
            wanted.setdefault(space, []).extend(texts)
    return wanted


def texts_to_remember(effect: Remember, collection: Collection | None) -> Texts:
    """Return what `texts_of` does for what is remembered, given the collection it goes to."""
    texts = _texts_of_items(effect)
    return {space: texts for space in _spaces(collection)}


def _spaces(collection: Collection | None, *, anew: bool = False) -> list[Space | None]:
    """Return the spaces in which the texts of a collection are wanted; of those embedded anew, only the next one."""
    if collection is None:
        return [None]
    spaces: list[Space | None] = [] if anew else [collection.space]
    if collection.successor is not None:
        spaces.append(collection.successor)
    return spaces


def text_of(content: Any) -> str:
    """Return the text by which a content is found: itself, or canonical JSON where it is data."""
    return content if isinstance(content, str) else canonical(content).decode()


def has_indexed(read: Read, collection: Collection, space: Space) -> bool:
    """Say whether a collection keeps vectors in a space."""
    return bool(read(lambda rows: rows.indexed_entries(collection.tenant, collection.name, space.embedder, 1)))


def index_differences(
    read: Read, collection: Collection, space: Space, embedder: CachingEmbedder | None
) -> Iterator[str]:
    """Yield what an index would be given that is not what its entry says, deriving it again in portions.

    Without an embedder, directions of vectors are not compared; all the rest is. An entry never changes and each
    portion is a moment of its own, so nothing is locked meanwhile.
    """
    if embedder is not None and embedder.dimension != space.dimension:
        yield f"it has vectors of {space.dimension} numbers, and `{embedder.id}` makes {embedder.dimension}"
        return
    after = 0
    while portion := _indexed_portion(read, collection, space, after):
        after = portion[-1][0].sequence
        texts = [text_of(entry.content) for entry, _ in portion]
        for (entry, indexed), text, fault in zip(
            portion, texts, _vector_faults(portion, texts, space, embedder), strict=True
        ):
            where = f"entry `{entry.id}` in `{entry.scope}`"
            if fault is not None:
                yield f"the vector of {where} {fault}"
            if indexed.analysis != _word_reader()(text):
                yield f"the words kept of {where} are not those of its text"
            if not _is_metadata_of(entry, indexed.metadata):
                yield f"the metadata kept for recall of {where} are not those of the entry"
            if indexed.expires_at != (None if entry.expires_at is None else to_micros(entry.expires_at)):
                yield f"the expiry kept for recall of {where} is not that of the entry"


def _is_metadata_of(entry: Entry, metadata: bytes) -> bool:
    if metadata == encode(entry.metadata):
        return True
    try:
        return canonical(decode(metadata)) == canonical(entry.metadata)  # an import may have written them differently
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _indexed_portion(read: Read, collection: Collection, space: Space, after: int) -> list[tuple[Entry, Indexed]]:
    place = collection.tenant, collection.name, space.embedder
    return read(lambda rows: rows.indexed_entries(*place, _PORTION, after=after))


def _vector_faults(
    portion: Sequence[tuple[Entry, Indexed]], texts: Sequence[str], space: Space, embedder: CachingEmbedder | None
) -> list[str | None]:
    from memoranda.retrieval.embed.checked import vector_faults

    expected = None if embedder is None else embedder.embed(texts)
    return vector_faults([indexed.vector for _, indexed in portion], space.dimension, expected)


def _texts(rows: Reader, effect: EffectBase) -> list[tuple[str, list[str]]]:
    if isinstance(effect, Remember):
        return [(effect.collection, _texts_of_items(effect))]
    if type(effect) is Import:
        texts: dict[str, list[str]] = {}
        for entry in effect.entries:
            texts.setdefault(entry.collection, []).append(text_of(decode(bytes(entry.payload))))
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
        return [(effect.collection, [text_of(entry.content) for entry in waiting])]
    raise MemorandaError(f"`{effect.name}` holds no text to embed")


def _texts_of_items(effect: Remember) -> list[str]:
    return [text_of(decode(bytes(item.payload))) for item in effect.items]


def _embed(space: Space, texts: Sequence[str], embedders: EmbedderBook) -> dict[str, bytes]:
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, embedders.of(space).embed_as_bytes(distinct), strict=True))
