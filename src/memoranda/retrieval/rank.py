"""A prepared query, its vector and a shelf in; the entries that answer it best out, each with its reasons.

The order is by a sum of parts. Each is worth nothing where what it is made of is missing, so entries without threads,
actors or times are ranked by words and vectors alone.

- **coverage**: the query's words that the entry has, each by its rarity and with a limit to how much one word brings.
- **context**: the same with the words of its neighbours in the thread. The evidence is added up word by word before
  it is limited, so neighbours that have *other* words of the query bring more than those that repeat one.
- **dense**: how near the vectors are, of the entry and a little of its neighbours, compared with the whole shelf.
- **actor**, **date**: the query names an actor, a year, a month, and the entry is of that.
- **answer**: the query asks for a time, a number or a name, and the text has one.
- **question**: the text itself asks, so it tells little. **information**: it has many different words.
"""

from __future__ import annotations

import math
from itertools import accumulate, repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.model.collection import Calibration
from memoranda.model.recall import Mode, Why
from memoranda.retrieval.analysis.query import Expects
from memoranda.retrieval.calibration import combine, log_odds, relevance
from memoranda.retrieval.coverage import cover
from memoranda.retrieval.filter import Filter
from memoranda.retrieval.index.labels import NOBODY
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.index.vectors import reached_by
from memoranda.retrieval.prepare import Prepared

# Weights are relative to coverage, which runs from 0 to 2. Any of them may be halved or doubled without much harm, as
# long as neighbours count for much altogether.
_COVERAGE = 2.0
_DENSE = 0.10
_ACTOR = 0.15
_DATE = 0.40
_ANSWER = 0.35
_QUESTION = -0.15
_INFORMATION = 0.30

# Cosines spread about this much where too few entries tell how much they do.
_USUAL_SPREAD, _ENTRIES_BEFORE_SPREAD = 0.12, 20

# How many digits of an amount are told.
_SHOWN = 6
# Totals that agree to so many digits are equal, and then the older entry comes first: matrix products of equal rows
# differ beyond.
_DIGITS = 5
_WITHIN_ROUNDING = 1.1 * 10**-_DIGITS

Numbers = NDArray[np.floating[Any]]
Places = NDArray[np.intp]
Mask = NDArray[np.bool_]

_NO_ROWS: Places = np.empty(0, np.intp)

# Plain numbers: to combine flags takes longer than to compare all signs of a shelf.
_SEEN, _NAME = int(Expects.TEMPORAL | Expects.NUMERAL), int(Expects.NAME)


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """One entry at its place in the order, by its sequence; `before` and `after` are its neighbours in the thread."""

    sequence: int
    score: float
    why: Why
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


def rank(
    index: ShelfIndex,
    prepared: Prepared,
    vector: Numbers | None,
    *,
    mode: Mode,
    now: int,
    limit: int,
    calibration: Calibration,
    where: Filter | None = None,
    threshold: float = 0.0,
    expand: int = 0,
) -> list[Ranked]:
    """Return the entries that answer a query best, at most `limit`, none with a score below the threshold.

    Only entries that fulfil the filter are found, but others lend them context. Without a vector nothing is found by
    meaning. The mode `semantic` finds by nothing else; `keyword` finds only entries that hold a word of the query.
    """
    with index.lock:
        index.expire(now)
        eligible = _eligible(index, where)
        if limit <= 0 or not len(index):
            return []
        if mode == "semantic":
            order = _by_vector(index, vector, eligible, limit, calibration)
        else:
            order = _by_parts(index, prepared, vector, eligible, limit, calibration, mode)
        sequence: NDArray[np.int64] = index.sequence
        ranked: list[Ranked] = []
        for row, score, why in order:
            if score < threshold:
                break
            number = int(sequence[row])
            if not expand:
                ranked.append(Ranked(sequence=number, score=score, why=why))
                continue
            before, after = (tuple(sequence[rows].tolist()) for rows in index.threads.around(row, expand))
            ranked.append(Ranked(sequence=number, score=score, why=why, before=before, after=after))
        return ranked


_Order = list[tuple[int, float, Why]]


def _eligible(index: ShelfIndex, where: Filter | None) -> Mask | None:
    """Return which rows can be found, None for all."""
    if where is None:
        return index.present
    mask = index.columns.mask(where)
    return mask if index.present is None else mask & index.present


def _by_vector(
    index: ShelfIndex, vector: Numbers | None, eligible: Mask | None, limit: int, calibration: Calibration
) -> _Order:
    """Return the nearest rows."""
    if vector is None:
        return []
    rows, cosines = index.vectors.top(vector, limit, eligible)
    relevances = relevance(cosines.astype(np.float64), calibration)
    return [
        (row, near, Why(mode="semantic", relevance=near, total=cosine, parts={"dense": cosine}, cosine=cosine))
        for row, near, cosine in zip(rows.tolist(), relevances.tolist(), cosines.tolist(), strict=True)
    ]


def _by_parts(
    index: ShelfIndex,
    prepared: Prepared,
    vector: Numbers | None,
    eligible: Mask | None,
    limit: int,
    calibration: Calibration,
    mode: Mode,
) -> _Order:
    """Return the rows with the highest totals."""
    coverage = cover(index, prepared.terms)
    held = coverage.held
    parts, cosines = ([], None) if mode == "keyword" else _beside_words(index, prepared, vector)
    if mode == "keyword":
        holds = held > 0
        eligible = holds if eligible is None else eligible & holds
    # Neighbours had to be looked at whether they are eligible or not; from here on only those that are count.
    found = None if eligible is None else eligible.nonzero()[0]
    whole = coverage.whole(index, found)
    if found is not None:
        held = held.take(found)
        parts = [part._replace(amounts=part.amounts.take(found)) for part in parts]
        cosines = None if cosines is None else cosines.take(found)
    amounts = _weighted(parts, len(whole))
    totals = _COVERAGE * whole
    totals += np.add.reduce(amounts, axis=0)
    best, behind = _best(totals, held.copy() if cosines is None else log_odds(cosines, held, calibration), limit)
    if not len(best):
        return []
    # The one behind counts for its relevance alone: no score is below it.
    looked_at = np.concatenate((best, behind))
    near, lexical = None, held.take(looked_at)
    relevances = lexical
    if cosines is not None:
        near = cosines.take(looked_at)
        relevances = combine(relevance(near, calibration), lexical)
    rows = best if found is None else found.take(best)
    own, matched = coverage.own(rows)
    names = ["coverage", "context", *(part.name for part in parts)]
    details = zip(
        _told(whole.take(best), own, amounts.take(best, axis=1)),
        relevances.tolist(),
        repeat(None) if near is None else near.tolist(),
        lexical.tolist(),
        matched,
        strict=False,
    )
    reasons = [
        Why(
            mode=mode,
            relevance=relevant,
            total=math.fsum(told),
            parts={name: amount for name, amount in zip(names, told, strict=True) if amount},
            cosine=cosine,
            lexical=shared,
            matched=words,
            corrected=prepared.corrected,
        )
        for told, relevant, cosine, shared, words in details
    ]
    return list(zip(rows.tolist(), _scores(relevances.tolist()), reasons, strict=False))


class _Part(NamedTuple):
    """Something that counts in a total."""

    name: str
    amounts: Numbers | Mask
    """By row."""
    weight: float


def _beside_words(index: ShelfIndex, prepared: Prepared, vector: Numbers | None) -> tuple[list[_Part], Numbers | None]:
    """Return what counts beside the words of a query, and the cosine of each row where vectors are compared."""
    parts = _priors(index, prepared)
    if vector is None:
        return parts, None
    cosines = index.vectors.product(vector)
    return [*parts, _dense(index, cosines)], cosines


def _weighted(parts: list[_Part], rows: int) -> Numbers:
    """Return what each part (a line) brings to each row."""
    amounts = np.empty((len(parts), rows), np.float32)
    for line, part in zip(amounts, parts, strict=True):
        np.multiply(part.amounts, np.float32(part.weight), out=line)
    return amounts


def _best(totals: Numbers, strength: Numbers, limit: int) -> tuple[Places, Places]:
    """Return the places of the highest totals, best first and then older first.

    Besides, of the rest the place of the greatest strength: none, or one. The others lose theirs.
    """
    if limit >= len(totals):
        return (-totals.round(_DIGITS)).argsort(kind="stable"), _NO_ROWS
    leading = (totals >= reached_by(totals, limit) - _WITHIN_ROUNDING).nonzero()[0]
    order = leading.take((-totals.take(leading).round(_DIGITS)).argsort(kind="stable")[:limit])
    strength[order] = -np.inf
    return order, np.array([strength.argmax()])


def _scores(relevances: list[float]) -> list[float]:
    """Return for each relevance the highest of it and all after it."""
    return list(accumulate(reversed(relevances), max))[::-1]


def _told(whole: Numbers, own: list[float], others: Numbers) -> list[list[float]]:
    """Return for each of some rows what each part brings, as it is told: by coverage, by context and by the others."""
    amounts = np.empty((2 + len(others), len(own)))
    amounts[0] = own
    np.subtract(whole, amounts[0], out=amounts[1])
    amounts[:2] *= _COVERAGE
    amounts[2:] = others
    return amounts.round(_SHOWN).T.tolist()


def _dense(index: ShelfIndex, cosines: Numbers) -> _Part:
    """Return how near each row is with its neighbours, in standard deviations from the middle of the shelf."""
    context, entries = index.context, len(index)
    # The last place is for neighbours that are not there: they are as near as the middle.
    near = np.empty(index.rows + 1, np.float32)
    own = near[:-1]
    np.subtract(cosines, np.add.reduce(_of_present(index, cosines)) / np.float32(entries), out=own)
    near[-1] = 0
    of_neighbours = near.take(context.beside[:4])
    of_neighbours *= context.sense
    together = np.add.reduce(of_neighbours, axis=0)
    together += own
    seen = _of_present(index, together)
    middle = float(np.add.reduce(seen)) / entries
    variance = max(float(np.add.reduce(seen * seen)) / entries - middle * middle, 0.0)
    spread = (entries * variance + _ENTRIES_BEFORE_SPREAD * _USUAL_SPREAD**2) / (entries + _ENTRIES_BEFORE_SPREAD)
    together -= np.float32(middle)
    return _Part("dense", together, _DENSE / math.sqrt(spread))


def _of_present(index: ShelfIndex, numbers: Numbers) -> Numbers:
    return numbers if index.present is None else numbers[index.present]


def _priors(index: ShelfIndex, prepared: Prepared) -> list[_Part]:
    """Return the parts that look at what an entry is and not at what it says."""
    query, context = prepared.query, index.context
    parts = [_Part("question", context.asks, _QUESTION), _Part("information", context.informs, _INFORMATION)]
    actor = index.labels.named([stem for term in prepared.terms for stem in term.stems])
    if actor != NOBODY:
        parts.append(_Part("actor", index.labels.actor == actor, _ACTOR))
    if query.years or query.months:
        parts.append(_Part("date", _dated(index, query.years, query.months), _DATE))
    if query.expects:
        parts.append(_Part("answer", _answering(index, query.expects), _ANSWER))
    return parts


def _dated(index: ShelfIndex, years: frozenset[int], months: frozenset[int]) -> Mask:
    """Return which rows are of one of the years and one of the months; of any where none is asked for."""
    dated = index.labels.year != 0
    for column, asked in ((index.labels.year, years), (index.labels.month, months)):
        if asked:
            dated &= np.logical_or.reduce([column == one for one in asked])
    return dated


def _answering(index: ShelfIndex, expects: int) -> Numbers | Mask:
    """Return how far each text has what a query asks for, from 0 to 1."""
    # The same bits say what a query expects and what a text has.
    answering = (index.signs & np.uint8(expects & _SEEN)) != 0
    if expects & _NAME:
        return np.maximum(_WITH_NAMES.take(index.names, mode="clip"), answering)
    return answering


# How far a text with no name, with one, and with two or more has one.
_WITH_NAMES = np.minimum(np.log1p(np.arange(3, dtype=np.float32)), 1)
