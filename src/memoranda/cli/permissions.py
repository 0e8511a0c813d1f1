"""`memoranda permissions`: grants that are kept in the database."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from memoranda.cli.command import Desk, command, group

app = group("permissions", lists=True)


@command(
    app, "grant", scoped=True, creates=True, example="memoranda permissions grant agent:mail memory.read --user ada"
)
def grant(
    desk: Desk,
    to: Annotated[str, typer.Argument(metavar="ACTOR", help="Such as agent:mail; * is everybody.")],
    capability: Annotated[
        str, typer.Argument(metavar="CAPABILITY", help="Such as memory.read; memory covers all of them, * everything.")
    ],
    level: Annotated[
        Literal["allow", "approve", "deny"],
        typer.Option("--level", help="Allow it, ask somebody each time, or forbid it."),
    ] = "allow",
    path: Annotated[str, typer.Option("--path", metavar="KEY", help="Only at and below this key.")] = "",
) -> None:
    """Let an actor do something, everywhere or only in the scope that is named. A denial beats every allowance."""
    scope = desk.scope if desk.names_scope else None
    made = desk.memory.permissions.grant(to, capability, level=level, scope=scope, path=path)
    if desk.out.json:
        return desk.out.document(made)
    desk.out.say(f"{made.id}: {level} {capability} for {to} {_where(scope, path)}")


@command(app, "list", example="memoranda permissions list")
def list_grants(desk: Desk) -> None:
    """List all grants, oldest first."""
    grants = desk.memory.permissions.list()
    if desk.out.json:
        return desk.out.document(grants)
    if not grants:
        return desk.out.remark("No grants: only the owner may do anything.")
    rows = [
        (one.actor, one.rule.level, one.rule.capability, _where(one.rule.scope, one.rule.path), one.id)
        for one in grants
    ]
    desk.out.table(("actor", "level", "capability", "where", "id"), rows, whole=("id",), folded=("actor", "where"))


@command(app, "revoke", example="memoranda permissions revoke grant_01a1…")
def revoke(desk: Desk, grant: Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.")]) -> None:
    """Take a grant back."""
    gone = desk.memory.permissions.revoke(grant)
    if desk.out.json:
        return desk.out.document(gone)
    desk.out.say(f"{gone.actor} no longer has: {gone.rule.level} {gone.rule.capability}")


def _where(scope: object, path: str) -> str:
    place = "everywhere" if scope is None else f"in {scope}"
    return f"{place} at {path}" if path else place
