"""A query in, matches out: what recall means.

Order of work: scope, namespace, not expired, filter, score, threshold, limit. Entries that a filter leaves out are
never ranked, so a filter costs no results. The index says which entries match; their content is read from the rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from recollect.engine.call import Call, Outcome
from recollect.model.clock import from_micros, to_micros
from recollect.model.collection import Space
from recollect.model.effect import Recall
from recollect.model.entry import Entry, Shelf
from recollect.model.event import Note
from recollect.model.recall import Match, Recalled, Why
from recollect.model.value import encode
from recollect.store.base import Read, Reader

if TYPE_CHECKING:
    from recollect.retrieval.index.shelf import ShelfIndex
    from recollect.retrieval.rank import Ranked

_ATTEMPTS = 5


def recall(rows: Reader, effect: Recall, call: Call) -> Outcome[Recalled]:
    """Find entries on one moment of the store."""
    found = recall_from(lambda work: work(rows), effect, call)
    return Outcome(found, (recall_note(effect, found),))


def recall_from(read: Read, effect: Recall, call: Call) -> Recalled:
    """Find entries, reading twice: what the index lacks first, and the content of the matches last.

    Between the two the query is embedded, which takes long where an embedder is far away. An entry that ends in
    that time is not among the matches. Another may have taken its place, so then it is all done again; where that
    goes on and on, the last answer is as of the moment that it was ranked for.
    """
    now = effect.as_of if effect.as_of is not None else to_micros(call.now)
    matches: list[Match] = []
    for attempt in range(1, _ATTEMPTS + 1):
        found: tuple[ShelfIndex, Space] | None = read(lambda rows: _open_shelf(rows, effect, call))
        if found is None or effect.limit == 0:
            return Recalled(results=[], count=0)
        index, space = found
        if effect.query.strip():
            ranked = _rank(index, space, effect, now, call)
        else:
            ranked = _in_order(index, effect, now)
        ended_too = attempt == _ATTEMPTS
        matches = read(lambda rows, ranked=ranked, too=ended_too: _matches(rows, effect, ranked, now, ended_too=too))
        if len(matches) == len(ranked):
            break
    return Recalled(results=matches, count=len(matches))


def recall_note(effect: Recall, recalled: Recalled) -> Note:
    """Return what the ledger says of a recall: its query as content, and which entries it gave out."""
    return Note(
        effect=effect.name,
        scope=effect.scope.path,
        key=effect.place,
        payload=encode(effect.query),
        detail={"results": [match.id for match in recalled.results]},
    )


def _open_shelf(rows: Reader, effect: Recall, call: Call) -> tuple[ShelfIndex, Space] | None:
    """Return the index of the shelf and the space of its vectors; None when there is no such collection."""
    collection = rows.collection(effect.scope.tenant, effect.collection)
    if collection is None:
        return None
    shelf = Shelf(effect.scope, effect.collection, effect.namespace)
    if effect.as_of is None:
        return call.indexes.index(rows, shelf, collection.space, now=to_micros(call.now)), collection.space
    from recollect.retrieval.index.shelf import ShelfIndex

    # Nobody asks for the same moment twice, so what stood then is indexed for this one recall.
    index = ShelfIndex(collection.space.dimension)
    index.add(rows.entries_as_of(shelf, collection.space.embedder, from_micros(effect.as_of)))
    return index, collection.space


@functools.cache
def _ranking():
    """Return the modules that rank, imported when they are first needed; looking them up each time takes too long."""
    from recollect.retrieval import filter, prepare, rank

    return filter, prepare, rank


def _rank(index: ShelfIndex, space: Space, effect: Recall, now: int, call: Call) -> list[Ranked]:
    filters, preparing, ranking = _ranking()
    prepared = preparing.prepare(index, effect.query, now=now, mode=effect.mode)
    vector = None
    if effect.mode != "keyword":
        vector = preparing.embed_query(call.embedders.of(space), prepared)
    return ranking.rank(
        index,
        prepared,
        vector,
        mode=effect.mode,
        now=now,
        where=filters.parse_filter(effect.filter),
        limit=effect.limit,
        threshold=effect.threshold,
        calibration=space.calibration,
        expand=effect.expand,
    )


def _in_order(index: ShelfIndex, effect: Recall, now: int) -> list[Ranked]:
    """Return the newest entries for a query that asks nothing: everything answers it, so only their order counts."""
    filters, _, ranking = _ranking()
    sequences = index.visible(now, filters.parse_filter(effect.filter)).tolist()
    why = Why(mode=effect.mode, relevance=1.0, total=0.0)
    return [ranking.Ranked(sequence=sequence, score=1.0, why=why) for sequence in sequences[: -effect.limit - 1 : -1]]


def _matches(rows: Reader, effect: Recall, ranked: list[Ranked], now: int, *, ended_too: bool) -> list[Match]:
    wanted = {one.sequence for one in ranked}
    if effect.expand:
        wanted.update(sequence for one in ranked for sequence in (*one.before, *one.after))
    moment = from_micros(now)
    seen = Entry.stands_at if effect.as_of is None else Entry.active_at
    entries = {
        one.sequence: one for one in rows.entries(effect.scope.tenant, sorted(wanted)) if ended_too or seen(one, moment)
    }
    return [
        Match(
            content=entry.content,
            metadata=entry.metadata,
            score=one.score,
            why=one.why,
            id=entry.id,
            namespace=entry.namespace,
            created_at=entry.created_at,
            expires_at=entry.expires_at,
            before=_known(entries, one.before) if one.before else (),
            after=_known(entries, one.after) if one.after else (),
        )
        for one in ranked
        if (entry := entries.get(one.sequence)) is not None
    ]


def _known(entries: dict[int, Entry], sequences: Iterable[int]) -> tuple[Entry, ...]:
    return tuple(entries[sequence] for sequence in sequences if sequence in entries)
