"""Folders in, what the server runs out: agents, machines, workflows and chat agents, compiled once and run for many.

A program runs on the handle of whoever calls, and so do the programs that it calls: what it may reach is what they may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from litestar.datastructures import State

from memoranda.api.memory import Memory
from memoranda.chat.agents import Agent
from memoranda.errors import NotFound, UsageError
from memoranda.lang.diagnostics import closest
from memoranda.lang.modules import load_module
from memoranda.lang.reading import read_text
from memoranda.model.policy import Rule
from memoranda.model.run import RunSummary
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.server.auth.keys import Role
from memoranda.server.callers import Caller, handle_for
from memoranda.server.chat_agents import CHAT_FILE, read_chat_agents
from memoranda.server.sessions import Conversants
from memoranda.server.settings import Settings

if TYPE_CHECKING:
    # Imported where one is loaded or looked up: a server without programs is ready sooner.
    from memoranda import mashin, workflow

ACTIONS_FILE = "actions.py"
"""The file, in the folder of workflows, whose marked functions they can call."""
TOOLS_FILE = "tools.py"
"""The file, in the folder of agents, whose functions are their tools."""

_READING, _WRITING = Rule("allow", "runs.read"), Rule("allow", "runs.write")
_RUN: dict[Role, tuple[Rule, ...]] = {"reader": (_READING,), "member": (_READING, _WRITING)}
"""What a role may do with runs, which stand in the tenant. Whose run it is, is asked before any is touched."""


class Programs:
    """What one server runs, by name."""

    def __init__(
        self,
        memory: Memory,
        *,
        machines: Iterable[mashin.Machine] = (),
        workflows: Iterable[workflow.Workflow] = (),
        agents: Iterable[Agent] = (),
        actions: tuple[Any, ...] = (),
        conversants: Conversants | None = None,
    ) -> None:
        """Stand on the memory of the whole server; no program knows another one yet."""
        self.conversants = conversants or Conversants(memory)
        """The agents that hold sessions."""
        self._memory = memory
        self._machines = _by_name("machines", machines, lambda one: one.name)
        self._workflows = _by_name("workflows", workflows, lambda one: one.name)
        self._agents = _by_name("chat agents", agents, lambda one: one.id)
        self._actions = actions

    def agent(self, id: str) -> Agent:
        """Return the agent that is chatted with."""
        return _named(self._agents, id, "agent to chat with")

    def machine(self, name: str, caller: Caller) -> mashin.Machine:
        """Return a machine that runs for a caller, and that can call the others."""
        _named(self._machines, name, "machine")
        return next(one for one in self._machines_for(self.handle(caller)) if one.name == name)

    def workflow(self, name: str, caller: Caller) -> workflow.Workflow:
        """Return a workflow that runs for a caller, and that can call the others."""
        _named(self._workflows, name, "workflow")
        return next(one for one in self._workflows_for(self.handle(caller)) if one.name == name)

    def runs(self, caller: Caller, **asked: Any) -> list[RunSummary]:
        """Return the runs of a caller, those that started last first; `asked` is what `memory.runs.list` takes."""
        return self.handle(caller).runs.list(owner=caller.scope, **asked)

    def summary(self, id: str, caller: Caller) -> RunSummary:
        """Return where a run of the caller stands; somebody else's is not found."""
        summary = self.handle(caller).runs.get(id)
        if not caller.scope.covers(Scope(caller.tenant, summary.scope)):
            raise NotFound(f"there is no run {quote(id)}", hint="List them with memory.runs.list()")
        return summary

    def find(self, id: str, caller: Caller) -> mashin.Run | workflow.Run:
        """Return a run of the caller; one whose text is not installed here can be looked at and cancelled."""
        summary, handle = self.summary(id, caller), self.handle(caller)
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

    def handle(self, caller: Caller) -> Memory:
        """Return the handle that a caller's programs run on: the caller's own, with the right to record runs.

        What a run keeps of itself lies in a scope of its own, whose name nobody knows before it begins.
        """
        return handle_for(self._memory, caller, also=_RUN.get(caller.role, ()))

    # A program that is called runs on the memory that it was loaded with: here that must be the caller's handle, too.
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
    """Return the programs that an application runs; its state knows no types."""
    return state.programs


def load_programs(settings: Settings, memory: Memory) -> Programs:
    """Compile what the folders of the settings hold; raise with what is wrong, before anybody is served."""
    marked = _module_in(settings.workflows, ACTIONS_FILE, "actions")
    actions = () if marked is None else (marked,)
    return Programs(
        memory,
        machines=_machines(settings.machines, memory),
        workflows=_workflows(settings.workflows, memory, actions, settings.egress_allow),
        agents=_chat_agents(settings.agents),
        actions=actions,
        conversants=Conversants(
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
    """Return the files of a folder with these endings, by name; none where no folder is set."""
    if not folder:
        return []
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(
            f"{quote(folder)} is no folder", hint=f"Set `{setting}` to one that is there, or to nothing", value=folder
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


def _named(programs: Mapping[str, T], name: str, what: str) -> T:
    if name not in programs:
        near = closest(name, programs)
        raise NotFound(f"there is no {what} {quote(name)} here", hint=f"Did you mean `{near}`?" if near else "")
    return programs[name]


def _is_of(summary: RunSummary, program: mashin.Machine | workflow.Workflow) -> bool:
    return (program.name, program.plan.digest) == (summary.program, summary.digest)
