"""Cosines and shared words become relevances that mean the same for every embedder."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.model.entry import Calibration
from memoranda.retrieval.calibration import PAIRS, calibrate, cosines, fit
from memoranda.retrieval.embed.base import Vectors
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.retrieval.embed.wordllama import WordLlama
from memoranda.retrieval.rank import combine, relevance

unit = st.floats(0, 1)
CURVE = Calibration(middle=0.2, steepness=20.0)


@pytest.fixture(scope="module")
def measured() -> np.ndarray:
    return cosines(WordLlama())


def shares(matrix: np.ndarray, threshold: float) -> tuple[float, float]:
    """Return how many of the relevant and of the unrelated reach a threshold."""
    related = np.eye(len(matrix), dtype=bool)
    reached = matrix >= threshold
    return float(reached[related].mean()), float(reached[~related].mean())


def test_the_curve_of_the_default_embedder_is_what_its_pairs_give() -> None:
    fitted = calibrate(WordLlama())
    shipped = WordLlama().calibration
    assert shipped.middle == pytest.approx(fitted.middle, abs=0.001)
    assert shipped.steepness == pytest.approx(fitted.steepness, abs=0.1)


def test_most_relevant_texts_reach_the_usual_threshold_and_few_others(measured: np.ndarray) -> None:
    scores = relevance(measured, WordLlama().calibration)
    related, unrelated = shares(scores, 0.7)
    assert related > 0.7
    assert unrelated < 0.02
    assert shares(scores, 0.5)[1] < 0.05


@pytest.mark.parametrize("half", [0, 1])
def test_it_holds_on_pairs_that_were_not_fitted(measured: np.ndarray, half: int) -> None:
    chosen = np.arange(len(PAIRS)) % 2 == half
    curve = fit(measured[np.ix_(chosen, chosen)])
    related, unrelated = shares(relevance(measured[np.ix_(~chosen, ~chosen)], curve), 0.7)
    assert related > 0.65
    assert unrelated < 0.03


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("How can I get a refund?", "Returned goods are refunded within two weeks."),
        ("which bike should we buy for the kids", "The children want bicycles with gears and a bell."),
        ("database outage last night", "The Postgres server went down at 2 am and the database was restored at 4."),
    ],
)
def test_a_plain_paraphrase_reaches_the_usual_threshold_and_a_stranger_does_not(query: str, text: str) -> None:
    embedder = WordLlama()
    asked, near, far = embedder.embed([query, text, "Her cello teacher retired to the mountains."])
    near_score, far_score = relevance(np.array([asked @ near, asked @ far]), embedder.calibration)
    assert near_score >= 0.7
    assert far_score < 0.5


def test_the_middle_is_half() -> None:
    below, half, above = relevance(np.array([0.1, 0.2, 0.3]), CURVE)
    assert half == pytest.approx(0.5)
    assert below == pytest.approx(1 - above)
    assert above > 0.8


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=20))
def test_a_nearer_text_is_never_less_relevant(values: list[float]) -> None:
    scores = relevance(np.sort(values), CURVE)
    assert (np.diff(scores) >= 0).all()
    assert ((scores > 0) & (scores < 1)).all()


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_the_steepest_curve_overflows_nowhere(precision: type) -> None:
    steep = Calibration(middle=0.9, steepness=1_000.0)
    scores = relevance(np.array([-1, 0, 0.9, 1], precision), steep)
    assert scores == pytest.approx([0, 0, 0.5, 1], abs=1e-3)
    assert combine(scores, np.ones(4, precision))[-1] == pytest.approx(1.0)


@given(unit, unit, unit)
def test_more_of_either_is_never_less_relevant(low: float, high: float, other: float) -> None:
    low, high = sorted((low, high))
    scores = np.array([low, high])
    for combined in (combine(scores, np.full(2, other)), combine(np.full(2, other), scores)):
        assert combined[0] <= combined[1] + 1e-12
        assert ((combined >= 0) & (combined <= 1)).all()


@given(unit)
def test_without_shared_words_the_meaning_decides(semantic: float) -> None:
    assert combine(np.array([semantic]), np.zeros(1))[0] == pytest.approx(semantic)


def test_all_words_of_a_query_make_an_entry_relevant_whatever_the_vectors_say() -> None:
    strangers = relevance(np.array([0.0]), WordLlama().calibration)
    assert strangers[0] < 0.1
    assert combine(strangers, np.ones(1))[0] >= 0.7
    assert combine(strangers, np.full(1, 0.3))[0] < 0.5


def test_shared_words_cost_no_precision_on_the_pairs(measured: np.ndarray) -> None:
    words = [[set(re.findall(r"\w{4,}", text.casefold())) for text in side] for side in zip(*PAIRS, strict=True)]
    shared = np.array([[len(query & text) / max(1, len(query)) for text in words[1]] for query in words[0]])
    alone = relevance(measured, WordLlama().calibration)
    both = combine(alone, shared)
    assert shares(both, 0.7)[0] >= shares(alone, 0.7)[0]
    assert shares(both, 0.7)[1] < 0.02
    assert (both > alone).any()


def test_an_embedder_that_tells_all_apart_gets_a_finite_curve() -> None:
    curve = fit(np.eye(30))
    assert 0.3 < curve.middle < 0.7
    assert relevance(np.array([1.0]), curve)[0] > 0.95
    assert relevance(np.array([0.0]), curve)[0] < 0.05


class Constant:
    """An embedder to whom all texts are one."""

    id = "constant"
    dimension = 2
    calibration = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.tile(np.array([1, 0], np.float32), (len(texts), 1))


@pytest.mark.parametrize("embedder", [Constant(), Hashing(2), Hashing(256)], ids=lambda one: one.id)
def test_an_embedder_that_tells_nothing_apart_gets_a_plain_curve(embedder: Constant | Hashing) -> None:
    curve = calibrate(embedder)
    assert curve == Calibration(middle=0.5, steepness=10.0)
    assert calibrate(WordLlama()) != curve


def test_no_two_pairs_share_a_text() -> None:
    assert len({query for query, _ in PAIRS}) == len({text for _, text in PAIRS}) == len(PAIRS) >= 60
