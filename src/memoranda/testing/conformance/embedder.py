"""Embedders: one unit vector for each text, in order, the same every time.

Subclass `EmbedderConformance` with a fixture `embedder` that returns yours. Those whose vectors are sums over words
are held to that as well.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memoranda.model.names import require_label
from memoranda.retrieval.embed.base import Embedder, WeightingEmbedder, takes_weights

TEXTS = (
    "The ferry to the island leaves at noon.",
    "Ada keeps bees behind the house",
    "invoice INV-2041, unpaid",
    "Why is the server down?",
    "Ada keeps bees behind the house",
    "two words",
)
ODD = (
    "",
    " ",
    "\n\t\n",
    "?!…",
    "\x00",
    "漢字かな交じり文",
    "שלום עולם",
    "naïve café, e\u0301 and é",
    "👩‍👩‍👧 family",
    "half of a pair: \ud83d",
    "a  lot   of    space ",
    "word" * 3_000,
    "many words " * 1_000,
)  # fmt: skip
# What rounding may do to one component of a unit vector, when a batch is summed in another order.
CLOSE = 1e-5


class EmbedderConformance:
    """The contract of an embedder. Subclass it with an `embedder` fixture, and run pytest."""

    def test_it_has_the_methods_of_an_embedder(self, embedder: Embedder) -> None:
        assert isinstance(embedder, Embedder)

    def test_each_text_gets_one_row_of_single_precision(self, embedder: Embedder) -> None:
        vectors = embedder.embed(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32

    def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        assert embedder.embed([]).shape == (0, embedder.dimension)
        assert embedder.embed(["one"]).shape == (1, embedder.dimension)

    def test_every_vector_has_unit_length(self, embedder: Embedder) -> None:
        assert np.linalg.norm(embedder.embed(TEXTS), axis=1) == pytest.approx(1.0, abs=CLOSE)

    @pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text)[:20])
    def test_any_text_has_a_vector_of_unit_length(self, embedder: Embedder, text: str) -> None:
        vectors = embedder.embed([text, "an ordinary one"])
        assert vectors.shape == (2, embedder.dimension)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=CLOSE)

    def test_an_odd_text_does_not_touch_its_neighbours(self, embedder: Embedder) -> None:
        alone = embedder.embed(TEXTS[:2])
        among = embedder.embed([TEXTS[0], *ODD, TEXTS[1]])
        assert np.allclose(among[[0, -1]], alone, atol=CLOSE)
        assert not np.allclose(among[1], alone[0], atol=CLOSE)

    def test_a_text_has_the_same_vector_every_time(self, embedder: Embedder) -> None:
        assert np.array_equal(embedder.embed(TEXTS), embedder.embed(TEXTS))

    def test_a_text_has_the_same_vector_alone_and_in_a_batch(self, embedder: Embedder) -> None:
        alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
        assert np.allclose(embedder.embed(TEXTS), alone, atol=CLOSE)

    def test_equal_texts_have_equal_vectors_and_others_do_not(self, embedder: Embedder) -> None:
        vectors = embedder.embed(TEXTS)
        assert np.allclose(vectors[1], vectors[4], atol=CLOSE)
        assert not np.allclose(vectors[1], vectors[0], atol=1e-2)

    def test_rows_follow_the_order_of_the_texts(self, embedder: Embedder) -> None:
        forwards = embedder.embed(TEXTS)
        backwards = embedder.embed(TEXTS[::-1])
        assert np.allclose(forwards, backwards[::-1], atol=CLOSE)
        assert not np.allclose(forwards, backwards, atol=1e-2)

    def test_many_texts_keep_their_order(self, embedder: Embedder) -> None:
        texts = [f"entry number {number} of a long list" * (1 + number % 7) for number in range(300)]
        vectors = embedder.embed(texts)
        for number in (0, 1, 128, 255, 256, 299):
            assert np.allclose(vectors[number], embedder.embed([texts[number]])[0], atol=CLOSE)

    def test_a_text_is_nearer_to_one_with_its_words_than_to_one_without(self, embedder: Embedder) -> None:
        asked, near, far = embedder.embed(
            ["the ferry leaves at noon", "at noon the ferry leaves", "quarterly revenue fell sharply"]
        )
        assert asked @ near > asked @ far

    def test_writing_into_a_vector_does_not_change_the_next(self, embedder: Embedder) -> None:
        first = embedder.embed(TEXTS)
        kept = first.copy()
        first[:] = 0.0
        assert np.array_equal(embedder.embed(TEXTS), kept)

    def test_threads_get_what_one_alone_gets(self, embedder: Embedder) -> None:
        batches = [[f"{text} {number}" for text in TEXTS] for number in range(16)]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(embedder.embed, batches))
        for batch, vectors in zip(batches, together, strict=True):
            assert np.allclose(vectors, embedder.embed(batch), atol=CLOSE)

    def test_its_id_can_be_stored_and_stays(self, embedder: Embedder) -> None:
        before = embedder.id
        require_label("embedder", before)
        dimension = embedder.dimension
        embedder.embed(TEXTS)
        assert (embedder.id, embedder.dimension) == (before, dimension)

    def test_its_curve_rises_if_it_has_one(self, embedder: Embedder) -> None:
        calibration = embedder.calibration
        if calibration is not None:
            assert -1.0 < calibration.middle < 1.0
            assert calibration.steepness > 0.0

    def test_equal_weights_give_the_vector_of_the_words(self, embedder: Embedder) -> None:
        weighting = _weighting(embedder)
        words = ["ferry", "island", "noon"]
        vector = weighting.embed_weighted(words, [2.0, 2.0, 2.0])
        assert vector.shape == (1, embedder.dimension)
        assert vector.dtype == np.float32
        assert np.allclose(vector, embedder.embed([" ".join(words)]), atol=CLOSE)

    def test_a_heavier_word_draws_the_vector_to_itself(self, embedder: Embedder) -> None:
        weighting = _weighting(embedder)
        words = ["ferry", "island"]
        island = embedder.embed(["island"])[0]
        light, even, heavy = (weighting.embed_weighted(words, [1.0, weight])[0] for weight in (0.1, 1.0, 10.0))
        assert light @ island < even @ island < heavy @ island
        assert np.linalg.norm(heavy) == pytest.approx(1.0, abs=CLOSE)

    def test_a_word_without_weight_counts_as_absent(self, embedder: Embedder) -> None:
        weighting = _weighting(embedder)
        without = weighting.embed_weighted(["ferry", "the", "noon"], [1.0, 0.0, 3.0])
        assert np.allclose(without, weighting.embed_weighted(["ferry", "noon"], [1.0, 3.0]), atol=CLOSE)
        assert not np.allclose(without, weighting.embed_weighted(["ferry", "noon"], [3.0, 1.0]), atol=1e-2)

    def test_a_query_without_words_or_weights_still_has_a_vector(self, embedder: Embedder) -> None:
        weighting = _weighting(embedder)
        cases: list[tuple[list[str], list[float]]] = [([], []), (["ferry"], [0.0]), ([""], [1.0])]
        for words, weights in cases:
            vector = weighting.embed_weighted(words, weights)
            assert vector.shape == (1, embedder.dimension)
            assert np.linalg.norm(vector) == pytest.approx(1.0, abs=CLOSE)


def _weighting(embedder: Embedder) -> WeightingEmbedder:
    if not takes_weights(embedder):
        pytest.skip("its vectors are no sums over words")
    return embedder
