"""The name of a statement and its values in, rows out: what all verbs on one connection are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from memoranda.model.clock import to_micros
from memoranda.store.sql.decoding import Decoding, Row

K = TypeVar("K")
V = TypeVar("V")

FIRST_PAGE = 16
"""Rows of the first page of a long answer, before it is known how large its rows are."""
_PAGE_BYTES = 4_194_304
"""Bytes of content that one page holds, where its rows are as large as those of the page before."""

_MOST_KNOWN = 512
"""How much of one kind is kept in mind: enough for those who write at the moment, little beside idle sessions."""


class Statements(ABC):
    """Runs named statements on one connection, each to its end at once.

    The first value of a statement about one tenant is that tenant, or the place of something that belongs to it.
    """

    def __init__(self, url: str) -> None:
        """Name the database in errors as its address does."""
        self._url = url
        self._decoding = Decoding(url)
        self._turn = 0

    def end_turn(self) -> None:
        """Take back the iterators that were handed out: what they would read next is another moment."""
        self._turn += 1

    @abstractmethod
    def _all(self, name: str, *binding: Any) -> list[Row]:
        """Return the rows of a statement."""

    @abstractmethod
    def _run(self, name: str, *binding: Any) -> None:
        """Run a statement that writes."""

    @abstractmethod
    def _count(self, name: str, *binding: Any) -> int:
        """Run a statement that writes; return how many rows it touched."""

    @abstractmethod
    def _insert_all(self, name: str, bindings: Sequence[tuple[Any, ...]]) -> list[int]:
        """Run a statement that adds an entry once for each of these values; return the numbers that they were given."""

    @abstractmethod
    def _take_number(self) -> int:
        """Return the next number of the one counter that entries and removals share."""

    @abstractmethod
    def _place(self, tenant: str, number: Any) -> tuple[Any, ...]:
        """Return what names something of a tenant that has a number, or several of them, in a statement."""

    @abstractmethod
    def _listed(self, numbers: Iterable[int]) -> Any:
        """Return numbers as a statement takes a list of them."""

    @abstractmethod
    def _listed_texts(self, texts: Sequence[str]) -> Any:
        """Return texts as a statement takes a list of them."""

    @abstractmethod
    def _listed_bytes(self, values: Sequence[bytes]) -> Any:
        """Return bytes as a statement takes a list of them."""

    def _one(self, name: str, *binding: Any) -> Row | None:
        rows = self._all(name, *binding)
        return rows[0] if rows else None

    def _row(self, name: str, *binding: Any) -> Row | None:
        """Return the one row, of several columns, of a statement that finds at most one."""
        return self._one(name, *binding)

    def _number(self, name: str, *binding: Any) -> int:
        """Return the number a statement computes, 0 where it had no rows to compute it from."""
        return self._all(name, *binding)[0][0] or 0

    def _check_turn(self, turn: int) -> None:
        if turn != self._turn:
            raise RuntimeError("this iterator outlived the read or transaction it came from: use it up inside")


def page_size(before: Sequence[Row], most: int) -> int:
    """Return how many rows to read next, going by the content of those before, which is their last column.

    Never more than twice as many: small rows may be followed by large ones.
    """
    content = sum(len(row[-1]) for row in before if row[-1] is not None)
    return max(1, min(most, 2 * len(before), _PAGE_BYTES * len(before) // max(content, 1)))


def micros(moment: datetime | None) -> int | None:
    """Return a moment as it is stored, None where there is none."""
    return None if moment is None else to_micros(moment)


def keep_in_mind(known: dict[K, V], key: K, value: V) -> V:
    """Add what was read or written to what is known, and return it; a book that is full begins anew."""
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[key] = value
    return value
