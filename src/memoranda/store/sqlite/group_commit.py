"""Group commit: the writes of many threads share one transaction, and so one sync of the disk.

Syncing the disk is what a write costs, and one sync can serve many writers. A caller queues a ticket. If no other
thread leads, it does: it runs everything in the queue, each work in a savepoint, commits once and settles the tickets;
then it makes one of the threads that queued meanwhile the next leader. All others sleep until their ticket is settled,
and are woken once. A lone writer leads a batch of one, at once; `BatchWait` decides when a leader waits for others.

Two invariants. A ticket is settled without an error only after COMMIT has returned. And an interrupt may strike the
calling thread between any two instructions: `_recover` repairs whatever it left half done before `run` raises it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sized
from contextlib import suppress
from copy import copy
from threading import Lock, RLock, get_ident
from time import monotonic, perf_counter
from typing import Any, TypeVar

import apsw

from memoranda.errors import StorageError, Unavailable
from memoranda.store.sql.errors import reentrant_call, use_after_close, use_after_fork, would_wait
from memoranda.store.sqlite.connection import (
    IN_MEMORY,
    Connection,
    Settings,
    SqliteRows,
    check_version,
    close,
    leak,
    migrate,
    open_writer,
)
from memoranda.store.sqlite.errors import translate

T = TypeVar("T")

LARGEST_BATCH = 256
"""Works in one commit: enough to share a sync, few enough to not delay the first of them."""

SLOW_COMMIT = 0.001
"""Seconds. If commits take longer, work that must not wait is refused."""

SHORTEST_COMMIT = 50e-6
"""Seconds. A shorter commit is not worth sharing, and timers are not much finer."""

MOST_SKIPS = 64
"""How many chances to wait are skipped, at most, before waiting is tried again."""


class _Ticket:
    """One caller's work and its outcome."""

    settled = False
    leads = False
    refused = False  # it must not wait, and would have to
    given_up = False  # its caller was interrupted and no longer sleeps on it
    result: Any = None
    error: BaseException | None = None

    def __init__(self, work: Callable[[SqliteRows], Any], *, at_once: bool) -> None:
        self.work = work
        self.at_once = at_once
        self.called = Lock()  # its caller sleeps on it until the ticket is settled or leads
        self.called.acquire()


class _Batch:
    """The tickets that one leader runs in one transaction, and its progress."""

    committing = False  # from just before COMMIT
    undone = False
    is_committed = False
    seconds = 0.0  # the time of the commit

    def __init__(self, own: _Ticket) -> None:
        self.own = own
        self.tickets: list[_Ticket] = []


class BatchWait:
    """How long the leader waits for more writers before it commits. All methods but `wait` need the queue's lock.

    Threads that write repeatedly come back a moment after a commit has released them, and one commit for all of them
    is cheaper than two for half of them each. Three rules keep waiting from costing more than it saves: a lone writer
    never waits; waiting ends when no writer came for half the time of a commit; and if some did not come, the next
    chances to wait are skipped, twice as many as the last time, and half as many again whenever all did come.
    """

    def __init__(self) -> None:
        """Expect no writers."""
        self._regulars = 0  # the writers around the last commit: in it, or queued meanwhile
        self._last_seconds = 0.0
        self._patience = 0.0
        self._expected = 0  # the number of writers that ends the wait; 0 while no leader waits
        self._skips = 0
        self._penalty = 1
        self._complete = Lock()  # the leader sleeps on it; released once all expected writers have come
        self._complete.acquire()

    @property
    def commit_seconds(self) -> float:
        """The time of a commit: the shorter of the last two, 0 before there were any."""
        return 2 * self._patience

    def note_commit(self, *, together: int, meanwhile: int, seconds: float) -> None:
        """Learn from a commit: its number of works, how many were queued meanwhile, and how long it took."""
        self._regulars = together + meanwhile
        # The shorter of two: a commit that checkpoints the log takes many times longer.
        self._patience = min(seconds, self._last_seconds) / 2
        self._last_seconds = seconds

    def should_wait(self, present: int) -> bool:
        """Say whether to wait for more writers than are queued, and expect them if so."""
        if present >= self._regulars or self._patience < SHORTEST_COMMIT / 2:
            return False
        if self._skips:
            self._skips -= 1
            return False
        self._expected = self._regulars
        return True

    def arrive(self, present: int) -> None:
        """Note a new writer; the last one that is expected ends the wait."""
        if present == self._expected and self._complete.locked():
            self._complete.release()

    def wait(self, queue: Sized) -> None:
        """Sleep until all expected writers are in the queue, or no more are coming."""
        before = len(queue)
        while not self._complete.acquire(timeout=self._patience) and len(queue) > before:
            before = len(queue)

    def stop_waiting(self, present: int) -> None:
        """Learn from a wait that has ended."""
        if present >= self._expected:
            self._penalty = max(self._penalty // 2, 1)
        else:
            self._penalty = self._skips = min(2 * self._penalty, MOST_SKIPS)
        self._expected = 0
        self._complete.acquire(blocking=False)


class GroupCommit:
    """The only writer of a database in this process."""

    def __init__(self, settings: Settings, url: str) -> None:
        """Open the writing connection, and migrate the file to the current schema."""
        self.commits = 0
        """The number of committed transactions."""
        self._lock = RLock()
        self._settings = settings
        self._url = url
        self._busy_timeout = int(settings.busy_timeout * 1000)
        self._closed = False
        self._ledger_ends: dict[str, int] = {}  # by tenant: no ledger may become shorter
        connection = open_writer(settings)
        migrate(connection, url, patience=settings.busy_timeout)
        self._use(connection)
        self._batch: _Batch | None = None  # the running batch; None once all its tickets are settled
        self._queue: deque[_Ticket] = deque()
        self._done: deque[_Ticket] = deque()  # settled tickets whose callers still sleep
        self._queue_lock = Lock()  # for the queue, the leader and what is settled; held only for moments
        self._leader: _Ticket | None = None
        self._batch_wait = BatchWait()
        # Thread idents: of the leader that runs a batch, and of a reader that uses the connection.
        self._running: int | None = None
        self._holder: int | None = None

    def _use(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        self._rows = SqliteRows(connection, self._url, ledger_ends=self._ledger_ends)
        self._execute = connection.cursor().execute  # one cursor for all statements
        self._data_version: int | None = None

    def run(self, work: Callable[[SqliteRows], T], *, at_once: bool = False) -> T:
        """Run work in a transaction, perhaps with the work of others, and return its result once it is durable.

        With `at_once` it runs alone, and raises `Busy` if it had to wait for another writer or a slow disk.
        """
        self._refuse_nesting()
        ticket = _Ticket(work, at_once=at_once)
        held = self._holder == get_ident()
        try:
            self._queue_up(ticket)
            if not ticket.leads and not ticket.refused:
                self._sleep(ticket)
            while not ticket.settled and not ticket.refused:
                self._lead(ticket)
            if self._leader is ticket:  # no other thread changes this any more
                self._hand_over(ticket)
        except BaseException:
            self._recover(ticket, held=held)
            raise
        if ticket.refused:
            raise would_wait(self._url)
        if ticket.error is not None:
            try:
                raise ticket.error
            finally:
                ticket.error = None  # break the cycle: the error refers to frames that refer to the ticket
        return ticket.result

    def run_alone(self, action: Callable[[Connection], T]) -> T:
        """Run an action on the writing connection outside of any transaction, while no thread writes."""
        self._refuse_nesting()
        with self._lock:
            return action(self._open_connection())

    def run_reading(self, action: Callable[[Connection], T]) -> T:
        """Run an action that only reads; called from a work, it reads inside of the work's transaction."""
        with self._lock:
            before = self._holder
            try:
                self._holder = get_ident()
                return action(self._open_connection())
            finally:
                self._holder = before

    def ledger_end(self, tenant: str) -> tuple[bool, tuple[int, str] | None]:
        """Return True and the end of a tenant's ledger, None if it has none; False while a thread writes."""
        held = get_ident() in (self._running, self._holder)
        try:
            if not self._lock.acquire(blocking=False):
                return False, None
            try:
                if self._running is not None:  # called from a work
                    return False, None
                self._open_connection()
                self._check_others()
                return True, self._rows.head(tenant)
            finally:
                self._lock.release()
        except BaseException:
            self._release_lock(held=held)
            raise

    def suspend(self, deadline: float) -> bool:
        """Close the connection and block writers until `resume`; return False if that takes longer than `deadline`.

        It is not possible from inside a work, whose transaction is open.
        """
        if get_ident() in (self._running, self._holder):
            return False
        if not self._lock.acquire(timeout=max(0.0, deadline - monotonic())):
            return False
        connection, self._connection = self._connection, None
        if connection is not None:
            self._rows.note_ledger_ends()
            close(connection, keep_log=True)
        return True

    def resume(self) -> None:
        """Unblock writers after `suspend`; the first of them opens the connection again."""
        self._release_lock(held=get_ident() in (self._running, self._holder))

    def abandon(self) -> None:
        """Never use the connection again, in a forked process: it is the parent's, perhaps inside a transaction."""
        connection, self._connection = self._connection, None
        self._closed = True
        self._execute = self._refuse_forked
        if connection is not None:
            leak(connection)

    def _refuse_forked(self, *statement: Any) -> Any:
        raise use_after_fork(self._url)

    def close(self) -> None:
        """Wait for the running batch, then close the connection. Closing twice is allowed."""
        self._refuse_nesting()
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                # For users who copy the file without its log, which alone is durable.
                with suppress(apsw.Error):
                    connection.wal_checkpoint()
                close(connection)

    def _queue_up(self, ticket: _Ticket) -> None:
        """Queue a ticket; it leads if no other does."""
        with self._queue_lock:
            if ticket.at_once and (self._leader is not None or self._batch_wait.commit_seconds > SLOW_COMMIT):
                ticket.refused = True
                return
            self._queue.append(ticket)
            self._batch_wait.arrive(len(self._queue))
            if self._leader is None:
                self._leader = ticket
            # A thread that reads with the connection must not sleep: the leader is waiting for it.
            ticket.leads = self._leader is ticket or self._holder == get_ident()

    def _sleep(self, ticket: _Ticket) -> None:
        """Wait until the ticket is settled or leads."""
        ticket.called.acquire()
        if ticket.settled:
            self._wake()

    def _hand_over(self, ticket: _Ticket) -> None:
        """Make the next ticket the leader, and wake its caller; each caller is woken once."""
        with self._queue_lock:
            if not ticket.settled:  # refused or interrupted before it began
                with suppress(ValueError):
                    self._queue.remove(ticket)
            following = self._queue[0] if self._queue else None
            if following is None:
                self._wake_one()
            elif not following.leads:
                _call(following)
                following.leads = True
            self._leader = following  # last: an interrupted caller repeats all of this until then

    def _recover(self, ticket: _Ticket, *, held: bool) -> None:
        """Repair what an interrupt of the ticket's caller left half done, without effect on other callers."""
        batch = self._batch
        if batch is not None and batch.own is ticket:
            with self._lock:
                self._abandon_batch(batch)
        self._release_lock(held=held)
        with self._queue_lock:
            ticket.given_up = True
            for line in (self._queue, self._done):
                with suppress(ValueError):
                    line.remove(ticket)  # if it was queued, it has not run and never will
        if self._leader is ticket:
            self._hand_over(ticket)
        with self._queue_lock:
            while self._done:
                self._wake_one()

    def _release_lock(self, *, held: bool) -> None:
        """Release the lock if an interrupt left it to this thread, unless it `held` the lock before the call."""
        if not held:
            with suppress(RuntimeError):  # this thread does not own it
                while True:
                    self._lock.release()

    def _wake(self) -> None:
        """Wake one caller whose ticket is settled; it wakes the next, and so on.

        Unless the next leader waits for them, the first is woken just before the next sync of the disk: while that
        lasts, they return and prepare their next writes. Woken earlier, or all at once, they would compete for the GIL
        with the thread that runs the next batch, and with each other.
        """
        if self._done:  # mostly none sleeps, and taking the lock would cost more than this check
            with self._queue_lock:
                self._wake_one()

    def _wake_one(self) -> None:
        if self._done:
            _call(self._done[0])
            self._done.popleft()

    def _wait_for_others(self, own: _Ticket) -> None:
        """Let the writers of the last batch join the next one, if that has paid before."""
        with self._queue_lock:
            # A thread that reads with the connection must not wait: the leader is waiting for it.
            if self._leader is not own or own.at_once or not self._batch_wait.should_wait(len(self._queue)):
                return
            self._wake_one()
        try:
            self._batch_wait.wait(self._queue)
        finally:
            with self._queue_lock:
                self._batch_wait.stop_waiting(len(self._queue))

    def _lead(self, own: _Ticket) -> None:
        """Take the connection, and run and commit what is queued."""
        self._wait_for_others(own)
        if not self._lock.acquire(blocking=not own.at_once):
            own.refused = True
            return
        try:
            self._run_batch(own)
        finally:
            self._lock.release()

    def _run_batch(self, own: _Ticket) -> None:
        """Run and commit what is queued; settle every ticket of it."""
        if self._batch is not None:  # its leader was interrupted twice, and has not recovered yet
            self._abandon_batch(self._batch)
        batch = self._batch = _Batch(own)
        try:
            self._running = get_ident()
            self._collect(batch.tickets, 1 if own.at_once else LARGEST_BATCH)
            self._run_works(batch)
            self._settle(batch)
        except (apsw.Error, StorageError) as error:
            batch.undone = True  # first: an interrupt must not take what SQLite has rolled back for committed
            self._undo()
            for ticket in batch.tickets:
                ticket.error = self._error_for(error)
            self._settle(batch)
        except BaseException:
            # An interrupt, which strikes the leader anywhere and is not the failure of a work.
            self._abandon_batch(batch)
            raise

    def _collect(self, tickets: list[_Ticket], most: int) -> None:
        """Move tickets from the queue to the batch; each is in both for a moment, so that none can be lost."""
        with self._queue_lock:
            while self._queue and len(tickets) < most:
                tickets.append(self._queue[0])
                self._queue.popleft()

    def _run_works(self, batch: _Batch) -> None:
        """Run all works of a batch in one transaction, and commit it."""
        connection = self._open_connection()
        self._begin(connection, at_once=batch.own.at_once)
        self._check_others()
        for ticket in batch.tickets:
            self._run_one(connection, ticket, alone=len(batch.tickets) == 1)
        self._wake()
        if connection.in_transaction:
            start = perf_counter()
            batch.committing = True
            self._execute("COMMIT")
            batch.seconds = perf_counter() - start
            self.commits += 1
        batch.is_committed = True

    def _abandon_batch(self, batch: _Batch) -> None:
        """End a batch whose leader was interrupted; safe to do twice.

        Before the commit, only the leader's own caller gives up, and the works of the others run again.
        """
        if self._connection is not None:
            if batch.own.at_once:
                self._connection.set_busy_timeout(self._busy_timeout)
            if self._connection.in_transaction:
                batch.undone = True
                self._undo()
            elif batch.committing and not batch.undone:
                batch.is_committed = True
        if not batch.is_committed:
            with self._queue_lock:
                others = [one for one in batch.tickets if one is not batch.own and not one.given_up and not one.settled]
                self._queue.extendleft(one for one in reversed(others) if one not in self._queue)
                batch.tickets = [batch.own]
        self._settle(batch)

    def _settle(self, batch: _Batch) -> None:
        """Give every ticket of a batch its result or its error; safe to do twice."""
        self._running = None
        if not batch.is_committed:
            self._rows.reset()
        with self._queue_lock:
            self._batch_wait.note_commit(together=len(batch.tickets), meanwhile=len(self._queue), seconds=batch.seconds)
            for ticket in batch.tickets:
                if not batch.is_committed and ticket.error is None:
                    ticket.error = self._interrupt_error()
                if not ticket.leads and not ticket.given_up and not ticket.settled:
                    self._done.append(ticket)
                ticket.settled = True
        self._batch = None

    def _begin(self, connection: Connection, *, at_once: bool) -> None:
        """Begin a write transaction, once no other process writes."""
        if not at_once:
            self._execute("BEGIN IMMEDIATE")
            return
        connection.set_busy_timeout(0)
        try:
            self._execute("BEGIN IMMEDIATE")
        finally:
            connection.set_busy_timeout(self._busy_timeout)

    def _run_one(self, connection: Connection, ticket: _Ticket, *, alone: bool) -> None:
        """Run one work in a savepoint, or in the transaction itself if it is alone; keep its result or error."""
        if not alone:
            self._execute("SAVEPOINT work")
        ticket.error = None  # of an earlier run, in a batch that was interrupted
        try:
            ticket.result = ticket.work(self._rows)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, apsw.Error) and not connection.in_transaction:
                raise  # SQLite rolled back the whole transaction, with the works of the others
            self._execute("ROLLBACK" if alone else "ROLLBACK TO work")
            self._rows.reset()
            ticket.error = self._error_for(error) if isinstance(error, apsw.Error) else error
        finally:
            self._rows.end_work()
        if not alone:
            self._execute("RELEASE work")

    def _check_others(self) -> None:
        """Clear the caches if another connection has committed since the last check.

        SQLite counts such commits. Without one, nothing that this writer has read can have changed, and the file cannot
        have been migrated. A database in memory has no other connection.
        """
        if self._url == IN_MEMORY:
            return
        data_version = self._execute("PRAGMA data_version").get
        if data_version != self._data_version:
            self._rows.note_ledger_ends()
            self._rows.reset()
            check_version(self._execute("PRAGMA user_version").get, self._url)
            self._data_version = data_version

    def _undo(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            # If this fails too, SQLite has ended the transaction itself; the first error is the one to report.
            with suppress(apsw.Error):
                self._connection.execute("ROLLBACK")

    def _error_for(self, error: apsw.Error | StorageError) -> StorageError:
        """Return an error for one caller: raising one object in many threads would mix their tracebacks."""
        fresh = translate(error, self._url) if isinstance(error, apsw.Error) else copy(error)
        fresh.__cause__ = error
        return fresh

    def _interrupt_error(self) -> StorageError:
        return Unavailable(
            f"`{self._url}`: the write was interrupted", hint="Try again; nothing was kept", url=self._url
        )

    def _open_connection(self) -> Connection:
        if self._connection is None:
            if self._closed:
                raise use_after_close(self._url)
            self._use(open_writer(self._settings, create=False))
        assert self._connection is not None
        return self._connection

    def _refuse_nesting(self) -> None:
        if self._running == get_ident():
            raise reentrant_call()


def _call(ticket: _Ticket) -> None:
    """Wake the caller of a ticket, if it sleeps."""
    with suppress(RuntimeError):
        ticket.called.release()
