"""A column store for metadata, with dictionary encoding, and the growing arrays that it shares with the index.

A column has the distinct values of one key and, for each row, the code of its value. So a filter is evaluated once for
each distinct value, not for each row. A key of few rows is stored sparsely, so that rare keys cost little.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

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

_SMALLEST = 16


class GrowingArray:
    """An array that grows by half when it is full. `rows` is a view of it, valid until the next change."""

    __slots__ = ("_filled", "_room")

    def __init__(self, dtype: DTypeLike) -> None:
        """Create an empty array."""
        self._room: NDArray[Any] = np.empty(_SMALLEST, dtype)
        self._filled = 0

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._filled

    @property
    def rows(self) -> NDArray[Any]:
        """The values, which may be changed in place."""
        return self._room[: self._filled]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._room.nbytes

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        """Add rows with these values."""
        end = self._filled + len(values)
        if end > len(self._room):
            room = np.empty(max(end, len(self._room) * 3 // 2), self._room.dtype)
            room[: self._filled] = self.rows
            self._room = room
        if len(values) == 1:
            self._room[self._filled] = values[0]
        else:
            self._room[self._filled : end] = values
        self._filled = end

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Keep only these rows, renumbered in this order."""
        self._room = self._room[rows]
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
                column = self._columns.get(filter.key)
                return np.zeros(self._rows, dtype=np.bool_) if column is None else column.mask(filter, self._rows)

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

    __slots__ = ("_bytes", "_code_of", "_codes", "_distinct", "_end", "_held", "_numbers", "_orders")

    def __init__(self) -> None:
        self._distinct: list[Any] = []
        self._code_of: dict[Hashable, int] = {}
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
        return self._codes.nbytes + numbers + self._bytes + sum(order.nbytes for order in self._orders.values())

    # writing

    def put_one(self, number: int, value: Any) -> None:
        """Add the value of a new row."""
        name = value if type(value) is str else identity(value)
        code = self._code_of.get(name)
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
        names = list(self._code_of)
        for code in map(int, used):
            column._add(names[code], self._distinct[code])
        column._put_codes(numbers, renumbered.astype(np.int32))
        return column

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
        if _PLAIN.issuperset(map(type, values)):
            names: Sequence[Hashable] = values
            new = [value for value in dict.fromkeys(values) if value not in known]
            codes = range(len(known), len(known) + len(new))
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
        code = self._code_of[name] = len(self._distinct)
        self._distinct.append(value)
        self._bytes += _BYTES_OF_A_PLACE + _size(value)
        return code

    def _make_room(self, count: int, end: int) -> None:
        """Make room for `count` more rows, all before `end`, and choose the smaller form."""
        held, end = self._held + count, max(self._end, end)
        if self._numbers is None and end > held * _SPARSE_BEYOND:
            numbers = np.flatnonzero(self._codes[: self._end] != _MISSING).astype(np.int32)
            self._numbers, self._codes = numbers, self._codes[numbers]
        elif self._numbers is not None and held > _FEWEST and end <= held * _DENSE_FROM:
            codes = self.codes(end)
            self._numbers, self._codes = None, codes
        needed = end if self._numbers is None else held
        if needed > len(self._codes):
            room = max(needed, len(self._codes) * 3 // 2)
            if self._numbers is None:
                self._codes = _larger(self._codes, len(self._codes), room)
            else:
                self._codes = _larger(self._codes, self._held, room)
                self._numbers = _larger(self._numbers, self._held, room)

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
                code = self._code_of.get(name)
                matching = np.zeros(len(held), dtype=np.bool_) if code is None else held == code
            case Exists():
                matching = held != _MISSING
            case OneOf(_, names):
                wanted = [code for code in map(self._code_of.get, names) if code is not None]
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
        table = np.zeros(len(self._distinct) + 1, dtype=np.bool_)
        table[wanted] = True
        return table

    def _matching_codes(self, condition: Compares) -> NDArray[np.intp]:
        """Return the codes of the values that are greater or less than a bound."""
        kind = comparable(condition.bound)
        assert kind is not None
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
