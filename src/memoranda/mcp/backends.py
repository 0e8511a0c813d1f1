"""Backends of the MCP tools: a local database, or a remote server.

Both return wire types (`memoranda.wire`), so that tools work with either.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import InvalidScope, UsageError
from memoranda.mcp import arguments
from memoranda.model.entry import NOTES
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import SHARED, Scope
from memoranda.model.text import quote
from memoranda.model.trust import OWNER_ACTOR, OriginKind
from memoranda.wire.memory import (
    Block,
    BlockMatch,
    Context,
    Definition,
    Fact,
    Forgotten,
    Learned,
    Recalled,
    Remembered,
    Revision,
    context_json,
    fact_json,
    recall_json,
    revision_json,
)

if TYPE_CHECKING:
    from memoranda.client import Client


DOOR = "mcp"
WRITER: OriginKind = "assistant"
"""What calls the tools: a model, also where it writes down what its user said."""
ANSWER_BYTES = 1_048_576
"""Maximum bytes of a list in the result of a tool."""

_READS = ("memory.read",)
_WRITES = ("memory.write",)
_TENANT_WIDE = ("definitions.read",)


class LocalBackend:
    """The memory of a user in a database opened by this process."""

    def __init__(self, memory: Memory, *, user: str, agent: str | None = None, scopes: Sequence[str] = ()) -> None:
        """Use a handle, whose policy applies; see `restrict_to_user`. `scopes` are shared ones that tools may name."""
        self.agent = agent
        self._user = user
        self._memory = memory
        self._definitions = memory.definitions
        self._owners: dict[str, ScopedMemory] = {"user": memory.scope(user=user)}
        if agent is not None:
            self._owners["agent"] = memory.scope(user=user, agent=agent)
        self._common = [memory.at(name) for name in common_scopes(scopes)]
        self._places = self._owners | dict(zip(common_scopes(scopes), self._common, strict=True))
        self.scopes = tuple(self._places)

    def at_epoch(self, epoch: int) -> LocalBackend:
        """Return the same backend for writes that were decided under a permission epoch."""
        scopes = [place.scope.path or SHARED for place in self._common]
        return LocalBackend(self._memory.at_epoch(epoch), user=self._user, agent=self.agent, scopes=scopes)

    def epoch(self, scope: str) -> int:
        """Return the permission epoch of a scope."""
        return self._memory.permissions.epoch(self._at(scope).scope)

    def remember(self, asked: arguments.RememberEntry) -> Remembered:
        """Remember an entry."""
        place = self._at(asked.scope)
        if asked.passed_on is not None:
            place = self._memory.from_origin(asked.passed_on).at(place.scope)
        return place.remember(asked.content, **_options(asked, but=("content", "passed_on")))

    def learn(self, asked: arguments.LearnMessages) -> Learned:
        """Learn from messages."""
        return self._owners["user"].learn(asked.messages, conversation=asked.conversation, agent=self.agent)

    def context(self, asked: arguments.ReadContext) -> Context:
        """Return what the model should know now."""
        place = self._owners.get("agent") or self._owners["user"]
        told = place.context(asked.query, budget=asked.budget, scopes=self._common, min_trust=asked.min_trust)
        return context_json(told)

    def recall(self, asked: arguments.RecallEntries) -> Recalled:
        """Return matching entries, best first."""
        options = _options(asked, but=("query",))
        return recall_json(self._at(asked.scope).recall(asked.query, **options, max_bytes=ANSWER_BYTES))

    def forget(self, asked: arguments.ForgetEntry) -> Forgotten:
        """Forget what is named, and return what that was."""
        return self._at(asked.scope).forget(**_forget_options(asked))

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
        return [block for place in self._owners.values() for block in place.blocks.list()]

    def update_block(self, asked: arguments.WriteBlock) -> Block:
        """Replace a block and return it."""
        return self._at(asked.scope).blocks.update(**_options(asked))

    def recall_blocks(self, asked: arguments.SearchBlocks) -> list[BlockMatch]:
        """Return archival lines, best first."""
        return self._owners["user"].blocks.recall(**_options(asked), agent=self.agent)

    def definitions(self) -> list[Definition]:
        """Return the definitions."""
        return self._definitions.list()

    def _at(self, scope: str) -> ScopedMemory:
        ensure_offered(scope, self.scopes)
        return self._places[scope]


class RemoteBackend:
    """The memory of an API key's user, through a server."""

    def __init__(
        self, client: Client, *, agent: str | None = None, scopes: Sequence[str] = (), origin: OriginKind = WRITER
    ) -> None:
        """Use a client; its key determines the user and permissions. `scopes` are shared ones that tools may name.

        `origin` is what writes; it never raises what the key is trusted for.
        """
        self.agent = agent
        self.scopes = ("user", *(() if agent is None else ("agent",)), *common_scopes(scopes))
        self._common = common_scopes(scopes)
        self._client = client.from_origin(origin)

    def at_epoch(self, epoch: int) -> RemoteBackend:
        """Return the same backend for writes that were decided under a permission epoch."""
        other = copy(self)
        other._client = self._client.at_epoch(epoch)
        return other

    def epoch(self, scope: str) -> int:
        """Return the permission epoch of a scope."""
        return self._client.permissions.epoch(self._scope_name(scope))

    def remember(self, asked: arguments.RememberEntry) -> Remembered:
        """Remember an entry."""
        options = _options(asked, but=("content", "passed_on"))
        client = self._client if asked.passed_on is None else self._client.from_origin(asked.passed_on)
        return client.collections.remember(asked.content, **options, scope=self._scope_name(asked.scope))

    def learn(self, asked: arguments.LearnMessages) -> Learned:
        """Learn from messages."""
        return self._client.learn(asked.messages, conversation=asked.conversation, agent=self.agent)

    def context(self, asked: arguments.ReadContext) -> Context:
        """Return what the model should know now."""
        scope = None if self.agent is None else Scope.of(agent=self.agent).path
        return self._client.context(
            asked.query, budget=asked.budget, scopes=self._common, min_trust=asked.min_trust, scope=scope
        )

    def recall(self, asked: arguments.RecallEntries) -> Recalled:
        """Return matching entries, best first."""
        options = _options(asked, but=("query",))
        return self._client.collections.recall(asked.query, **options, scope=self._scope_name(asked.scope))

    def forget(self, asked: arguments.ForgetEntry) -> Forgotten:
        """Forget what is named, and return what that was."""
        return self._client.collections.forget(**_forget_options(asked), scope=self._scope_name(asked.scope))

    def get_fact(self, asked: arguments.GetFact) -> Fact | None:
        """Return a fact or None."""
        return self._client.facts.get(**_options(asked), scope=self._scope_name(asked.scope))

    def set_fact(self, asked: arguments.SetFact) -> Fact:
        """Write a fact and return it."""
        return self._client.facts.set(**_options(asked), scope=self._scope_name(asked.scope))

    def list_facts(self, asked: arguments.ListFacts) -> list[Fact]:
        """Return facts, ordered by key."""
        return self._client.facts.list(**_options(asked), scope=self._scope_name(asked.scope))

    def delete_fact(self, asked: arguments.DeleteFact) -> bool:
        """Delete a fact; return whether it existed."""
        return self._client.facts.delete(**_options(asked), scope=self._scope_name(asked.scope))

    def history(self, asked: arguments.FactHistory) -> list[Revision]:
        """Return the newest revisions of a key, newest first."""
        return self._client.facts.history(asked.key, scope=self._scope_name(asked.scope))[::-1]

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

    def _agent_of(self, scope: str) -> str | None:
        ensure_offered(scope, self.scopes)
        return self.agent if scope == "agent" else None

    def _scope_name(self, scope: str) -> str | None:
        """Return what the server calls a scope of the tools; None for the user's own."""
        agent = self._agent_of(scope)
        if agent is not None:
            return Scope.of(agent=agent).path
        return None if scope == "user" else scope


Backend: TypeAlias = LocalBackend | RemoteBackend
"""The memory of one user, and optionally of one of the user's agents."""


def restrict_to_user(
    memory: Memory,
    *,
    user: str,
    agent: str | None = None,
    scopes: Sequence[str] = (),
    read_only: bool = False,
    origin: OriginKind = WRITER,
) -> Memory:
    """Return a handle restricted to the memory of one user and the definitions of the tenant.

    What it writes comes from `origin`: a model, unless the operator says otherwise.

    It acts as the agent, or as the user if there is none. A handle that already has an actor keeps it. Of the shared
    `scopes` it reaches what the database grants that actor.
    """
    capabilities = (*_READS, *(() if read_only else _WRITES))
    own = Scope.of(tenant=memory.tenant, user=user)
    common = [Scope.named(name, tenant=memory.tenant) for name in common_scopes(scopes)]
    if memory.actor == OWNER_ACTOR:
        actor = f"user:{user}" if agent is None else f"agent:{agent}"
        memory = memory.acting_as(actor, role="reader" if read_only else "member", own=(own,), origin=origin)
    else:
        memory = memory.from_origin(origin)
    return memory.narrowed(_policy_in([own, *common], capabilities)).through(DOOR)


def _policy_in(places: Sequence[Scope], capabilities: Sequence[str]) -> Policy:
    rules = (Rule("allow", capability, place) for place in places for capability in capabilities)
    return Policy(rules=(*rules, *(Rule("allow", capability) for capability in _TENANT_WIDE)))


def common_scopes(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of shared scopes that tools may use, each once; raise InvalidScope for any other scope."""
    for name in names:
        if not name or not Scope.named(name).is_common:
            raise InvalidScope(
                f"{quote(name)} is not a shared scope",
                hint="Name `shared` or a project, such as `project:atlas`",
                value=name,
            )
    return tuple(dict.fromkeys(Scope.named(name).path or SHARED for name in names))


def ensure_offered(scope: str, scopes: Sequence[str]) -> None:
    """Raise UsageError for a scope that this server does not offer."""
    if scope not in scopes:
        missing = "has no agent" if scope == "agent" else f"does not offer the scope {quote(scope)}"
        option = "--agent" if scope == "agent" else "--scope"
        raise UsageError(
            f"this server {missing}: scopes are {', '.join(scopes)}",
            hint=f"Name one of them, or start the server with `memoranda mcp {option} …`",
            path="$.scope",
        )


def _options(asked: msgspec.Struct, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the arguments except the scope and the epoch, as keyword arguments of Python and the client."""
    return {name: getattr(asked, name) for name in asked.__struct_fields__ if name not in ("scope", "epoch", *but)}


def _forget_options(asked: arguments.ForgetEntry) -> dict[str, Any]:
    options = _options(asked)
    if asked.key is None:
        return options | {"namespace": None}
    return options | {"collection": asked.collection or NOTES}
