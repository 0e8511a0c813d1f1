"""Both vector indexes keep the promises; the pruned one does it without comparing every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memoranda.errors import EmbedderMismatch
from memoranda.retrieval.index import vectors
from memoranda.retrieval.index import vectors as pruned
from memoranda.retrieval.index.vectors import PrunedTable, VectorTable, kth_bound
from memoranda.testing.conformance.vector_index import (
    DIMENSION,
    ROWS,
    MakeIndex,
    VectorIndexConformance,
    blobs,
    sample,
)


class TestVectorTable(VectorIndexConformance):
    recall = 1.0

    @pytest.fixture
    def make_index(self) -> MakeIndex:
        return VectorTable

    def test_product_is_the_cosine_of_every_row(self) -> None:
        table = VectorTable(DIMENSION)
        rows = sample(100, seed=1)
        table.append_matrix(rows)
        assert np.allclose(table.product(rows[3]), rows @ rows[3], atol=1e-6)
        assert table.matrix.tolist() == rows.tolist()

    def test_many_rows_are_multiplied_in_parts_that_start_no_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table = VectorTable(DIMENSION)
        rows = sample(100, seed=1)
        table.append_matrix(rows)
        sizes: list[int] = []
        dot = np.dot

        def counted(matrix: Any, query: Any, out: Any) -> Any:
            sizes.append(matrix.size)
            return dot(matrix, query, out=out)

        monkeypatch.setattr(np, "dot", counted)
        monkeypatch.setattr(vectors, "_AT_ONCE", 7 * DIMENSION + 1)
        assert np.allclose(table.product(rows[3]), rows @ rows[3], atol=1e-6)
        assert table.top(rows[98], 1)[0].tolist() == [98]
        assert table.top(rows[9], 1, np.arange(100) % 5 == 4)[0].tolist() == [9]
        assert sum(sizes) == (100 + 100 + 20) * DIMENSION
        assert max(sizes) == 7 * DIMENSION

    def test_what_was_given_out_stays_as_it_was_when_the_table_grows(self) -> None:
        table = VectorTable(DIMENSION)
        table.append_matrix(sample(10, seed=1))
        before = table.matrix
        copy = before.copy()
        table.append_matrix(sample(10_000, seed=2))
        table.keep(np.arange(5_000, 5_010))
        assert (before == copy).all()
        assert not (table.matrix == copy).all()

    def test_growing_row_by_row_copies_seldom(self) -> None:
        table = VectorTable(2)
        buffers: set[int] = set()
        row = np.array([[1.0, 0.0]], dtype=np.float32)
        for _ in range(2_000):
            table.append_matrix(row)
            buffers.add(table.nbytes)
        assert len(table) == 2_000
        assert 1 < len(buffers) < 20

    def test_a_matrix_of_another_shape_is_refused(self) -> None:
        table = VectorTable(4)
        for shape in ((2, 3), (4,), (1, 1, 4)):
            with pytest.raises(EmbedderMismatch, match="but the others have 4"):
                table.append_matrix(np.ones(shape, dtype=np.float32))
        assert len(table) == 0
        table.append_matrix(np.ones((2, 4), dtype=np.float32))
        assert len(table) == 2

    @pytest.mark.parametrize("share", [0.02, 0.9])
    def test_few_rows_and_many_get_the_same_cosines_bit_for_bit(self, share: float) -> None:
        rows = sample(ROWS, seed=3)
        table = VectorTable(DIMENSION)
        table.append_matrix(rows)
        eligible = np.random.default_rng(4).random(ROWS) < share
        found, cosines = table.top(rows[9], 20, eligible)
        single = [table.top(rows[9], 1, np.arange(ROWS) == row)[1][0] for row in found]
        assert cosines.tolist() == [float(cosine) for cosine in single]
        assert len(found) == 20


class TestPrunedTable(VectorIndexConformance):
    @pytest.fixture
    def make_index(self) -> MakeIndex:
        return lambda dimension: PrunedTable(dimension, prune_from=0)

    def test_most_rows_are_never_compared_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows, queries = sample(40_000, seed=5), sample(5, seed=6)
        table, plain = PrunedTable(DIMENSION, prune_from=0), VectorTable(DIMENSION)
        for each in (table, plain):
            each.append(blobs(rows))
        expected = [plain.top(query, 10)[0].tolist() for query in queries]
        compared = _count_compared(monkeypatch)
        assert [table.top(query, 10)[0].tolist() for query in queries] == expected
        assert 0 < sum(compared) < len(queries) * len(rows) // 5
        # The count does see a search that compares all.
        plain.top(queries[0], 10)
        assert compared[-1] == len(rows)

    def test_below_its_size_it_makes_no_heads(self) -> None:
        rows = sample(ROWS, seed=7)
        small, large = PrunedTable(DIMENSION, prune_from=ROWS + 1), PrunedTable(DIMENSION, prune_from=ROWS)
        for table in (small, large):
            table.append(blobs(rows))
            without = table.nbytes
            assert table.top(rows[7], 1)[0].tolist() == [7]
            assert (table.nbytes > without) is (table is large)

    def test_vectors_without_stronger_directions_get_no_heads_and_the_right_answer(self) -> None:
        even = np.random.default_rng(8).standard_normal((ROWS, DIMENSION)).astype(np.float32)
        even /= np.linalg.norm(even, axis=1, keepdims=True)
        table, plain = PrunedTable(DIMENSION, prune_from=0), VectorTable(DIMENSION)
        for each in (table, plain):
            each.append_matrix(even)
        without = table.nbytes
        for query in even[:5]:
            assert table.top(query, 10)[0].tolist() == plain.top(query, 10)[0].tolist()
        assert table.nbytes == without

    def test_where_heads_cannot_tell_all_rows_are_compared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The rows agree in their dominant directions; the query looks where they hardly differ, so every bound is high.
        rows = sample(20_000, seed=9)
        _, directions = np.linalg.eigh((rows.T @ rows).astype(np.float64))
        weak = directions[:, 0].astype(np.float32)
        table, plain = PrunedTable(DIMENSION, prune_from=0), VectorTable(DIMENSION)
        for each in (table, plain):
            each.append_matrix(rows)
        expected = plain.top(weak, 10)[0].tolist()
        compared = _count_compared(monkeypatch)
        assert table.top(weak, 10)[0].tolist() == expected
        # A few to begin with, no more than pays, and then all at once: never nearly all of them one by one.
        *some, last = compared
        assert last == len(rows)
        assert len(some) == 2
        assert max(some) < len(rows) // 8

    def test_directions_are_found_again_when_the_table_has_grown_fourfold(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fits: list[int] = []
        fit = pruned._Heads.fit
        monkeypatch.setattr(pruned._Heads, "fit", lambda matrix: fits.append(len(matrix)) or fit(matrix))
        table = PrunedTable(DIMENSION, prune_from=0)
        rows = sample(16_000, seed=10)
        for end in (4_000, 8_000, 15_999, 16_000):
            table.append_matrix(rows[len(table) : end])
            assert table.top(rows[end - 1], 1)[0].tolist() == [end - 1]
        assert fits == [4_000, 16_000]

    def test_many_results_are_found_as_well_as_few(self) -> None:
        rows = sample(30_000, seed=11)
        table, plain = PrunedTable(DIMENSION, prune_from=0), VectorTable(DIMENSION)
        for each in (table, plain):
            each.append_matrix(rows)
        shares = [
            len(np.intersect1d(table.top(query, 500)[0], plain.top(query, 500)[0])) / 500
            for query in sample(10, seed=12)
        ]
        assert sum(shares) / len(shares) >= 0.98


@pytest.mark.parametrize("count", [1, 5, 64, 1_000, 9_999])
@pytest.mark.parametrize("k", [1, 4, 60, 2_000])
def test_a_bound_is_reached_by_k_and_by_few_more(count: int, k: int) -> None:
    numbers = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    reached = np.count_nonzero(numbers >= kth_bound(numbers, k))
    assert min(k, count) <= reached <= max(2 * k, 8)


def _count_compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of rows each time that rows are compared whole."""
    compared: list[int] = []
    gather, top = pruned.gather, VectorTable.top

    def gather_counted(matrix: NDArray[np.float32], query: NDArray[np.float32], rows: NDArray[np.intp]) -> Any:
        compared.append(len(rows))
        return gather(matrix, query, rows)

    def top_counted(table: VectorTable, *arguments: Any) -> Any:
        compared.append(len(table))
        return top(table, *arguments)

    monkeypatch.setattr(pruned, "gather", gather_counted)
    monkeypatch.setattr(VectorTable, "top", top_counted)
    return compared
