"""What happened, through the server: `client.ledger`."""

from __future__ import annotations

import builtins

from recollect.client.aio.connection import AsyncConnection
from recollect.client.aio.pages import collect
from recollect.client.calls import Call, path
from recollect.wire.ledger import Event, Events, Verification


class AsyncLedgerCalls:
    """The ledger of the tenant; only an administrator's key reads it."""

    def __init__(self, connection: AsyncConnection) -> None:
        """Stand on a connection; `client.ledger` makes these."""
        self._connection = connection

    async def list(self, *, limit: int | None = None) -> builtins.list[Event]:
        """Return the events, oldest first, page by page until all or `limit` are there."""
        return await collect(self._connection, path("ledger"), {}, Events, lambda page: page.events, limit)

    async def verify(self) -> Verification:
        """Say whether the chain is whole; if not, the first bad position and why."""
        return await self._connection.fetch(
            Call(method="GET", path=path("ledger", "verify"), repeatable=True), Verification
        )
