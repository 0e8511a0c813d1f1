"""`memoranda mcp`: the memory for an MCP client, such as an editor or an agent."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.cli.command import Desk, command, group
from memoranda.cli.extras import lacking
from memoranda.errors import UsageError

if TYPE_CHECKING:
    from memoranda.mcp.reaching import Reach

app = group()


@command(app, "mcp", creates=True, embeds=True, example="memoranda mcp --db memory.db --user ada --agent emails")
def mcp(
    desk: Desk,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose memory it is.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="The agent that calls; it has a memory of its own too.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Let nothing be written.")] = False,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="A server instead of a database; MEMORANDA_API_KEY has its key."),
    ] = None,
) -> None:
    """Answer an MCP client over stdin and stdout until it leaves.

    Whose memory it is stands on this command line alone: no call of the client reaches any other. Through a server
    the key says whose it is, and what may be done with it.
    """
    try:
        from memoranda.mcp.serving import serve
    except ImportError as missing:
        raise lacking("the MCP door", "mcp", missing) from None
    from memoranda import __version__

    place = _here(desk, user, agent, read_only) if url is None else _elsewhere(desk, url, user, agent, read_only)
    with place as reach:

        def say_ready() -> None:
            if sys.stdin.isatty():
                desk.out.remark("Waiting for an MCP client to speak over stdin; Ctrl-C ends it.")

        serve(reach, version=__version__, read_only=read_only, ready=say_ready)


@contextmanager
def _here(desk: Desk, user: str | None, agent: str | None, read_only: bool) -> Generator[Reach]:
    from memoranda import Scope
    from memoranda.mcp.reaching import InDatabase, confined

    if user is None:
        raise UsageError("nobody is named whose memory it is", hint="Add --user, such as --user ada")
    # Who cannot be is refused before any file is made.
    Scope.of(tenant=desk.tenant, user=user, **({} if agent is None else {"agent": agent}))
    yield InDatabase(confined(desk.memory, user=user, agent=agent, read_only=read_only), user=user, agent=agent)


@contextmanager
def _elsewhere(desk: Desk, url: str, user: str | None, agent: str | None, read_only: bool) -> Generator[Reach]:
    from memoranda import Client
    from memoranda.mcp.reaching import OverServer

    given = {"--user": user, "--actor": desk.actor, "--read-only": read_only}
    said = [flag for flag, value in given.items() if value]
    said += [f"--{setting.name}" for setting in desk.settings.all if setting.origin == "flag"]
    if said:
        raise UsageError(
            f"{said[0]} says what the key of a server says",
            hint="Leave it out; `memoranda keys create --role reader` makes a key that only reads",
        )
    with Client(url) as client:
        yield OverServer(client, agent=agent)
