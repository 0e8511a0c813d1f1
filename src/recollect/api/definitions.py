"""The contracts of keys, as Python calls them."""

from __future__ import annotations

from typing import Any

from recollect.engine.definitions import select_definitions
from recollect.errors import UsageError
from recollect.governance.gate import Caller, Gate
from recollect.model.definition import Definition, Mode
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
        mode: Mode | None = None,
        id: str | None = None,
    ) -> Definition:
        """Create a definition. Objects are strict unless the schema says `additionalProperties`.

        `mode` is what an update of a workflow does to a record: `replace` it, or `merge` the fields that are given into
        it. Without one, the schema's own `x-mode` counts. `id` is a UUID that the files of workflows name it by; one is
        made where none is given.

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
                mode=mode,
                id=id,
            ),
            self._caller,
        )

    def list(self) -> list[Definition]:
        """Return all definitions, oldest first."""
        return self._gate.perform(ReadDefinitions(scope=self._shared), self._caller)

    def get(self, name: str) -> Definition:
        """Return the definition of this id or slug."""
        return select_definitions(self.list(), (name,))[0]

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
        mode: Mode | None = None,
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
                mode=mode,
            ),
            self._caller,
        )

    def delete(self, *definitions: str) -> int:
        """Delete definitions and their records, all or nothing; return how many records went with them."""
        if not definitions:
            raise UsageError("no definition is named", hint="Name those to delete, by slug or id")
        first, *others = definitions
        effect = DeleteDefinition(scope=self._shared, definition=first, others=tuple(others))
        return self._gate.perform(effect, self._caller)

    def records(self, definition: str, *, limit: int | None = None) -> list[Fact]:
        """Return the active records of a definition, whoever owns them."""
        check_count("limit", limit)
        effect = ReadRecords(scope=self._shared, definition=definition, limit=limit)
        return self._gate.perform(effect, self._caller)
