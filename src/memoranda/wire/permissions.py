"""Grants as they travel: who may do what."""

from __future__ import annotations

import msgspec

from memoranda.model import policy as kept
from memoranda.model.policy import Level


class NewGrant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule to keep for an actor, `*` being every actor: allow, approve (somebody must agree each time) or deny."""

    actor: str
    capability: str
    level: Level = "allow"
    scope: str | None = None
    """Only at and below this scope of the tenant, such as `user:ada`."""
    path: str = ""
    """Only at and below this key."""


class Grant(NewGrant, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A rule that is kept."""

    id: str
    tenant: str


class Grants(msgspec.Struct, frozen=True, kw_only=True):
    """A page of grants, oldest first."""

    grants: list[Grant]
    next: str | None = None


def grant_out(grant: kept.Grant) -> Grant:
    """Return a grant as it travels."""
    rule = grant.rule
    return Grant(
        id=grant.id,
        tenant=grant.tenant,
        actor=grant.actor,
        capability=rule.capability,
        level=rule.level,
        scope=None if rule.scope is None else rule.scope.path,
        path=rule.path,
    )
