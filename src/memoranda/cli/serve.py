"""`memoranda serve` and `memoranda mcp`."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from memoranda.cli.command import Config, Desk, command, flag, group, lacking, option
from memoranda.errors import UsageError
from memoranda.server.environment import resolve_server

if TYPE_CHECKING:
    from memoranda.mcp.backends import Backend
    from memoranda.model.trust import OriginKind
    from memoranda.server.auth.keys import NewKey


app = group()


@command(app, "serve", creates=True, embeds=True, example="memoranda serve --db team.db --port 8765 --workers 4")
def serve(
    desk: Desk,
    host: Annotated[str | None, option("ADDRESS", "The address to listen on.")] = None,
    port: Annotated[int | None, option("N", "The port to listen on; 0 takes a free one.")] = None,
    workers: Annotated[int | None, option("N", "The number of processes.")] = None,
    sleep: Annotated[
        bool | None, flag("Learn from conversations that have settled. Default: yes.", "--sleep/--no-sleep")
    ] = None,
    reload: Annotated[bool | None, flag("Load changed program files again by themselves.", "--reload")] = None,
    strict: Annotated[
        bool | None, flag("Do not start if a program file has an error; otherwise it is listed with it.", "--strict")
    ] = None,
    egress_allow: Annotated[
        list[str] | None,
        option("HOST", "A host, address or network that programs may reach besides the public internet; repeatable."),
    ] = None,
    config: Config = None,
) -> None:
    """Serve the memory over HTTP until stopped.

    Every request needs an API key. If the database has none, an administrator's key is created and shown once. Settings
    come from flags, then the environment, then the file; `memoranda config show` lists them.
    """
    settings = resolve_server(
        desk.settings,
        config=config,
        host=host,
        port=port,
        workers=workers,
        sleep=sleep,
        reload=reload or None,
        strict=strict or None,
        egress_allow=tuple(egress_allow) if egress_allow else None,
    )
    try:
        from memoranda.server.launcher import serve as run
    except ImportError as missing:
        raise lacking("the server", "server", missing) from None

    def announce(address: str, key: NewKey | None) -> None:
        if desk.out.json:
            return desk.out.document({"address": address, "admin_key": key.token if key else None})
        desk.out.say(f"Memoranda listens on {address}")
        if key is not None:
            desk.out.say(f"The administrator's API key, shown only now: {key.token}")
        if desk.out.on_terminal:
            desk.out.pairs([("pages", f"{address}/admin"), ("routes", f"{address}/docs"), ("stop", "Ctrl-C")])
        sys.stdout.flush()

    run(settings, announce=announce)


@command(app, "mcp", creates=True, embeds=True, example="memoranda mcp --db memory.db --user ada --agent emails")
def mcp(
    desk: Desk,
    user: Annotated[str | None, option("ID", "The user whose memory is served.")] = None,
    agent: Annotated[str | None, option("ID", "The agent that calls; it also has a memory of its own.")] = None,
    scope: Annotated[
        list[str] | None,
        option("PATH", "A shared scope that tools may name: shared or project:atlas; repeatable."),
    ] = None,
    read_only: Annotated[bool, flag("Allow no writes.", "--read-only")] = False,
    origin: Annotated[
        str, option("KIND", "What writes: a model (assistant), or user, agent, tool_internal, tool_external, unknown.")
    ] = "assistant",
    url: Annotated[
        str | None, option("URL", "A server instead of a database, with the key in MEMORANDA_API_KEY.")
    ] = None,
) -> None:
    """Serve an MCP client over stdin and stdout.

    The memory is that of --user and --agent, and of each --scope as far as it is granted to them: no call of the client
    reaches any other. With --url, the key of the server determines the user and the permissions. A model writes, so
    that it cannot replace what the user wrote: that waits for a decision, unless --origin says that the user writes.
    """
    try:
        from memoranda.mcp.server import serve
    except ImportError as missing:
        raise lacking("the MCP door", "mcp", missing) from None
    from memoranda import __version__
    from memoranda.model.trust import check_origin

    scopes = scope or []
    if url is None:
        place = _here(desk, user, agent, scopes, read_only, check_origin(origin))
    else:
        place = _elsewhere(desk, url, user, agent, scopes, read_only, check_origin(origin))
    with place as reach:

        def say_ready() -> None:
            if sys.stdin.isatty():
                desk.out.remark("Waiting for an MCP client to speak over stdin; Ctrl-C ends it.")

        serve(reach, version=__version__, read_only=read_only, ready=say_ready)


@contextmanager
def _here(
    desk: Desk, user: str | None, agent: str | None, scopes: list[str], read_only: bool, origin: OriginKind
) -> Generator[Backend]:
    from memoranda import Scope
    from memoranda.mcp.backends import LocalBackend, common_scopes, restrict_to_user

    if user is None:
        raise UsageError("--user is missing", hint="Name the user whose memory is served, such as --user ada")
    # An invalid name is rejected before a file is created.
    Scope.of(tenant=desk.tenant, user=user, **({} if agent is None else {"agent": agent}))
    common_scopes(scopes)
    handle = restrict_to_user(desk.memory, user=user, agent=agent, scopes=scopes, read_only=read_only, origin=origin)
    yield LocalBackend(handle, user=user, agent=agent, scopes=scopes)


@contextmanager
def _elsewhere(
    desk: Desk,
    url: str,
    user: str | None,
    agent: str | None,
    scopes: list[str],
    read_only: bool,
    origin: OriginKind,
) -> Generator[Backend]:
    from memoranda import Client
    from memoranda.mcp.backends import RemoteBackend

    given = {"--user": user, "--actor": desk.actor, "--read-only": read_only}
    flags = [flag for flag, value in given.items() if value]
    flags += [f"--{setting.name}" for setting in desk.settings.all if setting.origin == "flag"]
    if flags:
        raise UsageError(
            f"{flags[0]} cannot be combined with --url: the key of the server determines it",
            hint="Remove it; `memoranda keys create --role reader` creates a key that only reads",
        )
    with Client(url) as client:
        yield RemoteBackend(client, agent=agent, scopes=scopes, origin=origin)
