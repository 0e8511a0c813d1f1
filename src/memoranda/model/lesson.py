"""Lessons: what became of the statements in a conversation that `learn` was given."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from memoranda.model.block import BlockScope, BlockType
from memoranda.model.clock import Moment
from memoranda.model.result import Result

Verdict = Literal["added", "replaced", "confirmed", "ended", "outdated", "contested", "rejected"]
"""What became of a statement: it is new; it replaced another; it was known; it ended one that is no longer true;
something newer is known, so nothing changed; what is known is trusted more, so it waits for a decision; or it was
rejected before, so it is not learned again."""


class Lesson(Result, frozen=True, kw_only=True):
    """A statement, and what became of it."""

    text: str
    verdict: Verdict
    key: str = ""
    """Its subject and attribute: of the statements with one key, one is true at a time."""
    ref: str | None = None
    """The entry that says so now; for `outdated`, the newer one."""
    replaced: str | None = None
    """The ref of the entry that is no longer true."""
    said_in: tuple[str, ...] = ()
    """The refs of the messages that state it."""
    valid_from: datetime | None = None
    """Since when it is true, where the messages say so."""
    held: str | None = None
    """What waits for a decision, if it is contested."""
    rejected: str | None = None
    """The rejection of it, if it was rejected."""


class LineChange(Result, frozen=True, kw_only=True):
    """A line that was added to a memory block or removed from it."""

    change: Literal["added", "removed"]
    scope: BlockScope
    block: BlockType
    line: str
    seqs: tuple[int, ...] = ()
    """The parts of a chat that it comes from."""


WhyLeftOut = Literal["known", "taken_out", "outdated", "no_room", "unfit", "untrusted", "kept"]
"""Why a line does not change: it is known, it was removed by hand before, something newer is known, the blocks are
full, it is not a valid line, what states it is not trusted, or the line that would be removed was not learned and is
kept."""


class LeftOut(Result, frozen=True, kw_only=True):
    """A line that was not added to a memory block or not removed from it, and why."""

    line: str
    why: WhyLeftOut


class Source(msgspec.Struct, frozen=True, order=True):
    """Where a line was learned: a chat, and the sequence number of one of its parts."""

    conversation: str
    seq: int


class LearnedLine(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a learned line beside its text: its sources, when it was last said, and its statement."""

    sources: tuple[Source, ...] = ()
    """Parts of chats; none for a line that follows a statement which was learned elsewhere."""
    said_at: Moment
    topic: str = ""
    """In lines of earlier versions, which have no key: the attribute, if only one line of it is true at a time."""
    ended: bool = False
    """In books of earlier versions: whether the user took it back, so that an earlier statement of it is outdated."""
    key: str = ""
    """The key of its statement."""


class Learned(Result, frozen=True, kw_only=True):
    """What was learned from a conversation.

    `messages` are the refs of the messages that are new; those that were there already are only counted.
    """

    conversation: str
    messages: tuple[str, ...] = ()
    known_messages: int = 0
    lessons: tuple[Lesson, ...] = ()
    undo: tuple[str, ...] = ()
    """What `undo` takes back; a long conversation was learned in several steps."""
    lines: tuple[LineChange, ...] = ()
    """The lines of memory blocks that changed with the statements."""
    left_out: tuple[LeftOut, ...] = ()
    """What sleep-time memory did not learn as a line, and why."""
    pending: str | None = None
    """Why nothing could be extracted, such as a model that does not answer, and when it is tried again. The messages
    are kept, and read by the next `learn` that is given them, or by the sleep-time worker."""
    retry_at: datetime | None = None
    """When the sleep-time worker reads them at the earliest."""

    held: tuple[str, ...] = ()
    """Messages that wait for a decision, each with what it states: they are not visible until it is released."""
    refused: tuple[str, ...] = ()
    """Why messages were left out."""
    findings: tuple[str, ...] = ()
    """What was found in it and redacted or let through, by kind and rule."""

    @property
    def added(self) -> tuple[Lesson, ...]:
        """What was not known before."""
        return self._with("added")

    @property
    def replaced(self) -> tuple[Lesson, ...]:
        """What replaced a statement that is no longer true, or ended one."""
        return self._with("replaced", "ended")

    @property
    def confirmed(self) -> tuple[Lesson, ...]:
        """What was known already."""
        return self._with("confirmed")

    @property
    def skipped(self) -> tuple[Lesson, ...]:
        """What was not written, because something newer is known."""
        return self._with("outdated")

    def _with(self, *verdicts: Verdict) -> tuple[Lesson, ...]:
        return tuple(lesson for lesson in self.lessons if lesson.verdict in verdicts)
