"""Add entries to a store without the engine."""

from __future__ import annotations

from typing import Any

from memoranda.model.entry import Entry, NewEntry, Shelf
from memoranda.model.value import encode


def add_entry(
    rows: Any, entry: Entry, payload: bytes = b"0", digest: bytes = b"d", analysis: bytes = b"", **vectors: bytes
) -> int:
    """Add one entry with its vectors, by embedder; return its sequence."""
    vectors_in_order = tuple(vectors.values())
    new = NewEntry(entry.id, entry.key, payload, encode(entry.metadata), digest, analysis, vectors_in_order)
    (sequence,) = rows.add_entries(
        Shelf(entry.scope, entry.collection, entry.namespace),
        [new],
        list(vectors),
        created_at=entry.created_at,
        expires_at=entry.expires_at,
        origin=entry.origin,
    )
    return sequence
