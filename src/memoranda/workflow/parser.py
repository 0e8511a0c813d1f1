"""The text of a workflow file in, a document out, or one error that carries every fault of the text.

`read` never fails: it gives what could be understood and everything there is to say about the rest. `parse_document`
raises that as a `SourceError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from memoranda.lang import reading, yaml
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.source import Source, Span
from memoranda.workflow.document import (
    Accumulate,
    Binding,
    Block,
    Branch,
    Conditional,
    Definition,
    Do,
    Document,
    Fields,
    Item,
    Loop,
    LoopType,
    Parallel,
    Retries,
    Settings,
    Strategy,
    Text,
    Value,
)
from memoranda.workflow.keywords import (
    ACCUMULATE,
    BINDINGS,
    BRANCH,
    CONDITIONAL,
    DEFAULTS,
    FILE,
    FOR_EACH,
    INPUTS,
    KINDS,
    LOOP,
    LOOP_TYPES,
    PARALLEL,
    RESOURCE,
    RETRIES,
    SETTINGS,
    STEPS,
    STRATEGIES,
    TASK,
)
from memoranda.workflow.reader import Reader, head, join, kind_of

Reading: TypeAlias = reading.Reading["yaml.Node | None", Document]
"""What reading gives: the nodes of the YAML, the document, and the diagnostics."""

Pair: TypeAlias = "tuple[yaml.Node, yaml.Node] | None"


def parse_document(text: str, *, name: str = "workflow.yaml") -> Document:
    """Parse a whole file: one workflow."""
    return read(text, name=name).document_or_raise()


def read(text: str, *, name: str = "workflow.yaml") -> Reading:
    """Read a source whatever its faults, and collect them."""
    source = Source(name, text)
    said = Diagnostics(source)
    node = yaml.compose(source, said, exact=True, partial=True)
    if node is None:
        if not said.failed:
            said.error("missing", "the file declares no workflow", Span(0, 0), hint="Begin it with `defs:` and `flow:`")
        document = Document(span=Span(0, len(text)))
    else:
        document = _Parser(said).document(node)
    return reading.Reading(source, node, document, said.sorted(), {})


class _Parser(Reader):
    """Goes through the places of a workflow, from the file down to its steps."""

    def document(self, node: yaml.Node) -> Document:
        found = self.keys(node, FILE, "")
        schema = None
        if "inputs" in found:
            inside = self.keys(found["inputs"][1], INPUTS, "inputs")
            if "schema" in inside:
                schema = self.mapping(inside["schema"][1], "inputs.schema", "a schema", computed=False)
        return Document(
            schema=schema,
            context=self._map(found.get("context"), "context", "the context"),
            defaults=self._defaults(found.get("defaults")),
            defs=self._definitions(found.get("defs")),
            flow=self._block(found.get("flow"), "flow"),
            outputs=self._map(found.get("outputs"), "outputs", "what comes out"),
            span=node.span,
        )

    def _map(self, pair: Pair, path: str, what: str) -> Fields | None:
        return self.mapping(pair[1], path, what) if pair else None

    # definitions

    def _defaults(self, pair: Pair) -> Settings | None:
        if pair is None:
            return None
        found = self.keys(pair[1], DEFAULTS, "defaults")
        return self._settings(found.get("settings"), "defaults.settings")

    def _definitions(self, pair: Pair) -> tuple[Definition, ...]:
        if pair is None:
            return ()
        node = pair[1]
        if node.entries is None:
            self.wrong(f"`defs` is names and definitions, not {kind_of(node)}", node, "defs", "Write `name:` below it")
            return ()
        return tuple(self._definition(key, value) for key, value in self.entries(node, "defs"))

    def _definition(self, key: yaml.Node, node: yaml.Node) -> Definition:
        path = join("defs", key.scalar or "")
        name = self.raw(key, path)
        kind = self._kind(node, path)
        # Nobody knows what a definition without a kind may say; a task may say most.
        found = self.keys(node, RESOURCE if kind is not None and kind.text != "task" else TASK, path)
        return Definition(
            name=name,
            kind=kind,
            action=self._text(found.get("action"), path, "an action"),
            description=self._text(found.get("description"), path, "a description"),
            inputs=self._map(found.get("inputs"), join(path, "inputs"), "what an action is given"),
            bindings=self._bindings(found.get("bindings"), join(path, "bindings")),
            settings=self._settings(found.get("settings"), join(path, "settings")),
            span=key.span.to(node.span),
            path=path,
        )

    def _kind(self, node: yaml.Node, path: str) -> Text | None:
        value = next((value for key, value in node.entries or () if key.scalar == "kind"), None)
        return self.word(value, KINDS, join(path, "kind"), "a kind") if value is not None else None

    def _text(self, pair: Pair, path: str, what: str) -> Text | None:
        return self.text(pair[1], join(path, pair[0].scalar or ""), what) if pair else None

    def _bindings(self, pair: Pair, path: str) -> tuple[Binding, ...]:
        if pair is None or (pair[1].plain and pair[1].value is None):
            return ()
        found: list[Binding] = []
        for word, (key, value) in self.keys(pair[1], BINDINGS, path).items():
            below = join(path, word)
            names = tuple(self._names(value, below))
            listed = value.items is not None
            binding = Binding(
                kind=self.raw(key, below), names=names, listed=listed, span=key.span.to(value.span), path=below
            )
            found.append(binding)
        return tuple(found)

    def _names(self, node: yaml.Node, path: str) -> Iterator[Text]:
        if node.items is None:
            name = self.text(node, path, "a binding", hint="Write the name of a definition")
            if name is not None:
                yield name
        for at, item in enumerate(node.items or ()):
            name = self.text(item, f"{path}[{at}]", "a binding", hint="Write the name of a definition")
            if name is not None:
                yield name

    def _settings(self, pair: Pair, path: str) -> Settings | None:
        if pair is None:
            return None
        node = pair[1]
        others = self.mapping(node, path, "`settings`", without=SETTINGS.names)
        if others is None:
            return None
        given = {key.scalar or "": value for key, value in node.entries or ()}
        timeout = given.get("timeout_ms")
        retries = given.get("retries")
        return Settings(
            timeout_ms=None if timeout is None else self.number(timeout, join(path, "timeout_ms"), least=0),
            retries=None if retries is None else self._retries(retries, join(path, "retries")),
            others=others,
            span=node.span,
            path=path,
        )

    def _retries(self, node: yaml.Node, path: str) -> Retries:
        given: dict[str, Any] = {}
        for word, (_, value) in self.keys(node, RETRIES, path).items():
            below = join(path, word)
            match word:
                case "enabled":
                    given[word] = self.flag(value, below)
                case "max_attempts":
                    given[word] = self.number(value, below, least=1)
                case "jitter":
                    given[word] = self.number(value, below, least=0, most=1, whole=False)
                case "multiplier":
                    given[word] = self.number(value, below, least=1, whole=False)
                case _:
                    given[word] = self.number(value, below, least=0, whole=False)
        return Retries(span=node.span, path=path, **given)

    # the flow

    def _block(self, pair: Pair, path: str) -> Block:
        return self._steps(pair[1], path) if pair else ()

    def _steps(self, node: yaml.Node, path: str) -> Block:
        found = (self._step(item, f"{path}[{at}]") for at, item in enumerate(self.items(node, path, "what is done")))
        return tuple(step for step in found if step is not None)

    def _step(self, node: yaml.Node, path: str) -> Item | None:
        found = self.keys(node, STEPS, path)
        # A key that stands there twice was noted already.
        count = len({key.scalar for key, _ in node.entries or ()})
        if node.entries is not None and count != 1:
            message = f"a step has one key, not {count}"
            second = node.entries[1][0].span if node.entries else head(node)
            hint = "Begin each step with a dash of its own" if node.entries else f"One of {', '.join(STEPS.names)}"
            self.notes.error("one_key", message, second, path, hint=hint)
        if not found:
            return None
        word, (_, value) = next(iter(found.items()))
        below = join(path, word)
        match word:
            case "do":
                task = self.text(value, below, "a task", hint="Write the name of a task, as in `- do: name`")
                return Do(task=task, span=node.span, path=path) if task else None
            case "parallel":
                return self._parallel(value, node.span, below)
            case "conditional":
                return self._conditional(value, node.span, below)
            case _:
                return self._loop(value, node.span, below)

    def _parallel(self, node: yaml.Node, span: Span, path: str) -> Parallel:
        found = self.keys(node, PARALLEL, path)
        word = None
        if "strategy" in found:
            word = self.word(found["strategy"][1], STRATEGIES, join(path, "strategy"), "a strategy")
        return Parallel(
            strategy=cast("Strategy", word.text) if word else "wait_all",
            steps=self._block(found.get("steps"), join(path, "steps")),
            span=span,
            path=path,
        )

    def _conditional(self, node: yaml.Node, span: Span, path: str) -> Conditional:
        found = self.keys(node, CONDITIONAL, path)
        branches: list[Branch] = []
        if "when" in found:
            below = join(path, "when")
            for at, item in enumerate(self.items(found["when"][1], below, "`when`")):
                branches.append(self._branch(item, f"{below}[{at}]"))
        if "else" in found:
            key, value = found["else"]
            branches.append(self._otherwise(value, key.span.to(value.span), join(path, "else")))
        return Conditional(branches=tuple(branches), span=span, path=path)

    def _branch(self, node: yaml.Node, path: str) -> Branch:
        found = self.keys(node, BRANCH, path)
        if "else" in found and "condition" in found:
            key, _ = found["else"]
            message = "a branch has a condition or is the `else`, not both"
            self.notes.error("else_with_condition", message, key.span, path, hint="Make two branches of it")
        if "else" in found and "steps" not in found:
            return self._otherwise(found["else"][1], node.span, join(path, "else"))
        if "steps" not in found and node.entries is not None:
            self.notes.error("missing", "`steps` is missing in a branch", head(node), path, hint="Say what is done")
        if "else" in found:
            self._marks(found["else"][1], join(path, "else"))
        return Branch(
            condition=self._value(found.get("condition"), path),
            steps=self._block(found.get("steps"), join(path, "steps")),
            span=node.span,
            path=path,
        )

    def _marks(self, node: yaml.Node, path: str) -> None:
        """Check what stands behind an `else` that has its steps beside it: nothing, or that it is one."""
        if node.scalar is None or node.value not in (None, True):
            self.wrong(f"`else` beside `steps` is true, not {kind_of(node)}", node, path, "Write `else: true`")

    def _otherwise(self, node: yaml.Node, span: Span, path: str) -> Branch:
        """Read an `else` that holds its steps itself, as a list or below `steps`."""
        if node.entries is None:
            return Branch(steps=self._steps(node, path), span=span, path=path)
        found = self.entries(node, path)
        for key, _ in found:
            if key.scalar != "steps":
                self.unknown(key, BRANCH, path)
        steps = next((value for key, value in found if key.scalar == "steps"), None)
        if steps is None and not found:
            self.notes.error("missing", "`steps` is missing in `else`", head(node), path, hint="Say what is done")
        return Branch(steps=self._steps(steps, join(path, "steps")) if steps else (), span=span, path=path)

    def _loop(self, node: yaml.Node, span: Span, path: str) -> Loop:
        found = self.keys(node, LOOP, path)
        word = self.word(found["type"][1], LOOP_TYPES, join(path, "type"), "a type") if "type" in found else None
        each = self.keys(found["for_each"][1], FOR_EACH, join(path, "for_each")) if "for_each" in found else {}
        most = found.get("max_concurrency")
        if most is not None and word is not None and word.text == "while":
            message = "the passes of a `while` come one after the other"
            path_of = join(path, "max_concurrency")
            self.notes.error("wrong_setting", message, most[0].span, path_of, hint="Remove `max_concurrency`")
        return Loop(
            type=cast("LoopType", word.text) if word else None,
            name=self._text(found.get("name"), path, "a name"),
            item=self._text(each.get("item"), join(path, "for_each"), "a name"),
            items=self._value(each.get("in"), join(path, "for_each")),
            test=self._value(found.get("while"), path),
            until=self._value(found.get("until"), path),
            max_concurrency=None if most is None else self.number(most[1], join(path, "max_concurrency"), least=1),
            accumulate=self._accumulate(found.get("accumulate"), join(path, "accumulate")),
            steps=self._block(found.get("steps"), join(path, "steps")),
            span=span,
            path=path,
        )

    def _accumulate(self, pair: Pair, path: str) -> Accumulate | None:
        if pair is None:
            return None
        found = self.keys(pair[1], ACCUMULATE, path)
        name = self._text(found.get("as"), path, "a name")
        if name is None:
            return None
        return Accumulate(
            name=name,
            initial=self._value(found.get("initial"), path),
            merge=self._value(found.get("merge"), path),
            span=pair[1].span,
            path=path,
        )

    def _value(self, pair: Pair, path: str) -> Value | None:
        return self.value(pair[1], join(path, pair[0].scalar or "")) if pair else None
