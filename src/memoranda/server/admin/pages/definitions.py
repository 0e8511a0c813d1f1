"""Definitions and their records: what a key may hold, and who has what there."""

from __future__ import annotations

from typing import Any, cast

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from memoranda.errors import AlreadyExists, Conflict, InvalidDuration, MemorandaError, UsageError
from memoranda.model.definition import MODES, SHAPES, Definition, Mode
from memoranda.model.effect import DeleteDefinition, ReadRecords
from memoranda.model.fact import Fact
from memoranda.server.admin.desk import PAGE_BYTES, Desk
from memoranda.server.admin.forms import Fault, fault_of, read_json, status_of
from memoranda.server.admin.rendering import address, as_json, redirect
from memoranda.server.paging import decode_number, page_from

PAGE = 50
_FIELDS = ("name", "slug", "scope", "ttl", "mode", "schema")
_EMPTY = {"type": "object", "properties": {"example": {"type": "string", "description": "What belongs here."}}}


@get("/definitions", sync_to_thread=True)
def list_definitions(desk: NamedDependency[Desk], search: FromQuery[str] = "", done: FromQuery[str] = "") -> Any:
    """Return all definitions, or those whose name or slug holds a text."""
    wanted = search.strip().casefold()
    every = desk.memory.definitions.list()
    found = [one for one in every if wanted in one.name.casefold() or wanted in one.slug]
    return desk.show(
        "definitions.html",
        section="definitions",
        done=done,
        definitions=found,
        total=len(every),
        search=search,
        writable=desk.may(_change(desk)),
    )


@get("/definitions/new", sync_to_thread=True)
def begin_definition(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Return an empty form."""
    desk.ensure(_change(desk))
    values = {"name": "", "slug": "", "scope": "global", "ttl": "", "mode": "replace", "schema": as_json(_EMPTY)}
    return _form(desk, None, values)


@post("/definitions/new", sync_to_thread=True, status_code=200)
def create_definition(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Create a definition from a form, or show what is wrong with it."""
    values = _values(desk)
    try:
        created = desk.memory.definitions.create(
            name=values["name"],
            slug=values["slug"],
            scope=values["scope"],
            ttl=_ttl(values["ttl"]),
            mode=_mode(values["mode"]),
            schema=_schema(values["schema"]),
        )
    except (UsageError, AlreadyExists) as error:
        return _form(desk, None, values, error)
    return redirect(address(f"/definitions/{created.id}", done="saved"))


@get("/definitions/{id:str}", sync_to_thread=True)
def see_definition(
    desk: NamedDependency[Desk],
    id: FromPath[str],
    owner: FromQuery[str] = "",
    after: FromQuery[str | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Return a definition with a page of its records, of everybody or of one owner."""
    definition = desk.memory.definitions.get(id)
    listable = desk.may(ReadRecords(scope=desk.shared, definition=definition.id))
    every = desk.memory.definitions.records(definition.id) if listable else []
    # The owner comes first in a scope; a thread or a workflow may have the id of somebody else.
    found = [record for record in every if not owner or owner == record.scope.parts[0][1]]
    begin = decode_number(after)
    records, onwards = page_from(found, begin, PAGE, max_bytes=PAGE_BYTES)
    return desk.show(
        "definition.html",
        section="definitions",
        done=done,
        definition=definition,
        records=records,
        total=len(found),
        begin=begin,
        onwards=onwards,
        owner=owner,
        listable=listable,
        writable=desk.may(_change(desk)),
    )


@get("/definitions/{id:str}/edit", sync_to_thread=True)
def edit_definition(desk: NamedDependency[Desk], id: FromPath[str]) -> Response[bytes]:
    """Return the form of a definition."""
    desk.ensure(_change(desk))
    definition = desk.memory.definitions.get(id)
    values = {
        "name": definition.name,
        "slug": definition.slug,
        "scope": definition.scope,
        "ttl": "" if definition.ttl is None else str(definition.ttl),
        "mode": definition.mode,
        "schema": as_json(definition.schema),
    }
    return _form(desk, definition, values)


@post("/definitions/{id:str}/edit", sync_to_thread=True, status_code=200)
def change_definition(desk: NamedDependency[Desk], id: FromPath[str]) -> Response[bytes]:
    """Change a definition as a form says, unless somebody else has changed it since the form was opened."""
    definition = desk.memory.definitions.get(id)
    values = _values(desk)
    try:
        if desk.field("seen") != definition.updated_at.isoformat():
            raise Conflict(
                "somebody else has changed this definition meanwhile",
                hint="Compare it with what stands here: saving again writes this over it",
            )
        ttl = _ttl(values["ttl"])
        desk.memory.definitions.update(
            definition.id,
            name=values["name"],
            slug=values["slug"],
            scope=values["scope"],
            ttl=ttl,
            clear_ttl=ttl is None,
            mode=_mode(values["mode"]),
            schema=_schema(values["schema"]),
        )
    except (UsageError, AlreadyExists, Conflict) as error:
        return _form(desk, definition, values, error)
    return redirect(address(f"/definitions/{definition.id}", done="saved"))


@get("/definitions/{id:str}/delete", sync_to_thread=True)
def confirm_deletion(desk: NamedDependency[Desk], id: FromPath[str]) -> Response[bytes]:
    """Return what goes with a definition, and ask for its slug."""
    desk.ensure(_change(desk))
    return _confirmation(desk, desk.memory.definitions.get(id), None)


@post("/definitions/{id:str}/delete", sync_to_thread=True, status_code=200)
def delete_definition(desk: NamedDependency[Desk], id: FromPath[str]) -> Response[bytes]:
    """Delete a definition and its records, once its slug was typed."""
    definition = desk.memory.definitions.get(id)
    if desk.field("typed").strip() != definition.slug:
        return _confirmation(desk, definition, Fault(field="typed", message=f"Type {definition.slug} to delete it"))
    desk.memory.definitions.delete(definition.id)
    return redirect(address("/definitions", done="deleted"))


def definition_of(desk: Desk, fact: Fact) -> Definition | None:
    """Return the definition that a fact is a record of, None for other facts."""
    known = desk.memory.definitions.list()
    return next((one for one in known if one.slug == fact.key and one.applies_to(fact.scope)), None)


def _form(
    desk: Desk, definition: Definition | None, values: dict[str, str], error: MemorandaError | None = None
) -> Response[bytes]:
    named = "ttl" if isinstance(error, InvalidDuration) else "schema"
    return desk.show(
        "definition_form.html",
        section="definitions",
        status=200 if error is None else status_of(error),
        definition=definition,
        values=values,
        fault=None if error is None else fault_of(error, field=named, fields=_FIELDS),
        conflict=isinstance(error, Conflict),
        scopes=tuple(SHAPES),
        modes=MODES,
    )


def _confirmation(desk: Desk, definition: Definition, fault: Fault | None) -> Response[bytes]:
    return desk.show(
        "definition_delete.html",
        section="definitions",
        status=200 if fault is None else 422,
        definition=definition,
        records=desk.memory.definitions.records(definition.id),
        fault=fault,
    )


def _change(desk: Desk) -> DeleteDefinition:
    """Return a change to definitions, for asking whether there may be one: one right is good for all of them."""
    return DeleteDefinition(scope=desk.shared, definition="")


def _values(desk: Desk) -> dict[str, str]:
    return {name: desk.field(name) for name in _FIELDS}


def _ttl(text: str) -> str | int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else text or None


def _mode(text: str) -> Mode:
    return cast("Mode", text)  # what is none is refused by the engine


def _schema(text: str) -> dict[str, Any]:
    schema = read_json(text, "schema")
    if not isinstance(schema, dict):
        raise UsageError("a schema is a JSON object", hint='Begin with {"type": "object"}', field="schema", path="$")
    return schema  # pyright: ignore[reportUnknownVariableType]  # JSON objects have texts as keys


handlers = [
    list_definitions,
    begin_definition,
    create_definition,
    see_definition,
    edit_definition,
    change_definition,
    confirm_deletion,
    delete_definition,
]
