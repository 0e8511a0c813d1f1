"""What a model calls to write and to search memory in, what came of it out, in words that it can act on.

A model replaces a block whole, so it may replace only what it has seen: the text that its prompt showed, or the one
that a refused write showed it. Whose memory it is says the run, never the model.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from memoranda.agent.conversing import ToolFailed
from memoranda.agent.models import ToolSpec
from memoranda.api.blocks import Blocks
from memoranda.api.memory import Memory
from memoranda.chat.memory_prompt import escape, unescape
from memoranda.chat.tools import RECALL_MEMORY, UPDATE_MEMORY
from memoranda.errors import Conflict, Refused, UsageError
from memoranda.model.block import (
    ARCHIVAL_CHARACTERS,
    BLOCK_SCOPES,
    BLOCK_TYPES,
    CORE_CHARACTERS,
    CORE_ENTRIES,
    MOST_MATCHES,
    Block,
    BlockScope,
    BlockType,
    check_block_scope,
    key_of,
)

Seen = dict[tuple[BlockType, BlockScope], datetime | None]
"""The stamp of each block that a model has seen; None for one that it has seen to be missing."""

_DOOR = "chat"
"""The door that writes of a model come through, whoever it speaks with: they are not the user's own."""

_UPDATE = ToolSpec(
    UPDATE_MEMORY,
    "Replace a block of what is remembered about the user across conversations. The content takes the place of the "
    "whole block: write every line that shall stay, one fact a line, each beginning with `- `. "
    f"`core` is shown to you in every conversation (at most {CORE_CHARACTERS:,} characters and {CORE_ENTRIES} lines): "
    f"keep it to what matters always. `archival` is searched (at most {ARCHIVAL_CHARACTERS:,} characters). "
    "If the block has changed since you saw it, nothing is written and you are told its present text.",
    {
        "type": "object",
        "properties": {
            "block": {"type": "string", "enum": list(BLOCK_TYPES)},
            "content": {"type": "string", "description": "The new text of the block, all of it."},
            "scope": {
                "type": "string",
                "enum": list(BLOCK_SCOPES),
                "default": "user",
                "description": "`user` is shared by all agents of the user, `agent` is only yours.",
            },
        },
        "required": ["block", "content"],
        "additionalProperties": False,
    },
)
_RECALL = ToolSpec(
    RECALL_MEMORY,
    "Search archival memory about the user: lines that have words of the query, best first. An empty query lists all.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_MATCHES, "default": 10},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)
MEMORY_TOOLS = (_UPDATE, _RECALL)
"""The tools as a model is shown them."""


class _Update(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `update_memory` is called with."""

    block: BlockType
    content: str
    scope: BlockScope = "user"


class _Recall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `recall_memory` is called with."""

    query: str
    limit: int = 10


class MemoryTools:
    """The memory of one user as one agent reaches it in one run."""

    def __init__(self, memory: Memory, *, user: str, agent_id: str, seen: Seen, source: str) -> None:
        """Stand in the memory of a user and an agent, with what the prompt showed of it, and where it is learned."""
        told = memory.through(_DOOR)
        self._blocks: dict[BlockScope, Blocks] = {
            "user": told.scope(user=user).blocks,
            "agent": told.scope(user=user, agent=agent_id).blocks,
        }
        self._seen = dict(seen)
        self._source = source

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return what a call came to; raise ToolFailed with what the model is told."""
        try:
            if name == UPDATE_MEMORY:
                _check_place(arguments)
                return self._update(msgspec.convert(arguments, _Update))
            return self._recall(msgspec.convert(arguments, _Recall))
        except msgspec.ValidationError as error:
            raise ToolFailed(f"the arguments do not fit: {error}") from error
        except (UsageError, Refused) as error:
            raise ToolFailed(error) from error

    def _update(self, asked: _Update) -> dict[str, Any]:
        block, scope = asked.block, asked.scope
        blocks = self._blocks[scope]
        if (block, scope) not in self._seen:
            standing = blocks.get(block)
            self._seen[block, scope] = None
            if standing is not None:
                return self._shown(block, scope, standing)
        # What it was shown it writes back as it was shown.
        text = unescape(asked.content)
        try:
            expected = self._seen[block, scope]
            written = blocks.update(block, text, expected_updated_at=expected, source=self._source)
        except Conflict:
            return self._shown(block, scope, blocks.get(block))
        self._seen[block, scope] = written.updated_at
        return {"written": {"block": block, "scope": scope, "updated_at": written.updated_at.isoformat()}}

    def _shown(self, block: BlockType, scope: BlockScope, standing: Block | None) -> dict[str, Any]:
        """Return the refusal of a write with the text that stands, which the model has seen from here on."""
        self._seen[block, scope] = None if standing is None else standing.updated_at
        return {
            "error": "conflict",
            "code": Conflict.code,
            "message": "Nothing was written: this is the present text of the block. Apply your change to it, and "
            "call again with the whole new text.",
            "current": None
            if standing is None
            else {"content": escape(standing.content), "updated_at": standing.updated_at.isoformat()},
        }

    def _recall(self, asked: _Recall) -> dict[str, Any]:
        found = self._blocks["agent"].recall(asked.query, limit=asked.limit)
        return {
            "memories": [
                {
                    "content": escape(match.content),
                    "scope": match.scope,
                    "line_number": match.line_number,
                    "updated_at": match.updated_at.isoformat(),
                }
                for match in found
            ]
        }


def _check_place(arguments: dict[str, Any]) -> None:
    """Refuse a block or a scope that there is not, in the words that every door has for it."""
    if "block" in arguments:
        key_of(arguments["block"])
    if "scope" in arguments:
        check_block_scope(arguments["scope"], BLOCK_SCOPES)
