"""The ledger on PostgreSQL: positions that are given out at once, and a chain that follows the commits.

Writers of one tenant run beside each other, so none of them knows the hash of the event before its own. An event is
stored under its position with an empty `prev_hash`. A sequencer then chains what was committed, in the order of the
positions, and keeps the hashes beside the events; they are those of the events with their `prev_hash` filled in. There
is one sequencer at a time: it holds the row of its tenant.

Positions come from a counter that a transaction of its own raises, after a work has read all that it depends on, so
that no writer waits for another's commit. A position that was given out and not used is a gap: its writer is about to
commit, or has failed. The chain waits for it, and fills it with a `void` event once its writer is known to have failed
or had its time. The key of `events` decides between the two: the second one is refused, and a refused writer
tries again with new positions.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import psycopg

from memoranda.errors import Busy, Corrupt
from memoranda.model.event import GENESIS, Event, event_body
from memoranda.model.value import hash_body
from memoranda.store.base import Widen, subject_of
from memoranda.store.postgres.deadline import Connection, Silent
from memoranda.store.postgres.dialect import SQL

if TYPE_CHECKING:
    from memoranda.store.postgres.pool import Pool

T = TypeVar("T")

VOID = "void"
"""The effect of an event that only says that its position was given out and not used."""

_DELAY = 0.04
"""Seconds between a commit and its chaining, in which more commits are chained with it."""
_LONGEST_DELAY = 0.5
_PATIENCE = 2.0
"""Seconds after which the writer of a missing event is taken for lost."""
CHAINED_AT_ONCE = 256
"""Events that one transaction chains, or fills in."""
_MARK = b'"prev_hash":"'
_PREFIX = "sha256:"


# what works within some subjects may do


def _places(place: int | tuple[int, int] | None, names: str) -> dict[str, int | tuple[int, int] | None]:
    return dict.fromkeys(names.split(), place)


_PLACES: Mapping[str, int | tuple[int, int] | None] = {
    # What only works that have their tenant to themselves change, or what is found by what was read within a subject.
    **_places(
        None,
        "get_tenant list_unchained add_tenant append_event put_event_text page_events "
        "page_run_events get_run_head find_event get_collection list_collections get_slot list_definitions list_grants "
        "list_guards get_epoch list_rejections get_rejection get_session get_erasure get_approval list_approvals "
        "put_approval get_content_key add_content_key list_links_to list_links get_usage add_usage remove_usage "
        "count_live list_live list_told_origins list_active list_entries_of_key list_chain list_hashes "
        "list_entries_alike list_digests list_keys list_ended page_indexed fill_shelf mark_shelf add_entry end_entry "
        "remove_entry remove_entry_vectors forget_entry_texts add_vector list_entries get_entry add_removal "
        "trim_removals list_removals list_portions list_parts list_vectors add_portion note_gone add_parts "
        "remove_portions remove_parts",
    ),
    # The scope is the second value, or the third.
    **_places(
        1,
        "get_shelf list_namespaces get_shelf_state get_namespaces_state add_shelf get_fact get_bare_fact list_facts "
        "list_facts_as_of list_revisions list_newest_revisions get_revision get_revision_at put_link list_omissions "
        "put_session get_replay put_replay put_fact remove_fact add_revision list_marks get_segment put_segment "
        "list_sizes",
    ),
    **_places(2, "put_omission"),
    # A range of scopes.
    **_places((1, 2), "list_shelf_states list_live_below remove_segments"),
    **_places((2, 3), "list_facts_named"),
    **_places((3, 4), "page_facts_below"),
    **_places((4, 5), "page_revisions_below"),
}
"""Where the statements that works within some subjects may run say their scope. Any other needs the whole tenant."""

_FOUND_WITH_SCOPE = frozenset({"list_entries", "get_entry"})
"""Statements that find rows by a number or an id, and return their scope first."""


def ensure_within(subjects: frozenset[str], name: str, values: Sequence[Any]) -> None:
    """Raise `Widen` unless a statement stays within some subjects of its tenant."""
    place = _PLACES.get(name, -1)
    if place is None:
        return
    if isinstance(place, tuple):
        low, high = values[place[0]], values[place[1]]
        subject = subject_of(low)
        if subject in subjects and high <= (f"{subject}0" if subject else "\1"):  # what follows `/` is `0`
            return
    elif place > 0 and subject_of(values[place]) in subjects:
        return
    raise Widen(name)


def ensure_found_within(subjects: frozenset[str], name: str, rows: Sequence[Sequence[Any]]) -> None:
    """Raise `Widen` if rows that were not found by their scope are not of these subjects."""
    if name in _FOUND_WITH_SCOPE and any(subject_of(row[0]) not in subjects for row in rows):
        raise Widen(name)


# the chain


def splice(body: bytes, previous: str) -> bytes | None:
    """Return the bytes of an event with the hash of the one before it; None if they name one already.

    The keys of an event are sorted, and after this one come only texts and numbers, whose quotes are escaped.
    """
    start = body.rfind(_MARK) + len(_MARK)
    return None if body[start : start + 1] != b'"' else body[:start] + previous.encode() + body[start:]


def chain(head: str, length: int, rows: Iterable[tuple[int, str, bytes]]) -> list[str]:
    """Return the hashes of the events that follow the chain, as far as none is missing or damaged."""
    hashes: list[str] = []
    for position, digest, body in rows:
        spliced = splice(body, head)
        if position != length + len(hashes) + 1 or spliced is None or hash_body(body) != digest:
            break
        head = hash_body(spliced)
        hashes.append(head)
    return hashes


def pack(hashes: Iterable[str]) -> bytes:
    """Return hashes as they are stored."""
    return b"".join(bytes.fromhex(hash.removeprefix(_PREFIX)) for hash in hashes)


def unpack(packed: bytes) -> list[str]:
    """Return hashes that were stored.

    >>> unpack(pack(["sha256:" + "0a" * 32]))[0][:11]
    'sha256:0a0a'
    """
    return [_PREFIX + packed[start : start + 32].hex() for start in range(0, len(packed), 32)]


def void_event(tenant: str, position: int, at: datetime) -> Event:
    """Return the event of a position that was given out and not used."""
    return Event(
        tenant=tenant,
        position=position,
        at=at,
        actor="memoranda",
        door="store",
        effect=VOID,
        decision="refused",
        scope="",
        key=None,
        resource=None,
        version=None,
        content=None,
        epoch=0,
        detail={},
        prev_hash="",
    )


class Positions:
    """Gives out positions; threads that ask at the same moment share a statement."""

    def __init__(self, pool: Pool, patience: float) -> None:
        """Take connections from a pool that writers do not use, so that they never wait for one another.

        A lock is waited for at most `patience` seconds.
        """
        self._pool = pool
        self._patience = patience
        self._asking = threading.Lock()
        self._guard = threading.Lock()
        self._waiting: list[_Request] = []

    def take(self, tenant: str, count: int) -> int:
        """Take a number of positions without a gap; return the last one."""
        mine = _Request(tenant, count)
        with self._guard:
            self._waiting.append(mine)
        if not self._asking.acquire(timeout=self._patience):
            with self._guard:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                    raise psycopg.errors.LockNotAvailable("other threads wait for positions of the ledger")
            self._asking.acquire()  # it is being asked for
        try:
            if not mine.last:
                # Also if another thread has asked for this one in vain.
                with self._guard:
                    batch = self._waiting if mine in self._waiting else [mine, *self._waiting]
                    self._waiting = []
                self._take_all(batch)
        finally:
            self._asking.release()
        return mine.last

    def _take_all(self, batch: list[_Request]) -> None:
        """Take the positions of a batch, with one statement for each tenant."""
        by_tenant: defaultdict[str, list[_Request]] = defaultdict(list)
        for one in batch:
            by_tenant[one.tenant].append(one)
        with self._pool.rows() as rows:
            for tenant, requests in by_tenant.items():
                last = self._take_apart(rows.connection, tenant, sum(one.count for one in requests))
                for one in reversed(requests):
                    one.last = last
                    last -= one.count

    def _take_apart(self, connection: Connection, tenant: str, count: int) -> int:
        """Take positions in a transaction of their own.

        The server is not told how long it may wait for a lock, which would take three statements more: a wait that is
        too long ends here, with the connection.
        """
        connection.limit = self._patience
        try:
            return take_positions(connection, tenant, count, "off")
        except Silent as error:
            if not error.server_answers:
                raise
            raise psycopg.errors.LockNotAvailable("another program keeps the positions of the ledger locked") from error


class _Request:
    """What a thread asks for; `last` is the answer, 0 until then."""

    __slots__ = ("count", "last", "tenant")

    def __init__(self, tenant: str, count: int) -> None:
        self.tenant, self.count = tenant, count
        self.last = 0


def take_positions(connection: Any, tenant: str, count: int, synchronous_commit: str) -> int:
    """Take positions in the transaction of a connection; return the last one.

    One of their own need not wait for the disk: an event that is there later was written after it, to the same log.
    """
    found = connection.execute(SQL["take_positions"], (tenant, count, synchronous_commit)).fetchone()
    assert found is not None, "it returns one row"
    return found[0]


class Sequencer:
    """Chains what was committed, in a thread that starts with the first commit of this process."""

    def __init__(self, pool: Pool, url: str, patience: float, guarded: Callable[[Callable[[], Any]], Any]) -> None:
        """Wait at most `patience` seconds in `settle`; `guarded` runs an action and translates its errors."""
        self._pool = pool
        self._url = url
        self._patience = patience
        self._guarded = guarded
        self._guard = threading.Lock()
        self._turn = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._pause = _DELAY
        # By tenant, the newest position that this process committed and does not know to be chained.
        self._unchained: dict[str, int] = {}
        # Positions that this process took and will not use, and since when others are missing.
        self._abandoned: defaultdict[str, set[int]] = defaultdict(set)
        self._missing: dict[str, tuple[int, float]] = {}

    def follow(self, committed: Mapping[str, int]) -> None:
        """Chain what was just committed, soon: by tenant, up to a position."""
        with self._guard:
            for tenant, position in committed.items():
                self._unchained[tenant] = max(position, self._unchained.get(tenant, 0))
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="memoranda-sequencer", daemon=True)
                self._thread.start()
        self._wake.set()

    def abandon(self, taken: Mapping[str, Iterable[int]]) -> None:
        """Fill positions that a failed transaction took, as soon as an event comes after them."""
        with self._guard:
            for tenant, positions in taken.items():
                self._abandoned[tenant].update(positions)

    def settle(self, tenant: str) -> None:
        """Return once all that is in the ledger now is chained."""
        deadline = time.monotonic() + self._patience + _PATIENCE
        wanted: int | None = None
        while True:
            try:
                reached = self._guarded(lambda: self._advance(tenant))
            except Corrupt:
                return  # the chain goes no further, and `verify` says why
            if reached is not None:
                wanted = reached[1] if wanted is None else wanted
                if reached[0] >= wanted:
                    return
            if time.monotonic() > deadline:
                raise Busy(
                    f"`{self._url}`: events of tenant `{tenant}` could not be chained yet: a writer has not committed",
                    hint="Try again; look for a transaction that stays open",
                    url=self._url,
                )
            time.sleep(0.005)

    def close(self) -> None:
        """Stop the thread, and chain what can be chained; others do the rest."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(self._patience)
            if self._thread.is_alive():  # it waits for a server that does not answer
                return
        for tenant in list(self._unchained):
            self._try(tenant)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            if self._closing.wait(self._pause):
                return
            self._wake.clear()
            left = [tenant for tenant in list(self._unchained) if not self._try(tenant)]
            # A gap, another sequencer, or a server that is away.
            self._pause = min(2 * self._pause, _LONGEST_DELAY) if left else _DELAY
            if left:
                self._wake.set()

    def _try(self, tenant: str) -> bool:
        """Chain what can be chained of a tenant; return whether that was all. What fails is tried again later."""
        with self._guard:
            wanted = self._unchained.pop(tenant)
        try:
            length = self._length(tenant)
            if length < wanted:  # no other process has done it
                reached = self._advance(tenant)
                length = 0 if reached is None else reached[0]
        except (psycopg.Error, Busy):
            length = 0
        except Corrupt:
            return True  # `verify` finds it, and says where
        if length < wanted:
            with self._guard:
                self._unchained[tenant] = max(wanted, self._unchained.get(tenant, 0))
        return length >= wanted

    def _length(self, tenant: str) -> int:
        """Return how far a tenant's ledger is chained."""
        with self._pool.rows() as rows:
            row = rows.connection.execute(SQL["get_length"], (tenant,)).fetchone()
        return row[0] if row is not None else 0

    def _advance(self, tenant: str) -> tuple[int, int] | None:
        """Chain events; return the length of the chain and the position of the newest event that was found.

        None if another process is doing it.
        """
        with self._turn, self._pool.rows() as rows:
            connection = rows.connection
            if connection.execute(SQL["get_length"], (tenant,)).fetchone() is None:
                return 0, 0  # nothing was written there
            while True:
                length, found = self._chain_some(connection, tenant)
                if length is None:
                    return None
                newest = found[-1][0] if found else length
                if length >= newest and len(found) < CHAINED_AT_ONCE:
                    self._missing.pop(tenant, None)
                    return length, newest
                if length < newest and not self._fill(connection, tenant, length, found):
                    return length, newest

    def _chain_some(self, connection: Any, tenant: str) -> tuple[int | None, list[tuple[int, str, bytes]]]:
        """Chain the next events in one transaction; return the length then, and the events that were behind the chain.

        The length is None if another process is doing it.
        """
        with connection.pipeline(), connection.transaction():
            connection.execute(SQL["set_manner"], ("1000", "off"))
            locking = connection.execute(SQL["lock_chain"], (tenant,))
            found = connection.execute(SQL["list_behind"], (tenant, CHAINED_AT_ONCE)).fetchall()
            row = locking.fetchone()
            if row is None:
                return None, []
            length, head = row
            previous = head or GENESIS
            hashes = chain(previous, length, found)
            if hashes:
                connection.execute(SQL["add_chain"], (tenant, length + 1, pack([previous, *hashes])))
                connection.execute(SQL["move_head"], (tenant, length + len(hashes), hashes[-1]))
            length += len(hashes)
        if found and not hashes and found[0][0] == length + 1:
            raise Corrupt(
                f"`{self._url}`: event {length + 1} of tenant `{tenant}` is not what was written there",
                hint="Verify the ledger, keep a copy of the database as it is, and restore a backup",
                url=self._url,
                position=length + 1,
            )
        return length, found

    def _fill(self, connection: Any, tenant: str, length: int, found: list[tuple[int, str, bytes]]) -> bool:
        """Fill the positions before the next event if their writers will not; return whether one was filled."""
        later = next(row for row in found if row[0] > length)
        missing = range(length + 1, min(later[0], length + 1 + CHAINED_AT_ONCE))
        since, now = self._missing.get(tenant), time.monotonic()
        if since is None or since[0] != length + 1:
            since = self._missing[tenant] = (length + 1, now)
        with self._guard:
            given_up = self._abandoned[tenant] & set(missing)
        lost = missing if now - since[1] > _PATIENCE else sorted(given_up)
        if not lost:
            return False
        at = msgspec.json.decode(later[2], type=_At).at
        for position in lost:
            event = void_event(tenant, position, at)
            body = event_body(event)
            try:
                with connection.transaction():
                    connection.execute(SQL["set_manner"], ("1000", "off"))
                    connection.execute(SQL["append_event"], (tenant, position, hash_body(body), body, None))
            except psycopg.errors.UniqueViolation:
                pass  # its writer came first
            with self._guard:
                self._abandoned[tenant].discard(position)
        return True


class _At(msgspec.Struct, gc=False):
    """The moment of an event."""

    at: datetime
