"""Entries in a SQLite file: shared by processes, never numbered twice, gone from the bytes, and found by an index."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import length_hint
from pathlib import Path
from typing import Any

import apsw
import pytest
from added import add_entry
from processes import run_process

from memoranda.errors import Corrupt, LimitExceeded
from memoranda.model.entry import Calibration, Collection, Entry, Shelf, Space
from memoranda.model.scope import Scope
from memoranda.store.base import EntryQuery
from memoranda.store.sql.entries import SLOTS
from memoranda.store.sqlite import SqliteStore
from memoranda.store.sqlite.connection import APPLICATION_ID, MIGRATIONS, SCHEMA, VERSION
from memoranda.store.sqlite.dialect import SQL

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ADA = Scope.of(user="ada")
BOB = Scope.of(user="bob")
SPACE = Space(embedder="e", dimension=2, calibration=Calibration(0.5, 8.0))
NOTES = Collection(tenant="default", name="notes", space=SPACE, created_at=NOON)
SHELF = Shelf(ADA, "notes", "")


def add(rows: Any, text: str = "said", *, scope: Scope = ADA, **more: Any) -> int:
    metadata = more.pop("metadata", {})
    entry = Entry(id="e", scope=scope, collection="notes", content=None, metadata=metadata, created_at=NOON, **more)
    return add_entry(rows, entry, f'"{text}"'.encode(), b"digest", b"words", e=b"12345678")


ANOTHER = """
import sys
from memoranda.model.entry import Shelf
from memoranda.model.scope import Scope
from memoranda.store.base import EntryQuery
from memoranda.store.sqlite import SqliteStore
shelf = Shelf(Scope.of(user="ada"), "notes", "")
with SqliteStore(sys.argv[1]) as store:
    print(store.read(lambda rows: rows.shelf_state(shelf)), flush=True)
    sys.stdin.readline()
    print(store.read(lambda rows: rows.shelf_state(shelf)), flush=True)
    entry = store.read(lambda rows: next(rows.entries(EntryQuery(tenant="default", id="e"))))
    store.transact(lambda rows: rows.end_entry("default", 2, entry.created_at))
"""


def test_another_process_sees_what_changed_and_is_seen(tmp_path: Path):
    path = str(tmp_path / "m.db")
    with SqliteStore(path) as store:
        store.transact(add)
        command = [sys.executable, "-c", ANOTHER, path]
        with run_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdin is not None and child.stdout is not None
            assert child.stdout.readline().strip() == str(store.read(lambda rows: rows.shelf_state(SHELF)))
            store.transact(add)
            store.transact(lambda rows: rows.end_entry("default", 1, NOON))
            ours = store.read(lambda rows: rows.shelf_state(SHELF))
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline().strip() == str(ours)
            assert child.wait() == 0
        assert store.read(lambda rows: rows.shelf_state(SHELF)) != ours
        assert store.read(lambda rows: rows.live_sequences(SHELF)) == []


def test_a_second_store_on_the_file_sees_each_change(tmp_path: Path):
    path = str(tmp_path / "m.db")
    with SqliteStore(path) as store, SqliteStore(path) as other:
        states = [other.read(lambda rows: rows.shelf_state(SHELF))]
        for change in (
            add,
            add,
            lambda rows: rows.end_entry("default", 1, NOON),
            lambda rows: rows.remove_entry("default", 2),
            add,
            lambda rows: rows.remove_below(ADA),
        ):
            store.transact(change)
            states.append(other.read(lambda rows: rows.shelf_state(SHELF)))
            assert states[-1] == store.read(lambda rows: rows.shelf_state(SHELF))
        assert all(one != another for one, another in pairwise(states))


def test_a_sequence_is_never_given_twice(tmp_path: Path):
    path = str(tmp_path / "m.db")
    given: list[int] = []
    for remove in (
        lambda rows: rows.remove_entry("default", given[-1]),
        lambda rows: rows.remove_below(Scope()),
        lambda rows: rows.remove(Collection, "default", "notes"),
    ):
        with SqliteStore(path) as store:
            given.append(store.transact(add))
            store.transact(remove)
            assert store.read(lambda rows: list(rows.entries(EntryQuery(tenant="default", sequences=given)))) == []
            assert store.scrub()
    assert given == sorted(set(given))
    with SqliteStore(path) as store:
        assert store.transact(add) > given[-1]


def test_what_is_undone_takes_its_shelf_with_it(tmp_path: Path):
    def fail(rows: Any) -> None:
        add(rows)
        raise ValueError

    with SqliteStore(str(tmp_path / "m.db")) as store:
        with pytest.raises(ValueError):
            store.transact(fail)
        # The number of the shelf that was undone is not remembered for the next one's.
        store.transact(lambda rows: add(rows, scope=BOB))
        store.transact(add)
        assert [shelf.scope for shelf, _ in store.read(lambda rows: rows.shelves("default", "notes"))] == [ADA, BOB]


def test_an_erasure_inside_a_transaction_is_followed_by_new_shelves(tmp_path: Path):
    def refill(rows: Any) -> int:
        add(rows)
        rows.remove_below(ADA)
        assert rows.live_sequences(SHELF) == []
        return add(rows)

    with SqliteStore(str(tmp_path / "m.db")) as store:
        sequence = store.transact(refill)
        assert store.read(lambda rows: rows.live_sequences(SHELF)) == [sequence]
        assert store.check() == []


SEARCH = """
import pathlib, sys
folder, *tokens = sys.argv[1:]
files = [file for file in pathlib.Path(folder).iterdir() if not file.name.endswith("-shm")]
print(sorted({token for token in tokens for file in files if token.encode() in file.read_bytes()}))
"""
TOKENS = ("content-51b0", "meta-77aa", "place-90c1", "adas-key-3f", "vector2e", "words-c0de")


def found(folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SEARCH, str(folder), *TOKENS], capture_output=True, text=True, check=True
    )
    return re.findall(r"'([^']+)'", done.stdout)


@pytest.mark.parametrize(
    ("remove", "left"),
    [
        (lambda rows: rows.remove_below(ADA), []),
        (lambda rows: rows.remove_below(ADA, keep_records=True), []),
        (lambda rows: rows.remove(Collection, "default", "notes"), []),
        # The shelf stays, with the name of its namespace: without it, readers could not tell that it is empty now.
        (lambda rows: [rows.remove_entry("default", sequence) for sequence in range(1, 100)], ["place-90c1"]),
    ],
    ids=["erase", "remove memory", "remove collection", "remove each"],
)
def test_what_was_erased_leaves_the_bytes(tmp_path: Path, remove: Any, left: list[str]):
    def fill(rows: Any) -> None:
        for number in range(60):
            entry = Entry(
                id=f"e{number}",
                scope=ADA,
                collection="notes",
                namespace="place-90c1",
                key=f"adas-key-3f-{number}",
                content=None,
                metadata={"who": "meta-77aa"},
                created_at=NOON,
                expires_at=NOON + timedelta(days=number),
            )
            long = b"x" * (20_000 if number == 7 else 200)
            payload = b'"content-51b0' + long + b'"'
            sequence = add_entry(rows, entry, payload, b"digest", b"words-c0de", e=b"vector2e")
            if number % 3 == 0:
                rows.end_entry("default", sequence, NOON)

    with SqliteStore(str(tmp_path / "m.db")) as store:
        store.transact(fill)
        assert len(store.read(lambda rows: list(rows.entries(EntryQuery(below=ADA))))) == 40
        assert found(tmp_path) == sorted(TOKENS)
        store.transact(remove)
        assert store.scrub()
        assert found(tmp_path) == left
        assert store.check() == []
    assert found(tmp_path) == left


def damage(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("UPDATE entries SET payload = x'7B22' WHERE sequence = 2", "entry 2"),
        ("UPDATE entries SET payload = x'22FF22' WHERE sequence = 2", "entry 2"),
        ("UPDATE entries SET metadata = x'5B5D' WHERE sequence = 2", "entry 2"),
        ("UPDATE shelves SET scope = 'nobody'", "nobody"),
    ],
)
def test_a_damaged_entry_is_named(tmp_path: Path, sql: str, word: str):
    path = tmp_path / "m.db"
    with SqliteStore(str(path)) as store:
        store.transact(lambda rows: [add(rows) for _ in range(3)])
        assert len(store.read(lambda rows: list(rows.entries(EntryQuery(tenant="default", sequences=[1, 2, 3]))))) == 3
    damage(path, sql)
    with SqliteStore(str(path)) as store, pytest.raises(Corrupt, match=word) as caught:
        store.read(lambda rows: list(rows.entries(EntryQuery(tenant="default", sequences=[1, 2, 3]))))
    assert caught.value.url == str(path)


@pytest.mark.parametrize("known", [True, False], ids=["of a known dimension", "of an unknown dimension"])
@pytest.mark.parametrize("namespace", ["", None])
def test_a_vector_of_the_wrong_length_is_named(tmp_path: Path, known: bool, namespace: str | None):
    path = tmp_path / "m.db"
    shelf = Shelf(ADA, "notes", namespace)
    with SqliteStore(str(path)) as store:
        if known:
            store.transact(lambda rows: rows.put(NOTES))
        store.transact(lambda rows: [add(rows) for _ in range(3)])
        assert len(store.read(lambda rows: list(rows.index_rows(EntryQuery(shelf=shelf), "e")))) == 3
    damage(path, f"UPDATE vectors SET vector = {'zeroblob(4)' if known else 'zeroblob(7)'} WHERE place / 256 = 2")
    with SqliteStore(str(path)) as store:
        with pytest.raises(Corrupt, match="vector of entry 2") as caught:
            store.read(lambda rows: list(rows.index_rows(EntryQuery(shelf=shelf), "e")))
        with pytest.raises(Corrupt, match="vector of entry 2"):
            store.read(lambda rows: list(rows.index_rows(EntryQuery(shelf=shelf, active_at=NOON), "e")))
    assert caught.value.sequence == 2


def test_a_damaged_collection_is_named(tmp_path: Path):
    path = tmp_path / "m.db"
    with SqliteStore(str(path)) as store:
        store.transact(lambda rows: rows.put(NOTES))
        assert store.read(lambda rows: rows.get(Collection, "default", "notes")) == NOTES
    damage(path, "UPDATE collections SET space = x'7B7D'")
    with SqliteStore(str(path)) as store, pytest.raises(Corrupt, match="collection `notes`"):
        store.read(lambda rows: rows.scan(Collection, "default"))


@pytest.mark.parametrize("namespace", ["", None])
def test_what_an_index_needs_comes_with_its_number(namespace: str | None):
    shelf = Shelf(ADA, "notes", namespace)
    with SqliteStore(":memory:") as store:
        assert store.read(lambda rows: length_hint(rows.index_rows(EntryQuery(shelf=shelf), "e"))) == 0
        store.transact(lambda rows: [add(rows) for _ in range(5)])
        store.transact(lambda rows: rows.end_entry("default", 2, NOON))
        assert store.read(lambda rows: length_hint(rows.index_rows(EntryQuery(shelf=shelf), "e"))) == 4
        assert store.read(lambda rows: length_hint(rows.index_rows(EntryQuery(shelf=shelf, after=3), "e"))) == 2
        assert store.read(lambda rows: next(rows.index_rows(EntryQuery(shelf=shelf), "e")).sequence) == 1


@pytest.mark.parametrize("namespace", ["", None])
def test_an_iterator_that_outlives_its_moment_refuses(namespace: str | None):
    shelf = Shelf(ADA, "notes", namespace)
    with SqliteStore(":memory:") as store:
        store.transact(add)
        assert len(store.read(lambda rows: list(rows.index_rows(EntryQuery(shelf=shelf), "e")))) == 1
        for late in (
            store.read(lambda rows: rows.index_rows(EntryQuery(shelf=shelf), "e")),
            store.read(lambda rows: rows.index_rows(EntryQuery(shelf=shelf, active_at=NOON), "e")),
            store.read(lambda rows: rows.entries(EntryQuery(below=ADA))),
        ):
            with pytest.raises(RuntimeError, match="outlived"):
                list(late)


def test_a_collection_runs_out_of_slots_with_an_error_that_says_so():
    with SqliteStore(":memory:") as store:
        sequence = store.transact(add)
        for number in range(SLOTS - 1):
            store.transact(lambda rows, number=number: rows.put_vector("default", sequence, f"e{number}", b"1234"))
        with pytest.raises(LimitExceeded, match="256 embedders"):
            store.transact(lambda rows: rows.put_vector("default", sequence, "one more", b"1234"))
        store.transact(lambda rows: rows.remove_vectors("default", "notes", "e7"))
        store.transact(lambda rows: rows.put_vector("default", sequence, "one more", b"1234"))
        assert len(store.read(lambda rows: rows.vector_counts("default", "notes"))) == SLOTS
        store.transact(add)
        for embedder, missing in (("e", []), ("e9", [2]), ("unheard of", [1, 2])):
            found = store.read(
                lambda rows, embedder=embedder: list(
                    rows.entries(EntryQuery(tenant="default", collection="notes", without_vector_of=embedder, limit=9))
                )
            )
            assert [entry.sequence for entry in found] == missing


def test_a_file_of_the_first_schema_gets_entries(tmp_path: Path):
    path = tmp_path / "m.db"
    connection = apsw.Connection(str(path))
    connection.execute(MIGRATIONS[0])
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()
    with SqliteStore(str(path)) as store:
        assert store.transact(add) == 1
        assert store.read(lambda rows: rows.live_sequences(SHELF)) == [1]
    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == VERSION > 1
    connection.close()


def plan(name: str) -> list[str]:
    connection = apsw.Connection(":memory:")
    connection.execute(SCHEMA)
    parameters = max((int(number) for number in re.findall(r"\?(\d+)", SQL[name])), default=0)
    rows = connection.execute("EXPLAIN QUERY PLAN " + SQL[name], [None] * parameters).fetchall()
    return [str(detail) for *_, detail in rows]


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("get_shelf_state", ["SEARCH shelves USING INDEX sqlite_autoindex_shelves_1 (tenant=? AND scope=? AND coll"]),
        (
            "page_indexed",
            [
                "SEARCH entries USING COVERING INDEX entries_by_shelf (shelf=? AND ended_at=? AND rowid>?)",
                "SEARCH vectors USING INTEGER PRIMARY KEY (rowid=?)",
            ],
        ),
        (
            "count_live",
            ["SEARCH entries USING COVERING INDEX entries_by_shelf (shelf=? AND ended_at=? AND rowid>?)"],
        ),
        (
            "list_live",
            ["SEARCH entries USING COVERING INDEX entries_by_shelf (shelf=? AND ended_at=? AND rowid>?)"],
        ),
        (
            "list_entries_alike",
            [
                "SEARCH entries USING INDEX entries_by_digest (shelf=? AND digest=?)",
                "SEARCH shelves USING INTEGER PRIMARY KEY (rowid=?)",
            ],
        ),
        (
            "list_digests",
            [
                "SEARCH entries USING INDEX entries_by_digest (shelf=? AND digest=?)",
                "LIST SUBQUERY",
                "SCAN json_each",
            ],
        ),
        (
            "list_keys",
            ["SEARCH entries USING INDEX entries_by_key (shelf=? AND key=?)", "LIST SUBQUERY", "SCAN json_each"],
        ),
        (
            "list_entries_of_key",
            [
                "SEARCH entries USING INDEX entries_by_key (shelf=? AND key=?)",
                "SEARCH shelves USING INTEGER PRIMARY KEY (rowid=?)",
            ],
        ),
        (
            "list_expired_entries",
            [
                "SEARCH entries USING INDEX entries_by_expiry (expires_at>? AND expires_at<?)",
                "SEARCH shelves USING INTEGER PRIMARY KEY (rowid=?)",
            ],
        ),
    ],
)
def test_a_hot_query_goes_straight_to_its_rows(name: str, steps: list[str]):
    # Older versions of SQLite say that they also look aside at a filter of what is listed; the way to the rows is one.
    found = [step for step in plan(name) if step != "CREATE BLOOM FILTER"]
    assert len(found) == len(steps), found  # no sorting either
    assert all(line.startswith(step) for line, step in zip(found, steps, strict=True)), found


def test_no_statement_about_entries_walks_through_a_table():
    statements = [name for name in SQL if re.search(r"\b(entries|vectors|shelves|spaces|collections)\b", SQL[name])]
    assert len(statements) > 40
    walks = {
        name: [step for step in plan(name) if re.match(r"SCAN (entries|vectors|shelves|spaces)\b", step)]
        for name in statements
    }
    assert {name: steps for name, steps in walks.items() if steps} == {}
    assert re.match(r"SCAN (entries|vectors|shelves|spaces)\b", "SCAN entries USING COVERING INDEX entries_by_id")
