"""The store contract on named SQL statements, but for collections and entries (`entries.py`).

Nothing here begins, commits or translates errors; the owner of the connection does. Every statement is read to its end
at once, so that no cursor stays open across a commit; long results are read page by page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from memoranda.errors import Corrupt, InvalidScope
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.definition import Definition
from memoranda.model.effect import Approval
from memoranda.model.event import Event, run_of
from memoranda.model.fact import Fact, Origin, Revision
from memoranda.model.names import keys_below
from memoranda.model.policy import Grant
from memoranda.model.scope import Scope, below
from memoranda.model.value import encode
from memoranda.store.base import Erasure, Replay, Session, TenantState, Window, text_place
from memoranda.store.sql.decoder import Row, RowDecoder

K = TypeVar("K")
V = TypeVar("V")

Range = tuple[str, str]
"""A half-open range of texts, which an index can be searched for, unlike a LIKE pattern."""

FIRST_PAGE = 16
"""Rows of the first page of a long result, before the size of its rows is known."""
EVENT_PAGE = 256
FACT_PAGE = 64
"""Facts of one page; each has up to a megabyte."""
_PAGE_BYTES = 4_194_304
"""Content of one page, if its rows are as large as those of the page before."""
_CACHE_SIZE = 512
"""Rows of one kind that are cached: enough for current writers, little for idle sessions."""
_NO_LIMIT = 2**63 - 1
_LAST = "\U0010ffff"  # greater than every scope and key

# What an erasure counts, and the statement that removes it.
_ERASERS = {
    "facts": "erase_facts",
    "revisions": "erase_revisions",
    "idempotency_keys": "erase_replays",
    "approvals": "erase_approvals",
    "ledger_texts": "erase_event_texts",
    "content_keys": "erase_content_keys",
    "sessions": "erase_sessions",
}
_MEMORY = ("facts", "revisions", "idempotency_keys", "ledger_texts", "content_keys")


class Rows(ABC):
    """A transaction on one connection; `memoranda.store.base` describes its methods.

    Subclasses run the statements. The first value of a statement about one tenant is that tenant.
    """

    def __init__(self, url: str) -> None:
        """Start with empty caches; `url` is for errors."""
        self._url = url
        self._decoder = RowDecoder(url)
        self._work = 0  # which work is running: its iterators must not be used in the next one
        # What every write asks for, as it was read or written last.
        self._tenants: dict[str, tuple[TenantState, int, str]] = {}
        self._sessions: dict[Scope, Session] = {}
        self._erasures: dict[Scope, Erasure | None] = {}
        self._content_keys: dict[tuple[str, str], bytes] = {}
        self._run_heads: dict[tuple[str, str], tuple[int, str]] = {}
        self._bare_facts: dict[tuple[str, str, str], Fact] = {}

    def clear_caches(self) -> None:
        """Forget what was read: another connection has written since, or what was written here was undone."""
        self._tenants.clear()
        self._sessions.clear()
        self._erasures.clear()
        self._content_keys.clear()
        self._run_heads.clear()
        self._bare_facts.clear()

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
    def _run_all(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement that writes once for each of these rows."""

    @abstractmethod
    def _count(self, name: str, *values: Any) -> int:
        """Run a statement that writes; return the number of rows it changed."""

    @abstractmethod
    def _array(self, values: Sequence[int] | Sequence[str] | Sequence[bytes]) -> Any:
        """Return a list as one value of a statement."""

    # facts and their history

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact of a key."""
        row = self._row("get_fact", scope.tenant, scope.path, key)
        return None if row is None else self._decoder.fact(scope, key, row)

    def bare_fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact of a key without value and origin."""
        place = scope.tenant, scope.path, key
        fact = self._bare_facts.get(place)
        if fact is None:
            row = self._row("get_bare_fact", *place)
            if row is not None:
                fact = cache(self._bare_facts, place, self._decoder.bare_fact(scope, key, row))
        return fact

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
        """Return the active facts at and below a key."""
        found: list[Fact] = []
        for low, high in keys_under(prefix):
            place = scope.tenant, scope.path, max(low, _next_text(after)), high
            rows = self._all("list_facts", *place, to_micros(now), domain, _row_limit(limit, found))
            found.extend(self._decoder.fact(scope, row[0], row[1:]) for row in rows)
        return found

    def facts_as_of(
        self, scope: Scope, moment: datetime, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[Fact]:
        """Return the facts that were active at a moment."""
        found: list[Fact] = []
        for low, high in keys_under(prefix):
            place = scope.tenant, scope.path, max(low, _next_text(after)), high
            rows = self._all("list_facts_as_of", *place, to_micros(moment), _row_limit(limit, found))
            found.extend(self._decoder.revision(scope, row).as_fact() for row in rows)
        return found

    def facts_below(self, scope: Scope) -> Iterator[Fact]:
        """Yield every fact at and below a scope."""
        pages = self._pages_below("page_facts_below", scope, ("",), self._work)
        return (fact for page in pages for fact in self._decoder.facts(scope.tenant, page))

    def facts_named(
        self, tenant: str, key: str, *, below: str = "", after: str | None = None, limit: int | None = None
    ) -> list[Fact]:
        """Return the facts of one key in every scope, or in those below one."""
        *_, (low, high) = scopes_under(below)
        if after is not None:
            low = max(low, _next_text(after))
        rows = self._all("list_facts_named", tenant, key, low, high, _row_limit(limit))
        return list(self._decoder.facts(tenant, rows))

    def facts_owned(self, owner: Scope, key: str) -> list[Fact]:
        """Return the facts of one key in the sessions that belong to a scope or to one below it."""
        ranges = scopes_under(owner.path)
        found = [row for each in ranges for row in self._all("list_facts_owned", owner.tenant, key, *each)]
        return sorted(self._decoder.facts(owner.tenant, found), key=lambda fact: fact.scope.path)

    def expired(self, tenant: str, now: datetime, limit: int) -> list[Fact]:
        """Return expired facts."""
        return list(self._decoder.facts(tenant, self._all("list_expired", tenant, to_micros(now), limit)))

    def revisions(self, scope: Scope, key: str, *, after: int = 0, limit: int | None = None) -> list[Revision]:
        """Return the revisions of a key, oldest first."""
        rows = self._all("list_revisions", scope.tenant, scope.path, key, after, _row_limit(limit))
        return [self._decoder.revision(scope, row) for row in rows]

    def newest_revisions(
        self, scope: Scope, key: str, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        """Return the revisions of a key, newest first."""
        below = _NO_LIMIT if before is None else before
        rows = self._all("list_newest_revisions", scope.tenant, scope.path, key, below, _row_limit(limit))
        return [self._decoder.revision(scope, row) for row in rows]

    def revision(self, scope: Scope, key: str, version: int) -> Revision | None:
        """Return one revision."""
        row = self._row("get_revision", scope.tenant, scope.path, key, version)
        return None if row is None else self._decoder.revision(scope, row)

    def revision_at(self, scope: Scope, key: str, moment: datetime) -> Revision | None:
        """Return the newest revision at a moment."""
        row = self._row("get_revision_at", scope.tenant, scope.path, key, to_micros(moment))
        return None if row is None else self._decoder.revision(scope, row)

    def revisions_below(self, scope: Scope) -> Iterator[Revision]:
        """Yield every revision at and below a scope."""
        pages = self._pages_below("page_revisions_below", scope, ("", 0), self._work)
        decoder, tenant = self._decoder, scope.tenant
        return (decoder.revision(decoder.scope(tenant, row[0]), row[1:]) for page in pages for row in page)

    def last_version(self, scope: Scope, key: str) -> int:
        """Return the highest version of a key."""
        return self._value("get_last_version", scope.tenant, scope.path, key) or 0

    # definitions, grants, approvals

    def tenants(self) -> list[str]:
        """Return every tenant with any rows."""
        return [tenant for (tenant,) in self._all("list_tenants")]

    def tenant_state(self, tenant: str) -> TenantState:
        """Return the state of the tenant's rules."""
        return self._tenant(tenant)[0]

    def definitions(self, tenant: str) -> list[Definition]:
        """Return the tenant's definitions."""
        return [self._decoder.definition(tenant, row) for row in self._all("list_definitions", tenant)]

    def grants(self, tenant: str) -> list[Grant]:
        """Return the tenant's grants."""
        return [self._decoder.grant(tenant, row) for row in self._all("list_grants", tenant)]

    def approvals(self, tenant: str, *, after: str = "", limit: int | None = None) -> list[Approval]:
        """Return the tenant's approvals."""
        rows = self._all("list_approvals", tenant, after, _row_limit(limit))
        return [self._decoder.approval(tenant, row) for row in rows]

    def approval(self, tenant: str, id: str) -> Approval | None:
        """Return one approval."""
        row = self._row("get_approval", tenant, id)
        return None if row is None else self._decoder.approval(tenant, row)

    # sessions, idempotency, quotas, erasures

    def session(self, scope: Scope) -> Session | None:
        """Return the session of a scope."""
        session = self._sessions.get(scope)
        if session is None:
            row = self._row("get_session", scope.tenant, scope.path)
            if row is not None:
                session = cache(self._sessions, scope, self._decoder.session(scope, row))
        return session

    def sessions_owned(self, scope: Scope) -> list[Scope]:
        """Return the sessions that belong to a scope or to one below it."""
        ranges = scopes_under(scope.path)
        owned = [row[0] for each in ranges for row in self._all("list_sessions_owned", scope.tenant, *each)]
        return [self._decoder.scope(scope.tenant, path) for path in sorted(owned)]

    def replay(self, scope: Scope, key: str) -> Replay | None:
        """Return the record of an idempotency key."""
        row = self._row("get_replay", scope.tenant, scope.path, key)
        return None if row is None else self._decoder.replay(scope, key, row)

    def usage(self, tenant: str, actor: str, window: Window) -> tuple[int, int]:
        """Return the writes and bytes an actor used in a window."""
        writes, used = self._row("get_usage", tenant, actor, window.seconds, to_micros(window.begins)) or (0, 0)
        return writes, used

    def erasure(self, scope: Scope) -> Erasure | None:
        """Return the newest erasure of a scope or of one above it."""
        if scope not in self._erasures:
            row = self._row("get_erasure", scope.tenant, self._array(scopes_above(scope.path)))
            cache(self._erasures, scope, None if row is None else self._decoder.erasure(scope.tenant, row))
        return self._erasures[scope]

    # ledger

    def content_key(self, tenant: str, scope: str) -> bytes | None:
        """Return the content key of a scope."""
        key = self._content_keys.get((tenant, scope))
        if key is None:
            key = self._value("get_content_key", tenant, scope)
            if key is not None:
                cache(self._content_keys, (tenant, scope), key)
        return key

    def head(self, tenant: str) -> tuple[int, str] | None:
        """Return the position and hash of the newest event."""
        _, length, head = self._tenant(tenant)
        return (length, head) if length else None

    def find_head(self, tenant: str) -> tuple[int, str] | None:
        """Return `head` without caching it, for use outside a transaction."""
        _, _, length, head = self._row("get_tenant", tenant) or (0, 0, 0, "")
        return (length, head) if length else None

    def events(
        self, tenant: str, *, start: int = 1, limit: int | None = None, run: str | None = None
    ) -> Iterator[Event]:
        """Yield events by position, of all or of one run."""
        rows = self._page_events(tenant, start, limit, run, self._work)
        return (self._decoder.event(tenant, row) for row in rows)

    def run_head(self, tenant: str, run: str) -> tuple[int, str] | None:
        """Return the index and hash of a run's newest event."""
        head = self._run_heads.get((tenant, run))
        if head is None:
            row = self._row("get_run_head", tenant, run)
            if row is not None:
                head = cache(self._run_heads, (tenant, run), self._decoder.run_head(tenant, row))
        return head

    def bodies(self, tenant: str, *, run: str | None = None) -> Iterator[tuple[int, str, bytes]]:
        """Yield position, hash and hashed bytes of events."""
        rows = self._page_events(tenant, 1, None, run, self._work)
        return ((position, hash, body) for position, hash, body, _ in rows)

    # writing

    def put_fact(self, fact: Fact, payload: bytes) -> None:
        """Keep a fact."""
        scope, origin = fact.scope, fact.origin
        times = to_micros(fact.created_at), to_micros(fact.updated_at), micros(fact.expires_at)
        who = origin.actor, origin.door, origin.source
        place = scope.tenant, scope.path, fact.key
        self._run("put_fact", *place, fact.id, fact.version, *times, fact.domain, *who, payload)
        cache(self._bare_facts, place, msgspec.structs.replace(fact, value=None, origin=Origin()))

    def remove_fact(self, scope: Scope, key: str) -> None:
        """Remove a fact."""
        self._bare_facts.pop((scope.tenant, scope.path, key), None)
        self._run("remove_fact", scope.tenant, scope.path, key)

    def add_revision(self, revision: Revision, payload: bytes | None) -> None:
        """Add to the history of a key."""
        scope, origin = revision.scope, revision.origin
        place = scope.tenant, scope.path, revision.key, revision.version
        times = to_micros(revision.at), to_micros(revision.created_at), micros(revision.expires_at)
        who = origin.actor, origin.door, origin.source
        what = revision.fact_id, revision.change
        self._run("add_revision", *place, *what, *times, revision.domain, *who, int(revision.forgotten), payload)

    def forget_revisions(self, tenant: str, now: datetime) -> int:
        """Blank the values of expired revisions."""
        self._run("forget_texts", tenant, to_micros(now))
        return self._count("forget_revisions", tenant, to_micros(now))

    def remove_memory(self, scope: Scope) -> dict[str, int]:
        """Remove the memory at and below a scope."""
        return self._erase(scope, _MEMORY)

    def remove_replays(self, tenant: str, before: datetime) -> int:
        """Remove idempotency records made before a moment."""
        return self._count("remove_replays", tenant, to_micros(before))

    def set_tenant_state(self, tenant: str, state: TenantState) -> None:
        """Keep the state of the tenant's rules."""
        self._tenants[tenant] = (state, *self._tenant(tenant)[1:])
        self._run("set_tenant_state", tenant, state.revision, state.epoch)

    def put_definition(self, definition: Definition) -> None:
        """Keep a definition."""
        self._run(
            "put_definition",
            definition.tenant,
            definition.id,
            definition.name,
            definition.slug,
            definition.scope,
            definition.ttl,
            to_micros(definition.created_at),
            to_micros(definition.updated_at),
            encode(definition.schema),
        )

    def remove_definition(self, tenant: str, id: str) -> None:
        """Remove a definition."""
        self._run("remove_definition", tenant, id)

    def put_grant(self, grant: Grant) -> None:
        """Keep a grant."""
        self._run("put_grant", grant.tenant, grant.id, grant.actor, encode(grant.rule))

    def remove_grant(self, tenant: str, id: str) -> None:
        """Remove a grant."""
        self._run("remove_grant", tenant, id)

    def put_approval(self, approval: Approval) -> None:
        """Keep an approval."""
        self._run(
            "put_approval",
            approval.tenant,
            approval.id,
            approval.scope,
            approval.actor,
            approval.door,
            approval.capability,
            to_micros(approval.requested_at),
            approval.status,
            approval.decided_by,
            micros(approval.decided_at),
            approval.reason,
            None if approval.effect is None else encode(approval.effect),
        )

    def put_session(self, session: Session) -> None:
        """Keep a session."""
        scope, owner = session.scope, session.owner
        if owner is not None and owner.tenant != scope.tenant:
            raise InvalidScope(
                f"`{scope}` of tenant `{scope.tenant}` cannot belong to tenant `{owner.tenant}`",
                hint="A session and its owner have one tenant",
            )
        times = to_micros(session.started_at), micros(session.ended_at)
        self._run("put_session", scope.tenant, scope.path, None if owner is None else owner.path, *times)
        cache(self._sessions, scope, session)

    def put_replay(self, replay: Replay) -> None:
        """Keep the record of an idempotency key."""
        place = replay.scope.tenant, replay.scope.path, replay.key
        self._run("put_replay", *place, replay.request, to_micros(replay.at), encode(replay.results))

    def add_usage(self, tenant: str, actor: str, window: Window, writes: int, bytes: int) -> None:
        """Count against an actor's window."""
        place = tenant, actor, window.seconds, to_micros(window.begins)
        self._run("remove_usage", *place)
        self._run("add_usage", *place, writes, bytes)

    def erase_below(self, scope: Scope) -> dict[str, int]:
        """Remove everything at and below a scope."""
        return self._erase(scope, _ERASERS)

    def newest_below(self, scope: Scope) -> tuple[int, datetime | None]:
        """Return the highest version and the latest timestamp at and below a scope."""
        ranges = scopes_under(scope.path)
        found = [self._all("get_newest", scope.tenant, *each)[0] for each in ranges]
        found += [(0, self._all("get_newest_entry", scope.tenant, *each)[0][0]) for each in ranges]
        stamps = [at for _, at in found if at is not None]
        return max(version or 0 for version, _ in found), from_micros(max(stamps)) if stamps else None

    def add_erasure(self, erasure: Erasure) -> None:
        """Record that a scope was erased."""
        scope = erasure.scope
        self._run("add_erasure", scope.tenant, erasure.id, scope.path, to_micros(erasure.at), erasure.version_floor)
        self._erasures.clear()  # it counts for every scope below

    def put_content_key(self, tenant: str, scope: str, key: bytes) -> None:
        """Keep the content key of a scope."""
        self._run("put_content_key", tenant, scope, key)
        cache(self._content_keys, (tenant, scope), key)

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
        for event, body in events:
            run = run_of(event)
            self._run("append_event", tenant, event.position, event.hash, body, run)
            if run is not None:
                cache(self._run_heads, (tenant, run), (event.version or 0, event.hash))
            if event.text is not None:
                self._run("put_event_text", tenant, event.position, *text_place(event), encode(event.text))

    # helpers

    def _tenant(self, tenant: str) -> tuple[TenantState, int, str]:
        known = self._tenants.get(tenant)
        if known is None:
            revision, epoch, length, head = self._row("get_tenant", tenant) or (0, 0, 0, "")
            known = cache(self._tenants, tenant, (TenantState(revision, epoch), length, head))
        return known

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
            yield from page
            if len(page) < size:
                break
            start = page[-1][0] + 1
            limit = None if limit is None else limit - size
            size = page_size(page, EVENT_PAGE)

    def _erase(self, scope: Scope, kinds: Iterable[str]) -> dict[str, int]:
        self._sessions.clear()
        self._content_keys.clear()
        self._bare_facts.clear()
        ranges = scopes_under(scope.path)
        return {kind: sum(self._count(_ERASERS[kind], scope.tenant, *each) for each in ranges) for kind in kinds}


def cache(known: dict[K, V], key: K, value: V) -> V:
    """Cache what was read or written, and return it; a full cache starts again."""
    if len(known) >= _CACHE_SIZE:
        known.clear()
    known[key] = value
    return value


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
    return [(path, _next_text(path)), below(path)] if path else [("", _LAST)]


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
