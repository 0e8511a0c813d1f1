"""A context: what an agent should be told now, as items and as text for a prompt."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from memoranda.model.entry import Kind
from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin, Trust

ContextKind = Kind | Literal["core"]
Why = Literal["budget", "duplicate", "origin", "trust", "limit", "denied"]
"""Why something was left out: there was no room for it, something that says the same is included, its origin has its
share of the context already, it is not trusted far enough, there are enough matches, or the caller may not read it."""


class ContextItem(Result, frozen=True, kw_only=True):
    """One memory in a context."""

    kind: ContextKind
    ref: str
    text: str
    scope: Scope
    source: str
    """Where it comes from, in a word or two: `notes`, `archival`, `conversation c1`."""
    score: float | None = None
    """How relevant it is; None for what is shown whatever the query is."""
    updated_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    superseded_by: str | None = None
    """The ref of what is true instead."""
    corroboration: int = 1
    """How many independent origins say the same."""
    origin: Origin = Origin()
    version: int = 0
    """That of a core block or a record; 0 of anything else."""
    tokens: int = 0

    @property
    def trust(self) -> Trust:
        """How far it is trusted."""
        return self.origin.trust


class Omitted(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that was left out of a context, and why."""

    ref: str
    kind: ContextKind
    why: Why
    tokens: int = 0


class Context(Result, frozen=True, kw_only=True):
    """What an agent should be told now."""

    text: str
    """All of it for a prompt: each memory between tags, with its source, age and validity."""
    items: tuple[ContextItem, ...] = ()
    left_out: tuple[Omitted, ...] = ()
    tokens: int = 0
    """How many tokens the text takes, as they were counted; never more than the budget."""
    budget: int | None = None

    @property
    def refs(self) -> dict[str, int]:
        """The refs of what is in it, with the versions that are known."""
        return {item.ref: item.version for item in self.items}

    def __str__(self) -> str:
        """Return the text."""
        return self.text
