"""What a run of a machine began with, as it is kept."""

from __future__ import annotations

from typing import Any

import msgspec

from recollect.mashin.behaviour import Budget


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run began with."""

    input: dict[str, Any]
    context: dict[str, Any] = {}
    budget: Budget


def begun_of(kept: Any) -> Begun:
    """Return what a run began with, of what was kept of it."""
    return msgspec.convert(kept, Begun)
