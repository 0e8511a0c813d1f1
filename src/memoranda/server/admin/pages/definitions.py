"""Definitions and their records."""

from __future__ import annotations

from typing import Any, cast

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from memoranda.engine.definitions import DeleteDefinition, ReadRecords
from memoranda.errors import AlreadyExists, Conflict, InvalidDuration, MemorandaError, StaleRecords, UsageError
from memoranda.model.definition import MODES, SHAPES, Definition, Mode, SchemaCheck
from memoranda.model.fact import Fact
from memoranda.server.admin.context import PAGE_BYTES, FieldError, PageContext, field_error, read_json
from memoranda.server.admin.html import address, as_json, redirect
from memoranda.server.pagination import decode_number, page_from

PAGE = 50
_FIELDS = ("name", "slug", "scope", "ttl", "mode", "schema")
_EMPTY = {"type": "object", "properties": {"example": {"type": "string", "description": "What belongs here."}}}


@get("/definitions", sync_to_thread=True)
def list_definitions(
    context: NamedDependency[PageContext], search: FromQuery[str] = "", done: FromQuery[str] = ""
) -> Any:
    """Show all definitions, or those whose name or slug contains a text."""
    wanted = search.strip().casefold()
    every = context.memory.definitions.list()
    found = [one for one in every if wanted in one.name.casefold() or wanted in one.slug]
    return context.show(
        "definitions.html",
        section="definitions",
        done=done,
        definitions=found,
        total=len(every),
        search=search,
        writable=context.may(_change(context)),
    )


@get("/definitions/new", sync_to_thread=True)
def begin_definition(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Show an empty form."""
    context.ensure(_change(context))
    values = {"name": "", "slug": "", "scope": "global", "ttl": "", "mode": "replace", "schema": as_json(_EMPTY)}
    return _form(context, None, values)


@post("/definitions/new", sync_to_thread=True, status_code=200)
def create_definition(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Create a definition from the form, or show its errors."""
    values = _values(context)
    try:
        created = context.memory.definitions.create(
            name=values["name"],
            slug=values["slug"],
            scope=values["scope"],
            ttl=_ttl(values["ttl"]),
            mode=_mode(values["mode"]),
            schema=_schema(values["schema"]),
        )
    except (UsageError, AlreadyExists) as error:
        return _form(context, None, values, error)
    return redirect(address(f"/definitions/{created.id}", done="saved"))


@get("/definitions/{id:str}", sync_to_thread=True)
def see_definition(
    context: NamedDependency[PageContext],
    id: FromPath[str],
    owner: FromQuery[str] = "",
    after: FromQuery[str | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Show a definition with a page of its records, of all owners or of one."""
    definition = context.memory.definitions.get(id)
    listable = context.may(ReadRecords(scope=context.shared, definition=definition.id))
    every = context.memory.definitions.records(definition.id) if listable else []
    # The owner is the first part of a scope; a thread or workflow may have the same id as another user.
    found = [record for record in every if not owner or owner == record.scope.parts[0][1]]
    begin = decode_number(after)
    records, onwards = page_from(found, begin, PAGE, max_bytes=PAGE_BYTES)
    return context.show(
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
        writable=context.may(_change(context)),
    )


@get("/definitions/{id:str}/edit", sync_to_thread=True)
def edit_definition(context: NamedDependency[PageContext], id: FromPath[str]) -> Response[bytes]:
    """Show the form of a definition."""
    context.ensure(_change(context))
    definition = context.memory.definitions.get(id)
    values = {
        "name": definition.name,
        "slug": definition.slug,
        "scope": definition.scope,
        "ttl": "" if definition.ttl is None else str(definition.ttl),
        "mode": definition.mode,
        "schema": as_json(definition.schema),
        "stale": "refuse",
        "migrate": "",
    }
    return _form(context, definition, values)


@post("/definitions/{id:str}/edit", sync_to_thread=True, status_code=200)
def change_definition(context: NamedDependency[PageContext], id: FromPath[str]) -> Response[bytes]:
    """Change a definition unless it was changed since the form was loaded, or records would no longer fit."""
    from memoranda.workflow import migration  # which loads the expression language when it is first used

    definition = context.memory.definitions.get(id)
    values = {**_values(context), "stale": context.field("stale", "refuse"), "migrate": context.field("migrate", "")}
    changes: dict[str, Any] = {}
    try:
        if context.field("seen") != definition.updated_at.isoformat():
            raise Conflict(
                "this definition was changed by someone else in the meantime",
                hint="Compare it with your version: saving again overwrites it",
            )
        ttl = _ttl(values["ttl"])
        changes: dict[str, Any] = {
            "name": values["name"],
            "slug": values["slug"],
            "scope": values["scope"],
            "ttl": ttl,
            "clear_ttl": ttl is None,
            "mode": _mode(values["mode"]),
            "schema": _schema(values["schema"]),
            "stale": values["stale"],
            "migrate": migration(values["migrate"]) if values["migrate"].strip() else None,
        }
        if context.field("check", ""):
            check = context.memory.definitions.update(definition.id, **changes, check=True)
            return _form(context, definition, values, check=check)
        context.memory.definitions.update(definition.id, **changes)
    except StaleRecords as error:
        check = context.memory.definitions.update(definition.id, **changes, check=True)
        return _form(context, definition, values, error, check=check)
    except (UsageError, AlreadyExists, Conflict) as error:
        return _form(context, definition, values, error)
    return redirect(address(f"/definitions/{definition.id}", done="saved"))


@get("/definitions/{id:str}/delete", sync_to_thread=True)
def confirm_deletion(context: NamedDependency[PageContext], id: FromPath[str]) -> Response[bytes]:
    """Show what would be deleted, and ask for the slug."""
    context.ensure(_change(context))
    return _confirmation(context, context.memory.definitions.get(id), None)


@post("/definitions/{id:str}/delete", sync_to_thread=True, status_code=200)
def delete_definition(context: NamedDependency[PageContext], id: FromPath[str]) -> Response[bytes]:
    """Delete a definition and its records after its slug was typed."""
    definition = context.memory.definitions.get(id)
    if context.field("typed").strip() != definition.slug:
        return _confirmation(
            context, definition, FieldError(field="typed", message=f"Type {definition.slug} to delete it")
        )
    context.memory.definitions.delete(definition.id)
    return redirect(address("/definitions", done="deleted"))


def definition_of(context: PageContext, fact: Fact) -> Definition | None:
    """Return the definition that a fact is a record of, or None."""
    known = context.memory.definitions.list()
    return next((one for one in known if one.slug == fact.key and one.applies_to(fact.scope)), None)


def _form(
    context: PageContext,
    definition: Definition | None,
    values: dict[str, str],
    error: MemorandaError | None = None,
    check: SchemaCheck | None = None,
) -> Response[bytes]:
    named = "ttl" if isinstance(error, InvalidDuration) else "schema"
    return context.show(
        "definition_form.html",
        section="definitions",
        definition=definition,
        values=values,
        field_error=None if error is None else field_error(error, field=named, fields=_FIELDS),
        conflict=isinstance(error, Conflict),
        check=check,
        scopes=tuple(SHAPES),
        modes=MODES,
    )


def _confirmation(context: PageContext, definition: Definition, problem: FieldError | None) -> Response[bytes]:
    return context.show(
        "definition_delete.html",
        section="definitions",
        definition=definition,
        records=context.memory.definitions.records(definition.id),
        field_error=problem,
    )


def _change(context: PageContext) -> DeleteDefinition:
    """Return a change to definitions, to ask whether the caller may make any."""
    return DeleteDefinition(scope=context.shared, definition="")


def _values(context: PageContext) -> dict[str, str]:
    return {name: context.field(name) for name in _FIELDS}


def _ttl(text: str) -> str | int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else text or None


def _mode(text: str) -> Mode:
    return cast("Mode", text)  # the engine rejects other values


def _schema(text: str) -> dict[str, Any]:
    schema = read_json(text, "schema")
    if not isinstance(schema, dict):
        raise UsageError(
            "a schema must be a JSON object", hint='Begin with {"type": "object"}', field="schema", path="$"
        )
    return schema  # pyright: ignore[reportUnknownVariableType]  # JSON objects have string keys
