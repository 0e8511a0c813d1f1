"""What all stores promise about entries, beyond answering alike: sequences, states and what goes with what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from added import add_entry

from memoranda.model.entry import Calibration, Collection, Entry, Shelf, ShelfState, Space
from memoranda.model.event import Event, event_body
from memoranda.model.scope import Scope
from memoranda.store import memory as reference
from memoranda.store.base import EntryQuery, Portion, SegmentPiece
from memoranda.store.memory import MemoryStore
from memoranda.store.postgres import PostgresStore
from memoranda.store.sql import entries as sql_entries
from memoranda.store.sqlite import SqliteStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ADA = Scope.of(user="ada")
BOB = Scope.of(user="bob")
OLD = Space(embedder="old", dimension=2, calibration=Calibration(0.5, 8.0))
NEW = Space(embedder="new", dimension=3, calibration=Calibration(0.4, 9.0))
NOTES = Collection(tenant="default", name="notes", space=OLD, created_at=NOON)

Store = MemoryStore | SqliteStore | PostgresStore


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    openings: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "sqlite": lambda: SqliteStore(str(tmp_path / "m.db")),
        "postgres": lambda: PostgresStore(request.getfixturevalue("database")),
    }
    opened = openings[request.param]()
    yield opened
    opened.close()


def add(scope: Scope = ADA, namespace: str = "", *, collection: str = "notes", **more: Any) -> Callable[[Any], int]:
    """Return a work that adds an entry with a vector of the old embedder, and returns its sequence."""
    more.setdefault("created_at", NOON)
    entry = Entry(
        id=more.pop("id", "e"),
        scope=scope,
        collection=collection,
        namespace=namespace,
        content=None,
        metadata={},
        **more,
    )

    def work(rows: Any) -> int:
        return add_entry(rows, entry, b'"text"', b"digest", b"words", old=b"12345678")

    return work


def state(store: Store, shelf: Shelf) -> ShelfState:
    found = store.read(lambda rows: rows.shelf_state(shelf))
    assert store.read(lambda rows: rows.shelf_state(shelf), snapshot=False) == found
    return found


def test_a_shelf_that_was_never_filled_has_the_state_zero(store: Store):
    assert state(store, Shelf(ADA, "notes")) == state(store, Shelf(ADA, "notes", "x")) == ShelfState(0, 0)
    store.transact(add(namespace="x"))
    assert state(store, Shelf(ADA, "notes")) == state(store, Shelf(ADA, "notes", "x")) != ShelfState(0, 0)
    assert state(store, Shelf(BOB, "notes")) == state(store, Shelf(ADA, "other")) == ShelfState(0, 0)


def test_a_new_entry_raises_the_newest_and_leaves_the_rest(store: Store):
    first = store.transact(add())
    before = state(store, Shelf(ADA, "notes", ""))
    second = store.transact(add())
    assert second > first == before.newest
    assert state(store, Shelf(ADA, "notes", "")) == ShelfState(second, before.removed)


def test_a_new_namespace_is_no_removal_to_those_who_look_at_all(store: Store):
    store.transact(add(namespace="x"))
    before = state(store, Shelf(ADA, "notes"))
    newest = store.transact(add(namespace="y"))
    assert state(store, Shelf(ADA, "notes")) == ShelfState(newest, before.removed)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.end_entry("default", 1, NOON),
        lambda rows: rows.remove_entry("default", 1),
        lambda rows: rows.remove_below(ADA),
        lambda rows: rows.remove_below(ADA, keep_records=True),
        lambda rows: rows.remove(Collection, "default", "notes"),
        lambda rows: rows.put(msgspec.structs.replace(NOTES, space=NEW)),
    ],
    ids=["end", "remove", "erase", "remove memory", "remove collection", "switch embedder"],
)
def test_whatever_goes_changes_the_state_for_good(store: Store, change: Callable[[Any], Any]):
    store.transact(lambda rows: rows.put(NOTES))
    shelves = [Shelf(ADA, "notes", "x"), Shelf(ADA, "notes")]
    assert store.transact(add(namespace="x")) == 1
    before = [state(store, shelf).removed for shelf in shelves]
    store.transact(change)
    for shelf, number in zip(shelves, before, strict=True):
        assert state(store, shelf).removed != number
    store.transact(add(namespace="y"))
    store.transact(add(namespace="x"))
    for shelf, number in zip(shelves, before, strict=True):
        assert state(store, shelf).removed != number  # not even where all that was there is forgotten


def test_a_collection_that_keeps_its_embedder_keeps_its_state(store: Store):
    store.transact(lambda rows: rows.put(NOTES))
    store.transact(add())
    before = state(store, Shelf(ADA, "notes"))
    store.transact(lambda rows: rows.put(msgspec.structs.replace(NOTES, successor=NEW)))
    assert state(store, Shelf(ADA, "notes")) == before
    store.transact(lambda rows: rows.put(msgspec.structs.replace(NOTES, space=NEW)))
    assert state(store, Shelf(ADA, "notes")) != before


def test_ending_twice_and_ending_what_is_not_there_change_nothing(store: Store):
    sequence = store.transact(add())
    store.transact(lambda rows: rows.end_entry("default", sequence, NOON))
    before = state(store, Shelf(ADA, "notes"))
    store.transact(lambda rows: rows.end_entry("default", sequence, NOON + timedelta(hours=1)))
    store.transact(lambda rows: rows.end_entry("default", 99, NOON))
    store.transact(lambda rows: rows.remove_entry("default", 99))
    assert state(store, Shelf(ADA, "notes")) == before
    found = EntryQuery(tenant="default", sequences=[sequence])
    assert store.read(lambda rows: [entry.ended_at for entry in rows.entries(found)]) == [NOON]
    store.transact(lambda rows: rows.remove_entry("default", sequence))
    assert state(store, Shelf(ADA, "notes")) != before


def test_another_tenant_reaches_no_entry(store: Store):
    sequence = store.transact(add())
    before = state(store, Shelf(ADA, "notes"))

    def meddle(rows: Any) -> None:
        rows.end_entry("other", sequence, NOON)
        rows.remove_entry("other", sequence)
        rows.put_vector("other", sequence, "old", b"87654321")
        rows.put_vector("other", sequence, "mine", b"87654321")

    store.transact(meddle)
    assert state(store, Shelf(ADA, "notes")) == before
    assert store.read(lambda rows: rows.vector_counts("default", "notes")) == {"old": 1}
    for tenant, there in (("default", True), ("other", False)):
        assert (
            bool(
                store.read(
                    lambda rows, tenant=tenant: list(rows.entries(EntryQuery(tenant=tenant, sequences=[sequence])))
                )
            )
            is there
        )
        assert (
            bool(store.read(lambda rows, tenant=tenant: next(rows.entries(EntryQuery(tenant=tenant, id="e")), None)))
            is there
        )
        assert vector_of(store, sequence, "old", tenant) == (b"12345678" if there else None)


def vector_of(store: Store, sequence: int, embedder: str, tenant: str = "default") -> bytes | None:
    query = EntryQuery(tenant=tenant, collection="notes", limit=100)
    rows = store.read(lambda rows: list(rows.index_rows(query, embedder)))
    return next((one.vector for one in rows if one.sequence == sequence), None)


def test_a_vector_of_an_entry_that_is_gone_is_not_kept(store: Store):
    sequence = store.transact(add())
    store.transact(lambda rows: rows.put_vector("default", sequence, "new", b"123456789012"))
    assert store.read(lambda rows: rows.vector_counts("default", "notes")) == {"new": 1, "old": 1}
    store.transact(lambda rows: rows.remove_entry("default", sequence))
    store.transact(lambda rows: rows.put_vector("default", sequence, "new", b"123456789012"))
    assert store.read(lambda rows: rows.vector_counts("default", "notes")) == {}
    assert vector_of(store, sequence, "new") is None


def test_the_vectors_of_one_embedder_go_alone(store: Store):
    sequence = store.transact(add())
    store.transact(lambda rows: rows.put_vector("default", sequence, "new", b"123456789012"))
    assert store.transact(lambda rows: rows.remove_vectors("default", "notes", "old")) == 1
    assert store.transact(lambda rows: rows.remove_vectors("default", "notes", "old")) == 0
    shelf = Shelf(ADA, "notes", "")
    assert [one.vector for one in store.read(lambda rows: list(rows.index_rows(EntryQuery(shelf=shelf), "new")))] == [
        b"123456789012"
    ]
    assert store.read(lambda rows: list(rows.index_rows(EntryQuery(shelf=shelf), "old"))) == []
    assert [
        one.sequence
        for one in store.read(
            lambda rows: list(
                rows.entries(EntryQuery(tenant="default", collection="notes", without_vector_of="old", limit=9))
            )
        )
    ] == [1]
    # A third one takes the place that the first has left, and is not taken for it.
    store.transact(lambda rows: rows.put_vector("default", sequence, "third", b"1234"))
    assert store.read(lambda rows: rows.vector_counts("default", "notes")) == {"new": 1, "third": 1}
    assert vector_of(store, sequence, "old") is None


def test_removing_an_entry_takes_the_ledgers_text_of_it_and_of_no_other(store: Store):
    sequences = [store.transact(add()) for _ in range(2)]
    key = "collections.notes"
    about = [(ADA, key, sequences[0]), (ADA, key, sequences[1]), (BOB, key, sequences[0]), (ADA, "k", sequences[0])]

    def tell(rows: Any) -> None:
        reserved = rows.reserve("default", len(about))
        for position, (scope, key, version) in zip(reserved.positions, about, strict=True):
            event = Event(
                tenant="default",
                position=position,
                at=NOON,
                actor="owner",
                door="python",
                effect="remember",
                decision="allow",
                scope=scope.path,
                key=key,
                resource=None,
                version=version,
                content=None,
                epoch=0,
                detail={},
                prev_hash=reserved.previous,
                hash="h",
                text="said",
            )
            rows.append_events([(event, event_body(event))])

    def texts() -> list[Any]:
        return store.read(lambda rows: [event.text for event in rows.events("default")])

    store.transact(tell)
    assert texts() == ["said"] * 4
    store.transact(lambda rows: rows.remove_entry("default", sequences[0]))
    assert texts() == [None, "said", "said", "said"]
    assert store.transact(lambda rows: rows.remove(Collection, "default", "notes")) == 1
    assert texts() == [None, None, "said", "said"]


def test_an_erasure_takes_the_entries_of_its_scopes_only(store: Store):
    below, beside = Scope.of(user="ada", agent="x"), Scope.of(user="ada-b")
    sequences = [store.transact(add(scope)) for scope in (ADA, below, beside, BOB)]
    store.transact(lambda rows: rows.end_entry("default", sequences[0], NOON))
    assert store.transact(lambda rows: rows.remove_below(Scope.of(user="nobody"), keep_records=True))["entries"] == 0
    assert store.transact(lambda rows: rows.remove_below(ADA))["entries"] == 2
    left = store.read(lambda rows: list(rows.entries(EntryQuery(tenant="default", sequences=sequences))))
    assert sorted(entry.sequence for entry in left) == sequences[2:]
    assert store.read(lambda rows: rows.vector_counts("default", "notes")) == {"old": 2}
    shelves = store.read(lambda rows: rows.shelves("default", "notes"))
    assert shelves == [(Shelf(beside, "notes", ""), 1), (Shelf(BOB, "notes", ""), 1)]


def test_a_collection_is_found_as_it_is_now_without_a_read(store: Store):
    def found(name: str = "notes", tenant: str = "default") -> Collection | None:
        at_once = store.read(lambda rows: rows.get(Collection, tenant, name), snapshot=False)
        assert store.read(lambda rows: rows.get(Collection, tenant, name)) == at_once
        return at_once

    assert found() is None
    for now in (NOTES, msgspec.structs.replace(NOTES, successor=NEW), msgspec.structs.replace(NOTES, space=NEW)):
        store.transact(lambda rows, now=now: rows.put(now))
        assert found() == now
        assert found(tenant="other") is None and found("note") is None
    store.transact(lambda rows: rows.remove(Collection, "default", "notes"))
    assert found() is None


def test_a_tenant_with_nothing_but_a_collection_is_listed(store: Store):
    assert store.read(lambda rows: rows.tenants()) == []
    store.transact(lambda rows: rows.put(msgspec.structs.replace(NOTES, tenant="lonely")))
    assert store.read(lambda rows: rows.tenants()) == ["lonely"]
    assert store.transact(lambda rows: rows.remove(Collection, "lonely", "notes")) == 0
    assert store.read(lambda rows: rows.tenants()) == []


def test_long_shelves_are_read_whole_and_in_order(store: Store):
    def fill(rows: Any) -> None:
        for number in range(2100):  # more than two pages of SQLite's
            add(namespace="xy"[number % 2], id=str(number))(rows)

    store.transact(fill)
    odd, both = Shelf(ADA, "notes", "x"), Shelf(ADA, "notes")
    assert store.read(lambda rows: [one.sequence for one in rows.index_rows(EntryQuery(shelf=odd), "old")]) == list(
        range(1, 2101, 2)
    )
    found = store.read(
        lambda rows: [(one.sequence, one.namespace) for one in rows.index_rows(EntryQuery(shelf=both, after=7), "old")]
    )
    assert found == [(number, "yx"[number % 2]) for number in range(8, 2101)]
    assert store.read(
        lambda rows: [one.sequence for one in rows.index_rows(EntryQuery(shelf=odd, active_at=NOON), "old")]
    ) == list(range(1, 2101, 2))
    assert store.read(lambda rows: [one.sequence for one in rows.entries(EntryQuery(below=ADA))]) == list(
        range(1, 2101)
    )


def test_the_sizes_of_shelves_and_the_vectors_of_entries_are_those_of_their_tenant(store: Store):
    store.transact(lambda rows: rows.put(NOTES))
    numbers = [store.transact(add(namespace=name, id=str(n))) for n, name in enumerate("xxy")]
    every, one = Shelf(ADA, "notes"), Shelf(ADA, "notes", "x")
    assert store.read(lambda rows: rows.shelf_sizes(every)) == {"x": 2, "y": 1}
    assert store.read(lambda rows: rows.shelf_sizes(one)) == {"x": 2}
    assert store.read(lambda rows: rows.shelf_sizes(Shelf(BOB, "notes"))) == {}
    store.transact(lambda rows: rows.end_entry("default", numbers[0], NOON))
    assert store.read(lambda rows: rows.shelf_sizes(one)) == {"x": 1}
    asked = [*reversed(numbers), 999]
    found = [(number, b"12345678") for number in numbers]
    assert store.read(lambda rows: rows.vectors(every, asked, "old")) == found  # ended ones too
    assert store.read(lambda rows: rows.vectors(every, asked, "new")) == []
    stranger = Shelf(Scope("other", ADA.path), "notes")
    store.transact(lambda rows: rows.put(msgspec.structs.replace(NOTES, tenant="other")))
    store.transact(add(stranger.scope))
    assert store.read(lambda rows: rows.vectors(stranger, numbers, "old")) == []


def portion(first: int, last: int) -> Portion:
    return Portion(namespace="", first=first, last=last, mark=1, embedder="old")


def test_portions_go_with_what_they_are_of(store: Store):
    shelf, parts = Shelf(ADA, "notes", ""), {"rows": b"a", "word boat": b"b"}
    store.transact(lambda rows: rows.put(NOTES))
    numbers = [store.transact(add(id=str(number))) for number in range(6)]
    made = [portion(numbers[place], numbers[place + 1]) for place in (0, 2, 4)]

    def kept() -> list[Portion]:
        return store.read(lambda rows: rows.portions(Shelf(ADA, "notes")))

    def read(*names: str) -> list[tuple[int, str, bytes]]:
        firsts = [one.first for one in made]
        return sorted(store.read(lambda rows: rows.parts(shelf, firsts, names)))

    if not store.keeps_portions:
        assert store.transact(lambda rows: rows.add_portion(shelf, made[0], parts)) is False
        store.transact(lambda rows: rows.remove_portions(shelf))
        assert kept() == [] and read("rows") == []
        return

    for one in made:
        assert store.transact(lambda rows, one=one: rows.add_portion(shelf, one, parts))
    assert kept() == made
    assert read("word boat", "word gone") == [(one.first, "word boat", b"b") for one in made]
    assert store.read(lambda rows: rows.portions(Shelf(BOB, "notes", ""))) == []
    noted = msgspec.structs.replace(made[1], mark=2, gone=(numbers[2],))
    store.transact(lambda rows: rows.note_gone(shelf, noted))
    assert kept() == [made[0], noted, made[2]] and noted.run == made[1].run
    assert store.read(lambda rows: rows.portions(shelf, gone=False))[1].gone == ()
    store.transact(lambda rows: rows.note_gone(shelf, made[1]))
    # One that ends stays in its portion; one that is removed takes the portion with it.
    store.transact(lambda rows: rows.end_entry("default", numbers[0], NOON))
    assert kept() == made
    store.transact(lambda rows: rows.remove_entry("default", numbers[3]))
    assert kept() == [made[0], made[2]] and len(read("rows")) == 2
    store.transact(lambda rows: rows.remove_portions(shelf, numbers[4]))
    assert kept() == [made[0]] and len(read("rows")) == 1
    store.transact(lambda rows: rows.remove_vectors("default", "notes", "old"))
    assert kept() == [] and read("rows") == []
    store.transact(lambda rows: rows.add_portion(shelf, made[0], parts))
    store.transact(lambda rows: rows.remove_below(ADA))
    assert read("rows") == []
    store.transact(add(id="again"))
    store.transact(lambda rows: rows.add_portion(shelf, made[0], parts))
    assert kept() == [made[0]]
    store.transact(lambda rows: rows.remove(Collection, "default", "notes"))
    assert read("rows") == []


def test_what_ended_or_was_removed_since_a_mark_is_listed(store: Store):
    shelf, every = Shelf(ADA, "notes", "x"), Shelf(ADA, "notes")
    store.transact(lambda rows: rows.put(NOTES))
    numbers = [store.transact(add(namespace="x", id=str(number))) for number in range(6)]
    other = store.transact(add(namespace="y", id="other"))
    marks = [state(store, shelf).removed]
    for number in numbers[:3]:
        store.transact(lambda rows, number=number: rows.end_entry("default", number, NOON))
        marks.append(state(store, shelf).removed)
    store.transact(lambda rows: rows.remove_entry("default", numbers[3]))
    assert store.read(lambda rows: rows.removed_since(shelf, marks[0])) == numbers[:4]
    assert store.read(lambda rows: rows.removed_since(shelf, marks[2])) == numbers[2:4]
    assert store.read(lambda rows: rows.removed_since(shelf, state(store, shelf).removed)) == []
    # All namespaces together have the highest mark of any.
    before = state(store, every).removed
    store.transact(lambda rows: rows.end_entry("default", other, NOON))
    assert store.read(lambda rows: rows.removed_since(every, before)) == [other]
    assert sorted(store.read(lambda rows: rows.removed_since(every, marks[0])) or []) == [*numbers[:4], other]
    # Another tenant, or scope, has another list.
    assert store.read(lambda rows: rows.removed_since(Shelf(BOB, "notes"), 0)) is None
    assert store.read(lambda rows: rows.removed_since(Shelf(Scope("other", ADA.path), "notes"), 0)) is None


def test_a_change_of_the_whole_shelf_is_not_listed_and_what_follows_it_is(store: Store):
    shelf = Shelf(ADA, "notes", "")
    store.transact(lambda rows: rows.put(NOTES))
    first, second = store.transact(add()), store.transact(add())
    begin = state(store, shelf).removed
    store.transact(lambda rows: rows.end_entry("default", first, NOON))
    store.transact(lambda rows: rows.put(msgspec.structs.replace(NOTES, space=NEW)))
    moved = state(store, shelf).removed
    assert store.read(lambda rows: rows.removed_since(shelf, begin)) is None
    store.transact(lambda rows: rows.end_entry("default", second, NOON))
    assert store.read(lambda rows: rows.removed_since(shelf, begin)) is None
    assert store.read(lambda rows: rows.removed_since(shelf, moved)) == [second]
    store.transact(lambda rows: rows.remove_below(ADA))
    assert store.read(lambda rows: rows.removed_since(shelf, moved)) is None
    store.transact(add())
    assert store.read(lambda rows: rows.removed_since(shelf, moved)) is None


def test_only_the_last_removals_are_listed(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sql_entries, "MOST_REMOVALS", 3)
    monkeypatch.setattr(sql_entries, "_TRIM_AFTER", 1)
    monkeypatch.setattr(reference, "_MOST_REMOVALS", 3)
    shelf, marks = Shelf(ADA, "notes", ""), list[int]()
    numbers = [store.transact(add(id=str(number))) for number in range(6)]
    for number in numbers:
        marks.append(state(store, shelf).removed)
        store.transact(lambda rows, number=number: rows.end_entry("default", number, NOON))
    listed = [store.read(lambda rows, mark=mark: rows.removed_since(shelf, mark)) for mark in marks]
    assert listed == [None, None, None, numbers[3:], numbers[4:], numbers[5:]]


def test_pieces_of_segments_go_with_their_subject(store: Store):
    def piece(tenant: str, subject: str, number: int) -> SegmentPiece:
        return SegmentPiece(tenant=tenant, subject=subject, name="n", number=number, data=f"{number}".encode())

    kept = [piece(tenant, subject, 0) for tenant in ("default", "other") for subject in ("", "user:ada", "user:ada-b")]
    store.transact(lambda rows: [rows.put(one) for one in (*kept, piece("default", "user:ada", 1))])

    def left() -> list[SegmentPiece]:
        found = [
            store.read(lambda rows, one=one: rows.get(SegmentPiece, one.tenant, one.subject, "n", 0)) for one in kept
        ]
        return [one for one in found if one is not None]

    assert left() == kept
    changed = msgspec.structs.replace(kept[0], data=b"x")
    store.transact(lambda rows: rows.put(changed))
    store.transact(lambda rows: rows.remove(SegmentPiece, "default", "user:ada"))
    assert left() == [changed, *kept[2:]]
    assert store.read(lambda rows: rows.get(SegmentPiece, "default", "user:ada", "n", 1)) is None
    store.transact(lambda rows: rows.remove_below(Scope.of(user="ada-b", agent="x")))
    assert left() == [changed, *kept[3:]]
    store.transact(lambda rows: rows.remove(SegmentPiece, "default", None))
    assert left() == kept[3:]
