"""Forking a process that has SQLite files open.

SQLite keeps its locks in a table of the process, by file. A forked child inherits that table without the locks: it
believes that it has them, takes none, and whoever closes the file next removes the log under it. So before a fork every
store of the process closes its connections, and opens them again when it is next used; the child inherits nothing and
may open the file itself.

Where that cannot be done, because a thread goes on reading or writing, or because somebody else in the process has the
file open, the child refuses to open it.
"""

from __future__ import annotations

import os
import stat
from typing import Protocol
from weakref import WeakSet

from memoranda.store.sql.misuse import inherited


class Forkable(Protocol):
    """A store, as forking sees it."""

    @property
    def path(self) -> str:
        """The file it is in."""
        ...

    def suspend(self) -> bool:
        """Close every connection until `resume`; False where some cannot be closed."""
        ...

    def resume(self) -> None:
        """Go on after `suspend`, whether it succeeded, failed or was interrupted."""
        ...

    def abandon(self) -> None:
        """Never touch the file again: this is a forked process."""
        ...


_File = tuple[int, int]  # device and inode

_stores: WeakSet[Forkable] = WeakSet()
_suspended: dict[Forkable, bool] = {}
_inherited: set[_File] = set()
_process = os.getpid()


def track(store: Forkable) -> None:
    """Close a store's connections around each fork, from now on; refuse a file whose locks this process inherited."""
    if os.getpid() != _process:
        _after_in_child()  # forked by something that does not call the hooks of Python
    if _file_at(store.path) in _inherited:
        raise inherited(store.path)
    _stores.add(store)


def untrack(store: Forkable) -> None:
    """Forget a store that was closed."""
    _stores.discard(store)


def _before() -> None:
    for store in list(_stores):
        _suspended[store] = False  # first: should an interrupt strike now, it is resumed all the same
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
    """Return the files that this process has open, as far as the system tells."""
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
