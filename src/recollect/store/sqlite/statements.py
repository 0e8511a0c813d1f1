"""The name of a statement and its values in, rows out: what all verbs on one connection are made of."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from recollect.model.clock import to_micros
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.decoding import Decoding, Row
from recollect.store.sqlite.queries import SQL

K = TypeVar("K")
V = TypeVar("V")

_MOST_KNOWN = 512
"""How much of one kind is kept in mind: enough for those who write at the moment, little beside idle sessions."""


class Statements:
    """Runs named statements on one connection, each to its end at once."""

    def __init__(self, connection: Connection, url: str) -> None:
        """Work on this connection, which nobody else uses meanwhile."""
        self.connection = connection
        self._url = url
        self._execute = connection.cursor().execute
        self._decoding = Decoding(url)
        self._turn = 0

    def end_turn(self) -> None:
        """Take back the iterators that were handed out: what they would read next is another moment."""
        self._turn += 1

    def _all(self, name: str, *binding: Any) -> list[Row]:
        return self._execute(SQL[name], binding).fetchall()

    def _one(self, name: str, *binding: Any) -> Row | None:
        rows = self._all(name, *binding)
        return rows[0] if rows else None

    def _number(self, name: str, *binding: Any) -> int:
        """Return the number a statement computes, 0 where it had no rows to compute it from."""
        return self._all(name, *binding)[0][0] or 0

    def _run(self, name: str, *binding: Any) -> int:
        """Run a statement that writes; return how many rows it touched."""
        self._execute(SQL[name], binding)
        return self.connection.changes()

    def _check_turn(self, turn: int) -> None:
        if turn != self._turn:
            raise RuntimeError("this iterator outlived the read or transaction it came from: use it up inside")


def micros(moment: datetime | None) -> int | None:
    """Return a moment as it is stored, None where there is none."""
    return None if moment is None else to_micros(moment)


def keep_in_mind(known: dict[K, V], key: K, value: V) -> V:
    """Add what was read or written to what is known, and return it; a book that is full begins anew."""
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[key] = value
    return value
