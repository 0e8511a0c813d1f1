"""The terms of a query and a shelf in, how much of them each entry and its surroundings hold out.

The evidence for each term is added up over an entry and its neighbours before it is limited, so neighbours that have
*other* terms of the query bring more than those that repeat one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.retrieval.index.context import evidence_of
from recollect.retrieval.index.postings import unpack_postings
from recollect.retrieval.index.shelf import ShelfIndex
from recollect.retrieval.prepare import Term
from recollect.retrieval.rarity import rarity_of

Numbers = NDArray[np.floating[Any]]
Places = NDArray[np.intp]

# Longer queries are judged by their rarest words.
_MOST_TERMS = 64
# Terms are laid out against rows as one table, of at most so many places at once: it stays in the processor's cache.
_LARGEST_TABLE = 262_144


class Coverage(NamedTuple):
    """How much of a query's terms is where, each weighted by its rarity."""

    held: Numbers
    """By row: the part of the query that the entry itself holds, words that nobody has counted in, from 0 to 1."""
    found: _Found | None

    def whole(self, index: ShelfIndex, rows: Places | None = None) -> Numbers:
        """Return for some rows, or all, the part of the terms that the entry and its surroundings have, from 0 to 1.

        What is there of each term is limited by itself.
        """
        count = index.rows if rows is None else len(rows)
        return np.zeros(count) if self.found is None else _with_surroundings(index, self.found, rows, count)

    def own(self, rows: Places) -> tuple[list[float], list[tuple[str, ...]]]:
        """Return how much of `whole` some rows have by themselves, and the words of the query that each holds."""
        own = [0.0] * len(rows)
        words: list[tuple[str, ...]] = [()] * len(rows)
        found = self.found
        if found is None or not own:
            return own, words
        width = len(self.held)
        starts = np.arange(0, len(found.terms) * width, width)
        keys = starts.repeat(found.sizes)
        keys += found.rows
        asked = starts[:, None] + rows
        places = keys.searchsorted(asked)
        lines, which = (keys.take(places, mode="clip") == asked).nonzero()
        at = places[lines, which]
        speaks = (found.text.take(at) + found.label.take(at)).tolist()
        share: list[float] = found.share.tolist()
        line: int
        for line, place, evidence in zip(lines.tolist(), which.tolist(), speaks, strict=True):
            own[place] += share[line] * evidence / (evidence + 1)
            words[place] += (found.terms[line].word,)
        return own, words


class _Found(NamedTuple):
    """The evidence for the terms that any entry holds, one term after the other, the rows of each ascending."""

    terms: list[Term]
    share: Numbers
    """Of each term in all that was found."""
    sizes: list[int]
    """How many rows hold each term."""
    rows: Places
    text: Numbers
    """How much the text of the row speaks for the term, from 0 to about 2."""
    label: Numbers
    """1 where the metadata of the row say the term."""


def cover(index: ShelfIndex, terms: Sequence[Term]) -> Coverage:
    """Return how much of some terms the rows of an index hold."""
    postings = [index.find(term.stems) for term in terms]
    rarities = [rarity_of(len(one), len(index)) * term.trust for one, term in zip(postings, terms, strict=True)]
    missing = sum([rarity for rarity, one in zip(rarities, postings, strict=True) if not len(one)])
    held = [place for place, one in enumerate(postings) if len(one)]
    if len(held) > _MOST_TERMS:
        held = sorted(sorted(held, key=rarities.__getitem__, reverse=True)[:_MOST_TERMS])
    if not held:
        return Coverage(np.zeros(index.rows), None)
    rarity = np.array([rarities[place] for place in held])
    asked = float(rarity.sum())
    sizes = [len(postings[place]) for place in held]
    rows, counts, label = unpack_postings(np.concatenate([postings[place] for place in held]))
    found = _Found(
        terms=[terms[place] for place in held],
        share=rarity / asked,
        sizes=sizes,
        rows=rows,
        text=evidence_of(counts, index.context.patience.take(rows)),
        label=label,
    )
    weight = (rarity / (asked + missing)).repeat(sizes)
    held_in = np.bincount(rows, weight, index.rows).astype(np.float32)  # what rounding brings beyond 1 goes
    return Coverage(held_in, found)


def _with_surroundings(index: ShelfIndex, found: _Found, wanted: Places | None, count: int) -> Numbers:
    """Return by wanted row the part of all terms that the row and its surroundings have."""
    at_once = max(1, _LARGEST_TABLE // (index.rows + 1))
    if len(found.sizes) <= at_once:
        return 1 - _lacking(index, found, wanted)
    whole = np.ones(count)
    start = 0
    for first in range(0, len(found.sizes), at_once):
        terms = slice(first, first + at_once)
        end = start + sum(found.sizes[terms])
        some = slice(start, end)
        part = _Found(
            found.terms[terms],
            found.share[terms],
            found.sizes[terms],
            found.rows[some],
            found.text[some],
            found.label[some],
        )
        whole -= _lacking(index, part, wanted)
        start = end
    return whole


def _lacking(index: ShelfIndex, found: _Found, wanted: Places | None) -> Numbers:
    """Return by wanted row the part of all terms that it lacks, although it and its surroundings have some of it.

    What is there of a term, x, counts as x / (x + 1), and so 1 / (x + 1) is lacking.
    """
    context, lines, width = index.context, len(found.sizes), index.rows + 1
    # In each line of the table there is a place for each row and a last one for neighbours that are not there.
    places = context.beside.take(found.rows, axis=1)
    places += np.arange(0, lines * width, width).repeat(found.sizes)
    lent = context.words.take(found.rows, axis=1)
    lent *= found.text
    # What metadata say is the row's own and not lent.
    lent[4] += found.label
    table = np.bincount(places.ravel(), lent.ravel(), lines * width).reshape(lines, width)
    # Every row lends, but only what a filter lets through has to be added up.
    table = table[:, :-1] if wanted is None else table.take(wanted, axis=1)
    if context.of_thread is None:
        table += 1
    else:
        threads = len(context.of_thread)
        most = np.zeros(lines * threads, np.float32)
        owners = context.thread.take(found.rows)
        owners += np.arange(0, lines * threads, threads).repeat(found.sizes)
        np.maximum.at(most, owners, found.text)
        of_thread = most.reshape(lines, threads) * context.of_thread
        of_thread += 1
        table += of_thread.take(context.thread if wanted is None else context.thread.take(wanted), axis=1)
    np.divide(found.share[:, None], table, out=table)
    return np.add.reduce(table, axis=0)
