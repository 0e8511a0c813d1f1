"""Sleep-time memory as it travels: what conversations taught while nobody waited."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from memoranda.model.block import BlockScope, BlockType

JobState = Literal["waiting", "running", "done", "dead"]


class SleepJob(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation that was consolidated or waits for it, and what it came to."""

    user: str
    conversation_id: str
    state: JobState
    attempts: int
    due_at: datetime
    finished_at: datetime | None = None
    error: str = ""
    """Why it last failed."""
    added: int = 0
    """Lines that it added to the blocks when it was last done."""
    removed: int = 0
    undone: bool = False
    """Whether that was taken back."""


class SleepJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs, those that are due first in front."""

    jobs: list[SleepJob]
    next: str | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A line that was added to a block or taken away."""

    change: Literal["added", "removed"]
    scope: BlockScope
    block: BlockType
    line: str


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What taking back changed in the blocks."""

    changes: list[Change]


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """The lines that went with a conversation: those that were learned from it alone."""

    removed: list[str]
