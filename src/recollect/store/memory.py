"""The reference store: what is kept, as plain dictionaries, in the words of `store/base.py`.

Slow and obvious on purpose. Every table is a dictionary; a transaction copies them all and puts the copies
back when the work fails. Values are kept as JSON text, so no caller can reach in and change them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from recollect.errors import Corrupt, Unavailable
from recollect.model.approval import Approval
from recollect.model.definition import Definition
from recollect.model.event import Event
from recollect.model.fact import Fact, Revision
from recollect.model.key import lies_under
from recollect.model.policy import Grant
from recollect.model.scope import Scope
from recollect.model.value import decode, encode
from recollect.store.base import Erasure, Replay, Session, TenantState, Transaction, Window

T = TypeVar("T")


class _Tables(msgspec.Struct):
    """All there is to remember."""

    facts: dict[tuple[Scope, str], tuple[Fact, bytes]] = {}
    revisions: dict[tuple[Scope, str, int], tuple[Revision, bytes | None]] = {}
    tenants: dict[str, TenantState] = {}
    definitions: dict[tuple[str, str], Definition] = {}
    grants: dict[tuple[str, str], Grant] = {}
    approvals: dict[tuple[str, str], Approval] = {}
    sessions: dict[Scope, Session] = {}
    replays: dict[tuple[Scope, str], Replay] = {}
    usage: dict[tuple[str, str, Window], tuple[int, int]] = {}
    erasures: list[Erasure] = []
    content_keys: dict[tuple[str, str], bytes] = {}
    events: dict[str, list[Event]] = {}

    def copy(self) -> _Tables:
        tables: dict[str, Any] = {name: getattr(self, name).copy() for name in self.__struct_fields__}
        tables["events"] = {tenant: events.copy() for tenant, events in self.events.items()}
        return _Tables(**tables)


class MemoryStore:
    """A store that lives as long as the process."""

    url = "memory"

    def __init__(self) -> None:
        """Start with nothing."""
        self._tables: _Tables | None = _Tables()
        self._lock = threading.RLock()

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run work on the tables; put the old ones back if it fails."""
        with self._lock:
            before = self._open_tables().copy()
            try:
                return work(_Rows(self._open_tables()))
            except BaseException:
                self._tables = before
                raise

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run work while nobody writes."""
        with self._lock:
            return work(_Rows(self._open_tables()))

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return the fact at this key, expired or not."""
        return self.read(lambda rows: rows.fact(scope, key))

    def check(self) -> Sequence[str]:
        """Find nothing: dictionaries do not rot."""
        return []

    def scrub(self) -> bool:
        """Have nothing to rewrite: what is removed is gone."""
        return True

    def close(self) -> None:
        """Forget everything."""
        self._tables = None

    def _open_tables(self) -> _Tables:
        if self._tables is None:
            raise Unavailable("this memory is closed", hint="Open it again with recollect.open", url=self.url)
        return self._tables


class _Rows:
    """The verbs of the contract, on dictionaries."""

    def __init__(self, tables: _Tables) -> None:
        self._t = tables

    # facts and their history

    def fact(self, scope: Scope, key: str) -> Fact | None:
        row = self._t.facts.get((scope, key))
        return _fact(row) if row else None

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
        found = [
            _fact(row)
            for (owner, key), row in sorted(self._t.facts.items(), key=_by_scope_and_key)
            if owner == scope
            and lies_under(key, prefix)
            and key > after
            and row[0].active_at(now)
            and (domain is None or row[0].domain == domain)
        ]
        return found[:limit]

    def facts_as_of(self, scope: Scope, moment: datetime, *, prefix: str = "") -> list[Fact]:
        keys = {key for owner, key, _ in self._t.revisions if owner == scope and lies_under(key, prefix)}
        stood = [self.revision_at(scope, key, moment) for key in sorted(keys)]
        facts = [revision.as_fact() for revision in stood if revision and _readable(revision)]
        return [fact for fact in facts if fact.active_at(moment)]

    def facts_below(self, scope: Scope) -> Iterator[Fact]:
        for (owner, _), row in sorted(self._t.facts.items(), key=_by_scope_and_key):
            if scope.covers(owner):
                yield _fact(row)

    def facts_named(self, tenant: str, key: str) -> list[Fact]:
        rows = sorted(self._t.facts.items(), key=_by_scope_and_key)
        return [_fact(row) for (owner, name), row in rows if owner.tenant == tenant and name == key]

    def expired(self, tenant: str, now: datetime, limit: int) -> list[Fact]:
        rows = sorted(self._t.facts.items(), key=_by_scope_and_key)
        gone = [_fact(row) for (owner, _), row in rows if owner.tenant == tenant and not row[0].active_at(now)]
        return gone[:limit]

    def revisions(self, scope: Scope, key: str) -> list[Revision]:
        rows = [row for (owner, name, _), row in self._t.revisions.items() if (owner, name) == (scope, key)]
        return sorted((_revision(row) for row in rows), key=lambda revision: revision.version)

    def revision(self, scope: Scope, key: str, version: int) -> Revision | None:
        row = self._t.revisions.get((scope, key, version))
        return _revision(row) if row else None

    def revision_at(self, scope: Scope, key: str, moment: datetime) -> Revision | None:
        earlier = [revision for revision in self.revisions(scope, key) if revision.at <= moment]
        return earlier[-1] if earlier else None

    def last_version(self, scope: Scope, key: str) -> int:
        return max((revision.version for revision in self.revisions(scope, key)), default=0)

    # definitions, grants, approvals

    def tenants(self) -> list[str]:
        return sorted({*self._t.tenants, *self._t.events, *(scope.tenant for scope, _ in self._t.facts)})

    def tenant_state(self, tenant: str) -> TenantState:
        return self._t.tenants.get(tenant, TenantState())

    def definitions(self, tenant: str) -> list[Definition]:
        return [_copy(one) for one in self._t.definitions.values() if one.tenant == tenant]

    def grants(self, tenant: str) -> list[Grant]:
        return [grant for grant in self._t.grants.values() if grant.tenant == tenant]

    def approvals(self, tenant: str) -> list[Approval]:
        return [approval for approval in self._t.approvals.values() if approval.tenant == tenant]

    def approval(self, tenant: str, id: str) -> Approval | None:
        return self._t.approvals.get((tenant, id))

    # sessions, idempotency, quotas, erasures

    def session(self, scope: Scope) -> Session | None:
        return self._t.sessions.get(scope)

    def sessions_owned(self, scope: Scope) -> list[Scope]:
        owned = [one.scope for one in self._t.sessions.values() if one.owner is not None and scope.covers(one.owner)]
        return sorted(owned, key=lambda session: session.path)

    def replay(self, scope: Scope, key: str) -> Replay | None:
        return self._t.replays.get((scope, key))

    def usage(self, tenant: str, actor: str, window: Window) -> tuple[int, int]:
        return self._t.usage.get((tenant, actor, window), (0, 0))

    def erasure(self, scope: Scope) -> Erasure | None:
        covering = [erasure for erasure in self._t.erasures if erasure.scope.covers(scope)]
        return covering[-1] if covering else None

    # ledger

    def content_key(self, tenant: str, scope: str) -> bytes | None:
        return self._t.content_keys.get((tenant, scope))

    def head(self, tenant: str) -> tuple[int, str] | None:
        events = self._t.events.get(tenant)
        return (events[-1].position, events[-1].hash) if events else None

    def events(self, tenant: str, *, start: int = 1, limit: int | None = None) -> Iterator[Event]:
        return iter([event for event in self._t.events.get(tenant, []) if event.position >= start][:limit])

    # writing

    def put_fact(self, fact: Fact, payload: bytes) -> None:
        self._t.facts[fact.scope, fact.key] = (fact, payload)

    def remove_fact(self, scope: Scope, key: str) -> None:
        self._t.facts.pop((scope, key), None)

    def add_revision(self, revision: Revision, payload: bytes | None) -> None:
        self._t.revisions[revision.scope, revision.key, revision.version] = (revision, payload)

    def forget_revisions(self, tenant: str, now: datetime) -> int:
        outlived = [
            (place, revision)
            for place, (revision, payload) in self._t.revisions.items()
            if revision.scope.tenant == tenant
            and payload is not None
            and revision.expires_at is not None
            and revision.expires_at <= now
        ]
        for place, revision in outlived:
            self._t.revisions[place] = (msgspec.structs.replace(revision, forgotten=True), None)
        gone = {(revision.scope.path, revision.key, revision.version) for _, revision in outlived}
        self._forget_texts(tenant, lambda event: (event.scope, event.key, event.version) in gone)
        return len(outlived)

    def remove_memory(self, scope: Scope) -> dict[str, int]:
        return {
            "facts": _drop(self._t.facts, lambda place: scope.covers(place[0])),
            "revisions": _drop(self._t.revisions, lambda place: scope.covers(place[0])),
            "idempotency_keys": _drop(self._t.replays, lambda place: scope.covers(place[0])),
            "ledger_texts": self._forget_texts(
                scope.tenant, lambda event: scope.covers(Scope(event.tenant, event.scope))
            ),
            "content_keys": _drop(self._t.content_keys, lambda place: scope.covers(Scope(*place))),
        }

    def remove_replays(self, tenant: str, before: datetime) -> int:
        old = {place for place, replay in self._t.replays.items() if replay.at < before}
        return _drop(self._t.replays, lambda place: place[0].tenant == tenant and place in old)

    def set_tenant_state(self, tenant: str, state: TenantState) -> None:
        self._t.tenants[tenant] = state

    def put_definition(self, definition: Definition) -> None:
        self._t.definitions[definition.tenant, definition.id] = _copy(definition)

    def remove_definition(self, tenant: str, id: str) -> None:
        self._t.definitions.pop((tenant, id), None)

    def put_grant(self, grant: Grant) -> None:
        self._t.grants[grant.tenant, grant.id] = grant

    def remove_grant(self, tenant: str, id: str) -> None:
        self._t.grants.pop((tenant, id), None)

    def put_approval(self, approval: Approval) -> None:
        self._t.approvals[approval.tenant, approval.id] = approval

    def put_session(self, session: Session) -> None:
        self._t.sessions[session.scope] = session

    def put_replay(self, replay: Replay) -> None:
        self._t.replays[replay.scope, replay.key] = replay

    def add_usage(self, tenant: str, actor: str, window: Window, writes: int, bytes: int) -> None:
        used = self.usage(tenant, actor, window)
        _drop(
            self._t.usage,
            lambda place: (
                place[:2] == (tenant, actor) and place[2].seconds == window.seconds and place[2].begins < window.begins
            ),
        )
        self._t.usage[tenant, actor, window] = (used[0] + writes, used[1] + bytes)

    def erase_below(self, scope: Scope) -> dict[str, int]:
        doomed = {
            place
            for place, approval in self._t.approvals.items()
            if scope.covers(Scope(approval.tenant, approval.scope))
        }
        return {
            **self.remove_memory(scope),
            "approvals": _drop(self._t.approvals, lambda place: place in doomed),
            "sessions": _drop(self._t.sessions, scope.covers),
        }

    def newest_below(self, scope: Scope) -> tuple[int, datetime | None]:
        used = [(row[0].version, row[0].at) for place, row in self._t.revisions.items() if scope.covers(place[0])]
        used += [(erasure.version_floor, erasure.at) for erasure in self._t.erasures if scope.covers(erasure.scope)]
        return max((version for version, _ in used), default=0), max((at for _, at in used), default=None)

    def add_erasure(self, erasure: Erasure) -> None:
        self._t.erasures.append(erasure)

    def put_content_key(self, tenant: str, scope: str, key: bytes) -> None:
        self._t.content_keys[tenant, scope] = key

    def append_event(self, event: Event, body: bytes) -> None:
        events = self._t.events.setdefault(event.tenant, [])
        if event.position != len(events) + 1:
            raise Corrupt(
                f"event {event.position} cannot follow event {len(events)}",
                hint="Verify the ledger; the event was not written",
                position=event.position,
            )
        events.append(event)

    def _forget_texts(self, tenant: str, doomed: Callable[[Event], bool]) -> int:
        events = self._t.events.get(tenant, [])
        places = [place for place, event in enumerate(events) if event.text is not None and doomed(event)]
        for place in places:
            events[place] = msgspec.structs.replace(events[place], text=None)
        return len(places)


def _copy(definition: Definition) -> Definition:
    return msgspec.structs.replace(definition, schema=decode(encode(definition.schema)))


def _fact(row: tuple[Fact, bytes]) -> Fact:
    return msgspec.structs.replace(row[0], value=decode(row[1]))


def _revision(row: tuple[Revision, bytes | None]) -> Revision:
    revision, payload = row
    return msgspec.structs.replace(revision, value=None if payload is None else decode(payload))


def _readable(revision: Revision) -> bool:
    return revision.change == "set" and not revision.forgotten


def _by_scope_and_key(item: tuple[tuple[Scope, str], Any]) -> tuple[str, str, str]:
    (scope, key), _ = item
    return scope.tenant, scope.path, key


def _drop(table: dict[Any, Any], doomed: Callable[[Any], bool]) -> int:
    places = [place for place in table if doomed(place)]
    for place in places:
        del table[place]
    return len(places)
