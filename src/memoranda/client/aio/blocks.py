"""Memory blocks through the server: `client.memory`."""

from __future__ import annotations

import builtins
from datetime import datetime
from typing import Literal

from memoranda.client.aio.connection import AsyncConnection
from memoranda.client.aio.pages import collect, collect_linked
from memoranda.client.calls import Call, body, given, moment, once, parameters, path
from memoranda.wire.blocks import Block, BlockMatch, BlockScope, BlockType
from memoranda.wire.facts import History, Revision


class AsyncBlockCalls:
    """The blocks of the user that the key belongs to. With an `agent_id`, those of that agent alone."""

    def __init__(self, connection: AsyncConnection) -> None:
        """Stand on a connection; `client.memory` makes these."""
        self._connection = connection

    async def list(
        self, *, scope: Literal["user", "agent", "all"] | None = None, agent_id: str | None = None
    ) -> builtins.list[Block]:
        """Return the user's blocks; with `scope="agent"` those of every agent or of one, with `"all"` both."""
        asked, place = _owner(scope, agent_id), path("memory", "blocks")
        return await collect_linked(self._connection, place, asked, Block)

    async def get(
        self, block: BlockType, *, scope: BlockScope | None = None, agent_id: str | None = None
    ) -> Block | None:
        """Return a block, None where there is none."""
        call = Call(method="GET", path=_path(block), query=_owner(scope, agent_id), repeatable=True)
        return await self._connection.find(call, Block)

    async def update(
        self,
        block: BlockType,
        content: str,
        *,
        expected_updated_at: datetime | str | None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> Block:
        """Replace a block whole and return it. The stamp is the `updated_at` that was read last; None creates it.

        Raise Conflict where somebody was faster; `.current_updated_at` is the stamp that the block has now.
        """
        call = Call(
            method="PUT",
            path=_path(block),
            query=_owner(scope, agent_id),
            headers=once(idempotency_key),
            body=body(content=content, expected_updated_at=moment(expected_updated_at), **given(source=source)),
            repeatable=True,
        )
        return await self._connection.fetch(call, Block)

    async def delete(
        self,
        block: BlockType,
        *,
        expected_updated_at: datetime | str | None = None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
        source: str | None = None,
    ) -> bool:
        """Delete a block and say whether there was one; with a stamp, only while it still has that."""
        stamp = moment(expected_updated_at)
        call = Call(
            method="DELETE",
            path=_path(block),
            query=_owner(scope, agent_id) | parameters(expected_updated_at=stamp, source=source),
            repeatable=stamp is not None,
        )
        return (await self._connection.send(call, missing=True)).status_code != 404

    async def history(
        self,
        block: BlockType,
        *,
        limit: int | None = None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
    ) -> builtins.list[Revision]:
        """Return the texts a block had, oldest first: what it was, since when, by whom; none where it never was.

        They are read page by page until all or `limit` are there.
        """
        asked, place = _owner(scope, agent_id), f"{_path(block)}/history"
        return await collect(self._connection, place, asked, History, lambda page: page.revisions, limit, missing=True)

    async def undo(
        self,
        block: BlockType,
        *,
        expected_updated_at: datetime | str | None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
    ) -> Block:
        """Bring back the text that a block had before its newest one, or before it was deleted; undoing twice redoes.

        The stamp is the `updated_at` that was read last, None for a block that was deleted.
        """
        call = Call(
            method="POST",
            path=f"{_path(block)}/undo",
            query=_owner(scope, agent_id),
            body=body(expected_updated_at=moment(expected_updated_at)),
            repeatable=True,
        )
        return await self._connection.fetch(call, Block)

    async def recall(
        self, query: str, *, agent_id: str | None = None, limit: int = 10, min_score: float | None = None
    ) -> builtins.list[BlockMatch]:
        """Return the archival lines that answer a query, best first; with an `agent_id` that agent's as well."""
        asked = body(query=query, limit=limit, **given(agent_id=agent_id, min_score=min_score))
        call = Call(method="POST", path=path("memory", "recall"), body=asked, repeatable=True)
        return await self._connection.fetch(call, builtins.list[BlockMatch])


def _path(block: str) -> str:
    return path("memory", "blocks", block)


def _owner(scope: str | None, agent_id: str | None) -> dict[str, str]:
    """Return whose block is meant; whoever names an agent means its block."""
    return parameters(scope="agent" if scope is None and agent_id is not None else scope, agent_id=agent_id)
