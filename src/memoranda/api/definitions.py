"""The contracts of keys, as Python calls them."""

from __future__ import annotations

from typing import Any

from memoranda.api.desk import Desk
from memoranda.engine.definitions import select_definitions
from memoranda.errors import UsageError
from memoranda.model.definition import Definition, Mode
from memoranda.model.duration import Duration, parse_duration
from memoranda.model.effect import (
    CreateDefinition,
    DeleteDefinition,
    ReadDefinitions,
    ReadRecords,
    UpdateDefinition,
)
from memoranda.model.fact import Fact
from memoranda.model.limits import check_count


class Definitions(Desk):
    """Create, find, change and delete definitions, and read their records.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     schema = {"type": "object", "properties": {"cone": {"type": "integer"}}}
    ...     kiln = memory.definitions.create(name="Kiln", slug="kiln", schema=schema, ttl="30d")
    ...     try:
    ...         memory.scope(user="ada").set("kiln", {"cone": "six"})
    ...     except memoranda.SchemaViolation as violation:
    ...         print(violation.path)
    $.cone
    """

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

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     profile = memory.definitions.create(
        ...         name="Customer Profile",
        ...         slug="customer_profile",
        ...         schema={"type": "object", "properties": {"language": {"type": "string"}}},
        ...     )
        ...     memory.scope(user="ada").set("customer_profile", {"language": "en"}).version
        1
        """
        return self._perform(
            CreateDefinition(
                scope=self._shared,
                title=name,
                slug=slug,
                scope_kind=scope,
                ttl=None if ttl is None else parse_duration(ttl),
                schema=schema,
                mode=mode,
                id=id,
            )
        )

    def list(self) -> list[Definition]:
        """Return all definitions, oldest first.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     schema = {"type": "object", "properties": {"cone": {"type": "integer"}}}
        ...     kiln = memory.definitions.create(name="Kiln", slug="kiln", schema=schema, ttl="30d")
        ...     [one.slug for one in memory.definitions.list()]
        ['kiln']
        """
        return self._perform(ReadDefinitions(scope=self._shared))

    def get(self, definition: str) -> Definition:
        """Return the definition of this id or slug.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     schema = {"type": "object", "properties": {"cone": {"type": "integer"}}}
        ...     kiln = memory.definitions.create(name="Kiln", slug="kiln", schema=schema, ttl="30d")
        ...     memory.definitions.get("kiln").ttl, memory.definitions.get(kiln.id).slug
        (2592000, 'kiln')
        """
        return select_definitions(self.list(), (definition,))[0]

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
        """Change what is given; `clear_ttl` makes future records permanent. Records follow a changed slug.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     schema = {"type": "object", "properties": {"cone": {"type": "integer"}}}
        ...     kiln = memory.definitions.create(name="Kiln", slug="kiln", schema=schema, ttl="30d")
        ...     fact = memory.scope(user="ada").set("kiln", {"cone": 6})
        ...     moved = memory.definitions.update("kiln", slug="oven", clear_ttl=True)
        ...     moved.ttl, memory.scope(user="ada").value("oven")
        (None, {'cone': 6})
        """
        return self._perform(
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
            )
        )

    def delete(self, *definitions: str) -> int:
        """Delete definitions and their records, all or nothing; return how many records went with them.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     schema = {"type": "object", "properties": {"cone": {"type": "integer"}}}
        ...     kiln = memory.definitions.create(name="Kiln", slug="kiln", schema=schema, ttl="30d")
        ...     fact = memory.scope(user="ada").set("kiln", {"cone": 6})
        ...     memory.definitions.delete("kiln")
        1
        """
        if not definitions:
            raise UsageError("no definition is named", hint="Name those to delete, by slug or id")
        first, *others = definitions
        effect = DeleteDefinition(scope=self._shared, definition=first, others=tuple(others))
        return self._perform(effect)

    def records(
        self, definition: str, *, after: str = "", limit: int | None = None, max_bytes: int | None = None
    ) -> list[Fact]:
        """Return the active records of a definition, whoever owns them, in the order of their scopes.

        `after` is the path of the last scope seen. With `max_bytes` the list ends with the record that exceeds it.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     schema = {"type": "object", "properties": {"cone": {"type": "integer"}}}
        ...     kiln = memory.definitions.create(name="Kiln", slug="kiln", schema=schema, ttl="30d")
        ...     for user in ("ada", "bo"):
        ...         fact = memory.scope(user=user).set("kiln", {"cone": 6})
        ...     [fact.scope.path for fact in memory.definitions.records("kiln")]
        ['user:ada', 'user:bo']
        """
        check_count("limit", limit)
        check_count("number of bytes", max_bytes, least=1)
        effect = ReadRecords(scope=self._shared, definition=definition, after=after, limit=limit, max_bytes=max_bytes)
        return self._perform(effect)
