"""What a run could not compute, kept in order: results, moments and ids, verdicts of guards and people, and events.

A run that is executed from its beginning again, after a pause, as a replay or as a simulation, takes from its journal
what it took before. Entries are found by step and by how often the step was taken, so that a path which differs still
finds what belongs to it. A run that goes on from where it stood keeps that as one entry, its `state`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from memoranda.errors import InvalidValue, LimitExceeded, MemorandaError
from memoranda.model.limits import Limits
from memoranda.model.text import quote
from memoranda.model.value import encode_checked

Kind = Literal["drawn", "guarded", "result", "verdict", "event", "state"]


class Noted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that came from outside of the program."""

    step: str
    time: int
    """How often the step had been taken by then, this time included."""
    kind: Kind
    value: Any = None
    error: dict[str, Any] | None = None
    """Of a result, or of what guards said: the failure it was instead."""
    about: dict[str, Any] = {}


class Journal:
    """The entries of one run."""

    def __init__(self, entries: Iterable[Noted] = (), *, limits: Limits | None = None) -> None:
        """Begin with what was kept."""
        self.entries = list(entries)
        self._limits = limits or Limits()
        self._found = {(one.step, one.time, one.kind): one for one in self.entries}

    def find(self, step: str, time: int, kind: Kind) -> Noted | None:
        """Return what was kept when a step was taken for this time."""
        return self._found.get((step, time, kind)) if self._found else None

    def add(self, entry: Noted) -> bytes:
        """Keep an entry and return its value as JSON; refuse one that could not be written down."""
        written = self._written(entry)
        self.entries.append(entry)
        self._found[entry.step, entry.time, entry.kind] = entry
        return written

    def _written(self, entry: Noted) -> bytes:
        try:
            return encode_checked(entry.value, self._limits)
        except (InvalidValue, LimitExceeded) as error:
            raise _unkept(entry.step, error) from error


def _unkept(step: str, error: MemorandaError) -> MemorandaError:
    return type(error)(
        f"the result of the step {quote(step)} cannot be kept: {error.message}", hint=error.hint, **error.details
    )
