"""The second step of a ranking: what the first results lead to.

"Who runs the firm that built the ferry?" has its answer in two entries: one says which firm built the ferry, the other,
which has no word of the ferry, who runs that firm. They have the name of the firm in common. So an entry gains where it
has a rare word that one of the best results has and the query lacks, if it says much about it, and only as far as it
covers words of the query that this result leaves open: the two are worth what they cover together.

Nothing is gained by the words that a result has covered already. In a conversation that is told in its course there is
no second step: there neighbours do what it does, and better.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.coverage import Coverage
from memoranda.retrieval.index.neighbours import text_evidence
from memoranda.retrieval.index.postings import unpack_postings
from memoranda.retrieval.index.shelf import ShelfIndex

Numbers = NDArray[np.floating[Any]]
Places = NDArray[np.intp]

# A shelf is a conversation in its course if both are at least so much.
_TALK, _COURSE = 0.5, 0.5

FIRST = 5
"""How many of the best results are followed."""

# A result is followed less the farther its total is below the best: not at all at this part of it.
_FOLLOWED_DOWN_TO = 0.5
# Words in at most this part of the entries lead on, or in so few; but never those in more than the last number.
_LEADING, _ALWAYS_LEADING, _NEVER_LEADING = 100, 3, 64
# An entry with a word once hardly says anything about it, one with it three times does: the third power of the
# evidence, which is 1 for the former, counts as half at this number.
_HALF_ABOUT = 2.0
_WEIGHT = 3.0
# A result that covers a word of the query by half leaves nothing of it open.
_MENTIONED = 2
# What a lead is worth to an entry without a word of the query, whatever it covers.
_WITHOUT_WORDS = 0.06
_LEAST = 1e-3


def has_links(index: ShelfIndex) -> bool:
    """Return whether results of this index lead to others: not in a conversation in its course.

    An index that stays in a database has its words by word, and not by row: there is no second step.
    """
    if index.is_stored:
        return False
    context = index.context
    return float(context.talk[0]) < _TALK or float(context.course[0]) < _COURSE


def find_links(index: ShelfIndex, coverage: Coverage, first: Places, totals: Numbers) -> tuple[Places, Numbers]:
    """Return the rows that the first results lead to, in ascending order, and what each gains.

    `totals` are those of the first results, the highest first.
    """
    nothing = np.empty(0, np.intp), np.empty(0, np.float32)
    if not len(first) or not coverage.terms or totals[0] <= 0:
        return nothing
    trust = 1 - (totals[0] - totals) / (totals[0] * (1 - _FOLLOWED_DOWN_TO))
    followed = trust > 0
    if not followed.all():
        first, trust = first[followed], trust[followed]
    words, result = _leading_words(index, coverage, first)
    if not len(words):
        return nothing
    packed, sizes = index.postings.of_numbers(words)
    rows, counts, _ = unpack_postings(packed)
    word = np.arange(len(words)).repeat(sizes)
    is_there = counts > 0
    if index.present is not None:
        is_there &= index.present.take(rows)
    if not is_there.all():
        rows, counts, word = rows[is_there], counts[is_there], word[is_there]
        sizes = np.bincount(word, minlength=len(words))
    entries = len(index)
    rarity = np.log1p((entries - sizes + 0.5) / (sizes + 0.5))
    rarity /= math.log1p(entries)
    rarity[(sizes < 2) | (sizes > _most(entries))] = 0
    said = text_evidence(counts, index.context.half_saturation.take(rows))
    about = rarity.take(word) * said * said * said
    is_target = np.zeros(index.rows, np.bool_)
    is_target[rows] = True
    targets = is_target.nonzero()[0]
    place = targets.searchsorted(rows)
    # Of several words that lead from one row to another, the strongest counts.
    strongest = np.zeros((len(first), len(targets)))
    np.maximum.at(strongest.ravel(), result.take(word) * len(targets) + place, about)
    strongest[first[:, np.newaxis] == targets] = 0
    covered = coverage.covered(index, np.concatenate((first, targets)))
    of_first, of_targets = covered[:, : len(first)], covered[:, len(first) :]
    share = np.array(coverage.share)
    is_open = 1 - np.minimum(_MENTIONED * of_first, 1)
    added = (share[:, np.newaxis] * is_open).T @ of_targets
    gains = strongest / (strongest + _HALF_ABOUT)
    gains *= (added + _WITHOUT_WORDS * (1 - share @ of_targets)) * (added + (share @ of_first)[:, np.newaxis])
    gains *= (_WEIGHT * trust)[:, np.newaxis]
    best = gains.max(axis=0)
    worth = best > _LEAST
    return targets[worth], best[worth].astype(np.float32)


def _most(entries: int) -> int:
    """Return in how many entries a word may be to lead on."""
    return min(max(_ALWAYS_LEADING, entries // _LEADING), _NEVER_LEADING)


def _leading_words(index: ShelfIndex, coverage: Coverage, first: Places) -> tuple[Places, Places]:
    """Return the numbers of rare words that first results have and the query lacks, and which result has each."""
    said, sizes = index.postings.said(first)
    words, result = said.astype(np.intp), np.arange(len(first)).repeat(sizes)
    # Removed rows still count here: they are left out when the postings are read.
    frequency = index.postings.frequencies(words)
    leads = (frequency > 1) & (frequency <= _most(len(index)) + index.rows - len(index))
    for number in index.postings.numbers([stem for term in coverage.terms for stem in term.stems]):
        leads &= words != number
    return words[leads], result[leads]
