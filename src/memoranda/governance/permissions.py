"""Permissions that are stored: the grants of a tenant, and what its actors have used of their quotas."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from memoranda.engine.definitions import bump_revision
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.errors import Hint, InvalidPolicy, NotFound, QuotaExceeded
from memoranda.model.clock import EPOCH, parse_duration
from memoranda.model.effect import Effect, ReadEffect, WriteEffect
from memoranda.model.event import Note
from memoranda.model.fact import OWNER_ACTOR
from memoranda.model.names import LONGEST_LABEL, why_not_a_name
from memoranda.model.policy import Grant, Policy, Quota, Rule, covers
from memoranda.model.text import quote
from memoranda.store.base import Reader, Transaction, Window


def policy_of_grants(grants: Sequence[Grant], actor: str) -> Policy:
    """Return the policy that grants make for an actor; `*` means every actor."""
    return Policy(rules=tuple(grant.rule for grant in grants if grant.actor in (actor, "*")))


def narrow_to_common(policy: Policy, capabilities: Sequence[str]) -> Policy:
    """Return what a policy says of these capabilities in memory that belongs to no single user.

    An allowance must name the shared scope or a project: one that is meant for everywhere would open every project to
    all users of a server. Denials without a scope hold there too.
    """
    rules = [
        Rule(rule.level, capability, rule.scope, rule.path)
        for rule in policy.rules
        if (rule.level != "allow" if rule.scope is None else rule.scope.is_common)
        for capability in capabilities
        if covers(rule.capability, capability)
    ]
    return Policy(rules=tuple(rules))


class ReadGrants(ReadEffect, frozen=True, kw_only=True, tag="read_grants"):
    """Read the grants of a tenant."""

    capability: ClassVar[str] = "permissions.read"


@verb(ReadGrants)
def read_grants(rows: Reader, effect: ReadGrants, call: Call) -> Outcome[list[Grant]]:
    """Return the grants of the tenant."""
    return Outcome(rows.scan(Grant, effect.scope.tenant))


class GrantRule(WriteEffect, frozen=True, kw_only=True, tag="grant"):
    """Store a rule for an actor."""

    capability: ClassVar[str] = "permissions.write"
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


class RevokeGrant(WriteEffect, frozen=True, kw_only=True, tag="revoke"):
    """Revoke a grant."""

    capability: ClassVar[str] = "permissions.write"
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
