"""One source of identity: a kind of thing in, an id that is never used again out."""

from __future__ import annotations

import os
import time
import uuid
from typing import Protocol


class Ids(Protocol):
    """Anything that makes ids; tests pass one that counts."""

    def new(self, kind: str) -> str:
        """Return an id for a new thing of this kind, different from every other."""
        ...


class SystemIds:
    """Random ids that sort by the time they were made; definitions get UUIDs, as workflow files write them."""

    def new(self, kind: str) -> str:
        """Return `fact_019a8c…` for a fact, a UUID for a definition."""
        if kind == "definition":
            return str(uuid.uuid4())
        return f"{kind}_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"
