"""Entries: remembering, reading and listing texts that are found by meaning."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ClassVar

import msgspec

from memoranda.engine.derivation import Source, call_for_sources, find_sources, limit_to, link
from memoranda.engine.embedding import Texts, derive, text_of, texts_by_space
from memoranda.engine.pages import take_within
from memoranda.engine.refs import find_entry
from memoranda.engine.rejection_book import Known, find_among
from memoranda.engine.reviews import confirm, contest
from memoranda.engine.sessions import ensure_open, may_end
from memoranda.engine.verbs import Call, MayRead, Outcome, Preparation, verb, within_scope
from memoranda.errors import LimitExceeded
from memoranda.model.clock import from_micros, new_ids
from memoranda.model.effect import CollectionEffect, Effect, ReadEffect, Side
from memoranda.model.entry import CONVERSATIONS, STATEMENTS, Collection, Entry, NewEntry, Remembered, Shelf
from memoranda.model.event import Note
from memoranda.model.limits import Limits, larger_limit
from memoranda.model.names import collection_key
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin, OriginKind, is_at_least
from memoranda.model.value import canonical, decode
from memoranda.store.base import EntryQuery, Reader, Store, Transaction

_PORTION = 128
"""Entries of a long list that are read at once."""


class Item(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One thing to remember."""

    payload: msgspec.Raw
    """The content as JSON."""
    metadata: msgspec.Raw
    """The metadata as JSON, as `encode` writes them."""
    key: str | None = None
    at: int | None = None
    """Since when it holds, in microseconds, if that is not the moment of the call."""
    kind: OriginKind | None = None
    """What kind of origin it is from, if the caller only passes it on."""
    derived_from: tuple[str, ...] = ()
    """The refs of what it was made of: it is trusted no more than they are."""


class Remember(CollectionEffect, frozen=True, kw_only=True, tag="remember"):
    """Store contents so that they are found by meaning, all or nothing."""

    capability: ClassVar[str] = "memory.write"
    mutates: ClassVar[bool] = True
    in_one_scope: ClassVar[bool] = True
    namespace: str = ""
    items: tuple[Item, ...]
    ttl: int | None = None
    source: str | None = None
    document: str | None = None
    """The key of the text whose parts the items are, in order."""
    requires_confirmation: bool = False
    """Whether it waits until someone else confirms it."""

    def weight(self) -> tuple[int, int]:
        """Return the number of items and the bytes of their contents."""
        return len(self.items), sum(len(bytes(item.payload)) for item in self.items)

    def sides(self) -> Iterator[Side]:
        """Yield what it would store under keys."""
        for item in self.items:
            if item.key is not None:
                proposed = decode(bytes(item.payload))
                yield Side(
                    scope=self.scope,
                    key=item.key,
                    collection=self.collection,
                    namespace=self.namespace,
                    proposed=proposed,
                )

    def entry_keys(self) -> Iterator[str]:
        """Yield the keys of the items."""
        return (item.key for item in self.items if item.key is not None)


def _texts_to_embed(rows: Reader, effect: Remember, call: Call) -> Texts:
    ensure_storable(rows, effect, call.limits)
    texts = [text_of(decode(bytes(item.payload))) for item in effect.items]
    return texts_by_space(rows, effect.scope.tenant, [(effect.collection, texts)])


def _needs_only_the_collection(effect: Remember, call: Call) -> bool:
    return not may_end(effect.scope) and len(effect.items) <= call.limits.batch


def embed_texts(store: Store, effect: Effect, texts: Texts, call: Call) -> Call:
    """Return the call with the words and vectors of an effect's texts."""
    return msgspec.structs.replace(call, derived=derive(texts, call.embedders))


def result_of_hold(effect: Remember, approval: str) -> list[Remembered]:
    """Return the result for items that wait for a decision."""
    one = Remembered(id="", collection=effect.collection, namespace=effect.namespace, stored=False, held=approval)
    return [one] * len(effect.items)


EMBEDDING_TAKES_TIME = "what is embedded takes its time"


@verb(
    Remember,
    within=within_scope,
    preparation=Preparation(
        inquire=_texts_to_embed,
        needs_one_row=_needs_only_the_collection,
        prepare=embed_texts,
        busy=EMBEDDING_TAKES_TIME,
    ),
    held_result=result_of_hold,
)
def remember(rows: Transaction, effect: Remember, call: Call) -> Outcome[list[Remembered]]:
    """Store the items that are not there yet; return what became of each.

    The same content with the same metadata is not stored twice. It is replaced if it would expire before the new one,
    or if its key is given other content. The parts of a text are replaced together.
    """
    ensure_storable(rows, effect, call.limits)
    shelf = Shelf(effect.scope, effect.collection, effect.namespace)
    if effect.requires_confirmation and call.decision != "approved":
        waiting = confirm(rows, effect, call)
        return Outcome(result_of_hold(effect, waiting.value.details["approval"]), waiting.notes)
    before = _texts_to_replace(rows, shelf, effect)
    named = [ref for item in effect.items for ref in item.derived_from]
    least, _ = call_for_sources(rows, shelf.scope.tenant, named, call)
    if least.authority != "high":
        replaced = (entry_of_key(rows, shelf, item.key) for item in effect.items if item.key is not None)
        current = (*before, *(one for one in replaced if one is not None and one.is_current_at(call.now)))
        contested = contest(rows, effect, (one.origin for one in current), least)
        if contested is not None:
            held = contested.value.details["approval"]
            return Outcome(result_of_hold(effect, held), contested.notes)
    if effect.document is not None and (known := call.rejections.of_scope(rows, shelf.scope)):
        rejection = next(filter(None, (_rejection_of(known, shelf, item) for item in effect.items)), None)
        if rejection is not None:  # without one of its parts it would be another text
            return Outcome([_rejection_result(shelf, rejection)] * len(effect.items), (_refusal(shelf, rejection),))
    done, notes = store_items(
        rows,
        shelf,
        effect.items,
        call,
        at=call.now,
        expires_at=call.now + timedelta(seconds=effect.ttl) if effect.ttl is not None else None,
        origin=call.origin.with_source(effect.source),
    )
    current = {one.id for one in done} | {one.replaced for one in done}
    # What would have taken the place of a text was rejected, so the text stays.
    kept = {item.key for item, one in zip(effect.items, done, strict=True) if one.rejected}
    over = (entry for entry in before if entry.id not in current and document_of(entry) not in kept)
    notes += [end_entry(rows, entry, call.now, replaced=True) for entry in over]
    return Outcome(done, tuple(notes))


# texts that are stored in parts

_PART = re.compile(r"(.+)#([1-9][0-9]*)", re.DOTALL)


def part_key(document: str, number: int) -> str:
    """Return the key of a part of a text."""
    return f"{document}#{number}"


def text_parts(rows: Reader, shelf: Shelf, document: str) -> list[Entry]:
    """Return the parts of the text that is stored under a key, in order; none if it is not stored in parts."""
    first = entry_of_key(rows, shelf, part_key(document, 1))
    if first is None or document_of(first) != document:
        return []
    others = (entry_of_key(rows, shelf, part_key(document, number)) for number in range(2, first.metadata["parts"] + 1))
    return [first, *(one for one in others if one is not None and document_of(one) == document)]


def document_of(entry: Entry) -> str | None:
    """Return the key of the text that an entry is a part of, or None."""
    found = _PART.fullmatch(entry.key or "")
    metadata = entry.metadata
    if found is None or metadata.get("part") != int(found[2]) or type(metadata.get("parts")) is not int:
        return None
    return found[1]


def _texts_to_replace(rows: Transaction, shelf: Shelf, effect: Remember) -> list[Entry]:
    """Return the entries of the texts whose keys are given other content, whether they are stored in parts or not."""
    if effect.document is not None:
        whole = entry_of_key(rows, shelf, effect.document)
        return [*text_parts(rows, shelf, effect.document), *(() if whole is None else (whole,))]
    keys = [item.key for item in effect.items if item.key is not None]
    known = rows.known(shelf, keys=[part_key(key, 1) for key in keys]) if keys else ()
    return [part for key in keys if part_key(key, 1) in known for part in text_parts(rows, shelf, key)]


def ensure_storable(rows: Reader, effect: Remember, limits: Limits) -> None:
    """Raise what is wrong with an effect whatever its vectors are, so that it need not be embedded."""
    if len(effect.items) > limits.batch:
        raise LimitExceeded(
            f"{len(effect.items):,} things to remember at once, the limit is {limits.batch:,}",
            hint=("Split them", larger_limit("batch")),
            limit=limits.batch,
            actual=len(effect.items),
        )
    ensure_open(rows, effect.scope)


def store_items(
    rows: Transaction,
    shelf: Shelf,
    items: Sequence[Item],
    call: Call,
    *,
    at: datetime,
    expires_at: datetime | None,
    origin: Origin,
    is_evidence: bool = False,
) -> tuple[list[Remembered], list[Note]]:
    """Store items in one namespace; return what became of each, and the notes for the ledger.

    An item that was rejected is left out, unless it is evidence: what was said stays as it was said.
    """
    collection, notes = open_collection(rows, shelf.scope.tenant, shelf.collection, call)
    digests = [digest_of(bytes(item.payload)) for item in items]
    # Of many items the candidates are read at once; a single one is looked up directly.
    candidates = _Candidates(rows, shelf, items, digests) if len(items) > 1 else None
    new_entries = _NewEntries(rows, shelf, collection, expires_at)
    done: list[Remembered] = []
    known = {} if is_evidence else call.rejections.of_scope(rows, shelf.scope)
    if candidates is not None and not known and candidates.are_all_new() and all(map(_is_plain, items)):
        ids = new_entries.add_all(items, digests, call, at, origin)
        notes += new_entries.notes()
        return [_result(shelf, id, expires_at, stored=True, duplicate=False) for id in ids], notes
    for item, digest in zip(items, digests, strict=True):
        rejection = _rejection_of(known, shelf, item) if known else None
        if rejection is not None:
            done.append(_rejection_result(shelf, rejection))
            notes.append(_refusal(shelf, rejection))
            continue
        begins = at if item.at is None else min(from_micros(item.at), call.now)
        current: Entry | None = None
        if candidates is None or candidates.may_match(item, digest):
            new_entries.write()
            current = _matching_entry(rows, shelf, item, digest, expires_at, call.now)
        same = current is not None and _same(current, item)
        written_by = origin if item.kind is None else origin.from_kind(item.kind)
        sources: list[Source] = []
        if item.derived_from:
            sources = find_sources(rows, shelf.scope.tenant, dict.fromkeys(item.derived_from), call)
            written_by = limit_to(written_by, sources)
        if current is not None and same and _outlives(current, expires_at) and not _is_own_word(written_by, current):
            done.append(_result(shelf, current.id, current.expires_at, stored=False, duplicate=True))
            continue
        if current is not None:
            # Events follow what happened, and the entries of one event have sequences without a gap.
            notes += new_entries.notes()
            # Never older than the entry that it replaces.
            begins = max(begins, current.created_at)
            if current.is_current_at(call.now):
                notes.append(end_entry(rows, current, call.now if item.at is None else begins, replaced=True))
            else:
                notes.append(expire_entry(rows, current))
                current, same = None, False
        entry = new_entries.make(item, digest, call)
        if sources:
            link(rows, shelf.scope, f"entry:{entry.id}", 0, sources)
        new_entries.add(entry, begins, written_by)
        if candidates is not None:
            candidates.note(item, digest)
        replaced = current.id if current is not None else None
        done.append(_result(shelf, entry.id, expires_at, stored=True, duplicate=same, replaced=replaced))
    notes += new_entries.notes()
    return done, notes


def _is_plain(item: Item) -> bool:
    """Return whether an item is as most are: of now, from the caller, and made of nothing else."""
    return item.at is None and item.kind is None and not item.derived_from


def _rejection_of(known: Known, shelf: Shelf, item: Item) -> StoredRejection | None:
    """Return what rejects an item."""
    stated = value_of_statement(shelf.collection, item.key, decode(bytes(item.metadata)))
    return find_among(known, decode(bytes(item.payload)), item.key, stated)


def rejection_of_entry(rows: Reader, entry: Entry, call: Call) -> StoredRejection | None:
    """Return what rejects an entry that would be stored again; messages stay as they were said."""
    if entry.collection == CONVERSATIONS:
        return None
    stated = value_of_statement(entry.collection, entry.key, entry.metadata)
    return call.rejections.find(rows, entry.scope, entry.content, entry.key, stated)


def value_of_statement(collection: str, key: str | None, metadata: dict[str, Any]) -> str | None:
    """Return the value that a statement is compared by, whatever its words; None for anything else."""
    value = metadata.get("value") if collection == STATEMENTS and key is not None else None
    return value if isinstance(value, str) and value else None


def _rejection_result(shelf: Shelf, rejection: StoredRejection) -> Remembered:
    return msgspec.structs.replace(_result(shelf, "", None, stored=False, duplicate=False), rejected=rejection.id)


def _refusal(shelf: Shelf, rejection: StoredRejection) -> Note:
    """Return the note about an item that was not stored."""
    return Note(
        effect="remember",
        scope=shelf.scope.path,
        key=collection_key(shelf.collection),
        detail={"reason": "rejected", "rejection": rejection.id},
        decision="deny",
    )


class _Candidates:
    """Which of many items may duplicate or replace an entry; the others need no look-up."""

    def __init__(self, rows: Transaction, shelf: Shelf, items: Sequence[Item], digests: Sequence[bytes]) -> None:
        keys = [item.key for item in items if item.key is not None]
        distinct, distinct_keys = set(digests), set(keys)
        self._known = rows.known(shelf, keys=list(distinct_keys), digests=list(distinct))
        self._differ = len(distinct) == len(digests) and len(distinct_keys) == len(keys)

    def are_all_new(self) -> bool:
        """Return whether no item can match an entry or another item."""
        return self._differ and not self._known

    def may_match(self, item: Item, digest: bytes) -> bool:
        """Return whether there may be an entry with an item's key, or with its content."""
        return (digest if item.key is None else item.key) in self._known

    def note(self, item: Item, digest: bytes) -> None:
        """Add a stored item: later ones may match it."""
        self._known.add(digest)
        if item.key is not None:
            self._known.add(item.key)


class _NewEntries:
    """New entries of a shelf, which are written together and have one event."""

    def __init__(self, rows: Transaction, shelf: Shelf, collection: Collection, expires_at: datetime | None) -> None:
        self._rows = rows
        self._shelf = shelf
        home, successor = collection.space, collection.successor
        self._spaces = (home,) if successor is None else (home, successor)
        self._embedders = [space.embedder for space in self._spaces]
        self._expires_at = expires_at
        self._at: tuple[datetime, Origin] | None = None
        """When the waiting entries begin, and their origin."""
        self._waiting: list[NewEntry] = []
        self._written: list[NewEntry] = []
        self._sequences: list[int] = []

    def make(self, item: Item, digest: bytes, call: Call) -> NewEntry:
        """Return the entry of an item with its words and vectors."""
        payload, derived = bytes(item.payload), call.derived
        text = text_of(decode(payload))
        vectors = tuple([derived.vector(space, text) for space in self._spaces])
        id, metadata = call.ids.new("entry"), bytes(item.metadata)
        return NewEntry(id, item.key, payload, metadata, digest, derived.analysis(text), vectors)

    def add(self, entry: NewEntry, at: datetime, origin: Origin) -> None:
        """Add an entry as of a moment; it is written later, together with others."""
        if self._at is None or self._at != (at, origin):
            self.write()
            self._at = at, origin
        self._waiting.append(entry)

    def add_all(
        self, items: Sequence[Item], digests: Sequence[bytes], call: Call, at: datetime, origin: Origin
    ) -> list[str]:
        """Add an entry for each item as of one moment; return their ids."""
        self.write()
        self._at = at, origin
        derived = call.derived
        payloads = [bytes(item.payload) for item in items]
        texts = [text_of(decode(payload)) for payload in payloads]
        ids = new_ids(call.ids, "entry", len(items))
        self._waiting = list(
            map(
                NewEntry,
                ids,
                [item.key for item in items],
                payloads,
                [bytes(item.metadata) for item in items],
                digests,
                map(derived.analysis, texts),
                zip(*([derived.vector(space, text) for text in texts] for space in self._spaces), strict=True),
            )
        )
        return ids

    def write(self) -> None:
        """Write the waiting entries."""
        if self._waiting and self._at is not None:
            self._sequences += self._rows.add_entries(
                self._shelf,
                self._waiting,
                self._embedders,
                created_at=self._at[0],
                expires_at=self._expires_at,
                origin=self._at[1],
            )
            self._written += self._waiting
            self._waiting = []

    def notes(self) -> list[Note]:
        """Write the waiting entries; return one note about all since the last call, hashed over all their contents."""
        self.write()
        written, sequences = self._written, self._sequences
        if not written:
            return []
        self._written, self._sequences = [], []
        contents, detail = written[0].payload, {}
        if len(written) > 1:
            contents = b"[" + b",".join([entry.payload for entry in written]) + b"]"
            detail = {"entries": len(written), "last": sequences[-1]}
        return [entry_note("remember", self._shelf, written[0].id, sequences[0], contents, detail)]


class GetEntry(ReadEffect, frozen=True, kw_only=True, tag="get_entry"):
    """Read a current entry, by its id or by its key in a namespace of a collection."""

    in_one_scope: ClassVar[bool] = True
    id: str | None = None
    collection: str | None = None
    namespace: str = ""
    key: str | None = None

    @property
    def place(self) -> str | None:
        """The collection, spelled as a key, where one is named."""
        return None if self.collection is None else collection_key(self.collection)


def _get_readable(look: Callable[[Any], Outcome[Entry | None]], effect: GetEntry, may_read: MayRead) -> Outcome[Any]:
    entry = look(effect).value
    return Outcome(entry if entry is not None and may_read(collection_key(entry.collection)) else None)


@verb(GetEntry, read_filtered=_get_readable)
def get_entry(rows: Reader, effect: GetEntry, call: Call) -> Outcome[Entry | None]:
    """Return a current entry of a scope; None if there is none."""
    if effect.id is not None:
        entry = find_entry(rows, effect.scope, effect.id)
    else:
        shelf = Shelf(effect.scope, effect.collection or "", effect.namespace)
        entry = entry_of_key(rows, shelf, effect.key or "")
    if entry is None or not entry.is_current_at(call.now) or effect.collection not in (None, entry.collection):
        return Outcome(None)
    return Outcome(entry)


class ReadChain(ReadEffect, frozen=True, kw_only=True, tag="read_chain"):
    """Read what an entry replaced, itself, and what replaced it."""

    in_one_scope: ClassVar[bool] = True
    id: str
    limit: int | None = None
    max_bytes: int | None = None


def _chain_readable(look: Callable[[Any], Outcome[list[Entry]]], effect: ReadChain, may_read: MayRead) -> Outcome[Any]:
    chain = look(effect).value
    return Outcome([entry for entry in chain if may_read(collection_key(entry.collection))])


@verb(ReadChain, read_filtered=_chain_readable)
def read_chain(rows: Reader, effect: ReadChain, call: Call) -> Outcome[list[Entry]]:
    """Return the entries of a chain, oldest first; none for an unknown entry."""
    entry = find_entry(rows, effect.scope, effect.id)
    if entry is None:
        return Outcome([])
    found = islice(rows.entries(EntryQuery(shelf=shelf_of(entry), chain=entry.chain)), effect.limit)
    return Outcome(take_within(found, _content, effect.max_bytes))


class ListEntries(ReadEffect, frozen=True, kw_only=True, tag="list_entries"):
    """Read the current entries of a scope by sequence, in one collection or in all: the oldest or the newest first."""

    in_one_scope: ClassVar[bool] = True
    collection: str | None = None
    namespace: str | None = None
    filter: dict[str, Any] | None = None
    newest: bool = False
    after: int = 0
    """The sequence of the last entry seen, in either order."""
    limit: int | None = None
    max_bytes: int | None = None

    @property
    def place(self) -> str | None:
        """The collection, spelled as a key, where one is named."""
        return None if self.collection is None else collection_key(self.collection)


def _list_readable(look: Callable[[Any], Outcome[list[Entry]]], effect: ListEntries, may_read: MayRead) -> Outcome[Any]:
    """Leave out the collections that the caller may not read, before a limit counts their entries."""
    if effect.collection is not None:
        return look(effect)
    found: list[Entry] = []
    page = effect
    while portion := look(msgspec.structs.replace(page, limit=_PORTION)).value:
        found += [entry for entry in portion if may_read(collection_key(entry.collection))]
        if effect.limit is not None and len(found) >= effect.limit:
            break
        page = msgspec.structs.replace(page, after=portion[-1].sequence)
    return Outcome(take_within(found[: effect.limit], _content, effect.max_bytes))


@verb(ListEntries, read_filtered=_list_readable)
def list_entries(rows: Reader, effect: ListEntries, call: Call) -> Outcome[list[Entry]]:
    """Return current entries by sequence."""
    found = live_entries(
        rows,
        effect.scope,
        call.now,
        collection=effect.collection,
        namespace=effect.namespace,
        filter=effect.filter,
        newest=effect.newest,
        after=effect.after,
    )
    return Outcome(take_within(islice(found, effect.limit), _content, effect.max_bytes))


def live_entries(
    rows: Reader,
    scope: Scope,
    now: datetime,
    *,
    collection: str | None = None,
    namespace: str | None = None,
    filter: dict[str, Any] | None = None,
    newest: bool = False,
    after: int = 0,
) -> Iterator[Entry]:
    """Yield the current entries of a scope that match a filter on metadata, in order of their sequences."""
    from memoranda.retrieval.filter import parse_filter

    where = parse_filter(filter)
    if collection is not None:
        shelves = [Shelf(scope, collection, namespace)]
    else:
        known = [shelf for shelf, _ in rows.shelf_states(scope)]
        shelves = [shelf for shelf in known if namespace in (None, shelf.namespace)]
    live = sorted((sequence for shelf in shelves for sequence in rows.live_sequences(shelf)), reverse=newest)
    if after:
        live = [sequence for sequence in live if (sequence < after if newest else sequence > after)]
    # Their content and metadata are bounded by `Limits`, so a portion of this many rows is bounded too.
    for start in range(0, len(live), _PORTION):
        entries = list(rows.entries(EntryQuery(tenant=scope.tenant, sequences=live[start : start + _PORTION])))
        for entry in sorted(entries, key=lambda one: one.sequence, reverse=newest):
            if entry.is_current_at(now) and (where is None or where.matches(entry.metadata)):
                yield entry


class ListNamespaces(ReadEffect, frozen=True, kw_only=True, tag="list_namespaces"):
    """Read the names of the namespaces in which a scope has entries."""

    in_one_scope: ClassVar[bool] = True
    collection: str | None = None
    prefix: str = ""

    @property
    def place(self) -> str | None:
        """The collection, spelled as a key, where one is named."""
        return None if self.collection is None else collection_key(self.collection)


@verb(ListNamespaces)
def list_namespaces(rows: Reader, effect: ListNamespaces, call: Call) -> Outcome[list[str]]:
    """Return the namespaces with live entries, by name; the empty one is that of entries without a namespace."""
    found: set[str] = set()
    for shelf, _ in rows.shelf_states(effect.scope):
        name = shelf.namespace or ""
        if effect.collection in (None, shelf.collection) and name.startswith(effect.prefix) and name not in found:
            if rows.live_sequences(shelf):
                found.add(name)
    return Outcome(sorted(found))


def _content(entry: Entry) -> tuple[Any, Any]:
    return entry.content, entry.metadata


def open_collection(rows: Transaction, tenant: str, name: str, call: Call) -> tuple[Collection, list[Note]]:
    """Return a collection, created if there is none, and the note that says so."""
    collection = rows.get(Collection, tenant, name)
    if collection is not None:
        return collection, []
    collection = Collection(tenant=tenant, name=name, space=call.derived.new_space(), created_at=call.now)
    rows.put(collection)
    detail = {"embedder": collection.space.embedder, "dimension": collection.space.dimension}
    return collection, [Note(effect="create_collection", key=collection_key(name), detail=detail)]


def entry_of_key(rows: Reader, shelf: Shelf, key: str) -> Entry | None:
    """Return the live entry of a key; the newest, where several namespaces have one."""
    return max(rows.entries(EntryQuery(shelf=shelf, key=key)), key=lambda one: one.sequence, default=None)


def end_entry(rows: Transaction, entry: Entry, at: datetime, *, replaced: bool = False) -> Note:
    """End an entry, perhaps because another one takes its place; return the note for the ledger."""
    # Not before it was created, even if the clock was set back: importing it again has to see that it ended.
    rows.end_entry(entry.scope.tenant, entry.sequence, max(at, entry.created_at))
    if not replaced:
        rows.remove_portions(shelf_of(entry), entry.sequence)
    detail = {"replaced": True} if replaced else None
    return entry_note("forget", shelf_of(entry), entry.id, entry.sequence, detail=detail)


def expire_entry(rows: Transaction, entry: Entry) -> Note:
    """Remove an expired entry; return the note for the ledger."""
    rows.remove_entry(entry.scope.tenant, entry.sequence)
    return entry_note("expire_entry", shelf_of(entry), entry.id, entry.sequence)


def digest_of(payload: bytes) -> bytes:
    """Return the hash by which duplicates of a content are found."""
    # A text without escapes has only one JSON encoding.
    plain = payload[:1] == payload[-1:] == b'"' and b"\\" not in payload
    return hashlib.sha256(payload if plain else canonical(decode(payload))).digest()[:16]


def shelf_of(entry: Entry) -> Shelf:
    """Return the shelf of an entry."""
    return Shelf(entry.scope, entry.collection, entry.namespace)


def attribute(note: Note, origin: Origin) -> Note:
    """Return a note about something that keeps its origin: the event names who did this, and `by` who wrote it."""
    return msgspec.structs.replace(note, detail={**note.detail, "by": [origin.actor, origin.door]})


def entry_note(
    effect: str,
    shelf: Shelf,
    id: str,
    sequence: int,
    payload: bytes | None = None,
    detail: dict[str, Any] | None = None,
) -> Note:
    """Return a note about an entry, or about several with the first one named."""
    return Note(
        effect=effect,
        scope=shelf.scope.path,
        key=collection_key(shelf.collection),
        resource=id,
        version=sequence,
        payload=payload,
        detail=detail or {},
    )


def _matching_entry(
    rows: Transaction, shelf: Shelf, item: Item, digest: bytes, expires_at: datetime | None, now: datetime
) -> Entry | None:
    """Return the entry that an item would duplicate or replace: the one with its key, or one with its content."""
    if item.key is not None:
        return entry_of_key(rows, shelf, item.key)
    for entry in rows.entries(EntryQuery(shelf=shelf, digest=digest)):
        # Only a write with its key may replace an entry that has one; so it counts only if it need not be replaced.
        if entry.is_current_at(now) and _same(entry, item) and (entry.key is None or _outlives(entry, expires_at)):
            return entry
    return None


def _same(entry: Entry, item: Item) -> bool:
    return canonical([entry.content, entry.metadata]) == canonical(
        [decode(bytes(item.payload)), decode(bytes(item.metadata))]
    )


def _is_own_word(written_by: Origin, entry: Entry) -> bool:
    """Return whether a user says what others had said: a model may only echo it, and is trusted no more for that."""
    return written_by.kind == "user" and not is_at_least(entry.origin.trust, written_by.trust)


def _outlives(entry: Entry, expires_at: datetime | None) -> bool:
    return entry.expires_at is None or (expires_at is not None and entry.expires_at >= expires_at)


def _result(
    shelf: Shelf,
    id: str,
    expires_at: datetime | None,
    *,
    stored: bool,
    duplicate: bool,
    replaced: str | None = None,
) -> Remembered:
    return Remembered(
        id=id,
        collection=shelf.collection,
        namespace=shelf.namespace or "",
        stored=stored,
        duplicate=duplicate,
        replaced=replaced,
        expires_at=expires_at,
    )
