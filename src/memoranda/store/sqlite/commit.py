"""Group commit: the writes of many threads share one transaction, and so one sync of the disk.

Syncing the disk is what a write costs, and one sync can serve many writers. A caller queues a ticket. If nobody
leads, it does: it runs all that is queued, each work in a savepoint of its own, commits once and settles the
tickets; then it calls one of those who queued meanwhile to lead. Everybody else sleeps until their ticket is
settled, and is woken once. A lone writer leads a batch of one, at once; `company.py` says when others are waited for.

Two invariants. A ticket is settled without an error only after COMMIT has returned. And an interrupt may strike the
calling thread between any two instructions: whatever it left half done, `_recover` puts right before `run` raises it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from threading import Lock, RLock, get_ident
from time import monotonic, perf_counter
from typing import Any, TypeVar

import apsw

from memoranda.errors import StorageError, Unavailable
from memoranda.store.sql.misuse import closed, forked, nested, not_at_once
from memoranda.store.sqlite.company import Company
from memoranda.store.sqlite.connection import IN_MEMORY, Connection, Settings, close, leak, open_writer
from memoranda.store.sqlite.errors import translate
from memoranda.store.sqlite.migrate import check_version, migrate
from memoranda.store.sqlite.rows import Rows

T = TypeVar("T")

LARGEST_BATCH = 256
"""Works in one commit: enough to share a sync well, few enough to keep the first of them from waiting long."""

SOON = 0.001
"""Seconds: a disk that takes longer for a commit is slow, and what is to be done at once is not begun."""


class _Ticket:
    """One caller's work, and how it went."""

    settled = False
    leads = False
    refused = False  # it was to run at once, and something was in the way
    given_up = False  # its caller was interrupted: nobody sleeps on it any more
    result: Any = None
    error: BaseException | None = None

    def __init__(self, work: Callable[[Rows], Any], *, at_once: bool) -> None:
        self.work = work
        self.at_once = at_once
        self.called = Lock()  # its caller sleeps on it until it is settled, or called to lead
        self.called.acquire()


class _Batch:
    """The tickets that one leader runs in one transaction, and how far it has come."""

    committing = False  # from just before COMMIT
    undone = False
    committed = False
    seconds = 0.0  # that the commit took

    def __init__(self, own: _Ticket) -> None:
        self.own = own
        self.tickets: list[_Ticket] = []


class GroupCommit:
    """The one writer: all that changes the database goes through here."""

    def __init__(self, settings: Settings, url: str) -> None:
        """Open the connection that writes, and bring the file to the current schema."""
        self.commits = 0
        """How many transactions were committed."""
        self._lock = RLock()
        self._settings = settings
        self._url = url
        self._busy_timeout = int(settings.busy_timeout * 1000)
        self._closed = False
        self._ledger_ends: dict[str, int] = {}  # by tenant: none of them may ever be shorter
        connection = open_writer(settings)
        migrate(connection, url, patience=settings.busy_timeout)
        self._use(connection)
        self._batch: _Batch | None = None  # what is being run; None once all its tickets are settled
        self._queue: deque[_Ticket] = deque()
        self._done: deque[_Ticket] = deque()  # settled, but their callers still sleep
        self._door = Lock()  # held for moments: who queues, who leads, who is settled
        self._leader: _Ticket | None = None
        self._company = Company()
        # Threads, by ident: who is running a batch, and who only has the connection in hand.
        self._running: int | None = None
        self._holder: int | None = None

    def _use(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        self._rows = Rows(connection, self._url, ledger_ends=self._ledger_ends)
        self._execute = connection.cursor().execute  # a kept cursor spares making one for each statement
        self._data_version: int | None = None

    def run(self, work: Callable[[Rows], T], *, at_once: bool = False) -> T:
        """Run work in a transaction, perhaps together with others', and return its result once that is durable.

        Work that is to be done at once is done alone; where anybody or a slow disk is in the way, it is `Busy`.
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
            if self._leader is ticket:  # which nobody else can make true or false by now
                self._hand_over(ticket)
        except BaseException:
            self._recover(ticket, held=held)
            raise
        if ticket.refused:
            raise not_at_once(self._url)
        if ticket.error is not None:
            try:
                raise ticket.error
            finally:
                ticket.error = None  # an error holds its frames, and they hold the ticket: break the circle
        return ticket.result

    def alone(self, action: Callable[[Connection], T]) -> T:
        """Run an action on the writing connection outside of any transaction, while nobody writes."""
        self._refuse_nesting()
        with self._lock:
            return action(self._open_connection())

    def in_hand(self, action: Callable[[Connection], T]) -> T:
        """Run an action that only reads; inside a work the connection is the work's own, in mid-transaction."""
        with self._lock:
            before = self._holder
            try:
                self._holder = get_ident()
                return action(self._open_connection())
            finally:
                self._holder = before

    def ledger_end(self, tenant: str) -> tuple[bool, tuple[int, str] | None]:
        """Return True and where the ledger of a tenant ends, None where it has none; False while somebody writes."""
        held = get_ident() in (self._running, self._holder)
        try:
            if not self._lock.acquire(blocking=False):
                return False, None
            try:
                if self._running is not None:  # a work asks, in mid-transaction
                    return False, None
                self._open_connection()
                self._notice_others()
                return True, self._rows.head(tenant)
            finally:
                self._lock.release()
        except BaseException:
            self._release_lock(held=held)
            raise

    def suspend(self, deadline: float) -> bool:
        """Close the connection, and keep writers waiting until `resume`; False where that cannot be done in time.

        It cannot be done at all from inside a work, whose transaction is open.
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
        """Let writers go on after `suspend`; the first of them opens the connection again."""
        self._release_lock(held=get_ident() in (self._running, self._holder))

    def abandon(self) -> None:
        """Never touch the connection again, in a forked process: it is the parent's, perhaps in mid-transaction."""
        connection, self._connection = self._connection, None
        self._closed = True
        self._execute = self._refuse_forked
        if connection is not None:
            leak(connection)

    def _refuse_forked(self, *statement: Any) -> Any:
        raise forked(self._url)

    def close(self) -> None:
        """Wait for the batch that is running, then let go of the connection. Closing twice is allowed."""
        self._refuse_nesting()
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                # Moving the log into the file is a courtesy to whoever copies it: the log alone is durable.
                with suppress(apsw.Error):
                    connection.wal_checkpoint()
                close(connection)

    def _queue_up(self, ticket: _Ticket) -> None:
        """Queue a ticket; its caller leads if nobody does."""
        with self._door:
            if ticket.at_once and (self._leader is not None or self._company.commit_takes > SOON):
                ticket.refused = True
                return
            self._queue.append(ticket)
            self._company.joined(len(self._queue))
            if self._leader is None:
                self._leader = ticket
            # Whoever has the connection in hand must not sleep: the leader is waiting for that hand to open.
            ticket.leads = self._leader is ticket or self._holder == get_ident()

    def _sleep(self, ticket: _Ticket) -> None:
        """Wait until the ticket is settled, or until its caller is called to lead."""
        ticket.called.acquire()
        if ticket.settled:
            self._wake()

    def _hand_over(self, ticket: _Ticket) -> None:
        """Call the next caller to lead; each is woken once, and nobody in vain."""
        with self._door:
            if not ticket.settled:  # refused or interrupted before it began
                with suppress(ValueError):
                    self._queue.remove(ticket)
            following = self._queue[0] if self._queue else None
            if following is None:
                self._wake_one()
            elif not following.leads:
                _call(following)
                following.leads = True
            self._leader = following  # last: until then, an interrupted caller will do all of this again

    def _recover(self, ticket: _Ticket, *, held: bool) -> None:
        """Put right whatever an interrupt of the ticket's caller left half done; nobody else may notice it."""
        batch = self._batch
        if batch is not None and batch.own is ticket:
            with self._lock:
                self._abandon_batch(batch)
        self._release_lock(held=held)
        with self._door:
            ticket.given_up = True
            for line in (self._queue, self._done):
                with suppress(ValueError):
                    line.remove(ticket)  # from the queue: nobody has begun with it, so it was never asked for
        if self._leader is ticket:
            self._hand_over(ticket)
        with self._door:
            while self._done:
                self._wake_one()

    def _release_lock(self, *, held: bool) -> None:
        """Release the lock if an interrupt left this thread with it, unless it `held` it before the call."""
        if not held:
            with suppress(RuntimeError):  # it is not ours, or no longer
                while True:
                    self._lock.release()

    def _wake(self) -> None:
        """Wake one caller whose ticket is settled; it wakes the next, and so on.

        Where the next leader does not wait for them, the first is woken just before the next sync of the disk:
        while that lasts, they take their results and prepare what they write next. Woken earlier, or all at once,
        they would take the interpreter from whoever is running the next batch, and from each other.
        """
        if self._done:  # mostly nobody sleeps, and then the lock is not worth its price
            with self._door:
                self._wake_one()

    def _wake_one(self) -> None:
        if self._done:
            _call(self._done[0])
            self._done.popleft()

    def _await_company(self, own: _Ticket) -> None:
        """Let those who wrote a moment ago join the next batch, where that has paid."""
        with self._door:
            # Whoever has the connection in hand waits for nobody: the leader is waiting for that hand to open.
            if self._leader is not own or own.at_once or not self._company.worth_waiting(len(self._queue)):
                return
            self._wake_one()
        try:
            self._company.wait(self._queue)
        finally:
            with self._door:
                self._company.stop_waiting(len(self._queue))

    def _lead(self, own: _Ticket) -> None:
        """Have the connection to oneself, and run and commit what is queued."""
        self._await_company(own)
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
                ticket.error = self._fresh(error)
            self._settle(batch)
        except BaseException:
            # An interrupt, which strikes the leader wherever it is and is nobody's failure.
            self._abandon_batch(batch)
            raise

    def _collect(self, tickets: list[_Ticket], most: int) -> None:
        """Move tickets from the queue to the batch; for a moment each is in both, so that none can be lost."""
        with self._door:
            while self._queue and len(tickets) < most:
                tickets.append(self._queue[0])
                self._queue.popleft()

    def _run_works(self, batch: _Batch) -> None:
        """Run all works of a batch in one transaction, and commit it."""
        connection = self._open_connection()
        self._begin(connection, at_once=batch.own.at_once)
        self._notice_others()
        for ticket in batch.tickets:
            self._run_one(connection, ticket, alone=len(batch.tickets) == 1)
        self._wake()
        if connection.in_transaction:
            start = perf_counter()
            batch.committing = True
            self._execute("COMMIT")
            batch.seconds = perf_counter() - start
            self.commits += 1
        batch.committed = True

    def _abandon_batch(self, batch: _Batch) -> None:
        """End a batch whose leader was interrupted; doing it twice does no harm.

        After the commit all is well; before it, only the leader's own caller gives up, and the others' works run again.
        """
        if self._connection is not None:
            if batch.own.at_once:
                self._connection.set_busy_timeout(self._busy_timeout)
            if self._connection.in_transaction:
                batch.undone = True
                self._undo()
            elif batch.committing and not batch.undone:
                batch.committed = True
        if not batch.committed:
            with self._door:
                others = [one for one in batch.tickets if one is not batch.own and not one.given_up and not one.settled]
                self._queue.extendleft(one for one in reversed(others) if one not in self._queue)
                batch.tickets = [batch.own]
        self._settle(batch)

    def _settle(self, batch: _Batch) -> None:
        """Give every ticket of a batch its result or its error; doing it twice does no harm."""
        self._running = None
        if not batch.committed:
            self._rows.forget()
        with self._door:
            self._company.committed(together=len(batch.tickets), meanwhile=len(self._queue), seconds=batch.seconds)
            for ticket in batch.tickets:
                if not batch.committed and ticket.error is None:
                    ticket.error = self._interrupted()
                if not ticket.leads and not ticket.given_up and not ticket.settled:
                    self._done.append(ticket)
                ticket.settled = True
        self._batch = None

    def _begin(self, connection: Connection, *, at_once: bool) -> None:
        """Begin to write, once no other process does."""
        if not at_once:
            self._execute("BEGIN IMMEDIATE")
            return
        connection.set_busy_timeout(0)
        try:
            self._execute("BEGIN IMMEDIATE")
        finally:
            connection.set_busy_timeout(self._busy_timeout)

    def _run_one(self, connection: Connection, ticket: _Ticket, *, alone: bool) -> None:
        """Run one work in a savepoint, or in the whole transaction where it is alone; keep its result or its error."""
        if not alone:
            self._execute("SAVEPOINT work")
        ticket.error = None  # of an earlier run, in a batch that was interrupted
        try:
            ticket.result = ticket.work(self._rows)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, apsw.Error) and not connection.in_transaction:
                raise  # SQLite gave up on the whole transaction: the others' works are undone too
            self._execute("ROLLBACK" if alone else "ROLLBACK TO work")
            self._rows.forget()
            ticket.error = self._fresh(error) if isinstance(error, apsw.Error) else error
        finally:
            self._rows.end_turn()
        if not alone:
            self._execute("RELEASE work")

    def _notice_others(self) -> None:
        """Where another connection has committed since the last time, forget what was known before it.

        SQLite counts such commits. Without one, nothing that this writer has read can have changed, and nobody can
        have migrated the file. A database in memory has no other connection.
        """
        if self._url == IN_MEMORY:
            return
        data_version = self._execute("PRAGMA data_version").get
        if data_version != self._data_version:
            self._rows.note_ledger_ends()
            self._rows.forget()
            check_version(self._execute("PRAGMA user_version").get, self._url)
            self._data_version = data_version

    def _undo(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            # If even this fails, SQLite has ended the transaction all the same; the first error is the one to tell.
            with suppress(apsw.Error):
                self._connection.execute("ROLLBACK")

    def _fresh(self, error: apsw.Error | StorageError) -> StorageError:
        """Return an error that one caller may have to itself: raising one object in many threads mixes tracebacks."""
        fresh = translate(error, self._url) if isinstance(error, apsw.Error) else copy(error)
        fresh.__cause__ = error
        return fresh

    def _interrupted(self) -> StorageError:
        return Unavailable(
            f"`{self._url}`: the write was interrupted", hint="Try again; nothing was kept", url=self._url
        )

    def _open_connection(self) -> Connection:
        if self._connection is None:
            if self._closed:
                raise closed(self._url)
            self._use(open_writer(self._settings, create=False))
        assert self._connection is not None
        return self._connection

    def _refuse_nesting(self) -> None:
        if self._running == get_ident():
            raise nested()


def _call(ticket: _Ticket) -> None:
    """Wake the caller of a ticket; one that is awake already does not mind."""
    with suppress(RuntimeError):
        ticket.called.release()
