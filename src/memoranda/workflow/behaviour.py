"""The options of a workflow run that its file does not set, and its limits."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from memoranda.errors import Hint, UsageError
from memoranda.model.clock import Duration
from memoranda.model.limits import check_count
from memoranda.model.text import quote
from memoranda.runs.records import OnInvalid
from memoranda.runs.steps import NO_RECORDING, Recording
from memoranda.workflow.jsonata_functions import DEFAULT_BOUNDS, Bounds


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Options and limits of a run; pass your own to `load(…, behaviour=…)`.

    >>> Behaviour(on_invalid="skip", passes=50).steps
    100000
    """

    on_invalid: OnInvalid = "raise"
    """What to do with a record that the workflow names and its definition rejects: not start, or leave it out.

    Records of other definitions that do not fit are always left out, with a warning.
    """
    steps: int = 100_000
    """Maximum number of tasks in one run, counting every pass of a loop."""
    passes: int = 10_000
    """Maximum number of passes of one loop."""
    branches: int = 64
    """Maximum number of branches of a `parallel`, or passes of a loop, that run at the same time."""
    workflows: int = 8
    """Maximum depth of workflows that call one another."""
    keep: Duration | None = "30d"
    """How long the input and the results of a run are kept after its end; its events stay in the ledger."""
    bounds: Bounds = DEFAULT_BOUNDS
    """The limits of one expression."""
    trusted_tools: tuple[str, ...] = ()
    """Names of actions, or of tasks, whose outputs are the workflow's own word: what it stores of others is trusted as
    `tool_external` if they ask something over HTTP or MCP, and as `tool_internal` if they are Python functions."""
    recording: Recording = NO_RECORDING
    """What is recorded of each step, for looking into a run; nothing by default."""
    sleep: Callable[[float], None] = time.sleep
    """How to wait between two attempts."""

    def __post_init__(self) -> None:
        """Reject invalid options."""
        if self.on_invalid not in ("raise", "skip"):
            message = f"{quote(self.on_invalid)} is not a valid `on_invalid`"
            raise UsageError(message, hint=Hint("python", 'Use on_invalid="raise" or "skip"'))
        for name in ("steps", "passes", "branches", "workflows"):
            check_count(f"number of {name}", getattr(self, name), least=1)


DEFAULT_BEHAVIOUR = Behaviour()
