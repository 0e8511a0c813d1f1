"""What keeps a run from going on: somebody it waits for, or a ledger that cannot be written."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from memoranda.errors import MemorandaError


class Waiting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run waits for: a verdict on a step, an event from outside, or the run of another machine."""

    kind: Literal["approval", "event", "run"]
    step: str
    time: int = 1
    """How often the step had been taken by then, this time included."""
    capability: str | None = None
    approval: str | None = None
    event: str | None = None
    deadline: datetime | None = None
    run: str | None = None
    about: dict[str, Any] = {}
    """What is asked for, shortened, for the person who decides."""


class Paused(Exception):
    """The run waits for somebody; nothing catches this but the end of the run's execution."""

    def __init__(self, waiting: Waiting) -> None:
        """Carry what is waited for."""
        super().__init__(waiting.kind)
        self.waiting = waiting


class Unrecorded(Exception):
    """The run cannot be recorded, so that it must not go on; nothing but the end of its execution catches this."""

    def __init__(self, error: MemorandaError) -> None:
        """Carry why."""
        super().__init__(error.message)
        self.error = error
