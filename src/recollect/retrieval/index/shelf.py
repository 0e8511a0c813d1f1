"""The entries of one shelf in, kept in memory so that a recall reads arrays and no disk.

Everything here is derived from entries and grows with them: adding or removing one touches that entry, its words and
its neighbours. Rows are numbered by arrival; a row that was removed or has expired lends nothing to the others and is
dropped when enough of them are gone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from recollect.errors import Corrupt
from recollect.model.entry import Indexed
from recollect.retrieval.analysis.analysed import Analysed, unpack
from recollect.retrieval.filter import Filter
from recollect.retrieval.index.columns import Columns
from recollect.retrieval.index.context import Context, evidence_of, read_context
from recollect.retrieval.index.growing import Growing
from recollect.retrieval.index.labels import Labels
from recollect.retrieval.index.postings import Postings, unpack_postings
from recollect.retrieval.index.threads import Threads
from recollect.retrieval.index.vectors import VectorTable

Rows = NDArray[np.intp]

_NEVER = np.iinfo(np.int64).max
# Rows that are gone are dropped once they are so many and more than those that are left.
_WORTH_DROPPING = 256
# The evidence of terms is kept until something changes, because the same names are asked for again and again: so many
# postings for each row. A term takes as much as these besides.
_REMEMBERED, _AS_A_TERM = 4, 32
# How far the square of a vector's length may be from one.
_ROUNDING = 1e-3
_BYTES_OF_EVIDENCE = 16


class Evidence(NamedTuple):
    """The rows that hold a term, ascending, and how much each speaks for it."""

    rows: Rows
    text: NDArray[np.floating[Any]]
    """By its text, from 0 to about 2."""
    label: NDArray[np.floating[Any]]
    """By its metadata: 1 where they say the term."""


class ShelfIndex:
    """What is known of the entries of one shelf. Whoever reads more than one thing holds `lock` meanwhile."""

    def __init__(self, dimension: int) -> None:
        """Start without entries, for vectors of so many numbers."""
        self.lock = threading.RLock()
        self.postings = Postings()
        self.threads = Threads(dimension)
        self.labels = Labels()
        self.columns = Columns()
        self.vectors = VectorTable(dimension)
        self._sequence = Growing(np.int64)
        self._expires = Growing(np.int64)
        self._present = Growing(np.bool_)
        self._length = Growing(np.int64)
        self._distinct = Growing(np.int64)
        self._signs = Growing(np.uint8)
        self._names = Growing(np.int32)
        self._languages: dict[str, int] = {}
        self._language_of = Growing(np.int16)
        self._spoken: list[int] = []
        self._count = 0
        self._newest = 0
        self._next_expiry = _NEVER
        self._expired_at = 0
        self._lapsed: set[int] = set()
        self._context: Context | None = None
        self._evidence: dict[tuple[str, ...], Evidence] = {}
        self._remembered = 0

    def __len__(self) -> int:
        """Return how many entries there are, without those that were removed or found expired."""
        return self._count

    @property
    def newest(self) -> int:
        """The highest sequence that was ever added."""
        return self._newest

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
        return frozenset(name for name, number in self._languages.items() if self._spoken[number])

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        with self.lock:
            parts = (self.postings, self.threads, self.labels, self.columns, self.vectors, *self._by_row())
            made = 0 if self._context is None else self._context.nbytes
            return sum(part.nbytes for part in parts) + made + self._remembered * _BYTES_OF_EVIDENCE

    def sequences(self) -> NDArray[np.int64]:
        """Return the sequences of the entries there are, ascending."""
        with self.lock:
            return self._sequence.rows[self._present.rows]

    def add(self, rows: Iterable[Indexed]) -> None:
        """Add entries by ascending sequence; those up to the newest are known already and left out."""
        with self.lock:
            new = [row for row in rows if row.sequence > self._newest]
            if new:
                self._add(new)

    def remove(self, sequences: Iterable[int]) -> None:
        """Forget entries; a sequence that is not there is no error."""
        with self.lock:
            asked = np.unique(np.fromiter(sequences, np.int64))
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
            return self._sequence.rows[self._present.rows & self.columns.mask(where)]

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

    def evidence(self, stems: tuple[str, ...]) -> Evidence:
        """Return what speaks for a term, in the entries that can be seen; any of its stems stands for it."""
        found = self._evidence.get(stems)
        if found is None:
            rows, counts, labels = unpack_postings(self.postings.find(stems))
            if self.present is not None:
                seen = self.present[rows]
                rows, counts, labels = rows[seen], counts[seen], labels[seen]
            found = Evidence(rows, evidence_of(counts, self.context.patience[rows]), labels)
            self._remembered += len(rows) + _AS_A_TERM
            if self._remembered > _REMEMBERED * (self.rows + _AS_A_TERM):
                self._evidence.clear()
                self._remembered = len(rows) + _AS_A_TERM
            self._evidence[stems] = found
        return found

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
        texts = [_words_of(row) for row in new]
        metadata = [row.metadata for row in new]
        self.vectors.append([row.vector for row in new])
        try:
            _check_vectors(new, self.vectors.matrix[first:])
            self._append_metadata(new, metadata)
        except Corrupt:
            self.vectors.keep(np.arange(first))  # whoever else reads this index finds it as it was
            raise
        languages = [text.language for text in texts]
        threads, labels = self.labels.add(metadata, languages)
        self.postings.add(first, texts, labels)
        keys = [(row.namespace, thread) for row, thread in zip(new, threads, strict=True)]
        self.threads.add(keys, self.vectors.matrix)
        expiries = [_NEVER if row.expires_at is None else row.expires_at for row in new]
        self._sequence.extend([row.sequence for row in new])
        self._expires.extend(expiries)
        self._present.extend([True] * len(new))
        self._length.extend([text.length for text in texts])
        self._distinct.extend([len(text.counts) for text in texts])
        self._signs.extend([text.signs for text in texts])
        self._names.extend([text.names for text in texts])
        self._language_of.extend([self._speak(name) for name in languages])
        self._count += len(new)
        self._newest = new[-1].sequence
        self._next_expiry = min(self._next_expiry, *expiries)
        self._forget()

    def _append_metadata(self, new: list[Indexed], metadata: list[bytes]) -> None:
        try:
            self.columns.append(metadata)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            damaged = next(row for row in new if not _is_map(row.metadata))
            raise _corrupt("metadata", damaged, str(error)) from error

    def _speak(self, language: str) -> int:
        """Count an entry in a language; return the number of the language."""
        number = self._languages.get(language)
        if number is None:
            number = self._languages[language] = len(self._spoken)
            self._spoken.append(0)
        self._spoken[number] += 1
        return number

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
        self._evidence.clear()
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


def _words_of(row: Indexed) -> Analysed:
    try:
        words = unpack(row.analysis)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _corrupt("words", row, str(error)) from error
    if len(words.counts) != (words.terms.count(" ") + 1 if words.terms else 0):
        raise _corrupt("words", row, "there are more or fewer counts than words")
    return words


def _check_vectors(new: list[Indexed], vectors: NDArray[np.float32]) -> None:
    """Refuse vectors that are not of unit length: no embedder made them, and a NaN makes every comparison one."""
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors)
    whole = np.abs(squares - 1) <= _ROUNDING  # never true of NaN
    if not whole.all():
        raise _corrupt("vector", new[int(np.argmin(whole))], "it is not of unit length")


def _is_map(metadata: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(metadata), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _corrupt(what: str, row: Indexed, why: str) -> Corrupt:
    return Corrupt(
        f"the {what} kept for entry {row.sequence} cannot be read: {why}",
        hint="Keep a copy of the file as it is, and restore a backup",
        sequence=row.sequence,
    )
