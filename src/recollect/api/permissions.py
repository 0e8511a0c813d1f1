"""Grants, as Python calls them."""

from __future__ import annotations

from recollect.governance.gate import Caller, Gate
from recollect.model.effect import GrantRule, ReadGrants, RevokeGrant
from recollect.model.policy import Grant, Level, Rule
from recollect.model.scope import Scope


class Permissions:
    """Who may do what in a tenant: grants that are kept in the database."""

    def __init__(self, gate: Gate, caller: Caller, shared: Scope) -> None:
        """Stand in a tenant; `memory.permissions` makes these."""
        self._gate = gate
        self._caller = caller
        self._shared = shared

    def grant(
        self,
        actor: str,
        capability: str,
        *,
        level: Level = "allow",
        scope: Scope | None = None,
        path: str = "",
    ) -> Grant:
        """Keep a rule for an actor (`*` is every actor): allow, approve (somebody must agree each time) or deny."""
        rule = Rule(level, capability, scope, path)
        return self._gate.perform(GrantRule(scope=self._shared, actor=actor, rule=rule), self._caller)

    def revoke(self, grant: str) -> Grant:
        """Take a grant back by its id."""
        return self._gate.perform(RevokeGrant(scope=self._shared, grant=grant), self._caller)

    def list(self) -> list[Grant]:
        """Return every grant, oldest first."""
        return self._gate.perform(ReadGrants(scope=self._shared), self._caller)
