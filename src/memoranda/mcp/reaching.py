"""Whose memory it is in, the calls that tools make out: on a database here, or through a server elsewhere.

Both give what travels (`memoranda.wire`), so that no tool knows which of the two it stands on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import UsageError
from memoranda.mcp.arguments import (
    DeleteFact,
    FactHistory,
    ForgetEntry,
    GetBlock,
    GetFact,
    ListFacts,
    RecallEntries,
    RememberEntry,
    SearchBlocks,
    SetFact,
    WriteBlock,
)
from memoranda.model.block import BlockScope
from memoranda.model.fact import OWNER_ACTOR
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.wire.blocks import Block, BlockMatch
from memoranda.wire.collections import Recalled, Remembered, recalled_out
from memoranda.wire.definitions import Definition
from memoranda.wire.facts import Fact, Revision, fact_out, revision_out

if TYPE_CHECKING:
    from memoranda.client import Client

DOOR = "mcp"
ANSWER_BYTES = 1_048_576
"""Bytes of a list that a tool answers with; no model reads that much."""

_READS = ("memory.read",)
_WRITES = ("memory.write",)
_TENANT_WIDE = ("definitions.read",)


class Reach(Protocol):
    """The memory of one user, and of one of the user's agents where there is one."""

    agent: str | None

    def remember(self, asked: RememberEntry) -> Remembered:
        """Keep something so that it is found by meaning."""
        ...

    def recall(self, asked: RecallEntries) -> Recalled:
        """Return what was remembered, best first."""
        ...

    def forget(self, asked: ForgetEntry) -> bool:
        """Forget an entry; say whether it was there."""
        ...

    def get_fact(self, asked: GetFact) -> Fact | None:
        """Return a fact, None where there is none."""
        ...

    def set_fact(self, asked: SetFact) -> Fact:
        """Write a fact and return it."""
        ...

    def list_facts(self, asked: ListFacts) -> list[Fact]:
        """Return facts by key."""
        ...

    def delete_fact(self, asked: DeleteFact) -> bool:
        """Delete a fact; say whether it was there."""
        ...

    def history(self, asked: FactHistory) -> list[Revision]:
        """Return the newest revisions of a key, newest first: one more than asked for, where there are that many."""
        ...

    def get_block(self, asked: GetBlock) -> Block | None:
        """Return a block, None where there is none."""
        ...

    def list_blocks(self) -> list[Block]:
        """Return every block that can be named here."""
        ...

    def update_block(self, asked: WriteBlock) -> Block:
        """Replace a block and return it."""
        ...

    def recall_blocks(self, asked: SearchBlocks) -> list[BlockMatch]:
        """Return lines of archives, best first."""
        ...

    def definitions(self) -> list[Definition]:
        """Return the contracts of keys."""
        ...


class InDatabase:
    """A user's memory in a database that this process has opened."""

    def __init__(self, memory: Memory, *, user: str, agent: str | None = None) -> None:
        """Stand on a handle, which says what may be done; `confined` makes one."""
        self.agent = agent
        self._definitions = memory.definitions
        self._places: dict[BlockScope, ScopedMemory] = {"user": memory.scope(user=user)}
        if agent is not None:
            self._places["agent"] = memory.scope(user=user, agent=agent)

    def remember(self, asked: RememberEntry) -> Remembered:
        """Keep something so that it is found by meaning."""
        return self._at(asked.scope).remember(asked.content, **_options(asked, but=("content",)))

    def recall(self, asked: RecallEntries) -> Recalled:
        """Return what was remembered, best first."""
        options = _options(asked, but=("query",))
        return recalled_out(self._at(asked.scope).recall(asked.query, **options, max_bytes=ANSWER_BYTES))

    def forget(self, asked: ForgetEntry) -> bool:
        """Forget an entry; say whether it was there."""
        return self._at(asked.scope).forget(**_options(asked))

    def get_fact(self, asked: GetFact) -> Fact | None:
        """Return a fact, None where there is none."""
        fact = self._at(asked.scope).get(**_options(asked))
        return None if fact is None else fact_out(fact)

    def set_fact(self, asked: SetFact) -> Fact:
        """Write a fact and return it."""
        return fact_out(self._at(asked.scope).set(**_options(asked)))

    def list_facts(self, asked: ListFacts) -> list[Fact]:
        """Return facts by key."""
        found = self._at(asked.scope).list(**_options(asked), max_bytes=ANSWER_BYTES)
        return [fact_out(fact) for fact in found]

    def delete_fact(self, asked: DeleteFact) -> bool:
        """Delete a fact; say whether it was there."""
        return self._at(asked.scope).delete(**_options(asked))

    def history(self, asked: FactHistory) -> list[Revision]:
        """Return the newest revisions of a key, newest first."""
        found = self._at(asked.scope).history(asked.key, newest=True, limit=asked.limit + 1, max_bytes=ANSWER_BYTES)
        return [revision_out(revision) for revision in found]

    def get_block(self, asked: GetBlock) -> Block | None:
        """Return a block, None where there is none."""
        return self._at(asked.scope).blocks.get(asked.block)

    def list_blocks(self) -> list[Block]:
        """Return every block that can be named here."""
        return [block for place in self._places.values() for block in place.blocks.list()]

    def update_block(self, asked: WriteBlock) -> Block:
        """Replace a block and return it."""
        return self._at(asked.scope).blocks.update(**_options(asked))

    def recall_blocks(self, asked: SearchBlocks) -> list[BlockMatch]:
        """Return lines of archives, best first."""
        return self._places["user"].blocks.recall(**_options(asked), agent=self.agent)

    def definitions(self) -> list[Definition]:
        """Return the contracts of keys."""
        return self._definitions.list()

    def _at(self, scope: BlockScope) -> ScopedMemory:
        ensure_agent(scope, self.agent)
        return self._places[scope]


class OverServer:
    """The memory of the user that an API key belongs to, through a server."""

    def __init__(self, client: Client, *, agent: str | None = None) -> None:
        """Stand on a client: its key says who calls, and what they may."""
        self.agent = agent
        self._client = client

    def remember(self, asked: RememberEntry) -> Remembered:
        """Keep something so that it is found by meaning."""
        options = _options(asked, but=("content",))
        return self._client.collections.remember(asked.content, **options, scope=self._below(asked.scope))

    def recall(self, asked: RecallEntries) -> Recalled:
        """Return what was remembered, best first."""
        options = _options(asked, but=("query",))
        return self._client.collections.recall(asked.query, **options, scope=self._below(asked.scope))

    def forget(self, asked: ForgetEntry) -> bool:
        """Forget an entry; say whether it was there."""
        return self._client.collections.forget(**_options(asked), scope=self._below(asked.scope))

    def get_fact(self, asked: GetFact) -> Fact | None:
        """Return a fact, None where there is none."""
        return self._client.facts.get(**_options(asked), scope=self._below(asked.scope))

    def set_fact(self, asked: SetFact) -> Fact:
        """Write a fact and return it."""
        return self._client.facts.set(**_options(asked), scope=self._below(asked.scope))

    def list_facts(self, asked: ListFacts) -> list[Fact]:
        """Return facts by key."""
        return self._client.facts.list(**_options(asked), scope=self._below(asked.scope))

    def delete_fact(self, asked: DeleteFact) -> bool:
        """Delete a fact; say whether it was there."""
        return self._client.facts.delete(**_options(asked), scope=self._below(asked.scope))

    def history(self, asked: FactHistory) -> list[Revision]:
        """Return the newest revisions of a key, newest first."""
        return self._client.facts.history(asked.key, scope=self._below(asked.scope))[::-1]

    def get_block(self, asked: GetBlock) -> Block | None:
        """Return a block, None where there is none."""
        return self._client.memory.get(asked.block, agent_id=self._agent_of(asked.scope))

    def list_blocks(self) -> list[Block]:
        """Return every block that can be named here."""
        if self.agent is None:
            return self._client.memory.list()
        return self._client.memory.list(scope="all", agent_id=self.agent)

    def update_block(self, asked: WriteBlock) -> Block:
        """Replace a block and return it."""
        return self._client.memory.update(**_options(asked), agent_id=self._agent_of(asked.scope))

    def recall_blocks(self, asked: SearchBlocks) -> list[BlockMatch]:
        """Return lines of archives, best first."""
        return self._client.memory.recall(**_options(asked), agent_id=self.agent)

    def definitions(self) -> list[Definition]:
        """Return the contracts of keys."""
        return self._client.definitions.list()

    def _agent_of(self, scope: BlockScope) -> str | None:
        ensure_agent(scope, self.agent)
        return self.agent if scope == "agent" else None

    def _below(self, scope: BlockScope) -> str | None:
        agent = self._agent_of(scope)
        return None if agent is None else Scope.of(agent=agent).path


def confined(memory: Memory, *, user: str, agent: str | None = None, read_only: bool = False) -> Memory:
    """Return a handle that reaches the memory of one user and the definitions of the tenant, and nothing else.

    It acts for the agent, or for the user where there is none. A handle that acts for somebody already is narrowed.
    """
    place = Scope.of(tenant=memory.tenant, user=user)
    own = tuple(Rule("allow", capability, place) for capability in (*_READS, *(() if read_only else _WRITES)))
    policy = Policy(rules=(*own, *(Rule("allow", capability) for capability in _TENANT_WIDE)))
    if memory.actor == OWNER_ACTOR:
        return memory.acting_as(f"user:{user}" if agent is None else f"agent:{agent}", policy=policy, door=DOOR)
    return memory.narrowed(policy).through(DOOR)


def ensure_agent(scope: BlockScope, agent: str | None) -> None:
    """Refuse the scope of an agent where there is none."""
    if scope == "agent" and agent is None:
        raise UsageError(
            "there is no agent whose memory this could be",
            hint="Leave out `scope`, or start the door with `memoranda mcp --agent …`",
            path="$.scope",
        )


def _options(asked: msgspec.Struct, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what a call was given besides its place, under the names that Python and the client have for it."""
    return {name: getattr(asked, name) for name in asked.__struct_fields__ if name not in ("scope", *but)}
