"""A shelf in, what its rows lend each other and are by themselves out: arrays that no query changes.

They are made when they are first asked for after a change, in a few passes over all rows, which is less than any
recall takes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.analysis.analysed import Signs
from memoranda.retrieval.index.threads import NOBODY, Threads

Places = NDArray[np.intp]
Numbers = NDArray[np.floating[Any]]

# What an entry takes of the one before it, and more if that one asked something: the answer comes next.
_OF_PREVIOUS, _OF_A_QUESTION = 0.4, 0.4
_OF_NEXT = 0.3
_OF_SECOND_PREVIOUS = 0.2
_WORDS_OF_SECOND_NEXT, _SENSE_OF_SECOND_NEXT = 0.2, 0.1
_WORDS_OF_THREAD = 0.1

# How often a word has to occur to bring most of what it can, and how much more often it has to in a longer text.
_SATURATION, _BY_LENGTH = 0.9, 0.4


class Context(NamedTuple):
    """By row, except where it says by thread."""

    beside: Places
    """The previous row in the thread, the next one, the second previous and the second next, and the row itself: five
    lines. One that is not there is the row after the last."""
    words: Numbers
    """How much of its words the row lends to each of the five."""
    sense: Numbers
    """How much of the meaning of the first four the row takes."""
    thread: Places
    of_thread: Numbers | None
    """By thread: how much of the words of the whole thread its rows take. None where no declared thread has several."""
    patience: Numbers
    """How often the row's text has to have a word for half of what it can bring."""
    asks: Numbers
    """1 where the text asks, 0 where it tells."""
    informs: Numbers
    """How much the text tells, by its different words: from 0 to 1, and one half for the usual number."""

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return sum(array.nbytes for array in self if array is not None)


def read_context(
    threads: Threads, *, signs: NDArray[np.uint8], lengths: NDArray[np.int64], distinct: NDArray[np.int64], entries: int
) -> Context:
    """Return the context of rows; `lengths` and `distinct` are 0 where a row is gone."""
    previous, following, thread = threads.previous, threads.next, threads.thread.astype(np.intp)
    beside = np.empty((5, len(thread)), np.intp)
    beside[0], beside[1], beside[4] = previous, following, np.arange(len(thread))
    beside[2] = np.where(previous == NOBODY, NOBODY, previous[previous])
    beside[3] = np.where(following == NOBODY, NOBODY, following[following])
    beside[beside == NOBODY] = len(thread)
    # A thread of one entry, which follows nobody, has no words to lend but that entry's own.
    trusts, lends = threads.trust(), np.zeros(threads.count, np.bool_)
    lends[thread[previous != NOBODY]] = True
    lends &= threads.declared
    trust = trusts[thread]
    asks = ((signs & np.uint8(Signs.QUESTION)) != 0).astype(np.float32)
    of_this = trust * (np.float32(_OF_PREVIOUS) + np.float32(_OF_A_QUESTION) * asks)
    words = np.empty((5, len(thread)), np.float32)
    words[0], words[1] = trust * np.float32(_OF_NEXT), of_this
    words[2], words[3] = trust * np.float32(_WORDS_OF_SECOND_NEXT), trust * np.float32(_OF_SECOND_PREVIOUS)
    words[4] = 1
    sense = np.empty((4, len(thread)), np.float32)
    # Rows of one thread are trusted alike, so what the previous one gives is what this one takes.
    sense[0], sense[1] = of_this[previous], trust * np.float32(_OF_NEXT)
    sense[2], sense[3] = trust * np.float32(_OF_SECOND_PREVIOUS), trust * np.float32(_SENSE_OF_SECOND_NEXT)
    usual_length, usual_distinct = lengths.sum() / max(entries, 1), distinct.sum() / max(entries, 1)
    relative = lengths.astype(np.float32) / np.float32(max(usual_length, 1.0))
    different = distinct.astype(np.float32)
    return Context(
        beside=beside,
        words=words,
        sense=sense,
        thread=thread,
        of_thread=trusts * lends * np.float64(_WORDS_OF_THREAD) if lends.any() else None,
        patience=np.float32(_SATURATION) * (np.float32(1 - _BY_LENGTH) + np.float32(_BY_LENGTH) * relative),
        asks=asks,
        informs=different / (different + np.float32(max(usual_distinct, 1.0))),
    )


def evidence_of(counts: Numbers, patience: Numbers) -> Numbers:
    """Return how much texts that have a word so often speak for it: each occurrence less than the one before."""
    return counts * np.float32(1 + _SATURATION) / (counts + patience)
