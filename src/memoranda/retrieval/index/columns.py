"""The metadata of an index: a column for each key, which filters ask, and the fields that ranking understands.

A column has the distinct values of one key and, for each row, the code of its value. So a filter is evaluated once for
each distinct value, not for each row. A key of few rows is stored sparsely, so that rare keys cost little.

Ranking understands thread, actor and date: `thread` or `session` names the thread of an entry, `actor` or `speaker` its
actor, `time` (ISO 8601) its date. Values of other types under these keys are ignored.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from memoranda.retrieval.analysis.dates import date_terms, read_day
from memoranda.retrieval.analysis.languages import term
from memoranda.retrieval.analysis.words import split
from memoranda.retrieval.filter import (
    Compares,
    Either,
    Equals,
    Every,
    Exists,
    Filter,
    Negated,
    OneOf,
    comparable,
    identity,
)
from memoranda.retrieval.index.segment import Contents, Names, Segment

_SMALLEST = 16


class GrowingArray:
    """An array that grows by half when it is full. `rows` is a view of it, valid until the next change."""

    __slots__ = ("_filled", "_room", "_sealed")

    def __init__(self, dtype: DTypeLike) -> None:
        """Create an empty array."""
        self._room: NDArray[Any] = np.empty(_SMALLEST, dtype)
        self._filled = 0
        self._sealed: int | None = None
        """Rows that a segment has mapped; None if the array has memory of its own."""

    def start_from(self, segment: Segment, name: str) -> None:
        """Continue an array of a segment, in the room behind it."""
        self._room, self._filled = segment.rows(name)
        self._sealed = self._filled

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._filled

    @property
    def rows(self) -> NDArray[Any]:
        """The values, which may be changed in place."""
        return self._room[: self._filled]

    @property
    def nbytes(self) -> int:
        """Size in bytes, without what a segment has mapped."""
        return self._room.nbytes if self._sealed is None else self._room[self._sealed : self._filled].nbytes

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        """Add rows with these values."""
        end = self._filled + len(values)
        if end > len(self._room):
            room = np.empty(max(end, len(self._room) * 3 // 2), self._room.dtype)
            room[: self._filled] = self.rows
            self._room, self._sealed = room, None
        if len(values) == 1:
            self._room[self._filled] = values[0]
        else:
            self._room[self._filled : end] = values
        self._filled = end

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Keep only these rows, renumbered in this order."""
        self._room, self._sealed = self._room[rows], None
        self._filled = len(rows)
        if not self._filled:
            self._room = np.empty(_SMALLEST, self._room.dtype)


Mask = NDArray[np.bool_]
Codes = NDArray[np.int32]

_MISSING = -1
"""The code of a row without the key."""

# A column becomes dense when one row in two has the key, and sparse again below one in eight: the gap keeps a column at
# the border from changing its form with each append.
_DENSE_FROM, _SPARSE_BEYOND = 2, 8
# With fewer distinct values, testing each is faster than keeping a sorted order.
_WORTH_SORTING = 256
_FEWEST = 8
# The size of a distinct value's slots in the dictionary and the list.
_BYTES_OF_A_PLACE = 112

_PLAIN = frozenset({str, int, float, type(None)})
# Up to here every whole number has a float of its own.
_EXACT = 2**53
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Columns:
    """The metadata of rows, by key. Rows are numbered in order of arrival and renumbered only by `keep`.

    Not thread-safe: the caller excludes readers while it writes.
    """

    def __init__(self) -> None:
        """Create a store without rows."""
        self._columns: dict[str, _Column] = {}
        self._rows = 0

    def __len__(self) -> int:
        """Return the number of rows, including removed ones that the owner has not dropped yet."""
        return self._rows

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        return sum(column.nbytes for column in self._columns.values())

    def append(self, metadata: Sequence[bytes]) -> None:
        """Add rows of metadata, each a JSON object."""
        # All are decoded before any is added, so that an invalid row leaves nothing behind.
        rows = [_decode(row) for row in metadata]
        first, self._rows = self._rows, self._rows + len(rows)
        if len(rows) == 1:
            self._put_row(first, rows[0])
            return
        # Rows with the same keys are turned into columns together.
        alike: dict[tuple[str, ...], list[int]] = {}
        for place, row in enumerate(rows):
            alike.setdefault(tuple(row), []).append(place)
        for keys, places in alike.items():
            if len(places) == 1:
                self._put_row(first + places[0], rows[places[0]])
            elif keys:
                numbers = np.array(places, dtype=np.int32) + np.int32(first)
                members = rows if len(places) == len(rows) else [rows[place] for place in places]
                for key in keys:
                    self._column(key).put(numbers, [row[key] for row in members])

    def save(self, contents: Contents) -> None:
        """Put all columns into a segment."""
        columns = enumerate(self._columns.items())
        contents.values["columns"] = [(key, *one.save(contents, f"column {number}")) for number, (key, one) in columns]
        contents.values["columns.rows"] = self._rows

    @classmethod
    def load(cls, segment: Segment) -> Columns:
        """Return the columns of a segment."""
        columns = cls()
        columns._rows = segment.values["columns.rows"]
        for number, (key, held, end) in enumerate(segment.values["columns"]):
            columns._columns[key] = _Column.load(segment, f"column {number}", held, end)
        return columns

    def pack(self) -> dict[str, bytes]:
        """Return each column as bytes, by its key."""
        return {key: column.pack(self._rows) for key, column in self._columns.items()}

    @classmethod
    def unpack(cls, rows: int, parts: Iterable[tuple[str, NDArray[np.int32], bytes | memoryview]]) -> Columns:
        """Return some columns: each with a key, the numbers of rows, and what `pack` made of these rows."""
        columns = cls()
        columns._rows = rows
        for key, numbers, packed in parts:
            columns._column(key).put_packed(numbers, packed)
        return columns

    def mask(self, filter: Filter | None) -> Mask:
        """Return for each row whether its metadata match a filter; without a filter all do."""
        match filter:
            case None:
                return np.ones(self._rows, dtype=np.bool_)
            case Every(parts):
                mask = np.ones(self._rows, dtype=np.bool_)
                for part in parts:
                    mask &= self.mask(part)
                return mask
            case Either(parts):
                mask = np.zeros(self._rows, dtype=np.bool_)
                for part in parts:
                    mask |= self.mask(part)
                return mask
            case Negated(part):
                mask = self.mask(part)
                return np.logical_not(mask, out=mask)
            case _:
                return self.condition_mask(filter)

    def condition_mask(self, condition: Equals | OneOf | Compares | Exists) -> Mask:
        """Return for each row whether its metadata match one condition."""
        column = self._columns.get(condition.key)
        return np.zeros(self._rows, dtype=np.bool_) if column is None else column.mask(condition, self._rows)

    def values(self) -> Iterator[Any]:
        """Yield the distinct values of every key."""
        for column in self._columns.values():
            yield from column.all()

    def keep(self, rows: NDArray[np.integer[Any]]) -> None:
        """Keep only these rows, renumbered in this order, and free unused values."""
        kept: dict[str, _Column] = {}
        for key, column in self._columns.items():
            codes = column.codes(self._rows)[rows]
            held = np.flatnonzero(codes != _MISSING).astype(np.int32)
            if held.size:
                kept[key] = column.only(held, codes[held])
        self._columns = kept
        self._rows = len(rows)

    def _put_row(self, number: int, row: dict[str, Any]) -> None:
        for key, value in row.items():
            self._column(key).put_one(number, value)

    def _column(self, key: str) -> _Column:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _Column()
        return column


class _Column:
    """The values of one key. Dense: `_codes` by row. Sparse: `_codes` of the rows in `_numbers`."""

    __slots__ = (
        "_bytes",
        "_code_of",
        "_codes",
        "_distinct",
        "_end",
        "_held",
        "_mapped",
        "_numbers",
        "_orders",
        "_sealed",
    )

    def __init__(self) -> None:
        self._distinct: list[Any] = []
        """The values by code; of a segment's column those that came later, until all of them are needed."""
        self._code_of: dict[Hashable, int] = {}
        """The codes of the values; of a segment's column those that were looked up, too."""
        self._sealed: Names | None = None
        """The first values, in a segment."""
        self._mapped = False
        """Whether the codes are those of a segment."""
        self._codes: Codes = np.empty(_FEWEST, dtype=np.int32)
        self._numbers: NDArray[np.int32] | None = np.empty(_FEWEST, dtype=np.int32)
        self._held = 0
        """Number of rows that have the key."""
        self._end = 0
        """One more than the last row that has it."""
        self._orders: dict[type[float] | type[str], _Order] = {}
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        numbers = 0 if self._numbers is None else self._numbers.nbytes
        codes = 0 if self._mapped else self._codes.nbytes + numbers
        return codes + self._bytes + sum(order.nbytes for order in self._orders.values())

    # segments

    def save(self, contents: Contents, name: str) -> tuple[int, int]:
        """Put the column into a segment; return the number of rows that have the key, and the end of the last."""
        if self._numbers is None:
            contents.arrays[name] = self._codes[: self._end]
        else:
            contents.arrays[name] = self._codes[: self._held]
            contents.arrays[f"{name}.rows"] = self._numbers[: self._held]
        values = self.all().copy()
        contents.later.append(lambda contents: contents.add_names(name, [_name_of(one) for one in values]))
        return self._held, self._end

    @classmethod
    def load(cls, segment: Segment, name: str, held: int, end: int) -> _Column:
        """Return a column of a segment; its values are read when they are asked for."""
        column = cls()
        column._codes = segment.array(name)
        column._numbers = segment.array(f"{name}.rows") if f"{name}.rows" in segment else None
        column._sealed, column._mapped = segment.names(name), True
        column._held, column._end = held, end
        return column

    def _count(self) -> int:
        """Return the number of distinct values."""
        return len(self._distinct) + (0 if self._sealed is None else len(self._sealed))

    def all(self) -> list[Any]:
        """Return all distinct values by code, reading those of the segment."""
        if self._sealed is not None:
            sealed = [msgspec.json.decode(name) for name in self._sealed]
            for code, value in enumerate(sealed):
                self._code_of.setdefault(value if type(value) is str else identity(value), code)
            self._distinct = sealed + self._distinct
            self._sealed = None
            self._bytes += _BYTES_OF_A_PLACE * len(sealed) + sum(map(_size, sealed))
        return self._distinct

    def _find(self, name: Hashable) -> int | None:
        """Return the code of a value, None if it was never there."""
        code = self._code_of.get(name)
        if code is None and self._sealed is not None:
            code = self._sealed.find(_name_of(name))
            if code is not None:
                self._code_of[name] = code
                self._bytes += _BYTES_OF_A_PLACE
        return code

    # writing

    def put_one(self, number: int, value: Any) -> None:
        """Add the value of a new row."""
        name = value if type(value) is str else identity(value)
        code = self._find(name)
        if code is None:
            code = self._add(name, value)
        self._make_room(1, number + 1)
        if self._numbers is None:
            self._codes[number] = code
        else:
            self._numbers[self._held] = number
            self._codes[self._held] = code
        self._held += 1
        self._end = max(self._end, number + 1)

    def put(self, numbers: NDArray[np.int32], values: list[Any]) -> None:
        """Add the values of new rows, in ascending order."""
        self._put_codes(numbers, self._encode(values))

    def only(self, numbers: NDArray[np.int32], codes: Codes) -> _Column:
        """Return a column with these rows and codes, and only the values that they use."""
        used, renumbered = np.unique(codes, return_inverse=True)
        column = _Column()
        values = self.all()
        for code in map(int, used):
            column._add(identity(values[code]), values[code])
        column._put_codes(numbers, renumbered.astype(np.int32))
        return column

    def pack(self, rows: int) -> bytes:
        codes = self.codes(rows)
        used, renumbered = np.unique(codes, return_inverse=True)
        values = self.all()
        known = used[used != _MISSING]
        shift = len(used) - len(known)
        return msgspec.msgpack.encode(
            (
                msgspec.json.encode([values[code] for code in known.tolist()]),
                (renumbered - shift).astype("<i4").tobytes(),
            )
        )

    def put_packed(self, numbers: NDArray[np.int32], packed: bytes | memoryview) -> None:
        """Add the values of rows, which `pack` packed; rows come in ascending order."""
        raw, codes = msgspec.msgpack.decode(packed, type=tuple[bytes, bytes])
        local = np.frombuffer(codes, "<i4")
        held = local != _MISSING
        if held.any():
            distinct = self._encode(msgspec.json.decode(raw))
            self._put_codes(numbers[held], distinct[local[held]])

    def _put_codes(self, numbers: NDArray[np.int32], codes: Codes) -> None:
        count, end = len(numbers), int(numbers[-1]) + 1
        self._make_room(count, end)
        if self._numbers is None:
            self._codes[numbers] = codes
        else:
            self._numbers[self._held : self._held + count] = numbers
            self._codes[self._held : self._held + count] = codes
        self._held += count
        self._end = max(self._end, end)

    def _encode(self, values: list[Any]) -> Codes:
        known = self._code_of
        if self._sealed is not None:
            for value in values:
                self._find(identity(value))
        if _PLAIN.issuperset(map(type, values)):
            names: Sequence[Hashable] = values
            new = [value for value in dict.fromkeys(values) if value not in known]
            codes = range(self._count(), self._count() + len(new))
            known.update(zip(new, codes, strict=True))
            self._distinct += new
            self._bytes += _BYTES_OF_A_PLACE * len(new) + sum(map(sys.getsizeof, new))
            if len(new) == len(values):
                return np.arange(codes.start, codes.stop, dtype=np.int32)
        else:
            names = [identity(value) for value in values]
            for name, value in zip(names, values, strict=True):
                if name not in known:
                    self._add(name, value)
        return np.fromiter(map(known.__getitem__, names), dtype=np.int32, count=len(values))

    def _add(self, name: Hashable, value: Any) -> int:
        code = self._code_of[name] = self._count()
        self._distinct.append(value)
        self._bytes += _BYTES_OF_A_PLACE + _size(value)
        return code

    def _make_room(self, count: int, end: int) -> None:
        """Make room for `count` more rows, all before `end`, and choose the smaller form."""
        held, end = self._held + count, max(self._end, end)
        if self._numbers is None and end > held * _SPARSE_BEYOND:
            numbers = np.flatnonzero(self._codes[: self._end] != _MISSING).astype(np.int32)
            self._numbers, self._codes, self._mapped = numbers, self._codes[numbers], False
        elif self._numbers is not None and held > _FEWEST and end <= held * _DENSE_FROM:
            codes = self.codes(end)
            self._numbers, self._codes, self._mapped = None, codes, False
        needed = end if self._numbers is None else held
        if needed > len(self._codes):
            room = max(needed, len(self._codes) * 3 // 2)
            if self._numbers is None:
                self._codes = _larger(self._codes, len(self._codes), room)
            else:
                self._codes = _larger(self._codes, self._held, room)
                self._numbers = _larger(self._numbers, self._held, room)
            self._mapped = False

    # reading

    def codes(self, rows: int) -> Codes:
        """Return a code for each of the first `rows` rows."""
        if self._numbers is None and rows <= len(self._codes):
            return self._codes[:rows]
        codes = np.full(rows, _MISSING, dtype=np.int32)
        if self._numbers is None:
            codes[: self._end] = self._codes[: self._end]
        else:
            codes[self._numbers[: self._held]] = self._codes[: self._held]
        return codes

    def mask(self, condition: Equals | OneOf | Compares | Exists, rows: int) -> Mask:
        """Return for each row whether its value matches a condition; a row without the key never does."""
        held = self._codes[: self._end if self._numbers is None else self._held]
        match condition:
            case Equals(_, name):
                code = self._find(name)
                matching = np.zeros(len(held), dtype=np.bool_) if code is None else held == code
            case Exists():
                matching = held != _MISSING
            case OneOf(_, names):
                wanted = [code for code in map(self._find, names) if code is not None]
                matching = self._table(wanted)[held]
            case Compares():
                matching = self._table(self._matching_codes(condition))[held]
        mask = np.zeros(rows, dtype=np.bool_)
        if self._numbers is None:
            mask[: self._end] = matching
        else:
            mask[self._numbers[: self._held]] = matching
        return mask

    def _table(self, wanted: list[int] | NDArray[np.intp]) -> Mask:
        """Return for each code whether it is wanted. The last place is that of `_MISSING`, which is -1."""
        table = np.zeros(self._count() + 1, dtype=np.bool_)
        table[wanted] = True
        return table

    def _matching_codes(self, condition: Compares) -> NDArray[np.intp]:
        """Return the codes of the values that are greater or less than a bound."""
        kind = comparable(condition.bound)
        assert kind is not None
        self.all()
        order = self._orders.get(kind)
        # New values are not sorted in until they are an eighth of all: a write must not cost a sort.
        if (len(self._distinct) - (order.covers if order else 0)) * 8 > max(len(self._distinct), _WORTH_SORTING * 8):
            order = self._orders[kind] = _Order.of(self._distinct, kind)
        start = order.covers if order else 0
        rest = [code for code in range(start, len(self._distinct)) if condition.admits(self._distinct[code])]
        later = np.array(rest, dtype=np.intp)
        return later if order is None else np.concatenate((order.matching_codes(condition), later))


class _Order:
    """The first `covers` values of one type (numbers or text), sorted, with their codes."""

    __slots__ = ("_codes", "_values", "covers")

    def __init__(self, values: list[Any], codes: NDArray[np.intp], covers: int) -> None:
        self._values = values
        self._codes = codes
        self.covers = covers

    @property
    def nbytes(self) -> int:
        return 2 * self._codes.nbytes

    @classmethod
    def of(cls, distinct: list[Any], kind: type[float] | type[str]) -> _Order:
        codes = [code for code, value in enumerate(distinct) if comparable(value) is kind]
        codes.sort(key=distinct.__getitem__)
        return cls([distinct[code] for code in codes], np.array(codes, dtype=np.intp), len(distinct))

    def matching_codes(self, condition: Compares) -> NDArray[np.intp]:
        match condition.comparison:
            case "$gt":
                return self._codes[bisect_right(self._values, condition.bound) :]
            case "$gte":
                return self._codes[bisect_left(self._values, condition.bound) :]
            case "$lt":
                return self._codes[: bisect_left(self._values, condition.bound)]
            case "$lte":
                return self._codes[: bisect_right(self._values, condition.bound)]


def _name_of(value: Any) -> bytes:
    """Return bytes that are the same for two values, or what `identity` made of them, exactly when they are equal."""
    return msgspec.json.encode(_plain(value))


def _plain(value: Any) -> Any:
    """Return a value, or what `identity` made of it, as JSON with one way to write each number and object."""
    if type(value) in (str, bool) or value is None:
        return value
    if isinstance(value, int | float):
        if abs(value) <= _EXACT:
            return int(value) if value == int(value) else value
        try:
            return float(value) if float(value) == value else value
        except OverflowError:
            return value
    if isinstance(value, dict):
        held = cast(dict[str, Any], value)
        return {name: _plain(held[name]) for name in sorted(held)}
    if isinstance(value, list):
        return [_plain(one) for one in cast(list[Any], value)]
    kind, held = cast(tuple[str, Any], value)
    if kind == "truth":
        return held
    if kind == "list":
        return [_plain(one) for one in held]
    return {name: _plain(one) for name, one in sorted(held, key=lambda pair: pair[0])}


def _larger(array: NDArray[np.int32], filled: int, room: int) -> NDArray[np.int32]:
    larger = np.full(room, _MISSING, dtype=np.int32)
    larger[:filled] = array[:filled]
    return larger


def _size(value: Any) -> int:
    """Return the approximate size of a value in bytes; containers count twice, as value and as identity."""
    if isinstance(value, dict):
        held = cast(dict[str, Any], value)
        return 2 * (sys.getsizeof(held) + sum(sys.getsizeof(name) + _size(item) for name, item in held.items()))
    if isinstance(value, list):
        items = cast(list[Any], value)
        return 2 * (sys.getsizeof(items) + sum(map(_size, items)))
    return sys.getsizeof(value)


K = TypeVar("K")
V = TypeVar("V")

NO_ACTOR = -1
"""The actor of a row without one."""

_LONGEST_NAME = 256
_CACHE_SIZE = 65_536
_NO_TERMS: frozenset[str] = frozenset()
# Only this many actors with the same word in their names are considered when a query contains it.
_MOST_BEARERS = 64


class _Metadata(msgspec.Struct, gc=False):
    thread: Any = None
    session: Any = None
    actor: Any = None
    speaker: Any = None
    time: Any = None


_decode_fields = msgspec.json.Decoder(_Metadata).decode


class Fields:
    """The actor and the date of each row, and the terms by which a query may name them."""

    def __init__(self) -> None:
        """Create an index without rows."""
        self._actor = GrowingArray(np.int32)
        self._year = GrowingArray(np.int16)
        self._month = GrowingArray(np.int8)
        self._actors: dict[frozenset[str], int] = {}
        """The number of each actor. Names with the same words belong to the same actor."""
        self._terms: list[frozenset[str]] = []
        """The words of each actor's name."""
        self._row_counts: list[int] = []
        """The number of rows of each actor."""
        self._bearers: dict[str, list[int]] = {}
        """The actors with a word in their name."""
        self._names = _Cache[str, int](self._read_name)
        """The actor of each name, as written."""
        self._days = _Cache[tuple[str, str], _DatedTerms](_read_day)
        """The terms of each day in a language."""

    @property
    def actor(self) -> NDArray[np.int32]:
        """The number of each row's actor, or NO_ACTOR."""
        return self._actor.rows

    @property
    def year(self) -> NDArray[np.int16]:
        """The year of each row, or 0."""
        return self._year.rows

    @property
    def month(self) -> NDArray[np.int8]:
        """The month of each row, or 0."""
        return self._month.rows

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        rows = self._actor.nbytes + self._year.nbytes + self._month.nbytes
        return rows + (len(self._names) + len(self._days) + len(self._bearers)) * 500

    def add(
        self, metadata: Sequence[bytes], languages: Sequence[str]
    ) -> tuple[list[str | int | None], list[frozenset[str]], list[frozenset[str]]]:
        """Add rows whose texts are in these languages; raise and add none if one is not a JSON object.

        Return the thread that each row names, and the terms of its actor and of its date.
        """
        decoded = list(map(_decode_fields, metadata))
        actors = list(map(self._names.__getitem__, map(_name, decoded)))
        days = list(map(self._days.__getitem__, zip(map(_day, decoded), languages, strict=True)))
        self._actor.extend(actors)
        self._year.extend([day.year for day in days])
        self._month.extend([day.month for day in days])
        for actor, rows in Counter(actors).items():
            if actor != NO_ACTOR:
                self._row_counts[actor] += rows
        return (
            list(map(_thread, decoded)),
            [_NO_TERMS if actor == NO_ACTOR else self._terms[actor] for actor in actors],
            [day.terms for day in days],
        )

    def actors(self) -> list[list[str]]:
        """Return the words of each actor's name, by number."""
        return [sorted(words) for words in self._terms]

    def add_read(
        self,
        actor: NDArray[np.int32],
        year: NDArray[np.int16],
        month: NDArray[np.int8],
        actors: Sequence[Sequence[str]],
    ) -> None:
        """Add rows that were read before, whose actors have numbers of their own."""
        numbers = np.array([*(self._number(frozenset(words)) for words in actors), NO_ACTOR], np.int32)
        mapped = numbers[actor]  # the last place is that of NO_ACTOR, which is -1
        self._actor.extend(mapped)
        self._year.extend(year)
        self._month.extend(month)
        for number, rows in zip(*np.unique(mapped[mapped != NO_ACTOR], return_counts=True), strict=True):
            self._row_counts[int(number)] += int(rows)

    def save(self, contents: Contents) -> None:
        """Put the fields into a segment."""
        contents.add_rows("actor", self.actor)
        contents.add_rows("year", self.year)
        contents.add_rows("month", self.month)
        contents.values["actors"] = [sorted(words) for words in self._terms]
        contents.values["actors.rows"] = self._row_counts.copy()

    def load(self, segment: Segment) -> None:
        """Continue the fields of a segment."""
        self._actor.start_from(segment, "actor")
        self._year.start_from(segment, "year")
        self._month.start_from(segment, "month")
        for words in segment.values["actors"]:
            self._number(frozenset(words))
        self._row_counts = segment.values["actors.rows"]

    def remove(self, rows: NDArray[np.intp]) -> None:
        """Subtract these rows from their actors' counts."""
        for actor in self.actor[rows].tolist():
            if actor != NO_ACTOR:
                self._row_counts[actor] -= 1

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Keep only these rows, renumbered in this order, and their actors."""
        for column in (self._actor, self._year, self._month):
            column.keep(rows)
        kept = [actor for actor, count in enumerate(self._row_counts) if count]
        renumbered = np.full(len(self._row_counts) + 1, NO_ACTOR, np.int32)
        renumbered[kept] = np.arange(len(kept))
        self._actor.rows[:] = renumbered[self.actor]
        names = [self._terms[actor] for actor in kept]
        counts = [self._row_counts[actor] for actor in kept]
        self._actors, self._bearers = {}, {}
        self._names.clear()
        self._days.clear()
        self._terms, self._row_counts = [], []
        for words in names:
            self._number(words)
        self._row_counts = counts

    def actor_named(self, words: Iterable[str]) -> int:
        """Return the one actor that the words of a query name, NO_ACTOR if they name none or several.

        They name an actor by all words of the name, or by one that no other actor has.
        """
        asked = frozenset(words)
        named: set[int] = set()
        for word in asked:
            bearers = [actor for actor in self._bearers.get(word, ())[:_MOST_BEARERS] if self._row_counts[actor]]
            if len(bearers) == 1:
                named.add(bearers[0])
            elif bearers:
                named.update(actor for actor in bearers if self._terms[actor] <= asked)
        return named.pop() if len(named) == 1 else NO_ACTOR

    def _read_name(self, name: str) -> int:
        """Return the actor of a name, NO_ACTOR if it has no words."""
        # Names are the same in every language, so they are not stemmed.
        forms = (form for word in split(name[:_LONGEST_NAME]) for form in (word.whole, *word.parts) if form)
        words = frozenset(term(form, "") for form in forms)
        return self._number(words) if words else NO_ACTOR

    def _number(self, words: frozenset[str]) -> int:
        """Return the number of the actor whose name has these words; a new actor gets the next number."""
        number = self._actors.get(words)
        if number is None:
            number = self._actors[words] = len(self._terms)
            self._terms.append(words)
            self._row_counts.append(0)
            for word in words:
                self._bearers.setdefault(word, []).append(number)
        return number


class _Cache(dict[K, V]):
    """A cache of parsed values, cleared when it is full."""

    def __init__(self, read: Callable[[K], V]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, written: K) -> V:
        if len(self) >= _CACHE_SIZE:
            self.clear()
        found = self[written] = self._read(written)
        return found


class _DatedTerms(msgspec.Struct, frozen=True, gc=False):
    year: int
    month: int
    terms: frozenset[str]


def _read_day(day_and_language: tuple[str, str]) -> _DatedTerms:
    day, language = day_and_language
    date = read_day(day)
    return _NO_DAY if date is None else _DatedTerms(date.year, date.month, frozenset(date_terms(date, language)))


def _name(metadata: _Metadata) -> str:
    if type(metadata.actor) is str:
        return metadata.actor
    return metadata.speaker if type(metadata.speaker) is str else ""


def _day(metadata: _Metadata) -> str:
    time = metadata.time
    if type(time) is not str:
        return ""
    return time[:10] if len(time) > 10 and time[10] in _AFTER_A_DAY else time


def _thread(metadata: _Metadata) -> str | int | None:
    """Return the first value that can name a thread: text or an integer."""
    if type(metadata.thread) in _NAMES_A_THREAD:
        return metadata.thread
    return metadata.session if type(metadata.session) in _NAMES_A_THREAD else None


_NO_DAY = _DatedTerms(0, 0, _NO_TERMS)
_AFTER_A_DAY = frozenset("T ")
_NAMES_A_THREAD = frozenset({str, int})
