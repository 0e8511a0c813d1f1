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
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from recollect.model.collection import Calibration
from recollect.model.recall import Mode, Why
from recollect.retrieval.analysis.query import Expects
from recollect.retrieval.calibration import combine, relevance
from recollect.retrieval.coverage import cover
from recollect.retrieval.filter import Filter
from recollect.retrieval.index.labels import NOBODY
from recollect.retrieval.index.shelf import ShelfIndex
from recollect.retrieval.prepare import Prepared

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

Numbers = NDArray[np.floating[Any]]
Places = NDArray[np.intp]
Mask = NDArray[np.bool_]


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
        ranked: list[Ranked] = []
        sequence = index.sequence
        for row, score, why in order:
            if score < threshold:
                break
            before, after = index.threads.around(row, expand) if expand else ((), ())
            ranked.append(
                Ranked(
                    sequence=int(sequence[row]),
                    score=score,
                    why=why,
                    before=tuple(int(sequence[one]) for one in before),
                    after=tuple(int(sequence[one]) for one in after),
                )
            )
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
    relevances, cosines = coverage.held, None
    parts: dict[str, Numbers] = {}
    if mode == "keyword":
        holds = coverage.held > 0
        eligible = holds if eligible is None else eligible & holds
    else:
        parts = _priors(index, prepared)
        if vector is not None:
            cosines = index.vectors.product(vector)
            parts["dense"] = _DENSE * _dense(index, cosines)
            relevances = combine(relevance(cosines, calibration), coverage.held)
    totals = _COVERAGE * coverage.whole
    for part in parts.values():
        totals += part
    rows, scores = _best(totals, relevances, eligible, limit)
    own, matched = coverage.own(rows)
    shown = {"coverage": _COVERAGE * own, "context": _COVERAGE * (coverage.whole[rows] - own)}
    shown |= {name: part[rows] for name, part in parts.items()}
    amounts = np.round(np.stack(list(shown.values()), axis=1, dtype=np.float64), _SHOWN)
    near = [None] * len(rows) if cosines is None else cosines[rows].tolist()
    details = zip(
        rows.tolist(),
        scores,
        amounts.tolist(),
        relevances[rows].tolist(),
        near,
        coverage.held[rows].tolist(),
        matched,
        strict=True,
    )
    order: _Order = []
    for row, score, by_part, relevant, cosine, lexical, words in details:
        why = Why(
            mode=mode,
            relevance=relevant,
            total=math.fsum(by_part),
            parts={name: amount for name, amount in zip(shown, by_part, strict=True) if amount},
            cosine=cosine,
            lexical=lexical,
            matched=words,
            corrected=prepared.corrected,
        )
        order.append((row, score, why))
    return order


def _best(totals: Numbers, relevances: Numbers, eligible: Mask | None, limit: int) -> tuple[Places, list[float]]:
    """Return the eligible rows with the highest totals, best first and then older first, and their scores.

    A score is the highest relevance of a row and of all eligible ones behind it.
    """
    found = None if eligible is None else np.flatnonzero(eligible)
    behind = relevances.copy() if found is None else relevances[found]
    if not len(behind):
        return np.empty(0, np.intp), []
    rounded = np.round(totals if found is None else totals[found], _DIGITS)
    leading = np.arange(len(rounded))
    if limit < len(rounded):
        leading = np.flatnonzero(rounded >= np.partition(rounded, len(rounded) - limit)[len(rounded) - limit])
    order = leading[np.argsort(-rounded[leading], kind="stable")][:limit]
    scores = behind[order].tolist()
    behind[order] = 0
    highest = float(behind.max())
    for place in range(len(scores) - 1, -1, -1):
        highest = scores[place] = max(scores[place], highest)
    return order if found is None else found[order], scores


def _dense(index: ShelfIndex, cosines: Numbers) -> Numbers:
    """Return how near each row is with its neighbours, in standard deviations from the middle of the shelf."""
    context, entries = index.context, len(index)
    # The last place is for neighbours that are not there: they are as near as the middle.
    near = np.zeros(index.rows + 1, np.float32)
    near[:-1] = cosines - _of_present(index, cosines).sum() / np.float32(entries)
    together = np.einsum("ij,ij->j", near.take(context.beside[:4]), context.sense)
    together += near[:-1]
    seen = _of_present(index, together)
    middle = float(seen.sum()) / entries
    variance = max(float(seen @ seen) / entries - middle * middle, 0.0)
    spread = (entries * variance + _ENTRIES_BEFORE_SPREAD * _USUAL_SPREAD**2) / (entries + _ENTRIES_BEFORE_SPREAD)
    return (together - np.float32(middle)) / np.float32(math.sqrt(spread))


def _of_present(index: ShelfIndex, numbers: Numbers) -> Numbers:
    return numbers if index.present is None else numbers[index.present]


def _priors(index: ShelfIndex, prepared: Prepared) -> dict[str, Numbers]:
    """Return the parts that look at what an entry is and not at what it says."""
    query, context = prepared.query, index.context
    parts: dict[str, Numbers] = {
        "question": context.asks * np.float32(_QUESTION),
        "information": context.informs * np.float32(_INFORMATION),
    }
    actor = index.labels.named(stem for term in prepared.terms for stem in term.stems)
    if actor != NOBODY:
        parts["actor"] = (index.labels.actor == actor) * np.float32(_ACTOR)
    if query.years or query.months:
        parts["date"] = _dated(index, query.years, query.months) * np.float32(_DATE)
    if query.expects:
        parts["answer"] = _answering(index, query.expects) * np.float32(_ANSWER)
    return parts


def _dated(index: ShelfIndex, years: frozenset[int], months: frozenset[int]) -> Mask:
    """Return which rows are of one of the years and one of the months; of any where none is asked for."""
    dated = index.labels.year != 0
    for column, asked in ((index.labels.year, years), (index.labels.month, months)):
        if asked:
            dated &= np.logical_or.reduce([column == one for one in asked])
    return dated


def _answering(index: ShelfIndex, expects: int) -> Numbers:
    """Return how far each text has what a query asks for, from 0 to 1."""
    answering = np.zeros(index.rows, np.float32)
    wanted = expects & (Expects.TEMPORAL | Expects.NUMERAL)
    if wanted:
        # The same bits say what a query expects and what a text has.
        answering[(index.signs & np.uint8(wanted)) != 0] = 1
    if expects & Expects.NAME:
        answering = np.maximum(answering, np.minimum(np.log1p(index.names.astype(np.float32)), 1))
    return answering
