"""A word that is not known and those that are in, the one that was probably meant out, without endless comparing."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from memoranda.lang.diagnostics import closest

_LISTED = 8
_COMPARISONS = 5_000
"""Comparisons for one document: some milliseconds in a file of a person, a fraction of a second in any other."""


class Hints:
    """Finds what was meant, as long as there are comparisons left; a file of a thousand faults needs no more help."""

    def __init__(self) -> None:
        """Begin with all comparisons of a document."""
        self._left = _COMPARISONS

    def nearest(self, word: str, known: Collection[str]) -> str | None:
        """Return the known word that was probably meant; None when nothing is near."""
        self._left -= len(known)
        return closest(word, known) if self._left >= 0 else None

    def meant(self, word: str, known: Collection[str], *, otherwise: str = "") -> str:
        """Return a hint that names the word that was probably meant, or what to say when there is none."""
        near = self.nearest(word, known)
        return f"Did you mean `{near}`?" if near else otherwise


def few(names: Iterable[str]) -> str:
    """Return the first of some names, as a hint lists them."""
    return ", ".join(islice(names, _LISTED))
