"""The contract of a vector index: the nearest rows, in order, whatever is filtered, removed or moved.

class TestMyIndex(VectorIndexConformance):
    @pytest.fixture
    def make_index(self):
        return MyIndex  # called with the dimension
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from memoranda.errors import EmbedderMismatch
from memoranda.retrieval.index.vectors import VectorIndex

DIMENSION = 64
ROWS = 6_000
QUERIES = 20

MakeIndex = Callable[[int], VectorIndex]
Vectors = NDArray[np.float32]


def sample(rows: int, *, seed: int) -> Vectors:
    """Return unit vectors of which, as in those of real texts, some directions say more than others."""
    random = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((DIMENSION, DIMENSION)))
    vectors = (random.standard_normal((rows, DIMENSION)) / np.sqrt(np.arange(1, DIMENSION + 1))) @ turn
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def blobs(vectors: Vectors) -> list[bytes]:
    """Return vectors as they are stored."""
    return [vector.astype("<f4").tobytes() for vector in vectors]


def brute_force(vectors: Vectors, query: Vectors, k: int, eligible: Sequence[int]) -> list[int]:
    """Return the nearest of the eligible rows, found in the plainest way."""
    cosines = (vectors[eligible].astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    order = sorted(zip(-cosines, eligible, strict=True))
    return [row for _, row in order[:k]]


class VectorIndexConformance:
    """Subclass, give a `make_index` fixture, run pytest."""

    recall: ClassVar[float] = 0.99
    """How many of the ten nearest it finds at least, on the average."""

    def test_an_empty_index_finds_nothing_until_something_is_added(self, make_index: MakeIndex) -> None:
        index = make_index(DIMENSION)
        vectors = sample(1, seed=1)
        assert len(index) == 0
        assert [part.tolist() for part in index.top(vectors[0], 5)] == [[], []]
        assert index.top(vectors[0], 5, np.zeros(0, dtype=np.bool_))[0].tolist() == []
        index.append(blobs(vectors))
        assert len(index) == 1
        assert index.top(vectors[0], 5)[0].tolist() == [0]

    def test_adding_nothing_changes_nothing(self, make_index: MakeIndex) -> None:
        index = make_index(DIMENSION)
        index.append([])
        assert len(index) == 0
        index.append(blobs(sample(2, seed=1)))
        index.append([])
        assert len(index) == 2

    @pytest.mark.parametrize(("k", "found"), [(0, 0), (1, 1), (7, 7), (8, 7), (1_000, 7)])
    def test_no_more_than_k_and_no_more_than_there_are(self, make_index: MakeIndex, k: int, found: int) -> None:
        index = make_index(DIMENSION)
        index.append(blobs(sample(7, seed=2)))
        rows, cosines = index.top(sample(1, seed=3)[0], k)
        assert len(rows) == len(cosines) == found
        assert len(set(rows.tolist())) == found

    def test_nearest_come_first_with_their_cosines(self, make_index: MakeIndex) -> None:
        vectors, query = sample(50, seed=4), sample(1, seed=5)[0]
        index = make_index(DIMENSION)
        index.append(blobs(vectors))
        rows, cosines = index.top(query, 50)
        assert rows.tolist() == brute_force(vectors, query, 50, range(50))
        assert np.allclose(cosines, vectors[rows] @ query, atol=1e-6)
        assert (np.diff(cosines) <= 0).all()

    def test_equal_rows_have_equal_cosines_and_the_older_comes_first(self, make_index: MakeIndex) -> None:
        vectors = sample(ROWS, seed=6)
        twins = [5, 64, 777, 3_001, 5_999]
        vectors[twins] = vectors[5]
        index = make_index(DIMENSION)
        index.append(blobs(vectors))
        rows, cosines = index.top(vectors[5], 6)
        assert rows.tolist()[:5] == twins
        assert len(set(cosines[:5].tolist())) == 1
        assert cosines[5] < cosines[4]
        assert index.top(vectors[5], 3)[0].tolist() == twins[:3]

    def test_an_index_of_nothing_but_equal_rows_gives_the_oldest(self, make_index: MakeIndex) -> None:
        vectors = np.repeat(sample(1, seed=7), ROWS, axis=0)
        index = make_index(DIMENSION)
        index.append(blobs(vectors))
        assert index.top(vectors[0], 4)[0].tolist() == [0, 1, 2, 3]
        eligible = np.ones(ROWS, dtype=np.bool_)
        eligible[[0, 2]] = False
        assert index.top(vectors[0], 4, eligible)[0].tolist() == [1, 3, 4, 5]

    def test_finds_what_brute_force_finds(self, make_index: MakeIndex) -> None:
        assert self._recall(make_index, np.ones(ROWS, dtype=np.bool_)) >= self.recall

    @pytest.mark.parametrize("share", [0.5, 0.05, 0.01])
    def test_finds_what_brute_force_finds_among_the_eligible(self, make_index: MakeIndex, share: float) -> None:
        assert self._recall(make_index, np.random.default_rng(8).random(ROWS) < share) >= self.recall

    @pytest.mark.parametrize("nearest", [True, False], ids=["nearest", "farthest"])
    @pytest.mark.parametrize("share", [0.5, 0.05])
    def test_finds_it_too_where_the_eligible_lie_together(
        self, make_index: MakeIndex, share: float, nearest: bool
    ) -> None:
        cosines = sample(ROWS, seed=9) @ sample(QUERIES, seed=10)[0]
        eligible = cosines >= np.quantile(cosines, 1 - share) if nearest else cosines <= np.quantile(cosines, share)
        assert self._recall(make_index, eligible) >= self.recall

    def test_what_is_not_eligible_is_never_found(self, make_index: MakeIndex) -> None:
        vectors = sample(ROWS, seed=9)
        index = make_index(DIMENSION)
        index.append(blobs(vectors))
        best = index.top(vectors[4_321], 10)[0]
        assert best[0] == 4_321
        eligible = np.ones(ROWS, dtype=np.bool_)
        eligible[best] = False
        rows, _ = index.top(vectors[4_321], 10, eligible)
        assert len(rows) == 10
        assert not set(rows.tolist()) & set(best.tolist())
        assert index.top(vectors[4_321], 10, np.zeros(ROWS, dtype=np.bool_))[0].tolist() == []

    def test_fewer_eligible_than_asked_for_are_all_found(self, make_index: MakeIndex) -> None:
        vectors = sample(ROWS, seed=9)
        index = make_index(DIMENSION)
        index.append(blobs(vectors))
        eligible = np.zeros(ROWS, dtype=np.bool_)
        eligible[[17, 4_000, 5_998]] = True
        rows, _ = index.top(vectors[0], 10, eligible)
        assert sorted(rows.tolist()) == [17, 4_000, 5_998]

    def test_rows_that_come_one_by_one_are_found_like_rows_that_come_together(self, make_index: MakeIndex) -> None:
        vectors, queries = sample(ROWS, seed=11), sample(5, seed=12)
        together, grown = make_index(DIMENSION), make_index(DIMENSION)
        together.append(blobs(vectors))
        grown.append(blobs(vectors[:3_000]))
        grown.top(queries[0], 3)
        for place in range(3_000, 3_200):
            grown.append(blobs(vectors[place : place + 1]))
        assert grown.top(vectors[3_150], 1)[0].tolist() == [3_150]
        grown.append(blobs(vectors[3_200:]))
        for query in queries:
            assert grown.top(query, 10)[0].tolist() == together.top(query, 10)[0].tolist()

    def test_after_compaction_the_rows_that_stay_have_new_numbers(self, make_index: MakeIndex) -> None:
        vectors, queries = sample(ROWS, seed=13), sample(5, seed=14)
        stay = np.flatnonzero(np.random.default_rng(15).random(ROWS) < 0.7)
        index, fresh = make_index(DIMENSION), make_index(DIMENSION)
        index.append(blobs(vectors))
        index.top(queries[0], 3)
        index.keep(stay)
        fresh.append(blobs(vectors[stay]))
        assert len(index) == len(stay)
        assert index.top(vectors[stay[-1]], 1)[0].tolist() == [len(stay) - 1]
        for query in queries:
            assert index.top(query, 10)[0].tolist() == fresh.top(query, 10)[0].tolist()
        gone = np.setdiff1d(np.arange(ROWS), stay)[0]
        assert index.top(vectors[gone], 1)[1][0] < 0.999

    def test_rows_can_be_added_after_compaction(self, make_index: MakeIndex) -> None:
        vectors = sample(ROWS, seed=16)
        index = make_index(DIMENSION)
        index.append(blobs(vectors[:4_000]))
        index.top(vectors[0], 3)
        index.append(blobs(vectors[4_000:4_100]))
        index.keep(np.arange(0, 4_100, 2))
        index.append(blobs(vectors[4_100:]))
        assert len(index) == 2_050 + 1_900
        assert index.top(vectors[4_098], 1)[0].tolist() == [2_049]
        assert index.top(vectors[5_999], 1)[0].tolist() == [2_050 + 1_899]

    def test_keeping_no_row_leaves_an_index_that_can_be_used(self, make_index: MakeIndex) -> None:
        vectors = sample(ROWS, seed=16)
        index = make_index(DIMENSION)
        index.append(blobs(vectors))
        assert index.top(vectors[0], 1)[0].tolist() == [0]
        index.keep(np.empty(0, dtype=np.intp))
        assert len(index) == 0
        assert index.top(vectors[0], 1)[0].tolist() == []
        index.append(blobs(vectors[:3]))
        assert index.top(vectors[2], 1)[0].tolist() == [2]

    def test_a_vector_of_another_dimension_is_refused_and_nothing_is_added(self, make_index: MakeIndex) -> None:
        index = make_index(DIMENSION)
        good = blobs(sample(2, seed=17))
        for bad in (b"", good[0][:-4], good[0] + good[1]):
            with pytest.raises(EmbedderMismatch) as refusal:
                index.append([good[0], bad])
            assert refusal.value.expected == DIMENSION
            assert refusal.value.actual == len(bad) // 4
            assert len(index) == 0
        index.append(good)
        assert len(index) == 2

    def test_it_says_how_much_memory_it_takes(self, make_index: MakeIndex) -> None:
        index = make_index(DIMENSION)
        index.append(blobs(sample(ROWS, seed=18)))
        assert index.nbytes >= ROWS * DIMENSION * 4
        index.keep(np.arange(10))
        assert index.nbytes < ROWS * DIMENSION * 4

    def test_threads_that_search_at_once_get_what_each_would_get_alone(self, make_index: MakeIndex) -> None:
        vectors, queries = sample(ROWS, seed=19), sample(QUERIES, seed=20)
        alone, shared = make_index(DIMENSION), make_index(DIMENSION)
        alone.append(blobs(vectors))
        shared.append(blobs(vectors))
        expected = [alone.top(query, 10)[0].tolist() for query in queries]
        with ThreadPoolExecutor(8) as threads:
            answers = [threads.submit(shared.top, query, 10) for query in queries]
            found = [answer.result()[0].tolist() for answer in answers]
        assert found == expected
        assert len({tuple(rows) for rows in found}) == QUERIES

    def _recall(self, make_index: MakeIndex, eligible: NDArray[np.bool_]) -> float:
        vectors, queries = sample(ROWS, seed=9), sample(QUERIES, seed=10)
        index = make_index(DIMENSION)
        index.append(blobs(vectors))
        everything = [int(row) for row in np.flatnonzero(eligible)]
        shares: list[float] = []
        for query in queries:
            wanted = brute_force(vectors, query, 10, everything)
            found = index.top(query, 10, None if eligible.all() else eligible)[0].tolist()
            assert set(found) <= set(everything)
            assert len(found) == len(wanted) == len(set(found))
            shares.append(len(set(found) & set(wanted)) / len(wanted))
        return sum(shares) / len(shares)
