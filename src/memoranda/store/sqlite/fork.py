"""Forking a process that has SQLite files open.

SQLite keeps the locks of a process in a table in memory. A forked child inherits the table but not the locks: it takes
none because it seems to have them, and then another process may remove the log while the child uses it. So every store
closes its connections before a fork and opens them again when they are needed; the child inherits no connection and may
open the file itself.

If that is not possible, because a thread is still reading or writing or because other code in the process has the file
open, the child refuses to open it.
"""

from __future__ import annotations

import os
import stat
from typing import Protocol
from weakref import WeakSet

from memoranda.store.sql.errors import locks_inherited


class Forkable(Protocol):
    """What `track` needs of a store."""

    @property
    def path(self) -> str:
        """The file of the store."""
        ...

    def suspend(self) -> bool:
        """Close all connections until `resume`; return False if some cannot be closed."""
        ...

    def resume(self) -> None:
        """Continue after `suspend`, whether it succeeded, failed or was interrupted."""
        ...

    def abandon(self) -> None:
        """Never use the connections again: this is a forked process."""
        ...


_File = tuple[int, int]  # device and inode

_stores: WeakSet[Forkable] = WeakSet()
_suspended: dict[Forkable, bool] = {}
_inherited: set[_File] = set()
_process = os.getpid()


def track(store: Forkable) -> None:
    """Close a store's connections around every fork; raise an error if this process inherited the file's locks."""
    if os.getpid() != _process:
        _after_in_child()  # forked by code that does not call Python's hooks
    if _file_at(store.path) in _inherited:
        raise locks_inherited(store.path)
    _stores.add(store)


def untrack(store: Forkable) -> None:
    """Forget a store that was closed."""
    _stores.discard(store)


def _before() -> None:
    for store in list(_stores):
        _suspended[store] = False  # first: after an interrupt it must be resumed nevertheless
        _suspended[store] = store.suspend()


def _after_in_parent() -> None:
    while _suspended:
        store, _ = _suspended.popitem()
        store.resume()


def _after_in_child() -> None:
    global _process
    _process = os.getpid()
    for store in list(_stores):
        if not _suspended.get(store, False):
            _inherited.update(filter(None, (_file_at(store.path),)))
        store.abandon()
    _inherited.update(_open_files())
    _stores.clear()
    _suspended.clear()


def _file_at(path: str) -> _File | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open_files() -> set[_File]:
    """Return the files that this process has open, where the system lists them."""
    found: set[_File] = set()
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                status = os.fstat(int(name))
            except OSError:
                continue  # the descriptor of the listing itself, closed by now
            if stat.S_ISREG(status.st_mode):
                found.add((status.st_dev, status.st_ino))
        break
    return found


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
