"""`memoranda facts`: set, get, list, delete, and the history of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import AsOf, Limit, Once, Source, Ttl
from memoranda.cli.reading import read_value
from memoranda.errors import NotFound

if TYPE_CHECKING:
    from memoranda import Fact, Revision

app = group("facts")

Key = Annotated[str, typer.Argument(metavar="KEY", help="Such as profile.language.")]
Expect = Annotated[
    int | None,
    typer.Option("--expect", metavar="N", help="Only if the fact is at this version; 0: only if there is none."),
]


@command(app, "set", scoped=True, creates=True, example="memoranda facts set profile.language en --user ada --ttl 90d")
def set_fact(
    desk: Desk,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Text; with --as-json, JSON; - reads stdin.")],
    as_json: Annotated[bool, typer.Option("--as-json", help="Read VALUE as JSON instead of as text.")] = False,
    ttl: Ttl = None,
    expect: Expect = None,
    domain: Annotated[str | None, typer.Option("--domain", metavar="NAME", help="A label to list by.")] = None,
    source: Source = None,
    idempotency_key: Once = None,
) -> None:
    """Write a fact; without --ttl it is kept for good.

    VALUE is kept as text, exactly as written: `42` is a text of two signs. With --as-json it is read as JSON, so
    `42` is a number. A lone - reads stdin, less one line break at the end. Write `--` before a VALUE that begins
    with a dash.
    """
    content = read_value(value, as_json=as_json)
    fact = desk.place.set(
        key, content, ttl=ttl, expect=expect, domain=domain, source=source, idempotency_key=idempotency_key
    )
    if desk.out.json:
        return desk.out.document(fact)
    expiry = f", expires {desk.out.ago(fact.expires_at)}" if fact.expires_at else ""
    desk.out.say(f"{fact.key} is at version {fact.version} in {fact.scope}{expiry}")


@command(app, "get", scoped=True, example="memoranda facts get profile.language --user ada --as-of 2026-04-30")
def get_fact(desk: Desk, key: Key, as_of: AsOf = None) -> None:
    """Print the value of a fact; on a terminal also its version, age and origin.

    Text is printed as it is, anything else as JSON, so a script can use it directly. A fact that does not exist
    leaves with 1.
    """
    place = desk.place
    fact = place.get(key, as_of=as_of)
    if fact is None:
        when = f" at {as_of}" if as_of else ""
        raise NotFound(f"there is no fact `{key}` in `{place.scope}`{when}", hint=_elsewhere(desk), key=key)
    if desk.out.json:
        return desk.out.document(fact)
    desk.out.raw(fact.value if isinstance(fact.value, str) else wording.indented(fact.value))
    if desk.out.on_terminal:
        desk.out.say(_about(desk, fact))


@command(app, "list", scoped=True, example="memoranda facts list profile --user ada")
def list_facts(
    desk: Desk,
    prefix: Annotated[
        str, typer.Argument(metavar="[PREFIX]", help="Only this key and those below: `profile` holds profile.name.")
    ] = "",
    domain: Annotated[str | None, typer.Option("--domain", metavar="NAME", help="Only this label.")] = None,
    as_of: AsOf = None,
    limit: Limit = None,
) -> None:
    """List the facts of one scope, ordered by key."""
    place = desk.place
    facts = place.list(prefix, domain=domain, as_of=as_of, limit=limit)
    if desk.out.json:
        return desk.out.document(facts)
    if not facts:
        below = f" at or below {prefix}" if prefix else ""
        return desk.out.remark(f"No facts{below} in {place.scope}.")
    show_facts(desk, facts)


@command(app, "delete", scoped=True, example="memoranda facts delete profile.language --user ada")
def delete_fact(
    desk: Desk, key: Key, expect: Expect = None, source: Source = None, idempotency_key: Once = None
) -> None:
    """Delete a fact. Its history stays; `memoranda erase` removes that too."""
    place = desk.place
    if not place.delete(key, expect=expect, source=source, idempotency_key=idempotency_key):
        raise NotFound(f"there is no fact `{key}` in `{place.scope}`", hint=_elsewhere(desk), key=key)
    if desk.out.json:
        return desk.out.document({"tenant": desk.tenant, "scope": place.scope, "key": key, "deleted": True})
    desk.out.say(f"{key} is deleted from {place.scope}")


@command(app, "history", scoped=True, example="memoranda facts history profile.language --user ada")
def show_history(desk: Desk, key: Key) -> None:
    """Show every version of a fact, oldest first: what it was, since when, by whom."""
    place = desk.place
    revisions = place.history(key)
    if not revisions:
        raise NotFound(f"`{key}` has no history in `{place.scope}`", hint=_elsewhere(desk), key=key)
    if desk.out.json:
        return desk.out.document(revisions)
    rows = [
        (str(one.version), one.change, _content(one), wording.exact(one.at), one.origin.actor, one.origin.door)
        for one in revisions
    ]
    columns = ("version", "change", "value", "since", "by", "through")
    desk.out.table(columns, rows, whole=("since", "change"))


def show_facts(desk: Desk, facts: list[Fact], *, with_scope: bool = False) -> None:
    """Print facts as a table, with their scopes where these differ."""
    columns = ("key", "value", "version", "updated", "expires")
    rows = [
        (
            *((str(fact.scope),) if with_scope else ()),
            fact.key,
            wording.value(fact.value),
            str(fact.version),
            desk.out.ago(fact.updated_at),
            desk.out.ago(fact.expires_at),
        )
        for fact in facts
    ]
    heads = ("scope", *columns) if with_scope else columns
    desk.out.table(heads, rows, whole=("updated", "expires"), folded=("key", "scope"))


def _content(revision: Revision) -> str:
    if revision.forgotten:
        return "(forgotten)"
    return wording.value(revision.value) if revision.change == "set" else ""


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
    return "This is the shared scope; name whose memory is meant with --user, --agent, --scope…"
