"""Notes in, chained events out; a chain in, a verification out.

Each tenant has one chain. An event's hash covers everything it says and the hash of the event before it, so an
edit, a removal or a reordering shows at the first event that no longer fits. A cut-off tail leaves a shorter chain
that fits. The store remembers where its chain ends, which shows a tail that was lost; against somebody who cuts
the tail and changes that as well, only an anchor of length and head, kept elsewhere, helps.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime

import msgspec

from memoranda.model.event import (
    GENESIS,
    Anchor,
    Decision,
    Event,
    Note,
    Verification,
    event_body,
    hash_body,
    keyed_hash,
)
from memoranda.model.value import decode
from memoranda.store.base import Reader, Transaction


class Signature(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What every event of one passing through the gate has in common."""

    tenant: str
    at: datetime
    actor: str
    door: str
    decision: Decision
    keep_text: bool = False


def append(rows: Transaction, notes: Iterable[Note], signature: Signature) -> int:
    """Chain the notes to the tenant's ledger; return the position of the last event of it, 0 if there is none."""
    end = LedgerEnd(rows, signature)
    for note in notes:
        end.chain(note)
    return end.keep()


class LedgerEnd:
    """The end of a tenant's ledger in one transaction: notes are chained to it one by one, and kept together."""

    def __init__(self, rows: Transaction, signature: Signature) -> None:
        """Go on from where the ledger ends."""
        self._rows = rows
        self._signature = signature
        self._position, self._head = rows.head(signature.tenant) or (0, GENESIS)
        self._epoch = rows.tenant_state(signature.tenant).epoch
        self._keys: dict[str, bytes] = {}
        self._events: list[tuple[Event, bytes]] = []

    def chain(self, note: Note) -> str:
        """Give a note its place in the chain; return the hash of the event that it becomes."""
        signature = self._signature
        self._position += 1
        event = Event(
            tenant=signature.tenant,
            position=self._position,
            at=signature.at,
            actor=signature.actor,
            door=signature.door,
            effect=note.effect,
            decision=note.decision or signature.decision,
            scope=note.scope,
            key=note.key,
            resource=note.resource,
            version=note.version,
            content=None if note.payload is None else keyed_hash(self._key(note.scope), note.payload),
            epoch=self._epoch,
            detail=note.detail,
            prev_hash=self._head,
        )
        body = event_body(event)
        self._head = hash_body(body)
        # Nobody else has seen it yet, and making it anew for its own hash takes longer than hashing it.
        msgspec.structs.force_setattr(event, "hash", self._head)
        if signature.keep_text and note.payload is not None:
            msgspec.structs.force_setattr(event, "text", decode(note.payload))
        self._events.append((event, body))
        return self._head

    @property
    def position(self) -> int:
        """The position of the last event, 0 if there is none."""
        return self._position

    def keep(self) -> int:
        """Append what was chained; return the position of the last event of the ledger, 0 if there is none."""
        if self._events:
            self._rows.append_events(self._events)
            self._events = []
        return self._position

    def _key(self, scope: str) -> bytes:
        key = self._keys.get(scope)
        if key is None:
            key = self._keys[scope] = content_key(self._rows, self._signature.tenant, scope)
        return key


def verify(rows: Reader, tenant: str, *, anchor: Anchor | None = None) -> Verification:
    """Walk the whole chain and return whether it is whole, or the first bad position and why."""
    position, head, reached = 0, GENESIS, GENESIS
    for place, hash, body in rows.bodies(tenant):
        position += 1
        reason = _fault(body, hash, (tenant, place), position, head)
        if reason:
            return Verification(ok=False, length=position - 1, head=head, position=position, reason=reason)
        head = hash
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


class _Link(msgspec.Struct, frozen=True, gc=False):
    """What the bytes of an event say about its place; all the rest they say is in their hash."""

    tenant: str
    position: int
    prev_hash: str


_decode_link = msgspec.json.Decoder(_Link).decode


def _fault(body: bytes, hash: str, place: tuple[str, int], position: int, head: str) -> str:
    try:
        link = _decode_link(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it cannot be read: {error}"
    if (link.tenant, link.position) != place:
        return "it is not what was written there"
    if link.position != position:
        return f"event {position} is missing: the next one here says it is {link.position}"
    if link.prev_hash != head:
        return "it does not follow the event before it"
    if hash_body(body) != hash:
        return "its content does not match its hash"
    return ""
