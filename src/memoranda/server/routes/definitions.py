"""`/memory/definitions`: the contracts of keys."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from litestar import Response, Router, delete, get, patch, post
from litestar.params import JSONBody

from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.paging import decode_cursor, page, page_of_list
from memoranda.server.parameters import PAGE, After, Name, PageLimit
from memoranda.server.places import name_of
from memoranda.server.tags import Encoded
from memoranda.wire.definitions import ChangeDefinition, Definition, Definitions, NewDefinition, Records
from memoranda.wire.facts import fact_out

Value = TypeVar("Value")


@get("/", sync_to_thread=True, responses=problems(), summary="List definitions")
def list_definitions(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[Definitions]:
    """Return the tenant's definitions, oldest first."""
    every = request.auth.memory.definitions.list()
    kept, go_on = page_of_list(every, after, limit, lambda one: one.id, max_bytes=request.page_bytes)
    return Encoded(Definitions(definitions=kept, next=go_on))


@post("/", sync_to_thread=True, responses=problems(409, 507), summary="Create a definition")
def create_definition(request: StrictRequest, data: JSONBody[NewDefinition]) -> Definition:
    """Create a definition; from then on the values of its key are held against its schema."""
    return request.auth.memory.definitions.create(
        name=data.name,
        slug=data.slug,
        schema=data.schema,
        scope=data.scope,
        ttl=data.ttl,
        mode=data.mode,
        id=data.id,
    )


@get("/{definition:str}", sync_to_thread=True, responses=problems(404), summary="Get a definition")
def get_definition(request: StrictRequest, definition: Name) -> Definition:
    """Return the definition of this id or slug."""
    return request.auth.memory.definitions.get(name_of(definition))


@patch("/{definition:str}", sync_to_thread=True, responses=problems(404, 409, 507), summary="Change a definition")
def change_definition(request: StrictRequest, definition: Name, data: JSONBody[ChangeDefinition]) -> Definition:
    """Change what is given; records follow a changed slug."""
    return request.auth.memory.definitions.update(
        name_of(definition),
        name=_given(data.name),
        slug=_given(data.slug),
        schema=_given(data.schema),
        scope=_given(data.scope),
        ttl=_given(data.ttl),
        clear_ttl=data.ttl is None,
        mode=_given(data.mode),
    )


@delete("/{definition:str}", sync_to_thread=True, responses=problems(404, 507), summary="Delete a definition")
def delete_definition(request: StrictRequest, definition: Name) -> None:
    """Delete a definition and its records."""
    request.auth.memory.definitions.delete(name_of(definition))


@get("/{definition:str}/records", sync_to_thread=True, responses=problems(404), summary="List the records")
def list_records(
    request: StrictRequest, definition: Name, after: After = None, limit: PageLimit = PAGE
) -> Response[Records]:
    """Return the active records of a definition, whoever owns them."""
    most = request.page_bytes
    # Not by their number: of those before some may have gone since, and others would never be shown.
    found = request.auth.memory.definitions.records(
        name_of(definition), after=decode_cursor(after), limit=limit + 1, max_bytes=most
    )
    kept, go_on = page(found, limit, lambda fact: fact.scope.path, max_bytes=most, out=fact_out)
    return Encoded(Records(records=kept, next=go_on))


def _given(value: Value | msgspec.UnsetType) -> Value | None:
    return None if value is msgspec.UNSET else value


router = Router(
    "/memory/definitions",
    route_handlers=[
        list_definitions,
        create_definition,
        get_definition,
        change_definition,
        delete_definition,
        list_records,
    ],
)
