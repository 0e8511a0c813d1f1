"""What the desks of a memory have in common: `memory.definitions`, `memory.ledger` and the others."""

from __future__ import annotations

from typing import Any

from memoranda.governance.gate import Caller, Gate
from memoranda.model.effect import Effect
from memoranda.model.scope import Scope


class Desk:
    """One part of what can be done in a tenant, for one caller."""

    def __init__(self, gate: Gate, caller: Caller, shared: Scope) -> None:
        """Stand in a tenant; the properties of a `Memory` make these."""
        self._gate = gate
        self._caller = caller
        self._shared = shared

    def _perform(self, effect: Effect) -> Any:
        return self._gate.perform(effect, self._caller)
