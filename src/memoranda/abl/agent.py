"""The functions of `memoranda.abl`: load, check and parse agents, start and resume their sessions.

`load` reads a file, checks and compiles each agent in it, gives each its tools and its model, and lets them know one
another. An `Agent` then starts sessions. A session refers to its agents by name and digest, and the texts of agents are
stored when the first session starts, so that `resume` works in a process that has not loaded them.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from memoranda.abl.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.abl.checker.check import check_source
from memoranda.abl.checker.outline import handoff_targets
from memoranda.abl.checker.records import check_records
from memoranda.abl.compiler import DIGEST, compile_agent
from memoranda.abl.document import Document
from memoranda.abl.expression.compiler import evaluate
from memoranda.abl.parser import parse_document, parse_fragment
from memoranda.abl.programs import Programs
from memoranda.abl.runtime.active_turn import TeamMember
from memoranda.abl.runtime.persistence import DOOR, read_state
from memoranda.abl.runtime.plan import Plan
from memoranda.abl.session import Awake, Session, Setting, check_input, check_variable
from memoranda.abl.tools.toolbox import Toolbox
from memoranda.api.memory import Memory
from memoranda.engine.definitions import ReadDefinitions
from memoranda.engine.facts import GetFact, SetFact
from memoranda.errors import Conflict, Hint, NotFound, NotInstalled, NotVerified, Refused, UsageError
from memoranda.lang.diagnostics import Diagnostic, Diagnostics, did_you_mean, source_error
from memoranda.lang.document import read_text
from memoranda.lang.egress import LOCAL_EGRESS, EgressPolicy, egress_policy
from memoranda.lang.source import Source, digest_of
from memoranda.model.names import check_label, require_label
from memoranda.model.program import Bindings, StepBinding
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode, encode_checked
from memoranda.runs import program
from memoranda.runs.steps import watch_memory

if TYPE_CHECKING:
    from memoranda.abl.replay import Replay
    from memoranda.abl.scripts import Report
    from memoranda.agent.models import Model


DEFAULT_PROJECT = "default"

Tools = Mapping[str, Callable[..., Any]] | ModuleType | str | os.PathLike[str] | None
"""Python functions by name, or a module or file with them."""


class Kit(program.Kit, frozen=True, kw_only=True):
    """What an agent is loaded with besides its text."""

    tools: Tools = None
    secrets: Mapping[str, str] = {}
    model: Model | None = None
    behaviour: Behaviour = DEFAULT_BEHAVIOUR
    egress: EgressPolicy = LOCAL_EGRESS

    def __repr__(self) -> str:
        """Return a summary without values: some are secret."""
        return f"<Kit with {len(self.secrets)} secrets>"


class CompiledAgent(program.Compiled[Plan], frozen=True, kw_only=True):
    """A compiled agent, with the programs of its expressions for its tools."""

    programs: Programs


class Agent(program.Program[Plan, Kit]):
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

    ENDINGS = (".abl", ".yaml", ".yml")
    UNNAMED = "agent.abl"
    DOOR = DOOR

    def __init__(self, compiled: CompiledAgent, kit: Kit, *, memory: Memory, file: str) -> None:
        """Create an agent alone; `meet` adds those it can hand over to."""
        toolbox = Toolbox(
            kit.tools,
            compiled.plan.document.tools,
            defaults=lambda raw: evaluate(raw.text, {}, clock=memory.clock),
            templates=compiled.programs.node,
            secrets=kit.secrets,
            timeout=kit.behaviour.tool_seconds,
            clock=memory.clock,
            sleep=kit.behaviour.sleep,
            egress=kit.egress,
            trusted=kit.behaviour.trusted_tools,
        )
        self._member = TeamMember(compiled.plan, toolbox, kit.model)
        super().__init__(compiled, kit, memory=memory, file=file)
        self._add_diagnostics(self._check_definitions)

    @classmethod
    def compile(cls, text: str, file: str, kit: Kit, *, name: str | None = None, stored: bool = False) -> CompiledAgent:
        """Compile an agent; raise a SourceError with all diagnostics."""
        reading, programs, diagnostics = check_source(text, name=file)
        if any(diagnostic.severity == "error" for diagnostic in diagnostics):
            raise source_error(reading.source, diagnostics)
        document = reading.document
        if document.kind not in ("agent", "supervisor"):
            raise UsageError(f"{quote(file)} is not an agent", hint="Pass a file that begins with `AGENT: Name`")
        plan = compile_agent(document, programs, text)
        more = Diagnostics(reading.source)
        _check_model(document, kit, more)
        return CompiledAgent(plan=plan, diagnostics=(*diagnostics, *more.sorted()), programs=programs)

    def _attach(self, memory: Memory) -> None:
        super()._attach(memory)
        self._awake = Awake(self.behaviour.awake)

    @property
    def document(self) -> Document:
        """The parsed document."""
        return self._plan.document

    @property
    def behaviour(self) -> Behaviour:
        """The choices that the language leaves open."""
        return self._kit.behaviour

    @property
    def inputs(self) -> dict[str, Any] | None:
        """JSON schema of the variables that a caller may set."""
        slots = [slot for slot in self.plan.declarations.session.values() if slot.input]
        types = {slot.name: {} if slot.type is None else {"type": slot.type} for slot in slots}
        return {"type": "object", "properties": types, "additionalProperties": False}

    @property
    def bindings(self) -> Bindings:
        """The persistent paths, the model and the tools that it uses."""
        model = self._member.model
        return Bindings(
            facts=tuple(self.plan.declarations.persistent),
            models=() if model is None else (model.name,),
            tools=tuple(tool.name.text for tool in self.document.tools),
            steps=tuple(StepBinding(name=name, type="step") for name in self.plan.steps if name),
        )

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
        self.prepare()
        return Session.begin(self._setting(), self.name, id=id, user=user, project=project, tree=tree, given=given)

    def resume(self, id: str) -> Session:
        """Return a session that was started earlier, in this process or another."""
        self._store_sources()
        return Session.resume(self._setting(), id)

    def _models_in_use(self) -> Iterable[Model | str | None]:
        return (self._kit.model,)

    def test(self) -> Report:
        """Run the tests in the file beside the agent, each with a memory and a clock of its own."""
        from memoranda.abl.scripts import run_scripts

        return run_scripts(self.file, tools=self._kit.tools)

    def replay(self, id: str) -> Replay:
        """Replay the turns of a session without tools, models or writes."""
        return self.resume(id).replay()

    def _setting(self) -> Setting:
        """Return what its sessions work with: the memory, and the agents that were loaded together."""
        team = {name: agent._member for name, agent in self._peers.items()}
        memory = watch_memory(self._memory) if self.behaviour.recording.is_on else self._memory
        return Setting(memory, team, self.behaviour, self._awake)

    # diagnostics that need more than the text

    def _add_diagnostics(self, check: Callable[[Diagnostics], None]) -> None:
        diagnostics = Diagnostics(Source(self.file, self.plan.source))
        check(diagnostics)
        self.diagnostics = (*self.diagnostics, *diagnostics.sorted())

    def _check_handoffs(self, diagnostics: Diagnostics) -> None:
        """Warn about agents that a rule or a step hands over to and that are neither declared nor loaded."""
        known = [*(handoff.to.text for handoff in self.document.handoffs), *self._peers]
        for name in handoff_targets(self.document):
            if name.text not in known:
                hint = did_you_mean(
                    name.text, known, otherwise="Declare it below `HANDOFF`, or load it with this agent"
                )
                message = f"the agent {quote(name.text)} is neither declared in `HANDOFF` nor loaded"
                diagnostics.warning("unknown_agent", message, name.span, hint=hint)

    def _check_definitions(self, diagnostics: Diagnostics) -> None:
        """Warn about persistent paths that contradict a memory definition, if the definitions may be read."""
        effect = ReadDefinitions(scope=Scope(self._memory.tenant))
        if self.document.memory is None or not self.document.memory.persistent or not self._memory.may(effect):
            return
        check_records(self.document, self._memory.perform(effect), diagnostics)

    def _store_sources(self) -> None:
        """Store the texts of the agents, once, so that sessions can be resumed where they are not loaded."""
        if self._text_stored:
            return
        for agent in self._peers.values():
            scope, key = source_location(self._memory.tenant, agent.name, agent.plan.digest)
            try:
                if self._memory.perform(GetFact(scope=scope, key=key)) is None:
                    payload = encode(program.ProgramText.of(agent.plan.source, agent.file))
                    effect = SetFact(scope=scope, key=key, payload=msgspec.Raw(payload), expect=0)
                    self._memory.perform(effect)
            except Conflict:
                continue  # Another process stored the same text at the same moment.
            except Refused:
                continue  # Then the session can be resumed only where the agent is loaded.
        self._text_stored = True


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


# --- load ---------------------------------------------------------------------------------------------------------


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
    kit = _make_kit(tools, secrets, model, behaviour, egress)
    team: list[Agent] = []
    for one in agents:
        team.extend([one] if isinstance(one, Agent) else _agents_in(one, kit, memory))
    agent, *others = _agents_in(source, kit, memory)
    agent.meet([*team, *others])
    for other in others:
        other.meet([agent, *team, *others])
    agent._add_diagnostics(agent._check_handoffs)  # pyright: ignore[reportPrivateUsage]  # the same module
    register(memory, agent)
    return agent


_NAME_OF_AGENT = re.compile(r"^(?:AGENT|SUPERVISOR)[ \t]*:", re.MULTILINE | re.IGNORECASE)


def _agents_in(source: str | os.PathLike[str], kit: Kit, memory: Memory) -> list[Agent]:
    """Compile the agents of a file, the first of which is the one that the file is about."""
    file, text = read_text(source, endings=Agent.ENDINGS, name=Agent.UNNAMED)
    starts = [found.start() for found in _NAME_OF_AGENT.finditer(text)] if not file.endswith((".yaml", ".yml")) else []
    parts = [
        # Line breaks instead of the agents above, so that diagnostics have the right lines.
        (text[:start].count("\n") * "\n" if start else "") + text[start:end]
        for start, end in pairwise([0, *starts[1:], len(text)])
    ]
    return [Agent(Agent.compile(part, file, kit), kit, memory=memory, file=file) for part in parts]


def _make_kit(
    tools: Tools, secrets: Mapping[str, str] | None, model: Any, behaviour: Behaviour, egress: Iterable[str] | None
) -> Kit:
    return Kit(
        tools=tools,
        secrets=secrets or {},
        model=_connect_model(model),
        behaviour=behaviour,
        egress=egress_policy(egress),
    )


def _connect_model(model: Any) -> Model | None:
    if model is None:
        return None
    from memoranda.agent.connection import connect

    return connect(model)


def _check_model(document: Document, kit: Kit, diagnostics: Diagnostics) -> None:
    """Warn about an agent that only a model could drive, and that has none."""
    if document.flow is None and document.gather is None and kit.model is None:
        message = "the agent has neither a FLOW nor a GATHER, so only a model can answer, and it has none"
        span = document.name.span if document.name else document.span
        diagnostics.warning("no_model", message, span, hint="Load it with a model, or write a FLOW")


# --- resume, and the stored texts of agents -----------------------------------------------------------------------


_loaded: weakref.WeakKeyDictionary[Memory, dict[str, Agent]] = weakref.WeakKeyDictionary()


def register(memory: Memory, agent: Agent) -> None:
    """Let sessions on this memory be resumed without passing their agent."""
    _loaded.setdefault(memory, {})[agent.name] = agent


def find_registered(memory: Memory, name: str) -> Agent | None:
    """Return the agent of this name that was loaded with a memory, or None."""
    return _loaded.get(memory, {}).get(name)


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
        found = _load_stored(memory, state.agents, root, _make_kit(tools, secrets, model, behaviour, egress))
    return found.resume(id)


def source_location(tenant: str, name: str, digest: str) -> tuple[Scope, str]:
    """Return the scope and key of the stored text of an agent."""
    return Scope.of(tenant=tenant, agent=name), f"abl.sources.{digest}"


def _load_stored(memory: Memory, agents: Mapping[str, str], root: str, kit: Kit) -> Agent:
    """Return an agent compiled from its stored text, with all agents that it was loaded with.

    `agents` are their names, each with the digest of its text; a stored text with another digest is not run.
    """
    team: list[Agent] = []
    for name in (*(name for name in agents if name != root), root):
        scope, key = source_location(memory.tenant, name, agents[name])
        fact = memory.perform(GetFact(scope=scope, key=key))
        if fact is None:
            raise NotFound(
                f"the text of the agent {quote(name)} is not stored here",
                hint=Hint("python", "Load it, and pass it as agent=…"),
            )
        text = msgspec.convert(fact.value, program.ProgramText)
        if digest_of(text.source)[:DIGEST] != agents[name]:
            raise NotVerified(
                f"the stored text of the agent {quote(name)} is not the one that the session began with",
                hint=Hint("python", "Load the agent, and pass it as agent=…"),
            )
        team.append(Agent(Agent.compile(text.source, text.file, kit), kit, memory=memory, file=text.file))
    team[-1].meet(team)
    return team[-1]


# --- parse and check ----------------------------------------------------------------------------------------------


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
    file, text = read_text(source, endings=Agent.ENDINGS, name=Agent.UNNAMED)
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
    file, text = read_text(source, endings=Agent.ENDINGS, name=Agent.UNNAMED)
    return check_source(text, name=file, fragment=fragment)[2]
