"""The store in a PostgreSQL database: many readers and writers at once, in many processes on many machines."""

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
from memoranda.model.collection import Collection
from memoranda.model.entry import Shelf, ShelfState
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.store.base import Reader, Transaction
from memoranda.store.postgres.address import Durability, Settings, read_address
from memoranda.store.postgres.errors import code_of, failed, is_full_or_starting, passes, translate
from memoranda.store.postgres.migrate import migrate
from memoranda.store.postgres.pool import Pool
from memoranda.store.postgres.queries import SQL
from memoranda.store.postgres.rows import Proof, Rows
from memoranda.store.sql.misuse import forked, nested, not_at_once

T = TypeVar("T")


class PostgresStore:
    """A store in a PostgreSQL database, in a schema of its own that is called `memoranda`."""

    waits = True

    def __init__(self, url: str, *, durability: Durability = "full", busy_timeout: float = 5.0) -> None:
        """Reach the database, making the tables where there are none and migrating them where they are old.

        `durability="normal"` may lose the last commits in a crash of the server, never in one of this process.
        `busy_timeout` is how many seconds a call waits for other writers, and for a server that went away to come
        back, before it gives up.
        """
        self._settings = read_address(url, durability=durability, busy_timeout=busy_timeout)
        self.url = self._settings.url
        self._pid = os.getpid()
        self._manner = _lock_timeout(self._settings), "off" if durability == "normal" else "on"
        self._own = threading.local()
        self._pool = Pool(self._settings)
        try:
            # An address where nobody answers is most likely wrong, so nothing is waited for there.
            self._persistently(self._prepare, again=is_full_or_starting)
        except BaseException:
            self._pool.close()
            raise

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run work in one transaction and return once it is durable.

        Work runs again, on another connection, where the server lost the first one or chose it to end a deadlock.
        """
        self._refuse_nesting()
        self._own.writes = True
        try:
            return self._persistently(lambda: self._write(work))
        finally:
            self._own.writes = False

    def attempt(self, work: Callable[[Transaction], T]) -> T:
        """Refuse: whatever is written here is waited for."""
        raise not_at_once(self.url)

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run work on one consistent moment; again from its beginning where the connection was lost."""
        return self._persistently(lambda: self._read(work))

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact at this key, expired or not."""
        return self._glance(lambda rows: rows.fact(scope, key))

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return what tells this state of a shelf from any other."""
        return self._glance(lambda rows: rows.shelf_state(shelf))

    def collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection."""
        return self._glance(lambda rows: rows.find_collection(tenant, name))

    def mark(self, tenant: str | None = None) -> Hashable:
        """Return a mark that is another one once anybody, in any process, has written anything."""
        return self._glance(lambda rows: rows.connection.execute(SQL["get_mark"]).fetchone())

    def check(self) -> Sequence[str]:
        """Ask the server for damage that it knows of; return it in words."""
        return self._persistently(lambda: self._lines(SQL["list_damage"]))

    def warnings(self) -> Sequence[str]:
        """Name the roles that can lock tables which are not theirs."""
        return self._persistently(lambda: self._lines(SQL["list_lock_rights"]))

    def scrub(self) -> bool:
        """Rewrite the tables; say False when others use them just now, or when that is not ours to do."""
        self._refuse_nesting()
        self._check_process()

        def rewrite() -> bool:
            with self._pool.rows() as rows:
                return _rewrite(rows, self._settings)

        return self._persistently(rewrite, again=is_full_or_starting)

    def close(self) -> None:
        """Close every connection. In a forked child there is nothing to close: the parent's store stays whole."""
        if os.getpid() == self._pid:
            self._refuse_nesting()
            self._pool.close()

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

    def _write(self, work: Callable[[Transaction], T]) -> T:
        with self._pool.rows() as rows:
            done: list[T] = []  # what the work gave, once the commit was asked for
            try:
                with rows.connection.pipeline() as pipeline:
                    rows.begin_writing(pipeline, *self._manner)
                    done.append(work(rows))
                    answer = rows.commit()
            except BaseException as error:
                proof = rows.proof
                _undo(rows)
                if not (done and isinstance(error, psycopg.Error) and rows.connection.closed):
                    raise
                lost = error
            else:
                if answer.statusmessage != "COMMIT":  # the work went on after a statement had failed
                    _undo(rows)
                    raise failed(self.url)
                return done[0]
        # The answer was lost, not necessarily the write: what became of it is looked up, not guessed.
        self._pool.distrust()
        if self._was_kept(proof, lost):
            return done[0]
        raise lost

    def _read(self, work: Callable[[Reader], T]) -> T:
        with self._pool.rows() as rows:
            try:
                with rows.connection.pipeline() as pipeline:
                    rows.begin_reading(pipeline)
                    return work(rows)
            finally:
                _undo(rows)

    def _was_kept(self, proof: Proof | None, lost: psycopg.Error) -> bool:
        """Say whether a transaction was kept whose commit was not answered, once it is over on the server too."""
        if proof is None:
            raise self._unknown() from lost

        def find() -> bool:
            with self._pool.rows() as rows:
                try:
                    with rows.connection.pipeline() as pipeline:
                        rows.begin_writing(pipeline, *self._manner)
                        return rows.holds(proof)
                finally:
                    _undo(rows)

        try:
            return self._persistently(find)
        except Unavailable as error:
            raise self._unknown() from error

    def _glance(self, ask: Callable[[Rows], T]) -> T:
        """Ask one thing; a single statement is a moment of its own."""

        def look() -> T:
            with self._pool.rows() as rows:
                return ask(rows)

        return self._persistently(look)

    def _unknown(self) -> Unavailable:
        return Unavailable(
            f"`{self.url}`: the connection was lost while a write was being kept: it may or may not be there",
            hint="Look before you write it again, or write it with an idempotency key",
            url=self.url,
        )

    def _lines(self, statement: bytes) -> list[str]:
        with self._pool.rows() as rows:
            return [line for (line,) in rows.connection.execute(statement).fetchall()]

    def _persistently(self, action: Callable[[], T], *, again: Callable[[psycopg.Error], bool] = passes) -> T:
        """Do what may fail for a moment, again and again for as long as a caller is ready to wait."""
        self._check_process()
        deadline = time.monotonic() + self._settings.busy_timeout
        pause = 0.01
        while True:
            try:
                return action()
            except psycopg.Error as error:
                if not again(error) or time.monotonic() + pause > deadline:
                    raise translate(error, self.url) from error
                # Neither a deadlock nor a server without a free slot says anything about other connections.
                if not code_of(error).startswith(("40", "53")):
                    self._pool.distrust()
            time.sleep(pause)
            pause = min(2 * pause, 0.25)

    def _refuse_nesting(self) -> None:
        # A second transaction of the same thread would wait for the lock that the first one holds.
        if getattr(self._own, "writes", False):
            raise nested()

    def _check_process(self) -> None:
        # Two processes that talk on one connection understand neither the server nor each other.
        if os.getpid() != self._pid:
            raise forked(self.url)


def _lock_timeout(settings: Settings) -> str:
    """Return the milliseconds to wait for a lock. 0 would mean to wait for ever, so the least is one."""
    return str(max(1, int(settings.busy_timeout * 1000)))


def _undo(rows: Rows) -> None:
    """Roll back what is open. If even that fails the connection is gone, and the server rolls back by itself."""
    with suppress(psycopg.Error):
        rows.connection.execute(b"ROLLBACK")


def _rewrite(rows: Rows, settings: Settings) -> bool:
    connection = rows.connection
    # A table that is not this role's to rewrite is passed over, and all that is heard of it is a warning.
    passed_over: list[psycopg.errors.Diagnostic] = []
    connection.add_notice_handler(passed_over.append)
    connection.execute(f"SET lock_timeout = {_lock_timeout(settings)}; SET client_min_messages = warning".encode())
    try:
        connection.execute(SQL["vacuum"])
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        return False
    finally:
        connection.remove_notice_handler(passed_over.append)
        with suppress(psycopg.Error):
            connection.execute(b"RESET lock_timeout; RESET client_min_messages")
    return not passed_over
