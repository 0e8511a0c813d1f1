"""Posting lists: words and the rows that contain them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.analysis.analyser import Analysis
from memoranda.retrieval.index.postings import Postings, unpack_postings


def _text(words: list[str]) -> Analysis:
    counts = Counter(words)
    return Analysis("en", " ".join(counts), bytes(min(count, 255) for count in counts.values()), len(words), 0, 0)


def _found(postings: Postings, *words: str) -> list[tuple[int, float, float]]:
    rows, counts, labels = unpack_postings(postings.find(words))
    return list(zip(rows.tolist(), counts.tolist(), labels.tolist(), strict=True))


_ROWS = st.lists(
    st.tuples(
        st.lists(st.sampled_from("boat rope storm map é 港".split()), max_size=6),
        st.frozensets(st.sampled_from("boat ada 2023".split()), max_size=2),
    ),
    min_size=1,
    max_size=90,
)


@given(rows=_ROWS, portion=st.sampled_from([1, 10, 31, 90]), gone=st.sets(st.integers(0, 89)))
def test_postings_are_the_rows_that_hold_a_word(
    rows: list[tuple[list[str], frozenset[str]]], portion: int, gone: set[int]
) -> None:
    postings = Postings()
    for start in range(0, len(rows), portion):
        some = rows[start : start + portion]
        postings.add(start, [_text(words) for words, _ in some], [labels for _, labels in some])

    def expected(*asked: str) -> list[tuple[int, float, float]]:
        return [
            (row, float(sum(words.count(word) for word in asked)), float(bool(labels & set(asked))))
            for row, (words, labels) in enumerate(rows)
            if set(asked) & (set(words) | labels)
        ]

    for asked in (("boat",), ("ada",), ("boat", "rope"), ("boat", "rope", "ada", "nobody"), ("nobody",), ()):
        assert _found(postings, *asked) == expected(*asked)

    kept = [row for row in range(len(rows)) if row not in gone]
    renumbered = np.full(len(rows), -1, np.int64)
    renumbered[kept] = np.arange(len(kept))
    postings.keep(renumbered)
    rows = [rows[row] for row in kept]
    for asked in (("boat",), ("ada",), ("boat", "rope")):
        assert _found(postings, *asked) == expected(*asked)
    held = {word for words, labels in rows for word in (*words, *labels)}
    assert postings.vocabulary({"boat", "ada", "nobody"}) == held & {"boat", "ada"}
    assert postings.letters == set("".join(held))


@pytest.mark.parametrize("compared_at_once", [1, 2, 3, 7, 64, 65, 1_000])
def test_a_word_of_text_and_metadata_is_one_posting_wherever_they_are_compared(
    compared_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoranda.retrieval.index.postings._PORTION", compared_at_once)
    postings = Postings()
    postings.add(0, [_text(["boat"])] * 50, [frozenset({"boat"} if row % 3 else {"ada"}) for row in range(50)])
    assert _found(postings, "boat") == [(row, 1.0, float(row % 3 > 0)) for row in range(50)]
    assert _found(postings, "ada") == [(row, 0.0, 1.0) for row in range(0, 50, 3)]


@given(portions=st.lists(st.sampled_from([1, 3, 32, 40, 120]), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_postings_ascend_however_their_rows_came(portions: list[int], seed: int) -> None:
    """Many rows and few, at times asked in between: some are sorted, some came later, some are yet to be sorted."""
    random = np.random.default_rng(seed)
    vocabulary = [f"w{number}" for number in range(40)]
    postings = Postings()
    expected: dict[str, list[tuple[int, float, float]]] = {word: [] for word in vocabulary}
    first = 0
    for size in portions:
        texts: list[list[str]] = [random.choice(vocabulary, random.integers(0, 5)).tolist() for _ in range(size)]
        actors = [frozenset({vocabulary[random.integers(40)]}) for _ in range(size)]
        dates = [frozenset(random.choice(vocabulary, random.integers(0, 3)).tolist()) for _ in range(size)]
        postings.add(first, [_text(words) for words in texts], actors, dates)
        for row, (words, actor, date) in enumerate(zip(texts, actors, dates, strict=True), start=first):
            for word in {*words, *actor, *date}:
                expected[word].append((row, float(words.count(word)), float(word in actor | date)))
        first += size
        if random.integers(2):
            asked = vocabulary[random.integers(40)]
            assert _found(postings, asked) == expected[asked]
    assert {word: _found(postings, word) for word in vocabulary} == expected
    assert postings.letters == set("".join(word for word in vocabulary if expected[word]))


@pytest.mark.parametrize("beside", [0, 50])
def test_counts_are_limited_and_not_carried_over(beside: int) -> None:
    postings = Postings()
    texts = [_text(["boat"] * 300), *[_text(["rope"])] * beside]
    labels: list[frozenset[Any]] = [frozenset({"boat"}), *[frozenset[Any]()] * beside]
    postings.add(0, texts, labels)
    assert _found(postings, "boat") == [(0, 255.0, 1.0)]
    assert _found(postings, "boat", "rope")[0] == (0, 255.0, 1.0)
