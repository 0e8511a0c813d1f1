"""The index of a large shelf whose words, vectors and metadata are stored elsewhere, in parts.

A *portion* is a run of some thousand entries. Its index is stored in parts: the postings of each word, the values of
each metadata field, the vectors in a quarter of their size, their spread, and what else ranking wants to know of each
row. Only the last of these is in memory. The others are read by the rankings that need them: a few words, perhaps a
field, the estimates of all cosines one portion after another, and the vectors of the candidates as they are.

What is newer than the last portion is indexed in memory, as in any other shelf.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.filter import Compares, Equals, Exists, OneOf
from memoranda.retrieval.index.columns import NO_ACTOR, Columns
from memoranda.retrieval.index.neighbours import ThreadKey
from memoranda.retrieval.index.postings import Postings, merge_postings, unpack_block, unpack_postings
from memoranda.retrieval.index.segment import Damaged
from memoranda.retrieval.index.shelf import ShelfIndex, WordingCounts
from memoranda.retrieval.index.spread import Spread, measure_spread
from memoranda.retrieval.index.vectors import (
    Cosines,
    Mask,
    Matrix,
    PrunedTable,
    Rows,
    Vector,
    VectorTable,
    kth_bound,
    nearest,
)

MOST_ROWS = 65_536
"""Rows that one portion can have."""

ROWS, VECTORS, SPREAD, FIELDS = "rows", "vectors", "spread", "fields"
_WORD, _FIELD = "word ", "field "
IN_EACH = frozenset({ROWS, VECTORS, SPREAD, FIELDS})
"""The parts that every portion has."""

Parts = Mapping[str, bytes]
"""The parts of a portion by their names."""
ReadParts = Callable[[Sequence[str]], Iterator[tuple[int, str, bytes]]]
"""Reads some parts of all portions: yields the number of a portion, the name of a part, and the part."""
ReadVectors = Callable[[NDArray[np.int64]], Iterable[tuple[int, bytes]]]
"""Reads the vectors of some entries by their sequences."""

_CHECKSUM = 4
_STEPS = np.float32(127)
"""A number of a stored vector is rounded to this many steps of the largest one."""
_ROUNDING = 0.02
"""What a cosine may be higher than by the rounded vector."""
# From how many portions the spread is taken: there are enough entries in them.
_MOST_MEASURED = 16
# The spread of later rows is measured again after this part of them has changed.
_MEASURED_AGAIN = 8
# Vectors that are compared at once: few enough that they stay in the processor's cache.
_AT_ONCE = 1_024
# Fields whose values are held for the next filter.
_MOST_FIELDS = 8
_NEVER = np.iinfo(np.int64).max


class _Rows(msgspec.Struct, frozen=True):
    """What there is of each row, in a portion: arrays, and what their numbers mean."""

    arrays: dict[str, tuple[str, bytes]]
    threads: list[tuple[str, str | int | None]]
    cohesion: list[tuple[str, bool, tuple[int, int, float, bytes | None]]]
    recurrence: list[float]
    """How often rare words recur in each group of threads, in the order of `cohesion`."""
    actors: list[list[str]]
    sources: list[str | None]
    origins: list[list[str]]
    languages: list[str]
    letters: str

    def array(self, name: str) -> NDArray[Any]:
        dtype, raw = self.arrays[name]
        return np.frombuffer(raw, dtype)


_Measured = tuple[int, Spread]
"""A spread, and the number of rows that it was measured of."""


class _Spread(msgspec.Struct, frozen=True):
    rows: int
    arrays: list[bytes]


def _seal(part: bytes) -> bytes:
    return zlib.crc32(part).to_bytes(_CHECKSUM, "little") + part


def _open(part: bytes) -> memoryview:
    whole = memoryview(part)[_CHECKSUM:]
    if part[:_CHECKSUM] != zlib.crc32(whole).to_bytes(_CHECKSUM, "little"):
        raise Damaged("a stored part of an index is not as it was written")
    return whole


class StoredWords(msgspec.Struct, frozen=True):
    """What a portion says of some words and of all metadata."""

    sequences: list[int]
    """The entries with all of the words."""
    values: list[Any]
    """The distinct values of metadata."""


def words_and_values(portions: int, parts: ReadParts, words: Sequence[str]) -> Iterator[StoredWords]:
    """Yield for each portion which of its entries have all these words, and the values of metadata."""
    fields: set[str] = set()
    for _, _, part in parts((FIELDS,)):
        fields.update(msgspec.json.decode(_open(part), type=list[str]))
    sequences: dict[int, NDArray[np.int64]] = {}
    found: dict[int, list[NDArray[np.int64]]] = {}
    values: dict[int, list[Any]] = {}
    for portion, name, part in parts([ROWS, *(_WORD + word for word in words), *(_FIELD + key for key in fields)]):
        if name == ROWS:
            rows = msgspec.msgpack.decode(zlib.decompress(_open(part)), type=_Rows)
            sequences[portion] = rows.array("sequence")
        elif name.startswith(_WORD):
            numbers = np.arange(MOST_ROWS)
            found.setdefault(portion, []).append(unpack_postings(unpack_block(_open(part), numbers))[0])
        else:
            raw, _ = msgspec.msgpack.decode(_open(part), type=tuple[bytes, bytes])
            values.setdefault(portion, []).extend(msgspec.json.decode(raw))
    for portion in range(portions):
        of_words = found.get(portion, [])
        together = (
            functools.reduce(np.intersect1d, of_words)
            if words and len(of_words) == len(words)
            else np.empty(0, np.intp)
        )
        of_portion = sequences.get(portion, np.empty(0, np.int64))
        yield StoredWords(of_portion[together].tolist(), values.get(portion, []))


class StoredIndex(ShelfIndex):
    """The index of a shelf, of which the words, vectors and metadata of portions are read when they are needed.

    Reading them may raise what the caller raises there, or `Damaged`.
    """

    is_stored: ClassVar[bool] = True
    cached_per_row: ClassVar[int] = 1

    def __init__(self, dimension: int, portions: Sequence[bytes], parts: ReadParts, vectors: ReadVectors) -> None:
        """Load what there is of each row of some portions; `parts` and `vectors` read the rest."""
        super().__init__(dimension)
        self._parts = parts
        self._of_portions: _Measured | None = None
        self._merged: Spread | None = None
        self._measured = 0
        """Later rows when the spread was measured."""
        read = [msgspec.msgpack.decode(zlib.decompress(_open(part)), type=_Rows) for part in portions]
        sequences = _concatenate(read, "sequence", np.int64)
        order = sequences.argsort(kind="stable")
        row_of = np.empty(len(order), np.int64)
        row_of[order] = np.arange(len(order))
        ends = np.cumsum([0, *(len(one.array("sequence")) for one in read)]).tolist()
        places = [row_of[start:end] for start, end in itertools.pairwise(ends)]
        self._stored = len(order)
        self._recurring: defaultdict[tuple[str, bool], float] = defaultdict(float)
        """How often rare words recur in each group of threads, times the rows that it was measured of; and those."""
        self._measured_rows: defaultdict[tuple[str, bool], int] = defaultdict(int)
        self._load_columns(read, order)
        self._load_threads(read, order)
        self.postings = _StoredPostings(parts, places, "".join(one.letters for one in read))
        self.vectors = _StoredVectors(dimension, self._sequence.rows.copy(), places, parts, vectors)
        self._columns = _StoredColumns(parts, places, len(order))

    @classmethod
    def parts_of(cls, index: ShelfIndex) -> dict[str, bytes]:
        """Return the parts of an index of at most `MOST_ROWS` rows, of which none was removed."""
        threads, fields = index.threads, index.fields
        arrays = {name: column.rows for name, column in index._named().items() if name not in ("present", "copies")}
        arrays |= {"thread": threads.thread, "actor": fields.actor, "year": fields.year, "month": fields.month}
        rows = _Rows(
            arrays={name: (array.dtype.str, array.tobytes()) for name, array in arrays.items()},
            threads=threads.keys(),
            cohesion=threads.cohesion(),
            recurrence=index._measure_recurrence().tolist(),
            actors=fields.actors(),
            sources=list(index._sources),
            origins=[list(origin) for origin in index._origins],
            languages=list(index._languages),
            letters="".join(sorted(index.postings.letters)),
        )
        spread = _Spread(len(index), [array.astype("<f4").tobytes() for array in index.spread])
        parts = {
            ROWS: zlib.compress(msgspec.msgpack.encode(rows), 1),
            SPREAD: msgspec.msgpack.encode(spread),
            VECTORS: _quantize(index.vectors.matrix),
        }
        parts |= {_WORD + word: block for word, block in index.postings.blocks()}
        columns = index.columns.pack()
        parts |= {_FIELD + key: column for key, column in columns.items()}
        parts[FIELDS] = msgspec.json.encode(list(columns))
        return {name: _seal(part) for name, part in parts.items()}

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        return super().nbytes + (0 if self._merged is None else 2 * self._merged.nbytes)

    def expect(self, terms: Iterable[tuple[str, ...]]) -> None:
        """Read the postings of these terms together."""
        missing = {stem for stems in terms if stems not in self._found for stem in stems}
        if missing:
            self.postings.read_ahead(missing)

    @property
    def spread(self) -> Spread:
        """The spread of the vectors of portions and of later rows; a little older than the last change."""
        if self._of_portions is None:
            self._of_portions = _merge(
                [_read_spread(_open(part), self.vectors.dimension) for _, _, part in self._parts((SPREAD,))]
            )
        later = np.flatnonzero(self._present.rows[self._stored :])
        if self._merged is None or abs(len(later) - self._measured) * _MEASURED_AGAIN > len(later):
            self._merged, self._measured = self._of_portions[1], len(later)
            if len(later):
                self._merged = _merge([self._of_portions, (len(later), self._spread_of_later(later))])[1]
        return self._merged

    def _spread_of_later(self, present: Rows) -> Spread:
        beside = self.context.beside[:, self._stored :] - self._stored
        beside[beside < 0] = beside.shape[1]  # the vectors of portions are elsewhere
        later = self.context._replace(beside=beside, sense=self.context.sense[:, self._stored :])
        return measure_spread(self.vectors.matrix[self._stored :], later, present)

    def compact(self) -> None:
        """Do nothing: removed rows are dropped when their portion is made again."""

    def _compact(self) -> None:
        pass

    def _load_columns(self, read: Sequence[_Rows], order: NDArray[np.int64]) -> None:
        for name, column in self._named().items():
            if name not in ("present", "copies", "source", "origin", "language"):
                column.extend(_concatenate(read, name, column.rows.dtype)[order])
        rows, likeness = len(order), self.likeness
        self._present.extend(np.ones(rows, np.bool_))
        copies = likeness != 0
        copies[np.unique(likeness, return_index=True)[1]] = False
        self._copies.extend(copies)
        self._rows_alike = WordingCounts.of(likeness, self._wording.rows)
        self._source.extend(_in_common_numbers(read, "source", [one.sources for one in read], self._sources)[order])
        names = [[tuple(origin) for origin in one.origins] for one in read]
        origins = _in_common_numbers(read, "origin", names, self._origins)
        self._origin.extend(origins[order])
        self._seen_origins.update(np.unique(origins).tolist())
        languages = _in_common_numbers(read, "language", [one.languages for one in read], self._languages)
        self._language_of.extend(languages[order])
        self._language_counts = np.bincount(languages, minlength=len(self._languages)).tolist()
        self._count = rows
        self._newest = int(self._sequence.rows[-1]) if rows else 0
        self._next_expiry = int(self._expires.rows.min()) if rows else _NEVER
        shifts = np.cumsum([0, *(len(one.actors) for one in read)]).tolist()
        actors = [
            np.where(one.array("actor") == NO_ACTOR, NO_ACTOR, one.array("actor") + shift)
            for one, shift in zip(read, shifts, strict=False)
        ]
        self.fields.add_read(
            np.concatenate(actors)[order] if actors else np.empty(0, np.int32),
            _concatenate(read, "year", np.int16)[order],
            _concatenate(read, "month", np.int8)[order],
            [actor for one in read for actor in one.actors],
        )

    def _load_threads(self, read: Sequence[_Rows], order: NDArray[np.int64]) -> None:
        keys: list[ThreadKey] = []
        for one in read:
            names = one.threads
            numbers: list[int] = one.array("thread").tolist()
            keys += [names[number] for number in numbers]
        places: list[int] = order.tolist()
        self.threads.add_linked([keys[place] for place in places])
        for one in read:
            self.threads.add_cohesion(one.cohesion)
            for (namespace, declared, (rows, *_)), recurs in zip(one.cohesion, one.recurrence, strict=True):
                self._recurring[namespace, declared] += recurs * rows
                self._measured_rows[namespace, declared] += rows

    def _measure_recurrence(self) -> NDArray[np.float64]:
        """Return how often rare words recur in each group of threads, as it was measured in portions."""
        return np.array([self._recurring[key] / max(self._measured_rows[key], 1) for key in self.threads.group_keys()])


def _concatenate(read: Sequence[_Rows], name: str, dtype: Any) -> NDArray[Any]:
    return np.concatenate([one.array(name) for one in read]) if read else np.empty(0, dtype)


def _in_common_numbers(
    read: Sequence[_Rows], column: str, names: Sequence[Sequence[Any]], numbers: dict[Any, int]
) -> NDArray[np.int32]:
    """Return a column of all portions, each of which numbers its names by itself, in numbers of all of them."""
    found = [
        np.array([numbers.setdefault(name, len(numbers)) for name in of_portion], np.int32)[one.array(column)]
        for one, of_portion in zip(read, names, strict=True)
    ]
    return np.concatenate(found) if found else np.empty(0, np.int32)


def _quantize(matrix: Matrix) -> bytes:
    """Return the rows of a matrix in a quarter of their size: a scale for each, and its numbers in steps of that."""
    steps = np.rint(matrix * (_STEPS / np.abs(matrix).max(axis=1, keepdims=True))).astype(np.int8)
    # Of unit length again: numbers that occur often may all be rounded in one direction.
    scales = 1 / np.sqrt(np.einsum("ij,ij->i", steps, steps, dtype=np.float32))
    return scales.astype("<f4").tobytes() + steps.tobytes()


def _likely(part: memoryview, query: Vector) -> Cosines:
    """Return the cosines of rounded vectors with a query."""
    rows = len(part) // (4 + len(query))
    scales = np.frombuffer(part, "<f4", rows)
    steps = np.frombuffer(part, np.int8, offset=4 * rows).reshape(rows, len(query))
    cosines = np.empty(rows, np.float32)
    for start in range(0, rows, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        np.dot(steps[some].astype(np.float32), query, out=cosines[some])
    cosines *= scales
    return cosines


def _read_spread(part: memoryview, dimension: int) -> _Measured:
    """Return the spread that a part has, and the number of rows that it was measured of."""
    read = msgspec.msgpack.decode(part, type=_Spread)
    mean, middle, covariance, alone = (np.frombuffer(raw, "<f4").astype(np.float64) for raw in read.arrays)
    square = (dimension, dimension)
    return read.rows, Spread(mean.astype(np.float32), middle, covariance.reshape(square), alone.reshape(square))


def _merge(measured: Sequence[_Measured]) -> _Measured:
    """Return the spread of all of some vectors, which was measured in several parts of them."""
    chosen = measured[:: -(-len(measured) // _MOST_MEASURED)]
    total = sum(rows for rows, _ in chosen)
    weighted = [(rows / total, one) for rows, one in chosen]
    mean, middle = np.zeros_like(chosen[0][1].middle), np.zeros_like(chosen[0][1].middle)
    covariance, alone = np.zeros_like(chosen[0][1].covariance), np.zeros_like(chosen[0][1].alone)
    for weight, one in weighted:
        mean += weight * one.mean
        middle += weight * one.middle
    for weight, one in weighted:
        away = one.mean - mean
        together = away + one.middle - middle
        covariance += weight * (one.covariance + np.outer(together, together))
        alone += weight * (one.alone + np.outer(away, away))
    return total, Spread(mean.astype(np.float32), middle, covariance, alone)


class _StoredPostings(Postings):
    """The postings of portions, read by word, and those of later rows."""

    def __init__(self, parts: ReadParts, places: Sequence[NDArray[np.int64]], letters: str) -> None:
        super().__init__()
        self._parts, self._places = parts, places
        self._letters = set(letters)
        self._ahead: dict[str, list[NDArray[np.uint64]]] = {}
        """What was read ahead: the blocks of words, those that no portion has included."""

    def read_ahead(self, words: Set[str]) -> None:
        """Read the postings of these words, in place of what was read ahead before."""
        self._ahead = {word: [] for word in words}
        for portion, name, part in self._parts([_WORD + word for word in sorted(words)]):
            self._ahead[name[len(_WORD) :]].append(unpack_block(_open(part), self._places[portion]))

    def vocabulary(self, words: Set[str]) -> Set[str]:
        """Return those of these words that any row ever contained."""
        self.read_ahead(words)
        return super().vocabulary(words) | {word for word, blocks in self._ahead.items() if blocks}

    def find(self, words: Iterable[str]) -> NDArray[np.uint64]:
        """Return the postings of a term in ascending order; several words are merged as synonyms."""
        asked = set(words)
        if not asked <= self._ahead.keys():
            self.read_ahead(asked)
        blocks = [block for word in asked for block in self._ahead[word]]
        return merge_postings([*blocks, super().find(asked)])


class _StoredColumns(Columns):
    """The metadata of portions, read by field, and those of later rows."""

    def __init__(self, parts: ReadParts, places: Sequence[NDArray[np.int64]], rows: int) -> None:
        super().__init__()
        self._parts, self._places, self._stored = parts, places, rows
        self._rows = rows
        self._read: dict[str, Columns] = {}

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        return super().nbytes + sum(read.nbytes for read in self._read.values())

    def condition_mask(self, condition: Equals | OneOf | Compares | Exists) -> Mask:
        """Return for each row whether its metadata match one condition."""
        mask = super().condition_mask(condition)
        mask[: self._stored] = self._field(condition.key).condition_mask(condition)
        return mask

    def _field(self, key: str) -> Columns:
        read = self._read.get(key)
        if read is None:
            if len(self._read) >= _MOST_FIELDS:
                self._read.clear()
            packed: list[tuple[str, NDArray[np.int32], memoryview]] = []
            for portion, _, part in self._parts((_FIELD + key,)):
                packed.append((key, self._places[portion].astype(np.int32), _open(part)))
            read = self._read[key] = Columns.unpack(self._stored, packed)
        return read


class _LaterRows:
    """The vectors of the rows after those of portions; the others are all zeros here."""

    def __init__(self, stored: int, matrix: Matrix) -> None:
        self._stored, self._matrix = stored, matrix
        self.shape = (stored + len(matrix), matrix.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            start, end, _ = rows.indices(len(self))
            return self._matrix[start - self._stored : end - self._stored]
        places = np.asarray(rows) - self._stored
        vectors = self._matrix.take(np.maximum(places, 0), axis=0)
        vectors[places < 0] = 0
        return vectors


class _Compared:
    """The cosines with one query, as far as they are known."""

    def __init__(self, query: Vector, likely: Cosines) -> None:
        self.query = query
        self.likely = likely
        self.exact = np.full(len(likely), np.nan, np.float32)


class _StoredVectors(PrunedTable):
    """The vectors of portions, compared by their estimates, and those of later rows."""

    def __init__(
        self,
        dimension: int,
        sequences: NDArray[np.int64],
        places: Sequence[NDArray[np.int64]],
        parts: ReadParts,
        vectors: ReadVectors,
    ) -> None:
        super().__init__(dimension)
        self._sequences, self._places = sequences, places
        self._parts, self._read = parts, vectors
        self._later = VectorTable(dimension)
        self._compared: _Compared | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._sequences) + len(self._later)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._later.nbytes + self._sequences.nbytes

    @property
    def matrix(self) -> Matrix:
        """The vectors of later rows, by the numbers of all rows."""
        return cast("Matrix", _LaterRows(len(self._sequences), self._later.matrix))

    @property
    def is_pruned(self) -> bool:
        """Whether a search may miss a neighbour."""
        return True

    def append_matrix(self, vectors: Matrix) -> None:
        """Add the rows of a matrix, each of unit length."""
        self._compared = None
        self._later.append_matrix(vectors)

    def reserve(self, rows: int) -> None:
        """Make room for this many rows."""
        self._later.reserve(rows - len(self._sequences))

    def keep(self, rows: NDArray[np.integer[Any]]) -> None:
        """Keep only these rows, which are all but some of the last."""
        self._compared = None
        self._later.keep(rows[len(self._sequences) :] - len(self._sequences))

    def estimate(self, query: Vector) -> tuple[Cosines, Vector]:
        """Return an estimate of the cosine of every row with a query, and the query."""
        return self._compare(query).likely.copy(), query

    def beyond_estimate(self, query: Vector) -> Cosines | float:
        """Return how much higher a cosine may be than `estimate` says."""
        return _ROUNDING

    def cosines(self, query: Vector, rows: Rows) -> Cosines:
        """Return the cosines of some rows with a query, reading the vectors that were not compared yet."""
        compared = self._compare(query)
        missing = rows[np.isnan(compared.exact[rows])]
        stored = missing[missing < len(self._sequences)]
        later = missing[missing >= len(self._sequences)]
        if len(later):
            compared.exact[later] = self._later.cosines(query, later - len(self._sequences))
        if len(stored):
            found, matrix = self._read_stored(stored)
            compared.exact[stored] = compared.likely[stored]  # one that was removed meanwhile is left out later
            compared.exact[found] = matrix @ query
        return compared.exact[rows]

    def refine(self, likely: Cosines, query: Vector, rows: Rows) -> None:
        """Leave the estimates as they are: reading the vectors would take longer than anything else."""

    def top(self, query: Vector, k: int, eligible: Mask | None = None) -> tuple[Rows, Cosines]:
        """Return the k eligible rows nearest to a query and their cosines, nearest first, ties in age order."""
        likely = self._compare(query).likely
        rows = np.arange(len(likely)) if eligible is None else np.flatnonzero(eligible)
        if k <= 0 or not len(rows):
            return np.empty(0, np.intp), np.empty(0, np.float32)
        likely = likely[rows]
        near = rows[likely >= kth_bound(likely, k) - _ROUNDING]
        stored = near[near < len(self._sequences)]
        found, matrix = stored, np.empty((0, self.dimension), np.float32)
        if len(stored):
            found, matrix = self._read_stored(stored)
        later = near[near >= len(self._sequences)]
        together = np.concatenate((matrix, self._later.matrix.take(later - len(self._sequences), axis=0)))
        best, cosines = nearest(together, query, k, None, together @ query)
        return np.concatenate((found, later))[best], cosines

    def _read_stored(self, rows: Rows) -> tuple[Rows, Matrix]:
        """Return those of some rows of portions whose vectors can be read, and these."""
        read = [one for one in self._read(self._sequences[rows]) if len(one[1]) == 4 * self.dimension]
        numbers = np.fromiter((sequence for sequence, _ in read), np.int64, len(read))
        matrix = np.frombuffer(b"".join(vector for _, vector in read), "<f4").reshape(len(read), self.dimension)
        return self._sequences.searchsorted(numbers), matrix

    def _compare(self, query: Vector) -> _Compared:
        compared = self._compared
        if compared is None or not np.array_equal(compared.query, query):
            likely = np.zeros(len(self), np.float32)
            for portion, _, part in self._parts((VECTORS,)):
                likely[self._places[portion]] = _likely(_open(part), query)
            likely[len(self._sequences) :] = self._later.product(query)
            compared = self._compared = _Compared(query, likely)
        return compared
