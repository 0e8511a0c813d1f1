"""A run that waits and a reason in, its last event and its record out: how a run ends that nobody goes on with."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from recollect.errors import InvalidValue
from recollect.model.run import RunSummary
from recollect.model.text import cleaned, quote
from recollect.runs.failures import Failure
from recollect.runs.recording import Recorder

_LONGEST_REASON = 1_000


def end_cancelled(recorder: Recorder, summary: RunSummary, reason: str, *, at: datetime) -> RunSummary:
    """Note that a run is cancelled, and return where it stands then; what is kept of it is its language's to write."""
    check_reason(reason)
    recorder.note("exec_end", detail={"status": "cancelled"})
    failure = Failure(type="cancelled", message=reason or "the run was cancelled")
    return msgspec.structs.replace(
        summary, status="cancelled", ended_at=at, waiting=None, error=msgspec.to_builtins(failure)
    )


def check_reason(reason: Any) -> None:
    """Refuse what cannot be kept as the reason of something."""
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON or reason != cleaned(reason):
        hint = f"Pass a text of at most {_LONGEST_REASON:,} characters"
        raise InvalidValue(f"{quote(reason)} is no reason that can be kept", hint=hint, path="reason")
