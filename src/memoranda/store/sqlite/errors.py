"""Translation of SQLite's errors into ours: `raise translate(error, url) from error`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

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

ERRORS: Mapping[type[apsw.Error], tuple[type[StorageError], str]] = MappingProxyType(
    {
        # others are using it
        apsw.BusyError: (Busy, _RETRY),
        apsw.LockedError: (Busy, _RETRY),
        apsw.ProtocolError: (Busy, _RETRY),  # lost the race for the WAL's locks too often
        # no room
        apsw.FullError: (Full, _SPACE),
        apsw.TooBigError: (Full, _SMALLER),
        # no right to write
        apsw.ReadOnlyError: (ReadOnly, _WRITABLE),
        # damage
        apsw.CorruptError: (Corrupt, _DAMAGED),
        apsw.NotADBError: (Corrupt, _NOT_OURS),
        apsw.FormatError: (Corrupt, _DAMAGED),
        # cannot be reached
        apsw.CantOpenError: (Unavailable, _REACH),
        apsw.IOError: (Unavailable, _REACH),
        apsw.PermissionsError: (Unavailable, _REACH),
        apsw.AuthError: (Unavailable, _REACH),
        apsw.NoLFSError: (Unavailable, _REACH),
        apsw.NoMemError: (Unavailable, _MEMORY),
        apsw.InterruptError: (Unavailable, "It was interrupted; try again"),
        apsw.AbortError: (Unavailable, "It was interrupted; try again"),
        apsw.ConnectionClosedError: (Unavailable, "Open it again"),
        apsw.CursorClosedError: (Unavailable, "Open it again"),
        apsw.ForkingViolationError: (Unavailable, "Open the store after forking, once in each process"),
        apsw.VFSNotImplementedError: (Unavailable, "Use a VFS that can do what WAL needs"),
        apsw.VFSFileClosedError: (Unavailable, "Use a VFS that can do what WAL needs"),
        # the tables are not what we expect
        apsw.SQLError: (StorageError, _STALE),
        apsw.SchemaChangeError: (StorageError, _STALE),
        # a bug of ours
        apsw.ThreadingViolationError: (StorageError, _REPORT),
        apsw.IncompleteExecutionError: (StorageError, _REPORT),
        apsw.BindingsError: (StorageError, _REPORT),
        apsw.ExecutionCompleteError: (StorageError, _REPORT),
        apsw.ExecTraceAbort: (StorageError, _REPORT),
        apsw.ExtensionLoadingError: (StorageError, _REPORT),
        apsw.ConnectionNotClosedError: (StorageError, _REPORT),
        apsw.NoFTS5Error: (StorageError, _REPORT),
        apsw.InvalidContextError: (StorageError, _REPORT),
        apsw.NotFoundError: (StorageError, _REPORT),
        apsw.InternalError: (StorageError, _REPORT),
        apsw.MisuseError: (StorageError, _REPORT),
        apsw.RangeError: (StorageError, _REPORT),
        apsw.EmptyError: (StorageError, _REPORT),
        apsw.MismatchError: (StorageError, _REPORT),
        apsw.ConstraintError: (StorageError, _REPORT),
    }
)
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
