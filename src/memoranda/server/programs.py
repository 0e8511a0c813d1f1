"""Agents, machines, workflows and chat agents of a server, compiled once at the start.

A program, and the programs that it calls, run on the caller's memory handle and so with the caller's permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import memoranda
from memoranda.agent.connection import prepare
from memoranda.api.memory import Memory
from memoranda.errors import Hint, NotFound, UsageError
from memoranda.lang.diagnostics import closest
from memoranda.lang.document import read_text
from memoranda.lang.python_functions import load_module
from memoranda.model.event import Language, RunSummary
from memoranda.model.policy import Rule
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.runs.program import PROGRAM_WORDS, RecordedProgram
from memoranda.server.auth.principals import Access, Principal, handle_for
from memoranda.server.chat_agents import CHAT_FILE, read_chat_agents
from memoranda.server.settings import Settings

if TYPE_CHECKING:
    from memoranda import abl, chat, mashin, workflow
    from memoranda.runs.run import RunHandle

    AnyRecordedProgram: TypeAlias = RecordedProgram[Any, Any, Any]


ACTIONS_FILE = "actions.py"
"""The file in the workflow folder whose marked functions are actions."""
TOOLS_FILE = "tools.py"
"""The file in the agent folder whose functions are tools."""

_RUN = tuple((capability, Rule("allow", capability)) for capability in ("runs.read", "runs.write"))
"""Permissions for run records, which are in the scope of the tenant. `Programs` checks who owns each run."""
_CACHED_SESSIONS = 64
"""Number of sessions whose agent stays cached on the handle of its caller."""


class Programs:
    """The programs of a server by name."""

    def __init__(
        self,
        memory: Memory,
        *,
        machines: Iterable[mashin.Machine] = (),
        workflows: Iterable[workflow.Workflow] = (),
        chat_agents: Iterable[chat.Agent] = (),
        agents: Iterable[abl.Agent] = (),
        actions: tuple[Any, ...] = (),
    ) -> None:
        """Register programs on the memory of the whole server."""
        self._memory = memory
        self._recorded: dict[Language, dict[str, AnyRecordedProgram]] = {
            "mashin": _by_name("machines", machines),
            "workflow": _by_name("workflows", workflows),
        }
        self._chat_agents = _by_name("chat agents", chat_agents, lambda one: one.id)
        self._agents = _by_name("agents", agents)
        for agent in self._agents.values():
            agent.meet(self._agents.values())
        self._actions = actions
        self._session_agent = lru_cache(_CACHED_SESSIONS)(self._agent_for_session)

    def chat_agent(self, id: str) -> chat.Agent:
        """Return a chat agent."""
        return _find(self._chat_agents, id, "chat agent")

    # machines and workflows

    def program(self, language: Language, name: str, principal: Principal) -> Any:
        """Return a machine or a workflow on the caller's handle, linked with the others."""
        _find(self._recorded[language], name, PROGRAM_WORDS[language])
        return self._programs_for(language, self.handle(principal))[name]

    def runs(self, principal: Principal, **options: Any) -> list[RunSummary]:
        """Return the runs of a caller, newest first; `options` are those of `memory.runs.list`."""
        return self.handle(principal).runs.list(owner=principal.scope, **options)

    def summary(self, id: str, principal: Principal) -> RunSummary:
        """Return the summary of a run of the caller; runs of others are not found."""
        summary = self.handle(principal).runs.get(id)
        if not principal.scope.covers(Scope(principal.tenant, summary.scope)):
            raise NotFound(f"unknown run {quote(id)}", hint=Hint("list", "runs"))
        return summary

    def find(self, id: str, principal: Principal) -> RunHandle[Any]:
        """Return a run of the caller; one whose program was uninstalled can only be read and cancelled."""
        summary, handle = self.summary(id, principal), self.handle(principal)
        linked = self._programs_for(summary.language, handle)
        program = linked.get(summary.program)
        if program is not None and program.plan.digest == summary.digest:
            return program.find(id)
        others: Any = list(linked.values())
        if summary.language == "mashin":
            return memoranda.mashin.find(handle, id, machines=others, kept_text=False)
        return memoranda.workflow.find(handle, id, workflows=others, actions=self._actions, kept_text=False)

    def handle(self, principal: Principal) -> Memory:
        """Return the handle that programs of a caller run on: the caller's own, plus permission to record runs."""
        return handle_for(self._memory, principal, also=_RUN)

    def _programs_for(self, language: Language, handle: Memory) -> dict[str, AnyRecordedProgram]:
        # A called program runs on the handle that it was loaded with, so all of them are moved to the caller's.
        moved = {name: one.on(handle) for name, one in self._recorded[language].items()}
        for one in moved.values():
            one.meet(moved.values())
        return moved

    # sessions with ABL agents

    def start_session(self, access: Access, agent: str, *, project: str, vars: dict[str, Any]) -> abl.Session:
        """Start a session of the caller."""
        _find(self._agents, agent, "agent")
        id = self._memory.ids.new("session")
        moved = self._session_agent(access, id, agent)
        return moved.start(user=access.principal.user, project=project, id=id, vars=vars)

    def find_session(self, access: Access, id: str) -> abl.Session:
        """Return a session of the caller; sessions of others are not found."""
        from memoranda.abl.runtime.persistence import read_state

        principal = access.principal
        # The owner is stored in the session itself, so it is read before the caller's permission is known.
        state, _ = read_state(self._memory.in_tenant(principal.tenant), Scope.of(tenant=principal.tenant, session=id))
        if state.user != principal.user or state.root not in self._agents:
            raise NotFound(
                f"unknown session {quote(id)}",
                hint="It was never started on this server, or it has ended",
            )
        return self._session_agent(access, id, state.root).resume(id)

    def _agent_for_session(self, access: Access, id: str, name: str) -> abl.Agent:
        """Return an agent on a handle that also reaches the scopes of the session."""
        tenant = access.principal.tenant
        scopes = Scope.of(tenant=tenant, session=id), Scope.of(tenant=tenant, tree=id)
        return self._agents[name].on(access.handle(*scopes))


def load_programs(settings: Settings, memory: Memory) -> Programs:
    """Compile the programs in the configured folders; raise the first error."""
    marked = _module_in(settings.workflows, ACTIONS_FILE, "actions")
    actions = () if marked is None else (marked,)
    egress = settings.egress_allow
    flows = [
        file
        for file in _files(settings.workflows, "workflows", ".yaml", ".yml")
        if not file.name.endswith((".tests.yaml", ".tests.yml"))
    ]
    machines = [memoranda.mashin.load(file, memory=memory) for file in _files(settings.machines, "machines", ".mashin")]
    workflows = [_workflow(file, settings, memory=memory, actions=actions, egress=egress) for file in flows]
    chat_agents = _chat_agents(settings.agents)
    files = _files(settings.agents, "agents", ".abl")
    tools = _module_in(settings.agents, TOOLS_FILE, "tools")
    agents = [memoranda.abl.load(file, memory=memory, tools=tools, egress=egress) for file in files]
    for program in (*machines, *workflows, *agents):
        program.prepare()
    prepare(*(agent.model for agent in chat_agents if isinstance(agent.model, str)))
    return Programs(
        memory, machines=machines, workflows=workflows, chat_agents=chat_agents, agents=agents, actions=actions
    )


def _workflow(file: Path, settings: Settings, **options: Any) -> workflow.Workflow:
    behaviour = memoranda.workflow.Behaviour(on_invalid=settings.on_invalid)
    return memoranda.workflow.load(file, behaviour=behaviour, **options)


def _chat_agents(folder: str) -> list[chat.Agent]:
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


def _by_name(what: str, programs: Iterable[T], name_of: Callable[[T], str] = attrgetter("name")) -> dict[str, T]:
    found: dict[str, T] = {}
    for one in programs:
        if name_of(one) in found:
            raise UsageError(f"there are two {what} {quote(name_of(one))}", hint="Give one of them another name")
        found[name_of(one)] = one
    return found


def _find(programs: Mapping[str, T], name: str, what: str) -> T:
    if name not in programs:
        near = closest(name, programs)
        raise NotFound(f"unknown {what} {quote(name)}", hint=f"Did you mean `{near}`?" if near else "")
    return programs[name]
