"""Addresses in, blocks and definitions out: what a client can show to a person, or put before a model unasked."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from memoranda.errors import NotFound
from memoranda.mcp.arguments import GetBlock, read_arguments
from memoranda.mcp.reaching import Reach
from memoranda.model.text import quote

_ROOT = "memoranda://"
BLOCK_ADDRESS = f"{_ROOT}blocks/{{scope}}/{{block}}"
DEFINITION_ADDRESS = f"{_ROOT}definitions/{{slug}}"


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be read: its address, and what is said of it."""

    uri: str
    name: str
    title: str


def list_resources(reach: Reach) -> list[Resource]:
    """Return the blocks that there are, and every definition."""
    blocks = [
        Resource(
            uri=BLOCK_ADDRESS.format(scope=block.scope, block=block.block_type),
            name=f"{block.scope}_{block.block_type}",
            title=f"The {block.block_type} block of the {block.scope}",
        )
        for block in reach.list_blocks()
    ]
    definitions = [
        Resource(
            uri=DEFINITION_ADDRESS.format(slug=one.slug),
            name=one.slug,
            title=f"Definition: {one.name}",
        )
        for one in reach.definitions()
    ]
    return [*blocks, *definitions]


def read_resource(reach: Reach, uri: str) -> Any:
    """Return what stands at an address, made of maps, lists and scalars; refuse one where nothing does."""
    match uri.removeprefix(_ROOT).split("/"):
        case ["blocks", scope, block]:
            found = reach.get_block(read_arguments(cast("dict[str, Any]", {"scope": scope, "block": block}), GetBlock))
            if found is None:
                raise _missing(f"there is no {block} block")
        case ["definitions", slug]:
            found = next((one for one in reach.definitions() if one.slug == slug), None)
            if found is None:
                raise _missing(f"there is no definition {quote(slug)}")
        case _:
            raise _missing(f"there is nothing at {quote(uri)}")
    return msgspec.to_builtins(found)


def _missing(what: str) -> NotFound:
    return NotFound(what, hint="`resources/list` has every address")
