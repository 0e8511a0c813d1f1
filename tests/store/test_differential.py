"""Run random operations on the reference store and on the others side by side: all reads agree."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_server import PostgresServer

from memoranda.engine.facts import DeleteFact, SetFact, WriteFacts
from memoranda.model.definition import Definition
from memoranda.model.effect import Approval
from memoranda.model.event import GENESIS, Event, event_body
from memoranda.model.fact import Fact, Revision
from memoranda.model.policy import Grant, Rule
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin
from memoranda.model.value import hash_body
from memoranda.store.base import ContentKey, Erasure, FactQuery, Replay, RevisionQuery, Session, TenantState, Window
from memoranda.store.memory import MemoryStore
from memoranda.store.postgres import PostgresStore
from memoranda.store.sqlite import SqliteStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TENANTS = ("default", "other")
# Neighbours in the order of texts that are not relatives: `user:a-b` and `user:ab` lie around `user:a/…`.
PATHS = (
    "",
    "user:a",
    "user:a-b",
    "user:a/agent:x",
    "user:a/agent:x/session:s",
    "user:a0",
    "user:ab",
    "session:s1",
    "session:s1x",
    "user:é%2F%25",
)
KEYS = ("a", "a!", "a.b", "a.b.c", "a-b", "a/b", "ab", "b", "é", "𝄞")
MOMENTS = tuple(NOON + timedelta(microseconds=number) for number in range(4))
WINDOWS = tuple(Window(seconds, moment) for seconds in (60, 3600) for moment in MOMENTS)

tenants = st.sampled_from(TENANTS)
paths = st.sampled_from(PATHS)
scopes = st.builds(Scope, tenants, paths)
keys = st.sampled_from(KEYS)
moments = st.sampled_from(MOMENTS)
maybe_moments = st.none() | moments
versions = st.integers(1, 4)
domains = st.sampled_from([None, "work", ""])
names = st.sampled_from(["x", "y"])
payloads = st.sampled_from([b"null", b"0", b"1.50", b'"\xc3\xa9"', b'{"b":[1,{"a":null}],"a":2}'])
origins = st.builds(Origin, names, names, st.none() | names)
facts = st.builds(
    Fact,
    id=names,
    scope=scopes,
    key=keys,
    value=st.none(),
    version=versions,
    created_at=moments,
    updated_at=moments,
    expires_at=maybe_moments,
    domain=domains,
    origin=origins,
)
revisions = st.builds(
    Revision,
    fact_id=names,
    scope=scopes,
    key=keys,
    version=versions,
    change=st.sampled_from(["set", "set", "deleted", "expired"]),
    at=moments,
    created_at=moments,
    expires_at=maybe_moments,
    domain=domains,
    origin=origins,
    forgotten=st.booleans(),
)
effects = st.one_of(
    st.none(),
    st.builds(SetFact, scope=scopes, key=keys, payload=payloads.map(msgspec.Raw), expect=st.none() | versions),
    st.builds(
        WriteFacts,
        scope=scopes,
        writes=st.tuples(st.builds(DeleteFact, scope=scopes, key=keys, source=st.none() | names)),
    ),
)
ids = st.sampled_from(["1", "2", "3"])


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    scope = draw(scopes)
    owner = draw(st.none() | paths)
    ended = draw(maybe_moments)
    return Session(
        scope=scope, owner=None if owner is None else Scope(scope.tenant, owner), started_at=NOON, ended_at=ended
    )


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    tenant = draw(tenants)
    return Definition(
        id=draw(ids),
        tenant=tenant,
        name=draw(names),
        slug=draw(names),
        scope="global",
        ttl=draw(st.none() | versions),
        schema=draw(st.sampled_from([{}, {"type": "object", "a": [1.5, None]}])),
        created_at=draw(moments),
        updated_at=draw(moments),
    )


@st.composite
def grants(draw: st.DrawFn) -> Grant:
    tenant = draw(tenants)
    rule = Rule(draw(st.sampled_from(["allow", "deny"])), "memory", draw(st.none() | scopes), draw(keys))
    return Grant(id=draw(ids), tenant=tenant, actor=draw(names), rule=rule)


@st.composite
def approvals(draw: st.DrawFn) -> Approval:
    tenant = draw(tenants)
    return Approval(
        id=draw(ids),
        tenant=tenant,
        scope=draw(paths),
        actor=draw(names),
        door="python",
        capability="memory.write",
        effect=draw(effects),
        requested_at=draw(moments),
        status=draw(st.sampled_from(["pending", "approved"])),
        decided_by=draw(st.none() | names),
        decided_at=draw(maybe_moments),
        reason=draw(names),
    )


rejections = st.builds(
    StoredRejection,
    id=ids,
    scope=scopes,
    key=st.none() | keys,
    actor=names,
    at=moments,
    reason=names,
    undo=st.none() | names,
    salt=st.sampled_from([b"k1", b"\0\xff"]),
    digests=st.lists(names, max_size=2).map(tuple),
    messages=st.lists(names, max_size=2).map(tuple),
)
replays = st.builds(
    Replay,
    scope=scopes,
    key=keys,
    request=names,
    results=st.lists(st.tuples(keys, st.none() | versions), max_size=2).map(tuple),
    at=moments,
)
erasures = st.builds(Erasure, id=ids, scope=scopes, at=moments, version_floor=versions)


@st.composite
def events(draw: st.DrawFn) -> Event:
    """An event whose position is filled in when it is appended."""
    return Event(
        tenant=draw(tenants),
        position=0,
        at=draw(moments),
        actor=draw(names),
        door="python",
        effect=draw(st.sampled_from(["set_fact", "step_record", "exec_end"])),
        decision=draw(st.sampled_from(["allow", "deny"])),
        scope=draw(paths),
        key=draw(st.none() | keys),
        resource=draw(names),
        version=draw(versions),
        content=draw(st.none() | names),
        epoch=draw(versions),
        detail=draw(st.sampled_from([{}, {"z": 1, "a": {"é": [1.5, None]}}])),
        prev_hash=GENESIS,
        hash=draw(names),
        text=draw(st.sampled_from([None, "said", 0, False, {"a": [1]}])),
    )


def append(rows: Any, event: Event) -> None:
    reserved = rows.reserve(event.tenant, 1)
    placed = msgspec.structs.replace(event, position=reserved.positions[0], prev_hash=reserved.previous)
    body = event_body(placed)
    rows.append_events([(msgspec.structs.replace(placed, hash=hash_body(body)), body)])


def without_chain(events: Iterable[Event]) -> list[Event]:
    """Return the events of a run without their hashes: a store that chains later has others for runs."""
    return [msgspec.structs.replace(event, prev_hash="", hash="") for event in events]


def calls(
    name: str, *arguments: st.SearchStrategy[Any], **options: st.SearchStrategy[Any]
) -> st.SearchStrategy[Callable[[Any], Any]]:
    return st.builds(Call, st.just(name), st.tuples(*arguments), st.fixed_dictionaries(options))


class Call:
    """One verb with its arguments, shown when a test fails."""

    def __init__(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.name = name
        self.arguments = arguments
        self.options = options

    def __call__(self, rows: Any) -> Any:
        if self.name == "append_event":
            return append(rows, *self.arguments)
        return getattr(rows, self.name)(*self.arguments, **self.options)

    def __repr__(self) -> str:
        return f"{self.name}{self.arguments!r}{self.options or ''}"


VERBS = st.one_of(
    calls("put_fact", facts, payloads),
    calls("put_fact", facts, payloads),
    calls("remove_fact", scopes, keys),
    calls("add_revision", revisions, st.none() | payloads),
    calls("add_revision", revisions, st.none() | payloads),
    calls("expire", tenants, moments, replays_before=moments),
    calls("set_tenant_state", tenants, st.builds(TenantState, versions, versions, versions)),
    calls("put", definitions()),
    calls("remove", st.just(Definition), tenants, ids),
    calls("put", grants()),
    calls("remove", st.just(Grant), tenants, ids),
    calls("put", approvals()),
    calls("put", rejections),
    calls("remove", st.just(StoredRejection), tenants, ids),
    calls("put", sessions()),
    calls("put", replays),
    calls("add_usage", tenants, names, st.sampled_from(WINDOWS), versions, versions),
    calls("remove_below", scopes, keep_records=st.booleans()),
    calls("remove_below", scopes),
    calls("newest_below", scopes),
    calls("put", erasures),
    calls("put", st.builds(ContentKey, tenants, paths.filter(bool), st.sampled_from([b"k1", b"\0\xff"]))),
    calls("append_event", events()),
)


def everything(rows: Any) -> dict[Any, Any]:
    """Ask every question a reader can be asked about the small world of this test."""
    answers: dict[Any, Any] = {"tenants": rows.tenants()}
    for tenant in TENANTS:
        answers[tenant] = {
            "state": rows.tenant_state(tenant),
            "definitions": rows.scan(Definition, tenant),
            "grants": rows.scan(Grant, tenant),
            "approvals": rows.scan(Approval, tenant),
            "approval": [rows.get(Approval, tenant, id) for id in ("1", "2")],
            "rejections": rows.scan(StoredRejection, tenant),
            "rejection": [rows.get(StoredRejection, tenant, id) for id in ("1", "2")],
            "usage": [rows.usage(tenant, actor, window) for actor in ("x", "y") for window in WINDOWS],
            "scopes": [rows.scopes(tenant, prefix=prefix) for prefix in ("", "user:a", "x")],
            "head": rows.head(tenant),
            "events": list(rows.events(tenant)),
            "some events": [list(rows.events(tenant, start=start, limit=2)) for start in (1, 2, 3)],
            "of runs": [
                without_chain(rows.events(tenant, start=start, run=run)) for start in (1, 3) for run in ("x", "z")
            ],
            "ends of runs": [(rows.head(tenant, run) or [None])[0] for run in ("x", "y", "z")],
            "bytes": list(rows.bodies(tenant)),
            "hashes of runs": [
                [hash_body(body) == hash for _, hash, body in rows.bodies(tenant, run=run)] for run in ("x", "y")
            ],
            "named": [list(rows.facts(FactQuery(Scope(tenant), below=True, key=key))) for key in KEYS],
            "expired": [
                list(rows.facts(FactQuery(Scope(tenant), below=True, expired_by=moment, limit=limit)))
                for moment in MOMENTS
                for limit in (1, 100)
            ],
        }
        for path in PATHS:
            answers[tenant, path] = in_scope(rows, Scope(tenant, path))
    return answers


def in_scope(rows: Any, scope: Scope) -> dict[str, Any]:
    prefixes = ("", "a", "a.b", "é")
    return {
        "facts": [rows.fact(scope, key) for key in KEYS],
        "bare facts": [rows.fact(scope, key, value=False) for key in KEYS],
        "lists": [list(rows.facts(FactQuery(scope, active_at=NOON, prefix=prefix))) for prefix in prefixes],
        "pages": [
            list(rows.facts(FactQuery(scope, active_at=MOMENTS[1], prefix=prefix, domain=domain, after=after, limit=2)))
            for prefix in prefixes
            for domain in (None, "work")
            for after in ("", "a", "a.b", "b")
        ],
        "as of": [
            list(rows.facts(FactQuery(scope, as_of=moment, prefix=prefix))) for moment in MOMENTS for prefix in prefixes
        ],
        "below": list(rows.facts(FactQuery(scope, below=True))),
        "named below": [
            list(rows.facts(FactQuery(scope, below=True, key=key, after=after, limit=limit)))
            for key in KEYS[:4]
            for after, limit in ((None, None), (None, 2), ("", 2), ("user:a", None))
        ],
        "revisions": [list(rows.revisions(RevisionQuery(scope, key))) for key in KEYS],
        "newest revisions": [
            list(rows.revisions(RevisionQuery(scope, key, newest_first=True, before=before, limit=2)))
            for key in KEYS
            for before in (None, 3)
        ],
        "revisions below": list(rows.revisions(RevisionQuery(scope))),
        "revision": [rows.revision(scope, key, version=2) for key in KEYS],
        "revision at": [rows.revision(scope, key, at=moment) for key in KEYS[:4] for moment in MOMENTS],
        "last": [rows.revision(scope, key) for key in KEYS],
        "session": rows.get(Session, scope),
        "rejections below": rows.scan(StoredRejection, scope.tenant, below=scope),
        "owned": rows.scan(Session, scope.tenant, below=scope),
        "facts of owned": [list(rows.facts(FactQuery(scope, owned=True, key=key))) for key in KEYS],
        "replays": [rows.get(Replay, scope, key) for key in KEYS],
        "erasure": rows.get(Erasure, scope),
        "subject": rows.get(ContentKey, scope.tenant, scope.path),
    }


class Undone(Exception):
    """Raised at the end of a work, to see that nothing of it stays."""


def act(store: Any, verbs: list[Call], undo: bool) -> list[Any]:
    """Run verbs in one transaction; return what each answered, and what the transaction itself then sees."""
    answers: list[Any] = []

    def work(rows: Any) -> None:
        answers.extend(verb(rows) for verb in verbs)
        answers.append(everything(rows))
        if undo:
            raise Undone

    if undo:
        with pytest.raises(Undone):
            store.transact(work)
    else:
        store.transact(work)
    return answers


DEPTH = 600 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 30
STEPS = st.lists(st.tuples(st.lists(VERBS, min_size=1, max_size=12), st.booleans()), max_size=4)


@pytest.mark.slow
@settings(max_examples=DEPTH, deadline=None)
@given(steps=STEPS, restart=st.booleans())
def test_sqlite_answers_as_the_reference_does(steps: list[tuple[list[Call], bool]], restart: bool):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/m.db"
        reference, store = MemoryStore(), SqliteStore(path, durability="normal")
        try:
            for verbs, undo in steps:
                assert act(store, verbs, undo) == act(reference, verbs, undo)
                assert store.read(everything) == reference.read(everything)
                if restart:
                    store.close()
                    store = SqliteStore(path, durability="normal")
            assert store.read(everything) == reference.read(everything)
            assert store.check() == []
        finally:
            store.close()


@pytest.mark.slow
@settings(max_examples=DEPTH // 15, deadline=None)
@given(steps=STEPS, restart=st.booleans())
def test_postgres_answers_as_the_reference_does(
    postgres: PostgresServer, steps: list[tuple[list[Call], bool]], restart: bool
):
    postgres.empty()
    reference, store = MemoryStore(), PostgresStore(postgres.url())
    try:
        for verbs, undo in steps:
            assert act(store, verbs, undo) == act(reference, verbs, undo)
            if restart:
                store.close()
                store = PostgresStore(postgres.url())
        assert store.read(everything) == reference.read(everything)
        assert store.check() == []
    finally:
        store.close()


def test_the_comparison_sees_a_difference():
    reference, store = MemoryStore(), SqliteStore(":memory:")
    fact = Fact(id="x", scope=Scope(), key="a", value=None, version=1, created_at=NOON, updated_at=NOON)
    reference.transact(lambda rows: rows.put_fact(fact, b"1"))
    assert store.read(everything) != reference.read(everything)
    store.transact(lambda rows: rows.put_fact(fact, b"1"))
    assert store.read(everything) == reference.read(everything)
    store.close()
