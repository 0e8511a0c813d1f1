"""The contracts of keys, as Python calls them."""

from __future__ import annotations

from typing import Any

from recollect.errors import NotFound
from recollect.governance.gate import Caller, Gate
from recollect.model.definition import Definition
from recollect.model.duration import Duration, parse_duration
from recollect.model.effect import (
    CreateDefinition,
    DeleteDefinition,
    ReadDefinitions,
    ReadRecords,
    UpdateDefinition,
)
from recollect.model.fact import Fact
from recollect.model.limits import check_count
from recollect.model.scope import Scope
from recollect.model.text import quote


class Definitions:
    """Create, find, change and delete definitions, and read their records."""

    def __init__(self, gate: Gate, caller: Caller, shared: Scope) -> None:
        """Stand in a tenant; `memory.definitions` makes these."""
        self._gate = gate
        self._caller = caller
        self._shared = shared

    def create(
        self,
        *,
        name: str,
        slug: str,
        schema: dict[str, Any],
        scope: str = "global",
        ttl: Duration | None = None,
    ) -> Definition:
        """Create a definition. Objects are strict unless the schema says `additionalProperties`.

        >>> import recollect
        >>> with recollect.open(":memory:") as memory:
        ...     profile = memory.definitions.create(
        ...         name="Customer Profile",
        ...         slug="customer_profile",
        ...         schema={"type": "object", "properties": {"language": {"type": "string"}}},
        ...     )
        ...     memory.scope(user="ada").set("customer_profile", {"language": "en"}).version
        1
        """
        return self._gate.perform(
            CreateDefinition(
                scope=self._shared,
                title=name,
                slug=slug,
                scope_kind=scope,
                ttl=None if ttl is None else parse_duration(ttl),
                schema=schema,
            ),
            self._caller,
        )

    def list(self) -> list[Definition]:
        """Return all definitions, oldest first."""
        return self._gate.perform(ReadDefinitions(scope=self._shared), self._caller)

    def get(self, name: str) -> Definition:
        """Return the definition of this id or slug."""
        for definition in self.list():
            if name in (definition.id, definition.slug):
                return definition
        raise NotFound(f"there is no definition {quote(name)}", hint="List them with memory.definitions.list()")

    def update(
        self,
        definition: str,
        *,
        name: str | None = None,
        slug: str | None = None,
        schema: dict[str, Any] | None = None,
        scope: str | None = None,
        ttl: Duration | None = None,
        clear_ttl: bool = False,
    ) -> Definition:
        """Change what is given; `clear_ttl` makes future records permanent. Records follow a changed slug."""
        return self._gate.perform(
            UpdateDefinition(
                scope=self._shared,
                definition=definition,
                title=name,
                slug=slug,
                scope_kind=scope,
                ttl=None if ttl is None else parse_duration(ttl),
                clear_ttl=clear_ttl,
                schema=schema,
            ),
            self._caller,
        )

    def delete(self, definition: str) -> int:
        """Delete a definition and its records; return how many records went with it."""
        return self._gate.perform(DeleteDefinition(scope=self._shared, definition=definition), self._caller)

    def records(self, definition: str, *, limit: int | None = None) -> list[Fact]:
        """Return the active records of a definition, whoever owns them."""
        check_count("limit", limit)
        effect = ReadRecords(scope=self._shared, definition=definition, limit=limit)
        return self._gate.perform(effect, self._caller)
