"""The ledger, as Python calls it."""

from __future__ import annotations

from typing import cast

from memoranda.api.desk import Desk
from memoranda.errors import Corrupt, UsageError
from memoranda.model.effect import ReadLedger, VerifyLedger
from memoranda.model.event import Anchor, Event, Verification
from memoranda.model.limits import check_count
from memoranda.model.text import quote


class Ledger(Desk):
    """What happened in a tenant, in order, provably."""

    def verify(self, *, anchor: Anchor | None = None) -> Verification:
        """Walk the whole chain; an anchor taken earlier also catches a tail that was cut off.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     _ = memory.scope(user="ada").set("language", "en")
        ...     memory.ledger.verify().ok
        True
        """
        if not isinstance(cast(object, anchor), Anchor | None):
            raise UsageError(f"{quote(anchor)} is not an anchor", hint="Pass Anchor(length, head)", value=anchor)
        self._gate.settle()
        return self._perform(VerifyLedger(scope=self._shared, anchor=anchor))

    def anchor(self) -> Anchor:
        """Return the length and head of the chain. Keep it where whoever keeps the database cannot reach.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     anchor = memory.ledger.anchor()
        ...     anchor.length, memory.ledger.verify(anchor=anchor).ok
        (1, True)
        """
        verification = self.verify()
        if not verification.ok:
            raise Corrupt(
                f"the ledger is broken at position {verification.position}: {verification.reason}",
                hint="An anchor of a broken chain would vouch for it; find out what happened first",
                position=verification.position,
            )
        return Anchor(verification.length, verification.head)

    def events(self, *, start: int = 1, limit: int | None = None, max_bytes: int | None = None) -> list[Event]:
        """Return events from a position on. With `max_bytes` the list ends with the event whose content exceeds it.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     [(event.position, event.actor, event.effect) for event in memory.ledger.events()]
        [(1, 'owner', 'set_fact')]
        """
        check_count("position", start, least=1)
        check_count("limit", limit)
        check_count("number of bytes", max_bytes, least=1)
        self._gate.settle()
        return self._perform(ReadLedger(scope=self._shared, start=start, limit=limit, max_bytes=max_bytes))

    def tail(self, limit: int = 20, *, max_bytes: int | None = None) -> list[Event]:
        """Return the newest events, oldest first; with `max_bytes` fewer, where their content exceeds it.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     for language in ("en", "fr", "de"):
        ...         fact = memory.scope(user="ada").set("language", language)
        ...     [event.position for event in memory.ledger.tail(2)]
        [2, 3]
        """
        check_count("limit", limit)
        check_count("number of bytes", max_bytes, least=1)
        self._gate.settle()
        return self._perform(ReadLedger(scope=self._shared, limit=limit, max_bytes=max_bytes, newest=True))
