"""Parse files of workflow tests.

```yaml
workflow: bakery.yaml           # by default the workflow beside it: `bakery.yaml` for `bakery.tests.yaml`
workflows: [delivery.yaml]      # those it calls
actions: actions.py             # a Python file or module with the workflow's own actions
servers: {pantry: pantry.py}    # the same for the tools of a bound server
definitions:                    # every test starts with these
  allergies:
    id: 5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48
    schema: {type: object, properties: {nuts: {type: boolean}}}
tests:
  - name: A customer with a nut allergy is offered plum cake
    owner: ada
    thread: counter
    input: {text: A cake please}
    memory: {allergies: {nuts: true}}
    messages: [{owner: Good morning}, {workflow: 'Yes, please.'}]
    models:
      baker: [{calls: {update_memory: {memory: {allergies: {nuts: true}}}}}, Plum cake it is.]
    actions:
      look_up_stock: {value: {plum: 3}}
      http_request: [{error: unreachable}, {value: {status: 200}}]
    expect:
      status: completed
      messages: [Plum cake it is.]
      output: {cake: plum}
  - name: No reply in time
    steps:
      - run: {text: A cake please}
        expect: {status: waiting}
      - wait: 2h
        expect: {status: completed, output: {cake: null}}
```

An expected map names only the keys to compare, with null for a missing one; an expected list has every item. Texts are
never converted to other types, and anchors and aliases are not allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec

from memoranda.agent.provider import Reason
from memoranda.engine.schemas import prepare_schema
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.scripts import How, ScriptReader, Wording
from memoranda.lang.source import Source, Span
from memoranda.lang.yaml import YamlNode
from memoranda.model.clock import parse_duration
from memoranda.model.definition import MODES, SHAPES, Mode, is_slug
from memoranda.model.text import quote

StepKind = Literal["as", "thread", "run", "deliver", "wait", "cancel", "expect"]
Compared = Literal["output", "outputs", "context", "memory", "waiting"]
STATUSES = ("completed", "waiting", "failed", "cancelled", "refused")
"""The status of a run after a step; `refused` if it could not start at all."""
COMPARED: tuple[Compared, ...] = ("output", "outputs", "context", "memory", "waiting")
"""Parts that are compared value by value."""
COMPARISONS: tuple[How, ...] = ("has", "is", "not", "matches")
"""How texts can be compared; a plain text has to be equal."""
REASONS: tuple[Reason, ...] = (
    "timeout",
    "rate_limited",
    "refused",
    "invalid_answer",
    "silent",
    "unreachable",
    "provider",
)
ANY = "any"
"""The name for all models without replies of their own."""
PLACES = ("global", "workflow", "thread", "run")
"""The scopes of workflow records."""


class InitialDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A memory definition that every test starts with."""

    slug: str
    span: Span
    schema: dict[str, Any]
    id: str | None = None
    name: str
    scope: str = "global"
    ttl: int | None = None
    mode: Mode | None = None


class Line(msgspec.Struct, frozen=True):
    """A message in the thread before the test."""

    by_owner: bool
    text: str


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a model: a text, an object, tool calls, or a failure."""

    text: str = ""
    value: dict[str, Any] | None = None
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    error: Reason | None = None


class ScriptedError(msgspec.Struct, frozen=True, kw_only=True):
    """Why an action fails in a test."""

    type: str = "error"
    message: str = ""
    retryable: bool | None = None


class ScriptedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an action gives instead of acting: a value or an error."""

    value: Any = None
    error: ScriptedError | None = None


class ScriptedModel(msgspec.Struct, frozen=True):
    """The replies of a model, in order."""

    name: str
    span: Span
    replies: tuple[ScriptedReply, ...]


class ScriptedAction(msgspec.Struct, frozen=True):
    """The results of a task, or of all tasks of an action, in order; the last one is repeated."""

    name: str
    span: Span
    answers: tuple[ScriptedResult, ...]


class ExpectedError(msgspec.Struct, frozen=True, kw_only=True):
    """An expected error; fields that are None are not compared."""

    type: str | None = None
    step: str | None = None
    message: tuple[Wording, ...] = ()


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """The expected result of a step; fields that are None are not compared."""

    places: dict[str, YamlNode]
    """The node of each expectation."""
    status: str | None = None
    error: ExpectedError | None = None
    messages: tuple[tuple[Wording, ...], ...] | None = None
    values: dict[Compared, Any] = {}


class Step(msgspec.Struct, frozen=True):
    """One step of a test, and its place in the file."""

    kind: StepKind
    value: Any
    span: Span


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """One test: its owner, what is stored before it, scripted models and actions, and its steps."""

    name: str
    span: Span
    owner: str = "tester"
    thread: str | None = None
    now: str = "2026-01-01T12:00:00+00:00"
    input: dict[str, Any] = {}
    memory: dict[str, tuple[Any, Span]] = {}
    messages: tuple[Line, ...] = ()
    models: tuple[ScriptedModel, ...] = ()
    actions: tuple[ScriptedAction, ...] = ()
    steps: tuple[Step, ...] = ()


class ScriptFile(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed file of tests; paths are relative to it."""

    source: Source
    workflow: str | None = None
    workflows: tuple[str, ...] = ()
    actions: str | None = None
    servers: dict[str, str] = {}
    definitions: tuple[InitialDefinition, ...] = ()
    scripts: tuple[Script, ...] = ()


_FILE = ("workflow", "workflows", "actions", "servers", "definitions", "tests")


def read_scripts(text: str, *, name: str) -> ScriptFile:
    """Parse a file of tests, or raise a SourceError with all of its faults."""
    return _Reader.read(text, name=name)


class _Reader(ScriptReader):
    """Turns YAML nodes into tests; a fault is noted, and reading goes on."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        super().__init__(diagnostics)
        self.scopes: dict[str, str] = {}
        """The scope of each definition, by slug."""

    def file(self, node: YamlNode | None) -> ScriptFile:
        found = self.keys(node, "a file of tests of a workflow", _FILE)
        return ScriptFile(
            source=self.diagnostics.source,
            workflow=self.text(found["workflow"], "workflow") if "workflow" in found else None,
            workflows=self.texts(found["workflows"], "workflows") if "workflows" in found else (),
            actions=self.text(found["actions"], "actions") if "actions" in found else None,
            servers=self._servers(found["servers"]) if "servers" in found else {},
            # Before the tests, which name them, wherever they are in the file.
            definitions=self._definitions(found["definitions"]) if "definitions" in found else (),
            scripts=self.tests(found.get("tests"), node, self._script),
        )

    def _servers(self, node: YamlNode) -> dict[str, str]:
        if node.entries is None:
            self.wrong("`servers` is names and modules", node.span, "Write `server: tools.py` below it")
        return {key.scalar or "": self.text(value, "a server") or "" for key, value in self.named(node)}

    # definitions

    def _definitions(self, node: YamlNode) -> tuple[InitialDefinition, ...]:
        if node.entries is None:
            self.wrong("`definitions` is slugs and definitions", node.span, "Write `slug:` below it")
        found = [self._definition(key, value) for key, value in self.named(node)]
        return tuple(one for one in found if one is not None)

    def _definition(self, key: YamlNode, node: YamlNode) -> InitialDefinition | None:
        slug = key.scalar or ""
        self.scopes.setdefault(slug, "global")
        if not is_slug(slug):
            hint = "Lower-case letters a-z, digits and underscores only, such as customer_profile"
            self.wrong(f"the slug {quote(slug)} cannot be used", key.span, hint)
        given: dict[str, Any] = {}
        for word, value in self.entries(node, "a definition", ("id", "name", "scope", "ttl", "schema", "mode")):
            match word:
                case "id" | "name":
                    given[word] = self.text(value, word)
                case "scope":
                    given[word] = self.scopes[slug] = self.word(value, "scope of definitions", tuple(SHAPES))
                case "mode":
                    given[word] = self.word(value, "mode", MODES)
                case "ttl":
                    given[word] = self._ttl(value)
                case _:
                    given[word] = self._schema(value)
        if "schema" not in given and node.entries is not None:
            self.missing(f"the definition {quote(slug)} has no schema", key.span, "Write `schema:` below it")
        if not given.get("schema"):
            return None
        given.setdefault("name", slug.replace("_", " ").strip().capitalize() or slug)
        return InitialDefinition(slug=slug, span=key.span, **given)

    def _ttl(self, node: YamlNode) -> int | None:
        return None if node.value is None else self.parse(node, parse_duration, node.value)

    def _schema(self, node: YamlNode) -> dict[str, Any] | None:
        schema = self.mapping(node, "schema")
        if schema is not None:
            self.parse(node, prepare_schema, schema)
        return schema

    # tests

    def _script(self, node: YamlNode) -> Script | None:
        given: dict[str, Any] = {}
        for key, value in self.entries(node, "a test", (*_PARTS, "steps", "expect")):
            match key:
                case "steps":
                    given["steps"] = self._steps(value)
                case "expect":
                    given["expect"] = Step("expect", self.expectation(value), value.span)
                case _:
                    given[key] = _PARTS[key](self, value)
        expect = given.pop("expect", None)
        if expect is not None:
            if "steps" in given:
                self.wrong("`expect` beside `steps` belongs to no step", expect.span, "Put it into a step")
            given["steps"] = (Step("run", None, node.span), expect)
        if not self.check_test(given, "steps", node, "Put `expect:` or `steps:` below it"):
            return None
        script = Script(span=node.span, **{key: value for key, value in given.items() if value is not None})
        self._check_thread(script)
        return script

    def _check_thread(self, script: Script) -> None:
        if script.thread is not None:
            return
        hint = "Give the test a `thread:`"
        if script.messages:
            self.wrong("messages belong to a thread, and this test has none", script.span, hint)
        for slug, (_, span) in script.memory.items():
            if self.scopes.get(slug) == "thread":
                self.wrong(f"{quote(slug)} is stored per thread, and this test has none", span, hint)

    def memory(self, node: YamlNode) -> dict[str, tuple[Any, Span]]:
        found: dict[str, tuple[Any, Span]] = {}
        for slug, value in self._slugs(node, "memory"):
            if self.scopes[slug] == "run":
                self.wrong(f"{quote(slug)} is stored per run, and no run has begun", value.span, "Leave it out")
            found[slug] = (self.value(value), value.span)
        return found

    def _slugs(self, node: YamlNode, what: str) -> list[tuple[str, YamlNode]]:
        """Return the values by slug, of definitions that a run can have."""
        if node.entries is None:
            self.wrong(f"`{what}` is slugs and values", node.span, "Write `slug: value` below it")
            return []
        if not self.scopes and node.entries:
            hint = "Put `definitions:` with this slug above `tests:`"
            self.wrong("this file defines no memory", node.entries[0][0].span, hint)
            return []
        found = list(self.entries(node, "the definitions of this file", self.scopes))
        for slug, value in found:
            if self.scopes[slug] not in PLACES:
                hint = f"Scopes of workflows are {', '.join(PLACES)}"
                self.wrong(f"{quote(slug)} is stored per {self.scopes[slug]}, which a run has not", value.span, hint)
        return found

    def lines(self, node: YamlNode) -> tuple[Line, ...]:
        found: list[Line] = []
        for item in self.items(node, "messages"):
            for who, value in self.entries(item, "a message", ("owner", "workflow")):
                found.append(Line(who == "owner", self.text(value, who) or ""))
        return tuple(found)

    # models

    def models(self, node: YamlNode) -> tuple[ScriptedModel, ...]:
        if node.entries is None:
            self.wrong("`models` is names and replies", node.span, "Write `model_name: reply` below it")
        return tuple(
            ScriptedModel(key.scalar or "", key.span, tuple(map(self._reply, self._several(value, "reply"))))
            for key, value in self.named(node)
        )

    def _several(self, node: YamlNode, what: str) -> tuple[YamlNode, ...]:
        several = node.items if node.items is not None else (node,)
        if not several:
            self.wrong(f"there is no {what} here", node.span, f"Leave the name out, or write a {what}")
        return several

    def _reply(self, node: YamlNode) -> ScriptedReply:
        if node.scalar is not None:
            return ScriptedReply(text=self.text(node, "reply") or "")
        given: dict[str, Any] = {}
        for word, value in self.entries(node, "a reply", ("text", "object", "calls", "error")):
            match word:
                case "text":
                    given["text"] = self.text(value, word) or ""
                case "object":
                    given["value"] = self.mapping(value, word)
                case "calls":
                    given["calls"] = self._calls(value)
                case _:
                    given["error"] = self.word(value, "reason", REASONS)
        if len(given) > 1 and set(given) != {"text", "calls"}:
            self.wrong("a reply is only one of these", node.span, "Only `text` can be combined with `calls`")
        if node.entries == ():
            self.wrong("a reply is empty", node.span, "Write `text`, `object`, `calls` or `error`")
        return ScriptedReply(**given)

    def _calls(self, node: YamlNode) -> tuple[tuple[str, dict[str, Any]], ...]:
        nodes = node.items if node.items is not None else (node,)
        found: list[tuple[str, dict[str, Any]]] = []
        for one in nodes:
            if not one.entries:
                self.wrong("`calls` is tools and their arguments", one.span, "Write `tool: {name: value}`")
            for key, value in self.named(one):
                found.append((key.scalar or "", self.mapping(value, key.scalar or "") or {}))
        return tuple(found)

    # actions

    def actions(self, node: YamlNode) -> tuple[ScriptedAction, ...]:
        if node.entries is None:
            hint = "Write `name: {value: …}` below it, with the name of a task or an action"
            self.wrong("`actions` is names and what they give instead of acting", node.span, hint)
        return tuple(
            ScriptedAction(key.scalar or "", key.span, tuple(map(self._answer, self._several(value, "answer"))))
            for key, value in self.named(node)
        )

    def _answer(self, node: YamlNode) -> ScriptedResult:
        given = dict(self.entries(node, "an answer", ("value", "error")))
        if len(given) > 1 or node.entries == ():
            self.wrong("an answer is a `value` or an `error`", node.span, "Write `value:` and what the task gives")
        if "error" in given:
            return ScriptedResult(error=self._error(given["error"]))
        return ScriptedResult(value=self.value(given["value"]) if "value" in given else None)

    def _error(self, node: YamlNode) -> ScriptedError:
        if node.entries is None:
            return ScriptedError(message=self.text(node, "error") or "")
        given: dict[str, Any] = {}
        for word, value in self.entries(node, "an error", ("type", "message", "retryable")):
            if word != "retryable":
                given[word] = self.text(value, word) or ""
            elif isinstance(value.value, bool):
                given[word] = value.value
            else:
                self.wrong("`retryable` is true or false", value.span, "Leave it out if it does not matter")
        return ScriptedError(**given)

    # steps

    def _steps(self, node: YamlNode) -> tuple[Step, ...]:
        steps: list[Step] = []
        for item in self.items(node, "steps"):
            for key, value in self.entries(item, "a step", tuple(_STEPS)):
                steps.append(Step(key := cast("StepKind", key), _STEPS[key](self, value), value.span))
        return tuple(steps)

    def run(self, node: YamlNode) -> dict[str, Any] | None:
        return None if node.value is None else self.mapping(node, "run")

    def reason(self, node: YamlNode) -> str:
        return "" if node.value is None else self.text(node, "cancel") or ""

    # expectations

    def expectation(self, node: YamlNode) -> Expected:
        known = ("status", "error", "messages", *COMPARED)
        given: dict[str, Any] = {}
        values: dict[Compared, Any] = {}
        places = dict(self.entries(node, "an expectation", known))
        if node.entries == ():
            self.wrong("nothing is expected here", node.span, f"Expect one of {', '.join(known)}")
        for word, value in places.items():
            match word:
                case "status":
                    given[word] = self.word(value, "status", STATUSES)
                case "error":
                    given[word] = self._error_expectation(value)
                case "messages":
                    given[word] = tuple(self._wordings(one) for one in _items(value))
                case "memory":
                    values["memory"] = {slug: self.value(one) for slug, one in self._slugs(value, word)}
                case "output":
                    values["output"] = self.value(value)
                case _:
                    values[cast("Compared", word)] = self.mapping(value, word)
        return Expected(places=places, values=values, **given)

    def _error_expectation(self, node: YamlNode) -> ExpectedError:
        if node.entries is None:
            return ExpectedError(type=self.text(node, "error"))
        given: dict[str, Any] = {}
        for word, value in self.entries(node, "an error", ("type", "step", "message")):
            given[word] = self._wordings(value) if word == "message" else self.text(value, word)
        return ExpectedError(**given)

    def _wordings(self, node: YamlNode) -> tuple[Wording, ...]:
        if node.entries is not None:
            return tuple(self.comparisons(node, COMPARISONS))
        return (Wording("is", self.text(node, "a message") or ""),)


def _items(node: YamlNode) -> tuple[YamlNode, ...]:
    return node.items if node.items is not None else (node,)


# The readers of each key.
_PARTS: dict[str, Callable[[_Reader, YamlNode], Any]] = {
    "name": lambda reader, node: reader.text(node, "name"),
    "owner": lambda reader, node: reader.text(node, "owner"),
    "thread": lambda reader, node: reader.text(node, "thread"),
    "now": _Reader.moment,
    "input": lambda reader, node: reader.mapping(node, "input"),
    "memory": _Reader.memory,
    "messages": _Reader.lines,
    "models": _Reader.models,
    "actions": _Reader.actions,
}
_STEPS: dict[StepKind, Callable[[_Reader, YamlNode], Any]] = {
    "as": lambda reader, node: reader.text(node, "owner"),
    "thread": lambda reader, node: reader.text(node, "thread"),
    "run": _Reader.run,
    "deliver": _Reader.value,
    "wait": _Reader.seconds,
    "cancel": _Reader.reason,
    "expect": _Reader.expectation,
}
