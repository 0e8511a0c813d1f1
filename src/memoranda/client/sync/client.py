# Generated from client/aio/client.py by memoranda.client.generate; do not edit.
"""The client of a Memoranda server."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from memoranda.client.config import DEFAULT_URL
from memoranda.client.requests import Request, body, new_message, path
from memoranda.client.sync.admin import (
    ApprovalCalls,
    KeyCalls,
    LedgerCalls,
    PermissionCalls,
    export_to,
    import_from,
)
from memoranda.client.sync.chat import ConversationCalls, SleepCalls, preview, say, stream
from memoranda.client.sync.collections import CollectionCalls
from memoranda.client.sync.connection import Connection
from memoranda.client.sync.memory import Batch, BlockCalls, DefinitionCalls, FactCalls
from memoranda.client.sync.programs import (
    AgentCalls,
    MachineCalls,
    RunCalls,
    SessionCalls,
    WorkflowCalls,
)
from memoranda.wire.admin import Ended, Health, Imported, Receipt, Swept
from memoranda.wire.chat import Answer, ChatEvent, MemoryPolicy, Prompt


class Client:
    """A client for one server and one key, and so for one tenant and user; a context manager.

    Inside `with memoranda.Client(url, key) as client:`, call `client.memory.get("core")`.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        timeout: float = 30,
        retries: int = 2,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Create a client; nothing is sent yet. Without a key, `MEMORANDA_API_KEY` is used.

        `timeout` is in seconds, for connecting and for each part of a response. `retries` is how often a request is
        sent again where that is safe. A `transport` of httpx replaces the default one.
        """
        self._connection = Connection(base_url, api_key, timeout=timeout, retries=retries, transport=transport)
        self.url = self._connection.url
        self.memory = BlockCalls(self._connection)
        self.facts = FactCalls(self._connection)
        self.collections = CollectionCalls(self._connection)
        self.definitions = DefinitionCalls(self._connection)
        self.agents = AgentCalls(self._connection)
        self.sessions = SessionCalls(self._connection)
        self.machines = MachineCalls(self._connection)
        self.workflows = WorkflowCalls(self._connection)
        self.runs = RunCalls(self._connection)
        self.conversations = ConversationCalls(self._connection)
        self.sleep = SleepCalls(self._connection)
        self.ledger = LedgerCalls(self._connection)
        self.approvals = ApprovalCalls(self._connection)
        self.permissions = PermissionCalls(self._connection)
        self.keys = KeyCalls(self._connection)

    def batch(self, *, idempotency_key: str | None = None) -> Batch:
        """Return a batch of writes, applied all or none when its `with` block ends."""
        return Batch(self._connection, idempotency_key)

    def chat(
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
        return say(self._connection, agent_id, sent, timeout)

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
    ) -> Generator[ChatEvent]:
        """Send a message to an agent and yield the events of its reply; raise its error.

        `delta` events contain the text as it is generated, `end` the whole reply. A lost connection is resumed after
        the last event. If you stop listening, the turn is still completed: `chat` with the same `message_id` returns
        its reply.
        """
        sent = new_message(
            message, conversation_id, message_id, memory_policy, model, temperature, max_tokens, stream=True
        )
        return stream(self._connection, agent_id, sent, timeout)

    def preview(
        self,
        agent_id: str,
        message: str,
        *,
        conversation_id: str | None = None,
        memory_policy: Mapping[str, Any] | MemoryPolicy | None = None,
    ) -> Prompt:
        """Return what a model would be sent for a message; no model is called and nothing is written."""
        return preview(self._connection, agent_id, message, conversation_id, memory_policy)

    def health(self) -> Health:
        """Return the health of the server."""
        return self._connection.fetch(Request(method="GET", path="/health", repeatable=True), Health)

    def erase(self, **ids: str) -> Receipt:
        """Erase all data of a user, project, session or other subject, including history; return a receipt."""
        return self._connection.fetch(Request(method="POST", path=path("erase"), body=body(**ids)), Receipt)

    def end(self, scope: str) -> dict[str, int]:
        """End a session, run or tree below the user, such as `session:s1`; return what was removed, by kind."""
        request = Request(method="POST", path=path("memory", "end"), body=body(scope=scope), repeatable=True)
        return (self._connection.fetch(request, Ended)).removed

    def sweep(self) -> Swept:
        """Remove expired data of the tenant; return counts by kind."""
        return self._connection.fetch(Request(method="POST", path=path("sweep"), repeatable=True), Swept)

    def export(self, path: str | Path, *, scope: str | None = None) -> int:
        """Write an export of the tenant, or of a scope and those below, to a file.

        The file contains JSON Lines and appears only when complete. Return the number of facts and entries.
        """
        return export_to(self._connection, path, scope)

    def import_file(self, path: str | Path) -> Imported:
        """Import an export, all or none. Data that was erased since the export stays erased."""
        return import_from(self._connection, Path(path).read_bytes(), Path(path).name)

    def import_lines(self, lines: Iterable[bytes], *, source: str | None = None) -> Imported:
        """Import the lines of an export, all or none; `source` is where they come from."""
        return import_from(self._connection, b"\n".join(lines), source)

    def close(self) -> None:
        """Close the connections; closing twice is allowed."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Return this client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close this client."""
        self.close()

    def __repr__(self) -> str:
        """Return the URL, without the key."""
        return f"<memoranda.Client {self.url}>"
