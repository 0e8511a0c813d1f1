"""Translation of SQLite's errors into ours: `raise translate(error, url) from error`."""

from __future__ import annotations

import os

import apsw

from memoranda.errors import Busy, Corrupt, Full, ReadOnly, StorageError, Unavailable

_RETRY = "Try again; give busy_timeout more seconds if other processes write for long"
_SPACE = "Make room on the disk, then try again; nothing of the write was kept"
_WRITABLE = "Make the file and its folder writable for this user, or open another; even a reader has to write beside it"
_DAMAGED = "Stop writing to it, keep a copy of the file as it is, and restore a backup"
_NOT_OURS = "Name another file; if this was a database of Memoranda, keep a copy of it as it is, and restore a backup"
_REACH = "Check that its folder exists, that the disk is well, and that this user may read and write there"
_MEMORY = "Give the process more memory, or write less at once"
_SMALLER = "Split the value, or store it elsewhere and keep its address"
_REPORT = "This should not happen: please report it together with the text of this error"
_STALE = "Another program may have changed the tables while this one was running: open the store again"

_INTERRUPTED = "It was interrupted; try again"
_REOPEN = "Open it again"
_VFS = "Use a VFS that can do what WAL needs"
_FORKED = "Open the store after forking, once in each process"

_MEANINGS: tuple[tuple[type[StorageError], str, tuple[type[apsw.Error], ...]], ...] = (
    # ProtocolError: it lost the race for the WAL's locks too often
    (Busy, _RETRY, (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)),
    (Full, _SPACE, (apsw.FullError,)),
    (Full, _SMALLER, (apsw.TooBigError,)),
    (ReadOnly, _WRITABLE, (apsw.ReadOnlyError,)),
    (Corrupt, _DAMAGED, (apsw.CorruptError, apsw.FormatError)),
    (Corrupt, _NOT_OURS, (apsw.NotADBError,)),
    (Unavailable, _REACH, (apsw.CantOpenError, apsw.IOError, apsw.PermissionsError, apsw.AuthError, apsw.NoLFSError)),
    (Unavailable, _MEMORY, (apsw.NoMemError,)),
    (Unavailable, _INTERRUPTED, (apsw.InterruptError, apsw.AbortError)),
    (Unavailable, _REOPEN, (apsw.ConnectionClosedError, apsw.CursorClosedError)),
    (Unavailable, _FORKED, (apsw.ForkingViolationError,)),
    (Unavailable, _VFS, (apsw.VFSNotImplementedError, apsw.VFSFileClosedError)),
    (StorageError, _STALE, (apsw.SQLError, apsw.SchemaChangeError)),
)
ERRORS: dict[type[apsw.Error], tuple[type[StorageError], str]] = {
    **dict.fromkeys(apsw.Error.__subclasses__(), (StorageError, _REPORT)),  # a bug of ours, if it is not below
    **{error: (kind, hint) for kind, hint, errors in _MEANINGS for error in errors},
}
"""Our error and hint for each error of SQLite."""


def translate(error: apsw.Error, url: str) -> StorageError:
    """Return a new error of ours for one of SQLite's; raise it `from` the original."""
    kind, hint = ERRORS.get(type(error), (StorageError, _REPORT))
    reason = str(error)
    if isinstance(error, apsw.CantOpenError):
        reason, hint = _cannot_open(url) or (reason, hint)
    return kind(f"`{url}`: {reason}", hint=hint, url=url)


def _cannot_open(path: str) -> tuple[str, str] | None:
    """Return why a file cannot be opened and what to do, if that is visible; SQLite does not say."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        return "it is a folder", f"Name a file in it, such as `{os.path.join(path, 'memory.db')}`"
    if not os.path.isdir(folder):
        return f"the folder `{folder}` does not exist", "Make the folder first, or name a file in another"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "this user may not write in its folder", "Make the folder writable, or name a file in another"
    return None
