"""Errors for misusing a store."""

from __future__ import annotations

from memoranda.errors import Busy, Corrupt, MigrationNeeded, Unavailable


def closed(url: str) -> Unavailable:
    """Return the error for using a store after it was closed."""
    return Unavailable(f"`{url}` is closed", hint="Open it again", url=url)


def forked(url: str) -> Unavailable:
    """Return the error for using a store in a process that was forked after it was opened."""
    return Unavailable(
        f"`{url}` was opened by the process that forked this one",
        hint="Open the store after forking, once in each process",
        url=url,
    )


def inherited(url: str) -> Unavailable:
    """Return the error for opening a file that the parent of a forked process had open while it forked."""
    return Unavailable(
        f"`{url}` was in use while this process was forked, so its locks do not work here",
        hint="Fork before the file is opened or while no thread is using it, or start workers with `spawn`",
        url=url,
    )


def lost_commits(url: str, tenant: str, found: int, known: int) -> Corrupt:
    """Return the error for a ledger that has become shorter since this process last saw it."""
    return Corrupt(
        f"`{url}` has lost committed writes: the ledger of `{tenant}` ends at {found}, and ended at {known} before",
        hint="Stop every program that uses it, look for a deleted or replaced file, and restore a backup",
        url=url,
    )


def newer(url: str, found: int, known: int) -> MigrationNeeded:
    """Return the error for opening what a later version has written."""
    return MigrationNeeded(
        f"`{url}` has schema {found}, this Memoranda knows schema {known}",
        hint="Upgrade Memoranda here to the version that the other programs on this database use",
        found=found,
        wanted=known,
        url=url,
    )


def not_at_once(url: str) -> Busy:
    """Return the error for work that was to be done at once and would have had to wait."""
    return Busy(f"`{url}` is in use, and this write was not to wait", hint="Wait for it, in a thread", url=url)


def nested() -> RuntimeError:
    """Return the error for work that calls the store it runs in."""
    return RuntimeError(
        "work inside a transaction called the store again: use the transaction it was given, "
        "or do the second write after the first has returned"
    )
