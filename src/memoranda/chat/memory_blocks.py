"""Memory tools of a chat agent: a model searches memory, and edits memory blocks.

A model replaces a block as a whole, so it may replace only a text that it has seen: in its prompt, or in the response
to a rejected write. Whose memory it is comes from the run, never from the model.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from memoranda.agent.conversation import ToolFailed
from memoranda.agent.models import ToolSpec
from memoranda.agent.prompt import escape, unescape
from memoranda.api.blocks import Blocks
from memoranda.api.memory import Memory
from memoranda.chat.agent import RECALL_MEMORY, UPDATE_MEMORY
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
"""The timestamp of each block that a model has seen; None if it has seen that the block does not exist."""

_DOOR = "chat"
"""The door of a model's writes: they are not the user's own."""

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
"""The memory tools as a model sees them."""


class _Update(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    block: BlockType
    content: str
    scope: BlockScope = "user"


class _Recall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: str
    limit: int = 10


class MemoryTools:
    """The memory tools of one agent for one user, in one run."""

    def __init__(self, memory: Memory, *, user: str, agent_id: str, seen: Seen, source: str) -> None:
        """Take the blocks that the prompt showed, and the label of the source for the block history."""
        through = memory.through(_DOOR)
        self._blocks: dict[BlockScope, Blocks] = {
            "user": through.scope(user=user).blocks,
            "agent": through.scope(user=user, agent=agent_id).blocks,
        }
        self._seen = dict(seen)
        self._source = source

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the result of a call; raise ToolFailed with a message for the model."""
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
            current = blocks.get(block)
            self._seen[block, scope] = None
            if current is not None:
                return self._conflict(block, scope, current)
        # The model writes back escaped text.
        text = unescape(asked.content)
        try:
            expected = self._seen[block, scope]
            written = blocks.update(block, text, expected_updated_at=expected, source=self._source)
        except Conflict:
            return self._conflict(block, scope, blocks.get(block))
        self._seen[block, scope] = written.updated_at
        return {"written": {"block": block, "scope": scope, "updated_at": written.updated_at.isoformat()}}

    def _conflict(self, block: BlockType, scope: BlockScope, current: Block | None) -> dict[str, Any]:
        """Return the response to a rejected write, which shows the model the present text."""
        self._seen[block, scope] = None if current is None else current.updated_at
        return {
            "error": "conflict",
            "code": Conflict.code,
            "message": "Nothing was written: this is the present text of the block. Apply your change to it, and "
            "call again with the whole new text.",
            "current": None
            if current is None
            else {"content": escape(current.content), "updated_at": current.updated_at.isoformat()},
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
    """Refuse an unknown block or scope, with the same message as every other door."""
    if "block" in arguments:
        key_of(arguments["block"])
    if "scope" in arguments:
        check_block_scope(arguments["scope"], BLOCK_SCOPES)
