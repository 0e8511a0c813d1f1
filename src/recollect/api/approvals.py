"""Approvals, as Python calls them."""

from __future__ import annotations

from recollect.errors import NotFound
from recollect.governance.gate import Caller, Decided, Gate
from recollect.model.approval import Approval, Status
from recollect.model.effect import Decide, ReadApprovals
from recollect.model.scope import Scope
from recollect.model.text import quote


class Approvals:
    """Effects that wait for a person."""

    def __init__(self, gate: Gate, caller: Caller, shared: Scope) -> None:
        """Stand in a tenant; `memory.approvals` makes these."""
        self._gate = gate
        self._caller = caller
        self._shared = shared

    def list(self, *, status: Status | None = "pending") -> list[Approval]:
        """Return what waits, or what was decided; None returns all."""
        every: list[Approval] = self._gate.perform(ReadApprovals(scope=self._shared), self._caller)
        return [approval for approval in every if status is None or approval.status == status]

    def get(self, approval: str) -> Approval:
        """Return one approval by its id."""
        for known in self.list(status=None):
            if known.id == approval:
                return known
        raise NotFound(f"there is no approval {quote(approval)}", hint="List them with memory.approvals.list()")

    def approve(self, approval: str, *, reason: str = "") -> Decided:
        """Let a waiting effect happen now; return the decision and what the effect gave."""
        return self._gate.perform(
            Decide(scope=self._shared, approval=approval, verdict="approved", reason=reason), self._caller
        )

    def refuse(self, approval: str, *, reason: str = "") -> Decided:
        """Drop a waiting effect."""
        return self._gate.perform(
            Decide(scope=self._shared, approval=approval, verdict="refused", reason=reason), self._caller
        )
