"""A disk that fails on demand, and a sweep that fails each of its calls in turn."""

from __future__ import annotations

import ctypes
import itertools
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from ctypes import CFUNCTYPE, Structure, c_char_p, c_int, c_int64, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import apsw

from memoranda.errors import StorageError

ErrorName = Literal["ioerr", "full"]
Kind = Literal["open", "read", "write", "truncate", "sync", "delete"]

CODES: Mapping[str, Mapping[Kind, int]] = {
    "ioerr": {
        "open": apsw.SQLITE_IOERR,
        "read": apsw.SQLITE_IOERR_READ,
        "write": apsw.SQLITE_IOERR_WRITE,
        "truncate": apsw.SQLITE_IOERR_TRUNCATE,
        "sync": apsw.SQLITE_IOERR_FSYNC,
        "delete": apsw.SQLITE_IOERR_DELETE,
    },
    "full": {"open": apsw.SQLITE_FULL, "write": apsw.SQLITE_FULL, "sync": apsw.SQLITE_FULL},
}
"""Which calls each error strikes, and the code they return. A full disk can still be read and cleared."""

_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_DELETE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
_TRANSFER = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)


class _Vfs(Structure):
    """`sqlite3_vfs`, https://sqlite.org/c3ref/vfs.html. What we do not replace is an opaque pointer."""

    _fields_ = (
        ("version", c_int),
        ("file_size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("app_data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("others", c_void_p * 14),
    )


class _Methods(Structure):
    """`sqlite3_io_methods`, https://sqlite.org/c3ref/io_methods.html."""

    _fields_ = (
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("others", c_void_p * 13),
    )


_numbers = itertools.count(1)
# A connection that outlives its disk still calls into it, so what it calls is never let go.
_kept: list[Any] = []


@dataclass(frozen=True)
class Point:
    """Where a fault strikes: the `at`-th call that this error can strike, once or from then on."""

    error: str
    persistent: bool
    at: int
    only: Kind | None = None
    """The kind of calls that are counted; None for all kinds."""


class FaultyDisk:
    """An SQLite VFS, registered while the `with` block lasts, that fails the call it is told to.

    Counted are the calls that open, read, write, truncate, sync and delete files: databases, journals, logs.
    A write that fails has written its first half, as one does that runs into the end of the disk. Locks and
    the shared memory of the write-ahead log never fail; memory-mapped reads (off by default) are not seen.

    >>> import tempfile
    >>> with FaultyDisk() as disk, tempfile.TemporaryDirectory() as place:
    ...     disk.fail(at=1, error="full")
    ...     apsw.Connection(f"{place}/m.db", vfs=disk.vfs)
    Traceback (most recent call last):
    apsw.FullError: ...
    """

    def __init__(self) -> None:
        """Prepare a disk without faults under a name of its own; `.vfs` is that name."""
        self.vfs = f"memoranda-faulty-{next(_numbers)}"
        self._lock = threading.Lock()
        self._point: Point | None = None
        self._counts: Counter[Kind] = Counter()
        self._hits: Counter[Kind] = Counter()
        self._struck = 0
        self._tables: dict[int, _Methods] = {}
        self._kept: list[Any] = []
        self._base, self._own = self._build()
        _kept.append(self)

    @property
    def calls(self) -> int:
        """How many storage calls there have been."""
        with self._lock:
            return self._counts.total()

    @property
    def counts(self) -> dict[Kind, int]:
        """How many storage calls of each kind there have been."""
        with self._lock:
            return dict(self._counts)

    @property
    def hits(self) -> dict[Kind, int]:
        """How many calls of each kind were made to fail since the last `fail`."""
        with self._lock:
            return dict(self._hits)

    @property
    def fired(self) -> bool:
        """Whether any call was made to fail since the last `fail`."""
        return bool(self.hits)

    def fail(self, at: int, *, persistent: bool = False, error: ErrorName = "ioerr", only: Kind | None = None) -> None:
        """Let the `at`-th call from now fail, of those this error can strike or of one kind; or it and all after it."""
        with self._lock:
            self._point = Point(error, persistent, at, only)
            self._struck = 0
            self._hits.clear()

    def heal(self) -> None:
        """Let every call pass again; `hits` stays, to be looked at."""
        with self._lock:
            self._point = None

    def __enter__(self) -> FaultyDisk:
        """Register the VFS: hang it into SQLite's list, behind the default one."""
        self._own.next, self._base.next = self._base.next, ctypes.addressof(self._own)
        return self

    def __exit__(self, *_: object) -> None:
        """Heal, and take the VFS out of the list. Connections that are still open keep working."""
        self.heal()
        before = self._base
        while before.next != ctypes.addressof(self._own):
            before = _Vfs.from_address(before.next)
        before.next = self._own.next

    def _verdict(self, kind: Kind) -> int:
        """Count a call; return the code to fail it with, or 0."""
        with self._lock:
            self._counts[kind] += 1
            point = self._point
            code = CODES[point.error].get(kind, 0) if point else 0
            if point is None or not code or point.only not in (None, kind):
                return 0
            self._struck += 1
            if self._struck < point.at or (self._struck > point.at and not point.persistent):
                return 0
            self._hits[kind] += 1
            return code

    def _build(self) -> tuple[_Vfs, _Vfs]:
        """Return the default VFS and our copy of it, whose `open` and `delete` come to us first."""
        pointer = c_void_p()
        connection = apsw.Connection(":memory:")
        connection.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(pointer))
        connection.close()
        assert pointer.value is not None
        base = _Vfs.from_address(pointer.value)
        own = _Vfs.from_buffer_copy(base)
        own.name = self.vfs.encode()
        base_open, base_delete = _OPEN(base.open), _DELETE(base.delete)

        def open_(_: int, name: int | None, file: int, flags: int, flags_out: int | None) -> int:
            # A file whose method table is null was not opened, and will not be closed.
            methods = c_void_p.from_address(file)
            methods.value = None
            if code := self._verdict("open"):
                return code
            result = base_open(ctypes.addressof(base), name, file, flags, flags_out)
            if methods.value:
                methods.value = ctypes.addressof(self._methods(methods.value))
            return result

        def delete(_: int, name: int, sync: int) -> int:
            return self._verdict("delete") or base_delete(ctypes.addressof(base), name, sync)

        own.open, own.delete = self._pointer(_OPEN(open_)), self._pointer(_DELETE(delete))
        return base, own

    def _methods(self, address: int) -> _Methods:
        """Return our copy of a file's method table, made the first time that the table is seen."""
        with self._lock:
            if address in self._tables:
                return self._tables[address]
        base = _Methods.from_address(address)
        own = _Methods.from_buffer_copy(base)
        base_read, base_write = _TRANSFER(base.read), _TRANSFER(base.write)
        base_truncate, base_sync = _TRUNCATE(base.truncate), _SYNC(base.sync)

        def read(file: int, buffer: int, amount: int, offset: int) -> int:
            return self._verdict("read") or base_read(file, buffer, amount, offset)

        def write(file: int, buffer: int, amount: int, offset: int) -> int:
            if code := self._verdict("write"):
                base_write(file, buffer, amount // 2, offset)
                return code
            return base_write(file, buffer, amount, offset)

        def truncate(file: int, size: int) -> int:
            return self._verdict("truncate") or base_truncate(file, size)

        def sync(file: int, flags: int) -> int:
            return self._verdict("sync") or base_sync(file, flags)

        own.read, own.write = self._pointer(_TRANSFER(read)), self._pointer(_TRANSFER(write))
        own.truncate, own.sync = self._pointer(_TRUNCATE(truncate)), self._pointer(_SYNC(sync))
        with self._lock:
            return self._tables.setdefault(address, own)

    def _pointer(self, function: Any) -> int:
        self._kept.append(function)
        address = ctypes.cast(function, c_void_p).value
        assert address is not None
        return address


@dataclass(frozen=True)
class Trial:
    """One run of a sweep's body: a fresh directory, the fault that waits, and what was acknowledged."""

    directory: Path
    point: Point
    acknowledged: list[Any] = field(default_factory=list[Any])


@dataclass(frozen=True)
class Sweep:
    """What a sweep went through."""

    points: tuple[Point, ...]
    """The faults that fired, each checked."""
    raised: int
    """How many of them the body reported; the others it, or SQLite, could live with."""
    hits: Mapping[str, int]
    """How many calls of each kind were made to fail."""
    complete: bool
    """Whether each series came to its end, rather than to `most` points."""


class Faulty(Protocol):
    """What a sweep makes fail: a `FaultyDisk`, or anything else that counts its calls and fails one on demand."""

    @property
    def hits(self) -> Mapping[Any, int]:
        """How many calls of each kind were made to fail since the last `fail`."""
        ...

    @property
    def fired(self) -> bool:
        """Whether any call was made to fail since the last `fail`."""
        ...

    def fail(self, at: int, *, persistent: bool, error: Any, only: Any) -> None:
        """Let the `at`-th call from now fail, of those this error can strike and of a kind; or it and all after it."""
        ...

    def heal(self) -> None:
        """Let every call pass again."""
        ...


def sweep(
    body: Callable[[Trial], object],
    check: Callable[[Trial], object],
    *,
    disk: Faulty,
    prepare: Callable[[Trial], object] | None = None,
    errors: Sequence[str] = ("ioerr", "full"),
    persistent: Sequence[bool] = (False, True),
    expected: tuple[type[Exception], ...] = (apsw.Error, StorageError),
    first: int = 1,
    step: int = 1,
    most: int = 1000,
    firsts: Sequence[Kind] = (),
) -> Sweep:
    """Run the body failing its 1st, 2nd, 3rd… storage call, once or from then on; check what is left after each.

    Each run has a directory of its own. The body opens what it needs there through `disk.vfs`, closes it, and
    adds to `trial.acknowledged` what it was told is done. Then the disk is healed, and `check` reopens and
    looks. A series ends with the run in which no fault fired; that one is checked as well.

    Args:
        body: What has to survive. It may raise an `expected` error; any other ends the sweep.
        check: Raises if something is wrong.
        disk: What body and check use: a disk, or another thing that fails on demand.
        prepare: Sets the directory up before the fault is armed.
        errors: Which errors to inject.
        persistent: Whether a fault strikes once (False), from then on (True), or one after the other.
        expected: What a failing disk may make the body raise, and only if a fault fired.
        first: The first call to fail.
        step: How far the next one is: with 7, every seventh call fails.
        most: How many points to try for each error, transient and persistent.
        firsts: Kinds of calls of which the first one fails, too: a step may miss those that are rare.
    """
    points: list[Point] = []
    hits: Counter[str] = Counter()
    raised = 0
    complete = True
    for error, lasting in itertools.product(errors, persistent):
        series = [Point(error, lasting, 1, kind) for kind in firsts]
        series += [Point(error, lasting, at) for at in range(first, first + most * step, step)]
        for point in series:
            failed = _try(body, check, prepare, disk, point, expected)
            if not disk.fired:
                if point.only is not None:
                    continue  # there are no calls of this kind
                break
            points.append(point)
            hits.update(disk.hits)
            raised += failed
        else:
            complete = False
    return Sweep(tuple(points), raised, dict(hits), complete)


def _try(
    body: Callable[[Trial], object],
    check: Callable[[Trial], object],
    prepare: Callable[[Trial], object] | None,
    disk: Faulty,
    point: Point,
    expected: tuple[type[Exception], ...],
) -> bool:
    """Run body and check once, in a fresh directory; say whether the body raised."""
    with tempfile.TemporaryDirectory(prefix="memoranda-fault-") as place:
        trial = Trial(Path(place), point)
        try:
            if prepare is not None:
                prepare(trial)
            disk.fail(point.at, persistent=point.persistent, error=point.error, only=point.only)
            failed = False
            try:
                body(trial)
            except expected:
                if not disk.fired:
                    raise
                failed = True
            finally:
                disk.heal()
            check(trial)
        except Exception as problem:
            problem.add_note(f"at {point}; calls made to fail: {disk.hits}")
            raise
    return failed
