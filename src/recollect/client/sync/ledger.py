# Made from client/aio/ledger.py by recollect.client.generate: change that one.
"""What happened, through the server: `client.ledger`."""

from __future__ import annotations

import builtins

from recollect.client.calls import Call, path
from recollect.client.sync.connection import Connection
from recollect.client.sync.pages import collect
from recollect.wire.ledger import Event, Events, Verification


class LedgerCalls:
    """The ledger of the tenant; only an administrator's key reads it."""

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.ledger` makes these."""
        self._connection = connection

    def list(self, *, limit: int | None = None) -> builtins.list[Event]:
        """Return the events, oldest first, page by page until all or `limit` are there."""
        return collect(self._connection, path("ledger"), {}, Events, lambda page: page.events, limit)

    def verify(self) -> Verification:
        """Say whether the chain is whole; if not, the first bad position and why."""
        return self._connection.fetch(Call(method="GET", path=path("ledger", "verify"), repeatable=True), Verification)
