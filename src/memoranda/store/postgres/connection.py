"""How the statements of `store/sql` run on a connection to PostgreSQL.

Statements are sent in a pipeline: those that only write are not waited for one by one, so a transaction takes as many
round trips as it has questions. An error of one of them is raised with the next answer, at the latest with that of the
commit.

A transaction has a tenant to itself from the first statement about it on: that statement waits for the tenant's lock,
and then sees everything that the previous owners of the lock have written. Work that says which scopes it is within
shares the tenant with others, and has the subjects of these scopes to itself. Other tenants are not blocked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from memoranda.errors import Corrupt, Unavailable
from memoranda.model.entry import Collection, NewEntry, Shelf
from memoranda.model.event import GENESIS, Event, event_body
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import hash_body
from memoranda.store.base import (
    ContentKey,
    EntryQuery,
    PlainRow,
    Portion,
    Progress,
    Reserved,
    TenantState,
    Widen,
    Window,
    subjects_by_tenant,
)
from memoranda.store.postgres.deadline import LONGEST_COMMIT, Connection
from memoranda.store.postgres.dialect import SQL, statements
from memoranda.store.postgres.ledger import (
    chain,
    ensure_found_within,
    ensure_within,
    splice,
    take_positions,
    unpack,
    void_event,
)
from memoranda.store.postgres.migration import check_version
from memoranda.store.sql.entries import EntryRows
from memoranda.store.sql.rows import Row, scopes_under

Proof = tuple[str, int, str]

_MOST_TENANTS = 10_000
"""Tenants whose partition is cached."""
_MOST_NUMBERS = 256
_MOST_AHEAD = 16
"""Scopes whose content keys are asked for with the lock."""
_MOST_UNCHAINED = 4_096
"""Events whose place in the chain a reader works out itself; a sequencer is not so far behind."""
_PORTIONS_SINCE = 8
"""The schema whose programs take what is forgotten out of the indexes of portions."""
_COUNTED = frozenset(
    {"get_shelf_state", "get_namespaces_state", "list_shelf_states", "list_shelves", "list_sizes", "add_shelf"}
)
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
        # The subjects of each tenant that the work is within; None if it has its tenants to itself.
        self._within: Mapping[str, frozenset[str]] | None = None
        self._scopes: Sequence[Scope] = ()
        self._take_apart: Callable[[str, int], int] | None = None
        self._synchronous_commit = "on"
        # By tenant: positions of events still to be appended, and all that were taken apart from this transaction.
        self._blocks: dict[str, list[int]] = {}
        self.taken: dict[str, list[int]] = {}
        # By tenant, the position of the event that was appended last.
        self.written: dict[str, int] = {}
        self._moment: datetime | None = None
        # The schema of the oldest programs that may write.
        self._oldest = 0
        # By tenant: the positions of events after the chain, and the hashes that they will have.
        self._later: dict[str, list[int]] = {}
        self._tails: dict[str, dict[int, tuple[str, str]]] = {}
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

    def begin_writing(
        self,
        pipeline: psycopg.Pipeline,
        lock_timeout: str,
        synchronous_commit: str,
        within: Sequence[Scope] | None = None,
        take: Callable[[str, int], int] | None = None,
    ) -> None:
        """Begin a transaction that locks each tenant before the first statement about it.

        With `within` it shares the tenants, has the subjects of these scopes to itself, and gets positions from `take`.
        """
        self._pipeline = pipeline
        self._locked = set()
        self._within = None if within is None else subjects_by_tenant(within)
        self._scopes, self._take_apart, self._synchronous_commit = within or (), take, synchronous_commit
        self.proof = None
        self.changes_rows = False
        self._command.execute(_BEGIN_WRITING)
        self._command.execute(SQL["set_manner"], (lock_timeout, synchronous_commit))
        if self.statement_timeout is not None:
            self._command.execute(self.statement_timeout)

    def commit(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """Send the COMMIT; its answer is there when the pipeline has ended."""
        self._flush_counts()
        self._fill_reserved()
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
        self._pipeline = self._locked = self._within = self._take_apart = self._moment = None
        self._reserved.clear()
        self._take = 1
        self._uncounted.clear()
        self._blocks, self.taken, self.written = {}, {}, {}

    def reset(self) -> None:
        """Forget what was read."""
        super().reset()
        self._later.clear()
        self._tails.clear()

    # the ledger

    def reserve(self, tenant: str, count: int, *, together: bool = False) -> Reserved:
        """Take positions for the next events, in this transaction if it has the tenant to itself."""
        self._enter("append_event", (tenant,))
        block = self._blocks.setdefault(tenant, [])
        missing = count - len(block)
        if missing > 0:
            if self._take_apart is None:
                last = take_positions(self._query, tenant, missing, self._synchronous_commit)
            else:
                last = self._take_apart(tenant, missing)
                self.taken.setdefault(tenant, []).extend(range(last - missing + 1, last + 1))
            block.extend(range(last - missing + 1, last + 1))
        if together and count and block[count - 1] - block[0] != count - 1:
            raise Widen("positions without a gap")
        return Reserved(block[:count], "")

    def append_events(self, events: Sequence[tuple[Event, bytes]]) -> None:
        """Append to a tenant's ledger; a sequencer chains them later."""
        last = events[-1][0]
        tenant, block = last.tenant, self._blocks.get(last.tenant, [])
        if [event.position for event, _ in events] != block[: len(events)]:
            raise Corrupt(
                f"`{self._url}`: event {events[0][0].position} of tenant `{tenant}` has no position that was reserved",
                hint="Verify the ledger; the event was not written",
                url=self._url,
                position=events[0][0].position,
            )
        del block[: len(events)]
        self._insert_events(tenant, events)
        self._moment = last.at
        self.written[tenant] = last.position
        self._later.pop(tenant, None)
        self._tails.pop(tenant, None)
        self.proof = tenant, last.position, last.hash

    def _fill_reserved(self) -> None:
        """Fill the positions that were reserved and not used."""
        if self._moment is None:
            return
        for tenant, block in self._blocks.items():
            for position in block:
                body = event_body(void_event(tenant, position, self._moment))
                self._run("append_event", tenant, position, hash_body(body), body, None)

    @property
    def unused(self) -> dict[str, list[int]]:
        """The positions that were reserved and neither used nor filled."""
        return self._blocks if self._moment is None else {}

    def head(self, tenant: str, run: str | None = None) -> tuple[int, str] | None:
        """Return the end of the chain, with the events that follow it and are not chained yet."""
        if run is not None:
            return super().head(tenant, run)
        _, length, head = self._tenant(tenant)
        tail = self._tail(tenant)
        if tail:
            length, (_, head) = next(reversed(tail.items()))
        return (length, head) if length else None

    def progress(self, tenant: str) -> Progress:
        """Return how far the ledger can be followed: to the first event that is missing."""
        _, length, _ = self._tenant(tenant)
        later = self._later.get(tenant)
        if later is None:
            # In a transaction that writes: as it is now, with its own events.
            *_, length, _, later, newest = self._row("get_tenant", tenant) or (0, "", [], 0)
            later = _with_newest(later, newest)
        dense = 0
        while dense < len(later) and later[dense] == length + dense + 1:
            dense += 1
        return Progress(length + dense, tuple(later[dense:]))

    def _tenant(self, tenant: str) -> tuple[TenantState, int, str]:
        if self._locked is not None:
            self._enter("get_tenant", (tenant,))  # the lock returns it
        known = self._tenants.get(tenant)
        if known is None:
            row = self._row("get_tenant", tenant) or (0, 0, 0, 0, "", [], 0)
            revision, epoch, rejected, length, head, later, newest = row
            self._later[tenant] = _with_newest(later, newest)
            known = self._tenants[tenant] = (TenantState(revision, epoch, rejected), length, head)
        return known

    def _tail(self, tenant: str) -> dict[int, tuple[str, str]]:
        """Return the hashes that events will have which are not chained yet: the one before, and their own."""
        known = self._tails.get(tenant)
        if known is None:
            _, length, head = self._tenant(tenant)
            if self._later.get(tenant) == []:
                return {}
            previous = head or GENESIS
            hashes = [previous, *chain(previous, length, self._all("list_unchained", tenant, length, _MOST_UNCHAINED))]
            pairs = itertools.pairwise(hashes)
            known = self._tails[tenant] = dict(enumerate(pairs, length + 1))
        return known

    def _with_chain(self, tenant: str, page: list[Row]) -> list[Row]:
        """Return events with the hashes that chain them; those that are not chained have none."""
        if not page:
            return page
        _, length, _ = self._tenant(tenant)
        pairs = dict(self._stored_pairs(tenant, page[0][0], min(length, page[-1][0])))
        if page[-1][0] > length:
            pairs |= self._tail(tenant)
        return [_chained(row, pairs.get(row[0])) for row in page]

    def _stored_pairs(self, tenant: str, low: int, high: int) -> Iterator[tuple[int, tuple[str, str]]]:
        for first, packed in self._all("list_hashes", tenant, low, high) if low <= high else ():
            hashes = unpack(packed)
            yield from enumerate(itertools.pairwise(hashes), first)

    def holds(self, proof: Proof) -> bool:
        """Say whether the ledger has an event, once the lock of its tenant was taken."""
        return bool(self._all("find_event", *proof))

    # other rows

    def put(self, row: PlainRow) -> None:
        """Keep a row; the first content key of a scope stays."""
        if isinstance(row, ContentKey):
            self._known.pop((ContentKey, row.tenant, row.scope), None)
            self._run("add_content_key", row.tenant, row.scope, row.secret)
        else:
            super().put(row)

    def usage(self, tenant: str, actor: str, window: Window) -> tuple[int, int]:
        """Return what an actor used, whose other writers wait until this transaction ends."""
        if self._within is not None:
            self._enter("get_usage", (tenant,))
            self._command.execute(SQL["lock_subjects"], (tenant, [f"\n{actor}"]))
        return super().usage(tenant, actor, window)

    # the indexes of portions

    def portions(self, shelf: Shelf, *, gone: bool = True) -> list[Portion]:
        """Return the portions of a shelf."""
        tenant = shelf.scope.tenant
        found = [
            Portion(namespace=namespace, first=first, last=last, mark=mark, gone=tuple(ended), embedder=embedder)
            for number, namespace in self._numbers(shelf)
            for first, last, mark, ended, embedder in self._all("list_portions", tenant, number, gone)
        ]
        return sorted(found, key=lambda one: one.first)

    def parts(self, shelf: Shelf, firsts: Sequence[int], names: Sequence[str]) -> list[tuple[int, str, bytes]]:
        """Return some parts of some portions."""
        asked = self._array(firsts), self._array(names)
        return [(first, name, part) for first, name, part in self._on_shelf("list_parts", shelf, *asked)]

    def add_portion(self, shelf: Shelf, portion: Portion, parts: Mapping[str, bytes]) -> bool:
        """Keep the index of a portion, once every program that may write knows of portions."""
        tenant = shelf.scope.tenant
        self._enter("add_portion", (tenant,))
        if self._oldest < _PORTIONS_SINCE:
            return False
        for number, _ in self._numbers(Shelf(shelf.scope, shelf.collection, portion.namespace)):
            place = tenant, number, portion.first
            self._run("add_portion", *place, portion.last, portion.mark, list(portion.gone), portion.embedder)
            self._run("add_parts", *place, list(parts), list(parts.values()))
            return True
        return False

    def note_gone(self, shelf: Shelf, portion: Portion) -> None:
        """Keep the mark of a portion, and which of its entries had ended by then."""
        for number, _ in self._numbers(Shelf(shelf.scope, shelf.collection, portion.namespace)):
            self._run("note_gone", shelf.scope.tenant, number, portion.first, portion.mark, list(portion.gone))

    def remove_portions(self, shelf: Shelf, sequence: int | None = None) -> None:
        """Remove the stored index of the portion that has an entry, or those of all portions of a shelf."""
        low, high = (0, 2**63 - 1) if sequence is None else (sequence, sequence)
        for number, _ in self._numbers(shelf):
            self._run("remove_parts", shelf.scope.tenant, number, low, high)
            self._run("remove_portions", shelf.scope.tenant, number, low, high)

    def remove_entry(self, tenant: str, sequence: int) -> None:
        """Remove an entry, with the stored index of its portion."""
        for entry in self.entries(EntryQuery(tenant=tenant, sequences=[sequence])):
            self.remove_portions(Shelf(entry.scope, entry.collection, entry.namespace), sequence)
        super().remove_entry(tenant, sequence)

    def remove_vectors(self, tenant: str, collection: str, embedder: str) -> int:
        """Remove the vectors that an embedder made of a collection's entries."""
        self._remove_collection_portions(tenant, collection)
        return super().remove_vectors(tenant, collection, embedder)

    def remove(self, kind: type[PlainRow], *key: Any) -> int:
        """Remove a row, a collection with its entries."""
        if kind is Collection:
            self._remove_collection_portions(*key)
        return super().remove(kind, *key)

    def remove_below(self, scope: Scope, *, keep_records: bool = False) -> dict[str, int]:
        """Remove everything at and below a scope."""
        for each in scopes_under(scope.path):
            self._run("erase_parts", scope.tenant, *each)
            self._run("erase_portions", scope.tenant, *each)
        return super().remove_below(scope, keep_records=keep_records)

    def _remove_collection_portions(self, tenant: str, collection: str) -> None:
        self._run("remove_collection_parts", tenant, collection)
        self._run("remove_collection_portions", tenant, collection)

    def _all(self, name: str, *values: Any) -> list[Row]:
        sql = self._enter(name, values)
        if self._uncounted and name in _COUNTED:
            self._flush_counts()
        rows = self._query.execute(sql[name], values).fetchall()
        if self._within is not None:
            ensure_found_within(self._within.get(values[0], frozenset()), name, rows)
        return rows

    def _row(self, name: str, *values: Any) -> Row | None:
        rows = self._all(name, *values)
        return rows[0] if rows else None

    def _value(self, name: str, *values: Any) -> Any:
        rows = self._all(name, *values)
        return rows[0][0] if rows else None

    def _run(self, name: str, *values: Any) -> None:
        sql = self._enter(name, values)
        self.changes_rows |= name not in _OF_EVENTS
        self._command.execute(sql[name], values)

    def _count(self, name: str, *values: Any) -> int:
        sql = self._enter(name, values)
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

    def _insert_vectors(
        self,
        tenant: str,
        slot: int,
        sequences: Sequence[int],
        entries: Sequence[NewEntry],
        index: int,
        expires_at: int | None,
    ) -> None:
        for sequence, entry in zip(sequences, entries, strict=True):
            self._run("add_vector", tenant, sequence, slot, entry.vectors[index])

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

    def _enter(self, name: str, values: Sequence[Any]) -> Mapping[str, bytes]:
        """Check the right to see a statement's tenant, and take its lock if this writes and does not have it yet.

        Return the statements that name its partition.
        """
        if not values:
            if self._within is not None:
                raise Widen(name)
            return SQL
        tenant = values[0]
        self.rights.check(self.connection, tenant)
        if self._locked is not None and tenant not in self._locked:
            self._lock(tenant)
        if self._within is not None:
            ensure_within(self._within.get(tenant, frozenset()), name, values)
        return self._partitions.statements(self.connection, tenant)

    def _lock(self, tenant: str) -> None:
        sql = self._partitions.statements(self.connection, tenant)
        subjects = None if self._within is None else sorted(self._within.get(tenant, ()))
        # The second statement sees what was committed before the lock was got.
        self._command.execute(SQL["lock_subjects"], (tenant, subjects))
        # What nearly every work asks for comes in the same round trip.
        paths = [scope.path for scope in self._scopes if scope.tenant == tenant][:_MOST_AHEAD]
        found = self._query.execute(sql["get_locked_tenant"], (tenant, paths)).fetchone()
        if found is None:
            self._command.execute(SQL["add_tenant"], (tenant,))
            found = self._query.execute(sql["get_locked_tenant"], (tenant, paths)).fetchone()
            assert found is not None, "the row was added here or by another transaction"
        revision, epoch, rejected, length, head, programs, known, secrets = found
        for path, secret in zip(known, secrets, strict=True):
            self._cache((ContentKey, tenant, path), ContentKey(tenant, path, secret))
        check_version(programs, self._url)
        self._oldest = programs[0]
        if self._locked is not None:
            self._locked.add(tenant)
        self._reserved.clear()  # others may have used higher ones for this tenant since
        self._tenants[tenant] = (TenantState(revision, epoch, rejected), length, head)


def _with_newest(later: list[int], newest: int) -> list[int]:
    """Return positions with the newest one, which may be beyond those that were listed: it says that more has come."""
    return later if not later or newest == later[-1] else [*later, newest]


def _chained(row: Row, pair: tuple[str, str] | None) -> Row:
    """Return the row of an event with the hashes of its place in the chain."""
    position, digest, body, text = row
    if pair is None:
        # What names the event before it was chained as it was written. What was changed since cannot be chained.
        return row if splice(body, "") is None or hash_body(body) != digest else (position, "", body, text)
    spliced = splice(body, pair[0])
    return row if spliced is None else (position, pair[1], spliced, text)
