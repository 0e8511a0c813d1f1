"""Collections: listing, deleting, moving to another embedder, and trying such a move out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from memoranda.engine.embedding import Texts, derive, text_of
from memoranda.engine.entries import EMBEDDING_TAKES_TIME
from memoranda.engine.reviews import ensure_authority
from memoranda.engine.verbs import Call, Outcome, Preparation, verb
from memoranda.errors import Conflict, EmbedderMismatch, Hint, NotFound
from memoranda.model.clock import to_micros
from memoranda.model.effect import CollectionEffect, ReadEffect
from memoranda.model.entry import Collection, Entry, Holding, Indexed, Space
from memoranda.model.event import Note
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.store.base import EntryQuery, Reader, Store, Transaction

if TYPE_CHECKING:
    from memoranda.retrieval.index.shelf import ShelfIndex

_MATCHES = 10
"""Matches of each query of a comparison."""
_PROBES = 100
"""Queries that a comparison makes of the entries, where the caller has none."""


class ReadCollections(ReadEffect, frozen=True, kw_only=True, tag="read_collections"):
    """Read the collections of a tenant with their sizes; of a scope, those that have entries of it."""

    capability: ClassVar[str] = "collections.read"
    prefix: str = ""


@verb(ReadCollections)
def read_collections(rows: Reader, effect: ReadCollections, call: Call) -> Outcome[list[Holding]]:
    """Return the collections of a tenant, by name; of a scope, those that have entries at or below it."""
    scope = effect.scope
    named = [one for one in rows.scan(Collection, scope.tenant) if one.name.startswith(effect.prefix)]
    every = [_holding(rows, one, scope.covers) for one in named]
    return Outcome([one for one in every if one.entries or not scope.path])


class ListCollections(ReadEffect, frozen=True, kw_only=True, tag="list_collections"):
    """Read the collections in which one scope has entries, with the number of these."""

    in_one_scope: ClassVar[bool] = True
    prefix: str = ""


@verb(ListCollections)
def list_collections(rows: Reader, effect: ListCollections, call: Call) -> Outcome[list[Holding]]:
    """Return the collections with live entries of a scope itself, by name."""
    names = sorted({shelf.collection for shelf, _ in rows.shelf_states(effect.scope)})
    named = [rows.get(Collection, effect.scope.tenant, name) for name in names if name.startswith(effect.prefix)]
    every = [_holding(rows, one, lambda scope: scope == effect.scope) for one in named if one is not None]
    return Outcome([one for one in every if one.entries])


class DeleteCollection(CollectionEffect, frozen=True, kw_only=True, tag="delete_collection"):
    """Delete a collection and its entries in every scope."""

    capability: ClassVar[str] = "collections.write"
    mutates: ClassVar[bool] = True


def _ensure_trusted(rows: Reader, effect: DeleteCollection, call: Call) -> None:
    """Refuse callers of little trust: a collection goes with what others wrote, too, and nothing brings it back."""
    ensure_authority(effect, call, "to delete what others wrote")


@verb(DeleteCollection, admit=_ensure_trusted)
def delete_collection(rows: Transaction, effect: DeleteCollection, call: Call) -> Outcome[int]:
    """Delete a collection with its entries in every scope; return how many."""
    existing_collection(rows, effect.scope.tenant, effect.collection)
    removed = rows.remove(Collection, effect.scope.tenant, effect.collection)
    call.indexes.drop(Scope(effect.scope.tenant), collection=effect.collection)
    call.emptied.append(None)
    return Outcome(removed, (_note(effect, {"entries": removed}),))


class BeginReembedding(CollectionEffect, frozen=True, kw_only=True, tag="begin_reembedding"):
    """Choose the space that a collection moves to; until the switch, recall uses the old one."""

    capability: ClassVar[str] = "collections.write"
    mutates: ClassVar[bool] = True
    space: Space


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a move: entries with a vector in the new space, of all entries, ended ones too."""

    done: int
    total: int


@verb(BeginReembedding)
def begin_reembedding(rows: Transaction, effect: BeginReembedding, call: Call) -> Outcome[Progress]:
    """Choose the space that a collection moves to. Choosing the same one again resumes the move."""
    collection = existing_collection(rows, effect.scope.tenant, effect.collection)
    space, successor = effect.space, collection.successor
    if space.embedder == collection.space.embedder:
        raise Conflict(
            f"collection `{collection.name}` is already made with `{space.embedder}`", hint="There is nothing to do"
        )
    if successor is not None and successor.embedder != space.embedder:
        raise Conflict(
            f"collection `{collection.name}` is moving to `{successor.embedder}`",
            hint=("Finish that move first", Hint("command", f"collections reembed {collection.name} --give-up")),
            expected=successor.embedder,
            actual=space.embedder,
        )
    if successor is not None:
        return Outcome(_progress(rows, collection))
    collection = msgspec.structs.replace(collection, successor=space)
    rows.put(collection)
    return Outcome(_progress(rows, collection), (_note(effect, {"embedder": space.embedder}),))


class ReembedEntries(CollectionEffect, frozen=True, kw_only=True, tag="reembed_entries"):
    """Make the next few vectors of a collection in the space it moves to, from the first entry after a sequence."""

    capability: ClassVar[str] = "collections.write"
    mutates: ClassVar[bool] = True
    limit: int
    after: int = 0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a move: the number of vectors made, and the sequence of the last entry."""

    made: int
    last: int


def _texts_to_embed(rows: Reader, effect: ReembedEntries, call: Call) -> Texts:
    collection = rows.get(Collection, effect.scope.tenant, effect.collection)
    if collection is None or collection.successor is None:
        return {}
    space = collection.successor
    entries = entries_without_vector(rows, collection, space, after=effect.after, limit=effect.limit)
    return {space: [text_of(entry.content) for entry in entries]}


def _embed(store: Store, effect: ReembedEntries, texts: Texts, call: Call) -> Call:
    return msgspec.structs.replace(call, derived=derive(texts, call.embedders, has_words=True))


@verb(ReembedEntries, preparation=Preparation(inquire=_texts_to_embed, prepare=_embed, busy=EMBEDDING_TAKES_TIME))
def reembed_entries(rows: Transaction, effect: ReembedEntries, call: Call) -> Outcome[Step]:
    """Store the next few vectors in the new space; entries that were removed meanwhile are left out."""
    tenant = effect.scope.tenant
    collection = existing_collection(rows, tenant, effect.collection)
    space = _successor(collection)
    entries = list(entries_without_vector(rows, collection, space, after=effect.after, limit=effect.limit))
    for entry in entries:
        vector = call.derived.vector(space, text_of(entry.content))
        rows.put_vector(tenant, entry.sequence, space.embedder, vector)
    return Outcome(Step(made=len(entries), last=entries[-1].sequence if entries else effect.after))


class EndReembedding(CollectionEffect, frozen=True, kw_only=True, tag="end_reembedding"):
    """Switch a collection to its new space once every entry has a vector there, or give up the move."""

    capability: ClassVar[str] = "collections.write"
    mutates: ClassVar[bool] = True
    give_up: bool = False


@verb(EndReembedding)
def end_reembedding(rows: Transaction, effect: EndReembedding, call: Call) -> Outcome[Collection]:
    """Switch to the new space and remove the old vectors, or the new ones if the move is given up."""
    collection = existing_collection(rows, effect.scope.tenant, effect.collection)
    space = _successor(collection)
    if effect.give_up:
        chosen, dropped = collection.space, space
    else:
        if any(entries_without_vector(rows, collection, space)):
            raise Conflict(
                f"collection `{collection.name}` still has entries without a vector of `{space.embedder}`",
                hint="Re-embed the rest first",
            )
        chosen, dropped = space, collection.space
    collection = msgspec.structs.replace(collection, space=chosen, successor=None)
    rows.put(collection)
    rows.remove_vectors(effect.scope.tenant, collection.name, dropped.embedder)
    return Outcome(collection, (_note(effect, {"embedder": chosen.embedder, "instead_of": dropped.embedder}),))


def entries_without_vector(
    rows: Reader, collection: Collection, space: Space, *, after: int = 0, limit: int = 1
) -> Iterator[Entry]:
    """Return the first entries of a collection, live or ended, that have no vector in a space."""
    tenant, name = collection.tenant, collection.name
    return rows.entries(
        EntryQuery(tenant=tenant, collection=name, without_vector_of=space.embedder, after=after, limit=limit)
    )


def existing_collection(rows: Reader, tenant: str, name: str) -> Collection:
    """Return a collection, or raise NotFound."""
    collection = rows.get(Collection, tenant, name)
    if collection is None:
        raise NotFound(f"unknown collection {quote(name)}", hint=Hint("list", "collections"), value=name)
    return collection


def _successor(collection: Collection) -> Space:
    if collection.successor is None:
        raise EmbedderMismatch(
            f"collection `{collection.name}` is not moving to another embedder",
            hint=Hint("command", f"collections reembed {collection.name} --to NAME"),
            expected=collection.space.embedder,
            actual=None,
        )
    return collection.successor


def _holding(rows: Reader, collection: Collection, counts: Callable[[Scope], bool]) -> Holding:
    every = rows.shelves(collection.tenant, collection.name)
    shelves = [(shelf, number) for shelf, number in every if counts(shelf.scope)]
    successor = collection.successor
    moved = rows.vector_counts(collection.tenant, collection.name).get(successor.embedder, 0) if successor else 0
    return Holding(
        name=collection.name,
        embedder=collection.space.embedder,
        dimension=collection.space.dimension,
        entries=sum(number for _, number in shelves),
        namespaces=len(shelves),
        moving_to=successor.embedder if successor else None,
        moved=moved,
    )


def _progress(rows: Reader, collection: Collection) -> Progress:
    counts = rows.vector_counts(collection.tenant, collection.name)
    return Progress(done=counts.get(_successor(collection).embedder, 0), total=counts.get(collection.space.embedder, 0))


def _note(
    effect: DeleteCollection | BeginReembedding | EndReembedding, detail: dict[str, int] | dict[str, str]
) -> Note:
    return Note(effect=effect.name, key=effect.place, detail=dict(detail))


# the dry run of a move


class CompareEmbedders(CollectionEffect, frozen=True, kw_only=True, tag="compare_embedders"):
    """See what recall would gain or lose if a collection moved to another space; nothing is written."""

    capability: ClassVar[str] = "collections.write"
    mutates: ClassVar[bool] = False
    space: Space
    queries: tuple[str, ...] = ()
    sample: int = 500


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What recall finds with the present embedder and with another one, as shares from 0 to 1."""

    collection: str
    embedder: str
    other: str
    entries: int
    """The number of entries that were searched."""
    queries: int
    agreement: float
    """The share of the first ten matches that both have in common."""
    found: float | None
    """The share of probes that found the entry they were made from; None where there were no such probes."""
    other_found: float | None


@verb(CompareEmbedders, reads_often=True)
def compare_embedders(store: Store, effect: CompareEmbedders, call: Call) -> Outcome[Comparison]:
    """Return how recall would change if a collection moved to another embedder.

    The newest entries of the collection's largest shelf are read first; nothing of the store is held while they are
    embedded anew. Then each of a few is looked for, in both spaces, with every other word of its own text: the better
    embedder finds more of them. Queries of the caller say more: they show how many matches would stay the same.
    """
    from memoranda.retrieval.index.shelf import ShelfIndex

    collection, entries, indexed = store.read(lambda rows: _sample(rows, effect))
    texts = {entry.sequence: text_of(entry.content) for entry in entries}
    other = call.embedders.of(effect.space)
    fresh = other.embed([texts[one.sequence] for one in indexed]) if indexed else ()
    ours, theirs = ShelfIndex(collection.space.dimension), ShelfIndex(effect.space.dimension)
    ours.add(indexed)
    theirs.add(
        msgspec.structs.replace(one, vector=vector.tobytes()) for one, vector in zip(indexed, fresh, strict=True)
    )
    probes = list(_probes(texts, effect.queries))
    hits = [0, 0]
    agreed = 0.0
    for query, target in probes:
        here = _top_matches(ours, query, collection.space, call)
        there = _top_matches(theirs, query, effect.space, call)
        agreed += len(here & there) / max(1, len(here | there))
        hits[0] += target in here
        hits[1] += target in there
    without_targets = bool(effect.queries) or not probes
    comparison = Comparison(
        collection=collection.name,
        embedder=collection.space.embedder,
        other=effect.space.embedder,
        entries=len(indexed),
        queries=len(probes),
        agreement=agreed / max(1, len(probes)),
        found=None if without_targets else hits[0] / len(probes),
        other_found=None if without_targets else hits[1] / len(probes),
    )
    return Outcome(comparison)


def _sample(rows: Reader, effect: CompareEmbedders) -> tuple[Collection, list[Entry], list[Indexed]]:
    """Return the collection, the newest entries of its largest shelf, and what an index needs of them."""
    collection = existing_collection(rows, effect.scope.tenant, effect.collection)
    shelves = rows.shelves(effect.scope.tenant, effect.collection)
    if not shelves:
        return collection, [], []
    shelf, _ = max(shelves, key=lambda pair: pair[1])
    newest = rows.live_sequences(shelf)[-effect.sample :]
    query = EntryQuery(shelf=shelf, after=newest[0] - 1 if newest else 0)
    indexed = list(rows.index_rows(query, collection.space.embedder)) if newest else []
    entries = rows.entries(EntryQuery(tenant=effect.scope.tenant, sequences=[one.sequence for one in indexed]))
    return collection, list(entries), indexed


def _probes(texts: dict[int, str], queries: Sequence[str]) -> Iterator[tuple[str, int | None]]:
    """Yield queries with the entry that each should find: every other word of entries spread over the sample."""
    if queries:
        yield from ((query, None) for query in queries)
        return
    step = max(1, len(texts) // _PROBES)
    for sequence in sorted(texts)[::step]:
        words = texts[sequence].split()
        if len(words) >= 2:
            yield " ".join(words[::2]), sequence


def _top_matches(index: ShelfIndex, query: str, space: Space, call: Call) -> set[int | None]:
    from memoranda.retrieval.rank import embed_query, prepare, rank

    now = to_micros(call.now)
    prepared = prepare(index, query, now=now)
    ranked = rank(
        index,
        prepared,
        embed_query(call.embedders.of(space), prepared),
        mode="semantic",
        now=now,
        limit=_MATCHES,
        calibration=space.calibration,
        exact=True,
    )
    return {one.sequence for one in ranked}
