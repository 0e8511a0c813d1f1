"""The PostgreSQL store: many readers and writers at once, in many processes on many machines."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

import psycopg

from memoranda.errors import Unavailable
from memoranda.model.scope import Scope
from memoranda.store.base import Reader, Transaction, Widen
from memoranda.store.postgres.connection import Durability, Pool, PostgresRows, Proof, Settings, migrate, read_address
from memoranda.store.postgres.dialect import SQL
from memoranda.store.postgres.errors import code_of, commit_failure, is_full_or_starting, is_temporary, translate
from memoranda.store.postgres.ledger import Positions, Sequencer
from memoranda.store.sql.errors import reentrant_call, use_after_fork, would_wait

T = TypeVar("T")


class PostgresStore:
    """A store in a PostgreSQL database, in a schema of its own that is called `memoranda`."""

    waits = True

    def __init__(self, url: str, *, durability: Durability = "full", busy_timeout: float = 5.0) -> None:
        """Connect to the database, creating the tables if there are none and migrating them if they are old.

        With `durability="normal"`, a crash of the server may lose the last commits; one of this process never does.
        `busy_timeout` is how many seconds a call waits for other writers, and for a server that is down, before it
        raises an error.
        """
        self._settings = read_address(url, durability=durability, busy_timeout=busy_timeout)
        self.url = self._settings.url
        self._pid = os.getpid()
        self._manner = _lock_timeout(self._settings), "off" if durability == "normal" else "on"
        self._own = threading.local()
        self._pool = Pool(self._settings)
        # Connections for the ledger alone: a writer that has one of the others must not wait for one more of them.
        self._side = Pool(self._settings)
        self._positions = Positions(self._side)
        self._sequencer = Sequencer(self._side, self.url, busy_timeout, self._retry)
        try:
            # An address without an answer is most likely wrong, so it is not retried.
            self._retry(self._prepare, again=is_full_or_starting)
        except BaseException:
            self._pool.close()
            raise

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
        return self._retry(lambda: self._read(work)) if snapshot else self._query(work)

    def settle(self, tenant: str) -> None:
        """Return once every event of a tenant that was committed before is chained."""
        self._sequencer.settle(tenant)

    def mark(self, tenant: str | None = None) -> Hashable:
        """Return a mark that changes whenever any process writes anything."""
        return self._query(lambda rows: rows.connection.execute(SQL["get_mark"]).fetchone())

    def check(self) -> Sequence[str]:
        """Return the damage that the server knows of, in words."""
        return self._retry(lambda: self._lines(SQL["list_damage"]))

    def warnings(self) -> Sequence[str]:
        """Name the roles that can lock tables without owning them."""
        return self._retry(lambda: self._lines(SQL["list_lock_rights"]))

    def holds_bytes(self, needle: bytes) -> bool | None:
        """Return None: the files belong to the server."""
        return None

    def scrub(self) -> bool:
        """Rewrite the tables; return False if others are using them, or if the role does not own them."""
        self._refuse_nesting()
        self._check_process()

        def rewrite() -> bool:
            with self._pool.rows() as rows:
                return _rewrite(rows, self._settings)

        return self._retry(rewrite, again=is_full_or_starting)

    def close(self) -> None:
        """Close all connections; in a forked child, which has none, do nothing."""
        if os.getpid() == self._pid:
            self._refuse_nesting()
            self._sequencer.close()
            self._pool.close()
            self._side.close()

    def __enter__(self) -> PostgresStore:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    def _prepare(self) -> None:
        with self._pool.rows() as rows:
            migrate(rows.connection, self.url, self._manner)
            rows.rights.check(rows.connection)

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
                if not (done and isinstance(error, psycopg.Error) and rows.connection.closed):
                    self._sequencer.abandon(taken)
                    raise
                lost = error
            else:
                if answer.statusmessage != "COMMIT":  # the work continued after a statement had failed
                    self._sequencer.abandon(rows.taken)
                    _undo(rows)
                    raise commit_failure(self.url)
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

    def _read(self, work: Callable[[Reader], T]) -> T:
        with self._pool.rows() as rows:
            try:
                with rows.connection.pipeline() as pipeline:
                    rows.begin_reading(pipeline)
                    return work(rows)
            finally:
                _undo(rows)

    def _is_committed(self, proof: Proof | None, lost: psycopg.Error) -> bool:
        """Say whether a transaction whose COMMIT was not answered was committed, once the server has ended it."""
        if proof is None:
            raise self._unknown_outcome() from lost

        def find() -> bool:
            with self._pool.rows() as rows:
                try:
                    with rows.connection.pipeline() as pipeline:
                        rows.begin_writing(pipeline, *self._manner)
                        return rows.holds(proof)
                finally:
                    _undo(rows)

        try:
            return self._retry(find)
        except Unavailable as error:
            raise self._unknown_outcome() from error

    def _query(self, work: Callable[[PostgresRows], T]) -> T:
        """Run work without a transaction."""

        def run() -> T:
            with self._pool.rows() as rows:
                return work(rows)

        return self._retry(run)

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
        while True:
            try:
                return action()
            except psycopg.Error as error:
                if not again(error) or time.monotonic() + pause > deadline:
                    raise translate(error, self.url) from error
                # A deadlock or a server without free connections says nothing about the other connections.
                if not code_of(error).startswith(("23", "40", "53")):
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


def _lock_timeout(settings: Settings) -> str:
    """Return the milliseconds to wait for a lock, at least one: 0 would mean forever."""
    return str(max(1, int(settings.busy_timeout * 1000)))


def _undo(rows: PostgresRows) -> None:
    """Roll back an open transaction. If that fails, the connection is lost and the server rolls back itself."""
    with suppress(psycopg.Error):
        rows.connection.execute(b"ROLLBACK")


def _rewrite(rows: PostgresRows, settings: Settings) -> bool:
    connection = rows.connection
    # A table that this role does not own is skipped with only a warning.
    skipped: list[psycopg.errors.Diagnostic] = []
    connection.add_notice_handler(skipped.append)
    connection.execute(f"SET lock_timeout = {_lock_timeout(settings)}; SET client_min_messages = warning".encode())
    try:
        connection.execute(SQL["vacuum"])
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        return False
    finally:
        connection.remove_notice_handler(skipped.append)
        with suppress(psycopg.Error):
            connection.execute(b"RESET lock_timeout; RESET client_min_messages")
    return not skipped
