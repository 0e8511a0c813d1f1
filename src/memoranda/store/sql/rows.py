"""The store contract on named SQL statements, but for collections and entries (`entries.py`).

Nothing here begins, commits or translates errors; the owner of the connection does. Every statement is read to its end
at once, so that no cursor stays open across a commit; long results are read page by page. A row that cannot be decoded
is damage, not a mistake of the caller: it raises `Corrupt`, which names the row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import compress
from operator import attrgetter, itemgetter, ne
from typing import Any, NamedTuple, TypeVar

import msgspec

from memoranda.errors import Corrupt, InvalidScope
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.definition import Definition
from memoranda.model.effect import Approval, effect_decoder
from memoranda.model.entry import Collection, Space
from memoranda.model.event import GENESIS, RUN_EVENTS, Event, event_body
from memoranda.model.fact import Fact, Revision
from memoranda.model.guard import GuardRule
from memoranda.model.names import keys_below
from memoranda.model.omission import Clause, Omission
from memoranda.model.policy import Grant, Rule
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope, below
from memoranda.model.trust import RANK_OF, TRUSTS, Origin, OriginKind
from memoranda.model.value import decode, encode
from memoranda.store.base import (
    ContentKey,
    Erasure,
    FactQuery,
    Link,
    PlainRow,
    Progress,
    Replay,
    Reserved,
    RevisionQuery,
    ScopeEpoch,
    SegmentPiece,
    Session,
    TenantState,
    Window,
    text_place,
)

T = TypeVar("T")
R = TypeVar("R", bound=PlainRow)

Row = tuple[Any, ...]
Range = tuple[str, str]
"""A half-open range of texts, which an index can be searched for, unlike a LIKE pattern."""

FIRST_PAGE = 16
"""Rows of the first page of a long result, before the size of its rows is known."""
EVENT_PAGE = 256
FACT_PAGE = 64
"""Facts of one page; each has up to a megabyte."""
_PAGE_BYTES = 4_194_304
"""Content of one page, if its rows are as large as those of the page before."""
_CACHE_SIZE = 1_024
"""Rows that are cached: enough for current writers, little for idle sessions."""
_NO_LIMIT = 2**63 - 1
_LAST = "\U0010ffff"  # greater than every scope and key


_BARE = 11
"""Columns of a fact without its value."""


class Statements:
    """The statements that answer the queries of one kind."""

    def __init__(self, kind: type[msgspec.Struct], statements: dict[str, tuple[set[str], set[str]]]) -> None:
        """Take the fields that each statement needs, and those that it allows."""
        self._names = kind.__struct_fields__[-len(kind.__struct_defaults__) :]
        self._defaults = kind.__struct_defaults__
        self._statements = statements
        self._chosen: dict[tuple[bool, ...], str] = {}

    def choose(self, query: msgspec.Struct) -> str:
        """Return the statement for the fields of a query that are set."""
        values = msgspec.structs.astuple(query)[-len(self._defaults) :]
        is_set = tuple(map(ne, values, self._defaults))
        if is_set not in self._chosen:
            fields = set(compress(self._names, is_set))
            matching = (name for name, (needed, more) in self._statements.items() if needed <= fields <= needed | more)
            statement = next(matching, None)
            if statement is None:
                raise TypeError(f"no statement answers {query}")
            self._chosen[is_set] = statement
        return self._chosen[is_set]


_FACTS = Statements(
    FactQuery,
    {
        "list_facts": ({"active_at"}, {"prefix", "domain", "after", "limit"}),
        "list_facts_as_of": ({"as_of"}, {"prefix", "after", "limit"}),
        "page_facts_below": ({"below"}, set()),
        "list_facts_named": ({"below", "key"}, {"after", "limit"}),
        "list_facts_owned": ({"owned", "key"}, set()),
        "list_expired": ({"below", "expired_by", "limit"}, set()),
    },
)
_REVISIONS = Statements(
    RevisionQuery,
    {
        "list_revisions": ({"key"}, {"after", "limit"}),
        "list_newest_revisions": ({"key", "newest_first"}, {"before", "limit"}),
        "page_revisions_below": (set(), set()),
    },
)
# What an erasure counts, and the statement that removes it.
_ERASERS = {
    "facts": "erase_facts",
    "revisions": "erase_revisions",
    "idempotency_keys": "erase_replays",
    "approvals": "erase_approvals",
    "rejections": "erase_rejections",
    "ledger_texts": "erase_event_texts",
    "content_keys": "erase_content_keys",
    "sessions": "erase_sessions",
}
_MEMORY = ("facts", "revisions", "idempotency_keys", "ledger_texts", "content_keys")


class _Column(NamedTuple):
    """A column of a plain row: its field, and how a value that is not NULL is written and read."""

    field: str
    write: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None
    is_scope: bool = False
    """Whether it is a scope of the row's tenant, which is read by its path."""


def _time(field: str) -> _Column:
    return _Column(field, to_micros, from_micros)


def _json(field: str, decode: Callable[[bytes], Any]) -> _Column:
    return _Column(field, encode, decode)


def _path(field: str) -> _Column:
    return _Column(field, attrgetter("path"), is_scope=True)


class _Plain(NamedTuple):
    """One kind of plain rows: its name in errors, its columns beside the tenant, and its statements."""

    name: str
    columns: tuple[_Column, ...]
    put: str
    get: str = ""
    list: str = ""
    remove: str = ""
    is_cached: bool = False


# Creating a scope validates its text, and the same few are read again and again; so are the few spaces.
_scope = lru_cache(maxsize=1_024)(Scope)
_decode_space = lru_cache(maxsize=64)(msgspec.json.Decoder(Space).decode)
_decode_event = msgspec.json.Decoder(Event).decode

_PLAIN: dict[type[PlainRow], _Plain] = {
    Collection: _Plain(
        "collection",
        (_Column("name"), _time("created_at"), _json("space", _decode_space), _json("successor", _decode_space)),
        "put_collection",
        get="get_collection",
        list="list_collections",
        remove="remove_collection",
        is_cached=True,
    ),
    Definition: _Plain(
        "definition",
        (
            *map(_Column, ("id", "name", "slug", "scope", "ttl")),
            *map(_time, ("created_at", "updated_at")),
            _json("schema", decode),
        ),
        "put_definition",
        list="list_definitions",
        remove="remove_definition",
    ),
    Grant: _Plain(
        "grant",
        (_Column("id"), _Column("actor"), _json("rule", msgspec.json.Decoder(Rule).decode)),
        "put_grant",
        list="list_grants",
        remove="remove_grant",
    ),
    GuardRule: _Plain(
        "rule of the guard for",
        tuple(map(_Column, ("scope", "origin", "instructions", "secrets", "payment", "codes", "protected", "largest"))),
        "put_guard",
        list="list_guards",
        remove="remove_guard",
    ),
    Approval: _Plain(
        "approval",
        (
            *map(_Column, ("id", "scope", "actor", "door", "capability")),
            _time("requested_at"),
            *map(_Column, ("status", "decided_by")),
            _time("decided_at"),
            *map(_Column, ("reason", "kind")),
            _Column("trust", RANK_OF.__getitem__, TRUSTS.__getitem__),
            _Column("cause"),
            _json("findings", msgspec.json.Decoder(tuple[str, ...]).decode),
            _json("rules", decode),
            _json("effect", lambda payload: effect_decoder().decode(payload)),
        ),
        "put_approval",
        get="get_approval",
        list="list_approvals",
    ),
    StoredRejection: _Plain(
        "rejection",
        (
            _Column("id"),
            _path("scope"),
            *map(_Column, ("key", "actor")),
            _time("at"),
            *map(_Column, ("reason", "undo", "salt")),
            _json("digests", msgspec.json.Decoder(tuple[str, ...]).decode),
            _json("messages", msgspec.json.Decoder(tuple[str, ...]).decode),
        ),
        "put_rejection",
        get="get_rejection",
        list="list_rejections",
        remove="remove_rejection",
    ),
    Omission: _Plain(
        "omission",
        (
            _Column("id"),
            _path("scope"),
            _Column("subject"),
            _time("at"),
            _Column("undo"),
            _json("phrases", msgspec.json.Decoder(tuple[str, ...]).decode),
            _json("clauses", msgspec.json.Decoder(tuple[Clause, ...]).decode),
        ),
        "put_omission",
        list="list_omissions",
        remove="remove_omission",
    ),
    Session: _Plain(
        "session",
        (_path("scope"), _path("owner"), _time("started_at"), _time("ended_at")),
        "put_session",
        get="get_session",
        list="list_sessions",
        is_cached=True,
    ),
    Replay: _Plain(
        "idempotency key of",
        (
            _path("scope"),
            *map(_Column, ("key", "request")),
            _time("at"),
            _json("results", msgspec.json.Decoder(tuple[tuple[str, int | None], ...]).decode),
        ),
        "put_replay",
        get="get_replay",
        list="list_replays",
    ),
    Erasure: _Plain(
        "erasure",
        (_Column("id"), _path("scope"), _time("at"), _Column("version_floor")),
        "put_erasure",
        get="get_erasure",
        is_cached=True,
    ),
    ContentKey: _Plain(
        "content key of",
        (_Column("scope"), _Column("secret")),
        "put_content_key",
        get="get_content_key",
        is_cached=True,
    ),
    Link: _Plain(
        "link of",
        (_path("scope"), *map(_Column, ("child", "version", "parent", "parent_version"))),
        "put_link",
    ),
    ScopeEpoch: _Plain(
        "permission epoch of",
        (_Column("scope"), _Column("epoch")),
        "put_epoch",
        get="get_epoch",
    ),
    SegmentPiece: _Plain(
        "piece of an index of",
        tuple(map(_Column, ("subject", "name", "number", "data"))),
        "put_segment",
        get="get_segment",
        remove="remove_segments",
    ),
}


_SCOPED = Session | Replay | Erasure | StoredRejection | Omission | Link
"""Plain rows whose tenant is that of their scope."""


class _RunEvent(msgspec.Struct, frozen=True, gc=False):
    """What the head of a run needs of its last event."""

    version: int


_decode_run_event = msgspec.json.Decoder(_RunEvent).decode


class Rows(ABC):
    """A transaction on one connection; `memoranda.store.base` describes its methods.

    Subclasses run the statements. The first value of a statement about one tenant is that tenant.
    """

    def __init__(self, url: str) -> None:
        """Start with empty caches; `url` is for errors."""
        self._url = url
        self._work = 0  # which work is running: its iterators must not be used in the next one
        # What every write asks for, as it was read or written last.
        self._tenants: dict[str, tuple[TenantState, int, str]] = {}
        # Plain rows by kind and key; facts without values by tenant, path and key; heads of runs by tenant and run.
        self._known: dict[Any, Any] = {}

    def reset(self) -> None:
        """Forget what was read, and invalidate iterators: others may have written, or what was written was undone."""
        self._work += 1
        self._tenants.clear()
        self._known.clear()

    def end_work(self) -> None:
        """Invalidate the iterators that were handed out."""
        self._work += 1

    # what a backend implements

    @abstractmethod
    def _all(self, name: str, *values: Any) -> list[Row]:
        """Return the rows of a statement."""

    @abstractmethod
    def _row(self, name: str, *values: Any) -> Row | None:
        """Return the row of a statement that finds at most one, with two columns or more."""

    @abstractmethod
    def _value(self, name: str, *values: Any) -> Any:
        """Return the value of a statement that finds at most one row, with one column."""

    @abstractmethod
    def _run(self, name: str, *values: Any) -> None:
        """Run a statement that writes."""

    @abstractmethod
    def _count(self, name: str, *values: Any) -> int:
        """Run a statement that writes; return the number of rows it changed."""

    @abstractmethod
    def _array(self, values: Sequence[int] | Sequence[str] | Sequence[bytes]) -> Any:
        """Return a list as one value of a statement."""

    # plain rows

    def get(self, kind: type[R], *key: Any) -> R | None:
        """Return the row of a key."""
        values = (key[0].tenant, key[0].path, *key[1:]) if isinstance(key[0], Scope) else key
        place = (kind, *values)
        if place in self._known:
            return self._known[place]
        plain, tenant = _PLAIN[kind], values[0]
        if kind is Erasure:
            values = tenant, self._array(scopes_above(values[1]))
        row = self._row(plain.get, *values)
        found = None if row is None else self._plain_row(kind, tenant, row)
        return self._cache(place, found) if plain.is_cached else found

    def scan(
        self, kind: type[R], tenant: str, *, below: Scope | None = None, after: str = "", limit: int | None = None
    ) -> list[R]:
        """Return the tenant's rows of a kind."""
        statement = _PLAIN[kind].list
        if kind is Session:
            ranges = scopes_under(below.path if below else "")
            rows = sorted(row for each in ranges for row in self._all(statement, tenant, *each))
        elif kind is StoredRejection:
            ranges = scopes_under(below.path if below else "")
            found = [row for each in ranges for row in self._all(statement, tenant, *each)]
            rows = [row[1:] for row in sorted(found, key=itemgetter(0))]
        elif kind is Replay:
            ranges = scopes_under(below.path if below else "")
            rows = [row for each in ranges for row in self._all(statement, tenant, *each)]
        elif kind is Omission:
            rows = self._all(statement, tenant, below.path if below else "")
        elif kind is Approval:
            rows = self._all(statement, tenant, after, _row_limit(limit))
        else:
            rows = self._all(statement, tenant)
        return [self._plain_row(kind, tenant, row) for row in rows]

    def put(self, row: PlainRow) -> None:
        """Keep a row."""
        kind = type(row)
        plain = _PLAIN[kind]
        tenant = row.scope.tenant if isinstance(row, _SCOPED) else row.tenant
        if isinstance(row, Session) and row.owner is not None and row.owner.tenant != tenant:
            raise InvalidScope(
                f"`{row.scope}` of tenant `{tenant}` cannot belong to tenant `{row.owner.tenant}`",
                hint="A session and its owner have one tenant",
            )
        values: list[Any] = [tenant]
        for column in plain.columns:
            value = getattr(row, column.field)
            values.append(value if column.write is None or value is None else column.write(value))
        self._run(plain.put, *values)
        if kind is Erasure:
            self._known.clear()  # it counts for every scope below
        elif plain.is_cached:
            self._cache((kind, *values[:2]), row)

    def remove(self, kind: type[PlainRow], *key: Any) -> int:
        """Remove a row; of segments those of a subject, or of all."""
        if kind is SegmentPiece:
            tenant, subject = key
            key = tenant, *(("", _LAST) if subject is None else scope_range(subject))
        self._run(_PLAIN[kind].remove, *key)
        return 0

    def _plain_row(self, kind: type[R], tenant: str, row: Row) -> R:
        plain = _PLAIN[kind]
        fields: dict[str, Any] = {} if "tenant" not in kind.__struct_fields__ else {"tenant": tenant}
        try:
            for column, value in zip(plain.columns, row, strict=True):
                if value is not None and column.is_scope:
                    value = _scope(tenant, value)
                elif value is not None and column.read is not None:
                    value = column.read(value)
                fields[column.field] = value
        except (msgspec.DecodeError, UnicodeDecodeError, InvalidScope) as error:
            raise self._corrupt(f"{plain.name} `{row[0]}`", error) from error
        return kind(**fields)

    def links(self, tenant: str, *, child: str | None = None, parent: str | None = None) -> list[Link]:
        """Return the links from a child to its parents, or from a parent to its children."""
        rows = self._all("list_links_to", tenant, child) if parent is None else self._all("list_links", tenant, parent)
        return [self._plain_row(Link, tenant, row) for row in rows]

    # facts and their history

    def fact(self, scope: Scope, key: str, *, value: bool = True) -> Fact | None:
        """Return the fact of a key."""
        place = scope.tenant, scope.path, key
        if value:
            row = self._row("get_fact", *place)
            return None if row is None else self._fact_of(scope, key, row)
        fact = self._known.get(place)
        if fact is None:
            row = self._row("get_bare_fact", *place)
            if row is not None:
                fact = self._cache(place, self._fact_of(scope, key, row))
        return fact

    def facts(self, query: FactQuery) -> Iterator[Fact]:
        """Return the facts that a query asks for."""
        statement = _FACTS.choose(query)
        scope, tenant = query.scope, query.scope.tenant
        if statement == "page_facts_below":
            pages = self._pages_below(statement, scope, ("",), self._work)
            return (fact for page in pages for fact in self._facts_of(tenant, page))
        if statement == "list_facts":
            then = micros(query.active_at), query.domain
            found = self._in_ranges(statement, keys_under(query.prefix), query, tenant, scope.path, then=then)
            return (self._fact_of(scope, row[0], row[1:]) for row in found)
        if statement == "list_facts_as_of":
            then = (micros(query.as_of),)
            found = self._in_ranges(statement, keys_under(query.prefix), query, tenant, scope.path, then=then)
            return (self._revision_of(scope, row).as_fact() for row in found)
        if statement == "list_facts_named":
            found = self._in_ranges(statement, scopes_under(scope.path), query, tenant, query.key)
        elif statement == "list_facts_owned":
            ranges = scopes_under(scope.path)
            found = sorted(row for each in ranges for row in self._all(statement, tenant, query.key, *each))
        elif scope.path:
            raise TypeError(f"expired facts are found by tenant, not by scope: {query}")
        else:
            found = self._all(statement, tenant, micros(query.expired_by), query.limit)
        return self._facts_of(tenant, found)

    def revision(
        self, scope: Scope, key: str, *, version: int | None = None, at: datetime | None = None
    ) -> Revision | None:
        """Return a revision of a key."""
        place = scope.tenant, scope.path, key
        if version is not None:
            row = self._row("get_revision", *place, version)
        elif at is not None:
            row = self._row("get_revision_at", *place, to_micros(at))
        else:
            row = self._row("list_newest_revisions", *place, _NO_LIMIT, 1)
        return None if row is None else self._revision_of(scope, row)

    def revisions(self, query: RevisionQuery) -> Iterator[Revision]:
        """Return the revisions that a query asks for."""
        statement = _REVISIONS.choose(query)
        scope, tenant = query.scope, query.scope.tenant
        if statement == "page_revisions_below":
            pages = self._pages_below(statement, scope, ("", 0), self._work)
            return (self._revision_of(self._scope(tenant, row[0]), row[1:]) for page in pages for row in page)
        if statement == "list_revisions":
            bound = query.after
        else:
            bound = _NO_LIMIT if query.before is None else query.before
        found = self._all(statement, tenant, scope.path, query.key, bound, _row_limit(query.limit))
        return (self._revision_of(scope, row) for row in found)

    # tenants, quotas

    def tenants(self) -> list[str]:
        """Return every tenant with any rows."""
        return [tenant for (tenant,) in self._all("list_tenants")]

    def scopes(self, tenant: str, *, prefix: str = "", after: str = "", limit: int | None = None) -> list[str]:
        """Return the paths that begin with a text and have facts or live entries."""
        low = max(prefix, _next_text(after))
        found = self._all("list_scopes", tenant, low, prefix + _LAST, _row_limit(limit))
        return [path for (path,) in found]

    def tenant_state(self, tenant: str) -> TenantState:
        """Return the state of the tenant's rules."""
        return self._tenant(tenant)[0]

    def usage(self, tenant: str, actor: str, window: Window) -> tuple[int, int]:
        """Return the writes and bytes an actor used in a window."""
        writes, used = self._row("get_usage", tenant, actor, window.seconds, to_micros(window.begins)) or (0, 0)
        return writes, used

    # ledger

    def head(self, tenant: str, run: str | None = None) -> tuple[int, str] | None:
        """Return the position and hash of the newest event, or the index and hash of a run's."""
        if run is None:
            _, length, head = self._tenant(tenant)
            return (length, head) if length else None
        found = self._known.get((tenant, run))
        if found is None:
            row = self._row("get_run_head", tenant, run)
            if row is not None:
                found = self._cache((tenant, run), self._run_head(tenant, row))
        return found

    def progress(self, tenant: str) -> Progress:
        """Return how far the ledger can be followed: to its end."""
        return Progress(self._tenant(tenant)[1])

    def events(
        self, tenant: str, *, start: int = 1, limit: int | None = None, run: str | None = None
    ) -> Iterator[Event]:
        """Yield events by position, of all or of one run."""
        rows = self._page_events(tenant, start, limit, run, self._work)
        return (self._event_of(tenant, row) for row in rows)

    def bodies(self, tenant: str, *, run: str | None = None) -> Iterator[tuple[int, str, bytes]]:
        """Yield position, hash and hashed bytes of events."""
        rows = self._page_events(tenant, 1, None, run, self._work)
        return ((position, hash, body) for position, hash, body, _ in rows)

    # writing

    def put_fact(self, fact: Fact, payload: bytes) -> None:
        """Keep a fact."""
        scope, origin = fact.scope, fact.origin
        times = to_micros(fact.created_at), to_micros(fact.updated_at), micros(fact.expires_at)
        who = origin.actor, origin.door, origin.source, origin.kind, RANK_OF[origin.trust]
        place = scope.tenant, scope.path, fact.key
        self._run("put_fact", *place, fact.id, fact.version, *times, fact.domain, *who, payload)
        self._cache(place, msgspec.structs.replace(fact, value=None))

    def remove_fact(self, scope: Scope, key: str) -> None:
        """Remove a fact."""
        self._known.pop((scope.tenant, scope.path, key), None)
        self._run("remove_fact", scope.tenant, scope.path, key)

    def add_revision(self, revision: Revision, payload: bytes | None) -> None:
        """Add to the history of a key."""
        scope, origin = revision.scope, revision.origin
        place = scope.tenant, scope.path, revision.key, revision.version
        times = to_micros(revision.at), to_micros(revision.created_at), micros(revision.expires_at)
        who = origin.actor, origin.door, origin.source, origin.kind, RANK_OF[origin.trust]
        what = revision.fact_id, revision.change
        self._run("add_revision", *place, *what, *times, revision.domain, *who, int(revision.forgotten), payload)

    def set_tenant_state(self, tenant: str, state: TenantState) -> None:
        """Keep the state of the tenant's rules."""
        self._tenants[tenant] = (state, *self._tenant(tenant)[1:])
        self._run("set_tenant_state", tenant, state.revision, state.epoch, state.rejected)

    def add_usage(self, tenant: str, actor: str, window: Window, writes: int, bytes: int) -> None:
        """Count against an actor's window."""
        place = tenant, actor, window.seconds, to_micros(window.begins)
        self._run("remove_usage", *place)
        self._run("add_usage", *place, writes, bytes)

    def expire(
        self, tenant: str, now: datetime, *, replays_before: datetime, limit: int | None = None
    ) -> dict[str, int]:
        """Blank expired revisions, and remove old idempotency records."""
        by = to_micros(now)
        if limit is not None and (last := self._all("get_expired_revision", tenant, by, limit - 1)):
            by = last[0][0]
        self._run("forget_texts", tenant, by)
        return {
            "revisions": self._count("forget_revisions", tenant, by),
            "idempotency_keys": self._count("remove_replays", tenant, to_micros(replays_before)),
        }

    def remove_below(self, scope: Scope, *, keep_records: bool = False) -> dict[str, int]:
        """Remove everything at and below a scope."""
        self._known.clear()
        kinds, ranges = _MEMORY if keep_records else _ERASERS, scopes_under(scope.path)
        for each in ranges:
            self._count("erase_links", scope.tenant, *each)
            self._count("erase_omissions", scope.tenant, *each)
        self.remove(SegmentPiece, scope.tenant, scope.path.partition("/")[0] if scope.path else None)
        return {kind: sum(self._count(_ERASERS[kind], scope.tenant, *each) for each in ranges) for kind in kinds}

    def newest_below(self, scope: Scope) -> tuple[int, datetime | None]:
        """Return the highest version and the latest timestamp at and below a scope."""
        ranges = scopes_under(scope.path)
        found = [self._all("get_newest", scope.tenant, *each)[0] for each in ranges]
        found += [(0, self._all("get_newest_entry", scope.tenant, *each)[0][0]) for each in ranges]
        stamps = [at for _, at in found if at is not None]
        return max(version or 0 for version, _ in found), from_micros(max(stamps)) if stamps else None

    def reserve(self, tenant: str, count: int, *, together: bool = False) -> Reserved:
        """Return where the next events go: after the last one."""
        _, length, head = self._tenant(tenant)
        return Reserved(range(length + 1, length + 1 + count), head or GENESIS)

    def append_events(self, events: Sequence[tuple[Event, bytes]]) -> None:
        """Append to a tenant's ledger."""
        first, last = events[0][0], events[-1][0]
        tenant = first.tenant
        state, length, _ = self._tenant(tenant)
        if first.position != length + 1 or last.position != length + len(events):
            raise Corrupt(
                f"`{self._url}`: event {first.position} of tenant `{tenant}` cannot follow event {length}",
                hint="Verify the ledger; the event was not written",
                url=self._url,
                position=first.position,
            )
        if not length:
            self._run("add_tenant", tenant)
        self._run("move_head", tenant, last.position, last.hash)
        self._tenants[tenant] = (state, last.position, last.hash)
        self._insert_events(tenant, events)

    def _insert_events(self, tenant: str, events: Sequence[tuple[Event, bytes]]) -> None:
        for event, body in events:
            run = event.resource if event.effect in RUN_EVENTS else None
            self._run("append_event", tenant, event.position, event.hash, body, run)
            if run is not None:
                self._cache((tenant, run), (event.version or 0, event.hash))
            if event.text is not None:
                self._run("put_event_text", tenant, event.position, *text_place(event), encode(event.text))

    # decoding

    def _fact_of(self, scope: Scope, key: str, row: Row) -> Fact:
        """Return the fact of a key from its other columns, which may leave out its value."""
        id, version, created_at, updated_at, expires_at, domain = row[:6]
        value = None
        if len(row) > _BARE:
            try:
                value = decode(row[_BARE])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise self._corrupt(f"the value of `{key}` in `{scope}`", error) from error
        return Fact(
            id=id,
            scope=scope,
            key=key,
            value=value,
            version=version,
            created_at=from_micros(created_at),
            updated_at=from_micros(updated_at),
            expires_at=None if expires_at is None else from_micros(expires_at),
            domain=domain,
            origin=origin_of(*row[6:_BARE]),
        )

    def _facts_of(self, tenant: str, rows: Iterable[Row]) -> Iterator[Fact]:
        """Yield the facts of rows that start with scope and key."""
        return (self._fact_of(self._scope(tenant, row[0]), row[1], row[2:]) for row in rows)

    def _revision_of(self, scope: Scope, row: Row) -> Revision:
        """Return a revision from its row, which starts with the key."""
        (key, version, fact_id, change, at, created_at, expires_at), rest = row[:7], row[7:]
        domain, forgotten, payload = rest[0], rest[-2], rest[-1]
        return Revision(
            fact_id=fact_id,
            scope=scope,
            key=key,
            version=version,
            change=change,
            value=None if payload is None else self._parse(decode, payload, f"version {version} of `{key}`"),
            at=from_micros(at),
            created_at=from_micros(created_at),
            expires_at=None if expires_at is None else from_micros(expires_at),
            domain=domain,
            origin=origin_of(*rest[1:-2]),
            forgotten=bool(forgotten),
        )

    def _event_of(self, tenant: str, row: Row) -> Event:
        """Return an event from its row: the body, with the hash and the text that are stored beside it."""
        position, hash, body, text = row
        where = f"event {position} of tenant `{tenant}`"
        event = self._parse(_decode_event, body, where, position=position)
        if (event.tenant, event.position) != (tenant, position) or event_body(event) != body:
            # It claims to be another event, or was not written in the bytes that were hashed.
            raise self._corrupt(where, ValueError("it is not what was written there"), position=position)
        content = None if text is None else self._parse(decode, text, f"the text of {where}", position=position)
        return msgspec.structs.replace(event, hash=hash, text=content)

    def _run_head(self, tenant: str, row: Row) -> tuple[int, str]:
        """Return the index and hash of a run's event from its row."""
        position, hash, body = row
        where = f"event {position} of tenant `{tenant}`"
        return self._parse(_decode_run_event, body, where, position=position).version, hash

    def _scope(self, tenant: str, path: str) -> Scope:
        try:
            return _scope(tenant, path)
        except InvalidScope as error:
            raise self._corrupt(f"scope `{path}`", error) from error

    def _parse(self, parse: Callable[[bytes], T], payload: bytes, what: str, **details: Any) -> T:
        try:
            return parse(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._corrupt(what, error, **details) from error

    def _corrupt(self, what: str, why: Exception, **details: Any) -> Corrupt:
        """Return the error that names what is damaged, and why."""
        return Corrupt(
            f"`{self._url}`: {what} cannot be read: {why}",
            hint="Keep a copy of the database as it is, and restore a backup",
            url=self._url,
            **details,
        )

    # helpers

    def _with_chain(self, tenant: str, page: list[Row]) -> list[Row]:
        """Return events with the hashes that chain them, if those are stored elsewhere."""
        return page

    def _cache(self, place: Any, value: T) -> T:
        """Cache what was read or written, and return it; a full cache starts again."""
        if len(self._known) >= _CACHE_SIZE:
            self._known.clear()
        self._known[place] = value
        return value

    def _tenant(self, tenant: str) -> tuple[TenantState, int, str]:
        known = self._tenants.get(tenant)
        if known is None:
            revision, epoch, rejected, length, head = self._row("get_tenant", tenant) or (0, 0, 0, 0, "")
            if len(self._tenants) >= _CACHE_SIZE:
                self._tenants.clear()
            known = self._tenants[tenant] = (TenantState(revision, epoch, rejected), length, head)
        return known

    def _in_ranges(
        self, name: str, ranges: list[Range], query: FactQuery, *first: Any, then: tuple[Any, ...] = ()
    ) -> list[Row]:
        """Return the rows of a statement in several ranges, from the first after `query.after`, up to its limit."""
        start = "" if query.after is None else _next_text(query.after)
        found: list[Row] = []
        for low, high in ranges:
            found += self._all(name, *first, max(low, start), high, *then, _row_limit(query.limit, found))
        return found

    def _check_work(self, work: int) -> None:
        if work != self._work:
            raise RuntimeError("this iterator outlived the read or transaction it came from: use it up inside")

    def _pages_below(self, name: str, scope: Scope, after: tuple[Any, ...], work: int) -> Iterator[list[Row]]:
        for low, high in scopes_under(scope.path):
            last, size = (low, *after), FIRST_PAGE
            while True:
                self._check_work(work)
                page = self._all(name, scope.tenant, *last, low, high, size)
                yield page
                if len(page) < size:
                    break
                last, size = page[-1][: len(last)], page_size(page, FACT_PAGE)

    def _page_events(self, tenant: str, start: int, limit: int | None, run: str | None, work: int) -> Iterator[Row]:
        size = FIRST_PAGE
        while limit is None or limit > 0:
            self._check_work(work)
            size = size if limit is None else min(size, limit)
            if run is None:
                page = self._all("page_events", tenant, start, size)
            else:
                page = self._all("page_run_events", tenant, run, start, size)
            yield from page if run is not None else self._with_chain(tenant, page)
            if len(page) < size:
                break
            start = page[-1][0] + 1
            limit = None if limit is None else limit - size
            size = page_size(page, EVENT_PAGE)


@lru_cache(1_024)
def origin_of(actor: str, door: str, source: str | None, kind: OriginKind, trust: int) -> Origin:
    """Return an origin from its columns; the same few are read again and again."""
    return Origin(actor, door, source, kind, TRUSTS[trust])


def micros(moment: datetime | None) -> int | None:
    """Return a moment as it is stored."""
    return None if moment is None else to_micros(moment)


def page_size(before: Sequence[Row], most: int) -> int:
    """Return how many rows to read next, given the page before, whose last column is the content.

    At most twice as many as before: small rows may be followed by large ones.
    """
    content = sum(len(row[-1]) for row in before if row[-1] is not None)
    return max(1, min(most, 2 * len(before), _PAGE_BYTES * len(before) // max(content, 1)))


def keys_under(prefix: str) -> list[Range]:
    r"""Return the ranges of the keys at and below a prefix, in order. Other keys lie between: `a!` precedes `a.b`.

    >>> keys_under("a")
    [('a', 'a\x01'), ('a.', 'a/')]
    """
    return [(prefix, _next_text(prefix)), keys_below(prefix)] if prefix else [("", _LAST)]


def scopes_under(path: str) -> list[Range]:
    """Return the ranges of the scopes at and below one, in order; every scope for the shared one."""
    return [scope_range(path), below(path)] if path else [("", _LAST)]


def scope_range(path: str) -> Range:
    """Return the range that has one scope alone."""
    return path, _next_text(path)


def scopes_above(path: str) -> list[str]:
    """Return a scope and every scope that covers it, the shared one first.

    >>> scopes_above("user:ada/agent:x")
    ['', 'user:ada', 'user:ada/agent:x']
    """
    parts = path.split("/") if path else []
    return ["/".join(parts[:length]) for length in range(len(parts) + 1)]


def _next_text(text: str) -> str:
    """Return the smallest text after this one: names have no control characters, and databases no NUL."""
    return text + "\1"


def _row_limit(limit: int | None, found: Sequence[object] = ()) -> int:
    return _NO_LIMIT if limit is None else limit - len(found)
