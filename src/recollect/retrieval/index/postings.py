"""Words of entries in, and for each word the entries that hold it out.

A posting is one number: the row, whether the row's metadata say the word, and how often its text does. A word has one
posting for a row at most, and its postings ascend.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.retrieval.analysis.analysed import Analysed

_COUNT_BITS = 8
_ROW_SHIFT = _COUNT_BITS + 1
_POSTING_BITS = 39
_MOST = (1 << _COUNT_BITS) - 1
LABEL = 1 << _COUNT_BITS
"""Set in a posting of which the row's metadata say the word."""

_Packed = NDArray[np.uint64]
# Below so many rows, a loop over words is quicker than sorting them.
_WORTH_SORTING = 32
_BYTES_OF_A_WORD = 200


class _Numbers(dict[str, int]):
    """The number of each word; a new word gets the next one when it is looked up."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class Postings:
    """The postings of every word. Rows are numbered by the owner, who adds them in ascending order."""

    def __init__(self) -> None:
        """Start without words."""
        self._number_of = _Numbers()
        self._postings: list[array[int]] = []
        self._letters: set[str] = set()

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        held = sum(len(postings) for postings in self._postings) * 8
        return held + len(self._postings) * _BYTES_OF_A_WORD + sys.getsizeof(self._number_of)

    @property
    def letters(self) -> set[str]:
        """Every letter that any word has."""
        return self._letters

    def known(self, words: Set[str]) -> Set[str]:
        """Return those of some words that any row ever held."""
        return self._number_of.keys() & words

    def add(self, first: int, texts: Sequence[Analysed], labels: Sequence[frozenset[str]]) -> None:
        """Add rows from `first` on: the words of their texts, and those of what their metadata say."""
        if len(texts) < _WORTH_SORTING:
            for row, (text, said) in enumerate(zip(texts, labels, strict=True), start=first):
                self._add_row(row, text.terms.split(" ") if text.terms else [], text.counts, said)
        else:
            self._add_sorted(first, texts, labels)

    def find(self, words: Iterable[str]) -> _Packed:
        """Return the postings of a term, ascending: those of one word, or of several that stand for the same."""
        numbers = [number for number in map(self._number_of.get, words) if number is not None]
        if len(numbers) == 1:
            return np.array(self._postings[numbers[0]], np.uint64)
        if not numbers:
            return np.empty(0, np.uint64)
        return _merged(np.sort(np.concatenate([np.array(self._postings[number], np.uint64) for number in numbers])))

    def keep(self, renumbered: NDArray[np.int64]) -> None:
        """Give each row its new number; a row whose new number is -1 is dropped, with words that nothing holds."""
        sizes = np.fromiter(map(len, self._postings), np.int64, len(self._postings))
        packed = np.frombuffer(b"".join(self._postings), np.uint64)
        moved = renumbered[(packed >> np.uint64(_ROW_SHIFT)).astype(np.int64)]
        held = moved >= 0
        numbers = np.repeat(np.arange(len(sizes)), sizes)[held]
        rest = packed[held] & np.uint64((1 << _ROW_SHIFT) - 1)
        packed = (moved[held].astype(np.uint64) << np.uint64(_ROW_SHIFT)) | rest
        names = list(self._number_of)
        used, renamed = np.unique(numbers, return_inverse=True)
        self._number_of = _Numbers((names[number], place) for place, number in enumerate(map(int, used)))
        self._letters = set("".join(self._number_of))
        self._postings = [array("Q") for _ in used]
        self._spread(renamed.astype(np.uint64), packed)

    def _add_row(self, row: int, words: list[str], counts: bytes, labels: frozenset[str]) -> None:
        place = row << _ROW_SHIFT
        for word, count in zip(words, counts, strict=True):
            self._of(word).append(place | count | LABEL if word in labels else place | count)
        for word in labels.difference(words):
            self._of(word).append(place | LABEL)

    def _of(self, word: str) -> array[int]:
        number = self._number_of[word]
        if number == len(self._postings):
            self._postings.append(array("Q"))
            self._letters.update(word)
        return self._postings[number]

    def _add_sorted(self, first: int, texts: Sequence[Analysed], labels: Sequence[frozenset[str]]) -> None:
        # One list of words for all rows: a list for each would cost more than all the rest.
        words = " ".join([text.terms for text in texts if text.terms]).split()
        held = len(words)
        words += [word for said in labels for word in said]
        sizes = [*(len(text.counts) for text in texts), *map(len, labels)]
        rows = np.arange(first, first + len(texts), dtype=np.uint64)
        owners = np.repeat(np.concatenate((rows, rows)), sizes)
        known = len(self._number_of)
        numbers = np.fromiter(map(self._number_of.__getitem__, words), np.uint64, len(words))
        if len(self._number_of) > known:
            self._letters.update("".join(list(self._number_of)[known:]))
            self._postings += [array("Q") for _ in range(len(self._number_of) - known)]
        low = np.full(len(words), LABEL, np.uint64)
        low[:held] = np.frombuffer(b"".join([text.counts for text in texts]), np.uint8)
        # One sort of plain numbers puts the words together and the rows of each in order.
        keys = np.sort((numbers << np.uint64(_POSTING_BITS)) | (owners << np.uint64(_ROW_SHIFT)) | low)
        # A word that text and metadata of a row both have came twice: first with its count, then with the label.
        places = keys >> np.uint64(_ROW_SHIFT)
        both = np.flatnonzero(places[1:] == places[:-1])
        keys[both] |= np.uint64(LABEL)
        keys = np.delete(keys, both + 1)
        self._spread(keys >> np.uint64(_POSTING_BITS), keys & np.uint64((1 << _POSTING_BITS) - 1))

    def _spread(self, numbers: _Packed, packed: _Packed) -> None:
        """Add postings, sorted by the numbers of their words, each to its word."""
        if not len(numbers):
            return
        starts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
        ends = [*map(int, starts[1:]), len(numbers)]
        raw = memoryview(packed.tobytes())
        postings = self._postings
        for number, start, end in zip(map(int, numbers[starts]), map(int, starts), ends, strict=True):
            postings[number].frombytes(raw[start * 8 : end * 8])


def unpack_postings(packed: _Packed) -> tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.float32]]:
    """Return the rows of postings, how often the text of each has the word, and 1 where its metadata say it."""
    counts = (packed & np.uint64(_MOST)).astype(np.float32)
    labels = (packed & np.uint64(LABEL)).astype(np.float32) * np.float32(1 / LABEL)
    return (packed >> np.uint64(_ROW_SHIFT)).astype(np.intp), counts, labels


def _merged(packed: NDArray[Any]) -> NDArray[Any]:
    """Return sorted postings with those of the same row made one: the counts added up, a label where one has it."""
    places = packed >> np.uint64(_ROW_SHIFT)
    first = np.concatenate(([True], places[1:] != places[:-1])) if len(places) else np.empty(0, np.bool_)
    if first.all():
        return packed
    starts = np.flatnonzero(first)
    counts = np.minimum(np.add.reduceat(packed & np.uint64(_MOST), starts), np.uint64(_MOST))
    labels = np.bitwise_or.reduceat(packed & np.uint64(LABEL), starts)
    return (places[starts] << np.uint64(_ROW_SHIFT)) | labels | counts
