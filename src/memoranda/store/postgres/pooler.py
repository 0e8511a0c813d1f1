"""Refuse a connection pooler that gives the connections of a program to others while their statements are prepared.

A statement is prepared under a name, on one connection of the server. In transaction mode a pooler may give the next
transaction another connection, where the same name is unknown or, worse, that of another program's statement. Poolers
that keep track of prepared statements rename them; with the others, a wrong statement could run unnoticed.
"""

from __future__ import annotations

import secrets
import select
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
from psycopg.pq import DiagnosticField

from memoranda.errors import Unavailable
from memoranda.store.postgres.dialect import SQL

_TRIES = 3
"""A new connection is likely, not certain, to be given what ours has just used."""
_PATIENCE = 1.0
"""Seconds to wait for an answer. A pooler that has none to give away keeps each for its client, which is harmless."""
_TAKEN = b"42P05"

Connection = psycopg.Connection[tuple[Any, ...]]


def check_pooler(ours: Connection, connect: Callable[[], Connection], url: str) -> None:
    """Raise an error if there is a pooler that mixes up the prepared statements of its clients.

    `connect` opens one more connection to the same address.
    """
    row = ours.execute(SQL["get_process"]).fetchone()
    assert row is not None, "it returns one row"
    if row[0] == ours.info.backend_pid:
        return  # the server itself said who it is: nothing is in between
    for _ in range(_TRIES):
        name = b"memoranda_" + secrets.token_hex(8).encode()
        with closing(connect()) as other:
            try:
                taken = _prepare(ours, name) is None and _prepare(other, name) == _TAKEN
            except TimeoutError:
                return
            if taken:
                raise Unavailable(
                    f"`{url}` is a connection pooler that mixes up the prepared statements of its clients",
                    hint="Let it pool sessions (PgBouncer: pool_mode = session), or keep prepared statements "
                    "(PgBouncer 1.21 or newer: max_prepared_statements = 200)",
                    url=url,
                )


def _prepare(connection: Connection, name: bytes) -> bytes | None:
    """Prepare a statement; return the code of the error, or None if there was none."""
    line = connection.pgconn
    line.send_prepare(name, SQL["get_process"])
    while line.flush():
        select.select([], [line.socket], [], _PATIENCE)
    while line.is_busy():
        if not select.select([line.socket], [], [], _PATIENCE)[0]:
            raise TimeoutError
        line.consume_input()
    result = line.get_result()
    while line.get_result() is not None:
        pass
    return result.error_field(DiagnosticField.SQLSTATE) if result is not None else None
