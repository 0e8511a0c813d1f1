"""A definition: the contract of a key. Its name, slug, scope, time to live, JSON schema and how it is updated."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal

import msgspec

from memoranda.model.scope import Scope

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


Mode = Literal["replace", "merge"]
"""What an update does to a record: it takes the record's place, or changes the fields that it names."""
MODES: tuple[Mode, ...] = ("replace", "merge")
MODE_WORD = "x-mode"
"""Where a schema says its mode: beside the rest of the contract, so that it travels wherever the schema goes."""


LONGEST_SLUG = 255
_SLUG = re.compile(r"[a-z0-9_]+", re.ASCII)


def is_slug(text: object) -> bool:
    """Say whether this can be the slug of a definition: lower-case letters a-z, digits and underscores."""
    return isinstance(text, str) and len(text) <= LONGEST_SLUG and _SLUG.fullmatch(text) is not None


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

    @property
    def mode(self) -> Mode:
        """What an update does to a record."""
        return self.schema.get(MODE_WORD, "replace")

    def applies_to(self, scope: Scope) -> bool:
        """Say whether a fact in this scope, keyed by the slug, is a record of this definition."""
        return self.tenant == scope.tenant and scope.shape == SHAPES[self.scope]
