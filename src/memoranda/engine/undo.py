"""Undoing a forget, a supersede or a learn: what it ended is there again, from now on, and what it added is not.

The ledger says what a call changed, so a token names its events. An entry comes back as a new row with its old id: as
of the moments between, it is still gone. A fact and a block get their earlier value as a new version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from memoranda.engine.blocks import BOOK
from memoranda.engine.derivation import Source, link
from memoranda.engine.entries import (
    attribute,
    digest_of,
    end_entry,
    entry_note,
    entry_of_key,
    rejection_of_entry,
    shelf_of,
)
from memoranda.engine.facts import DeleteFact, SetFact, delete_fact, set_fact
from memoranda.engine.learned_lines import LearnedLines, revert_book, revert_text
from memoranda.engine.omissions import withdraw_omissions
from memoranda.engine.refs import is_within
from memoranda.engine.rejection_book import find_among, without_lines
from memoranda.engine.sessions import ensure_open
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.errors import Conflict, Denied, Hint, NotFound, UsageError
from memoranda.model.clock import moment_after
from memoranda.model.effect import Demand, WriteEffect
from memoranda.model.entry import Collection, Entry, Indexed, NewEntry, Restored
from memoranda.model.event import Event, Note
from memoranda.model.fact import Revision
from memoranda.model.names import FORGOTTEN_MESSAGES, is_block, is_internal, lies_under
from memoranda.model.ref import Ref
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import RANK_OF
from memoranda.model.value import canonical, encode
from memoranda.store.base import EntryQuery, Reader, RevisionQuery, Transaction

_TOKEN = re.compile(r"undo:([1-9][0-9]{0,17})-([1-9][0-9]{0,17})")
_UNDONE = frozenset({"forget", "remember", "delete_fact", "set_fact"})
"""Effects of events that can be undone."""
_IGNORED = frozenset({"expire_entry", "expire_fact", "learn", "create_collection", "taint"})


class Undo(WriteEffect, frozen=True, kw_only=True, tag="undo"):
    """Bring back what a forget, a supersede or a learn ended."""

    in_one_scope: ClassVar[bool] = True
    token: str
    partial: bool = False
    """Whether to leave alone what was replaced since, instead of undoing nothing."""


def check_token(token: object) -> str:
    """Return what a forget or a supersede returned as `undo`, or raise UsageError."""
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        raise UsageError(
            f"{quote(token)} does not name anything to undo",
            hint="Pass the result of the call, or its `undo`",
            value=token,
            path="token",
        )
    return token


def positions_of(token: str) -> tuple[int, int]:
    """Return the positions of the first and the last event that a token names."""
    matched = _TOKEN.fullmatch(check_token(token))
    return (int(matched[1]), int(matched[2])) if matched is not None else (1, 0)


def _demands(rows: Reader, effect: Undo, call: Call) -> Iterator[Demand]:
    # What was derived from something comes back as it went: with that, no matter who may write it.
    events = events_of(rows, effect)
    changes = (event for event in events if event.effect in _UNDONE and not event.detail.get("follows"))
    return ((effect.capability, Scope(event.tenant, event.scope), event.key) for event in changes)


def events_of(rows: Reader, effect: Undo) -> list[Event]:
    """Return the events that a token names, or raise NotFound if they are not all of this scope and of these kinds."""
    first, last = positions_of(effect.token)
    tenant, found = effect.scope.tenant, list[Event]()
    refused = 0
    root: Event | None = None
    for event in rows.events(tenant, start=first, limit=max(0, last - first + 1)):
        if event.decision in ("deny", "pending"):
            refused = event.position
            continue  # nothing was done
        if event.effect not in _IGNORED and (
            event.effect not in _UNDONE
            or event.decision not in ("allow", "approved")
            or not (is_within(effect.scope, Scope(tenant, event.scope)) or _follows(event, root))
            or _is_runtime(Scope(tenant, event.scope), event.key or "")
        ):
            break
        found.append(event)
        root = root if event.detail.get("follows") else event
    if not found or max(found[-1].position, refused) != last:
        raise NotFound(
            f"{quote(effect.token)} names nothing that was forgotten or superseded in `{effect.scope}`",
            hint="Undo it with the handle of the same scope",
            value=effect.token,
        )
    return found


def _follows(event: Event, root: Event | None) -> bool:
    """Return whether an event says what went with something that the same call ended."""
    if not event.detail.get("follows") or root is None:
        return False
    return (event.at, event.actor, event.door) == (root.at, root.actor, root.door)


def _is_runtime(scope: Scope, key: str) -> bool:
    """Return whether a fact is one that no forget reaches: the state of programs and conversations."""
    return is_internal(scope, key) and not is_block(scope, key) and key != BOOK and not _is_mark(scope, key)


def _is_mark(scope: Scope, key: str) -> bool:
    """Return whether a fact only says that a message was forgotten."""
    return lies_under(key, FORGOTTEN_MESSAGES) and is_internal(scope, key)


@verb(Undo, touches=_demands)
def undo(rows: Transaction, effect: Undo, call: Call) -> Outcome[Restored]:
    """Bring back everything that a call ended, or nothing, and return what that was."""
    ensure_open(rows, effect.scope)
    call = msgspec.structs.replace(call, omits=False)
    refs: list[str] = []
    rejected: list[str] = []
    notes: list[Note] = []
    events = events_of(rows, effect)
    _ensure_may_undo(rows, effect, events, call)
    # What a call both added and ended is gone already.
    passing = {number for event in events for number in _additions(event)} & _endings(events)
    for event in reversed(events):  # what was written last goes first
        if event.effect == "forget":
            if event.version in passing:
                continue
            try:
                entry, about = _restore_entry(rows, event, call)
            except (Conflict, NotFound):
                if not effect.partial:
                    raise
                continue
            if about is None:
                rejected.append(entry.ref)
                continue
            refs += [entry.ref] if about else []
            notes += about
        elif event.effect == "remember":
            notes += _take_back(rows, _additions(event) - passing, call, event.tenant, partial=effect.partial)
        elif event.effect in _UNDONE:
            scope, key = Scope(event.tenant, event.scope), event.key or ""
            ref = str(Ref("fact", scope, key))
            about, is_whole = _undo_fact(rows, event, call)
            notes += about
            refs += [ref] if about and key != BOOK and not _is_mark(scope, key) else []
            rejected += [] if is_whole else [ref]
    if effect.partial:  # a line comes back only with its statement
        for path in {event.scope for event in events if event.key == BOOK}:
            lines = LearnedLines(rows, [Scope(effect.scope.tenant, path)], call)
            lines.drop_stale()
            notes += lines.write(rows, None)
    withdraw_omissions(rows, [Scope(event.tenant, event.scope) for event in events], effect.token)
    refs.reverse()
    detail = {"undone": effect.token, "restored": len(refs), **({"rejected": len(rejected)} if rejected else {})}
    notes.append(Note(effect=effect.name, scope=effect.scope.path, detail=detail))
    restored = Restored(refs=tuple(refs), count=len(refs), rejected=tuple(dict.fromkeys(rejected)))
    return Outcome(restored, tuple(notes))


def _ensure_may_undo(rows: Reader, effect: Undo, events: Sequence[Event], call: Call) -> None:
    """Raise Denied for what only others may bring back."""
    everywhere = effect.capability, None, None
    if any(event.effect == "taint" for event in events) and not call.may(rows, everywhere):
        raise Denied(
            f"`{call.origin.actor}` may not write everywhere, so it may not bring back what was tainted",
            hint=Hint("grant", effect.capability, actor=call.origin.actor, scope=""),
            capability=effect.capability,
            actor=call.origin.actor,
        )
    if call.authority != "high" and any(event.actor != call.origin.actor for event in events):
        raise Denied(
            f"`{call.origin.actor}` did not do this, and is not trusted to undo it",
            hint="A user has to",
            capability=effect.capability,
            actor=call.origin.actor,
        )


# entries


def _restore_entry(rows: Transaction, event: Event, call: Call) -> tuple[Entry, list[Note] | None]:
    """Store an ended entry again under its id; return it, and the notes.

    There are none for a duplicate; for what was rejected since, it is None.
    """
    old = next(rows.entries(EntryQuery(tenant=event.tenant, sequences=[event.version or 0])), None)
    if old is None or old.id != event.resource or (old.expires_at is not None and old.expires_at <= call.now):
        raise _too_late(f"entry:{event.resource}")
    if rejection_of_entry(rows, old, call) is not None:
        return old, None
    newest = next(rows.entries(EntryQuery(tenant=event.tenant, id=old.id)))
    current = newest if newest.ended_at is None else entry_of_key(rows, shelf_of(old), old.chain)
    if current is not None and current.is_current_at(call.now):
        raise _place_conflict(old.ref, current.ref)
    digest = digest_of(encode(old.content))
    same = rows.entries(EntryQuery(shelf=shelf_of(old), digest=digest))
    if old.key is None and any(_is_copy(one, old, call.now) for one in same):
        return old, []  # it was remembered again meanwhile
    return old, [store_again(rows, old, call)]


def _is_copy(one: Entry, old: Entry, now: datetime) -> bool:
    return one.is_current_at(now) and canonical(one.metadata) == canonical(old.metadata)


def store_again(rows: Transaction, old: Entry, call: Call) -> Note:
    """Add the row of an ended entry again, with the words, vectors and origin that it has; return the note."""
    collection = rows.get(Collection, old.scope.tenant, old.collection)
    if collection is None:
        raise _too_late(old.ref)
    spaces = [space for space in (collection.space, collection.successor) if space is not None]
    made = {space.embedder: _index_row(rows, old, space.embedder) for space in spaces}
    own = made[collection.space.embedder]
    if own is None:
        raise _too_late(old.ref)
    payload = encode(old.content)
    digest = digest_of(payload)
    # During a move to another embedder, the move itself makes the vectors that are not there yet.
    vectors = {embedder: row.vector for embedder, row in made.items() if row is not None}
    new = NewEntry(old.id, old.key, payload, encode(old.metadata), digest, own.analysis, tuple(vectors.values()))
    (sequence,) = rows.add_entries(
        shelf_of(old),
        [new],
        list(vectors),
        created_at=moment_after(old.ended_at, call.now),
        expires_at=old.expires_at,
        origin=old.origin,
    )
    note = entry_note("remember", shelf_of(old), old.id, sequence, payload, {"restores": old.sequence})
    return attribute(note, old.origin)


def _index_row(rows: Reader, entry: Entry, embedder: str) -> Indexed | None:
    """Return the stored words and vector of an entry; None if an embedder made none of it."""
    tenant, collection = entry.scope.tenant, entry.collection
    query = EntryQuery(tenant=tenant, collection=collection, after=entry.sequence - 1, limit=1)
    row = next(iter(rows.index_rows(query, embedder)), None)
    return row if row is not None and row.sequence == entry.sequence else None


def _additions(event: Event) -> set[int]:
    """Return the sequences of the entries that an event says were added."""
    first = event.version or 0
    return set(range(first, int(event.detail.get("last", first)) + 1)) if event.effect == "remember" else set()


def _endings(events: Iterable[Event]) -> set[int]:
    return {event.version or 0 for event in events if event.effect == "forget"}


def _take_back(rows: Transaction, sequences: set[int], call: Call, tenant: str, *, partial: bool) -> list[Note]:
    """End the entries that a call added; return the notes."""
    query = EntryQuery(tenant=tenant, sequences=sorted(sequences))
    return [note for new in (rows.entries(query) if sequences else ()) for note in _end_new(rows, new, call, partial)]


def _end_new(rows: Transaction, new: Entry, call: Call, partial: bool) -> list[Note]:
    if new.ended_at is not None:
        current = entry_of_key(rows, shelf_of(new), new.chain)
        if current is not None and current.id == new.id:
            return [end_entry(rows, current, call.now)]  # it was replaced, and brought back
        if current is None or partial:
            return []  # it was forgotten, or something newer is to stay
        raise _place_conflict(new.ref, current.ref)
    return [end_entry(rows, new, call.now)]


# facts


def _undo_fact(rows: Transaction, event: Event, call: Call) -> tuple[tuple[Note, ...], bool]:
    """Take back what an event did to a fact, a block or its book; return the notes, and False if part is rejected."""
    scope, key = Scope(event.tenant, event.scope), event.key or ""
    if _is_mark(scope, key):
        return tuple(delete_fact(rows, DeleteFact(scope=scope, key=key), call).notes), True
    return (_revert if is_block(scope, key) or key == BOOK else _restore_fact)(rows, event, call)


def _restore_fact(rows: Transaction, event: Event, call: Call) -> tuple[tuple[Note, ...], bool]:
    """Write the value that a fact had before an event; return the notes, and False if the value was rejected since."""
    scope, key, version = Scope(event.tenant, event.scope), event.key or "", event.version or 0
    ref = str(Ref("fact", scope, key))
    newest = rows.revision(scope, key)
    before = _value_before(rows, scope, key, version)
    if newest is None or before is None or (before.expires_at is not None and before.expires_at <= call.now):
        raise _too_late(ref)
    if newest.version != version:
        raise _place_conflict(ref, f"{ref} at version {newest.version}")
    ttl = None if before.expires_at is None else max(1, int((before.expires_at - call.now).total_seconds()))
    write = SetFact(scope=scope, key=key, payload=msgspec.Raw(encode(before.value)), ttl=ttl, domain=before.domain)
    if call.rejections.find(rows, scope, before.value, key) is not None:
        return (), False
    written = set_fact(rows, write, msgspec.structs.replace(call, origin=before.origin))
    link(rows, scope, ref, written.value.version, [Source(ref, before.version, before.origin.trust)])
    return (*written.notes[:-1], attribute(written.notes[-1], before.origin)), True


def _revert(rows: Transaction, event: Event, call: Call) -> tuple[tuple[Note, ...], bool]:
    """Take back what an event did to a block or its book, line by line: what others changed since stays.

    Return the notes, and False if lines are left out that were rejected since.
    """
    scope, key, version = Scope(event.tenant, event.scope), event.key or "", event.version or 0
    written, before = rows.revision(scope, key, version=version), _value_before(rows, scope, key, version)
    if written is None or written.forgotten:
        raise _too_late(str(Ref("fact", scope, key)))
    fact = rows.fact(scope, key)
    now = fact.value if fact is not None and fact.active_at(call.now) else None
    blank: Any = {} if key == BOOK else ""
    revert: Callable[[Any, Any, Any], Any] = revert_book if key == BOOK else revert_text
    reverted = revert((before.value if before else None) or blank, written.value or blank, now or blank)
    is_whole = True
    if isinstance(reverted, str) and (known := call.rejections.of_scope(rows, scope)):
        left = without_lines(reverted, lambda line: find_among(known, line) is not None)
        is_whole, reverted = left == reverted, left
    if (before is None or not is_whole) and reverted == blank:
        gone = delete_fact(rows, DeleteFact(scope=scope, key=key), call).notes if now is not None else ()
        return gone, is_whole
    if reverted == now:
        return (), is_whole
    # What comes back is trusted as it was, no matter who brings it back.
    behind = [one.origin for one in (before, fact if reverted != (before.value if before else None) else None) if one]
    if behind:
        least = min(behind, key=lambda origin: RANK_OF[origin.trust])
        call = msgspec.structs.replace(
            call, origin=msgspec.structs.replace(call.origin, kind=least.kind, trust=least.trust)
        )
    write = SetFact(scope=scope, key=key, payload=msgspec.Raw(encode(reverted)))
    return set_fact(rows, write, call).notes, is_whole


def _value_before(rows: Reader, scope: Scope, key: str, version: int) -> Revision | None:
    query = RevisionQuery(scope, key, newest_first=True, before=version, limit=1)
    revision = next(rows.revisions(query), None)
    return revision if revision is not None and revision.change == "set" and not revision.forgotten else None


def _too_late(ref: str) -> NotFound:
    return NotFound(
        f"`{ref}` cannot be brought back: it has expired, or was erased",
        hint="What was swept or erased is gone permanently",
        value=ref,
    )


def _place_conflict(ref: str, current: str) -> Conflict:
    return Conflict(
        f"`{ref}` cannot be brought back: `{current}` took its place",
        hint="Forget or supersede the current one instead",
        expected=ref,
        actual=current,
    )
