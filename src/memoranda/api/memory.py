"""Opening a memory, and the handle that this returns; each call is an effect that passes the gate."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from memoranda.api.arguments import check_prefix
from memoranda.api.scoped import Batch, ScopedMemory
from memoranda.api.tenant import (
    Approvals,
    Collections,
    Definitions,
    Guard,
    Ledger,
    Permissions,
    Quarantine,
    Roles,
    Runs,
)
from memoranda.api.transfer import is_counted, lines_of, parse_lines, write_lines
from memoranda.engine.containment import Taint
from memoranda.engine.embedding import EmbedderBook
from memoranda.engine.erasure import Erase, Receipt, Sweep, Swept
from memoranda.engine.scopes import ListScopes
from memoranda.engine.transfer import Export
from memoranda.errors import Denied, Hint, InvalidPolicy, Unavailable, UsageError
from memoranda.governance.approvals import Decided, ListConflicts
from memoranda.governance.gate import Caller, Gate
from memoranda.governance.maintenance import Finding, FinishMigration, Inspect, ListTenants, Scrub
from memoranda.governance.permissions import Membership, check_role_name, policies_of_role
from memoranda.model.clock import Clock, Ids, SystemClock, SystemIds
from memoranda.model.effect import Contested, Effect
from memoranda.model.entry import Restored
from memoranda.model.limits import Limits, check_count
from memoranda.model.lineage import Tainted
from memoranda.model.names import check_label, require_label
from memoranda.model.policy import BUILT_IN_ROLES, OWNER, Level, Policy, Rule
from memoranda.model.ref import as_ref
from memoranda.model.scope import DEFAULT_TENANT, Scope
from memoranda.model.text import quote
from memoranda.model.transfer import Imported
from memoranda.model.trust import (
    TRUST_OF,
    OriginKind,
    Trust,
    check_origin,
    check_trust,
    is_at_least,
    kind_of_actor,
    lower_kind,
    lowest,
)
from memoranda.store.base import ReplicaStore, Store
from memoranda.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from memoranda.engine.segments import SegmentFolder
    from memoranda.retrieval.embed.base import Embedder


DEFAULT_EMBEDDER = "wordllama"
"""The embedder of new collections. Its weights come with the package: it needs no network and no key."""


class Memory:
    """What `memoranda.open` returns. A context manager; closing it twice is allowed.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     ada = memory.scope(user="ada")
    ...     ada.set("kiln.cone", 6).version
    ...     memory.ledger.verify().ok
    1
    True
    """

    def __init__(
        self,
        store: Store,
        *,
        tenant: str = DEFAULT_TENANT,
        clock: Clock | None = None,
        ids: Ids | None = None,
        limits: Limits | None = None,
        embedder: str | Embedder = DEFAULT_EMBEDDER,
        record_reads: bool = False,
        keep_text: bool = False,
        reading: ReplicaStore | None = None,
        segments: SegmentFolder | None = None,
    ) -> None:
        """Create the owner's handle on a store; most programs call `memoranda.open` instead."""
        self._gate = Gate(
            store,
            clock=clock or SystemClock(),
            ids=ids or SystemIds(),
            limits=limits or Limits(),
            embedders=EmbedderBook(embedder),
            record_reads=record_reads,
            keep_text=keep_text,
            reading=reading,
            segments=segments,
        )
        self._caller = Caller()
        self._shared = Scope.of(tenant=tenant)
        self.url: str = store.url

    @property
    def tenant(self) -> str:
        """The tenant of this handle."""
        return self._shared.tenant

    @property
    def waits(self) -> bool:
        """Whether even reading one fact waits, as with PostgreSQL: an event loop then reads in a thread."""
        return self._gate.waits

    @property
    def actor(self) -> str:
        """The actor of this handle."""
        return self._caller.actor

    @property
    def is_owner(self) -> bool:
        """Whether this is the handle of the program that opened the store, not a narrower one."""
        return self._caller.tenant is None

    @property
    def limits(self) -> Limits:
        """The limits on sizes."""
        return self._gate.limits

    @property
    def clock(self) -> Clock:
        """The source of time."""
        return self._gate.clock

    @property
    def ids(self) -> Ids:
        """The source of ids."""
        return self._gate.ids

    # places

    def scope(self, *, tenant: str | None = None, **ids: str) -> ScopedMemory:
        """Return the memory of a user, agent, project, tree, workflow, thread, run or session.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     str(memory.scope(user="ada", agent="emails").scope)
        'user:ada/agent:emails'
        """
        return self.at(Scope.of(tenant=self.tenant if tenant is None else tenant, **ids))

    def at(self, scope: Scope | str) -> ScopedMemory:
        """Return the memory of a scope, given as a value or as text such as `user:ada/agent:emails` or `shared`.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.at("user:ada/agent:emails").set("tone", "warm").version
        ...     memory.scope(user="ada", agent="emails").value("tone")
        1
        'warm'
        """
        if not isinstance(scope, Scope):
            scope = Scope.named(scope, tenant=self.tenant)
        return ScopedMemory(self._gate, self._caller, scope)

    def batch(self, *, idempotency_key: str | None = None) -> Batch:
        """Return a batch of writes that are committed together, all or nothing, when its `with` block ends.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada, bo = memory.scope(user="ada"), memory.scope(user="bo")
        ...     with memory.batch() as batch:
        ...         batch.set(ada, "partner", "bo")
        ...         batch.set(bo, "partner", "ada")
        ...     ada.value("partner"), bo.value("partner")
        ('bo', 'ada')
        """
        return Batch(self._gate, self._caller, idempotency_key)

    def scopes(self, *, prefix: str = "", after: str = "", limit: int | None = None) -> list[Scope]:
        """Return the scopes that have facts or entries, ordered by path; it takes the right to read all of them.

        `prefix` is how their paths begin, `after` the path of the last one seen. The shared scope is not among them.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     for name in ("ada", "bo"):
        ...         fact = memory.scope(user=name).set("language", "en")
        ...     [scope.path for scope in memory.scopes(prefix="user:")]
        ['user:ada', 'user:bo']
        """
        check_count("limit", limit)
        after = after if after == "" else Scope.parse(after, tenant=self.tenant).path
        return self.perform(ListScopes(scope=self._shared, prefix=check_prefix(prefix), after=after, limit=limit))

    # the rest of the desk

    @property
    def collections(self) -> Collections:
        """The collections of entries, and their embedders."""
        return Collections(self._gate, self._caller, self._shared)

    @property
    def definitions(self) -> Definitions:
        """The contracts of keys."""
        return Definitions(self._gate, self._caller, self._shared)

    @property
    def ledger(self) -> Ledger:
        """What happened, in order, provably."""
        return Ledger(self._gate, self._caller, self._shared)

    @property
    def permissions(self) -> Permissions:
        """Who may do what."""
        return Permissions(self._gate, self._caller, self._shared)

    @property
    def roles(self) -> Roles:
        """Named sets of permissions, for keys, tokens and users."""
        return Roles(self._gate, self._caller, self._shared)

    @property
    def approvals(self) -> Approvals:
        """What waits for a decision."""
        return Approvals(self._gate, self._caller, self._shared)

    @property
    def guard(self) -> Guard:
        """What is looked for in writes, and what then happens."""
        return Guard(self._gate, self._caller, self._shared)

    @property
    def quarantine(self) -> Quarantine:
        """What the guard held back."""
        return Quarantine(self._gate, self._caller, self._shared)

    def conflicts(self, scope: Scope | None = None) -> list[Contested]:
        """Return the writes that wait because they contradict something more trusted, each with what is current.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada, page = memory.scope(user="ada"), memory.from_origin("tool_external").scope(user="ada")
        ...     ada.set("city", "Oslo").value
        ...     try:
        ...         page.set("city", "Rome")
        ...     except memoranda.Held as held:
        ...         print(held.cause)
        ...     [(one.key, one.current, one.proposed) for one in memory.conflicts()]
        ...     memory.resolve(memory.conflicts()[0].id, "keep", reason="she did not move").approval.status
        ...     memory.conflicts(), ada.value("city")
        'Oslo'
        conflict
        [('city', 'Oslo', 'Rome')]
        'refused'
        ([], 'Oslo')
        """
        return self.perform(ListConflicts(scope=self._shared, below=scope))

    def resolve(self, conflict: str, verdict: Literal["keep", "take"], *, reason: str = "") -> Decided:
        """Decide a conflict: keep what is current, or take what was proposed; return the decision and its result."""
        if verdict not in ("keep", "take"):
            raise UsageError(f"{quote(verdict)} is not a verdict", hint="Pass `keep` or `take`", path="verdict")
        if self.approvals.get(conflict).cause != "conflict":
            raise UsageError(f"{quote(conflict)} is not a conflict", hint=Hint("list", "approvals"), value=conflict)
        decide = self.approvals.approve if verdict == "take" else self.approvals.refuse
        return decide(conflict, reason=reason)

    def taint(
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
        """Quarantine what one of these names, with all that was derived from it, in one transaction.

        `ref` names a memory, `actor`, `source` and `origin` what they wrote, `event` what an event of the ledger wrote,
        `run` what a run wrote; `scope` narrows it to what is there and below. Derived memory goes in every scope. The
        result says which recalls and contexts had served it. `undo` brings it back as it was.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada, web = memory.scope(user="ada"), memory.from_origin("tool_external").scope(user="ada")
        ...     page = web.remember("The glaze is safe", source="bad.example")
        ...     note = ada.remember("Cups can be glazed with it", derived_from=[page.ref])
        ...     done = memory.taint(source="bad.example", reason="the page was hacked")
        ...     len(done.refs), len(done.descendants), len(ada.entries())
        ...     memory.undo(done).count, len(ada.entries())
        (1, 1, 0)
        (2, 2)
        """
        if sum(one is not None for one in (ref, actor, source, origin, event, run)) != 1:
            raise UsageError(
                "a taint names one thing", hint="Pass one of `ref`, `actor`, `source`, `origin`, `event` and `run`"
            )
        for name, label in (("actor", actor), ("source", source), ("run", run), ("reason", reason or None)):
            check_label(name, label)
        check_count("event", event, least=1, path="event")
        return self.perform(
            Taint(
                scope=self._shared,
                ref=None if ref is None else str(as_ref(ref, tenant=self.tenant)),
                actor=actor,
                source=source,
                origin=None if origin is None else check_origin(origin),
                event=event,
                run=run,
                below=scope,
                reason=reason,
                dry_run=dry_run,
            )
        )

    def undo(self, done: Tainted | str) -> Restored:
        """Bring back what a taint ended, with its origins, by its result or its `undo`."""
        return self.at(self._shared).undo(done)

    @property
    def runs(self) -> Runs:
        """The runs of machines and workflows."""
        return Runs(self._gate, self._caller, self._shared)

    # who acts

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
    ) -> Memory:
        """Return a handle for another actor, under this policy, this role, or what is granted to the actor.

        `origin` is what kind of origin the actor is, which says how far its writes are trusted: `tool_external` for
        what comes from pages and other people's tools, `assistant` for a model. Such an actor cannot replace what is
        trusted more: its write waits for a decision. Without it, the name of the actor says the kind, `tool:web` or
        `agent:mail`; users and agents may then replace everything that they may write.

        `own` are the scopes that the rules of a role about one's own memory are about: those of the user where none are
        given and the actor is one, such as `user:ada`. `also` are rules that are added if the role allows a capability
        there. Only the owner may do this; a narrower handle can only be narrowed further.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     guest = memory.acting_as("agent:mail", policy=memoranda.Policy.of(allow=("memory.read",)))
        ...     try:
        ...         guest.scope(user="ada").set("tone", "warm")
        ...     except memoranda.Denied as refusal:
        ...         print(refusal.capability)
        memory.write
        """
        if not self.is_owner:
            raise Denied(
                f"`{self.actor}` cannot act as {quote(actor)}",
                hint="Ask the program that opened the memory",
                actor=self.actor,
            )
        require_label("actor", actor)
        kind = kind_of_actor(actor) if origin is None else check_origin(origin)
        trust = lowest(self._caller.trust, TRUST_OF[kind])
        check_label("door", door)
        check_label("source", source)
        if policy is not None:
            self._check_tenant_of(policy)
        if role is not None and policy is not None:
            raise UsageError("an actor has a policy or a role, not both", hint=Hint("python", "Call narrowed(policy)"))
        membership = None
        if role is not None:
            prefix, _, user = actor.partition(":")
            if own is None:
                own = (Scope.of(tenant=self.tenant, user=user),) if prefix == "user" and user else ()
            membership = Membership(check_role_name(role), tuple(own), tuple(also))
            self._check_tenant_of(Policy(rules=tuple(Rule("allow", "*", scope) for scope in own)))
        return self._with_caller(
            Caller(
                actor=actor,
                door=door or self._caller.door,
                source=source,
                policies=(policy,) if policy is not None else (),
                granted=policy is None and membership is None,
                membership=membership,
                base=policies_of_role(membership)[0] if membership is not None and role in BUILT_IN_ROLES else None,
                tenant=self.tenant,
                at_once=self._caller.at_once,
                epoch=self._caller.epoch,
                kind=kind,
                trust=trust,
                authority="high" if origin is None and is_at_least(trust, "medium") else trust,
            )
        )

    def from_origin(self, origin: OriginKind) -> Memory:
        """Return a handle for the same actor that passes on what comes from another origin: it is trusted no more.

        It can only lower: for an origin that is trusted more than this handle, nothing changes.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     found = memory.from_origin("tool_external").scope(user="ada").set("hotel.rating", 4)
        ...     found.origin.kind, found.origin.trust
        ('tool_external', 'low')
        """
        kind = lower_kind(self._caller.kind, check_origin(origin))
        if kind == self._caller.kind:
            return self
        trust = lowest(self._caller.trust, TRUST_OF[kind])
        authority = lowest(self._caller.authority, trust)
        return self._with_caller(msgspec.structs.replace(self._caller, kind=kind, trust=trust, authority=authority))

    def passing_on(self, origin: OriginKind | None) -> Memory:
        """Return a handle for what a program stores of a value that is from a tool, or was read; None is its own.

        It is trusted no more than that. It replaces what the program may replace, unless it is trusted at less than
        medium: then nothing that is trusted more.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada, program = memory.scope(user="ada").scope, memory.through("workflow", origin="agent")
        ...     for kind in (None, "tool_internal", "tool_external"):
        ...         origin = program.passing_on(kind).at(ada).create(f"from.{kind}", 1).origin
        ...         print(origin.kind, origin.trust)
        agent medium
        tool_internal medium
        tool_external low
        """
        if origin is None:
            return self
        if is_at_least(TRUST_OF[origin], "medium"):
            return self.through(self._caller.door, origin=origin)
        return self.from_origin(origin)

    def for_model(self, told: Trust = "high") -> Memory:
        """Return a handle for what a model writes that was told memory of at least this trust.

        It is trusted as a model is, and no more than what it was told. It replaces what the actor may replace, unless
        it was told something of less than medium trust: then nothing that is trusted more than that.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada").scope
        ...     [memory.for_model(told).at(ada).create(told, 1).origin.trust for told in ("high", "low")]
        ['medium', 'low']
        """
        kind: OriginKind = "assistant"
        trust = lowest(self._caller.trust, TRUST_OF[kind], check_trust(told, "told"))
        authority = self._caller.authority
        if not is_at_least(trust, "medium"):
            authority = lowest(authority, trust)
        return self._with_caller(msgspec.structs.replace(self._caller, kind=kind, trust=trust, authority=authority))

    def in_tenant(self, tenant: str) -> Memory:
        """Return the owner's handle in another tenant, on the same store; other handles stay in their tenant.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.in_tenant("acme").scope(user="ada").set("language", "en").scope.tenant
        ...     memory.scope(user="ada").get("language") is None
        'acme'
        True
        """
        self._check_reaches(tenant)
        other = self._with_caller(self._caller)
        other._shared = Scope.of(tenant=tenant)
        return other

    def narrowed(self, policy: Policy) -> Memory:
        """Return a handle for the same actor under one more policy; all of them must agree to an effect.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     reader = memory.narrowed(memoranda.Policy.of(allow=("memory.read",)))
        ...     memory.scope(user="ada").set("language", "en").version
        ...     reader.scope(user="ada").value("language")
        1
        'en'
        """
        self._check_tenant_of(policy)
        kept = tuple(layer for layer in self._caller.policies if layer is not OWNER)
        narrowed = msgspec.structs.replace(self._caller, policies=(*kept, policy), tenant=self.tenant)
        return self._with_caller(narrowed)

    def through(self, door: str, *, origin: OriginKind | None = None) -> Memory:
        """Return a handle whose events say that they came through this door: `cli`, `rest` or `abl`.

        `origin` is what writes there for the actor, such as a program or its model: it lowers how far that is trusted,
        but not what it may replace, since the actor declared what it writes.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.through("cli").scope(user="ada").set("language", "en").origin.door
        'cli'
        """
        require_label("door", door)
        caller = msgspec.structs.replace(self._caller, door=door)
        if origin is not None:
            kind = lower_kind(caller.kind, check_origin(origin))
            caller = msgspec.structs.replace(caller, kind=kind, trust=lowest(caller.trust, TRUST_OF[kind]))
        return self._with_caller(caller)

    def at_once(self) -> Memory:
        """Return a handle that does not block: a write that would have to wait raises `Busy` instead.

        It waits for no other writer, no slow disk, no embedder and no PostgreSQL. A write that raised `Busy` had no
        effect; repeat it in a thread, with the handle that waits.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.at_once().scope(user="ada").set("language", "en").version
        ...     try:
        ...         memory.at_once().scope(user="ada").remember("embedding takes its time", collection="notes")
        ...     except memoranda.Busy as busy:
        ...         print(busy.code)
        1
        busy
        """
        return self._with_caller(msgspec.structs.replace(self._caller, at_once=True))

    def at_epoch(self, epoch: int) -> Memory:
        """Return a handle whose writes raise `StaleEpoch` where permissions have changed since this epoch.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada").scope
        ...     decided = memory.at_epoch(memory.permissions.epoch(ada))
        ...     decided.at(ada).set("tone", "warm").version
        ...     grant = memory.permissions.grant("agent:mail", "memory.read", scope=ada)
        ...     try:
        ...         decided.at(ada).set("tone", "cold")
        ...     except memoranda.StaleEpoch as stale:
        ...         print(stale.expected, stale.actual)
        1
        0 1
        """
        check_count("epoch", epoch, path="epoch")
        return self._with_caller(msgspec.structs.replace(self._caller, epoch=epoch))

    def observed(self, observe: Callable[[Effect, Any], None]) -> Memory:
        """Return a handle that tells a function of every effect that was carried out, and what it returned.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     watched = memory.observed(lambda effect, result: print(effect.name, result.version))
        ...     fact = watched.scope(user="ada").set("language", "en")
        set_fact 1
        """
        return self._with_caller(msgspec.structs.replace(self._caller, observe=observe))

    # upkeep

    def erase(self, *, tenant: str | None = None, **ids: str) -> Receipt:
        """Remove everything of a user, project, session… history included; return what was removed, by kind.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     fact = ada.set("language", "en")
        ...     receipt = memory.erase(user="ada")
        ...     receipt.removed["facts"], ada.history("language")
        (1, [])
        """
        return self.perform(Erase(scope=Scope.of(tenant=self.tenant if tenant is None else tenant, **ids)))

    def sweep(self) -> Swept:
        """Remove what has expired; return counts by kind.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.scope(user="ada").set("otp", 4711, ttl="10m")
        ...     memory.sweep().facts
        0
        """
        total = Swept()
        while True:
            part: Swept = self.perform(Sweep(scope=self._shared))
            total = Swept(
                facts=total.facts + part.facts,
                revisions=total.revisions + part.revisions,
                entries=total.entries + part.entries,
                idempotency_keys=total.idempotency_keys + part.idempotency_keys,
                runs=total.runs + part.runs,
                records=dict(Counter(total.records) + Counter(part.records)),
            )
            if not part.more:
                return total

    def scrub(self) -> bool:
        """Rewrite storage so that removed content is gone from its bytes; return whether that could be done now.

        On SQLite that is the whole file. On PostgreSQL it is the partitions of this tenant, and others that have rows
        in them wait meanwhile; where the tables are not partitioned, all tenants do.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.scrub()
        True
        """
        return self.perform(Scrub(scope=self._shared))

    def finish_migration(self) -> bool:
        """Finish the migration of a PostgreSQL database once no older program uses it; return whether there was one.

        Opening a database prepares it for this version, and programs of the version before still work. This takes away
        what only they need; their writes then raise `MigrationNeeded`.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.finish_migration()
        False
        """
        return self.perform(FinishMigration(scope=self._shared))

    def inspect(self) -> list[Finding]:
        """Check for damage: the file, every chain, facts and entries, and their vectors and words.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     all(finding.ok for finding in memory.inspect())
        True
        """
        return self.perform(Inspect(scope=self._shared))

    def tenants(self) -> list[str]:
        """Return the tenants that have any data, by name; a handle that is confined to one returns only that one.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.in_tenant("acme").scope(user="ada").set("language", "en")
        ...     memory.tenants()
        ['acme']
        """
        return self.perform(ListTenants(scope=self._shared))

    def mark(self, *, tenant: str | None = None) -> Hashable:
        """Return a mark that changes with every write: while it is the same, cached reads are valid.

        With a tenant, it changes at least with every write there. Ask for it before reading what you cache. It is
        cheaper than reading again, and may change without a write.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     before = memory.mark()
        ...     memory.scope(user="ada").set("language", "en").version
        ...     memory.mark() == before
        1
        False
        """
        if tenant is not None:
            self._check_reaches(tenant)
        return self._gate.mark(tenant)

    def staleness(self) -> float:
        """Return how many seconds what is read may be behind what was written by others: 0.0 without standbys.

        With PostgreSQL and `read_from="standby"` it is measured, by asking both servers; if no primary answers, it is
        the age of the newest write that the standby has.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.staleness()
        0.0
        """
        return self._gate.staleness()

    def settle(self) -> None:
        """Wait for everything that happens in the background.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     found = memory.scope(user="ada").recall("anything", collection="notes")
        ...     memory.settle()
        ...     memory.ledger.tail(1)[0].effect
        'recall'
        """
        self._gate.settle(self.tenant)

    # files

    def export(self, path: str | Path, *, scope: Scope | None = None) -> int:
        """Write the active facts and entries at and below a scope, and all definitions, to a JSON Lines file.

        Return how many facts and entries.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     memory.export("ada.jsonl", scope=memoranda.Scope.of(user="ada"))
        1
        """
        count = 0

        def count_lines(lines: Iterator[bytes]) -> Iterator[bytes]:
            nonlocal count
            for line in lines:
                count += is_counted(line)
                yield line

        self.export_lines(lambda lines: write_lines(Path(path), count_lines(lines)), scope=scope)
        return count

    def export_lines(self, take: Callable[[Iterator[bytes]], Any], *, scope: Scope | None = None) -> Any:
        r"""Pass the lines of an export to `take`, as an iterator, and return what it returns.

        They are read while `take` runs, at one moment of the database, which stays open until then.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     memory.export_lines(lambda lines: sum(line.startswith(b'{"fact":') for line in lines))
        1
        """
        effect = Export(scope=scope or self._shared)
        tenant = effect.scope.tenant
        return self._gate.stream(effect, self._caller, lambda at, parts: take(lines_of(tenant, at, parts)))

    def import_file(self, path: str | Path) -> Imported:
        """Import an export file, all or nothing. What was erased since it was made stays erased.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     written = memory.export("all.jsonl")
        ...     with memoranda.open(":memory:") as other:
        ...         other.import_file("all.jsonl").written
        ...         other.scope(user="ada").value("language")
        1
        'en'
        """
        with Path(path).open("rb") as lines:
            return self.import_lines(lines, source=Path(path).name)

    def import_lines(self, lines: Iterable[bytes], *, source: str) -> Imported:
        """Import the lines of an export, all or nothing.

        >>> from pathlib import Path
        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     written = memory.export("all.jsonl")
        ...     with Path("all.jsonl").open("rb") as lines:
        ...         memory.import_lines(lines, source="all.jsonl").kept
        1
        """
        return self.perform(parse_lines(lines, self._shared, source, self.limits))

    def close(self) -> None:
        """Write deferred events and close the store."""
        self._gate.close()

    def __enter__(self) -> Self:
        """Return this memory."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close this memory."""
        self.close()

    def __repr__(self) -> str:
        """Show the address, the tenant and the actor."""
        return f"<memoranda.Memory {self.url} tenant={self.tenant} actor={self.actor}>"

    def may(self, effect: Effect) -> bool:
        """Return whether this handle's policies allow an effect; nothing is done, and nothing recorded.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     from memoranda.model.effect import GetFact
        ...     ask = GetFact(scope=memoranda.Scope.of(user="ada"), key="language")
        ...     memory.may(ask), memory.narrowed(memoranda.Policy()).may(ask)
        (True, False)
        """
        return self.level(effect) == "allow"

    def level(self, effect: Effect) -> Level:
        """Return what this handle's policies say about an effect; nothing is done, and nothing recorded.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     from memoranda.model.effect import Erase
        ...     policy = memoranda.Policy.of(allow=("memory.read",), approve=("memory.erase",))
        ...     memory.narrowed(policy).level(Erase(scope=memoranda.Scope.of(user="ada")))
        'approve'
        """
        return self._gate.verdict(effect, self._caller).level

    def reason(self, effect: Effect) -> str:
        """Return why this handle's policies refuse an effect; empty if they do not. Nothing is recorded.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     from memoranda.model.effect import GetFact
        ...     memory.acting_as("agent:mail").reason(GetFact(scope=memoranda.Scope.of(user="ada"), key="language"))
        'nothing grants memory.read for `language` in `user:ada`'
        """
        return self._gate.reason(effect, self._caller)

    @property
    def root(self) -> object:
        """An object that is the same for every handle on one opened memory."""
        return self._gate

    def record_prompt(self, scope: Scope, refs: Mapping[str, int], *, to: str) -> None:
        """Note in the ledger what a prompt showed of memory, so that `taint` finds it: refs and versions of facts.

        `to` says who was given it, such as `run:…`. Nothing waits for the disk; contents are never noted.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     memory.record_prompt(fact.scope, {fact.ref: fact.version}, to="run:r1")
        ...     memory.settle()
        ...     [(one.effect, one.to) for one in memory.taint(ref=fact.ref).served]
        [('context', 'run:r1')]
        """
        if refs:
            self._gate.record_prompt(scope, refs, to, self._caller)

    def perform(self, effect: Effect) -> Any:
        """Carry out an effect as this handle's actor; the languages and other doors use this.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     from memoranda.model.effect import FindFacts
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     [found.value for found in memory.perform(FindFacts(scope=memoranda.Scope(), key="language"))]
        ['en']
        """
        return self._gate.perform(effect, self._caller)

    def _check_tenant_of(self, policy: Policy) -> None:
        """Raise InvalidPolicy for a rule about another tenant: it would never match, and protect nothing."""
        for rule in policy.rules:
            if rule.scope is not None and rule.scope.tenant != self.tenant:
                raise InvalidPolicy(
                    f"a rule is about `{rule.scope}` of the tenant `{rule.scope.tenant}`, "
                    f"and the handle belongs to `{self.tenant}`",
                    hint=Hint("python", "Name the tenant: Scope.of(tenant=…, user=…)"),
                )

    def _check_reaches(self, tenant: str) -> None:
        if self._caller.tenant not in (None, tenant):
            raise Denied(
                f"`{self.actor}` is confined to the tenant `{self._caller.tenant}` and cannot reach {quote(tenant)}",
                hint="Ask the program that opened the memory",
                actor=self.actor,
            )

    def _with_caller(self, caller: Caller) -> Memory:
        other = object.__new__(Memory)
        other._gate, other._caller, other._shared, other.url = self._gate, caller, self._shared, self.url
        return other


Durability = Literal["full", "normal"]
LedgerMode = Literal["writes", "all"]

ReadFrom = Literal["primary", "standby"]

_LARGEST_POOL = 10_000
_LONGEST_WAIT = 2_000_000
"""Seconds. SQLite counts them in milliseconds, in 31 bits."""
_SHORTEST_STATEMENT = 0.001
"""Seconds. PostgreSQL counts them in milliseconds, and takes 0 for no limit."""


def open(
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
) -> Memory:
    """Open the memory at an address: a file path, `postgresql://user@host/database`, or `:memory:`.

    One at `:memory:` ends with the process; `sqlite:///path` is another way to write a file path.
    With `durability="full"` every acknowledged write survives a power cut; `"normal"` may lose the last few, never
    the consistency of the store. `ledger="all"` records plain reads too; `ledger_text` stores contents beside
    their hashes. `embedder` is what new collections are embedded with: `"wordllama"`, which works offline,
    `"onnx:/path/to/folder"`, `"openai:text-embedding-3-small"`, or an object of your own.
    `cache` is a folder of this host for the indexes of large collections, which its processes share: by default
    that of `MEMORANDA_CACHE`, or the user's folder for caches. None or `"off"` keeps them in memory alone.

    With PostgreSQL, `pool` is the maximum number of connections, `statement_timeout` how many seconds the server may
    work on one statement, and `read_from="standby"` lets a standby of the address answer what only reads.

    >>> memory = open(":memory:")
    >>> memory.scope(user="ada").set("language", "en").version
    1
    >>> memory.close()
    """
    if ledger not in ("writes", "all"):
        raise UsageError(f"{quote(ledger)} is not a ledger mode", hint='Use "writes" or "all"')
    store, reading = _open_stores(
        os.fspath(url),
        durability=durability,
        busy_timeout=busy_timeout,
        pool=pool,
        statement_timeout=statement_timeout,
        read_from=read_from,
    )
    return Memory(
        store,
        tenant=tenant,
        clock=clock,
        ids=ids,
        limits=limits,
        embedder=embedder,
        record_reads=ledger == "all",
        keep_text=ledger_text,
        reading=reading,
        segments=None if store.url == ":memory:" else _segment_folder(cache, limits or Limits()),
    )


def _segment_folder(cache: str | os.PathLike[str] | None, limits: Limits) -> SegmentFolder | None:
    if cache is None or cache == "off" or sys.platform == "win32":
        return None  # Windows cannot remove a file that is mapped, and those of forgotten memory have to go
    from memoranda.engine.segments import SegmentFolder, default_folder

    path = default_folder() if cache == "auto" else Path(cache) / "segments"
    return None if path is None else SegmentFolder(path, most_bytes=limits.cache_bytes)


def open_store(url: str, *, durability: Durability = "full", busy_timeout: float = 5.0) -> Store:
    """Return the store behind an address."""
    return _open_stores(url, durability=durability, busy_timeout=busy_timeout)[0]


def _open_stores(
    url: str,
    *,
    durability: Durability,
    busy_timeout: float,
    pool: int = 16,
    statement_timeout: float | None = None,
    read_from: ReadFrom = "primary",
) -> tuple[Store, ReplicaStore | None]:
    """Return the store behind an address, and what answers reads if that is not the store itself."""
    if durability not in ("full", "normal"):
        raise UsageError(f"{quote(durability)} is not a durability", hint='Use "full" or "normal"')
    _check_seconds("busy_timeout", busy_timeout, 0)
    if statement_timeout is not None:
        _check_seconds("statement_timeout", statement_timeout, _SHORTEST_STATEMENT)
    if type(pool) is not int or not 1 <= pool <= _LARGEST_POOL:
        raise UsageError(
            f"{quote(pool)} is not a number of connections",
            hint=f"Pass pool as a number from 1 to {_LARGEST_POOL:,}",
            value=pool,
        )
    if read_from not in ("primary", "standby"):
        raise UsageError(
            f"{quote(read_from)} is nothing to read from", hint='Use "primary" or "standby"', value=read_from
        )
    kind, address = kind_of_store(url)
    if kind == "postgres":
        return _open_postgres(
            address,
            durability=durability,
            busy_timeout=busy_timeout,
            pool=pool,
            statement_timeout=statement_timeout,
            read_from=read_from,
        )
    for name, is_given in (("read_from", read_from != "primary"), ("statement_timeout", statement_timeout is not None)):
        if is_given:
            raise UsageError(f"`{name}` is for PostgreSQL, and {quote(url)} is a file", hint="Leave it out")
    return SqliteStore(address, durability=durability, busy_timeout=busy_timeout), None


def _check_seconds(name: str, value: object, least: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= _LONGEST_WAIT:
        raise UsageError(
            f"{quote(value)} is not a number of seconds to wait",
            hint=f"Pass {name} as a number from {least:g} to {_LONGEST_WAIT:,}",
            value=value,
        )


def kind_of_store(url: str) -> tuple[Literal["sqlite", "postgres"], str]:
    """Return which store an address is for, and the address as that store takes it."""
    scheme, colons, rest = url.partition("://")
    if not colons or scheme == "sqlite":
        path = rest.removeprefix("/") if colons else url
        if not path.strip():  # an empty path would be a temporary database, which was not asked for
            raise UsageError(
                f"the address {quote(url)} names no file",
                hint="Name one, such as memory.db, or write :memory:",
                value=url,
            )
        return "sqlite", path
    if scheme in ("postgresql", "postgres"):
        return "postgres", url
    raise UsageError(
        f"{quote(scheme)} is not a store this version knows",
        hint="Use a file path, sqlite:///path, postgresql://user@host/database or :memory:",
        value=scheme,
    )


def _open_postgres(url: str, **options: Any) -> tuple[Store, ReplicaStore]:
    with postgres_package():
        from memoranda.store.postgres import PostgresStore
    store = PostgresStore(url, **options)
    return store, store.reading


@contextmanager
def postgres_package() -> Generator[None]:
    """Say what to install if an import of the driver fails."""
    try:
        yield
    except ImportError as error:
        raise Unavailable("PostgreSQL needs the package `psycopg`", hint=Hint("install", "postgres")) from error
