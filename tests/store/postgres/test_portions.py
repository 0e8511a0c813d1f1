"""Large collections, whose indexes PostgreSQL keeps in portions: the same answers as in memory, of the same rows.

Large is one entry here, and a portion has two hundred.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import memoranda
from memoranda import Policy
from memoranda.engine import portions
from memoranda.engine.portions import PortionBook
from memoranda.store.base import Portion
from memoranda.store.postgres.connection import PostgresRows
from memoranda.store.sql import entries as sql_entries
from memoranda.testing import FakeClock

Open = Callable[..., memoranda.Memory]

ROWS = 200
SECRET = "kestrelquay"
_STARTS = "bar dor fen gil hom jat kel lum mor nax pol qui rad sel tur vam wex yol zan".split()
_ENDS = "ber dale gon hut isk lan mop nor pel ras sum tik ven wor".split()
_WORDS = [start + end for start in _STARTS for end in _ENDS]


@pytest.fixture(autouse=True)
def _portions_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "ROWS", ROWS)


@pytest.fixture
def open_memory(database: str) -> Iterator[Open]:
    opened: list[memoranda.Memory] = []

    def open_memory(
        *, large: bool = True, url: str = database, embedder: str = "hashing:64", **options: Any
    ) -> memoranda.Memory:
        limits = memoranda.Limits(batch=5_000, shelf_bytes=1 if large else None)
        opened.append(memoranda.open(url, embedder=embedder, cache="off", limits=limits, **options))
        return opened[-1]

    yield open_memory
    for memory in opened:
        memory.close()


def texts(count: int, seed: int = 1) -> list[str]:
    """Return texts with rare and frequent words."""
    chance = random.Random(seed)

    def word() -> str:
        return chance.choice(_WORDS) if chance.random() < 0.6 else _WORDS[int(abs(chance.gauss(0, 20))) % len(_WORDS)]

    return [" ".join(word() for _ in range(9)) for _ in range(count)]


def fill(memory: memoranda.Memory, count: int, *, first: int = 0, seed: int = 1, **options: Any) -> None:
    """Remember texts, in threads and of three actors."""
    with memory.batch() as batch:
        for number, text in enumerate(texts(count, seed), start=first):
            actor = ["Ada", "Grace", "Linus"][number % 3]
            metadata = {"thread": f"t{number // 12}", "actor": actor, "n": number}
            batch.remember(memory.scope(user="ada"), text, collection="notes", metadata=metadata, **options)


def same_places(memory: memoranda.Memory, queries: list[str], **options: Any) -> float:
    """Return the share of the first ten places that are as when everything is compared.

    A place is the same, too, if its total is: the simple embedder of tests makes the same vectors of different texts.
    """
    ada, same, places = memory.scope(user="ada"), 0, 0
    for query in queries:
        chosen = ada.recall(query, collection="notes", limit=10, **options)
        compared = ada.recall(query, collection="notes", limit=10, exact=True, **options)
        assert len(chosen) == len(compared) > 0
        assert not any(one.why.exact for one in chosen)
        assert all(one.why.exact for one in compared)
        pairs = list(zip(chosen, compared, strict=True))
        same += sum(one.id == other.id or abs(one.why.total - other.why.total) < 0.001 for one, other in pairs)
        places += len(compared)
    return same / places


def found(memory: memoranda.Memory, query: str, **options: Any) -> list[Any]:
    return [one.content for one in memory.scope(user="ada").recall(query, collection="notes", **options)]


def ask(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values)
        return [] if cursor.description is None else cursor.fetchall()


def words_with(url: str, word: str) -> int:
    return len(ask(url, "SELECT 1 FROM memoranda.parts WHERE name = %s", f"word {word}"))


def counted(url: str) -> int:
    ((count,),) = ask(url, "SELECT count(*) FROM memoranda.portions")
    return count


def test_answers_are_those_of_a_full_comparison(open_memory: Open, database: str) -> None:
    memory = open_memory(embedder="wordllama")
    fill(memory, 2_100)
    queries = texts(12, seed=2)
    assert same_places(memory, queries) >= 0.99
    assert counted(database) == 10
    assert same_places(memory, queries, mode="keyword") >= 0.99
    assert same_places(memory, queries, mode="semantic") >= 0.99
    assert same_places(memory, queries, filter={"n": {"$gt": 1_000}}) >= 0.97
    assert same_places(memory, queries, filter={"$or": [{"actor": {"$ne": "Ada"}}, {"n": 7}]}) >= 0.97
    assert same_places(memory, queries[:4], filter={"n": {"$in": list(range(0, 2_100, 70))}}) >= 0.97
    # A part of the words is enough, and one that is mistyped is corrected.
    assert same_places(memory, [query[:20] for query in queries]) >= 0.97
    mistyped = queries[0].split()[0][:-1] + "x"
    again = memory.scope(user="ada").recall(mistyped, collection="notes", mode="keyword")
    compared = memory.scope(user="ada").recall(mistyped, collection="notes", mode="keyword", exact=True)
    assert again[0].why.corrected.keys() == {mistyped}
    assert [one.why.corrected for one in again] == [one.why.corrected for one in compared]


def test_the_index_of_a_large_collection_takes_less_memory(open_memory: Open) -> None:
    memory, other = open_memory(), open_memory(large=False)
    fill(memory, 1_000)
    for one in (memory, other):
        one.scope(user="ada").recall("harbour", collection="notes")
    sizes: list[int] = [one.root._indexes.nbytes for one in (memory, other)]  # type: ignore[attr-defined]
    assert 0 < sizes[0] < sizes[1]


def test_a_collection_that_may_be_in_memory_has_no_portions(open_memory: Open, database: str) -> None:
    ordinary = open_memory(large=False)
    fill(ordinary, 500)
    assert ordinary.scope(user="ada").recall(texts(1)[0], collection="notes")[0].why.exact
    assert counted(database) == 0
    assert not open_memory().scope(user="ada").recall(texts(1)[0], collection="notes")[0].why.exact
    assert counted(database) == 2


def test_a_store_without_portions_searches_in_memory(open_memory: Open) -> None:
    memory = open_memory(url=":memory:")
    fill(memory, 500)
    assert memory.scope(user="ada").recall(texts(1)[0], collection="notes")[0].why.exact
    assert "portions" in memory.scope(user="ada").leak_probes(SECRET).absent


def test_what_changed_is_seen_by_the_next_recall_of_every_process(open_memory: Open, database: str) -> None:
    memory, other = open_memory(), open_memory()
    fill(memory, 1_000)
    kept = memory.scope(user="ada").remember(f"The {SECRET} is blue", collection="notes", key="colour")
    for one in (memory, other):
        assert found(one, SECRET, mode="keyword") == [f"The {SECRET} is blue"]
    assert counted(database) == 5
    # Behind the portions.
    other.scope(user="ada").remember(f"The {SECRET} is red", collection="notes", key="colour")
    for one in (memory, other):
        assert found(one, SECRET, mode="keyword") == [f"The {SECRET} is red"]
    # And in one of them.
    fill(memory, 600, first=2_000, seed=3)
    assert found(memory, SECRET, mode="keyword") == [f"The {SECRET} is red"]
    assert counted(database) == 8 and words_with(database, SECRET) == 1
    other.scope(user="ada").remember(f"The {SECRET} is green", collection="notes", key="colour")
    for one in (memory, other):
        assert found(one, SECRET, mode="keyword") == [f"The {SECRET} is green"]
    assert kept.id


def test_what_was_forgotten_is_neither_found_nor_left_in_the_database(open_memory: Open, database: str) -> None:
    memory, other = open_memory(), open_memory()
    fill(memory, 300)
    ada = memory.scope(user="ada")
    entry = ada.remember(f"The {SECRET} is blue", collection="notes", metadata={"place": SECRET})
    fill(memory, 400, first=400, seed=3)
    for one in (memory, other):
        assert found(one, SECRET, mode="keyword") == [f"The {SECRET} is blue"]
    before = counted(database)
    assert before == 3 and words_with(database, SECRET) == 1
    assert ada.leak_probes(SECRET).portions is True
    stale = ask(database, "SELECT tenant, shelf, first, name, bytes FROM memoranda.parts")
    runs = ask(database, "SELECT * FROM memoranda.portions")
    memory.scope(user="ada").forget(id=entry.id, collection="notes")
    assert counted(database) == before - 1 and words_with(database, SECRET) == 0
    for one in (memory, other):
        assert found(one, SECRET, mode="keyword") == []
        assert len(found(one, texts(1)[0])) == 5
    assert ada.leak_probes(SECRET).portions is False
    # Had it been left there, the probe would say so.
    with psycopg.connect(database, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM memoranda.parts; DELETE FROM memoranda.portions")
        cursor.executemany("INSERT INTO memoranda.parts VALUES (%s, %s, %s, %s, %s)", stale)
        cursor.executemany("INSERT INTO memoranda.portions VALUES (%s, %s, %s, %s, %s, %s, %s)", runs)
    assert ada.leak_probes(SECRET).portions is True
    # And what is left of an older state is not searched.
    assert found(open_memory(), SECRET, mode="keyword") == []


def test_a_gap_that_a_removal_left_is_closed(open_memory: Open, database: str) -> None:
    memory = open_memory()
    fill(memory, 1_000)
    ada = memory.scope(user="ada")
    assert same_places(memory, texts(3, seed=2)) >= 0.9
    entries = [one.id for one in ada.recall("", collection="notes", filter={"n": {"$in": [250, 450, 650]}}, limit=10)]
    assert len(entries) == 3
    ada.forget(id=entries[0], collection="notes")
    assert counted(database) == 4
    assert same_places(memory, texts(3, seed=2)) >= 0.9  # with what is left of it in memory
    assert counted(database) == 4
    for entry in entries[1:]:
        ada.forget(id=entry, collection="notes")
    assert counted(database) == 2
    assert same_places(memory, texts(3, seed=2)) >= 0.9
    assert counted(database) == 4  # two of them were made again, and less than a portion has none
    held = {row["n"] for row in (one.metadata for one in ada.recall("", collection="notes", limit=1_000))}
    assert held == set(range(1_000)) - {250, 450, 650}


def test_an_erasure_leaves_nothing_in_portions(open_memory: Open, database: str) -> None:
    memory = open_memory()
    fill(memory, 600)
    bob = memory.scope(user="bob")
    bob.remember_many([{"content": text} for text in texts(450, seed=4)], collection="notes")
    assert bob.recall(texts(1)[0], collection="notes") and found(memory, texts(1)[0])
    assert counted(database) == 5
    memory.erase(user="ada")
    assert counted(database) == 2
    assert found(memory, texts(1)[0]) == []
    assert not bob.recall(texts(1)[0], collection="notes")[0].why.exact
    memory.collections.delete("notes")
    assert counted(database) == 0
    assert ask(database, "SELECT 1 FROM memoranda.parts") == []


def test_expired_entries_are_not_found(open_memory: Open, database: str) -> None:
    clock = FakeClock()
    memory = open_memory(clock=clock)
    fill(memory, 300)
    fill(memory, 200, first=300, seed=5, ttl="1h")
    newest = {"filter": {"n": {"$gte": 300}}}
    assert len(found(memory, texts(1, seed=5)[0], **newest)) == 5
    assert counted(database) == 2
    clock.advance(7_200)
    assert found(memory, texts(1, seed=5)[0], **newest) == []
    assert len(found(memory, texts(1, seed=5)[0])) == 5
    memory.sweep()
    assert found(memory, texts(1, seed=5)[0], **newest) == []
    assert counted(database) == 1  # that of what expired is gone
    fill(memory, 300, first=500, seed=6)
    assert same_places(memory, texts(3, seed=2)) >= 0.9
    assert counted(database) == 3


def test_every_namespace_is_searched_alone_and_together(open_memory: Open, database: str) -> None:
    memory = open_memory()
    ada = memory.scope(user="ada")
    with memory.batch() as batch:
        for number, text in enumerate(texts(900)):
            metadata = {"n": number}
            batch.remember(ada, text, collection="notes", namespace="ab"[number % 2], metadata=metadata)
    assert same_places(memory, texts(4, seed=2)) >= 0.95
    assert same_places(memory, texts(4, seed=2), namespace="a") >= 0.95
    assert counted(database) == 4
    assert {one.namespace for one in ada.recall(texts(1)[0], collection="notes", namespace="b")} == {"b"}
    # The newest come first, and neighbours are those of the thread.
    assert [one.metadata["n"] for one in ada.recall("", collection="notes", limit=3)] == [899, 898, 897]
    (one,) = ada.recall(texts(900)[400], collection="notes", limit=1, expand=1)
    assert [other.metadata["n"] for other in (*one.before, one, *one.after)] == [398, 400, 402]


def test_what_was_replaced_is_noted_before_the_list_of_it_is_too_long(
    open_memory: Open, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "_WORTH_NOTING", 20)
    monkeypatch.setattr(sql_entries, "MOST_REMOVALS", 30)
    monkeypatch.setattr(sql_entries, "_TRIM_AFTER", 1)
    memory = open_memory()
    ada = memory.scope(user="ada")
    keyed = [{"content": text, "key": f"k{n}", "metadata": {"n": n}} for n, text in enumerate(texts(450))]
    ada.remember_many(keyed, collection="notes")
    assert found(memory, texts(1)[0])[0] == texts(1)[0] and counted(database) == 2
    made = ask(database, "SELECT DISTINCT xmin::text FROM memoranda.parts")
    for n in range(0, 66, 3):
        ada.remember(f"The {SECRET} {n}", collection="notes", key=f"k{n}", metadata={"n": n})
        if n % 9 == 0:
            found(memory, SECRET)
    found(memory, SECRET)
    assert ask(database, "SELECT sum(cardinality(gone)) FROM memoranda.portions") == [(22,)]
    # Later replacements push what was noted off the list.
    for n in range(400, 415):
        ada.remember(f"The {SECRET} {n}", collection="notes", key=f"k{n}", metadata={"n": n})

    def check() -> None:
        for one in (memory, open_memory()):
            assert found(one, texts(450)[100])[0] == texts(450)[100]
            assert texts(1)[0] not in found(one, texts(1)[0])
            assert len(found(one, SECRET, mode="keyword", limit=100)) == 37
            every = one.scope(user="ada").recall("", collection="notes", limit=1_000)
            assert sorted(match.metadata["n"] for match in every) == list(range(450))

    check()
    assert ask(database, "SELECT DISTINCT xmin::text FROM memoranda.parts") == made  # no part was written again
    # One of which too much is gone is made again.
    for n in range(101, 150, 2):
        ada.remember(f"The {SECRET[:6]} {n}", collection="notes", key=f"k{n}", metadata={"n": n})
        found(memory, SECRET)
    assert counted(database) == 1
    check()


def test_origins_have_their_shares(open_memory: Open) -> None:
    memory = open_memory()
    fill(memory, 500)
    query = texts(1)[0]
    copies = [{"content": f"{query} {number}", "metadata": {"n": -number}} for number in range(60)]
    stranger = memory.acting_as("stranger", origin="tool_external", policy=Policy.of(allow=("memory",)))
    stranger.scope(user="ada").remember_many(copies, collection="notes")
    assert same_places(memory, [query, *texts(3, seed=2)]) >= 0.9
    trusts = [one.origin.trust for one in memory.scope(user="ada").recall(query, collection="notes", limit=9)]
    assert trusts.count("low") == 3
    assert same_places(memory, [query], min_trust="high") >= 0.9


def test_making_portions_can_be_interrupted(open_memory: Open, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = open_memory()
    fill(memory, 1_000)
    made: list[Portion] = []
    make: Any = portions._make  # type: ignore[attr-defined]

    def stop(*given: Any) -> Any:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(make(*given))
        return made[-1]

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(portions, "_make", stop)
        memory.scope(user="ada").recall("harbour", collection="notes")
    assert counted(database) == 2
    assert same_places(open_memory(), texts(3, seed=2)) >= 0.9
    assert counted(database) == 5


def test_what_is_removed_while_a_portion_is_made_is_not_in_it(
    open_memory: Open, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, other = open_memory(), open_memory()
    entry = memory.scope(user="ada").remember(f"The {SECRET} is blue", collection="notes")
    fill(memory, 450)
    make: Any = portions._make  # type: ignore[attr-defined]
    forgotten: list[bool] = []

    def forget_then(*given: Any) -> Any:
        made = make(*given)
        if not forgotten:
            forgotten.append(f"word {SECRET}" in made.parts)
            done = threading.Thread(target=lambda: other.scope(user="ada").forget(id=entry.id, collection="notes"))
            done.start()
            done.join()
        return made

    monkeypatch.setattr(portions, "_make", forget_then)
    assert found(memory, SECRET, mode="keyword") == []
    assert forgotten == [True]
    assert counted(database) == 2 and words_with(database, SECRET) == 0


@pytest.mark.parametrize("part", ["rows", "vectors", "spread"])
@pytest.mark.parametrize("damage", ["set_byte(bytes, 90, get_byte(bytes, 90) # 255)", None], ids=["changed", "gone"])
def test_damaged_portions_are_made_again(
    open_memory: Open, database: str, caplog: pytest.LogCaptureFixture, part: str, damage: str | None
) -> None:
    memory = open_memory()
    fill(memory, 500)
    before = found(memory, texts(1)[0], limit=10)
    assert "portions" not in caplog.text and counted(database) == 2
    which = f"WHERE name = '{part}' AND first = (SELECT max(first) FROM memoranda.portions)"
    ask(
        database,
        f"UPDATE memoranda.parts SET bytes = {damage} {which}" if damage else f"DELETE FROM memoranda.parts {which}",
    )
    assert found(open_memory(), texts(1)[0], limit=10) == before
    assert "made again from the rows" in caplog.text
    assert counted(database) == 2


def test_a_portion_that_goes_while_it_is_searched_is_noticed(
    open_memory: Open, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory()
    fill(memory, 500)
    before = found(memory, texts(1)[0])
    bring_up: Any = PortionBook.bring_up
    calls: list[bool] = []

    def then_remove(*given: Any, **options: Any) -> bool:
        calls.append(bring_up(*given, **options))
        if len(calls) == 1:
            ask(database, "DELETE FROM memoranda.parts")
            ask(database, "DELETE FROM memoranda.portions")
        return calls[-1]

    monkeypatch.setattr(PortionBook, "bring_up", then_remove)
    assert found(memory, texts(1, seed=9)[0])  # other words than those that were read
    assert found(memory, texts(1)[0]) == before
    assert len(calls) == 3


def test_no_portions_are_made_while_older_programs_may_write(open_memory: Open, database: str) -> None:
    memory = open_memory()
    fill(memory, 900)
    ask(database, "UPDATE memoranda.migrated SET version = 7, prepared = 8")
    try:
        assert memory.scope(user="ada").recall(texts(1)[0], collection="notes")[0].why.exact
        assert counted(database) == 0
    finally:
        ask(database, "UPDATE memoranda.migrated SET version = 8")
    assert not memory.scope(user="ada").recall(texts(1)[0], collection="notes")[0].why.exact
    assert counted(database) == 4


def test_who_may_not_write_portions_searches_in_memory(
    open_memory: Open, database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory = open_memory()
    fill(memory, 900)

    def refuse(*_: Any) -> bool:
        raise psycopg.errors.InsufficientPrivilege("permission denied for table parts")

    with monkeypatch.context() as patched:
        patched.setattr(PostgresRows, "add_portion", refuse)
        for _ in range(2):
            assert memory.scope(user="ada").recall(texts(1)[0], collection="notes")[0].why.exact
    assert caplog.text.count("cannot be written") == 1 and counted(database) == 0
    assert not open_memory().scope(user="ada").recall(texts(1)[0], collection="notes")[0].why.exact


def test_several_threads_make_and_search_portions(open_memory: Open, database: str) -> None:
    first, second = open_memory(), open_memory(pool=2)
    fill(first, 1_000)
    answers: list[list[Any]] = []

    def search(memory: memoranda.Memory) -> None:
        answers.extend(found(memory, query) for query in [texts(1)[0]] * 3)

    threads = [threading.Thread(target=search, args=(one,)) for one in (first, second) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 18 and all(one == answers[0] for one in answers)
    assert counted(database) == 5


def test_everything_of_a_subject_is_recalled_as_before(open_memory: Open) -> None:
    memory = open_memory()
    fill(memory, 500)
    ada = memory.scope(user="ada")
    ada.set("harbour", texts(1)[0])
    kinds = {one.kind for one in ada.recall(texts(1)[0])}
    assert kinds == {"entry", "fact"}


def test_a_large_collection_can_be_as_of_a_moment(open_memory: Open) -> None:
    clock = FakeClock()
    memory = open_memory(clock=clock)
    fill(memory, 500)
    moment = clock.now()
    clock.advance(3_600)
    memory.scope(user="ada").remember(f"The {SECRET} is blue", collection="notes")
    assert found(memory, SECRET, mode="keyword") == [f"The {SECRET} is blue"]
    assert found(memory, SECRET, mode="keyword", as_of=moment) == []
