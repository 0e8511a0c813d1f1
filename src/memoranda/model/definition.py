"""Definitions: the contract of a key, with its name, slug, scope, time to live, JSON schema and update mode."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Literal, cast
from urllib.parse import unquote

from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.value import encode

Json = dict[str, Any]

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


def name_key(name: str) -> str:
    """Return what two names have in common that people take for the same: case, spaces and width do not count.

    >>> name_key("Customer  Profile") == name_key(" CUSTOMER profile")
    True
    """
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())


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


def parts_of(schema: Any, root: Json, *, alternatives: bool = False) -> list[Json]:
    """Return a schema, what it refers to inside the root, and what it is put together from by `allOf`, each once.

    With `alternatives`, also the parts of which only some apply to a value.
    """
    if isinstance(schema, dict) and "$ref" not in schema and "allOf" not in schema:
        if not alternatives or _ALTERNATIVES.isdisjoint(cast("Json", schema)):
            return [cast("Json", schema)]
    parts: dict[int, Json] = {}  # by identity: references may lead round in circles
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(cast("Json", node)) in parts:
            continue
        given = cast("Json", node)
        parts[id(given)] = given
        if alternatives:
            listed = [given.get("then"), given.get("else"), *given.get("anyOf", ()), *given.get("oneOf", ())]
            waiting.extend(reversed(listed))
        waiting.extend(reversed(cast("list[Any]", given.get("allOf", []))))
        if isinstance(given.get("$ref"), str):
            waiting.append(resolve_reference(given["$ref"], root))
    return list(parts.values())


_ALTERNATIVES = frozenset(("anyOf", "oneOf", "then", "else"))


def resolve_reference(pointer: str, root: Json) -> Any:
    """Return the part of the schema that `#/$defs/name`, or `#name` with an anchor, points to; None where none is."""
    fragment = unquote(pointer.removeprefix("#"))
    if fragment and not fragment.startswith("/"):
        return _find_anchor(fragment, root)
    return at_pointer(root, fragment)


def _find_anchor(name: str, root: Json) -> Any:
    """Return the part of the schema whose `$anchor` is this name."""
    waiting: list[Any] = [root]
    for node in waiting:  # which grows meanwhile
        if isinstance(node, dict):
            given = cast("Json", node)
            if name in (given.get("$anchor"), given.get("$dynamicAnchor")):
                return given
            waiting.extend(given.values())
        elif isinstance(node, list):
            waiting.extend(cast("list[Any]", node))
    return None


def at_pointer(node: Any, pointer: str) -> Any:
    """Return what a JSON pointer leads to; None where it leads nowhere."""
    for step in steps_of(pointer):
        if isinstance(node, list):
            listed = cast("list[Any]", node)
            node = listed[int(step)] if step.isdecimal() and int(step) < len(listed) else None
        else:
            node = cast("Json", node).get(step) if isinstance(node, dict) else None
    return node


def steps_of(pointer: str) -> list[str]:
    """Return the names and numbers that a JSON pointer goes through."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def properties_of(schema: Any, root: Json) -> Json:
    """Return what any part of a schema says about each property; the first part that names it counts."""
    found: Json = {}
    for part in parts_of(schema, root, alternatives=True):
        properties = part.get("properties")
        for name, below in cast("Json", properties).items() if isinstance(properties, dict) else ():
            found.setdefault(name, below)
    return found


def plain_text(value: Any, schema: Any = None, descriptions: list[str] | None = None) -> str:
    """Return a JSON value as text, with the titles of a schema as labels; its descriptions are added to a list.

    >>> plain_text({"preferred_name": "Ada", "tags": ["a", "b"]}, {"properties": {"tags": {"title": "Labels"}}})
    'preferred name: Ada; Labels: a, b'
    """
    root = cast("Json", schema) if isinstance(schema, dict) else {}
    return _PlainText(root, [] if descriptions is None else descriptions).of(value, root)


class _PlainText:
    """Writes values of one schema, of which each part is looked at once."""

    def __init__(self, root: Json, descriptions: list[str]) -> None:
        self._root = root
        self._descriptions = descriptions
        self._fields: dict[int, dict[str, tuple[Any, str, str]]] = {}
        self._items: dict[int, list[Any]] = {}

    def of(self, value: Any, schema: Any) -> str:
        if isinstance(value, dict):
            return "; ".join(self._lines(cast("Json", value), schema))
        if isinstance(value, list):
            said = self._schemas_of_items(schema)
            listed = enumerate(cast("list[Any]", value))
            return ", ".join([self.of(one, said[min(at, len(said) - 1)]) for at, one in listed])
        return value if isinstance(value, str) else encode(value).decode()

    def _lines(self, fields: Json, schema: Any) -> Iterator[str]:
        known = self._fields.get(id(schema))
        if known is None:
            properties = properties_of(schema, self._root)
            known = self._fields[id(schema)] = {name: (one, *self._about(one)) for name, one in properties.items()}
        for name, inner in fields.items():
            about, title, description = known.get(name, (None, "", ""))
            if description:
                self._descriptions.append(description)
            if inner is not None:
                yield f"{title or name.replace('_', ' ')}: {self.of(inner, about)}"

    def _about(self, schema: Any) -> tuple[str, str]:
        """Return the title and the description of a field: its own, or those of what it refers to."""
        parts = parts_of(schema, self._root)
        found = [[part.get(word) for part in parts] for word in ("title", "description")]
        title, description = (next((one for one in texts if isinstance(one, str) and one), "") for texts in found)
        return title, description

    def _schemas_of_items(self, schema: Any) -> list[Any]:
        """Return what is said about the items of a list: one by one, then about all others."""
        said = self._items.get(id(schema))
        if said is None:
            parts = parts_of(schema, self._root, alternatives=True)
            lists = [part for part in parts if "items" in part or "prefixItems" in part]
            said = [*lists[0].get("prefixItems", ()), lists[0].get("items")] if lists else [None]
            self._items[id(schema)] = said
        return said
