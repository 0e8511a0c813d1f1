"""What waits for somebody's decision, as it travels."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from memoranda.model import approval as kept
from memoranda.model.approval import Status
from memoranda.wire.shapes import plain


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Who asked for what, when, and what was decided."""

    id: str
    tenant: str
    scope: str
    actor: str
    door: str
    capability: str
    effect: dict[str, Any] | None
    """What will be done; null once it was decided, or what it spoke about was erased."""
    requested_at: datetime
    status: Status = "pending"
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str = ""


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """A page of approvals, oldest first."""

    approvals: list[Approval]
    next: str | None = None


class Decide(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why it is decided so; kept with the decision."""

    reason: str = ""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, and what the approved effect gave."""

    approval: Approval
    result: Any = None


def approval_out(approval: kept.Approval) -> Approval:
    """Return an approval as it travels."""
    return Approval(**{**msgspec.structs.asdict(approval), "effect": plain(approval.effect)})


def decided_out(approval: kept.Approval, result: Any) -> Decided:
    """Return a decision as it travels."""
    return Decided(approval=approval_out(approval), result=plain(result))
