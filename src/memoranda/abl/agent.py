"""Load, check and parse agents; start and resume their sessions. The functions of `memoranda.abl`."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from memoranda.abl.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.abl.checker.check import check_source
from memoranda.abl.compiler import DIGEST, compile_agent
from memoranda.abl.document import Document
from memoranda.abl.expression.compiler import evaluate
from memoranda.abl.parser import parse_document, parse_fragment
from memoranda.abl.runtime.persistence import DOOR, read_state
from memoranda.abl.runtime.plan import Plan
from memoranda.abl.runtime.work import TeamMember
from memoranda.abl.session import Awake, Session, Setting, check_input, check_variable
from memoranda.abl.tools.toolbox import Toolbox
from memoranda.api.memory import Memory
from memoranda.engine.facts import GetFact, SetFact
from memoranda.errors import Conflict, Hint, NotFound, NotInstalled, NotVerified, Refused, UsageError
from memoranda.lang.diagnostics import Diagnostic, source_error
from memoranda.lang.document import read_text
from memoranda.lang.egress import EgressPolicy, egress_policy
from memoranda.lang.source import digest_of
from memoranda.model.names import check_label, require_label
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode, encode_checked

if TYPE_CHECKING:
    from memoranda.agent.models import Model


DEFAULT_PROJECT = "default"


class Agent:
    """A compiled agent, as `load` returns it.

    >>> import memoranda
    >>> text = '''
    ... AGENT: Bell
    ... GOAL: "Ring"
    ... FLOW:
    ...   ring:
    ...     REASONING: false
    ...     RESPOND: "Ding"
    ...     THEN: COMPLETE
    ... '''
    >>> with memoranda.open(":memory:") as memory:
    ...     bell = memoranda.abl.load(text, memory=memory)
    ...     session = bell.start(user="ada")
    ...     bell.name, session.status, bell.resume(session.id).opening.messages
    ('Bell', 'completed', ['Ding'])
    """

    def __init__(
        self,
        member: TeamMember,
        *,
        memory: Memory,
        agents: Iterable[Agent],
        behaviour: Behaviour,
        diagnostics: tuple[Diagnostic, ...],
        file: str,
    ) -> None:
        """Create an agent with the agents that it can hand over to."""
        self._member = member
        self._memory = memory
        self.behaviour = behaviour
        self.diagnostics = diagnostics
        """Warnings and notes about its text."""
        self.file = file
        self._team: dict[str, Agent] = {self.name: self}
        self.meet(agents)
        self._sources_stored = False
        self._awake = Awake(behaviour.awake)

    def meet(self, agents: Iterable[Agent]) -> None:
        """Let it hand over to these agents and to those they know; the first of a name wins."""
        for agent in agents:
            for other in (agent, *agent._team.values()):
                self._team.setdefault(other.name, other)

    def on(self, memory: Memory) -> Agent:
        """Return the same agent on another memory handle, with the permissions of that handle.

        Nothing is compiled again. The two agents do not share loaded sessions.
        """
        return Agent(
            self._member,
            memory=memory.through(DOOR),
            agents=[agent for agent in self._team.values() if agent is not self],
            behaviour=self.behaviour,
            diagnostics=self.diagnostics,
            file=self.file,
        )

    @property
    def name(self) -> str:
        """Its name."""
        return self._member.plan.name

    @property
    def plan(self) -> Plan:
        """The compiled plan."""
        return self._member.plan

    @property
    def document(self) -> Document:
        """The parsed document."""
        return self._member.plan.document

    def start(
        self,
        *,
        user: str | None = None,
        project: str = DEFAULT_PROJECT,
        id: str | None = None,
        tree: str | None = None,
        vars: Mapping[str, Any] | None = None,
    ) -> Session:
        """Start a session and return it; `session.opening` is what the agent says before any input.

        Without a `user`, what belongs to users is neither read nor written. `tree` joins the memory of a handoff tree
        that began elsewhere; `vars` are the inputs to begin with, variables that the agent declares `INPUT: true`.
        """
        for name, value in (vars or {}).items():
            check_input(self.plan, name, value)
        return self._start(user=user, project=project, id=id, tree=tree, vars=vars or {})

    def _start(
        self, *, user: str | None, project: str, id: str | None, tree: str | None, vars: Mapping[str, Any]
    ) -> Session:
        if user is not None:
            Scope.of(user=user)  # raises for an invalid user id
        check_label("session id", id)
        check_label("tree", tree)
        require_label("project", project)
        # Copies, so that the caller can go on using the values.
        given = {name: decode(encode_checked(value, self._memory.limits)) for name, value in vars.items()}
        self._store_sources()
        return Session.begin(self._setting(), self.name, id=id, user=user, project=project, tree=tree, given=given)

    def resume(self, id: str) -> Session:
        """Return a session that was started earlier, in this process or another."""
        self._store_sources()
        return Session.resume(self._setting(), id)

    def _setting(self) -> Setting:
        team = {name: agent._member for name, agent in self._team.items()}
        return Setting(self._memory, team, self.behaviour, self._awake)

    def _store_sources(self) -> None:
        """Store the texts of the agents, once, so that sessions can be resumed where they are not loaded."""
        if self._sources_stored:
            return
        for agent in self._team.values():
            scope, key = source_location(self._memory.tenant, agent.name, agent.plan.digest)
            try:
                if self._memory.perform(GetFact(scope=scope, key=key)) is None:
                    payload = encode({"source": agent.plan.source, "file": PurePath(agent.file).name})
                    effect = SetFact(scope=scope, key=key, payload=msgspec.Raw(payload), expect=0)
                    self._memory.perform(effect)
            except Conflict:
                continue  # Another process stored the same text at the same moment.
            except Refused:
                continue  # Then the session can be resumed only where the agent is loaded.
        self._sources_stored = True

    def __repr__(self) -> str:
        """Return its name and where it came from."""
        return f"<memoranda.abl.Agent {self.name} from {self.file}>"


def start_fixture(
    agent: Agent,
    *,
    vars: Mapping[str, Any],
    user: str | None = None,
    project: str = DEFAULT_PROJECT,
    tree: str | None = None,
) -> Session:
    """Start a session for a test, which may set any variable of the agent."""
    for name in vars:
        check_variable(agent.plan, name)
    # Not a method, so that it is not part of the public interface.
    start = agent._start  # pyright: ignore[reportPrivateUsage]  # the same module
    return start(user=user, project=project, id=None, tree=tree, vars=vars)


def source_location(tenant: str, name: str, digest: str) -> tuple[Scope, str]:
    """Return the scope and key of the stored text of an agent."""
    return Scope.of(tenant=tenant, agent=name), f"abl.sources.{digest}"


_loaded: weakref.WeakKeyDictionary[Memory, dict[str, Agent]] = weakref.WeakKeyDictionary()


def register(memory: Memory, agent: Agent) -> None:
    """Let sessions on this memory be resumed without passing their agent."""
    _loaded.setdefault(memory, {})[agent.name] = agent


def find_registered(memory: Memory, name: str) -> Agent | None:
    """Return the agent of this name that was loaded with a memory, or None."""
    return _loaded.get(memory, {}).get(name)


Tools = Mapping[str, Callable[..., Any]] | ModuleType | str | os.PathLike[str] | None
"""Python functions by name, or a module or file with them."""

ENDINGS = (".abl", ".yaml", ".yml")


def load(
    source: str | os.PathLike[str],
    *,
    memory: Memory,
    tools: Tools = None,
    model: Any = None,
    agents: Sequence[Agent | str | os.PathLike[str]] = (),
    secrets: Mapping[str, str] | None = None,
    behaviour: Behaviour = DEFAULT_BEHAVIOUR,
    egress: Iterable[str] | None = None,
) -> Agent:
    """Compile an agent, given as text or as the path of a file; raise a SourceError with all diagnostics.

    `tools` are Python functions by name, or a module or file of them; HTTP tools read `secrets` as
    `{{secrets.name}}` in their addresses, headers and bodies. `agents` are those it can hand over to. `model` is a
    name such as `"anthropic:claude-sonnet-4-6"`, or a model of pydantic-ai. `egress` lists the hosts and networks that
    HTTP tools may reach besides the public internet; without it, they may reach this host and its network too.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     agent = memoranda.abl.load('''
    ... AGENT: Greeter
    ... GOAL: "Greet people"
    ... FLOW:
    ...   hello:
    ...     REASONING: false
    ...     RESPOND: "Good evening."
    ...     THEN: COMPLETE
    ... ''', memory=memory)
    ...     agent.start(user="ada").opening.messages
    ['Good evening.']
    """
    file, text = _read(source)
    # The writes of an agent record the door and the agent that they came from.
    door = memory.through(DOOR)
    kit = _Kit(tools, secrets or {}, _connect_model(model), behaviour, egress_policy(egress))
    team = [agent if isinstance(agent, Agent) else _compile(*_read(agent), door, kit, ()) for agent in agents]
    agent = _compile(file, text, door, kit, team)
    register(memory, agent)
    return agent


class _Kit(NamedTuple):
    """What an agent is compiled with besides its text."""

    tools: Tools
    secrets: Mapping[str, str]
    model: Model | None
    behaviour: Behaviour
    egress: EgressPolicy


def _compile(file: str, text: str, memory: Memory, kit: _Kit, team: Sequence[Agent]) -> Agent:
    reading, programs, diagnostics = check_source(text, name=file)
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        raise source_error(reading.source, diagnostics)
    document = reading.document
    if document.kind not in ("agent", "supervisor"):
        raise UsageError(f"{quote(file)} is not an agent", hint="Pass a file that begins with `AGENT: Name`")
    toolbox = Toolbox(
        kit.tools,
        document.tools,
        defaults=lambda raw: evaluate(raw.text, {}, clock=memory.clock),
        templates=programs.node,
        secrets=kit.secrets,
        timeout=kit.behaviour.tool_seconds,
        clock=memory.clock,
        sleep=kit.behaviour.sleep,
        egress=kit.egress,
    )
    member = TeamMember(compile_agent(document, programs, text), toolbox, kit.model)
    return Agent(member, memory=memory, agents=team, behaviour=kit.behaviour, diagnostics=diagnostics, file=file)


def _connect_model(model: Any) -> Model | None:
    if model is None:
        return None
    from memoranda.agent.connection import connect

    return connect(model)


def resume(
    memory: Memory,
    id: str,
    *,
    agent: Agent | None = None,
    tools: Tools = None,
    model: Any = None,
    secrets: Mapping[str, str] | None = None,
    behaviour: Behaviour = DEFAULT_BEHAVIOUR,
    egress: Iterable[str] | None = None,
    kept_text: bool | None = None,
) -> Session:
    """Return a session that was started earlier, in this process or another.

    Its agent is `agent`, or the one that was loaded with this memory; else it is compiled from the text stored when the
    session began, with these `tools`. Stored text runs on the handle that `memoranda.open` returned; on a handle of
    another actor only with `kept_text=True`, which allows text from the store to run.
    """
    scope = Scope.of(tenant=memory.tenant, session=id)
    state, _ = read_state(memory, scope)
    # The agent it began with knows all the others.
    root = state.root
    found = agent or find_registered(memory, root)
    if found is None:
        if not (memory.is_owner if kept_text is None else kept_text):
            raise NotInstalled(
                f"the agent {quote(root)} of the session {quote(id)} is not loaded here",
                hint=Hint("python", "Load it, and pass it as agent=…; the owner of the memory may pass kept_text=True"),
                expected=state.agents.get(root),
            )
        found = _compile_stored(
            memory,
            state.agents,
            root,
            _Kit(tools, secrets or {}, _connect_model(model), behaviour, egress_policy(egress)),
        )
    return found.resume(id)


def _compile_stored(memory: Memory, agents: Mapping[str, str], root: str, kit: _Kit) -> Agent:
    door = memory.through(DOOR)
    team: list[Agent] = []
    for name in (*(name for name in agents if name != root), root):
        scope, key = source_location(memory.tenant, name, agents[name])
        fact = memory.perform(GetFact(scope=scope, key=key))
        if fact is None:
            raise NotFound(
                f"the text of the agent {quote(name)} is not stored here",
                hint=Hint("python", "Load it, and pass it as agent=…"),
            )
        if digest_of(fact.value["source"])[:DIGEST] != agents[name]:
            raise NotVerified(
                f"the stored text of the agent {quote(name)} is not the one that the session began with",
                hint=Hint("python", "Load the agent, and pass it as agent=…"),
            )
        team.append(_compile(fact.value["file"], fact.value["source"], door, kit, tuple(team)))
    return team[-1]


def parse(source: str | os.PathLike[str], *, fragment: bool = False) -> Document:
    """Parse a file, or with `fragment` any part of one; raise a SourceError with all syntax errors.

    >>> document = parse('''
    ... MEMORY:
    ...   persistent:
    ...     - user.language
    ... ''', fragment=True)
    >>> document.memory.persistent[0].path.text
    'user.language'
    """
    file, text = _read(source)
    return parse_fragment(text, name=file) if fragment else parse_document(text, name=file)


def check(source: str | os.PathLike[str], *, fragment: bool = False) -> tuple[Diagnostic, ...]:
    """Return all diagnostics of a file: errors, warnings and notes, in file order.

    >>> for one in check('''
    ... AGENT: Porter
    ... GAOL: "Greet"
    ... '''):
    ...     print(one.severity, one.code, one.hint)
    error missing Say what the agent is to achieve: `GOAL: …`
    error unknown_keyword Did you mean `GOAL`?
    """
    file, text = _read(source)
    return check_source(text, name=file, fragment=fragment)[2]


def _read(source: str | os.PathLike[str]) -> tuple[str, str]:
    return read_text(source, endings=ENDINGS, name="agent.abl")
