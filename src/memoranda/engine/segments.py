"""Segments: indexes of large shelves as files of this host, so that a process need not make them from the rows.

A segment is derived data. It says at which event of the ledger it was made: if that event is not in the ledger, the
segment belongs to another history, as after a backup was restored, and is dropped. What came later is read from the
rows. It contains words and metadata of what it indexes, so only its owner may read it. What removes memory removes the
files of that subject before it returns, and who writes one at that time notices it by a mark.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from memoranda.errors import MemorandaError
from memoranda.model.entry import Shelf, ShelfState, Space
from memoranda.model.environment import variable
from memoranda.model.scope import Scope
from memoranda.store.base import Read, Reader, SegmentPiece, Store, Transaction

if TYPE_CHECKING:
    from memoranda.retrieval.index.segment import Contents, Segment

WORTH_SEALING = 20_000
"""Rows from which an index is worth a file: fewer are made from the rows in a fraction of a second."""

MOST_PUBLISHED = 2 << 30
"""Bytes of the largest segment that is published: each host that has none reads all of it."""
_PIECE = 4 << 20

WORTH_SEALING_AGAIN = 8
"""A segment is made again once one in this many rows is new or removed."""

SEQUENCES = "beside sequence"
"""The array with the sequences of entries that an index of a subject numbers in its own way."""

_SUFFIX, _MARK = ".segment", ".mark"
# A moment for the recall that made the index to go first; both need its lock.
_PAUSE = 0.05
# Unfinished files and marks that are older were left by a process that was killed.
_LEFT_BEHIND = 86_400
_LONGEST_WAIT = 60.0


class Place(msgspec.Struct, frozen=True):
    """What an index is of: a shelf, or everything of a subject."""

    scope: Scope
    shelf: Shelf | None = None

    @property
    def subject(self) -> str:
        """The outermost part of the scope: what is removed of a subject removes all of its segments."""
        return self.scope.path.partition("/")[0]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Of what and of which moment a segment is."""

    tenant: str
    scope: str
    embedder: str
    dimension: int
    states: list[tuple[str, str, str | None, int, int]]
    """The scope, collection, namespace, newest sequence and mark of each shelf."""
    position: int
    hash: str
    """The position and hash of the ledger's newest event."""

    @classmethod
    def of(cls, rows: Reader, scope: Scope, states: dict[Shelf, ShelfState], space: Space) -> About:
        """Return what to say about an index at the moment of these rows, in which its shelves have these states."""
        head = rows.head(scope.tenant)
        assert head is not None, "the names of segments are made of its first event"
        return cls(
            tenant=scope.tenant,
            scope=scope.path,
            embedder=space.embedder,
            dimension=space.dimension,
            states=[
                (shelf.scope.path, shelf.collection, shelf.namespace, state.newest, state.removed)
                for shelf, state in states.items()
            ],
            position=head[0],
            hash=head[1],
        )

    @property
    def shelf_states(self) -> dict[Shelf, ShelfState]:
        """The states of the shelves."""
        return {
            Shelf(Scope(self.tenant, path), collection, namespace): ShelfState(newest, removed)
            for path, collection, namespace, newest, removed in self.states
        }

    def is_past_of(self, rows: Reader) -> bool:
        """Return whether what this says was once the state of these rows: its event is in their ledger."""
        head = rows.head(self.tenant)
        if head is None or head[0] < self.position:
            return False
        event = next(iter(rows.events(self.tenant, start=self.position, limit=1)), None)
        return event is not None and event.position == self.position and event.hash == self.hash

    def is_unchanged_in(self, rows: Reader) -> bool:
        """Return whether nothing was removed from the shelves since."""
        return all(rows.shelf_state(shelf).removed == state.removed for shelf, state in self.shelf_states.items())


class _Published(msgspec.Struct, frozen=True):
    """Of what a published segment is made."""

    about: About
    size: int
    digests: list[bytes]
    """SHA-256 of each piece; empty for one that has only zeros."""


class SegmentFolder:
    """The segments of one user, in a folder that no other user may open.

    Whatever is wrong with it, such as a full disk, costs time and no answer.
    """

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        """Use a folder, which is made when something is first written there."""
        self.path = path
        self._most_bytes = most_bytes
        self._warned = False

    def book_of(self, store: Store) -> SegmentBook:
        """Return the segments of one store."""
        return SegmentBook(self, store)

    def prepare(self) -> bool:
        """Make the folder if there is none; return whether it may be used."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._may_use(os.lstat(self.path))
        except OSError as error:
            self.warn(f"cannot be made ({error.strerror})")
            return False

    def _may_use(self, found: os.stat_result) -> bool:
        if not stat.S_ISDIR(found.st_mode):
            self.warn("is a link or a file")
        elif not _is_own(found):
            self.warn("belongs to another user")
        elif _is_shared(found):
            self.warn("can be read or changed by other users")
        else:
            return True
        return False

    def warn(self, what: str) -> None:
        """Say once what is wrong with the folder."""
        if not self._warned:
            self._warned = True
            _warn(
                "The cache folder `%s` %s, so indexes are made from the rows. "
                'Remove it, name another one as `cache` or in MEMORANDA_CACHE, or turn it off with "off".',
                self.path,
                what,
            )

    def find(self, prefix: str, suffix: str = _SUFFIX) -> list[Path]:
        """Return the files whose names begin with a text, the newest first."""
        try:
            if not self._may_use(os.lstat(self.path)):
                return []
            with os.scandir(self.path) as entries:
                found = [one for one in entries if one.name.startswith(prefix) and one.name.endswith(suffix)]
                times = [(one.stat(follow_symlinks=False).st_mtime_ns, one.name) for one in found]
        except FileNotFoundError:
            return []
        except OSError as error:
            self.warn(f"cannot be read ({error.strerror})")
            return []
        return [self.path / name for _, name in sorted(times, reverse=True)]

    def open(self, path: Path) -> IO[bytes] | None:
        """Open a file of this user; None if it is gone, or belongs to another one."""
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
        except OSError:
            return None
        file = os.fdopen(descriptor, "rb")
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and _is_own(found) and not _is_shared(found):
            return file
        file.close()
        _warn("`%s` is not used: it belongs to another user, or others may change it. Remove it.", path)
        return None

    @contextlib.contextmanager
    def draft(self) -> Generator[tuple[IO[bytes], Path]]:
        """Yield a file for writing and its path; it is removed afterwards unless it was given another name."""
        import tempfile  # it takes as long to import as a tenth of the rest

        descriptor, name = tempfile.mkstemp(dir=self.path, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield file, Path(name)
        finally:
            _unlink(Path(name))

    def remove(self, prefix: str) -> bool:
        """Remove the files whose names begin with a text; return whether all of them are gone."""
        gone = True
        for path in self.find(prefix):
            gone = _unlink(path) and gone
        return gone

    def mark(self, name: str) -> None:
        """Leave a new mark, by which writers notice that something was removed."""
        with contextlib.suppress(OSError), self.draft() as (_, path):
            os.replace(path, self.path / (name + _MARK))

    def mark_of(self, name: str) -> tuple[int, int] | None:
        """Return what identifies the mark of a name, None if there is none."""
        try:
            found = os.lstat(self.path / (name + _MARK))
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def trim(self, kept: Path) -> None:
        """Remove the least recently used files, until the rest fits, and what was left behind."""
        total = 0
        for path in [kept, *(path for path in self.find("") if path != kept)]:
            with contextlib.suppress(OSError):
                total += _size_on_disk(os.lstat(path))
                if total > self._most_bytes and path != kept:
                    _unlink(path)
        before = os.lstat(kept).st_mtime - _LEFT_BEHIND
        for path in [*self.find(".", ".tmp"), *self.find("", _MARK)]:
            with contextlib.suppress(OSError):
                if os.lstat(path).st_mtime < before:
                    _unlink(path)


class SegmentBook:
    """The segments of one store: found, written in the background, and removed."""

    def __init__(self, folder: SegmentFolder, store: Store) -> None:
        """Use a folder for the indexes of a store; those of a store that other hosts use are published there."""
        self._folder = folder
        self._read: Read = store.read
        self._store = store if store.waits else None
        self._keys: dict[str, bytes] = {}
        self._busy: dict[str, threading.Thread] = {}
        self._closing = threading.Event()
        self._lock = threading.Lock()

    def find(self, rows: Reader, place: Place, embedder: str | None = None) -> tuple[About, Segment] | None:
        """Return the newest segment of a place that is whole and a past state of these rows."""
        from memoranda.retrieval.index.segment import Damaged, Segment, read_about

        name = self.name(rows, place)
        for path in () if name is None else self._folder.find(name, _version() + _SUFFIX):
            file = self._folder.open(path)
            if file is None:
                continue
            with file:
                try:
                    about = msgspec.msgpack.decode(read_about(file), type=About)
                    if not about.is_past_of(rows):
                        raise Damaged("it is of another history, as before a backup was restored")
                    if embedder in (None, about.embedder):
                        segment = Segment(file)
                        with contextlib.suppress(OSError):
                            os.utime(path)
                        return about, segment
                except (Damaged, msgspec.DecodeError, OSError, ValueError) as error:
                    _warn("The segment `%s` is dropped, and made again from the rows: %s", path, error)
            _unlink(path)
        return None if name is None or self._store is None else self._download(rows, place, name, embedder)

    def _download(self, rows: Reader, place: Place, name: str, embedder: str | None) -> tuple[About, Segment] | None:
        """Return the segment that another host published, from a file that it is copied to."""
        from memoranda.retrieval.index.segment import Damaged, Segment

        row = rows.get(SegmentPiece, place.scope.tenant, place.subject, name + _version(), 0)
        if row is None or not self._folder.prepare():
            return None
        try:
            listed = msgspec.msgpack.decode(row.data, type=_Published)
            about = listed.about
            if embedder not in (None, about.embedder) or not about.is_past_of(rows):
                return None
            marks = self._marks_of(name)
            with self._folder.draft() as (file, draft):
                for number, digest in enumerate(listed.digests, 1):
                    piece = rows.get(SegmentPiece, place.scope.tenant, place.subject, name + _version(), number)
                    if piece is None:
                        return None  # it was removed
                    if digest and hashlib.sha256(piece.data).digest() != digest:
                        raise Damaged(f"the published piece {number} is damaged, or of another state")
                    if digest:
                        file.seek((number - 1) * _PIECE)
                        file.write(piece.data)
                file.truncate(listed.size)
                file.flush()
                segment = Segment(file)
                path = self._folder.path / f"{name}{_rest(about)}"
                os.replace(draft, path)
            if self._marks_of(name) != marks:
                _unlink(path)
            return about, segment
        except (Damaged, msgspec.DecodeError) as error:
            _warn("The published segment of `%s` is not used: %s", name, error)
        except OSError as error:
            self._folder.warn(f"cannot be written to ({error.strerror})")
        return None

    def _publish(self, place: Place, name: str, about: About, file: IO[bytes]) -> None:
        """Copy a segment into the database in pieces, each in a transaction of its own; its list comes last."""
        assert self._store is not None
        size, digests = os.fstat(file.fileno()).st_size, list[bytes]()
        if size > MOST_PUBLISHED:
            return

        def make(number: int, data: bytes) -> SegmentPiece:
            # In place of those of an earlier state: who reads them meanwhile notices it by their digests.
            of = name + _version()
            return SegmentPiece(tenant=about.tenant, subject=place.subject, name=of, number=number, data=data)

        def finish(rows: Transaction) -> None:
            # Nothing can be removed while this transaction lasts. What was removed before took the pieces with it.
            if about.is_unchanged_in(rows):
                rows.put(make(0, msgspec.msgpack.encode(_Published(about, size, digests))))
            else:
                rows.remove(SegmentPiece, about.tenant, place.subject)

        within = (Scope(about.tenant, place.subject),)
        for start in range(0, size, _PIECE):
            if self._closing.is_set():
                break
            file.seek(start)
            data = file.read(_PIECE)
            is_hole = not any(data)
            digests.append(b"" if is_hole else hashlib.sha256(data).digest())
            piece = make(len(digests), b"" if is_hole else data)
            self._store.transact(lambda rows, piece=piece: rows.put(piece), within=within)
        else:
            self._store.transact(finish, within=within)

    def seal(self, place: Place, name: str, about: About, save: Callable[[], Contents | None]) -> None:
        """Write a segment in the background; `save` returns what it is made of, None if that is out of date."""
        with self._lock:
            if name in self._busy or self._closing.is_set():
                return
            work = threading.Thread(
                target=self._write, args=(place, name, about, save), name="memoranda-segment", daemon=True
            )
            self._busy[name] = work
        work.start()

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name, or one is being written."""
        return name in self._busy or bool(self._folder.find(name, _version() + _SUFFIX))

    def remove(self, tenant: str, path: str | None) -> bool:
        """Remove the segments of a scope's subject, or of a tenant, and keep writers from adding an earlier state."""
        if not self._folder.path.exists():
            return True
        key = self._keys.get(tenant) or self._read(lambda rows: self._key(rows, tenant))
        if key is None:
            return True
        name = _tenant_name(key) if path is None else _subject_name(key, Place(Scope(tenant, path)))
        self._folder.mark(name)
        if self._folder.remove(name):
            return True
        _warn("Indexes of what was removed could not be removed from `%s`. Remove the folder.", self._folder.path)
        return False

    def remove_stale(self, rows: Reader, tenant: str) -> int:
        """Remove the segments of a tenant from whose shelves something was removed, and those of other histories."""
        from memoranda.retrieval.index.segment import Damaged, read_about

        key, removed = self._key(rows, tenant), 0
        for path in [] if key is None else self._folder.find(_tenant_name(key)):
            file = self._folder.open(path)
            if file is None:
                continue
            with file:
                try:
                    about = msgspec.msgpack.decode(read_about(file), type=About)
                except (Damaged, msgspec.DecodeError, OSError):
                    about = None  # of another version, which cannot be asked
            if about is None or not about.is_past_of(rows) or not about.is_unchanged_in(rows):
                removed += _unlink(path)
        return removed

    def entries_with(self, rows: Reader, scope: Scope, words: list[str], is_in: Callable[[Any], bool]) -> Iterator[int]:
        """Yield the sequences of entries in segments of a scope's subject that have all these words.

        0 means that the text that `is_in` looks for is in the metadata of one.
        """
        from memoranda.retrieval.index.segment import Damaged, Segment
        from memoranda.retrieval.index.shelf import ShelfIndex

        key = self._key(rows, scope.tenant)
        for path in [] if key is None else self._folder.find(_subject_name(key, Place(scope))):
            file = self._folder.open(path)
            if file is None:
                continue
            with file, contextlib.suppress(Damaged):
                segment = Segment(file)
                index = ShelfIndex.load(segment, segment.array("vectors").shape[1])
                found = index.with_words(words)
                sequences = segment.array(SEQUENCES) if SEQUENCES in segment else None
                yield from found if sequences is None else (int(sequences[number - 1]) for number in found)
                yield from (0 for value in index.columns.values() if is_in(value))

    def close(self) -> None:
        """Finish what is being written."""
        with self._lock:
            self._closing.set()
            waiting = list(self._busy.values())
        for work in waiting:
            if work is not threading.current_thread():
                work.join(_LONGEST_WAIT)

    # writing

    def _write(self, place: Place, name: str, about: About, save: Callable[[], Contents | None]) -> None:
        try:
            self._closing.wait(_PAUSE)
            self._write_now(place, name, about, save)
        except OSError as error:
            self._folder.warn(f"cannot be written to ({error.strerror})")
        except MemorandaError as error:
            _warn("An index is not kept in the cache: %s", error)
        finally:
            with self._lock:
                self._busy.pop(name, None)

    def _write_now(self, place: Place, name: str, about: About, save: Callable[[], Contents | None]) -> None:
        from memoranda.retrieval.index.segment import Segment

        if not self._folder.prepare():
            return
        marks = self._marks_of(name)
        # What is removed from now on leaves another mark; what was removed before shows in the states.
        if not self._read(about.is_unchanged_in):
            return
        contents = save()
        if contents is None:
            return
        path = self._folder.path / f"{name}{_rest(about)}"
        older = self._folder.find(name, _version() + _SUFFIX)
        with self._folder.draft() as (file, draft), self._folder.draft() as (again, compacted):
            contents.write(file, about)
            file.flush()
            if not contents.arrays["present"].all():
                # What was removed may not be in it. Dropping it from the index would keep recalls waiting.
                _compacted(Segment(file), about.dimension).write(again, about)
                again.flush()
                file, draft = again, compacted
            os.replace(draft, path)
            for other in older:
                if other != path:
                    _unlink(other)
            if self._marks_of(name) != marks:
                _unlink(path)
                return
            self._folder.trim(path)
            if self._store is not None:
                self._publish(place, name, about, file)

    def _marks_of(self, name: str) -> list[tuple[int, int] | None]:
        """Return the marks of the tenant and of the subject of a file."""
        tenant, subject, _ = name.split("-")
        return [self._folder.mark_of(tenant), self._folder.mark_of(f"{tenant}-{subject}")]

    # names

    def _key(self, rows: Reader, tenant: str) -> bytes | None:
        """Return what the names of a tenant's files are hashed with: the hash of its first event, which is unique."""
        key = self._keys.get(tenant)
        if key is None:
            first = next(iter(rows.events(tenant, start=1, limit=1)), None)
            if first is None:
                return None
            key = self._keys[tenant] = hashlib.blake2b(first.hash.encode(), digest_size=32).digest()
        return key

    def name(self, rows: Reader, place: Place) -> str | None:
        """Return how the names of a place's files begin; None for a tenant without any event."""
        key = self._key(rows, place.scope.tenant)
        if key is None:
            return None
        shelf = place.shelf
        of = [place.scope.path] if shelf is None else [place.scope.path, shelf.collection, shelf.namespace]
        return f"{_subject_name(key, place)}-{_hashed(key, msgspec.json.encode(of))}"


def default_folder() -> Path | None:
    """Return where segments are kept: below `MEMORANDA_CACHE`, or the user's folder for caches; None for `off`."""
    named = variable("MEMORANDA_CACHE")
    if named:
        return None if named.lower() == "off" else Path(named).expanduser() / "segments"
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home
        return None
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "memoranda" / "segments"


def _warn(message: str, *values: object) -> None:
    import logging

    logging.getLogger("memoranda.segments").warning(message, *values)


def _compacted(segment: Segment, dimension: int) -> Contents:
    """Return what a segment is made of that has no removed rows."""
    from memoranda.retrieval.index.shelf import ShelfIndex

    index = ShelfIndex.load(segment, dimension)
    index.compact()
    contents = index.save()
    segment.copy_rest(contents)
    return contents


def _tenant_name(key: bytes) -> str:
    return _hashed(key, b"tenant")


def _subject_name(key: bytes, place: Place) -> str:
    return f"{_tenant_name(key)}-{_hashed(key, b'subject ' + place.subject.encode())}"


def _hashed(key: bytes, what: bytes) -> str:
    return hashlib.blake2b(what, key=key, digest_size=12).hexdigest()


def _rest(about: About) -> str:
    """Return what follows the name of a place in the name of its file: the state, and the version that made it."""
    state = hashlib.blake2b(f"{about.position} {about.hash}".encode(), digest_size=8).hexdigest()
    return f"-{state}{_version()}{_SUFFIX}"


def _version() -> str:
    from memoranda.retrieval.index.segment import FORMAT

    # This layer does not import the package, which imports it.
    return f".{FORMAT}-{sys.modules['memoranda'].__version__}"


def _is_own(found: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()


def _is_shared(found: os.stat_result) -> bool:
    """Return whether other users may read or change a file; on Windows that is a matter of the folder above."""
    return os.name != "nt" and bool(found.st_mode & 0o077)


def _size_on_disk(found: os.stat_result) -> int:
    return getattr(found, "st_blocks", 0) * 512 or found.st_size


def _unlink(path: Path) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True
