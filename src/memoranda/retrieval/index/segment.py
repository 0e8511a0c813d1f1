"""An index as a file: its arrays as they are in memory, so that opening it reads nothing but what a recall needs.

The file is mapped copy-on-write. Unchanged pages are shared by all processes that have it open; what one of
them changes, and what it adds in the room behind each array, is its own. The file itself never changes: it is written
under another name, renamed, and one day removed.

It begins with a header that names the parts, each with a checksum. All of them are verified when a file is opened:
that takes a third of a second for a gigabyte, and no answer is ever made of damaged bytes.
"""

from __future__ import annotations

import mmap
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

FORMAT = 2
"""Changes with every change of what is in a segment, or of what an index makes of the same rows."""

BESIDE = "beside "
"""Begins the names of arrays that are not the index's own."""

_MAGIC = b"MMRDSEG\n"
_START = len(_MAGIC) + 4 + 32
"""Where the header starts: after the magic bytes, its length and its digest."""
_LONGEST_HEADER = 1 << 28
# Large parts begin where a huge page can: systems that map files by huge pages compare vectors a fourth faster.
_PAGE, _HUGE_PAGE, _WORTH_HUGE_PAGES = 4_096, 1 << 21, 1 << 22
# Room behind each array for rows that come later: an eighth of the rows, as holes that take no space on the disk.
_ROOM, _LEAST_ROOM = 8, 1_024
_PORTION = 1 << 24


class Damaged(Exception):
    """The file is not a segment of this format, or not as it was written."""


class _Part(msgspec.Struct, frozen=True, array_like=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    room: int
    """Rows that there is room for."""
    offset: int
    checksum: int


class _Header(msgspec.Struct, frozen=True):
    format: int
    byteorder: str
    size: int
    about: msgspec.Raw
    parts: list[_Part]
    values: bytes


class Contents:
    """What an index is made of: arrays and small values, by name.

    An index fills it while it is locked, with arrays that it will not change any more. What takes long, and needs
    nothing but what is in here, is left to `later`.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.arrays: dict[str, NDArray[Any]] = {}
        self.growing: set[str] = set()
        """The arrays that get room for more rows."""
        self.values: dict[str, Any] = {}
        self.later: list[Callable[[Contents], None]] = []

    def add_rows(self, name: str, rows: NDArray[Any]) -> None:
        """Add an array with a row for each of the index, to which more will be added."""
        self.arrays[name] = rows
        self.growing.add(name)

    def add_names(self, name: str, names: Sequence[bytes]) -> None:
        """Add numbered names, by which their numbers are found."""
        ends = np.fromiter(map(len, names), np.int64, len(names)).cumsum()
        hashes = np.fromiter(map(_hash_of, names), np.uint64, len(names))
        order = hashes.argsort(kind="stable")
        self.arrays[f"{name}.text"] = np.frombuffer(b"".join(names), np.uint8)
        self.arrays[f"{name}.ends"] = ends
        self.arrays[f"{name}.hashes"] = hashes[order]
        self.arrays[f"{name}.order"] = order.astype(np.int32)

    def write(self, file: IO[bytes], about: Any) -> None:
        """Write a segment; `about` is what its reader wants to know first."""
        for work in self.later:
            work(self)
        self.later.clear()
        parts = list(_placed(self.arrays, self.growing))
        size = parts[-1].offset + _round_up(_bytes_of(parts[-1])) if parts else 0
        header = _Header(
            FORMAT,
            sys.byteorder,
            size,
            msgspec.Raw(msgspec.msgpack.encode(about)),
            parts,
            msgspec.msgpack.encode(self.values),
        )
        packed = msgspec.msgpack.encode(header)
        base = _base(len(packed), size)
        file.write(_MAGIC + len(packed).to_bytes(4, "little") + blake2b(packed, digest_size=32).digest() + packed)
        for part in parts:
            file.seek(base + part.offset)
            raw = _raw(self.arrays[part.name])
            for start in range(0, len(raw), _PORTION):
                file.write(raw[start : start + _PORTION])
        file.truncate(base + size)


class Segment:
    """A mapped file: its arrays, with room behind those that grow, and its values."""

    def __init__(self, file: IO[bytes]) -> None:
        """Map a file and verify all of it; raise `Damaged` unless it is a whole segment of this format."""
        header, base = _read_header(file)
        if header.format != FORMAT or header.byteorder != sys.byteorder:
            raise Damaged(f"it has format {header.format}")
        self.nbytes = os.fstat(file.fileno()).st_size
        if self.nbytes != base + header.size:
            raise Damaged(f"it has {self.nbytes} bytes and should have {base + header.size}")
        self._pages = mmap.mmap(file.fileno(), self.nbytes, access=mmap.ACCESS_COPY)
        self._arrays: dict[str, tuple[NDArray[Any], int]] = {}
        view = memoryview(self._pages)
        for part in header.parts:
            start = base + part.offset
            rows, size = part.shape[0], _bytes_of(part, part.shape[0])
            if not 0 <= part.offset <= part.offset + _bytes_of(part) <= header.size or part.room < rows:
                raise Damaged(f"its part `{part.name}` is not within it")
            if zlib.crc32(view[start : start + size]) != part.checksum:
                raise Damaged(f"its part `{part.name}` is not as it was written")
            shape = (part.room, *part.shape[1:])
            count = int(np.prod(shape, dtype=np.int64))
            flat = np.frombuffer(self._pages, part.dtype, count, start) if count else np.empty(0, part.dtype)
            self._arrays[part.name] = flat.reshape(shape), rows
        self.about = bytes(header.about)
        self.values: dict[str, Any] = msgspec.msgpack.decode(header.values, strict=False)

    def __contains__(self, name: str) -> bool:
        """Return whether there is an array of this name."""
        return name in self._arrays

    def rows(self, name: str) -> tuple[NDArray[Any], int]:
        """Return the room of an array, and how many of its rows are filled."""
        return self._arrays[name]

    def array(self, name: str) -> NDArray[Any]:
        """Return an array without room."""
        room, filled = self._arrays[name]
        return room[:filled]

    def copy_rest(self, contents: Contents) -> None:
        """Put what only this segment has, as what the owner of the index keeps beside it, into another."""
        for name in self._arrays.keys() - contents.arrays.keys():
            if name.startswith(BESIDE):
                contents.add_rows(name, self.array(name))
        for name in self.values.keys() - contents.values.keys():
            contents.values[name] = self.values[name]

    def names(self, name: str) -> Names:
        """Return numbered names."""
        text, ends, hashes, order = (self.array(f"{name}.{part}") for part in ("text", "ends", "hashes", "order"))
        return Names(text, ends, hashes, order)


class Names:
    """Numbered names in a segment. Looking one up reads a few pages, and nothing is kept."""

    def __init__(
        self,
        text: NDArray[np.uint8],
        ends: NDArray[np.int64],
        hashes: NDArray[np.uint64],
        order: NDArray[np.int32],
    ) -> None:
        """Take the arrays that `Contents.add_names` made."""
        self._text = text
        self._ends = ends
        self._hashes = hashes
        self._order = order

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._ends)

    def __getitem__(self, number: int) -> bytes:
        """Return the name of a number."""
        begin = int(self._ends[number - 1]) if number else 0
        return self._text[begin : int(self._ends[number])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        """Yield all names in the order of their numbers."""
        begin, text = 0, self._text.tobytes()
        for end in self._ends.tolist():
            yield text[begin:end]
            begin = end

    def find(self, name: bytes) -> int | None:
        """Return the number of a name; None if there is no such name."""
        return self._at(name, int(self._hashes.searchsorted(np.uint64(_hash_of(name)))))

    def find_all(self, names: Iterable[bytes]) -> list[int | None]:
        """Return the number of each of these names, None for those that are not here."""
        asked = list(names)
        places = self._hashes.searchsorted(np.fromiter(map(_hash_of, asked), np.uint64, len(asked)))
        return [self._at(name, place) for name, place in zip(asked, places.tolist(), strict=True)]

    def _at(self, name: bytes, place: int) -> int | None:
        """Return the number of a name whose hash has its first place here."""
        hashed = _hash_of(name)
        while place < len(self._hashes) and int(self._hashes[place]) == hashed:
            number = int(self._order[place])
            if self[number] == name:
                return number
            place += 1
        return None


def read_about(file: IO[bytes]) -> bytes:
    """Return what the maker of a segment said about it; raise `Damaged` if the header is not whole."""
    header, _ = _read_header(file)
    if header.format != FORMAT or header.byteorder != sys.byteorder:
        raise Damaged(f"it has format {header.format}")
    return bytes(header.about)


def _read_header(file: IO[bytes]) -> tuple[_Header, int]:
    """Return the header of a file, and where its parts begin."""
    file.seek(0)
    start = file.read(_START)
    length = int.from_bytes(start[len(_MAGIC) : len(_MAGIC) + 4], "little")
    if start[: len(_MAGIC)] != _MAGIC or not 0 < length <= _LONGEST_HEADER:
        raise Damaged("it does not begin as a segment does")
    packed = file.read(length)
    if blake2b(packed, digest_size=32).digest() != start[len(_MAGIC) + 4 :]:
        raise Damaged("its header is not as it was written")
    try:
        header = msgspec.msgpack.decode(packed, type=_Header)
    except msgspec.DecodeError as error:
        raise Damaged(f"its header cannot be read: {error}") from error
    return header, _base(length, header.size)


def _base(length: int, size: int) -> int:
    """Return where the parts of a file with a header of this length begin."""
    return _round_up(_START + length, _HUGE_PAGE if size >= _WORTH_HUGE_PAGES else _PAGE)


def _placed(arrays: dict[str, NDArray[Any]], growing: set[str]) -> Iterator[_Part]:
    offset = 0
    for name, array in arrays.items():
        rows = len(array)
        room = rows + max(rows // _ROOM, _LEAST_ROOM) if name in growing else rows
        if array.nbytes >= _WORTH_HUGE_PAGES:
            offset = _round_up(offset, _HUGE_PAGE)
        part = _Part(name, array.dtype.str, array.shape, room, offset, zlib.crc32(_raw(array)))
        yield part
        offset += _round_up(_bytes_of(part))


def _raw(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _bytes_of(part: _Part, rows: int | None = None) -> int:
    numbers = int(np.prod(part.shape[1:], dtype=np.int64)) * (part.room if rows is None else rows)
    return numbers * np.dtype(part.dtype).itemsize


def _round_up(size: int, unit: int = _PAGE) -> int:
    return -(-size // unit) * unit


def _hash_of(name: bytes) -> int:
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "little")
