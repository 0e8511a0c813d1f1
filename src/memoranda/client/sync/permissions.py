# Made from client/aio/permissions.py by memoranda.client.generate: change that one.
"""Who may do what, through the server: `client.permissions`."""

from __future__ import annotations

import builtins

from memoranda.client.calls import Call, body, given, path
from memoranda.client.sync.connection import Connection
from memoranda.client.sync.pages import collect
from memoranda.model.policy import Level
from memoranda.wire.permissions import Grant, Grants


class PermissionCalls:
    """Grants that are kept in the tenant, for programs that open the memory and act for somebody."""

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.permissions` makes these."""
        self._connection = connection

    def grant(
        self, actor: str, capability: str, *, level: Level = "allow", scope: str | None = None, path: str = ""
    ) -> Grant:
        """Keep a rule for an actor (`*` is every actor): allow, approve (somebody must agree each time) or deny."""
        asked = body(actor=actor, capability=capability, level=level, path=path, **given(scope=scope))
        return self._connection.fetch(Call(method="POST", path=_PLACE, body=asked), Grant)

    def revoke(self, grant: str) -> None:
        """Take a grant back by its id; raise NotFound where there is none."""
        self._connection.send(Call(method="DELETE", path=path("permissions", grant)))

    def list(self, *, limit: int | None = None) -> builtins.list[Grant]:
        """Return every grant, oldest first."""
        return collect(self._connection, _PLACE, {}, Grants, lambda page: page.grants, limit)


_PLACE = path("permissions")
