"""Permissions: what policies say about an effect, the grants that are stored, and quotas.

Deny beats approve, approve beats allow, and what no rule mentions is denied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from memoranda.engine.definitions import bump_revision
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.errors import Advice, Hint, InvalidPolicy, NotFound, QuotaExceeded
from memoranda.model.clock import EPOCH, parse_duration
from memoranda.model.effect import Effect
from memoranda.model.event import Note
from memoranda.model.fact import OWNER_ACTOR
from memoranda.model.names import LONGEST_LABEL, lies_under, why_not_a_name
from memoranda.model.policy import OWNER, Access, Grant, Level, Policy, Quota, Rule
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.store.base import Reader, Transaction, Window


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What the policies say about an effect, and about which capability.

    `silent` is the policy that has no rule for `scope`, if that is the reason.
    """

    level: Level
    capability: str
    reason: str = ""
    remedy: Advice = ""
    scope: Scope | None = None
    silent: Policy | None = None


def decide(policies: Sequence[Policy], effect: Effect) -> Verdict:
    """Return the strictest verdict of all policies on all places the effect touches."""
    if len(policies) == 1:
        policy = policies[0]
        # Most effects need one capability in one scope, and most handles have it there, whatever the key.
        if policy is OWNER or (
            type(effect).demands is Effect.demands and policy.plainly_allows(effect.capability, effect.scope)
        ):
            return Verdict("allow", effect.capability)
    strictest: Verdict | None = None
    for policy in policies:
        for capability, scope, key in effect.demands():
            verdict = _decide_one(policy, capability, scope, key)
            if verdict.level == "deny":
                return verdict
            if strictest is None or (verdict.level == "approve" and strictest.level == "allow"):
                strictest = verdict
    return strictest or Verdict("deny", effect.capability, "no policy speaks for this actor")


def readable(policies: Sequence[Policy]) -> Callable[[str], bool] | None:
    """Return a test for the keys that every policy lets be read; None when none of them closes any."""
    if len(policies) == 1 and not policies[0].access:
        return None
    narrowing = [policy for policy in policies if policy.access]
    if not narrowing:
        return None
    return lambda key: all(_access_of(policy, key) in ("read", "readwrite") for policy in narrowing)


def policy_of_grants(grants: Sequence[Grant], actor: str) -> Policy:
    """Return the policy that grants make for an actor; `*` means every actor."""
    return Policy(rules=tuple(grant.rule for grant in grants if grant.actor in (actor, "*")))


def _decide_one(policy: Policy, capability: str, scope: Scope, key: str | None) -> Verdict:
    if policy.plainly_allows(capability, scope):
        return Verdict("allow", capability)
    levels = policy.levels(capability, scope, key)
    if "deny" in levels:
        denied = f"{capability} is denied for {_place(scope, key)}"
        return Verdict("deny", capability, denied, "A denial beats every grant: take it back first")
    if not levels:
        reason = f"nothing grants {capability} for {_place(scope, key)}"
        return Verdict("deny", capability, reason, scope=scope, silent=policy)
    needed = _NEEDED.get(capability)
    if needed and key is not None and policy.access:
        access = _access_of(policy, key)
        if access not in (needed, "readwrite"):
            closed = f"`{key}` has access {access}, so it cannot be {_PAST[needed]}"
            return Verdict("deny", capability, closed, "Give the key another access in the policy")
    if "approve" in levels:
        return Verdict("approve", capability, f"{capability} for {_place(scope, key)} needs approval")
    return Verdict("allow", capability)


def _place(scope: Scope, key: str | None) -> str:
    return f"`{scope}`" if key is None else f"`{key}` in `{scope}`"


_NEEDED: dict[str, Access] = {"memory.read": "read", "memory.write": "write"}
"""The access that a key must have for a capability to reach it."""
_PAST = {"read": "read", "write": "written"}


def _access_of(policy: Policy, key: str) -> Access:
    matching = [path for path in policy.access if path != "*" and lies_under(key, path)]
    if matching:
        return policy.access[max(matching, key=len)]
    return policy.access.get("*", "readwrite")


# grants


class ReadGrants(Effect, frozen=True, kw_only=True, tag="read_grants"):
    """Read the grants of a tenant."""

    capability: ClassVar[str] = "permissions.read"
    mutates: ClassVar[bool] = False


@verb(ReadGrants)
def read_grants(rows: Reader, effect: ReadGrants, call: Call) -> Outcome[list[Grant]]:
    """Return the grants of the tenant."""
    return Outcome(rows.scan(Grant, effect.scope.tenant))


class GrantRule(Effect, frozen=True, kw_only=True, tag="grant"):
    """Store a rule for an actor."""

    capability: ClassVar[str] = "permissions.write"
    mutates: ClassVar[bool] = True
    actor: str
    rule: Rule


@verb(GrantRule)
def grant(rows: Transaction, effect: GrantRule, call: Call) -> Outcome[Grant]:
    """Store a rule for an actor, and raise the tenant's permission epoch."""
    reason = why_not_a_name(effect.actor, longest=LONGEST_LABEL)
    if reason or effect.actor == OWNER_ACTOR:
        raise InvalidPolicy(
            f"{quote(effect.actor)} cannot be granted anything: {reason or 'it may already do everything'}",
            hint="Name an actor such as agent:emails, or * for all",
        )
    if effect.actor.endswith(":*"):
        raise InvalidPolicy(
            f"{quote(effect.actor)} is not a pattern: no actor has that name", hint="Name each actor, or * for all"
        )
    if effect.rule.scope is not None and effect.rule.scope.tenant != effect.scope.tenant:
        raise InvalidPolicy("a grant speaks about its own tenant", hint="Grant it in the other tenant")
    if effect.rule.scope is not None and any(name == "*" for _, name in effect.rule.scope.parts):
        raise InvalidPolicy(
            f"`{effect.rule.scope}` is not a pattern: it names one memory",
            hint="Name each scope, or leave the scope out to speak about all of them",
        )
    granted = Grant(id=call.ids.new("grant"), tenant=effect.scope.tenant, actor=effect.actor, rule=effect.rule)
    rows.put(granted)
    bump_revision(rows, granted.tenant, epoch=True)
    return Outcome(granted, (_grant_note("grant", granted),))


class RevokeGrant(Effect, frozen=True, kw_only=True, tag="revoke"):
    """Revoke a grant."""

    capability: ClassVar[str] = "permissions.write"
    mutates: ClassVar[bool] = True
    grant: str


@verb(RevokeGrant)
def revoke(rows: Transaction, effect: RevokeGrant, call: Call) -> Outcome[Grant]:
    """Remove a grant, and raise the tenant's permission epoch."""
    for granted in rows.scan(Grant, effect.scope.tenant):
        if granted.id == effect.grant:
            rows.remove(Grant, granted.tenant, granted.id)
            bump_revision(rows, granted.tenant, epoch=True)
            return Outcome(granted, (_grant_note("revoke", granted),))
    raise NotFound(f"unknown grant {quote(effect.grant)}", hint=Hint("list", "permissions"))


def _grant_note(effect: str, granted: Grant) -> Note:
    rule = granted.rule
    where = rule.scope.path if rule.scope else ""
    detail = {"actor": granted.actor, "level": rule.level, "capability": rule.capability}
    return Note(effect=effect, scope=where, key=rule.path or None, resource=granted.id, detail=detail)


# quotas


def charge(rows: Transaction, tenant: str, actor: str, quotas: Sequence[Quota], effect: Effect, now: datetime) -> None:
    """Count an effect against its actor's windows; raise QuotaExceeded, uncounted, when one of them has no room."""
    check_quotas(rows, tenant, actor, quotas, effect, now)
    writes, size = effect.weight()
    for window in {_window(quota, now) for quota in quotas}:
        rows.add_usage(tenant, actor, window, writes, size)


def check_quotas(rows: Reader, tenant: str, actor: str, quotas: Sequence[Quota], effect: Effect, now: datetime) -> None:
    """Raise QuotaExceeded when one of an actor's windows has no room for an effect."""
    if not quotas:
        return
    writes, size = effect.refusable_weight()
    for quota in quotas:
        window = _window(quota, now)
        used_writes, used_bytes = rows.usage(tenant, actor, window)
        _check_room("writes", used_writes, writes, quota.writes, quota, window, actor, now)
        _check_room("bytes", used_bytes, size, quota.bytes, quota, window, actor, now)


def _window(quota: Quota, now: datetime) -> Window:
    seconds = parse_duration(quota.per)
    width = timedelta(seconds=seconds)
    return Window(seconds, EPOCH + (now - EPOCH) // width * width)


def _check_room(
    what: str, used: int, more: int, most: int | None, quota: Quota, window: Window, actor: str, now: datetime
) -> None:
    if most is not None and more and used + more > most:
        raise QuotaExceeded(
            f"`{actor}` may use {most:,} {what} per {quota.per} and has used {used:,}",
            hint="Wait for the next window, or ask for a larger quota",
            limit=most,
            actual=used + more,
            retry_after=(window.begins + timedelta(seconds=window.seconds) - now).total_seconds(),
        )
