"""The ledger: chaining events to it, reading it, and verifying it.

Each tenant has one chain. An event's hash covers everything it says and the hash of the event before it, so an edit, a
removal or a reordering shows at the first event that no longer fits. A cut-off tail leaves a shorter chain that fits.
The store remembers where its chain ends, which shows a tail that was lost; against an attacker who cuts the tail and
changes that as well, only an anchor of length and head, kept elsewhere, helps.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, ClassVar

import msgspec

from memoranda.engine.containment import SERVING, as_served, nodes_of_events, serving_events
from memoranda.engine.facts import content_key
from memoranda.engine.lineage import descendants
from memoranda.engine.pages import take_within
from memoranda.engine.sessions import find_ended_session
from memoranda.engine.undo import positions_of
from memoranda.engine.verbs import VERBS, Call, Outcome, verb
from memoranda.errors import MemorandaError, Refused
from memoranda.model.effect import Effect, ReadEffect
from memoranda.model.event import (
    GENESIS,
    Anchor,
    Decision,
    Event,
    Note,
    Verification,
)
from memoranda.model.lineage import Deletion, Rollback
from memoranda.model.ref import Ref
from memoranda.model.scope import Scope
from memoranda.model.value import canonical, decode, hash_body, hash_content
from memoranda.store.base import ContentKey, Erasure, Reader, SegmentPiece, Store, Transaction

_EMPTYING = frozenset({"forget", "expire_entry", "erase", "end_scope"})
"""Effects in notes that remove entries of a scope."""

_PORTION = 64
"""Events that are read at once where the newest come first."""
_DELAY = 0.05
_MOST_WAITING = 10_000


class Signature(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What all events of one effect have in common."""

    tenant: str
    at: datetime
    actor: str
    door: str
    decision: Decision
    keep_text: bool = False

    @classmethod
    def of(cls, effect: Effect, call: Call) -> Signature:
        """Return the signature of an effect's events."""
        origin = call.origin
        return cls(
            tenant=effect.scope.tenant,
            at=call.now,
            actor=origin.actor,
            door=origin.door,
            decision=call.decision,
            keep_text=call.keep_text,
        )


def carry_out(rows: Transaction, effect: Effect, call: Call) -> Any:
    """Run the verb of an effect inside a transaction, and chain its notes to the ledger; return its result."""
    verb = VERBS[type(effect)]
    outcome = verb.perform(rows, effect, call)
    call.checks.ensure_settled()
    if verb.keep_replay is not None and not isinstance(outcome.value, Refused):
        verb.keep_replay(rows, effect, outcome.value, call)
    for note in outcome.notes:
        if note.effect in _EMPTYING and not _is_replaced(note):
            call.emptied.append(note.scope)
    if call.emptied:
        for subject in {None if path is None else path.partition("/")[0] for path in call.emptied}:
            rows.remove(SegmentPiece, effect.scope.tenant, subject)
    if outcome.notes:
        notes = with_findings(outcome.notes, call.findings) if call.findings else outcome.notes
        append(rows, notes, Signature.of(effect, call))
    return outcome.value


def _is_replaced(note: Note) -> bool:
    """Return whether an entry ended because another took its place: it stays in the history."""
    return bool(note.detail) and "replaced" in note.detail


def with_findings(notes: tuple[Note, ...], findings: tuple[str, ...]) -> tuple[Note, ...]:
    """Return the notes of a write, of which the last one says what was found in it."""
    last = notes[-1]
    return *notes[:-1], msgspec.structs.replace(last, detail={**(last.detail or {}), "findings": list(findings)})


def earlier_result(rows: Transaction, effect: Effect) -> Any:
    """Return the result of the same request under the same idempotency key; None if there is none."""
    find_replay = VERBS[type(effect)].find_replay
    return None if find_replay is None else find_replay(rows, effect)


def append(rows: Transaction, notes: Iterable[Note], signature: Signature) -> None:
    """Append notes to the tenant's ledger."""
    notes = tuple(notes)
    if notes:
        end = LedgerEnd(rows, signature)
        end.reserve(len(notes))
        for note in notes:
            end.chain(note)
        end.keep()


class LedgerEnd:
    """The end of a tenant's ledger in one transaction: notes become events one by one, and are stored together."""

    def __init__(self, rows: Transaction, signature: Signature) -> None:
        """Start at the end of the ledger."""
        self._rows = rows
        self._signature = signature
        self._head = ""
        self._epoch = rows.tenant_state(signature.tenant).epoch
        self._keys: dict[str, bytes] = {}
        self._positions: Sequence[int] = ()
        self._events: list[tuple[Event, bytes]] = []

    def reserve(self, count: int) -> None:
        """Take the positions of this many notes more, which costs less than taking them one by one."""
        reserved = self._rows.reserve(self._signature.tenant, len(self._events) + count)
        if not self._events:
            self._head = reserved.previous
        self._positions = reserved.positions

    @property
    def next_position(self) -> int:
        """The position of the next event."""
        if len(self._events) == len(self._positions):
            self.reserve(1)
        return self._positions[len(self._events)]

    def chain(self, note: Note) -> str:
        """Make a note the next event; return the hash of what it says.

        Where the store chains events as they are appended, that includes the hash of the event before it.
        """
        signature = self._signature
        if len(self._events) == len(self._positions):
            self.reserve(1)
        event = Event(
            tenant=signature.tenant,
            position=self._positions[len(self._events)],
            at=signature.at,
            actor=signature.actor,
            door=signature.door,
            effect=note.effect,
            decision=note.decision or signature.decision,
            scope=note.scope,
            key=note.key,
            resource=note.resource,
            version=note.version,
            content=None if note.payload is None else hash_content(self._key(note.scope), note.payload),
            epoch=self._epoch,
            detail=note.detail,
            prev_hash=self._head,
        )
        body = canonical(event)  # it has no hash and no text yet, which are not hashed
        hash = hash_body(body)
        if self._head:
            self._head = hash
        # No other code has seen it yet, and copying it to add its hash takes longer than hashing it.
        msgspec.structs.force_setattr(event, "hash", hash)
        if signature.keep_text and note.payload is not None:
            msgspec.structs.force_setattr(event, "text", decode(note.payload))
        self._events.append((event, body))
        return hash

    def keep(self) -> int:
        """Store the events; return the position of the last one, 0 if there is none."""
        if not self._events:
            return 0
        position = self._events[-1][0].position
        self._rows.append_events(self._events)
        self._events, self._positions = [], ()
        return position

    def _key(self, scope: str) -> bytes:
        key = self._keys.get(scope)
        if key is None:
            key = self._keys[scope] = content_key(self._rows, self._signature.tenant, scope)
        return key


class DeferredEvents:
    """Notes of reads, appended together within 50 ms, so that a read never waits for the disk.

    `close` appends what is left.
    """

    def __init__(self, store: Store) -> None:
        """Start without a thread; the first note starts it."""
        self._store = store
        self._waiting: deque[tuple[Note, Signature]] = deque()
        self._flushing = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def add(self, note: Note, signature: Signature) -> None:
        """Append a note later. If too many could not be written, raise why, so that none is lost."""
        if self._failure is not None and len(self._waiting) > _MOST_WAITING:
            raise self._failure
        self._waiting.append((note, signature))
        if self._thread is None:
            with self._flushing:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="memoranda-ledger", daemon=True)
                    self._thread.start()
        self._wake.set()

    def flush(self) -> None:
        """Append the waiting notes; they keep waiting if they cannot be written."""
        with self._flushing:
            batch = list(self._waiting)
            if not batch:
                return
            self._store.transact(lambda rows: _append_all(rows, batch), within=())
            for _ in batch:
                self._waiting.popleft()

    def close(self) -> None:
        """Stop the thread and append what is left."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._closing.wait(_DELAY):
                return  # close() writes what is left, in the caller's thread, where a failure is seen
            try:
                self.flush()
                self._failure = None
            except MemorandaError as failure:
                self._failure = failure  # the notes wait on: the next flush or close() tries again and raises
                self._wake.set()


def _append_all(rows: Transaction, batch: list[tuple[Note, Signature]]) -> None:
    for tenant, count in Counter(signature.tenant for _, signature in batch).items():
        rows.reserve(tenant, count)
    for note, signature in batch:
        append(rows, (without_erased(rows, note, signature),), signature)


def without_erased(rows: Transaction, note: Note, signature: Signature) -> Note:
    """Return a note, without its content if its subject was erased or its session ended before it is stored."""
    scope = Scope(signature.tenant, note.scope)
    erasure = rows.get(Erasure, scope)
    if (erasure is not None and signature.at <= erasure.at) or find_ended_session(rows, scope) is not None:
        return msgspec.structs.replace(note, payload=None)
    return note


class ReadLedger(ReadEffect, frozen=True, kw_only=True, tag="read_ledger"):
    """Read events of a tenant's ledger: from a position on, or the newest ones."""

    capability: ClassVar[str] = "ledger.read"
    start: int = 1
    limit: int | None = None
    max_bytes: int | None = None
    newest: bool = False


@verb(ReadLedger)
def read_ledger(rows: Reader, effect: ReadLedger, call: Call) -> Outcome[list[Event]]:
    """Return events by position, or the newest ones, oldest first."""
    if effect.newest and effect.limit is not None:
        backwards = islice(_newest_events(rows, effect.scope.tenant), effect.limit)
        return Outcome(take_within(backwards, _content, effect.max_bytes)[::-1])
    events = rows.events(effect.scope.tenant, start=effect.start, limit=effect.limit)
    return Outcome(take_within(events, _content, effect.max_bytes))


def _newest_events(rows: Reader, tenant: str) -> Iterator[Event]:
    end = rows.progress(tenant).newest
    while end > 0:
        start = max(1, end - _PORTION + 1)
        yield from reversed(list(rows.events(tenant, start=start, limit=end - start + 1)))
        end = start - 1


def _content(event: Event) -> tuple[Any, Any]:
    return event.detail, event.text


DELETIONS = frozenset({"forget", "delete_fact", "delete_collection", "delete_definition", "erase", "end_scope"})
"""The effects of events about deletions."""


class ReadDeletions(ReadEffect, frozen=True, kw_only=True, tag="read_deletions"):
    """Read what was deleted in a tenant, oldest first."""

    capability: ClassVar[str] = "ledger.read"
    below: Scope | None = None


@verb(ReadDeletions)
def read_deletions(rows: Reader, effect: ReadDeletions, call: Call) -> Outcome[list[Deletion]]:
    """Return the deletions at and below a scope; what was only replaced is not among them."""
    return Outcome(
        [
            Deletion(
                position=event.position,
                at=event.at,
                actor=event.actor,
                effect=event.effect,
                scope=Scope(event.tenant, event.scope),
                key=event.key,
                resource=event.resource,
                version=event.version,
                epoch=event.epoch,
            )
            for event in rows.events(effect.scope.tenant)
            if event.effect in DELETIONS
            and event.decision in ("allow", "approved")
            and not event.detail.get("replaced")
            and (effect.below is None or effect.below.covers(Scope(event.tenant, event.scope)))
        ]
    )


class ReadRollbacks(ReadEffect, frozen=True, kw_only=True, tag="read_rollbacks"):
    """Read what was undone in a tenant, oldest first."""

    capability: ClassVar[str] = "ledger.read"
    below: Scope | None = None


@verb(ReadRollbacks)
def read_rollbacks(rows: Reader, effect: ReadRollbacks, call: Call) -> Outcome[list[Rollback]]:
    """Return the rollbacks at and below a scope, each with what it undid and what had depended on that."""
    undone = [
        event
        for event in rows.events(effect.scope.tenant)
        if event.effect == "undo"
        and event.decision in ("allow", "approved")
        and (effect.below is None or effect.below.covers(Scope(event.tenant, event.scope)))
    ]
    return Outcome([_rollback(rows, event) for event in undone])


def _rollback(rows: Reader, event: Event) -> Rollback:
    first, last = positions_of(event.detail["undone"])
    tenant = event.tenant
    events = list(rows.events(tenant, start=first, limit=last - first + 1))
    nodes = [node for node, _ in nodes_of_events(rows, events)]
    ended = [one for one in events if one.effect in DELETIONS]
    # Who read there meanwhile was not given what had ended.
    places = [Scope(tenant, one.scope) for one in ended]
    between = list(rows.events(tenant, start=last + 1, limit=event.position - last - 1))
    given = {
        one.position: one for one in serving_events(rows, tenant, nodes, last + 1) if one.position < event.position
    }
    for one in between:
        scope = Scope(tenant, one.scope)
        if one.effect in SERVING and any(place.covers(scope) or scope.covers(place) for place in places):
            given.setdefault(one.position, as_served(one))
    refs = [node.ref for node in nodes]
    refs += [f"entry:{one.resource}" for one in ended if one.effect == "forget"]
    refs += [str(Ref("fact", Scope(tenant, one.scope), one.key or "")) for one in ended if one.effect == "delete_fact"]
    return Rollback(
        position=event.position,
        at=event.at,
        actor=event.actor,
        scope=Scope(tenant, event.scope),
        undid=tuple(one.position for one in events),
        refs=tuple(dict.fromkeys(refs)),
        dependants=tuple(given[position] for position in sorted(given)),
        derived=tuple(dict.fromkeys(node.ref for node in descendants(rows, tenant, nodes))),
        epoch=event.epoch,
    )


class VerifyLedger(ReadEffect, frozen=True, kw_only=True, tag="verify_ledger"):
    """Walk a tenant's chain, and compare it with an anchor if one is given."""

    capability: ClassVar[str] = "ledger.read"
    anchor: Anchor | None = None


@verb(VerifyLedger, needs_chain=True)
def verify_ledger(rows: Reader, effect: VerifyLedger, call: Call) -> Outcome[Verification]:
    """Return whether the tenant's chain is whole."""
    return Outcome(verify(rows, effect.scope.tenant, anchor=effect.anchor))


def verify(rows: Reader, tenant: str, *, anchor: Anchor | None = None) -> Verification:
    """Walk the whole chain and return whether it is whole, or the first bad position and why."""
    position, head, reached = 0, GENESIS, GENESIS
    for place, hash, body in rows.bodies(tenant):
        if not hash:
            break  # it is not chained yet: an event before it is missing, whose writer may be about to commit
        position += 1
        reason = _misfit(body, hash, (tenant, place), position, head)
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
    """Return the hash that the ledger has for this content; None once its scope was erased."""
    key = rows.get(ContentKey, tenant, scope)
    return hash_content(key.secret, payload) if key is not None else None


class _Link(msgspec.Struct, frozen=True, gc=False):
    """What the bytes of an event say about its place; their hash covers the rest."""

    tenant: str
    position: int
    prev_hash: str


_decode_link = msgspec.json.Decoder(_Link).decode


def _misfit(body: bytes, hash: str, place: tuple[str, int], position: int, head: str) -> str:
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
