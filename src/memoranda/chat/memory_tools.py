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
from memoranda.api.context import is_near
from memoranda.api.memory import Memory
from memoranda.chat.agent import RECALL_MEMORY, UPDATE_BLOCK
from memoranda.engine.recall import RecallAll
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
from memoranda.model.definition import Definition, plain_text
from memoranda.model.entry import Match, Recalled
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin, Trust, lowest
from memoranda.runs.records import UPDATE_MEMORY, load_memory, update_records, update_tool

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
    "Search archival memory about the user, and the collections that you were given, best first. An empty query lists "
    "all lines.",
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
"""The memory tools as a model sees them, if nothing is mounted."""


class Mounts(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent sees beside memory blocks: records, and collections that it searches."""

    records: tuple[tuple[Definition, Scope], ...] = ()
    collections: tuple[tuple[Scope, str], ...] = ()

    def searches(self, query: str) -> tuple[RecallAll, ...]:
        """Return what searches the collections for a query."""
        return tuple(RecallAll(scope=scope, query=query, collections=(name,)) for scope, name in self.collections)


def tools_for(mounts: Mounts) -> tuple[ToolSpec, ...]:
    """Return the memory tools; with records mounted, `update_memory` is for them, and blocks have their own."""
    update = update_tool(definition for definition, _ in mounts.records)
    if update is None:
        return MEMORY_TOOLS
    return (update, msgspec.structs.replace(_UPDATE, name=UPDATE_BLOCK), _RECALL)


class _Update(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    block: BlockType
    content: str
    scope: BlockScope = "user"


class _Recall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: str
    limit: int = 10


class MemoryTools:
    """The memory tools of one agent for one user, in one run."""

    def __init__(
        self,
        memory: Memory,
        *,
        user: str,
        agent_id: str,
        seen: Seen,
        source: str,
        mounts: Mounts | None = None,
        told: Trust = "high",
    ) -> None:
        """Take the blocks that the prompt showed, what is mounted, and the label of the source for the history.

        `told` is how far the least trusted memory in the prompt is trusted: what the model writes is trusted no more.
        """
        self._told: Trust = told
        through = memory.through(_DOOR)
        self._memory = through
        self._owner = user
        self._agent = agent_id
        self._mounts = mounts or Mounts()
        self._blocks: dict[BlockScope, Blocks] = {
            "user": through.scope(user=user).blocks,
            "agent": through.scope(user=user, agent=agent_id).blocks,
        }
        self._seen = dict(seen)
        self._source = source

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the result of a call; raise ToolFailed with a message for the model."""
        try:
            if name == UPDATE_MEMORY and self._mounts.records:
                return self._update_records(arguments)
            if name in (UPDATE_MEMORY, UPDATE_BLOCK):
                _check_place(arguments)
                return self._update(msgspec.convert(arguments, _Update))
            return self._recall(msgspec.convert(arguments, _Recall))
        except msgspec.ValidationError as error:
            raise ToolFailed(f"the arguments do not fit: {error}") from error
        except (UsageError, Refused) as error:
            raise ToolFailed(error) from error

    def _update(self, asked: _Update) -> dict[str, Any]:
        block, scope = asked.block, asked.scope
        blocks = self._blocks_of(scope)
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

    def _blocks_of(self, scope: BlockScope) -> Blocks:
        """Return the blocks of a scope, as the model may write them after what it was told."""
        own = {"user": self._owner} if scope == "user" else {"user": self._owner, "agent": self._agent}
        return self._memory.for_model(self._told).scope(**own).blocks

    def _note_trust(self, *origins: Origin) -> None:
        """Lower the trust of what the model writes to that of what it is told now."""
        trusts: list[Trust] = [origin.trust for origin in origins]
        self._told = lowest(self._told, *trusts)

    def _note_block(self, block: BlockType, agent: str | None) -> None:
        ids = {"user": self._owner} if agent is None else {"user": self._owner, "agent": agent}
        fact = self._memory.scope(**ids).get(key_of(block))
        if fact is not None:
            self._note_trust(fact.origin)

    def _conflict(self, block: BlockType, scope: BlockScope, current: Block | None) -> dict[str, Any]:
        """Return the response to a rejected write, which shows the model the present text."""
        self._seen[block, scope] = None if current is None else current.updated_at
        if current is not None:
            self._note_block(block, current.agent_id)
        return {
            "error": "conflict",
            "code": Conflict.code,
            "message": "Nothing was written: this is the present text of the block. Apply your change to it, and "
            "call again with the whole new text.",
            "current": None
            if current is None
            else {"content": escape(current.content), "updated_at": current.updated_at.isoformat()},
        }

    def _update_records(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Write the records that are mounted, all or nothing."""
        slugs = [definition.slug for definition, _ in self._mounts.records]
        ids = [definition.id for definition, _ in self._mounts.records]
        memory = self._memory.for_model(self._told)
        working = load_memory(memory, owner=self._owner, agent=self._agent, definition_ids=ids, on_invalid="skip")
        return {"memory": update_records(working, slugs, arguments)}

    def _recall(self, asked: _Recall) -> dict[str, Any]:
        lines = self._blocks["agent"].recall(asked.query, limit=asked.limit)
        for agent in {match.agent_id for match in lines}:
            self._note_block("archival", agent)
        found: list[tuple[float, dict[str, Any]]] = [
            (
                match.score,
                {
                    "content": escape(match.content),
                    "scope": match.scope,
                    "line_number": match.line_number,
                    "updated_at": match.updated_at.isoformat(),
                },
            )
            for match in lines
        ]
        for search in self._mounts.searches(asked.query):
            matches: Recalled = self._memory.perform(msgspec.structs.replace(search, limit=asked.limit))
            near = [match for match in matches if is_near(match, None)]
            self._note_trust(*(match.origin for match in near))
            found += [(match.score, _entry(match)) for match in near]
        if self._mounts.collections and asked.query.strip():
            found.sort(key=lambda one: -one[0])
        return {"memories": [memory for _, memory in found[: asked.limit]]}


def _entry(match: Match) -> dict[str, Any]:
    content = match.content if isinstance(match.content, str) else plain_text(match.content)
    return {
        "content": escape(content),
        "source": match.collection,
        "scope": str(match.scope),
        "updated_at": match.updated_at.isoformat(),
    }


def _check_place(arguments: dict[str, Any]) -> None:
    """Refuse an unknown block or scope, with the same message as every other door."""
    if "block" in arguments:
        key_of(arguments["block"])
    if "scope" in arguments:
        check_block_scope(arguments["scope"], BLOCK_SCOPES)
