"""Permissions that are stored: the grants and roles of a tenant, and what its actors have used of their quotas.

A role is the rules that are granted to the actor `role:NAME`. The built-in ones have rules without grants, and more if
some are granted. An API key or a signed token names a role; a user is given one by a grant of `roles.NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from memoranda.engine.definitions import bump_revision
from memoranda.engine.verbs import VERBS, Call, Outcome, verb
from memoranda.errors import Advice, Hint, InvalidPolicy, NotFound, QuotaExceeded, StaleEpoch
from memoranda.model.clock import EPOCH, parse_duration
from memoranda.model.effect import Demand, Effect, ReadEffect, WriteEffect
from memoranda.model.event import Note
from memoranda.model.names import LONGEST_LABEL, why_not_a_name
from memoranda.model.policy import (
    BUILT_IN_ROLES,
    CAPABILITIES,
    EACH,
    OWNER,
    ROLE_ACTOR,
    Grant,
    Policy,
    Quota,
    Role,
    Rule,
    covers,
)
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import OWNER_ACTOR
from memoranda.store.base import WHOLE_TENANT, Reader, ScopeEpoch, Transaction, Window


class Membership(msgspec.Struct, frozen=True):
    """A role that a caller has, and what is its own."""

    role: str
    homes: tuple[Scope, ...] = ()
    """The scopes that the role's rules about one's own memory are about."""
    also: tuple[tuple[str, Rule], ...] = ()
    """Rules that are added if the role allows a capability in the caller's own memory."""


_GRANTABLE = {
    "memory.read": "memory.read",
    "memory.write": "memory.write",
    "definitions.read": "memory.read",
    "definitions.write.create": "memory.write",
    "definitions.write.update": "memory.write",
    "definitions.write.delete": "memory.write",
}
"""What grants may add to a role, by what the role must allow in the user's own memory: one that only reads stays so."""


def policy_of_grants(grants: Sequence[Grant], actor: str) -> Policy:
    """Return the policy that grants make for an actor, with the roles that they give; `*` means every actor."""
    own = [grant.rule for grant in grants if grant.actor in (actor, "*")]
    kind, _, id = actor.partition(":")
    homes = [Scope.of(tenant=grants[0].tenant, user=id)] if own and kind == "user" and id else []
    rules = [rule for rule in own if rule.role is None]
    for role in _roles_in(own, grants):
        rules += _rules_in(role.rules, homes)
    return Policy(rules=tuple(rules))


def policies_of_role(membership: Membership, grants: Sequence[Grant] = (), actor: str = "") -> tuple[Policy, ...]:
    """Return what a role allows a caller, with what grants and other roles add for the actor.

    Their denials and approvals are a policy of its own, which has to agree too: they narrow what is allowed, wherever
    that is, and never widen it.
    """
    role = find_role(membership.role, grants)
    if role is None:
        return (Policy(),)
    granted = [grant.rule for grant in grants if grant.actor in (actor, "*")]
    held = [rule for one in _roles_in(granted, grants) for rule in _rules_in(one.rules, membership.homes)]
    limits = [rule for rule in (*granted, *held) if rule.level != "allow"]
    if role == BUILT_IN_ROLES["admin"]:
        allowed = OWNER
    else:
        rules = [*_rules_in(role.rules, membership.homes)]
        rules += [rule for needed, rule in membership.also if _allows_own(role, needed)]
        rules += _narrow_to_role(granted, role)
        rules += held if _allows_own(role, "memory.write") else _reads_of(held)
        allowed = Policy(rules=tuple(dict.fromkeys(rules)))
    return (allowed, Policy(rules=(Rule("allow", "*"), *limits))) if limits else (allowed,)


def restricted_actors(grants: Sequence[Grant]) -> frozenset[str]:
    """Return the actors whom a denial or an approval reaches, also through a role that they are given."""
    limited = {grant.actor for grant in grants if grant.rule.level != "allow"}
    given = {one.actor for one in grants if one.rule.role is not None and f"{ROLE_ACTOR}{one.rule.role}" in limited}
    return frozenset(limited | given)


def find_role(name: str, grants: Sequence[Grant]) -> Role | None:
    """Return a role: a built-in one, or the rules that are granted to its actor; None if there are none."""
    built_in = BUILT_IN_ROLES.get(name)
    granted = tuple(grant.rule for grant in grants if grant.actor == f"{ROLE_ACTOR}{name}")
    if built_in is None:
        return Role(name=name, rules=granted) if granted else None
    return msgspec.structs.replace(built_in, rules=(*built_in.rules, *granted)) if granted else built_in


def unknown_role(name: object, known: Iterable[str]) -> NotFound:
    """Return the error of a role that does not exist, with the one that was meant."""
    from memoranda.lang.diagnostics import closest  # not needed where no role is misspelled

    near = closest(str(name), known)
    hint: Advice = f"Did you mean `{near}`?" if near else Hint("list", "roles")
    return NotFound(f"unknown role {quote(name)}", hint=hint, value=name)


def _role_names(grants: Sequence[Grant]) -> list[str]:
    defined = (one.actor.removeprefix(ROLE_ACTOR) for one in grants if one.actor.startswith(ROLE_ACTOR))
    return list(dict.fromkeys((*BUILT_IN_ROLES, *defined)))


def _roles_in(rules: Iterable[Rule], grants: Sequence[Grant]) -> Iterator[Role]:
    """Yield the roles that rules give; one that was deleted gives nothing."""
    for name in dict.fromkeys(rule.role for rule in rules if rule.role is not None):
        role = find_role(name, grants)
        if role is not None:
            yield role


def _rules_in(rules: Iterable[Rule], homes: Sequence[Scope]) -> Iterator[Rule]:
    """Yield the rules of a role, those about one's own memory as rules about these scopes."""
    for rule in rules:
        if rule.own:
            for home in homes:
                yield Rule(rule.level, rule.capability, home, rule.path)
        else:
            yield rule


def _allows_own(role: Role, capability: str) -> bool:
    """Return whether a role allows a capability in the memory of those who have it."""
    about = [rule for rule in role.rules if covers(rule.capability, capability) and rule.scope is None]
    return any(rule.level == "allow" and not rule.path for rule in about) and not any(
        rule.level != "allow" and not rule.path for rule in about
    )


def _reads_of(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Yield what rules say about reading; denials are left whole."""
    for rule in rules:
        if rule.level == "deny":
            yield rule
            continue
        for capability in CAPABILITIES:
            if capability.endswith(".read") and covers(rule.capability, capability):
                yield msgspec.structs.replace(rule, capability=capability)


def _narrow_to_role(rules: Iterable[Rule], role: Role) -> Iterator[Rule]:
    """Yield what grants say about memory that belongs to no single user, and about definitions.

    It must name the shared scope or a project: a grant that is meant for everywhere would open every project to all
    users of a server. One about definitions must name them, and no scope.
    """
    for rule in rules:
        for capability, needed in _GRANTABLE.items():
            if covers(rule.capability, capability) and _counts(rule, capability) and _allows_own(role, needed):
                yield Rule(rule.level, capability, rule.scope, rule.path)


def _counts(rule: Rule, capability: str) -> bool:
    if capability.startswith("definitions."):
        return rule.scope is None and rule.capability.startswith("definitions")
    return rule.scope is not None and rule.scope.is_common


def needs_grants(capability: str, scope: Scope | None) -> bool:
    """Return whether grants to a user may allow or deny a capability there, beside the role."""
    return capability.startswith("definitions.") or (scope is not None and scope.is_common)


# why something is refused

OTHER_KEY = "Use a key or token whose role and allowed capabilities include this"


def why_not_granted(
    grants: Sequence[Grant],
    actor: str,
    membership: Membership | None,
    silent: Policy,
    demand: tuple[str, Scope | None, str | None],
    *,
    is_own_policy: bool,
) -> tuple[str, Advice] | None:
    """Return why grants and roles that are about a capability do not allow it at a place, and what to do.

    None if there are none of them. `silent` is the policy without a rule for the place; it may be the handle's own.
    """
    capability, scope, key = demand
    if membership is not None and find_role(membership.role, grants) is None:
        return f"the role {quote(membership.role)} does not exist", OTHER_KEY  # which others do is not theirs to know
    for grant in grants:
        rule = grant.rule
        if grant.actor in (actor, "*") and rule.level == "allow" and covers(rule.capability, capability):
            if not rule.reaches(scope, key):
                continue
            if is_own_policy:
                return f"`{grant.id}` grants {capability}, but this key is restricted {_rest(silent)}", Hint("policy")
            if membership is not None:
                role = find_role(membership.role, grants)
                needed = _GRANTABLE.get(capability, "")
                if role is not None and needed and _allows_own(role, needed):
                    return f"`{grant.id}` grants {capability}, but not {_how(capability)}", _narrower(capability)
                return (
                    f"`{grant.id}` grants {capability}, but the role `{membership.role}` of this key does not take it",
                    OTHER_KEY,
                )
    places = [one.rule for one in grants if one.actor in (actor, "*")]
    about = [rule for rule in (*silent.rules, *places) if rule.level == "allow" and covers(rule.capability, capability)]
    where = list(dict.fromkeys(place_of(rule.scope, rule.path or None) for rule in about))
    if where and not is_own_policy:
        return f"{capability} for {place_of(scope, key)} is not granted, only for {', '.join(where[:3])}", ""
    if is_own_policy and membership is not None:
        return f"this key is restricted {_rest(silent)}, which does not include {capability}", Hint("policy")
    return None


def _rest(policy: Policy) -> str:
    names = list(dict.fromkeys(rule.capability for rule in policy.rules if rule.level == "allow"))
    return f"to {', '.join(names[:5])}" if names else "to nothing"


def _how(capability: str) -> str:
    return "by name" if capability.startswith("definitions.") else "for the shared scope or a project by name"


def _narrower(capability: str) -> str:
    if capability.startswith("definitions."):
        return f"Grant `{capability}` itself, without a scope"
    return "Grant it in the scope `shared` or in a project"


def place_of(scope: Scope | None, key: str | None) -> str:
    """Return a place in words."""
    place = "the whole tenant" if scope is None else f"`{scope}`"
    return place if key in (None, EACH) else f"`{key}` in {place}"


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
    _check_rule(rows, effect.scope.tenant, effect.actor, effect.rule)
    granted = Grant(id=call.ids.new("grant"), tenant=effect.scope.tenant, actor=effect.actor, rule=effect.rule)
    rows.put(granted)
    _raise_epoch(rows, granted.tenant, [granted.rule])
    return Outcome(granted, (_grant_note("grant", granted),))


def _check_rule(rows: Reader, tenant: str, actor: str, rule: Rule) -> None:
    """Raise InvalidPolicy for a rule that cannot be granted to an actor."""
    if rule.scope is not None and rule.scope.tenant != tenant:
        raise InvalidPolicy("a grant speaks about its own tenant", hint="Grant it in the other tenant")
    if rule.scope is not None and any(name == "*" for _, name in rule.scope.parts):
        raise InvalidPolicy(
            f"`{rule.scope}` is not a pattern: it names one memory",
            hint="Name each scope, or leave the scope out to speak about all of them",
        )
    if not actor.startswith(ROLE_ACTOR):
        if rule.own:
            raise InvalidPolicy("only the rules of a role are about one's own memory", hint="Name the scope instead")
        if rule.role is not None and find_role(rule.role, grants := rows.scan(Grant, tenant)) is None:
            raise unknown_role(rule.role, _role_names(grants))
        return
    name = check_role_name(actor.removeprefix(ROLE_ACTOR))
    if rule.role is not None:
        raise InvalidPolicy("a role does not have other roles", hint="Grant it their capabilities")
    if name in BUILT_IN_ROLES and rule.level != "allow":
        raise InvalidPolicy(
            f"the built-in role {quote(name)} can be given more, not less", hint="Define a role of your own"
        )


def check_role_name(name: object) -> str:
    """Return a name that a role can have, or raise InvalidPolicy."""
    if not isinstance(name, str) or not _ROLE_NAME.fullmatch(name):
        raise InvalidPolicy(
            f"{quote(name)} is not a name for a role",
            hint="Use up to 64 lower-case letters a-z, digits, - and _, such as support",
            value=name,
        )
    return name


_ROLE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}", re.ASCII)


class RevokeGrant(WriteEffect, frozen=True, kw_only=True, tag="revoke"):
    """Revoke a grant."""

    capability: ClassVar[str] = "permissions.write"
    grant: str


@verb(RevokeGrant)
def revoke(rows: Transaction, effect: RevokeGrant, call: Call) -> Outcome[Grant]:
    """Remove a grant, and raise the tenant's permission epoch."""
    for granted in rows.scan(Grant, effect.scope.tenant):
        if granted.id == effect.grant:
            note = _revoke(rows, granted)
            _raise_epoch(rows, granted.tenant, [granted.rule])
            return Outcome(granted, (note,))
    raise NotFound(f"unknown grant {quote(effect.grant)}", hint=Hint("list", "permissions"))


class ReadRoles(ReadEffect, frozen=True, kw_only=True, tag="read_roles"):
    """Read the roles of a tenant."""

    capability: ClassVar[str] = "permissions.read"


@verb(ReadRoles)
def read_roles(rows: Reader, effect: ReadRoles, call: Call) -> Outcome[list[Role]]:
    """Return the built-in roles and those that were defined, oldest first."""
    grants = rows.scan(Grant, effect.scope.tenant)
    return Outcome([role for name in _role_names(grants) if (role := find_role(name, grants)) is not None])


class DefineRole(WriteEffect, frozen=True, kw_only=True, tag="define_role"):
    """Give a role these rules, in place of those that it has."""

    capability: ClassVar[str] = "permissions.write"
    role: str
    rules: tuple[Rule, ...]


@verb(DefineRole)
def define_role(rows: Transaction, effect: DefineRole, call: Call) -> Outcome[Role]:
    """Replace the grants of a role, and raise the tenant's permission epoch."""
    tenant, name = effect.scope.tenant, check_role_name(effect.role)
    if name in BUILT_IN_ROLES:
        raise InvalidPolicy(
            f"the role {quote(name)} is built in",
            hint=f"Choose another name, or grant more to the actor {ROLE_ACTOR}{name}",
        )
    if not effect.rules:
        raise InvalidPolicy("a role needs at least one rule", hint="Allow it a capability, such as memory.read")
    before = [grant for grant in rows.scan(Grant, tenant) if grant.actor == f"{ROLE_ACTOR}{name}"]
    notes = [_revoke(rows, grant) for grant in before]
    for rule in dict.fromkeys(effect.rules):
        _check_rule(rows, tenant, f"{ROLE_ACTOR}{name}", rule)
        granted = Grant(id=call.ids.new("grant"), tenant=tenant, actor=f"{ROLE_ACTOR}{name}", rule=rule)
        rows.put(granted)
        notes.append(_grant_note("grant", granted))
    _raise_epoch(rows, tenant, (*(grant.rule for grant in before), *effect.rules))
    note = Note(effect="define_role", resource=name, detail={"rules": len(effect.rules)})
    return Outcome(Role(name=name, rules=tuple(dict.fromkeys(effect.rules))), (*notes, note))


class DeleteRole(WriteEffect, frozen=True, kw_only=True, tag="delete_role"):
    """Delete a role, and the grants that give it."""

    capability: ClassVar[str] = "permissions.write"
    role: str


@verb(DeleteRole)
def delete_role(rows: Transaction, effect: DeleteRole, call: Call) -> Outcome[Role]:
    """Remove the grants of a role and those that give it; keys and tokens with it may do nothing from now on."""
    tenant = effect.scope.tenant
    grants = rows.scan(Grant, tenant)
    role = find_role(effect.role, grants)
    if role is None:
        raise unknown_role(effect.role, _role_names(grants))
    if role.built_in:
        raise InvalidPolicy(f"the role {quote(role.name)} is built in", hint="It cannot be deleted")
    named = [grant for grant in grants if grant.actor == f"{ROLE_ACTOR}{role.name}" or grant.rule.role == role.name]
    notes = [_revoke(rows, grant) for grant in named]
    _raise_epoch(rows, tenant, [grant.rule for grant in named])
    return Outcome(role, (*notes, Note(effect="delete_role", resource=role.name)))


# epochs


def _raise_epoch(rows: Transaction, tenant: str, changed: Iterable[Rule]) -> None:
    """Raise the permission epoch of a tenant, and of the scopes that the changed rules reach."""
    bump_revision(rows, tenant, epoch=True)
    epoch = rows.tenant_state(tenant).epoch
    for path in {WHOLE_TENANT if rule.scope is None else rule.scope.path for rule in changed}:
        rows.put(ScopeEpoch(tenant=tenant, scope=path, epoch=epoch))


def epoch_of(rows: Reader, scope: Scope) -> int:
    """Return the tenant's permission epoch at the last change that reaches a scope."""
    parts = scope.path.split("/") if scope.path else []
    above = ["/".join(parts[: length + 1]) for length in range(len(parts))] or [""]
    found = (rows.get(ScopeEpoch, scope.tenant, path) for path in (WHOLE_TENANT, *above))
    return max((one.epoch for one in found if one is not None), default=0)


def why_stale(rows: Reader, effect: Effect, epoch: int, call: Call) -> StaleEpoch | None:
    """Return the error if permissions changed, where an effect needs any, since it was decided upon."""
    tenant = effect.scope.tenant
    known = rows.tenant_state(tenant).epoch
    if epoch == known:
        return None
    touches = VERBS[type(effect)].touches
    demands = (*effect.demands(), *(() if touches is None else touches(rows, effect, call)))
    for scope in dict.fromkeys(scope for _, scope, _ in demands):
        current = known if scope is None else epoch_of(rows, scope)
        if current > epoch or epoch > known:
            return StaleEpoch(
                f"this was decided under permission epoch {epoch}, and `{scope or tenant}` is at {current}",
                hint="Read what you may do again, and decide anew",
                expected=epoch,
                actual=current,
            )
    return None


class ReadEpoch(ReadEffect, frozen=True, kw_only=True, tag="read_epoch"):
    """Read the permission epoch of a scope, or of the tenant."""

    of: Scope | None = None

    def demands(self) -> Iterator[Demand]:
        """Yield the right to read the memory there."""
        yield self.capability, self.of, None


@verb(ReadEpoch)
def read_epoch(rows: Reader, effect: ReadEpoch, call: Call) -> Outcome[int]:
    """Return the permission epoch at the last change that reaches a scope, or any in the tenant."""
    return Outcome(rows.tenant_state(effect.scope.tenant).epoch if effect.of is None else epoch_of(rows, effect.of))


def _revoke(rows: Transaction, grant: Grant) -> Note:
    rows.remove(Grant, grant.tenant, grant.id)
    return _grant_note("revoke", grant)


def _grant_note(effect: str, granted: Grant) -> Note:
    rule = granted.rule
    where = rule.scope.path if rule.scope else ""
    detail = {"actor": granted.actor, "level": rule.level, "capability": rule.capability}
    if rule.own:
        detail["own"] = "true"
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
