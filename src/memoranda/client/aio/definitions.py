"""The contracts of keys through the server: `client.definitions`."""

from __future__ import annotations

import builtins
from typing import Any

from memoranda.client.aio.connection import AsyncConnection
from memoranda.client.aio.pages import collect
from memoranda.client.calls import Call, body, given, path, seconds
from memoranda.model.definition import Mode
from memoranda.model.duration import Duration
from memoranda.wire.definitions import Definition, Definitions, Records
from memoranda.wire.facts import Fact


class AsyncDefinitionCalls:
    """The definitions of the tenant, by id or slug."""

    def __init__(self, connection: AsyncConnection) -> None:
        """Stand on a connection; `client.definitions` makes these."""
        self._connection = connection

    async def create(
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
        """Create a definition and return it."""
        asked = given(ttl=seconds(ttl), mode=mode, id=id)
        call = Call(
            method="POST",
            path=path("memory", "definitions"),
            body=body(name=name, slug=slug, schema=schema, scope=scope, **asked),
        )
        return await self._connection.fetch(call, Definition)

    async def list(self, *, limit: int | None = None) -> builtins.list[Definition]:
        """Return all definitions, oldest first."""
        place = path("memory", "definitions")
        return await collect(self._connection, place, {}, Definitions, lambda page: page.definitions, limit)

    async def get(self, definition: str) -> Definition:
        """Return the definition of this id or slug; raise NotFound where there is none."""
        return await self._connection.fetch(Call(method="GET", path=_path(definition), repeatable=True), Definition)

    async def update(
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
        asked = given(name=name, slug=slug, schema=schema, scope=scope, mode=mode)
        if ttl is not None or clear_ttl:
            asked["ttl"] = seconds(ttl)
        call = Call(method="PATCH", path=_path(definition), body=body(**asked))
        return await self._connection.fetch(call, Definition)

    async def delete(self, definition: str) -> None:
        """Delete a definition and its records; raise NotFound where there is none."""
        await self._connection.send(Call(method="DELETE", path=_path(definition)))

    async def records(self, definition: str, *, limit: int | None = None) -> builtins.list[Fact]:
        """Return the active records of a definition, whoever owns them."""
        place = f"{_path(definition)}/records"
        return await collect(self._connection, place, {}, Records, lambda page: page.records, limit)


def _path(definition: str) -> str:
    return path("memory", "definitions", definition)
