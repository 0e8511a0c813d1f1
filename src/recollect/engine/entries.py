"""Effects on entries in, what became of them out: what remember, forget and list mean."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from recollect.engine.call import Call, Outcome
from recollect.engine.deriving import text_of
from recollect.engine.sessions import ensure_open
from recollect.errors import LimitExceeded
from recollect.model.collection import Collection
from recollect.model.effect import Forget, Item, ListEntries, Remember
from recollect.model.entry import Entry, Shelf
from recollect.model.event import Note
from recollect.model.fact import Origin
from recollect.model.key import collection_key
from recollect.model.limits import Limits
from recollect.model.recall import Remembered
from recollect.model.value import canonical, decode
from recollect.store.base import Reader, Transaction


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
    done: list[Remembered] = []
    stored: list[tuple[Entry, bytes]] = []
    for item in items:
        standing = _standing(rows, shelf, item, expires_at, call.now)
        same = standing is not None and _same(standing, item)
        if standing is not None and same and _outlives(standing, expires_at):
            done.append(_remembered(standing, stored=False, duplicate=True))
            continue
        if standing is not None:
            # Events follow what happened, and the entries of one event have sequences without a gap.
            _note_stored(stored, notes)
            if standing.stands_at(call.now):
                notes.append(end_entry(rows, standing, call.now))
            else:
                notes.append(expire_entry(rows, standing))
                standing, same = None, False
        payload = bytes(item.payload)
        entry = Entry(
            id=call.ids.new("entry"),
            scope=shelf.scope,
            collection=shelf.collection,
            namespace=shelf.namespace or "",
            key=item.key,
            content=decode(payload),
            metadata=decode(bytes(item.metadata)),
            created_at=at if standing is None else max(at, standing.created_at),  # never older than what it replaces
            expires_at=expires_at,
            origin=origin,
        )
        stored.append((add_entry(rows, collection, entry, payload, call), payload))
        replaced = standing.id if standing is not None else None
        done.append(_remembered(entry, stored=True, duplicate=same, replaced=replaced))
    _note_stored(stored, notes)
    return done, notes


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
    found: list[Entry] = []
    page = 500
    for start in range(0, len(sequences), page):
        entries = rows.entries(effect.scope.tenant, sequences[start : start + page])
        found += sorted((one for one in entries if one.stands_at(call.now)), key=lambda one: one.sequence)
        if effect.limit is not None and len(found) >= effect.limit:
            break
    return Outcome(found[: effect.limit])


def open_collection(rows: Transaction, tenant: str, name: str, call: Call) -> tuple[Collection, list[Note]]:
    """Return a collection, made now where there is none, and the note that says so."""
    collection = rows.collection(tenant, name)
    if collection is not None:
        return collection, []
    collection = Collection(tenant=tenant, name=name, space=call.derived.new_space(), created_at=call.now)
    rows.put_collection(collection)
    detail = {"embedder": collection.space.embedder, "dimension": collection.space.dimension}
    return collection, [Note(effect="create_collection", key=collection_key(name), detail=detail)]


def add_entry(rows: Transaction, collection: Collection, entry: Entry, payload: bytes, call: Call) -> Entry:
    """Keep an entry with its words and vectors; return it with the sequence it was given."""
    text = text_of(entry.content)
    sequence = rows.add_entry(entry, payload, digest_of(payload), call.derived.analysis(text))
    for space in (collection.space, collection.successor):
        if space is not None:
            rows.put_vector(entry.scope.tenant, sequence, space.embedder, call.derived.vector(space, text))
    return msgspec.structs.replace(entry, sequence=sequence)


def _note_stored(stored: list[tuple[Entry, bytes]], notes: list[Note]) -> None:
    """Add the note of what was stored since the last one, if anything was."""
    if stored:
        notes.append(_remember_note(stored))
        stored.clear()


def _remember_note(stored: list[tuple[Entry, bytes]]) -> Note:
    """Return the note of entries that were stored together: one event for all, hashed over all of their contents."""
    (first, payload), *others = stored
    if not others:
        return _note("remember", first, payload)
    contents = b"[" + b",".join(payload for _, payload in stored) + b"]"
    return _note("remember", first, contents, {"entries": len(stored), "last": stored[-1][0].sequence})


def end_entry(rows: Transaction, entry: Entry, at: datetime) -> Note:
    """Let an entry end; return the note for the ledger."""
    # Not before it came, as a clock that was set back would have it: whoever imports it again has to see that it ended.
    rows.end_entry(entry.scope.tenant, entry.sequence, max(at, entry.created_at))
    return _note("forget", entry)


def expire_entry(rows: Transaction, entry: Entry) -> Note:
    """Remove an entry whose time is over; return the note for the ledger."""
    rows.remove_entry(entry.scope.tenant, entry.sequence)
    return _note("expire_entry", entry)


def digest_of(payload: bytes) -> bytes:
    """Return what the duplicates of a content are found by."""
    return hashlib.sha256(canonical(decode(payload))).digest()[:16]


def _note(effect: str, entry: Entry, payload: bytes | None = None, detail: dict[str, int] | None = None) -> Note:
    return Note(
        effect=effect,
        scope=entry.scope.path,
        key=collection_key(entry.collection),
        resource=entry.id,
        version=entry.sequence,
        payload=payload,
        detail=detail or {},
    )


def _standing(rows: Transaction, shelf: Shelf, item: Item, expires_at: datetime | None, now: datetime) -> Entry | None:
    """Return the entry that an item would double or replace: the one of its key, or else one just like it."""
    if item.key is not None:
        return rows.entry_of_key(shelf, item.key)
    for entry in rows.entries_alike(shelf, digest_of(bytes(item.payload))):
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


def _remembered(entry: Entry, *, stored: bool, duplicate: bool, replaced: str | None = None) -> Remembered:
    return Remembered(
        id=entry.id,
        collection=entry.collection,
        namespace=entry.namespace,
        stored=stored,
        duplicate=duplicate,
        replaced=replaced,
        expires_at=entry.expires_at,
    )
