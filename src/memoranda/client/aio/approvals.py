"""What waits for a decision, through the server: `client.approvals`."""

from __future__ import annotations

import builtins
from typing import Literal

from memoranda.client.aio.connection import AsyncConnection
from memoranda.client.aio.pages import collect
from memoranda.client.calls import Call, body, parameters, path
from memoranda.wire.approvals import Approval, Approvals, Decided


class AsyncApprovalCalls:
    """Effects of the tenant that wait for a person; only a key that may decide sees them."""

    def __init__(self, connection: AsyncConnection) -> None:
        """Stand on a connection; `client.approvals` makes these."""
        self._connection = connection

    async def list(
        self, *, status: Literal["pending", "approved", "refused", "all"] = "pending", limit: int | None = None
    ) -> builtins.list[Approval]:
        """Return what waits, or what was decided, oldest first."""
        asked = parameters(status=status)
        return await collect(self._connection, path("approvals"), asked, Approvals, lambda page: page.approvals, limit)

    async def get(self, approval: str) -> Approval:
        """Return one approval by its id; raise NotFound where there is none."""
        call = Call(method="GET", path=path("approvals", approval), repeatable=True)
        return await self._connection.fetch(call, Approval)

    async def approve(self, approval: str, *, reason: str = "") -> Decided:
        """Let a waiting effect happen now; return the decision and what the effect gave."""
        call = Call(method="POST", path=path("approvals", approval, "approve"), body=body(reason=reason))
        return await self._connection.fetch(call, Decided)

    async def refuse(self, approval: str, *, reason: str = "") -> Decided:
        """Drop a waiting effect."""
        call = Call(method="POST", path=path("approvals", approval, "refuse"), body=body(reason=reason))
        return await self._connection.fetch(call, Decided)
