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

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from memoranda.errors import UsageError
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.scripts.comparing import How, Wording
from memoranda.lang.scripts.reader import ScriptReader
from memoranda.lang.source import Source, Span
from memoranda.lang.yaml import Node, compose
from memoranda.model.key import check_key
from memoranda.model.text import quote

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
COMPARISONS: tuple[How, ...] = ("is", "not", "matches")
"""How words can be compared; a text alone is a part of them."""


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


class _Reader(ScriptReader):
    """Turns nodes into scripts, noting what does not fit and going on."""

    def file(self, node: Node | None) -> ScriptFile:
        """Read the whole file."""
        found = self.keys(node, "a file of scripts", ("agent", "agents", "tools", "tests"))
        return ScriptFile(
            source=self.said.source,
            agent=self.text(found["agent"], "agent") if "agent" in found else None,
            agents=self.texts(found["agents"], "agents") if "agents" in found else (),
            tools=self.text(found["tools"], "tools") if "tools" in found else None,
            scripts=self.tests(found.get("tests"), node, self._script),
        )

    def _script(self, node: Node) -> Script | None:
        given: dict[str, Any] = {}
        known = ("name", "user", "project", "now", "facts", "vars", "tools", "steps", "turns")
        for key, value in self.entries(node, "a test", known):
            match key:
                case "name" | "user" | "project":
                    given[key] = self.text(value, key)
                case "now":
                    given[key] = self.moment(value)
                case "facts":
                    given[key] = self._facts(value, key)
                case "vars":
                    given[key] = self.mapping(value, key)
                case "tools":
                    given[key] = self._answers(value)
                case _:
                    if "actions" in given:
                        self.wrong("`turns` is another word for `steps`", value.span, "Use one of them")
                    given["actions"] = self._actions(value)
        if not given.get("name"):
            self.missing("a test needs a name", node.span, "Begin it with `- name: What it shows`")
            return None
        if not given.get("actions") and not self.said.failed:
            self.missing(f"the test {quote(given['name'])} does nothing", node.span, "Put `steps:` below it")
        return Script(span=node.span, **{key: value for key, value in given.items() if value is not None})

    # steps

    def _actions(self, node: Node) -> tuple[Action, ...]:
        actions: list[Action] = []
        for item in self.items(node, "steps"):
            for key, value in self.entries(item, "a step", tuple(_STEPS)):
                kind, read = _STEPS[key]
                actions.append(Action(kind, read(self, value), value.span))
        return tuple(actions)

    def say(self, node: Node) -> str:
        return self.text(node, "say", empty=True) or ""

    def user(self, node: Node) -> str:
        return self.text(node, "as") or ""

    def wordings(self, node: Node) -> tuple[Wording, ...]:
        if node.items is not None:
            return tuple(wording for item in node.items for wording in self.wordings(item))
        if node.entries is not None:
            return tuple(self.comparisons(node, COMPARISONS))
        if not node.scalar:
            self.wrong("nothing is expected here", node.span, "Write `expect no message: true`, or some text")
        return (Wording("has", node.scalar or ""),)

    def name_or_null(self, node: Node) -> str | None:
        if node.scalar is None:
            self.wrong("a name belongs here", node.span, "Write the name of a step, or null for none")
        return None if node.value is None else node.scalar

    def agent(self, node: Node) -> str:
        return self.text(node, "expect agent") or ""

    def events(self, node: Node) -> tuple[str, ...]:
        return self.texts(node, "expect event")

    def status(self, node: Node) -> str:
        return self.word(node, "status", STATUSES)

    def vars(self, node: Node) -> dict[str, Any]:
        return self.mapping(node, "expect vars") or {}

    def expected_facts(self, node: Node) -> dict[str, Any]:
        return self._facts(node, "expect fact") or {}

    # parts

    def _facts(self, node: Node, what: str) -> dict[str, Any] | None:
        facts = self.mapping(node, what)
        for key, _ in node.entries or ():
            try:
                check_key(key.scalar or "")
            except UsageError as error:
                self.wrong(error.message, key.span, error.hint)
        return facts

    def _answers(self, node: Node) -> dict[str, tuple[Answer, ...]]:
        answers: dict[str, tuple[Answer, ...]] = {}
        if node.entries is None:
            self.wrong("`tools` says what each tool gives", node.span, "Write `tool_name: result` below it")
        for key, value in node.entries or ():
            several = value.items if value.items is not None else (value,)
            answers[key.scalar or ""] = tuple(self._answer(one) for one in several)
            if not several:
                self.wrong("no result stands here", value.span, "An empty list as the result is `[[]]`")
        return answers

    def _answer(self, node: Node) -> Answer:
        if node.entries is not None and [key.scalar for key, _ in node.entries] == ["error"]:
            return Answer(error=self.text(node.entries[0][1], "error") or "")
        return Answer(node.value)


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
    "expect agent": ("expect agent", _Reader.agent),
    "expect event": ("expect event", _Reader.events),
    "expect vars": ("expect vars", _Reader.vars),
    "expect fact": ("expect fact", _Reader.expected_facts),
    "expect facts": ("expect fact", _Reader.expected_facts),
}
