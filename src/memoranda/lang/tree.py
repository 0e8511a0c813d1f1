"""What the documents of languages are made of: parts that know their place, and raw text that is compiled later."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from memoranda.lang.source import Excerpt, Span

Runs = tuple[tuple[int, int], ...]


class Node(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A part of a document and where it stands; equality and hash leave the place out."""

    LAYOUT: ClassVar[frozenset[str]] = frozenset({"span"})

    span: Span

    def __eq__(self, other: object) -> bool:
        """Say whether both say the same, wherever they stand."""
        return isinstance(other, Node) and type(self) is type(other) and self.said() == other.said()

    def __ne__(self, other: object) -> bool:
        """Say whether they say something else; a struct would compare identities."""
        return not self == other

    def __hash__(self) -> int:
        """Return a hash of what is said."""
        return hash((type(self).__name__, self.said()))

    def said(self) -> tuple[object, ...]:
        """Return what is said, without the layout."""
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name not in self.LAYOUT)


class Raw(Node, frozen=True):
    """Text that is compiled later, or never: a condition, an expression, a template, a name, a description."""

    LAYOUT = frozenset({"span", "runs", "literal"})

    text: str
    runs: Runs = ((0, 0),)
    literal: bool = False
    """Whether it stood in quotes or in a block, which were taken off."""

    @property
    def excerpt(self) -> Excerpt:
        """The text as the grammars of expressions and templates read it, with its places in the file."""
        return Excerpt(self.text, self.runs)
