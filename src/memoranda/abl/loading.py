"""Text or a path in, an agent out; a session's id in, the session out. What `memoranda.abl` offers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from memoranda.abl.agent import Agent, register, registered, source_place
from memoranda.abl.behaviour import DEFAULT_BEHAVIOUR, Behaviour
from memoranda.abl.checker.check import check_source
from memoranda.abl.compiler.agent import DIGEST, compile_agent
from memoranda.abl.document import Document
from memoranda.abl.expression.programs import evaluate
from memoranda.abl.parser import parse_document, parse_fragment
from memoranda.abl.runtime.saving import DOOR, read_state
from memoranda.abl.runtime.work import Member
from memoranda.abl.session import Session
from memoranda.abl.tools.toolbox import Toolbox
from memoranda.api.memory import Memory
from memoranda.errors import NotFound, NotInstalled, NotVerified, UsageError
from memoranda.lang.diagnostics import Diagnostic, source_error
from memoranda.lang.egress import EgressPolicy, egress_policy
from memoranda.lang.reading import read_text
from memoranda.lang.source import digest_of
from memoranda.model.effect import GetFact
from memoranda.model.scope import Scope
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.agent.models import Model

Tools = Mapping[str, Callable[..., Any]] | ModuleType | str | os.PathLike[str] | None
"""Python functions by name, or a module or file that has them."""

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
    """Compile an agent, given as text or as the path of a file; raise a SourceError with everything wrong with it.

    `tools` are Python functions by name, or a module or file of them; HTTP tools read `secrets` as
    `{{secrets.name}}` in their addresses, headers and bodies. `agents` are those it can hand over to. `model` is a
    name such as `"anthropic:claude-sonnet-4-6"`, or a model of pydantic-ai. `egress` lists the hosts and networks that
    HTTP tools may reach beside the public internet; without it, this machine and its network too.

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
    # The writes of an agent say through which door and from which agent they came.
    door = memory.through(DOOR)
    kit = _Kit(tools, secrets or {}, _connected(model), behaviour, egress_policy(egress))
    team = [agent if isinstance(agent, Agent) else _made(*_read(agent), door, kit, ()) for agent in agents]
    agent = _made(file, text, door, kit, team)
    register(memory, agent)
    return agent


class _Kit(NamedTuple):
    """What an agent is equipped with beside its text."""

    tools: Tools
    secrets: Mapping[str, str]
    model: Model | None
    behaviour: Behaviour
    egress: EgressPolicy


def _made(file: str, text: str, memory: Memory, kit: _Kit, team: Sequence[Agent]) -> Agent:
    reading, programs, diagnostics = check_source(text, name=file)
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        raise source_error(reading.source, diagnostics)
    document = reading.document
    if document.kind not in ("agent", "supervisor"):
        raise UsageError(f"{quote(file)} is no agent", hint="Pass a file that begins with `AGENT: Name`")
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
    member = Member(compile_agent(document, programs, text), toolbox, kit.model)
    return Agent(member, memory=memory, agents=team, behaviour=kit.behaviour, diagnostics=diagnostics, file=file)


def _connected(model: Any) -> Model | None:
    if model is None:
        return None
    from memoranda.agent.connecting import connect

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
    """Return a session that was started earlier, in this process or another, where it stands.

    Its agent is the one that was loaded with this memory, or `agent`; else it is compiled from the text that was kept
    when the session began, with these `tools`. The kept text runs on the handle that `memoranda.open` gave; on a handle
    for somebody else only where `kept_text=True` says that whatever lies in the store may run.
    """
    scope = Scope.of(tenant=memory.tenant, session=id)
    state, _ = read_state(memory, scope)
    # By the agent it began with: that one knows all the others.
    root = state.root
    found = agent or registered(memory, root)
    if found is None:
        if not (memory.is_owner if kept_text is None else kept_text):
            raise NotInstalled(
                f"the agent {quote(root)} of the session {quote(id)} is not loaded here",
                hint="Load it, and pass it as agent=…; the program that opened the memory may also pass kept_text=True",
                expected=state.agents.get(root),
            )
        found = _from_kept(
            memory, state.agents, root, _Kit(tools, secrets or {}, _connected(model), behaviour, egress_policy(egress))
        )
    return found.resume(id)


def _from_kept(memory: Memory, agents: Mapping[str, str], root: str, kit: _Kit) -> Agent:
    door = memory.through(DOOR)
    team: list[Agent] = []
    for name in (*(name for name in agents if name != root), root):
        scope, key = source_place(memory.tenant, name, agents[name])
        fact = memory.perform(GetFact(scope=scope, key=key))
        if fact is None:
            raise NotFound(
                f"the text of the agent {quote(name)} is not kept here", hint="Load it, and pass it as agent=…"
            )
        if digest_of(fact.value["source"])[:DIGEST] != agents[name]:
            raise NotVerified(
                f"the text that is kept of the agent {quote(name)} is not the one that the session began with",
                hint="Load the agent, and pass it as agent=…",
            )
        team.append(_made(fact.value["file"], fact.value["source"], door, kit, tuple(team)))
    return team[-1]


def parse(source: str | os.PathLike[str], *, fragment: bool = False) -> Document:
    """Parse a file, or with `fragment` any part of one; raise a SourceError with every fault of its grammar.

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
    """Return everything there is to say about a file, errors, warnings and notes, as they stand in it.

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
