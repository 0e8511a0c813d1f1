"""An effect that waits for somebody's decision."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

import msgspec

from memoranda.model.effect import Effect

Status = Literal["pending", "approved", "refused"]
STATUSES: tuple[Status, ...] = get_args(Status)


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Who asked for what, when, and what was decided."""

    id: str
    tenant: str
    scope: str
    actor: str
    door: str
    capability: str
    effect: Effect | None
    """What will be done; None once the subject it spoke about was erased."""
    requested_at: datetime
    status: Status = "pending"
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str = ""
