"""The PostgreSQL store: many readers and writers at once, in many processes on many machines."""

from __future__ import annotations

import copy
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

import psycopg

from memoranda.errors import Busy, Unavailable
from memoranda.model.probes import Remains
from memoranda.model.scope import Scope
from memoranda.store.base import Reader, Transaction, Widen
from memoranda.store.postgres.connection import PostgresRows, Proof
from memoranda.store.postgres.deadline import LONGEST_REWRITE, Silent, lock_timeout
from memoranda.store.postgres.dialect import SQL
from memoranda.store.postgres.errors import (
    Behind,
    NoPrimary,
    code_of,
    commit_failure,
    is_temporary,
    is_worth_waiting_for,
    translate,
)
from memoranda.store.postgres.ledger import Positions, Sequencer
from memoranda.store.postgres.migration import Manner, finish, is_current, migrate
from memoranda.store.postgres.pool import Durability, Pool, ReadFrom, is_in_recovery, read_address
from memoranda.store.postgres.removal import reclaim, rewrite
from memoranda.store.sql.errors import reentrant_call, use_after_fork, would_wait

T = TypeVar("T")
_MOST_TRANSACTIONS = 10_000
"""Of how many of its latest commits a process knows which they were."""
_CATCHING_UP = 0.02
"""Seconds that a standby is given to replay what a read must see, before the primary is asked instead."""


class LogPositions:
    """What reads must see, as positions in the write-ahead log, and which server answered last."""

    def __init__(self) -> None:
        """Nothing was written or read yet."""
        self.changed = 0
        """The last change of a row that this process made: no read goes back behind it."""
        self.known = 0
        """The last thing that it wrote, or saw by a mark: reads go back behind it only while no primary answers."""
        # The transactions among these changes, with the positions at which a standby shows them at the latest.
        self._transactions: deque[tuple[int, str | None]] = deque(maxlen=_MOST_TRANSACTIONS)
        self.turns = 0
        """How often another server answered than the time before.

        It is part of a mark, so that rows of one server are never cached under the mark of another.
        """
        self._answering: Pool | None = None
        self._lock = threading.Lock()

    def add(self, position: int) -> None:
        """Note a position that this process knows of."""
        with self._lock:
            self.known = max(self.known, position)

    def add_change(self, position: int, transaction: str | None) -> None:
        """Note a commit of this process that changed rows."""
        with self._lock:
            self.known = max(self.known, position)
            self.changed = max(self.changed, position)
            self._transactions.append((position, transaction))

    def changes_after(self, position: int) -> list[str] | None:
        """Return the transactions that a standby at a position may not show yet; None if they are not all known."""
        with self._lock:
            later = [one for at, one in self._transactions if at > position]
        if len(later) == _MOST_TRANSACTIONS or None in later:
            return None
        return [one for one in later if one is not None]

    def turn(self, pool: Pool) -> None:
        """Note who answered."""
        with self._lock:
            if pool is not self._answering:
                self._answering = pool
                self.turns += 1


class PostgresStore:
    """A store in a PostgreSQL database, in a schema of its own that is called `memoranda`."""

    waits = True
    keeps_portions = True

    def __init__(
        self,
        url: str,
        *,
        durability: Durability = "full",
        busy_timeout: float = 5.0,
        pool: int = 16,
        statement_timeout: float | None = None,
        read_from: ReadFrom = "primary",
    ) -> None:
        """Connect to the database, creating the tables if there are none and migrating them if they are old.

        With `durability="normal"`, a crash of the server may lose the last commits; one of this process never does.
        `busy_timeout` is how many seconds a call waits for other writers, and for a server that is down, before it
        raises an error. `pool` is the maximum number of connections, `statement_timeout` how many seconds the server
        may work on one statement. `read_from` is about `reading`.
        """
        self._settings = read_address(
            url,
            durability=durability,
            busy_timeout=busy_timeout,
            pool=pool,
            statement_timeout=statement_timeout,
            read_from=read_from,
        )
        self.url = self._settings.url
        self._pid = os.getpid()
        self._manner = lock_timeout(busy_timeout), "off" if durability == "normal" else "on"
        self._own = threading.local()
        self._pool = Pool(self._settings)
        self._standby = Pool(self._settings, beside=self._pool) if self._settings.has_standbys else None
        self._log = LogPositions()
        self._roams = False
        # Connections for the ledger alone: a writer that has one of the others must not wait for one more of them.
        self._side = Pool(self._settings)
        self._positions = Positions(self._side, busy_timeout)
        self._sequencer = Sequencer(self._side, self.url, busy_timeout, self._retry)
        try:
            # An address without an answer is most likely wrong, so it is not retried.
            self._retry(self._prepare, again=is_worth_waiting_for)
        except BaseException:
            self._close_pools()
            raise

    @property
    def reading(self) -> PostgresStore:
        """The same store for what only reads, and depends on no more than what this process wrote.

        Its `read` and `mark` are answered by a standby, with `read_from="standby"` as long as one has caught up, and
        otherwise while no primary answers. Everything else is done by the primary.
        """
        if self._standby is None:
            return self
        view = copy.copy(self)
        view._roams = True
        return view

    def transact(
        self, work: Callable[[Transaction], T], *, wait: bool = True, within: Sequence[Scope] | None = None
    ) -> T:
        """Run work in one transaction and return once it is durable.

        Work runs again, on another connection, if the first one was lost or the server chose it to end a deadlock; and
        if it goes beyond the scopes that it is said to be within.
        """
        if not wait:
            raise would_wait(self.url)  # every write waits for the server
        self._refuse_nesting()
        self._own.writes = True
        try:
            if within is not None:
                with suppress(Widen):
                    return self._retry(lambda: self._write(work, within))
            return self._retry(lambda: self._write(work, None))
        finally:
            self._own.writes = False

    def read(self, work: Callable[[Reader], T], *, snapshot: bool = True) -> T:
        """Run work on one snapshot, or without one; from its start again if the connection was lost."""
        return self._retry(lambda: self._read_anywhere(work, snapshot))

    def settle(self, tenant: str) -> None:
        """Return once every event of a tenant that was committed before is chained."""
        self._sequencer.settle(tenant)

    def mark(self, tenant: str | None = None) -> Hashable:
        """Return a mark that changes whenever any process writes anything."""
        if not self._roams:
            return self._query(lambda rows: rows.connection.execute(SQL["get_mark"]).fetchone())

        def look(rows: PostgresRows) -> tuple[bool, str, str, int]:
            found = rows.connection.execute(SQL["get_mark_and_position"]).fetchone()
            assert found is not None, "it returns one row"
            return found

        is_standby, state, started, position = self._retry(lambda: self._read_anywhere(look, snapshot=False))
        if is_standby:
            self._log.add(position)  # another standby may be less far
        return self._log.turns, started, state

    def staleness(self) -> float:
        """Return how many seconds reads are behind the primary, at most; 0.0 if they are answered by it."""
        return self._retry(self._staleness)

    def check(self) -> Sequence[str]:
        """Return the damage that the server knows of, in words."""
        return self._retry(lambda: self._lines(SQL["list_damage"]))

    def warnings(self) -> Sequence[str]:
        """Name the roles that can lock tables without owning them."""
        return self._retry(lambda: self._lines(SQL["list_lock_rights"]))

    def holds_bytes(self, needle: bytes) -> bool | None:
        """Return None: the files belong to the server."""
        return None

    def notices(self) -> Sequence[str]:
        """Say whether a migration is not finished, and whether the tables are not partitioned."""
        return self._retry(lambda: self._lines(SQL["list_notices"]))

    def reclaim(self, tenant: str) -> Remains:
        """Remove dead rows from the pages of a tenant's partitions; other transactions go on meanwhile."""
        self._refuse_nesting()
        return self._maintain(lambda rows: reclaim(rows.connection, tenant, self._settings.busy_timeout))

    def scrub(self, tenant: str | None = None) -> bool:
        """Rewrite the partitions of a tenant, or all; return False if others use them, or the role may not."""
        self._refuse_nesting()
        return self._maintain(lambda rows: rewrite(rows.connection, tenant))

    def finish_migration(self) -> bool:
        """Run the steps of migrations that no older program may see."""
        self._refuse_nesting()
        return self._query(lambda rows: finish(rows.connection, self._migration_manner()))

    def close(self) -> None:
        """Close all connections; in a forked child, which has none, do nothing."""
        if os.getpid() == self._pid:
            self._refuse_nesting()
            self._sequencer.close()
            self._close_pools()

    def __enter__(self) -> PostgresStore:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    def _close_pools(self) -> None:
        self._pool.close()
        self._side.close()
        if self._standby is not None:
            self._standby.close()

    def _prepare(self) -> None:
        try:
            with self._pool.rows() as rows:
                migrate(rows.connection, self._migration_manner())
                rows.rights.check(rows.connection)
        except NoPrimary:
            # A program that starts during a failover can read already, if there is nothing to migrate.
            if self._standby is None:
                raise
            with self._standby.rows() as rows:
                if not is_current(rows.connection, self.url):
                    raise
                rows.rights.check(rows.connection)

    def _migration_manner(self) -> Manner:
        return Manner(self.url, self._manner[1], self._settings.busy_timeout)

    def _maintain(self, work: Callable[[PostgresRows], T]) -> T:
        """Run statements that run in no transaction, waiting for locks as long as others do."""

        def run() -> T:
            with self._pool.rows() as rows:
                rows.connection.limit = LONGEST_REWRITE
                rows.connection.execute(SQL["set_patience"], (self._manner[0],))
                try:
                    return work(rows)
                finally:
                    with suppress(psycopg.Error):
                        rows.connection.execute(SQL["reset_patience"])

        return self._retry(run, again=is_worth_waiting_for)

    def _write(self, work: Callable[[Transaction], T], within: Sequence[Scope] | None) -> T:
        with self._pool.rows() as rows:
            done: list[T] = []  # the result of the work, once the COMMIT is sent
            take = None if within is None else self._positions.take
            try:
                with rows.connection.pipeline() as pipeline:
                    rows.begin_writing(pipeline, *self._manner, within, take)
                    done.append(work(rows))
                    answer = rows.commit()
            except BaseException as error:
                proof, taken = rows.proof, rows.taken
                _undo(rows)
                if isinstance(error, _REFUSED) and is_in_recovery(rows.connection):
                    host = rows.connection.info.host
                    if self._pool.expects_primary:
                        raise NoPrimary(host) from error
                    raise psycopg.errors.ReadOnlySqlTransaction(f"`{host}` is a standby") from error
                self._note_conflict(rows)
                if not (done and isinstance(error, psycopg.Error) and rows.connection.closed):
                    self._sequencer.abandon(taken)
                    raise
                lost = error
            else:
                if answer.statusmessage != "COMMIT":  # the work continued after a statement had failed
                    self._sequencer.abandon(rows.taken)
                    _undo(rows)
                    raise commit_failure(self.url)
                position, transaction = rows.position_of_commit()
                if rows.changes_rows:
                    self._log.add_change(position, transaction)
                else:
                    self._log.add(position)
                self._sequencer.abandon(rows.unused)
                self._sequencer.follow(rows.written)
                return done[0]
        # The answer was lost, but perhaps not the write: look it up.
        self._pool.distrust()
        if self._is_committed(proof, lost):
            self._sequencer.follow({} if proof is None else {proof[0]: proof[1]})
            return done[0]
        self._sequencer.abandon(taken)
        raise lost

    def _read_anywhere(self, work: Callable[[PostgresRows], T], snapshot: bool) -> T:
        """Read from the server that is to be asked first or, if that is not possible, from the other."""
        if not self._roams or self._standby is None:
            return self._read_from(self._pool, work, snapshot)
        positions = self._log
        if self._settings.read_from == "standby":
            with suppress(*_LOST):
                return self._read_from(
                    self._standby, work, snapshot, lambda rows: _await_position(rows, positions.known)
                )
        try:
            return self._read_from(self._pool, work, snapshot)
        except _LOST as error:
            if not is_temporary(error):
                raise
            lost = error
        try:
            return self._read_from(self._standby, work, snapshot, self._ensure_shows_changes)
        except _LOST:
            raise lost from None  # what the caller has to act on is that there is no primary

    def _read_from(
        self,
        pool: Pool,
        work: Callable[[PostgresRows], T],
        snapshot: bool,
        ensure: Callable[[PostgresRows], None] | None = None,
    ) -> T:
        """Run work on a connection, once its server is ensured to show what the work must see."""
        try:
            with pool.rows() as rows:
                if ensure is not None:
                    ensure(rows)
                if not snapshot:
                    found = work(rows)
                else:
                    try:
                        with rows.connection.pipeline() as pipeline:
                            rows.begin_reading(pipeline)
                            found = work(rows)
                    finally:
                        _undo(rows)
                if self._roams:
                    if pool is self._pool and self._settings.read_from == "standby":
                        self._log.add(_position(rows))  # so that no later read goes back behind this one
                    self._log.turn(pool)
                return found
        except psycopg.Error as error:
            if _says_more(error):
                pool.distrust()
            raise

    def _ensure_shows_changes(self, rows: PostgresRows) -> None:
        """Raise `Behind` if a standby does not show everything that this process changed."""
        connection, changed = rows.connection, self._log.changed
        if connection.shows >= changed:
            return
        connection.replayed = _position(rows)
        # Of a primary that is gone, a standby may lack the end of the log, and have all that matters.
        pending = self._log.changes_after(connection.replayed)
        found = connection.execute(SQL["shows_transactions"], (pending,)).fetchone() if pending is not None else None
        if found != (True,):
            _await_position(rows, changed)
        connection.shows = changed

    def _note_conflict(self, rows: PostgresRows) -> None:
        """Note how far the primary is when it refuses a write, so that the next read shows why."""
        if self._settings.read_from == "standby" and not rows.connection.closed:
            with suppress(psycopg.Error):
                self._log.add(_position(rows))

    def _staleness(self) -> float:
        if self._standby is None or self._settings.read_from == "primary":
            try:
                self._read_from(self._pool, _position, snapshot=False)
                return 0.0
            except _LOST:
                if self._standby is None:
                    raise
        began = time.monotonic()
        try:
            now = self._read_from(self._pool, _position, snapshot=False)
        except _LOST:
            now = None
        try:
            with self._standby.rows() as rows:
                if now is not None:
                    with suppress(Behind):
                        _await_position(rows, now)
                        return time.monotonic() - began
                delay = rows.connection.execute(SQL["get_delay"]).fetchone()
                return float("inf") if delay is None or delay[0] is None else delay[0]
        except _LOST:
            if now is None:
                raise
            return 0.0  # the primary answers reads as long as no standby does

    def _is_committed(self, proof: Proof | None, lost: psycopg.Error) -> bool:
        """Say whether a transaction whose COMMIT was not answered was committed, once the server has ended it."""
        if proof is None:
            raise self._unknown_outcome() from lost

        def find() -> bool:
            with self._pool.rows() as rows:
                try:
                    with rows.connection.pipeline() as pipeline:
                        rows.begin_writing(pipeline, *self._manner)
                        found = rows.holds(proof)
                        if found and self._standby is not None:
                            self._log.add_change(_position(rows), None)
                        return found
                finally:
                    _undo(rows)

        try:
            return self._retry(find)
        except (Unavailable, Busy) as error:  # busy if the server, which lost us, still waits for a standby
            raise self._unknown_outcome() from error

    def _query(self, work: Callable[[PostgresRows], T]) -> T:
        """Run work without a transaction."""
        return self._retry(lambda: self._read_from(self._pool, work, snapshot=False))

    def _unknown_outcome(self) -> Unavailable:
        return Unavailable(
            f"`{self.url}`: the connection was lost during a commit: the write may or may not be there",
            hint="Look before you write it again, or write it with an idempotency key",
            url=self.url,
        )

    def _lines(self, statement: bytes) -> list[str]:
        with self._pool.rows() as rows:
            return [line for (line,) in rows.connection.execute(statement).fetchall()]

    def _retry(self, action: Callable[[], T], *, again: Callable[[psycopg.Error], bool] = is_temporary) -> T:
        """Run an action, and run it again after a temporary error until `busy_timeout` is over."""
        self._check_process()
        deadline = time.monotonic() + self._settings.busy_timeout
        pause = 0.01
        was_silent = False
        while True:
            try:
                return action()
            except psycopg.Error as error:
                # To notice that a server is silent takes longer than some wait: another host is tried once in any case.
                first_silence = isinstance(error, Silent) and not was_silent
                if not again(error) or (time.monotonic() + pause > deadline and not first_silence):
                    raise translate(error, self.url) from error
                was_silent = was_silent or first_silence
                if _says_more(error):
                    self._pool.distrust()
            time.sleep(pause)
            pause = min(2 * pause, 0.25)

    def _refuse_nesting(self) -> None:
        # A second transaction of this thread would wait for the lock that the first one holds.
        if getattr(self._own, "writes", False):
            raise reentrant_call()

    def _check_process(self) -> None:
        # Two processes cannot share a connection.
        if os.getpid() != self._pid:
            raise use_after_fork(self.url)


_LOST = (psycopg.OperationalError, psycopg.InterfaceError)
"""What the driver raises if a server cannot do something now, or not at all."""


_REFUSED = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.FeatureNotSupported)
"""How a standby refuses a transaction that writes."""


def _says_more(error: psycopg.Error) -> bool:
    """Say whether an error means that other connections are lost too: not a deadlock, nor a server without a slot."""
    return is_temporary(error) and not code_of(error).startswith(("23", "40", "53"))


def _position(rows: PostgresRows) -> int:
    """Return how far in the write-ahead log the server of a connection shows everything."""
    found = rows.connection.execute(SQL["get_position"]).fetchone()
    assert found is not None, "it returns one row"
    return found[0]


def _await_position(rows: PostgresRows, least: int) -> None:
    """Return once the server of a connection shows everything up to a position; raise `Behind` if that takes long."""
    connection = rows.connection
    deadline = time.monotonic() + _CATCHING_UP
    while connection.replayed < least:
        connection.replayed = _position(rows)
        if connection.replayed < least:
            if time.monotonic() > deadline:
                raise Behind(f"`{connection.info.host}` has not replayed yet what this process wrote")
            time.sleep(0.001)


def _undo(rows: PostgresRows) -> None:
    """Roll back an open transaction. If that fails, the connection is lost and the server rolls back itself."""
    with suppress(psycopg.Error):
        rows.connection.execute(b"ROLLBACK")
