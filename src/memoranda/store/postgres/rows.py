"""Named statements in, rows of PostgreSQL out: how the verbs of `store/sql` run on one connection.

Statements go out in a pipeline: those that only write are not waited for one by one, so a transaction takes as many
round trips as it has questions. What went wrong with one of them is heard with the next answer, at the latest with
that to the commit.

A transaction has a tenant to itself from the first statement about it on: that statement waits for the lock of the
tenant's row, and whoever waits sees, after it, all that the one before has written. Other tenants are not held up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from memoranda.model.entry import NewEntry
from memoranda.model.event import Event
from memoranda.store.base import TenantState
from memoranda.store.postgres.migrate import check_version
from memoranda.store.postgres.queries import SQL
from memoranda.store.postgres.rights import Rights
from memoranda.store.sql.decoding import Row
from memoranda.store.sql.entries import Place
from memoranda.store.sql.rows import SqlRows

Connection = psycopg.Connection[tuple[Any, ...]]
Proof = tuple[str, int, str]

_OF_SHELVES = frozenset({"get_shelf_state", "get_namespaces_state", "list_shelves", "add_shelf"})
"""The statements that look at what is counted on shelves."""
_MOST_NUMBERS = 256
_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITING = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


class Rows(SqlRows):
    """A transaction, or a moment to read, on one connection, which nobody else uses meanwhile."""

    def __init__(self, connection: Connection, url: str, rights: Rights) -> None:
        """Work on this connection; lock nothing until it is said that this writes."""
        super().__init__(url)
        self.connection = connection
        self.rights = rights
        self.proof: Proof | None = None
        """The last event that was appended: where it is found once the transaction is kept, and nowhere else."""
        self._asking = connection.cursor(binary=True)
        # One of its own: results of what nobody waits for would be taken for those of a question.
        self._telling = connection.cursor()
        self._pipeline: psycopg.Pipeline | None = None
        self._locked: set[str] | None = None
        # Numbers that were taken for this transaction, the last one first; each time twice as many as the time before.
        self._numbers: list[int] = []
        self._taken = 1
        # By shelf, what is still to be counted there: the newest and the first sequence, and how many of them stand.
        self._filled: dict[Place, tuple[int, int, int]] = {}

    def begin_reading(self, pipeline: psycopg.Pipeline) -> None:
        """Stay at one moment until the end."""
        self._pipeline = pipeline
        self._telling.execute(_READING)

    def begin_writing(self, pipeline: psycopg.Pipeline, lock_timeout: str, synchronous_commit: str) -> None:
        """Lock each tenant from now on, before anything of it is looked at."""
        self._pipeline = pipeline
        self._locked = set()
        self.proof = None
        self._telling.execute(_WRITING)
        self._telling.execute(SQL["set_manner"], (lock_timeout, synchronous_commit))

    def commit(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """Ask for all of it to be kept; the answer is there when the pipeline has ended."""
        self._count_filled()
        return self._telling.execute(b"COMMIT")

    def end(self) -> None:
        """Take back what was handed out, and keep nothing in mind: others may write as soon as this has ended."""
        self._pipeline = self._locked = None
        self._numbers.clear()
        self._taken = 1
        self._filled.clear()
        self.end_turn()
        self.forget()

    def append_events(self, events: Sequence[tuple[Event, bytes]]) -> None:
        """Append to a tenant's ledger."""
        super().append_events(events)
        last = events[-1][0]
        self.proof = last.tenant, last.position, last.hash

    def holds(self, proof: Proof) -> bool:
        """Say whether an event is where it was written, once nobody else writes to its tenant."""
        return bool(self._all("find_event", *proof))

    def _all(self, name: str, *binding: Any) -> list[Row]:
        self._enter(binding)
        if self._filled and name in _OF_SHELVES:
            self._count_filled()
        return self._asking.execute(SQL[name], binding).fetchall()

    def _run(self, name: str, *binding: Any) -> None:
        self._enter(binding)
        self._telling.execute(SQL[name], binding)

    def _count(self, name: str, *binding: Any) -> int:
        self._enter(binding)
        self._asking.execute(SQL[name], binding)
        if self._pipeline is not None:
            self._pipeline.sync()
        if self._asking.description is None:
            return self._asking.rowcount
        (removed,) = self._asking.fetchall()[0]  # by one of our functions, which return how many
        return removed

    def _insert_all(self, name: str, bindings: Sequence[tuple[Any, ...]]) -> list[int]:
        numbers: list[int] = []
        for binding in bindings:
            numbers.append(self._take_number())
            self._run(name, *binding, numbers[-1])
        return numbers

    def _take_number(self) -> int:
        if not self._numbers:
            self._numbers = [number for (number,) in self._asking.execute(SQL["take_numbers"], (self._taken,))]
            self._numbers.reverse()
            self._taken = min(2 * self._taken, _MOST_NUMBERS)
        return self._numbers.pop()

    def _place(self, tenant: str, number: Any) -> tuple[Any, ...]:
        return tenant, number

    def _listed(self, numbers: Iterable[int]) -> list[int]:
        return list(numbers)

    def _listed_texts(self, texts: Sequence[str]) -> list[str]:
        return list(texts)

    def _listed_bytes(self, values: Sequence[bytes]) -> list[bytes]:
        return list(values)

    def _erasures_of(self, tenant: str, paths: list[str]) -> list[Row]:
        return self._all("list_erasures", tenant, paths)

    def _move_head(self, tenant: str, before: int, last: Event) -> bool:
        # Where it ends is known since the lock was taken, and nobody else can have moved it.
        position, _ = self.head(tenant) or (0, "")
        if position != before:
            return False
        self._run("move_head", tenant, last.position, last.hash)
        return True

    def _fill_shelf(self, place: Place, sequences: Sequence[int]) -> None:
        # Not at once: a row that is changed again and again leaves as many versions, and each is looked at each time.
        _, first, counted = self._filled.get(place, (0, sequences[0], 0))
        self._filled[place] = sequences[-1], first, counted + len(sequences)

    def _add_vectors(
        self, tenant: str, slot: int, expiry: int | None, added: Iterable[tuple[int, NewEntry]], number: int
    ) -> None:
        for sequence, entry in added:
            self._run("add_vector", tenant, sequence, slot, entry.vectors[number])

    def _count_filled(self) -> None:
        for place, counted in self._filled.items():
            self._run("fill_shelf", *place, *counted)
        self._filled.clear()

    def _enter(self, binding: Sequence[Any]) -> None:
        """Refuse the tenant that a statement is about, or take its lock, where this writes and has not got it yet."""
        if binding:
            tenant = binding[0]
            self.rights.check(self.connection, tenant)
            if self._locked is not None and tenant not in self._locked:
                self._lock(tenant)

    def _lock(self, tenant: str) -> None:
        found = self._asking.execute(SQL["lock_tenant"], (tenant,)).fetchone()
        if found is None:
            self._telling.execute(SQL["add_tenant"], (tenant,))
            found = self._asking.execute(SQL["lock_tenant"], (tenant,)).fetchone()
            assert found is not None, "the row was added, or is another's"
        revision, epoch, length, head, version = found
        check_version(version, self._url)
        if self._locked is not None:
            self._locked.add(tenant)
        self._numbers.clear()  # others may have given higher ones to this tenant since they were taken
        self._tenants[tenant] = (TenantState(revision, epoch), length, head)
