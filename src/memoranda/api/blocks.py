"""The memory blocks of a user, or of a user and one agent: read, replace whole, recall line by line."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Any, Literal, cast

import msgspec

from memoranda.api.arguments import check_query
from memoranda.engine.blocks import ListBlocks, RecallBlocks
from memoranda.engine.facts import DeleteFact, GetFact, ListFacts, ReadHistory, SetFact
from memoranda.errors import NotFound, UsageError
from memoranda.governance.gate import Caller, Gate
from memoranda.model.block import (
    BLOCK_SCOPES,
    BLOCK_TYPES,
    BLOCKS,
    Block,
    BlockMatch,
    BlockScope,
    BlockType,
    agent_scope,
    as_block,
    check_block_scope,
    check_content,
    check_lines,
    key_of,
    owner_of,
    user_scope,
)
from memoranda.model.clock import parse_moment
from memoranda.model.fact import Fact, Revision
from memoranda.model.limits import Limits, check_count
from memoranda.model.names import check_label, is_block
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import encode_checked

_PORTION = 16
"""Revisions that are read at once while one is looked for."""
_NONE = 0
"""The version of a block that must not exist."""


class Blocks:
    """The blocks `core` and `archival` of one scope: `memory.scope(user="ada").blocks`, with `agent=` of that agent.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     blocks = memory.scope(user="ada").blocks
    ...     core = blocks.update("core", "- Prefers short answers", expected_updated_at=None)
    ...     core = blocks.update("core", "- Prefers long answers", expected_updated_at=core.updated_at)
    ...     blocks.get("core").content
    '- Prefers long answers'
    """

    def __init__(self, gate: Gate, caller: Caller, scope: Scope) -> None:
        """Create the handle of a user's scope, or of one of the user's agents; `memory.scope(…).blocks` does this."""
        self._gate = gate
        self._caller = caller
        self._scope = scope
        self._kind, self._agent = owner_of(scope)

    def get(self, block: BlockType) -> Block | None:
        """Return a block; None when there is none.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     blocks = memory.scope(user="ada").blocks
        ...     blocks.get("core") is None
        True
        """
        fact = self._gate.perform(GetFact(scope=self._scope, key=key_of(block)), self._caller)
        return None if fact is None else as_block(fact)

    def list(self, *, scope: BlockScope | Literal["all"] | None = None) -> builtins.list[Block]:
        """Return the blocks of this scope.

        Of a user, `scope="agent"` gives those of every agent instead, and `all` both. Of an agent, `user` gives
        those that its user shares with all agents, and `all` both.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     blocks = memory.scope(user="ada").blocks
        ...     core = blocks.update("core", "- Throws on Tuesdays", expected_updated_at=None)
        ...     [(block.block_type, block.content) for block in blocks.list()]
        [('core', '- Throws on Tuesdays')]
        """
        wanted = self._kind if scope is None else scope
        check_block_scope(wanted, (*BLOCK_SCOPES, "all"))
        facts: builtins.list[Fact] = []
        if wanted in ("user", "all"):
            facts += self._facts_of(user_scope(self._scope))
        if wanted in ("agent", "all"):
            every = ListBlocks(scope=self._scope)
            facts += self._gate.perform(every, self._caller) if self._agent is None else self._facts_of(self._scope)
        return [as_block(fact) for fact in sorted(facts, key=_place)]

    def update(
        self,
        block: BlockType,
        content: str,
        *,
        expected_updated_at: datetime | str | None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> Block:
        """Replace the whole text of a block, if it has not changed since it was read; otherwise raise Conflict.

        `expected_updated_at` is the `updated_at` last read, as a moment or as ISO 8601 text; None makes a block that
        must not exist yet. A text over the limits is refused, never cut. Line ends become LF.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     blocks = memory.scope(user="ada").blocks
        ...     core = blocks.update("core", "- Throws on Tuesdays", expected_updated_at=None)
        ...     try:
        ...         blocks.update("core", "- Never throws", expected_updated_at=None)
        ...     except memoranda.Conflict as conflict:
        ...         conflict.current_updated_at == core.updated_at
        True
        """
        effect = update_effect(
            self._scope,
            block,
            content,
            self._gate.limits,
            expected_updated_at=expected_updated_at,
            source=source,
            idempotency_key=idempotency_key,
        )
        return as_block(self._gate.perform(effect, self._caller))

    def delete(
        self, block: BlockType, *, expected_updated_at: datetime | str | None = None, source: str | None = None
    ) -> bool:
        """Delete a block and return whether there was one; with a stamp, only if it has not changed since.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     blocks = memory.scope(user="ada").blocks
        ...     core = blocks.update("core", "- Throws on Tuesdays", expected_updated_at=None)
        ...     blocks.delete("core", expected_updated_at=core.updated_at), blocks.delete("core")
        (True, False)
        """
        check_label("source", source)
        stamp = None if expected_updated_at is None else parse_moment(expected_updated_at)
        effect = DeleteFact(scope=self._scope, key=key_of(block), stamp=stamp, source=source)
        return self._gate.perform(effect, self._caller)

    def recall(
        self, query: str, *, agent: str | None = None, limit: int = 10, min_score: float | None = None
    ) -> builtins.list[BlockMatch]:
        r"""Return the lines of the archival block that contain words of a query, best first.

        With an agent, and always in the scope of one, the lines of the user's and of that agent's archive together.
        An empty query lists all lines in their order. Lines that score less than `min_score` are left out.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     blocks = memory.scope(user="ada").blocks
        ...     text = "Kiln: cone 6\nWheel: left foot\nGlaze: celadon"
        ...     block = blocks.update("archival", text, expected_updated_at=None)
        ...     [(match.line_number, match.content) for match in blocks.recall("which glaze?")]
        [(3, 'Glaze: celadon')]
        """
        check_query(query, self._gate.limits)
        check_lines(limit)
        effect = RecallBlocks(
            scope=user_scope(self._scope),
            query=query,
            agent=self._agent_to_search(agent),
            limit=limit,
            min_score=_check_score(min_score),
        )
        return self._gate.perform(effect, self._caller)

    def history(
        self,
        block: BlockType,
        *,
        after: int = 0,
        before: int | None = None,
        newest: bool = False,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> builtins.list[Revision]:
        """Return the texts a block had, oldest first: what it was, since when, by whom.

        The options are those of `history` of a fact.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     blocks = memory.scope(user="ada").blocks
        ...     core = blocks.update("core", "- Throws on Tuesdays", expected_updated_at=None)
        ...     [revision.value for revision in blocks.history("core")]
        ['- Throws on Tuesdays']
        """
        effect = history_effect(
            self._scope, key_of(block), after=after, before=before, newest=newest, limit=limit, max_bytes=max_bytes
        )
        return self._gate.perform(effect, self._caller)

    def undo(self, block: BlockType, *, expected_updated_at: datetime | str | None) -> Block:
        """Bring back the text that a block had before its newest one, or before it was deleted; twice redoes it.

        `expected_updated_at` is the `updated_at` last read, None for a block that was deleted. It is a write like any
        other, with a version and an event of its own.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     blocks = memory.scope(user="ada").blocks
        ...     core = blocks.update("core", "- Throws on Tuesdays", expected_updated_at=None)
        ...     core = blocks.update("core", "- Never throws", expected_updated_at=core.updated_at)
        ...     blocks.undo("core", expected_updated_at=core.updated_at).content
        '- Throws on Tuesdays'
        """
        revisions = self._newest_revisions(block)
        newest = next(revisions, None)
        if newest is None:
            never = f"the {block} block of `{self._scope}` was never written"
            raise NotFound(never, hint="There is nothing to undo: write it first", block=block)
        # The newest text is the current one, or the write below is a conflict.
        exists = expected_updated_at is not None and newest.change == "set"
        earlier = revisions if exists else chain((newest,), revisions)
        text = next((one.value for one in earlier if one.change == "set" and not one.forgotten), None)
        if text is None:
            raise NotFound(
                f"the {block} block of `{self._scope}` had no text before", hint="Delete it instead", block=block
            )
        return self.update(block, text, expected_updated_at=expected_updated_at)

    def _newest_revisions(self, block: BlockType) -> Iterator[Revision]:
        before: int | None = None
        while portion := self.history(block, newest=True, before=before, limit=_PORTION):
            yield from portion
            before = portion[-1].version

    def _facts_of(self, scope: Scope) -> builtins.list[Fact]:
        found = self._gate.perform(ListFacts(scope=scope, prefix=BLOCKS, internal=True), self._caller)
        return [fact for fact in found if is_block(fact.scope, fact.key)]

    def _agent_to_search(self, agent: str | None) -> str | None:
        """Return the agent whose archive is searched in addition to the user's."""
        if agent is None:
            return self._agent
        if self._agent not in (None, agent):
            raise UsageError(
                f"{quote(agent)} is not the agent of `{self._scope}`", hint="Ask in the scope of the user", value=agent
            )
        agent_scope(self._scope, agent)  # raises for an invalid id
        return agent

    def __repr__(self) -> str:
        """Show the scope."""
        return f"<memoranda.Blocks {self._scope}>"


def history_effect(
    scope: Scope,
    key: str,
    *,
    after: int = 0,
    before: int | None = None,
    newest: bool = False,
    limit: int | None = None,
    max_bytes: int | None = None,
) -> ReadHistory:
    """Return the effect of reading revisions, or raise what is wrong with the arguments."""
    check_count("version", after)
    check_count("version", before)
    check_count("limit", limit)
    check_count("number of bytes", max_bytes, least=1)
    return ReadHistory(
        scope=scope, key=key, after=after, before=before, newest=newest, limit=limit, max_bytes=max_bytes
    )


def update_effect(
    scope: Scope,
    block: BlockType,
    content: str,
    limits: Limits,
    *,
    expected_updated_at: datetime | str | None,
    source: str | None = None,
    idempotency_key: str | None = None,
) -> SetFact:
    """Return the effect of an update, for callers who write more in the same batch."""
    key = key_of(block)
    owner_of(scope)
    check_label("source", source)
    check_label("idempotency key", idempotency_key)
    text = content.replace("\r\n", "\n") if isinstance(cast(object, content), str) else content
    return SetFact(
        scope=scope,
        key=key,
        payload=msgspec.Raw(encode_checked(check_content(block, text), limits)),
        expect=_NONE if expected_updated_at is None else None,
        stamp=None if expected_updated_at is None else parse_moment(expected_updated_at),
        source=source,
        idempotency_key=idempotency_key,
    )


def _place(fact: Fact) -> tuple[str, int]:
    """Return the sort key of a block: the user's own first, then by agent, core before archival."""
    return fact.scope.path, BLOCK_TYPES.index(cast("BlockType", fact.key.partition(".")[2]))


def _check_score(score: Any) -> float | None:
    if score is None:
        return None
    if not isinstance(score, int | float) or isinstance(score, bool) or not math.isfinite(score):
        raise UsageError(f"{quote(score)} is not a score", hint="Pass a number, or leave it out", value=score)
    return float(score)
