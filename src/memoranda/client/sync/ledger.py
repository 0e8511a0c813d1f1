# Made from client/aio/ledger.py by memoranda.client.generate: change that one.
"""What happened, through the server: `client.ledger`."""

from __future__ import annotations

import builtins

from memoranda.client.calls import Call, parameters, path
from memoranda.client.sync.connection import Connection
from memoranda.client.sync.pages import collect
from memoranda.errors import Corrupt
from memoranda.model.event import Anchor
from memoranda.model.limits import check_count
from memoranda.wire.ledger import Event, Events, Verification


class LedgerCalls:
    """The ledger of the tenant; only an administrator's key reads it."""

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.ledger` makes these."""
        self._connection = connection

    def list(self, *, start: int = 1, limit: int | None = None) -> builtins.list[Event]:
        """Return the events from a position on, oldest first, page by page until all or `limit` are there."""
        asked = parameters(start=start)
        return collect(self._connection, path("ledger"), asked, Events, lambda page: page.events, limit)

    def tail(self, limit: int = 20) -> builtins.list[Event]:
        """Return the newest events, oldest first; at most 1,000."""
        check_count("limit", limit)
        if limit == 0:
            return []
        call = Call(method="GET", path=path("ledger", "tail"), query=parameters(limit=limit), repeatable=True)
        return (self._connection.fetch(call, Events)).events

    def verify(self, *, anchor: Anchor | None = None) -> Verification:
        """Say whether the chain is whole; an anchor taken earlier also catches a tail that was cut off."""
        asked = {} if anchor is None else parameters(length=anchor.length, head=anchor.head)
        call = Call(method="GET", path=path("ledger", "verify"), query=asked, repeatable=True)
        return self._connection.fetch(call, Verification)

    def anchor(self) -> Anchor:
        """Return the length and head of the chain. Keep it where whoever keeps the database cannot reach."""
        found = self.verify()
        if not found.ok:
            raise Corrupt(
                f"the ledger is broken at position {found.position}: {found.reason}",
                hint="An anchor of a broken chain would vouch for it; find out what happened first",
                position=found.position,
            )
        return Anchor(found.length, found.head)
