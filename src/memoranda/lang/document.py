"""What parsing a source gives: nodes that know their place, raw text, and the reading with its diagnostics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import msgspec

from memoranda.errors import NotFound, UsageError
from memoranda.lang.diagnostics import Diagnostic, Diagnostics, source_error
from memoranda.lang.source import Excerpt, Source, Span
from memoranda.model.text import quote

Runs = tuple[tuple[int, int], ...]


class SourceNode(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A part of a document with its span; equality and hash ignore the layout."""

    LAYOUT: ClassVar[frozenset[str]] = frozenset({"span"})

    span: Span

    def __eq__(self, other: object) -> bool:
        """Compare the content, wherever it is in the file."""
        return isinstance(other, SourceNode) and type(self) is type(other) and self.said() == other.said()

    def __ne__(self, other: object) -> bool:
        """Negate `==`; a struct would compare identities."""
        return not self == other

    def __hash__(self) -> int:
        """Hash the content."""
        return hash((type(self).__name__, self.said()))

    def said(self) -> tuple[object, ...]:
        """Return the content for comparison: all fields but the layout."""
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name not in self.LAYOUT)


class Raw(SourceNode, frozen=True):
    """Text that is compiled later, or never: a condition, an expression, a template, a name, a description."""

    LAYOUT = frozenset({"span", "runs", "literal"})

    text: str
    runs: Runs = ((0, 0),)
    literal: bool = False
    """Whether it was in quotes or in a block, which were removed."""

    @property
    def excerpt(self) -> Excerpt:
        """The text for the grammars of expressions and templates."""
        return Excerpt(self.text, self.runs)


Lines = TypeVar("Lines")
Document = TypeVar("Document")


class Reading(msgspec.Struct, Generic[Lines, Document], frozen=True):
    """The result of parsing a source: its lines, the document, and all diagnostics."""

    source: Source
    lines: Lines
    document: Document
    diagnostics: tuple[Diagnostic, ...]
    spellings: dict[int, str]
    """The canonical spelling of each keyword, by offset; for the formatter."""

    @property
    def failed(self) -> bool:
        """Whether the source cannot be used."""
        return any(diagnostic.severity == "error" for diagnostic in self.diagnostics)

    def raise_if_failed(self) -> None:
        """Raise a SourceError with every diagnostic if one of them is an error."""
        if self.failed:
            raise source_error(self.source, self.diagnostics)

    def going_on(self) -> Diagnostics:
        """Return a collector that begins with the diagnostics so far, for the checks to add to."""
        return Diagnostics(self.source, self.diagnostics)

    def valid_document(self) -> Document:
        """Return the document; raise a SourceError with every diagnostic if one of them is an error."""
        self.raise_if_failed()
        return self.document


def read_text(source: str | os.PathLike[str], *, endings: tuple[str, ...], name: str) -> tuple[str, str]:
    """Return the name and the text of a source, given as a path or as the text itself.

    A single line with one of the `endings` is a path; other text gets the name `name`.
    """
    given = os.fspath(source)
    if isinstance(source, str) and ("\n" in given or not given.endswith(endings)):
        return name, given
    try:
        return given, Path(given).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NotFound(
            f"the file {quote(given)} does not exist", hint="Pass a path that exists, or the text itself"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{quote(given)} cannot be read: {error}", hint="Programs are files in UTF-8") from None
