"""How the statements of `store/sql` run on a connection to PostgreSQL.

Statements are sent in a pipeline: those that only write are not waited for one by one, so a transaction takes as many
round trips as it has questions. An error of one of them is raised with the next answer, at the latest with that of the
commit.

A transaction has a tenant to itself from the first statement about it on: that statement waits for the lock of the
tenant's row, and then sees everything that the previous owner of the lock has written. Other tenants are not blocked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from memoranda.errors import Unavailable
from memoranda.model.event import Event
from memoranda.model.text import quote
from memoranda.store.base import TenantState
from memoranda.store.postgres.deadline import LONGEST_COMMIT, Connection
from memoranda.store.postgres.dialect import SQL, statements
from memoranda.store.postgres.migration import check_version
from memoranda.store.sql.entries import EntryRows
from memoranda.store.sql.rows import Row

Proof = tuple[str, int, str]

_MOST_TENANTS = 10_000
"""Tenants whose partition is cached."""
_MOST_NUMBERS = 256
_COUNTED = frozenset({"get_shelf_state", "get_namespaces_state", "list_shelf_states", "list_shelves", "add_shelf"})
"""The statements that read the counts of shelves."""
_OF_EVENTS = frozenset({"add_tenant", "move_head", "append_event", "put_event_text"})
"""The statements that change nothing but the ledger."""
_BEGIN_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BEGIN_WRITING = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


class Rights:
    """What the role of a store's connections may see: everything, or the tenants that `memoranda.roles` lists for it.

    Row-level security hides all other tenants, which then look empty. A program must not act on that: so using a tenant
    that was not granted is an error, for reads and writes.
    """

    def __init__(self, url: str) -> None:
        """Know no tenants yet; `url` is for errors."""
        self._url = url
        self._sees_all = False
        self._granted: frozenset[str] = frozenset()

    def check(self, connection: Connection, tenant: str | None = None) -> None:
        """Raise an error if the role may not see a tenant or, without a tenant, if it may see none.

        A tenant that was not granted is looked up again: it may have been granted since.
        """
        if self._sees_all or tenant in self._granted:
            return
        found = connection.execute(SQL["get_rights"]).fetchone()
        assert found is not None, "it returns one row"
        role, hidden, granted = found
        self._sees_all, self._granted = not hidden, frozenset(granted)
        if hidden and not (granted if tenant is None else tenant in granted):
            raise self._hidden(role, tenant)

    def _hidden(self, role: str, tenant: str | None) -> Unavailable:
        what = "no tenant" if tenant is None else f"nothing of the tenant {quote(tenant)}"
        row = f"{_literal(tenant or 'default')}, {_literal(role)}"
        return Unavailable(
            f"`{self._url}`: the role `{role}` may see {what}",
            hint=f"As the owner of the tables: INSERT INTO memoranda.roles (tenant, role) VALUES ({row})",
            url=self._url,
        )


class Partitions:
    """The partition of each tenant, as the server computes it."""

    def __init__(self) -> None:
        """Know no tenant yet."""
        self._statements: dict[str, Mapping[str, bytes]] = {}

    def statements(self, connection: Connection, tenant: str) -> Mapping[str, bytes]:
        """Return the statements for the partition of a tenant."""
        known = self._statements.get(tenant)
        if known is None:
            found = connection.execute(SQL["get_partition"], (tenant,)).fetchone()
            assert found is not None, "it returns one row"
            (partition,) = found
            if len(self._statements) >= _MOST_TENANTS:
                self._statements.clear()
            known = self._statements[tenant] = statements(partition)
        return known


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class PostgresRows(EntryRows):
    """A transaction or a snapshot on one connection, used by one thread at a time."""

    def __init__(self, connection: Connection, url: str, rights: Rights, partitions: Partitions) -> None:
        """Use a connection; lock no tenant until `begin_writing`."""
        super().__init__(url)
        self.connection = connection
        self.rights = rights
        self.statement_timeout: bytes | None = None
        """The statement that limits those of a transaction, if there is a limit."""
        self.tells_position = False
        """Whether a commit also returns how far the write-ahead log has come with it, for reads from standbys."""
        self.changes_rows = False
        """Whether the transaction changed more than the ledger."""
        self._partitions = partitions
        self.proof: Proof | None = None
        """The event that was appended last: it is in the ledger exactly if the transaction was committed."""
        self._number: psycopg.Cursor[tuple[Any, ...]] | None = None
        self._query = connection.cursor(binary=True)
        # A separate cursor: the results of statements that are not waited for must not be taken for those of a query.
        self._command = connection.cursor()
        self._pipeline: psycopg.Pipeline | None = None
        self._locked: set[str] | None = None
        # Numbers that were taken for this transaction, the last one first; each time twice as many as before.
        self._reserved: list[int] = []
        self._take = 1
        # By shelf, what is still to be counted there: the newest and the first sequence, and the number of entries.
        self._uncounted: dict[tuple[str, int], tuple[int, int, int]] = {}

    def begin_reading(self, pipeline: psycopg.Pipeline) -> None:
        """Begin a snapshot."""
        self._pipeline = pipeline
        self._command.execute(_BEGIN_READING)
        if self.statement_timeout is not None:
            self._command.execute(self.statement_timeout)

    def begin_writing(self, pipeline: psycopg.Pipeline, lock_timeout: str, synchronous_commit: str) -> None:
        """Begin a transaction that locks each tenant before the first statement about it."""
        self._pipeline = pipeline
        self._locked = set()
        self.proof = None
        self.changes_rows = False
        self._command.execute(_BEGIN_WRITING)
        self._command.execute(SQL["set_manner"], (lock_timeout, synchronous_commit))
        if self.statement_timeout is not None:
            self._command.execute(self.statement_timeout)

    def commit(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """Send the COMMIT; its answer is there when the pipeline has ended."""
        self._flush_counts()
        self.connection.limit = LONGEST_COMMIT
        if not self.tells_position:
            return self._command.execute(b"COMMIT")
        self._number = self.connection.execute(SQL["get_transaction"])
        answer = self._command.execute(b"COMMIT")
        self._query.execute(SQL["get_position"])
        return answer

    def position_of_commit(self) -> tuple[int, str | None]:
        """Return a position in the write-ahead log at which a standby shows the commit, and its transaction's number.

        Others write to the log too, so a standby may show the commit before it has come so far.
        """
        if self._number is None:
            return 0, None
        ((number,),), self._number = self._number.fetchall(), None
        return self._query.fetchall()[0][0], number

    def end(self) -> None:
        """End a transaction, a snapshot or a query."""
        self.reset()
        self._pipeline = self._locked = None
        self._reserved.clear()
        self._take = 1
        self._uncounted.clear()

    def append_events(self, events: Sequence[tuple[Event, bytes]]) -> None:
        """Append to a tenant's ledger."""
        super().append_events(events)
        last = events[-1][0]
        self.proof = last.tenant, last.position, last.hash

    def holds(self, proof: Proof) -> bool:
        """Say whether the ledger has an event, once the lock of its tenant was taken."""
        return bool(self._all("find_event", *proof))

    def _all(self, name: str, *values: Any) -> list[Row]:
        sql = self._enter(values)
        if self._uncounted and name in _COUNTED:
            self._flush_counts()
        return self._query.execute(sql[name], values).fetchall()

    def _row(self, name: str, *values: Any) -> Row | None:
        rows = self._all(name, *values)
        return rows[0] if rows else None

    def _value(self, name: str, *values: Any) -> Any:
        rows = self._all(name, *values)
        return rows[0][0] if rows else None

    def _run(self, name: str, *values: Any) -> None:
        sql = self._enter(values)
        self.changes_rows |= name not in _OF_EVENTS
        self._command.execute(sql[name], values)

    def _run_all(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        for values in rows:
            self._run(name, *values)

    def _count(self, name: str, *values: Any) -> int:
        sql = self._enter(values)
        self.changes_rows = True
        self._query.execute(sql[name], values)
        if self._pipeline is not None:
            self._pipeline.sync()
        if self._query.description is None:
            return self._query.rowcount
        (removed,) = self._query.fetchall()[0]  # from a function that removes rows
        return removed

    def _array(self, values: Sequence[int] | Sequence[str] | Sequence[bytes]) -> list[Any]:
        return list(values)

    def _insert_entries(self, rows: Sequence[tuple[Any, ...]]) -> list[int]:
        sequences: list[int] = []
        for values in rows:
            sequences.append(self._take_number())
            self._run("add_entry", *values, sequences[-1])
        return sequences

    def _take_number(self) -> int:
        if not self._reserved:
            self._reserved = [number for (number,) in self._query.execute(SQL["take_numbers"], (self._take,))]
            self._reserved.reverse()
            self._take = min(2 * self._take, _MOST_NUMBERS)
        return self._reserved.pop()

    def _count_entries(self, tenant: str, number: int, sequences: Sequence[int]) -> None:
        # Later: each UPDATE of a row leaves a dead version, which the next one has to skip.
        _, first, counted = self._uncounted.get((tenant, number), (0, sequences[0], 0))
        self._uncounted[tenant, number] = sequences[-1], first, counted + len(sequences)

    def _flush_counts(self) -> None:
        for shelf, counted in self._uncounted.items():
            self._run("fill_shelf", *shelf, *counted)
        self._uncounted.clear()

    def _enter(self, values: Sequence[Any]) -> Mapping[str, bytes]:
        """Check the right to see a statement's tenant, and take its lock if this writes and does not have it yet.

        Return the statements that name its partition.
        """
        if not values:
            return SQL
        tenant = values[0]
        self.rights.check(self.connection, tenant)
        if self._locked is not None and tenant not in self._locked:
            self._lock(tenant)
        return self._partitions.statements(self.connection, tenant)

    def _lock(self, tenant: str) -> None:
        found = self._query.execute(SQL["lock_tenant"], (tenant,)).fetchone()
        if found is None:
            self._command.execute(SQL["add_tenant"], (tenant,))
            found = self._query.execute(SQL["lock_tenant"], (tenant,)).fetchone()
            assert found is not None, "the row was added here or by another transaction"
        revision, epoch, rejected, length, head, programs = found
        check_version(programs, self._url)
        if self._locked is not None:
            self._locked.add(tenant)
        self._reserved.clear()  # others may have used higher ones for this tenant since
        self._tenants[tenant] = (TenantState(revision, epoch, rejected), length, head)
