"""What every stage shares: lines with what is nested below them, beside the parts of `lang/tree.py`."""

from __future__ import annotations

from typing import Literal

import msgspec

from memoranda.lang.source import Span
from memoranda.lang.tree import Node as Node
from memoranda.lang.tree import Raw as Raw
from memoranda.lang.tree import Runs as Runs


class Value(Node, frozen=True):
    """What stands after the colon, or the text of a block below it."""

    LAYOUT = frozenset({"span", "runs"})

    text: str
    """As written; of a block, its lines without the common indentation."""
    style: Literal["plain", "quoted", "block"] = "plain"
    runs: Runs = ((0, 0),)


class Line(Node, frozen=True):
    """A line and everything that belongs to it by indentation.

    `- KEY: value` is one line with `dash`: what is indented deeper than KEY are its `children`, what stands at KEY's
    column its `properties`, the other entries of the same item. A line without a key is bare text.
    """

    text: str
    """The line as written, without indentation, dash and block."""
    key_span: Span
    """Where the key stands, or the whole of a line without one."""
    dash: bool = False
    key: str | None = None
    value: Value | None = None
    children: tuple[Line, ...] = ()
    properties: tuple[Line, ...] = ()
    comments: tuple[str, ...] = ()
    blank_before: bool = False
    runs: Runs = ()
    """Where the pieces of a bare line stand that goes on over several lines of the file."""

    def said(self) -> tuple[object, ...]:
        """Return what the line says: the case of its key and the room around it are layout."""
        words = self.text if self.key is None else self.key.casefold()
        return (self.dash, words, self.value, self.children, self.properties)

    @property
    def body(self) -> tuple[Line, ...]:
        """Everything below the line, however deep it was indented."""
        return (*self.children, *self.properties) if self.properties else self.children

    @property
    def entries(self) -> tuple[Line, ...]:
        """The entries of an item: its first, which shares the line with the dash, and those below it."""
        head = msgspec.structs.replace(self, dash=False, properties=())
        return (head, *self.properties)

    @property
    def name(self) -> Raw:
        """The key as raw text, for keys that are names."""
        return Raw(self.key or "", runs=((0, self.key_span.start),), span=self.key_span)

    @property
    def raw(self) -> Raw:
        """The line itself as raw text, for lines that are no entries."""
        return Raw(self.text, runs=self.runs or ((0, self.span.start),), span=self.span)


class Lines(Node, frozen=True):
    """All lines of a source, and the comments after the last of them."""

    lines: tuple[Line, ...]
    tail: tuple[str, ...] = ()
