"""Recall: finding memory by meaning and words, in one collection or in everything that a scope sees.

Order of work: scope, namespace, not expired, filter, score, threshold, limit. What a filter leaves out is never ranked,
so a filter costs no results. The index says which entries match; their content is read from the rows.

A scope sees itself, what is below it, and the scopes above it within its subject: `user:ada/agent:emails` sees
`user:ada`, and not what other agents of Ada remember. The shared scope is seen only where it is named.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from memoranda.engine.confirmations import confirming_voices
from memoranda.engine.derivation import is_original
from memoranda.engine.indexes import Changed, EntryCache, OpenShelf
from memoranda.engine.pages import content_bytes, is_over, take_within
from memoranda.engine.verbs import Call, MayRead, Outcome, verb
from memoranda.errors import EmbedderError, UsageError
from memoranda.model.block import canonical_line
from memoranda.model.clock import from_micros, parse_moment, to_micros
from memoranda.model.definition import plain_text
from memoranda.model.effect import CollectionEffect, Demand, ReadEffect
from memoranda.model.entry import (
    CONFIRMATIONS,
    CONVERSATIONS,
    STATEMENTS,
    Collection,
    Entry,
    Kind,
    Match,
    Mode,
    Recalled,
    Shelf,
    ShelfState,
    Space,
    Why,
)
from memoranda.model.event import Note
from memoranda.model.folding import canonical_form
from memoranda.model.names import collection_key
from memoranda.model.omission import MARK
from memoranda.model.scope import Scope
from memoranda.model.trust import RANK_OF, Origin, Trust, Voice, independent_origin, origin_for_index
from memoranda.model.value import encode
from memoranda.store.base import EntryQuery, Reader, Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memoranda.engine.memory_index import Group, Item, MemoryIndex, Part
    from memoranda.retrieval.index.shelf import ShelfIndex
    from memoranda.retrieval.influence import Crowd
    from memoranda.retrieval.rank import Allowed, Ranked

_ATTEMPTS = 5
_PORTION = 64
"""Entries that are read at once; most recalls ask for fewer."""


class Recall(CollectionEffect, frozen=True, kw_only=True, tag="recall"):
    """Find entries by meaning and words, in one namespace or, for None, in all of them."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False
    in_one_scope: ClassVar[bool] = True
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
    min_trust: Trust = "untrusted"
    """Leave out what is trusted less."""
    exact: bool = False
    """Compare every entry, however many there are."""


class RecallAll(ReadEffect, frozen=True, kw_only=True, tag="recall_all"):
    """Find anything that a scope sees by meaning and words: entries, facts, records, lines and messages."""

    query: str
    kinds: tuple[Kind, ...] = ()
    """The kinds to search; all of them if empty."""
    collections: tuple[str, ...] = ()
    """The collections to search, and nothing else; everything if empty."""
    scopes: tuple[Scope, ...] = ()
    """The scopes to search, each by itself; what the scope sees if empty."""
    namespace: str | None = None
    limit: int = 5
    threshold: float = 0.0
    filter: dict[str, Any] | None = None
    as_of: int | None = None
    mode: Mode = "hybrid"
    offset: int = 0
    max_bytes: int | None = None
    min_trust: Trust = "untrusted"
    exact: bool = False
    """Compare everything, however much there is."""
    block: str | None = None
    """Of the lines of blocks, only those of this block."""
    most_alike: int | None = None
    """Maximum number of matches from one source, so that it hides no others by its number; then its words do not
    become less telling by it either."""

    def demands(self) -> Iterator[Demand]:
        """Yield the right to read each scope that is searched."""
        for scope in self.scopes or seen_scopes(self.scope):
            yield self.capability, scope, None


def seen_scopes(scope: Scope) -> tuple[Scope, ...]:
    """Return a scope and the scopes above it that it sees; what is below it belongs to it."""
    parts = scope.path.split("/") if scope.path else [""]
    return tuple(Scope(scope.tenant, "/".join(parts[:length])) for length in range(len(parts), 0, -1))


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
        opened = _open(store, shelf, effect, now, call, in_memory=attempt == _ATTEMPTS)
        if opened is None or effect.limit == 0:
            matches = []
            break
        try:
            ranked = _rank_or_start_over(opened, effect, now, call)
        except Changed as change:
            call.indexes.reopen_stored(shelf, change.damage)
            continue
        ranked = ranked[effect.offset :]
        cache = opened.cache if attempt < _ATTEMPTS else None
        entries: list[Entry] = []
        if cache is not None and effect.as_of is None and not effect.expand:
            entries = cache.lookup(_state(store, shelf), [one.sequence for one in ranked])
        if len(entries) < len(ranked):
            ranked, entries = store.read(
                lambda rows, ranked=ranked, cache=cache: _entries(rows, shelf, effect, ranked, cache)
            )
        matches = _matches(entries, effect, ranked, now, cache)
        if len(matches) == len(ranked):
            matches = _with_corroboration(store, opened.index, effect, ranked, matches)
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
    # Whether others have such a collection is not said to those who may not read it.
    known = bool(matches) or _state(store, Shelf(effect.scope, effect.collection, None)) != ShelfState()
    hint = "" if known else f"Nothing was ever remembered in `{effect.collection}` here: check its name"
    return Outcome(Recalled(results=matches, count=len(matches), known=known, hint=hint), (note,))


def _with_corroboration(
    store: Store, index: ShelfIndex, effect: Recall, ranked: Sequence[Ranked], matches: list[Match]
) -> list[Match]:
    """Return the matches of a collection with how many independent origins say each of them."""
    repeated = index.repetitions([one.sequence for one in ranked])
    confirms = Shelf(effect.scope, CONFIRMATIONS, "")
    is_confirmed = effect.collection == STATEMENTS and _state(store, confirms) != ShelfState()
    for place, one in enumerate(ranked if repeated or is_confirmed else ()):
        alike = index.alike(one.sequence, _MOST_ALIKE) if one.sequence in repeated else []
        confirming = _confirming(store, effect, matches[place]) if is_confirmed else set[Voice]()
        if alike or confirming:
            others = [_Said.of(entry) for entry in _read_entries(store, effect, alike).values()]
            matches[place] = _corroborated(store, matches[place], others, confirming)
    return matches


def _state(store: Store, shelf: Shelf) -> ShelfState:
    return store.read(lambda rows: rows.shelf_state(shelf), snapshot=False)


def _open(store: Store, shelf: Shelf, effect: Recall, now: int, call: Call, *, in_memory: bool) -> OpenShelf | None:
    """Return the index to search; None if the collection does not exist."""
    opened = None
    if effect.as_of is None:
        state = _state(store, shelf)
        if not effect.exact and not in_memory:
            opened = call.indexes.open_stored(store, shelf, state, now=now)
        if opened is None:
            opened = call.indexes.find(shelf, state, now=now)
    return store.read(lambda rows: _open_shelf(rows, shelf, effect, call)) if opened is None else opened


def _rank_or_start_over(opened: OpenShelf, effect: Recall, now: int, call: Call) -> list[Ranked]:
    from memoranda.retrieval.index.segment import Damaged

    try:
        if effect.query.strip():
            return _rank(opened.index, opened.space, effect, now, call)
        return _in_order(opened.index, effect, now)
    except Damaged as error:
        raise Changed(str(error)) from error


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
    options = {
        "mode": effect.mode,
        "now": now,
        "where": filters.parse_filter(effect.filter),
        "limit": effect.offset + effect.limit,
        "threshold": effect.threshold,
        "calibration": space.calibration,
        "expand": effect.expand,
        "min_trust": RANK_OF[effect.min_trust],
        "exact": effect.exact,
    }

    def rank(crowd: Crowd | None = None) -> list[Ranked]:
        # One origin could make the words of others say little by repeating them.
        once = index.has_several_origins
        prepared = ranking.prepare(index, effect.query, now=now, mode=effect.mode, copies_once=once, crowd=crowd)
        vector, knows = None, 1.0
        if effect.mode != "keyword":
            embedder = call.embedders.of(space)
            vector, knows = ranking.embed_query(embedder, prepared), ranking.knowledge(embedder, prepared)
        return ranking.rank(index, prepared, vector, knows=knows, **options)

    ranked = rank()
    crowd = ranking.crowd_in(index, ranked, effect.offset + effect.limit)
    return ranked if crowd is None else rank(crowd)


def _in_order(index: ShelfIndex, effect: Recall, now: int) -> list[Ranked]:
    """Return the newest entries, for an empty query."""
    filters, ranking = _ranking()
    where, min_trust = filters.parse_filter(effect.filter), RANK_OF[effect.min_trust]
    sequences: list[int] = index.visible(now, where, min_trust=min_trust).tolist()
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


def _matches(
    read: list[Entry],
    effect: Recall,
    ranked: list[Ranked],
    now: int,
    cache: EntryCache | None,
) -> list[Match]:
    """Return the ranked entries as matches; with a cache, without those that ended meanwhile."""
    if cache is not None:
        moment, seen = from_micros(now), Entry.is_current_at if effect.as_of is None else Entry.active_at
        read = [entry for entry in read if seen(entry, moment)]
    entries = {entry.sequence: entry for entry in read}
    if cache is not None and not effect.expand:
        return [_match_again(entry, one, cache) for one in ranked if (entry := entries.get(one.sequence)) is not None]
    return [
        _entry_match(
            entry,
            one,
            before=_entries_of(entries, one.before) if one.before else (),
            after=_entries_of(entries, one.after) if one.after else (),
        )
        for one in ranked
        if (entry := entries.get(one.sequence)) is not None
    ]


def _match_again(entry: Entry, one: Ranked, cache: EntryCache) -> Match:
    match = cache.match(entry, lambda: _entry_match(entry, one))
    return msgspec.structs.replace(match, score=one.score, why=one.why, metadata=entry.metadata.copy())


def _entry_match(
    entry: Entry, one: Ranked, kind: Kind = "entry", before: tuple[Entry, ...] = (), after: tuple[Entry, ...] = ()
) -> Match:
    return Match(
        content=entry.content,
        metadata=entry.metadata.copy(),  # the entry may be cached for others
        score=one.score,
        why=one.why,
        kind=kind,
        ref=f"entry:{entry.id}",
        key=entry.key,
        id=entry.id,
        collection=entry.collection,
        namespace=entry.namespace,
        scope=entry.scope,
        origin=entry.origin,
        created_at=entry.created_at,
        updated_at=entry.created_at,
        expires_at=entry.expires_at,
        valid_from=entry.moment("valid_from", "time"),
        valid_to=entry.ended_at,
        before=before,
        after=after,
    )


def _entries_of(entries: dict[int, Entry], sequences: Iterable[int]) -> tuple[Entry, ...]:
    return tuple(entries[sequence] for sequence in sequences if sequence in entries)


# recall over everything


class _Candidate(NamedTuple):
    """A ranked row of one part of an index."""

    ranked: Ranked
    part: Part
    group: Group
    is_confirmed: bool
    """Whether anything that was stated in its scope was confirmed by others."""
    until: int | None
    """Since when it is outdated, in microseconds."""
    by: int
    """The sequence of the statement that outdates it; 0 if none does."""
    allowed: Allowed | None
    """Which rows of the part the recall searches; None for all."""


def _recall_readable(
    look: Callable[[Any], Outcome[Recalled]], effect: RecallAll, may_read: MayRead
) -> Outcome[Recalled]:
    """Leave out what the caller may not read, before the limit counts it."""
    every = look(msgspec.structs.replace(effect, offset=0, limit=_MOST, max_bytes=None)).value.results
    readable = [match for match in every if may_read(_key_of(match))]
    if not may_read(collection_key(STATEMENTS)):
        readable = [msgspec.structs.replace(match, superseded_by=None) for match in readable]
    most = effect.offset + effect.limit
    matches = readable[:most]
    if effect.query.strip() and any(match.origin.trust != "high" or match.origin.source for match in readable):
        rows = [(RANK_OF[one.trust], origin_for_index(one.origin)) for one in readable]
        places = _within_shares(rows, [match.why for match in readable], most)
        matches = [readable[place] for place in places]
    matches = _count_voices(
        matches[effect.offset :], readable, counts_confirmations=may_read(collection_key(CONFIRMATIONS))
    )
    if effect.max_bytes is not None:
        matches = take_within(matches, _content, effect.max_bytes)
    return Outcome(Recalled(results=matches, count=len(matches)), (_note_of(effect, matches),))


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else plain_text(content)


def _count_voices(matches: list[Match], others: Sequence[Match], *, counts_confirmations: bool) -> list[Match]:
    """Return matches with how many independent origins among others say the same."""
    said: dict[str, set[Voice]] = {}
    for one in others:
        if one.kind != "line":
            said.setdefault(canonical_form(_text_of(one.content)), set()).update(_independent([one.origin]))

    def count(match: Match) -> Match:
        restated = len(said.get(canonical_form(_text_of(match.content)), set()))
        confirmations = match.confirmations if counts_confirmations else 0
        own = len(_independent([match.origin]))
        # No more than without what may not be read: copies are left out of that.
        corroboration = min(match.corroboration, max(1, restated, own + confirmations))
        return msgspec.structs.replace(match, corroboration=corroboration, confirmations=confirmations)

    return [count(match) for match in matches]


class _Said(NamedTuple):
    """A memory that may say what a match says."""

    ref: str
    content: Any
    origin: Origin

    @classmethod
    def of(cls, entry: Entry) -> _Said:
        """Return an entry as what it says."""
        return cls(entry.ref, entry.content, entry.origin)


def _independent(origins: Iterable[Origin]) -> set[Voice]:
    """Return the independent ones among some origins: a file may be a copy of what is here."""
    return {independent_origin(origin) for origin in origins if origin.kind != "import"}


def _corroborated(store: Store, match: Match, others: Iterable[_Said], confirming: Set[Voice] = frozenset()) -> Match:
    """Return a match with how many independent origins confirm it, or say it in the same words elsewhere."""
    said, tenant = canonical_form(_text_of(match.content)), match.scope.tenant
    own = _independent([match.origin])
    voices = set(confirming)
    for other in others:
        voice = _independent([other.origin])
        if voice <= voices or canonical_form(_text_of(other.content)) != said:
            continue
        if store.read(lambda rows, other=other: is_original(rows, tenant, other.ref, other.origin)):
            voices |= voice
    if not voices or store.read(lambda rows: is_original(rows, tenant, match.ref, match.origin)):
        voices |= own
    return msgspec.structs.replace(match, corroboration=max(1, len(voices)), confirmations=len(confirming - own))


def _confirming(store: Store, effect: Recall | RecallAll, match: Match) -> set[Voice]:
    """Return the independent origins that confirm what was stated."""
    as_of = None if effect.as_of is None else from_micros(effect.as_of)
    query = EntryQuery(tenant=match.scope.tenant, id=match.id)

    def find(rows: Reader) -> set[Voice]:
        statement = next(rows.entries(query), None)
        return set() if statement is None else confirming_voices(rows, statement, as_of)

    return store.read(find)


_MOST_ALIKE = 64
"""Memories in the same words that are read to find out who else says something."""


def _key_of(match: Match) -> str:
    """Return the key by which access to a match is decided."""
    return collection_key(match.collection) if match.collection is not None else match.key or ""


_MOST = 1_000
"""Matches that are looked through for those that a caller may read."""


@verb(RecallAll, reads_often=True, read_filtered=_recall_readable)
def recall_all(store: Store, effect: RecallAll, call: Call) -> Outcome[Recalled]:
    """Find anything that a scope sees, ranked together.

    Indexes are brought up to date first, in one read for each subject; the last read is for the content of entries. If
    one of them ends in between, the recall starts over.
    """
    now = effect.as_of if effect.as_of is not None else to_micros(call.now)
    matches: list[Match] = []
    for attempt in range(1, _ATTEMPTS + 1):
        candidates = _without_labels(store, effect, call, now, _candidates(store, effect, call, now))
        matches = _all_matches(store, effect, candidates, now, ended_too=attempt == _ATTEMPTS)
        if len(matches) == len(candidates):
            break
    matches = _without_repeats(_without_forgotten(store, effect, matches))
    if effect.max_bytes is not None:
        matches = take_within(matches, _content, effect.max_bytes)
    return Outcome(Recalled(results=matches, count=len(matches)), (_note_of(effect, matches),))


def find_items(store: Store, effect: RecallAll, call: Call) -> list[tuple[Item, Ranked]]:
    """Return the facts, lines and messages of chats that a recall finds, best first; entries are not among them."""
    found = _candidates(store, effect, call, to_micros(call.now))
    items = [(one.part.items.get(one.ranked.sequence), one.ranked) for one in found]
    return [(item, ranked) for item, ranked in items if item is not None]


def _without_forgotten(store: Store, effect: RecallAll, matches: list[Match]) -> list[Match]:
    """Leave what was forgotten since out of the messages of conversations; drop one of which nothing is left."""
    said = [match.updated_at for match in matches if match.ref.startswith("message:")]
    if not said or effect.as_of is not None or _asks_for_messages(effect):
        return matches
    from memoranda.engine.omissions import omissions_for  # it reads facts, whose blocks are recalled

    omissions = store.read(lambda rows: omissions_for(rows, [effect.scope], min(said)))
    if not omissions:
        return matches
    left: list[Match] = []
    for match in matches:
        if match.ref.startswith("message:"):
            text = omissions.made_since(match.updated_at).leave_out(str(match.content))
            if not any(map(str.isalnum, text.replace(MARK, ""))):
                continue
            match = msgspec.structs.replace(match, content=text)
        left.append(match)
    return left


def _without_repeats(matches: list[Match]) -> list[Match]:
    """Leave out lines of blocks that only say what a statement among the matches says."""
    stated = {canonical_line(str(match.content)) for match in matches if match.collection == STATEMENTS}
    return [match for match in matches if match.kind != "line" or canonical_line(match.content) not in stated]


def _note_of(effect: RecallAll, matches: list[Match]) -> Note:
    return Note(
        effect="recall",
        scope=effect.scope.path,
        payload=encode(effect.query),
        detail={"results": [match.id for match in matches]},
    )


def _candidates(store: Store, effect: RecallAll, call: Call, now: int) -> list[_Candidate]:
    """Return the best rows of every index that is searched, best first, without those that are skipped."""
    roots = {Scope(scope.tenant, scope.subject) for scope in effect.scopes or (effect.scope,)}
    found: list[_Candidate] = []
    most = effect.offset + effect.limit
    lists = 0
    only_messages = _asks_for_messages(effect)
    for root in sorted(roots, key=lambda root: root.path):
        index = _memory_index(store, root, effect, call, now)
        for part, allowed in _parts(index, effect, root):
            if index.withheld and not only_messages:
                allowed = _except(part.outdated(index.withheld), allowed)
            ranked = _rank_part(part, effect, call, now, allowed, index.outdated, most)
            found += [_candidate(one, part, index, allowed) for one in ranked]
            lists += bool(ranked)
    if lists > 1:
        # Totals of different indexes cannot be compared; scores can.
        found.sort(key=lambda one: (-one.ranked.score, -one.ranked.why.total))
        if effect.query.strip() and any(one.part.index.origin.any() for one in found):
            rows = [_origin_in_index(one) for one in found]
            found = [found[place] for place in _within_shares(rows, [one.ranked.why for one in found], most)]
    return found[effect.offset : most]


def _asks_for_messages(effect: RecallAll) -> bool:
    """Return whether only messages are asked for: who does wants what was said, also what was rejected since."""
    return effect.kinds == ("message",) or effect.collections == (CONVERSATIONS,)


def _except(is_withheld: Allowed, allowed: Allowed | None) -> Allowed:
    """Return a test for rows by their numbers: whether they are allowed, and not withheld."""

    def is_allowed(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        left = ~is_withheld(numbers)
        return left if allowed is None else left & allowed(numbers)

    return is_allowed


def _origin_in_index(one: _Candidate) -> tuple[int, tuple[str, ...]]:
    """Return the trust of a candidate, and its origin by a name that other indexes know too."""
    ((trust, origin),) = one.part.index.origins_in_index([one.ranked.sequence])
    return trust, one.part.index.origin_names()[origin]


def _within_shares(rows: Sequence[tuple[int, tuple[str, ...]]], whys: Sequence[Why], most: int) -> list[int]:
    """Return the places of the rows that the shares of origins allow, in order; see `bounded_list`."""
    from memoranda.retrieval.influence import NEAR, bound_list

    is_match = [bool(why.matched) or why.relevance >= NEAR for why in whys]
    return bound_list(rows, is_match, most)


def _read_entries(store: Store, effect: Recall | RecallAll, sequences: list[int]) -> dict[int, Entry]:
    """Return entries by their sequences."""
    query = EntryQuery(tenant=effect.scope.tenant, sequences=sorted(sequences))
    read = store.read(lambda rows: list(rows.entries(query)), snapshot=False)
    return {entry.sequence: entry for entry in read}


def _candidate(ranked: Ranked, part: Part, index: MemoryIndex, allowed: Allowed | None) -> _Candidate:
    number = ranked.sequence
    group, row = index.groups[part.group_of(number)], part.row_id(number)
    is_confirmed = group.collection == STATEMENTS and index.has_confirmations(group.scope)
    return _Candidate(
        ranked, part, group, is_confirmed, index.outdated.get(row), index.outdated_by.get(row, 0), allowed
    )


def _memory_index(store: Store, root: Scope, effect: RecallAll, call: Call, now: int) -> MemoryIndex:
    """Return the index of everything of a subject, up to date; or as of a moment, made for this recall alone."""
    if effect.as_of is not None:
        from memoranda.engine.memory_index import MemoryIndex, past_changes

        # The same moment is hardly asked for twice.
        past = MemoryIndex(root)
        past.apply(store.read(lambda rows: past_changes(rows, past, now)), call.embedders)
        return past
    index = call.indexes.of_subject(root)
    with index.lock:
        has_changed = index.apply(store.read(lambda rows: index.changes(rows, now=now)), call.embedders)
    if has_changed:
        call.indexes.note_growth(index)
    return index


def _parts(index: MemoryIndex, effect: RecallAll, root: Scope) -> list[tuple[Part, Allowed | None]]:
    """Return the parts of an index, each with what says which of its rows may be returned."""
    with index.lock:
        narrowing = effect.kinds, effect.collections, effect.scopes, effect.namespace, effect.block, effect.scope
        parts = list(index.parts.values())
        if narrowing == ((), (), (), None, None, root):
            return [(part, None) for part in parts]
        allowed = index.wanted_groups(narrowing, functools.partial(_is_wanted, effect))
        return [(part, part.mask(allowed)) for part in parts]


def _is_wanted(effect: RecallAll, group: Group) -> bool:
    """Return whether a recall searches the rows of a group."""
    if effect.kinds and group.kind not in effect.kinds:
        return False
    if effect.collections and group.collection not in effect.collections:
        return False
    if effect.namespace is not None and group.namespace != effect.namespace:
        return False
    if effect.block is not None and group.kind == "line" and group.block != effect.block:
        return False
    if effect.scopes:
        return group.scope in effect.scopes
    if effect.scope.covers(group.scope) if effect.scope.path else effect.scope == group.scope:
        return True
    # An agent sees its own conversations with the user, which are not below its scope.
    ids = dict(effect.scope.parts)
    if group.kind == "message" and group.agent and group.agent == ids.get("agent"):
        return True
    return bool(group.scope.path) and group.scope.covers(effect.scope)


def _rank_part(
    part: Part,
    effect: RecallAll,
    call: Call,
    now: int,
    allowed: Allowed | None,
    outdated: dict[int, int],
    limit: int,
) -> list[Ranked]:
    filters, ranking = _ranking()
    where = filters.parse_filter(effect.filter)
    if not effect.query.strip():
        why = Why(mode=effect.mode, relevance=1.0, total=0.0)
        numbers = part.index.visible(now, where, min_trust=RANK_OF[effect.min_trust])
        if allowed is not None:
            numbers = numbers[allowed(numbers)]
        newest: list[int] = numbers[::-1][:limit].tolist()
        return [ranking.Ranked(sequence=number, score=1.0, why=why) for number in newest]
    spread = effect.most_alike

    def rank(crowd: Crowd | None = None) -> list[Ranked]:
        once = spread is not None or part.index.has_several_origins
        prepared = ranking.prepare(part.index, effect.query, now=now, mode=effect.mode, copies_once=once, crowd=crowd)
        vector, knows, mode = None, 1.0, effect.mode
        if mode != "keyword":
            try:
                embedder = call.embedders.of(part.space)
                vector, knows = ranking.embed_query(embedder, prepared), ranking.knowledge(embedder, prepared)
            except (EmbedderError, UsageError):
                mode = "keyword"  # its words are found without its embedder
        return ranking.rank(
            part.index,
            prepared,
            vector,
            mode=mode,
            now=now,
            where=where,
            allowed=allowed,
            outdated=part.outdated(outdated) if outdated else None,
            limit=limit,
            threshold=effect.threshold,
            calibration=part.space.calibration,
            most_alike=spread,
            min_trust=RANK_OF[effect.min_trust],
            exact=effect.exact,
            knows=knows,
        )

    ranked = rank()
    crowd = ranking.crowd_in(part.index, ranked, limit)
    return ranked if crowd is None else rank(crowd)


def _all_matches(
    store: Store,
    effect: RecallAll,
    candidates: Sequence[_Candidate],
    now: int,
    *,
    ended_too: bool,
) -> list[Match]:
    """Return candidates as matches, without entries that ended meanwhile unless `ended_too`."""
    sequences = [sequence for one in candidates if (sequence := one.part.entry_sequence(one.ranked.sequence))]
    entries = _read_entries(store, effect, sequences) if sequences else {}
    if entries and not ended_too:
        moment, seen = from_micros(now), Entry.is_current_at if effect.as_of is None else Entry.active_at
        entries = {sequence: entry for sequence, entry in entries.items() if seen(entry, moment)}
    matches: list[Match] = []
    numbers: dict[Part, list[int]] = {}
    for one in candidates:
        numbers.setdefault(one.part, []).append(one.ranked.sequence)
    repeated = {part: part.index.repetitions(of_part) for part, of_part in numbers.items()}
    for one in candidates:
        entry = entries.get(one.part.entry_sequence(one.ranked.sequence))
        item = one.part.items.get(one.ranked.sequence)
        if entry is not None:
            match = _entry_match(entry, one.ranked, one.group.kind)
            if one.until is not None and match.valid_to is None:
                match = msgspec.structs.replace(match, valid_to=from_micros(one.until))
        elif item is not None:
            match = _item_match(item, one.ranked, None if one.until is None else from_micros(one.until))
        else:
            continue
        if one.by and (statement := _read_entries(store, effect, [one.by]).get(one.by)) is not None:
            match = msgspec.structs.replace(match, superseded_by=statement.ref)
        confirming = _confirming(store, effect, match) if one.is_confirmed else set[Voice]()
        if confirming or one.ranked.sequence in repeated.get(one.part, ()):
            match = _corroborated(store, match, _restatements(store, effect, one), confirming)
        matches.append(match)
    return matches


def _restatements(store: Store, effect: RecallAll, one: _Candidate) -> list[_Said]:
    """Return what else the recall searches that has the same words; lines of blocks repeat what was said elsewhere."""
    part = one.part
    numbers = part.index.alike(one.ranked.sequence, _MOST_ALIKE, one.allowed)
    if not numbers:
        return []
    items = [item for number in numbers if (item := part.items.get(number)) is not None and item.group.kind != "line"]
    sequences = [sequence for number in numbers if (sequence := part.entry_sequence(number))]
    entries = _read_entries(store, effect, sequences).values() if sequences else ()
    return [*(_Said(item.ref, item.text, item.origin) for item in items), *map(_Said.of, entries)]


def _without_labels(
    store: Store, effect: RecallAll, call: Call, now: int, candidates: list[_Candidate]
) -> list[_Candidate]:
    """Rank records again by their values alone if the caller may not read their definitions.

    Otherwise what is found, its score and the words that matched would confirm guesses at names and labels.
    """
    hidden = _hidden_definitions(store, candidates, call)
    if not hidden:
        return candidates
    from memoranda.engine.memory_index import Part

    found: list[tuple[int, _Candidate]] = []
    records: list[tuple[int, _Candidate]] = []
    items: list[Item] = []
    for place, one in enumerate(candidates):
        item = one.part.items.get(one.ranked.sequence)
        if item is not None and one.group.kind == "record" and item.key in hidden:
            records.append((place, one))
            items.append(msgspec.structs.replace(item, text=item.bare, searched=item.bare, metadata={}))
        else:
            found.append((place, one))
    embedder = call.embedders.local()
    part = Part(call.embedders.space_of(embedder))
    numbers = part.add_items([0] * len(items), items, embedder.embed_as_bytes([item.searched for item in items]))
    record_of = dict(zip(numbers, records, strict=True))
    for ranked in _rank_part(part, effect, call, now, None, {}, len(items)):
        place, one = record_of[ranked.sequence]
        found.append((place, one._replace(ranked=ranked, part=part, allowed=None)))
    # As in `_candidates`; without a query all are alike, and their order is kept.
    found.sort(key=lambda pair: (-pair[1].ranked.score, -pair[1].ranked.why.total, pair[0]))
    return [one for _, one in found]


def _hidden_definitions(store: Store, candidates: Sequence[_Candidate], call: Call) -> frozenset[str]:
    """Return the slugs of records among candidates whose definitions the caller may not read."""
    items = (one.part.items.get(one.ranked.sequence) for one in candidates if one.group.kind == "record")
    slugs = {item.key for item in items if item is not None}
    if not slugs:
        return frozenset()

    def find(rows: Reader) -> frozenset[str]:
        return frozenset(slug for slug in slugs if not call.may(rows, ("definitions.read", None, slug)))

    return store.read(find, snapshot=False)


def _item_match(item: Item, one: Ranked, until: datetime | None) -> Match:
    said: Any = item.metadata.get("time")
    return Match(
        content=item.text,
        metadata=item.metadata.copy(),
        score=one.score,
        why=one.why,
        kind=item.group.kind,
        ref=item.ref,
        key=item.key,
        id=item.ref,
        namespace="",
        scope=item.group.scope,
        origin=item.origin,
        created_at=item.created_at,
        updated_at=item.updated_at,
        expires_at=item.expires_at,
        valid_from=from_micros(parse_moment(said)) if said else item.updated_at,
        valid_to=until,
    )
