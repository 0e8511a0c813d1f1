"""Agents, machines, workflows and chat agents of a server, compiled once at the start.

A program, and the programs that it calls, run on the caller's memory handle and so with the caller's permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from litestar.datastructures import State

from memoranda.api.memory import Memory
from memoranda.chat.agent import Agent
from memoranda.errors import Hint, NotFound, UsageError
from memoranda.lang.diagnostics import closest
from memoranda.lang.document import read_text
from memoranda.lang.python_functions import load_module
from memoranda.model.event import RunSummary
from memoranda.model.policy import Rule
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.server.auth.keys import Role
from memoranda.server.auth.principals import Access, Principal, handle_for
from memoranda.server.chat_agents import CHAT_FILE, read_chat_agents
from memoranda.server.settings import Settings

if TYPE_CHECKING:
    from memoranda import abl, mashin, workflow


ACTIONS_FILE = "actions.py"
"""The file in the workflow folder whose marked functions are actions."""
TOOLS_FILE = "tools.py"
"""The file in the agent folder whose functions are tools."""

_READ, _WRITE = Rule("allow", "runs.read"), Rule("allow", "runs.write")
_RUN: dict[Role, tuple[Rule, ...]] = {"reader": (_READ,), "member": (_READ, _WRITE)}
"""Permissions for run records, which are in the scope of the tenant. `Programs` checks who owns each run."""


class Programs:
    """The programs of a server by name."""

    def __init__(
        self,
        memory: Memory,
        *,
        machines: Iterable[mashin.Machine] = (),
        workflows: Iterable[workflow.Workflow] = (),
        agents: Iterable[Agent] = (),
        actions: tuple[Any, ...] = (),
        conversants: SessionAgents | None = None,
    ) -> None:
        """Register programs on the memory of the whole server."""
        self.conversants = conversants or SessionAgents(memory)
        """The ABL agents."""
        self._memory = memory
        self._machines = _by_name("machines", machines, lambda one: one.name)
        self._workflows = _by_name("workflows", workflows, lambda one: one.name)
        self._agents = _by_name("chat agents", agents, lambda one: one.id)
        self._actions = actions

    def agent(self, id: str) -> Agent:
        """Return a chat agent."""
        return _find(self._agents, id, "chat agent")

    def machine(self, name: str, principal: Principal) -> mashin.Machine:
        """Return a machine on the caller's handle, linked with the others."""
        _find(self._machines, name, "machine")
        return next(one for one in self._machines_for(self.handle(principal)) if one.name == name)

    def workflow(self, name: str, principal: Principal) -> workflow.Workflow:
        """Return a workflow on the caller's handle, linked with the others."""
        _find(self._workflows, name, "workflow")
        return next(one for one in self._workflows_for(self.handle(principal)) if one.name == name)

    def runs(self, principal: Principal, **options: Any) -> list[RunSummary]:
        """Return the runs of a caller, newest first; `options` are those of `memory.runs.list`."""
        return self.handle(principal).runs.list(owner=principal.scope, **options)

    def summary(self, id: str, principal: Principal) -> RunSummary:
        """Return the summary of a run of the caller; runs of others are not found."""
        summary = self.handle(principal).runs.get(id)
        if not principal.scope.covers(Scope(principal.tenant, summary.scope)):
            raise NotFound(f"there is no run {quote(id)}", hint=Hint("list", "runs"))
        return summary

    def find(self, id: str, principal: Principal) -> mashin.Run | workflow.Run:
        """Return a run of the caller; one whose program is no longer installed can only be read and cancelled."""
        summary, handle = self.summary(id, principal), self.handle(principal)
        if summary.language == "mashin":
            machines = self._machines_for(handle)
            machine = next((one for one in machines if _is_of(summary, one)), None)
            if machine is not None:
                return machine.find(id)
            from memoranda import mashin

            return mashin.find(handle, id, machines=machines, kept_text=False)
        workflows = self._workflows_for(handle)
        flow = next((one for one in workflows if _is_of(summary, one)), None)
        if flow is not None:
            return flow.find(id)
        from memoranda import workflow

        return workflow.find(handle, id, workflows=workflows, actions=self._actions, kept_text=False)

    def handle(self, principal: Principal) -> Memory:
        """Return the handle that programs of a caller run on: the caller's own, plus permission to record runs."""
        return handle_for(self._memory, principal, also=_RUN.get(principal.role, ()))

    # A called program runs on the handle that it was loaded with, so all of them are moved to the caller's.
    def _machines_for(self, handle: Memory) -> list[mashin.Machine]:
        team = [one.on(handle) for one in self._machines.values()]
        for one in team:
            one.meet(team)
        return team

    def _workflows_for(self, handle: Memory) -> list[workflow.Workflow]:
        team = [one.on(handle) for one in self._workflows.values()]
        for one in team:
            one.meet(team)
        return team


def programs_of(state: State) -> Programs:
    """Return the programs of an application, typed."""
    return state.programs


def load_programs(settings: Settings, memory: Memory) -> Programs:
    """Compile the programs in the configured folders; raise the first error."""
    marked = _module_in(settings.workflows, ACTIONS_FILE, "actions")
    actions = () if marked is None else (marked,)
    return Programs(
        memory,
        machines=_machines(settings.machines, memory),
        workflows=_workflows(settings.workflows, memory, actions, settings.egress_allow),
        agents=_chat_agents(settings.agents),
        actions=actions,
        conversants=SessionAgents(
            memory,
            sources=_files(settings.agents, "agents", ".abl"),
            tools=_module_in(settings.agents, TOOLS_FILE, "tools"),
            egress=settings.egress_allow,
        ),
    )


def _machines(folder: str, memory: Memory) -> list[mashin.Machine]:
    files = _files(folder, "machines", ".mashin")
    if not files:
        return []
    from memoranda import mashin

    return [mashin.load(file, memory=memory) for file in files]


def _workflows(
    folder: str, memory: Memory, actions: tuple[Any, ...], egress: tuple[str, ...]
) -> list[workflow.Workflow]:
    files = [
        file
        for file in _files(folder, "workflows", ".yaml", ".yml")
        if not file.name.endswith((".tests.yaml", ".tests.yml"))
    ]
    if not files:
        return []
    from memoranda import workflow

    return [workflow.load(file, memory=memory, actions=actions, egress=egress) for file in files]


def _chat_agents(folder: str) -> list[Agent]:
    file = Path(folder, CHAT_FILE)
    if not folder or not file.is_file():
        return []
    name, text = read_text(file, endings=(), name=CHAT_FILE)
    return read_chat_agents(text, file=name)


def _module_in(folder: str, name: str, what: str) -> ModuleType | None:
    file = Path(folder, name)
    return load_module(file, what=what) if folder and file.is_file() else None


def _files(folder: str, setting: str, *endings: str) -> list[Path]:
    """Return the files of a folder with these suffixes, sorted by name; none where no folder is set."""
    if not folder:
        return []
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(
            f"{quote(folder)} is not a folder",
            hint=f"Set `{setting}` to an existing folder, or leave it empty",
            value=folder,
        )
    return sorted(file for file in place.iterdir() if file.suffix in endings and file.is_file())


T = TypeVar("T")


def _by_name(what: str, programs: Iterable[T], name_of: Callable[[T], str]) -> dict[str, T]:
    found: dict[str, T] = {}
    for one in programs:
        if name_of(one) in found:
            raise UsageError(f"there are two {what} {quote(name_of(one))}", hint="Give one of them another name")
        found[name_of(one)] = one
    return found


def _find(programs: Mapping[str, T], name: str, what: str) -> T:
    if name not in programs:
        near = closest(name, programs)
        raise NotFound(f"there is no {what} {quote(name)}", hint=f"Did you mean `{near}`?" if near else "")
    return programs[name]


def _is_of(summary: RunSummary, program: mashin.Machine | workflow.Workflow) -> bool:
    return (program.name, program.plan.digest) == (summary.program, summary.digest)


_CACHED_SESSIONS = 64
"""Number of sessions whose agent stays cached on the handle of its caller."""


class SessionAgents:
    """The ABL agents of a server by name."""

    def __init__(
        self,
        memory: Memory,
        *,
        sources: Iterable[Path] = (),
        tools: ModuleType | None = None,
        egress: tuple[str, ...] = (),
    ) -> None:
        """Compile the agents; raise the first error."""
        self._memory = memory
        self._agents: dict[str, abl.Agent] = {}
        for source in sources:
            agent = _load(source, memory, tools, egress)
            if agent.name in self._agents:
                raise UsageError(f"there are two agents {quote(agent.name)}", hint="Give one of them another name")
            self._agents[agent.name] = agent
        for agent in self._agents.values():
            agent.meet(self._agents.values())
        self._agent = lru_cache(_CACHED_SESSIONS)(self._for_session)

    def start(self, access: Access, agent: str, *, project: str, vars: dict[str, Any]) -> abl.Session:
        """Start a session of the caller."""
        if agent not in self._agents:
            near = closest(agent, self._agents)
            raise NotFound(f"there is no agent {quote(agent)}", hint=f"Did you mean `{near}`?" if near else "")
        id = self._memory.ids.new("session")
        return self._agent(access, id, agent).start(user=access.principal.user, project=project, id=id, vars=vars)

    def find(self, access: Access, id: str) -> abl.Session:
        """Return a session of the caller; sessions of others are not found."""
        from memoranda.abl.runtime.persistence import read_state

        principal = access.principal
        # The owner is stored in the session itself, so it is read before the caller's permission is known.
        state, _ = read_state(self._memory.in_tenant(principal.tenant), Scope.of(tenant=principal.tenant, session=id))
        if state.user != principal.user or state.root not in self._agents:
            raise NotFound(
                f"there is no session {quote(id)}",
                hint="It was never started on this server, or it has ended",
            )
        return self._agent(access, id, state.root).resume(id)

    def _for_session(self, access: Access, id: str, name: str) -> abl.Agent:
        """Return an agent on a handle that also reaches the scopes of the session."""
        tenant = access.principal.tenant
        return self._agents[name].on(
            access.handle(Scope.of(tenant=tenant, session=id), Scope.of(tenant=tenant, tree=id))
        )


def _load(source: Path, memory: Memory, tools: ModuleType | None, egress: tuple[str, ...]) -> abl.Agent:
    from memoranda import abl

    return abl.load(source, memory=memory, tools=tools, egress=egress)
