"""What line-based grammars share: keyword tables, limits on a file, and indentation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from memoranda.lang.diagnostics import Diagnostics, note_mixed_indentation
from memoranda.lang.source import Source, Span
from memoranda.model.text import quote

LONGEST = 2_000_000
"""Maximum characters of a file."""
DEEPEST = 40
"""Maximum levels of nesting; the languages need about a dozen."""
TAB = 4
"""Columns of a tab in indentation."""


def is_too_long(source: Source, diagnostics: Diagnostics, *, hint: str) -> bool:
    """Return whether a file is too long, and report it."""
    if len(source.text) <= LONGEST:
        return False
    message = f"the file has {len(source.text)} characters, the limit is {LONGEST}"
    diagnostics.error("too_large", message, Span(0, 0), hint=hint)
    return True


class Margins:
    """Reads the indentation of the lines of a file, which must be all spaces or all tabs."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        """Start before the first indented line."""
        self._diagnostics = diagnostics
        self._with = ""

    def read(self, text: str, start: int) -> tuple[int, str]:
        """Return the column of the first character of a line, and its indentation."""
        content = text.lstrip(" \t")
        lead = text[: len(text) - len(content)]
        column = self._column(lead, start)
        if content[0].isspace():
            self._diagnostics.error(
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
            note_mixed_indentation(self._diagnostics, message, Span(start, start + len(lead)))
        return len(lead) if "\t" not in lead else len(lead.expandtabs(TAB))


class Keyword(msgspec.Struct, frozen=True):
    """A keyword of one or several words at one place: its meaning and its other spellings."""

    name: str
    meaning: str
    required: bool = False
    aliases: tuple[str, ...] = ()
    acted_on: bool = True
    """Whether it has an effect here; one without is parsed and kept, with a note."""
    many: bool = False
    """Whether its value is several things."""


class Level(msgspec.Struct, frozen=True, dict=True):
    """A place with its own keywords."""

    name: str
    where: str
    keywords: tuple[Keyword, ...]

    @classmethod
    def of(cls, name: str, where: str, *keywords: Keyword) -> Level:
        """Return a place; `where` is how messages call it."""
        return cls(name, where, keywords)

    @cached_property
    def _index(self) -> dict[str, Keyword]:
        return {spelling: keyword for keyword in self.keywords for spelling in (keyword.name, *keyword.aliases)}

    def find(self, word: str) -> Keyword | None:
        """Return a keyword by its name or another spelling."""
        return self._index.get(word)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every spelling, in table order."""
        return tuple(self._index)

    @cached_property
    def required(self) -> tuple[Keyword, ...]:
        """The required keywords."""
        return tuple(keyword for keyword in self.keywords if keyword.required)


def levels_in(module: Mapping[str, object]) -> dict[str, Level]:
    """Return the levels among the names of a module, in the order of the file."""
    return {level.name: level for level in module.values() if isinstance(level, Level)}
