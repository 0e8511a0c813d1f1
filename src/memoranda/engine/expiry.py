"""What happens when a time to live is over: a sweep in, counts and notes out.

Nobody waits for a sweep to stop seeing an expired fact: readers compare its expiry with the clock. A sweep
removes the rows, and the values in history whose own time to live is over, so that nothing outlives its TTL.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from memoranda.engine.call import Call, Outcome
from memoranda.engine.entries import expire_entry
from memoranda.model.effect import Sweep
from memoranda.model.event import Note
from memoranda.model.fact import Fact, Origin, Revision
from memoranda.store.base import Reader, Transaction

_CHUNK = 500
_KEEP_REPLAYS = timedelta(days=7)


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep removed, by kind; `more` says that another sweep would find more."""

    facts: int = 0
    revisions: int = 0
    entries: int = 0
    idempotency_keys: int = 0
    more: bool = False
    records: dict[str, int] = {}
    """How many of the facts were records, by the slug of their definition."""


def sweep(rows: Transaction, effect: Sweep, call: Call) -> Outcome[Swept]:
    """Remove one chunk of expired facts and entries, values that outlived their time, old idempotency records."""
    tenant = effect.scope.tenant
    gone = rows.expired(tenant, call.now, _CHUNK)
    records = Counter(fact.key for fact in gone if _is_record(rows, fact, call))
    notes = [expire_fact(rows, fact, call) for fact in gone]
    entries = rows.expired_entries(tenant, call.now, _CHUNK)
    notes += [expire_entry(rows, entry) for entry in entries]
    swept = Swept(
        facts=len(gone),
        revisions=rows.forget_revisions(tenant, call.now),
        entries=len(entries),
        idempotency_keys=rows.remove_replays(tenant, call.now - _KEEP_REPLAYS),
        more=_CHUNK in (len(gone), len(entries)),
        records=dict(records),
    )
    return Outcome(swept, tuple(notes))


def _is_record(rows: Reader, fact: Fact, call: Call) -> bool:
    """Say whether a definition speaks about a fact."""
    # What lies below a slug is older than its definition, and no record of it.
    return "." not in fact.key and call.schemas.definition(rows, fact.scope, fact.key) is not None


def expire_fact(rows: Transaction, fact: Fact, call: Call) -> Note:
    """Remove an expired fact and add the revision that says so; return the note for the ledger."""
    return end_fact(rows, fact, "expired", fact.version + 1, call.after(fact.updated_at), call.origin)


def end_fact(
    rows: Transaction, fact: Fact, change: Literal["deleted", "expired"], version: int, at: datetime, origin: Origin
) -> Note:
    """Drop a fact and add the revision that says why; return the note for the ledger."""
    rows.remove_fact(fact.scope, fact.key)
    rows.add_revision(
        Revision(
            fact_id=fact.id,
            scope=fact.scope,
            key=fact.key,
            version=version,
            change=change,
            at=at,
            created_at=fact.created_at,
            domain=fact.domain,
            origin=origin,
        ),
        None,
    )
    effect = {"deleted": "delete_fact", "expired": "expire_fact"}[change]
    return Note(effect=effect, scope=fact.scope.path, key=fact.key, resource=fact.id, version=version)
