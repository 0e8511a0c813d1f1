"""The nodes of a YAML file in, texts, lists and maps out; and a diagnostic for everything that is something else."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.durations import meant_milliseconds
from memoranda.lang.hints import Hints
from memoranda.lang.source import Span
from memoranda.lang.yaml import Node, excerpt
from memoranda.model.text import quote
from memoranda.workflow.document import Entry, Expression, Fields, Items, Scalar, Text, Value
from memoranda.workflow.faults import Notes
from memoranda.workflow.keywords import Level, homes

_LONGEST_KEY = 1_100
_LAST_KEY = re.compile(r"(?<![^\s{,\[])([^\s{,\[]+)[ \t]*:[ \t]*\Z")
_ALMOST = frozenset({"True", "TRUE", "False", "FALSE", "Null", "NULL", "None"})
"""Words that other readers of YAML take for true, false and null; here they are text."""


class Reader:
    """Turns nodes into the parts of a document, noting what does not fit and going on."""

    def __init__(self, said: Diagnostics) -> None:
        """Begin to read."""
        self.notes = Notes(said)
        self.hints = Hints()
        self._source = said.source

    # shapes

    def keys(self, node: Node, level: Level, path: str) -> dict[str, tuple[Node, Node]]:
        """Return the entries of a map whose keys are words of a place, each once; note the others, and what is missing.

        A place that was refused before is empty, and nothing more is said about it.
        """
        found: dict[str, tuple[Node, Node]] = {}
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
                self.notes.error("missing", message, head(node), path, hint=f"`{keyword.name}`: {keyword.meaning}")
        return found

    def unknown(self, key: Node, level: Level, path: str) -> str | None:
        """Note a key that is no word of a place, or where it does stand; return the word that was probably meant."""
        name = key.scalar or ""
        elsewhere = [place for place in homes(name) if place != level.where]
        near = self.hints.nearest(name, level.names)
        hint = f"Its keys: {_few(level)}"
        if near:
            hint = f"Did you mean `{near}`?"
        elif elsewhere:
            hint = f"It stands in {elsewhere[0]}; check the indentation"
        message = f"{quote(name, longest=40)} is no key of {level.where}"
        self.notes.error("unknown_key", message, key.span, path, hint=hint)
        return near

    def entries(self, node: Node, path: str) -> list[tuple[Node, Node]]:
        """Return the entries of a map, each key once; the second of a key is noted and left out."""
        found: dict[str, tuple[Node, Node]] = {}
        for key, value in node.entries or ():
            name = key.scalar or ""
            if name in found:
                message = f"{quote(name, longest=40)} is declared a second time"
                self.notes.error("duplicate", message, key.span, path, hint="Keep one of them")
            else:
                found[name] = (key, value)
        return list(found.values())

    def items(self, node: Node, path: str, what: str) -> tuple[Node, ...]:
        """Return the items of a list; anything else is noted, and none."""
        if node.items is None:
            self.wrong(f"{what} is a list, not {kind_of(node)}", node, path, "Begin each item with a dash")
        return node.items or ()

    def text(self, node: Node, path: str, what: str, *, hint: str = "Write it after the colon") -> Text | None:
        """Return a text as it is written, numbers and words included; None after noting what else it is."""
        if node.scalar is None or not node.scalar.strip() or (node.plain and node.value is None):
            self.wrong(f"{what} is a text, not {kind_of(node)}", node, path, hint)
            return None
        return self.raw(node, path)

    def raw(self, node: Node, path: str) -> Text:
        """Return the text of a scalar."""
        start = node.span.start if node.plain else node.span.start + 1
        return Text(node.scalar or "", runs=((0, start),), literal=not node.plain, path=path, span=node.span)

    def word(self, node: Node, level: Level, path: str, what: str) -> Text | None:
        """Return one of the words of a table; None after noting that it is none of them."""
        text = self.text(node, path, what, hint=f"One of {_few(level)}")
        if text is None or level.find(text.text):
            return text
        hint = self.hints.meant(text.text, level.names, otherwise=f"One of {_few(level)}")
        message = f"{quote(text.text, longest=40)} is none of {level.where}"
        self.notes.error("unknown_word", message, node.span, path, hint=hint)
        return None

    def number(self, node: Node, path: str, *, least: float, whole: bool = True, most: float | None = None) -> Any:
        """Return a number that is written down; None after noting what else it is."""
        value: Any = node.value if node.scalar is not None else None
        fits = isinstance(value, int | float) and not isinstance(value, bool) and value >= least
        if fits and (not whole or value == int(value)) and (most is None or value <= most):
            return int(value) if whole else value
        what = "a whole number" if whole else "a number"
        range_ = f"from {least:g} on" if most is None else f"from {least:g} to {most:g}"
        message = f"{_last(path)} needs {what} {range_}, not {kind_of(node)}"
        meant = meant_milliseconds(node.scalar or "") if path.endswith("_ms") else None
        self.wrong(message, node, path, self._advice(node, f"Did you mean `{meant}`?" if meant else "Write a number"))
        return None

    def flag(self, node: Node, path: str) -> bool | None:
        """Return true or false as it is written; None after noting what else it is."""
        value = node.value if node.scalar is not None else None
        if isinstance(value, bool):
            return value
        message = f"{_last(path)} needs true or false, not {kind_of(node)}"
        self.wrong(message, node, path, self._advice(node, "Write `true`"))
        return None

    def _advice(self, node: Node, otherwise: str) -> str:
        text = node.scalar or ""
        if text.startswith("="):
            return "It is read before a run, so no expression can stand here"
        if text in _ALMOST:
            return f"Write `{text.lower()}`"
        return "Write it without quotes" if text and not node.plain else otherwise

    def wrong(self, message: str, node: Node, path: str, hint: str) -> None:
        """Note a value that is something else than it has to be; nothing about one that was refused before."""
        if not node.broken:
            self.notes.error("wrong_type", message, self._shown(node), path, hint=hint)

    def _shown(self, node: Node) -> Span:
        """Return where something is said about a node; of one that is not there, the key that has no value."""
        span = head(node)
        if span.start != span.end:
            return span
        # A key of YAML has at most 1,024 characters; more is not looked through, however long the line is.
        begin = max(self._source.text.rfind("\n", 0, span.start) + 1, span.start - _LONGEST_KEY)
        key = _LAST_KEY.search(self._source.text, begin, span.start)
        return Span(*key.span(1)) if key else span

    # values

    def value(self, node: Node, path: str, *, computed: bool = True) -> Value:
        """Return any value; where values are computed, a text that begins with `=` is an expression."""
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
            self.notes.warning("word_as_text", message, node.span, path, hint=f"Write `{meant}`, or put it in quotes")
        return Scalar(value=value, span=node.span, path=path)

    def fields(self, node: Node, path: str, *, computed: bool = True, without: Collection[str] = frozenset()) -> Fields:
        """Return the entries of a map as they are, whatever their keys; some may be left out."""
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
        self, node: Node, path: str, what: str, *, computed: bool = True, without: Collection[str] = frozenset()
    ) -> Fields | None:
        """Return a map of any keys; null is an empty one, anything else is noted."""
        if node.entries is not None:
            return self.fields(node, path, computed=computed, without=without)
        if node.scalar is not None and node.plain and node.value is None:
            return Fields(span=node.span, path=path)
        self.wrong(f"{what} is names and values, not {kind_of(node)}", node, path, "Write `name: value` below it")
        return None

    def _expression(self, node: Node, path: str) -> Expression:
        found = excerpt(self._source, node)
        first = found.origin(0)
        # What is left after the sign begins one further, in the text and in the file.
        runs = tuple((at - 1, there) for at, there in found.runs if at > 0)
        if not runs or runs[0][0] > 0:
            runs = ((0, first + 1), *runs)
        return Expression(found.text[1:], runs=runs, literal=not node.plain, path=path, span=node.span)


def join(path: str, key: str) -> str:
    """Return the path of a key below another."""
    shown = key if key and not set(key) & set(".[]` ") else f'"{key}"'
    return f"{path}.{shown}" if path else shown


def head(node: Node) -> Span:
    """Return where something is said about a node: a scalar whole, of anything longer the beginning."""
    if node.scalar is not None:
        return node.span
    if node.entries:
        return node.entries[0][0].span
    return Span(node.span.start, node.span.start + 1) if node.items else node.span


def kind_of(node: Node) -> str:
    """Return what a node is, as messages call it."""
    if node.entries is not None:
        return "a map"
    if node.items is not None:
        return "a list"
    if node.plain and node.value is None:
        return "nothing"
    return quote(node.scalar or "", longest=40)


def _last(path: str) -> str:
    """Return the key that a path ends with."""
    return quote(path.rpartition(".")[2], longest=40)


def _few(level: Level) -> str:
    return ", ".join(level.names)
