"""`memoranda keys`: who may call the server, and as whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memoranda.cli.command import Desk, command, group

if TYPE_CHECKING:
    from memoranda.server.auth.keys import Key, NewKey

app = group("keys", lists=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="As the list shows it; never the key itself.")]


@command(app, "create", creates=True, example="memoranda keys create --tenant acme --user ada --role member")
def create(
    desk: Desk,
    user: Annotated[str, typer.Option("--user", metavar="ID", help="Whose memory the key opens.")],
    role: Annotated[
        Literal["admin", "member", "reader"],
        typer.Option("--role", help="Everything in the tenant; read and write; or read."),
    ] = "member",
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="CAPABILITY", help="Narrow the role to this, such as memory.read; repeatable."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="End it after 15m, 24h, 90d or 2w.")
    ] = None,
    label: Annotated[str, typer.Option("--label", metavar="TEXT", help="What it is for.")] = "",
) -> None:
    """Make a key for a user of the tenant and print it. It is kept only as a hash: it cannot be shown again."""
    from memoranda.server.auth.keys import create_key

    made = create_key(
        desk.memory,
        tenant=desk.tenant,
        user=user,
        role=role,
        allow=tuple(allow or ()),
        expires=expires,
        label=label,
    )
    _show(desk, made)


@command(app, "list", example="memoranda keys list")
def list_all(
    desk: Desk,
    everybody: Annotated[bool, typer.Option("--all", help="Those of every tenant.")] = False,
) -> None:
    """List the keys of the tenant, oldest first, with what became of them."""
    from memoranda.server.auth.keys import list_keys

    keys = list_keys(desk.memory, tenant=None if everybody else desk.tenant)
    if desk.out.json:
        return desk.out.document(keys)
    if not keys:
        return desk.out.remark("No keys: make one with `memoranda keys create`.")
    rows = [
        (key.id, key.tenant, key.user, key.role, _state(desk, key), desk.out.ago(key.last_used_at), key.label)
        for key in keys
    ]
    desk.out.table(("id", "tenant", "user", "role", "state", "used", "label"), rows, whole=("id",), folded=("label",))


@command(app, "revoke", example="memoranda keys revoke 01a1e56c…")
def revoke(desk: Desk, id: Id) -> None:
    """End a key for good: from now on every request with it is refused."""
    from memoranda.server.auth.keys import revoke_key

    gone = revoke_key(desk.memory, id)
    if desk.out.json:
        return desk.out.document(gone)
    desk.out.say(f"{gone.id} of {gone.user} in {gone.tenant} is revoked")


@command(app, "rotate", example="memoranda keys rotate 01a1e56c… --grace 24h")
def rotate(
    desk: Desk,
    id: Id,
    grace: Annotated[
        str | None, typer.Option("--grace", metavar="TIME", help="Let the old one work for 15m, 24h or 7d more.")
    ] = None,
) -> None:
    """Make a key with the same rights and print it; the old one ends now, or after the time of grace."""
    from memoranda.server.auth.keys import rotate_key

    _show(desk, rotate_key(desk.memory, id, grace=grace))


def _show(desk: Desk, made: NewKey) -> None:
    key = made.key
    if desk.out.json:
        fields: dict[str, Any] = {name: getattr(key, name) for name in key.__struct_fields__}
        return desk.out.document({"token": made.token, **fields})
    desk.out.say(made.token)
    desk.out.aside(f"{key.role} key {key.id} of {key.user} in {key.tenant}. Keep it now: it is not shown again.")


def _state(desk: Desk, key: Key) -> str:
    if key.revoked_at is not None:
        return f"revoked {desk.out.ago(key.revoked_at)}"
    if not key.active_at(desk.memory.clock.now()):
        return f"expired {desk.out.ago(key.expires_at)}"
    return "works" if key.expires_at is None else f"ends {desk.out.ago(key.expires_at)}"
