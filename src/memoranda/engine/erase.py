"""An erasure in, a receipt out: everything of a subject goes, and the ledger can prove it without keeping any of it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import msgspec

from memoranda.engine.call import Call, Outcome
from memoranda.errors import UsageError
from memoranda.model.effect import Erase
from memoranda.model.event import Note
from memoranda.model.scope import Scope
from memoranda.store.base import Erasure, Transaction


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, by kind, and where the ledger says so.

    `scrubbed` says that the removed text is gone from the bytes of the database too. It is False when other
    connections kept the database from being rewritten: run `memoranda sweep --scrub` once they are closed.
    """

    id: str
    scope: Scope
    at: datetime
    removed: dict[str, int]
    position: int = 0
    scrubbed: bool = False


def erase(rows: Transaction, effect: Erase, call: Call) -> Outcome[Receipt]:
    """Remove everything at and below a scope and in the sessions it owns, and the key its content was hashed with.

    With that key gone, the hashes that stay in the ledger can no longer be compared with a guessed text. The
    highest version in use is kept, so that no (key, version) pair ever means two things.
    """
    if not effect.scope.path:
        raise UsageError("an erasure needs a subject", hint="Name one: memory.erase(user=…) or project=…, session=…")
    scopes = [effect.scope, *_sessions_of(rows, effect.scope)]
    id = call.ids.new("erasure")
    removed: Counter[str] = Counter()
    at = call.now
    for scope in scopes:
        earlier = rows.erasure(scope)
        version, newest = rows.newest_below(scope)
        floor = max(version, earlier.version_floor if earlier else 0)
        # Stamps run ahead of a clock that stands still: what is erased must not look newer than its erasure.
        at = max(at, call.after(newest), call.after(earlier.at if earlier else None))
        removed.update(rows.erase_below(scope))
        rows.add_erasure(Erasure(id=id, scope=scope, at=at, version_floor=floor))
        call.indexes.drop(scope)
    removed["approvals"] += _drop_shared_approvals(rows, scopes, call)
    receipt = Receipt(id=id, scope=effect.scope, at=at, removed=dict(removed))
    note = Note(effect="erase", scope=effect.scope.path, resource=id, detail={"removed": dict(removed)})
    return Outcome(receipt, (note,))


def _sessions_of(rows: Transaction, scope: Scope) -> list[Scope]:
    """Return the sessions that belong to a scope, and those that belong to these, and so on."""
    found: dict[Scope, None] = {}  # in their order, and quick to look through: somebody may own thousands
    waiting = [scope]
    while waiting:
        owner = waiting.pop()
        for session in rows.sessions_owned(owner):
            if session not in found and not scope.covers(session):
                found[session] = None
                waiting.append(session)
    return list(found)


def _drop_shared_approvals(rows: Transaction, scopes: list[Scope], call: Call) -> int:
    """Refuse what waits in another scope but would also write to one of these: it holds their content."""
    dropped = 0
    for approval in rows.approvals(scopes[0].tenant):
        effect = approval.effect
        if effect is None or not any(gone.covers(place) for _, place, _ in effect.demands() for gone in scopes):
            continue
        rows.put_approval(
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
