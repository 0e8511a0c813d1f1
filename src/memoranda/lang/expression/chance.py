"""A run in, what no expression can compute out: chances and new ids, which the run writes down for a replay."""

from __future__ import annotations

import hashlib
import uuid

from memoranda.lang.expression.dialect import Run

_BITS = 53
"""As many as a float keeps."""


def chance(run: Run) -> float:
    """Return a number from 0 up to, and without, 1."""
    return run.draw("random", lambda: (int.from_bytes(_digest(run, "random")[:8]) >> 64 - _BITS) / 2**_BITS)


def new_uuid(run: Run) -> str:
    """Return an identifier as RFC 9562 writes one that is made of chance."""
    return run.draw("uuid", lambda: str(uuid.UUID(bytes=_digest(run, "uuid")[:16], version=4)))


def _digest(run: Run, kind: str) -> bytes:
    # Ids are what tests replace, so chance comes from there too.
    return hashlib.sha256(run.ids.new(kind).encode("utf-8", "replace")).digest()
