"""One source of identity: a kind of thing in, an id that is never used again out."""

from __future__ import annotations

import os
import time
import uuid
from typing import Protocol

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class Ids(Protocol):
    """Anything that makes ids; tests pass one that counts."""

    def new(self, kind: str) -> str:
        """Return an id for a new thing of this kind, different from every other."""
        ...


class SystemIds:
    """Random ids that sort by the time they were made; definitions get UUIDs, as workflow files write them."""

    def new(self, kind: str) -> str:
        """Return `fact_06f4…` for a fact, a UUID for a definition."""
        if kind == "definition":
            return str(uuid.uuid4())
        number = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big")
        return f"{kind}_" + "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -5, -5))
