"""An agent that was compiled once and is run many times: sessions are started and resumed here."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from memoranda.abl.behaviour import Behaviour
from memoranda.abl.document import Document
from memoranda.abl.runtime.plan import Plan
from memoranda.abl.runtime.saving import DOOR
from memoranda.abl.runtime.work import Member
from memoranda.abl.session import Awake, Session, Setting, check_input, check_variable
from memoranda.api.memory import Memory
from memoranda.errors import Conflict, Refused
from memoranda.lang.diagnostics import Diagnostic
from memoranda.model.effect import GetFact, SetFact
from memoranda.model.scope import Scope
from memoranda.model.text import check_label, require_label
from memoranda.model.value import decode, encode, encode_checked

DEFAULT_PROJECT = "default"


class Agent:
    """A compiled agent; `load` makes these.

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
        member: Member,
        *,
        memory: Memory,
        agents: Iterable[Agent],
        behaviour: Behaviour,
        diagnostics: tuple[Diagnostic, ...],
        file: str,
    ) -> None:
        """Stand beside the agents that it can hand over to."""
        self._member = member
        self._memory = memory
        self.behaviour = behaviour
        self.diagnostics = diagnostics
        """What there is to say about its text: warnings and notes."""
        self.file = file
        self._team: dict[str, Agent] = {self.name: self}
        self.meet(agents)
        self._kept = False
        self._awake = Awake(behaviour.awake)

    def meet(self, agents: Iterable[Agent]) -> None:
        """Let it hand over to these agents, and to those that they know; of two with one name, the first."""
        for agent in agents:
            for other in (agent, *agent._team.values()):
                self._team.setdefault(other.name, other)

    def on(self, memory: Memory) -> Agent:
        """Return the same agent on another handle of memory: what it and those it hands over to may is what that may.

        Nothing is compiled again. Its sessions are its own: what is held of them here is not known there.
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
        """What it was compiled to."""
        return self._member.plan

    @property
    def document(self) -> Document:
        """What its text says."""
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
            Scope.of(user=user)  # refuses what cannot be a user's id, in the words of every door
        check_label("session id", id)
        check_label("tree", tree)
        require_label("project", project)
        # Copies: what the caller does with a value later does not concern the session.
        given = {name: decode(encode_checked(value, self._memory.limits)) for name, value in vars.items()}
        self._keep_sources()
        return Session.begin(self._setting(), self.name, id=id, user=user, project=project, tree=tree, given=given)

    def resume(self, id: str) -> Session:
        """Return a session that was started earlier, in this process or another, where it stands."""
        self._keep_sources()
        return Session.resumed(self._setting(), id)

    def _setting(self) -> Setting:
        team = {name: agent._member for name, agent in self._team.items()}
        return Setting(self._memory, team, self.behaviour, self._awake)

    def _keep_sources(self) -> None:
        """Keep the texts of the agents, once, so that a session can be resumed where they are not at hand."""
        if self._kept:
            return
        for agent in self._team.values():
            scope, key = source_place(self._memory.tenant, agent.name, agent.plan.digest)
            try:
                if self._memory.perform(GetFact(scope=scope, key=key)) is None:
                    payload = encode({"source": agent.plan.source, "file": PurePath(agent.file).name})
                    effect = SetFact(scope=scope, key=key, payload=msgspec.Raw(payload), expect=0)
                    self._memory.perform(effect)
            except Conflict:
                continue  # Another process kept the same text at the same moment.
            except Refused:
                continue  # Then the session is resumed only where the agent is loaded.
        self._kept = True

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
    """Start a session of a test, whose author may set any variable of the agent."""
    for name in vars:
        check_variable(agent.plan, name)
    # Not a method: nothing that a caller holds leads here.
    start = agent._start  # pyright: ignore[reportPrivateUsage]  # the same module
    return start(user=user, project=project, id=None, tree=tree, vars=vars)


def source_place(tenant: str, name: str, digest: str) -> tuple[Scope, str]:
    """Return where the text of an agent is kept."""
    return Scope.of(tenant=tenant, agent=name), f"abl.sources.{digest}"


_loaded: weakref.WeakKeyDictionary[Memory, dict[str, Agent]] = weakref.WeakKeyDictionary()


def register(memory: Memory, agent: Agent) -> None:
    """Let sessions on this memory be resumed without naming their agent."""
    _loaded.setdefault(memory, {})[agent.name] = agent


def registered(memory: Memory, name: str) -> Agent | None:
    """Return the agent of this name that was loaded with a memory."""
    return _loaded.get(memory, {}).get(name)
