"""The contract of a store: snapshots to read from, and transactions that are kept whole or not at all.

A store keeps rows and finds them. What a write *means* (versions, expiry, compare-and-set) is implemented once, in
`memoranda.engine`, on top of the methods below. A new backend implements these and nothing else, and
`memoranda.testing.conformance` tests it.

Every method names one tenant, directly or through its scope, and never sees the rows of another.

Plain rows (`PlainRow`) have a key, and the same four methods for all kinds. Facts, entries and the ledger have methods
of their own. A query for many of them is a value, and a store has to answer those combinations of its fields that are
listed with it: each is one statement with a known plan.

An entry is *live* until it is forgotten or replaced, which *ends* it; whether it has expired is another question. A
*shelf* is the entries of one scope, collection and namespace, or of all its namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from memoranda.model.definition import Definition
from memoranda.model.effect import Approval
from memoranda.model.entry import Collection, Entry, Indexed, NewEntry, Shelf, ShelfState
from memoranda.model.event import Event
from memoranda.model.fact import Fact, Revision
from memoranda.model.guard import GuardRule
from memoranda.model.omission import Omission
from memoranda.model.policy import Grant
from memoranda.model.probes import Remains
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin

T = TypeVar("T")
R = TypeVar("R", bound="PlainRow")


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A scope that ends, and the scope it belongs to."""

    scope: Scope
    owner: Scope | None
    started_at: datetime
    ended_at: datetime | None = None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an idempotency key: a hash of the request, and where its results are."""

    scope: Scope
    key: str
    request: str
    results: tuple[tuple[str, int | None], ...]
    """For each write the key of the fact and its version, or None if there was nothing to delete."""
    at: datetime


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """The erasure of a scope: when, and the highest version used there, which is never used again."""

    id: str
    scope: Scope
    at: datetime
    version_floor: int


class ContentKey(msgspec.Struct, frozen=True):
    """The secret that the content of a scope is hashed with."""

    tenant: str
    scope: str
    secret: bytes


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """That a memory was derived from another. Both are refs; a version is that of a fact, 0 of anything else."""

    scope: Scope
    """That of the child, with which the link is erased."""
    child: str
    version: int = 0
    parent: str
    parent_version: int = 0


class ScopeEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """The permission epoch of a tenant at the last change of its grants that names a scope."""

    tenant: str
    scope: str
    """The path, or `WHOLE_TENANT`."""
    epoch: int


WHOLE_TENANT = "*"
"""The scope of a `ScopeEpoch` about changes that name no scope."""


class SegmentPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an index that a host published for others."""

    tenant: str
    subject: str
    """The outermost part of the scope that it indexes, with which it is removed."""
    name: str
    number: int
    data: bytes


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """A run of entries of one namespace whose index is stored in parts, so that no process has to load all of it.

    It is derived from the entries, and has words and metadata of them.
    """

    namespace: str
    first: int
    last: int
    """It has the entries of its namespace from one sequence to another that were live and had a vector."""
    mark: int
    """A `removed` of its shelf: what ended since is still in it."""
    gone: tuple[int, ...] = ()
    """What ended before, and is in it nevertheless."""
    embedder: str

    @property
    def run(self) -> tuple[str, int, int, str]:
        """What it is of, whatever has ended since it was made."""
        return self.namespace, self.first, self.last, self.embedder


PlainRow = (
    Collection
    | Definition
    | Grant
    | GuardRule
    | Approval
    | Session
    | Replay
    | Erasure
    | ContentKey
    | StoredRejection
    | Omission
    | Link
    | ScopeEpoch
    | SegmentPiece
)
"""Rows that are only ever found by their key or read in order."""


class FactQuery(msgspec.Struct, frozen=True):
    """Which facts to read, by these fields beside the scope. Other combinations raise `TypeError`.

    - `active_at`, and perhaps `prefix`, `domain`, `after` and `limit`: the facts that are active at a moment, at and
      below a key, ordered by key, from the first after one.
    - `as_of`, and perhaps `prefix`, `after` and `limit`: the same from the history.
    - `below`: every fact at and below the scope, expired or not, by scope and key.
    - `below`, `key`, and perhaps `after` and `limit`: those of one key, by scope, from the first after a path.
    - `owned`, `key`: those of one key in the sessions that belong to the scope or to one below it, by scope.
    - `below`, `expired_by`, `limit`: expired facts of a tenant, whose shared scope is named.
    """

    scope: Scope
    below: bool = False
    owned: bool = False
    key: str | None = None
    prefix: str = ""
    active_at: datetime | None = None
    as_of: datetime | None = None
    expired_by: datetime | None = None
    domain: str | None = None
    after: str | None = None
    limit: int | None = None


class RevisionQuery(msgspec.Struct, frozen=True):
    """Which revisions to read, by these fields beside the scope. Other combinations raise `TypeError`.

    - `key`, and perhaps `after` and `limit`: those of a key, oldest first, from the first after a version.
    - `key`, `newest_first`, and perhaps `before` and `limit`: newest first, from the first before a version.
    - none: every revision at and below the scope, by scope, key and version.
    """

    scope: Scope
    key: str | None = None
    after: int = 0
    before: int | None = None
    newest_first: bool = False
    limit: int | None = None


class EntryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries to read, by these fields. Other combinations raise `TypeError`.

    `entries` answers these:

    - `tenant`, `sequences`: live or ended, in no particular order.
    - `tenant`, `id`: the newest entry of an id, live or ended.
    - `tenant`, `expired_by`, `limit`: expired entries, live or ended, the first that expired first.
    - `tenant`, `collection`, `without_vector_of`, `limit`, and perhaps `after`: live or ended, without a vector of an
      embedder, by sequence.
    - `shelf`, and `key` or `digest`: live ones, by sequence.
    - `shelf`, `digest`, `ended_since`, `limit`: those that ended at or after a moment.
    - `shelf`, `chain`: those whose key or id it is, live or ended, by sequence.
    - `below`: live ones at and below a scope, by sequence.

    And `index_rows` these:

    - `shelf`, and perhaps `after`: live ones.
    - `shelf`, `active_at`: those that were active at a moment, and still exist.
    - `tenant`, `collection`, `limit`, and perhaps `after`: live or ended; their vectors are not checked.
    """

    tenant: str = ""
    collection: str | None = None
    shelf: Shelf | None = None
    below: Scope | None = None
    sequences: Sequence[int] | None = None
    id: str | None = None
    key: str | None = None
    chain: str | None = None
    digest: bytes | None = None
    active_at: datetime | None = None
    expired_by: datetime | None = None
    ended_since: datetime | None = None
    without_vector_of: str | None = None
    after: int = 0
    limit: int | None = None


class Window(msgspec.Struct, frozen=True):
    """A period of time that a quota counts in."""

    seconds: int
    begins: datetime


class TenantState(msgspec.Struct, frozen=True, gc=False):
    """The state of a tenant's rules.

    `revision` changes with each change of definitions or grants, and never has the same number again, even if a change
    is undone: what was compiled for a number is valid for that number only. 0 means that there were never any rules.
    `epoch` counts the changes of grants. `rejected` changes with each change of rejections, and never has the same
    number again either; 0 means that there never were any.
    """

    revision: int = 0
    epoch: int = 0
    rejected: int = 0


class Progress(msgspec.Struct, frozen=True, gc=False):
    """How far a tenant's ledger can be followed: to a position before which no event is missing.

    Events behind a missing one are in `later`. Who follows the ledger starts again after `position`, and sees by an
    equal value that nothing has come.
    """

    position: int = 0
    later: tuple[int, ...] = ()

    @property
    def newest(self) -> int:
        """The position of the newest event, 0 if there is none."""
        return self.later[-1] if self.later else self.position


class Reserved(msgspec.Struct, frozen=True, gc=False):
    """Where the next events of a transaction go."""

    positions: Sequence[int]
    previous: str
    """The hash that the first one names as its predecessor's; empty if the store chains events later."""


def text_place(event: Event) -> tuple[str, str | None, int | None]:
    """Return the scope, key and version by which the text of an event is found when it must be removed.

    A fact may have the key of a collection, such as `collections.notes`, and a version that is the sequence of an entry
    there. So sequences of entries are negative here.
    """
    number = event.version
    if event.effect == "remember" and number is not None:
        number = -number
    return event.scope, event.key, number


class Widen(Exception):  # a signal to the store itself, which no caller sees
    """A work went beyond the scopes that it was said to be within: it is run again with its tenant to itself."""


def subject_of(path: str) -> str:
    """Return the outermost part of a scope's path: works within different subjects may run at the same time."""
    return path.partition("/")[0]


def subjects_by_tenant(scopes: Iterable[Scope]) -> dict[str, frozenset[str]]:
    """Return the subjects of scopes."""
    found: dict[str, set[str]] = {}
    for scope in scopes:
        found.setdefault(scope.tenant, set()).add(subject_of(scope.path))
    return {tenant: frozenset(subjects) for tenant, subjects in found.items()}


class Reader(Protocol):
    """One snapshot of the store."""

    # plain rows

    def get(self, kind: type[R], *key: Any) -> R | None:
        """Return the row of a key: `get(Collection, tenant, name)`.

        The other keys are `Approval, tenant, id`, `StoredRejection, tenant, id`, `Session, scope`,
        `Replay, scope, key`, `ContentKey, tenant, path`, `ScopeEpoch, tenant, path`,
        `SegmentPiece, tenant, subject, name, number`, and `Erasure, scope`, which finds the newest erasure of the scope
        or of one above it.
        """
        ...

    def scan(
        self, kind: type[R], tenant: str, *, below: Scope | None = None, after: str = "", limit: int | None = None
    ) -> list[R]:
        """Return the tenant's rows of a kind.

        Definitions and grants, oldest first. Collections, by name. Approvals, oldest first, decided ones included, from
        the first `after` an id, up to a `limit`. Sessions that belong to the scope `below` or to one below it, by
        scope. Rejections at and below the scope `below`, oldest first. Idempotency keys at and below the scope `below`.
        Omissions whose subject is the scope `below`, by id.
        """
        ...

    def links(self, tenant: str, *, child: str | None = None, parent: str | None = None) -> list[Link]:
        """Return the links from a child to its parents, or from a parent to its children, of all versions, in order."""
        ...

    # facts and their history

    def fact(self, scope: Scope, key: str, *, value: bool = True) -> Fact | None:
        """Return the fact of a key, expired or not; with `value=False` without its value."""
        ...

    def facts(self, query: FactQuery) -> Iterator[Fact]:
        """Return the facts that a query asks for. Exhaust it inside the work."""
        ...

    def revision(
        self, scope: Scope, key: str, *, version: int | None = None, at: datetime | None = None
    ) -> Revision | None:
        """Return a revision of a key: of a version, the newest one made by a moment, or the newest of all."""
        ...

    def revisions(self, query: RevisionQuery) -> Iterator[Revision]:
        """Return the revisions that a query asks for. Exhaust it inside the work."""
        ...

    # collections and their entries

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return the state of a shelf, which differs from every other state it had."""
        ...

    def shelf_states(self, scope: Scope, *, below: bool = False) -> list[tuple[Shelf, ShelfState]]:
        """Return the shelves of a scope, and with `below` of those below it, with their states, in order.

        A shelf that was emptied may be there or not.
        """
        ...

    def shelves(self, tenant: str, collection: str) -> list[tuple[Shelf, int]]:
        """Return each (scope, namespace) of a collection with live entries, ordered, with their number."""
        ...

    def entries(self, query: EntryQuery) -> Iterator[Entry]:
        """Return the entries that a query asks for. Exhaust it inside the work."""
        ...

    def live_sequences(self, shelf: Shelf) -> list[int]:
        """Return the sequences of the live entries of a shelf, in ascending order."""
        ...

    def removed_since(self, shelf: Shelf, mark: int) -> list[int] | None:
        """Return the sequences of the entries that ended or were removed since a shelf had a mark, in any order.

        None if that is not known: only the last few thousand are listed, and what changes a whole shelf is not.
        """
        ...

    def shelf_sizes(self, shelf: Shelf) -> dict[str, int]:
        """Return the number of live entries of a shelf, by namespace."""
        ...

    def portions(self, shelf: Shelf, *, gone: bool = True) -> list[Portion]:
        """Return the portions of a shelf whose indexes are stored, by their first entries; perhaps without `gone`."""
        ...

    def parts(self, shelf: Shelf, firsts: Sequence[int], names: Sequence[str]) -> list[tuple[int, str, bytes]]:
        """Return those of these parts that the portions with these first entries have: portion, name and bytes."""
        ...

    def vectors(self, shelf: Shelf, sequences: Sequence[int], embedder: str) -> list[tuple[int, bytes]]:
        """Return the vectors of these entries of a shelf, by sequence; entries without one are left out."""
        ...

    def known(self, shelf: Shelf, *, keys: Sequence[str] = (), digests: Sequence[bytes] = ()) -> set[str | bytes]:
        """Return those of these keys and digests that live entries of a shelf have."""
        ...

    def index_rows(self, query: EntryQuery, embedder: str) -> Iterator[Indexed]:
        """Return what an index needs of entries, expired ones included, by sequence.

        Entries without a vector of this embedder are left out. Rows of a shelf tell the origin of what has a source or
        is not fully trusted. Exhaust it inside the work. An iterator with an `operator.length_hint` saves memory.
        """
        ...

    def vector_counts(self, tenant: str, collection: str) -> dict[str, int]:
        """Return how many entries of a collection, live or ended, have a vector, by embedder."""
        ...

    # tenants, quotas, erasures

    def tenants(self) -> list[str]:
        """Return every tenant with any rows, sorted."""
        ...

    def scopes(self, tenant: str, *, prefix: str = "", after: str = "", limit: int | None = None) -> list[str]:
        """Return the paths that begin with a text and have facts or live entries, in order, from the first after one.

        The shared scope, whose path is empty, is not among them.
        """
        ...

    def tenant_state(self, tenant: str) -> TenantState:
        """Return the state of the tenant's rules."""
        ...

    def usage(self, tenant: str, actor: str, window: Window) -> tuple[int, int]:
        """Return the writes and bytes an actor used in a window."""
        ...

    def newest_below(self, scope: Scope) -> tuple[int, datetime | None]:
        """Return the highest version and the latest timestamp of any key or entry at or below a scope.

        The floors of earlier erasures at or below the scope count too.
        """
        ...

    # ledger

    def head(self, tenant: str, run: str | None = None) -> tuple[int, str] | None:
        """Return the position and hash of the newest event that is chained; of a run's newest, its index and hash."""
        ...

    def progress(self, tenant: str) -> Progress:
        """Return how far the ledger can be followed."""
        ...

    def events(
        self, tenant: str, *, start: int = 1, limit: int | None = None, run: str | None = None
    ) -> Iterator[Event]:
        """Yield events by position, from `start` on; positions begin at 1.

        Those that are not chained yet come without a hash. With a run, only its events, each with the hash that the
        next one names. Exhaust it inside the work.
        """
        ...

    def bodies(self, tenant: str, *, run: str | None = None) -> Iterator[tuple[int, str, bytes]]:
        """Yield position, hash and hashed bytes of events, by position, unchecked; as `events` gives them.

        Exhaust it inside the work.
        """
        ...


class Transaction(Reader, Protocol):
    """A reader that also writes. It sees its own writes at once; others see them after the commit."""

    def put(self, row: PlainRow) -> None:
        """Keep a row, in place of the one of its key; erasures of one scope are all kept.

        Another embedder than before in a collection changes the state of its shelves, as a removal of entries does.
        """
        ...

    def remove(self, kind: type[PlainRow], *key: Any) -> int:
        """Remove a collection, a definition, a grant, a rejection or an omission by tenant and name or id.

        A collection goes with its entries, live and ended, in every scope: return their number. Pieces of segments
        are removed by tenant and subject, all of the tenant for None.
        """
        ...

    def put_fact(self, fact: Fact, payload: bytes) -> None:
        """Keep a fact, in place of the one of its key. `payload` is its value as JSON."""
        ...

    def remove_fact(self, scope: Scope, key: str) -> None:
        """Remove a fact; its revisions stay."""
        ...

    def add_revision(self, revision: Revision, payload: bytes | None) -> None:
        """Add to the history of a key."""
        ...

    def add_entries(
        self,
        shelf: Shelf,
        entries: Sequence[NewEntry],
        embedders: Sequence[str],
        *,
        created_at: datetime,
        expires_at: datetime | None,
        origin: Origin,
    ) -> list[int]:
        """Keep new entries, at least one, on a shelf, each with the vectors that these embedders made of it.

        Return their sequences: ascending, and higher than any before in this store.
        """
        ...

    def put_vector(self, tenant: str, sequence: int, embedder: str, vector: bytes) -> None:
        """Keep the vector that an embedder made of an entry; ignore it if the entry does not exist."""
        ...

    def remove_vectors(self, tenant: str, collection: str, embedder: str) -> int:
        """Remove the vectors that an embedder made of a collection's entries; return the number."""
        ...

    def end_entry(self, tenant: str, sequence: int, at: datetime) -> None:
        """End an entry; it stays readable as of earlier moments."""
        ...

    def remove_entry(self, tenant: str, sequence: int) -> None:
        """Remove an entry with its vectors, and the ledger's text of it."""
        ...

    def add_portion(self, shelf: Shelf, portion: Portion, parts: Mapping[str, bytes]) -> bool:
        """Keep the index of a portion of a shelf; return False, and keep nothing, if that is not possible yet."""
        ...

    def note_gone(self, shelf: Shelf, portion: Portion) -> None:
        """Keep the mark of a portion, and which of its entries had ended by then."""
        ...

    def remove_portions(self, shelf: Shelf, sequence: int | None = None) -> None:
        """Remove the stored index of the portion that has an entry, or those of all portions of a shelf.

        Whatever removes an entry does so too. One that only ends stays in its portion.
        """
        ...

    def set_tenant_state(self, tenant: str, state: TenantState) -> None:
        """Keep the state of the tenant's rules."""
        ...

    def add_usage(self, tenant: str, actor: str, window: Window, writes: int, bytes: int) -> None:
        """Count writes and bytes against an actor's window, and remove its older windows of that length."""
        ...

    def expire(
        self, tenant: str, now: datetime, *, replays_before: datetime, limit: int | None = None
    ) -> dict[str, int]:
        """Remove what is over and has no event of its own; return counts by kind.

        Kinds: revisions, whose values are blanked, and the ledger's texts of them removed, once they have expired; and
        idempotency_keys, whose records are removed if they were made before a moment. With a `limit`, about this number
        of revisions: those that expired first, and all that expired at the same moment as the last of them.
        """
        ...

    def remove_below(self, scope: Scope, *, keep_records: bool = False) -> dict[str, int]:
        """Remove everything at and below a scope; with `keep_records` all but its sessions, approvals and rejections.

        Return counts by kind: facts, revisions, entries, sessions, approvals, rejections, idempotency_keys,
        ledger_texts, content_keys. Links and omissions go uncounted.
        """
        ...

    def reserve(self, tenant: str, count: int, *, together: bool = False) -> Reserved:
        """Return the positions of the next events that this transaction appends; with `together` they have no gap.

        Reserve them after all that they depend on was read: who read the work of another has higher positions than
        that. What is not used is filled with events that say nothing.
        """
        ...

    def append_events(self, events: Sequence[tuple[Event, bytes]]) -> None:
        """Append events, at least one, to a tenant's ledger, at the next positions that were reserved, in order.

        Each comes with the JSON that its hash was computed of.
        """
        ...


Read = Callable[[Callable[[Reader], Any]], Any]
"""A function that runs work on one snapshot, as `Store.read` does."""


class Store(Protocol):
    """Where memory is stored."""

    url: str
    """The address this store was opened with, without secrets."""
    waits: bool
    """Whether reading even one row has to wait, as over a network: an event loop then reads in a thread."""
    keeps_portions: bool
    """Whether it keeps the indexes of portions, so that large shelves can be searched without loading all of them."""

    def transact(
        self, work: Callable[[Transaction], T], *, wait: bool = True, within: Sequence[Scope] | None = None
    ) -> T:
        """Run work in one transaction: it is durable when this returns, or it has changed nothing.

        Works of several callers may share one commit; an exception in one undoes only that one. Work may run in
        another caller's thread: it must not wait for a lock that its caller holds, nor call the store again.

        `within` is the scopes that the work reads and writes beside the rules of their tenants, None if it may be
        anything: a store may then run it beside works within other subjects. Work that goes beyond is undone and run
        again alone.

        With `wait=False`, raise `Busy` before the work begins if it would have to wait. It is for callers that must not
        block, such as an event loop, and can try again in a thread.
        """
        ...

    def read(self, work: Callable[[Reader], T], *, snapshot: bool = True) -> T:
        """Run work on one snapshot; without one, which costs less, each query of the work sees its own moment."""
        ...

    def settle(self, tenant: str) -> None:
        """Return once every event of a tenant that was committed before is chained."""
        ...

    def mark(self, tenant: str | None = None) -> Hashable:
        """Return a mark that changes whenever anything is written, so that what was read can be cached.

        The mark of a tenant need only change with its own ledger, because every write appends an event. Get it before
        reading: while it stays the same, so does what was read. It may change without a reason.
        """
        ...

    def check(self) -> Sequence[str]:
        """Check for damage; return what was found, in words."""
        ...

    def warnings(self) -> Sequence[str]:
        """Return risks that are not damage, such as a role with too many rights."""
        ...

    def holds_bytes(self, needle: bytes) -> bool | None:
        """Return whether the storage has these bytes anywhere, free space included; None if that cannot be known."""
        ...

    def notices(self) -> Sequence[str]:
        """Return what an operator should know that is neither damage nor a risk."""
        ...

    def reclaim(self, tenant: str) -> Remains:
        """Take what was erased in a tenant out of the storage, as far as no other tenant waits for it.

        Return what is still where.
        """
        ...

    def scrub(self, tenant: str | None = None) -> bool:
        """Rewrite the storage without removed content, at least that of a tenant; say whether that was possible."""
        ...

    def finish_migration(self) -> bool:
        """Change what older programs could not have used, and refuse them from now on; say whether there was anything.

        Opening a store does what programs of the schema before do not notice.
        """
        ...

    def close(self) -> None:
        """Close the store. Closing twice is allowed."""
        ...


class ReplicaStore(Store, Protocol):
    """A store whose reads and marks may be answered by a replica of it, with what this process wrote included."""

    def staleness(self) -> float:
        """Return how many seconds reads are behind the store, at most; 0.0 if they are not."""
        ...
