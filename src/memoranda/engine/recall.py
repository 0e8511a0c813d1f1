"""A query in, matches out: what recall means.

Order of work: scope, namespace, not expired, filter, score, threshold, limit. Entries that a filter leaves out are
never ranked, so a filter costs no results. The index says which entries match; their content is read from the rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from memoranda.engine.call import Call, Outcome
from memoranda.engine.indexes import EntriesAtHand, Opened
from memoranda.engine.portions import content_bytes, is_over, take_within
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.collection import Space
from memoranda.model.effect import Recall
from memoranda.model.entry import Entry, Shelf, ShelfState
from memoranda.model.event import Note
from memoranda.model.recall import Match, Recalled, Why
from memoranda.model.value import encode
from memoranda.store.base import Read, Reader

if TYPE_CHECKING:
    from memoranda.retrieval.index.shelf import ShelfIndex
    from memoranda.retrieval.rank import Ranked

_ATTEMPTS = 5
_PORTION = 64
"""Entries that are read at once; most recalls ask for fewer."""


def recall(rows: Reader, effect: Recall, call: Call) -> Outcome[Recalled]:
    """Find entries on one moment of the store."""
    found = recall_from(lambda work: work(rows), rows.shelf_state, effect, call)
    return Outcome(found, (recall_note(effect, found),))


def recall_from(read: Read, state_of: Callable[[Shelf], ShelfState], effect: Recall, call: Call) -> Recalled:
    """Find entries, reading twice: what the index lacks first, and the content of the matches last.

    Where the index lacks nothing, or the matches are at hand, the state of the shelf says so. Between the two the
    query is embedded, which takes long where an embedder is far away. An entry that ends in that time is not among the
    matches. Another may have taken its place, so then it is all done again; where that goes on and on, the last answer
    is as of the moment that it was ranked for.
    """
    now = effect.as_of if effect.as_of is not None else to_micros(call.now)
    shelf = Shelf(effect.scope, effect.collection, effect.namespace)
    matches: list[Match] = []
    for attempt in range(1, _ATTEMPTS + 1):
        opened = call.indexes.opened(shelf, state_of(shelf), now=now) if effect.as_of is None else None
        if opened is None:
            opened = read(lambda rows: _open_shelf(rows, shelf, effect, call))
        if opened is None or effect.limit == 0:
            return Recalled(results=[], count=0)
        if effect.query.strip():
            ranked = _rank(opened.index, opened.space, effect, now, call)
        else:
            ranked = _in_order(opened.index, effect, now)
        ranked = ranked[effect.offset :]
        kept = opened.at_hand if attempt < _ATTEMPTS else None
        entries: list[Entry] = []
        if kept is not None and effect.as_of is None and not effect.expand:
            entries = kept.known(state_of(shelf), [one.sequence for one in ranked])
        if len(entries) < len(ranked):
            ranked, entries = read(lambda rows, ranked=ranked, kept=kept: _entries(rows, shelf, effect, ranked, kept))
        matches = _matches(entries, effect, ranked, now, ended_too=kept is None)
        if len(matches) == len(ranked):
            break
    matches = take_within(matches, _content, effect.max_bytes)
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


def _open_shelf(rows: Reader, shelf: Shelf, effect: Recall, call: Call) -> Opened | None:
    """Return what is looked through; None when there is no such collection."""
    if effect.as_of is None:
        return call.indexes.open(rows, shelf, now=to_micros(call.now))
    collection = rows.collection(shelf.scope.tenant, shelf.collection)
    if collection is None:
        return None
    from memoranda.retrieval.index.shelf import ShelfIndex

    # Nobody asks for the same moment twice, so what stood then is indexed for this one recall.
    index = ShelfIndex(collection.space.dimension)
    index.add(rows.entries_as_of(shelf, collection.space.embedder, from_micros(effect.as_of)))
    return Opened(index, collection.space, EntriesAtHand())


@functools.cache
def _ranking():
    """Return the modules that rank, imported when they are first needed; looking them up each time takes too long."""
    from memoranda.retrieval import filter, prepare, rank

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
        limit=effect.offset + effect.limit,
        threshold=effect.threshold,
        calibration=space.calibration,
        expand=effect.expand,
    )


def _in_order(index: ShelfIndex, effect: Recall, now: int) -> list[Ranked]:
    """Return the newest entries for a query that asks nothing: everything answers it, so only their order counts."""
    filters, _, ranking = _ranking()
    sequences = index.visible(now, filters.parse_filter(effect.filter)).tolist()
    why = Why(mode=effect.mode, relevance=1.0, total=0.0)
    newest = sequences[: -effect.offset - effect.limit - 1 : -1]
    return [ranking.Ranked(sequence=sequence, score=1.0, why=why) for sequence in newest]


def _entries(
    rows: Reader, shelf: Shelf, effect: Recall, ranked: list[Ranked], at_hand: EntriesAtHand | None
) -> tuple[list[Ranked], list[Entry]]:
    """Return what was ranked, as far as its entries fit into the bytes asked for, and these with their neighbours."""
    found: dict[int, Entry] = {}
    size = 0
    portion = max(1, _PORTION // (1 + 2 * effect.expand))
    for begin in range(0, len(ranked), portion):
        part = ranked[begin : begin + portion]
        if at_hand is not None and effect.as_of is None and not effect.expand:
            read = at_hand.entries(rows, shelf, [one.sequence for one in part])
        else:
            wanted = {sequence for one in part for sequence in (one.sequence, *one.before, *one.after)}
            read = rows.entries(shelf.scope.tenant, sorted(wanted - found.keys()))
        found.update((entry.sequence, entry) for entry in read)
        if effect.max_bytes is not None:
            size += sum(content_bytes((entry.content, entry.metadata)) for entry in read)
            if is_over(ranked[: begin + portion], size, effect.max_bytes):
                return ranked[: begin + portion], list(found.values())
    return ranked, list(found.values())


def _content(match: Match) -> tuple[Any, ...]:
    """Return what of a match may be large."""
    around = [(entry.content, entry.metadata) for entry in (*match.before, *match.after)]
    return match.content, match.metadata, around


def _matches(read: list[Entry], effect: Recall, ranked: list[Ranked], now: int, *, ended_too: bool) -> list[Match]:
    """Return the matches of what was ranked, without those that ended meanwhile unless they are wanted too."""
    if not ended_too:
        moment, seen = from_micros(now), Entry.stands_at if effect.as_of is None else Entry.active_at
        read = [entry for entry in read if seen(entry, moment)]
    entries = {entry.sequence: entry for entry in read}
    return [
        Match(
            content=entry.content,
            metadata=entry.metadata.copy(),  # the entry may be at hand for others
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
