"""The text of a file of tests in, its tests as values out, or every fault of it with its place.

```yaml
workflow: bakery.yaml           # unless said, the workflow beside it: of `bakery.tests.yaml` that is `bakery.yaml`
workflows: [delivery.yaml]      # those it calls
actions: actions.py             # a Python file or module, whose marked functions are the workflow's own actions
servers: {pantry: pantry.py}    # the same for the tools of a server that a task binds
definitions:                    # every test begins with these
  allergies:
    id: 5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48
    schema: {type: object, properties: {nuts: {type: boolean}}}
tests:
  - name: Somebody who eats no nuts is not offered any
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
  - name: Nobody answers
    steps:
      - run: {text: A cake please}
        expect: {status: waiting}
      - wait: 2h
        expect: {status: completed, output: {cake: null}}
```

Of a map, what is expected names the keys that count, and null is what is not there; of a list it has every item.
Words stay words, and anchors and aliases are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from memoranda.engine.schema_rules import prepare_schema
from memoranda.errors import UsageError
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.scripts.comparing import Wording
from memoranda.lang.scripts.reader import ScriptReader
from memoranda.lang.source import Source, Span
from memoranda.lang.yaml import Node, compose
from memoranda.model.definition import MODES, SHAPES, is_slug
from memoranda.model.duration import parse_duration
from memoranda.model.text import quote
from memoranda.workflow.scripts.script import (
    COMPARED,
    COMPARISONS,
    PLACES,
    REASONS,
    STATUSES,
    Acting,
    Answer,
    Because,
    Compared,
    Expected,
    Given,
    Line,
    Script,
    ScriptFile,
    Speaking,
    Spoken,
    Step,
    StepKind,
    Trouble,
)

_FILE = ("workflow", "workflows", "actions", "servers", "definitions", "tests")


def read_scripts(text: str, *, name: str) -> ScriptFile:
    """Read a file of tests, or raise a SourceError that carries every fault of it."""
    source = Source(name, text)
    reader = _Reader(Diagnostics(source))
    found = reader.file(compose(source, reader.said))
    reader.said.raise_if_failed()
    return found


class _Reader(ScriptReader):
    """Turns nodes into tests, noting what does not fit and going on."""

    def __init__(self, said: Diagnostics) -> None:
        super().__init__(said)
        self.scopes: dict[str, str] = {}
        """The scope of each definition, by slug."""

    def file(self, node: Node | None) -> ScriptFile:
        found = self.keys(node, "a file of tests of a workflow", _FILE)
        return ScriptFile(
            source=self.said.source,
            workflow=self.text(found["workflow"], "workflow") if "workflow" in found else None,
            workflows=self.texts(found["workflows"], "workflows") if "workflows" in found else (),
            actions=self.text(found["actions"], "actions") if "actions" in found else None,
            servers=self._servers(found["servers"]) if "servers" in found else {},
            # First, wherever they stand: the tests name them.
            definitions=self._definitions(found["definitions"]) if "definitions" in found else (),
            scripts=self.tests(found.get("tests"), node, self._script),
        )

    def _servers(self, node: Node) -> dict[str, str]:
        if node.entries is None:
            self.wrong("`servers` is names and modules", node.span, "Write `server: tools.py` below it")
        return {key.scalar or "": self.text(value, "a server") or "" for key, value in self.named(node)}

    # definitions

    def _definitions(self, node: Node) -> tuple[Given, ...]:
        if node.entries is None:
            self.wrong("`definitions` is slugs and definitions", node.span, "Write `slug:` below it")
        found = [self._definition(key, value) for key, value in self.named(node)]
        return tuple(one for one in found if one is not None)

    def _definition(self, key: Node, node: Node) -> Given | None:
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
        return Given(slug=slug, span=key.span, **given)

    def _ttl(self, node: Node) -> int | None:
        written = node.value
        try:
            return None if written is None else parse_duration(written)
        except UsageError as error:
            self.wrong(error.message, node.span, error.hint)
            return None

    def _schema(self, node: Node) -> dict[str, Any] | None:
        schema = self.mapping(node, "schema")
        if schema is None:
            return None
        try:
            prepare_schema(schema)
        except UsageError as error:
            self.wrong(error.message, node.span, error.hint)
        return schema

    # tests

    def _script(self, node: Node) -> Script | None:
        given: dict[str, Any] = {}
        for key, value in self.entries(node, "a test", (*_PARTS, "steps", "expect")):
            match key:
                case "steps":
                    given["steps"] = self._steps(value)
                case "expect":
                    given["expect"] = Step("expect", self.expected(value), value.span)
                case _:
                    given[key] = _PARTS[key](self, value)
        name = given.get("name")
        if not name:
            self.missing("a test needs a name", node.span, "Begin it with `- name: What it shows`")
            return None
        expect = given.pop("expect", None)
        if expect is not None:
            if "steps" in given:
                self.wrong("`expect` beside `steps` is about none of them", expect.span, "Put it into a step")
            given["steps"] = (Step("run", None, node.span), expect)
        if not given.get("steps") and not self.said.failed:
            self.missing(f"the test {quote(name)} does nothing", node.span, "Put `expect:` or `steps:` below it")
        script = Script(span=node.span, **{key: value for key, value in given.items() if value is not None})
        self._check_thread(script)
        return script

    def _check_thread(self, script: Script) -> None:
        if script.thread is not None:
            return
        hint = "Give the test a `thread:`"
        if script.messages:
            self.wrong("messages were said in a thread, and this test is in none", script.span, hint)
        for slug, (_, span) in script.memory.items():
            if self.scopes.get(slug) == "thread":
                self.wrong(f"{quote(slug)} is kept for each thread, and this test is in none", span, hint)

    def name(self, node: Node) -> str | None:
        return self.text(node, "name")

    def owner(self, node: Node) -> str | None:
        return self.text(node, "owner")

    def thread(self, node: Node) -> str | None:
        return self.text(node, "thread")

    def input(self, node: Node) -> dict[str, Any] | None:
        return self.mapping(node, "input")

    def memory(self, node: Node) -> dict[str, tuple[Any, Span]]:
        found: dict[str, tuple[Any, Span]] = {}
        for slug, value in self._slugs(node, "memory"):
            if self.scopes[slug] == "run":
                self.wrong(f"{quote(slug)} is kept for each run, and none is there yet", value.span, "Leave it out")
            found[slug] = (self.value(value), value.span)
        return found

    def _slugs(self, node: Node, what: str) -> list[tuple[str, Node]]:
        """Return values by the slugs of definitions that a run can reach."""
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
                self.wrong(f"{quote(slug)} is kept for each {self.scopes[slug]}, which no run is", value.span, hint)
        return found

    def lines(self, node: Node) -> tuple[Line, ...]:
        found: list[Line] = []
        for item in self.items(node, "messages"):
            for who, value in self.entries(item, "a message", ("owner", "workflow")):
                found.append(Line(who == "owner", self.text(value, who) or ""))
        return tuple(found)

    # models

    def models(self, node: Node) -> tuple[Speaking, ...]:
        if node.entries is None:
            self.wrong("`models` says what each model replies", node.span, "Write `model_name: reply` below it")
        return tuple(
            Speaking(key.scalar or "", key.span, tuple(self._spoken(one) for one in self._several(value, "reply")))
            for key, value in self.named(node)
        )

    def _several(self, node: Node, what: str) -> tuple[Node, ...]:
        several = node.items if node.items is not None else (node,)
        if not several:
            self.wrong(f"no {what} stands here", node.span, f"Leave the name out, or write a {what}")
        return several

    def _spoken(self, node: Node) -> Spoken:
        if node.scalar is not None:
            return Spoken(text=self.text(node, "reply") or "")
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
            self.wrong("a reply is one of these", node.span, "Only `text` can stand beside `calls`")
        if node.entries == ():
            self.wrong("a reply says nothing", node.span, "Write `text`, `object`, `calls` or `error`")
        return Spoken(**given)

    def _calls(self, node: Node) -> tuple[tuple[str, dict[str, Any]], ...]:
        nodes = node.items if node.items is not None else (node,)
        found: list[tuple[str, dict[str, Any]]] = []
        for one in nodes:
            if not one.entries:
                self.wrong("`calls` is tools and what they are given", one.span, "Write `tool: {name: value}`")
            for key, value in self.named(one):
                found.append((key.scalar or "", self.mapping(value, key.scalar or "") or {}))
        return tuple(found)

    # actions

    def actions(self, node: Node) -> tuple[Acting, ...]:
        if node.entries is None:
            hint = "Write `name: {value: …}` below it, with the name of a task or an action"
            self.wrong("`actions` says what tasks give instead of acting", node.span, hint)
        return tuple(
            Acting(key.scalar or "", key.span, tuple(self._answer(one) for one in self._several(value, "answer")))
            for key, value in self.named(node)
        )

    def _answer(self, node: Node) -> Answer:
        given = dict(self.entries(node, "an answer", ("value", "error")))
        if len(given) > 1 or node.entries == ():
            self.wrong("an answer is a `value` or an `error`", node.span, "Write `value:` and what the task gives")
        if "error" in given:
            return Answer(error=self._trouble(given["error"]))
        return Answer(value=self.value(given["value"]) if "value" in given else None)

    def _trouble(self, node: Node) -> Trouble:
        if node.entries is None:
            return Trouble(message=self.text(node, "error") or "")
        given: dict[str, Any] = {}
        for word, value in self.entries(node, "an error", ("type", "message", "retryable")):
            if word != "retryable":
                given[word] = self.text(value, word) or ""
            elif isinstance(value.value, bool):
                given[word] = value.value
            else:
                self.wrong("`retryable` is true or false", value.span, "Leave it out where it does not matter")
        return Trouble(**given)

    # steps

    def _steps(self, node: Node) -> tuple[Step, ...]:
        steps: list[Step] = []
        for item in self.items(node, "steps"):
            for key, value in self.entries(item, "a step", tuple(_STEPS)):
                steps.append(Step(key := cast("StepKind", key), _STEPS[key](self, value), value.span))
        return tuple(steps)

    def run(self, node: Node) -> dict[str, Any] | None:
        return None if node.value is None else self.mapping(node, "run")

    def reason(self, node: Node) -> str:
        return "" if node.value is None else self.text(node, "cancel") or ""

    # expectations

    def expected(self, node: Node) -> Expected:
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
                    given[word] = self._because(value)
                case "messages":
                    given[word] = tuple(self._wordings(one) for one in _items(value))
                case "memory":
                    values["memory"] = {slug: self.value(one) for slug, one in self._slugs(value, word)}
                case "output":
                    values["output"] = self.value(value)
                case _:
                    values[cast("Compared", word)] = self.mapping(value, word)
        return Expected(places=places, values=values, **given)

    def _because(self, node: Node) -> Because:
        if node.entries is None:
            return Because(type=self.text(node, "error"))
        given: dict[str, Any] = {}
        for word, value in self.entries(node, "an error", ("type", "step", "message")):
            given[word] = self._wordings(value) if word == "message" else self.text(value, word)
        return Because(**given)

    def _wordings(self, node: Node) -> tuple[Wording, ...]:
        if node.entries is not None:
            return tuple(self.comparisons(node, COMPARISONS))
        return (Wording("is", self.text(node, "a message") or ""),)


def _items(node: Node) -> tuple[Node, ...]:
    return node.items if node.items is not None else (node,)


# `_Reader`'s own methods, by the key they read.
_PARTS: dict[str, Callable[[_Reader, Node], Any]] = {
    "name": _Reader.name,
    "owner": _Reader.owner,
    "thread": _Reader.thread,
    "now": _Reader.moment,
    "input": _Reader.input,
    "memory": _Reader.memory,
    "messages": _Reader.lines,
    "models": _Reader.models,
    "actions": _Reader.actions,
}
_STEPS: dict[StepKind, Callable[[_Reader, Node], Any]] = {
    "as": _Reader.owner,
    "thread": _Reader.thread,
    "run": _Reader.run,
    "deliver": _Reader.value,
    "wait": _Reader.seconds,
    "cancel": _Reader.reason,
    "expect": _Reader.expected,
}
