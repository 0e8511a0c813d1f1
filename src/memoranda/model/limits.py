"""Limits on the size of values, entries, batches and indexes."""

from __future__ import annotations

from typing import Any

import msgspec

from memoranda.errors import Hint, UsageError
from memoranda.model.text import quote


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest value, nesting, batch, entry and index that the engine accepts; pass your own to `memoranda.open`.

    >>> import memoranda
    >>> with memoranda.open(":memory:", limits=memoranda.Limits(value_bytes=20)) as memory:
    ...     try:
    ...         memory.scope(user="ada").set("note", "longer than it may be")
    ...     except memoranda.LimitExceeded as refusal:
    ...         print(refusal.limit, refusal.actual)
    20 23
    """

    value_bytes: int = 1_048_576
    """Bytes of one value as JSON."""
    depth: int = 64
    """Lists and objects inside one another."""
    batch: int = 1_000
    """Writes in one batch."""
    content_bytes: int = 65_536
    """Bytes of one entry's content as JSON."""
    metadata_bytes: int = 16_384
    """Bytes of one entry's metadata as JSON."""
    recall: int = 1_000
    """Matches of one recall."""
    index_bytes: int = 1_073_741_824
    """Bytes of search indexes in memory; the least recently used one is dropped first."""
    shelf_bytes: int | None = None
    """Bytes, as estimated, of the largest index of a collection of a scope that PostgreSQL does not keep in parts; None
    means `index_bytes`. Other stores keep none."""
    cache_bytes: int = 17_179_869_184
    """Bytes of search indexes in the cache folder of the host; the least recently used one is removed first."""
    schema_bytes: int = 262_144
    """Bytes of one definition's schema."""
    migration: int = 10_000
    """Records that are migrated together with a change of their schema, in one transaction."""
    migration_bytes: int = 268_435_456
    """Bytes of their values as JSON, before or after."""
    migration_seconds: float = 30
    """Time that one call may take to make the new values of records."""
    import_bytes: int = 1_073_741_824
    """Bytes of one import."""


def larger_limit(name: str) -> Hint:
    """Return the hint to open the memory with a larger limit."""
    return Hint("python", f"Open with a larger Limits({name}=…)")


_MOST = 2**63 - 1
"""The largest integer of every store."""


def check_count(what: str, count: Any, *, least: int = 0, **details: Any) -> None:
    """Raise UsageError unless a limit or position is None or a whole number of at least `least`."""
    if count is not None and (type(count) is not int or not least <= count <= _MOST):
        hint = f"Pass a whole number from {least} on, of at most 63 bits, or leave it out"
        raise UsageError(f"{quote(count)} is not a {what}", hint=hint, value=count, **details)
