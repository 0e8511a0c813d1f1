"""A client of a Memoranda server: memory, programs, chat, and what an administrator does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from memoranda.client.address import DEFAULT_URL
from memoranda.client.aio.approvals import AsyncApprovalCalls
from memoranda.client.aio.batch import AsyncBatch
from memoranda.client.aio.blocks import AsyncBlockCalls
from memoranda.client.aio.chat import AsyncConversationCalls, preview, say, stream
from memoranda.client.aio.collections import AsyncCollectionCalls
from memoranda.client.aio.connection import AsyncConnection
from memoranda.client.aio.definitions import AsyncDefinitionCalls
from memoranda.client.aio.facts import AsyncFactCalls
from memoranda.client.aio.keys import AsyncKeyCalls
from memoranda.client.aio.ledger import AsyncLedgerCalls
from memoranda.client.aio.permissions import AsyncPermissionCalls
from memoranda.client.aio.programs import (
    AsyncAgentCalls,
    AsyncMachineCalls,
    AsyncRunCalls,
    AsyncSessionCalls,
    AsyncWorkflowCalls,
)
from memoranda.client.aio.sleep import AsyncSleepCalls
from memoranda.client.aio.transfer import export_to, import_from
from memoranda.client.calls import Call, body, path
from memoranda.client.messages import new_message
from memoranda.wire.chat import Answer, ChatEvent, MemoryPolicy, Prompt
from memoranda.wire.health import Health
from memoranda.wire.upkeep import Ended, Imported, Receipt, Swept


class AsyncClient:
    """One server and one key, so one tenant and one user; a context manager.

    Inside of `async with memoranda.AsyncClient(url, key) as client:` one says `await client.memory.get("core")`.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        timeout: float = 30,
        retries: int = 2,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Take the address and the key; without one, `MEMORANDA_API_KEY` is read. Nothing is sent yet.

        `timeout` is how many seconds a connection, and then each part of an answer, may take. `retries` is how often a
        call is sent again where that is safe. A `transport` of httpx takes the place of its own.
        """
        self._connection = AsyncConnection(base_url, api_key, timeout=timeout, retries=retries, transport=transport)
        self.url = self._connection.url
        self.memory = AsyncBlockCalls(self._connection)
        self.facts = AsyncFactCalls(self._connection)
        self.collections = AsyncCollectionCalls(self._connection)
        self.definitions = AsyncDefinitionCalls(self._connection)
        self.agents = AsyncAgentCalls(self._connection)
        self.sessions = AsyncSessionCalls(self._connection)
        self.machines = AsyncMachineCalls(self._connection)
        self.workflows = AsyncWorkflowCalls(self._connection)
        self.runs = AsyncRunCalls(self._connection)
        self.conversations = AsyncConversationCalls(self._connection)
        self.sleep = AsyncSleepCalls(self._connection)
        self.ledger = AsyncLedgerCalls(self._connection)
        self.approvals = AsyncApprovalCalls(self._connection)
        self.permissions = AsyncPermissionCalls(self._connection)
        self.keys = AsyncKeyCalls(self._connection)

    def batch(self, *, idempotency_key: str | None = None) -> AsyncBatch:
        """Return a batch of writes that are kept all together when its `with` block ends, or not at all."""
        return AsyncBatch(self._connection, idempotency_key)

    async def chat(
        self,
        agent_id: str,
        message: str,
        *,
        conversation_id: str | None = None,
        message_id: str | None = None,
        memory_policy: Mapping[str, Any] | MemoryPolicy | None = None,
        model: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Say something to an agent and return its answer; without a `conversation_id` a conversation begins.

        A message is answered once: sent again under its `message_id`, it gets the same answer. Each gets an id of its
        own unless one is given.
        """
        sent = new_message(
            message, conversation_id, message_id, memory_policy, model, temperature, max_tokens, stream=False
        )
        return await say(self._connection, agent_id, sent, timeout)

    def stream(
        self,
        agent_id: str,
        message: str,
        *,
        conversation_id: str | None = None,
        message_id: str | None = None,
        memory_policy: Mapping[str, Any] | MemoryPolicy | None = None,
        model: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[ChatEvent]:
        """Say something to an agent and yield what happens while it answers; raise what goes wrong.

        `delta` events have the words as they come; `end` has the whole answer. A connection that is lost is taken up
        after the last event that came. Who stops listening loses nothing: the turn is taken to its end, and its answer
        is there for `chat` under the same `message_id`.
        """
        sent = new_message(
            message, conversation_id, message_id, memory_policy, model, temperature, max_tokens, stream=True
        )
        return stream(self._connection, agent_id, sent, timeout)

    async def preview(
        self,
        agent_id: str,
        message: str,
        *,
        conversation_id: str | None = None,
        memory_policy: Mapping[str, Any] | MemoryPolicy | None = None,
    ) -> Prompt:
        """Return what a model would be sent for a message; nothing is asked, and nothing written."""
        return await preview(self._connection, agent_id, message, conversation_id, memory_policy)

    async def health(self) -> Health:
        """Return what the server says of itself."""
        return await self._connection.fetch(Call(method="GET", path="/health", repeatable=True), Health)

    async def erase(self, **ids: str) -> Receipt:
        """Remove everything of a user, project, session… history included; return what went, by kind."""
        return await self._connection.fetch(Call(method="POST", path=path("erase"), body=body(**ids)), Receipt)

    async def end(self, scope: str) -> dict[str, int]:
        """End a session, run or tree below the user, such as `session:s1`; return what went with it, by kind."""
        call = Call(method="POST", path=path("memory", "end"), body=body(scope=scope), repeatable=True)
        return (await self._connection.fetch(call, Ended)).removed

    async def sweep(self) -> Swept:
        """Remove what has expired in the tenant; return counts by kind."""
        return await self._connection.fetch(Call(method="POST", path=path("sweep"), repeatable=True), Swept)

    async def export(self, path: str | Path, *, scope: str | None = None) -> int:
        """Write an export of the tenant, or of what lies at and below a scope, to a file.

        It is JSON Lines, and appears only when it is whole: a stream that broke off leaves nothing behind. Return how
        many facts and entries it holds.
        """
        return await export_to(self._connection, path, scope)

    async def import_file(self, path: str | Path) -> Imported:
        """Write what an export holds, all or nothing. What was erased since it was made stays erased."""
        return await import_from(self._connection, Path(path).read_bytes(), Path(path).name)

    async def import_lines(self, lines: Iterable[bytes], *, source: str | None = None) -> Imported:
        """Write what the lines of an export hold, all or nothing; `source` is where they come from."""
        return await import_from(self._connection, b"\n".join(lines), source)

    async def aclose(self) -> None:
        """Close the connections; closing twice is allowed."""
        await self._connection.aclose()

    async def __aenter__(self) -> Self:
        """Return this client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close this client."""
        await self.aclose()

    def __repr__(self) -> str:
        """Return where it leads, without the key."""
        return f"<memoranda.AsyncClient {self.url}>"
