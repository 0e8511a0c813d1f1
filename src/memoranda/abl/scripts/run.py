"""Conversation scripts in, a report out: each test talks to the agent on a memory and a clock of its own.

`run_scripts("hotel.abl")` runs the tests in `hotel.tests.yaml` beside the agent. A test ends at the first thing that
is not as expected. `file.py` says what can stand in such a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.abl.agent import start_fixture
from memoranda.abl.document import scope_of
from memoranda.abl.scripts.file import Action, Answer, Script, ScriptFile, read_scripts
from memoranda.abl.tools.modules import Functions, functions_of
from memoranda.abl.variables import key_of
from memoranda.errors import MemorandaError, NotFound, UsageError
from memoranda.lang.scripts import report
from memoranda.lang.scripts.clock import ScriptClock
from memoranda.lang.scripts.comparing import Wording, described, fits
from memoranda.lang.scripts.files import ENDING, programs_beside, read_tests, stem_of, tests_beside
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.abl.agent import Agent
    from memoranda.abl.session import Session, Turn
    from memoranda.api.memory import Memory

AGENT_ENDINGS = (".agent.abl", ".abl", ".agent.yaml", ".agent.yml")
"""How the name of an agent's file ends; the longer of two that fit comes first."""
_WHERE = "Write the tests of an agent beside it: those of `desk.abl` in `desk.tests.yaml`"


class Failure(msgspec.Struct, frozen=True):
    """Where a test ended: what was expected there, what came, and how the agent came to it."""

    line: int
    said: str | None
    expected: str
    got: str
    trace: str = ""
    hint: str = ""


Case = report.Case[Failure]
Report = report.Report[Failure]


def run_scripts(path: str | os.PathLike[str], *, tools: Functions | None = None, model: Any = None) -> Report:
    """Run the tests of a file of scripts, or of the one beside an agent.

    `tools` replaces the module that the file names; `model` is what reasoning steps ask, none unless given.
    """
    file = scripts_beside(Path(path))
    read = read_scripts(read_tests(file, hint=_WHERE), name=str(file))
    agent = file.parent / read.agent if read.agent else _agent_beside(file)
    cases = tuple(_run(script, read, file.parent, agent, tools, model) for script in read.scripts)
    return Report(str(file), cases)


def scripts_beside(path: Path) -> Path:
    """Return the file of scripts that belongs to an agent; a file of scripts is its own."""
    for ending in AGENT_ENDINGS:
        if path.name.endswith(ending):
            return tests_beside(path, ending)
    if path.suffix in (".yaml", ".yml"):
        return path
    raise UsageError(
        f"{quote(path.name)} is neither an agent nor a file of scripts",
        hint=f"Agents end in {', '.join(AGENT_ENDINGS)}, scripts in {ENDING}",
        path=str(path),
    )


def _agent_beside(file: Path) -> Path:
    beside = programs_beside(file, AGENT_ENDINGS)
    if not beside:
        hint = f"Name it in the file: `agent: {stem_of(file)}.abl`"
        raise NotFound(f"there is no agent for {quote(str(file))}", hint=hint, path=str(file))
    return beside[0]


def _run(script: Script, read: ScriptFile, folder: Path, path: Path, tools: Functions | None, model: Any) -> Case:
    from memoranda.abl.loading import load
    from memoranda.api.opening import open as open_memory

    clock = ScriptClock(script.now)
    line = read.source.position(script.span.start).line
    # A module is loaded anew for each test, so that none sees what another left in it.
    functions = functions_of(tools if tools is not None else folder / read.tools if read.tools else None)
    functions.update((name, _canned(answers, functions.get(name))) for name, answers in script.tools.items())
    with open_memory(":memory:", clock=clock) as memory:
        others = [load(folder / name, memory=memory, tools=functions, model=model) for name in read.agents]
        agent = load(path, memory=memory, tools=functions, model=model, agents=others)
        talk = _Talk([agent, *others], memory, clock, script)
        try:
            for action in script.actions:
                talk.do(action)
        except _Unexpected as unexpected:
            return Case(script.name, line, talk.failure(unexpected, read.source.position(unexpected.at).line))
    return Case(script.name, line)


def _canned(answers: tuple[Answer, ...], real: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a tool that gives one answer after the other, and the last of them from then on."""
    calls = 0

    def answer(*positional: Any, **named: Any) -> Any:
        nonlocal calls
        current = answers[min(calls, len(answers) - 1)]
        calls += 1
        if current.error is not None:
            raise RuntimeError(current.error)
        return current.value

    return wraps(real)(answer) if real is not None else answer


class _Unexpected(Exception):
    """Something that is not as the script says."""

    def __init__(self, at: int, expected: str, got: str, hint: str = "") -> None:
        super().__init__(expected)
        self.at = at
        self.expected = expected
        self.got = got
        self.hint = hint


class _Talk:
    """The conversations of one test: one session for each user, and the turn that was taken last."""

    def __init__(self, agents: list[Agent], memory: Memory, clock: ScriptClock, script: Script) -> None:
        self.agents = agents
        """The one that is tested, and those it hands over to."""
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
        """Do one thing of the script, or say that it is not as expected."""
        match action.kind:
            case "say":
                self._say(action)
            case "as":
                self.user = action.value
            case "wait":
                self.clock.wait(action.value)
            case "end":
                self.session.end()
                # What is looked at next is the opening of the next session.
                del self.sessions[self.user], self.turns[self.user]
            case _:
                _LOOKS[action.kind](self, action)

    def failure(self, unexpected: _Unexpected, line: int) -> Failure:
        """Return what is to be known about the end of this test."""
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
        """The session of the present user, begun when it is first needed."""
        if self.user not in self.sessions:
            session = start_fixture(self.agents[0], user=self.user, project=self.script.project, vars=self.script.vars)
            self.sessions[self.user] = session
            self.turns[self.user] = self.openings[self.user] = session.opening
            self.said[self.user] = None
        return self.sessions[self.user]

    @property
    def turn(self) -> Turn:
        """The last turn of the present user; the opening, where nothing was said yet."""
        if self.user not in self.turns:
            _ = self.session
        return self.turns[self.user]

    @property
    def text(self) -> str:
        """Everything that the agent said in that turn."""
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
        """Return where a path is kept: the memory, the key, and what of the fact is meant."""
        known = (agent.plan.declarations.find(path) for agent in self.agents)
        variable, below = next(filter(None, known), (None, ()))
        scope = variable.scope if variable else scope_of(path)
        key = variable.key if variable else key_of(path)
        if scope == "user":
            return self.memory.scope(user=self.user), key, below
        if scope == "project":
            return self.memory.scope(project=self.script.project), key, below
        # The tree of a session that nobody else began has the session's id.
        session = self.sessions.get(self.user)
        return (self.memory.scope(tree=session.tree) if session else None), key, below

    # expectations

    def look_at_words(self, action: Action) -> None:
        """Compare what the agent said."""
        text = self.text
        for wording in cast("tuple[Wording, ...]", action.value):
            if not fits(wording, text):
                raise _Unexpected(action.span.start, described(wording), text or "(no message)", self._hint(wording))

    def look_for_silence(self, action: Action) -> None:
        """Require that the agent said nothing."""
        if self.text:
            raise _Unexpected(action.span.start, "no message", self.text)

    def look_at_step(self, action: Action) -> None:
        """Compare the step that the session waits at."""
        self._compare(action, "the step", self.session.step)

    def look_at_status(self, action: Action) -> None:
        """Compare how the turn ended."""
        self._compare(action, "the status", self.turn.status)

    def look_at_agent(self, action: Action) -> None:
        """Compare who speaks."""
        self._compare(action, "the agent", self.session.agent)

    def look_for_event(self, action: Action) -> None:
        """Require, for each text, an event of the turn whose line holds it."""
        events = [str(event) for event in self.turn.events]
        for text in action.value:
            if not any(text in event for event in events):
                raise _Unexpected(action.span.start, f"the event {quote(text)}", "\n".join(events) or "(no event)")

    def look_at_vars(self, action: Action) -> None:
        """Compare variables, or parts of them."""
        for path, wanted in action.value.items():
            name, *below = path.split(".")
            self._compare_value(
                action, f"the variable {quote(path)}", wanted, _part(self.session.vars.get(name), below)
            )

    def look_at_facts(self, action: Action) -> None:
        """Compare facts, or parts of them."""
        for path, wanted in action.value.items():
            place, key, below = self._place(path)
            found = None if place is None else _part(place.value(key), below)
            self._compare_value(action, f"the fact {quote(path)}", wanted, found)

    def _compare(self, action: Action, what: str, found: str | None) -> None:
        if found != action.value:
            raise _Unexpected(action.span.start, f"{what} {_json(action.value)}", _json(found))

    def _compare_value(self, action: Action, what: str, wanted: Any, found: Any) -> None:
        if not _same(wanted, found):
            raise _Unexpected(action.span.start, f"{what} to be {_json(wanted)}", _json(found))

    def _hint(self, wording: Wording) -> str:
        if not fits(wording, self.openings[self.user].text):
            return ""
        return "It was said before the first `say`; look for it with an `expect` above that"


_LOOKS: dict[str, Callable[[_Talk, Action], None]] = {
    "expect": _Talk.look_at_words,
    "expect no message": _Talk.look_for_silence,
    "expect step": _Talk.look_at_step,
    "expect status": _Talk.look_at_status,
    "expect agent": _Talk.look_at_agent,
    "expect event": _Talk.look_for_event,
    "expect vars": _Talk.look_at_vars,
    "expect fact": _Talk.look_at_facts,
}


def _part(value: Any, path: list[str] | tuple[str, ...]) -> Any:
    """Return what lies below a value: a field of an object, or an item of an array by its number from 0."""
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


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
