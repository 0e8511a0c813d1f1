"""Effects on collections in, what they hold out: list, delete, and move to another embedder."""

from __future__ import annotations

import msgspec

from memoranda.engine.call import Call, Outcome
from memoranda.engine.deriving import text_of
from memoranda.errors import Conflict, EmbedderMismatch, NotFound
from memoranda.model.collection import Collection, Holding, Space
from memoranda.model.effect import (
    BeginReembedding,
    DeleteCollection,
    EndReembedding,
    ReadCollections,
    ReembedEntries,
)
from memoranda.model.event import Note
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.store.base import Reader, Transaction


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the move of a collection is: entries that have a vector in the new space, of all, ended ones too."""

    done: int
    total: int


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a move: how many vectors it made, and the sequence of the last."""

    made: int
    last: int


def read_collections(rows: Reader, effect: ReadCollections, call: Call) -> Outcome[list[Holding]]:
    """Return the collections of a tenant, by name; of a scope, those that hold something at or below it."""
    scope = effect.scope
    every = [_holding(rows, one, scope) for one in rows.collections(scope.tenant)]
    return Outcome([one for one in every if one.entries or not scope.path])


def delete_collection(rows: Transaction, effect: DeleteCollection, call: Call) -> Outcome[int]:
    """Delete a collection with its entries in every scope; return how many."""
    existing_collection(rows, effect.scope.tenant, effect.collection)
    removed = rows.remove_collection(effect.scope.tenant, effect.collection)
    call.indexes.drop(Scope(effect.scope.tenant), collection=effect.collection)
    return Outcome(removed, (_note(effect, {"entries": removed}),))


def begin_reembedding(rows: Transaction, effect: BeginReembedding, call: Call) -> Outcome[Progress]:
    """Choose the space that a collection moves to. Choosing the same again goes on where the move was left."""
    collection = existing_collection(rows, effect.scope.tenant, effect.collection)
    space, successor = effect.space, collection.successor
    if space.embedder == collection.space.embedder:
        raise Conflict(f"collection `{collection.name}` is made with `{space.embedder}` already", hint="Nothing to do")
    if successor is not None and successor.embedder != space.embedder:
        raise Conflict(
            f"collection `{collection.name}` is on its way to `{successor.embedder}`",
            hint="Finish that move, or give it up: memoranda collections reembed --give-up",
            expected=successor.embedder,
            actual=space.embedder,
        )
    if successor is not None:
        return Outcome(_progress(rows, collection))
    collection = msgspec.structs.replace(collection, successor=space)
    rows.put_collection(collection)
    return Outcome(_progress(rows, collection), (_note(effect, {"embedder": space.embedder}),))


def reembed_entries(rows: Transaction, effect: ReembedEntries, call: Call) -> Outcome[Step]:
    """Keep the next few vectors in the new space; what was removed meanwhile is left out."""
    tenant = effect.scope.tenant
    collection = existing_collection(rows, tenant, effect.collection)
    space = _successor(collection)
    entries = rows.without_vector(tenant, collection.name, space.embedder, effect.limit, after=effect.after)
    for entry in entries:
        vector = call.derived.vector(space, text_of(entry.content))
        rows.put_vector(tenant, entry.sequence, space.embedder, vector)
    return Outcome(Step(made=len(entries), last=entries[-1].sequence if entries else effect.after))


def end_reembedding(rows: Transaction, effect: EndReembedding, call: Call) -> Outcome[Collection]:
    """Switch to the new space, and drop the old vectors; or drop the new ones, where the move is given up."""
    collection = existing_collection(rows, effect.scope.tenant, effect.collection)
    space = _successor(collection)
    if effect.give_up:
        kept, dropped = collection.space, space
    else:
        if rows.without_vector(effect.scope.tenant, collection.name, space.embedder, 1):
            raise Conflict(
                f"collection `{collection.name}` still has entries without a vector of `{space.embedder}`",
                hint="Re-embed the rest first",
            )
        kept, dropped = space, collection.space
    collection = msgspec.structs.replace(collection, space=kept, successor=None)
    rows.put_collection(collection)
    rows.remove_vectors(effect.scope.tenant, collection.name, dropped.embedder)
    return Outcome(collection, (_note(effect, {"embedder": kept.embedder, "instead_of": dropped.embedder}),))


def existing_collection(rows: Reader, tenant: str, name: str) -> Collection:
    """Return a collection that must be there."""
    collection = rows.collection(tenant, name)
    if collection is None:
        raise NotFound(f"there is no collection {quote(name)}", hint="`memoranda collections` lists them", value=name)
    return collection


def _successor(collection: Collection) -> Space:
    if collection.successor is None:
        raise EmbedderMismatch(
            f"collection `{collection.name}` is not on its way to another embedder",
            hint=f"Begin with: memoranda collections reembed {collection.name} --to NAME",
            expected=collection.space.embedder,
            actual=None,
        )
    return collection.successor


def _holding(rows: Reader, collection: Collection, scope: Scope) -> Holding:
    every = rows.shelves(collection.tenant, collection.name)
    shelves = [(shelf, number) for shelf, number in every if scope.covers(shelf.scope)]
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
