"""A run that waits and a reason in, its last event and its record out: how a run ends that nobody goes on with."""

from __future__ import annotations

from datetime import datetime

import msgspec

from memoranda.model.run import RunSummary
from memoranda.model.text import check_reason
from memoranda.runs.failures import Failure
from memoranda.runs.recording import Recorder


def end_cancelled(recorder: Recorder, summary: RunSummary, reason: str, *, at: datetime) -> RunSummary:
    """Note that a run is cancelled, and return where it stands then; what is kept of it is its language's to write."""
    check_reason(reason)
    recorder.note("exec_end", detail={"status": "cancelled"})
    failure = Failure(type="cancelled", message=reason or "the run was cancelled")
    return msgspec.structs.replace(
        summary, status="cancelled", ended_at=at, waiting=None, error=msgspec.to_builtins(failure)
    )
