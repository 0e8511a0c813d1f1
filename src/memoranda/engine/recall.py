"""Recall: finding entries by meaning and words.

Order of work: scope, namespace, not expired, filter, score, threshold, limit. Entries that a filter leaves out are
never ranked, so a filter costs no results. The index says which entries match; their content is read from the rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from memoranda.engine.indexes import EntryCache, OpenShelf
from memoranda.engine.pages import content_bytes, is_over, take_within
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.effect import CollectionEffect
from memoranda.model.entry import Collection, Entry, Match, Mode, Recalled, Shelf, ShelfState, Space, Why
from memoranda.model.event import Note
from memoranda.model.names import collection_key
from memoranda.model.value import encode
from memoranda.store.base import EntryQuery, Reader, Store

if TYPE_CHECKING:
    from memoranda.retrieval.index.shelf import ShelfIndex
    from memoranda.retrieval.rank import Ranked

_ATTEMPTS = 5
_PORTION = 64
"""Entries that are read at once; most recalls ask for fewer."""


class Recall(CollectionEffect, frozen=True, kw_only=True, tag="recall"):
    """Find entries by meaning and words, in one namespace or, for None, in all of them."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    query: str
    namespace: str | None = None
    limit: int = 5
    threshold: float = 0.0
    filter: dict[str, Any] | None = None
    as_of: int | None = None
    mode: Mode = "hybrid"
    expand: int = 0
    offset: int = 0
    """Matches to skip: those of an earlier answer."""
    max_bytes: int | None = None


@verb(Recall, reads_often=True)
def recall(store: Store, effect: Recall, call: Call) -> Outcome[Recalled]:
    """Find entries, reading twice: first what the index lacks, and last the content of the matches.

    Either read is skipped if the state of the shelf says that it is not needed. Between the two the query is
    embedded, which takes long if the embedder is remote. An entry that ends in that time is left out of the matches;
    another may have taken its place, so the recall starts over. If that happens again and again, the last answer is
    as of the moment that it was ranked for.
    """
    now = effect.as_of if effect.as_of is not None else to_micros(call.now)
    shelf = Shelf(effect.scope, effect.collection, effect.namespace)
    matches: list[Match] = []
    for attempt in range(1, _ATTEMPTS + 1):
        opened = call.indexes.find(shelf, _state(store, shelf), now=now) if effect.as_of is None else None
        if opened is None:
            opened = store.read(lambda rows: _open_shelf(rows, shelf, effect, call))
        if opened is None or effect.limit == 0:
            matches = []
            break
        if effect.query.strip():
            ranked = _rank(opened.index, opened.space, effect, now, call)
        else:
            ranked = _in_order(opened.index, effect, now)
        ranked = ranked[effect.offset :]
        cache = opened.cache if attempt < _ATTEMPTS else None
        entries: list[Entry] = []
        if cache is not None and effect.as_of is None and not effect.expand:
            entries = cache.lookup(_state(store, shelf), [one.sequence for one in ranked])
        if len(entries) < len(ranked):
            ranked, entries = store.read(
                lambda rows, ranked=ranked, cache=cache: _entries(rows, shelf, effect, ranked, cache)
            )
        matches = _matches(entries, effect, ranked, now, ended_too=cache is None)
        if len(matches) == len(ranked):
            break
    if effect.max_bytes is not None:
        matches = take_within(matches, _content, effect.max_bytes)
    note = Note(
        effect="recall",
        scope=effect.scope.path,
        key=collection_key(effect.collection),
        payload=encode(effect.query),
        detail={"results": [match.id for match in matches]},
    )
    return Outcome(Recalled(results=matches, count=len(matches)), (note,))


def _state(store: Store, shelf: Shelf) -> ShelfState:
    return store.read(lambda rows: rows.shelf_state(shelf), snapshot=False)


def _open_shelf(rows: Reader, shelf: Shelf, effect: Recall, call: Call) -> OpenShelf | None:
    """Return the index to search; None if the collection does not exist."""
    if effect.as_of is None:
        return call.indexes.open(rows, shelf, now=to_micros(call.now))
    collection = rows.get(Collection, shelf.scope.tenant, shelf.collection)
    if collection is None:
        return None
    from memoranda.retrieval.index.shelf import ShelfIndex

    # The same moment is hardly asked for twice, so its entries are indexed for this one recall.
    index = ShelfIndex(collection.space.dimension)
    query = EntryQuery(shelf=shelf, active_at=from_micros(effect.as_of))
    index.add(rows.index_rows(query, collection.space.embedder))
    return OpenShelf(index, collection.space, EntryCache())


@functools.cache
def _ranking():
    """Return the ranking modules, imported when first needed; importing them in each call is too slow."""
    from memoranda.retrieval import filter, rank

    return filter, rank


def _rank(index: ShelfIndex, space: Space, effect: Recall, now: int, call: Call) -> list[Ranked]:
    filters, ranking = _ranking()
    prepared = ranking.prepare(index, effect.query, now=now, mode=effect.mode)
    vector = None
    if effect.mode != "keyword":
        vector = ranking.embed_query(call.embedders.of(space), prepared)
    return ranking.rank(
        index,
        prepared,
        vector,
        mode=effect.mode,
        now=now,
        where=filters.parse_filter(effect.filter),
        limit=effect.offset + effect.limit,
        threshold=effect.threshold,
        calibration=space.calibration,
        expand=effect.expand,
    )


def _in_order(index: ShelfIndex, effect: Recall, now: int) -> list[Ranked]:
    """Return the newest entries, for an empty query."""
    filters, ranking = _ranking()
    sequences = index.visible(now, filters.parse_filter(effect.filter)).tolist()
    why = Why(mode=effect.mode, relevance=1.0, total=0.0)
    newest = sequences[: -effect.offset - effect.limit - 1 : -1]
    return [ranking.Ranked(sequence=sequence, score=1.0, why=why) for sequence in newest]


def _entries(
    rows: Reader, shelf: Shelf, effect: Recall, ranked: list[Ranked], cache: EntryCache | None
) -> tuple[list[Ranked], list[Entry]]:
    """Return the ranked matches that fit into `max_bytes`, and their entries with their neighbours."""
    found: dict[int, Entry] = {}
    size = 0
    portion = max(1, _PORTION // (1 + 2 * effect.expand))
    for begin in range(0, len(ranked), portion):
        part = ranked[begin : begin + portion]
        if cache is not None and effect.as_of is None and not effect.expand:
            read = cache.entries(rows, shelf, [one.sequence for one in part])
        else:
            wanted = {sequence for one in part for sequence in (one.sequence, *one.before, *one.after)}
            missing = sorted(wanted - found.keys())
            read = list(rows.entries(EntryQuery(tenant=shelf.scope.tenant, sequences=missing)))
        found.update((entry.sequence, entry) for entry in read)
        if effect.max_bytes is not None:
            size += sum(content_bytes((entry.content, entry.metadata)) for entry in read)
            if is_over(ranked[: begin + portion], size, effect.max_bytes):
                return ranked[: begin + portion], list(found.values())
    return ranked, list(found.values())


def _content(match: Match) -> tuple[Any, ...]:
    """Return the parts of a match that may be large."""
    around = [(entry.content, entry.metadata) for entry in (*match.before, *match.after)]
    return match.content, match.metadata, around


def _matches(read: list[Entry], effect: Recall, ranked: list[Ranked], now: int, *, ended_too: bool) -> list[Match]:
    """Return the ranked entries as matches, without those that ended meanwhile unless `ended_too`."""
    if not ended_too:
        moment, seen = from_micros(now), Entry.is_current_at if effect.as_of is None else Entry.active_at
        read = [entry for entry in read if seen(entry, moment)]
    entries = {entry.sequence: entry for entry in read}
    return [
        Match(
            content=entry.content,
            metadata=entry.metadata.copy(),  # the entry may be cached for others
            score=one.score,
            why=one.why,
            id=entry.id,
            namespace=entry.namespace,
            created_at=entry.created_at,
            expires_at=entry.expires_at,
            before=_entries_of(entries, one.before) if one.before else (),
            after=_entries_of(entries, one.after) if one.after else (),
        )
        for one in ranked
        if (entry := entries.get(one.sequence)) is not None
    ]


def _entries_of(entries: dict[int, Entry], sequences: Iterable[int]) -> tuple[Entry, ...]:
    return tuple(entries[sequence] for sequence in sequences if sequence in entries)
