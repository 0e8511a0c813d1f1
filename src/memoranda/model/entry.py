"""Entries, the collections they are in, and what a recall returns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args

import msgspec

from memoranda.errors import UsageError
from memoranda.model.clock import from_micros, parse_moment
from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import TRUSTED, Origin, Trust

NOTES = "notes"
"""The collection of what is remembered without naming one."""
CONVERSATIONS = "conversations"
"""The collection of the turns that `learn` keeps."""
STATEMENTS = "statements"
"""The collection of what those turns state."""
CONFIRMATIONS = "statements.confirmations"
"""The collection of what other origins say that was stated before; who may read or write statements may do so there."""
RETRACTED = "retracted_at"
"""The metadata of a turn that states something which was forgotten: since when it no longer counts as true."""


class Calibration(msgspec.Struct, frozen=True, gc=False):
    """What turns a cosine into a relevance from 0 to 1: a logistic curve with its middle and its steepness.

    Cosines of two embedders cannot be compared: 0.4 is close for one and far for another. Relevances can.
    """

    middle: float
    """The cosine at which a text is as likely to be relevant as not."""
    steepness: float


class Space(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What the vectors of one embedder have in common."""

    embedder: str
    dimension: int
    calibration: Calibration


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """A named place for entries in a tenant. Its first entry fixes its space.

    `successor` is the space that its entries are being re-embedded into, during a move.
    """

    tenant: str
    name: str
    space: Space
    created_at: datetime
    successor: Space | None = None


class Holding(Result, frozen=True, kw_only=True):
    """A collection, its number of entries, and the progress of its move to another embedder."""

    name: str
    embedder: str
    dimension: int
    entries: int
    namespaces: int
    moving_to: str | None = None
    moved: int = 0


class Entry(Result, frozen=True, kw_only=True):
    """Content in (tenant, scope, collection, namespace), with the metadata that recall filters by.

    An entry never changes: one that is remembered again under its key with other content ends, and another one
    takes its place. `sequence` is its place in the order of arrival, which is never given twice.
    """

    id: str
    scope: Scope
    collection: str
    namespace: str = ""
    key: str | None = None
    content: Any
    metadata: dict[str, Any]
    created_at: datetime
    expires_at: datetime | None = None
    ended_at: datetime | None = None
    """When it was forgotten or replaced; None while it is current."""
    origin: Origin = Origin()
    sequence: int = 0

    @property
    def ref(self) -> str:
        """What it is read, superseded or forgotten by."""
        return f"entry:{self.id}"

    @property
    def valid_from(self) -> datetime:
        """Since when it holds: when it was said or stored, unless its metadata `valid_from` says otherwise."""
        return self.moment("valid_from", "time")

    @property
    def valid_to(self) -> datetime | None:
        """Until when it held; None while it is current."""
        return self.ended_at

    @property
    def chain(self) -> str:
        """The name of its chain: its key, or the id of the first entry where that has none."""
        return self.key or self.id

    def moment(self, *names: str) -> datetime:
        """Return the moment that one of these metadata names, the first that does; else when it was stored."""
        for name in names:
            said: Any = self.metadata.get(name)
            if isinstance(said, str) and (moment := _moment_in(said)) is not None:
                return moment
        return self.created_at

    def is_current_at(self, now: datetime) -> bool:
        """Return whether the entry is current: neither ended nor expired.

        When it was stored does not matter: what can be read was stored, even if a clock that was set back denies it.
        """
        return self.ended_at is None and (self.expires_at is None or now < self.expires_at)

    def active_at(self, moment: datetime) -> bool:
        """Return whether the entry was current at an earlier moment: stored by then, not ended, not expired."""
        return (
            self.created_at <= moment
            and (self.ended_at is None or moment < self.ended_at)
            and (self.expires_at is None or moment < self.expires_at)
        )


@lru_cache(4_096)
def _moment_in(text: str) -> datetime | None:
    """Return the moment that a text names, or None: metadata may say anything. Recalls meet the same texts again."""
    try:
        return from_micros(parse_moment(text))
    except UsageError:
        return None


class NewEntry(msgspec.Struct, frozen=True, gc=False):
    """A new entry with its words and vectors, without what all entries of one call have in common."""

    id: str
    key: str | None
    payload: bytes
    """The content as JSON."""
    metadata: bytes
    """The metadata as JSON."""
    digest: bytes
    """The hash by which its duplicates are found."""
    analysis: bytes
    """Its words, as `Indexed` has them."""
    vectors: tuple[bytes, ...] = ()
    """Its vectors, one for each of the embedders that are named with it."""


class Shelf(msgspec.Struct, frozen=True):
    """What one recall searches: the entries of a scope in a collection, of one namespace or of all (None).

    It is the partition of the index: each shelf has an index of its own.
    """

    scope: Scope
    collection: str
    namespace: str | None = None


class ShelfState(msgspec.Struct, frozen=True, gc=False):
    """What distinguishes two states of a shelf without reading it.

    `newest` is the highest sequence ever given there; `removed` is another number after each entry that ended or
    was removed, never the same again. Both 0 means that nothing was ever there.
    """

    newest: int = 0
    removed: int = 0


class Indexed(msgspec.Struct, frozen=True, gc=False):
    """What an index needs of one entry, derived from it and stored with it so that recall need not wait."""

    sequence: int
    namespace: str
    metadata: bytes
    """The metadata as JSON."""
    expires_at: int | None
    """Microseconds."""
    analysis: bytes
    """The entry's words as `memoranda.retrieval.analysis` packed them."""
    vector: bytes
    """Its embedding: little-endian float32, of unit length."""
    origin: Origin = TRUSTED
    """Who wrote it; of what is fully trusted, only the source is told."""
    conversation: str | None = None
    """What a message without a source comes from."""


Kind = Literal["entry", "fact", "record", "line", "message"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What can be recalled: entries, facts, records of definitions, lines of memory blocks, messages of conversations."""

Mode = Literal["hybrid", "semantic", "keyword"]
MODES: tuple[Mode, ...] = ("hybrid", "semantic", "keyword")


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why an entry was found at its place.

    `parts` are the addends of `total`, by which matches are put in order. `relevance` is the entry's own, from 0 to 1,
    and the `score` of the match. The order also takes the context of an entry into account, so a match may have a
    higher score than one before it; `parts` show why.
    """

    mode: Mode
    relevance: float
    total: float
    parts: dict[str, float] = {}
    cosine: float | None = None
    """The cosine between the query's vector and the entry's own; None where no vectors were compared."""
    lexical: float | None = None
    """The share of the query's words that the entry contains, weighted by their rarity, from 0 to 1."""
    matched: tuple[str, ...] = ()
    """The words of the query that the entry contains."""
    corrected: dict[str, str] = {}
    """Words of the query that no entry contains, and the words that were searched instead."""
    restated: int = 0
    """How many more memories of the same source, or of the same writer who is not fully trusted, say it in these words:
    they corroborate nothing."""
    exact: bool = True
    """Whether it was compared with everything that was searched. In large collections, candidates are chosen first."""


class Match(Result, frozen=True, kw_only=True):
    """One thing that a recall found. `before` and `after` are its neighbours, where they were asked for."""

    _columns: ClassVar[tuple[str, ...]] = ("score", "kind", "content", "ref", "updated_at")
    content: Any
    """The content of an entry; the text of anything else."""
    metadata: dict[str, Any]
    score: float
    """How relevant it is by itself, from 0 to 1."""
    why: Why
    kind: Kind = "entry"
    ref: str
    """What it is read, superseded or forgotten by."""
    key: str | None = None
    """The key of the fact, or of the entry where it has one."""
    id: str
    """The id of the entry; for anything else the ref."""
    collection: str | None = None
    """The collection of the entry; None for anything else."""
    namespace: str
    scope: Scope
    origin: Origin = Origin()
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    valid_from: datetime
    """Since when it holds: when it was said or written, unless its metadata `valid_from` says otherwise."""
    valid_to: datetime | None = None
    """Until when it held; None for what holds now."""
    superseded_by: str | None = None
    """The ref of what is true instead, where that is known."""
    corroboration: int = 1
    """How many independent origins say the same, this one included: repetitions, copies and imports add nothing."""
    confirmations: int = 0
    """How many of them confirmed what was learned from another."""
    before: tuple[Entry, ...] = ()
    after: tuple[Entry, ...] = ()

    @property
    def trust(self) -> Trust:
        """How far it is trusted."""
        return self.origin.trust


class Recalled(Result, frozen=True, kw_only=True):
    """What a recall found, best first."""

    _list: ClassVar[str] = "results"
    results: list[Match]
    count: int
    known: bool = True
    """False if nothing was ever remembered in the collection that was asked for, in this scope."""
    hint: str = ""
    """What to do if it does not."""

    def __iter__(self) -> Iterator[Match]:
        """Iterate over the matches."""
        return iter(self.results)

    def __len__(self) -> int:
        """Return the number of matches."""
        return len(self.results)

    def __getitem__(self, place: int) -> Match:
        """Return the match at a place."""
        return self.results[place]


class Remembered(Result, frozen=True, kw_only=True):
    """What became of something to remember.

    `stored` is False when nothing new was written: the same content was already there (`duplicate`), under the
    same key or in the same namespace, and `id` is that entry's.
    """

    id: str
    collection: str
    namespace: str
    stored: bool
    duplicate: bool = False
    replaced: str | None = None
    """The id of the entry whose place this one took."""
    expires_at: datetime | None = None
    undo: str | None = None
    """What `undo` takes to bring back the entry that it superseded."""
    held: str | None = None
    """What waits for a decision: the write is not visible until that is approved. Then `id` is empty."""
    rejected: str | None = None
    """The rejection because of which it was not stored. Then `id` is empty."""
    findings: tuple[str, ...] = ()
    """What was found in it and redacted or let through, by kind and rule."""
    parts: int = 1
    """Number of entries that a long text was stored in; `id` is that of the first."""

    @property
    def ref(self) -> str:
        """What the entry is read, superseded or forgotten by."""
        return f"entry:{self.id}"


class Superseded(msgspec.Struct, frozen=True, kw_only=True):
    """What took the place of something: an entry, the value of a fact, or a line of a block."""

    ref: str
    """The ref of what is true now; of a fact, it is the same as before."""
    replaced: str | None
    """The ref of what was true until now; None if nothing was what `about` describes."""
    kept: tuple[str, ...] = ()
    """What stays true of a text that said other things too."""
    collection: str | None = None
    """The collection of an entry."""
    namespace: str = ""
    expires_at: datetime | None = None
    findings: tuple[str, ...] = ()
    """What was found in it and redacted or let through, by kind and rule."""
    undo: str
    """What `undo` takes to bring that back."""


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of `forget` forgot, or would forget; false if there was nothing."""

    refs: tuple[str, ...] = ()
    count: int = 0
    entries: int = 0
    facts: int = 0
    """Facts, records among them."""
    lines: int = 0
    """Lines of memory blocks."""
    undo: str | None = None
    """What `undo` takes to bring it back; None where nothing was forgotten."""
    dry_run: bool = False
    kept: tuple[str, ...] = ()
    """What stays of texts that said other things too, such as one half of a sentence."""
    candidates: tuple[str, ...] = ()
    """The refs of what may have been meant, where a description is not clear: nothing was forgotten then."""

    def __bool__(self) -> bool:
        """Return whether there was anything to forget."""
        return self.count > 0


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo brought back."""

    refs: tuple[str, ...] = ()
    count: int = 0
    rejected: tuple[str, ...] = ()
    """The refs of what it left out, because it was rejected since; of a block, of the block."""


def check_kinds(kinds: Any) -> tuple[Kind, ...]:
    """Return kinds of memory, or raise UsageError."""
    named: tuple[Any, ...] = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    unknown = next((kind for kind in named if kind not in KINDS), None)
    if unknown is not None:
        hint = f"Kinds are {', '.join(KINDS)}"
        raise UsageError(f"{quote(unknown)} is not a kind of memory", hint=hint, value=unknown, path="kinds")
    return named


def check_mode(mode: Any) -> Mode:
    """Return a search mode, or raise UsageError."""
    if mode not in MODES:
        raise UsageError(f"{quote(mode)} is not a mode", hint=f"Modes are {', '.join(MODES)}", value=mode, path="mode")
    return mode


def check_threshold(threshold: Any) -> float:
    """Return a threshold from 0 to 1, or raise UsageError."""
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not number or not math.isfinite(threshold) or not 0 <= threshold <= 1:
        hint = "Pass a number from 0.0 to 1.0"
        raise UsageError(f"{quote(threshold)} is not a threshold", hint=hint, value=threshold, path="threshold")
    return float(threshold)
