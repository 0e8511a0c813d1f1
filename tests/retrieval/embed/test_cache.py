"""A cache in front of an embedder: the same vectors, asked for once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import EmbeddingFailed, UsageError
from memoranda.model.entry import Calibration
from memoranda.retrieval.embed.base import Vectors, takes_weights, with_cache
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.testing.conformance.embedder import EmbedderConformance


class TestCachedHashing(EmbedderConformance):
    @pytest.fixture
    def embedder(self) -> Any:
        return with_cache(Hashing(), capacity=7, batch=3)


class TestCacheThatKeepsNothing(EmbedderConformance):
    @pytest.fixture
    def embedder(self) -> Any:
        return with_cache(Hashing(), capacity=0)


class Counting:
    """An embedder that writes down what it was asked, takes no weights, and fails on a text that says so."""

    id = "counting"
    dimension = 64
    calibration: Calibration | None = None

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked.append(list(texts))
        if "broken" in texts:
            raise EmbeddingFailed("it broke", retryable=True)
        return Hashing(64).embed(texts)


def test_a_text_is_embedded_once() -> None:
    inner = Counting()
    embedder = with_cache(inner)
    first = embedder.embed(["one", "two", "one"])
    second = embedder.embed(["two", "three"])
    assert inner.asked == [["one", "two"], ["three"]]
    assert np.array_equal(first, Hashing(64).embed(["one", "two", "one"]))
    assert np.array_equal(second, Hashing(64).embed(["two", "three"]))


def test_misses_go_in_batches() -> None:
    inner = Counting()
    embedder = with_cache(inner, batch=2)
    embedder.embed(["known"])
    embedder.embed(["a", "known", "b", "c", "a", "d", "e"])
    assert inner.asked[1:] == [["a", "b"], ["c", "d"], ["e"]]


def test_what_is_known_already_is_not_asked_for() -> None:
    inner = Counting()
    embedder = with_cache(inner)
    embedder.embed(["a", "b"])
    assert embedder.embed(["a", "b"]).shape == (2, 64)
    assert embedder.embed([]).shape == (0, 64)
    assert inner.asked == [["a", "b"]]


def test_the_text_that_was_not_used_for_longest_is_forgotten_first() -> None:
    inner = Counting()
    embedder = with_cache(inner, capacity=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        embedder.embed([text])
    assert inner.asked == [["a"], ["b"], ["c"], ["b"]]


def test_a_batch_larger_than_the_cache_is_answered_whole() -> None:
    inner = Counting()
    embedder = with_cache(inner, capacity=3)
    texts = [f"text {number}" for number in range(10)]
    assert np.array_equal(embedder.embed(texts), Hashing(64).embed(texts))
    embedder.embed(texts[-3:])
    embedder.embed(texts[:1])
    assert inner.asked == [texts, texts[:1]]


def test_what_is_kept_does_not_keep_its_batch_in_memory() -> None:
    embedder = with_cache(Counting(), capacity=1)
    embedder.embed(["a", "b", "c"])
    kept = list(embedder._known.values())
    assert [(type(one), len(one)) for one in kept] == [(bytes, 4 * embedder.dimension)]


def test_a_failure_gives_nothing_but_keeps_what_was_done() -> None:
    inner = Counting()
    embedder = with_cache(inner, batch=1)
    with pytest.raises(EmbeddingFailed, match="it broke"):
        embedder.embed(["a", "broken", "b"])
    assert embedder.embed(["a"]).shape == (1, 64)
    assert inner.asked == [["a"], ["broken"]]


def test_vectors_that_are_none_are_refused_and_not_kept() -> None:
    class Wrong(Counting):
        def embed(self, texts: Sequence[str]) -> Vectors:
            vectors = super().embed(texts)
            if len(self.asked) == 1:
                vectors[-1, 0] = np.nan
            return vectors

    inner = Wrong()
    embedder = with_cache(inner)
    with pytest.raises(EmbeddingFailed, match="the embedder `counting` returned a vector of NaN for text number 3"):
        embedder.embed(["a", "a", "b", "b"])
    assert np.array_equal(embedder.embed(["a", "b"]), Hashing(64).embed(["a", "b"]))
    assert inner.asked == [["a", "b"], ["a", "b"]]


def test_one_text_is_looked_at_as_closely_as_many_are() -> None:
    class Wrong(Counting):
        def embed(self, texts: Sequence[str]) -> Vectors:
            given = super().embed(texts)
            return given[:, :-1] if texts[-1] == "short" else given * 0 if texts[-1] == "nothing" else given * 3

    inner = Wrong()
    embedder = with_cache(inner)
    with pytest.raises(EmbeddingFailed, match=r"returned shape \(1, 63\) for 1 texts"):
        embedder.embed_as_bytes(["short"])
    with pytest.raises(EmbeddingFailed, match="returned a vector of only zeros for text number 1") as refused:
        embedder.embed_as_bytes(["nothing"])
    assert refused.value.details["row"] == 0
    assert not embedder._known
    (one,) = embedder.embed_as_bytes(["too long"])
    assert np.isclose(np.linalg.norm(np.frombuffer(one, np.float32)), 1)
    assert embedder.embed_as_bytes(["other", "too long"])[1] == one
    assert inner.asked == [["short"], ["nothing"], ["too long"], ["other"]]


def test_what_is_given_out_may_be_changed_and_the_cache_stays_as_it_is() -> None:
    embedder = with_cache(Counting())
    for texts in (["a"], ["a", "b"]):
        embedder.embed(texts)[:] = 0.0
        assert np.array_equal(embedder.embed(texts), Hashing(64).embed(texts))


def test_weights_pass_through_where_they_are_taken() -> None:
    weighting = with_cache(Hashing(64))
    plain = with_cache(Counting())
    assert takes_weights(weighting)
    assert not takes_weights(plain)
    expected = Hashing(64).embed_weighted(["a", "b"], [1.0, 3.0])
    assert np.array_equal(weighting.embed_weighted(["a", "b"], [1.0, 3.0]), expected)


def test_putting_a_cache_in_front_asks_the_embedder_nothing() -> None:
    class Remote(Counting):
        @property
        def dimension(self) -> int:
            raise EmbeddingFailed("the server is down", retryable=True)

    embedder = with_cache(Remote())
    with pytest.raises(EmbeddingFailed, match="the server is down"):
        embedder.embed(["a"])


def test_a_wrong_weighted_vector_is_refused() -> None:
    class Wrong(Hashing):
        def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
            return np.zeros((1, 64), np.float32)

    embedder = with_cache(Wrong(64))
    assert takes_weights(embedder)
    assert embedder.embed(["a"]).shape == (1, 64)
    with pytest.raises(EmbeddingFailed, match="only zeros"):
        embedder.embed_weighted(["a"], [1.0])


def test_it_is_known_by_what_it_holds() -> None:
    embedder = with_cache(Hashing(64))
    assert (embedder.id, embedder.dimension, embedder.calibration) == ("hashing:64", 64, Hashing(64).calibration)
    assert repr(embedder) == "cached(Hashing(64))"
    assert with_cache(embedder) is embedder


@pytest.mark.parametrize(("capacity", "batch"), [(-1, 1), (1, 0)])
def test_a_cache_of_no_size_is_refused(capacity: int, batch: int) -> None:
    with pytest.raises(UsageError, match=r"capacity .* are not valid"):
        with_cache(Hashing(), capacity=capacity, batch=batch)
    assert with_cache(Hashing(), capacity=0, batch=1).embed(["a"]).shape == (1, 256)


def test_threads_do_not_wait_for_each_others_misses() -> None:
    class Meeting(Counting):
        barrier = threading.Barrier(2, timeout=30)

        def embed(self, texts: Sequence[str]) -> Vectors:
            self.barrier.wait()
            return super().embed(texts)

    embedder = with_cache(Meeting())
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(embedder.embed, [["a"], ["b"]])
    assert np.array_equal(np.concatenate([first, second]), Hashing(64).embed(["a", "b"]))


@given(
    asked=st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=9), max_size=12),
    capacity=st.integers(0, 6),
    batch=st.integers(1, 4),
)
def test_a_cache_is_never_seen(asked: list[list[str]], capacity: int, batch: int) -> None:
    inner = Counting()
    embedder = with_cache(inner, capacity=capacity, batch=batch)
    for texts in asked:
        assert np.array_equal(embedder.embed(texts), Hashing(64).embed(texts))
        assert embedder.embed_as_bytes(texts) == [row.tobytes() for row in Hashing(64).embed(texts)]
    assert len(embedder._known) <= capacity
    assert all(len(one) <= batch for one in inner.asked)


def test_whatever_the_code_of_an_embedder_does_wrong_is_a_failed_embedding() -> None:
    class Odd(Counting):
        def embed(self, texts: Sequence[str]) -> Vectors:
            if "odd" in texts:
                raise ZeroDivisionError("no such text")
            return super().embed(texts)

    class Weighing(Odd):
        def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
            return self.embed(words)[:1]

    embedder = with_cache(Odd())
    assert embedder.embed(["even"]).shape == (1, 64)
    with pytest.raises(EmbeddingFailed, match="`counting` failed: ZeroDivisionError") as caught:
        embedder.embed(["odd"])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(EmbeddingFailed, match="it broke"):
        embedder.embed(["broken"])
    weighing: Any = with_cache(Weighing())
    assert weighing.embed_weighted(["even"], [1.0]).shape == (1, 64)
    with pytest.raises(EmbeddingFailed, match="ZeroDivisionError"):
        weighing.embed_weighted(["odd"], [1.0])
