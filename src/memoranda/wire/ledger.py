"""The ledger as it travels."""

from __future__ import annotations

import msgspec

from memoranda.model.event import Event as Event
from memoranda.model.event import Verification as Verification


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """A page of events, oldest first."""

    events: list[Event]
    next: str | None = None
