"""The nodes of a file of tests in, values out, or a note of every fault at its place: what such files have in common.

Words stay words: `say: yes` says `yes`, and a date is text. Anchors and aliases are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol, TypeVar, cast

from memoranda.errors import UsageError
from memoranda.lang.diagnostics import Diagnostics, did_you_mean
from memoranda.lang.expression.patterns import compile_pattern
from memoranda.lang.scripts.comparing import How, Wording
from memoranda.lang.source import Span
from memoranda.lang.yaml import Node
from memoranda.model.clock import from_micros, parse_moment
from memoranda.model.duration import parse_duration
from memoranda.model.text import quote


class Named(Protocol):
    """A test, as far as all of them are alike."""

    @property
    def name(self) -> str:
        """What it shows."""
        ...


N = TypeVar("N", bound=Named)


class ScriptReader:
    """Turns nodes into values, noting what does not fit and going on; the reader of a language adds its words."""

    def __init__(self, said: Diagnostics) -> None:
        """Begin to read a source."""
        self.said = said

    def keys(self, node: Node | None, what: str, known: Collection[str]) -> dict[str, Node]:
        """Return the keys of a whole file; none, after noting so, for one that is empty."""
        if node is not None:
            return dict(self.entries(node, what, known))
        if not self.said.failed:
            self.missing("the file declares no tests", Span(0, 0), "Begin it with `tests:`")
        return {}

    def tests(self, node: Node | None, whole: Node | None, read: Callable[[Node], N | None]) -> tuple[N, ...]:
        """Return the tests of a file, each with a name of its own; `whole` is where it is said that there are none."""
        tests: list[N] = []
        names: set[str] = set()
        for item in self.items(node, "tests") if node is not None else ():
            test = read(item)
            if test is None:
                continue
            if test.name in names:
                message = f"{quote(test.name)} is declared a second time"
                self.said.error("duplicate", message, item.span, hint="Give each test a name of its own")
            names.add(test.name)
            tests.append(test)
        if not tests and whole is not None and not self.said.failed:
            self.missing("there are no tests in this file", whole.span, "Put them below `tests:`, as a list")
        return tuple(tests)

    # parts

    def entries(self, node: Node, what: str, known: Collection[str]) -> Iterator[tuple[str, Node]]:
        """Give the entries of a mapping whose keys are known, each once; note the others."""
        if node.entries is None:
            self.wrong(f"{what} is keys and values", node.span, f"Its keys are {', '.join(known)}")
        for key, value in self.named(node):
            name = key.scalar or ""
            if name in known:
                yield name, value
            else:
                hint = did_you_mean(name, known, otherwise=f"Its keys are {', '.join(known)}")
                self.said.error("unknown_key", f"{quote(name)} is no key of {what}", key.span, hint=hint)

    def named(self, node: Node) -> Iterator[tuple[Node, Node]]:
        """Give the entries of a mapping, each key once; note those that stand there again."""
        seen: set[str] = set()
        for key, value in node.entries or ():
            name = key.scalar or ""
            if name in seen:
                message = f"{quote(name)} is declared a second time"
                self.said.error("duplicate", message, key.span, hint="Keep one of them")
            else:
                seen.add(name)
                yield key, value

    def items(self, node: Node, what: str) -> tuple[Node, ...]:
        """Return the items of a list."""
        if node.items is None:
            self.wrong(f"`{what}` is a list", node.span, "Begin each item with a dash")
        return node.items or ()

    def mapping(self, node: Node, what: str) -> dict[str, Any] | None:
        """Return names and values."""
        if node.entries is None:
            self.wrong(f"`{what}` is names and values", node.span, "Write `name: value` below it")
            return None
        return self.value(node)

    def value(self, node: Node) -> Any:
        """Return any value; what stands in it twice is noted."""
        self._look_through(node)
        return node.value

    def _look_through(self, node: Node) -> None:
        for _, value in self.named(node):
            self._look_through(value)
        for item in node.items or ():
            self._look_through(item)

    def text(self, node: Node, what: str, *, empty: bool = False) -> str | None:
        """Return a text; an empty one only where it means something."""
        if node.scalar is None or not (node.scalar or empty):
            self.wrong(f"`{what}` is a text", node.span, "Write it after the colon")
        return node.scalar

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        """Return one text or several."""
        nodes = node.items if node.items is not None else (node,)
        return tuple(text for one in nodes if (text := self.text(one, what)) is not None)

    def word(self, node: Node, what: str, known: Collection[str]) -> str:
        """Return one of the words that can stand here."""
        word = node.scalar or ""
        if word not in known:
            hint = did_you_mean(word, known, otherwise=f"One of {', '.join(known)}")
            self.wrong(f"{quote(word)} is no {what}", node.span, hint)
        return word

    def flag(self, node: Node) -> bool:
        """Return true, the only thing that can stand here."""
        if node.value is not True:
            self.wrong("this can only be `true`", node.span, "Leave the line out for the opposite")
        return True

    def moment(self, node: Node) -> str | None:
        """Return a moment as ISO 8601 writes it."""
        try:
            return from_micros(parse_moment(node.scalar or "")).isoformat()
        except UsageError as error:
            self.wrong(error.message, node.span, error.hint)
            return None

    def seconds(self, node: Node) -> int:
        """Return a duration, such as `90s` or `2h`, in seconds."""
        try:
            return parse_duration(node.scalar or "")
        except UsageError as error:
            self.wrong(error.message, node.span, error.hint)
            return 0

    def comparisons(self, node: Node, known: Collection[How]) -> Iterator[Wording]:
        """Give what a text is compared with, of a mapping from the way to one text or several."""
        for how, value in self.entries(node, "an expectation", known):
            for text in self.texts(value, how):
                if how == "matches":
                    self._pattern(text, value.span)
                yield Wording(cast("How", how), text)

    def _pattern(self, text: str, span: Span) -> None:
        try:
            compile_pattern(text)
        except UsageError as error:
            self.wrong(error.message, span, error.hint)

    # faults

    def wrong(self, message: str, span: Span, hint: str) -> None:
        """Note a value that cannot stand where it stands."""
        self.said.error("wrong_value", message, span, hint=hint)

    def missing(self, message: str, span: Span, hint: str) -> None:
        """Note what is not there."""
        self.said.error("missing", message, span, hint=hint)
