"""A store in, findings out: is the file whole, does each chain hold, do ledger, facts and entries say the same?"""

from __future__ import annotations

import functools
from datetime import datetime

import msgspec

from recollect.engine.sessions import ending_scopes
from recollect.governance.ledger import content_hash, verify
from recollect.governance.verifying_runs import broken_runs
from recollect.model.event import Event
from recollect.model.fact import Origin
from recollect.model.key import collection_key
from recollect.model.scope import Scope
from recollect.model.text import quote
from recollect.model.value import encode
from recollect.store.base import Reader


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at, and whether it is well."""

    what: str
    ok: bool
    detail: str = ""


def inspect_tenant(rows: Reader, tenant: str, now: datetime) -> list[Finding]:
    """Return whether a tenant's chain is whole and agrees with its facts, its entries and the records of its runs."""
    chain = verify(rows, tenant)
    events = "1 event" if chain.length == 1 else f"{chain.length} events"
    detail = events if chain.ok else f"position {chain.position}: {chain.reason}"
    findings = [Finding(what=f"ledger of {tenant}", ok=chain.ok, detail=detail)]
    if chain.ok:
        rebuilt = _rebuild(rows, tenant)
        for what, differences in (
            ("facts", _fact_differences(rows, tenant, rebuilt)),
            ("entries", _entry_differences(rows, tenant, rebuilt)),
            ("runs", list(broken_runs(rows, tenant, now))),
        ):
            findings.append(
                Finding(
                    what=f"{what} of {tenant} agree with the ledger",
                    ok=not differences,
                    detail=differences[0] if differences else "",
                )
            )
    return findings


class _Known(msgspec.Struct, frozen=True):
    version: int | None
    content: str | None
    actor: str
    door: str


class _Standing(msgspec.Struct, frozen=True):
    scope: str
    collection: str
    actor: str
    door: str
    content: str | None
    """None for one of several entries that one event speaks of: its hash is over all of them."""


class _Rebuilt(msgspec.Struct):
    """What the ledger says there should be."""

    facts: dict[tuple[str, str], _Known] = {}
    entries: dict[int, _Standing] = {}
    owners: dict[str, str] = {}


def _rebuild(rows: Reader, tenant: str) -> _Rebuilt:
    rebuilt = _Rebuilt()
    for event in rows.events(tenant):
        if event.decision in ("allow", "approved"):
            _replay(event, rebuilt)
    return rebuilt


def _fact_differences(rows: Reader, tenant: str, rebuilt: _Rebuilt) -> list[str]:
    expected = dict(rebuilt.facts)
    found: list[str] = []
    for fact in rows.facts_below(Scope(tenant)):
        known = expected.pop((fact.scope.path, fact.key), None)
        if known is None:
            found.append(f"`{fact.key}` in `{fact.scope}` is not in the ledger")
        elif known.version != fact.version:
            found.append(f"`{fact.key}` in `{fact.scope}` is at {fact.version}, the ledger says {known.version}")
        elif known.content != content_hash(rows, tenant, fact.scope.path, encode(fact.value)):
            found.append(f"`{fact.key}` in `{fact.scope}` does not hold what the ledger says was written")
        elif (known.actor, known.door) != (fact.origin.actor, fact.origin.door):
            found.append(f"`{fact.key}` in `{fact.scope}` {_misattributed(fact.origin, known)}")
    found.extend(f"`{key}` in `{scope}` is in the ledger but not kept" for scope, key in expected)
    return found


def _entry_differences(rows: Reader, tenant: str, rebuilt: _Rebuilt) -> list[str]:
    expected = dict(rebuilt.entries)
    found: list[str] = []
    for entry in rows.entries_below(Scope(tenant)):
        known = expected.pop(entry.sequence, None)
        if known is None or (known.scope, known.collection) != (entry.scope.path, collection_key(entry.collection)):
            found.append(f"entry `{entry.id}` in `{entry.scope}` is not in the ledger")
        elif known.content not in (None, content_hash(rows, tenant, entry.scope.path, encode(entry.content))):
            found.append(f"entry `{entry.id}` in `{entry.scope}` does not hold what the ledger says was remembered")
        elif (known.actor, known.door) != (entry.origin.actor, entry.origin.door):
            found.append(f"entry `{entry.id}` in `{entry.scope}` {_misattributed(entry.origin, known)}")
    found.extend(
        f"entry {number} in `{known.scope}` is in the ledger but not kept" for number, known in expected.items()
    )
    for collection in rows.collections(tenant):
        lacking = rows.without_vector(tenant, collection.name, collection.space.embedder, 1)
        found.extend(f"entry `{entry.id}` in `{entry.scope}` has no vector, so no recall finds it" for entry in lacking)
    return found


def _misattributed(origin: Origin, known: _Known | _Standing) -> str:
    return (
        f"is said to be by {quote(origin.actor)} through {quote(origin.door)}, "
        f"the ledger says by {quote(known.actor)} through {quote(known.door)}"
    )


def _replay(event: Event, rebuilt: _Rebuilt) -> None:
    place = (event.scope, event.key or "")
    if event.effect == "set_fact":
        rebuilt.facts[place] = _Known(event.version, event.content, event.actor, event.door)
    elif event.effect in ("delete_fact", "expire_fact"):
        rebuilt.facts.pop(place, None)
    elif event.effect == "remember":
        first = event.version or 0
        last = event.detail.get("last", first)
        for sequence in range(first, last + 1):
            content = event.content if first == last else None
            rebuilt.entries[sequence] = _Standing(event.scope, event.key or "", event.actor, event.door, content)
    elif event.effect in ("forget", "expire_entry"):
        rebuilt.entries.pop(event.version or 0, None)
    elif event.effect == "delete_collection":
        for sequence in [number for number, one in rebuilt.entries.items() if one.collection == event.key]:
            del rebuilt.entries[sequence]
    elif event.effect == "start_session" and event.detail.get("owner"):
        rebuilt.owners[event.scope] = event.detail["owner"]
    elif event.effect in ("end_scope", "erase"):
        _replay_end(event, rebuilt)


def _replay_end(event: Event, rebuilt: _Rebuilt) -> None:
    """Take away what went with a scope, and with the sessions that belonged to it where it was erased."""
    gone = Scope(event.tenant, event.scope)
    owners = rebuilt.owners if event.effect == "erase" else {}

    @functools.cache
    def went(scope: str) -> bool:
        return any(map(gone.covers, _ownership(Scope(event.tenant, scope), owners)))

    for place in [place for place in rebuilt.facts if went(place[0])]:
        del rebuilt.facts[place]
    for sequence in [number for number, one in rebuilt.entries.items() if went(one.scope)]:
        del rebuilt.entries[sequence]
    # Who is erased owns nothing any more; a session of that name that begins later is another one.
    for session in [session for session in owners if went(session)]:
        del rebuilt.owners[session]


def _ownership(scope: Scope, owners: dict[str, str]) -> list[Scope]:
    """Return a scope, those that it and the sessions above it belong to, those that these belong to, and so on."""
    chain = [scope]
    for one in chain if owners else ():  # which grows meanwhile
        named = (owners.get(ending.path) for ending in ending_scopes(one))
        belongs_to = [Scope(scope.tenant, owner) for owner in named if owner is not None]
        chain += [owner for owner in belongs_to if owner not in chain]
    return chain
