"""Somebody's memory in; a server that speaks MCP over stdin and stdout out. The one file that needs the extra `mcp`."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, TypeVar, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from mcp import types
from memoranda.agent.prompt import data_json
from memoranda.chat.memory_prompt import MEMORY_NOTICE
from memoranda.errors import MemorandaError, NotFound, UsageError
from memoranda.mcp.arguments import schema_of
from memoranda.mcp.prompting import ABOUT, USER_MEMORY, memory_prompt
from memoranda.mcp.reaching import Reach
from memoranda.mcp.resources import BLOCK_ADDRESS, DEFINITION_ADDRESS, list_resources, read_resource
from memoranda.mcp.tools import INSTRUCTIONS, TOOLS, Tool
from memoranda.model.text import quote

T = TypeVar("T")
_Context = ServerRequestContext[Any]
_JSON = "application/json"
_STDIN = 0
# An escape of JSON, whole pairs before halves, and a backslash with what it escapes before both.
_ESCAPES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def serve(reach: Reach, *, version: str, read_only: bool = False, ready: Callable[[], None] | None = None) -> None:
    """Answer one client over stdin and stdout until it closes them; call `ready` once a Ctrl-C is sure to end it."""
    anyio.run(partial(_serve, create_server(reach, version=version, read_only=read_only), ready))


def create_server(reach: Reach, *, version: str, read_only: bool = False) -> Server:
    """Return the server of one memory. `read_only` shows no tool that writes: what may be written, the gate decides."""
    shown = [_shown(tool, reach) for tool in TOOLS.values() if not (read_only and tool.writes)]
    return Server(
        "memoranda",
        version=version,
        title="Memoranda",
        instructions=f"{INSTRUCTIONS} {MEMORY_NOTICE}",
        on_list_tools=partial(_list_tools, shown),
        on_call_tool=partial(_call_tool, reach),
        on_list_resources=partial(_list_resources, reach),
        on_list_resource_templates=_list_templates,
        on_read_resource=partial(_read_resource, reach),
        on_list_prompts=_list_prompts,
        on_get_prompt=partial(_get_prompt, reach),
    )


async def _serve(server: Server, ready: Callable[[], None] | None) -> None:
    async with stdio_server(stdin=cast("anyio.AsyncFile[str]", _lines())) as (incoming, outgoing):
        # Not before: while the streams are being opened, a cancellation can be lost.
        if ready is not None:
            ready()
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of stdin.

    They are read in a thread that nobody waits for. A read cannot be interrupted, so Ctrl-C would otherwise end
    nothing before the client has sent one more line.
    """
    send, receive = anyio.create_memory_object_stream[str]()
    token = anyio.lowlevel.current_token()

    def read() -> None:
        # A descriptor of its own: the interpreter closes that of `sys.stdin` on its way out, and cannot while we read.
        stdin = os.fdopen(os.dup(_STDIN), encoding="utf-8", errors="replace")
        with suppress(RuntimeError, anyio.BrokenResourceError):  # nobody listens any more
            for line in stdin:
                anyio.from_thread.run(send.send, _whole(line), token=token)
            anyio.from_thread.run(send.aclose, token=token)

    Thread(target=read, daemon=True).start()
    async with receive:
        async for line in receive:
            yield line


def _whole(line: str) -> str:
    """Return a message with a `?` for each escape that is half of a character.

    What reads messages takes none of them for JSON, and whoever sent it would wait for an answer for ever.
    """
    return _ESCAPES.sub(lambda found: "?" if found["half"] else found[0], line)


# tools


def _shown(tool: Tool, reach: Reach) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema_of(tool.takes, agent=reach.agent is not None),
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.writes,
            destructive_hint=tool.destroys,
            idempotent_hint=tool.repeatable,
            open_world_hint=False,
        ),
    )


async def _list_tools(shown: list[types.Tool], context: _Context, asked: object) -> types.ListToolsResult:
    return types.ListToolsResult(tools=shown)


async def _call_tool(reach: Reach, context: _Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
    tool = TOOLS.get(asked.name)
    if tool is None:
        raise MCPError(types.INVALID_PARAMS, f"{quote(asked.name)} is not among the tools: {', '.join(TOOLS)}")
    try:
        done = await anyio.to_thread.run_sync(tool.call, reach, asked.arguments or {})
    except MemorandaError as error:
        return _answer({"error": _described(error)}, failed=True)
    return _answer(done)


def _answer(value: Any, *, failed: bool = False) -> types.CallToolResult:
    text = types.TextContent(type="text", text=data_json(value))
    return types.CallToolResult(content=[text], structured_content=value, is_error=failed)


# resources and the prompt


async def _list_resources(reach: Reach, context: _Context, asked: object) -> types.ListResourcesResult:
    found = await _asked(list_resources, reach)
    shown = [types.Resource(uri=one.uri, name=one.name, title=one.title, mime_type=_JSON) for one in found]
    return types.ListResourcesResult(resources=shown)


async def _list_templates(context: _Context, asked: object) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(
        resource_templates=[
            types.ResourceTemplate(uri_template=BLOCK_ADDRESS, name="block", mime_type=_JSON),
            types.ResourceTemplate(uri_template=DEFINITION_ADDRESS, name="definition", mime_type=_JSON),
        ]
    )


async def _read_resource(
    reach: Reach, context: _Context, asked: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    found = await _asked(read_resource, reach, asked.uri)
    text = types.TextResourceContents(uri=asked.uri, mime_type=_JSON, text=data_json(found))
    return types.ReadResourceResult(contents=[text])


async def _list_prompts(context: _Context, asked: object) -> types.ListPromptsResult:
    about = types.PromptArgument(name=ABOUT, description="What lines of the archives are looked for.", required=False)
    prompt = types.Prompt(
        name=USER_MEMORY,
        title="What is remembered",
        description="What is remembered about the user.",
        arguments=[about],
    )
    return types.ListPromptsResult(prompts=[prompt])


async def _get_prompt(reach: Reach, context: _Context, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
    if asked.name != USER_MEMORY:
        raise MCPError(types.INVALID_PARAMS, f"{quote(asked.name)} is not among the prompts: {USER_MEMORY}")
    text = await _asked(memory_prompt, reach, (asked.arguments or {}).get(ABOUT, ""))
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(messages=[message])


async def _asked(work: Callable[..., T], *arguments: Any) -> T:
    """Return what work in a thread came to; what it refuses is an error of the protocol, with ours beside it."""
    try:
        return await anyio.to_thread.run_sync(partial(work, *arguments))
    except MemorandaError as error:
        code = types.INVALID_PARAMS if isinstance(error, UsageError | NotFound) else types.INTERNAL_ERROR
        raise MCPError(code, str(error), _described(error)) from error


def _described(error: MemorandaError) -> dict[str, Any]:
    """Return an error as every door tells it; a detail that JSON has no word for as text."""
    details = msgspec.to_builtins(error.details, enc_hook=str, str_keys=True)
    return {"code": error.code, "message": error.message, "hint": error.hint, "details": details}
