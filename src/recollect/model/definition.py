"""A definition: the contract of a key. Its name, slug, scope, time to live and JSON schema."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from recollect.model.scope import Scope

# What a definition's scope means as kinds of scope. `global` follows its owner everywhere, it is not shared.
SHAPES: dict[str, tuple[str, ...]] = {
    "global": ("user",),
    "workflow": ("user", "workflow"),
    "thread": ("user", "thread"),
    "run": ("user", "run"),
    "agent": ("user", "agent"),
    "project": ("project",),
    "tree": ("tree",),
    "session": ("session",),
}


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What a record named by its slug must look like, where it belongs and how long it lives."""

    id: str
    tenant: str
    name: str
    slug: str
    scope: str
    ttl: int | None = None
    schema: dict[str, Any]
    created_at: datetime
    updated_at: datetime

    def applies_to(self, scope: Scope) -> bool:
        """Say whether a fact in this scope, keyed by the slug, is a record of this definition."""
        return self.tenant == scope.tenant and scope.shape == SHAPES[self.scope]
