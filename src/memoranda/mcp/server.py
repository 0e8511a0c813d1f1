"""The MCP server over stdin and stdout; the only module that needs the extra `mcp`."""

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
from memoranda.agent.prompt import MEMORY_NOTICE, data_json
from memoranda.errors import (
    NEUTRAL_WORDS,
    ApprovalRequired,
    Hint,
    MemorandaError,
    NotFound,
    UsageError,
    Words,
    render_error,
    render_hint,
)
from memoranda.mcp.arguments import schema_of
from memoranda.mcp.backends import Backend
from memoranda.mcp.tools import (
    ABOUT,
    BLOCK_URI,
    DEFINITION_URI,
    INSTRUCTIONS,
    TOOLS,
    USER_MEMORY,
    Tool,
    list_resources,
    memory_prompt,
    read_resource,
)
from memoranda.model.text import quote

T = TypeVar("T")
_Context = ServerRequestContext[Any]
_JSON = "application/json"
_STDIN = 0
# JSON escapes: escaped backslashes and surrogate pairs are matched first, so that `half` is a lone surrogate.
_ESCAPES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)

MCP_WORDS: Words = {
    **NEUTRAL_WORDS,
    "approve": lambda hint: (
        f"Nothing failed: it waits for the user, so there is nothing to retry. Ask the user to decide: "
        f"memoranda approvals approve {hint.target}"
    ),
    "command": lambda hint: f"Ask the user to run `memoranda {hint.target}`",
    "grant": lambda hint: f"Ask the user to grant `{hint.target}` to `{hint.actor}`{hint.place}",
    "install": lambda hint: f'Ask the user to run `pip install "memoranda[{hint.target}]"`',
    "policy": lambda _: "Ask the user for a server that may do this",
    "set": lambda hint: f"Ask the user to set {hint.target} in the environment of the server",
}
"""Hints for a model: it can call tools, and ask its user for the rest."""


def serve(backend: Backend, *, version: str, read_only: bool = False, ready: Callable[[], None] | None = None) -> None:
    """Serve one client over stdin and stdout until it closes them; call `ready` once Ctrl-C is handled."""
    anyio.run(partial(_serve, create_server(backend, version=version, read_only=read_only), ready))


def create_server(backend: Backend, *, version: str, read_only: bool = False) -> Server:
    """Return the server of a backend. `read_only` hides the writing tools; permissions are checked by the gate."""
    tools = [_tool_schema(tool, backend) for tool in TOOLS.values() if not (read_only and tool.writes)]
    return Server(
        "memoranda",
        version=version,
        title="Memoranda",
        instructions=f"{INSTRUCTIONS} {MEMORY_NOTICE}",
        on_list_tools=partial(_list_tools, tools),
        on_call_tool=partial(_call_tool, backend),
        on_list_resources=partial(_list_resources, backend),
        on_list_resource_templates=_list_templates,
        on_read_resource=partial(_read_resource, backend),
        on_list_prompts=_list_prompts,
        on_get_prompt=partial(_get_prompt, backend),
    )


async def _serve(server: Server, ready: Callable[[], None] | None) -> None:
    async with stdio_server(stdin=cast("anyio.AsyncFile[str]", _lines())) as (incoming, outgoing):
        # Not earlier: a cancellation can be lost while the streams are being opened.
        if ready is not None:
            ready()
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of stdin.

    They are read in a daemon thread, because a read cannot be interrupted: Ctrl-C would otherwise have no effect until
    the client has sent one more line.
    """
    send, receive = anyio.create_memory_object_stream[str]()
    token = anyio.lowlevel.current_token()

    def read() -> None:
        # A duplicate, because the interpreter closes `sys.stdin` at exit, and would wait for the read.
        stdin = os.fdopen(os.dup(_STDIN), encoding="utf-8", errors="replace")
        with suppress(RuntimeError, anyio.BrokenResourceError):  # the server has stopped
            for line in stdin:
                anyio.from_thread.run(send.send, _replace_lone_surrogates(line), token=token)
            anyio.from_thread.run(send.aclose, token=token)

    Thread(target=read, daemon=True).start()
    async with receive:
        async for line in receive:
            yield line


def _replace_lone_surrogates(line: str) -> str:
    """Replace each escaped lone surrogate by `?`.

    The SDK's parser drops messages that contain one, and the client would wait for a response forever.
    """
    return _ESCAPES.sub(lambda found: "?" if found["half"] else found[0], line)


def _tool_schema(tool: Tool, backend: Backend) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema_of(tool.takes, scopes=backend.scopes),
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.writes,
            destructive_hint=tool.destroys,
            idempotent_hint=tool.repeatable,
            open_world_hint=False,
        ),
    )


async def _list_tools(tools: list[types.Tool], context: _Context, asked: object) -> types.ListToolsResult:
    return types.ListToolsResult(tools=tools)


async def _call_tool(backend: Backend, context: _Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
    tool = TOOLS.get(asked.name)
    if tool is None:
        raise MCPError(types.INVALID_PARAMS, f"unknown tool {quote(asked.name)}; tools are {', '.join(TOOLS)}")
    try:
        done = await anyio.to_thread.run_sync(tool.call, backend, asked.arguments or {})
    except MemorandaError as error:
        return _result({"error": _error_object(error)}, failed=True)
    return _result(done)


def _result(value: Any, *, failed: bool = False) -> types.CallToolResult:
    text = types.TextContent(type="text", text=data_json(value))
    return types.CallToolResult(content=[text], structured_content=value, is_error=failed)


async def _list_resources(backend: Backend, context: _Context, asked: object) -> types.ListResourcesResult:
    found = await _run(list_resources, backend)
    shown = [types.Resource(uri=one.uri, name=one.name, title=one.title, mime_type=_JSON) for one in found]
    return types.ListResourcesResult(resources=shown)


async def _list_templates(context: _Context, asked: object) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(
        resource_templates=[
            types.ResourceTemplate(uri_template=BLOCK_URI, name="block", mime_type=_JSON),
            types.ResourceTemplate(uri_template=DEFINITION_URI, name="definition", mime_type=_JSON),
        ]
    )


async def _read_resource(
    backend: Backend, context: _Context, asked: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    found = await _run(read_resource, backend, asked.uri)
    text = types.TextResourceContents(uri=asked.uri, mime_type=_JSON, text=data_json(found))
    return types.ReadResourceResult(contents=[text])


async def _list_prompts(context: _Context, asked: object) -> types.ListPromptsResult:
    about = types.PromptArgument(name=ABOUT, description="What to look for in memory.", required=False)
    prompt = types.Prompt(
        name=USER_MEMORY,
        title="User memory",
        description="What is remembered about the user.",
        arguments=[about],
    )
    return types.ListPromptsResult(prompts=[prompt])


async def _get_prompt(
    backend: Backend, context: _Context, asked: types.GetPromptRequestParams
) -> types.GetPromptResult:
    if asked.name != USER_MEMORY:
        raise MCPError(types.INVALID_PARAMS, f"unknown prompt {quote(asked.name)}; the only one is {USER_MEMORY}")
    text = await _run(memory_prompt, backend, (asked.arguments or {}).get(ABOUT, ""))
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(messages=[message])


async def _run(work: Callable[..., T], *arguments: Any) -> T:
    """Run work in a thread; convert our errors to protocol errors."""
    try:
        return await anyio.to_thread.run_sync(partial(work, *arguments))
    except MemorandaError as error:
        code = types.INVALID_PARAMS if isinstance(error, UsageError | NotFound) else types.INTERNAL_ERROR
        raise MCPError(code, render_error(error, MCP_WORDS), _error_object(error)) from error


def _error_object(error: MemorandaError) -> dict[str, Any]:
    """Return an error as JSON; details that are not JSON become text."""
    details = msgspec.to_builtins(error.details, enc_hook=str, str_keys=True)
    # Of a server, the hint is for those who speak HTTP.
    advice = Hint("approve", error.details["approval"]) if isinstance(error, ApprovalRequired) else error.advice
    hint = render_hint(advice, MCP_WORDS)
    return {"code": error.code, "message": error.message, "hint": hint, "details": details}
