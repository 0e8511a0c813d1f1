"""Errors that SQL stores share, and the address of a database as errors show it."""

from __future__ import annotations

import re

from memoranda.errors import Busy, Corrupt, Hint, Incomplete, MigrationNeeded, StorageError, Unavailable

UNFINISHED = 1_000_000
"""Added to the number of a schema while it is the target of a move, so that no program opens it, old ones included."""

_USER_AND_SECRET = re.compile(r"^([^:@/?]*)(?::.*)?@", re.DOTALL)
_SECRET_SETTING = re.compile(r"(?<=[?&])[^=&]*pass[^=&]*=[^&]*&?", re.IGNORECASE)


def without_secrets(url: str) -> str:
    """Return an address with its user but without any password.

    >>> without_secrets("postgresql://ada:s3cret@db.example/team?sslmode=require&password=s3cret")
    'postgresql://ada@db.example/team?sslmode=require'
    """
    scheme, separator, rest = url.partition("://")
    rest = _USER_AND_SECRET.sub(r"\1@", rest, count=1)
    return scheme + separator + _SECRET_SETTING.sub("", rest).rstrip("?&")


def use_after_close(url: str) -> Unavailable:
    """Return the error for using a store after it was closed."""
    return Unavailable(f"`{url}` is closed", hint="Open it again", url=url)


def use_after_fork(url: str) -> Unavailable:
    """Return the error for using a store in a process that was forked after it was opened."""
    return Unavailable(
        f"`{url}` was opened by the process that forked this one",
        hint="Open the store after forking, once in each process",
        url=url,
    )


def locks_inherited(url: str) -> Unavailable:
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


def newer_schema(url: str, found: int, known: int) -> StorageError:
    """Return the error for opening what a later version has written, or what a move is still writing."""
    if found > UNFINISHED:
        return Incomplete(
            f"`{url}` is the target of a move that has not ended",
            hint=(Hint("command", f"migrate SOURCE {url}"), "with --restart to begin again"),
            url=url,
        )
    return MigrationNeeded(
        f"`{url}` has schema {found}, this Memoranda knows schema {known}",
        hint="Upgrade Memoranda here to the version that the other programs on this database use",
        found=found,
        wanted=known,
        url=url,
    )


def would_wait(url: str) -> Busy:
    """Return the error for a write that must not wait and would have to."""
    return Busy(f"`{url}` is in use, and this write was not to wait", hint="Wait for it, in a thread", url=url)


def reentrant_call() -> RuntimeError:
    """Return the error for work that calls the store it runs in."""
    return RuntimeError(
        "work inside a transaction called the store again: use the transaction it was given, "
        "or do the second write after the first has returned"
    )
