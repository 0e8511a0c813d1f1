"""`memoranda serve`: the memory for programs on other machines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.cli.command import Desk, command, group
from memoranda.cli.extras import lacking
from memoranda.cli.options import Config
from memoranda.cli.settings import resolve_server

if TYPE_CHECKING:
    from memoranda.server.auth.keys import NewKey

app = group()


@command(app, "serve", creates=True, embeds=True, example="memoranda serve --db team.db --port 8765 --workers 4")
def serve(
    desk: Desk,
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", help="Where to listen; 0 takes a free one.")
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", metavar="N", help="How many processes answer.")] = None,
    sleep: Annotated[
        bool | None,
        typer.Option("--sleep/--no-sleep", help="Whether settled conversations become memory. Default: they do."),
    ] = None,
    egress_allow: Annotated[
        list[str] | None,
        typer.Option(
            "--egress-allow",
            metavar="HOST",
            help="A host, address or network that programs may reach beside the public internet; may be repeated.",
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Answer requests over HTTP until stopped.

    Everybody needs a key. Where the database has none, an administrator's key is made and shown this once. Settings
    come from flags, then the environment, then the file; `memoranda config show` lists them.
    """
    settings = resolve_server(
        desk.settings,
        config=config,
        host=host,
        port=port,
        workers=workers,
        sleep=sleep,
        egress_allow=tuple(egress_allow) if egress_allow else None,
    )
    try:
        from memoranda.server.serving import serve as run
    except ImportError as missing:
        raise lacking("the server", "server", missing) from None

    def announce(address: str, key: NewKey | None) -> None:
        if desk.out.json:
            return desk.out.document({"address": address, "admin_key": key.token if key else None})
        desk.out.say(f"Memoranda listens on {address}")
        if key is not None:
            desk.out.say(f"The key of its administrator, shown only now: {key.token}")
        if desk.out.on_terminal:
            desk.out.pairs([("pages", f"{address}/admin"), ("routes", f"{address}/docs"), ("stop", "Ctrl-C")])
        sys.stdout.flush()

    run(settings, announce=announce)
