"""The result of an embedder is validated before anything is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memoranda.errors import EmbeddingFailed
from memoranda.retrieval.embed.base import check_vectors


def check(given: object, *, count: int = 2, dimension: int = 2) -> Any:
    return check_vectors(given, embedder="mine", count=count, dimension=dimension)


GOOD = np.array([[1, 0], [0.6, 0.8]], np.float32)


def test_unit_vectors_pass_as_they_are() -> None:
    assert check(GOOD) is GOOD


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([[1, 0], [0.6, 0.8]], id="lists"),
        pytest.param(GOOD.astype(np.float64), id="double precision"),
        pytest.param(np.asfortranarray(GOOD), id="by columns"),
        pytest.param(GOOD * 7, id="long"),
        pytest.param(GOOD * 1e-3, id="short"),
        pytest.param([[1e30, 0], [3, 4]], id="huge"),
    ],
)
def test_what_can_be_made_of_unit_length_is(given: object) -> None:
    vectors = check(given)
    assert vectors == pytest.approx(GOOD)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([[1, 0], [float("nan"), 1]], "of NaN for text number 2"),
        ([[1, 0], [None, 1]], "of NaN for text number 2"),
        ([[1, 0], [float("inf"), 1]], "of infinity for text number 2"),
        ([[0, 0], [1, 0]], "of only zeros for text number 1"),
        ([[1e39, 0], [1, 0]], "of infinity for text number 1"),
        ([[1, 0]], r"shape \(1, 2\) for 2 texts, not \(2, 2\)"),
        ([[1, 0, 0], [0, 1, 0]], r"shape \(2, 3\)"),
        ([1, 0], r"shape \(2,\)"),
        ([[1, 0], [1]], "`list`, not a matrix of numbers"),
        ("vectors", "`str`, not a matrix of numbers"),
        (None, r"shape \(1,\)"),
        ({"a": 1}, "`dict`, not a matrix of numbers"),
    ],
)
def test_what_is_no_vector_is_refused(given: object, reason: str) -> None:
    with pytest.raises(EmbeddingFailed, match=f"the embedder `mine` returned .*{reason}") as caught:
        check(given)
    assert caught.value.retryable is False


@pytest.mark.parametrize("factor", [1, 1.01, 7, 1e-3, 1e30])
def test_a_single_vector_is_brought_to_unit_length_like_many(factor: float) -> None:
    vector = np.array([[0.6, 0.8]], np.float32)
    assert check(vector * np.float32(factor), count=1) == pytest.approx(vector)
    assert check(vector, count=1) is vector


@pytest.mark.parametrize(("number", "held"), [(float("nan"), "NaN"), (float("inf"), "infinity"), (0.0, "only zeros")])
def test_a_single_vector_without_direction_is_refused_like_many(number: float, held: str) -> None:
    with pytest.raises(EmbeddingFailed, match=f"of {held} for text number 1"):
        check(np.array([[number, 0]], np.float32), count=1)
    assert check(np.array([[1, 0]], np.float32), count=1).tolist() == [[1, 0]]


def test_the_row_that_is_wrong_can_be_read_from_the_error() -> None:
    with pytest.raises(EmbeddingFailed) as caught:
        check([[1, 0], [0, 0]])
    assert caught.value.row == 1


def test_no_texts_have_no_vectors() -> None:
    assert check(np.empty((0, 2), np.float32), count=0).shape == (0, 2)
    with pytest.raises(EmbeddingFailed):
        check(np.empty((0, 2), np.float32), count=1)
