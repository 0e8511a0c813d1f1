"""A collection and another embedder in, what recall would gain or lose by it out; nothing is written.

A dry run of a move. Entries of the collection's largest shelf are embedded anew, and each of a few is looked for
with every other word of its own text, among the others, in both spaces: the better embedder finds more of them.
Queries of one's own say more, where there are any: they show how much of what is found would stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from memoranda.engine.call import Call, Outcome
from memoranda.engine.collections import existing_collection
from memoranda.engine.deriving import text_of
from memoranda.model.clock import to_micros
from memoranda.model.collection import Collection, Space
from memoranda.model.effect import CompareEmbedders
from memoranda.model.entry import Entry, Indexed
from memoranda.store.base import Read, Reader

if TYPE_CHECKING:
    from memoranda.retrieval.index.shelf import ShelfIndex

_LIMIT = 10
_PROBES = 100


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What recall finds with the embedder of today and with another one, in shares from 0 to 1."""

    collection: str
    embedder: str
    other: str
    entries: int
    """How many entries were looked through."""
    queries: int
    agreement: float
    """How much of what the one finds among its first ten the other finds there too."""
    found: float | None
    """The share of probes that found the entry they were made from; None where there were no such probes."""
    other_found: float | None


def compare_embedders(rows: Reader, effect: CompareEmbedders, call: Call) -> Outcome[Comparison]:
    """Return how recall would change if a collection moved to another embedder."""
    return Outcome(compare_from(lambda work: work(rows), effect, call))


def compare_from(read: Read, effect: CompareEmbedders, call: Call) -> Comparison:
    """Return the same, with a sample that is read first: nothing of the store is held while it is embedded."""
    from memoranda.retrieval.index.shelf import ShelfIndex

    sampled: tuple[Collection, list[Entry], list[Indexed]] = read(lambda rows: _sample(rows, effect))
    collection, entries, indexed = sampled
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
        here = _found(ours, query, collection.space, call)
        there = _found(theirs, query, effect.space, call)
        agreed += len(here & there) / max(1, len(here | there))
        hits[0] += target in here
        hits[1] += target in there
    untold = bool(effect.queries) or not probes
    return Comparison(
        collection=collection.name,
        embedder=collection.space.embedder,
        other=effect.space.embedder,
        entries=len(indexed),
        queries=len(probes),
        agreement=agreed / max(1, len(probes)),
        found=None if untold else hits[0] / len(probes),
        other_found=None if untold else hits[1] / len(probes),
    )


def _sample(rows: Reader, effect: CompareEmbedders) -> tuple[Collection, list[Entry], list[Indexed]]:
    """Return the collection, the newest entries of its largest shelf, and what an index needs of them."""
    collection = existing_collection(rows, effect.scope.tenant, effect.collection)
    shelves = rows.shelves(effect.scope.tenant, effect.collection)
    if not shelves:
        return collection, [], []
    shelf, _ = max(shelves, key=lambda pair: pair[1])
    newest = rows.standing(shelf)[-effect.sample :]
    indexed = list(rows.indexed(shelf, collection.space.embedder, after=newest[0] - 1)) if newest else []
    return collection, rows.entries(effect.scope.tenant, [one.sequence for one in indexed]), indexed


def _probes(texts: dict[int, str], queries: Sequence[str]) -> Iterator[tuple[str, int | None]]:
    """Yield queries, with the entry that each should find: every other word of entries spread over the sample."""
    if queries:
        yield from ((query, None) for query in queries)
        return
    step = max(1, len(texts) // _PROBES)
    for sequence in sorted(texts)[::step]:
        words = texts[sequence].split()
        if len(words) >= 2:
            yield " ".join(words[::2]), sequence


def _found(index: ShelfIndex, query: str, space: Space, call: Call) -> set[int | None]:
    from memoranda.retrieval.prepare import embed_query, prepare
    from memoranda.retrieval.rank import rank

    now = to_micros(call.now)
    prepared = prepare(index, query, now=now)
    ranked = rank(
        index,
        prepared,
        embed_query(call.embedders.of(space), prepared),
        mode="semantic",
        now=now,
        limit=_LIMIT,
        calibration=space.calibration,
    )
    return {one.sequence for one in ranked}
