"""Works of many threads in, one commit for all of them out.

Syncing the disk is what a write costs, and one sync can serve many writers. A caller queues a ticket. If nobody
leads, it does: it runs all that is queued, each work in a savepoint of its own, commits once and settles the
tickets; then it calls one of those who queued meanwhile to lead. Everybody else sleeps until their ticket is
settled, and is woken once. A lone writer leads a batch of one, at once; `company.py` says when others are waited for.

Invariant: a ticket is settled without an error only after COMMIT has returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from threading import Lock, RLock, get_ident
from time import perf_counter
from typing import Any, TypeVar

import apsw

from recollect.errors import StorageError, Unavailable
from recollect.store.sql.misuse import closed, nested, not_at_once
from recollect.store.sqlite.company import Company
from recollect.store.sqlite.connection import IN_MEMORY, Connection, close
from recollect.store.sqlite.errors import translate
from recollect.store.sqlite.migrate import check_version
from recollect.store.sqlite.rows import Rows

T = TypeVar("T")

LARGEST_BATCH = 256
"""Works in one commit: enough to share a sync well, few enough to keep the first of them from waiting long."""

SOON = 0.001
"""Seconds: a disk that takes longer for a commit is slow, and what is to be done at once is not begun."""


class _Ticket:
    """One caller's work, and how it went."""

    settled = False
    leads = False
    given_up = False  # its caller was interrupted: nobody sleeps on it any more
    result: Any = None
    error: BaseException | None = None

    def __init__(self, work: Callable[[Rows], Any], *, at_once: bool) -> None:
        self.work = work
        self.at_once = at_once
        self.called = Lock()  # its caller sleeps on it until it is settled, or called to lead
        self.called.acquire()


class GroupCommit:
    """The one writer: all that changes the database goes through here."""

    def __init__(self, connection: Connection, url: str, *, busy_timeout: float) -> None:
        """Take over the connection; nobody else may write with it."""
        self.commits = 0
        """How many transactions were committed."""
        self._lock = RLock()
        self._connection: Connection | None = connection
        self._rows = Rows(connection, url)
        self._execute = connection.cursor().execute  # a kept cursor spares making one for each statement
        self._url = url
        self._busy_timeout = int(busy_timeout * 1000)
        self._data_version: int | None = None
        self._queue: deque[_Ticket] = deque()
        self._done: deque[_Ticket] = deque()  # settled, but their callers still sleep
        self._door = Lock()  # held for moments: who queues, who leads, who is settled
        self._leader: _Ticket | None = None
        self._company = Company()
        # Threads, by ident: who is running a batch, and who only has the connection in hand.
        self._running: int | None = None
        self._holder: int | None = None

    def run(self, work: Callable[[Rows], T], *, at_once: bool = False) -> T:
        """Run work in a transaction, perhaps together with others', and return its result once that is durable.

        Work that is to be done at once is done alone; where anybody or a slow disk is in the way, it is `Busy`.
        """
        self._refuse_nesting()
        ticket = _Ticket(work, at_once=at_once)
        self._queue_up(ticket)
        try:
            if not ticket.leads:
                self._sleep(ticket)
            while not ticket.settled:
                self._lead(ticket)
        finally:
            if self._leader is ticket:  # which nobody else can make true or false by now
                self._hand_over(ticket)
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
            before, self._holder = self._holder, get_ident()
            try:
                return action(self._open_connection())
            finally:
                self._holder = before

    def ledger_end(self, tenant: str) -> tuple[bool, tuple[int, str] | None]:
        """Return True and where the ledger of a tenant ends, None where it has none; False while somebody writes."""
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

    def close(self) -> None:
        """Wait for the batch that is running, then let go of the connection. Closing twice is allowed."""
        self._refuse_nesting()
        with self._lock:
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
                raise not_at_once(self._url)
            self._queue.append(ticket)
            self._company.joined(len(self._queue))
            if self._leader is None:
                self._leader = ticket
            # Whoever has the connection in hand must not sleep: the leader is waiting for that hand to open.
            ticket.leads = self._leader is ticket or self._holder == get_ident()

    def _sleep(self, ticket: _Ticket) -> None:
        """Wait until the ticket is settled, or until its caller is called to lead."""
        try:
            ticket.called.acquire()
        except BaseException:
            with self._door:
                ticket.given_up = True
                for line in (self._queue, self._done):
                    with suppress(ValueError):
                        line.remove(ticket)  # from the queue: nobody has begun with it, so it was never asked for
            raise
        finally:
            if ticket.settled:
                self._wake()

    def _hand_over(self, ticket: _Ticket) -> None:
        """Call the next caller to lead; each is woken once, and nobody in vain."""
        with self._door:
            if not ticket.settled:  # interrupted before it began
                with suppress(ValueError):
                    self._queue.remove(ticket)
            self._leader = self._queue[0] if self._queue else None
            if self._leader is None:
                self._wake_one()
            elif not self._leader.leads:
                self._leader.leads = True
                self._leader.called.release()

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
            self._done.popleft().called.release()

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
            raise not_at_once(self._url)
        try:
            self._run_batch(own)
        finally:
            self._lock.release()

    def _run_batch(self, own: _Ticket) -> None:
        """Run and commit what is queued; settle every ticket of it."""
        batch: list[_Ticket] = []
        begun = committed = False
        seconds = 0.0
        try:
            self._running = get_ident()
            while self._queue and len(batch) < (1 if own.at_once else LARGEST_BATCH):
                batch.append(self._queue.popleft())
            connection = self._open_connection()
            self._begin(connection, at_once=own.at_once)
            begun = True
            self._notice_others()
            for ticket in batch:
                self._run_one(connection, ticket, alone=len(batch) == 1)
            self._wake()
            if connection.in_transaction:
                start = perf_counter()
                self._execute("COMMIT")
                seconds = perf_counter() - start
                self.commits += 1
            committed = True
        except (apsw.Error, StorageError) as error:
            self._undo()
            for ticket in batch:
                ticket.error = self._fresh(error)
        except BaseException:
            # An interrupt, which strikes the leader wherever it is and is nobody's failure. After the commit all
            # is well; before it, only the leader's own caller gives up, and the others' works run again.
            committed = begun and not self._undo()
            if not committed:
                with self._door:
                    others = [ticket for ticket in batch if ticket is not own and not ticket.given_up]
                    self._queue.extendleft(reversed(others))
                batch = [own]
            raise
        finally:
            self._running = None
            if not committed:
                self._rows.forget()
            with self._door:
                self._company.committed(together=len(batch), meanwhile=len(self._queue), seconds=seconds)
                for ticket in batch:
                    if not committed and ticket.error is None:
                        ticket.error = self._interrupted()
                    ticket.settled = True
                    if not ticket.leads and not ticket.given_up:
                        self._done.append(ticket)

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
            self._rows.forget()
            check_version(self._execute("PRAGMA user_version").get, self._url)
            self._data_version = data_version

    def _undo(self) -> bool:
        """Roll back what is open; say whether anything was."""
        if self._connection is None or not self._connection.in_transaction:
            return False
        # If even this fails, SQLite has ended the transaction all the same, and the first error is the one to tell.
        with suppress(apsw.Error):
            self._connection.execute("ROLLBACK")
        return True

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
            raise closed(self._url)
        return self._connection

    def _refuse_nesting(self) -> None:
        if self._running == get_ident():
            raise nested()
