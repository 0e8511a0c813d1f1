"""What a recall gives: matches, each with its score and why it was found."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Literal

import msgspec

from memoranda.errors import UsageError
from memoranda.model.entry import Entry
from memoranda.model.text import quote

Mode = Literal["hybrid", "semantic", "keyword"]
MODES: tuple[Mode, ...] = ("hybrid", "semantic", "keyword")


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why an entry was found at its place.

    `parts` are the addends of `total`, by which entries were put in order. `relevance` is the entry's own, from
    0 to 1; the match's `score` is the same, or that of an entry ranked behind it where that is higher, so that scores
    never rise from one match to the next.
    """

    mode: Mode
    relevance: float
    total: float
    parts: dict[str, float] = {}
    cosine: float | None = None
    """The cosine between the query's vector and the entry's own; None where no vectors were compared."""
    lexical: float | None = None
    """How much of the query's words the entry itself holds, weighted by their rarity, from 0 to 1."""
    matched: tuple[str, ...] = ()
    """The words of the query that the entry holds."""
    corrected: dict[str, str] = {}
    """Words of the query that nothing holds, and what was looked for in their place."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """One entry that a recall found. `before` and `after` are its neighbours, where they were asked for."""

    content: Any
    metadata: dict[str, Any]
    score: float
    why: Why
    id: str
    namespace: str
    created_at: datetime
    expires_at: datetime | None = None
    before: tuple[Entry, ...] = ()
    after: tuple[Entry, ...] = ()


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """What a recall found, best first."""

    results: list[Match]
    count: int


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of something to remember.

    `stored` is False when nothing new was written: the same content stood there already (`duplicate`), under the
    same key or in the same namespace, and `id` is that entry's.
    """

    id: str
    collection: str
    namespace: str
    stored: bool
    duplicate: bool = False
    replaced: str | None = None
    """The id of the entry whose key this one took over."""
    expires_at: datetime | None = None


def check_mode(mode: Any) -> Mode:
    """Return a way to search, or refuse what is none."""
    if mode not in MODES:
        raise UsageError(f"{quote(mode)} is not a mode", hint=f"Modes are {', '.join(MODES)}", value=mode, path="mode")
    return mode


def check_threshold(threshold: Any) -> float:
    """Return a threshold from 0 to 1, or refuse it."""
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not number or not math.isfinite(threshold) or not 0 <= threshold <= 1:
        hint = "Pass a number from 0.0 to 1.0"
        raise UsageError(f"{quote(threshold)} is not a threshold", hint=hint, value=threshold, path="threshold")
    return float(threshold)
