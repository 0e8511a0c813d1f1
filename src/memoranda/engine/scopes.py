"""Scopes: which of them a tenant has memory in."""

from __future__ import annotations

from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.model.effect import ReadEffect
from memoranda.model.scope import Scope
from memoranda.store.base import Reader


class ListScopes(ReadEffect, frozen=True, kw_only=True, tag="list_scopes"):
    """Read the scopes of a tenant that have facts or entries; it needs the right to read all of them."""

    prefix: str = ""
    after: str = ""
    limit: int | None = None


@verb(ListScopes)
def list_scopes(rows: Reader, effect: ListScopes, call: Call) -> Outcome[list[Scope]]:
    """Return the scopes whose paths begin with a text, ordered by path."""
    tenant = effect.scope.tenant
    paths = rows.scopes(tenant, prefix=effect.prefix, after=effect.after, limit=effect.limit)
    return Outcome([Scope(tenant, path) for path in paths])
