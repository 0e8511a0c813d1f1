"""The rows of one SQLite connection: runs the named statements of `store/sql`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from memoranda.model.entry import NewEntry
from memoranda.model.event import Event
from memoranda.model.value import encode
from memoranda.store.base import TenantState
from memoranda.store.sql.decoding import Row
from memoranda.store.sql.entries import SLOTS, Place
from memoranda.store.sql.misuse import lost_commits
from memoranda.store.sql.rows import SqlRows
from memoranda.store.sqlite.connection import Connection
from memoranda.store.sqlite.queries import SQL


class Rows(SqlRows):
    """A transaction on one connection, which nobody else uses meanwhile."""

    def __init__(self, connection: Connection, url: str, *, ledger_ends: dict[str, int] | None = None) -> None:
        """Work on this connection; no tenant's ledger may be shorter than `ledger_ends` says."""
        super().__init__(url)
        self.connection = connection
        self.thread: int | None = None
        """The thread that reads with it just now."""
        cursor = connection.cursor()
        self._execute, self._execute_all = cursor.execute, cursor.executemany
        self._ledger_ends = {} if ledger_ends is None else ledger_ends

    def note_ledger_ends(self) -> None:
        """Note how long each known ledger is, before what is known is forgotten: none may be shorter afterwards."""
        self._ledger_ends.update((tenant, length) for tenant, (_, length, _) in self._tenants.items())

    def _tenant(self, tenant: str) -> tuple[TenantState, int, str]:
        known = self._tenants.get(tenant)
        if known is None:
            known = super()._tenant(tenant)
            if known[1] < self._ledger_ends.get(tenant, 0):
                self._tenants.clear()
                raise lost_commits(self._url, tenant, known[1], self._ledger_ends[tenant])
        return known

    def _all(self, name: str, *binding: Any) -> list[Row]:
        try:
            return self._execute(SQL[name], binding).fetchall()
        except UnicodeDecodeError as error:
            raise self._decoding.corrupt("a text", error) from error

    def _row(self, name: str, *binding: Any) -> Row | None:
        try:
            return self._execute(SQL[name], binding).get  # half of what making a list costs
        except UnicodeDecodeError as error:
            raise self._decoding.corrupt("a text", error) from error

    def _run(self, name: str, *binding: Any) -> None:
        self._execute(SQL[name], binding)

    def _count(self, name: str, *binding: Any) -> int:
        self._execute(SQL[name], binding)
        return self.connection.changes()

    def _insert_all(self, name: str, bindings: Sequence[tuple[Any, ...]]) -> list[int]:
        # One after the other, and nobody else writes: they have the last numbers that there are.
        self._execute_all(SQL[name], bindings)
        end = self.connection.last_insert_rowid() + 1  # half of what RETURNING costs
        return list(range(end - len(bindings), end))

    def _take_number(self) -> int:
        return self._number("take_number")

    def _place(self, tenant: str, number: Any) -> tuple[Any, ...]:
        """Return the number alone: the file gives none twice, whoever the tenant is."""
        return (number,)

    def _listed(self, numbers: Iterable[int]) -> str:
        return f"[{','.join(map(str, numbers))}]"  # read by json_each

    def _listed_texts(self, texts: Sequence[str]) -> str:
        return encode(texts).decode()

    def _listed_bytes(self, values: Sequence[bytes]) -> str:
        return encode([value.hex() for value in values]).decode()

    def _erasures_of(self, tenant: str, paths: list[str]) -> list[Row]:
        # A scope has few above it, and asking for each costs less than any one statement that asks for all.
        return [row for path in paths for row in self._all("get_erasure", tenant, path)]

    def _move_head(self, tenant: str, before: int, last: Event) -> bool:
        if self._count("move_head", tenant, before, last.position, last.hash):
            return True
        return before == 0 and bool(self._count("begin_head", tenant, last.position, last.hash))

    def _fill_shelf(self, place: Place, sequences: Sequence[int]) -> None:
        self._run("fill_shelf", *place, sequences[-1], sequences[0], len(sequences))

    def _add_vectors(
        self, tenant: str, slot: int, expiry: int | None, added: Iterable[tuple[int, NewEntry]], number: int
    ) -> None:
        rows = [
            (sequence * SLOTS + slot, expiry, entry.metadata, entry.analysis, entry.vectors[number])
            for sequence, entry in added
        ]
        self._execute_all(SQL["add_vector"], rows)
