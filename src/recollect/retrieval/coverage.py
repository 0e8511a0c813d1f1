"""The terms of a query and a shelf in, how much of them each entry and its surroundings hold out.

The evidence for each term is added up over an entry and its neighbours before it is limited, so neighbours that have
*other* terms of the query bring more than those that repeat one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.retrieval.index.shelf import Evidence, ShelfIndex
from recollect.retrieval.prepare import Term, rarity_of

Numbers = NDArray[np.floating[Any]]
Places = NDArray[np.intp]

# Longer queries are judged by their rarest words.
_MOST_TERMS = 64
# Terms are laid out against rows as one table, of at most so many places at once.
_LARGEST_TABLE = 1_000_000


class Coverage(NamedTuple):
    """How much of a query's terms is where, each weighted by its rarity."""

    whole: Numbers
    """By row: the part of the terms that the entry and its surroundings have, each limited, from 0 to 1."""
    held: Numbers
    """By row: the part of the query that the entry itself holds, words that nobody has counted in, from 0 to 1."""
    found: _Found | None

    def own(self, rows: Places) -> tuple[Numbers, list[tuple[str, ...]]]:
        """Return how much of `whole` some rows have by themselves, and the words of the query that each holds."""
        found = self.found
        if found is None or not len(rows):
            return np.zeros(len(rows)), [()] * len(rows)
        keys = found.line * len(self.held) + found.rows
        asked = np.arange(len(found.terms))[:, None] * len(self.held) + rows
        places = np.minimum(keys.searchsorted(asked), len(keys) - 1)
        holds = keys[places] == asked
        speaks = (found.text[places] + found.label[places]) * holds
        words: list[tuple[str, ...]] = [
            tuple(term.word for term, held in zip(found.terms, line, strict=True) if held) for line in holds.T.tolist()
        ]
        return found.share @ (speaks / (speaks + 1)), words


class _Found(NamedTuple):
    """The evidence of all terms that any entry holds, one term after the other."""

    terms: tuple[Term, ...]
    share: Numbers
    """Of each term in all that was found."""
    ends: Places
    """Where the evidence of each term ends."""
    line: Places
    """For each piece of evidence, the place of its term."""
    rows: Places
    text: Numbers
    label: Numbers


def cover(index: ShelfIndex, terms: Sequence[Term]) -> Coverage:
    """Return how much of some terms the rows of an index hold."""
    evidence = [index.evidence(term.stems) for term in terms]
    rarities = [rarity_of(len(one.rows), len(index)) * term.trust for one, term in zip(evidence, terms, strict=True)]
    held = [place for place, one in enumerate(evidence) if len(one.rows)]
    missing = sum(rarity for rarity, one in zip(rarities, evidence, strict=True) if not len(one.rows))
    if len(held) > _MOST_TERMS:
        held = sorted(sorted(held, key=rarities.__getitem__, reverse=True)[:_MOST_TERMS])
    if not held:
        nothing = np.zeros(index.rows, np.float32)
        return Coverage(nothing, nothing, None)
    rarity = np.array([rarities[place] for place in held])
    asked = float(rarity.sum())
    found = _together([terms[place] for place in held], rarity / asked, [evidence[place] for place in held])
    return Coverage(
        whole=_with_surroundings(index, found),
        held=np.bincount(found.rows, (rarity / (asked + missing))[found.line], index.rows).astype(np.float32),
        found=found,
    )


def _together(terms: list[Term], share: Numbers, evidence: list[Evidence]) -> _Found:
    sizes = np.array([len(one.rows) for one in evidence])
    return _Found(
        terms=tuple(terms),
        share=share,
        ends=np.cumsum(sizes),
        line=np.arange(len(terms)).repeat(sizes),
        rows=np.concatenate([one.rows for one in evidence]),
        text=np.concatenate([one.text for one in evidence]),
        label=np.concatenate([one.label for one in evidence]),
    )


def _with_surroundings(index: ShelfIndex, found: _Found) -> Numbers:
    """Return by row the part of all terms that the row and its surroundings have."""
    at_once = max(1, _LARGEST_TABLE // (index.rows + 1))
    whole = np.zeros(index.rows + 1)
    start = 0
    for first in range(0, len(found.terms), at_once):
        last = min(first + at_once, len(found.terms))
        end = int(found.ends[last - 1])
        whole += found.share[first:last] @ _spread(index, found, first, last, slice(start, end))
        start = end
    return whole[1:]


def _spread(index: ShelfIndex, found: _Found, first: int, last: int, some: slice) -> Numbers:
    """Return for each of some terms (a line) and row what the row and its surroundings have of it, limited to 1.

    The first place of each line is for neighbours that are not there; the one after it is row 0.
    """
    context, lines, width = index.context, last - first, index.rows + 1
    line, rows, text = found.line[some] - first, found.rows[some], found.text[some]
    places = context.beside.take(rows, axis=1)
    places += line * width + 1
    lent = context.words.take(rows, axis=1)
    lent *= text
    # What metadata say is the row's own and not lent.
    lent[4] += found.label[some]
    table = np.bincount(places.ravel(), lent.ravel(), lines * width).reshape(lines, width)
    if context.of_thread is not None:
        threads = len(context.of_thread)
        most = np.zeros(lines * threads, np.float32)
        np.maximum.at(most, line * threads + context.thread.take(rows), text)
        table[:, 1:] += (most.reshape(lines, threads) * context.of_thread).take(context.thread, axis=1)
    return np.divide(table, table + 1, out=table)
