"""The contract of a store: snapshots to read from, and transactions that are kept whole or not at all.

A store keeps rows and finds them. What a write *means* (versions, expiry, compare-and-set) is implemented once, in
`memoranda.engine`, on top of the methods below. A new backend implements these and nothing else, and
`memoranda.testing.conformance` tests it.

Every method names one tenant, directly or through its scope, and never sees the rows of another.

An entry is *live* until it is forgotten or replaced, which *ends* it; whether it has expired is another question. A
*shelf* is the entries of one scope, collection and namespace, or of all its namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from memoranda.model.definition import Definition
from memoranda.model.effect import Approval
from memoranda.model.entry import Collection, Entry, Indexed, NewEntry, Shelf, ShelfState
from memoranda.model.event import Event
from memoranda.model.fact import Fact, Origin, Revision
from memoranda.model.policy import Grant
from memoranda.model.scope import Scope

T = TypeVar("T")


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


class Window(msgspec.Struct, frozen=True):
    """A period of time that a quota counts in."""

    seconds: int
    begins: datetime


class TenantState(msgspec.Struct, frozen=True, gc=False):
    """The state of a tenant's rules.

    `revision` changes with each change of definitions or grants, and never has the same number again, even if a change
    is undone: what was compiled for a number is valid for that number only. 0 means that there were never any rules.
    `epoch` counts the changes of grants.
    """

    revision: int = 0
    epoch: int = 0


def text_place(event: Event) -> tuple[str, str | None, int | None]:
    """Return the scope, key and version by which the text of an event is found when it must be removed.

    A fact may have the key of a collection, such as `collections.notes`, and a version that is the sequence of an entry
    there. So sequences of entries are negative here.
    """
    number = event.version
    if event.effect == "remember" and number is not None:
        number = -number
    return event.scope, event.key, number


class Reader(Protocol):
    """One snapshot of the store."""

    # facts and their history

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact of a key, expired or not."""
        ...

    def bare_fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact of a key without value and origin, expired or not: enough to replace it."""
        ...

    def facts(
        self,
        scope: Scope,
        *,
        now: datetime,
        prefix: str = "",
        domain: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> list[Fact]:
        """Return the active facts at and below a key, ordered by key, from the first after `after`."""
        ...

    def facts_as_of(
        self, scope: Scope, moment: datetime, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[Fact]:
        """Return the facts at and below a key that were active at a moment, ordered by key, after `after`."""
        ...

    def facts_below(self, scope: Scope) -> Iterator[Fact]:
        """Yield every fact at and below a scope, expired or not, by scope and key. Exhaust it inside the work."""
        ...

    def facts_named(
        self, tenant: str, key: str, *, below: str = "", after: str | None = None, limit: int | None = None
    ) -> list[Fact]:
        """Return every fact of a key in any scope of the tenant, expired or not, ordered by scope.

        `below` restricts them to the scopes strictly below a path. `after` is the path of the last scope seen.
        """
        ...

    def facts_owned(self, owner: Scope, key: str) -> list[Fact]:
        """Return the facts of a key in the sessions of a scope and of those below it, expired or not, by scope."""
        ...

    def expired(self, tenant: str, now: datetime, limit: int) -> list[Fact]:
        """Return expired facts."""
        ...

    def revisions(self, scope: Scope, key: str, *, after: int = 0, limit: int | None = None) -> list[Revision]:
        """Return the revisions of a key, oldest first, from the first after a version."""
        ...

    def newest_revisions(
        self, scope: Scope, key: str, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        """Return the revisions of a key, newest first, from the first before a version."""
        ...

    def revision(self, scope: Scope, key: str, version: int) -> Revision | None:
        """Return one revision."""
        ...

    def revision_at(self, scope: Scope, key: str, moment: datetime) -> Revision | None:
        """Return the revision at a moment: the newest one made at or before it."""
        ...

    def revisions_below(self, scope: Scope) -> Iterator[Revision]:
        """Yield every revision at and below a scope, by scope, key and version. Exhaust it inside the work."""
        ...

    def last_version(self, scope: Scope, key: str) -> int:
        """Return the highest version that a key ever had, 0 if none."""
        ...

    # collections and their entries

    def collections(self, tenant: str) -> list[Collection]:
        """Return the tenant's collections, by name."""
        ...

    def collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection."""
        ...

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return the state of a shelf, which differs from every other state it had."""
        ...

    def shelves(self, tenant: str, collection: str) -> list[tuple[Shelf, int]]:
        """Return each (scope, namespace) of a collection with live entries, ordered, with their number."""
        ...

    def indexed(self, shelf: Shelf, embedder: str, *, after: int = 0) -> Iterator[Indexed]:
        """Yield what an index needs of the live entries of a shelf, by sequence, from the first after `after`.

        Expired ones included. Entries without a vector of this embedder are left out. Exhaust it inside the work. An
        iterator with an `operator.length_hint` saves memory.
        """
        ...

    def standing(self, shelf: Shelf) -> list[int]:
        """Return the sequences of the live entries of a shelf, ascending."""
        ...

    def entries(self, tenant: str, sequences: Sequence[int]) -> list[Entry]:
        """Return the entries of these sequences, live or ended, in no particular order."""
        ...

    def entry(self, tenant: str, id: str) -> Entry | None:
        """Return one entry by id, live or ended."""
        ...

    def entry_of_key(self, shelf: Shelf, key: str) -> Entry | None:
        """Return the live entry of a key on a shelf."""
        ...

    def entries_alike(self, shelf: Shelf, digest: bytes) -> list[Entry]:
        """Return the live entries of a digest on a shelf, oldest first."""
        ...

    def known_digests(self, shelf: Shelf, digests: Sequence[bytes]) -> set[bytes]:
        """Return those of these digests that live entries of a shelf have."""
        ...

    def known_keys(self, shelf: Shelf, keys: Sequence[str]) -> set[str]:
        """Return those of these keys that live entries of a shelf have."""
        ...

    def ended_since(self, shelf: Shelf, digest: bytes, moment: datetime) -> bool:
        """Say whether an entry of this digest on a shelf ended at or after a moment."""
        ...

    def entries_as_of(self, shelf: Shelf, embedder: str, moment: datetime) -> Iterator[Indexed]:
        """Yield what an index needs of the entries that were active at a moment and still exist, by sequence.

        Exhaust it inside the work.
        """
        ...

    def entries_below(self, scope: Scope) -> Iterator[Entry]:
        """Yield the live entries at and below a scope, by sequence. Exhaust it inside the work."""
        ...

    def expired_entries(self, tenant: str, now: datetime, limit: int) -> list[Entry]:
        """Return expired entries, live or ended."""
        ...

    def vector(self, tenant: str, sequence: int, embedder: str) -> bytes | None:
        """Return the vector that an embedder made of an entry."""
        ...

    def without_vector(self, tenant: str, collection: str, embedder: str, limit: int, *, after: int = 0) -> list[Entry]:
        """Return entries of a collection, live or ended, without a vector of this embedder.

        By sequence, from the first after `after`.
        """
        ...

    def indexed_entries(
        self, tenant: str, collection: str, embedder: str, limit: int, *, after: int = 0
    ) -> list[tuple[Entry, Indexed]]:
        """Return entries of a collection, live or ended, with what an index gets of them, unchecked.

        By sequence, from the first after `after`. Entries without a vector of this embedder are left out.
        """
        ...

    def vector_counts(self, tenant: str, collection: str) -> dict[str, int]:
        """Return how many entries of a collection, live or ended, have a vector, by embedder."""
        ...

    # definitions, grants, approvals

    def tenants(self) -> list[str]:
        """Return every tenant with any rows, sorted."""
        ...

    def tenant_state(self, tenant: str) -> TenantState:
        """Return the state of the tenant's rules."""
        ...

    def definitions(self, tenant: str) -> list[Definition]:
        """Return the tenant's definitions, oldest first."""
        ...

    def grants(self, tenant: str) -> list[Grant]:
        """Return the tenant's grants, oldest first."""
        ...

    def approvals(self, tenant: str, *, after: str = "", limit: int | None = None) -> list[Approval]:
        """Return the tenant's approvals, oldest first, decided ones included, from the first after an id."""
        ...

    def approval(self, tenant: str, id: str) -> Approval | None:
        """Return one approval."""
        ...

    # sessions, idempotency, quotas, erasures

    def session(self, scope: Scope) -> Session | None:
        """Return the session of a scope, ended or not."""
        ...

    def sessions_owned(self, scope: Scope) -> list[Scope]:
        """Return the sessions that belong to a scope or to one below it, ordered by scope."""
        ...

    def replay(self, scope: Scope, key: str) -> Replay | None:
        """Return the record of an idempotency key."""
        ...

    def usage(self, tenant: str, actor: str, window: Window) -> tuple[int, int]:
        """Return the writes and bytes an actor used in a window."""
        ...

    def erasure(self, scope: Scope) -> Erasure | None:
        """Return the newest erasure of a scope or of one above it."""
        ...

    # ledger

    def content_key(self, tenant: str, scope: str) -> bytes | None:
        """Return the secret that the content of a scope is hashed with."""
        ...

    def head(self, tenant: str) -> tuple[int, str] | None:
        """Return the position and hash of the newest event."""
        ...

    def events(
        self, tenant: str, *, start: int = 1, limit: int | None = None, run: str | None = None
    ) -> Iterator[Event]:
        """Yield events by position, from `start` on; positions begin at 1. With a run, only its events.

        Exhaust it inside the work.
        """
        ...

    def run_head(self, tenant: str, run: str) -> tuple[int, str] | None:
        """Return the index and hash of a run's newest event, which has the highest position."""
        ...

    def bodies(self, tenant: str, *, run: str | None = None) -> Iterator[tuple[int, str, bytes]]:
        """Yield position, hash and hashed bytes of events, by position, unchecked.

        Exhaust it inside the work.
        """
        ...


class Transaction(Reader, Protocol):
    """A reader that also writes. It sees its own writes at once; others see them after the commit."""

    def put_fact(self, fact: Fact, payload: bytes) -> None:
        """Keep a fact, in place of the one of its key. `payload` is its value as JSON."""
        ...

    def remove_fact(self, scope: Scope, key: str) -> None:
        """Remove a fact; its revisions stay."""
        ...

    def add_revision(self, revision: Revision, payload: bytes | None) -> None:
        """Add to the history of a key."""
        ...

    def forget_revisions(self, tenant: str, now: datetime) -> int:
        """Blank the values of expired revisions, and remove the ledger's texts of them; return the number."""
        ...

    def remove_memory(self, scope: Scope) -> dict[str, int]:
        """Remove the memory at and below a scope that has ended; return counts by kind.

        Kinds: facts, revisions, entries, idempotency_keys, ledger_texts, content_keys.
        """
        ...

    def remove_replays(self, tenant: str, before: datetime) -> int:
        """Remove idempotency records made before a moment; return the number."""
        ...

    def put_collection(self, collection: Collection) -> None:
        """Keep a collection, in place of the one of its name.

        Another embedder than before changes the state of its shelves, as a removal of entries does.
        """
        ...

    def remove_collection(self, tenant: str, name: str) -> int:
        """Remove a collection with its entries, live and ended, in every scope; return the number."""
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

    def set_tenant_state(self, tenant: str, state: TenantState) -> None:
        """Keep the state of the tenant's rules."""
        ...

    def put_definition(self, definition: Definition) -> None:
        """Keep a definition, in place of the one of its id."""
        ...

    def remove_definition(self, tenant: str, id: str) -> None:
        """Remove a definition."""
        ...

    def put_grant(self, grant: Grant) -> None:
        """Keep a grant."""
        ...

    def remove_grant(self, tenant: str, id: str) -> None:
        """Remove a grant."""
        ...

    def put_approval(self, approval: Approval) -> None:
        """Keep an approval, in place of the one of its id."""
        ...

    def put_session(self, session: Session) -> None:
        """Keep a session, in place of the one of its scope."""
        ...

    def put_replay(self, replay: Replay) -> None:
        """Keep the record of an idempotency key."""
        ...

    def add_usage(self, tenant: str, actor: str, window: Window, writes: int, bytes: int) -> None:
        """Count writes and bytes against an actor's window, and remove its older windows of that length."""
        ...

    def erase_below(self, scope: Scope) -> dict[str, int]:
        """Remove everything at and below a scope; return counts by kind.

        Kinds: facts, revisions, entries, sessions, approvals, idempotency_keys, ledger_texts, content_keys.
        """
        ...

    def newest_below(self, scope: Scope) -> tuple[int, datetime | None]:
        """Return the highest version and the latest timestamp of any key or entry at or below a scope.

        The floors of earlier erasures at or below the scope count too.
        """
        ...

    def add_erasure(self, erasure: Erasure) -> None:
        """Record that a scope was erased."""
        ...

    def put_content_key(self, tenant: str, scope: str, key: bytes) -> None:
        """Keep the secret that the content of a scope is hashed with."""
        ...

    def append_events(self, events: Sequence[tuple[Event, bytes]]) -> None:
        """Append events, at least one, to a tenant's ledger; their positions must be the next ones, in order.

        Each comes with the JSON that its hash was computed of.
        """
        ...


Read = Callable[[Callable[[Reader], Any]], Any]
"""A function that runs work on one snapshot, as `Store.read` does."""


class Store(Protocol):
    """Where memory is stored."""

    @property
    def url(self) -> str:
        """The address this store was opened with, without secrets."""
        ...

    @property
    def waits(self) -> bool:
        """Whether reading even one row has to wait, as over a network: an event loop then reads in a thread."""
        ...

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run work in one transaction: it is durable when this returns, or it has changed nothing.

        Works of several callers may share one commit; an exception in one undoes only that one. Work may run in
        another caller's thread: it must not wait for a lock that its caller holds, nor call the store again.
        """
        ...

    def attempt(self, work: Callable[[Transaction], T]) -> T:
        """Run `transact` without waiting; if work would have to wait, raise `Busy` before it begins.

        It is for callers that must not block, such as an event loop, and can try again in a thread.
        """
        ...

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run work on one snapshot."""
        ...

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact of a key, expired or not: `read` for the most frequent query."""
        ...

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return the state of a shelf: `read` for what every recall asks twice."""
        ...

    def collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection: `read` for what most calls of `remember` ask before they embed."""
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

    def scrub(self) -> bool:
        """Rewrite the storage without removed content; say whether that was possible."""
        ...

    def close(self) -> None:
        """Close the store. Closing twice is allowed."""
        ...
