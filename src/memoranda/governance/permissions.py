"""Policies and an effect in, a verdict out. Deny beats approval, approval beats allow, and silence is no."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from memoranda.model.effect import EffectBase
from memoranda.model.key import lies_under
from memoranda.model.policy import OWNER, Access, Grant, Level, Policy
from memoranda.model.scope import Scope

TOO_NARROW = "Allow it in the policy that this handle was made with; a grant does not widen that"
"""What helps whom a policy of their own does not allow enough."""


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What the policies say to an effect, and about which capability they said it.

    Where one of them is silent, it is `silent` about `scope`.
    """

    level: Level
    capability: str
    reason: str = ""
    remedy: str = ""
    scope: Scope | None = None
    silent: Policy | None = None


def decide(policies: Sequence[Policy], effect: EffectBase) -> Verdict:
    """Return the strictest verdict of all policies on all places the effect touches."""
    if len(policies) == 1:
        policy = policies[0]
        # Most effects need one capability in one scope, and most handles have it there, whatever the key.
        if policy is OWNER or (
            type(effect).demands is EffectBase.demands and policy.plainly_allows(effect.capability, effect.scope)
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


def granted_policy(grants: Sequence[Grant], actor: str) -> Policy:
    """Return the policy that the kept grants make for an actor; `*` speaks for every actor."""
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
