"""Notes in, chained events out; a chain in, a verification out.

Each tenant has one chain. An event's hash covers everything it says and the hash of the event before it, so an
edit, a removal or a reordering shows at the first event that no longer fits. A cut-off tail leaves a shorter chain
that fits. The store remembers where its chain ends, which shows a tail that was lost; against somebody who cuts
the tail and changes that as well, only an anchor of length and head, kept elsewhere, helps.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from recollect.errors import Corrupt
from recollect.model.event import (
    GENESIS,
    Anchor,
    Decision,
    Event,
    Note,
    Verification,
    event_body,
    hash_body,
    hash_event,
    keyed_hash,
)
from recollect.model.value import decode
from recollect.store.base import Reader, Transaction


class Signature(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What every event of one passing through the gate has in common."""

    tenant: str
    at: datetime
    actor: str
    door: str
    decision: Decision
    keep_text: bool = False


def append(rows: Transaction, notes: Iterable[Note], signature: Signature) -> int:
    """Chain the notes to the tenant's ledger; return the position of the last one, 0 if there was none."""
    position, head = rows.head(signature.tenant) or (0, GENESIS)
    epoch = rows.tenant_state(signature.tenant).epoch
    keys: dict[str, bytes] = {}
    for note in notes:
        position += 1
        event = Event(
            tenant=signature.tenant,
            position=position,
            at=signature.at,
            actor=signature.actor,
            door=signature.door,
            effect=note.effect,
            decision=signature.decision,
            scope=note.scope,
            key=note.key,
            resource=note.resource,
            version=note.version,
            content=_content(rows, signature.tenant, note, keys),
            epoch=epoch,
            detail=note.detail,
            prev_hash=head,
            text=decode(note.payload) if signature.keep_text and note.payload is not None else None,
        )
        body = event_body(event)
        head = hash_body(body)
        rows.append_event(msgspec.structs.replace(event, hash=head), body)
    return position


def verify(rows: Reader, tenant: str, *, anchor: Anchor | None = None) -> Verification:
    """Walk the whole chain and return whether it is whole, or the first bad position and why."""
    position, head, reached = 0, GENESIS, GENESIS
    for event in _readable(rows, tenant):
        position += 1
        reason = event.reason if isinstance(event, _Unreadable) else _fault(event, position, head)
        if isinstance(event, _Unreadable) or reason:
            return Verification(ok=False, length=position - 1, head=head, position=position, reason=reason)
        head = event.hash
        if anchor is not None and position == anchor.length:
            reached = head
    length, end = rows.head(tenant) or (0, GENESIS)
    if position != length:
        reason = f"the chain ends before it, but {length} events were written"
        return Verification(ok=False, length=position, head=head, position=position + 1, reason=reason)
    if head != end:
        reason = "it is not the event that was written last"
        return Verification(ok=False, length=position, head=head, position=position, reason=reason)
    if anchor is not None:
        if position < anchor.length:
            reason = f"the chain ends here, but had {anchor.length} events when the anchor was taken"
            return Verification(ok=False, length=position, head=head, position=position + 1, reason=reason)
        if reached != anchor.head:
            reason = "the event at the anchor's length is not the one the anchor names"
            return Verification(ok=False, length=position, head=head, position=anchor.length, reason=reason)
    return Verification(ok=True, length=position, head=head)


def content_hash(rows: Reader, tenant: str, scope: str, payload: bytes) -> str | None:
    """Return the hash that the ledger would keep for this content; None once its scope was erased."""
    key = rows.content_key(tenant, scope)
    return keyed_hash(key, payload) if key is not None else None


def content_key(rows: Transaction, tenant: str, scope: str) -> bytes:
    """Return the secret that a scope's content is hashed with, making it the first time. An erasure destroys it."""
    key = rows.content_key(tenant, scope)
    if key is None:
        key = os.urandom(32)
        rows.put_content_key(tenant, scope, key)
    return key


def _content(rows: Transaction, tenant: str, note: Note, keys: dict[str, bytes]) -> str | None:
    """Return the hash of what a note is about; `keys` holds the secrets of the scopes that this call has seen."""
    if note.payload is None:
        return None
    key = keys.get(note.scope)
    if key is None:
        key = keys[note.scope] = content_key(rows, tenant, note.scope)
    return keyed_hash(key, note.payload)


class _Unreadable(msgspec.Struct, frozen=True):
    reason: str


def _readable(rows: Reader, tenant: str) -> Iterator[Event | _Unreadable]:
    """Yield events, and in place of the first one that cannot be read the reason why."""
    try:
        yield from rows.events(tenant)
    except Corrupt as damage:
        yield _Unreadable(damage.message)


def _fault(event: Event, position: int, head: str) -> str:
    if event.position != position:
        return f"event {position} is missing: the next one here says it is {event.position}"
    if event.prev_hash != head:
        return "it does not follow the event before it"
    if hash_event(event) != event.hash:
        return "its content does not match its hash"
    return ""
