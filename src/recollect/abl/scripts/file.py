"""The text of a file of conversation scripts in, its tests as values out, or every fault of it with its place.

```yaml
agent: hotel.abl              # unless said, the agent beside it: of `hotel.tests.yaml` that is `hotel.abl`
agents: [concierge.abl]       # those it hands over to
tools: tools.py
tests:
  - name: A guest is known again
    user: ada
    facts: {user.name: Ada}
    steps:
      - expect: Welcome, Ada
      - say: two nights in Lisbon
        expect: [Lisbon, {not: Porto}]
        expect fact: {user.language: null}
```

Words stay words: `say: yes` says `yes`, and a date is text. Anchors and aliases are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, cast

import msgspec

from recollect.errors import UsageError
from recollect.lang.diagnostics import Diagnostics, did_you_mean
from recollect.lang.expression.patterns import compile_pattern
from recollect.lang.source import Source, Span
from recollect.lang.yaml import Node, compose
from recollect.model.clock import from_micros, parse_moment
from recollect.model.duration import parse_duration
from recollect.model.key import check_key
from recollect.model.text import quote

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
STATUSES = ("waiting", "completed", "escalated", "handed_off", "blocked")
COMPARISONS = ("is", "not", "matches")
ENDING = ".tests.yaml"


class Wording(msgspec.Struct, frozen=True):
    """What the agent's words are compared with: a part of them, all of them, none of them, or a pattern."""

    how: Literal["has", "is", "not", "matches"]
    text: str


class Action(msgspec.Struct, frozen=True):
    """One thing that a script does or looks at, and where it stands."""

    kind: Kind
    value: Any
    span: Span


class Answer(msgspec.Struct, frozen=True):
    """What a tool gives instead of being called: a value, or a failure."""

    value: Any = None
    error: str | None = None


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """One test: who talks, what is known before, and what is said and expected."""

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
    """Everything that a file of scripts says; paths are relative to it."""

    source: Source
    agent: str | None = None
    agents: tuple[str, ...] = ()
    tools: str | None = None
    scripts: tuple[Script, ...] = ()


def read_scripts(text: str, *, name: str) -> ScriptFile:
    """Read a file of scripts, or raise a SourceError that carries every fault of it."""
    source = Source(name, text)
    reader = _Reader(Diagnostics(source))
    found = reader.file(compose(source, reader.said))
    reader.said.raise_if_failed()
    return msgspec.structs.replace(found, source=source)


class _Reader:
    """Turns nodes into scripts, noting what does not fit and going on."""

    def __init__(self, said: Diagnostics) -> None:
        self.said = said

    def file(self, node: Node | None) -> ScriptFile:
        """Read the whole file."""
        empty = ScriptFile(source=self.said.source)
        if node is None:
            if not self.said.failed:
                self._missing("the file is empty", Span(0, 0), "Begin it with `tests:`")
            return empty
        agent: str | None = None
        agents: tuple[str, ...] = ()
        tools: str | None = None
        scripts: tuple[Script, ...] | None = None
        for key, value in self._entries(node, "a file of scripts", ("agent", "agents", "tools", "tests")):
            match key:
                case "agent":
                    agent = self._text(value, "agent")
                case "agents":
                    agents = self._texts(value, "agents")
                case "tools":
                    tools = self._text(value, "tools")
                case _:
                    scripts = self._scripts(value)
        if not scripts and not self.said.failed:
            self._missing("there are no tests in this file", node.span, "Put them below `tests:`, as a list")
        return ScriptFile(source=self.said.source, agent=agent, agents=agents, tools=tools, scripts=scripts or ())

    def _scripts(self, node: Node) -> tuple[Script, ...]:
        scripts: list[Script] = []
        names: set[str] = set()
        for item in self._items(node, "tests"):
            script = self._script(item)
            if script is None:
                continue
            if script.name in names:
                message = f"another test is called {quote(script.name)} too"
                self.said.error("double_name", message, item.span, hint="Give each test a name of its own")
            names.add(script.name)
            scripts.append(script)
        return tuple(scripts)

    def _script(self, node: Node) -> Script | None:
        given: dict[str, Any] = {}
        known = ("name", "user", "project", "now", "facts", "vars", "tools", "steps", "turns")
        for key, value in self._entries(node, "a test", known):
            match key:
                case "name" | "user" | "project":
                    given[key] = self._text(value, key)
                case "now":
                    given[key] = self._moment(value)
                case "facts":
                    given[key] = self._facts(value, key)
                case "vars":
                    given[key] = self._mapping(value, key)
                case "tools":
                    given[key] = self._answers(value)
                case _:
                    if "actions" in given:
                        self._wrong("`turns` is another word for `steps`", value.span, "Use one of them")
                    given["actions"] = self._actions(value)
        if not given.get("name"):
            self._missing("a test needs a name", node.span, "Begin it with `- name: What it shows`")
            return None
        if not given.get("actions") and not self.said.failed:
            self._missing(f"the test {quote(given['name'])} does nothing", node.span, "Put `steps:` below it")
        return Script(span=node.span, **{key: value for key, value in given.items() if value is not None})

    # steps

    def _actions(self, node: Node) -> tuple[Action, ...]:
        actions: list[Action] = []
        for item in self._items(node, "steps"):
            for key, value in self._entries(item, "a step", tuple(_STEPS)):
                kind, read = _STEPS[key]
                actions.append(Action(kind, read(self, value), value.span))
        return tuple(actions)

    def say(self, node: Node) -> str:
        return self._text(node, "say", empty=True) or ""

    def user(self, node: Node) -> str:
        return self._text(node, "as") or ""

    def seconds(self, node: Node) -> int:
        try:
            return parse_duration(node.scalar or "")
        except UsageError as error:
            self._wrong(error.message, node.span, error.hint)
            return 0

    def flag(self, node: Node) -> bool:
        if node.value is not True:
            self._wrong("this can only be `true`", node.span, "Leave the line out for the opposite")
        return True

    def wordings(self, node: Node) -> tuple[Wording, ...]:
        if node.items is not None:
            return tuple(wording for item in node.items for wording in self.wordings(item))
        if node.entries is None:
            if not node.scalar:
                self._wrong("nothing is expected here", node.span, "Write `expect no message: true`, or some text")
            return (Wording("has", node.scalar or ""),)
        wordings: list[Wording] = []
        for how, value in self._entries(node, "an expectation", COMPARISONS):
            for text in self._texts(value, how):
                if how == "matches":
                    self._pattern(text, value.span)
                wordings.append(Wording(cast("Any", how), text))
        return tuple(wordings)

    def _pattern(self, text: str, span: Span) -> None:
        try:
            compile_pattern(text)
        except UsageError as error:
            self._wrong(error.message, span, error.hint)

    def name_or_null(self, node: Node) -> str | None:
        if node.scalar is None:
            self._wrong("a name belongs here", node.span, "Write the name of a step, or null for none")
        return None if node.value is None else node.scalar

    def name(self, node: Node) -> str:
        return self._text(node, "a name") or ""

    def status(self, node: Node) -> str:
        status = node.scalar or ""
        if status not in STATUSES:
            hint = did_you_mean(status, STATUSES, otherwise=f"One of {', '.join(STATUSES)}")
            self._wrong(f"{quote(status)} is no status", node.span, hint)
        return status

    def vars(self, node: Node) -> dict[str, Any]:
        return self._mapping(node, "expect vars") or {}

    def expected_facts(self, node: Node) -> dict[str, Any]:
        return self._facts(node, "expect fact") or {}

    # parts

    def _facts(self, node: Node, what: str) -> dict[str, Any] | None:
        facts = self._mapping(node, what)
        for key, _ in node.entries or ():
            try:
                check_key(key.scalar or "")
            except UsageError as error:
                self._wrong(error.message, key.span, error.hint)
        return facts

    def _answers(self, node: Node) -> dict[str, tuple[Answer, ...]]:
        answers: dict[str, tuple[Answer, ...]] = {}
        if node.entries is None:
            self._wrong("`tools` says what each tool gives", node.span, "Write `tool_name: result` below it")
        for key, value in node.entries or ():
            several = value.items if value.items is not None else (value,)
            answers[key.scalar or ""] = tuple(self._answer(one) for one in several)
            if not several:
                self._wrong("no result stands here", value.span, "An empty list as the result is `[[]]`")
        return answers

    def _answer(self, node: Node) -> Answer:
        if node.entries is not None and [key.scalar for key, _ in node.entries] == ["error"]:
            return Answer(error=self._text(node.entries[0][1], "error") or "")
        return Answer(node.value)

    def _moment(self, node: Node) -> str | None:
        try:
            return from_micros(parse_moment(node.scalar or "")).isoformat()
        except UsageError as error:
            self._wrong(error.message, node.span, error.hint)
            return None

    def _mapping(self, node: Node, what: str) -> dict[str, Any] | None:
        if node.entries is None:
            self._wrong(f"`{what}` is names and values", node.span, "Write `name: value` below it")
            return None
        return node.value

    def _text(self, node: Node, what: str, *, empty: bool = False) -> str | None:
        if node.scalar is None or not (node.scalar or empty):
            self._wrong(f"`{what}` is a text", node.span, "Write it after the colon")
        return node.scalar

    def _texts(self, node: Node, what: str) -> tuple[str, ...]:
        nodes = node.items if node.items is not None else (node,)
        return tuple(text for one in nodes if (text := self._text(one, what)) is not None)

    def _items(self, node: Node, what: str) -> tuple[Node, ...]:
        if node.items is None:
            self._wrong(f"`{what}` is a list", node.span, "Begin each item with a dash")
        return node.items or ()

    def _entries(self, node: Node, what: str, known: Iterable[str]) -> Iterator[tuple[str, Node]]:
        """Give the entries of a mapping whose keys are known, each once; note the others."""
        names = tuple(known)
        if node.entries is None:
            self._wrong(f"{what} is keys and values", node.span, f"Its keys are {', '.join(names)}")
        seen: set[str] = set()
        for key, value in node.entries or ():
            name = key.scalar or ""
            if name not in names:
                hint = did_you_mean(name, names, otherwise=f"Its keys are {', '.join(names)}")
                self.said.error("unknown_key", f"{quote(name)} is no key of {what}", key.span, hint=hint)
            elif name in seen:
                self.said.error("double_key", f"{quote(name)} stands here twice", key.span, hint="Keep one of them")
            else:
                seen.add(name)
                yield name, value

    def _wrong(self, message: str, span: Span, hint: str) -> None:
        self.said.error("wrong_value", message, span, hint=hint)

    def _missing(self, message: str, span: Span, hint: str) -> None:
        self.said.error("missing", message, span, hint=hint)


# `_Reader`'s own methods, by the key they read; a key that people also write in another number has two rows.
_STEPS: dict[str, tuple[Kind, Callable[[_Reader, Node], Any]]] = {
    "as": ("as", _Reader.user),
    "say": ("say", _Reader.say),
    "wait": ("wait", _Reader.seconds),
    "end": ("end", _Reader.flag),
    "expect": ("expect", _Reader.wordings),
    "expect no message": ("expect no message", _Reader.flag),
    "expect step": ("expect step", _Reader.name_or_null),
    "expect status": ("expect status", _Reader.status),
    "expect agent": ("expect agent", _Reader.name),
    "expect event": ("expect event", _Reader.name),
    "expect vars": ("expect vars", _Reader.vars),
    "expect fact": ("expect fact", _Reader.expected_facts),
    "expect facts": ("expect fact", _Reader.expected_facts),
}
