"""Grants, as Python calls them."""

from __future__ import annotations

from memoranda.api.desk import Desk
from memoranda.model.effect import GrantRule, ReadGrants, RevokeGrant
from memoranda.model.policy import Grant, Level, Rule
from memoranda.model.scope import Scope


class Permissions(Desk):
    """Who may do what in a tenant: grants that are kept in the database."""

    def grant(
        self,
        actor: str,
        capability: str,
        *,
        level: Level = "allow",
        scope: Scope | None = None,
        path: str = "",
    ) -> Grant:
        """Keep a rule for an actor (`*` is every actor): allow, approve (somebody must agree each time) or deny.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     grant = memory.permissions.grant("agent:mail", "memory.read", path="profile")
        ...     mail = memory.acting_as("agent:mail").scope(user="ada")
        ...     mail.get("profile.language") is None
        ...     try:
        ...         mail.get("diary.monday")
        ...     except memoranda.Denied as refusal:
        ...         print(refusal.capability)
        True
        memory.read
        """
        rule = Rule(level, capability, scope, path)
        return self._perform(GrantRule(scope=self._shared, actor=actor, rule=rule))

    def revoke(self, grant: str) -> Grant:
        """Take a grant back by its id.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     grant = memory.permissions.grant("agent:mail", "memory.read")
        ...     memory.permissions.revoke(grant.id) == grant, memory.permissions.list()
        (True, [])
        """
        return self._perform(RevokeGrant(scope=self._shared, grant=grant))

    def list(self) -> list[Grant]:
        """Return every grant, oldest first.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     grant = memory.permissions.grant("agent:mail", "memory.read")
        ...     [(one.actor, one.rule.capability) for one in memory.permissions.list()]
        [('agent:mail', 'memory.read')]
        """
        return self._perform(ReadGrants(scope=self._shared))
