"""The terms of a query and a shelf in, how much of them each entry and its surroundings hold out.

The evidence for each term is added up over an entry and its neighbours before it is limited, so neighbours that have
*other* terms of the query bring more than those that repeat one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.index.context import evidence_of
from memoranda.retrieval.index.holders import Evidence, Holders
from memoranda.retrieval.index.postings import unpack_postings
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.prepare import Term
from memoranda.retrieval.rarity import rarity_of

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
    terms: list[Term]
    """Those that any entry holds."""
    holders: list[Holders]
    """Who holds each."""
    share: list[float]
    """Of each in all that was found."""

    def whole(self, index: ShelfIndex, rows: Places | None = None) -> Numbers:
        """Return for some rows, or all, the part of the terms that the entry and its surroundings have, from 0 to 1.

        What is there of each term is limited by itself.
        """
        count, at_once = index.rows if rows is None else len(rows), _at_once(index)
        if not self.terms:
            return np.zeros(count)
        if len(self.terms) <= at_once:
            return 1 - _lacking(index, self.holders, self.share, rows)
        whole = np.ones(count)
        for first in range(0, len(self.terms), at_once):
            some = slice(first, first + at_once)
            whole -= _lacking(index, self.holders[some], self.share[some], rows)
        return whole

    def own(self, rows: Places) -> tuple[list[float], list[tuple[str, ...]]]:
        """Return how much of `whole` some rows have by themselves, and the words of the query that each holds."""
        asked: list[int] = rows.tolist()
        own = [0.0] * len(asked)
        words: list[tuple[str, ...]] = [()] * len(asked)
        for term, holders, share in zip(self.terms, self.holders, self.share, strict=True):
            spoken = holders.spoken(rows)
            for place, row in enumerate(asked):
                evidence = spoken.get(row)
                if evidence is not None:
                    own[place] += share * evidence / (evidence + 1)
                    words[place] += (term.word,)
        return own, words


def cover(index: ShelfIndex, terms: Sequence[Term]) -> Coverage:
    """Return how much of some terms the rows of an index hold."""
    entries = len(index)
    found = [index.find(term.stems) for term in terms]
    sizes = [one.size for one in found]
    rarities = [rarity_of(size, entries) * term.trust for size, term in zip(sizes, terms, strict=True)]
    missing = sum([rarity for rarity, size in zip(rarities, sizes, strict=True) if not size])
    held = [place for place, size in enumerate(sizes) if size]
    if len(held) > _MOST_TERMS:
        held = sorted(sorted(held, key=rarities.__getitem__, reverse=True)[:_MOST_TERMS])
    if not held:
        return Coverage(np.zeros(index.rows), [], [], [])
    holders = [found[place] for place in held]
    rarity = np.array([rarities[place] for place in held])
    asked = float(rarity.sum())
    rows = np.concatenate([one.rows for one in _evidence(index, holders)])
    weight = (rarity / (asked + missing)).repeat([sizes[place] for place in held])
    held_in = np.bincount(rows, weight, index.rows).astype(np.float32)  # what rounding brings beyond 1 goes
    return Coverage(held_in, [terms[place] for place in held], holders, (rarity / asked).tolist())


def _evidence(index: ShelfIndex, holders: Sequence[Holders]) -> list[Evidence]:
    """Return what the holders of each term have of it."""
    unread = [one for one in holders if one.evidence is None]
    if unread:
        # All at once: on a small shelf each pass costs as much for one term as for all of them.
        rows, counts, label = unpack_postings(np.concatenate([one.postings for one in unread]))
        text = evidence_of(counts, index.context.patience.take(rows))
        index.remember(3 * len(rows))
        start = 0
        for one in unread:
            end = start + one.size
            one.evidence = Evidence(rows[start:end], text[start:end], label[start:end])
            start = end
    return [one.evidence for one in holders if one.evidence is not None]


def _at_once(index: ShelfIndex) -> int:
    """Return how many terms are laid out against the rows of an index at once."""
    return max(1, _LARGEST_TABLE // (index.rows + 1))


def _lacking(index: ShelfIndex, holders: list[Holders], share: list[float], wanted: Places | None) -> Numbers:
    """Return by wanted row the part of all terms that it lacks, although it and its surroundings have some of it.

    What is there of a term, x, counts as x / (x + 1), and so 1 / (x + 1) is lacking.
    """
    first, *others = _lines(index, holders, wanted)
    lacking = share[0] / first
    for part, line in zip(share[1:], others, strict=True):
        lacking += part / line
    return lacking


def _lines(index: ShelfIndex, holders: list[Holders], wanted: Places | None) -> list[Numbers]:
    """Return for each term, by wanted row, one more than what there is of it in the row and its surroundings."""
    unread = [one for one in holders if one.line is None]
    made = iter(_table(index, _evidence(index, unread), wanted)) if unread else iter(())
    if wanted is not None:  # what is made for some rows is of no use for others
        return [next(made) if one.line is None else one.line.take(wanted) for one in holders]
    index.remember(len(unread) * index.rows)
    for one in unread:
        one.line = next(made)
    return [one.line for one in holders if one.line is not None]


def _table(index: ShelfIndex, found: list[Evidence], wanted: Places | None) -> Numbers:
    """Return the lines of some terms."""
    context, lines, width = index.context, len(found), index.rows + 1
    sizes = [len(one.rows) for one in found]
    rows, text, label = (np.concatenate(parts) for parts in zip(*found, strict=True))
    # In each line of the table there is a place for each row and a last one for neighbours that are not there.
    places = context.beside.take(rows, axis=1)
    places += np.arange(0, lines * width, width).repeat(sizes)
    lent = context.words.take(rows, axis=1)
    lent *= text
    # What metadata say is the row's own and not lent.
    lent[4] += label
    table = np.bincount(places.ravel(), lent.ravel(), lines * width).astype(np.float64, copy=False)
    table = table.reshape(lines, width)
    # Every row lends, but only what a filter lets through has to be added up.
    table = table[:, :-1] if wanted is None else table.take(wanted, axis=1)
    if context.of_thread is None:
        table += 1
    else:
        threads = len(context.of_thread)
        most = np.zeros(lines * threads, np.float32)
        owners = context.thread.take(rows)
        owners += np.arange(0, lines * threads, threads).repeat(sizes)
        np.maximum.at(most, owners, text)
        of_thread = most.reshape(lines, threads) * context.of_thread
        of_thread += 1
        table += of_thread.take(context.thread if wanted is None else context.thread.take(wanted), axis=1)
    return table
