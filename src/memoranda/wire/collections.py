"""Semantic memory as it travels: what is remembered, what is asked, what was found, and where it is kept."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from memoranda.model import entry as kept
from memoranda.model import recall as found
from memoranda.model.collection import Holding as Holding
from memoranda.model.fact import Origin
from memoranda.model.limits import check_count
from memoranda.model.recall import MODES, Why, check_mode, check_threshold
from memoranda.model.recall import Remembered as Remembered
from memoranda.wire.bounds import between, one_of


class Remember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something to remember: text or JSON."""

    content: Any
    metadata: dict[str, Any] = {}
    namespace: str = ""
    ttl: str | int | None = None
    key: str | None = None
    source: str | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of many things to remember."""

    content: Any
    metadata: dict[str, Any] = {}
    key: str | None = None


class RememberMany(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Things to remember, all or none of them."""

    items: list[Item]
    namespace: str = ""
    ttl: str | int | None = None
    source: str | None = None


class RememberText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A long text to remember in parts of at most `chunk` characters."""

    text: str
    chunk: Annotated[int, between(1)] = 1_200
    metadata: dict[str, Any] = {}
    namespace: str = ""
    ttl: str | int | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        """Refuse a size that no part can have, in the words of the engine."""
        check_count("chunk", self.chunk, least=1, path="chunk")


class AllRemembered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each, in their order."""

    remembered: list[Remembered]


class Recall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question; without a `namespace` all of them are looked through."""

    query: str
    namespace: str | None = None
    limit: Annotated[int, between(0)] = 5
    threshold: Annotated[float, between(0, 1)] = 0.0
    filter: dict[str, Any] | None = None
    as_of: datetime | None = None
    mode: Annotated[str, one_of(MODES)] = "hybrid"
    expand: Annotated[int, between(0)] = 0

    def __post_init__(self) -> None:
        """Refuse numbers that could never be asked for, in the words of the engine; how large they may be it says."""
        check_count("limit", self.limit, path="limit")
        check_count("number of neighbours", self.expand, path="expand")
        check_threshold(self.threshold)
        check_mode(self.mode)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What was remembered."""

    id: str
    tenant: str
    scope: str
    collection: str
    namespace: str = ""
    key: str | None = None
    content: Any
    metadata: dict[str, Any]
    created_at: datetime
    expires_at: datetime | None = None
    origin: Origin = Origin()
    sequence: int = 0


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """One entry that a recall found, with its score from 0 to 1 and why."""

    content: Any
    metadata: dict[str, Any]
    score: float
    why: Why
    id: str
    namespace: str
    created_at: datetime
    expires_at: datetime | None = None
    before: list[Entry] = []
    after: list[Entry] = []


class Recalled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a recall found, best first; `next` where some of it did not fit into this answer."""

    results: list[Match]
    count: int
    """How many are in this answer."""
    next: str | None = None


class Entries(msgspec.Struct, frozen=True, kw_only=True):
    """A page of entries, in the order they came."""

    entries: list[Entry]
    next: str | None = None


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """How many entries went with a collection, in all scopes of the tenant."""

    entries: int


class Collections(msgspec.Struct, frozen=True, kw_only=True):
    """A page of collections, by name."""

    collections: list[Holding]
    next: str | None = None


def entry_out(entry: kept.Entry) -> Entry:
    """Return an entry as it travels."""
    return Entry(
        id=entry.id,
        tenant=entry.scope.tenant,
        scope=entry.scope.path,
        collection=entry.collection,
        namespace=entry.namespace,
        key=entry.key,
        content=entry.content,
        metadata=entry.metadata,
        created_at=entry.created_at,
        expires_at=entry.expires_at,
        origin=entry.origin,
        sequence=entry.sequence,
    )


def recalled_out(recalled: found.Recalled) -> Recalled:
    """Return what a recall found as it travels."""
    return Recalled(results=[_match_out(match) for match in recalled.results], count=recalled.count)


def _match_out(match: found.Match) -> Match:
    return Match(
        content=match.content,
        metadata=match.metadata,
        score=match.score,
        why=match.why,
        id=match.id,
        namespace=match.namespace,
        created_at=match.created_at,
        expires_at=match.expires_at,
        before=[entry_out(entry) for entry in match.before],
        after=[entry_out(entry) for entry in match.after],
    )
