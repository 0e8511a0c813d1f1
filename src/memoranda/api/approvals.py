"""Approvals, as Python calls them."""

from __future__ import annotations

from typing import Literal

from memoranda.api.desk import Desk
from memoranda.errors import NotFound, UsageError
from memoranda.governance.gate import Decided
from memoranda.model.approval import STATUSES, Approval, Status
from memoranda.model.effect import Decide, ReadApprovals
from memoranda.model.limits import check_count
from memoranda.model.text import check_reason, quote


class Approvals(Desk):
    """Effects that wait for a person.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     grant = memory.permissions.grant("agent:mail", "memory.write", level="approve")
    ...     try:
    ...         memory.acting_as("agent:mail").scope(user="ada").set("tone", "warm")
    ...     except memoranda.ApprovalRequired as waits:
    ...         approval = waits.approval
    ...     [waiting.actor for waiting in memory.approvals.list()]
    ...     memory.approvals.approve(approval).result.value
    ...     memory.scope(user="ada").value("tone")
    ['agent:mail']
    'warm'
    'warm'
    """

    def list(
        self,
        *,
        status: Status | Literal["all"] = "pending",
        after: str = "",
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> list[Approval]:
        """Return what waits, or what was decided, or all of it, oldest first.

        `after` is the id of the last one seen. With `max_bytes` the list ends with the one whose effect exceeds it.
        """
        known = (*STATUSES, "all")
        if status not in known:
            raise UsageError(f"{quote(status)} is not a status", hint=f"Pass one of {', '.join(known)}", value=status)
        check_count("limit", limit)
        check_count("number of bytes", max_bytes, least=1)
        effect = ReadApprovals(
            scope=self._shared,
            status=None if status == "all" else status,
            after=after,
            limit=limit,
            max_bytes=max_bytes,
        )
        return self._perform(effect)

    def get(self, approval: str) -> Approval:
        """Return one approval by its id."""
        found: list[Approval] = self._perform(ReadApprovals(scope=self._shared, id=approval)) if approval else []
        if found:
            return found[0]
        raise NotFound(f"there is no approval {quote(approval)}", hint="List them with memory.approvals.list()")

    def approve(self, approval: str, *, reason: str = "") -> Decided:
        """Let a waiting effect happen now; return the decision and what the effect gave."""
        return self._decide(approval, "approved", reason)

    def refuse(self, approval: str, *, reason: str = "") -> Decided:
        """Drop a waiting effect.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     grant = memory.permissions.grant("agent:mail", "memory.write", level="approve")
        ...     try:
        ...         memory.acting_as("agent:mail").scope(user="ada").set("tone", "warm")
        ...     except memoranda.ApprovalRequired as waits:
        ...         approval = waits.approval
        ...     memory.approvals.refuse(approval, reason="not today").approval.status
        ...     memory.approvals.get(approval).reason
        'refused'
        'not today'
        """
        return self._decide(approval, "refused", reason)

    def _decide(self, approval: str, verdict: Literal["approved", "refused"], reason: str) -> Decided:
        check_reason(reason)
        return self._perform(Decide(scope=self._shared, approval=approval, verdict=verdict, reason=reason))
