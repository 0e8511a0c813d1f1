"""A memory as the promises of stores use it, each call sent through the client to a server in another process.

What the client has no call for is skipped with the reason. What it has is turned back into the engine's own values, so
that a promise cannot tell the difference: tenants get names of their own on the server, because all tests share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any, ClassVar, NoReturn

import pytest
from msgspec import structs

import memoranda
from memoranda.engine.erasure import Receipt, Swept
from memoranda.governance.maintenance import Finding, inspect_tenant
from memoranda.model.block import BlockType
from memoranda.model.entry import Entry, Match, Recalled, Shelf
from memoranda.model.event import Event
from memoranda.model.fact import Fact, Revision
from memoranda.model.policy import Grant, Rule
from memoranda.model.scope import DEFAULT_TENANT, Scope
from memoranda.store.base import EntryQuery, FactQuery, Reader, RevisionQuery, Store
from memoranda.store.sqlite import SqliteStore
from memoranda.testing import FakeClock
from memoranda.testing.conformance import Capability
from memoranda.testing.conformance.base import ConformanceBase
from memoranda.testing.conformance.definitions import divide, lower
from memoranda.wire import memory as wire_collections

OWNER = "owner-of-the-desk"
"""The user whose key is used for what belongs to the whole tenant."""


def cannot(reason: str) -> NoReturn:
    """Leave out a promise that the client has no words for."""
    pytest.skip(f"not through the client: {reason}")


class Unsaid:
    """An answer that the server does not give; comparing it leaves the promise out."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __eq__(self, other: object) -> bool:
        cannot(f"the server does not say {self._what}")

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class RemoteClock(FakeClock):
    """A clock that also moves the server's."""

    def __init__(self, served: Any) -> None:
        super().__init__()
        self._served = served
        served.show(self.now())

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._served.show(self.now())

    def set(self, moment: datetime) -> None:
        super().set(moment)
        self._served.show(self.now())


class Names:
    """What tenants are called on the server."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def there(self, tenant: str) -> str:
        return tenant if self.ours(tenant) else f"{self._prefix}.{tenant}"

    def ours(self, tenant: str) -> bool:
        return tenant.startswith(f"{self._prefix}.")

    def here(self, tenant: str) -> str:
        return tenant.removeprefix(f"{self._prefix}.")

    def scope(self, tenant: str, path: str) -> Scope:
        return Scope(self.here(tenant), path)


class RemoteStore:
    """The server's own store, to look into only: what promises compare before and after."""

    def __init__(self, served: Any, store: Store, names: Names) -> None:
        self._served = served
        self._store = store
        self._names = names

    def read(self, work: Callable[[Any], Any]) -> Any:
        self._served.settle()
        return self._store.read(lambda rows: work(_Rows(rows, self._names)))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        cannot(f"`{name}` of the store itself")


class _Rows:
    """Rows of the tenants of one test, under the names that they have in it."""

    def __init__(self, rows: Reader, names: Names) -> None:
        self._rows = rows
        self._names = names

    def tenants(self) -> list[str]:
        return [tenant for tenant in self._rows.tenants() if self._names.ours(tenant)]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._rows, name)

        def call(*given: Any, **options: Any) -> Any:
            kind = [one for one in given[:1] if isinstance(one, type)]
            first, *others = given[len(kind) :]
            return method(*kind, self._there(first), *others, **options)

        return call

    def _there(self, place: Any) -> Any:
        if isinstance(place, Scope):
            return Scope(self._names.there(place.tenant), place.path)
        if isinstance(place, FactQuery | RevisionQuery):
            return structs.replace(place, scope=self._there(place.scope))
        if isinstance(place, Shelf):
            return Shelf(self._there(place.scope), place.collection, place.namespace)
        if isinstance(place, EntryQuery):
            asked = {"tenant": place.tenant, "shelf": place.shelf, "below": place.below}
            return structs.replace(place, **{name: self._there(value) for name, value in asked.items() if value})
        return self._names.there(place) if isinstance(place, str) else place


class RemoteMemory:
    """A memory behind a server."""

    def __init__(self, served: Any, names: Names, clock: FakeClock, connect: Callable[..., memoranda.Client]) -> None:
        self._served = served
        self._names = names
        self._connect = connect
        self.clock = clock
        self.tenant = DEFAULT_TENANT

    def client(self, user: str, tenant: str = DEFAULT_TENANT) -> memoranda.Client:
        try:
            key = self._served.key(user, tenant=self._names.there(tenant))
        except memoranda.UsageError:
            cannot("no key is made for a user of that name")
        return self._connect(self._served.url, key)

    def scope(self, *, tenant: str | None = None, **ids: str) -> RemoteScope:
        return self.at(Scope.of(tenant=self.tenant if tenant is None else tenant, **ids))

    def at(self, scope: Scope | str) -> RemoteScope:
        scope = scope if isinstance(scope, Scope) else Scope.parse(scope, tenant=self.tenant)
        if scope.shape[:1] != ("user",):
            cannot("a key belongs to a user, whose memory alone it reaches")
        return RemoteScope(self.client(scope.parts[0][1], scope.tenant), self._names, scope)

    def in_tenant(self, tenant: str) -> RemoteMemory:
        other = RemoteMemory(self._served, self._names, self.clock, self._connect)
        other.tenant = tenant
        return other

    def batch(self, *, idempotency_key: str | None = None) -> RemoteBatch:
        return RemoteBatch(self._names, idempotency_key)

    def scopes(self, *, after: str = "", **options: Any) -> list[Scope]:
        if after:
            cannot("pages go on from a cursor, not from a path")
        return [Scope(self.tenant, path) for path in self._desk.scopes(**options)]

    @property
    def definitions(self) -> RemoteDefinitions:
        return RemoteDefinitions(self._desk, self._names)

    @property
    def collections(self) -> RemoteCollections:
        return RemoteCollections(self._desk)

    @property
    def ledger(self) -> RemoteLedger:
        self._served.settle()
        return RemoteLedger(self._desk)

    @property
    def permissions(self) -> RemotePermissions:
        return RemotePermissions(self._desk, self._names)

    @property
    def approvals(self) -> Any:
        return self._desk.approvals

    @property
    def _desk(self) -> memoranda.Client:
        return self.client(OWNER, self.tenant)

    def erase(self, *, tenant: str | None = None, **ids: str) -> Receipt:
        if not ids:
            cannot("a whole tenant is erased where the server runs")
        done = self.client(OWNER, self.tenant if tenant is None else tenant).erase(**ids)
        return Receipt(
            id=done.id,
            scope=self._names.scope(done.tenant, done.scope),
            at=done.at,
            removed=done.removed,
            position=done.position,
            scrubbed=done.scrubbed,
            remains=done.remains,
        )

    def export(self, path: Any, *, scope: Scope | None = None) -> int:
        return self._desk.export(path, scope=None if scope is None else scope.path)

    def import_file(self, path: Any) -> Any:
        return self._desk.import_file(path)

    def import_lines(self, lines: Iterable[bytes], *, source: str) -> Any:
        return self._desk.import_lines(lines, source=source)

    def sweep(self) -> Swept:
        return Swept(**structs.asdict(self._desk.sweep()))

    def inspect(self) -> list[Finding]:
        """Look where the server runs, as its operator would: no key reaches all tenants."""
        self._served.settle()
        with closing(SqliteStore(self._served.database)) as store:
            return store.read(
                lambda rows: [
                    finding
                    for tenant in rows.tenants()
                    if self._names.ours(tenant)
                    for finding in inspect_tenant(rows, tenant, self.clock.now())
                ]
            )

    def settle(self) -> None:
        self._served.settle()

    def close(self) -> None: ...

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        cannot(UNREACHED.get(name, f"there is no call for `{name}` of a memory"))


UNREACHED = {
    "acting_as": "a key is the handle: as whom it acts, and what it may, was said when it was made",
    "perform": "effects are what calls are made of; each that a user needs has a call",
    "limits": "how large things may be is the server's to say",
}
"""Why a memory behind a server has no such call."""


class RemoteScope:
    """The memory of a user, or of a place below one."""

    def __init__(self, client: memoranda.Client, names: Names, scope: Scope) -> None:
        self._client = client
        self._names = names
        self._below = scope.path.partition("/")[2] or None
        self.scope = scope

    # facts

    def get(self, key: str, *, as_of: Any = None) -> Fact | None:
        found = self._client.facts.get(key, as_of=as_of, scope=self._below)
        return None if found is None else _fact(found, self._names)

    def value(self, key: str, default: Any = None, *, as_of: Any = None) -> Any:
        return self._client.facts.value(key, default, as_of=as_of, scope=self._below)

    def set(self, key: str, value: Any, **options: Any) -> Fact:
        return _fact(self._client.facts.set(key, value, scope=self._below, **options), self._names)

    def create(self, key: str, value: Any, **options: Any) -> Fact:
        return _fact(self._client.facts.create(key, value, scope=self._below, **options), self._names)

    def update(self, key: str, change: Callable[[Any], Any], **options: Any) -> Fact:
        return _fact(self._client.facts.update(key, change, scope=self._below, **options), self._names)

    def delete(self, key: str, **options: Any) -> bool:
        return self._client.facts.delete(key, scope=self._below, **options)

    def list(self, prefix: str = "", *, after: str = "", **options: Any) -> list[Fact]:
        if after:
            cannot("pages go on from a cursor, not from a key")
        found = self._client.facts.list(prefix, scope=self._below, **options)
        return [_fact(fact, self._names) for fact in found]

    def history(self, key: str) -> list[Revision]:
        return [_revision(one, self._names) for one in self._client.facts.history(key, scope=self._below)]

    # entries

    def remember(self, content: Any, **options: Any) -> Any:
        return self._client.collections.remember(content, scope=self._below, **options)

    def remember_many(self, items: Any, *, collection: str, **options: Any) -> list[Any]:
        return self._client.collections.remember_many(items, collection=collection, scope=self._below, **options)

    def remember_text(self, text: str, *, collection: str, **options: Any) -> list[Any]:
        return self._client.collections.remember_text(text, collection=collection, scope=self._below, **options)

    def recall(self, query: str, **options: Any) -> Recalled:
        if options.get("scopes"):
            options["scopes"] = [one if isinstance(one, str) else one.scope.path for one in options["scopes"]]
        found = self._client.collections.recall(query, scope=self._below, **options)
        matches = [_match(one, self._names) for one in found.results]
        return Recalled(results=matches, count=found.count, known=found.known, hint=found.hint)

    def entries(self, *, after: int = 0, **options: Any) -> list[Entry]:
        if after:
            cannot("pages go on from a cursor, not from a sequence")
        found = self._client.collections.entries(scope=self._below, **options)
        return [_entry(entry, self._names) for entry in found]

    def entry(self, ref: str | None = None, **options: Any) -> Entry | None:
        found = self._client.collections.entry(ref, scope=self._below, **options)
        return None if found is None else _entry(found, self._names)

    def entry_history(self, ref: str, **options: Any) -> list[Entry]:
        found = self._client.collections.entry_history(ref, scope=self._below, **options)
        return [_entry(entry, self._names) for entry in found]

    def supersede(self, ref: str, content: Any, **options: Any) -> Any:
        return self._client.collections.supersede(ref, content, scope=self._below, **options)

    def forget(self, id: str | None = None, **options: Any) -> Any:
        return self._client.collections.forget(id, scope=self._below, **options)

    def undo(self, done: Any) -> Any:
        return self._client.collections.undo(done, scope=self._below)

    def namespaces(self, **options: Any) -> list[str]:
        return self._client.collections.namespaces(scope=self._below, **options)

    def batch(self, *, idempotency_key: str | None = None) -> RemoteScopedBatch:
        return RemoteScopedBatch(RemoteBatch(self._names, idempotency_key), self)

    def session(self, id: str) -> NoReturn:
        cannot("a session stands beside the memory of its user, and a key reaches what lies below")

    def end(self) -> dict[str, int]:
        if self._below is None:
            cannot("a key ends what lies below its user")
        return self._client.end(self._below)

    # blocks

    @property
    def blocks(self) -> RemoteBlocks:
        if self.scope.shape not in (("user",), ("user", "agent")):
            cannot("blocks have routes for users and agents only")
        return RemoteBlocks(self._client, dict(self.scope.parts).get("agent"), self._names)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        cannot(f"there is no route for `{name}` of a scope")


class RemoteBlocks:
    """The blocks of a user, or of one agent."""

    def __init__(self, client: memoranda.Client, agent: str | None, names: Names) -> None:
        self._memory = client.memory
        self._agent = agent
        self._names = names

    def get(self, block: BlockType) -> Any:
        return self._memory.get(block, agent_id=self._agent)

    def list(self, *, scope: Any = None) -> Any:
        return self._memory.list(scope=scope, agent_id=self._agent)

    def update(self, block: BlockType, content: str, **options: Any) -> Any:
        return self._memory.update(block, content, agent_id=self._agent, **options)

    def delete(self, block: BlockType, **options: Any) -> bool:
        return self._memory.delete(block, agent_id=self._agent, **options)

    def history(self, block: BlockType) -> list[Revision]:
        return [_revision(one, self._names) for one in self._memory.history(block, agent_id=self._agent)]

    def undo(self, block: BlockType, **options: Any) -> Any:
        return self._memory.undo(block, agent_id=self._agent, **options)

    def recall(self, query: str, *, agent: str | None = None, **options: Any) -> Any:
        return self._memory.recall(query, agent_id=self._agent if agent is None else agent, **options)


class RemoteBatch:
    """Writes of one user, sent as one."""

    def __init__(self, names: Names, idempotency_key: str | None) -> None:
        self._names = names
        self._idempotency_key = idempotency_key
        self._writes: list[tuple[RemoteScope, Callable[[Any], None]]] = []
        self.results: list[Any] = []

    def set(self, place: RemoteScope, key: str, value: Any, **options: Any) -> None:
        self._writes.append((place, lambda batch: batch.set(key, value, scope=place._below, **options)))

    def delete(self, place: RemoteScope, key: str, **options: Any) -> None:
        self._writes.append((place, lambda batch: batch.delete(key, scope=place._below, **options)))

    def remember(self, place: RemoteScope, content: Any, **options: Any) -> None:
        self._writes.append((place, lambda batch: batch.remember(content, scope=place._below, **options)))

    def forget(self, place: RemoteScope, *given: Any, **options: Any) -> None:
        self._writes.append((place, lambda batch: batch.forget(*given, scope=place._below, **options)))

    def __enter__(self) -> RemoteBatch:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is not None or not self._writes:
            return
        clients = {id(place._client): place._client for place, _ in self._writes}
        if len(clients) > 1:
            cannot("a key belongs to one user, and a batch to one key")
        (client,) = clients.values()
        with client.batch(idempotency_key=self._idempotency_key) as batch:
            for _, write in self._writes:
                write(batch)
        self.results = [
            _fact(one, self._names) if isinstance(one, wire_collections.Fact) else one for one in batch.results
        ]


class RemoteScopedBatch:
    """A batch of one scope."""

    def __init__(self, batch: RemoteBatch, place: RemoteScope) -> None:
        self._batch = batch
        self._place = place

    def __getattr__(self, name: str) -> Any:
        if name == "results":
            return self._batch.results
        return partial(getattr(self._batch, name), self._place)

    def __enter__(self) -> RemoteScopedBatch:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._batch.__exit__(kind, error, traceback)


class RemotePermissions:
    """The grants of a tenant."""

    def __init__(self, client: memoranda.Client, names: Names) -> None:
        self._permissions = client.permissions
        self._names = names

    def grant(self, actor: str, capability: str, *, scope: Scope | None = None, **options: Any) -> Grant:
        path = None if scope is None else scope.path
        return self._here(self._permissions.grant(actor, capability, scope=path, **options))

    def revoke(self, grant: str) -> Any:
        self._permissions.revoke(grant)
        return Unsaid("which grant was taken back")

    def list(self) -> list[Grant]:
        return [self._here(one) for one in self._permissions.list()]

    def _here(self, grant: Any) -> Grant:
        tenant = self._names.here(grant.tenant)
        scope = None if grant.scope is None else Scope(tenant, grant.scope)
        rule = Rule(grant.level, grant.capability, scope, grant.path)
        return Grant(id=grant.id, tenant=tenant, actor=grant.actor, rule=rule)


MIGRATIONS: dict[Callable[[Any], Any], str] = {
    lower: '{"n": $record.n - 5}',
    divide: '{"n": $floor($record.n / 5)}',
}
"""The functions with which promises migrate records, as the expressions that a server takes."""


class RemoteDefinitions:
    """The definitions of a tenant."""

    def __init__(self, client: memoranda.Client, names: Names) -> None:
        self._definitions = client.definitions
        self._names = names

    def create(self, **options: Any) -> Any:
        return self._here(self._definitions.create(**options))

    def list(self) -> list[Any]:
        return [self._here(one) for one in self._definitions.list()]

    def get(self, name: str) -> Any:
        return self._here(self._definitions.get(name))

    def update(self, definition: str, **options: Any) -> Any:
        if "migrate" in options:
            if options["migrate"] not in MIGRATIONS:
                cannot("a migration is an expression there, which does nothing but return a value")
            options["migrate"] = MIGRATIONS[options["migrate"]]
        done = self._definitions.update(definition, **options)
        return done if options.get("check") else self._here(done)

    def stale(self, definition: str, **options: Any) -> Any:
        return self._definitions.stale(definition, **options)

    def delete(self, *definitions: str) -> Any:
        if len(definitions) != 1:
            cannot("definitions are deleted one by one")
        self._definitions.delete(definitions[0])
        return Unsaid("how many records went with a definition")

    def records(self, definition: str, *, limit: int | None = None) -> list[Fact]:
        return [_fact(one, self._names) for one in self._definitions.records(definition, limit=limit)]

    def _here(self, definition: Any) -> Any:
        return structs.replace(definition, tenant=self._names.here(definition.tenant))


class RemoteCollections:
    """The collections of a tenant."""

    def __init__(self, client: memoranda.Client) -> None:
        self._collections = client.collections

    def list(self, *, below: Scope | None = None, **options: Any) -> list[Any]:
        if below is not None:
            cannot("whose collections are listed is said by the key")
        return self._collections.list(**options)

    def delete(self, name: str) -> int:
        return self._collections.delete(name)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        cannot(f"`{name}` of collections: which embedder a server loads is its operator's to say")


class RemoteLedger:
    """The ledger of a tenant, under the tenant's name on the server: it is part of what is hashed."""

    def __init__(self, client: memoranda.Client) -> None:
        self._ledger = client.ledger

    def events(self, *, start: int = 1, limit: int | None = None) -> list[Event]:
        return self._ledger.list(start=start, limit=limit)

    def tail(self, limit: int = 20) -> list[Event]:
        return self._ledger.tail(limit)

    def verify(self, *, anchor: Any = None) -> Any:
        return self._ledger.verify(anchor=anchor)

    def anchor(self) -> Any:
        return self._ledger.anchor()


_TYPED = "what is no text, number or map is refused by the wire, as a UsageError"
_ACTOR = "the actor is the user of the key, the door is `rest`"

LEFT_OUT: dict[str, str] = {
    "test_a_closed_memory_says_so_and_may_be_closed_again": "closing a client closes no memory",
    "test_a_name_is_short_visible_text[5]": _TYPED,
    "test_a_name_is_short_visible_text[None]": _TYPED,
    "test_a_name_is_short_visible_text[a\\x00b]": "no body holds a NUL character: an InvalidValue before it is sent",
    "test_a_schema_that_is_not_one_is_refused_with_the_path_of_its_fault[None-$]": _TYPED,
    "test_a_schema_that_is_not_one_is_refused_with_the_path_of_its_fault[True-$]": _TYPED,
    "test_a_schema_that_is_not_one_is_refused_with_the_path_of_its_fault[object-$]": _TYPED,
    "test_a_schema_that_is_not_one_is_refused_with_the_path_of_its_fault[schema1-$]": _TYPED,
    "test_a_record_that_is_written_while_others_are_compared_is_not_overlooked": "the server compares, elsewhere",
    "test_a_scope_that_is_none_is_refused": _TYPED,
    "test_an_agents_handle_sees_its_own_blocks_and_its_users": "a recall stands in the user's scope and names an agent",
    "test_every_mutation_is_exactly_one_event": _ACTOR,
    "test_merges_at_once_lose_nothing": UNREACHED["perform"],
    "test_metadata_that_are_not_a_json_object_are_refused['text']": _TYPED,
    "test_metadata_that_are_not_a_json_object_are_refused[[1]]": _TYPED,
    "test_no_other_id_is_accepted_than_a_uuid": _TYPED,
    "test_no_other_mode_is_accepted": _TYPED,
    "test_no_other_slug_is_accepted[5]": _TYPED,
    "test_no_other_slug_is_accepted[None]": _TYPED,
    "test_origin_says_who_through_which_door_and_from_which_source": _ACTOR,
    "test_the_receipt_names_the_event_in_the_ledger": _ACTOR,
    "test_what_is_too_large_is_refused_naming_the_limit_and_kept_in_parts": "the server's limits are not known here",
}
"""Promises that the client could express but that differ on the wire; by test, or by one of its cases."""


class RemoteConformance(ConformanceBase):
    """The fixtures of the suite, over a server in another process."""

    backend: ClassVar = "client"
    capabilities: ClassVar[frozenset[Capability]] = frozenset()

    @pytest.fixture(autouse=True)
    def _leave_out(self, request: pytest.FixtureRequest) -> None:
        reason = LEFT_OUT.get(request.node.name) or LEFT_OUT.get(request.node.originalname)
        if reason:
            cannot(reason)

    @pytest.fixture
    def clock(self, served: Any) -> RemoteClock:
        return RemoteClock(served)

    @pytest.fixture
    def names(self) -> Names:
        """Return names for tenants that no other test uses."""
        return Names(f"t{next(_numbers)}")

    @pytest.fixture
    def store(self, served: Any, names: Names) -> Iterator[Any]:
        with closing(SqliteStore(served.database)) as store:
            yield RemoteStore(served, store, names)

    @pytest.fixture
    def open_memory(self, served: Any, names: Names, clock: RemoteClock) -> Iterator[Callable[..., Any]]:
        """Return what gives further clients of the same tenants."""
        clients: dict[str, memoranda.Client] = {}

        def connect(url: str, key: str) -> memoranda.Client:
            if key not in clients:
                clients[key] = memoranda.Client(url, key, timeout=60)
            return clients[key]

        yield lambda: RemoteMemory(served, names, clock, connect)
        for client in clients.values():
            client.close()

    @pytest.fixture
    def memory(self, open_memory: Callable[..., Any]) -> Any:
        return open_memory()

    @pytest.fixture
    def open_beside(self, open_memory: Callable[..., Any]) -> Callable[..., Any]:
        def open_beside(**options: Any) -> Any:
            if options:
                cannot("how a server is opened")
            return open_memory()

        return open_beside


_numbers = count(1)


def _fact(fact: Any, names: Names) -> Fact:
    return Fact(scope=names.scope(fact.tenant, fact.scope), **_fields(fact, "tenant", "scope"))


def _revision(revision: Any, names: Names) -> Revision:
    return Revision(scope=names.scope(revision.tenant, revision.scope), **_fields(revision, "tenant", "scope"))


def _entry(entry: wire_collections.Entry, names: Names) -> Entry:
    without = ("tenant", "scope", "ref", "valid_from", "valid_to")
    return Entry(scope=names.scope(entry.tenant, entry.scope), ended_at=entry.valid_to, **_fields(entry, *without))


def _match(match: wire_collections.Match, names: Names) -> Match:
    return Match(
        before=tuple(_entry(one, names) for one in match.before),
        after=tuple(_entry(one, names) for one in match.after),
        scope=names.scope(match.tenant, match.scope),
        **_fields(match, "before", "after", "tenant", "scope"),
    )


def _fields(value: Any, *without: str) -> dict[str, Any]:
    return {name: field for name, field in structs.asdict(value).items() if name not in without}
