"""The index of one shelf in memory, so that a recall reads arrays and not the disk.

A shelf is an index partition: the entries of one scope, collection and namespace. The index is derived from entries and
updated incrementally: adding or removing one touches that entry, its words and its neighbours. Rows are numbered by
arrival; a removed or expired row lends nothing to others, and is dropped when there are enough of them.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import islice
from operator import length_hint
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.errors import Corrupt
from memoranda.model.entry import Indexed
from memoranda.model.trust import RANK_OF, TRUSTED, origin_for_index
from memoranda.retrieval.analysis.analyser import Analysis, unpack, unpack_all
from memoranda.retrieval.analysis.languages import TERMS_PER_WORD
from memoranda.retrieval.filter import Filter
from memoranda.retrieval.index.columns import Columns, Fields, GrowingArray
from memoranda.retrieval.index.neighbours import Context, Threads, make_context
from memoranda.retrieval.index.postings import Postings, TermPostings, unpack_postings
from memoranda.retrieval.index.recurrence import measure_recurrence
from memoranda.retrieval.index.segment import Contents, Segment
from memoranda.retrieval.index.spread import Spread, measure_spread
from memoranda.retrieval.index.vectors import PrunedTable

Rows = NDArray[np.intp]

_NEVER = np.iinfo(np.int64).max
# Removed rows are dropped once there are this many, and more than the rows that are left.
_WORTH_DROPPING = 256
# Postings of terms are cached until something changes, because the same names are searched again and again. The limit
# in numbers: per row, in addition, and the fixed cost of a term.
_CACHED_PER_ROW, _CACHED_IN_ADDITION, _COST_OF_A_TERM = 8, 65_536, 32
# The spread of vectors is measured again after this part of the rows has changed, and so is what recurs where there are
# many rows; with fewer, that is quick enough to be measured after each change.
_MEASURED_AGAIN = 64
_MANY_ROWS = 4_096
# Tolerance for the squared length of a unit vector.
_ROUNDING = 1e-3
# Rows that are added together: few enough that intermediate results stay in the processor's cache.
_PORTION = 1_024
_BYTES_OF_AN_OBJECT, _BYTES_OF_A_LIKENESS = 48, 92
# Texts with fewer words ("thanks a lot") are said again without being copies.
_SHORTEST_COPY = 4
# The last bits of a likeness and of a wording.
_SAYS_THE_SAME, _IS_EXACT = 1, 2
# How many other words there are for each number, if texts that differ in their numbers alone say the same.
_WORDS_PER_NUMBER = 6
_DIGIT = re.compile(r"\d")
# Hashes of words are cached, and so short that sums of a hundred fit into 63 bits: Python adds longer ones slowly.
_MOST_HASHES, _SHORTER, _LARGEST = 65_536, 8, 2**62 - 1


class ShelfIndex:
    """The index of one shelf. Hold `lock` to read several things consistently."""

    is_stored: ClassVar[bool] = False
    """Whether most words, vectors and metadata are not here, but read when they are needed."""
    cached_per_row: ClassVar[int] = _CACHED_PER_ROW

    def __init__(self, dimension: int) -> None:
        """Create an index without entries, for vectors of this dimension."""
        self.lock = threading.RLock()
        self.was_ranked = False
        """Whether a query was ranked by this index, so that another one is likely."""
        self.postings = Postings()
        self.threads = Threads(dimension)
        self.fields = Fields()
        self.vectors = PrunedTable(dimension)
        self._sequence = GrowingArray(np.int64)
        self._expires = GrowingArray(np.int64)
        self._present = GrowingArray(np.bool_)
        self._length = GrowingArray(np.int64)
        self._distinct = GrowingArray(np.int64)
        self._features = GrowingArray(np.uint8)
        self._names = GrowingArray(np.int32)
        self._sources: dict[str | None, int] = {None: 0}
        self._source = GrowingArray(np.int32)
        self._origins: dict[tuple[str, ...], int] = {(): 0}
        self._origin = GrowingArray(np.int32)
        self._trust = GrowingArray(np.int8)
        self._seen_origins: set[int] = set()
        self._likeness = GrowingArray(np.int64)
        self._wording = GrowingArray(np.int64)
        self._rows_alike = WordingCounts()
        """The counts of rows by their likeness and, with the numbers among them, by their wording."""
        self._copies = GrowingArray(np.bool_)
        """Whether an earlier row has the same words."""
        self._columns = Columns()
        self._unread: list[bytes] = []
        """The metadata of the last rows, which no filter has needed yet."""
        self._unread_bytes = 0
        self._languages: dict[str, int] = {}
        self._language_of = GrowingArray(np.int16)
        self._language_counts: list[int] = []
        self._count = 0
        self._newest = 0
        self._next_expiry = _NEVER
        self._expired_at = 0
        self._lapsed: set[int] = set()
        self._context: Context | None = None
        self._spread: Spread | None = None
        self._changed = 0
        """Rows that came or went since the spread was measured."""
        self._recurrence: NDArray[np.float64] | None = None
        self._unmeasured = 0
        """Rows that came or went since the recurrence was measured."""
        self._found: dict[tuple[str, ...], TermPostings] = {}
        self._cached = 0
        self._corrections: dict[str, str | None] = {}
        self._context_is_mapped = False
        self.mapped_bytes = 0
        """Bytes of the segment that the index began with: shared by processes, and not counted in `nbytes`."""

    def save(self) -> Contents:
        """Return what a segment of this index is made of, to be written without its lock."""
        with self.lock:
            contents = Contents()
            self.postings.save(contents)
            self.threads.save(contents)
            self.fields.save(contents)
            self.vectors.save(contents)
            changing = (self._present, self._length, self._distinct, self._copies)
            for name, column in self._named().items():
                contents.add_rows(name, column.rows.copy() if column in changing else column.rows)
            if self._unread and not len(self._columns):
                unread = self._unread.copy()
                contents.later.append(lambda contents: _columns_of(unread).save(contents))
            else:
                self.columns.save(contents)
            if self._context is not None:
                self._context.save(contents)
            self._rows_alike.save(contents, self._likeness.rows, self._wording.rows, contents.arrays["present"])
            contents.values |= {
                "sources": list(self._sources),
                "origins": list(self._origins),
                "seen origins": sorted(self._seen_origins),
                "languages": list(self._languages),
                "language counts": self._language_counts.copy(),
                "count": self._count,
                "newest": self._newest,
                "next expiry": self._next_expiry,
                "expired at": self._expired_at,
                "lapsed": sorted(self._lapsed),
                "recurrence": None if self._recurrence is None else self._recurrence.tolist(),
                "unmeasured": self._unmeasured,
            }
            return contents

    @classmethod
    def load(cls, segment: Segment, dimension: int) -> ShelfIndex:
        """Return the index that a segment was made of."""
        index, values = cls(dimension), segment.values
        index.postings.load(segment)
        index.threads.load(segment)
        index.fields.load(segment)
        index.vectors.load(segment)
        for name, column in index._named().items():
            column.start_from(segment, name)
        index._columns = Columns.load(segment)
        index._context = Context.load(segment)
        index._context_is_mapped = index._context is not None
        index._rows_alike.load(segment)
        index._sources = {source: number for number, source in enumerate(values["sources"])}
        index._origins = {tuple(origin): number for number, origin in enumerate(values["origins"])}
        index._seen_origins = set(values["seen origins"])
        index._languages = {language: number for number, language in enumerate(values["languages"])}
        index._language_counts = values["language counts"]
        index._count, index._newest = values["count"], values["newest"]
        index._next_expiry, index._expired_at = values["next expiry"], values["expired at"]
        index._lapsed = set(values["lapsed"])
        if (recurrence := values["recurrence"]) is not None:
            index._recurrence, index._unmeasured = np.array(recurrence, np.float64), values["unmeasured"]
        index.mapped_bytes = segment.nbytes
        return index

    def __len__(self) -> int:
        """Return the number of entries, without removed and expired ones."""
        return self._count

    @property
    def expired_at(self) -> int:
        """The latest time in microseconds at which expired entries were removed; 0 if never."""
        return self._expired_at

    @property
    def lapsed(self) -> frozenset[int]:
        """The sequence numbers of entries that expired and have not been removed since."""
        with self.lock:
            return frozenset(self._lapsed)

    @property
    def languages(self) -> frozenset[str]:
        """The languages of the entries."""
        return frozenset([name for name, number in self._languages.items() if self._language_counts[number]])

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        with self.lock:
            parts = (self.postings, self.threads, self.fields, self._columns, self.vectors, *self._named().values())
            context = 0 if self._context is None or self._context_is_mapped else self._context.nbytes
            context += 0 if self._spread is None else self._spread.nbytes
            likeness = self._rows_alike.nbytes
            return sum(part.nbytes for part in parts) + context + likeness + self._unread_bytes + self._cached * 8

    def sequences(self) -> NDArray[np.int64]:
        """Return the sequence numbers of the entries, in ascending order."""
        with self.lock:
            return self._sequence.rows[self._present.rows]

    def add(self, rows: Iterable[Indexed]) -> None:
        """Add entries by ascending sequence number; those up to the newest are already indexed and skipped.

        Entries are added in portions. If one is corrupt, the portions before it stay.
        """
        with self.lock:
            self.vectors.reserve(self.rows + length_hint(rows))
            rows = iter(rows)
            while portion := list(islice(rows, _PORTION)):
                new = [row for row in portion if row.sequence > self._newest]
                if new:
                    self._add(new)

    def remove(self, sequences: Iterable[int]) -> None:
        """Remove entries by sequence number; unknown ones are ignored."""
        with self.lock:
            asked = np.array(sorted(set(sequences)), np.int64)
            self._lapsed.difference_update(asked.tolist())
            places, _ = self._places(asked)
            self._drop(places[self._present.rows[places]])

    def _places(self, sequences: NDArray[np.int64]) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows of entries by sequence number, and which of these have a row."""
        held = self._sequence.rows
        places = np.searchsorted(held, sequences)
        found = held.take(places, mode="clip") == sequences if len(held) else np.zeros(len(sequences), np.bool_)
        return places[found], found

    def expire(self, now: int) -> None:
        """Remove the entries that have expired at a time in microseconds, which never goes back."""
        with self.lock:
            if now >= self._next_expiry:
                self._expired_at = max(self._expired_at, now)
                over = np.flatnonzero(self._present.rows & (self._expires.rows <= now))
                self._lapsed.update(self._sequence.rows[over].tolist())
                self._drop(over)
                left = self._expires.rows[self._present.rows]
                self._next_expiry = int(left.min()) if len(left) else _NEVER

    def visible(self, now: int, where: Filter | None = None, *, min_trust: int = 0) -> NDArray[np.int64]:
        """Return the sequence numbers of unexpired entries that match a filter and are trusted, in ascending order."""
        with self.lock:
            self.expire(now)
            seen = self._present.rows if where is None else self._present.rows & self.columns.mask(where)
            return self._sequence.rows[seen if not min_trust else seen & (self.trust >= min_trust)]

    # read by rankings, by row

    @property
    def rows(self) -> int:
        """Number of rows, including removed ones."""
        return len(self._sequence)

    @property
    def present(self) -> NDArray[np.bool_] | None:
        """Which rows are not removed; None if all are present."""
        return None if self._count == len(self._sequence) else self._present.rows

    @property
    def sequence(self) -> NDArray[np.int64]:
        """The sequence number of each row."""
        return self._sequence.rows

    @property
    def columns(self) -> Columns:
        """The metadata of each row, for filters; decoded when a filter first needs them."""
        if self._unread:
            try:
                self._columns.append(self._unread)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                place = next(place for place, metadata in enumerate(self._unread) if not _is_map(metadata))
                damaged = int(self.sequence[len(self._columns) + place])
                raise _corrupt("metadata", damaged, str(error)) from error
            self._unread, self._unread_bytes = [], 0
        return self._columns

    @property
    def features(self) -> NDArray[np.uint8]:
        """The features of each text (`Features`)."""
        return self._features.rows

    @property
    def names(self) -> NDArray[np.int32]:
        """The estimated number of names and quotations in each text."""
        return self._names.rows

    @property
    def source(self) -> NDArray[np.int32]:
        """The number of the source, or else the conversation, that each row came from; 0 for none."""
        return self._source.rows

    @property
    def trust(self) -> NDArray[np.int8]:
        """How far each row is trusted, as `RANK_OF` numbers it."""
        return self._trust.rows

    @property
    def origin(self) -> NDArray[np.int32]:
        """The number of the origin of each row: its writer or, where that is fully trusted, its source; 0 for none."""
        return self._origin.rows

    @property
    def has_several_origins(self) -> bool:
        """Whether rows of more than one origin were ever added; one alone is not bounded."""
        return len(self._seen_origins) > 1

    def restatements(self, row: int) -> int:
        """Return how many other rows of the same origin have the same words; 0 for what has no origin."""
        words, origin = int(self.likeness[row]), int(self.origin[row])
        if not origin or not words & _SAYS_THE_SAME or self._rows_alike.count(words) < 2:
            return 0
        alike = (self.likeness == words) & (self.origin == origin) & self._present.rows
        return int(np.count_nonzero(alike)) - 1

    def origins_in_index(self, sequences: Iterable[int]) -> list[tuple[int, int]]:
        """Return the trust and the origin of entries by their sequence numbers."""
        with self.lock:
            places, _ = self._places(np.fromiter(sequences, np.int64))
            return list(zip(self.trust[places].tolist(), self.origin[places].tolist(), strict=True))

    def origin_names(self) -> list[tuple[str, ...]]:
        """Return the origins by their numbers."""
        with self.lock:
            return list(self._origins)

    def repetitions(self, sequences: Iterable[int]) -> set[int]:
        """Return those of these entries whose words another entry may have too."""
        if not self._rows_alike.have_repeated:
            return set()
        with self.lock:
            places, _ = self._places(np.fromiter(sequences, np.int64))
            held, counted = self._sequence.rows, self._rows_alike
            wordings = self._wording.rows.take(places).tolist()
            return {
                int(held[place])
                for place, wording in zip(places.tolist(), wordings, strict=True)
                if counted.count(wording) > 1
            }

    def alike(
        self, sequence: int, most: int, allowed: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None
    ) -> list[int]:
        """Return the sequence numbers of other entries with the words of one, those of different origins first."""
        with self.lock:
            places, _ = self._places(np.array([sequence], np.int64))
            wording = self._wording.rows
            if not len(places):
                return []
            alike = np.flatnonzero((wording == wording[places[0]]) & self._present.rows)
            alike = alike[alike != places[0]]
            if allowed is not None:
                alike = alike[allowed(self._sequence.rows[alike])]
            if len(alike) > most:
                origin = self.origin[alike]
                is_first = np.zeros(len(alike), np.bool_)
                is_first[np.unique(origin, return_index=True)[1]] = True
                # Of fully trusted writers without a source the index does not know who is who.
                alike = alike[np.lexsort((origin != 0, ~is_first))][:most]
            return self._sequence.rows[alike].tolist()

    @property
    def likeness(self) -> NDArray[np.int64]:
        """A number that rows with the same words have in common, whatever numbers are in them; 0 for short texts.

        It is odd if these numbers are so few among the words that the texts say the same.
        """
        return self._likeness.rows

    def with_words(self, words: list[str]) -> list[int]:
        """Return the sequence numbers of the rows that have all these words, those of removed rows included."""
        with self.lock:
            found: Rows | None = None
            for word in words:
                rows = unpack_postings(self.postings.find((word,)))[0]
                found = rows if found is None else np.intersect1d(found, rows)
            return [] if found is None else self._sequence.rows[found].tolist()

    def frequency(self, found: TermPostings) -> int:
        """Return how many entries contain a term, texts with the same words counted once."""
        if found.frequency is None:
            rows = unpack_postings(found.postings)[0] if found.evidence is None else found.evidence.rows
            copies = np.count_nonzero(self._copies.rows.take(rows))
            found.frequency = max(found.size - int(copies), min(found.size, 1))
        return found.frequency

    @property
    def context(self) -> Context:
        """What rows lend each other, as of the last change."""
        if self._context is None:
            self._context_is_mapped = False
            self._context = make_context(
                self.threads,
                features=self.features,
                lengths=self._length.rows,
                distinct=self._distinct.rows,
                entries=self._count,
                terms_per_word=self._terms_per_word(),
                recurrence=self._measure_recurrence(),
            )
        return self._context

    def _terms_per_word(self) -> NDArray[np.float32] | None:
        """Return for each row how many of its terms make a word; None if it is one for all."""
        of_language = np.array([TERMS_PER_WORD.get(language, 1.0) for language in self._languages], np.float32)
        return None if (of_language == 1).all() else of_language.take(self._language_of.rows)

    def _measure_recurrence(self) -> NDArray[np.float64]:
        """Return how often rare words recur in each group of threads; of many rows, unless much has changed, before."""
        groups = self.threads.groups
        changes = self._unmeasured * (_MEASURED_AGAIN if self._count >= _MANY_ROWS else self._count + 1)
        if self._recurrence is None or changes > self._count:
            words, sizes = self.postings.said()
            self._recurrence = measure_recurrence(
                words,
                sizes,
                vocabulary=self.postings.words,
                previous=self.threads.previous,
                group=self.threads.group.take(self.threads.thread),
                groups=groups,
                present=self.present,
            )
            self._unmeasured = 0
        # Nothing is known yet of groups that came since.
        return np.pad(self._recurrence, (0, groups - len(self._recurrence)))

    @property
    def spread(self) -> Spread:
        """The spread of the vectors; a little older than the last change, unless much has changed."""
        if self._spread is None or self._changed * _MEASURED_AGAIN > self._count:
            self._spread = measure_spread(self.vectors.matrix, self.context, np.flatnonzero(self._present.rows))
            self._changed = 0
        return self._spread

    def expect(self, terms: Iterable[tuple[str, ...]]) -> None:
        """Hear which terms will be looked for, if it is quicker to read them together."""

    def find(self, stems: tuple[str, ...]) -> TermPostings:
        """Return the postings of a term with these stems, without removed rows."""
        found = self._found.get(stems)
        if found is None:
            postings = self.postings.find(stems)
            if self.present is not None:
                postings = postings[self.present[unpack_postings(postings)[0]]]
            found = TermPostings(postings)
            self.count_cached(found.size + _COST_OF_A_TERM)
            self._found[stems] = found
        return found

    def count_cached(self, numbers: int) -> None:
        """Count numbers that are about to be cached for a term, and clear the cache if they are too many."""
        self._cached += numbers
        if self._cached > self.cached_per_row * self.rows + _CACHED_IN_ADDITION:
            self._found.clear()
            self._corrections.clear()
            self._cached = numbers

    def correction(self, stem: str, correct: Callable[[ShelfIndex, str], str | None]) -> str | None:
        """Return the correction of a word that no entry contains, cached until the next change."""
        if stem not in self._corrections:
            found = correct(self, stem)
            self.count_cached(_COST_OF_A_TERM)
            self._corrections[stem] = found
        return self._corrections[stem]

    def _named(self) -> dict[str, GrowingArray]:
        """Return the arrays with a row for each of the index, by their names in a segment."""
        return {
            "sequence": self._sequence,
            "expires": self._expires,
            "present": self._present,
            "length": self._length,
            "distinct": self._distinct,
            "features": self._features,
            "names": self._names,
            "language": self._language_of,
            "source": self._source,
            "origin": self._origin,
            "trust": self._trust,
            "likeness": self._likeness,
            "wording": self._wording,
            "copies": self._copies,
        }

    def _add(self, new: list[Indexed]) -> None:
        first = self.rows
        texts = _words_of(new)
        metadata = [row.metadata for row in new]
        languages = [text.language for text in texts]
        self.vectors.append([row.vector for row in new])
        try:
            _check_vectors(new, self.vectors.matrix[first:])
            threads, actors, dates = self._add_fields(new, metadata, languages)
        except Corrupt:
            self.vectors.keep(np.arange(first))  # other readers find the index unchanged
            raise
        self._unread += metadata
        self._unread_bytes += sum(map(len, metadata)) + _BYTES_OF_AN_OBJECT * len(metadata)
        self.postings.add(first, texts, actors, dates)
        self.threads.add(list(zip([row.namespace for row in new], threads, strict=True)), self.vectors.matrix)
        expiries = [_NEVER if row.expires_at is None else row.expires_at for row in new]
        self._sequence.extend([row.sequence for row in new])
        self._expires.extend(expiries)
        self._present.extend(np.ones(len(new), np.bool_))
        self._length.extend([text.length for text in texts])
        self._distinct.extend([len(text.counts) for text in texts])
        self._features.extend([text.features for text in texts])
        self._names.extend([text.names for text in texts])
        self._add_languages(languages)
        self._add_origins(new)
        self._add_likeness(texts)
        self._count += len(new)
        self._changed += len(new)
        self._unmeasured += len(new)
        self._newest = new[-1].sequence
        self._next_expiry = min(self._next_expiry, min(expiries))
        self._clear_cache()

    def _add_fields(
        self, new: list[Indexed], metadata: list[bytes], languages: list[str]
    ) -> tuple[list[str | int | None], list[frozenset[str]], list[frozenset[str]]]:
        try:
            b"".join(metadata).decode()  # the decoder does not check the text of fields that it skips
            return self.fields.add(metadata, languages)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            damaged = next(row for row in new if not _is_map(row.metadata))
            raise _corrupt("metadata", damaged.sequence, str(error)) from error

    def _add_languages(self, languages: list[str]) -> None:
        for language, rows in Counter(languages).items():
            number = self._languages.setdefault(language, len(self._language_counts))
            if number == len(self._language_counts):
                self._language_counts.append(0)
            self._language_counts[number] += rows
        self._language_of.extend(list(map(self._languages.__getitem__, languages)))

    def _add_origins(self, new: list[Indexed]) -> None:
        if all(row.origin is TRUSTED and row.conversation is None for row in new):
            self._source.extend(np.zeros(len(new), np.int32))
            self._origin.extend(np.zeros(len(new), np.int32))
            self._trust.extend(np.full(len(new), RANK_OF["high"], np.int8))
            self._seen_origins.add(0)
            return
        sources, numbers = self._sources, self._origins
        told = [numbers.setdefault(origin_for_index(row.origin), len(numbers)) for row in new]
        self._source.extend([sources.setdefault(row.origin.source or row.conversation, len(sources)) for row in new])
        self._origin.extend(told)
        self._trust.extend([RANK_OF[row.origin.trust] for row in new])
        self._seen_origins.update(told)

    def _add_likeness(self, texts: list[Analysis]) -> None:
        likeness, wordings = zip(*map(_likeness, texts), strict=True)
        self._likeness.extend(likeness)
        self._wording.extend(wordings)
        copies = self._rows_alike.add_rows(likeness, wordings)
        self._copies.extend(copies)

    def _drop_likeness(self, rows: Rows) -> None:
        """Count rows that were removed no longer; another row takes the place of one that had copies."""
        likeness, copies = self.likeness, self._copies.rows
        for numbers in zip(likeness[rows].tolist(), self._wording.rows[rows].tolist(), strict=True):
            for number in set(numbers):
                if number:
                    self._rows_alike.add(number, -1)
        of_originals = set[int](likeness[rows[~copies[rows]]].tolist())
        for words in [words for words in of_originals if self._rows_alike.count(words)]:
            copies[np.argmax((likeness == words) & self._present.rows)] = False

    def _drop(self, rows: Rows) -> None:
        if not len(rows):
            return
        self._present.rows[rows] = False
        self._drop_likeness(rows)
        self.threads.remove(rows.tolist(), None if self.is_stored else self.vectors.matrix)
        self.fields.remove(rows)
        for number in self._language_of.rows[rows].tolist():
            self._language_counts[number] -= 1
        self._count -= len(rows)
        self._changed += len(rows)
        self._unmeasured += len(rows)
        # So that they do not count in averages.
        self._length.rows[rows] = 0
        self._distinct.rows[rows] = 0
        self._clear_cache()
        if self.rows - self._count >= max(_WORTH_DROPPING, self._count):
            self._compact()

    def _clear_cache(self) -> None:
        self._context = None
        self._found.clear()
        self._corrections.clear()
        self._cached = 0

    def compact(self) -> None:
        """Drop removed rows with all that only they said."""
        with self.lock:
            self._clear_cache()
            self._compact()

    def _compact(self) -> None:
        """Drop removed rows and renumber the others."""
        rows = np.flatnonzero(self._present.rows)
        renumbered = np.full(self.rows, -1, np.int64)
        renumbered[rows] = np.arange(len(rows))
        self.postings.keep(renumbered)
        self.threads.keep(rows, renumbered)
        self.fields.keep(rows)
        self.columns.keep(rows)
        self.vectors.keep(rows)
        for column in self._named().values():
            column.keep(rows)
        # Sources and origins keep their numbers; those that nothing has any longer lose their names.
        sources, origins = set(self._source.rows.tolist()), set(self._origin.rows.tolist())
        self._sources = {
            name if not number or number in sources else f"\0{number}": number for name, number in self._sources.items()
        }
        self._origins = {
            name if not number or number in origins else ("\0", str(number)): number
            for name, number in self._origins.items()
        }


class WordingCounts:
    """How many rows have the same words, by a hash of the words."""

    __slots__ = ("_changed", "_counts", "_numbers", "have_repeated")

    def __init__(self) -> None:
        self.have_repeated = False
        """Whether two rows ever had the same words."""
        self._changed: dict[int, int] = {}
        """The counts that are known; what a segment does not have is here."""
        self._numbers: NDArray[np.int64] = np.empty(0, np.int64)
        self._counts: NDArray[np.int32] = np.empty(0, np.int32)

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes, without what a segment has mapped."""
        own = self._numbers.nbytes + self._counts.nbytes if self._numbers.base is None else 0
        return own + len(self._changed) * _BYTES_OF_A_LIKENESS

    def count(self, number: int) -> int:
        """Return how many rows have a number."""
        count = self._changed.get(number)
        if count is None:
            count = self._sealed_count(number) if len(self._numbers) else 0
        return count

    def add_rows(self, likeness: Sequence[int], wordings: Sequence[int]) -> list[bool]:
        """Count new rows; return of each whether an earlier one has the same likeness."""
        copies: list[bool] = []
        known, is_sealed = self._changed, len(self._numbers) > 0
        for words, wording in zip(likeness, wordings, strict=True):
            if is_sealed:
                known.setdefault(words, self._sealed_count(words))
                known.setdefault(wording, self._sealed_count(wording))
            copies.append(known.get(words, 0) > 0)
            for number in {words, wording}:
                if number:
                    rows = known[number] = known.get(number, 0) + 1
                    self.have_repeated |= rows > 1
        return copies

    def add(self, number: int, rows: int) -> None:
        """Count rows of a number."""
        count = self.count(number) + rows
        if count or len(self._numbers):
            self._changed[number] = count
        else:
            del self._changed[number]

    def _sealed_count(self, number: int) -> int:
        place = int(self._numbers.searchsorted(number))
        return int(self._counts[place]) if place < len(self._numbers) and self._numbers[place] == number else 0

    @classmethod
    def of(cls, likeness: NDArray[np.int64], wording: NDArray[np.int64]) -> WordingCounts:
        """Count the rows of these numbers."""
        counts = cls()
        every = np.concatenate((likeness, wording[wording != likeness]))
        counts._numbers, found = np.unique(every[every != 0], return_counts=True)
        counts._counts = found.astype(np.int32)
        return counts

    def save(
        self, contents: Contents, likeness: NDArray[np.int64], wording: NDArray[np.int64], present: NDArray[np.bool_]
    ) -> None:
        """Count again from the rows when the segment is written."""

        def work(contents: Contents) -> None:
            counted = WordingCounts.of(likeness[present], wording[present])
            contents.arrays["alike"], contents.arrays["alike.rows"] = counted._numbers, counted._counts

        contents.later.append(work)

    def load(self, segment: Segment) -> None:
        """Continue the counts of a segment."""
        self._numbers, self._counts = segment.array("alike"), segment.array("alike.rows")
        self.have_repeated = bool((self._counts > 1).any())


def _columns_of(metadata: list[bytes]) -> Columns:
    columns = Columns()
    columns.append(metadata)
    return columns


def _likeness(text: Analysis) -> tuple[int, int]:
    """Return the likeness of a text, as `ShelfIndex.likeness` says, and the number for its words with their numbers.

    These are the same if there are no numbers, so that most texts are counted once.
    """
    words = text.terms.split(" ")
    wording = _hash_of(words) & ~(_SAYS_THE_SAME | _IS_EXACT) | _IS_EXACT
    if not _DIGIT.search(text.terms):
        if len(words) < _SHORTEST_COPY:
            return 0, wording
        return wording | _SAYS_THE_SAME, wording | _SAYS_THE_SAME
    numbers = sum([word.isalnum() and not word.isalpha() for word in words])
    words = [word for word in words if not _DIGIT.search(word)]
    if len(words) < _SHORTEST_COPY:
        return 0, wording
    likeness = _hash_of(words) & ~(_SAYS_THE_SAME | _IS_EXACT) | _IS_EXACT
    return likeness | (numbers * _WORDS_PER_NUMBER <= len(words)), wording


class _WordHashes(dict[str, int]):
    """A hash of each word that is the same in every process; Python's own is not."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _MOST_HASHES:
            self.clear()
        found = self[word] = int.from_bytes(blake2b(word.encode(), digest_size=8).digest()) >> _SHORTER
        return found


_hash_of_word = _WordHashes().__getitem__


def _hash_of(words: list[str]) -> int:
    """Return a hash of distinct words, whatever their order."""
    return sum(map(_hash_of_word, words)) & _LARGEST


def _words_of(new: list[Indexed]) -> list[Analysis]:
    try:
        texts = unpack_all([row.analysis for row in new])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        damaged = next(row for row in new if not _is_analysis(row.analysis))
        raise _corrupt("words", damaged.sequence, str(error)) from error
    words = [text.terms.count(" ") + 1 if text.terms else 0 for text in texts]
    counts = [len(text.counts) for text in texts]
    if words != counts:
        damaged = next(row for row, one, other in zip(new, words, counts, strict=True) if one != other)
        raise _corrupt("words", damaged.sequence, "the numbers of counts and words differ")
    return texts


def _check_vectors(new: list[Indexed], vectors: NDArray[np.float32]) -> None:
    """Reject vectors that are not of unit length: no embedder made them, and NaN would spread to every comparison."""
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors)
    whole = np.abs(squares - 1) <= _ROUNDING  # never true of NaN
    if not whole.all():
        raise _corrupt("vector", new[int(np.argmin(whole))].sequence, "it is not of unit length")


def _is_analysis(packed: bytes) -> bool:
    try:
        unpack(packed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _is_map(metadata: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(metadata), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _corrupt(what: str, sequence: int, why: str) -> Corrupt:
    return Corrupt(
        f"the stored {what} of entry {sequence} cannot be read: {why}",
        hint="Keep a copy of the file as it is, and restore a backup",
        sequence=sequence,
    )
