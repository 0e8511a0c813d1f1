"""An MCP client for tests: it calls tools, and returns their results or raises their errors as ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from mcp import Client, StdioServerParameters, stdio_client
from memoranda import errors
from memoranda.api.memory import Memory
from memoranda.mcp.backends import LocalBackend, restrict_to_user
from memoranda.mcp.server import create_server


class Talk:
    """One connection of the SDK's own client, which runs in a separate thread."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self.client = client

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the SDK's client."""
        return self._portal.call(partial(getattr(self.client, method), *arguments))

    def result(self, tool: str, **arguments: Any) -> Any:
        """Return the result of a tool as the client received it."""
        return self.ask("call_tool", tool, arguments)

    def call(self, tool: str, **arguments: Any) -> Any:
        """Return the value of a tool's result, or raise its error."""
        result = self.result(tool, **arguments)
        if not result.is_error:
            return result.structured_content
        told = result.structured_content["error"]
        kind = next(one for one in vars(errors).values() if getattr(one, "code", None) == told["code"])
        raise kind(told["message"], hint=told["hint"], **told["details"])


@contextmanager
def talking(server: Any) -> Generator[Talk]:
    """Yield a connection to a server in this process, or over any other transport."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:
        yield Talk(portal, client)


@contextmanager
def doors_to(memory: Memory, *, agent: str) -> Generator[Callable[[str], Talk]]:
    """Yield a function that connects each user to a memory in this process, each once."""
    with start_blocking_portal() as portal, ExitStack() as opened:

        @cache
        def door(user: str) -> Talk:
            own = restrict_to_user(memory, user=user, agent=agent)
            server = create_server(LocalBackend(own, user=user, agent=agent), version="0")
            return Talk(portal, opened.enter_context(portal.wrap_async_context_manager(Client(server))))

        yield door


@contextmanager
def started(*options: str, complaints: Path, **variables: str) -> Generator[Talk]:
    """Yield a connection to `memoranda mcp` in a separate process; its stderr goes to a file."""
    kept = {name: os.environ[name] for name in ("TMPDIR", "PYTHONPATH", "COVERAGE_PROCESS_START") if name in os.environ}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "memoranda.cli", "mcp", *options], env={**kept, **variables}
    )
    with complaints.open("w") as errors_to, talking(stdio_client(command, errlog=errors_to)) as talk:
        yield talk
