"""Effects on entries in, what became of them out: what remember, forget and list mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from memoranda.engine.call import Call, Outcome
from memoranda.engine.deriving import text_of
from memoranda.engine.portions import take_within
from memoranda.engine.sessions import ensure_open
from memoranda.errors import LimitExceeded
from memoranda.model.collection import Collection
from memoranda.model.effect import Forget, Item, ListEntries, Remember
from memoranda.model.entry import Entry, NewEntry, Shelf
from memoranda.model.event import Note
from memoranda.model.fact import Origin
from memoranda.model.key import collection_key
from memoranda.model.limits import Limits
from memoranda.model.recall import Remembered
from memoranda.model.value import canonical, decode
from memoranda.store.base import Reader, Transaction

_PORTION = 128
"""Entries of a long list that are read at once."""


def remember(rows: Transaction, effect: Remember, call: Call) -> Outcome[list[Remembered]]:
    """Store what is not there yet, and say for each item whether it was.

    What stands already, content and metadata alike, is not stored twice. It is replaced where it would expire
    before the new one does, and where its key is given other content.
    """
    ensure_storable(rows, effect, call.limits)
    done, notes = store_items(
        rows,
        Shelf(effect.scope, effect.collection, effect.namespace),
        effect.items,
        call,
        at=call.now,
        expires_at=call.now + timedelta(seconds=effect.ttl) if effect.ttl is not None else None,
        origin=call.origin_from(effect.source),
    )
    return Outcome(done, tuple(notes))


def ensure_storable(rows: Reader, effect: Remember, limits: Limits) -> None:
    """Refuse what cannot be stored whatever its vectors are: it need not be embedded."""
    if len(effect.items) > limits.batch:
        raise LimitExceeded(
            f"{len(effect.items):,} things to remember at once, the limit is {limits.batch:,}",
            hint="Split them, or open with a larger Limits(batch=…)",
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
) -> tuple[list[Remembered], list[Note]]:
    """Store items in one namespace; return what became of each, and the notes for the ledger."""
    collection, notes = open_collection(rows, shelf.scope.tenant, shelf.collection, call)
    digests = [digest_of(bytes(item.payload)) for item in items]
    # Of many, all are asked for at once; a single item is looked for without asking first.
    finding = _Finding(rows, shelf, items, digests) if len(items) > 1 else None
    adding = _Adding(rows, shelf, collection, expires_at, origin)
    done: list[Remembered] = []
    for item, digest in zip(items, digests, strict=True):
        standing: Entry | None = None
        if finding is None or finding.may_stand(item, digest):
            adding.write()
            standing = _standing(rows, shelf, item, digest, expires_at, call.now)
        same = standing is not None and _same(standing, item)
        if standing is not None and same and _outlives(standing, expires_at):
            done.append(_remembered(shelf, standing.id, standing.expires_at, stored=False, duplicate=True))
            continue
        if standing is not None:
            # Events follow what happened, and the entries of one event have sequences without a gap.
            notes += adding.notes()
            if standing.stands_at(call.now):
                notes.append(end_entry(rows, standing, call.now))
            else:
                notes.append(expire_entry(rows, standing))
                standing, same = None, False
        entry = adding.make(item, digest, call)
        adding.add(entry, at if standing is None else max(at, standing.created_at))  # never older than what it replaces
        if finding is not None:
            finding.note(item, digest)
        replaced = standing.id if standing is not None else None
        done.append(_remembered(shelf, entry.id, expires_at, stored=True, duplicate=same, replaced=replaced))
    notes += adding.notes()
    return done, notes


class _Finding:
    """Which of many items may have something standing that they double or replace; the others need no look."""

    def __init__(self, rows: Transaction, shelf: Shelf, items: Sequence[Item], digests: Sequence[bytes]) -> None:
        """Ask for all of them at once."""
        keys = {item.key for item in items if item.key is not None}
        self._digests = rows.known_digests(shelf, list(set(digests)))
        self._keys = rows.known_keys(shelf, list(keys)) if keys else set[str]()

    def may_stand(self, item: Item, digest: bytes) -> bool:
        """Say whether to look for what stands under an item's key, or with its content."""
        return digest in self._digests if item.key is None else item.key in self._keys

    def note(self, item: Item, digest: bytes) -> None:
        """Note that an item is stored: those after it may be like it."""
        self._digests.add(digest)
        if item.key is not None:
            self._keys.add(item.key)


class _Adding:
    """New entries on their way to a shelf: written together, and told in one event."""

    def __init__(
        self, rows: Transaction, shelf: Shelf, collection: Collection, expires_at: datetime | None, origin: Origin
    ) -> None:
        self._rows = rows
        self._shelf = shelf
        home, successor = collection.space, collection.successor
        self._spaces = (home,) if successor is None else (home, successor)
        self._embedders = [space.embedder for space in self._spaces]
        self._expires_at = expires_at
        self._origin = origin
        self._at: datetime | None = None
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

    def add(self, entry: NewEntry, at: datetime) -> None:
        """Keep an entry as of a moment, not necessarily at once."""
        if at != self._at:
            self.write()
            self._at = at
        self._waiting.append(entry)

    def write(self) -> None:
        """Write what waits."""
        if self._waiting and self._at is not None:
            self._sequences += self._rows.add_entries(
                self._shelf,
                self._waiting,
                self._embedders,
                created_at=self._at,
                expires_at=self._expires_at,
                origin=self._origin,
            )
            self._written += self._waiting
            self._waiting = []

    def notes(self) -> list[Note]:
        """Write what waits, and return the note of all since the last one, hashed over all of their contents."""
        self.write()
        written, sequences = self._written, self._sequences
        if not written:
            return []
        self._written, self._sequences = [], []
        contents, detail = written[0].payload, {}
        if len(written) > 1:
            contents = b"[" + b",".join([entry.payload for entry in written]) + b"]"
            detail = {"entries": len(written), "last": sequences[-1]}
        return [_note("remember", self._shelf, written[0].id, sequences[0], contents, detail)]


def forget(rows: Transaction, effect: Forget, call: Call) -> Outcome[bool]:
    """Let an entry end, and say whether it stood."""
    ensure_open(rows, effect.scope)
    if effect.id is not None:
        entry = rows.entry(effect.scope.tenant, effect.id)
        if entry is not None and (entry.scope, entry.collection) != (effect.scope, effect.collection):
            entry = None
    else:
        entry = rows.entry_of_key(Shelf(effect.scope, effect.collection, effect.namespace), effect.key or "")
    if entry is None or not entry.stands_at(call.now):
        return Outcome(False)
    return Outcome(True, (end_entry(rows, entry, call.now),))


def list_entries(rows: Reader, effect: ListEntries, call: Call) -> Outcome[list[Entry]]:
    """Return the entries that stand on a shelf now, in the order they came."""
    shelf = Shelf(effect.scope, effect.collection, effect.namespace)
    sequences = [sequence for sequence in rows.standing(shelf) if sequence > effect.after]

    def standing() -> Iterator[Entry]:
        # Their content and metadata are bounded by `Limits`, so a portion of this many rows is bounded too.
        for start in range(0, len(sequences), _PORTION):
            entries = rows.entries(effect.scope.tenant, sequences[start : start + _PORTION])
            yield from sorted((one for one in entries if one.stands_at(call.now)), key=lambda one: one.sequence)

    found = take_within(islice(standing(), effect.limit), lambda one: (one.content, one.metadata), effect.max_bytes)
    return Outcome(found)


def open_collection(rows: Transaction, tenant: str, name: str, call: Call) -> tuple[Collection, list[Note]]:
    """Return a collection, made now where there is none, and the note that says so."""
    collection = rows.collection(tenant, name)
    if collection is not None:
        return collection, []
    collection = Collection(tenant=tenant, name=name, space=call.derived.new_space(), created_at=call.now)
    rows.put_collection(collection)
    detail = {"embedder": collection.space.embedder, "dimension": collection.space.dimension}
    return collection, [Note(effect="create_collection", key=collection_key(name), detail=detail)]


def end_entry(rows: Transaction, entry: Entry, at: datetime) -> Note:
    """Let an entry end; return the note for the ledger."""
    # Not before it came, as a clock that was set back would have it: whoever imports it again has to see that it ended.
    rows.end_entry(entry.scope.tenant, entry.sequence, max(at, entry.created_at))
    return _note("forget", _shelf_of(entry), entry.id, entry.sequence)


def expire_entry(rows: Transaction, entry: Entry) -> Note:
    """Remove an entry whose time is over; return the note for the ledger."""
    rows.remove_entry(entry.scope.tenant, entry.sequence)
    return _note("expire_entry", _shelf_of(entry), entry.id, entry.sequence)


def digest_of(payload: bytes) -> bytes:
    """Return what the duplicates of a content are found by."""
    # A text without escapes is written in one way only.
    plain = payload[:1] == payload[-1:] == b'"' and b"\\" not in payload
    return hashlib.sha256(payload if plain else canonical(decode(payload))).digest()[:16]


def _shelf_of(entry: Entry) -> Shelf:
    return Shelf(entry.scope, entry.collection, entry.namespace)


def _note(
    effect: str,
    shelf: Shelf,
    id: str,
    sequence: int,
    payload: bytes | None = None,
    detail: dict[str, int] | None = None,
) -> Note:
    return Note(
        effect=effect,
        scope=shelf.scope.path,
        key=collection_key(shelf.collection),
        resource=id,
        version=sequence,
        payload=payload,
        detail=detail or {},
    )


def _standing(
    rows: Transaction, shelf: Shelf, item: Item, digest: bytes, expires_at: datetime | None, now: datetime
) -> Entry | None:
    """Return the entry that an item would double or replace: the one of its key, or else one just like it."""
    if item.key is not None:
        return rows.entry_of_key(shelf, item.key)
    for entry in rows.entries_alike(shelf, digest):
        # An entry with a key is its caller's to replace, so it counts only where it need not be.
        if entry.stands_at(now) and _same(entry, item) and (entry.key is None or _outlives(entry, expires_at)):
            return entry
    return None


def _same(entry: Entry, item: Item) -> bool:
    return canonical([entry.content, entry.metadata]) == canonical(
        [decode(bytes(item.payload)), decode(bytes(item.metadata))]
    )


def _outlives(entry: Entry, expires_at: datetime | None) -> bool:
    return entry.expires_at is None or (expires_at is not None and entry.expires_at >= expires_at)


def _remembered(
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
