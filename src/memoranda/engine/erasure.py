"""Erasures and sweeps: removing what belongs to a subject, and what has expired.

Expired facts are invisible without a sweep: readers compare their expiry with the clock. A sweep removes the rows, and
the values in history whose own time to live is over, so that nothing outlives its TTL.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from memoranda.engine.entries import expire_entry
from memoranda.engine.facts import expire_fact
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.errors import StorageError, UsageError
from memoranda.model.clock import moment_after
from memoranda.model.effect import Approval, WriteEffect
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.store.base import EntryQuery, Erasure, FactQuery, Reader, Session, Store, Transaction

_CHUNK = 500
_KEEP_REPLAYS = timedelta(days=7)


class Erase(WriteEffect, frozen=True, kw_only=True, tag="erase"):
    """Remove everything at and below a scope and in the sessions it owns, history included."""

    capability: ClassVar[str] = "memory.erase"


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, by kind, and the position of the ledger's event about it.

    `scrubbed` is whether the removed text is gone from the bytes of the database too. It is False when other
    connections kept the database from being rewritten: run `memoranda sweep --scrub` once they are closed.
    """

    id: str
    scope: Scope
    at: datetime
    removed: dict[str, int]
    position: int = 0
    scrubbed: bool = False


def _scrub(store: Store, effect: Erase, receipt: Receipt) -> Receipt:
    try:
        return msgspec.structs.replace(receipt, scrubbed=store.scrub())
    except StorageError:
        return receipt  # the erasure itself is committed; `scrubbed` says that the rewriting failed


@verb(Erase, after_commit=_scrub)
def erase(rows: Transaction, effect: Erase, call: Call) -> Outcome[Receipt]:
    """Remove everything at and below a scope and in the sessions it owns, and the key its content was hashed with.

    Without that key, the hashes in the ledger can no longer be compared with a guessed text. The highest version in
    use is kept, so that no (key, version) pair ever means two things.
    """
    if not effect.scope.path:
        raise UsageError("an erasure needs a subject", hint="Name a user, a project or a session")
    scopes = [effect.scope, *_sessions_of(rows, effect.scope)]
    id = call.ids.new("erasure")
    removed: Counter[str] = Counter()
    at = call.now
    for scope in scopes:
        earlier = rows.get(Erasure, scope)
        version, newest = rows.newest_below(scope)
        floor = max(version, earlier.version_floor if earlier else 0)
        # Stamps run ahead of a clock that does not move: what is erased must not look newer than its erasure.
        at = max(at, moment_after(newest, call.now), moment_after(earlier.at if earlier else None, call.now))
        removed.update(rows.remove_below(scope))
        rows.put(Erasure(id=id, scope=scope, at=at, version_floor=floor))
        call.indexes.drop(scope)
    removed["approvals"] += _drop_shared_approvals(rows, scopes, call)
    position = (rows.head(effect.scope.tenant) or (0, ""))[0] + 1  # that of the note below
    receipt = Receipt(id=id, scope=effect.scope, at=at, removed=dict(removed), position=position)
    note = Note(effect="erase", scope=effect.scope.path, resource=id, detail={"removed": dict(removed)})
    return Outcome(receipt, (note,))


def _sessions_of(rows: Transaction, scope: Scope) -> list[Scope]:
    """Return the sessions that a scope owns, directly or through other sessions."""
    found: dict[Scope, None] = {}  # ordered, with a quick look-up: an owner may have thousands
    waiting = [scope]
    while waiting:
        owner = waiting.pop()
        for session in rows.scan(Session, owner.tenant, below=owner):
            if session.scope not in found and not scope.covers(session.scope):
                found[session.scope] = None
                waiting.append(session.scope)
    return list(found)


def _drop_shared_approvals(rows: Transaction, scopes: list[Scope], call: Call) -> int:
    """Refuse what waits in another scope but would also write to one of these: it has their content."""
    dropped = 0
    for approval in rows.scan(Approval, scopes[0].tenant):
        effect = approval.effect
        if effect is None or not any(
            place is not None and gone.covers(place) for _, place, _ in effect.demands() for gone in scopes
        ):
            continue
        rows.put(
            msgspec.structs.replace(
                approval,
                effect=None,
                status="refused",
                decided_by=call.origin.actor,
                decided_at=call.now,
                reason="erased",
            )
        )
        dropped += 1
    return dropped


class Sweep(WriteEffect, frozen=True, kw_only=True, tag="sweep"):
    """Remove what has expired in a tenant."""

    capability: ClassVar[str] = "upkeep"


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep removed, by kind; `more` means that another sweep would find more."""

    facts: int = 0
    revisions: int = 0
    entries: int = 0
    idempotency_keys: int = 0
    more: bool = False
    records: dict[str, int] = {}
    """The number of records among the facts, by the slug of their definition."""


@verb(Sweep)
def sweep(rows: Transaction, effect: Sweep, call: Call) -> Outcome[Swept]:
    """Remove one chunk of expired facts and entries, values that outlived their time, old idempotency records."""
    tenant = effect.scope.tenant
    gone = list(rows.facts(FactQuery(Scope(tenant), below=True, expired_by=call.now, limit=_CHUNK)))
    records = Counter(fact.key for fact in gone if _is_record(rows, fact, call))
    notes = [expire_fact(rows, fact, call) for fact in gone]
    entries = list(rows.entries(EntryQuery(tenant=tenant, expired_by=call.now, limit=_CHUNK)))
    notes += [expire_entry(rows, entry) for entry in entries]
    swept = Swept(
        facts=len(gone),
        entries=len(entries),
        **rows.expire(tenant, call.now, replays_before=call.now - _KEEP_REPLAYS),
        more=_CHUNK in (len(gone), len(entries)),
        records=dict(records),
    )
    return Outcome(swept, tuple(notes))


def _is_record(rows: Reader, fact: Fact, call: Call) -> bool:
    # A fact below a slug is older than its definition, and not a record of it.
    return "." not in fact.key and call.schemas.definition(rows, fact.scope, fact.key) is not None
