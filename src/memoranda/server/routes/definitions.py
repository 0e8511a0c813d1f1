"""Routes `/memory/definitions`: schemas for keys, and their records."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from litestar import Response, Router, delete, get, patch, post
from litestar.params import JSONBody

from memoranda.server.pagination import decode_cursor, page, page_of_list
from memoranda.server.requests import PAGE, After, Name, PageLimit, StrictRequest, decode_name
from memoranda.server.responses import JsonResponse, problem_specs
from memoranda.wire.memory import ChangeDefinition, Definition, Definitions, NewDefinition, Records, fact_json

Value = TypeVar("Value")


@get("/", sync_to_thread=True, responses=problem_specs(), summary="List definitions")
def list_definitions(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[Definitions]:
    """Return the tenant's definitions, oldest first."""
    every = request.auth.memory.definitions.list()
    kept, go_on = page_of_list(every, after, limit, lambda one: one.id, max_bytes=request.page_bytes)
    return JsonResponse(Definitions(definitions=kept, next=go_on))


@post("/", sync_to_thread=True, responses=problem_specs(409, 507), summary="Create a definition")
def create_definition(request: StrictRequest, data: JSONBody[NewDefinition]) -> Definition:
    """Create a definition; from now on values of its key are validated against its schema."""
    return request.auth.memory.definitions.create(
        name=data.name,
        slug=data.slug,
        schema=data.schema,
        scope=data.scope,
        ttl=data.ttl,
        mode=data.mode,
        id=data.id,
    )


@get("/{definition:str}", sync_to_thread=True, responses=problem_specs(404), summary="Get a definition")
def get_definition(request: StrictRequest, definition: Name) -> Definition:
    """Return a definition by its id or slug."""
    return request.auth.memory.definitions.get(decode_name(definition))


@patch("/{definition:str}", sync_to_thread=True, responses=problem_specs(404, 409, 507), summary="Change a definition")
def change_definition(request: StrictRequest, definition: Name, data: JSONBody[ChangeDefinition]) -> Definition:
    """Change the given fields; if the slug changes, existing records are renamed."""
    return request.auth.memory.definitions.update(
        decode_name(definition),
        name=_or_none(data.name),
        slug=_or_none(data.slug),
        schema=_or_none(data.schema),
        scope=_or_none(data.scope),
        ttl=_or_none(data.ttl),
        clear_ttl=data.ttl is None,
        mode=_or_none(data.mode),
    )


@delete("/{definition:str}", sync_to_thread=True, responses=problem_specs(404, 507), summary="Delete a definition")
def delete_definition(request: StrictRequest, definition: Name) -> None:
    """Delete a definition and its records."""
    request.auth.memory.definitions.delete(decode_name(definition))


@get("/{definition:str}/records", sync_to_thread=True, responses=problem_specs(404), summary="List records")
def list_records(
    request: StrictRequest, definition: Name, after: After = None, limit: PageLimit = PAGE
) -> Response[Records]:
    """Return the active records of a definition, of all owners."""
    most = request.page_bytes
    # By scope, because an offset would skip records when others are deleted between pages.
    found = request.auth.memory.definitions.records(
        decode_name(definition), after=decode_cursor(after), limit=limit + 1, max_bytes=most
    )
    kept, go_on = page(found, limit, lambda fact: fact.scope.path, max_bytes=most, out=fact_json)
    return JsonResponse(Records(records=kept, next=go_on))


def _or_none(value: Value | msgspec.UnsetType) -> Value | None:
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
