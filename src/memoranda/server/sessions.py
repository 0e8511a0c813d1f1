"""Files of agents in, sessions of whoever calls out: started, taken up again, and never somebody else's."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from memoranda.api.memory import Memory
from memoranda.errors import NotFound, UsageError
from memoranda.lang.diagnostics import closest
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.server.callers import Access

if TYPE_CHECKING:
    # Imported where there are agents to load: a server without any is ready sooner.
    from memoranda import abl

_AWAKE = 64
"""Sessions whose agents are kept on the handle of their caller; the others are put on it when something is said."""


class Conversants:
    """The agents that hold sessions, by name."""

    def __init__(
        self,
        memory: Memory,
        *,
        sources: Iterable[Path] = (),
        tools: ModuleType | None = None,
        egress: tuple[str, ...] = (),
    ) -> None:
        """Compile them once; what is wrong with them is raised here, before anybody is served."""
        self._memory = memory
        self._agents: dict[str, abl.Agent] = {}
        for source in sources:
            agent = _load(source, memory, tools, egress)
            if agent.name in self._agents:
                raise UsageError(f"there are two agents {quote(agent.name)}", hint="Give one of them another name")
            self._agents[agent.name] = agent
        for agent in self._agents.values():
            agent.meet(self._agents.values())
        self._agent = lru_cache(_AWAKE)(self._for_session)

    def start(self, access: Access, agent: str, *, project: str, vars: dict[str, Any]) -> abl.Session:
        """Start a session of the caller with an agent."""
        if agent not in self._agents:
            near = closest(agent, self._agents)
            raise NotFound(f"there is no agent {quote(agent)} here", hint=f"Did you mean `{near}`?" if near else "")
        id = self._memory.ids.new("session")
        return self._agent(access, id, agent).start(user=access.caller.user, project=project, id=id, vars=vars)

    def find(self, access: Access, id: str) -> abl.Session:
        """Return a session of the caller where it stands; somebody else's is not found."""
        from memoranda.abl.runtime.saving import read_state

        caller = access.caller
        # Whose it is stands in the session itself, so it is read before the caller may.
        state, _ = read_state(self._memory.in_tenant(caller.tenant), Scope.of(tenant=caller.tenant, session=id))
        if state.user != caller.user or state.root not in self._agents:
            raise NotFound(
                f"there is no session {quote(id)}",
                hint="It was never started here, or it has ended: an ended session leaves nothing behind",
            )
        return self._agent(access, id, state.root).resume(id)

    def _for_session(self, access: Access, id: str, name: str) -> abl.Agent:
        """Return an agent on the caller's handle, which also reaches what the session keeps of itself."""
        tenant = access.caller.tenant
        return self._agents[name].on(
            access.reaching(Scope.of(tenant=tenant, session=id), Scope.of(tenant=tenant, tree=id))
        )


def _load(source: Path, memory: Memory, tools: ModuleType | None, egress: tuple[str, ...]) -> abl.Agent:
    from memoranda import abl

    return abl.load(source, memory=memory, tools=tools, egress=egress)
