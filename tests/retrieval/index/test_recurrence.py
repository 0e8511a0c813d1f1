"""How often rare words recur from one entry to the next."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.index.recurrence import measure_recurrence

_ROWS = st.lists(
    st.tuples(st.frozensets(st.integers(0, 30), max_size=6), st.integers(0, 2), st.booleans()), min_size=1, max_size=40
)


def _slowly(rows: list[tuple[frozenset[int], int, bool]], group: int) -> float:
    texts = [words for words, of, present in rows if of == group and present]
    count, links = len(texts), max(len(texts) - 1, 0)
    holders = {word: sum(word in text for text in texts) for text in texts for word in text}
    rare = {word: found for word, found in holders.items() if 2 <= found <= max(4, count // 50)}
    recurs = sum(len(one & other & rare.keys()) for one, other in itertools.pairwise(texts))
    chance = sum(links * found * (found - 1) / (count * (count - 1)) for found in rare.values())
    return max(recurs - chance - 2 * recurs**0.5, 0) / max(sum(rare.values()), 1)


def _measure(rows: list[tuple[frozenset[int], int, bool]]) -> Any:
    last: dict[int, int] = {}
    previous: list[int] = []
    for row, (_, group, present) in enumerate(rows):
        previous.append(last.get(group, -1) if present else -1)
        if present:
            last[group] = row
    present = np.array([one for _, _, one in rows])
    words = [number for text, _, _ in rows for number in sorted(text)]
    return measure_recurrence(
        np.array(words, np.uint32),
        np.array([len(text) for text, _, _ in rows], np.intp),
        vocabulary=31,
        previous=np.array(previous),
        group=np.array([group for _, group, _ in rows]),
        groups=3,
        present=None if present.all() else present,
    )


@given(rows=_ROWS)
def test_it_is_what_a_slow_count_says(rows: list[tuple[frozenset[int], int, bool]]) -> None:
    assert _measure(rows).tolist() == pytest.approx([_slowly(rows, group) for group in range(3)])


def _course(count: int, seed: int = 5) -> list[frozenset[int]]:
    """Return texts each of which has one of the rare words of the text before."""
    random = np.random.default_rng(seed)
    texts = [set(random.integers(0, 2_000, 8).tolist()) for _ in range(count)]
    for before, after in itertools.pairwise(texts):
        after.add(int(random.choice(sorted(before))))
    return [frozenset(text) for text in texts]


def test_a_course_is_told_from_no_order() -> None:
    texts = _course(1_000)
    shuffled = [texts[place] for place in np.random.default_rng(1).permutation(len(texts))]
    assert _measure([(text, 0, True) for text in texts])[0] > 0.06
    assert _measure([(text, 0, True) for text in shuffled])[0] == 0


def test_of_many_words_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(text, 0, True) for text in _course(2_000)]
    every = _measure(rows)[0]
    monkeypatch.setattr("memoranda.retrieval.index.recurrence._MOST", 4_000)
    some = _measure(rows)[0]
    assert some != every
    assert some == pytest.approx(every, rel=0.25)
