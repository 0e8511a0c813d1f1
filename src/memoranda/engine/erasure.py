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
from memoranda.engine.rejection_book import note_change
from memoranda.engine.reviews import ensure_authority
from memoranda.engine.sessions import EndScope, end_scope, is_session
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.errors import StorageError, UsageError
from memoranda.model.clock import moment_after
from memoranda.model.effect import Approval, WriteEffect
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.names import RUN_RECORD, SESSION_RECORD
from memoranda.model.probes import Remains
from memoranda.model.scope import Scope
from memoranda.store.base import EntryQuery, Erasure, FactQuery, Reader, Session, Store, Transaction

_CHUNK = 500
_KEEP_REPLAYS = timedelta(days=7)


class Erase(WriteEffect, frozen=True, kw_only=True, tag="erase"):
    """Remove everything at and below a scope and in the sessions it owns, history included."""

    capability: ClassVar[str] = "memory.erase"


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, by kind, and the position of the ledger's event about it.

    `remains` says where in the database the removed content can still be read. `scrubbed` is whether no byte of its
    tables has it; if not, `memoranda sweep --scrub` rewrites them. On SQLite an erasure does that itself, unless others
    are reading the file. On PostgreSQL it does not, because others would have to wait.

    Indexes that the cache folder of this host kept of the subject are gone by then. Those on other hosts go when their
    processes next look for them, or with `memoranda sweep` there.
    """

    id: str
    scope: Scope
    at: datetime
    removed: dict[str, int]
    position: int = 0
    scrubbed: bool = False
    remains: Remains = Remains()


def _reclaim(store: Store, effect: Erase, receipt: Receipt) -> Receipt:
    try:
        remains = store.reclaim(effect.scope.tenant)
    except StorageError as error:  # the erasure itself is committed
        remains = Remains(
            dead_rows="untested", index_entries="untested", free_space="untested", log="untested", reason=error.message
        )
    return msgspec.structs.replace(receipt, remains=remains, scrubbed=remains.scrubbed)


def _ensure_trusted(rows: Reader, effect: Erase, call: Call) -> None:
    """Refuse callers of little trust: an erasure takes what others wrote, too, and nothing brings it back."""
    ensure_authority(effect, call, "to erase what others wrote")


@verb(Erase, admit=_ensure_trusted, after_commit=_reclaim)
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
        call.emptied.append(scope.path)
    removed["approvals"] += _drop_shared_approvals(rows, scopes, call)
    if removed["rejections"]:
        note_change(rows, effect.scope.tenant)
    (position,) = rows.reserve(effect.scope.tenant, 1).positions  # that of the note below
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
    """Remove what has expired in a tenant: one portion of it."""

    capability: ClassVar[str] = "upkeep"
    limit: int = _CHUNK
    """Maximum number of facts, of entries, and of revisions."""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep removed, by kind; `more` means that another sweep would find more."""

    facts: int = 0
    revisions: int = 0
    entries: int = 0
    idempotency_keys: int = 0
    runs: int = 0
    """Runs whose time was over; nothing is left of them but their events."""
    more: bool = False
    records: dict[str, int] = {}
    """The number of records among the facts, by the slug of their definition."""


@verb(Sweep)
def sweep(rows: Transaction, effect: Sweep, call: Call) -> Outcome[Swept]:
    """Remove a portion of expired facts and entries, values that outlived their time, old idempotency records.

    With the record of a run everything in its scope goes, such as what was stored while it waited.
    """
    tenant, most = effect.scope.tenant, effect.limit
    gone = list(rows.facts(FactQuery(Scope(tenant), below=True, expired_by=call.now, limit=most)))
    records = Counter(fact.key for fact in gone if _is_record(rows, fact, call))
    notes = [expire_fact(rows, fact, call) for fact in gone]
    runs = [fact.scope for fact in gone if fact.key == RUN_RECORD and fact.scope.shape == ("run",)]
    for scope in runs:
        notes += end_scope(rows, EndScope(scope=scope), call).notes
    entries = list(rows.entries(EntryQuery(tenant=tenant, expired_by=call.now, limit=most)))
    notes += [expire_entry(rows, entry) for entry in entries]
    if call.indexes.segments is not None:
        call.indexes.segments.remove_stale(rows, tenant)
    expired = rows.expire(tenant, call.now, replays_before=call.now - _KEEP_REPLAYS, limit=most)
    swept = Swept(
        facts=len(gone),
        entries=len(entries),
        runs=len(runs),
        **expired,
        more=max(len(gone), len(entries), expired["revisions"]) >= most,
        records=dict(records),
    )
    return Outcome(swept, tuple(notes))


class EndIdleSessions(WriteEffect, frozen=True, kw_only=True, tag="end_idle_sessions"):
    """End the sessions of agents in a tenant that were not used since a moment: one portion of them."""

    capability: ClassVar[str] = "upkeep"
    before: datetime
    after: str | None = None
    """The path of the last session that was looked at."""
    limit: int = 50


class IdleSessions(msgspec.Struct, frozen=True, kw_only=True):
    """The number of sessions that were ended, and the path of the last one that was looked at, None at the end."""

    ended: int
    after: str | None


@verb(EndIdleSessions)
def end_idle_sessions(rows: Transaction, effect: EndIdleSessions, call: Call) -> Outcome[IdleSessions]:
    """End sessions whose record is old, and the handoff trees that belong to them alone."""
    query = FactQuery(
        Scope(effect.scope.tenant), below=True, key=SESSION_RECORD, after=effect.after, limit=effect.limit
    )
    found = list(rows.facts(query))
    idle = [fact for fact in found if fact.updated_at < effect.before and is_session(fact.scope)]
    notes: list[Note] = []
    for fact in idle:
        notes += end_scope(rows, EndScope(scope=fact.scope), call).notes
        tree = Scope.of(tenant=effect.scope.tenant, tree=fact.scope.parts[-1][1])
        _, newest = rows.newest_below(tree)
        # Other sessions may have joined it, and use it still.
        if newest is not None and newest < effect.before:
            notes += end_scope(rows, EndScope(scope=tree), call).notes
    last = found[-1].scope.path if len(found) == effect.limit else None
    return Outcome(IdleSessions(ended=len(idle), after=last), tuple(notes))


def _is_record(rows: Reader, fact: Fact, call: Call) -> bool:
    # A fact below a slug is older than its definition, and not a record of it.
    return "." not in fact.key and call.schemas.definition(rows, fact.scope, fact.key) is not None
