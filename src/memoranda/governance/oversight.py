"""The gate's own verbs: reading and verifying the ledger, granting, revoking, and seeing what waits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from memoranda.engine.call import Call, Outcome, Verb
from memoranda.engine.definitions import bump_revision
from memoranda.engine.portions import read_portions, take_within
from memoranda.errors import InvalidPolicy, NotFound, UsageError
from memoranda.governance.approvals import find_approval
from memoranda.governance.ledger import verify
from memoranda.model.approval import Approval
from memoranda.model.effect import (
    EffectBase,
    GrantRule,
    ReadApprovals,
    ReadGrants,
    ReadLedger,
    RevokeGrant,
    VerifyLedger,
)
from memoranda.model.event import Event, Note, Verification
from memoranda.model.fact import OWNER_ACTOR
from memoranda.model.policy import Grant
from memoranda.model.text import LONGEST_LABEL, quote, why_not_a_name
from memoranda.store.base import Reader, Transaction

_PORTION = 64
"""Events that are read at once where the newest come first."""


def read_ledger(rows: Reader, effect: ReadLedger, call: Call) -> Outcome[list[Event]]:
    """Return events by position, or the newest ones, oldest first."""
    if effect.newest and effect.limit is not None:
        backwards = islice(_newest_events(rows, effect.scope.tenant), effect.limit)
        return Outcome(take_within(backwards, _content, effect.max_bytes)[::-1])
    events = rows.events(effect.scope.tenant, start=effect.start, limit=effect.limit)
    return Outcome(take_within(events, _content, effect.max_bytes))


def _newest_events(rows: Reader, tenant: str) -> Iterator[Event]:
    end = (rows.head(tenant) or (0, ""))[0]
    while end > 0:
        start = max(1, end - _PORTION + 1)
        yield from reversed(list(rows.events(tenant, start=start, limit=end - start + 1)))
        end = start - 1


def _content(event: Event) -> tuple[Any, Any]:
    return event.detail, event.text


def verify_ledger(rows: Reader, effect: VerifyLedger, call: Call) -> Outcome[Verification]:
    """Return whether the tenant's chain is whole."""
    return Outcome(verify(rows, effect.scope.tenant, anchor=effect.anchor))


def read_grants(rows: Reader, effect: ReadGrants, call: Call) -> Outcome[list[Grant]]:
    """Return what was granted in the tenant."""
    return Outcome(rows.grants(effect.scope.tenant))


def grant(rows: Transaction, effect: GrantRule, call: Call) -> Outcome[Grant]:
    """Keep a rule for an actor, and raise the tenant's permission epoch."""
    reason = why_not_a_name(effect.actor, longest=LONGEST_LABEL)
    if reason or effect.actor == OWNER_ACTOR:
        raise InvalidPolicy(
            f"{quote(effect.actor)} cannot be granted anything: {reason or 'it may do everything already'}",
            hint="Name an actor such as agent:emails, or * for all",
        )
    if effect.actor.endswith(":*"):
        raise InvalidPolicy(
            f"{quote(effect.actor)} is no pattern: no actor has that name", hint="Name each actor, or * for all"
        )
    if effect.rule.scope is not None and effect.rule.scope.tenant != effect.scope.tenant:
        raise InvalidPolicy("a grant speaks about its own tenant", hint="Grant it in the other tenant")
    if effect.rule.scope is not None and any(name == "*" for _, name in effect.rule.scope.parts):
        raise InvalidPolicy(
            f"`{effect.rule.scope}` is no pattern: it names one memory",
            hint="Name each scope, or leave the scope out to speak about all of them",
        )
    kept = Grant(id=call.ids.new("grant"), tenant=effect.scope.tenant, actor=effect.actor, rule=effect.rule)
    rows.put_grant(kept)
    bump_revision(rows, kept.tenant, epoch=True)
    return Outcome(kept, (_note("grant", kept),))


def revoke(rows: Transaction, effect: RevokeGrant, call: Call) -> Outcome[Grant]:
    """Take a grant back, and raise the tenant's permission epoch."""
    for kept in rows.grants(effect.scope.tenant):
        if kept.id == effect.grant:
            rows.remove_grant(kept.tenant, kept.id)
            bump_revision(rows, kept.tenant, epoch=True)
            return Outcome(kept, (_note("revoke", kept),))
    raise NotFound(f"there is no grant {quote(effect.grant)}", hint="List them with memory.permissions.list()")


def read_approvals(rows: Reader, effect: ReadApprovals, call: Call) -> Outcome[list[Approval]]:
    """Return what waits for a decision and what was decided, oldest first."""
    tenant = effect.scope.tenant
    if effect.id:
        one = find_approval(rows, tenant, effect.id)
        return Outcome([] if one is None else [one])
    if effect.after and find_approval(rows, tenant, effect.after) is None:
        raise UsageError(
            f"the approval {quote(effect.after)} is gone", hint="Begin again without `after`", path="after"
        )

    def read(last: Approval | None, limit: int | None) -> list[Approval]:
        return rows.approvals(tenant, after=effect.after if last is None else last.id, limit=limit)

    found = read_portions(
        read,
        lambda approval: approval.effect,
        limit=effect.limit,
        max_bytes=effect.max_bytes,
        wanted=None if effect.status is None else lambda approval: approval.status == effect.status,
    )
    return Outcome(found)


OVERSIGHT: dict[type[EffectBase], Verb] = {
    ReadLedger: read_ledger,
    VerifyLedger: verify_ledger,
    ReadGrants: read_grants,
    GrantRule: grant,
    RevokeGrant: revoke,
    ReadApprovals: read_approvals,
}


def _note(effect: str, kept: Grant) -> Note:
    rule = kept.rule
    where = rule.scope.path if rule.scope else ""
    detail = {"actor": kept.actor, "level": rule.level, "capability": rule.capability}
    return Note(effect=effect, scope=where, key=rule.path or None, resource=kept.id, detail=detail)
