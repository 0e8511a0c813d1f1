"""Bringing a database to the current schema while other programs use it.

A file in migrations/ has up to three steps, each after a line `-- step: …`:

- `concurrently`: indexes on large tables, made one by one while others write;
- `pre`: what programs of this schema need and those of the one before do not notice;
- `post`: what only programs of this schema can live with. It is run when it is asked for.

The first two are run when a newer program opens the database. Then programs of both schemas may write, until the
migration is finished. A file without steps is run as a whole; programs of earlier schemas are refused from then on.

No step waits long for a lock on a table, because all others would wait behind it: it gives up and tries again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import psycopg

from memoranda.errors import ForeignDatabase, Unavailable
from memoranda.store.postgres.deadline import LONGEST_REWRITE, Connection
from memoranda.store.postgres.dialect import HERE, SQL, fill
from memoranda.store.sql.dialect import read_migrations
from memoranda.store.sql.errors import newer_schema

SCHEMA = (HERE / "schema.sql").read_text(encoding="utf-8")
"""The current schema, without its name."""

MIGRATIONS = read_migrations(HERE)
"""The migrations from an empty database to the current schema."""

VERSION = len(MIGRATIONS)

LOCK_TIMEOUT = "100"
"""Milliseconds for which others may have to wait behind a step that waits for a table."""

_STEP = re.compile(r"^-- step: (\w+)\n", re.MULTILINE)
_INDEX = re.compile(r"\bINDEX CONCURRENTLY (\w+) ON memoranda\.(\w+) ([^;]*);")


class Schema(NamedTuple):
    """The schema of a database."""

    oldest: int
    """The schema of the oldest programs that may write."""
    newest: int
    """That of the newest ones: the number of migrations that were taken, perhaps without their `post` step."""


class Manner(NamedTuple):
    """How the transactions of a migration run."""

    url: str
    synchronous_commit: str
    patience: float
    """Seconds for which a lock is tried to get."""


def steps_of(migration: str) -> dict[str, str]:
    """Return the steps of a migration by name; one without steps is all `whole`."""
    first, *rest = _STEP.split(migration)
    return dict(zip(rest[::2], rest[1::2], strict=True)) if rest else {"whole": first}


def migrate(connection: Connection, manner: Manner) -> None:
    """Bring a new or older database to the current schema; raise an error if it is foreign or newer."""
    while not is_current(connection, manner.url):
        connection.limit = LONGEST_REWRITE
        _try_again(lambda: _advance(connection, manner), manner)


def is_current(connection: Connection, url: str) -> bool:
    """Return whether a database needs no migration by this program; raise an error if it is foreign or newer."""
    found = identify(connection, url)
    return found is not None and found.newest >= VERSION


def finish(connection: Connection, manner: Manner) -> bool:
    """Run what was left for when no older program writes any more, and refuse those; return whether there was any."""
    found = identify(connection, manner.url)
    if found is None or found.oldest == found.newest:
        return False
    if found.newest > VERSION:
        raise newer_schema(manner.url, found.newest, VERSION)

    connection.limit = LONGEST_REWRITE

    def run() -> None:
        with connection.transaction():
            _begin(connection, manner)
            connection.execute(SQL["act_as_owner"])
            connection.execute(SQL["lock_writers"])  # those that began before are done, and none begins
            oldest, newest = _stored(connection)
            for migration in MIGRATIONS[oldest:newest]:
                connection.execute(steps_of(migration).get("post", "").encode())
            _record(connection, Schema(newest, newest))

    _try_again(run, manner)
    return True


def check_version(programs: Sequence[int], url: str) -> None:
    """Raise an error if the database was migrated since it was opened, and this program may not write any more."""
    oldest, newest = programs
    if not oldest <= VERSION <= newest:
        raise newer_schema(url, newest if VERSION > newest else oldest, VERSION)


def identify(connection: Connection, url: str) -> Schema | None:
    """Return the schema of a database: zeros for an empty schema, None without a schema."""
    encoding, has_schema, has_version, tables = _row(connection, "get_surroundings")
    if encoding != "UTF8":
        raise Unavailable(
            f"`{url}` has the encoding {encoding}",
            hint="Give Memoranda a database of its own: createdb --encoding UTF8 NAME",
            url=url,
        )
    if not has_schema:
        return None
    if not has_version:
        if tables:
            raise ForeignDatabase(
                f"`{url}` has a schema `memoranda` of another program",
                hint="Give Memoranda a database of its own",
                url=url,
            )
        return Schema(0, 0)
    found = _stored(connection)
    if found.oldest > VERSION:
        raise newer_schema(url, found.oldest, VERSION)
    return found


def _advance(connection: Connection, manner: Manner) -> None:
    """Create the schema, or take the next migration, unless another program has done it meanwhile."""
    with connection.transaction():
        _begin(connection, manner)
        if _row(connection, "has_released_schema")[0]:
            connection.execute(SQL["rename_schema"])
        found = identify(connection, manner.url)
        if found is None or not found.newest:
            if found is None:
                connection.execute(SQL["create_schema"])
            connection.execute(SCHEMA.encode())
            _record(connection, Schema(VERSION, VERSION))
            return
        if found.newest >= VERSION:
            return
        steps = steps_of(MIGRATIONS[found.newest])
        if "concurrently" not in steps:
            _take(connection, found, steps)
            return
    _build_indexes(connection, steps["concurrently"], manner)
    with connection.transaction():
        _begin(connection, manner)
        if _stored(connection) == found:
            _take(connection, found, steps)


def _take(connection: Connection, found: Schema, steps: dict[str, str]) -> None:
    # New tables belong to the owner of the old ones, whatever role migrates.
    connection.execute(SQL["act_as_owner"])
    newest = found.newest + 1
    if "whole" not in steps:
        connection.execute(steps.get("pre", "").encode())
        _record(connection, Schema(found.oldest, newest))
        return
    # Nothing before it can be left for later.
    for migration in MIGRATIONS[found.oldest : found.newest]:
        connection.execute(steps_of(migration).get("post", "").encode())
    connection.execute(steps["whole"].encode())
    _record(connection, Schema(newest, newest))


def _build_indexes(connection: Connection, step: str, manner: Manner) -> None:
    """Make indexes while others write; on a partitioned table, one partition after the other."""
    connection.execute(SQL["lock_schema_for_long"])
    try:
        connection.execute(SQL["act_as_owner_for_long"])
        for name, table, body in _INDEX.findall(step):
            partitions = [one for (one,) in connection.execute(SQL["list_partitions"], (table,)).fetchall()]
            indexes = {name + place.removeprefix(table): place for place in partitions} or {name: table}
            for index, place in indexes.items():
                _build_index(connection, index, place, body)
            if partitions:
                join = fill("add_partitioned_index", name=name, table=table, body=body)
                join += b"".join(fill("attach_index", name=name, partition=index) for index in indexes)
                _try_again(partial(_run_at_once, connection, join, manner), manner)
    finally:
        connection.execute(SQL["unlock_schema"])


def _run_at_once(connection: Connection, statements: bytes, manner: Manner) -> None:
    with connection.transaction():
        connection.execute(SQL["set_manner"], (LOCK_TIMEOUT, manner.synchronous_commit))
        connection.execute(statements)


def _build_index(connection: Connection, name: str, table: str, body: str) -> None:
    state = connection.execute(SQL["get_index"], (name,)).fetchone()
    if state == (True,):
        return
    if state is not None:  # what is left of one that was interrupted
        connection.execute(fill("drop_index", name=name))
    connection.execute(fill("build_index", name=name, table=table, body=body))


def _begin(connection: Connection, manner: Manner) -> None:
    connection.execute(SQL["set_manner"], (LOCK_TIMEOUT, manner.synchronous_commit))
    connection.execute(SQL["lock_schema"])


def _try_again(run: Callable[[], None], manner: Manner) -> None:
    """Run a step, and run it again while others hold a lock that it needs."""
    deadline = time.monotonic() + manner.patience
    while True:
        try:
            run()
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            # Those who waited behind it go first.
            if time.monotonic() + int(LOCK_TIMEOUT) / 1000 > deadline:
                raise
            time.sleep(int(LOCK_TIMEOUT) / 1000)


def _stored(connection: Connection) -> Schema:
    return Schema(*_row(connection, "get_version"))


def _record(connection: Connection, schema: Schema) -> None:
    connection.execute(SQL["forget_version"])
    connection.execute(SQL["keep_version"], schema)


def _row(connection: Connection, name: str) -> tuple[Any, ...]:
    row = connection.execute(SQL[name]).fetchone()
    assert row is not None, "it returns one row"
    return row
