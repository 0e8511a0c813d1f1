"""Parse the YAML text of a workflow into a document, and collect every fault on the way.

Which keys belong where, and which of them are required, is in the tables of `keywords.py`; this module follows them.
What a part means beyond its shape is left to the checker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, TypeAlias, cast

from memoranda.lang import document as lang_document
from memoranda.lang.diagnostics import Diagnostic, Diagnostics, Severity, Suggestions, parse_milliseconds
from memoranda.lang.source import Source, Span
from memoranda.lang.yaml import YamlNode, compose, scalar_excerpt
from memoranda.model.text import quote
from memoranda.workflow import keywords
from memoranda.workflow.document import (
    Accumulate,
    Binding,
    Block,
    Branch,
    Conditional,
    Definition,
    Do,
    Document,
    Entry,
    Expression,
    Fields,
    Item,
    Items,
    Loop,
    LoopType,
    Parallel,
    Retries,
    Scalar,
    Settings,
    Strategy,
    Text,
    Value,
)
from memoranda.workflow.keywords import Level


class PathDiagnostic(Diagnostic, frozen=True):
    """A diagnostic with the path of what it is about, such as `defs.save.inputs.text`."""

    path: str = ""


class PathDiagnostics:
    """Adds diagnostics to those of a source, each with its path in the message and as data."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        """Add to the diagnostics of one source."""
        self.diagnostics = diagnostics

    def error(self, code: str, message: str, span: Span, path: str, *, hint: str = "") -> None:
        """Add a fault that keeps the workflow from being used."""
        self._add("error", code, message, span, path, hint)

    def warning(self, code: str, message: str, span: Span, path: str, *, hint: str = "") -> None:
        """Add something that is allowed, but probably a mistake."""
        self._add("warning", code, message, span, path, hint)

    def note(self, code: str, message: str, span: Span, path: str, *, hint: str = "") -> None:
        """Add something that is good to know."""
        self._add("note", code, message, span, path, hint)

    def _add(self, severity: Severity, code: str, message: str, span: Span, path: str, hint: str) -> None:
        # A key can be as long as the file; only the message is cut.
        shown = path if len(path) <= 120 else f"{path[:120]}…"
        where = f", in `{shown}`" if path and path.isprintable() else ""
        self.diagnostics.add(PathDiagnostic(code, severity, f"{message}{where}", span, hint, path=path))


_LONGEST_KEY = 1_100
_LAST_KEY = re.compile(r"(?<![^\s{,\[])([^\s{,\[]+)[ \t]*:[ \t]*\Z")
_ALMOST = frozenset({"True", "TRUE", "False", "FALSE", "Null", "NULL", "None"})
"""Words that other YAML parsers read as true, false and null; here they are text."""


class Reader:
    """Turns YAML nodes into parts of a document; a fault is noted, and reading goes on."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        """Add faults to the diagnostics of a source."""
        self.diagnostics = PathDiagnostics(diagnostics)
        self.hints = Suggestions()
        self._source = diagnostics.source

    # shapes

    def keys(self, node: YamlNode, level: Level, path: str) -> dict[str, tuple[YamlNode, YamlNode]]:
        """Return the entries of a map whose keys `level` knows; note unknown, duplicate and missing keys.

        A node with an earlier fault is treated as empty, and no further fault is noted for it.
        """
        found: dict[str, tuple[YamlNode, YamlNode]] = {}
        if node.broken:
            return found
        if node.entries is None:
            self.wrong(f"{level.where} is keys and values, not {kind_of(node)}", node, path, f"Its keys: {_few(level)}")
            return found
        meant: set[str | None] = set()
        for key, value in self.entries(node, path):
            name = key.scalar or ""
            if level.find(name):
                found[name] = (key, value)
            else:
                meant.add(self.unknown(key, level, path))
        for keyword in level.required:
            if keyword.name not in found and keyword.name not in meant:
                message = f"`{keyword.name}` is missing in {level.where}"
                self.diagnostics.error(
                    "missing", message, head(node), path, hint=f"`{keyword.name}`: {keyword.meaning}"
                )
        return found

    def unknown(self, key: YamlNode, level: Level, path: str) -> str | None:
        """Note an unknown key, with the place it belongs to if there is one; return the key that was probably meant."""
        name = key.scalar or ""
        elsewhere = [place for place in keywords.homes(name) if place != level.where]
        near = self.hints.closest(name, level.names)
        hint = f"Its keys: {_few(level)}"
        if near:
            hint = f"Did you mean `{near}`?"
        elif elsewhere:
            hint = f"It belongs to {elsewhere[0]}; check the indentation"
        message = f"{quote(name, longest=40)} is not a key of {level.where}"
        self.diagnostics.error("unknown_key", message, key.span, path, hint=hint)
        return near

    def entries(self, node: YamlNode, path: str) -> list[tuple[YamlNode, YamlNode]]:
        """Return the entries of a map; a duplicate key is noted and left out."""
        found: dict[str, tuple[YamlNode, YamlNode]] = {}
        for key, value in node.entries or ():
            name = key.scalar or ""
            if name in found:
                message = f"{quote(name, longest=40)} is declared a second time"
                self.diagnostics.error("duplicate", message, key.span, path, hint="Keep one of them")
            else:
                found[name] = (key, value)
        return list(found.values())

    def items(self, node: YamlNode, path: str, what: str) -> tuple[YamlNode, ...]:
        """Return the items of a list; anything else is noted and has no items."""
        if node.items is None:
            self.wrong(f"{what} is a list, not {kind_of(node)}", node, path, "Begin each item with a dash")
        return node.items or ()

    def text(self, node: YamlNode, path: str, what: str, *, hint: str = "Write it after the colon") -> Text | None:
        """Return a scalar as the text that was written; note anything else and return None."""
        if node.scalar is None or not node.scalar.strip() or (node.plain and node.value is None):
            self.wrong(f"{what} is a text, not {kind_of(node)}", node, path, hint)
            return None
        return self.raw(node, path)

    def raw(self, node: YamlNode, path: str) -> Text:
        """Return the text of a scalar."""
        start = node.span.start if node.plain else node.span.start + 1
        return Text(node.scalar or "", runs=((0, start),), literal=not node.plain, path=path, span=node.span)

    def word(self, node: YamlNode, level: Level, path: str, what: str) -> Text | None:
        """Return a word that `level` knows; note anything else and return None."""
        text = self.text(node, path, what, hint=f"One of {_few(level)}")
        if text is None or level.find(text.text):
            return text
        hint = self.hints.did_you_mean(text.text, level.names, otherwise=f"One of {_few(level)}")
        message = f"{quote(text.text, longest=40)} is not one of {level.where}"
        self.diagnostics.error("unknown_word", message, node.span, path, hint=hint)
        return None

    def number(self, node: YamlNode, path: str, *, least: float, whole: bool = True, most: float | None = None) -> Any:
        """Return a literal number within a range; note anything else and return None."""
        value: Any = node.value if node.scalar is not None else None
        fits = isinstance(value, int | float) and not isinstance(value, bool) and value >= least
        if fits and (not whole or value == int(value)) and (most is None or value <= most):
            return int(value) if whole else value
        what = "a whole number" if whole else "a number"
        range_ = f"from {least:g} on" if most is None else f"from {least:g} to {most:g}"
        message = f"{_last(path)} needs {what} {range_}, not {kind_of(node)}"
        meant = parse_milliseconds(node.scalar or "") if path.endswith("_ms") else None
        self.wrong(message, node, path, self._advice(node, f"Did you mean `{meant}`?" if meant else "Write a number"))
        return None

    def flag(self, node: YamlNode, path: str) -> bool | None:
        """Return a literal true or false; note anything else and return None."""
        value = node.value if node.scalar is not None else None
        if isinstance(value, bool):
            return value
        message = f"{_last(path)} needs true or false, not {kind_of(node)}"
        self.wrong(message, node, path, self._advice(node, "Write `true`"))
        return None

    def _advice(self, node: YamlNode, otherwise: str) -> str:
        text = node.scalar or ""
        if text.startswith("="):
            return "It is read before a run, so it cannot be an expression"
        if text in _ALMOST:
            return f"Write `{text.lower()}`"
        return "Write it without quotes" if text and not node.plain else otherwise

    def wrong(self, message: str, node: YamlNode, path: str, hint: str) -> None:
        """Note a value of the wrong type, unless an earlier fault was noted for it."""
        if not node.broken:
            self.diagnostics.error("wrong_type", message, self._span_of(node), path, hint=hint)

    def _span_of(self, node: YamlNode) -> Span:
        """Return the span that a diagnostic about a node points at; for a missing value, that of its key."""
        span = head(node)
        if span.start != span.end:
            return span
        # A YAML key has at most 1,024 characters, so no more of a long line has to be searched.
        begin = max(self._source.text.rfind("\n", 0, span.start) + 1, span.start - _LONGEST_KEY)
        key = _LAST_KEY.search(self._source.text, begin, span.start)
        return Span(*key.span(1)) if key else span

    # values

    def value(self, node: YamlNode, path: str, *, computed: bool = True) -> Value:
        """Return any value; if `computed`, a text that begins with `=` is an expression."""
        if node.entries is not None:
            return self.fields(node, path, computed=computed)
        if node.items is not None:
            items = tuple(self.value(item, f"{path}[{at}]", computed=computed) for at, item in enumerate(node.items))
            return Items(items=items, span=node.span, path=path)
        if computed and node.scalar is not None and node.scalar.startswith("="):
            return self._expression(node, path)
        value = None if node.broken else node.value
        if node.plain and isinstance(value, str) and value in _ALMOST:
            meant = value.lower().replace("none", "null")
            message = f"`{value}` is a text here"
            self.diagnostics.warning(
                "word_as_text", message, node.span, path, hint=f"Write `{meant}`, or put it in quotes"
            )
        return Scalar(value=value, span=node.span, path=path)

    def fields(
        self, node: YamlNode, path: str, *, computed: bool = True, without: Collection[str] = frozenset()
    ) -> Fields:
        """Return the entries of a map with arbitrary keys, except those in `without`."""
        entries: list[Entry] = []
        for key, value in self.entries(node, path):
            if key.scalar in without:
                continue
            below = join(path, key.scalar or "")
            entry = Entry(
                key=self.raw(key, below),
                value=self.value(value, below, computed=computed),
                span=key.span.to(value.span),
                path=below,
            )
            entries.append(entry)
        return Fields(entries=tuple(entries), span=node.span, path=path)

    def mapping(
        self, node: YamlNode, path: str, what: str, *, computed: bool = True, without: Collection[str] = frozenset()
    ) -> Fields | None:
        """Return a map with arbitrary keys; null is an empty map, anything else is noted."""
        if node.entries is not None:
            return self.fields(node, path, computed=computed, without=without)
        if node.scalar is not None and node.plain and node.value is None:
            return Fields(span=node.span, path=path)
        self.wrong(f"{what} is names and values, not {kind_of(node)}", node, path, "Write `name: value` below it")
        return None

    def _expression(self, node: YamlNode, path: str) -> Expression:
        found = scalar_excerpt(self._source, node)
        first = found.origin(0)
        # Without the `=`, the expression begins one character later, in the text and in the file.
        runs = tuple((at - 1, there) for at, there in found.runs if at > 0)
        if not runs or runs[0][0] > 0:
            runs = ((0, first + 1), *runs)
        return Expression(found.text[1:], runs=runs, literal=not node.plain, path=path, span=node.span)


def join(path: str, key: str) -> str:
    """Return the path of a key below `path`."""
    shown = key if key and not set(key) & set(".[]` ") else f'"{key}"'
    return f"{path}.{shown}" if path else shown


def head(node: YamlNode) -> Span:
    """Return the span to mark for a node: all of a scalar, the beginning of anything longer."""
    if node.scalar is not None:
        return node.span
    if node.entries:
        return node.entries[0][0].span
    return Span(node.span.start, node.span.start + 1) if node.items else node.span


def kind_of(node: YamlNode) -> str:
    """Return a description of a node for a message."""
    if node.entries is not None:
        return "a map"
    if node.items is not None:
        return "a list"
    if node.plain and node.value is None:
        return "nothing"
    return quote(node.scalar or "", longest=40)


def _last(path: str) -> str:
    return quote(path.rpartition(".")[2], longest=40)


def _few(level: Level) -> str:
    return ", ".join(level.names)


Reading: TypeAlias = lang_document.Reading[YamlNode | None, Document]
"""The YAML nodes, the document and the diagnostics of one source."""

Pair: TypeAlias = tuple[YamlNode, YamlNode] | None


def parse_document(text: str, *, name: str = "workflow.yaml") -> Document:
    """Return the document of a source, or raise a SourceError with all of its faults."""
    return read_source(text, name=name).valid_document()


def read_source(text: str, *, name: str = "workflow.yaml") -> Reading:
    """Parse a source completely, whatever its faults, and collect them."""
    source = Source(name, text)
    diagnostics = Diagnostics(source)
    node = compose(source, diagnostics, exact=True, partial=True)
    if node is None:
        if not diagnostics.failed:
            diagnostics.error(
                "missing", "the file declares no workflow", Span(0, 0), hint="Begin it with `defs:` and `flow:`"
            )
        document = Document(span=Span(0, len(text)))
    else:
        document = _Parser(diagnostics).document(node)
    return lang_document.Reading(source, node, document, diagnostics.sorted(), {})


_RETRIES: dict[str, dict[str, Any]] = {
    "max_attempts": {"least": 1},
    "backoff_ms": {"least": 0, "whole": False},
    "max_delay_ms": {"least": 0, "whole": False},
    "jitter": {"least": 0, "most": 1, "whole": False},
    "multiplier": {"least": 1, "whole": False},
}
"""What each number of `retries` has to be."""


class _Parser(Reader):
    """Parses the sections of a workflow, from the file down to its steps."""

    def document(self, node: YamlNode) -> Document:
        found = self.keys(node, keywords.FILE, "")
        schema = None
        if "inputs" in found:
            inside = self.keys(found["inputs"][1], keywords.INPUTS, "inputs")
            if "schema" in inside:
                schema = self.mapping(inside["schema"][1], "inputs.schema", "a schema", computed=False)
        return Document(
            schema=schema,
            context=self._map(found.get("context"), "context", "`context`"),
            defaults=self._defaults(found.get("defaults")),
            defs=self._definitions(found.get("defs")),
            flow=self._block(found.get("flow"), "flow"),
            outputs=self._map(found.get("outputs"), "outputs", "`outputs`"),
            span=node.span,
        )

    def _map(self, pair: Pair, path: str, what: str) -> Fields | None:
        return self.mapping(pair[1], path, what) if pair else None

    # definitions

    def _defaults(self, pair: Pair) -> Settings | None:
        if pair is None:
            return None
        found = self.keys(pair[1], keywords.DEFAULTS, "defaults")
        return self._settings(found.get("settings"), "defaults.settings")

    def _definitions(self, pair: Pair) -> tuple[Definition, ...]:
        if pair is None:
            return ()
        node = pair[1]
        if node.entries is None:
            self.wrong(f"`defs` is names and definitions, not {kind_of(node)}", node, "defs", "Write `name:` below it")
            return ()
        return tuple(self._definition(key, value) for key, value in self.entries(node, "defs"))

    def _definition(self, key: YamlNode, node: YamlNode) -> Definition:
        path = join("defs", key.scalar or "")
        name = self.raw(key, path)
        kind = self._kind(node, path)
        # Without a kind it is unknown which keys are allowed; a task allows most.
        found = self.keys(node, keywords.RESOURCE if kind is not None and kind.text != "task" else keywords.TASK, path)
        return Definition(
            name=name,
            kind=kind,
            action=self._text(found.get("action"), path, "an action"),
            description=self._text(found.get("description"), path, "a description"),
            inputs=self._map(found.get("inputs"), join(path, "inputs"), "`inputs`"),
            bindings=self._bindings(found.get("bindings"), join(path, "bindings")),
            settings=self._settings(found.get("settings"), join(path, "settings")),
            span=key.span.to(node.span),
            path=path,
        )

    def _kind(self, node: YamlNode, path: str) -> Text | None:
        value = next((value for key, value in node.entries or () if key.scalar == "kind"), None)
        return self.word(value, keywords.KINDS, join(path, "kind"), "a kind") if value is not None else None

    def _text(self, pair: Pair, path: str, what: str) -> Text | None:
        return self.text(pair[1], join(path, pair[0].scalar or ""), what) if pair else None

    def _bindings(self, pair: Pair, path: str) -> tuple[Binding, ...]:
        if pair is None or (pair[1].plain and pair[1].value is None):
            return ()
        found: list[Binding] = []
        for word, (key, value) in self.keys(pair[1], keywords.BINDINGS, path).items():
            below = join(path, word)
            names = tuple(self._names(value, below))
            listed = value.items is not None
            binding = Binding(
                kind=self.raw(key, below), names=names, listed=listed, span=key.span.to(value.span), path=below
            )
            found.append(binding)
        return tuple(found)

    def _names(self, node: YamlNode, path: str) -> Iterator[Text]:
        items = [(item, f"{path}[{at}]") for at, item in enumerate(node.items or ())]
        for item, place in items if node.items is not None else [(node, path)]:
            name = self.text(item, place, "a binding", hint="Write the name of a definition")
            if name is not None:
                yield name

    def _settings(self, pair: Pair, path: str) -> Settings | None:
        if pair is None:
            return None
        node = pair[1]
        others = self.mapping(node, path, "`settings`", without=keywords.SETTINGS.names)
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

    def _retries(self, node: YamlNode, path: str) -> Retries:
        given: dict[str, Any] = {}
        for word, (_, value) in self.keys(node, keywords.RETRIES, path).items():
            below = join(path, word)
            given[word] = self.flag(value, below) if word == "enabled" else self.number(value, below, **_RETRIES[word])
        return Retries(span=node.span, path=path, **given)

    # the flow

    def _block(self, pair: Pair, path: str) -> Block:
        return self._steps(pair[1], path) if pair else ()

    def _steps(self, node: YamlNode, path: str) -> Block:
        found = (
            self._step(item, f"{path}[{at}]") for at, item in enumerate(self.items(node, path, "a block of steps"))
        )
        return tuple(step for step in found if step is not None)

    def _step(self, node: YamlNode, path: str) -> Item | None:
        found = self.keys(node, keywords.STEPS, path)
        # A duplicate key was noted already.
        count = len({key.scalar for key, _ in node.entries or ()})
        if node.entries is not None and count != 1:
            message = f"a step has one key, not {count}"
            second = node.entries[1][0].span if node.entries else head(node)
            hint = (
                "Begin each step with a dash of its own"
                if node.entries
                else f"One of {', '.join(keywords.STEPS.names)}"
            )
            self.diagnostics.error("one_key", message, second, path, hint=hint)
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

    def _parallel(self, node: YamlNode, span: Span, path: str) -> Parallel:
        found = self.keys(node, keywords.PARALLEL, path)
        word = None
        if "strategy" in found:
            word = self.word(found["strategy"][1], keywords.STRATEGIES, join(path, "strategy"), "a strategy")
        return Parallel(
            strategy=cast("Strategy", word.text) if word else "wait_all",
            steps=self._block(found.get("steps"), join(path, "steps")),
            span=span,
            path=path,
        )

    def _conditional(self, node: YamlNode, span: Span, path: str) -> Conditional:
        found = self.keys(node, keywords.CONDITIONAL, path)
        branches: list[Branch] = []
        if "when" in found:
            below = join(path, "when")
            for at, item in enumerate(self.items(found["when"][1], below, "`when`")):
                branches.append(self._branch(item, f"{below}[{at}]"))
        if "else" in found:
            key, value = found["else"]
            branches.append(self._otherwise(value, key.span.to(value.span), join(path, "else")))
        return Conditional(branches=tuple(branches), span=span, path=path)

    def _branch(self, node: YamlNode, path: str) -> Branch:
        found = self.keys(node, keywords.BRANCH, path)
        if "else" in found and "condition" in found:
            key, _ = found["else"]
            message = "a branch has a condition or is the `else`, not both"
            self.diagnostics.error("else_with_condition", message, key.span, path, hint="Make two branches of it")
        if "else" in found and "steps" not in found:
            return self._otherwise(found["else"][1], node.span, join(path, "else"))
        if "steps" not in found and node.entries is not None:
            self.diagnostics.error(
                "missing", "`steps` is missing in a branch", head(node), path, hint="Say what is done"
            )
        if "else" in found:
            self._check_marker(found["else"][1], join(path, "else"))
        return Branch(
            condition=self._value(found.get("condition"), path),
            steps=self._block(found.get("steps"), join(path, "steps")),
            span=node.span,
            path=path,
        )

    def _check_marker(self, node: YamlNode, path: str) -> None:
        """Check the value of an `else` with `steps` beside it: empty or true."""
        if node.scalar is None or node.value not in (None, True):
            self.wrong(f"`else` beside `steps` is true, not {kind_of(node)}", node, path, "Write `else: true`")

    def _otherwise(self, node: YamlNode, span: Span, path: str) -> Branch:
        """Read an `else` that contains its steps, as a list or below `steps`."""
        if node.entries is None:
            return Branch(steps=self._steps(node, path), span=span, path=path)
        found = self.entries(node, path)
        for key, _ in found:
            if key.scalar != "steps":
                self.unknown(key, keywords.BRANCH, path)
        steps = next((value for key, value in found if key.scalar == "steps"), None)
        if steps is None and not found:
            self.diagnostics.error("missing", "`steps` is missing in `else`", head(node), path, hint="Say what is done")
        return Branch(steps=self._steps(steps, join(path, "steps")) if steps else (), span=span, path=path)

    def _loop(self, node: YamlNode, span: Span, path: str) -> Loop:
        found = self.keys(node, keywords.LOOP, path)
        word = (
            self.word(found["type"][1], keywords.LOOP_TYPES, join(path, "type"), "a type") if "type" in found else None
        )
        each = self.keys(found["for_each"][1], keywords.FOR_EACH, join(path, "for_each")) if "for_each" in found else {}
        most = found.get("max_concurrency")
        if most is not None and word is not None and word.text == "while":
            message = "the passes of a `while` come one after the other"
            path_of = join(path, "max_concurrency")
            self.diagnostics.error("wrong_setting", message, most[0].span, path_of, hint="Remove `max_concurrency`")
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
        found = self.keys(pair[1], keywords.ACCUMULATE, path)
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
