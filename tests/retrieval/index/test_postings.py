"""Words and the rows that hold them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.retrieval.analysis.analysed import Analysed
from recollect.retrieval.index.postings import Postings, unpack_postings


def _text(words: list[str]) -> Analysed:
    counts = Counter(words)
    return Analysed("en", " ".join(counts), bytes(min(count, 255) for count in counts.values()), len(words), 0, 0)


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
    assert postings.known({"boat", "ada", "nobody"}) == held & {"boat", "ada"}
    assert postings.letters == set("".join(held))


@pytest.mark.parametrize("beside", [0, 50])
def test_counts_are_limited_and_not_carried_over(beside: int) -> None:
    postings = Postings()
    texts = [_text(["boat"] * 300), *[_text(["rope"])] * beside]
    labels: list[frozenset[Any]] = [frozenset({"boat"}), *[frozenset[Any]()] * beside]
    postings.add(0, texts, labels)
    assert _found(postings, "boat") == [(0, 255.0, 1.0)]
    assert _found(postings, "boat", "rope")[0] == (0, 255.0, 1.0)
