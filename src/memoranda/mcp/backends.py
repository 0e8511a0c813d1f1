"""Backends of the MCP tools: a local database, or a remote server.

Both return wire types (`memoranda.wire`), so that tools work with either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import UsageError
from memoranda.mcp import arguments
from memoranda.model.block import BlockScope
from memoranda.model.fact import OWNER_ACTOR
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.wire.memory import (
    Block,
    BlockMatch,
    Definition,
    Fact,
    Recalled,
    Remembered,
    Revision,
    fact_json,
    recall_json,
    revision_json,
)

if TYPE_CHECKING:
    from memoranda.client import Client


DOOR = "mcp"
ANSWER_BYTES = 1_048_576
"""Maximum bytes of a list in the result of a tool."""

_READS = ("memory.read",)
_WRITES = ("memory.write",)
_TENANT_WIDE = ("definitions.read",)


class LocalBackend:
    """The memory of a user in a database opened by this process."""

    def __init__(self, memory: Memory, *, user: str, agent: str | None = None) -> None:
        """Use a handle, whose policy applies; see `restrict_to_user`."""
        self.agent = agent
        self._definitions = memory.definitions
        self._places: dict[BlockScope, ScopedMemory] = {"user": memory.scope(user=user)}
        if agent is not None:
            self._places["agent"] = memory.scope(user=user, agent=agent)

    def remember(self, asked: arguments.RememberEntry) -> Remembered:
        """Remember an entry."""
        return self._at(asked.scope).remember(asked.content, **_options(asked, but=("content",)))

    def recall(self, asked: arguments.RecallEntries) -> Recalled:
        """Return matching entries, best first."""
        options = _options(asked, but=("query",))
        return recall_json(self._at(asked.scope).recall(asked.query, **options, max_bytes=ANSWER_BYTES))

    def forget(self, asked: arguments.ForgetEntry) -> bool:
        """Forget an entry; return whether it existed."""
        return self._at(asked.scope).forget(**_options(asked))

    def get_fact(self, asked: arguments.GetFact) -> Fact | None:
        """Return a fact or None."""
        fact = self._at(asked.scope).get(**_options(asked))
        return None if fact is None else fact_json(fact)

    def set_fact(self, asked: arguments.SetFact) -> Fact:
        """Write a fact and return it."""
        return fact_json(self._at(asked.scope).set(**_options(asked)))

    def list_facts(self, asked: arguments.ListFacts) -> list[Fact]:
        """Return facts, ordered by key."""
        found = self._at(asked.scope).list(**_options(asked), max_bytes=ANSWER_BYTES)
        return [fact_json(fact) for fact in found]

    def delete_fact(self, asked: arguments.DeleteFact) -> bool:
        """Delete a fact; return whether it existed."""
        return self._at(asked.scope).delete(**_options(asked))

    def history(self, asked: arguments.FactHistory) -> list[Revision]:
        """Return the newest revisions of a key, newest first; one more than the limit if there are more."""
        found = self._at(asked.scope).history(asked.key, newest=True, limit=asked.limit + 1, max_bytes=ANSWER_BYTES)
        return [revision_json(revision) for revision in found]

    def get_block(self, asked: arguments.GetBlock) -> Block | None:
        """Return a block or None."""
        return self._at(asked.scope).blocks.get(asked.block)

    def list_blocks(self) -> list[Block]:
        """Return the blocks of the user and of the agent."""
        return [block for place in self._places.values() for block in place.blocks.list()]

    def update_block(self, asked: arguments.WriteBlock) -> Block:
        """Replace a block and return it."""
        return self._at(asked.scope).blocks.update(**_options(asked))

    def recall_blocks(self, asked: arguments.SearchBlocks) -> list[BlockMatch]:
        """Return archival lines, best first."""
        return self._places["user"].blocks.recall(**_options(asked), agent=self.agent)

    def definitions(self) -> list[Definition]:
        """Return the definitions."""
        return self._definitions.list()

    def _at(self, scope: BlockScope) -> ScopedMemory:
        ensure_agent(scope, self.agent)
        return self._places[scope]


class RemoteBackend:
    """The memory of an API key's user, through a server."""

    def __init__(self, client: Client, *, agent: str | None = None) -> None:
        """Use a client; its key determines the user and permissions."""
        self.agent = agent
        self._client = client

    def remember(self, asked: arguments.RememberEntry) -> Remembered:
        """Remember an entry."""
        options = _options(asked, but=("content",))
        return self._client.collections.remember(asked.content, **options, scope=self._sub_scope(asked.scope))

    def recall(self, asked: arguments.RecallEntries) -> Recalled:
        """Return matching entries, best first."""
        options = _options(asked, but=("query",))
        return self._client.collections.recall(asked.query, **options, scope=self._sub_scope(asked.scope))

    def forget(self, asked: arguments.ForgetEntry) -> bool:
        """Forget an entry; return whether it existed."""
        return self._client.collections.forget(**_options(asked), scope=self._sub_scope(asked.scope))

    def get_fact(self, asked: arguments.GetFact) -> Fact | None:
        """Return a fact or None."""
        return self._client.facts.get(**_options(asked), scope=self._sub_scope(asked.scope))

    def set_fact(self, asked: arguments.SetFact) -> Fact:
        """Write a fact and return it."""
        return self._client.facts.set(**_options(asked), scope=self._sub_scope(asked.scope))

    def list_facts(self, asked: arguments.ListFacts) -> list[Fact]:
        """Return facts, ordered by key."""
        return self._client.facts.list(**_options(asked), scope=self._sub_scope(asked.scope))

    def delete_fact(self, asked: arguments.DeleteFact) -> bool:
        """Delete a fact; return whether it existed."""
        return self._client.facts.delete(**_options(asked), scope=self._sub_scope(asked.scope))

    def history(self, asked: arguments.FactHistory) -> list[Revision]:
        """Return the newest revisions of a key, newest first."""
        return self._client.facts.history(asked.key, scope=self._sub_scope(asked.scope))[::-1]

    def get_block(self, asked: arguments.GetBlock) -> Block | None:
        """Return a block or None."""
        return self._client.memory.get(asked.block, agent_id=self._agent_of(asked.scope))

    def list_blocks(self) -> list[Block]:
        """Return the blocks of the user and of the agent."""
        if self.agent is None:
            return self._client.memory.list()
        return self._client.memory.list(scope="all", agent_id=self.agent)

    def update_block(self, asked: arguments.WriteBlock) -> Block:
        """Replace a block and return it."""
        return self._client.memory.update(**_options(asked), agent_id=self._agent_of(asked.scope))

    def recall_blocks(self, asked: arguments.SearchBlocks) -> list[BlockMatch]:
        """Return archival lines, best first."""
        return self._client.memory.recall(**_options(asked), agent_id=self.agent)

    def definitions(self) -> list[Definition]:
        """Return the definitions."""
        return self._client.definitions.list()

    def _agent_of(self, scope: BlockScope) -> str | None:
        ensure_agent(scope, self.agent)
        return self.agent if scope == "agent" else None

    def _sub_scope(self, scope: BlockScope) -> str | None:
        agent = self._agent_of(scope)
        return None if agent is None else Scope.of(agent=agent).path


Backend: TypeAlias = LocalBackend | RemoteBackend
"""The memory of one user, and optionally of one of the user's agents."""


def restrict_to_user(memory: Memory, *, user: str, agent: str | None = None, read_only: bool = False) -> Memory:
    """Return a handle restricted to the memory of one user and the definitions of the tenant.

    It acts as the agent, or as the user if there is none. A handle that already has an actor keeps it.
    """
    place = Scope.of(tenant=memory.tenant, user=user)
    own = tuple(Rule("allow", capability, place) for capability in (*_READS, *(() if read_only else _WRITES)))
    policy = Policy(rules=(*own, *(Rule("allow", capability) for capability in _TENANT_WIDE)))
    if memory.actor == OWNER_ACTOR:
        return memory.acting_as(f"user:{user}" if agent is None else f"agent:{agent}", policy=policy, door=DOOR)
    return memory.narrowed(policy).through(DOOR)


def ensure_agent(scope: BlockScope, agent: str | None) -> None:
    """Raise UsageError for the scope `agent` without an agent."""
    if scope == "agent" and agent is None:
        raise UsageError(
            "this server has no agent",
            hint="Leave out `scope`, or start the server with `memoranda mcp --agent …`",
            path="$.scope",
        )


def _options(asked: msgspec.Struct, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the arguments except the scope, as keyword arguments of Python and the client."""
    return {name: getattr(asked, name) for name in asked.__struct_fields__ if name not in ("scope", *but)}
