"""Words of entries in, and for each word the entries that hold it out.

A posting is one number: the row, whether the row's metadata say the word, and how often its text does. A word has one
posting for a row at most, and its postings ascend. Many rows at once are sorted together when they are first asked for.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence, Set
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.analysis.analysed import Analysed

_COUNT_BITS = 8
_ROW_SHIFT = _COUNT_BITS + 1
_POSTING_BITS = 39
_POSTING = (1 << _POSTING_BITS) - 1
_MOST = (1 << _COUNT_BITS) - 1
LABEL = 1 << _COUNT_BITS
"""Set in a posting of which the row's metadata say the word."""

_Packed = NDArray[np.uint64]
T = TypeVar("T", bound=Hashable)
# Below so many rows, a loop over words is quicker than sorting them.
_WORTH_SORTING = 32
# New postings are merged with the old ones once they are one to so many of them: until then each goes to its word.
_WORTH_MERGING = 4
_PORTION = 65_536
_BYTES_OF_A_WORD, _BYTES_OF_AN_ARRAY = 90, 180


class _Numbers(dict[T, int]):
    """The number of each thing; a new one gets the next number when it is looked up."""

    def __missing__(self, thing: T) -> int:
        number = self[thing] = len(self)
        return number

    def of(self, things: Sequence[T]) -> _Packed:
        """Return the numbers of some things."""
        return np.fromiter(map(self.__getitem__, things), np.uint64, len(things))


class Postings:
    """The postings of every word. Rows are numbered by the owner, who adds them in ascending order."""

    def __init__(self) -> None:
        """Start without words."""
        self._number_of = _Numbers[str]()
        self._sorted: _Packed = np.empty(0, np.uint64)
        """The postings of all words, word after word."""
        self._starts: NDArray[np.intp] = np.zeros(1, np.intp)
        """Where in them those of each word begin, and where the last end."""
        self._later: defaultdict[int, array[int]] = defaultdict(_nothing)
        """The postings of rows that came after those, by word."""
        self._unsorted: list[_Packed] = []
        """Those of rows that came after these, each behind the number of its word."""
        self._letters: set[str] = set()

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        later = sum(map(len, self._later.values())) * 8 + len(self._later) * _BYTES_OF_AN_ARRAY
        arrays = (self._sorted, self._starts, *self._unsorted)
        words = len(self._number_of) * _BYTES_OF_A_WORD + sys.getsizeof(self._number_of)
        return later + sum(each.nbytes for each in arrays) + words

    @property
    def letters(self) -> set[str]:
        """Every letter that any word has."""
        return self._letters

    def known(self, words: Set[str]) -> Set[str]:
        """Return those of some words that any row ever held."""
        return self._number_of.keys() & words

    def add(self, first: int, texts: Sequence[Analysed], *labels: Sequence[frozenset[str]]) -> None:
        """Add rows from `first` on: the words of their texts, and those of each thing that their metadata say."""
        if len(texts) < _WORTH_SORTING:
            self._sort()
            for row, (text, *said) in enumerate(zip(texts, *labels, strict=True), start=first):
                self._add_row(row, text, frozenset[str]().union(*said))
        else:
            self._add_rows(first, texts, labels)

    def find(self, words: Iterable[str]) -> _Packed:
        """Return the postings of a term, ascending: those of one word, or of several that stand for the same."""
        self._sort()
        numbers = [number for number in map(self._number_of.get, words) if number is not None]
        if len(numbers) == 1:
            return self._of(numbers[0])
        if not numbers:
            return np.empty(0, np.uint64)
        return _merged(np.sort(np.concatenate([self._of(number) for number in numbers])))

    def keep(self, renumbered: NDArray[np.int64]) -> None:
        """Give each row its new number; a row whose new number is -1 is dropped, with words that nothing holds."""
        self._sort()
        keys = self._all()
        moved = renumbered[((keys & np.uint64(_POSTING)) >> np.uint64(_ROW_SHIFT)).astype(np.int64)]
        held = moved >= 0
        keys, rows = keys[held], moved[held].astype(np.uint64)
        names = list(self._number_of)
        used, numbers = np.unique(keys >> np.uint64(_POSTING_BITS), return_inverse=True)
        self._number_of = _Numbers[str]((names[number], place) for place, number in enumerate(map(int, used)))
        self._letters = set("".join(self._number_of))
        keys = _keys(numbers.astype(np.uint64), rows) | (keys & np.uint64((1 << _ROW_SHIFT) - 1))
        self._replace(np.sort(keys))

    def _of(self, number: int) -> _Packed:
        """Return the postings of one word."""
        later = self._later.get(number)
        if number + 1 >= len(self._starts):
            return np.array(later or _nothing(), np.uint64)
        postings = self._sorted[self._starts[number] : self._starts[number + 1]]
        return postings if later is None else np.concatenate((postings, np.array(later, np.uint64)))

    def _add_row(self, row: int, text: Analysed, labels: frozenset[str]) -> None:
        known = len(self._number_of)
        place = row << _ROW_SHIFT
        words = text.terms.split(" ") if text.terms else []
        for word, count in zip(words, text.counts, strict=True):
            self._later[self._number_of[word]].append(place | count | LABEL if word in labels else place | count)
        for word in labels.difference(words):
            self._later[self._number_of[word]].append(place | LABEL)
        self._spell(known)

    def _spell(self, known: int) -> None:
        """Note the letters of the words that came after so many."""
        self._letters.update(*islice(reversed(self._number_of), len(self._number_of) - known))

    def _add_rows(self, first: int, texts: Sequence[Analysed], labels: Iterable[Sequence[frozenset[str]]]) -> None:
        known = len(self._number_of)
        rows = np.arange(first, first + len(texts), dtype=np.uint64)
        # One list of words for all rows: a list for each would cost more than all the rest.
        words = " ".join([text.terms for text in texts if text.terms])
        numbers = self._number_of.of(words.split(" ") if words else [])
        owners = rows.repeat([len(text.counts) for text in texts])
        counts = np.frombuffer(b"".join([text.counts for text in texts]), np.uint8)
        self._unsorted.append(_keys(numbers, owners) | counts)
        for said in labels:
            # Few different things are said of many rows: the words of each are looked up once.
            distinct = _Numbers[frozenset[str]]()
            codes = distinct.of(said).astype(np.intp)
            numbers = self._number_of.of(list(chain.from_iterable(distinct)))
            sizes = np.fromiter(map(len, distinct), np.intp, len(distinct))
            places = _ranges((sizes.cumsum() - sizes)[codes], sizes[codes])
            self._unsorted.append(_keys(numbers[places], rows.repeat(sizes[codes])) | np.uint64(LABEL))
        self._spell(known)

    def _sort(self) -> None:
        """Bring the postings of many rows to their words."""
        if not self._unsorted:
            return
        # One sort of plain numbers puts the words together and the rows of each in order.
        keys = np.concatenate(self._unsorted)
        self._unsorted.clear()
        keys.sort()
        # A word that text and metadata of a row both have came twice: first with its count, then with the label.
        both = _repeated(keys)
        if len(both):
            keys[both] |= np.uint64(LABEL)
            keys = np.delete(keys, both + 1)
        if len(keys) * _WORTH_MERGING < len(self._sorted):
            self._spread(keys)
        else:
            self._replace(np.sort(np.concatenate((self._all(), keys))) if len(self._sorted) or self._later else keys)

    def _all(self) -> _Packed:
        """Return all postings but the unsorted, each behind the number of its word, in any order."""
        numbers = np.arange(len(self._starts) - 1, dtype=np.uint64).repeat(np.diff(self._starts))
        words = np.fromiter(self._later, np.uint64, len(self._later))
        words = words.repeat(np.fromiter(map(len, self._later.values()), np.intp, len(self._later)))
        later = np.frombuffer(b"".join(self._later.values()), np.uint64)
        numbers, postings = np.concatenate((numbers, words)), np.concatenate((self._sorted, later))
        return (numbers << np.uint64(_POSTING_BITS)) | postings

    def _replace(self, keys: _Packed) -> None:
        """Let these be all postings: sorted, each behind the number of its word, and nobody else's."""
        words = np.arange(len(self._number_of) + 1, dtype=np.uint64) << np.uint64(_POSTING_BITS)
        self._starts = np.searchsorted(keys, words)
        keys &= np.uint64(_POSTING)
        self._sorted = keys
        self._later.clear()

    def _spread(self, keys: _Packed) -> None:
        """Add sorted postings, each behind the number of its word, to those that came later."""
        numbers = keys >> np.uint64(_POSTING_BITS)
        starts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
        ends = [*map(int, starts[1:]), len(numbers)]
        raw = memoryview((keys & np.uint64(_POSTING)).tobytes())
        for number, start, end in zip(map(int, numbers[starts]), map(int, starts), ends, strict=True):
            self._later[number].frombytes(raw[start * 8 : end * 8])


def _nothing() -> array[int]:
    return array("Q")


def _keys(numbers: _Packed, rows: _Packed) -> _Packed:
    """Return postings with nothing but their rows, each behind the number of its word."""
    return (numbers << np.uint64(_POSTING_BITS)) | (rows << np.uint64(_ROW_SHIFT))


def _repeated(keys: _Packed) -> NDArray[np.intp]:
    """Return the places of those sorted postings that have the word and the row of the next one."""
    found: list[NDArray[np.intp]] = []
    # By portions that stay in the processor's cache: new memory for all would take longer than comparing them.
    for start in range(0, len(keys) - 1, _PORTION):
        portion = keys[start : start + _PORTION + 1]
        found.append(np.flatnonzero(portion[1:] ^ portion[:-1] < 1 << _ROW_SHIFT) + start)
    return np.concatenate(found) if found else np.empty(0, np.intp)


def _ranges(starts: NDArray[np.intp], sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the places of ranges, one range after the other."""
    ends = sizes.cumsum()
    return np.arange(ends[-1] if len(ends) else 0) + (starts - ends + sizes).repeat(sizes)


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
