"""What a workflow's file leaves open, and how much a run may use: one named choice each."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from memoranda.errors import UsageError
from memoranda.model.duration import Duration
from memoranda.model.limits import check_count
from memoranda.model.text import quote
from memoranda.workflow.limits import DEFAULT_BOUNDS, Bounds
from memoranda.workflow.records import OnInvalid


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of a runtime; pass your own to `load(…, behaviour=…)`.

    >>> Behaviour(on_invalid="skip", passes=50).steps
    100000
    """

    on_invalid: OnInvalid = "raise"
    """What a stored record that its definition refuses does: keep the run from starting, or be left out (`skip`)."""
    steps: int = 100_000
    """Tasks that one run may do, each pass of a loop counted."""
    passes: int = 10_000
    """Passes of one loop."""
    branches: int = 64
    """Branches of one `parallel`, or passes of one loop, that run at the same time; the others wait for their turn."""
    workflows: int = 8
    """Workflows that may call one another."""
    keep: Duration | None = "30d"
    """How long the input and the results of a run are kept after it ended; its events stay in the ledger."""
    bounds: Bounds = DEFAULT_BOUNDS
    """What one expression may ask for."""
    sleep: Callable[[float], None] = time.sleep
    """How to wait between two attempts."""

    def __post_init__(self) -> None:
        """Refuse what cannot be counted."""
        if self.on_invalid not in ("raise", "skip"):
            raise UsageError(f"{quote(self.on_invalid)} is no way to load", hint='Use on_invalid="raise" or "skip"')
        for name in ("steps", "passes", "branches", "workflows"):
            check_count(f"number of {name}", getattr(self, name), least=1)


DEFAULT_BEHAVIOUR = Behaviour()
