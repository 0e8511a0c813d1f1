"""What reading a source gives, whatever its language: the document, and everything there is to say about it."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from recollect.lang.diagnostics import Diagnostic, source_error
from recollect.lang.source import Source

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

    def document_or_raise(self) -> Document:
        """Return the document; raise a SourceError with every diagnostic if one of them is an error."""
        self.raise_if_failed()
        return self.document
