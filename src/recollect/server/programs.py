"""Folders in, what the server runs out: agents, machines, workflows and chat agents, compiled once and run for many.

A program runs on the handle of whoever calls, and so do the programs that it calls: what it may reach is what they may.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from recollect.api.memory import Memory
from recollect.chat.agents import Agent
from recollect.chat.memory_policy import MemoryPolicy, policy_for
from recollect.errors import NotFound, UsageError
from recollect.lang.diagnostics import closest
from recollect.lang.modules import load_module
from recollect.model.policy import OWNER, Policy, Rule
from recollect.model.run import RunSummary
from recollect.model.scope import Scope
from recollect.model.text import quote
from recollect.server.callers import DOOR, Caller, policy_of
from recollect.server.parrot import PARROT, Parrot
from recollect.server.sessions import Conversants

if TYPE_CHECKING:
    # Imported where one is loaded or looked up: a server without programs is ready sooner.
    from recollect import mashin, workflow

CHAT_FILE = "chat.toml"
"""The file, in the folder of agents, that describes those who can be chatted with."""
ACTIONS_FILE = "actions.py"
"""The file, in the folder of workflows, whose marked functions they can call."""
TOOLS_FILE = "tools.py"
"""The file, in the folder of agents, whose functions are their tools."""

_RUN: dict[str, tuple[str, ...]] = {"reader": ("runs.read",), "member": ("runs.read", "runs.write")}
"""What a role may do with runs, which stand in the tenant. Whose run it is, is asked before any is touched."""


class ProgramSettings(Protocol):
    """What of the settings speaks about programs: folders, empty where there are none."""

    @property
    def agents(self) -> str:
        """The folder of agents."""
        ...

    @property
    def machines(self) -> str:
        """The folder of machines."""
        ...

    @property
    def workflows(self) -> str:
        """The folder of workflows."""
        ...


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
        """Return a run of the caller, on the text that it began with."""
        summary, handle = self.summary(id, caller), self.handle(caller)
        if summary.language == "mashin":
            machines = self._machines_for(handle)
            machine = next((one for one in machines if _is_of(summary, one)), None)
            if machine is not None:
                return machine.find(id)
            from recollect import mashin

            return mashin.find(handle, id, machines=machines)
        workflows = self._workflows_for(handle)
        flow = next((one for one in workflows if _is_of(summary, one)), None)
        if flow is not None:
            return flow.find(id)
        from recollect import workflow

        return workflow.find(handle, id, workflows=workflows, actions=self._actions)

    def handle(self, caller: Caller) -> Memory:
        """Return the handle that a caller's programs run on: the caller's own, with the right to record runs.

        What a run keeps of itself lies in a scope of its own, whose name nobody knows before it begins.
        """
        policy = policy_of(caller)
        if policy is not OWNER:
            policy = Policy(rules=(*policy.rules, *(Rule("allow", one) for one in _RUN[caller.role])))
        handle = self._memory.in_tenant(caller.tenant).acting_as(caller.actor, policy=policy, door=DOOR)
        return handle.narrowed(Policy.of(allow=caller.scopes)) if caller.scopes else handle

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


def load_programs(settings: ProgramSettings, memory: Memory) -> Programs:
    """Compile what the folders of the settings hold; raise with what is wrong, before anybody is served."""
    marked = _module_in(settings.workflows, ACTIONS_FILE, "actions")
    actions = () if marked is None else (marked,)
    return Programs(
        memory,
        machines=_machines(settings.machines, memory),
        workflows=_workflows(settings.workflows, memory, actions),
        agents=_chat_agents(settings.agents),
        actions=actions,
        conversants=Conversants(
            memory,
            sources=[file.read_text(encoding="utf-8") for file in _files(settings.agents, "agents", ".abl")],
            tools=_module_in(settings.agents, TOOLS_FILE, "tools"),
        ),
    )


class _ChatAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the chat file."""

    model: str | None = None
    instructions: str = ""
    memory_policy: dict[str, Any] = {}
    memory_tools: bool = True
    max_rounds: int = 8
    timeout: float = 60.0
    temperature: float | None = None
    max_tokens: int | None = None


def read_chat_agents(text: str, *, file: str = CHAT_FILE) -> list[Agent]:
    """Return the agents that a TOML text describes: one table each, `[agents.<id>]`.

    >>> read_chat_agents('[agents.porter]' + chr(10) + 'model = "openai:gpt-5.2"')[0].id
    'porter'
    """
    try:
        said = msgspec.convert(tomllib.loads(text), dict[str, dict[str, _ChatAgent]])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{file} cannot be used: {error}", hint="Write tables such as [agents.porter]") from error
    unknown = sorted(set(said) - {"agents"})
    if unknown:
        raise UsageError(f"{quote(unknown[0])} is not known in {file}", hint="Write tables such as [agents.porter]")
    return [_agent(id, one) for id, one in said.get("agents", {}).items()]


def model_named(name: str | None) -> Parrot | str | None:
    """Return who answers under a name: a model of this server's own, or the name for whoever connects it."""
    return Parrot() if name == PARROT else name


def _agent(id: str, one: _ChatAgent) -> Agent:
    return Agent(
        id=id,
        model=model_named(one.model),
        instructions=one.instructions,
        memory_policy=policy_for(one.memory_policy, MemoryPolicy()),
        memory_tools=one.memory_tools,
        max_rounds=one.max_rounds,
        timeout=one.timeout,
        temperature=one.temperature,
        max_tokens=one.max_tokens,
    )


def _machines(folder: str, memory: Memory) -> list[mashin.Machine]:
    files = _files(folder, "machines", ".mashin")
    if not files:
        return []
    from recollect import mashin

    return [mashin.load(file, memory=memory) for file in files]


def _workflows(folder: str, memory: Memory, actions: tuple[Any, ...]) -> list[workflow.Workflow]:
    files = [
        file
        for file in _files(folder, "workflows", ".yaml", ".yml")
        if not file.name.endswith((".tests.yaml", ".tests.yml"))
    ]
    if not files:
        return []
    from recollect import workflow

    return [workflow.load(file, memory=memory, actions=actions) for file in files]


def _chat_agents(folder: str) -> list[Agent]:
    file = Path(folder, CHAT_FILE)
    return read_chat_agents(file.read_text(encoding="utf-8"), file=str(file)) if folder and file.is_file() else []


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
