# Generated from client/aio/client.py by memoranda.client.generate; do not edit.
"""The client of a Memoranda server: chat, conversations, sleep-time jobs, and the calls of other modules."""

from __future__ import annotations

import builtins
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from copy import copy
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

import httpx
import msgspec

from memoranda.client.config import DEFAULT_URL
from memoranda.client.problems import error_named
from memoranda.client.requests import (
    Request,
    body,
    chat_request,
    parameters,
    path,
    plain_messages,
    policy_object,
    read_request,
    without_none,
)
from memoranda.client.sse import ServerEvent
from memoranda.client.sync.connection import Calls, Connection
from memoranda.client.sync.memory import (
    Batch,
    BlockCalls,
    CollectionCalls,
    DefinitionCalls,
    FactCalls,
)
from memoranda.client.sync.tenant import (
    AgentCalls,
    ApprovalCalls,
    ConflictCalls,
    GuardCalls,
    KeyCalls,
    LedgerCalls,
    MachineCalls,
    PermissionCalls,
    QuarantineCalls,
    RoleCalls,
    RunCalls,
    SessionCalls,
    WorkflowCalls,
)
from memoranda.errors import Unavailable
from memoranda.model.entry import Kind
from memoranda.model.text import quote
from memoranda.model.trust import OriginKind, Trust, check_trust
from memoranda.wire.admin import Ended, Health, Imported, Receipt, Swept
from memoranda.wire.chat import (
    Answer,
    Change,
    ChatEvent,
    Conversation,
    ConversationKind,
    Conversations,
    ConversationSummary,
    EventType,
    ForgottenConversation,
    JobState,
    MemoryPolicy,
    Part,
    Prompt,
    SleepJob,
    SleepJobs,
    Undone,
)
from memoranda.wire.memory import Context, Learned, Scopes
from memoranda.wire.runs import Reloaded

_KNOWN = frozenset(get_args(EventType))
_EXPORT = path("export")
_LINES = {"Content-Type": "application/x-ndjson"}
_COUNTED = (b'{"fact":', b'{"entry":')


class ConversationCalls(Calls):
    """The conversations of the API key's user."""

    def list(
        self, *, kind: ConversationKind | None = None, limit: int | None = None
    ) -> builtins.list[ConversationSummary]:
        """Return the conversations with agents and workflows, most recently active first; all, or those of a `kind`."""
        asked = parameters(kind=kind)
        return self._collect(Conversations, lambda page: page.conversations, limit, "conversations", query=asked)

    def get(self, conversation_id: str, *, after: int = 0, kind: ConversationKind | None = None) -> Conversation | None:
        """Return a conversation with its parts, all or those after a `seq`; None if there is none."""
        parts: list[Part] = []
        while True:
            found = self._find(Conversation, "conversations", conversation_id, after=after, kind=kind)
            if found is None:
                return None
            parts += found.parts
            if found.next is None:
                return msgspec.structs.replace(found, parts=parts)
            after = found.next


class SleepCalls(Calls):
    """Sleep-time jobs of the API key's user; an administrator may name another `user`."""

    def list(
        self,
        *,
        state: JobState | None = None,
        user: str | None = None,
        everybody: bool = False,
        limit: int | None = None,
    ) -> builtins.list[SleepJob]:
        """Return the consolidation jobs of conversations: waiting, done and failed."""
        asked = parameters(state=state, user=user, everybody=everybody or None)
        return self._collect(SleepJobs, lambda page: page.jobs, limit, "sleep", "jobs", query=asked)

    def undo(self, conversation_id: str, *, user: str | None = None) -> builtins.list[Change]:
        """Undo the last consolidation of a conversation and return the changes. It will not be learned again."""
        query = parameters(user=user)
        return (self._call(Undone, "POST", "sleep", "jobs", conversation_id, "undo", query=query)).changes

    def forget(self, conversation_id: str, *, user: str | None = None) -> builtins.list[str]:
        """Erase a conversation; return the lines removed with it, those learned only from it."""
        query = parameters(user=user)
        return (
            self._call(ForgottenConversation, "POST", "sleep", "jobs", conversation_id, "forget", query=query)
        ).removed


class Client(Calls):
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
        self._use(Connection(base_url, api_key, timeout=timeout, retries=retries, transport=transport))

    def _use(self, connection: Connection) -> None:
        self._connection = connection
        self.url = connection.url
        self.memory = BlockCalls(connection)
        self.facts = FactCalls(connection)
        self.collections = CollectionCalls(connection)
        self.definitions = DefinitionCalls(connection)
        self.agents = AgentCalls(connection)
        self.sessions = SessionCalls(connection)
        self.machines = MachineCalls(connection)
        self.workflows = WorkflowCalls(connection)
        self.runs = RunCalls(connection)
        self.conversations = ConversationCalls(connection)
        self.sleep = SleepCalls(connection)
        self.ledger = LedgerCalls(connection)
        self.approvals = ApprovalCalls(connection)
        self.conflicts = ConflictCalls(connection)
        self.quarantine = QuarantineCalls(connection)
        self.guard = GuardCalls(connection)
        self.permissions = PermissionCalls(connection)
        self.roles = RoleCalls(connection)
        self.keys = KeyCalls(connection)

    def from_origin(self, origin: OriginKind) -> Self:
        """Return the same client for what another origin says, such as `tool_external`: it is trusted no more.

        Both share their connections. What the key is trusted for is never raised.
        """
        other = copy(self)
        other._use(self._connection.from_origin(origin))
        return other

    def at_epoch(self, epoch: int) -> Self:
        """Return the same client, whose writes raise `StaleEpoch` where permissions have changed since this epoch.

        Both share their connections. `permissions.epoch(scope)` is the current epoch of a scope.
        """
        other = copy(self)
        other._use(self._connection.at_epoch(epoch))
        return other

    def batch(self, *, idempotency_key: str | None = None) -> Batch:
        """Return a batch of writes, applied all or none when its `with` block ends."""
        return Batch(self._connection, idempotency_key)

    def learn(
        self,
        messages: Any,
        *,
        conversation: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        at: datetime | str | float | None = None,
        source: str | None = None,
        scope: str | None = None,
    ) -> Learned:
        """Learn from a conversation: keep its messages, and bring what the user stated up to date.

        Messages are those of OpenAI, Anthropic or LangChain, or dictionaries with `role`, `content` and perhaps `name`
        and `at`. The same messages again change nothing.
        """
        when = at.isoformat() if isinstance(at, datetime) else at
        asked = without_none(conversation=conversation, agent=agent, model=model, at=when, source=source)
        sent, query = body(messages=plain_messages(messages), **asked), parameters(scope=scope)
        return self._call(Learned, "POST", "memory", "learn", query=query, body=sent, repeatable=True)

    def context(
        self,
        query: str = "",
        *,
        budget: int = 1_500,
        definitions: Sequence[str] = (),
        kinds: Sequence[Kind] | None = None,
        collections: Sequence[str] | None = None,
        scopes: Sequence[str] = (),
        limit: int = 12,
        threshold: float | None = None,
        core: bool = True,
        min_trust: Trust = "untrusted",
        scope: str | None = None,
    ) -> Context:
        """Return what an agent should be told now: core blocks, records, and what answers the query, as text.

        The text never takes more tokens than the budget; `left_out` says what was left out, and why. With
        `scope="agent:emails"` it is for that agent. `min_trust` leaves out what is trusted less.
        """
        named = {"definitions": list(definitions), "scopes": list(scopes)}
        narrowing = without_none(
            kinds=None if kinds is None else list(kinds),
            collections=None if collections is None else list(collections),
            threshold=threshold,
        )
        if min_trust != "untrusted":
            narrowing["min_trust"] = check_trust(min_trust)
        sent = body(query=query, budget=budget, limit=limit, core=core, **named, **narrowing)
        asked = parameters(scope=scope)
        return self._call(Context, "POST", "memory", "context", query=asked, body=sent, repeatable=True)

    def scopes(self, *, prefix: str = "", limit: int | None = None) -> builtins.list[str]:
        """Return the scopes of the tenant that have facts or entries, by path; for administrators."""
        query = parameters(prefix=prefix or None)
        return self._collect(Scopes, lambda page: page.scopes, limit, "scopes", query=query)

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
        options = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
        ids = conversation_id, message_id
        request = chat_request(agent_id, message, *ids, memory_policy, stream=False, timeout=timeout, **options)
        return self._connection.fetch(request, Answer)

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
        options = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
        ids = conversation_id, message_id
        request = chat_request(agent_id, message, *ids, memory_policy, stream=True, timeout=timeout, **options)
        return self._events(request)

    def _events(self, request: Request) -> Generator[ChatEvent]:
        with closing(self._connection.stream(request)) as events:
            for one in events:
                event = _decode_event(one, self.url)
                if event is None:
                    continue
                if event.type == "error":
                    raise error_named(str(event.metadata.get("code", "")), event.content)
                yield event
                if event.type == "end":
                    return

    def preview(
        self,
        agent_id: str,
        message: str,
        *,
        conversation_id: str | None = None,
        memory_policy: Mapping[str, Any] | MemoryPolicy | None = None,
    ) -> Prompt:
        """Return what a model would be sent for a message; no model is called and nothing is written."""
        asked = without_none(conversation_id=conversation_id, memory_policy=policy_object(memory_policy))
        sent = body(message=message, **asked)
        return self._call(Prompt, "POST", "agent", agent_id, "prompts", "preview", body=sent, repeatable=True)

    def health(self) -> Health:
        """Return the health of the server."""
        return self._connection.fetch(read_request("/health", {}), Health)

    def erase(self, **ids: str) -> Receipt:
        """Erase all data of a user, project, session or other subject, including history; return a receipt."""
        return self._call(Receipt, "POST", "erase", body=body(**ids))

    def end(self, scope: str) -> dict[str, int]:
        """End a session, run or tree below the user, such as `session:s1`; return what was removed, by kind."""
        return (self._call(Ended, "POST", "memory", "end", body=body(scope=scope), repeatable=True)).removed

    def sweep(self) -> Swept:
        """Remove expired data of the tenant; return counts by kind."""
        return self._call(Swept, "POST", "sweep", repeatable=True)

    def reload(self) -> Reloaded:
        """Let the server load its program files again; for administrators. Return what changed."""
        return self._call(Reloaded, "POST", "programs", "reload", repeatable=True)

    def export(self, path: str | Path, *, scope: str | None = None) -> int:
        """Write an export of the tenant, or of a scope and those below, to a file.

        The file contains JSON Lines and appears only when complete. Return the number of facts and entries.
        """
        request = Request(method="GET", path=_EXPORT, query=parameters(scope=scope))
        target = Path(path)
        partial = target.with_name(f"{target.name}.partial")
        count = 0
        try:
            with partial.open("wb") as lines:
                for line in self._connection.lines(request):
                    lines.write(line + b"\n")
                    count += line.startswith(_COUNTED)
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
        return count

    def import_file(self, path: str | Path) -> Imported:
        """Import an export, all or none. Data that was erased since the export stays erased."""
        return self._import(Path(path).read_bytes(), Path(path).name)

    def import_lines(self, lines: Iterable[bytes], *, source: str | None = None) -> Imported:
        """Import the lines of an export, all or none; `source` is where they come from."""
        return self._import(b"\n".join(lines), source)

    def _import(self, content: bytes, source: str | None) -> Imported:
        # Importing the same lines twice changes nothing.
        asked = parameters(source=source)
        return self._call(Imported, "POST", "import", query=asked, headers=_LINES, body=content, repeatable=True)

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


def _decode_event(event: ServerEvent, url: str) -> ChatEvent | None:
    """Decode a chat event; None for an unknown type of a newer server."""
    try:
        return msgspec.json.decode(event.data, type=ChatEvent)
    except msgspec.DecodeError as error:
        if event.event not in _KNOWN:
            return None
        raise Unavailable(
            f"{quote(url)} sent an event that this client cannot decode: {error}",
            hint="Check that the versions of client and server match",
            url=url,
            sent=True,
        ) from error
