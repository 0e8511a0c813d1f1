"""What the language leaves open, and how much a run may use: one named choice each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from memoranda.model.duration import Duration
from memoranda.model.limits import check_count
from memoranda.model.recall import Mode


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How much one run may use, the machines it calls included; None is without a limit.

    >>> Budget(model_calls=3, tokens=10_000).steps
    10000
    """

    steps: int | None = 10_000
    """Steps that are taken, each round of a flow counted."""
    model_calls: int | None = 100
    """Requests to models, those after a broken answer included."""
    tokens: int | None = None
    """Tokens that models read and write; no request is made once they are used up."""
    writes: int | None = None
    """Contents that are remembered."""
    machine_calls: int | None = 100
    """Other machines that are called."""

    def __post_init__(self) -> None:
        """Refuse what cannot be counted."""
        for name in self.__struct_fields__:
            check_count(f"budget of {name}", getattr(self, name))


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of a runtime; pass your own to `load(…, behaviour=…)`.

    >>> Behaviour(recall="keyword", keep=None).budget.model_calls
    100
    """

    without_namespace: Literal["all", "unnamed"] = "all"
    """What a `recall` without a namespace looks through: the whole collection, or only what has no namespace either."""
    recall: Mode = "hybrid"
    """How a `recall` ranks: by vectors and words together, by vectors alone (`semantic`), or by words (`keyword`)."""
    budget: Budget = Budget()
    """What a run may use where it is not told otherwise."""
    model_seconds: float = 60.0
    """Seconds a model may take for one reply."""
    flows: int = 24
    """Flows that may run inside one another, those of called machines included."""
    machines: int = 8
    """Machines that may call one another."""
    keep: Duration | None = "30d"
    """How long the inputs and results of a run are kept after it ended; its events stay in the ledger."""
    sleep: Callable[[float], None] = time.sleep
    """How to wait between two attempts."""


DEFAULT_BEHAVIOUR = Behaviour()
