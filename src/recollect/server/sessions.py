"""Texts of agents in, sessions of whoever calls out: started, taken up again, and never somebody else's."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from types import ModuleType
from typing import Any

from recollect import abl
from recollect.abl.runtime.saving import read_state
from recollect.api.memory import Memory
from recollect.errors import NotFound, UsageError
from recollect.lang.diagnostics import closest
from recollect.model.scope import Scope
from recollect.model.text import quote
from recollect.server.callers import Access

_AWAKE = 64
"""Sessions whose agents are kept compiled; those of the others are compiled again when something is said."""


class Conversants:
    """The agents that hold sessions, by name."""

    def __init__(self, memory: Memory, *, sources: Iterable[str] = (), tools: ModuleType | None = None) -> None:
        """Compile them once, to see what is wrong with them before anybody is served."""
        self._memory = memory
        self._tools = tools
        self._sources: dict[str, str] = {}
        for source in sources:
            name = abl.load(source, memory=memory, tools=tools).name
            if name in self._sources:
                raise UsageError(f"there are two agents {quote(name)}", hint="Give one of them another name")
            self._sources[name] = source
        self._agent = lru_cache(_AWAKE)(self._compiled)

    def start(self, access: Access, agent: str, *, project: str, vars: dict[str, Any]) -> abl.Session:
        """Start a session of the caller with an agent."""
        if agent not in self._sources:
            near = closest(agent, self._sources)
            raise NotFound(f"there is no agent {quote(agent)} here", hint=f"Did you mean `{near}`?" if near else "")
        id = self._memory.ids.new("session")
        return self._agent(access, id, agent).start(user=access.caller.user, project=project, id=id, vars=vars)

    def find(self, access: Access, id: str) -> abl.Session:
        """Return a session of the caller where it stands; somebody else's is not found."""
        caller = access.caller
        # Whose it is stands in the session itself, so it is read before the caller may.
        state, _ = read_state(self._memory.in_tenant(caller.tenant), Scope.of(tenant=caller.tenant, session=id))
        if state.user != caller.user or state.root not in self._sources:
            raise NotFound(
                f"there is no session {quote(id)}",
                hint="It was never started here, or it has ended: an ended session leaves nothing behind",
            )
        return self._agent(access, id, state.root).resume(id)

    def _compiled(self, access: Access, id: str, name: str) -> abl.Agent:
        """Return an agent on the caller's handle, which also reaches what the session keeps of itself."""
        tenant = access.caller.tenant
        handle = access.reaching(Scope.of(tenant=tenant, session=id), Scope.of(tenant=tenant, tree=id))
        others = [
            abl.load(source, memory=handle, tools=self._tools) for one, source in self._sources.items() if one != name
        ]
        return abl.load(self._sources[name], memory=handle, tools=self._tools, agents=others)
