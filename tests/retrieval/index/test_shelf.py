"""An index with additions and removals, compared with one built at once from the remaining entries."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import Corrupt, EmbedderMismatch
from memoranda.model.entry import Indexed
from memoranda.retrieval.filter import parse_filter
from memoranda.retrieval.index import shelf
from memoranda.retrieval.index.columns import Columns
from memoranda.retrieval.index.shelf import ShelfIndex

_WORDS = "boat harbour rope anchor storm seven captain lighthouse map engine".split()
_QUERIES = ("Where is the boat?", "captain of the storm", "rope anchor", "what did Ada say in May", "harbor")


def _texts(count: int, seed: int = 0) -> list[tuple[str, dict[str, Any]]]:
    random = np.random.default_rng(seed)
    texts: list[tuple[str, dict[str, Any]]] = []
    for place in range(count):
        words = " ".join(random.choice(_WORDS, size=random.integers(1, 8)))
        metadata: dict[str, Any] = {"actor": ["Ada", "Grace"][place % 2], "time": f"2023-0{1 + place % 9}-01"}
        if place % 3:
            metadata["thread"] = f"t{place % 5}"
        texts.append((words + (" ?" if place % 4 == 0 else " ."), metadata))
    return texts


def _answers(index: ShelfIndex, ask: Any) -> list[list[tuple[int, Any]]]:
    return [
        [(one.sequence, pytest.approx(one.why.total, abs=1e-4)) for one in ask(index, query, mode=mode, limit=50)]
        for query in _QUERIES
        for mode in ("hybrid", "keyword", "semantic")
    ]


@given(
    portions=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    removed=st.lists(st.tuples(st.integers(0, 5), st.sets(st.integers(1, 150), max_size=30)), max_size=4),
)
def test_an_index_kept_up_answers_like_one_made_anew(
    make_rows: Any, ask: Any, portions: list[int], removed: list[tuple[int, set[int]]]
) -> None:
    rows = make_rows(_texts(sum(portions)))
    kept_up = ShelfIndex(64)
    gone: set[int] = set()
    start = 0
    for place, size in enumerate(portions):
        kept_up.add(rows[start : start + size])
        start += size
        for when, sequences in removed:
            if when == place:
                kept_up.remove(sequences)
                gone |= {sequence for sequence in sequences if sequence <= start}
    anew = ShelfIndex(64)
    anew.add(row for row in rows if row.sequence not in gone)

    assert kept_up.sequences().tolist() == anew.sequences().tolist()
    assert len(kept_up) == len(anew) == len(rows) - len(gone)
    assert kept_up.languages == anew.languages
    assert _answers(kept_up, ask) == _answers(anew, ask)


@pytest.mark.parametrize("portion", [1, 33, 50])
def test_rows_that_come_one_by_one_are_added_in_portions(
    make_rows: Any, ask: Any, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    rows = make_rows(_texts(150))
    at_once = ShelfIndex(64)
    at_once.add(rows)
    monkeypatch.setattr(shelf, "_PORTION", portion)
    in_portions = ShelfIndex(64)
    in_portions.add(row for row in rows)
    assert in_portions.sequences().tolist() == list(range(1, 151))
    assert _answers(in_portions, ask) == _answers(at_once, ask)
    ada = parse_filter({"actor": "Ada"})
    assert in_portions.visible(0, ada).tolist() == at_once.visible(0, ada).tolist() == list(range(1, 151, 2))


class _Announced(Iterator[Indexed]):
    def __init__(self, rows: list[Indexed]) -> None:
        self._rows, self._count = iter(rows), len(rows)

    def __next__(self) -> Indexed:
        return next(self._rows)

    def __length_hint__(self) -> int:
        return self._count


def test_rows_that_say_how_many_they_are_get_no_more_room_than_they_need(
    make_rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "_PORTION", 50)
    rows = make_rows(_texts(160))
    announced, surprising = ShelfIndex(64), ShelfIndex(64)
    announced.add(_Announced(rows))
    surprising.add(row for row in rows)
    assert len(announced) == len(surprising) == 160
    assert announced.vectors.nbytes == 160 * 64 * 4 < surprising.vectors.nbytes


def test_metadata_are_read_when_a_filter_first_asks(make_rows: Any, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    append = Columns.append
    monkeypatch.setattr(
        Columns, "append", lambda self, metadata: (read.append(len(metadata)), append(self, metadata))[1]
    )
    rows = make_rows(_texts(700))
    index = ShelfIndex(64)
    index.add(rows[:40])
    size = index.nbytes
    assert ask(index, "boat")
    assert index.visible(0).tolist() == list(range(1, 41))
    assert read == []
    assert size >= sum(len(row.metadata) for row in rows[:40])

    grace = parse_filter({"actor": "Grace"})
    assert index.visible(0, grace).tolist() == list(range(2, 41, 2))
    assert read == [40]
    index.add(rows[40:])
    index.remove(range(1, 601))
    assert index.rows == 100
    assert index.visible(0, grace).tolist() == list(range(602, 701, 2))
    assert sum(read) == 700


@pytest.mark.parametrize("metadata", [b"{", b"[]", b'{"n": "\xff"}', b""])
def test_metadata_that_are_damaged_are_named_before_any_filter(make_rows: Any, metadata: bytes) -> None:
    rows = make_rows(_texts(60))
    index = ShelfIndex(64)
    index.add(rows[:5])
    spoilt = [*rows[5:40], msgspec.structs.replace(rows[40], metadata=metadata), *rows[41:]]
    with pytest.raises(Corrupt, match="stored metadata of entry 41 ") as caught:
        index.add(spoilt)
    assert caught.value.sequence == 41
    assert index.sequences().tolist() == list(range(1, 6))
    assert index.visible(0, parse_filter({"actor": "Ada"})).tolist() == [1, 3, 5]
    index.add(rows[5:])
    assert len(index) == 60


def test_rows_that_are_gone_are_dropped_when_they_are_many(make_rows: Any, ask: Any) -> None:
    rows = make_rows(_texts(900))
    index = ShelfIndex(64)
    index.add(rows[:800])
    before = index.nbytes
    index.remove(range(1, 200))
    assert index.rows == 800
    index.remove(range(200, 601))
    assert index.rows == len(index) == 200
    assert index.nbytes < before / 2
    index.add(rows[800:])

    anew = ShelfIndex(64)
    anew.add(rows[600 + 1 - 1 :])
    assert index.sequences().tolist() == anew.sequences().tolist()
    assert _answers(index, ask) == _answers(anew, ask)


def test_an_index_from_which_everything_went_can_be_filled_again(make_rows: Any, ask: Any) -> None:
    rows = make_rows(_texts(700))
    index = ShelfIndex(64)
    index.add(rows[:600])
    index.remove(range(1, 601))
    assert len(index) == 0
    assert index.rows == 0
    assert ask(index, "boat") == []
    index.add(rows[600:])
    anew = ShelfIndex(64)
    anew.add(rows[600:])
    assert _answers(index, ask) == _answers(anew, ask)
    assert ask(index, "boat") != []


def test_adding_again_what_is_known_changes_nothing(make_rows: Any, ask: Any) -> None:
    rows = make_rows(_texts(30))
    index = ShelfIndex(64)
    index.add(rows)
    before = _answers(index, ask)
    index.add(rows)
    index.add(rows[10:])
    assert len(index) == 30
    assert _answers(index, ask) == before


def test_removing_what_is_not_there_is_no_error(make_shelf: Any) -> None:
    index = make_shelf(["a boat", "a rope", "an anchor"])
    index.remove([2, 99, 0, -4])
    index.remove([2])
    index.remove([])
    assert index.sequences().tolist() == [1, 3]


def test_the_newest_sequence_is_remembered_when_its_entry_is_gone(make_shelf: Any, make_rows: Any) -> None:
    index = make_shelf(["a boat", "a rope"])
    index.remove([2])
    index.add(make_rows(["a rope that was removed"], first=2))
    assert index.sequences().tolist() == [1]
    index.add(make_rows(["a new rope"], first=3))
    assert index.sequences().tolist() == [1, 3]


def test_an_expired_entry_is_neither_found_nor_counted_nor_heard(make_rows: Any, ask: Any) -> None:
    index = ShelfIndex(64)
    talk = {"thread": "talk"}
    index.add(make_rows([("Which harbour has the lighthouse?", talk)], expires_at=100))
    index.add(make_rows([("It is the one at Brest.", talk), ("The engine was loud.", talk)], first=2))
    before = {one.sequence: one.why for one in ask(index, "lighthouse harbour", now=99)}
    assert before[1].matched == ("lighthouse", "harbour")
    assert before[2].parts["context"] > 0

    after = {one.sequence: one.why for one in ask(index, "lighthouse harbour", now=100)}
    assert set(after) == {2, 3}
    assert "context" not in after[2].parts
    assert len(index) == 2
    # No entry contains the words any more, so words with a similar spelling are used, if there are any.
    assert ask(index, "lighthouse harbour", now=100, mode="keyword") == []
    assert [one.sequence for one in ask(index, "engine", now=100, mode="keyword")] == [3]


def test_expiry_takes_entries_at_their_own_moments(make_rows: Any) -> None:
    index = ShelfIndex(64)
    for place, moment in enumerate([300, 100, None, 200], start=1):
        index.add(make_rows(["a boat"], first=place, expires_at=moment))
    seen: list[list[int]] = []
    for now in (99, 100, 250, 1_000):
        index.expire(now)
        seen.append(index.sequences().tolist())
    assert seen == [[1, 2, 3, 4], [1, 3, 4], [1, 3], [3]]


def test_languages_are_those_of_the_entries_there_are(make_shelf: Any) -> None:
    index = make_shelf(["The boat is in the harbour", "Das Boot ist nicht im Hafen und wir warten"])
    assert index.languages == {"en", "de"}
    index.remove([2])
    assert index.languages == {"en"}


def test_a_vector_of_another_size_is_refused(make_rows: Any) -> None:
    index = ShelfIndex(32)
    with pytest.raises(EmbedderMismatch):
        index.add(make_rows(["a boat"]))
    assert len(index) == 0


@pytest.mark.parametrize(
    "metadata",
    [
        {"thread": ["a"], "actor": {"name": "Ada"}, "time": 5},
        {"thread": True, "session": None, "actor": 3, "speaker": [], "time": "soon"},
        {"thread": "", "actor": "", "time": ""},
        {"thread": 1.5, "actor": "?!", "time": "2023-13-45"},
        {"time": "9999-12-31T23:59:59"},
        {"actor": "x" * 5_000, "thread": "y" * 5_000, "time": "2023-05-08" * 100},
        {"actor": "\ud800".encode("utf-8", "replace").decode(), "thread": 10**30},
    ],
)
def test_odd_metadata_are_no_error(make_shelf: Any, ask: Any, metadata: dict[str, Any]) -> None:
    index = make_shelf([("The boat is in the harbour", metadata), ("A rope", {"actor": "Ada", "thread": "a"})])
    assert [one.sequence for one in ask(index, "boat", mode="keyword")] == [1]


def test_many_threads_may_write_and_ask_at_once(make_rows: Any, ask: Any) -> None:
    rows = make_rows(_texts(400))
    index = ShelfIndex(64)
    index.add(rows[:50])
    failures: list[BaseException] = []

    def write() -> None:
        for row in rows[50:]:
            index.add([row])

    def forget() -> None:
        for sequence in range(1, 350, 2):
            index.remove([sequence])

    def read() -> None:
        for place in range(60):
            for one in ask(index, _QUERIES[place % len(_QUERIES)], limit=20, expand=1):
                assert one.sequence > 0

    def run(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=run, args=(work,)) for work in (write, forget, read, read)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    index.remove(range(1, 350, 2))
    anew = ShelfIndex(64)
    anew.add(row for row in rows if row.sequence in set(index.sequences().tolist()))
    assert len(index) == 400 - 175
    assert _answers(index, ask) == _answers(anew, ask)
