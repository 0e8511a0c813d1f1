"""`memoranda definitions`: the contracts of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memoranda.cli import wording
from memoranda.cli.asking import confirm
from memoranda.cli.command import Desk, command, group
from memoranda.cli.facts import show_facts
from memoranda.cli.options import Limit, Yes
from memoranda.cli.reading import read_schema
from memoranda.errors import UsageError

if TYPE_CHECKING:
    from memoranda import Definition

app = group("definitions", lists=True)

Which = Annotated[str, typer.Argument(metavar="DEFINITION", help="Its slug or id.")]
Name = typer.Option("--name", metavar="TEXT", help="What people call it.")
Slug = typer.Option("--slug", metavar="KEY", help="The key of its records: a-z, 0-9 and _.")
Belongs = typer.Option(
    "--scope",
    metavar="KIND",
    help="Where records belong: global, agent, workflow, thread, run, project, tree or session.",
)
Ttl = typer.Option("--ttl", metavar="TIME", help="How long records live: 24h, 30d…; without it, for good.")
Mode = typer.Option("--mode", help="What a workflow's update does to a record: replace it, or merge into it.")
Id = typer.Option("--id", metavar="UUID", help="The id that workflows name it by; without it, it gets one.")
Schema = typer.Option("--schema", metavar="FILE|JSON|-", help="A JSON schema: a file, the text itself, or stdin.")


@command(
    app,
    "create",
    creates=True,
    example="memoranda definitions create --name Plot --slug plot --schema plot.json",
)
def create(
    desk: Desk,
    name: Annotated[str, Name],
    slug: Annotated[str, Slug],
    schema: Annotated[str, Schema],
    scope: Annotated[str, Belongs] = "global",
    ttl: Annotated[str | None, Ttl] = None,
    mode: Annotated[Literal["replace", "merge"] | None, Mode] = None,
    id: Annotated[str | None, Id] = None,
) -> None:
    """Create a definition. Objects are strict unless the schema says `additionalProperties`."""
    content = read_schema(schema)
    made = desk.memory.definitions.create(name=name, slug=slug, schema=content, scope=scope, ttl=ttl, mode=mode, id=id)
    if desk.out.json:
        return desk.out.document(made)
    desk.out.say(f"{made.slug} is defined as {made.id}")


@command(app, "list", example="memoranda definitions list")
def list_definitions(desk: Desk) -> None:
    """List all definitions, oldest first."""
    found = desk.memory.definitions.list()
    if desk.out.json:
        return desk.out.document(found)
    if not found:
        return desk.out.remark("No definitions.")
    rows = [(one.slug, one.name, one.scope, wording.duration(one.ttl), desk.out.ago(one.updated_at)) for one in found]
    desk.out.table(("slug", "name", "scope", "kept", "updated"), rows, folded=("slug",))


@command(app, "show", example="memoranda definitions show profile")
def show(desk: Desk, definition: Which) -> None:
    """Show one definition with its schema."""
    found = desk.memory.definitions.get(definition)
    if desk.out.json:
        return desk.out.document(found)
    _show(desk, found)


@command(app, "update", example="memoranda definitions update profile --ttl 30d")
def update(
    desk: Desk,
    definition: Which,
    name: Annotated[str | None, Name] = None,
    slug: Annotated[str | None, Slug] = None,
    schema: Annotated[str | None, Schema] = None,
    scope: Annotated[str | None, Belongs] = None,
    ttl: Annotated[str | None, Ttl] = None,
    clear_ttl: Annotated[bool, typer.Option("--clear-ttl", help="Keep future records for good.")] = False,
    mode: Annotated[Literal["replace", "merge"] | None, Mode] = None,
) -> None:
    """Change what is given and leave the rest. Records follow a changed slug."""
    if ttl is not None and clear_ttl:
        raise UsageError("--ttl and --clear-ttl contradict each other", hint="Use one of them")
    if not clear_ttl and not any(given is not None for given in (name, slug, schema, scope, ttl, mode)):
        hint = "Pass --name, --slug, --schema, --scope, --ttl, --clear-ttl or --mode"
        raise UsageError("there is nothing to change", hint=hint)
    content = None if schema is None else read_schema(schema)
    changed = desk.memory.definitions.update(
        definition, name=name, slug=slug, schema=content, scope=scope, ttl=ttl, clear_ttl=clear_ttl, mode=mode
    )
    if desk.out.json:
        return desk.out.document(changed)
    desk.out.say(f"{changed.slug} is changed")


@command(app, "delete", example="memoranda definitions delete profile --yes")
def delete(desk: Desk, definition: Which, yes: Yes = False) -> None:
    """Delete a definition and all its records; asks first."""
    desk.require_database()
    confirm(f"Delete the definition `{definition}` and all its records?", yes=yes)
    records = desk.memory.definitions.delete(definition)
    if desk.out.json:
        return desk.out.document({"tenant": desk.tenant, "definition": definition, "deleted": True, "records": records})
    desk.out.say(f"{definition} is deleted, with {wording.count(records, 'record')}")


@command(app, "records", example="memoranda definitions records profile")
def records(desk: Desk, definition: Which, limit: Limit = None) -> None:
    """List the records of a definition, whoever owns them."""
    found = desk.memory.definitions.records(definition, limit=limit)
    if desk.out.json:
        return desk.out.document(found)
    if not found:
        return desk.out.remark(f"No records of {definition}.")
    show_facts(desk, found, with_scope=True)


def _show(desk: Desk, definition: Definition) -> None:
    desk.out.pairs(
        [
            ("slug", definition.slug),
            ("name", definition.name),
            ("id", definition.id),
            ("scope", definition.scope),
            ("kept", wording.duration(definition.ttl)),
            ("created", wording.exact(definition.created_at)),
            ("updated", wording.exact(definition.updated_at)),
            ("schema", wording.indented(definition.schema)),
        ]
    )
