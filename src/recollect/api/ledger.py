"""The ledger, as Python calls it."""

from __future__ import annotations

from recollect.errors import Corrupt
from recollect.governance.gate import Caller, Gate
from recollect.model.effect import ReadLedger, VerifyLedger
from recollect.model.event import Anchor, Event, Verification
from recollect.model.limits import check_count
from recollect.model.scope import Scope


class Ledger:
    """What happened in a tenant, in order, provably."""

    def __init__(self, gate: Gate, caller: Caller, shared: Scope) -> None:
        """Stand in a tenant; `memory.ledger` makes these."""
        self._gate = gate
        self._caller = caller
        self._shared = shared

    def verify(self, *, anchor: Anchor | None = None) -> Verification:
        """Walk the whole chain; an anchor taken earlier also catches a tail that was cut off.

        >>> import recollect
        >>> with recollect.open(":memory:") as memory:
        ...     _ = memory.scope(user="ada").set("language", "en")
        ...     memory.ledger.verify().ok
        True
        """
        self._gate.settle()
        return self._gate.perform(VerifyLedger(scope=self._shared, anchor=anchor), self._caller)

    def anchor(self) -> Anchor:
        """Return the length and head of the chain. Keep it where whoever keeps the database cannot reach."""
        verification = self.verify()
        if not verification.ok:
            raise Corrupt(
                f"the ledger is broken at position {verification.position}: {verification.reason}",
                hint="An anchor of a broken chain would vouch for it; find out what happened first",
                position=verification.position,
            )
        return Anchor(verification.length, verification.head)

    def events(self, *, start: int = 1, limit: int | None = None) -> list[Event]:
        """Return events from a position on."""
        check_count("position", start, least=1)
        check_count("limit", limit)
        self._gate.settle()
        return self._gate.perform(ReadLedger(scope=self._shared, start=start, limit=limit), self._caller)

    def tail(self, limit: int = 20) -> list[Event]:
        """Return the newest events, oldest first."""
        check_count("limit", limit)
        self._gate.settle()
        return self._gate.perform(ReadLedger(scope=self._shared, limit=limit, newest=True), self._caller)
