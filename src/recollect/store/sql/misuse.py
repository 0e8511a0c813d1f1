"""What is said to those who use a store as nobody can."""

from __future__ import annotations

from recollect.errors import Busy, MigrationNeeded, Unavailable


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


def newer(url: str, found: int, known: int) -> MigrationNeeded:
    """Return the error for opening what a later version has written."""
    return MigrationNeeded(
        f"`{url}` has schema {found}, this Recollect knows schema {known}",
        hint="Upgrade Recollect here to the version that the other programs on this database use",
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
