"""Lines are ranked by the words they hold, the same way each time, over all archives together."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.bm25 import rank_lines

# Words that no language reduces or leaves out, so that counting them is all there is to it.
WORDS = ("heron", "weir", "otter", "walnut", "lantern", "granite")

lines = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), max_size=12)
queries = st.lists(st.sampled_from((*WORDS, "zeppelin")), min_size=1, max_size=4).map(" ".join)


def counted(query: str, texts: list[str]) -> list[tuple[int, float]]:
    """Return what BM25 says, written down as in the textbook."""
    documents = [text.split() for text in texts]
    average = sum(map(len, documents)) / len(documents) if documents else 0
    scores: list[tuple[int, float]] = []
    for place, document in enumerate(documents):
        score = 0.0
        for word in sorted(set(query.split())):
            frequency = document.count(word)
            holders = sum(word in other for other in documents)
            rarity = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
            score += rarity * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * len(document) / average))
        if score:
            scores.append((place, score))
    return scores


@given(queries, lines)
def test_scores_are_those_of_the_textbook(query: str, texts: list[str]) -> None:
    found = rank_lines(query, texts)
    assert dict(found) == pytest.approx(dict(counted(query, texts)))


@given(queries, lines)
def test_the_order_is_by_score_and_then_by_place(query: str, texts: list[str]) -> None:
    found = rank_lines(query, texts)
    assert found == sorted(found, key=lambda one: (-one[1], one[0]))
    assert all(score > 0 for _, score in found)
    assert {place for place, _ in found} == {
        place for place, text in enumerate(texts) if set(text.split()) & set(query.split())
    }


@given(queries, lines, st.randoms(use_true_random=False))
def test_the_order_of_the_lines_changes_no_score(query: str, texts: list[str], chance: random.Random) -> None:
    order = chance.sample(range(len(texts)), len(texts))
    shuffled = {order[place]: score for place, score in rank_lines(query, [texts[place] for place in order])}
    assert shuffled == pytest.approx(dict(rank_lines(query, texts)))


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=8))
def test_any_text_can_be_asked_for_and_looked_through(query: str, texts: list[str]) -> None:
    found = rank_lines(query, texts)
    assert [place for place, _ in found] == list(dict.fromkeys(place for place, _ in found))
    assert all(math.isfinite(score) and score > 0 for _, score in found)


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("RECEIPTS", "- receipt for the lantern"),
        ("lanterns", "- One lantern, two wicks"),
        ("INV-2041", "- paid INV-2041 on Monday"),
        ("inv2041", "- paid INV-2041 on Monday"),
        ("café", "- the Café at the weir"),
        ("Häuser", "- Das Haus am See und die Häuser daneben"),
        ("東京", "- 東京に住んでいます"),
    ],
)
def test_a_word_is_found_in_its_other_forms(query: str, line: str) -> None:
    assert [place for place, _ in rank_lines(query, ["- Tea at four", line])] == [1]


def test_words_that_every_sentence_has_find_nothing() -> None:
    texts = ["- The heron is at the weir", "- It was an otter"]
    assert rank_lines("where is the", texts) == []
    assert [place for place, _ in rank_lines("where is the otter", texts)] == [1]


def test_a_rare_word_counts_more_than_a_frequent_one() -> None:
    texts = ["heron walnut", "heron lantern", "heron granite", "heron otter"]
    [best, *others] = rank_lines("heron lantern", texts)
    assert best[0] == 1
    assert [place for place, _ in others] == [0, 2, 3]
