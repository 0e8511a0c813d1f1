"""Taking removed rows out of the files of a PostgreSQL database."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from memoranda.model.probes import Remains
from memoranda.store.postgres.deadline import Connection
from memoranda.store.postgres.dialect import PARTITIONED, SQL, fill

CONTENT = (
    "facts", "revisions", "entries", "vectors", "replays", "event_texts", "content_keys", "links",
    "approvals", "sessions", "rejections", "omissions", "shelves", "collections", "removals", "segments",
    "portions", "parts",
)  # fmt: skip
"""The tables that rows are removed from, or written in place of others. Nothing of the rest can be removed."""

_HORIZON = re.compile(r"(?:removable cutoff|oldest xmin): (\d+)")
_MISSED = "tuples missed"

_NOT_OURS = (
    "the role may not vacuum the tables: autovacuum does it later, or the owner with memoranda sweep --scrub; "
    "from PostgreSQL 17 on, GRANT MAINTAIN permits it"
)
_IN_USE = "older transactions are still open, or others are vacuuming: autovacuum removes the rows later"
_UNREADABLE = "the server does not say in English what it has removed"


def reclaim(connection: Connection, tenant: str, patience: float) -> Remains:
    """Remove the dead rows of a tenant up to its last erasure, earlier deletions and old values included.

    Rows that a transaction may still read stay; that is tried again until the patience is over.
    """
    places = _places(connection, tenant)
    row = connection.execute(SQL["get_erasing"], (tenant,)).fetchone()
    deadline = time.monotonic() + patience
    pause = 0.05
    reason = None if row is None else _vacuum(connection, places, row[0])
    while row is not None and reason == _IN_USE and time.monotonic() + pause < deadline:
        time.sleep(pause)
        pause *= 2  # each vacuum reads the pages that changed
        reason = _vacuum(connection, places, row[0])
    return Remains(
        dead_rows="gone" if reason is None else "untested" if reason == _UNREADABLE else "remains",
        index_entries="untested",
        free_space="remains",
        log="untested",
        reason=reason,
    )


def rewrite(connection: Connection, tenant: str | None) -> bool:
    """Rewrite the tables with content, of a tenant its partitions; return whether all of them were."""
    places = _places(connection, tenant)
    with _messages(connection) as messages:
        try:
            connection.execute(fill("rewrite", tables=places))
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            return False
    return not _has_warnings(messages)


def _vacuum(connection: Connection, places: str, erasing: int) -> str | None:
    """Vacuum tables; return why rows that a transaction removed may still be in their pages, None if they are not."""
    with _messages(connection) as messages:
        try:
            connection.execute(fill("reclaim", tables=places))
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            return _IN_USE
    if _has_warnings(messages):
        return _NOT_OURS
    said = "\n".join(one.text for one in messages)
    horizons = [int(number) for number in _HORIZON.findall(said)]
    if not horizons:
        return _UNREADABLE
    # Numbers of transactions have 32 bits, and wrap around.
    if _MISSED in said or any((horizon - erasing - 1) % 2**32 >= 2**31 for horizon in horizons):
        return _IN_USE
    return None


def _places(connection: Connection, tenant: str | None) -> str:
    """Return the names of the tables with content; of a tenant, those of its partitions."""
    row = None if tenant is None else connection.execute(SQL["get_partition"], (tenant,)).fetchone()
    suffix = "" if row is None or row[0] is None else f"_{row[0]}"
    return ", ".join(f"memoranda.{table}{suffix if table in PARTITIONED else ''}" for table in CONTENT)


class _Message(NamedTuple):
    """What the server said beside its answers."""

    is_warning: bool
    text: str


@contextmanager
def _messages(connection: Connection) -> Generator[list[_Message]]:
    """Collect messages. They are read at once, because the driver forgets them."""
    heard: list[_Message] = []

    def hear(one: psycopg.errors.Diagnostic) -> None:
        heard.append(_Message(one.severity_nonlocalized == "WARNING", f"{one.message_primary}\n{one.message_detail}"))

    connection.add_notice_handler(hear)
    try:
        yield heard
    finally:
        connection.remove_notice_handler(hear)


def _has_warnings(messages: Sequence[_Message]) -> bool:
    # A table that the role may not vacuum is skipped with only a warning.
    return any(one.is_warning for one in messages)
