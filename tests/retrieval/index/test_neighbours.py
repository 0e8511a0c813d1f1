"""Chains of entries: which entries are neighbours, and when neighbours are trusted."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from memoranda.retrieval.index.neighbours import NO_ROW, Threads


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _topics(count: int, seed: int = 1) -> NDArray[np.float32]:
    """Return vectors of a conversation that stays with a topic for ten entries."""
    random = np.random.default_rng(seed)
    topics = random.normal(size=(count // 10 + 1, 16))
    return _unit(np.repeat(topics, 10, axis=0)[:count] + random.normal(size=(count, 16)))


@pytest.mark.parametrize("portion", [1, 5, 100])
def test_rows_are_linked_within_their_thread(portion: int) -> None:
    keys = [("", "a"), ("", "b"), ("", "a"), ("x", "a"), ("", None), ("", "b"), ("", None), ("", "a"), ("", 1)]
    vectors = _topics(len(keys))
    threads = Threads(16)
    for start in range(0, len(keys), portion):
        threads.add(keys[start : start + portion], vectors)
    assert threads.previous.tolist() == [NO_ROW, NO_ROW, 0, NO_ROW, NO_ROW, 1, 4, 2, NO_ROW]
    assert threads.next.tolist() == [2, 5, 7, NO_ROW, 6, NO_ROW, NO_ROW, NO_ROW, NO_ROW]
    assert threads.around(2, 5) == ([0], [7])
    assert threads.around(3, 5) == ([], [])


def test_whoever_stood_around_a_removed_row_become_neighbours() -> None:
    threads = Threads(16)
    vectors = _topics(6)
    threads.add([("", "a")] * 6, vectors)
    threads.remove([2, 3], vectors)
    assert threads.around(1, 2) == ([0], [4, 5])
    threads.remove([5], vectors)
    threads.remove([0], vectors)
    assert threads.around(1, 9) == ([], [4])
    assert threads.around(4, 9) == ([1], [])


_NOTHING_RECURS, _MUCH_RECURS = 0.0, 0.1


def _trust(threads: Threads, recurrence: float = _NOTHING_RECURS) -> list[float]:
    return threads.trust(np.full(threads.groups, recurrence)).tolist()


def test_neighbours_in_a_named_thread_are_trusted_where_they_are_more_alike_than_others() -> None:
    vectors = _topics(400)
    shuffled = vectors[np.random.default_rng(3).permutation(400)]
    talk, heap, alone = Threads(16), Threads(16), Threads(16)
    assert _trust(talk) == []
    talk.add([("", "a")] * 400, vectors)
    heap.add([("", "a")] * 400, shuffled)
    alone.add([("", "a")], vectors)
    assert _trust(talk)[0] > 0.95
    assert _trust(heap)[0] < 0.2
    assert _trust(heap, _MUCH_RECURS)[0] > 0.95
    assert _trust(alone)[0] == 1


def test_mere_order_is_trusted_only_where_rare_words_recur() -> None:
    vectors = _topics(400)
    talk, alone = Threads(16), Threads(16)
    talk.add([("", None)] * 400, vectors)
    alone.add([("", None)], vectors)
    assert _trust(talk) == [0]
    assert _trust(talk, 0.0475)[0] == pytest.approx(0.5, abs=0.01)
    assert _trust(talk, _MUCH_RECURS)[0] > 0.95
    assert _trust(alone, _MUCH_RECURS) == [0]


def test_each_namespace_is_trusted_by_itself() -> None:
    vectors = _topics(4_000)
    order = np.arange(4_000)
    order[1::2] = np.random.default_rng(3).permutation(order[1::2])
    keys = [("talk" if place % 2 == 0 else "heap", "a") for place in range(4_000)]
    threads = Threads(16)
    threads.add(keys, vectors[order])
    talk, heap = _trust(threads)
    assert talk > 0.9
    assert heap < 0.3


@pytest.mark.parametrize("portion", [1, 7, 300])
def test_trust_does_not_depend_on_how_entries_came(portion: int) -> None:
    vectors = _topics(300)
    keys = [("", ["a", "b", None][place % 3]) for place in range(300)]
    threads, at_once = Threads(16), Threads(16)
    for start in range(0, 300, portion):
        threads.add(keys[start : start + portion], vectors)
    threads.remove(range(100, 200), vectors)
    left = [*range(100), *range(200, 300)]
    at_once.add([keys[place] for place in left], vectors[left])
    for recurrence in (_NOTHING_RECURS, 0.03, _MUCH_RECURS):
        assert _trust(threads, recurrence) == pytest.approx(_trust(at_once, recurrence), abs=1e-6)


def test_rows_keep_their_neighbours_when_they_are_numbered_anew() -> None:
    vectors = _topics(30)
    keys = [("", ["a", "b", None][place % 3]) for place in range(30)]
    threads = Threads(16)
    threads.add(keys, vectors)
    gone = [place for place in range(30) if place % 3 == 1 or place in (3, 6)]
    threads.remove(gone, vectors)
    kept = np.array([place for place in range(30) if place not in gone])
    renumbered = np.full(30, -1, np.int64)
    renumbered[kept] = np.arange(len(kept))
    threads.keep(kept, renumbered)
    anew = Threads(16)
    anew.add([keys[place] for place in kept], vectors[kept])
    assert threads.previous.tolist() == anew.previous.tolist()
    assert threads.next.tolist() == anew.next.tolist()
    assert threads.count == anew.count == 2
    threads.add([("", "a"), ("", "b")], vectors)
    anew.add([("", "a"), ("", "b")], vectors)
    assert threads.previous.tolist() == anew.previous.tolist()


def test_entries_that_are_all_the_same_have_a_trust() -> None:
    vectors = _unit(np.ones((50, 16)))
    threads = Threads(16)
    threads.add([("", "a")] * 50, vectors)
    assert 0 <= _trust(threads)[0] <= 1


@pytest.mark.parametrize("portion", [1, 100])
def test_entries_without_a_thread_need_no_sum_of_vectors(portion: int) -> None:
    vectors = _topics(300)
    facts, threads = Threads(16), Threads(16)
    for start in range(0, 100, portion):
        facts.add([(f"fact {place}", None) for place in range(start, start + portion)], vectors)
        threads.add([("facts", f"fact {place}") for place in range(start, start + portion)], vectors)
    assert facts.nbytes == threads.nbytes - 8 * 16
