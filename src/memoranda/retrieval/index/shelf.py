"""The entries of one shelf in, kept in memory so that a recall reads arrays and no disk.

Everything here is derived from entries and grows with them: adding or removing one touches that entry, its words and
its neighbours. Rows are numbered by arrival; a row that was removed or has expired lends nothing to the others and is
dropped when enough of them are gone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from operator import length_hint

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.errors import Corrupt
from memoranda.model.entry import Indexed
from memoranda.retrieval.analysis.analysed import Analysed, unpack, unpack_all
from memoranda.retrieval.filter import Filter
from memoranda.retrieval.index.columns import Columns
from memoranda.retrieval.index.context import Context, read_context
from memoranda.retrieval.index.growing import Growing
from memoranda.retrieval.index.holders import Holders
from memoranda.retrieval.index.labels import Labels
from memoranda.retrieval.index.postings import Postings, unpack_postings
from memoranda.retrieval.index.pruned import PrunedTable
from memoranda.retrieval.index.threads import Threads

Rows = NDArray[np.intp]

_NEVER = np.iinfo(np.int64).max
# Rows that are gone are dropped once they are so many and more than those that are left.
_WORTH_DROPPING = 256
# What was found of terms is kept until something changes, because the same names are asked for again and again: so many
# numbers for each row, and as many more on every shelf. A term takes as much as these besides.
_REMEMBERED, _REMEMBERED_ANYWAY, _AS_A_TERM = 8, 65_536, 32
# How far the square of a vector's length may be from one.
_ROUNDING = 1e-3
# Rows that are added together: so few that what is made of them on the way stays in the processor's cache.
_PORTION = 1_024
_BYTES_OF_AN_OBJECT = 48


class ShelfIndex:
    """What is known of the entries of one shelf. Whoever reads more than one thing holds `lock` meanwhile."""

    def __init__(self, dimension: int) -> None:
        """Start without entries, for vectors of so many numbers."""
        self.lock = threading.RLock()
        self.postings = Postings()
        self.threads = Threads(dimension)
        self.labels = Labels()
        self.vectors = PrunedTable(dimension)
        self._sequence = Growing(np.int64)
        self._expires = Growing(np.int64)
        self._present = Growing(np.bool_)
        self._length = Growing(np.int64)
        self._distinct = Growing(np.int64)
        self._signs = Growing(np.uint8)
        self._names = Growing(np.int32)
        self._columns = Columns()
        self._unread: list[bytes] = []
        """The metadata of the last rows, which no filter has asked for yet."""
        self._unread_bytes = 0
        self._languages: dict[str, int] = {}
        self._language_of = Growing(np.int16)
        self._spoken: list[int] = []
        self._count = 0
        self._newest = 0
        self._next_expiry = _NEVER
        self._expired_at = 0
        self._lapsed: set[int] = set()
        self._context: Context | None = None
        self._found: dict[tuple[str, ...], Holders] = {}
        self._remembered = 0
        self._corrections: dict[str, str | None] = {}

    def __len__(self) -> int:
        """Return how many entries there are, without those that were removed or found expired."""
        return self._count

    @property
    def expired_at(self) -> int:
        """The latest moment, in microseconds, at which entries were found expired and dropped; 0 if none were."""
        return self._expired_at

    @property
    def lapsed(self) -> frozenset[int]:
        """The sequences that were dropped because they expired, and not removed since."""
        with self.lock:
            return frozenset(self._lapsed)

    @property
    def languages(self) -> frozenset[str]:
        """The languages that its entries are written in."""
        return frozenset([name for name, number in self._languages.items() if self._spoken[number]])

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        with self.lock:
            parts = (self.postings, self.threads, self.labels, self._columns, self.vectors, *self._by_row())
            made = 0 if self._context is None else self._context.nbytes
            return sum(part.nbytes for part in parts) + made + self._unread_bytes + self._remembered * 8

    def sequences(self) -> NDArray[np.int64]:
        """Return the sequences of the entries there are, ascending."""
        with self.lock:
            return self._sequence.rows[self._present.rows]

    def add(self, rows: Iterable[Indexed]) -> None:
        """Add entries by ascending sequence; those up to the newest are known already and left out.

        Many are added in portions. Where one cannot be read, the portions before it stay.
        """
        with self.lock:
            self.vectors.reserve(self.rows + length_hint(rows))
            rows = iter(rows)
            while portion := list(islice(rows, _PORTION)):
                new = [row for row in portion if row.sequence > self._newest]
                if new:
                    self._add(new)

    def remove(self, sequences: Iterable[int]) -> None:
        """Forget entries; a sequence that is not there is no error."""
        with self.lock:
            asked = np.array(sorted(set(sequences)), np.int64)
            self._lapsed.difference_update(asked.tolist())
            held = self._sequence.rows
            places = np.searchsorted(held, asked)
            places = places[places < len(held)]
            asked = asked[: len(places)]
            self._drop(places[(held[places] == asked) & self._present.rows[places]])

    def expire(self, now: int) -> None:
        """Forget the entries that are expired at a moment, in microseconds, which never goes back."""
        with self.lock:
            if now >= self._next_expiry:
                self._expired_at = max(self._expired_at, now)
                over = np.flatnonzero(self._present.rows & (self._expires.rows <= now))
                self._lapsed.update(self._sequence.rows[over].tolist())
                self._drop(over)
                left = self._expires.rows[self._present.rows]
                self._next_expiry = int(left.min()) if len(left) else _NEVER

    def visible(self, now: int, where: Filter | None = None) -> NDArray[np.int64]:
        """Return the sequences of the entries that can be seen at a moment and fulfil a filter, ascending."""
        with self.lock:
            self.expire(now)
            return self._sequence.rows[
                self._present.rows if where is None else self._present.rows & self.columns.mask(where)
            ]

    # what a ranking reads, by row

    @property
    def rows(self) -> int:
        """How many rows there are, those that are gone too."""
        return len(self._sequence)

    @property
    def present(self) -> NDArray[np.bool_] | None:
        """Which rows are entries that can be seen; None when all are."""
        return None if self._count == len(self._sequence) else self._present.rows

    @property
    def sequence(self) -> NDArray[np.int64]:
        """The sequence of each row."""
        return self._sequence.rows

    @property
    def columns(self) -> Columns:
        """The metadata of each row, for filters. They are read when a filter first asks for them."""
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
    def signs(self) -> NDArray[np.uint8]:
        """What can be seen in each text (`Signs`)."""
        return self._signs.rows

    @property
    def names(self) -> NDArray[np.int32]:
        """How many names and quotations each text seems to have."""
        return self._names.rows

    @property
    def context(self) -> Context:
        """What rows lend each other and are by themselves, as of the last change."""
        if self._context is None:
            self._context = read_context(
                self.threads,
                signs=self.signs,
                lengths=self._length.rows,
                distinct=self._distinct.rows,
                entries=self._count,
            )
        return self._context

    def find(self, stems: tuple[str, ...]) -> Holders:
        """Return who holds a term, of the entries that can be seen; any of its stems stands for it."""
        found = self._found.get(stems)
        if found is None:
            postings = self.postings.find(stems)
            if self.present is not None:
                postings = postings[self.present[unpack_postings(postings)[0]]]
            found = Holders(postings)
            self.remember(found.size + _AS_A_TERM)
            self._found[stems] = found
        return found

    def remember(self, numbers: int) -> None:
        """Count what is kept of a term; where it would become too much, let go of what was found before."""
        self._remembered += numbers
        if self._remembered > _REMEMBERED * self.rows + _REMEMBERED_ANYWAY:
            self._found.clear()
            self._corrections.clear()
            self._remembered = numbers

    def correction(self, stem: str, correct: Callable[[ShelfIndex, str], str | None]) -> str | None:
        """Return what was probably meant by a word that no entry has, looked for again only after a change."""
        if stem not in self._corrections:
            found = correct(self, stem)
            self.remember(_AS_A_TERM)
            self._corrections[stem] = found
        return self._corrections[stem]

    def _by_row(self) -> tuple[Growing, ...]:
        return (
            self._sequence,
            self._expires,
            self._present,
            self._length,
            self._distinct,
            self._signs,
            self._names,
            self._language_of,
        )

    def _add(self, new: list[Indexed]) -> None:
        first = self.rows
        texts = _words_of(new)
        metadata = [row.metadata for row in new]
        languages = [text.language for text in texts]
        self.vectors.append([row.vector for row in new])
        try:
            _check_vectors(new, self.vectors.matrix[first:])
            threads, actors, dates = self._read_labels(new, metadata, languages)
        except Corrupt:
            self.vectors.keep(np.arange(first))  # whoever else reads this index finds it as it was
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
        self._signs.extend([text.signs for text in texts])
        self._names.extend([text.names for text in texts])
        self._speak(languages)
        self._count += len(new)
        self._newest = new[-1].sequence
        self._next_expiry = min(self._next_expiry, min(expiries))
        self._forget()

    def _read_labels(
        self, new: list[Indexed], metadata: list[bytes], languages: list[str]
    ) -> tuple[list[str | int | None], list[frozenset[str]], list[frozenset[str]]]:
        try:
            b"".join(metadata).decode()  # of what they do not need, labels do not see that it is text
            return self.labels.add(metadata, languages)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            damaged = next(row for row in new if not _is_map(row.metadata))
            raise _corrupt("metadata", damaged.sequence, str(error)) from error

    def _speak(self, languages: list[str]) -> None:
        """Add the languages of rows."""
        for language, rows in Counter(languages).items():
            number = self._languages.setdefault(language, len(self._spoken))
            if number == len(self._spoken):
                self._spoken.append(0)
            self._spoken[number] += rows
        self._language_of.extend(list(map(self._languages.__getitem__, languages)))

    def _drop(self, rows: Rows) -> None:
        if not len(rows):
            return
        self._present.rows[rows] = False
        self.threads.remove(rows.tolist(), self.vectors.matrix)
        self.labels.remove(rows)
        for number in self._language_of.rows[rows].tolist():
            self._spoken[number] -= 1
        self._count -= len(rows)
        # So that they do not count in any mean.
        self._length.rows[rows] = 0
        self._distinct.rows[rows] = 0
        self._forget()
        if self.rows - self._count >= max(_WORTH_DROPPING, self._count):
            self._compact()

    def _forget(self) -> None:
        """Let go of what was made of an earlier state."""
        self._context = None
        self._found.clear()
        self._corrections.clear()
        self._remembered = 0

    def _compact(self) -> None:
        """Let go of the rows that are gone; the others are numbered anew."""
        rows = np.flatnonzero(self._present.rows)
        renumbered = np.full(self.rows, -1, np.int64)
        renumbered[rows] = np.arange(len(rows))
        self.postings.keep(renumbered)
        self.threads.keep(rows, renumbered)
        self.labels.keep(rows)
        self.columns.keep(rows)
        self.vectors.keep(rows)
        for column in self._by_row():
            column.keep(rows)


def _words_of(new: list[Indexed]) -> list[Analysed]:
    try:
        texts = unpack_all([row.analysis for row in new])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        damaged = next(row for row in new if not _is_analysis(row.analysis))
        raise _corrupt("words", damaged.sequence, str(error)) from error
    words = [text.terms.count(" ") + 1 if text.terms else 0 for text in texts]
    counts = [len(text.counts) for text in texts]
    if words != counts:
        damaged = next(row for row, one, other in zip(new, words, counts, strict=True) if one != other)
        raise _corrupt("words", damaged.sequence, "there are more or fewer counts than words")
    return texts


def _check_vectors(new: list[Indexed], vectors: NDArray[np.float32]) -> None:
    """Refuse vectors that are not of unit length: no embedder made them, and a NaN makes every comparison one."""
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
        f"the {what} kept for entry {sequence} cannot be read: {why}",
        hint="Keep a copy of the file as it is, and restore a backup",
        sequence=sequence,
    )
