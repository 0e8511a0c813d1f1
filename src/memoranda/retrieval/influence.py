"""Bound what one origin, or all that are hardly trusted, can have of the places of an answer.

An origin that writes enough that is near to every question would otherwise fill each answer. Rows are taken by rank,
but of `k` places

- a third at most, rounded up, go to rows of low trust or none, if anything that is trusted more matches;
- half at most, rounded up, go to one origin, as long as others match: a writer who is not fully trusted, or a source
  that a fully trusted one names.

A row matches if it shares a word with the query, or is near enough to it. Places that others leave are given back,
except to rows of low trust. What fully trusted writers say without naming a source is not bounded.

A crowd also makes its words frequent, and so less telling for all others. Where one is found in an answer, the query is
prepared and ranked again, with the words of the others counted alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda.model.trust import RANK_OF

Mask = NDArray[np.bool_]
Places = NDArray[np.intp]
BestOf = Callable[[NDArray[np.floating[Any]], int], Places]
"""Returns the places of the highest totals, at most a number of them, in order."""

NEAR = 0.25
"""The relevance from which something without a word of the query matches it."""

_LOW, _MEDIUM = RANK_OF["low"], RANK_OF["medium"]


class Origins(NamedTuple):
    """Where rows come from, an array of each."""

    trust: NDArray[np.int8]
    """As `RANK_OF` numbers it."""
    origin: NDArray[np.int32]
    """The same number for rows of one origin; 0 for fully trusted ones without a source."""

    def take(self, places: Places) -> Origins:
        """Return the origins of some rows."""
        return Origins(self.trust.take(places), self.origin.take(places))


class Crowd(NamedTuple):
    """Who has more than its share of an answer."""

    is_low: bool
    """Whether rows of low trust or none have, together."""
    origins: tuple[int, ...]
    """Other origins that have, by their numbers."""

    def others(self, origins: Origins) -> Mask:
        """Return which rows are not of the crowd."""
        mask = ~np.isin(origins.origin, self.origins)
        return mask & (origins.trust > _LOW) if self.is_low else mask


class _Shares:
    """The places that are left to each origin while rows are taken one after another."""

    def __init__(self, limit: int, *, is_low_bounded: bool = True) -> None:
        self._low = math.ceil(limit / 3) if is_low_bounded else limit
        self._most = math.ceil(limit / 2)
        self._of_origin: Counter[int] = Counter()

    def take(self, trust: int, origin: int) -> bool:
        """Return whether a row may have a place, and count it if so."""
        if trust <= _LOW:
            self._low -= 1
            return self._low >= 0
        self._of_origin[origin] += 1
        return not origin or self._of_origin[origin] <= self._most

    def without_full(self, origins: Origins) -> Mask:
        """Return which rows could still be taken."""
        full = [origin for origin, count in self._of_origin.items() if origin and count >= self._most]
        mask = (origins.trust <= _LOW) | ~np.isin(origins.origin, full)
        return mask if self._low > 0 else mask & (origins.trust > _LOW)


def bound_places(
    totals: NDArray[np.floating[Any]], origins: Origins, is_match: Callable[[], Mask], best_of: BestOf, limit: int
) -> Places:
    """Return the places of the best rows, at most `limit`, in order and with the shares of origins kept.

    What has a total of minus infinity is not among them.
    """
    left = np.where(is_match(), totals, -np.inf)
    is_low_bounded = bool(((origins.trust >= _MEDIUM) & (left > -np.inf)).any())
    shares = _Shares(limit, is_low_bounded=is_low_bounded)
    chosen: list[int] = []
    while len(chosen) < limit:
        some = _best_finite(left, best_of, 2 * limit)
        if not len(some):
            break
        columns = (column.tolist() for column in (some, *origins.take(some)))
        chosen += [place for place, *row in zip(*columns, strict=True) if shares.take(*row)]
        left[some] = -np.inf
        left[~shares.without_full(origins)] = -np.inf
    taken = np.array(chosen[:limit], np.intp)
    if len(taken) < limit:  # places that are left go to what was passed over
        rest = totals.copy()
        rest[taken] = -np.inf
        if is_low_bounded:
            rest[origins.trust <= _LOW] = -np.inf
        taken = np.concatenate((taken, _best_finite(rest, best_of, limit - len(taken))))
    of_taken = np.full(len(totals), -np.inf)
    of_taken[taken] = totals[taken]
    return _best_finite(of_taken, best_of, len(taken))


def bound_list(rows: Sequence[tuple[int, Hashable]], is_match: Sequence[bool], limit: int) -> list[int]:
    """Return the places of the best of some rows, which are in order, each with its trust and its origin.

    The origin of a fully trusted writer without a source is empty.
    """
    numbers: dict[Hashable, int] = {(): 0}
    trust = np.array([row[0] for row in rows], np.int8)
    origin = np.array([numbers.setdefault(row[1], len(numbers)) for row in rows], np.int32)
    origins = Origins(trust, origin)
    totals = -np.arange(len(rows), dtype=np.float64)

    def best_of(left: NDArray[np.floating[Any]], limit: int) -> Places:
        return (-left).argsort(kind="stable")[:limit]

    return bound_places(totals, origins, lambda: np.array(is_match, np.bool_), best_of, limit).tolist()


def crowd_of(rows: Sequence[tuple[int, int]], limit: int) -> Crowd | None:
    """Return who has more than its share of an answer, by the trust and the origin of its rows; None if no one has."""
    shares = _Shares(limit)
    over = [(trust, origin) for trust, origin in rows if not shares.take(trust, origin)]
    if not over:
        return None
    return Crowd(any(trust <= _LOW for trust, _ in over), tuple({origin for trust, origin in over if trust > _LOW}))


def _best_finite(totals: NDArray[np.floating[Any]], best_of: BestOf, limit: int) -> Places:
    """Return the best of the rows that are left; sorting those that are not would take long."""
    count = int(np.count_nonzero(totals > -np.inf))
    best = best_of(totals, min(limit, count)) if count else np.empty(0, np.intp)
    return best[totals.take(best) > -np.inf]
