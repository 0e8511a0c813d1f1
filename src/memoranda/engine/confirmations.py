"""Confirmations: what another independent origin says that was learned before.

A statement is learned once. Another origin that says the same later adds an entry in its words to the collection
`statements.confirmations`, with the origin of that message, and derived from the message and the statement: so it goes
with either, is taken back by `undo`, and is contained with its writer. Recalls count the origins of what confirms a
statement, and never return it instead of that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, cast

import msgspec

from memoranda.engine.derivation import Source, limit_to, link, message_refs, messages_for
from memoranda.engine.entries import Item, attribute, digest_of, end_entry, entry_of_key, store_items
from memoranda.engine.verbs import Call
from memoranda.model.entry import CONFIRMATIONS, STATEMENTS, Entry, Shelf
from memoranda.model.event import Note
from memoranda.model.trust import OWNER_ACTOR, Origin, Voice, independent_origin
from memoranda.model.value import canonical, encode
from memoranda.store.base import EntryQuery, Reader, Transaction

_MOST_ENDED = 100
"""Confirmations that had ended by a moment in the past and are read for it."""


def confirm(rows: Transaction, statement: Entry, said: Sequence[tuple[Source, Origin]], call: Call) -> list[Note]:
    """Record which messages say a statement for origins that had not said it; return the notes.

    A model that repeats what it was told confirms nothing, and neither does a file, which may be a copy. The statement
    itself counts for the first message that it was read in, no matter who read it there.
    """
    messages = list(messages_for(rows, statement.scope.tenant, message_refs(statement), "high"))
    is_new = {ref for ref, _ in messages} >= {message.ref for message, _ in said}
    read_in = messages[:1] if is_new else messages
    known = voices_of(rows, statement) | {independent_origin(message.origin) for _, message in read_in}
    notes: list[Note] = []
    for message, origin in said:
        voice = independent_origin(origin)
        if origin.kind in ("assistant", "import") or voice in known:
            continue
        known.add(voice)
        sources = [message, Source(statement.ref, 0, statement.origin.trust)]
        metadata = {"confirms": statement.key, "mark": _fingerprint(statement), "said_in": [message.ref]}
        item = Item(payload=msgspec.Raw(encode(statement.content)), metadata=msgspec.Raw(encode(metadata)))
        (stored,), about = store_items(
            rows, _shelf(statement), [item], call, at=call.now, expires_at=None, origin=limit_to(origin, sources)
        )
        notes += [attribute(note, limit_to(origin, sources)) if note.effect == "remember" else note for note in about]
        if stored.stored:
            link(rows, statement.scope, stored.ref, 0, sources)
    return notes


def may_confirm(statement: Entry, origins: Iterable[Origin]) -> bool:
    """Return whether one of these origins is another than that of a statement, so that a vector may be needed."""
    own = independent_origin(statement.origin)
    return any(independent_origin(origin) != own for origin in origins)


def end_confirmations(rows: Transaction, statement: Entry, now: datetime) -> list[Note]:
    """End the confirmations of a statement that ends; return the notes."""
    if statement.collection != STATEMENTS or statement.content is None:
        return []
    return [end_entry(rows, entry, now) for entry in list(_confirmations(rows, statement))]


def voices_of(rows: Reader, statement: Entry) -> set[Voice]:
    """Return the independent origins that say a statement now, its own among them."""
    own = set[Voice]() if statement.origin.kind == "import" else {independent_origin(statement.origin)}
    return own | confirming_voices(rows, statement)


def confirming_voices(rows: Reader, statement: Entry, as_of: datetime | None = None) -> set[Voice]:
    """Return the independent origins that confirm a statement, now or as of a moment."""
    return {voice for entry in _confirmations(rows, statement, as_of) for voice in _voices(entry)}


def with_voices(rows: Reader, entry: Entry) -> Entry:
    """Return an entry as it is exported: a confirmation says which origins say the statement, as found here.

    In another database all of it comes from a file.
    """
    if entry.collection != CONFIRMATIONS:
        return entry
    key = entry.metadata.get("confirms")
    statement = entry_of_key(rows, Shelf(entry.scope, STATEMENTS, ""), key) if isinstance(key, str) else None
    is_known = statement is not None and _fingerprint(statement) == entry.metadata.get("mark")
    voices = sorted(voices_of(rows, statement)) if statement is not None and is_known else []
    return msgspec.structs.replace(entry, metadata={**entry.metadata, "voices": voices})


def _confirmations(rows: Reader, statement: Entry, as_of: datetime | None = None) -> Iterator[Entry]:
    shelf, digest = _shelf(statement), digest_of(encode(statement.content))
    mark = _fingerprint(statement)
    for entry in rows.entries(EntryQuery(shelf=shelf, digest=digest)):
        if entry.metadata.get("mark") == mark and (as_of is None or entry.active_at(as_of)):
            yield entry
    if as_of is not None:
        for entry in rows.entries(EntryQuery(shelf=shelf, digest=digest, ended_since=as_of, limit=_MOST_ENDED)):
            if entry.metadata.get("mark") == mark and entry.active_at(as_of):
                yield entry


def _voices(entry: Entry) -> Iterator[Voice]:
    """Yield who a confirmation counts as: its writer or, where the owner imported it, who the file says it was."""
    if entry.origin.kind != "import":
        yield independent_origin(entry.origin)
    elif entry.origin.actor == OWNER_ACTOR:
        named: Any = entry.metadata.get("voices")
        for one in cast("list[Any]", named) if isinstance(named, list) else ():
            if isinstance(one, list) and [type(part) for part in cast("list[Any]", one)] == [str, str]:
                yield cast("Voice", tuple(cast("list[str]", one)))


def _shelf(statement: Entry) -> Shelf:
    return Shelf(statement.scope, CONFIRMATIONS, "")


def _fingerprint(statement: Entry) -> str:
    """Return what tells this statement from others in the same words, also in another database."""
    return hashlib.sha256(canonical([statement.content, statement.metadata])).hexdigest()[:32]
