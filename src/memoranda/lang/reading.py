"""What reading a source gives, whatever its language: the document, and everything there is to say about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from memoranda.errors import NotFound, UsageError
from memoranda.lang.diagnostics import Diagnostic, Diagnostics, source_error
from memoranda.lang.source import Source
from memoranda.model.text import quote

Lines = TypeVar("Lines")
Document = TypeVar("Document")


class Reading(msgspec.Struct, Generic[Lines, Document], frozen=True):
    """Everything that was read from a source: its lines, the document they make, and what there is to say about it."""

    source: Source
    lines: Lines
    document: Document
    diagnostics: tuple[Diagnostic, ...]
    spellings: dict[int, str]
    """Where a keyword stands, and how it is written canonically; the formatter reads it."""

    @property
    def failed(self) -> bool:
        """Whether the source cannot be used."""
        return any(diagnostic.severity == "error" for diagnostic in self.diagnostics)

    def raise_if_failed(self) -> None:
        """Raise a SourceError with every diagnostic, if one of them is an error."""
        if self.failed:
            raise source_error(self.source, self.diagnostics)

    def going_on(self) -> Diagnostics:
        """Return what was said so far, for those who look at the document to add to."""
        said = Diagnostics(self.source)
        for diagnostic in self.diagnostics:
            said.add(diagnostic)
        return said

    def document_or_raise(self) -> Document:
        """Return the document; raise a SourceError with every diagnostic if one of them is an error."""
        self.raise_if_failed()
        return self.document


def read_text(source: str | os.PathLike[str], *, endings: tuple[str, ...], name: str) -> tuple[str, str]:
    """Return the name and the text of a source that is given as a path or as the text itself.

    A path is what ends as such files do and has one line; a text of its own is called `name`.
    """
    given = os.fspath(source)
    if isinstance(source, str) and ("\n" in given or not given.endswith(endings)):
        return name, given
    try:
        return given, Path(given).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"there is no file {quote(given)}", hint="Pass a path that exists, or the text itself") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{quote(given)} cannot be read: {error}", hint="Programs are files in UTF-8") from None
