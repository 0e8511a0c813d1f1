"""The client of a Memoranda server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from memoranda.client.aio.admin import (
    AsyncApprovalCalls,
    AsyncKeyCalls,
    AsyncLedgerCalls,
    AsyncPermissionCalls,
    export_to,
    import_from,
)
from memoranda.client.aio.chat import AsyncConversationCalls, AsyncSleepCalls, preview, say, stream
from memoranda.client.aio.collections import AsyncCollectionCalls
from memoranda.client.aio.connection import AsyncConnection
from memoranda.client.aio.memory import AsyncBatch, AsyncBlockCalls, AsyncDefinitionCalls, AsyncFactCalls
from memoranda.client.aio.programs import (
    AsyncAgentCalls,
    AsyncMachineCalls,
    AsyncRunCalls,
    AsyncSessionCalls,
    AsyncWorkflowCalls,
)
from memoranda.client.config import DEFAULT_URL
from memoranda.client.requests import Request, body, new_message, path
from memoranda.wire.admin import Ended, Health, Imported, Receipt, Swept
from memoranda.wire.chat import Answer, ChatEvent, MemoryPolicy, Prompt


class AsyncClient:
    """A client for one server and one key, and so for one tenant and user; a context manager.

    Inside `async with memoranda.AsyncClient(url, key) as client:`, call `await client.memory.get("core")`.
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
        """Create a client; nothing is sent yet. Without a key, `MEMORANDA_API_KEY` is used.

        `timeout` is in seconds, for connecting and for each part of a response. `retries` is how often a request is
        sent again where that is safe. A `transport` of httpx replaces the default one.
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
        """Return a batch of writes, applied all or none when its `with` block ends."""
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
        """Send a message to an agent and return its reply; without a `conversation_id`, start a conversation.

        A message is answered once: sent again with the same `message_id`, it gets the same reply. By default each
        message gets a new id.
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
        """Send a message to an agent and yield the events of its reply; raise its error.

        `delta` events contain the text as it is generated, `end` the whole reply. A lost connection is resumed after
        the last event. If you stop listening, the turn is still completed: `chat` with the same `message_id` returns
        its reply.
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
        """Return what a model would be sent for a message; no model is called and nothing is written."""
        return await preview(self._connection, agent_id, message, conversation_id, memory_policy)

    async def health(self) -> Health:
        """Return the health of the server."""
        return await self._connection.fetch(Request(method="GET", path="/health", repeatable=True), Health)

    async def erase(self, **ids: str) -> Receipt:
        """Erase all data of a user, project, session or other subject, including history; return a receipt."""
        return await self._connection.fetch(Request(method="POST", path=path("erase"), body=body(**ids)), Receipt)

    async def end(self, scope: str) -> dict[str, int]:
        """End a session, run or tree below the user, such as `session:s1`; return what was removed, by kind."""
        request = Request(method="POST", path=path("memory", "end"), body=body(scope=scope), repeatable=True)
        return (await self._connection.fetch(request, Ended)).removed

    async def sweep(self) -> Swept:
        """Remove expired data of the tenant; return counts by kind."""
        return await self._connection.fetch(Request(method="POST", path=path("sweep"), repeatable=True), Swept)

    async def export(self, path: str | Path, *, scope: str | None = None) -> int:
        """Write an export of the tenant, or of a scope and those below, to a file.

        The file contains JSON Lines and appears only when complete. Return the number of facts and entries.
        """
        return await export_to(self._connection, path, scope)

    async def import_file(self, path: str | Path) -> Imported:
        """Import an export, all or none. Data that was erased since the export stays erased."""
        return await import_from(self._connection, Path(path).read_bytes(), Path(path).name)

    async def import_lines(self, lines: Iterable[bytes], *, source: str | None = None) -> Imported:
        """Import the lines of an export, all or none; `source` is where they come from."""
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
        """Return the URL, without the key."""
        return f"<memoranda.AsyncClient {self.url}>"
