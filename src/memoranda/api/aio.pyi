"""The same memory for asyncio. Made by tools/async_types.py from the handles: change those."""

import builtins
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, overload

from memoranda.api.arguments import CHUNK
from memoranda.api.memory import DEFAULT_EMBEDDER, Durability, LedgerMode, ReadFrom
from memoranda.engine.batch import Result
from memoranda.engine.collections import Comparison
from memoranda.engine.definitions import SHOWN_RECORDS
from memoranda.engine.erasure import Receipt, Swept
from memoranda.governance.approvals import Decided
from memoranda.governance.detection import Detection
from memoranda.governance.maintenance import Finding
from memoranda.model.block import Block, BlockMatch, BlockScope, BlockType
from memoranda.model.clock import Clock, Duration, Ids
from memoranda.model.context import Context
from memoranda.model.definition import Definition, OnStale, SchemaCheck
from memoranda.model.definition import Mode as DefinitionsMode
from memoranda.model.effect import Approval, Contested, Effect, Status
from memoranda.model.entry import (
    NOTES,
    Collection,
    Entry,
    Forgotten,
    Holding,
    Kind,
    Recalled,
    Remembered,
    Restored,
    Superseded,
)
from memoranda.model.entry import Mode as ScopedMemoryMode
from memoranda.model.event import (
    Anchor,
    Event,
    Language,
    RunEvent,
    RunStatus,
    RunStep,
    RunSummary,
    RunVerification,
    Verification,
)
from memoranda.model.fact import Fact, Revision
from memoranda.model.guard import Action, GuardPolicy, GuardRule
from memoranda.model.lesson import Learned
from memoranda.model.limits import Limits
from memoranda.model.lineage import Deletion, Lineage, Rollback, Tainted, Validated
from memoranda.model.policy import Grant, Level, Policy, Role, Rule
from memoranda.model.probes import LeakProbes
from memoranda.model.rejection import Rejection
from memoranda.model.scope import DEFAULT_TENANT, Scope
from memoranda.model.transfer import Imported
from memoranda.model.trust import ORIGIN_KINDS, OriginKind, Trust
from memoranda.retrieval.embed.base import Embedder

class AsyncHandle:
    """A sync handle whose calls are awaited."""

    def __init__(self, handle: Any) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

class AsyncMemory(AsyncHandle):
    """What `memoranda.open` returns. A context manager; closing it twice is allowed."""

    url: str
    @classmethod
    async def open(
        cls,
        url: str | os.PathLike[str] = "memory.db",
        *,
        tenant: str = DEFAULT_TENANT,
        clock: Clock | None = None,
        ids: Ids | None = None,
        limits: Limits | None = None,
        embedder: str | Embedder = DEFAULT_EMBEDDER,
        ledger: LedgerMode = "writes",
        ledger_text: bool = False,
        durability: Durability = "full",
        busy_timeout: float = 5.0,
        pool: int = 16,
        statement_timeout: float | None = None,
        read_from: ReadFrom = "primary",
        cache: str | os.PathLike[str] | None = "auto",
    ) -> Self:
        """Open the memory at an address: a file path, `postgresql://user@host/database`, or `:memory:`."""
    @property
    def tenant(self) -> str:
        """The tenant of this handle."""
    @property
    def waits(self) -> bool:
        """Whether even reading one fact waits, as with PostgreSQL: an event loop then reads in a thread."""
    @property
    def actor(self) -> str:
        """The actor of this handle."""
    @property
    def is_owner(self) -> bool:
        """Whether this is the handle of the program that opened the store, not a narrower one."""
    @property
    def limits(self) -> Limits:
        """The limits on sizes."""
    @property
    def clock(self) -> Clock:
        """The source of time."""
    @property
    def ids(self) -> Ids:
        """The source of ids."""
    def scope(self, *, tenant: str | None = None, **ids: str) -> AsyncScopedMemory:
        """Return the memory of a user, agent, project, tree, workflow, thread, run or session."""
    def at(self, scope: Scope | str) -> AsyncScopedMemory:
        """Return the memory of a scope, given as a value or as text such as `user:ada/agent:emails` or `shared`."""
    def batch(self, *, idempotency_key: str | None = None) -> AsyncBatch:
        """Return a batch of writes that are committed together, all or nothing, when its `with` block ends."""
    async def scopes(self, *, prefix: str = "", after: str = "", limit: int | None = None) -> list[Scope]:
        """Return the scopes that have facts or entries, ordered by path; it takes the right to read all of them."""
    @property
    def collections(self) -> AsyncCollections:
        """The collections of entries, and their embedders."""
    @property
    def definitions(self) -> AsyncDefinitions:
        """The contracts of keys."""
    @property
    def ledger(self) -> AsyncLedger:
        """What happened, in order, provably."""
    @property
    def permissions(self) -> AsyncPermissions:
        """Who may do what."""
    @property
    def roles(self) -> AsyncRoles:
        """Named sets of permissions, for keys, tokens and users."""
    @property
    def approvals(self) -> AsyncApprovals:
        """What waits for a decision."""
    @property
    def guard(self) -> AsyncGuard:
        """What is looked for in writes, and what then happens."""
    @property
    def quarantine(self) -> AsyncQuarantine:
        """What the guard held back."""
    async def conflicts(self, scope: Scope | None = None) -> list[Contested]:
        """Return the writes that wait because they contradict something more trusted, each with what is current."""
    async def resolve(self, conflict: str, verdict: Literal["keep", "take"], *, reason: str = "") -> Decided:
        """Decide a conflict: keep what is current, or take what was proposed; return the decision and its result."""
    async def taint(
        self,
        *,
        ref: str | None = None,
        actor: str | None = None,
        source: str | None = None,
        origin: OriginKind | None = None,
        event: int | None = None,
        run: str | None = None,
        scope: Scope | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> Tainted:
        """Quarantine what one of these names, with all that was derived from it, in one transaction."""
    async def undo(self, done: Tainted | str) -> Restored:
        """Bring back what a taint ended, with its origins, by its result or its `undo`."""
    @property
    def runs(self) -> AsyncRuns:
        """The runs of machines and workflows."""
    def acting_as(
        self,
        actor: str,
        *,
        policy: Policy | None = None,
        role: str | None = None,
        own: Sequence[Scope] | None = None,
        also: Sequence[tuple[str, Rule]] = (),
        door: str | None = None,
        source: str | None = None,
        origin: OriginKind | None = None,
    ) -> AsyncMemory:
        """Return a handle for another actor, under this policy, this role, or what is granted to the actor."""
    def from_origin(self, origin: OriginKind) -> AsyncMemory:
        """Return a handle for the same actor that passes on what comes from another origin: it is trusted no more."""
    async def passing_on(self, origin: OriginKind | None) -> AsyncMemory:
        """Return a handle for what a program stores of a value that is from a tool, or was read; None is its own."""
    def for_model(self, told: Trust = "high") -> AsyncMemory:
        """Return a handle for what a model writes that was told memory of at least this trust."""
    def in_tenant(self, tenant: str) -> AsyncMemory:
        """Return the owner's handle in another tenant, on the same store; other handles stay in their tenant."""
    def narrowed(self, policy: Policy) -> AsyncMemory:
        """Return a handle for the same actor under one more policy; all of them must agree to an effect."""
    def through(self, door: str, *, origin: OriginKind | None = None) -> AsyncMemory:
        """Return a handle whose events say that they came through this door: `cli`, `rest` or `abl`."""
    def at_once(self) -> AsyncMemory:
        """Return a handle that does not block: a write that would have to wait raises `Busy` instead."""
    def at_epoch(self, epoch: int) -> AsyncMemory:
        """Return a handle whose writes raise `StaleEpoch` where permissions have changed since this epoch."""
    async def observed(self, observe: Callable[[Effect, Any], None]) -> AsyncMemory:
        """Return a handle that tells a function of every effect that was carried out, and what it returned."""
    async def erase(self, *, tenant: str | None = None, **ids: str) -> Receipt:
        """Remove everything of a user, project, session… history included; return what was removed, by kind."""
    async def sweep(self) -> Swept:
        """Remove what has expired; return counts by kind."""
    async def scrub(self) -> bool:
        """Rewrite storage so that removed content is gone from its bytes; return whether that could be done now."""
    async def finish_migration(self) -> bool:
        """Finish the migration of a PostgreSQL database once no older program uses it; return whether there was one."""
    async def inspect(self) -> list[Finding]:
        """Check for damage: the file, every chain, facts and entries, and their vectors and words."""
    async def tenants(self) -> list[str]:
        """Return the tenants that have any data, by name; a handle that is confined to one returns only that one."""
    async def mark(self, *, tenant: str | None = None) -> Hashable:
        """Return a mark that changes with every write: while it is the same, cached reads are valid."""
    async def staleness(self) -> float:
        """Return how many seconds what is read may be behind what was written by others: 0.0 without standbys."""
    async def settle(self) -> None:
        """Wait for everything that happens in the background."""
    async def export(self, path: str | Path, *, scope: Scope | None = None) -> int:
        """Write the active facts and entries at and below a scope, and all definitions, to a JSON Lines file."""
    async def export_lines(self, take: Callable[[Iterator[bytes]], Any], *, scope: Scope | None = None) -> Any:
        """Pass the lines of an export to `take`, as an iterator, and return what it returns."""
    async def import_file(self, path: str | Path) -> Imported:
        """Import an export file, all or nothing. What was erased since it was made stays erased."""
    async def import_lines(self, lines: Iterable[bytes], *, source: str) -> Imported:
        """Import the lines of an export, all or nothing."""
    async def close(self) -> None:
        """Write deferred events and close the store."""
    async def may(self, effect: Effect) -> bool:
        """Return whether this handle's policies allow an effect; nothing is done, and nothing recorded."""
    async def level(self, effect: Effect) -> Level:
        """Return what this handle's policies say about an effect; nothing is done, and nothing recorded."""
    async def reason(self, effect: Effect) -> str:
        """Return why this handle's policies refuse an effect; empty if they do not. Nothing is recorded."""
    @property
    def root(self) -> object:
        """An object that is the same for every handle on one opened memory."""
    async def record_prompt(self, scope: Scope, refs: Mapping[str, int], *, to: str) -> None:
        """Note in the ledger what a prompt showed of memory, so that `taint` finds it: refs and versions of facts."""
    async def perform(self, effect: Effect) -> Any:
        """Carry out an effect as this handle's actor; the languages and other doors use this."""

class AsyncScopedMemory(AsyncHandle):
    """One scope: facts by key (get, set, update, delete, list, history), entries by meaning (remember, recall)."""

    scope: Scope
    @property
    def blocks(self) -> AsyncBlocks:
        """The memory blocks of this user, or of this user and agent: texts that are replaced whole."""
    async def get(self, key: str, *, as_of: datetime | str | None = None) -> Fact | None:
        """Return the fact at a key, now or as of a moment; None if there is none."""
    async def value(self, key: str, default: Any = None, *, as_of: datetime | str | None = None) -> Any:
        """Return the value at a key, or the default."""
    async def set(
        self,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl: Duration | None = None,
        domain: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
        derived_from: Sequence[str] = (),
        requires_confirmation: bool = False,
    ) -> Fact:
        """Write a fact and return it. `expect` is the version it must be at; 0 means it must not exist."""
    async def create(self, key: str, value: Any, *, ttl: Duration | None = None, domain: str | None = None) -> Fact:
        """Write a fact that must not exist yet; raise Conflict if it does."""
    async def update(
        self,
        key: str,
        change: Callable[[Any], Any],
        *,
        default: Any = ...,
        ttl: Duration | None = None,
        domain: str | None = None,
        attempts: int = 1000,
        derived_from: Sequence[str] = (),
    ) -> Fact:
        """Read a value, pass it to `change`, and write what that returns; start over if it was changed meanwhile."""
    async def delete(
        self, key: str, *, expect: int | None = None, source: str | None = None, idempotency_key: str | None = None
    ) -> bool:
        """Delete a fact and return whether there was one. Its history stays; `memory.erase` removes that too."""
    async def list(
        self,
        prefix: str = "",
        *,
        domain: str | None = None,
        after: str = "",
        limit: int | None = None,
        max_bytes: int | None = None,
        as_of: datetime | str | None = None,
        internal: bool = False,
    ) -> list[Fact]:
        """Return the facts at and below a key, ordered by key: `profile.name` is below `profile`, `profiler` is not."""
    async def history(
        self,
        key: str,
        *,
        after: int = 0,
        before: int | None = None,
        newest: bool = False,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> builtins.list[Revision]:
        """Return the revisions of a key, oldest first: what it was, since when, by whom."""
    async def remember(
        self,
        content: Any,
        *,
        collection: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        key: str | None = None,
        replaces: str | None = None,
        chunk: int | bool | None = None,
        source: str | None = None,
        derived_from: Sequence[str] = (),
        requires_confirmation: bool = False,
    ) -> Remembered:
        """Store text or JSON so that `recall` finds it by meaning; a collection is made on first use."""
    async def remember_many(
        self,
        items: Iterable[Mapping[str, Any]],
        *,
        collection: str = NOTES,
        namespace: str = "",
        ttl: Duration | None = None,
        source: str | None = None,
        derived_from: Sequence[str] = (),
    ) -> builtins.list[Remembered]:
        """Store many things, all or nothing: maps with `content`, and `metadata` and `key` where there are any."""
    async def remember_text(
        self,
        text: str,
        *,
        collection: str = NOTES,
        chunk: int = CHUNK,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        source: str | None = None,
    ) -> builtins.list[Remembered]:
        """Store a long text in parts of at most `chunk` characters, cut between paragraphs or sentences."""
    async def recall(
        self,
        query: str,
        *,
        collection: str | None = None,
        namespace: str | None = None,
        kinds: Sequence[Kind] | None = None,
        collections: Sequence[str] | None = None,
        scopes: Sequence[str | Scope | AsyncScopedMemory] | None = None,
        limit: int = 5,
        threshold: float = 0.0,
        filter: Mapping[str, Any] | None = None,
        as_of: datetime | str | None = None,
        mode: ScopedMemoryMode = "hybrid",
        expand: int = 0,
        offset: int = 0,
        max_bytes: int | None = None,
        min_trust: Trust = "untrusted",
        exact: bool = False,
    ) -> Recalled:
        """Return what was remembered that answers a query, best first, each with a score from 0 to 1 and why."""
    async def context(
        self,
        query: str = "",
        *,
        budget: int = 1500,
        definitions: Sequence[str] = (),
        kinds: Sequence[Kind] | None = None,
        collections: Sequence[str] | None = None,
        scopes: Sequence[str | Scope | AsyncScopedMemory] = (),
        limit: int = 12,
        threshold: float | None = None,
        core: bool = True,
        count_tokens: Callable[[str], int] | None = None,
        min_trust: Trust = "untrusted",
    ) -> Context:
        """Return what an agent should be told now, as text for its prompt and as items."""
    async def learn(
        self,
        messages: object,
        *,
        conversation: str | None = None,
        agent: str | None = None,
        model: object = None,
        at: datetime | str | float | None = None,
        source: str | None = None,
    ) -> Learned:
        """Learn from a conversation: keep its messages, and bring what the user stated up to date."""
    async def supersede(
        self,
        ref: str | None = None,
        content: Any = None,
        *,
        about: str | None = None,
        collection: str = NOTES,
        metadata: Mapping[str, Any] | None = None,
        ttl: Duration | None = None,
        source: str | None = None,
    ) -> Superseded:
        """Put something else in the place of what a ref names; raise Conflict if that was superseded already."""
    async def entry(
        self, ref: str | None = None, *, collection: str | None = None, key: str | None = None, namespace: str = ""
    ) -> Entry | None:
        """Return a current entry, by its ref or id, or by its key in a collection; None if there is none."""
    async def entry_history(
        self, ref: str, *, limit: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[Entry]:
        """Return the chain of an entry, oldest first: what it replaced, itself, and what replaced it."""
    async def entries(
        self,
        *,
        collection: str | None = None,
        namespace: str | None = None,
        filter: Mapping[str, Any] | None = None,
        newest: bool = False,
        after: int = 0,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> builtins.list[Entry]:
        """Return entries in the order they came, of one collection or of all; with `newest` the newest first."""
    async def collections(self, *, prefix: str = "") -> builtins.list[Holding]:
        """Return the collections in which this scope has entries, by name, with the number of these."""
    async def namespaces(self, *, collection: str | None = None, prefix: str = "") -> builtins.list[str]:
        """Return the namespaces that have entries, by name, of one collection or of all."""
    async def forget(
        self,
        id: str | None = None,
        *,
        collection: str | None = None,
        key: str | None = None,
        namespace: str | None = None,
        where: Mapping[str, Any] | None = None,
        identifier: str | None = None,
        inside: bool = False,
        about: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget what one of these names, all of it or nothing; the result is false if there was nothing."""
    async def leak_probes(self, content: str) -> LeakProbes:
        """Return where a text is left, place by place; None is a place that was not tested."""
    async def undo(self, done: Forgotten | Superseded | Remembered | Learned | Rejection | Tainted | str) -> Restored:
        """Bring back what a forget, a supersede or a learn ended, all of it or nothing, by its result or its `undo`."""
    async def reject(self, value: Any, *, key: str | None = None, reason: str = "") -> Rejection:
        """End a value here and below, and keep it from coming back until the rejection is withdrawn."""
    async def withdraw(self, rejection: Rejection | str) -> Rejection:
        """Take a rejection of this scope back; what it ended stays ended until it is undone."""
    async def rejections(self) -> builtins.list[Rejection]:
        """Return what was rejected here and below, oldest first: who did it, when and why, and never the value."""
    async def lineage(self, ref: str) -> Lineage:
        """Return what something was derived from, and what was derived from it, each with how far it is trusted."""
    async def copy(self, ref: str, *, to: Scope | str | AsyncScopedMemory) -> Remembered | Fact:
        """Copy an entry or a fact to another scope: it is trusted no more there, and is forgotten with the original."""
    async def validate(self, ref: str, *, expect: int | None = None, reason: str = "") -> Validated:
        """Trust an entry or a fact as far as this principal is trusted, who has to be a user and not its writer."""
    def batch(self, *, idempotency_key: str | None = None) -> AsyncScopedBatch:
        """Return a batch of writes of this scope, committed together when its `with` block ends, all or nothing."""
    async def session(self, id: str) -> AsyncScopedMemory:
        """Begin or resume a session that belongs to this scope; erasing this scope erases it too."""
    async def end(self) -> dict[str, int]:
        """End this session, run or tree: its memory is removed, and nothing can be written to it again."""

class AsyncBatch(AsyncHandle):
    """A batch: collects writes in a `with` block, and commits them together when it ends without an error."""

    results: list[Result]
    def set(
        self,
        place: AsyncScopedMemory,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl: Duration | None = None,
        domain: str | None = None,
    ) -> None:
        """Add a write of a fact."""
    def delete(self, place: AsyncScopedMemory, key: str, *, expect: int | None = None) -> None:
        """Add a delete of a fact."""
    def remember(
        self,
        place: AsyncScopedMemory,
        content: Any,
        *,
        collection: str,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        key: str | None = None,
    ) -> None:
        """Add an entry to remember."""
    def forget(
        self,
        place: AsyncScopedMemory,
        id: str | None = None,
        *,
        collection: str | None = None,
        key: str | None = None,
        namespace: str | None = None,
        where: Mapping[str, Any] | None = None,
        identifier: str | None = None,
    ) -> None:
        """Add something to forget."""

class AsyncScopedBatch(AsyncHandle):
    """A batch of writes of one scope: what `memory.scope(user="ada").batch()` returns."""

    @property
    def results(self) -> list[Result]:
        """After the block, the result of each write."""
    def set(
        self, key: str, value: Any, *, expect: int | None = None, ttl: Duration | None = None, domain: str | None = None
    ) -> None:
        """Add a write of a fact."""
    def delete(self, key: str, *, expect: int | None = None) -> None:
        """Add a delete of a fact."""
    def remember(
        self,
        content: Any,
        *,
        collection: str,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        key: str | None = None,
    ) -> None:
        """Add an entry to remember."""
    def forget(
        self,
        id: str | None = None,
        *,
        collection: str | None = None,
        key: str | None = None,
        namespace: str | None = None,
        where: Mapping[str, Any] | None = None,
        identifier: str | None = None,
    ) -> None:
        """Add something to forget."""

class AsyncBlocks(AsyncHandle):
    """The blocks `core` and `archival` of one scope: `memory.scope(user="ada").blocks`, with `agent=` of that agent."""

    async def get(self, block: BlockType) -> Block | None:
        """Return a block; None when there is none."""
    async def list(self, *, scope: BlockScope | Literal["all"] | None = None) -> builtins.list[Block]:
        """Return the blocks of this scope."""
    async def update(
        self,
        block: BlockType,
        content: str,
        *,
        expected_updated_at: datetime | str | None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> Block:
        """Replace the whole text of a block, if it has not changed since it was read; otherwise raise Conflict."""
    async def delete(
        self, block: BlockType, *, expected_updated_at: datetime | str | None = None, source: str | None = None
    ) -> bool:
        """Delete a block and return whether there was one; with a stamp, only if it has not changed since."""
    async def recall(
        self, query: str, *, agent: str | None = None, limit: int = 10, min_score: float | None = None
    ) -> builtins.list[BlockMatch]:
        """Return the lines of the archival block that contain words of a query, best first."""
    async def history(
        self,
        block: BlockType,
        *,
        after: int = 0,
        before: int | None = None,
        newest: bool = False,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> builtins.list[Revision]:
        """Return the texts a block had, oldest first: what it was, since when, by whom."""
    async def undo(self, block: BlockType, *, expected_updated_at: datetime | str | None) -> Block:
        """Bring back the text that a block had before its newest one, or before it was deleted; twice redoes it."""

class AsyncApprovals(AsyncHandle):
    """Effects that wait for a person."""

    async def list(
        self,
        *,
        status: Status | Literal["all"] = "pending",
        after: str = "",
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> list[Approval]:
        """Return what waits, or what was decided, or all of it, oldest first."""
    async def get(self, approval: str) -> Approval:
        """Return one approval by its id."""
    async def approve(self, approval: str, *, reason: str = "") -> Decided:
        """Carry out a waiting effect now; return the decision and the result of the effect."""
    async def refuse(self, approval: str, *, reason: str = "") -> Decided:
        """Drop a waiting effect."""

class AsyncQuarantine(AsyncHandle):
    """What the guard held back, until someone else than its writer looked at it."""

    async def list(self, scope: Scope | None = None) -> list[Approval]:
        """Return what waits, oldest first; of a scope, what waits there and below it."""
    async def release(self, id: str, reason: str = "") -> Decided:
        """Store what was held; it stays as little trusted as its writer."""
    async def discard(self, id: str, reason: str = "") -> Decided:
        """Drop what was held."""

class AsyncGuard(AsyncHandle):
    """What is looked for in writes, and what then happens, by scope and kind of origin."""

    async def set(
        self,
        scope: Scope | None = None,
        *,
        origins: Sequence[OriginKind],
        instructions: Action | None = None,
        secrets: Action | None = None,
        payment: Action | None = None,
        codes: Action | None = None,
        protected: Action | None = None,
        largest: int | None = None,
    ) -> builtins.list[GuardRule]:
        """Say what happens to what these kinds of origins write at and below a scope; return their rules there."""
    async def reset(self, scope: Scope | None = None, *, origins: Sequence[OriginKind] = ORIGIN_KINDS) -> None:
        """Forget what was said about these kinds of origins in a scope."""
    async def get(self, scope: Scope | None = None, *, origin: OriginKind) -> GuardPolicy:
        """Return what counts for a kind of origin in a scope."""
    async def list(self) -> builtins.list[GuardRule]:
        """Return what was said about scopes and kinds of origins, where that is not the default."""
    async def check(self, content: Any) -> tuple[Detection, ...]:
        """Return what would be found in a text or another JSON value; nothing is stored."""

class AsyncCollections(AsyncHandle):
    """The collections of entries."""

    async def list(self, *, below: Scope | None = None, prefix: str = "") -> list[Holding]:
        """Return every collection with its embedder and its number of entries, by name."""
    async def delete(self, collection: str) -> int:
        """Delete a collection with its entries in every scope; return their number."""
    async def compare(
        self, collection: str, embedder: str | Embedder, *, queries: Sequence[str] = (), sample: int = 500
    ) -> Comparison:
        """Return what recall would gain or lose if a collection moved to another embedder; nothing is written."""
    async def reembed(
        self,
        collection: str,
        embedder: str | Embedder,
        *,
        progress: Callable[[int, int], None] | None = None,
        batch: int = 256,
    ) -> Collection:
        """Move a collection to another embedder while it is in use, and return it when it has moved."""
    async def give_up_reembedding(self, collection: str) -> Collection:
        """Give up a move: the new vectors are removed, and the collection stays as it was."""

class AsyncDefinitions(AsyncHandle):
    """Create, find, change and delete definitions, and read their records."""

    async def create(
        self,
        *,
        name: str | None = None,
        slug: str | None = None,
        schema: dict[str, Any] | None = None,
        model: type[Any] | None = None,
        scope: str = "global",
        ttl: Duration | None = None,
        mode: DefinitionsMode | None = None,
        id: str | None = None,
    ) -> Definition:
        """Create a definition. Objects are strict unless the schema says `additionalProperties`."""
    async def list(self) -> list[Definition]:
        """Return all definitions, oldest first."""
    async def get(self, definition: str) -> Definition:
        """Return the definition of this id or slug."""
    @overload
    async def update(
        self,
        definition: str,
        *,
        name: str | None = None,
        slug: str | None = None,
        schema: dict[str, Any] | None = None,
        model: type[Any] | None = None,
        scope: str | None = None,
        ttl: Duration | None = None,
        clear_ttl: bool = False,
        mode: DefinitionsMode | None = None,
        stale: OnStale = "refuse",
        migrate: Callable[[Any], Any] | None = None,
        check: Literal[False] = False,
    ) -> Definition: ...
    @overload
    async def update(
        self,
        definition: str,
        *,
        name: str | None = None,
        slug: str | None = None,
        schema: dict[str, Any] | None = None,
        model: type[Any] | None = None,
        scope: str | None = None,
        ttl: Duration | None = None,
        clear_ttl: bool = False,
        mode: DefinitionsMode | None = None,
        stale: OnStale = "refuse",
        migrate: Callable[[Any], Any] | None = None,
        check: Literal[True],
    ) -> SchemaCheck: ...
    async def stale(self, definition: str, *, after: str = "", limit: int = SHOWN_RECORDS) -> SchemaCheck:
        """Return the records that do not fit the schema of their definition; it takes the right to read them."""
    async def delete(self, *definitions: str) -> int:
        """Delete definitions and their records, all or nothing; return the number of records."""
    async def records(
        self, definition: str, *, after: str = "", limit: int | None = None, max_bytes: int | None = None
    ) -> list[Fact]:
        """Return the active records of a definition in any scope, ordered by scope."""

class AsyncLedger(AsyncHandle):
    """The ledger of a tenant: what happened, in order, tamper-evident."""

    async def verify(self, *, anchor: Anchor | None = None) -> Verification:
        """Verify the whole chain; an anchor taken earlier also reveals a tail that was cut off."""
    async def anchor(self) -> Anchor:
        """Return the length and head of the chain. Store it where those who can change the database cannot."""
    async def events(self, *, start: int = 1, limit: int | None = None, max_bytes: int | None = None) -> list[Event]:
        """Return events from a position on. With `max_bytes` the list ends with the event whose content exceeds it."""
    async def tail(self, limit: int = 20, *, max_bytes: int | None = None) -> list[Event]:
        """Return the newest events, oldest first; with `max_bytes` fewer, where their content exceeds it."""
    async def deletions(self, scope: Scope | None = None) -> list[Deletion]:
        """Return what was deleted, oldest first: what, where, by whom and under which permission epoch."""
    async def rollbacks(self, scope: Scope | None = None) -> list[Rollback]:
        """Return what was undone, oldest first, and the reads that had been given the state before."""

class AsyncPermissions(AsyncHandle):
    """The grants of a tenant: who may do what."""

    async def grant(
        self,
        actor: str,
        capability: str,
        *,
        level: Level = "allow",
        scope: Scope | None = None,
        path: str = "",
        own: bool = False,
    ) -> Grant:
        """Store a rule for an actor (`*` is every actor): allow, approve (each effect waits for approval) or deny."""
    async def revoke(self, grant: str) -> Grant:
        """Revoke a grant by its id."""
    async def list(self) -> list[Grant]:
        """Return every grant, oldest first."""
    async def epoch(self, scope: Scope | None = None) -> int:
        """Return the permission epoch of a scope: it grows with each change of what anyone may do there."""

class AsyncRoles(AsyncHandle):
    """The roles of a tenant: named sets of permissions for API keys, signed tokens and users."""

    async def define(
        self, name: str, *, allow: Sequence[str] = (), own: Sequence[str] = (), rules: Sequence[Rule] = ()
    ) -> Role:
        """Give a role capabilities in the whole tenant, in one's own memory, and other rules, in place of its own."""
    async def list(self) -> list[Role]:
        """Return the built-in roles and those that were defined."""
    async def get(self, name: str) -> Role:
        """Return a role, or raise NotFound."""
    async def delete(self, name: str) -> Role:
        """Delete a role, and the grants that give it. Keys and tokens with it may do nothing from now on."""

class AsyncRuns(AsyncHandle):
    """The runs of machines and workflows: their status, their events, and whether these are intact."""

    async def list(
        self,
        *,
        program: str | None = None,
        language: Language | None = None,
        status: RunStatus | None = None,
        owner: Scope | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int | None = None,
    ) -> list[RunSummary]:
        """Return the status of runs, newest first: of all, or of those of one program, language, status or owner."""
    async def get(self, run: str) -> RunSummary:
        """Return the status of one run."""
    async def events(
        self, run: str, *, after: int = 0, limit: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[RunEvent]:
        """Return the events of a run, in order; `after` is the position of the last one seen."""
    async def steps(
        self, run: str, *, after: int = 0, limit: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[RunStep]:
        """Return what was recorded of the steps of a run, in order; `after` is the number of the last one seen."""
    async def decision(self, run: str, approval: str) -> Approval:
        """Return the decision about a step that a run waits for; the right to see runs is enough."""
    async def verify(self, run: str) -> RunVerification:
        """Walk the chain of a run and compare its end with the run's record."""
