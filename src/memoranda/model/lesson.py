"""Lessons: what became of the statements in a conversation that `learn` was given."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from memoranda.model.result import Result

Verdict = Literal["added", "replaced", "confirmed", "ended", "outdated"]
"""What became of a statement: it is new; it replaced another; it was known; it ended one that is no longer true; or
something newer is known, so nothing changed."""


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
    pending: str | None = None
    """Why nothing could be extracted, such as a model that does not answer. The messages are kept; undo this and learn
    again to extract what they state."""

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
