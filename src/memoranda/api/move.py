"""Moving a whole memory to another database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic
from typing import Literal

import msgspec

from memoranda.api.memory import kind_of_store, postgres_package
from memoranda.errors import AlreadyExists, Busy, Conflict, Corrupt, Full, Hint, Unavailable, UsageError
from memoranda.governance.ledger import verify
from memoranda.model.text import quote
from memoranda.store.sql.errors import without_secrets
from memoranda.store.sql.move import COPIED, Copied, Page, Record, Side, Sum, Table, Target
from memoranda.store.sqlite.connection import IN_MEMORY

_AGAIN = "then run the same move again: it goes on where it stopped"


class MoveProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a move is."""

    stage: Literal["copying", "comparing", "verifying"]
    table: str
    """The table; the tenant while its ledger is verified."""
    done: int
    """The rows of this stage that are done, those of an earlier call included; events while a ledger is verified."""
    total: int


class MovedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that was moved: what was read from the source is what is in the target."""

    name: str
    rows: int
    digest: str
    """The sum of the hashes of its rows, the same on both sides; empty if nothing was copied."""


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What a move did."""

    source: str
    """The address, without secrets."""
    target: str
    tables: tuple[MovedTable, ...]
    tenants: int
    rows: int
    """The rows of all tables."""
    continued: bool
    """Whether a call before this one had begun it."""
    restarted: bool
    """Whether it had to begin again, because the source was written to since it began."""
    written_since: int
    """Events that were written to the source after the snapshot: they, and what they did, are not in the target."""
    seconds: float


def migrate(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    restart: bool = False,
    exclusive: bool = False,
    progress: Callable[[MoveProgress], object] | None = None,
    busy_timeout: float = 5.0,
) -> Moved:
    """Move a whole memory from one database to another: every tenant, with history, ledger, grants and runs.

    The addresses are those of `open`: a file, or `postgresql://user@host/database`. The target has to be empty. Until
    the end no program can open it. A call that was interrupted, even by a power cut, is continued by the same call.
    The source is read on one snapshot, and stays as it is; `written_since` says how many events were written to it
    since. With `exclusive`, the move fails if there are any. `restart` removes what an unfinished move has written to
    the target. `dry_run` changes nothing in the target, and counts what would be moved.

    >>> import memoranda
    >>> with memoranda.open("memory.db") as memory:
    ...     memory.scope(user="ada").set("language", "en").version
    1
    >>> moved = memoranda.migrate("memory.db", "copy.db")
    >>> with memoranda.open("copy.db") as memory:
    ...     memory.scope(user="ada").value("language"), memory.ledger.verify().ok
    ('en', True)
    """
    began, move = monotonic(), None
    with ExitStack() as closing:
        try:
            reading = _open_source(os.fspath(source), busy_timeout)
            closing.callback(reading.close)
            writing = _open_target(os.fspath(target), busy_timeout, creates=not dry_run)
            if writing is not None:
                closing.callback(writing.close)
                if reading.identity() == writing.identity():
                    raise UsageError(
                        f"`{reading.url}` and `{writing.url}` are the same database", hint="Name another target"
                    )
            move = _Move(reading, writing, progress or (lambda _: None))
            with reading.snapshot():
                move.plan(restart=restart)
                if writing is not None and not dry_run:
                    move.copy(writing)
                    move.compare(writing)
                    move.verify(writing)
            if writing is not None and not dry_run:
                move.finish(writing, exclusive=exclusive)
        except (Busy, Full, Unavailable) as error:
            if move is not None and move.has_begun:
                error.advice = f"{error.hint or 'See what stopped it'}; {_AGAIN}"
            raise
    return move.result(without_secrets(os.fspath(target)), monotonic() - began)


class _Move:
    """A move, as far as it came."""

    def __init__(self, source: Side, target: Target | None, tell: Callable[[MoveProgress], object]) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._totals: dict[str, int] = {}
        self._copied: dict[str, Copied] = {}
        self._heads, self._events = "", 0
        self._tenants = 0
        self.has_begun = False
        """Whether the target is marked, so that the same move can be continued."""
        self._continued = self._restarted = self._ended = False
        self._begin: Callable[[Target], None] | None = None
        self._written_since = 0

    def plan(self, *, restart: bool) -> None:
        """Count what the source has, and decide how to begin; refuse a target that has something else."""
        self._heads, self._events = self._source.heads()
        self._tenants = len(self._source.rows.tenants())
        self._totals = {table.name: self._source.count(table) for table in COPIED}
        record = Record(source=self._source.url, kind=self._source.kind, heads=self._heads)
        target = self._target
        if target is None:
            return
        if not target.is_unfinished():
            if not any(target.has_rows(table) for table in COPIED):
                self._begin = lambda target: target.begin(record)
            elif target.heads()[0] == self._heads:
                self._ended = True  # the call that ended it was interrupted before it could return
            else:
                target.check_empty()
            return
        found = target.record()
        self._continued = found is not None and not restart
        if found == record and not restart:
            return
        if found is not None and not restart and not self._is_older(target):
            raise AlreadyExists(
                f"`{target.url}` is the target of a move from `{found.source}`, not from this source",
                hint="Continue that move, or begin this one with `restart`",
                url=target.url,
                source=found.source,
            )
        self._restarted = True
        self._begin = lambda target: target.begin_again(record)

    def copy(self, target: Target) -> None:
        """Copy all tables, from where an earlier call stopped."""
        if self._ended:
            self._copied = {table.name: Copied() for table in COPIED}
            for table, page in self._pages(self._source, "copying"):
                self._copied[table.name] = Copied(self._copied[table.name].sum.add(page.rows))
            return
        if self._begin is not None:
            with target.writing():
                self._begin(target)
        self.has_begun = True
        self._copied = target.copied()
        for table, page in self._pages(self._source, "copying"):
            self._copied[table.name] = target.write(table, page, self._copied[table.name])
        for table in COPIED:
            state = self._copied[table.name]
            if state.sum.rows != self._totals[table.name]:
                raise Corrupt(
                    f"`{self._source.url}`: `{table.name}` has {self._totals[table.name]:,} rows, and "
                    f"{state.sum.rows:,} of them can be read",
                    hint=(Hint("command", "doctor"), "restore a backup of the source"),
                    url=self._source.url,
                    table=table.name,
                )

    def compare(self, target: Target) -> None:
        """Read the target, and raise an error for the first table that differs."""
        found: dict[str, Sum] = {}
        with target.snapshot():
            for table, page in self._pages(target, "comparing"):
                found[table.name] = found.get(table.name, Sum()).add(page.rows)
        for table in COPIED:
            wanted, actual = self._copied[table.name].sum, found.get(table.name, Sum())
            if actual != wanted:
                what = f"{actual.rows:,} rows" if actual.rows != wanted.rows else "other rows"
                raise Corrupt(
                    f"`{target.url}`: `{table.name}` has {what}, {wanted.rows:,} were read from `{self._source.url}`",
                    hint="Move again with `restart`; if that gives the same, please report it",
                    url=target.url,
                    table=table.name,
                    expected=wanted.digest,
                    actual=actual.digest,
                )

    def verify(self, target: Target) -> None:
        """Verify every ledger of the target, and that it ends where that of the source does."""
        done = 0
        with target.snapshot():
            target.rows.reset()
            for tenant in self._source.rows.tenants():
                self._tell(MoveProgress(stage="verifying", table=tenant, done=done, total=self._events))
                found = verify(target.rows, tenant)
                head = self._source.rows.head(tenant)
                if not found.ok or head != target.rows.head(tenant):
                    raise Corrupt(
                        f"the ledger of {quote(tenant)} is broken at position {found.position}: {found.reason}"
                        if not found.ok
                        else f"the ledger of {quote(tenant)} ends elsewhere in `{target.url}`",
                        hint=(
                            Hint("command", "ledger verify"),
                            "restore a backup of the source: a move copies a ledger as it is",
                        ),
                        url=target.url,
                        table="events",
                        tenant=tenant,
                        position=found.position,
                    )
                done += found.length
        self._tell(MoveProgress(stage="verifying", table="", done=done, total=self._events))

    def finish(self, target: Target, *, exclusive: bool) -> None:
        """Open the target to programs, unless the source was written to and that is an error."""
        with self._source.snapshot():
            heads, events = self._source.heads()
        self._written_since = events - self._events
        if exclusive and heads != self._heads:
            raise Conflict(
                f"`{self._source.url}` was written to during the move (events: {self._written_since:,})",
                hint="Stop the programs that use it, then run the same move again",
                url=self._source.url,
                expected=self._events,
                actual=events,
            )
        # After the snapshot: no number is given again that was given since.
        if not self._ended:
            target.finish(self._source.counters())

    def result(self, target: str, seconds: float) -> Moved:
        """Return what was moved, or would be."""
        copied = self._copied
        return Moved(
            source=self._source.url,
            target=target,
            tables=tuple(
                MovedTable(name=name, rows=rows, digest=copied[name].sum.digest if name in copied else "")
                for name, rows in self._totals.items()
            ),
            tenants=self._tenants,
            rows=sum(self._totals.values()),
            continued=self._continued or self._ended,
            restarted=self._restarted,
            written_since=self._written_since,
            seconds=seconds,
        )

    def _is_older(self, target: Target) -> bool:
        """Return whether the target was copied from an earlier state of the source, by the ends of its ledgers."""
        target.rows.reset()
        for tenant in target.rows.tenants():
            head = target.rows.head(tenant)
            event = next(self._source.rows.events(tenant, start=head[0], limit=1), None) if head else None
            if head is not None and (event is None or event.hash != head[1]):
                return False
        return True

    def _pages(self, side: Side, stage: Literal["copying", "comparing"]) -> Iterator[tuple[Table, Page]]:
        """Yield the pages of all tables, of the source from where the copy stopped, and tell how far they are."""
        total = sum(self._totals.values())
        continues = stage == "copying" and not self._ended
        done = sum(state.sum.rows for state in self._copied.values()) if continues else 0
        for table in COPIED:
            self._tell(MoveProgress(stage=stage, table=table.name, done=done, total=total))
            for page in side.pages(table, self._copied[table.name].after if continues else ()):
                yield table, page
                done += len(page.rows)
                self._tell(MoveProgress(stage=stage, table=table.name, done=done, total=total))


def _open_source(url: str, busy_timeout: float) -> Side:
    kind, address = kind_of_store(url)
    if kind == "sqlite":
        if address == IN_MEMORY:
            raise _nothing_to_move(url)
        from memoranda.store.sqlite import move

        return move.open_source(address, busy_timeout=busy_timeout)
    with postgres_package():
        from memoranda.store.postgres import move
    return move.open_source(address, busy_timeout=busy_timeout)


def _open_target(url: str, busy_timeout: float, *, creates: bool) -> Target | None:
    """Return the target; None if there is nothing yet, and it is not to be created."""
    kind, address = kind_of_store(url)
    if kind == "sqlite":
        if address == IN_MEMORY:
            raise _nothing_to_move(url)
        from memoranda.store.sqlite import move

        return move.open_target(address, busy_timeout=busy_timeout, creates=creates)
    with postgres_package():
        from memoranda.store.postgres import move
    return move.open_target(address, busy_timeout=busy_timeout, creates=creates)


def _nothing_to_move(url: str) -> UsageError:
    return UsageError(f"`{url}` ends with this process, so it cannot be moved", hint="Name a file or a server")
