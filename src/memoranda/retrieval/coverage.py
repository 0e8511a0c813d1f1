"""Measure how much of a query's terms each entry covers, by itself and with its neighbours.

Terms are weighted by inverse document frequency, and each is limited by itself: x pieces of evidence count as
x / (x + 1). What an entry and its neighbours contain is added up before that.

A ranking of some rows adds up what lends to them and nothing else. Frequencies, lengths and the trust in neighbours are
always those of the whole index, so a row is worth the same whichever rows are ranked with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.analysis.query import idf
from memoranda.retrieval.index.neighbours import text_evidence
from memoranda.retrieval.index.postings import Evidence, TermPostings, unpack_postings
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.influence import Crowd, Origins

Numbers = NDArray[np.floating[Any]]
Places = NDArray[np.intp]

# Of longer queries only the rarest terms count.
_MOST_TERMS = 64
# Maximum size of a table of terms by rows: it has to stay in the processor's cache.
_LARGEST_TABLE = 262_144
# With fewer rows, leaving evidence out takes longer than adding it up.
_WORTH_NARROWING = 32_768


class Term(msgspec.Struct, frozen=True, gc=False):
    """A word of a query, or several with the same stems, and the stems to search for."""

    word: str
    stems: tuple[str, ...]
    trust: float = 1.0
    count: int = 1
    """How often the query has it."""


class Subset:
    """Some rows of an index, in ascending order, and the rows that lend them words."""

    __slots__ = ("_evidence", "_lends", "_places", "is_narrow", "rows")

    def __init__(self, index: ShelfIndex, rows: Places) -> None:
        """Take the rows."""
        self.rows = rows
        self.is_narrow = max(_WORTH_NARROWING, 2 * len(rows)) <= index.rows
        """Whether it is quicker to add up what lends to these rows than what lends to any row."""
        if not self.is_narrow:
            return
        # In the last place are missing neighbours.
        self._places = np.full(index.rows + 1, len(rows), np.int32)
        self._places[rows] = np.arange(len(rows), dtype=np.int32)
        self._lends = np.zeros(index.rows + 1, np.bool_)
        self._lends[index.context.beside.take(rows, axis=1)] = True
        self._evidence: dict[TermPostings, Evidence] = {}

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def places(self, rows: Places) -> NDArray[np.int32]:
        """Return where rows are among these; the number of these for those that are not."""
        return self._places.take(rows)

    def evidence(self, index: ShelfIndex, postings: Sequence[TermPostings]) -> list[Evidence]:
        """Return the evidence for each term in rows that lend to these."""
        for one, evidence in zip(postings, _evidence(index, postings), strict=True):
            if one not in self._evidence:
                self._evidence[one] = evidence.only(self._lends.take(evidence.rows).nonzero()[0])
        return [self._evidence[one] for one in postings]


class Coverage(NamedTuple):
    """How much of a query's terms each entry covers, weighted by inverse document frequency."""

    terms: list[Term]
    """The terms with postings."""
    postings: list[TermPostings]
    """The postings of each."""
    share: list[float]
    """The weight of each; they add up to 1."""
    known: list[float]
    """The same as a share of all terms, those without postings too."""

    def lexical(self, index: ShelfIndex, some: Subset | None = None) -> Numbers:
        """Return for some rows, or all, the share of the query that the entry itself contains, from 0 to 1."""
        if not self.terms:
            return np.zeros(index.rows if some is None else len(some))
        if some is None or not some.is_narrow:
            rows = np.concatenate([one.rows for one in _evidence(index, self.postings)])
            by_posting = np.array(self.known).repeat([one.size for one in self.postings])
            lexical = np.bincount(rows, by_posting, index.rows)
            lexical = lexical if some is None else lexical.take(some.rows)
        else:
            lexical = np.zeros(len(some) + 1)
            for known, evidence in zip(self.known, some.evidence(index, self.postings), strict=True):
                lexical[some.places(evidence.rows)] += known  # a row has one posting of a term
            lexical = lexical[:-1]
        return lexical.astype(np.float32)  # single precision removes sums above 1

    def contains(self, index: ShelfIndex) -> NDArray[np.bool_]:
        """Return by row whether the entry itself contains any of the terms."""
        contains = np.zeros(index.rows, np.bool_)
        for evidence in _evidence(index, self.postings):
            contains[evidence.rows] = True
        return contains

    def whole(self, index: ShelfIndex, some: Subset | None = None) -> Numbers:
        """Return for some rows, or all, the share of the terms that the entry and its neighbours cover, from 0 to 1."""
        count = index.rows if some is None else len(some)
        if not self.terms:
            return np.zeros(count)
        # As many at once as for all rows, so that the sums for some of them are the same to the last bit.
        at_once = max(1, _LARGEST_TABLE // (index.rows + 1))
        if len(self.terms) <= at_once:
            return 1 - _missing_share(index, self.postings, self.share, some)
        whole = np.ones(count)
        for first in range(0, len(self.terms), at_once):
            part = slice(first, first + at_once)
            whole -= _missing_share(index, self.postings[part], self.share[part], some)
        return whole

    def alone(self, index: ShelfIndex) -> Numbers:
        """Return by row what `whole` would be without neighbours."""
        if not self.terms:
            return np.zeros(index.rows)
        evidence = _evidence(index, self.postings)
        rows = np.concatenate([one.rows for one in evidence])
        shares: list[Numbers] = []
        for share, one in zip(self.share, evidence, strict=True):
            found = one.text + one.field
            found /= found + 1
            found *= np.float32(share)
            shares.append(found)
        return np.bincount(rows, np.concatenate(shares), index.rows).astype(np.float32)

    def covered(self, index: ShelfIndex, rows: Places) -> Numbers:
        """Return how much of each term (a line) some rows cover by themselves: 1 from the first clear mention on."""
        covered = np.zeros((len(self.terms), len(rows)))
        for term, evidence in enumerate(_evidence(index, self.postings)):
            places: Places = evidence.rows.searchsorted(rows)
            found = (evidence.rows.take(places, mode="clip") == rows).nonzero()[0]
            places = places[found]
            amount = evidence.text[places] + evidence.field[places]
            covered[term, found] = np.minimum(2 * amount / (amount + 1), 1)
        return covered

    def own(self, rows: Places) -> tuple[list[float], list[tuple[str, ...]]]:
        """Return how much of `whole` some rows cover by themselves, and the words of the query that each contains."""
        asked: list[int] = rows.tolist()
        own = [0.0] * len(asked)
        words: list[tuple[str, ...]] = [()] * len(asked)
        for term, postings, share in zip(self.terms, self.postings, self.share, strict=True):
            evidence_of_row = postings.evidence_by_row(rows)
            for place, row in enumerate(asked):
                evidence = evidence_of_row.get(row)
                if evidence is not None:
                    own[place] += share * evidence / (evidence + 1)
                    words[place] += (term.word,)
        return own, words


def cover(
    index: ShelfIndex, terms: Sequence[Term], *, copies_once: bool = False, crowd: Crowd | None = None
) -> Coverage:
    """Return how much of these terms the rows of an index cover."""
    found = [index.find(term.stems) for term in terms]
    sizes = [one.size for one in found]
    frequencies, entries = frequencies_of(index, found, copies_once, crowd)
    weights = [
        idf(frequency, entries) * term.trust * term.count for frequency, term in zip(frequencies, terms, strict=True)
    ]
    missing = sum([weight for weight, size in zip(weights, sizes, strict=True) if not size])
    used = [place for place, size in enumerate(sizes) if size]
    if len(used) > _MOST_TERMS:
        used = sorted(sorted(used, key=weights.__getitem__, reverse=True)[:_MOST_TERMS])
    weight = np.array([weights[place] for place in used])
    total = float(weight.sum())
    return Coverage(
        [terms[place] for place in used],
        [found[place] for place in used],
        (weight / total).tolist() if used else [],
        (weight / (total + missing)).tolist() if used else [],
    )


def frequencies_of(
    index: ShelfIndex, found: Sequence[TermPostings], copies_once: bool, crowd: Crowd | None
) -> tuple[list[int], int]:
    """Return how many entries contain each of some terms, and how many entries there are.

    With `copies_once`, texts with the same words are counted once; with a crowd, what others say is counted.
    """
    if crowd is not None:
        others = crowd.others(origins_in(index))
        entries = int(np.count_nonzero(others if index.present is None else others & index.present))
        rows = [unpack_postings(one.postings)[0] if one.evidence is None else one.evidence.rows for one in found]
        counts = [int(np.count_nonzero(others.take(of_term))) for of_term in rows]
        return [max(count, min(one.size, 1)) for count, one in zip(counts, found, strict=True)], max(entries, 1)
    sizes = [one.size for one in found]
    if not copies_once:
        return sizes, len(index)
    frequencies = [index.frequency(one) for one in found]
    # Only copies with a word of the query change its weights.
    copies = max([size - one for size, one in zip(sizes, frequencies, strict=True)], default=0)
    return frequencies, len(index) - copies


def origins_in(index: ShelfIndex) -> Origins:
    """Return where the rows of an index come from."""
    return Origins(index.trust, index.origin)


def _evidence(index: ShelfIndex, postings: Sequence[TermPostings]) -> list[Evidence]:
    """Return the evidence for each term, computing what is not cached yet."""
    unread = [one for one in postings if one.evidence is None]
    if unread:
        # All at once: with few rows a pass costs as much for one term as for all of them.
        rows, counts, field = unpack_postings(np.concatenate([one.postings for one in unread]))
        text = text_evidence(counts, index.context.half_saturation.take(rows))
        index.count_cached(3 * len(rows))
        start = 0
        for one in unread:
            end = start + one.size
            one.evidence = Evidence(rows[start:end], text[start:end], field[start:end])
            start = end
    return [one.evidence for one in postings if one.evidence is not None]


def _missing_share(index: ShelfIndex, postings: list[TermPostings], share: list[float], some: Subset | None) -> Numbers:
    """Return by row the share of all terms that the row and its neighbours do not cover.

    The evidence x for a term counts as x / (x + 1), so 1 / (x + 1) is missing.
    """
    first, *others = _lines(index, postings, some)
    missing = share[0] / first
    for part, line in zip(share[1:], others, strict=True):
        missing += part / line
    return missing


def _lines(index: ShelfIndex, postings: list[TermPostings], some: Subset | None) -> list[Numbers]:
    """Return for each term, by row, 1 + the evidence for it in the row and its neighbours."""
    unread = [one for one in postings if one.line is None]
    lines = iter(_table(index, unread, some)) if unread else iter(())
    if some is not None:  # lines of some rows only are not cached
        return [next(lines) if one.line is None else one.line.take(some.rows) for one in postings]
    index.count_cached(len(unread) * index.rows)
    for one in unread:
        one.line = next(lines)
    return [one.line for one in postings if one.line is not None]


def _table(index: ShelfIndex, postings: list[TermPostings], some: Subset | None) -> Numbers:
    """Return the lines of some terms as a table."""
    context, lines = index.context, len(postings)
    narrow = some if some is not None and some.is_narrow else None
    width = 1 + (index.rows if narrow is None else len(narrow))
    lending = _evidence(index, postings) if narrow is None else narrow.evidence(index, postings)
    sizes = [len(one.rows) for one in lending]
    rows, text, field = (np.concatenate(parts) for parts in zip(*lending, strict=True))
    # Each line of the table has a place for every row, and a last one for missing neighbours.
    places = context.beside.take(rows, axis=1)
    if narrow is not None:
        places = narrow.places(places).astype(np.intp)
    places += np.arange(0, lines * width, width).repeat(sizes)
    lent = context.words.take(rows, axis=1)
    lent *= text
    # Terms of metadata fields count for the row itself only.
    lent[4] += field
    table = np.bincount(places.ravel(), lent.ravel(), lines * width).astype(np.float64, copy=False)
    table = table.reshape(lines, width)
    # Every row lends to its neighbours, but only some rows are added up.
    table = table[:, :-1] if some is None or narrow is not None else table.take(some.rows, axis=1)
    if context.of_thread is None:
        table += 1
        return table
    of_thread = _most_in_threads(index, _evidence(index, postings), narrow) * context.of_thread
    of_thread += 1
    table += of_thread.take(context.thread if some is None else context.thread.take(some.rows), axis=1)
    return table


def _most_in_threads(index: ShelfIndex, found: list[Evidence], some: Subset | None) -> Numbers:
    """Return the greatest evidence for each term (a line) in each thread; with some rows, in their threads alone."""
    thread, threads = index.context.thread, index.threads.count
    if some is not None:
        wanted = np.zeros(threads, np.bool_)
        wanted[thread.take(some.rows)] = True
        found = [one.only(wanted.take(thread.take(one.rows)).nonzero()[0]) for one in found]
    owners = thread.take(np.concatenate([one.rows for one in found]))
    owners += np.arange(0, len(found) * threads, threads).repeat([len(one.rows) for one in found])
    most = np.zeros(len(found) * threads, np.float32)
    np.maximum.at(most, owners, np.concatenate([one.text for one in found]))
    return most.reshape(len(found), threads)
