"""The postings of a term in, and what rankings made of them kept beside: the same words are asked for again and again.

It is all as of one state of a shelf, and goes with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.floating[Any]]
Places = NDArray[np.intp]

# Up to so many rows, a look into a dictionary is quicker than a search, and making it takes little.
_WORTH_A_DICTIONARY = 1_024


class Holders:
    """The entries that hold a term."""

    __slots__ = ("_by_row", "evidence", "line", "postings", "size")

    def __init__(self, postings: NDArray[np.uint64]) -> None:
        """Know the postings, and nothing of them yet."""
        self.postings = postings
        self.size = len(postings)
        """How many entries hold it."""
        self.evidence: Evidence | None = None
        self.line: Numbers | None = None
        """By row of the shelf: one more than what there is of the term in the row and its surroundings."""
        self._by_row: dict[int, float] | None = None

    def spoken(self, rows: Places) -> dict[int, float]:
        """Return by row how much it speaks for the term itself, of those of some rows that hold it; perhaps of more."""
        if self._by_row is not None:
            return self._by_row
        assert self.evidence is not None
        own, text, label = self.evidence
        if self.size <= _WORTH_A_DICTIONARY:
            self._by_row = dict(zip(own.tolist(), (text + label).tolist(), strict=True))
            return self._by_row
        places = own.searchsorted(rows)
        found = own.take(places, mode="clip") == rows
        places = places[found]
        return dict(zip(rows[found].tolist(), (text.take(places) + label.take(places)).tolist(), strict=True))


class Evidence(NamedTuple):
    """What the rows that hold a term have of it."""

    rows: Places
    """Ascending."""
    text: Numbers
    """How much the text of the row speaks for the term, from 0 to about 2."""
    label: Numbers
    """1 where the metadata of the row say the term."""
