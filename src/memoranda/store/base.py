"""What every store promises: rows kept whole, read in one moment, written together or not at all.

A store keeps and finds; it does not decide. What a write *means* (versions, expiry, compare-and-set) is said
once, in `memoranda.engine`, in terms of the small verbs below. So a new backend is these verbs and nothing else,
and `memoranda.testing.conformance` says whether it kept its promises.

Tenants are the outer wall: every verb names one, directly or through its scope, and never sees another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from memoranda.model.approval import Approval
from memoranda.model.collection import Collection
from memoranda.model.definition import Definition
from memoranda.model.entry import Entry, Indexed, NewEntry, Shelf, ShelfState
from memoranda.model.event import Event
from memoranda.model.fact import Fact, Origin, Revision
from memoranda.model.policy import Grant
from memoranda.model.scope import Scope

T = TypeVar("T")


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A scope that comes to an end, and the scope it belongs to."""

    scope: Scope
    owner: Scope | None
    started_at: datetime
    ended_at: datetime | None = None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What an idempotency key stood for: a hash of the request, and where its results are to be found."""

    scope: Scope
    key: str
    request: str
    results: tuple[tuple[str, int | None], ...]
    """Per write: the fact's key and its version, or None where nothing was there to delete."""
    at: datetime


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """That a scope was erased: when, and the highest version that was used there, never to be used again."""

    id: str
    scope: Scope
    at: datetime
    version_floor: int


class Window(msgspec.Struct, frozen=True):
    """A span of time that a quota counts in."""

    seconds: int
    begins: datetime


class TenantState(msgspec.Struct, frozen=True, gc=False):
    """What tells one state of a tenant's rules from another.

    `revision` is another number after each change of definitions or grants, never the same again, not even when
    a change is undone: what was compiled for a number fits that number only. 0 means that there were never any.
    `epoch` counts the changes of grants.
    """

    revision: int = 0
    epoch: int = 0


def text_place(event: Event) -> tuple[str, str | None, int | None]:
    """Return what the text of an event is found by once it has to go: scope, key and version.

    A fact may be called like a collection, `collections.notes`, and its version be the number of an entry there. So
    numbers of entries are negative here.
    """
    number = event.version
    if event.effect == "remember" and number is not None:
        number = -number
    return event.scope, event.key, number


class Reader(Protocol):
    """One consistent moment of the store."""

    # facts and their history

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact at this key, expired or not."""
        ...

    def bare_fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact at this key without its value and origin, expired or not: enough to take its place."""
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
        """Return the facts active now at and below a key, ordered by key, from the first one after `after`."""
        ...

    def facts_as_of(
        self, scope: Scope, moment: datetime, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[Fact]:
        """Return the facts that were active at a moment at and below a key, ordered by key, after `after`."""
        ...

    def facts_below(self, scope: Scope) -> Iterator[Fact]:
        """Yield every fact at and below a scope, expired or not, by scope and key. Use it up inside the work."""
        ...

    def facts_named(
        self, tenant: str, key: str, *, below: str = "", after: str | None = None, limit: int | None = None
    ) -> list[Fact]:
        """Return every fact of this key in any scope of the tenant, expired or not, ordered by scope.

        With the path of a scope, only those that lie strictly below it. `after` is the path of the last scope seen.
        """
        ...

    def facts_owned(self, owner: Scope, key: str) -> list[Fact]:
        """Return the facts of this key in the sessions of a scope and of those below it, expired or not, by scope."""
        ...

    def expired(self, tenant: str, now: datetime, limit: int) -> list[Fact]:
        """Return facts whose expiry is not after now."""
        ...

    def revisions(self, scope: Scope, key: str, *, after: int = 0, limit: int | None = None) -> list[Revision]:
        """Return the revisions of a key, oldest first, from the first one after a version."""
        ...

    def newest_revisions(
        self, scope: Scope, key: str, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        """Return the revisions of a key, newest first, from the first one before a version."""
        ...

    def revision(self, scope: Scope, key: str, version: int) -> Revision | None:
        """Return one revision."""
        ...

    def revision_at(self, scope: Scope, key: str, moment: datetime) -> Revision | None:
        """Return the revision that stood at a moment: the newest one made at or before it."""
        ...

    def revisions_below(self, scope: Scope) -> Iterator[Revision]:
        """Yield every revision at and below a scope, by scope, key and version. Use it up inside the work."""
        ...

    def last_version(self, scope: Scope, key: str) -> int:
        """Return the highest version this key ever had, 0 if none."""
        ...

    # collections and their entries

    def collections(self, tenant: str) -> list[Collection]:
        """Return the tenant's collections, by name."""
        ...

    def collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection."""
        ...

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return what tells this state of a shelf from any other."""
        ...

    def shelves(self, tenant: str, collection: str) -> list[tuple[Shelf, int]]:
        """Return each (scope, namespace) of a collection where entries stand, ordered, with their number."""
        ...

    def indexed(self, shelf: Shelf, embedder: str, *, after: int = 0) -> Iterator[Indexed]:
        """Yield what an index needs of the entries that stand on a shelf, by sequence, from the first after `after`.

        Expired ones too, as long as they are not removed. Entries without a vector of this embedder are left out.
        Use it up inside the work. One that says about how many there are (`operator.length_hint`) saves memory.
        """
        ...

    def standing(self, shelf: Shelf) -> list[int]:
        """Return the sequences of the entries that stand on a shelf, expired or not, ascending."""
        ...

    def entries(self, tenant: str, sequences: Sequence[int]) -> list[Entry]:
        """Return the entries of these sequences that are there, ended ones too, in no particular order."""
        ...

    def entry(self, tenant: str, id: str) -> Entry | None:
        """Return one entry by id, ended or not."""
        ...

    def entry_of_key(self, shelf: Shelf, key: str) -> Entry | None:
        """Return the entry that stands under a key in the shelf's namespace, expired or not."""
        ...

    def entries_alike(self, shelf: Shelf, digest: bytes) -> list[Entry]:
        """Return the entries with this digest that stand in the shelf's namespace, expired or not, oldest first."""
        ...

    def known_digests(self, shelf: Shelf, digests: Sequence[bytes]) -> set[bytes]:
        """Return those of these digests under which entries stand in the shelf's namespace, expired or not."""
        ...

    def known_keys(self, shelf: Shelf, keys: Sequence[str]) -> set[str]:
        """Return those of these keys under which entries stand in the shelf's namespace, expired or not."""
        ...

    def ended_since(self, shelf: Shelf, digest: bytes, moment: datetime) -> bool:
        """Say whether an entry with this digest in the shelf's namespace ended at or after a moment."""
        ...

    def entries_as_of(self, shelf: Shelf, embedder: str, moment: datetime) -> Iterator[Indexed]:
        """Yield what an index needs of the entries that were active at a moment, by sequence, as far as they are kept.

        Use it up inside the work.
        """
        ...

    def entries_below(self, scope: Scope) -> Iterator[Entry]:
        """Yield the entries that stand at and below a scope, expired or not, by sequence. Use it up inside the work."""
        ...

    def expired_entries(self, tenant: str, now: datetime, limit: int) -> list[Entry]:
        """Return entries, standing or ended, whose expiry is not after now."""
        ...

    def vector(self, tenant: str, sequence: int, embedder: str) -> bytes | None:
        """Return the vector that an embedder made of an entry."""
        ...

    def without_vector(self, tenant: str, collection: str, embedder: str, limit: int, *, after: int = 0) -> list[Entry]:
        """Return entries of a collection, standing or ended, that have no vector of this embedder.

        By sequence, from the first after `after`.
        """
        ...

    def indexed_entries(
        self, tenant: str, collection: str, embedder: str, limit: int, *, after: int = 0
    ) -> list[tuple[Entry, Indexed]]:
        """Return entries of a collection, standing or ended, with what an index is given of them, unchecked.

        By sequence, from the first after `after`. Entries without a vector of this embedder are left out.
        """
        ...

    def vector_counts(self, tenant: str, collection: str) -> dict[str, int]:
        """Return how many entries of a collection, standing or ended, have a vector, by embedder."""
        ...

    # definitions, grants, approvals

    def tenants(self) -> list[str]:
        """Return every tenant that has anything here, sorted."""
        ...

    def tenant_state(self, tenant: str) -> TenantState:
        """Return how often the tenant's rules changed."""
        ...

    def definitions(self, tenant: str) -> list[Definition]:
        """Return the tenant's definitions, oldest first."""
        ...

    def grants(self, tenant: str) -> list[Grant]:
        """Return the tenant's grants, oldest first."""
        ...

    def approvals(self, tenant: str, *, after: str = "", limit: int | None = None) -> list[Approval]:
        """Return the tenant's approvals, oldest first, decided ones included, from the first after the one of an id."""
        ...

    def approval(self, tenant: str, id: str) -> Approval | None:
        """Return one approval."""
        ...

    # sessions, idempotency, quotas, erasures

    def session(self, scope: Scope) -> Session | None:
        """Return the session of this scope, ended or not."""
        ...

    def sessions_owned(self, scope: Scope) -> list[Scope]:
        """Return the sessions that belong to this scope or to one below it, ordered by scope."""
        ...

    def replay(self, scope: Scope, key: str) -> Replay | None:
        """Return what this idempotency key stood for."""
        ...

    def usage(self, tenant: str, actor: str, window: Window) -> tuple[int, int]:
        """Return the writes and bytes an actor used in a window."""
        ...

    def erasure(self, scope: Scope) -> Erasure | None:
        """Return the newest erasure of this scope or of one above it."""
        ...

    # ledger

    def content_key(self, tenant: str, scope: str) -> bytes | None:
        """Return the secret that the content of this scope is hashed with."""
        ...

    def head(self, tenant: str) -> tuple[int, str] | None:
        """Return the position and hash of the newest event."""
        ...

    def events(
        self, tenant: str, *, start: int = 1, limit: int | None = None, run: str | None = None
    ) -> Iterator[Event]:
        """Yield events by position, from `start` on; positions begin at 1. With a run, its events alone.

        Use it up inside the work.
        """
        ...

    def run_head(self, tenant: str, run: str) -> tuple[int, str] | None:
        """Return the index and hash of a run's newest event: that of the highest position."""
        ...

    def bodies(self, tenant: str, *, run: str | None = None) -> Iterator[tuple[int, str, bytes]]:
        """Yield position, hash and hashed bytes of events, by position, as they are kept: nothing is checked.

        Use it up inside the work.
        """
        ...


class Transaction(Reader, Protocol):
    """A reader that also writes. What it writes is seen by itself at once, by others after the commit."""

    def put_fact(self, fact: Fact, payload: bytes) -> None:
        """Keep a fact, in place of the one at its key. `payload` is its value as JSON."""
        ...

    def remove_fact(self, scope: Scope, key: str) -> None:
        """Drop a fact; its revisions stay."""
        ...

    def add_revision(self, revision: Revision, payload: bytes | None) -> None:
        """Add to the history of a key."""
        ...

    def forget_revisions(self, tenant: str, now: datetime) -> int:
        """Blank the values of revisions whose own expiry is not after now, and the ledger's texts of them.

        Return how many revisions.
        """
        ...

    def remove_memory(self, scope: Scope) -> dict[str, int]:
        """Drop the memory at and below a scope, which has ended; return counts by kind.

        Kinds: facts, revisions, entries, idempotency_keys, ledger_texts, content_keys.
        """
        ...

    def remove_replays(self, tenant: str, before: datetime) -> int:
        """Drop idempotency records made before a moment; return how many."""
        ...

    def put_collection(self, collection: Collection) -> None:
        """Keep a collection, in place of the one of its name.

        With another embedder than before, the state of its shelves is another one too, as if entries were removed.
        """
        ...

    def remove_collection(self, tenant: str, name: str) -> int:
        """Drop a collection with its entries, standing and ended, in every scope; return how many."""
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
        """Keep new entries, one at least, in the shelf's namespace, each with the vectors these embedders made of it.

        Return their sequences: ascending, and higher than any given before in this store.
        """
        ...

    def put_vector(self, tenant: str, sequence: int, embedder: str, vector: bytes) -> None:
        """Keep the vector that an embedder made of an entry; of one that is gone, nothing."""
        ...

    def remove_vectors(self, tenant: str, collection: str, embedder: str) -> int:
        """Drop the vectors that an embedder made of a collection's entries; return how many."""
        ...

    def end_entry(self, tenant: str, sequence: int, at: datetime) -> None:
        """Let an entry end; it stays readable as of earlier moments."""
        ...

    def remove_entry(self, tenant: str, sequence: int) -> None:
        """Drop an entry with its vectors, and the ledger's text of it."""
        ...

    def set_tenant_state(self, tenant: str, state: TenantState) -> None:
        """Keep how often the tenant's rules changed."""
        ...

    def put_definition(self, definition: Definition) -> None:
        """Keep a definition, in place of the one of its id."""
        ...

    def remove_definition(self, tenant: str, id: str) -> None:
        """Drop a definition."""
        ...

    def put_grant(self, grant: Grant) -> None:
        """Keep a grant."""
        ...

    def remove_grant(self, tenant: str, id: str) -> None:
        """Drop a grant."""
        ...

    def put_approval(self, approval: Approval) -> None:
        """Keep an approval, in place of the one of its id."""
        ...

    def put_session(self, session: Session) -> None:
        """Keep a session, in place of the one of its scope."""
        ...

    def put_replay(self, replay: Replay) -> None:
        """Keep what an idempotency key stood for."""
        ...

    def add_usage(self, tenant: str, actor: str, window: Window, writes: int, bytes: int) -> None:
        """Count writes and bytes against an actor's window, and drop the actor's older windows of that length."""
        ...

    def erase_below(self, scope: Scope) -> dict[str, int]:
        """Drop all at and below a scope; return counts by kind.

        Kinds: facts, revisions, entries, sessions, approvals, idempotency_keys, ledger_texts, content_keys.
        """
        ...

    def newest_below(self, scope: Scope) -> tuple[int, datetime | None]:
        """Return the highest version and the latest stamp that any key or entry at or below a scope ever had.

        The floors of earlier erasures at or below the scope count too: what was erased was used.
        """
        ...

    def add_erasure(self, erasure: Erasure) -> None:
        """Keep the fact that a scope was erased."""
        ...

    def put_content_key(self, tenant: str, scope: str, key: bytes) -> None:
        """Keep the secret that the content of a scope is hashed with."""
        ...

    def append_events(self, events: Sequence[tuple[Event, bytes]]) -> None:
        """Append to a tenant's ledger; the positions must be the next ones, in order.

        Beside each event is the JSON that its hash is taken over. At least one event is given.
        """
        ...


Read = Callable[[Callable[[Reader], Any]], Any]
"""What runs work on one consistent moment, as `Store.read` does."""


class Store(Protocol):
    """Where memory is kept."""

    @property
    def url(self) -> str:
        """What this store was opened with, without secrets."""
        ...

    @property
    def waits(self) -> bool:
        """Whether even one row is waited for, as over a network: an event loop then reads in a thread."""
        ...

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run work in one transaction: all of it is kept, durably, before this returns, or none of it.

        Work may be joined with other callers' into one commit; an exception from it undoes it alone. It may run in
        another caller's thread: it must not wait for a lock its caller holds, nor call the store again.
        """
        ...

    def attempt(self, work: Callable[[Transaction], T]) -> T:
        """Do as `transact` does, at once; where work would have to wait, raise `Busy` before it has begun.

        It is for those who must not be held up, such as an event loop, and who can come back from a thread.
        """
        ...

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run work on one consistent moment."""
        ...

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact at this key, expired or not: `read` for the one question asked most."""
        ...

    def shelf_state(self, shelf: Shelf) -> ShelfState:
        """Return what tells this state of a shelf from any other: `read` for what every recall asks twice."""
        ...

    def collection(self, tenant: str, name: str) -> Collection | None:
        """Return one collection: `read` for what most that remember ask before they embed."""
        ...

    def mark(self, tenant: str | None = None) -> Hashable:
        """Return a mark that is another one once anybody has written anything, so that what was read can be kept.

        That of a tenant need only tell what was written there, which is never done without an event in its ledger. Ask
        for it before reading: while it stays the same, so does what was read. It may change for no reason.
        """
        ...

    def check(self) -> Sequence[str]:
        """Look for damage; return what was found, in words."""
        ...

    def warnings(self) -> Sequence[str]:
        """Name what is not damage and still puts the store at risk, such as a role with too many rights."""
        ...

    def scrub(self) -> bool:
        """Rewrite storage so that removed content is gone from its bytes; say whether that could be done now."""
        ...

    def close(self) -> None:
        """Let go of the store. Closing twice is allowed."""
        ...
