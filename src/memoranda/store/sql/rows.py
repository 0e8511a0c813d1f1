"""The verbs of the contract in, the statements of a store's `queries.sql` on one connection out.

Nothing here begins, commits or translates errors: whoever holds the connection does. Every statement is read to
its end at once, so that no cursor stays open across a commit; what may be long is read page by page.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from memoranda.errors import Corrupt, InvalidScope
from memoranda.model.approval import Approval
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.definition import Definition
from memoranda.model.event import Event
from memoranda.model.fact import Fact, Origin, Revision
from memoranda.model.policy import Grant
from memoranda.model.run import run_of
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.base import Erasure, Replay, Session, TenantState, Window, text_place
from memoranda.store.sql.decoding import Row
from memoranda.store.sql.entries import EntryRows
from memoranda.store.sql.ranges import Range, after_text, keys_under, scopes_above, scopes_under
from memoranda.store.sql.statements import FIRST_PAGE, keep_in_mind, micros, page_size

PAGE = 256
"""Rows of one page of a long answer."""

# What an erasure counts, and the name of the statement that drops it.
_ERASED = {
    "facts": "erase_facts",
    "revisions": "erase_revisions",
    "idempotency_keys": "erase_replays",
    "approvals": "erase_approvals",
    "ledger_texts": "erase_event_texts",
    "content_keys": "erase_content_keys",
    "sessions": "erase_sessions",
}
_FACTS = 64
"""Facts of one page, each of a megabyte at most."""
_NO_LIMIT = 2**63 - 1
_MEMORY = ("facts", "revisions", "idempotency_keys", "ledger_texts", "content_keys")


class SqlRows(EntryRows):
    """A transaction on one connection; what each verb means is said in `store/base.py`."""

    def __init__(self, url: str) -> None:
        """Know nothing yet."""
        super().__init__(url)
        # What every write asks for again and again, as it was read or written here last.
        self._tenants: dict[str, tuple[TenantState, int, str]] = {}
        self._sessions: dict[Scope, Session] = {}
        self._erasures: dict[Scope, Erasure | None] = {}
        self._content_keys: dict[tuple[str, str], bytes] = {}
        self._run_heads: dict[tuple[str, str], tuple[int, str]] = {}
        self._bare_facts: dict[tuple[str, str, str], Fact] = {}

    def forget(self) -> None:
        """Drop what was kept in mind: another connection has written since, or what was written here was undone."""
        super().forget()
        self._tenants.clear()
        self._sessions.clear()
        self._erasures.clear()
        self._content_keys.clear()
        self._run_heads.clear()
        self._bare_facts.clear()

    # facts and their history

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact at this key."""
        row = self._row("get_fact", scope.tenant, scope.path, key)
        return None if row is None else self._decoding.fact(scope, key, row)

    def bare_fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact at this key without its value."""
        place = scope.tenant, scope.path, key
        fact = self._bare_facts.get(place)
        if fact is None:
            row = self._row("get_bare_fact", *place)
            if row is not None:
                fact = keep_in_mind(self._bare_facts, place, self._decoding.bare_fact(scope, key, row))
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
            place = scope.tenant, scope.path, max(low, after_text(after)), high
            rows = self._all("list_facts", *place, to_micros(now), domain, _row_limit(limit, found))
            found.extend(self._decoding.fact(scope, row[0], row[1:]) for row in rows)
        return found

    def facts_as_of(
        self, scope: Scope, moment: datetime, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[Fact]:
        """Return the facts that were active at a moment."""
        found: list[Fact] = []
        for low, high in keys_under(prefix):
            place = scope.tenant, scope.path, max(low, after_text(after)), high
            rows = self._all("list_facts_as_of", *place, to_micros(moment), _row_limit(limit, found))
            found.extend(self._decoding.revision(scope, row).as_fact() for row in rows)
        return found

    def facts_below(self, scope: Scope) -> Iterator[Fact]:
        """Yield every fact at and below a scope."""
        return self._page_facts_below(scope, self._turn)

    def facts_named(
        self, tenant: str, key: str, *, below: str = "", after: str | None = None, limit: int | None = None
    ) -> list[Fact]:
        """Return the facts of one key in every scope, or in those below one."""
        *_, (low, high) = scopes_under(below)
        if after is not None:
            low = max(low, after_text(after))
        rows = self._all("list_facts_named", tenant, key, low, high, _row_limit(limit))
        return list(self._decoding.facts(tenant, rows))

    def facts_owned(self, owner: Scope, key: str) -> list[Fact]:
        """Return the facts of one key in the sessions that belong to a scope or to one below it."""
        ranges = scopes_under(owner.path)
        found = [row for each in ranges for row in self._all("list_facts_owned", owner.tenant, key, *each)]
        return sorted(self._decoding.facts(owner.tenant, found), key=lambda fact: fact.scope.path)

    def expired(self, tenant: str, now: datetime, limit: int) -> list[Fact]:
        """Return facts whose time is up."""
        return list(self._decoding.facts(tenant, self._all("list_expired", tenant, to_micros(now), limit)))

    def revisions(self, scope: Scope, key: str, *, after: int = 0, limit: int | None = None) -> list[Revision]:
        """Return the history of a key from a version on."""
        rows = self._all("list_revisions", scope.tenant, scope.path, key, after, _row_limit(limit))
        return [self._decoding.revision(scope, row) for row in rows]

    def newest_revisions(
        self, scope: Scope, key: str, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        """Return the history of a key backwards from a version on."""
        below = _NO_LIMIT if before is None else before
        rows = self._all("list_newest_revisions", scope.tenant, scope.path, key, below, _row_limit(limit))
        return [self._decoding.revision(scope, row) for row in rows]

    def revision(self, scope: Scope, key: str, version: int) -> Revision | None:
        """Return one revision."""
        row = self._one("get_revision", scope.tenant, scope.path, key, version)
        return None if row is None else self._decoding.revision(scope, row)

    def revision_at(self, scope: Scope, key: str, moment: datetime) -> Revision | None:
        """Return the revision that stood at a moment."""
        row = self._one("get_revision_at", scope.tenant, scope.path, key, to_micros(moment))
        return None if row is None else self._decoding.revision(scope, row)

    def revisions_below(self, scope: Scope) -> Iterator[Revision]:
        """Yield every revision at and below a scope."""
        return self._page_revisions_below(scope, self._turn)

    def last_version(self, scope: Scope, key: str) -> int:
        """Return the highest version of a key."""
        return self._number("get_last_version", scope.tenant, scope.path, key)

    # definitions, grants, approvals

    def tenants(self) -> list[str]:
        """Return every tenant that has anything here."""
        return [tenant for (tenant,) in self._all("list_tenants")]

    def tenant_state(self, tenant: str) -> TenantState:
        """Return how often the tenant's rules changed."""
        return self._tenant(tenant)[0]

    def definitions(self, tenant: str) -> list[Definition]:
        """Return the tenant's definitions."""
        return [self._decoding.definition(tenant, row) for row in self._all("list_definitions", tenant)]

    def grants(self, tenant: str) -> list[Grant]:
        """Return the tenant's grants."""
        return [self._decoding.grant(tenant, row) for row in self._all("list_grants", tenant)]

    def approvals(self, tenant: str, *, after: str = "", limit: int | None = None) -> list[Approval]:
        """Return the tenant's approvals."""
        rows = self._all("list_approvals", tenant, after, _row_limit(limit))
        return [self._decoding.approval(tenant, row) for row in rows]

    def approval(self, tenant: str, id: str) -> Approval | None:
        """Return one approval."""
        row = self._one("get_approval", tenant, id)
        return None if row is None else self._decoding.approval(tenant, row)

    # sessions, idempotency, quotas, erasures

    def session(self, scope: Scope) -> Session | None:
        """Return the session of this scope."""
        session = self._sessions.get(scope)
        if session is None:
            row = self._one("get_session", scope.tenant, scope.path)
            if row is not None:
                session = keep_in_mind(self._sessions, scope, self._decoding.session(scope, row))
        return session

    def sessions_owned(self, scope: Scope) -> list[Scope]:
        """Return the sessions that belong to this scope or to one below it."""
        ranges = scopes_under(scope.path)
        owned = [row[0] for each in ranges for row in self._all("list_sessions_owned", scope.tenant, *each)]
        return [self._decoding.scope(scope.tenant, path) for path in sorted(owned)]

    def replay(self, scope: Scope, key: str) -> Replay | None:
        """Return what this idempotency key stood for."""
        row = self._one("get_replay", scope.tenant, scope.path, key)
        return None if row is None else self._decoding.replay(scope, key, row)

    def usage(self, tenant: str, actor: str, window: Window) -> tuple[int, int]:
        """Return the writes and bytes an actor used in a window."""
        writes, used = self._one("get_usage", tenant, actor, window.seconds, to_micros(window.begins)) or (0, 0)
        return writes, used

    def erasure(self, scope: Scope) -> Erasure | None:
        """Return the newest erasure of this scope or of one above it."""
        if scope not in self._erasures:
            newest = max(self._erasures_of(scope.tenant, scopes_above(scope.path)), default=None)
            erasure = None if newest is None else self._decoding.erasure(scope.tenant, newest[1:])
            keep_in_mind(self._erasures, scope, erasure)
        return self._erasures[scope]

    # ledger

    def content_key(self, tenant: str, scope: str) -> bytes | None:
        """Return the secret of a scope."""
        key = self._content_keys.get((tenant, scope))
        if key is None:
            row = self._one("get_content_key", tenant, scope)
            if row is not None:
                key = keep_in_mind(self._content_keys, (tenant, scope), row[0])
        return key

    def head(self, tenant: str) -> tuple[int, str] | None:
        """Return the position and hash of the newest event."""
        _, length, head = self._tenant(tenant)
        return (length, head) if length else None

    def find_head(self, tenant: str) -> tuple[int, str] | None:
        """Return what `head` does, and keep nothing in mind of it: for who asks outside of a read."""
        _, _, length, head = self._row("get_tenant", tenant) or (0, 0, 0, "")
        return (length, head) if length else None

    def events(
        self, tenant: str, *, start: int = 1, limit: int | None = None, run: str | None = None
    ) -> Iterator[Event]:
        """Yield events by position, of all or of one run."""
        pages = self._page_events(tenant, start, limit, run, self._turn)
        return (self._decoding.event(tenant, row) for row in pages)

    def run_head(self, tenant: str, run: str) -> tuple[int, str] | None:
        """Return the index and hash of a run's newest event."""
        head = self._run_heads.get((tenant, run))
        if head is None:
            row = self._one("get_run_head", tenant, run)
            if row is not None:
                head = keep_in_mind(self._run_heads, (tenant, run), self._decoding.run_head(tenant, row))
        return head

    def bodies(self, tenant: str, *, run: str | None = None) -> Iterator[tuple[int, str, bytes]]:
        """Yield position, hash and hashed bytes of events."""
        pages = self._page_events(tenant, 1, None, run, self._turn)
        return ((position, hash, body) for position, hash, body, _ in pages)

    # writing

    def put_fact(self, fact: Fact, payload: bytes) -> None:
        """Keep a fact."""
        scope, origin = fact.scope, fact.origin
        times = to_micros(fact.created_at), to_micros(fact.updated_at), micros(fact.expires_at)
        who = origin.actor, origin.door, origin.source
        place = scope.tenant, scope.path, fact.key
        self._run("put_fact", *place, fact.id, fact.version, *times, fact.domain, *who, payload)
        keep_in_mind(self._bare_facts, place, msgspec.structs.replace(fact, value=None, origin=Origin()))

    def remove_fact(self, scope: Scope, key: str) -> None:
        """Drop a fact."""
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
        """Blank the values that outlived their time."""
        self._run("forget_texts", tenant, to_micros(now))
        return self._count("forget_revisions", tenant, to_micros(now))

    def remove_memory(self, scope: Scope) -> dict[str, int]:
        """Drop the memory at and below a scope."""
        return self._erase(scope.tenant, scopes_under(scope.path), _MEMORY)

    def remove_replays(self, tenant: str, before: datetime) -> int:
        """Drop idempotency records made before a moment."""
        return self._count("remove_replays", tenant, to_micros(before))

    def set_tenant_state(self, tenant: str, state: TenantState) -> None:
        """Keep how often the tenant's rules changed."""
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
        """Drop a definition."""
        self._run("remove_definition", tenant, id)

    def put_grant(self, grant: Grant) -> None:
        """Keep a grant."""
        self._run("put_grant", grant.tenant, grant.id, grant.actor, encode(grant.rule))

    def remove_grant(self, tenant: str, id: str) -> None:
        """Drop a grant."""
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
        keep_in_mind(self._sessions, scope, session)

    def put_replay(self, replay: Replay) -> None:
        """Keep what an idempotency key stood for."""
        place = replay.scope.tenant, replay.scope.path, replay.key
        self._run("put_replay", *place, replay.request, to_micros(replay.at), encode(replay.results))

    def add_usage(self, tenant: str, actor: str, window: Window, writes: int, bytes: int) -> None:
        """Count against an actor's window."""
        place = tenant, actor, window.seconds, to_micros(window.begins)
        self._run("remove_usage", *place)
        self._run("add_usage", *place, writes, bytes)

    def erase_below(self, scope: Scope) -> dict[str, int]:
        """Drop all that belongs to a scope."""
        return self._erase(scope.tenant, scopes_under(scope.path), _ERASED)

    def newest_below(self, scope: Scope) -> tuple[int, datetime | None]:
        """Return the highest version and the latest stamp at and below a scope."""
        ranges = scopes_under(scope.path)
        found = [self._all("get_newest", scope.tenant, *each)[0] for each in ranges]
        found += [(0, self._all("get_newest_entry", scope.tenant, *each)[0][0]) for each in ranges]
        stamps = [at for _, at in found if at is not None]
        return max(version or 0 for version, _ in found), from_micros(max(stamps)) if stamps else None

    def add_erasure(self, erasure: Erasure) -> None:
        """Keep the fact that a scope was erased."""
        scope = erasure.scope
        self._run("add_erasure", scope.tenant, erasure.id, scope.path, to_micros(erasure.at), erasure.version_floor)
        self._erasures.clear()  # it may speak for any scope below it

    def put_content_key(self, tenant: str, scope: str, key: bytes) -> None:
        """Keep the secret of a scope."""
        self._run("put_content_key", tenant, scope, key)
        keep_in_mind(self._content_keys, (tenant, scope), key)

    def append_events(self, events: Sequence[tuple[Event, bytes]]) -> None:
        """Append to a tenant's ledger."""
        first, last = events[0][0], events[-1][0]
        tenant, before = first.tenant, first.position - 1
        if last.position - before != len(events) or not self._move_head(tenant, before, last):
            position, _ = self.head(tenant) or (0, "")
            raise Corrupt(
                f"`{self._url}`: event {first.position} of tenant `{tenant}` cannot follow event {position}",
                hint="Verify the ledger; the event was not written",
                url=self._url,
                position=first.position,
            )
        self._tenants[tenant] = (self._tenant(tenant)[0], last.position, last.hash)
        for event, body in events:
            run = run_of(event)
            self._run("append_event", tenant, event.position, event.hash, body, run)
            if run is not None:
                keep_in_mind(self._run_heads, (tenant, run), (event.version or 0, event.hash))
            if event.text is not None:
                self._run("put_event_text", tenant, event.position, *text_place(event), encode(event.text))

    # running statements

    @abstractmethod
    def _erasures_of(self, tenant: str, paths: list[str]) -> list[Row]:
        """Return erasures of these scopes, the newest of all among them: place, id, scope, moment and floor."""

    @abstractmethod
    def _move_head(self, tenant: str, before: int, last: Event) -> bool:
        """Let a ledger that ends at this position end with this event; say False, and do nothing, where it does not."""

    def _tenant(self, tenant: str) -> tuple[TenantState, int, str]:
        known = self._tenants.get(tenant)
        if known is None:
            revision, epoch, length, head = self._one("get_tenant", tenant) or (0, 0, 0, "")
            known = keep_in_mind(self._tenants, tenant, (TenantState(revision, epoch), length, head))
        return known

    def _page_facts_below(self, scope: Scope, turn: int) -> Iterator[Fact]:
        for low, high in scopes_under(scope.path):
            last, size = (low, ""), FIRST_PAGE
            while True:
                self._check_turn(turn)
                page = self._all("page_facts_below", scope.tenant, *last, low, high, size)
                yield from self._decoding.facts(scope.tenant, page)
                if len(page) < size:
                    break
                last, size = page[-1][:2], page_size(page, _FACTS)

    def _page_revisions_below(self, scope: Scope, turn: int) -> Iterator[Revision]:
        for low, high in scopes_under(scope.path):
            last: tuple[str, str, int] = (low, "", 0)
            size = FIRST_PAGE
            while True:
                self._check_turn(turn)
                page = self._all("page_revisions_below", scope.tenant, *last, low, high, size)
                yield from (
                    self._decoding.revision(self._decoding.scope(scope.tenant, row[0]), row[1:]) for row in page
                )
                if len(page) < size:
                    break
                last, size = page[-1][:3], page_size(page, _FACTS)

    def _page_events(self, tenant: str, start: int, limit: int | None, run: str | None, turn: int) -> Iterator[Row]:
        size = FIRST_PAGE
        while limit is None or limit > 0:
            self._check_turn(turn)
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
            size = page_size(page, PAGE)

    def _erase(self, tenant: str, ranges: list[Range], kinds: Iterable[str]) -> dict[str, int]:
        """Drop what is in these scopes of each kind; return how many."""
        self._sessions.clear()
        self._content_keys.clear()
        self._bare_facts.clear()
        counts = {kind: sum(self._count(_ERASED[kind], tenant, *each) for each in ranges) for kind in kinds}
        return {**counts, "entries": self._erase_entries(tenant, ranges)}


def _row_limit(limit: int | None, found: Sequence[object] = ()) -> int:
    """Return how many more rows a statement may return, as both databases take it."""
    return _NO_LIMIT if limit is None else limit - len(found)
