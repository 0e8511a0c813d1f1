"""Run the test scripts of an agent: conversations written in YAML.

`run_scripts("hotel.abl")` runs the tests in `hotel.tests.yaml` next to the agent, each with its own memory and clock. A
test ends at the first unmet expectation.

```yaml
agent: hotel.abl              # by default, the agent with the same name: of `hotel.tests.yaml` that is `hotel.abl`
agents: [concierge.abl]       # agents that it hands over to
tools: tools.py
tests:
  - name: A guest is recognized
    user: ada
    facts: {user.name: Ada}
    steps:
      - expect: Welcome, Ada
      - say: two nights in Lisbon
        expect: [Lisbon, {not: Porto}]
        expect fact: {user.language: null}
```

Scalars stay text: `say: yes` says `yes`, and a date is text. Anchors and aliases are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import msgspec

from memoranda.abl.agent import start_fixture
from memoranda.abl.document import scope_of
from memoranda.abl.runtime.state import Status
from memoranda.abl.tools.toolbox import Functions, functions_of
from memoranda.abl.variables import key_of
from memoranda.errors import MemorandaError, UsageError
from memoranda.lang import scripts
from memoranda.lang.scripts import (
    Answers,
    How,
    ScriptClock,
    ScriptReader,
    Tested,
    Wording,
    describe,
    fits,
    json_text,
    run_each,
)
from memoranda.lang.source import Source, Span
from memoranda.lang.yaml import YamlNode
from memoranda.model.names import check_key
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.abl.agent import Agent
    from memoranda.abl.session import Session, Turn
    from memoranda.api.memory import Memory


Kind = Literal[
    "say",
    "as",
    "wait",
    "end",
    "expect",
    "expect no message",
    "expect step",
    "expect status",
    "expect agent",
    "expect event",
    "expect vars",
    "expect fact",
]
STATUSES: tuple[Status, ...] = get_args(Status)
COMPARISONS: tuple[How, ...] = ("is", "not", "matches")
"""How messages can be compared; plain text has to be part of the message."""


class Action(msgspec.Struct, frozen=True):
    """One action or expectation of a script, with its position."""

    kind: Kind
    value: Any
    span: Span


class Answer(msgspec.Struct, frozen=True):
    """The result of a stubbed tool: a value or an error."""

    value: Any = None
    error: str | None = None


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """One test: the user, the facts and variables before it, and its steps."""

    name: str
    span: Span
    user: str = "tester"
    project: str = "tests"
    now: str = "2026-01-01T12:00:00+00:00"
    facts: dict[str, Any] = {}
    vars: dict[str, Any] = {}
    tools: dict[str, tuple[Answer, ...]] = {}
    actions: tuple[Action, ...] = ()


class ScriptFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of scripts; paths are relative to it."""

    source: Source
    agent: str | None = None
    agents: tuple[str, ...] = ()
    tools: str | None = None
    scripts: tuple[Script, ...] = ()


def read_scripts(text: str, *, name: str) -> ScriptFile:
    """Read a file of scripts, or raise a SourceError with all diagnostics."""
    return _Reader.read(text, name=name)


class _Reader(ScriptReader):
    """Converts YAML nodes into scripts, and collects diagnostics."""

    def file(self, node: YamlNode | None) -> ScriptFile:
        """Read the whole file."""
        found = self.keys(node, "a file of scripts", ("agent", "agents", "tools", "tests"))
        return ScriptFile(
            source=self.diagnostics.source,
            agent=self.text(found["agent"], "agent") if "agent" in found else None,
            agents=self.texts(found["agents"], "agents") if "agents" in found else (),
            tools=self.text(found["tools"], "tools") if "tools" in found else None,
            scripts=self.tests(found.get("tests"), node, self._script),
        )

    def _script(self, node: YamlNode) -> Script | None:
        given: dict[str, Any] = {}
        known = ("name", "user", "project", "now", "facts", "vars", "tools", "steps", "turns")
        for key, value in self.entries(node, "a test", known):
            match key:
                case "name" | "user" | "project":
                    given[key] = self.text(value, key)
                case "now":
                    given[key] = self.moment(value)
                case "facts":
                    given[key] = self.facts(value, key)
                case "vars":
                    given[key] = self.mapping(value, key)
                case "tools":
                    given[key] = self._answers(value)
                case _:
                    if "actions" in given:
                        self.wrong("`turns` is another word for `steps`", value.span, "Use one of them")
                    given["actions"] = self._actions(value)
        if not self.check_test(given, "actions", node, "Put `steps:` below it"):
            return None
        return Script(span=node.span, **{key: value for key, value in given.items() if value is not None})

    # steps

    def _actions(self, node: YamlNode) -> tuple[Action, ...]:
        actions: list[Action] = []
        for item in self.items(node, "steps"):
            for key, value in self.entries(item, "a step", tuple(_STEPS)):
                kind, read = _STEPS[key]
                actions.append(Action(kind, read(self, value), value.span))
        return tuple(actions)

    def wordings(self, node: YamlNode) -> tuple[Wording, ...]:
        if node.items is not None:
            return tuple(wording for item in node.items for wording in self.wordings(item))
        if node.entries is not None:
            return tuple(self.comparisons(node, COMPARISONS))
        if not node.scalar:
            self.wrong("nothing is expected here", node.span, "Write `expect no message: true`, or some text")
        return (Wording("has", node.scalar or ""),)

    def name_or_null(self, node: YamlNode) -> str | None:
        if node.scalar is None:
            self.wrong("a name belongs here", node.span, "Write the name of a step, or null for none")
        return None if node.value is None else node.scalar

    # parts

    def facts(self, node: YamlNode, what: str) -> dict[str, Any] | None:
        facts = self.mapping(node, what)
        for key, _ in node.entries or ():
            try:
                check_key(key.scalar or "")
            except UsageError as error:
                self.wrong(error.message, key.span, error.hint)
        return facts

    def _answers(self, node: YamlNode) -> dict[str, tuple[Answer, ...]]:
        answers: dict[str, tuple[Answer, ...]] = {}
        if node.entries is None:
            self.wrong("`tools` says what each tool gives", node.span, "Write `tool_name: result` below it")
        for key, value in node.entries or ():
            several = value.items if value.items is not None else (value,)
            answers[key.scalar or ""] = tuple(self._answer(one) for one in several)
            if not several:
                self.wrong("a result is missing here", value.span, "An empty list as the result is `[[]]`")
        return answers

    def _answer(self, node: YamlNode) -> Answer:
        if node.entries is not None and [key.scalar for key, _ in node.entries] == ["error"]:
            return Answer(error=self.text(node.entries[0][1], "error") or "")
        return Answer(node.value)


# How each key of a step is read; `expect facts` is another spelling of `expect fact`.
_STEPS: dict[str, tuple[Kind, Callable[[_Reader, YamlNode], Any]]] = {
    "as": ("as", lambda self, node: self.text(node, "as") or ""),
    "say": ("say", lambda self, node: self.text(node, "say", empty=True) or ""),
    "wait": ("wait", _Reader.seconds),
    "end": ("end", _Reader.flag),
    "expect": ("expect", _Reader.wordings),
    "expect no message": ("expect no message", _Reader.flag),
    "expect step": ("expect step", _Reader.name_or_null),
    "expect status": ("expect status", lambda self, node: self.word(node, "status", STATUSES)),
    "expect agent": ("expect agent", lambda self, node: self.text(node, "expect agent") or ""),
    "expect event": ("expect event", lambda self, node: self.texts(node, "expect event")),
    "expect vars": ("expect vars", lambda self, node: self.mapping(node, "expect vars") or {}),
    "expect fact": ("expect fact", lambda self, node: self.facts(node, "expect fact") or {}),
    "expect facts": ("expect fact", lambda self, node: self.facts(node, "expect fact") or {}),
}


AGENT_ENDINGS = (".agent.abl", ".abl", ".agent.yaml", ".agent.yml")
"""Endings of agent files, longer ones first."""
TESTED = Tested("agent", "an", ".abl", AGENT_ENDINGS)


class Failure(msgspec.Struct, frozen=True):
    """Where a test failed: what was expected, what came instead, and the trace of the turn."""

    line: int
    said: str | None
    expected: str
    got: str
    trace: str = ""
    hint: str = ""


Report = scripts.Report[Failure]


def run_scripts(path: str | os.PathLike[str], *, tools: Functions | None = None, model: Any = None) -> Report:
    """Run the tests of a file of scripts, or of the file next to an agent.

    `tools` replaces the module that the file names; `model` is what reasoning steps ask, none unless given.
    """
    file = scripts_beside(Path(path))
    read = read_scripts(TESTED.text_of(file), name=str(file))
    agent = TESTED.program_of(file, read.agent)
    return run_each(read.source, read.scripts, lambda script: _play(script, read, file.parent, agent, tools, model))


def scripts_beside(path: Path) -> Path:
    """Return the file of scripts of an agent; a file of scripts is returned as it is."""
    return TESTED.tests_of(path)


def _play(
    script: Script, read: ScriptFile, folder: Path, path: Path, tools: Functions | None, model: Any
) -> Failure | None:
    from memoranda.abl.agent import load
    from memoranda.api.memory import open as open_memory

    clock = ScriptClock(script.now)
    # Each test loads the module again, so that tests do not share its state.
    functions = functions_of(tools if tools is not None else folder / read.tools if read.tools else None)
    functions.update((name, _stub_tool(answers, functions.get(name))) for name, answers in script.tools.items())
    with open_memory(":memory:", clock=clock) as memory:
        others = [load(folder / name, memory=memory, tools=functions, model=model) for name in read.agents]
        agent = load(path, memory=memory, tools=functions, model=model, agents=others)
        run = _ScriptRun([agent, *others], memory, clock, script)
        try:
            for action in script.actions:
                run.do(action)
        except _Unexpected as unexpected:
            return run.failure(unexpected, read.source.position(unexpected.at).line)
    return None


def _stub_tool(answers: tuple[Answer, ...], real: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a tool that returns one answer after the other, and then repeats the last."""
    left = Answers(answers)

    def answer(*positional: Any, **named: Any) -> Any:
        current = left.next()
        if current.error is not None:
            raise RuntimeError(current.error)
        return current.value

    return wraps(real)(answer) if real is not None else answer


class _Unexpected(Exception):
    """An expectation that is not met."""

    def __init__(self, at: int, expected: str, got: str, hint: str = "") -> None:
        super().__init__(expected)
        self.at = at
        self.expected = expected
        self.got = got
        self.hint = hint


class _ScriptRun:
    """The state of one test: a session for each user, and its last turn."""

    def __init__(self, agents: list[Agent], memory: Memory, clock: ScriptClock, script: Script) -> None:
        self.agents = agents
        """The tested agent, and those it hands over to."""
        self.memory = memory
        self.clock = clock
        self.script = script
        self.user = script.user
        self.sessions: dict[str, Session] = {}
        self.openings: dict[str, Turn] = {}
        self.turns: dict[str, Turn] = {}
        self.said: dict[str, str | None] = {}
        self._give_facts()

    def do(self, action: Action) -> None:
        """Run one action, or raise if an expectation is not met."""
        match action.kind:
            case "say":
                self._say(action)
            case "as":
                self.user = action.value
            case "wait":
                self.clock.wait(action.value)
            case "end":
                self.session.end()
                # The next expectation is about the opening of the next session.
                del self.sessions[self.user], self.turns[self.user]
            case _:
                _EXPECTATIONS[action.kind](self, action)

    def failure(self, unexpected: _Unexpected, line: int) -> Failure:
        """Describe why the test failed."""
        turn = self.turns.get(self.user)
        return Failure(
            line,
            self.said.get(self.user),
            unexpected.expected,
            unexpected.got,
            trace=str(turn.trace) if turn is not None else "",
            hint=unexpected.hint,
        )

    @property
    def session(self) -> Session:
        """The session of the current user, started when first needed."""
        if self.user not in self.sessions:
            session = start_fixture(self.agents[0], user=self.user, project=self.script.project, vars=self.script.vars)
            self.sessions[self.user] = session
            self.turns[self.user] = self.openings[self.user] = session.opening
            self.said[self.user] = None
        return self.sessions[self.user]

    @property
    def turn(self) -> Turn:
        """The last turn of the current user, which may be the opening."""
        if self.user not in self.turns:
            _ = self.session
        return self.turns[self.user]

    @property
    def text(self) -> str:
        """All messages of the last turn."""
        return self.turn.text

    def _say(self, action: Action) -> None:
        session = self.session
        self.said[self.user] = action.value
        try:
            self.turns[self.user] = session.say(action.value)
        except MemorandaError as error:
            raise _Unexpected(action.span.start, f"an answer to {quote(action.value)}", str(error)) from error

    # facts

    def _give_facts(self) -> None:
        for path, value in self.script.facts.items():
            place, key, below = self._place(path)
            if place is None or below:
                raise UsageError(
                    f"{quote(path)} cannot be a fact before the session",
                    hint="Give whole facts of the user or the project, such as `user.language: en`",
                    path=path,
                )
            place.set(key, value)

    def _place(self, path: str) -> tuple[Any, str, tuple[str, ...]]:
        """Return the memory and the key of a path, and the path inside the fact."""
        known = (agent.plan.declarations.find(path) for agent in self.agents)
        variable, below = next(filter(None, known), (None, ()))
        scope = variable.scope if variable else scope_of(path)
        key = variable.key if variable else key_of(path)
        if scope == "user":
            return self.memory.scope(user=self.user), key, below
        if scope == "project":
            return self.memory.scope(project=self.script.project), key, below
        # A session has a tree of its own, unless it joined another one.
        session = self.sessions.get(self.user)
        return (self.memory.scope(tree=session.tree) if session else None), key, below

    # expectations

    def expect_words(self, action: Action) -> None:
        """Compare the messages."""
        text = self.text
        for wording in cast("tuple[Wording, ...]", action.value):
            if not fits(wording, text):
                raise _Unexpected(action.span.start, describe(wording), text or "(no message)", self._hint(wording))

    def expect_silence(self, action: Action) -> None:
        """Expect no message."""
        if self.text:
            raise _Unexpected(action.span.start, "no message", self.text)

    def expect_step(self, action: Action) -> None:
        """Compare the current step."""
        self._compare(action, "the step", self.session.step)

    def expect_status(self, action: Action) -> None:
        """Compare the status of the turn."""
        self._compare(action, "the status", self.turn.status)

    def expect_agent(self, action: Action) -> None:
        """Compare the active agent."""
        self._compare(action, "the agent", self.session.agent)

    def expect_event(self, action: Action) -> None:
        """Expect, for each text, an event of the turn whose line contains it."""
        events = [str(event) for event in self.turn.events]
        for text in action.value:
            if not any(text in event for event in events):
                raise _Unexpected(action.span.start, f"the event {quote(text)}", "\n".join(events) or "(no event)")

    def expect_vars(self, action: Action) -> None:
        """Compare variables, or parts of them."""
        for path, wanted in action.value.items():
            name, *below = path.split(".")
            self._compare_value(
                action, f"the variable {quote(path)}", wanted, _part(self.session.vars.get(name), below)
            )

    def expect_facts(self, action: Action) -> None:
        """Compare facts, or parts of them."""
        for path, wanted in action.value.items():
            place, key, below = self._place(path)
            found = None if place is None else _part(place.value(key), below)
            self._compare_value(action, f"the fact {quote(path)}", wanted, found)

    def _compare(self, action: Action, what: str, found: str | None) -> None:
        if found != action.value:
            raise _Unexpected(action.span.start, f"{what} {json_text(action.value)}", json_text(found))

    def _compare_value(self, action: Action, what: str, wanted: Any, found: Any) -> None:
        if not _same(wanted, found):
            raise _Unexpected(action.span.start, f"{what} to be {json_text(wanted)}", json_text(found))

    def _hint(self, wording: Wording) -> str:
        if not fits(wording, self.openings[self.user].text):
            return ""
        return "It was said before the first `say`; put an `expect` above that"


_EXPECTATIONS: dict[str, Callable[[_ScriptRun, Action], None]] = {
    "expect": _ScriptRun.expect_words,
    "expect no message": _ScriptRun.expect_silence,
    "expect step": _ScriptRun.expect_step,
    "expect status": _ScriptRun.expect_status,
    "expect agent": _ScriptRun.expect_agent,
    "expect event": _ScriptRun.expect_event,
    "expect vars": _ScriptRun.expect_vars,
    "expect fact": _ScriptRun.expect_facts,
}


def _part(value: Any, path: list[str] | tuple[str, ...]) -> Any:
    """Return a nested part of a value: a field of an object, or an item of an array by its index."""
    for name in path:
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(name)]
        else:
            return None
    return value


def _same(one: Any, other: Any) -> bool:
    """Say whether two JSON values are equal: 2 is 2.0, but 1 is not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        first, second = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return first.keys() == second.keys() and all(_same(first[name], second[name]) for name in first)
    if isinstance(one, list) and isinstance(other, list):
        left, right = cast("list[Any]", one), cast("list[Any]", other)
        return len(left) == len(right) and all(map(_same, left, right))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
