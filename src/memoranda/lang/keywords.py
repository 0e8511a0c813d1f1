"""The words of a language as tables: what a row is, and a place where words stand. Each language has its own tables."""

from __future__ import annotations

from functools import cached_property

import msgspec


class Keyword(msgspec.Struct, frozen=True):
    """One word, or several that stand together, at one place: what it means and how else it may be written."""

    name: str
    meaning: str
    required: bool = False
    aliases: tuple[str, ...] = ()
    acted_on: bool = True
    """Whether it is run here; a word that is not is read and kept, and a note says so."""
    many: bool = False
    """Whether it names several things, not one."""


class Level(msgspec.Struct, frozen=True, dict=True):
    """A place where words stand."""

    name: str
    where: str
    keywords: tuple[Keyword, ...]

    @cached_property
    def _index(self) -> dict[str, Keyword]:
        return {spelling: keyword for keyword in self.keywords for spelling in (keyword.name, *keyword.aliases)}

    def find(self, word: str) -> Keyword | None:
        """Return the row of a word by its name or another spelling."""
        return self._index.get(word)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every spelling, in the order of the table."""
        return tuple(self._index)

    @cached_property
    def required(self) -> tuple[Keyword, ...]:
        """The words that may not be missing."""
        return tuple(keyword for keyword in self.keywords if keyword.required)
