"""The budget of a run, and the choices that the language leaves to its runtime."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from memoranda.model.clock import Duration
from memoranda.model.entry import Mode
from memoranda.model.limits import check_count
from memoranda.runs.steps import NO_RECORDING, Recording


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What one run may use, the machines it calls included; None means no limit.

    >>> Budget(model_calls=3, tokens=10_000).steps
    10000
    """

    steps: int | None = 10_000
    """Steps, counted each time they run."""
    model_calls: int | None = 100
    """Requests to models, repeated ones included."""
    tokens: int | None = None
    """Tokens that models read and write; once they are used up, no request is made."""
    writes: int | None = None
    """Entries that are remembered."""
    machine_calls: int | None = 100
    """Calls of other machines."""

    def __post_init__(self) -> None:
        """Refuse what is not a count."""
        for name in self.__struct_fields__:
            check_count(f"budget of {name}", getattr(self, name))


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of the runtime; pass your own to `load(…, behaviour=…)`.

    >>> Behaviour(recall="keyword", keep=None).budget.model_calls
    100
    """

    without_namespace: Literal["all", "unnamed"] = "all"
    """What a `recall` without a namespace searches: the whole collection, or only entries without a namespace."""
    recall: Mode = "hybrid"
    """How a `recall` ranks: by vectors and words together, by vectors alone (`semantic`), or by words (`keyword`)."""
    budget: Budget = Budget()
    """The budget of a run that is given none."""
    model_seconds: float = 60.0
    """Timeout for one reply of a model, in seconds."""
    flows: int = 24
    """Maximum number of nested flows, those of called machines included."""
    machines: int = 8
    """Maximum number of nested machines."""
    keep: Duration | None = "30d"
    """How long the inputs and results of a run are kept after its end; its events stay in the ledger."""
    recording: Recording = NO_RECORDING
    """What is recorded of each step, for looking into a run; nothing by default."""
    sleep: Callable[[float], None] = time.sleep
    """How to wait between two attempts."""


DEFAULT_BEHAVIOUR = Behaviour()
