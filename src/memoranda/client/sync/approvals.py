# Made from client/aio/approvals.py by memoranda.client.generate: change that one.
"""What waits for a decision, through the server: `client.approvals`."""

from __future__ import annotations

import builtins
from typing import Literal

from memoranda.client.calls import Call, body, parameters, path
from memoranda.client.sync.connection import Connection
from memoranda.client.sync.pages import collect
from memoranda.wire.approvals import Approval, Approvals, Decided


class ApprovalCalls:
    """Effects of the tenant that wait for a person; only a key that may decide sees them."""

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.approvals` makes these."""
        self._connection = connection

    def list(
        self, *, status: Literal["pending", "approved", "refused", "all"] = "pending", limit: int | None = None
    ) -> builtins.list[Approval]:
        """Return what waits, or what was decided, oldest first."""
        asked = parameters(status=status)
        return collect(self._connection, path("approvals"), asked, Approvals, lambda page: page.approvals, limit)

    def get(self, approval: str) -> Approval:
        """Return one approval by its id; raise NotFound where there is none."""
        call = Call(method="GET", path=path("approvals", approval), repeatable=True)
        return self._connection.fetch(call, Approval)

    def approve(self, approval: str, *, reason: str = "") -> Decided:
        """Let a waiting effect happen now; return the decision and what the effect gave."""
        call = Call(method="POST", path=path("approvals", approval, "approve"), body=body(reason=reason))
        return self._connection.fetch(call, Decided)

    def refuse(self, approval: str, *, reason: str = "") -> Decided:
        """Drop a waiting effect."""
        call = Call(method="POST", path=path("approvals", approval, "refuse"), body=body(reason=reason))
        return self._connection.fetch(call, Decided)
