"""MCP resources (blocks and definitions) and the prompt with the user's memory."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from memoranda.chat.memory_blocks import MEMORY_NOTICE, reminders, user_memory
from memoranda.errors import NotFound
from memoranda.mcp.arguments import GetBlock, SearchBlocks, read_arguments
from memoranda.mcp.backends import Backend
from memoranda.model.text import quote

_ROOT = "memoranda://"
BLOCK_URI = f"{_ROOT}blocks/{{scope}}/{{block}}"
DEFINITION_URI = f"{_ROOT}definitions/{{slug}}"


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource in a listing."""

    uri: str
    name: str
    title: str


def list_resources(backend: Backend) -> list[Resource]:
    """Return all blocks and definitions as resources."""
    blocks = [
        Resource(
            uri=BLOCK_URI.format(scope=block.scope, block=block.block_type),
            name=f"{block.scope}_{block.block_type}",
            title=f"The {block.block_type} block of the {block.scope}",
        )
        for block in backend.list_blocks()
    ]
    definitions = [
        Resource(
            uri=DEFINITION_URI.format(slug=one.slug),
            name=one.slug,
            title=f"Definition: {one.name}",
        )
        for one in backend.definitions()
    ]
    return [*blocks, *definitions]


def read_resource(backend: Backend, uri: str) -> Any:
    """Return a resource as plain JSON values, or raise NotFound."""
    match uri.removeprefix(_ROOT).split("/"):
        case ["blocks", scope, block]:
            found = backend.get_block(
                read_arguments(cast("dict[str, Any]", {"scope": scope, "block": block}), GetBlock)
            )
            if found is None:
                raise _missing(f"there is no {block} block")
        case ["definitions", slug]:
            found = next((one for one in backend.definitions() if one.slug == slug), None)
            if found is None:
                raise _missing(f"unknown definition {quote(slug)}")
        case _:
            raise _missing(f"unknown resource {quote(uri)}")
    return msgspec.to_builtins(found)


def _missing(what: str) -> NotFound:
    return NotFound(what, hint="`resources/list` returns every URI")


USER_MEMORY = "user_memory"
ABOUT = "about"
"""The argument of the prompt: the query for archival lines."""
_NOTHING = "Nothing is remembered about the user yet."


def memory_prompt(backend: Backend, about: str = "") -> str:
    """Return the core blocks between tags, and the archival lines that match a query."""
    user_core = backend.get_block(GetBlock(block="core"))
    agent_core = None if backend.agent is None else backend.get_block(GetBlock(block="core", scope="agent"))
    shown = user_memory(user_core, agent_core)
    reminded = reminders(backend.recall_blocks(SearchBlocks(query=about))) if about.strip() else ""
    return "\n\n".join(part for part in (MEMORY_NOTICE, shown or _NOTHING, reminded) if part)
