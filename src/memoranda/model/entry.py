"""An entry: a text or JSON content that `remember` writes and `recall` finds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from memoranda.model.fact import Origin
from memoranda.model.scope import Scope


class Entry(msgspec.Struct, frozen=True, kw_only=True):
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
    """When it was forgotten or replaced; None while it stands."""
    origin: Origin = Origin()
    sequence: int = 0

    def stands_at(self, now: datetime) -> bool:
        """Say whether the entry stands now: neither ended nor expired.

        When it was stored does not count: what can be read was stored, even if a clock that was set back says not yet.
        """
        return self.ended_at is None and (self.expires_at is None or now < self.expires_at)

    def active_at(self, moment: datetime) -> bool:
        """Say whether the entry stood at an earlier moment: stored by then, not ended, not expired."""
        return (
            self.created_at <= moment
            and (self.ended_at is None or moment < self.ended_at)
            and (self.expires_at is None or moment < self.expires_at)
        )


class NewEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry as it is added, with what was made of it; what all that are added together share is told beside it."""

    id: str
    key: str | None
    payload: bytes
    """The content as JSON."""
    metadata: bytes
    """The metadata as JSON."""
    digest: bytes
    """What its duplicates are found by."""
    analysis: bytes
    """Its words, as `Indexed` has them."""
    vectors: tuple[bytes, ...] = ()
    """Its vectors, one for each of the embedders that are named with it."""


class Shelf(msgspec.Struct, frozen=True):
    """What one recall looks through: the entries of a scope in a collection, of one namespace or of all (None)."""

    scope: Scope
    collection: str
    namespace: str | None = None


class ShelfState(msgspec.Struct, frozen=True, gc=False):
    """What tells one state of a shelf from another without reading it.

    `newest` is the highest sequence ever given there; `removed` is another number after each entry that ended or
    was removed, never the same again. Both 0 means that nothing was ever there.
    """

    newest: int = 0
    removed: int = 0


class Indexed(msgspec.Struct, frozen=True, gc=False):
    """What an index needs of one entry. It is all derived from the entry, and kept with it so that nobody waits."""

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
