"""How lines are laid out in a language that nests by indentation: margins in, columns and faults out."""

from __future__ import annotations

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.faults import note_mixed_indentation
from memoranda.lang.source import Source, Span
from memoranda.model.text import quote

LONGEST = 2_000_000
"""Characters of a file; a larger one is no program."""
DEEPEST = 40
"""Levels of nesting; the languages themselves need a dozen."""
TAB = 4
"""Columns of a tab, where it decides what is nested below what."""


def is_too_long(source: Source, said: Diagnostics, *, hint: str) -> bool:
    """Say whether a file is longer than is read, after noting it."""
    if len(source.text) <= LONGEST:
        return False
    message = f"the file has {len(source.text)} characters, the limit is {LONGEST}"
    said.error("too_large", message, Span(0, 0), hint=hint)
    return True


class Margins:
    """Reads the margins of the lines of one file, all of which are to be of the same kind."""

    def __init__(self, said: Diagnostics) -> None:
        """Begin without having seen an indented line."""
        self._said = said
        self._with = ""

    def read(self, text: str, start: int) -> tuple[int, str]:
        """Return the column in which a line that begins at an offset says something, and its margin."""
        content = text.lstrip(" \t")
        lead = text[: len(text) - len(content)]
        column = self._column(lead, start)
        if content[0].isspace():
            self._said.error(
                "indentation",
                f"the line is indented with {quote(content[0])}, which is neither a space nor a tab",
                Span(start + len(lead), start + len(lead) + 1),
                hint="Indent with spaces",
            )
            lead += content[: len(content) - len(content.lstrip())]
        return column, lead

    def _column(self, lead: str, start: int) -> int:
        if not lead:
            return 0
        if self._with == "":
            self._with = lead[0]
        if len(set(lead)) > 1 or lead[0] != self._with:
            message = "the line mixes tabs and spaces with the lines above it, so it is unclear what it is nested below"
            note_mixed_indentation(self._said, message, Span(start, start + len(lead)))
        return len(lead) if "\t" not in lead else len(lead.expandtabs(TAB))
