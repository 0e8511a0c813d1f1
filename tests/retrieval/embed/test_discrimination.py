"""Embedders that are wrong in known ways must fail the suite, each where it is wrong."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from memoranda.retrieval.embed.base import Vectors
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.testing.conformance.embedder import ODD, EmbedderConformance

_counter = itertools.count()


class Wide(Hashing):
    def embed(self, texts: Sequence[str]) -> Any:
        return super().embed(texts).astype(np.float64)


class Long(Hashing):
    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed(texts) * 2


class Hollow(Hashing):
    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = super().embed(texts)
        vectors[[not text.strip() for text in texts]] = np.nan
        return vectors


class Sorting(Hashing):
    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed(sorted(texts))


class Centring(Hashing):
    """Looks at the whole batch."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = super().embed(texts)
        if len(vectors) > 1:
            vectors -= vectors.mean(axis=0) / 2
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Drifting(Hashing):
    """Another vector each time."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed([f"{text} {next(_counter)}" for text in texts])


class Sharing(Hashing):
    """Gives the vectors it keeps, and not copies of them."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, ...], Vectors] = {}

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.kept.setdefault(tuple(texts), super().embed(texts))


class Crowded(Hashing):
    """Keeps what it is asked where another thread overwrites it."""

    asked: Sequence[str] = ()

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked = texts
        time.sleep(0.002)
        return super().embed(self.asked)


class Blind(Hashing):
    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed(["same" for _ in texts])


class Weightless(Hashing):
    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Vectors:
        return super().embed_weighted(words, [1.0] * len(words))


class Renaming(Hashing):
    @property
    def id(self) -> str:
        return f"hashing:{next(_counter)}"


@pytest.mark.parametrize(
    ("wrong", "promise"),
    [
        (Wide, "each_text_gets_one_row_of_single_precision"),
        (Long, "every_vector_has_unit_length"),
        (Sorting, "rows_follow_the_order_of_the_texts"),
        (Sorting, "many_texts_keep_their_order"),
        (Centring, "a_text_has_the_same_vector_alone_and_in_a_batch"),
        (Centring, "an_odd_text_does_not_touch_its_neighbours"),
        (Crowded, "threads_get_what_one_alone_gets"),
        (Drifting, "a_text_has_the_same_vector_every_time"),
        (Drifting, "threads_get_what_one_alone_gets"),
        (Sharing, "writing_into_a_vector_does_not_change_the_next"),
        (Blind, "equal_texts_have_equal_vectors_and_others_do_not"),
        (Blind, "a_text_is_nearer_to_one_with_its_words_than_to_one_without"),
        (Weightless, "a_heavier_word_draws_the_vector_to_itself"),
        (Weightless, "a_word_without_weight_counts_as_absent"),
        (Renaming, "its_id_can_be_stored_and_stays"),
    ],
)
def test_a_wrong_embedder_fails_where_it_is_wrong(wrong: type[Hashing], promise: str) -> None:
    test: Any = getattr(EmbedderConformance(), f"test_{promise}")
    with pytest.raises(AssertionError):
        test(wrong())
    test(Hashing())


@pytest.mark.parametrize("text", ["", " ", "\n\t\n"])
def test_an_embedder_that_gives_nan_for_no_words_fails(text: str) -> None:
    assert text in ODD
    with pytest.raises(AssertionError):
        EmbedderConformance().test_any_text_has_a_vector_of_unit_length(Hollow(), text)
    EmbedderConformance().test_any_text_has_a_vector_of_unit_length(Hashing(), text)
