"""The inverted index: for each word the postings of the rows that contain it.

A posting is one integer: the row, whether a metadata field of the row contains the word, and the word's count in the
text. A word has at most one posting per row, in ascending order. Postings of many new rows are sorted together, when
they are first needed.

Beside them are the words of each row's text, by their numbers: what a row says is read without looking at every word.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.analysis.analyser import Analysis
from memoranda.retrieval.index.columns import GrowingArray
from memoranda.retrieval.index.segment import Contents, Names, Segment

_COUNT_BITS = 8
_ROW_SHIFT = _COUNT_BITS + 1
_POSTING_BITS = 39
_POSTING = (1 << _POSTING_BITS) - 1
_MOST = (1 << _COUNT_BITS) - 1
FIELD = 1 << _COUNT_BITS
"""Set in a posting if a metadata field of the row contains the word."""

_Packed = NDArray[np.uint64]
T = TypeVar("T", bound=Hashable)
# With fewer rows, a loop over words is faster than sorting.
_WORTH_SORTING = 32
# New postings are merged with the old ones once they are a quarter as many: until then each is appended to its word.
_WORTH_MERGING = 4
_PORTION = 65_536
_BYTES_OF_A_WORD, _BYTES_OF_AN_ARRAY = 90, 180


class _Numbers(dict[T, int]):
    """Consecutive numbers for things; a new thing gets the next number when it is looked up."""

    def __missing__(self, thing: T) -> int:
        number = self[thing] = len(self)
        return number

    def of(self, things: Sequence[T]) -> _Packed:
        return np.fromiter(map(self.__getitem__, things), np.uint64, len(things))


class _Words(_Numbers[str]):
    """The number of each word; those of a segment are looked up there when they are first needed."""

    def __init__(self, sealed: Names | None = None) -> None:
        super().__init__()
        self._sealed = sealed
        self.count = 0 if sealed is None else len(sealed)
        """The number of all words."""
        self.new: list[str] = []
        """Those that are not in the segment, in the order of their numbers."""

    def __missing__(self, thing: str) -> int:
        number = None if self._sealed is None else self._sealed.find(thing.encode())
        if number is None:
            number = self.count
            self.count += 1
            self.new.append(thing)
        self[thing] = number
        return number

    def find(self, word: str) -> int | None:
        """Return the number of a word, None if there is no such word."""
        number = self.get(word)
        if number is None and self._sealed is not None:
            number = self._sealed.find(word.encode())
            if number is not None:
                self[word] = number
        return number

    def known(self, words: Set[str]) -> Set[str]:
        """Return those of these words that there are."""
        if self._sealed is None:
            return self.keys() & words
        asked = list(words)
        sealed = self._sealed.find_all(word.encode() for word in asked)
        return {word for word, number in zip(asked, sealed, strict=True) if number is not None or word in self}

    def all(self) -> list[str]:
        """Return all words in the order of their numbers."""
        sealed = [] if self._sealed is None else [word.decode() for word in self._sealed]
        return sealed + self.new


class Postings:
    """The postings of every word. Rows are numbered by the owner, who adds them in ascending order."""

    def __init__(self) -> None:
        """Create an index without words."""
        self._number_of = _Words()
        self._mapped = False
        """Whether the sorted postings are those of a segment."""
        self._sorted: _Packed = np.empty(0, np.uint64)
        """The postings of all words, word by word."""
        self._starts: NDArray[np.intp] = np.zeros(1, np.intp)
        """Where the postings of each word start in `_sorted`, and the end."""
        self._later: defaultdict[int, array[int]] = defaultdict(_nothing)
        """The postings of later rows, by word."""
        self._unsorted: list[_Packed] = []
        """The postings of still later rows, with the number of the word in the high bits."""
        self._letters: set[str] = set()
        self._said = GrowingArray(np.uint32)
        """The numbers of the words in the texts of all rows, row by row."""
        self._ends = GrowingArray(np.int64)
        """Where those of each row end."""

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        later = sum(map(len, self._later.values())) * 8 + len(self._later) * _BYTES_OF_AN_ARRAY
        later += self._said.nbytes + self._ends.nbytes
        arrays = self._unsorted if self._mapped else (self._sorted, self._starts, *self._unsorted)
        words = len(self._number_of) * _BYTES_OF_A_WORD + sys.getsizeof(self._number_of)
        return later + sum(each.nbytes for each in arrays) + words

    @property
    def letters(self) -> set[str]:
        """All letters of all words."""
        return self._letters

    def vocabulary(self, words: Set[str]) -> Set[str]:
        """Return those of these words that any row ever contained."""
        return self._number_of.known(words)

    def save(self, contents: Contents) -> None:
        """Put the postings into a segment."""
        self._sort()
        words = self._number_of.all()
        contents.values["letters"] = "".join(sorted(self._letters))
        if self._later:
            keys = self._all()
            contents.later.append(lambda contents: _put_sorted(contents, np.sort(keys), len(words)))
        else:
            # A word may have got its number and no posting yet.
            rest = np.full(len(words) + 1 - len(self._starts), self._starts[-1])
            contents.arrays["postings"] = self._sorted
            contents.arrays["postings.starts"] = np.concatenate((self._starts, rest)) if len(rest) else self._starts
        contents.later.append(lambda contents: contents.add_names("words", [word.encode() for word in words]))
        contents.add_rows("said", self._said.rows)
        contents.add_rows("said.ends", self._ends.rows)

    def blocks(self) -> Iterator[tuple[str, bytes]]:
        """Yield each word with its postings, packed into four bytes each: there are not too many rows for that."""
        self._sort()
        for number, word in enumerate(self._number_of.all()):
            postings = self._of(number)
            if len(postings):
                yield word, postings.astype("<u4").tobytes()

    def load(self, segment: Segment) -> None:
        """Continue the postings of a segment."""
        self._number_of = _Words(segment.names("words"))
        self._sorted, self._starts = segment.array("postings"), segment.array("postings.starts")
        self._mapped = True
        self._letters = set(segment.values["letters"])
        self._said.start_from(segment, "said")
        self._ends.start_from(segment, "said.ends")

    @property
    def words(self) -> int:
        """How many words there are."""
        return self._number_of.count

    def said(self, rows: NDArray[np.intp] | None = None) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
        """Return the numbers of the words in the texts of rows, or of all, row by row, and how many each has."""
        ends: NDArray[np.int64] = self._ends.rows
        if rows is None:
            return self._said.rows, np.diff(ends, prepend=0)
        if len(rows) < _WORTH_SORTING:
            each = [self._said.rows[ends[row - 1] if row else 0 : ends[row]] for row in rows.tolist()]
            return np.concatenate([np.empty(0, np.uint32), *each]), np.array([len(words) for words in each], np.intp)
        starts = np.where(rows > 0, ends.take(rows - 1, mode="clip"), 0)
        sizes = ends.take(rows) - starts
        return self._said.rows.take(_ranges(starts, sizes)), sizes

    def numbers(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of these words, without those that there are not."""
        return [number for number in map(self._number_of.find, words) if number is not None]

    def frequencies(self, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many rows have each of some words, by their numbers."""
        self._sort()
        found = self._starts.take(numbers + 1, mode="clip") - self._starts.take(numbers, mode="clip")
        if self._later:
            nothing = _nothing()
            later = (len(self._later.get(number, nothing)) for number in numbers.tolist())
            found += np.fromiter(later, np.intp, len(numbers))
        return found

    def of_numbers(self, numbers: NDArray[np.integer[Any]]) -> tuple[_Packed, NDArray[np.intp]]:
        """Return the postings of words by their numbers, one word after the other, and how many each has."""
        self._sort()
        if self._later or not len(numbers):
            found = [self._of(number) for number in numbers.tolist()]
            sizes = np.fromiter(map(len, found), np.intp, len(found))
            return np.concatenate([np.empty(0, np.uint64), *found]), sizes
        starts = self._starts.take(numbers)
        sizes = self._starts.take(numbers + 1) - starts
        return self._sorted.take(_ranges(starts, sizes)), sizes

    def add(self, first: int, texts: Sequence[Analysis], *fields: Sequence[frozenset[str]]) -> None:
        """Add rows from `first` on, with the words of their texts and of their metadata fields."""
        if len(texts) < _WORTH_SORTING:
            self._sort()
            for row, (text, *values) in enumerate(zip(texts, *fields, strict=True), start=first):
                self._add_row(row, text, frozenset[str]().union(*values))
        else:
            self._add_rows(first, texts, fields)

    def find(self, words: Iterable[str]) -> _Packed:
        """Return the postings of a term in ascending order; several words are merged as synonyms."""
        self._sort()
        numbers = [number for number in map(self._number_of.find, words) if number is not None]
        if len(numbers) == 1:
            return self._of(numbers[0])
        if not numbers:
            return np.empty(0, np.uint64)
        return _merge_rows(np.sort(np.concatenate([self._of(number) for number in numbers])))

    def keep(self, renumbered: NDArray[np.int64]) -> None:
        """Renumber the rows; a row whose new number is -1 is dropped, and so are words without postings."""
        self._sort()
        keys = self._all()
        moved = renumbered[((keys & np.uint64(_POSTING)) >> np.uint64(_ROW_SHIFT)).astype(np.int64)]
        held = moved >= 0
        keys, rows = keys[held], moved[held].astype(np.uint64)
        names = self._number_of.all()
        used, numbers = np.unique(keys >> np.uint64(_POSTING_BITS), return_inverse=True)
        said, sizes = self.said(np.flatnonzero(renumbered >= 0))
        # Only rows that stay say anything, so each of their words is still used.
        self._said, self._ends = GrowingArray(np.uint32), GrowingArray(np.int64)
        self._said.extend(used.searchsorted(said))
        self._ends.extend(sizes.cumsum())
        self._number_of = _Words()
        for number in map(int, used):
            self._number_of[names[number]]  # gives it the next number
        self._letters = set("".join(self._number_of))
        keys = _keys(numbers.astype(np.uint64), rows) | (keys & np.uint64((1 << _ROW_SHIFT) - 1))
        self._replace(np.sort(keys))

    def _of(self, number: int) -> _Packed:
        later = self._later.get(number)
        if number + 1 >= len(self._starts):
            return np.array(later or _nothing(), np.uint64)
        postings = self._sorted[self._starts[number] : self._starts[number + 1]]
        return postings if later is None else np.concatenate((postings, np.array(later, np.uint64)))

    def _add_row(self, row: int, text: Analysis, fields: frozenset[str]) -> None:
        known = len(self._number_of.new)
        place = row << _ROW_SHIFT
        words = text.terms.split(" ") if text.terms else []
        numbers = [self._number_of[word] for word in words]
        self._said.extend(numbers)
        self._ends.extend([len(self._said)])
        for word, number, count in zip(words, numbers, text.counts, strict=True):
            self._later[number].append(place | count | FIELD if word in fields else place | count)
        for word in fields.difference(words):
            self._later[self._number_of[word]].append(place | FIELD)
        self._add_letters(known)

    def _add_letters(self, known: int) -> None:
        """Add the letters of all words after the first `known`."""
        self._letters.update(*self._number_of.new[known:])

    def _add_rows(self, first: int, texts: Sequence[Analysis], fields: Iterable[Sequence[frozenset[str]]]) -> None:
        known = len(self._number_of.new)
        rows = np.arange(first, first + len(texts), dtype=np.uint64)
        # One list of words for all rows: a list for each row would cost more than everything else here.
        words = " ".join([text.terms for text in texts if text.terms])
        numbers = self._number_of.of(words.split(" ") if words else [])
        sizes = np.array([len(text.counts) for text in texts], np.intp)
        self._ends.extend(len(self._said) + sizes.cumsum())
        self._said.extend(numbers)
        owners = rows.repeat(sizes)
        counts = np.frombuffer(b"".join([text.counts for text in texts]), np.uint8)
        self._unsorted.append(_keys(numbers, owners) | counts)
        for values in fields:
            # Many rows share few distinct values: the words of each are looked up once.
            distinct = _Numbers[frozenset[str]]()
            codes = distinct.of(values).astype(np.intp)
            numbers = self._number_of.of(list(chain.from_iterable(distinct)))
            sizes = np.fromiter(map(len, distinct), np.intp, len(distinct))
            places = _ranges((sizes.cumsum() - sizes)[codes], sizes[codes])
            self._unsorted.append(_keys(numbers[places], rows.repeat(sizes[codes])) | np.uint64(FIELD))
        self._add_letters(known)

    def _sort(self) -> None:
        """Sort the unsorted postings into their words."""
        if not self._unsorted:
            return
        # One sort of plain integers groups them by word and orders the rows of each.
        keys = np.concatenate(self._unsorted)
        self._unsorted.clear()
        keys.sort()
        # A word in both the text and a field of a row comes twice: first with its count, then with the field's bit.
        both = _duplicates(keys)
        if len(both):
            keys[both] |= np.uint64(FIELD)
            keys = np.delete(keys, both + 1)
        if len(keys) * _WORTH_MERGING < len(self._sorted):
            self._spread(keys)
        else:
            self._replace(np.sort(np.concatenate((self._all(), keys))) if len(self._sorted) or self._later else keys)

    def _all(self) -> _Packed:
        """Return all postings except unsorted ones, with the number of the word in the high bits, in any order."""
        numbers = np.arange(len(self._starts) - 1, dtype=np.uint64).repeat(np.diff(self._starts))
        words = np.fromiter(self._later, np.uint64, len(self._later))
        words = words.repeat(np.fromiter(map(len, self._later.values()), np.intp, len(self._later)))
        later = np.frombuffer(b"".join(self._later.values()), np.uint64)
        numbers, postings = np.concatenate((numbers, words)), np.concatenate((self._sorted, later))
        return (numbers << np.uint64(_POSTING_BITS)) | postings

    def _replace(self, keys: _Packed) -> None:
        """Replace all postings by these, which are sorted and owned by this index."""
        words = np.arange(self._number_of.count + 1, dtype=np.uint64) << np.uint64(_POSTING_BITS)
        self._starts = np.searchsorted(keys, words)
        keys &= np.uint64(_POSTING)
        self._sorted, self._mapped = keys, False
        self._later.clear()

    def _spread(self, keys: _Packed) -> None:
        """Append sorted postings to the later ones of their words."""
        numbers = keys >> np.uint64(_POSTING_BITS)
        starts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
        ends = [*map(int, starts[1:]), len(numbers)]
        raw = memoryview((keys & np.uint64(_POSTING)).tobytes())
        for number, start, end in zip(map(int, numbers[starts]), map(int, starts), ends, strict=True):
            self._later[number].frombytes(raw[start * 8 : end * 8])


def _put_sorted(contents: Contents, keys: _Packed, words: int) -> None:
    """Put sorted postings into a segment, with the number of the word in the high bits."""
    bounds = np.arange(words + 1, dtype=np.uint64) << np.uint64(_POSTING_BITS)
    contents.arrays["postings.starts"] = np.searchsorted(keys, bounds)
    keys &= np.uint64(_POSTING)
    contents.arrays["postings"] = keys


def _nothing() -> array[int]:
    return array("Q")


def _keys(numbers: _Packed, rows: _Packed) -> _Packed:
    """Return postings without counts, with the number of the word in the high bits."""
    return (numbers << np.uint64(_POSTING_BITS)) | (rows << np.uint64(_ROW_SHIFT))


def _duplicates(keys: _Packed) -> NDArray[np.intp]:
    """Return the places of sorted postings that have the same word and row as the next one."""
    found: list[NDArray[np.intp]] = []
    # In portions that stay in the processor's cache: allocating memory for all would take longer than comparing.
    for start in range(0, len(keys) - 1, _PORTION):
        portion = keys[start : start + _PORTION + 1]
        found.append(np.flatnonzero(portion[1:] ^ portion[:-1] < 1 << _ROW_SHIFT) + start)
    return np.concatenate(found) if found else np.empty(0, np.intp)


def _ranges(starts: NDArray[np.intp], sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the members of ranges, concatenated."""
    ends = sizes.cumsum()
    return np.arange(ends[-1] if len(ends) else 0) + (starts - ends + sizes).repeat(sizes)


def unpack_block(block: bytes | memoryview, rows: NDArray[np.int64]) -> _Packed:
    """Return the postings of a block, whose rows are numbered anew by these, in no particular order."""
    postings = np.frombuffer(block, "<u4")
    kept = (postings & np.uint32((1 << _ROW_SHIFT) - 1)).astype(np.uint64)
    return (rows[postings >> np.uint32(_ROW_SHIFT)].astype(np.uint64) << np.uint64(_ROW_SHIFT)) | kept


def merge_postings(parts: Sequence[_Packed]) -> _Packed:
    """Return the postings of several words, or of rows in any order, as those of one term."""
    return _merge_rows(np.sort(np.concatenate(parts))) if parts else np.empty(0, np.uint64)


def unpack_postings(packed: _Packed) -> tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.float32]]:
    """Return the rows of postings, the counts in their texts, and 1 where a metadata field contains the word."""
    counts = (packed & np.uint64(_MOST)).astype(np.float32)
    fields = (packed & np.uint64(FIELD)).astype(np.float32) * np.float32(1 / FIELD)
    return (packed >> np.uint64(_ROW_SHIFT)).astype(np.intp), counts, fields


def _merge_rows(packed: NDArray[Any]) -> NDArray[Any]:
    """Merge sorted postings of the same row: add up the counts, combine the field bits."""
    places = packed >> np.uint64(_ROW_SHIFT)
    first = np.concatenate(([True], places[1:] != places[:-1])) if len(places) else np.empty(0, np.bool_)
    if first.all():
        return packed
    starts = np.flatnonzero(first)
    counts = np.minimum(np.add.reduceat(packed & np.uint64(_MOST), starts), np.uint64(_MOST))
    fields = np.bitwise_or.reduceat(packed & np.uint64(FIELD), starts)
    return (places[starts] << np.uint64(_ROW_SHIFT)) | fields | counts


Numbers = NDArray[np.floating[Any]]
Places = NDArray[np.intp]

# Up to this many rows, a dictionary is faster than a binary search, and cheap to build.
_WORTH_A_DICTIONARY = 1_024


class TermPostings:
    """The postings of a term, with what rankings computed from them: the same terms are searched again and again.

    Valid for one state of the index, and discarded with it.
    """

    __slots__ = ("_by_row", "evidence", "frequency", "line", "postings", "size")

    def __init__(self, postings: NDArray[np.uint64]) -> None:
        """Take the postings; the rest is computed by rankings."""
        self.postings = postings
        self.size = len(postings)
        """Number of entries that contain the term."""
        self.frequency: int | None = None
        """The same, texts with the same words counted once."""
        self.evidence: Evidence | None = None
        self.line: Numbers | None = None
        """By row of the index: 1 + the evidence for the term in the row and its neighbours."""
        self._by_row: dict[int, float] | None = None

    def evidence_by_row(self, rows: Places) -> dict[int, float]:
        """Return the row's own evidence for the term, for these rows as far as they contain it, and perhaps others."""
        if self._by_row is not None:
            return self._by_row
        assert self.evidence is not None
        own, text, field = self.evidence
        if self.size <= _WORTH_A_DICTIONARY:
            self._by_row = dict(zip(own.tolist(), (text + field).tolist(), strict=True))
            return self._by_row
        places = own.searchsorted(rows)
        found = own.take(places, mode="clip") == rows
        places = places[found]
        return dict(zip(rows[found].tolist(), (text.take(places) + field.take(places)).tolist(), strict=True))


class Evidence(NamedTuple):
    """The evidence for a term in the rows that contain it."""

    rows: Places
    """In ascending order."""
    text: Numbers
    """From the text of the row, from 0 to about 2."""
    field: Numbers
    """1 where a metadata field of the row contains the term."""

    def only(self, places: Places) -> Evidence:
        """Return the evidence in some of the rows, by their places."""
        return Evidence(self.rows.take(places), self.text.take(places), self.field.take(places))
