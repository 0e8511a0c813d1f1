"""Definitions: the contract of a key, with its name, slug, scope, time to live, JSON schema and update mode."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, ClassVar, Literal, cast

from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.value import encode

# The kinds of scope that a definition's scope means. `global` follows its owner everywhere; it is not shared.
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
"""What an update does to a record: replace it, or change the fields that it names."""
MODES: tuple[Mode, ...] = ("replace", "merge")
MODE_WORD = "x-mode"
"""The keyword of a schema that says its mode, so that the mode is exported and copied with the schema."""


LONGEST_SLUG = 255
_SLUG = re.compile(r"[a-z0-9_]+", re.ASCII)


def is_slug(text: object) -> bool:
    """Return whether this can be the slug of a definition: lower-case letters a-z, digits and underscores."""
    return isinstance(text, str) and len(text) <= LONGEST_SLUG and _SLUG.fullmatch(text) is not None


class Definition(Result, frozen=True, kw_only=True):
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
        """Return whether a fact in this scope, keyed by the slug, is a record of this definition."""
        return self.tenant == scope.tenant and scope.shape == SHAPES[self.scope]


OnStale = Literal["refuse", "keep"]
"""What a changed schema does with records that do not fit it: refuse the change, or keep them as they are."""
ON_STALE: tuple[OnStale, ...] = ("refuse", "keep")


class StaleRecord(Result, frozen=True, kw_only=True):
    """A record that does not fit a schema: where it is, and its first error."""

    scope: str
    key: str
    version: int
    path: str
    """The place in the value, such as `$.cone`."""
    message: str
    already: bool = False
    """Whether it does not fit the present schema either."""


class Migration(Result, frozen=True, kw_only=True):
    """What a migration makes of one record: its new value, or why there is none."""

    scope: str
    key: str
    before: Any
    after: Any = None
    error: str | None = None


class SchemaCheck(Result, frozen=True, kw_only=True):
    """How the records of a definition fit its schema, or one that it could get; nothing was changed."""

    _list: ClassVar[str] = "records"
    _columns: ClassVar[tuple[str, ...]] = ("scope", "path", "message")

    definition: str
    """The id of the definition."""
    slug: str
    checked: int
    """The number of records that were compared."""
    count: int
    """The number of records that do not fit."""
    already: int = 0
    """Of those, the number that do not fit the present schema either."""
    records: tuple[StaleRecord, ...] = ()
    """The first of them, by scope; none for a caller who may not read them."""
    migrations: tuple[Migration, ...] = ()
    """What a migration would make of the first of them."""

    @property
    def breaks(self) -> int:
        """The number of records that fit now and no longer would."""
        return self.count - self.already


def plain_text(value: Any, schema: Any = None, descriptions: list[str] | None = None) -> str:
    """Return a JSON value as text, with the titles of a schema as labels; its descriptions are added to a list.

    >>> plain_text({"preferred_name": "Ada", "tags": ["a", "b"]}, {"properties": {"tags": {"title": "Labels"}}})
    'preferred name: Ada; Labels: a, b'
    """
    about = _map(schema)
    if isinstance(value, dict):
        fields: list[str] = []
        properties = _map(about.get("properties"))
        for name, inner in _map(value).items():
            field = _map(properties.get(name))
            if descriptions is not None and isinstance(field.get("description"), str):
                descriptions.append(field["description"])
            if inner is not None:
                label = field.get("title") or name.replace("_", " ")
                fields.append(f"{label}: {plain_text(inner, field, descriptions)}")
        return "; ".join(fields)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return ", ".join([plain_text(one, about.get("items"), descriptions) for one in items])
    return value if isinstance(value, str) else encode(value).decode()


def _map(value: Any) -> dict[str, Any]:
    """Return a value that is a JSON object; an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
