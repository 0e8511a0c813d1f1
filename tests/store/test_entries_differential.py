"""Run random operations on entries on the reference store and on SQLite side by side: all reads agree.

The second test is about the purpose of a shelf's state: a reader who follows it now and then, reading only what the
state says is new, has the same entries as one who reads the whole shelf.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from added import add_entry
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_server import PostgresServer

from memoranda.model.entry import Calibration, Collection, Entry, Indexed, NewEntry, Shelf, ShelfState, Space
from memoranda.model.event import GENESIS, Event, event_body
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin
from memoranda.model.value import hash_body
from memoranda.store.base import EntryQuery
from memoranda.store.memory import MemoryStore
from memoranda.store.postgres import PostgresStore, connection
from memoranda.store.sqlite import SqliteStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TENANTS = ("default", "other")
# `user:a-b` and `user:ab` sort around `user:a/…` as texts, and are not related to it.
PATHS = ("", "user:a", "user:a-b", "user:a/agent:x", "user:ab")
COLLECTIONS = ("notes", "notes.b")
NAMESPACES = ("", "x", "é")
EMBEDDERS = ("e", "f")
DIGESTS = (b"d1", b"\0\xff")
KEYS = ("k", "é")
IDS = ("1", "2", "3")
SEQUENCES = range(1, 13)
MOMENTS = tuple(NOON + timedelta(microseconds=number) for number in range(4))
SHELVES = [
    Shelf(Scope(tenant, path), collection, namespace)
    for tenant in TENANTS
    for path in PATHS
    for collection in COLLECTIONS
    for namespace in (*NAMESPACES, None)
]

tenants = st.sampled_from(TENANTS)
scopes = st.builds(Scope, tenants, st.sampled_from(PATHS))
collection_names = st.sampled_from(COLLECTIONS)
embedders = st.sampled_from(EMBEDDERS)
sequences = st.sampled_from(SEQUENCES)
moments = st.sampled_from(MOMENTS)
maybe_moments = st.none() | moments
names = st.sampled_from(["x", "y"])
payloads = st.sampled_from([b'"said"', b"0", b'{"b":[1,{"a":null}],"a":2}', b'"\xc3\xa9"'])
spaces = st.builds(
    Space, embedder=embedders, dimension=st.just(2), calibration=st.builds(Calibration, st.just(0.5), st.just(8.0))
)
collections = st.builds(
    Collection,
    tenant=tenants,
    name=collection_names,
    space=spaces,
    created_at=moments,
    successor=st.none() | spaces,
)
vectors = st.binary(min_size=8, max_size=8)


@st.composite
def events(draw: st.DrawFn) -> Event:
    """An event about an entry, whose position is filled in when it is appended."""
    scope = draw(scopes)
    return Event(
        tenant=scope.tenant,
        position=0,
        at=NOON,
        actor="owner",
        door="python",
        effect="remember",
        decision="allow",
        scope=scope.path,
        key=draw(st.sampled_from([f"collections.{name}" for name in COLLECTIONS] + ["notes"])),
        resource=None,
        version=draw(st.none() | sequences),
        content=None,
        epoch=0,
        detail={},
        prev_hash=GENESIS,
        hash="h",
        text="said",
    )


class Call:
    """One verb with its arguments, shown when a test fails."""

    def __init__(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any] | None = None) -> None:
        self.name = name
        self.arguments = arguments
        self.options = options or {}

    def __call__(self, rows: Any) -> Any:
        if self.name == "append_event":
            (event,) = self.arguments
            reserved = rows.reserve(event.tenant, 1)
            placed = msgspec.structs.replace(event, position=reserved.positions[0], prev_hash=reserved.previous)
            body = event_body(placed)
            return rows.append_events([(msgspec.structs.replace(placed, hash=hash_body(body)), body)])
        return getattr(rows, self.name)(*self.arguments, **self.options)

    def __repr__(self) -> str:
        return f"{self.name}{self.arguments!r}{self.options or ''}"


def calls(
    name: str, *arguments: st.SearchStrategy[Any], **options: st.SearchStrategy[Any]
) -> st.SearchStrategy[Callable[[Any], Any]]:
    return st.builds(Call, st.just(name), st.tuples(*arguments), st.fixed_dictionaries(options))


@st.composite
def additions(draw: st.DrawFn) -> Call:
    """Some entries on one shelf, with vectors of as many embedders as there may be."""
    makers = draw(st.lists(embedders, max_size=2, unique=True))
    new = st.builds(
        NewEntry,
        st.sampled_from(IDS),
        st.none() | st.sampled_from(KEYS),
        payloads,
        st.sampled_from([b"{}", '{"z":1,"a":{"é":[1.5,null]}}'.encode()]),
        st.sampled_from(DIGESTS),
        st.sampled_from([b"", b"words"]),
        st.tuples(*[vectors for _ in makers]),
    )
    shelf = draw(st.builds(Shelf, scopes, collection_names, st.sampled_from(NAMESPACES)))
    options = {
        "created_at": draw(moments),
        "expires_at": draw(maybe_moments),
        "origin": draw(st.builds(Origin, names, names, st.none() | names)),
    }
    return Call("add_entries", (shelf, draw(st.lists(new, min_size=1, max_size=3)), makers), options)


adding = additions()
putting = calls("put_vector", tenants, sequences, embedders, vectors)
removing = st.one_of(
    calls("end_entry", tenants, sequences, moments),
    calls("remove_entry", tenants, sequences),
    calls("remove_below", scopes, keep_records=st.booleans()),
    calls("remove_below", scopes, keep_records=st.booleans()),
    calls("remove", st.just(Collection), tenants, collection_names),
)
VERBS = st.one_of(
    adding,
    adding,
    adding,
    putting,
    putting,
    calls("put", collections),
    calls("remove_vectors", tenants, collection_names, embedders),
    removing,
    calls("append_event", events()),
)


def everything(rows: Any) -> dict[Any, Any]:
    """Ask every question about entries that a reader can be asked about the small world of this test."""

    def found(**fields: Any) -> list[Entry]:
        return list(rows.entries(EntryQuery(**fields)))

    def indexed(embedder: str, **fields: Any) -> list[Indexed]:
        return list(rows.index_rows(EntryQuery(**fields), embedder))

    answers: dict[Any, Any] = {"tenants": rows.tenants()}
    for tenant in TENANTS:
        answers[tenant] = {
            "collections": rows.scan(Collection, tenant),
            "collection": [rows.get(Collection, tenant, name) for name in COLLECTIONS],
            "shelves": [rows.shelves(tenant, name) for name in COLLECTIONS],
            "entries": sorted(found(tenant=tenant, sequences=SEQUENCES), key=lambda entry: entry.sequence),
            "some entries": [len(found(tenant=tenant, sequences=some)) for some in ([], [1], [2, 2, 99])],
            "entry": [found(tenant=tenant, id=id) for id in IDS],
            "expired": [
                found(tenant=tenant, expired_by=moment, limit=limit) for moment in MOMENTS for limit in (1, 100)
            ],
            "without": [
                found(tenant=tenant, collection=name, without_vector_of=embedder, limit=limit, after=after)
                for name in COLLECTIONS
                for embedder in EMBEDDERS
                for limit, after in ((1, 0), (100, 0), (100, 2))
            ],
            "indexed": [
                indexed(embedder, tenant=tenant, collection=name, limit=limit, after=after)
                for name in COLLECTIONS
                for embedder in EMBEDDERS
                for limit, after in ((1, 0), (100, 0), (100, 2))
            ],
            "counts": [rows.vector_counts(tenant, name) for name in COLLECTIONS],
            "below": [found(below=Scope(tenant, path)) for path in PATHS],
            "states": [
                rows.shelf_states(Scope(tenant, path), below=below) for path in PATHS for below in (False, True)
            ],
            "scopes": [
                rows.scopes(tenant, prefix=prefix, after=after, limit=limit)
                for prefix in ("", "user:a", "user:a/", "x")
                for after in ("", "user:a")
                for limit in (None, 1)
            ],
            "texts": [event.text for event in rows.events(tenant)],
        }
    for shelf in SHELVES:
        answers[shelf] = {
            "state": rows.shelf_state(shelf),
            "live": rows.live_sequences(shelf),
            "removed": [
                None if removed is None else sorted(removed)
                for mark in range(0, 40, 3)
                for removed in [rows.removed_since(shelf, mark)]
            ],
            "indexed": [indexed(embedder, shelf=shelf, after=after) for embedder in EMBEDDERS for after in (0, 2)],
            "of key": [found(shelf=shelf, key=key) for key in KEYS],
            "chain": [found(shelf=shelf, chain=name) for name in (*KEYS, *IDS)],
            "alike": [found(shelf=shelf, digest=digest) for digest in DIGESTS],
            "ended": [
                found(shelf=shelf, digest=digest, ended_since=moment, limit=100)
                for digest in DIGESTS
                for moment in MOMENTS
            ],
            "known": [rows.known(shelf, digests=DIGESTS), rows.known(shelf, digests=DIGESTS[:1])],
            "known keys": [rows.known(shelf, keys=KEYS, digests=DIGESTS[1:]), rows.known(shelf, keys=KEYS[1:])],
            "as of": [indexed(embedder, shelf=shelf, active_at=at) for embedder in EMBEDDERS for at in MOMENTS],
        }
    return answers


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


DEPTH = 400 if os.environ.get("MEMORANDA_DEPTH") == "deep" else 25
STEPS = st.lists(st.tuples(st.lists(VERBS, min_size=1, max_size=12), st.booleans()), min_size=1, max_size=4)


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
                if restart:
                    store.close()
                    store = SqliteStore(path, durability="normal")
                    assert store.scrub()
            assert store.read(everything) == reference.read(everything)
            assert store.check() == []
        finally:
            store.close()


@pytest.mark.slow
@settings(max_examples=DEPTH // 12, deadline=None)
@given(steps=STEPS, restart=st.booleans())
def test_postgres_answers_as_the_reference_does(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[list[Call], bool]], restart: bool
):
    monkeypatch.setattr(connection, "_MOST_NUMBERS", 1)  # no gaps, which are allowed, and unlike the reference's
    postgres.empty()
    reference, store = MemoryStore(), PostgresStore(postgres.url())
    try:
        for verbs, _ in steps:
            # None is undone: PostgreSQL does not take back the numbers that it gave, and need not.
            assert act(store, verbs, False) == act(reference, verbs, False)
            if restart:
                store.close()
                store = PostgresStore(postgres.url())
                assert store.scrub()
        assert store.read(everything) == reference.read(everything)
        assert store.check() == []
    finally:
        store.close()


def test_the_comparison_sees_a_difference():
    reference, store = MemoryStore(), SqliteStore(":memory:")
    entry = Entry(id="1", scope=Scope(), collection="notes", content=None, metadata={}, created_at=NOON)
    steps: list[Callable[[Any], Any]] = [
        lambda rows: add_entry(rows, entry, b'"a"', b"d1"),
        lambda rows: rows.put_vector("default", 1, "e", b"12345678"),
        lambda rows: rows.end_entry("default", 1, MOMENTS[1]),
        lambda rows: rows.remove_entry("default", 1),
    ]
    for step in steps:
        reference.transact(step)
        assert store.read(everything) != reference.read(everything)
        store.transact(step)
        assert store.read(everything) == reference.read(everything)
    store.close()


class Follower:
    """Knows the entries of a shelf, and reads no more than the shelf's state makes it read."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.state = ShelfState()
        self.known: list[int] = []

    def follow(self, rows: Any) -> None:
        state = rows.shelf_state(self.shelf)
        removed = None
        if state.removed != self.state.removed and self.state.removed:
            removed = rows.removed_since(self.shelf, self.state.removed)
        if removed is not None:
            self.known = [sequence for sequence in self.known if sequence not in removed]
            self.known += [sequence for sequence in rows.live_sequences(self.shelf) if sequence > self.state.newest]
        elif state.removed != self.state.removed:
            self.known = rows.live_sequences(self.shelf)
        elif state.newest != self.state.newest:
            self.known += [sequence for sequence in rows.live_sequences(self.shelf) if sequence > self.state.newest]
        self.state = state


# A world so small that shelves are emptied and filled again between two looks of a reader.
NEAR = (Scope("default", "user:a"), Scope("default", "user:a/agent:x"))
WATCHED = [Shelf(scope, "notes", namespace) for scope in NEAR for namespace in ("", "x", None)]
near = st.builds(
    lambda scope, namespace, count: Call(
        "add_entries",
        (Shelf(scope, "notes", namespace), [NewEntry("1", None, b"0", b"{}", b"d", b"")] * count, []),
        {"created_at": NOON, "expires_at": None, "origin": Origin()},
    ),
    st.sampled_from(NEAR),
    st.sampled_from(["", "x"]),
    st.integers(1, 2),
)
CHANGES = st.one_of(
    near,
    near,
    calls("end_entry", st.just("default"), sequences, moments),
    calls("remove_entry", st.just("default"), sequences),
    calls("remove_below", st.sampled_from(NEAR)),
    calls("remove", st.just(Collection), st.just("default"), st.just("notes")),
)
FOLLOWED = st.lists(
    st.tuples(st.lists(CHANGES, min_size=1, max_size=4), st.sets(st.sampled_from(WATCHED))), min_size=2, max_size=10
)


@pytest.mark.slow
@pytest.mark.parametrize("open_store", [MemoryStore, lambda: SqliteStore(":memory:")], ids=["memory", "sqlite"])
@settings(max_examples=DEPTH * 8, deadline=None)
@given(steps=FOLLOWED)
def test_whoever_follows_the_state_knows_the_shelf(
    open_store: Callable[[], Any], steps: list[tuple[list[Call], set[Shelf]]]
):
    store = open_store()
    followers = {shelf: Follower(shelf) for shelf in WATCHED}
    for verbs, looking in steps:
        store.transact(lambda rows, verbs=verbs: [verb(rows) for verb in verbs])
        for shelf in looking:
            store.read(followers[shelf].follow)
    for shelf, follower in followers.items():
        store.read(follower.follow)
        assert follower.known == store.read(lambda rows, shelf=shelf: rows.live_sequences(shelf))
    store.close()
