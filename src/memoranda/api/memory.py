"""A memory: everything one program can do with what is remembered, each call an effect through the gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from memoranda.api.approvals import Approvals
from memoranda.api.batch import Batch
from memoranda.api.collections import Collections
from memoranda.api.definitions import Definitions
from memoranda.api.ledger import Ledger
from memoranda.api.permissions import Permissions
from memoranda.api.runs import Runs
from memoranda.api.scoped import ScopedMemory
from memoranda.api.transfer import is_counted, lines_of, parse_lines, write_lines
from memoranda.engine.embedders import EmbedderBook
from memoranda.engine.erase import Receipt
from memoranda.engine.expiry import Swept
from memoranda.errors import Denied, InvalidPolicy
from memoranda.governance.gate import Caller, Gate
from memoranda.governance.inspection import Finding
from memoranda.model.clock import Clock, SystemClock
from memoranda.model.effect import Effect, Erase, Export, Inspect, ListTenants, Scrub, Sweep
from memoranda.model.ids import Ids, SystemIds
from memoranda.model.limits import Limits
from memoranda.model.policy import OWNER, Level, Policy
from memoranda.model.scope import DEFAULT_TENANT, Scope
from memoranda.model.text import check_label, quote, require_label
from memoranda.model.transfer import Imported
from memoranda.store.base import Store

if TYPE_CHECKING:
    from memoranda.retrieval.embed.base import Embedder

DEFAULT_EMBEDDER = "wordllama"
"""What new collections are embedded with: its weights come with the package, so it needs no network and no key."""


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
    ) -> None:
        """Stand on a store; most programs call `memoranda.open` instead."""
        self._gate = Gate(
            store,
            clock=clock or SystemClock(),
            ids=ids or SystemIds(),
            limits=limits or Limits(),
            embedders=EmbedderBook(embedder),
            record_reads=record_reads,
            keep_text=keep_text,
        )
        self._caller = Caller()
        self._shared = Scope.of(tenant=tenant)
        self.url: str = store.url

    @property
    def tenant(self) -> str:
        """The tenant this handle stands in."""
        return self._shared.tenant

    @property
    def waits(self) -> bool:
        """Whether even one fact is waited for, as from PostgreSQL: an event loop then reads in a thread."""
        return self._gate.waits

    @property
    def actor(self) -> str:
        """Who this handle acts for."""
        return self._caller.actor

    @property
    def is_owner(self) -> bool:
        """Whether this is the handle of the program that opened the store, and not one that it handed out."""
        return self._caller.tenant is None

    @property
    def limits(self) -> Limits:
        """How large things may be."""
        return self._gate.limits

    @property
    def clock(self) -> Clock:
        """The one source of time."""
        return self._gate.clock

    @property
    def ids(self) -> Ids:
        """The one source of identity."""
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
        """Return the memory of a scope, given as a value or as text such as `user:ada/agent:emails`.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.at("user:ada/agent:emails").set("tone", "warm").version
        ...     memory.scope(user="ada", agent="emails").value("tone")
        1
        'warm'
        """
        if not isinstance(scope, Scope):
            scope = Scope.parse(scope, tenant=self.tenant)
        return ScopedMemory(self._gate, self._caller, scope)

    def batch(self, *, idempotency_key: str | None = None) -> Batch:
        """Return a batch of writes that are kept all together when its `with` block ends, or not at all.

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

    # the rest of the desk

    @property
    def collections(self) -> Collections:
        """Where entries are kept, and what embeds them."""
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
    def approvals(self) -> Approvals:
        """What waits for a decision."""
        return Approvals(self._gate, self._caller, self._shared)

    @property
    def runs(self) -> Runs:
        """What machines did, and where their runs stand."""
        return Runs(self._gate, self._caller, self._shared)

    # who acts

    def acting_as(
        self, actor: str, *, policy: Policy | None = None, door: str | None = None, source: str | None = None
    ) -> Memory:
        """Return a handle that acts for somebody else: under this policy, or under what was granted to them.

        Only the owner may hand out handles; whoever holds a narrower one can only narrow it further.

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
        check_label("door", door)
        check_label("source", source)
        if policy is not None:
            self._check_tenant_of(policy)
        return self._with_caller(
            Caller(
                actor=actor,
                door=door or self._caller.door,
                source=source,
                policies=(policy,) if policy is not None else (),
                granted=policy is None,
                tenant=self.tenant,
                at_once=self._caller.at_once,
            )
        )

    def in_tenant(self, tenant: str) -> Memory:
        """Return the owner's handle in another tenant, on the same store; any narrower handle stays where it stands.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.in_tenant("acme").scope(user="ada").set("language", "en").scope.tenant
        ...     memory.scope(user="ada").get("language") is None
        'acme'
        True
        """
        self._check_stands_in(tenant)
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

    def through(self, door: str) -> Memory:
        """Return a handle whose writes say that they came through this door: `cli`, `rest` or `abl`.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.through("cli").scope(user="ada").set("language", "en").origin.door
        'cli'
        """
        require_label("door", door)
        return self._with_caller(msgspec.structs.replace(self._caller, door=door))

    def at_once(self) -> Memory:
        """Return a handle for those who must not be held up: a write that would have to wait raises `Busy` instead.

        It waits for no other writer, no slow disk, no embedder and no PostgreSQL. Nothing of a write that is `Busy` is
        kept; do it again with the handle that waits, in a thread.

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

    # upkeep

    def erase(self, *, tenant: str | None = None, **ids: str) -> Receipt:
        """Remove everything of a user, project, session… history included; return what went, by kind.

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
                records=dict(Counter(total.records) + Counter(part.records)),
            )
            if not part.more:
                return total

    def scrub(self) -> bool:
        """Rewrite storage so that removed content is gone from its bytes; say whether that could be done now.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.scrub()
        True
        """
        return self.perform(Scrub(scope=self._shared))

    def inspect(self) -> list[Finding]:
        """Check for damage: the file, every chain, facts and entries, and their vectors and words.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     all(finding.ok for finding in memory.inspect())
        True
        """
        return self.perform(Inspect(scope=self._shared))

    def tenants(self) -> list[str]:
        """Return every tenant that anything is kept of, by name; a handle that stands in one names only that one.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.in_tenant("acme").scope(user="ada").set("language", "en")
        ...     memory.tenants()
        ['acme']
        """
        return self.perform(ListTenants(scope=self._shared))

    def mark(self, *, tenant: str | None = None) -> Hashable:
        """Return a mark that is another one once anybody has written anything: until then, what was read holds.

        With a tenant, it need only change with what is written there. Ask for it before reading what is kept. It is
        cheaper than reading again, and may change for no reason.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     before = memory.mark()
        ...     memory.scope(user="ada").set("language", "en").version
        ...     memory.mark() == before
        1
        False
        """
        if tenant is not None:
            self._check_stands_in(tenant)
        return self._gate.mark(tenant)

    def settle(self) -> None:
        """Return once everything that happens in the background has happened.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     found = memory.scope(user="ada").recall("anything", collection="notes")
        ...     memory.settle()
        ...     memory.ledger.tail(1)[0].effect
        'recall'
        """
        self._gate.settle()

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

        def counted(lines: Iterator[bytes]) -> Iterator[bytes]:
            nonlocal count
            for line in lines:
                count += is_counted(line)
                yield line

        self.export_lines(lambda lines: write_lines(Path(path), counted(lines)), scope=scope)
        return count

    def export_lines(self, take: Callable[[Iterator[bytes]], Any], *, scope: Scope | None = None) -> Any:
        r"""Let `take` have the lines of an export, one by one, and return what it gives.

        They are read while it takes them, on one moment of the database, which stays open until `take` returns.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     memory.export_lines(lambda lines: sum(line.startswith(b'{"fact":') for line in lines))
        1
        """
        effect = Export(scope=scope or self._shared)
        tenant = effect.scope.tenant
        return self._gate.export(effect, self._caller, lambda at, parts: take(lines_of(tenant, at, parts)))

    def import_file(self, path: str | Path) -> Imported:
        """Write what an export file holds, all or nothing. What was erased since it was made stays erased.

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
        """Write what the lines of an export hold, all or nothing.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     written = memory.export("all.jsonl")
        ...     with open("all.jsonl", "rb") as lines:
        ...         memory.import_lines(lines, source="all.jsonl").kept
        1
        """
        return self.perform(parse_lines(lines, self._shared, source, self.limits))

    def close(self) -> None:
        """Write what was put off and let go of the store."""
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
        """Return what was opened, for whom."""
        return f"<memoranda.Memory {self.url} tenant={self.tenant} actor={self.actor}>"

    def may(self, effect: Effect) -> bool:
        """Say whether this handle's policies let an effect pass as it is; nothing is done, and nothing recorded.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     from memoranda.model.effect import GetFact
        ...     ask = GetFact(scope=memoranda.Scope.of(user="ada"), key="language")
        ...     memory.may(ask), memory.narrowed(memoranda.Policy()).may(ask)
        (True, False)
        """
        return self.level(effect) == "allow"

    def level(self, effect: Effect) -> Level:
        """Return what this handle's policies say to an effect; nothing is done, and nothing recorded.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     from memoranda.model.effect import Erase
        ...     policy = memoranda.Policy.of(allow=("memory.read",), approve=("memory.erase",))
        ...     memory.narrowed(policy).level(Erase(scope=memoranda.Scope.of(user="ada")))
        'approve'
        """
        return self._gate.verdict(effect, self._caller).level

    @property
    def root(self) -> object:
        """What was opened: the same for every handle on it."""
        return self._gate

    def perform(self, effect: Effect) -> Any:
        """Carry out an effect as this handle's actor: how the languages and other doors reach the memory.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     from memoranda.model.effect import FindFacts
        ...     fact = memory.scope(user="ada").set("language", "en")
        ...     [found.value for found in memory.perform(FindFacts(scope=memoranda.Scope(), key="language"))]
        ['en']
        """
        return self._gate.perform(effect, self._caller)

    def _check_tenant_of(self, policy: Policy) -> None:
        """Refuse a rule about another tenant: it would never match, and protect nobody."""
        for rule in policy.rules:
            if rule.scope is not None and rule.scope.tenant != self.tenant:
                raise InvalidPolicy(
                    f"a rule speaks about `{rule.scope}` of the tenant `{rule.scope.tenant}`, "
                    f"and the handle stands in `{self.tenant}`",
                    hint="Name the tenant: Scope.of(tenant=…, user=…)",
                )

    def _check_stands_in(self, tenant: str) -> None:
        if self._caller.tenant not in (None, tenant):
            raise Denied(
                f"`{self.actor}` stands in the tenant `{self._caller.tenant}`, not in {quote(tenant)}",
                hint="Ask the program that opened the memory",
                actor=self.actor,
            )

    def _with_caller(self, caller: Caller) -> Memory:
        other = object.__new__(Memory)
        other._gate, other._caller, other._shared, other.url = self._gate, caller, self._shared, self.url
        return other
