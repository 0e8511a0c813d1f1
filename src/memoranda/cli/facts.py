"""`memoranda facts`, `definitions` and `sessions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.cli import formats
from memoranda.cli.arguments import read_schema, read_value
from memoranda.cli.command import (
    AsOf,
    DerivedFrom,
    Desk,
    IdempotencyKey,
    Limit,
    RequiresConfirmation,
    Source,
    Ttl,
    Yes,
    argument,
    command,
    flag,
    group,
    option,
)
from memoranda.cli.output import confirm
from memoranda.errors import NotFound, UsageError

if TYPE_CHECKING:
    from memoranda import Fact, Revision, SchemaCheck


app = group("facts")

Key = Annotated[str, argument("KEY", "Such as profile.language.")]
Expect = Annotated[int | None, option("N", "Only if the fact is at this version; 0: only if there is none.")]


@command(
    app,
    "set",
    scoped=True,
    writes=True,
    creates=True,
    example="memoranda facts set profile.language en --user ada --ttl 90d",
)
def set_fact(
    desk: Desk,
    key: Key,
    value: Annotated[str, argument("VALUE", "Text; with --as-json, JSON; - reads stdin.")],
    as_json: Annotated[bool, flag("Read VALUE as JSON instead of as text.", "--as-json")] = False,
    ttl: Ttl = None,
    expect: Expect = None,
    domain: Annotated[str | None, option("NAME", "A label to list by.")] = None,
    source: Source = None,
    idempotency_key: IdempotencyKey = None,
    derived_from: DerivedFrom = None,
    requires_confirmation: RequiresConfirmation = False,
) -> None:
    """Write a fact; without --ttl it does not expire.

    VALUE is stored as text, exactly as written: `42` is a text of two characters. With --as-json it is read as JSON, so
    `42` is a number. A lone - reads stdin, without one line break at the end. Write `--` before a VALUE that begins
    with a dash.
    """
    content = read_value(value, as_json=as_json)
    fact = desk.place.set(
        key,
        content,
        ttl=ttl,
        expect=expect,
        domain=domain,
        source=source,
        idempotency_key=idempotency_key,
        derived_from=derived_from or (),
        requires_confirmation=requires_confirmation,
    )
    expiry = f", expires {desk.out.ago(fact.expires_at)}" if fact.expires_at else ""
    desk.out.result(fact, f"{fact.key} is at version {fact.version} in {fact.scope}{expiry}")


@command(app, "get", scoped=True, example="memoranda facts get profile.language --user ada --as-of 2026-04-30")
def get_fact(desk: Desk, key: Key, as_of: AsOf = None) -> None:
    """Print the value of a fact; on a terminal also its version, age and origin.

    Text is printed as it is, other values as JSON, so that scripts can use it directly. Exits with 1 if the fact does
    not exist.
    """
    place = desk.place
    fact = place.get(key, as_of=as_of)
    if fact is None:
        when = f" at {as_of}" if as_of else ""
        raise NotFound(f"unknown fact `{key}` in `{place.scope}`{when}", hint=_elsewhere(desk), key=key)
    if desk.out.answers(fact):
        return
    desk.out.raw(fact.value if isinstance(fact.value, str) else formats.pretty_json(fact.value))
    if desk.out.on_terminal:
        desk.out.say(_about(desk, fact))


@command(app, "list", scoped=True, example="memoranda facts list profile --user ada")
def list_facts(
    desk: Desk,
    prefix: Annotated[
        str, argument("[PREFIX]", "Only this key and those below: `profile` includes profile.name.")
    ] = "",
    domain: Annotated[str | None, option("NAME", "Only this label.")] = None,
    as_of: AsOf = None,
    limit: Limit = None,
    internal: Annotated[bool, flag("Include what the runtime keeps among the facts.", "--internal")] = False,
) -> None:
    """List the facts of one scope, ordered by key."""
    place = desk.place
    facts = place.list(prefix, domain=domain, as_of=as_of, limit=limit, internal=internal)
    below = f" at or below {prefix}" if prefix else ""
    if not desk.out.answers(facts, empty=f"No facts{below} in {place.scope}."):
        show_facts(desk, facts)


@command(app, "delete", scoped=True, writes=True, example="memoranda facts delete profile.language --user ada")
def delete_fact(
    desk: Desk, key: Key, expect: Expect = None, source: Source = None, idempotency_key: IdempotencyKey = None
) -> None:
    """Delete a fact. Its history stays; `memoranda erase` removes that too."""
    place = desk.place
    if not place.delete(key, expect=expect, source=source, idempotency_key=idempotency_key):
        raise NotFound(f"unknown fact `{key}` in `{place.scope}`", hint=_elsewhere(desk), key=key)
    desk.out.result(
        {"tenant": desk.tenant, "scope": place.scope, "key": key, "deleted": True},
        f"{key} is deleted from {place.scope}",
    )


@command(app, "history", scoped=True, example="memoranda facts history profile.language --user ada")
def show_history(desk: Desk, key: Key) -> None:
    """Show every version of a fact, oldest first: its value, when and by whom it was written."""
    place = desk.place
    revisions = place.history(key)
    if not revisions:
        raise NotFound(f"`{key}` has no history in `{place.scope}`", hint=_elsewhere(desk), key=key)
    show_revisions(desk, revisions, "value", formats.value)


def show_facts(desk: Desk, facts: list[Fact], *, with_scope: bool = False) -> None:
    """Print facts as a table."""
    columns = ("key", "value", "version", "updated", "expires")
    rows = [
        (
            *((str(fact.scope),) if with_scope else ()),
            fact.key,
            formats.value(fact.value),
            str(fact.version),
            desk.out.ago(fact.updated_at),
            desk.out.ago(fact.expires_at),
        )
        for fact in facts
    ]
    heads = ("scope", *columns) if with_scope else columns
    desk.out.table(heads, rows, whole=("updated", "expires"), folded=("key", "scope"))


def show_revisions(desk: Desk, revisions: list[Revision], column: str, text: Callable[[Any], str]) -> None:
    """Print the history of a fact or block; `column` holds its values, as `text` shows them."""
    if desk.out.answers(revisions):
        return

    def content(revision: Revision) -> str:
        return "(forgotten)" if revision.forgotten else text(revision.value) if revision.change == "set" else ""

    rows = [
        (str(one.version), one.change, content(one), formats.exact(one.at), one.origin.actor, one.origin.door)
        for one in revisions
    ]
    desk.out.table(("version", "change", column, "since", "by", "through"), rows, whole=("since", "change"))


def _about(desk: Desk, fact: Fact) -> str:
    origin = fact.origin
    parts = [
        f"version {fact.version}",
        f"set {desk.out.ago(fact.updated_at)} by {origin.actor} through {origin.door}",
        f"from {origin.source}" if origin.source else "",
        f"domain {fact.domain}" if fact.domain else "",
        f"expires {desk.out.ago(fact.expires_at)}" if fact.expires_at else "",
    ]
    return "(" + ", ".join(part for part in parts if part) + ")"


def _elsewhere(desk: Desk) -> str:
    if desk.names_scope:
        return "`memoranda facts list` with the same options shows what is there"
    return "This is the shared scope; name another with --user, --agent, --scope…"


definitions_app = group("definitions", lists=True)

Which = Annotated[str, argument("DEFINITION", "Its slug or id.")]
Name = option("TEXT", "Its display name.")
Slug = option("KEY", "The key of its records: a-z, 0-9 and _.")
Belongs = option("KIND", "Where records belong: global, agent, workflow, thread, run, project, tree or session.")
RecordTtl = option("TIME", "How long records live: 24h, 30d…; default: for ever.")
Mode = option(None, "What a workflow's update does to a record: replace it, or merge into it.")
Id = option("UUID", "The id that workflows use for it; generated by default.")
Schema = option("FILE|JSON|-", "A JSON schema: a file, the text itself, or stdin.")


@command(
    definitions_app,
    "create",
    changes=True,
    creates=True,
    example="memoranda definitions create --name Plot --slug plot --schema plot.json",
)
def create(
    desk: Desk,
    name: Annotated[str, Name],
    slug: Annotated[str, Slug],
    schema: Annotated[str, Schema],
    scope: Annotated[str, Belongs] = "global",
    ttl: Annotated[str | None, RecordTtl] = None,
    mode: Annotated[Literal["replace", "merge"] | None, Mode] = None,
    id: Annotated[str | None, Id] = None,
) -> None:
    """Create a definition. Objects are strict unless the schema says `additionalProperties`."""
    content = read_schema(schema)
    made = desk.memory.definitions.create(name=name, slug=slug, schema=content, scope=scope, ttl=ttl, mode=mode, id=id)
    desk.out.result(made, f"{made.slug} is defined as {made.id}")


@command(definitions_app, "list", example="memoranda definitions list")
def list_definitions(desk: Desk) -> None:
    """List all definitions, oldest first."""
    found = desk.memory.definitions.list()
    if desk.out.answers(found, empty="No definitions."):
        return
    rows = [(one.slug, one.name, one.scope, formats.duration(one.ttl), desk.out.ago(one.updated_at)) for one in found]
    desk.out.table(("slug", "name", "scope", "kept", "updated"), rows, folded=("slug",))


@command(definitions_app, "show", example="memoranda definitions show profile")
def show(desk: Desk, definition: Which) -> None:
    """Show one definition with its schema."""
    found = desk.memory.definitions.get(definition)
    desk.out.details(
        found,
        [
            ("slug", found.slug),
            ("name", found.name),
            ("id", found.id),
            ("scope", found.scope),
            ("kept", formats.duration(found.ttl)),
            ("created", formats.exact(found.created_at)),
            ("updated", formats.exact(found.updated_at)),
            ("schema", formats.pretty_json(found.schema)),
        ],
    )


@command(definitions_app, "update", changes=True, example="memoranda definitions update profile --ttl 30d")
def update(
    desk: Desk,
    definition: Which,
    name: Annotated[str | None, Name] = None,
    slug: Annotated[str | None, Slug] = None,
    schema: Annotated[str | None, Schema] = None,
    scope: Annotated[str | None, Belongs] = None,
    ttl: Annotated[str | None, RecordTtl] = None,
    clear_ttl: Annotated[bool, flag("Let future records not expire.", "--clear-ttl")] = False,
    mode: Annotated[Literal["replace", "merge"] | None, Mode] = None,
    stale: Annotated[
        Literal["refuse", "keep"], option(None, "If records would no longer fit: refuse, or keep them as they are.")
    ] = "refuse",
    migrate: Annotated[
        str | None, option("EXPRESSION", "Make the new value of such a record from its $record, in JSONata.")
    ] = None,
    check: Annotated[bool, flag("Change nothing; say which records would no longer fit.", "--check")] = False,
) -> None:
    """Change the given fields of a definition. Its records follow a changed slug.

    A schema that records would no longer fit is refused, unless they are kept or migrated. Without a schema, --migrate
    repairs the records that do not fit the present one.
    """
    if ttl is not None and clear_ttl:
        raise UsageError("--ttl and --clear-ttl contradict each other", hint="Use one of them")
    if not clear_ttl and not any(given is not None for given in (name, slug, schema, scope, ttl, mode, migrate)):
        hint = "Pass --name, --slug, --schema, --scope, --ttl, --clear-ttl, --mode or --migrate"
        raise UsageError("there is nothing to change", hint=hint)
    from memoranda.workflow import migration

    changes: dict[str, Any] = {
        "name": name,
        "slug": slug,
        "schema": None if schema is None else read_schema(schema),
        "scope": scope,
        "ttl": ttl,
        "clear_ttl": clear_ttl,
        "mode": mode,
        "stale": stale,
        "migrate": None if migrate is None else migration(migrate),
    }
    if check:
        _show_check(desk, desk.memory.definitions.update(definition, **changes, check=True), "would not fit")
        return
    changed = desk.memory.definitions.update(definition, **changes, check=False)
    desk.out.result(changed, f"{changed.slug} is changed")


@command(definitions_app, "check", example="memoranda definitions check profile")
def check_records(
    desk: Desk,
    definition: Annotated[str | None, argument("[DEFINITION]", "Its slug or id; all of them by default.")] = None,
    limit: Limit = None,
) -> None:
    """List the records that do not fit their definitions."""
    definitions = desk.memory.definitions
    slugs = [one.slug for one in definitions.list()] if definition is None else [definition]
    checks = [definitions.stale(slug, limit=20 if limit is None else limit) for slug in slugs]
    if desk.out.answers(checks, empty="No definitions."):
        return
    for one in checks:
        _show_check(desk, one, "do not fit")


def _show_check(desk: Desk, found: SchemaCheck, verb: str) -> None:
    if desk.out.json:
        return desk.out.document(found)
    already = f", {found.already:,} of which do not fit now either" if found.already and verb == "would not fit" else ""
    desk.out.say(f"{found.slug}: {found.count:,} of {formats.count(found.checked, 'record')} {verb}{already}")
    if found.records:
        rows = [(one.scope, one.path, one.message) for one in found.records]
        desk.out.table(("scope", "path", "why"), rows, folded=("why",))
    if found.migrations:
        changes = [
            (one.scope, formats.value(one.before), f"failed: {one.error}" if one.error else formats.value(one.after))
            for one in found.migrations
        ]
        desk.out.table(("scope", "before", "after"), changes, folded=("before", "after"))


@command(definitions_app, "delete", changes=True, example="memoranda definitions delete profile --yes")
def delete(desk: Desk, definition: Which, yes: Yes = False) -> None:
    """Delete a definition and all its records; asks first."""
    desk.require_database()
    confirm(f"Delete the definition `{definition}` and all its records?", yes=yes)
    records = desk.memory.definitions.delete(definition)
    desk.out.result(
        {"tenant": desk.tenant, "definition": definition, "deleted": True, "records": records},
        f"{definition} is deleted, with {formats.count(records, 'record')}",
    )


@command(definitions_app, "records", example="memoranda definitions records profile")
def records(desk: Desk, definition: Which, limit: Limit = None) -> None:
    """List the records of a definition in all scopes."""
    found = desk.memory.definitions.records(definition, limit=limit)
    if not desk.out.answers(found, empty=f"No records of {definition}."):
        show_facts(desk, found, with_scope=True)


sessions_app = group("sessions")


@command(
    sessions_app, "start", changes=True, scoped=True, creates=True, example="memoranda sessions start s1 --user ada"
)
def start(desk: Desk, id: Annotated[str, argument("ID", "A new id, or that of a running session.")]) -> None:
    """Start a session, or continue it. The scope options name its owner: erasing the owner erases the session."""
    owner = desk.scope
    begun = desk.memory.at(owner).session(id)
    desk.out.result(
        {"tenant": desk.tenant, "scope": begun.scope, "owner": owner.path or None},
        f"{begun.scope} runs for {owner}; write to it with --session {id}",
    )


@command(sessions_app, "end", changes=True, scoped=True, example="memoranda sessions end s1")
def end(
    desk: Desk,
    id: Annotated[str | None, argument("[ID]", "The session; a run or tree is named by the scope options.")] = None,
) -> None:
    """End a session, run or tree: its memory is deleted, and nothing can be written to it again."""
    if (id is not None) == desk.names_scope:
        raise UsageError(
            "name one session, run or tree",
            hint="Use its id, `memoranda sessions end s1`, or options, `--user ada --run r1`; not both",
        )
    ending = desk.memory.scope(session=id) if id is not None else desk.place
    removed = ending.end()
    desk.out.result(
        {"tenant": desk.tenant, "scope": ending.scope, "removed": removed},
        f"{ending.scope} has ended; removed: {formats.counts(removed) or 'nothing'}",
    )
