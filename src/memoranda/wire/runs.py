"""Runs of machines and workflows as they travel."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from memoranda.model.run import RunEvent as RunEvent
from memoranda.model.run import RunStatus
from memoranda.model.run import RunSummary as RunSummary
from memoranda.model.run import RunVerification as RunVerification


class StartRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program is run with; `mode` is for machines, `thread` for workflows that hold a conversation."""

    input: dict[str, Any] = {}
    mode: Literal["live", "test"] = "live"
    thread: str | None = None


class DeliverToRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run waits for."""

    payload: Any = None


class DecideRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a step is approved or refused; with `step`, only if the run waits at that one."""

    reason: str = ""
    step: str | None = None


class CancelRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run is ended; with `force`, also one whose process may be gone."""

    reason: str = ""
    force: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run: where it stands, what it gave, and what each step or task gave."""

    id: str
    program: str
    status: RunStatus
    output: Any = None
    outputs: dict[str, Any] = {}
    messages: list[Any] = []
    error: dict[str, Any] | None = None
    waiting: dict[str, Any] | None = None


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of runs, those that started last first."""

    runs: list[RunSummary]
    next: str | None = None


class RunEvents(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what the ledger says of one run, in order; `next` goes on after it, None at the end."""

    events: list[RunEvent]
    next: str | None = None
