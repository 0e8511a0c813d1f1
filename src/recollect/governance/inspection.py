"""A store in, findings out: is the file whole, does each chain hold, do ledger and facts say the same?"""

from __future__ import annotations

import msgspec

from recollect.governance.ledger import content_hash, verify
from recollect.model.event import Event
from recollect.model.scope import Scope
from recollect.model.value import encode
from recollect.store.base import Reader


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at, and whether it is well."""

    what: str
    ok: bool
    detail: str = ""


def inspect_tenant(rows: Reader, tenant: str) -> list[Finding]:
    """Return whether a tenant's chain is whole and agrees with its facts."""
    chain = verify(rows, tenant)
    detail = f"{chain.length} events" if chain.ok else f"position {chain.position}: {chain.reason}"
    findings = [Finding(what=f"ledger of {tenant}", ok=chain.ok, detail=detail)]
    if chain.ok:
        differences = disagreements(rows, tenant)
        findings.append(
            Finding(
                what=f"facts of {tenant} agree with the ledger",
                ok=not differences,
                detail=differences[0] if differences else "",
            )
        )
    return findings


class _Known(msgspec.Struct, frozen=True):
    version: int | None
    content: str | None


def disagreements(rows: Reader, tenant: str) -> list[str]:
    """Rebuild the facts from the ledger alone, and return where they differ from the facts that are kept."""
    rebuilt: dict[tuple[str, str], _Known] = {}
    owners: dict[str, str] = {}
    for event in rows.events(tenant):
        if event.decision in ("allow", "approved"):
            _replay(event, rebuilt, owners)
    found: list[str] = []
    for fact in rows.facts_below(Scope(tenant)):
        known = rebuilt.pop((fact.scope.path, fact.key), None)
        if known is None:
            found.append(f"`{fact.key}` in `{fact.scope}` is not in the ledger")
        elif known.version != fact.version:
            found.append(f"`{fact.key}` in `{fact.scope}` is at {fact.version}, the ledger says {known.version}")
        elif known.content != content_hash(rows, tenant, fact.scope.path, encode(fact.value)):
            found.append(f"`{fact.key}` in `{fact.scope}` does not hold what the ledger says was written")
    found.extend(f"`{key}` in `{scope}` is in the ledger but not kept" for scope, key in rebuilt)
    return found


def _replay(event: Event, rebuilt: dict[tuple[str, str], _Known], owners: dict[str, str]) -> None:
    place = (event.scope, event.key or "")
    if event.effect == "set_fact":
        rebuilt[place] = _Known(event.version, event.content)
    elif event.effect in ("delete_fact", "expire_fact"):
        rebuilt.pop(place, None)
    elif event.effect == "start_session" and event.detail.get("owner"):
        owners[event.scope] = event.detail["owner"]
    elif event.effect in ("end_scope", "erase"):
        gone = Scope(event.tenant, event.scope)
        known = owners if event.effect == "erase" else {}
        for scope, key in list(rebuilt):
            if any(gone.covers(Scope(event.tenant, path)) for path in _ownership(scope, known)):
                del rebuilt[scope, key]
        # Who is erased owns nothing any more; a session of that name that begins later is another one.
        orphaned = [
            session
            for session in known
            if any(gone.covers(Scope(event.tenant, path)) for path in _ownership(session, known))
        ]
        for session in orphaned:
            del owners[session]


def _ownership(scope: str, owners: dict[str, str]) -> list[str]:
    """Return a scope, the one it belongs to, the one that belongs to, and so on."""
    chain = [scope]
    while (owner := owners.get(chain[-1])) is not None and owner not in chain:
        chain.append(owner)
    return chain
