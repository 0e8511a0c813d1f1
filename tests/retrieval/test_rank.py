"""The order of entries, their scores and their reasons."""

from __future__ import annotations

import itertools
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.model.entry import Calibration
from memoranda.retrieval.index.shelf import ShelfIndex

_TALK = [
    ("Which boat did you take to the island?", {"thread": "trip", "actor": "Ada", "time": "2023-05-08T09:00:00Z"}),
    ("The old one with the red sail.", {"thread": "trip", "actor": "Grace", "time": "2023-05-08T09:01:00Z"}),
    ("It rained for three days after that.", {"thread": "trip", "actor": "Ada", "time": "2023-05-08T09:02:00Z"}),
    ("We had soup in the kitchen.", {"thread": "home", "actor": "Grace", "time": "2024-11-02T18:00:00Z"}),
    ("My cousin Linus came to visit from Oslo.", {"thread": "home", "actor": "Ada", "time": "2024-11-02T18:05:00Z"}),
    ("The cat slept on the chair.", {"thread": "home", "actor": "Grace", "time": "2024-11-02T18:09:00Z"}),
]  # fmt: skip


def _plain(texts: list[Any]) -> list[str]:
    return [text for text, _ in texts]


def _parts(ranked: list[Any], name: str) -> dict[int, float]:
    return {one.sequence: one.why.parts[name] for one in ranked if name in one.why.parts}


def test_the_entry_with_the_rare_words_comes_first(make_shelf: Any, ask: Any) -> None:
    for mode in ("hybrid", "keyword", "semantic"):
        assert ask(make_shelf(_plain(_TALK)), "cousin from Oslo", mode=mode)[0].sequence == 5


def test_an_answer_is_found_by_the_words_of_its_question(make_shelf: Any, ask: Any) -> None:
    ranked = ask(make_shelf(_TALK), "boat to the island")
    context = _parts(ranked, "context")
    assert context[2] > context[3] > context.get(5, 0)
    assert ranked[1].sequence == 2
    assert ranked[1].why.matched == ()
    assert "coverage" not in ranked[1].why.parts


def test_context_stays_inside_thread_and_namespace(make_rows: Any, ask: Any) -> None:
    def context_of_second(first: dict[str, Any], second: dict[str, Any], namespaces: tuple[str, str]) -> float:
        index = ShelfIndex(64)
        index.add(make_rows([("Which boat is at the pier?", first)], namespace=namespaces[0]))
        index.add(make_rows([("The old one.", second)], first=2, namespace=namespaces[1]))
        return _parts(ask(index, "boat pier"), "context").get(2, 0)

    assert context_of_second({"thread": "a"}, {"thread": "a"}, ("", "")) > 0
    assert context_of_second({"session": 1}, {"session": 1}, ("", "")) > 0
    assert context_of_second({}, {}, ("x", "x")) == 0
    assert context_of_second({"thread": "a"}, {"thread": "b"}, ("", "")) == 0
    assert context_of_second({"thread": "a"}, {}, ("", "")) == 0
    assert context_of_second({"thread": "a"}, {"thread": "a"}, ("x", "y")) == 0
    assert context_of_second({}, {}, ("x", "y")) == 0


def test_a_thread_of_one_entry_lends_it_nothing(make_shelf: Any, ask: Any) -> None:
    def context(*threads: str) -> dict[int, float]:
        shelf = make_shelf([(text, {"thread": thread}) for text, thread in zip(_plain(_TALK), threads, strict=True)])
        return _parts(ask(shelf, "boat to the island"), "context")

    assert context("a", "b", "c", "d", "e", "f") == {}
    assert set(context("a", "a", "c", "d", "e", "f")) == {1, 2}


def test_each_part_is_there_when_query_and_metadata_are_and_else_not(make_shelf: Any, ask: Any) -> None:
    full, plain = make_shelf(_TALK), make_shelf(_plain(_TALK))
    query = "When did Ada rain soup in November 2024?"
    assert _parts(ask(full, query), "actor") == {1: 0.15, 3: 0.15, 5: 0.15}
    assert _parts(ask(full, query), "date") == {4: 0.4, 5: 0.4, 6: 0.4}
    assert set(_parts(ask(full, query), "answer")) == set(_parts(ask(plain, query), "answer")) == {3}
    assert _parts(ask(plain, query), "actor") == _parts(ask(plain, query), "date") == {}
    assert _parts(ask(full, "rain soup"), "actor") == _parts(ask(full, "rain soup"), "date") == {}
    assert _parts(ask(full, "Ada and Grace in May 2023"), "actor") == {}
    assert set(_parts(ask(full, "Ada and Grace in May 2023"), "date")) == {1, 2, 3}
    assert _parts(ask(full, "rain soup"), "answer") == {}
    assert set(_parts(ask(full, "who came"), "answer")) == {5}
    assert set(_parts(ask(full, "how many days"), "answer")) == {3}
    assert _parts(ask(plain, "soup"), "question") == {1: -0.15}
    assert set(_parts(ask(plain, "soup"), "information")) == {1, 2, 3, 4, 5, 6}
    assert _parts(ask(plain, "zebra"), "coverage") == {}
    assert _parts(ask(plain, "soup"), "coverage") != {}


def test_words_of_metadata_are_found_but_not_lent(make_shelf: Any, ask: Any) -> None:
    index = make_shelf([("a soup", {"actor": "Ada", "thread": 1}), ("a cake", {"thread": 1}), ("bread", {"thread": 1})])
    found = ask(index, "Ada", mode="keyword")
    assert [one.sequence for one in found] == [1]
    assert found[0].why.matched == ("Ada",)
    assert _parts(ask(index, "Ada"), "context") == {}
    assert set(_parts(ask(index, "soup"), "context")) == {1, 2, 3}


def test_a_filter_says_what_is_found_and_not_what_is_heard(make_shelf: Any, ask: Any) -> None:
    index = make_shelf(_TALK)
    of_grace = ask(index, "boat to the island", filter={"actor": "Grace"})
    assert of_grace[0].sequence == 2
    assert {one.sequence for one in of_grace} == {2, 4, 6}
    everyone = {one.sequence: one.why for one in ask(index, "boat to the island")}
    for one in of_grace:
        assert one.why == everyone[one.sequence]
    assert ask(index, "boat to the island", filter={"actor": "Nobody"}) == []


def test_a_removed_entry_lends_nothing(make_shelf: Any, ask: Any) -> None:
    index = make_shelf(_TALK)
    assert 2 in _parts(ask(index, "boat to the island"), "context")
    index.remove([1])
    assert _parts(ask(index, "boat to the island"), "context") == {}
    assert {one.sequence for one in ask(index, "boat to the island")} == {2, 3, 4, 5, 6}


def test_keyword_finds_only_entries_with_a_word_and_needs_no_vector(make_shelf: Any, ask: Any) -> None:
    found = ask(make_shelf(_TALK), "boat soup", mode="keyword")
    assert [one.sequence for one in found] == [1, 4] or [one.sequence for one in found] == [4, 1]
    for one in found:
        assert one.why.cosine is None
        assert set(one.why.parts) <= {"coverage", "context"}
        assert one.why.relevance == one.why.lexical == one.score > 0
    assert len(ask(make_shelf(_TALK), "boat soup")) == 6


def test_semantic_orders_by_cosine_alone(make_shelf: Any, ask: Any) -> None:
    found = ask(make_shelf(_TALK), "the cat slept", mode="semantic")
    cosines = [one.why.cosine for one in found]
    assert cosines == sorted(cosines, reverse=True)
    assert found[0].sequence == 6
    assert all(one.why.parts == {"dense": one.why.cosine} and one.why.total == one.why.cosine for one in found)
    assert all(one.why.lexical is None for one in found)


def test_relevance_follows_the_calibration(make_shelf: Any, ask: Any) -> None:
    index = make_shelf(_TALK)
    strict = ask(index, "the cat slept", mode="semantic", calibration=Calibration(0.9, 20.0))
    mild = ask(index, "the cat slept", mode="semantic", calibration=Calibration(0.1, 20.0))
    assert [one.sequence for one in strict] == [one.sequence for one in mild]
    assert all(low.score < high.score for low, high in zip(strict, mild, strict=True))
    cosine = mild[0].why.cosine
    assert mild[0].score == pytest.approx(1 / (1 + np.exp(-20 * (cosine - 0.1))))


def test_words_that_nobody_has_make_a_match_less_relevant(make_shelf: Any, ask: Any) -> None:
    index = make_shelf(_TALK)
    whole = ask(index, "soup kitchen", mode="keyword")[0]
    part = ask(index, "soup kitchen submarine periscope", mode="keyword")[0]
    assert whole.sequence == part.sequence == 4
    assert whole.why.lexical == pytest.approx(1)
    assert part.why.lexical < 0.6


_QUERIES = st.lists(st.sampled_from("boat island soup cat Ada Oslo zebra when who chair rained".split()), max_size=6)


@given(words=_QUERIES, mode=st.sampled_from(["hybrid", "keyword", "semantic"]), limit=st.integers(0, 7))
def test_a_score_is_what_the_entry_earned_itself_and_the_limit_only_cuts(
    make_shelf: Any, ask: Any, words: list[str], mode: str, limit: int
) -> None:
    index = make_shelf(_TALK)
    query = " ".join(words)
    everything = ask(index, query, mode=mode, limit=100)
    assert ask(index, query, mode=mode, limit=limit) == everything[:limit]
    totals = [round(one.why.total, 4) for one in everything]
    assert totals == sorted(totals, reverse=True)
    for one in everything:
        assert 0 <= one.score == one.why.relevance <= 1
        assert one.why.total == pytest.approx(sum(one.why.parts.values()), abs=1e-9)


@given(words=_QUERIES, threshold=st.floats(0, 1))
def test_a_threshold_leaves_out_what_scores_below_it_and_keeps_the_order(
    make_shelf: Any, ask: Any, words: list[str], threshold: float
) -> None:
    index = make_shelf(_TALK)
    everything = ask(index, " ".join(words))
    assert ask(index, " ".join(words), threshold=threshold) == [one for one in everything if one.score >= threshold]


def test_an_entry_that_holds_every_word_has_a_score_of_exactly_one(make_shelf: Any, ask: Any) -> None:
    words = [f"w{number}x" for number in range(12)]
    index = make_shelf([" ".join(words), *(" ".join(words[:count]) for count in range(1, 12))])
    for count in range(1, 13):
        asked = " ".join(words[:count])
        assert ask(index, asked, mode="keyword")[0].score == 1
    assert ask(index, "w0x w99x", mode="keyword")[0].score < 1


@pytest.mark.parametrize("filter", [None, {"actor": "Ada"}])
def test_what_scores_below_a_threshold_leaves_its_place_to_others(make_shelf: Any, ask: Any, filter: Any) -> None:
    # The first may say what was asked about, and comes behind because it asks.
    texts = ["Did the boat leave the island?", "It left at noon.", "soup", "the boat of the island was late", "rope"]
    index = make_shelf([(text, {"actor": "Ada", "thread": "a"}) for text in texts])
    queries = ("boat", "island boat", "the boat left the island", "leave at noon", "soup rope", "late")
    every = {query: ask(index, query, filter=filter) for query in queries}
    for query, limit in itertools.product(queries, range(1, 5)):
        good = [one for one in every[query] if one.score >= 0.5]
        assert good
        assert ask(index, query, filter=filter, limit=limit, threshold=0.5) == good[:limit]
    assert any(before.score < after.score for found in every.values() for before, after in pairwise(found))


def test_a_threshold_keeps_what_fits_and_drops_what_does_not(make_shelf: Any, ask: Any) -> None:
    index = make_shelf(_TALK)
    assert [one.sequence for one in ask(index, "cousin Linus visit from Oslo", threshold=0.7)][:1] == [5]
    assert ask(index, "quarterly tax declaration", threshold=0.7) == []


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
@pytest.mark.parametrize("copies", [3, 17, 64])
def test_of_equal_entries_the_older_comes_first(make_shelf: Any, ask: Any, mode: str, copies: int) -> None:
    texts = ["Nothing of the kind.", *["The cat slept on the chair."] * copies]
    metadata = [{"thread": str(place)} for place in range(copies + 1)]
    index = make_shelf(list(zip(texts, metadata, strict=True)))
    found = ask(index, "cat on the chair", mode=mode, limit=copies)
    assert [one.sequence for one in found] == list(range(2, copies + 2))
    assert [one.sequence for one in ask(index, "cat on the chair", mode=mode, limit=2)] == [2, 3]


def test_equal_entries_stay_in_order_when_products_differ_in_their_last_bits(
    make_shelf: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_shelf([("The cat slept on the chair.", {"thread": str(place)}) for place in range(9)])
    product = type(index.vectors).product

    def noisy(table: Any, query: Any) -> Any:
        return product(table, query) + np.arange(9, dtype=np.float32) * np.float32(1e-7)

    monkeypatch.setattr(type(index.vectors), "product", noisy)
    for mode in ("hybrid", "semantic"):
        assert [one.sequence for one in ask(index, "cat on the chair", mode=mode)] == list(range(1, 10))
        assert [one.sequence for one in ask(index, "cat on the chair", mode=mode, limit=3)] == [1, 2, 3]


def test_expand_gives_the_neighbours_in_the_thread(make_shelf: Any, ask: Any) -> None:
    index = make_shelf(_TALK)
    found = {one.sequence: (one.before, one.after) for one in ask(index, "boat island", expand=1)}
    assert found[2] == ((1,), (3,))
    assert found[1] == ((), (2,))
    assert found[4] == ((), (5,))
    found = {one.sequence: (one.before, one.after) for one in ask(index, "boat", expand=5, filter={"actor": "Ada"})}
    assert found[3] == ((1, 2), ())
    index.remove([2])
    found = {one.sequence: (one.before, one.after) for one in ask(index, "boat island", expand=1)}
    assert found[3] == ((1,), ())
    assert all(one.before == one.after == () for one in ask(index, "boat island"))


def test_a_mistyped_word_is_told_and_found(make_shelf: Any, ask: Any) -> None:
    found = ask(make_shelf(_TALK), "kitchn soup", mode="keyword")[0]
    assert found.sequence == 4
    assert found.why.corrected == {"kitchn": "kitchen"}
    assert found.why.matched == ("kitchn", "soup")
    assert ask(make_shelf(_TALK), "kitchen soup", mode="keyword")[0].why.corrected == {}


def test_texts_without_spaces_are_found(make_shelf: Any, ask: Any) -> None:
    index = make_shelf(["猫が椅子の上で寝ていた。", "台所でスープを飲んだ。", "島へ行く船に乗った。"])
    for mode in ("hybrid", "keyword"):
        assert ask(index, "スープはどこで飲みましたか", mode=mode)[0].sequence == 2
        assert ask(index, "島への船", mode=mode)[0].sequence == 3


def test_languages_meet_on_one_shelf(make_shelf: Any, ask: Any) -> None:
    index = make_shelf(
        [
            "The boats were lying in the harbour because of the storm",
            "Die Schiffe lagen wegen des Sturms nicht im Hafen und wir warteten",
            "Les bateaux étaient dans le port à cause de la tempête",
        ]
    )
    assert ask(index, "Wo lag das Schiff im Sturm?", mode="keyword")[0].sequence == 2
    assert ask(index, "Où est le bateau dans la tempête ?", mode="keyword")[0].sequence == 3
    assert ask(index, "boat in a storm", mode="keyword")[0].sequence == 1
    # A query too short to tell its language is looked for in all of them.
    assert ask(index, "Schiff", mode="keyword")[0].sequence == 2


def test_a_query_with_very_many_words_is_judged_by_the_rarest(make_shelf: Any, ask: Any) -> None:
    texts = [" ".join(f"w{number}x" for number in range(start, start + 100)) for start in range(0, 300, 100)]
    index = make_shelf([*texts, *texts[:2], "a lighthouse"])
    query = " ".join(f"w{number}x" for number in range(200)) + " lighthouse"
    found = {one.sequence: one.why.matched for one in ask(index, query, mode="keyword")}
    assert found[6] == ("lighthouse",)
    assert 0 < len(found[1]) < 100
    few = " ".join(f"w{number}x" for number in range(60))
    assert len(ask(index, few, mode="keyword")[0].why.matched) == 60


def test_many_terms_are_laid_out_in_several_tables(make_shelf: Any, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    index = make_shelf(_TALK)
    at_once = ask(index, "boat island soup kitchen cat chair")
    monkeypatch.setattr("memoranda.retrieval.coverage._LARGEST_TABLE", 15)
    assert ask(index, "boat island soup kitchen cat chair") == at_once


def test_an_empty_shelf_gives_nothing(ask: Any) -> None:
    for mode in ("hybrid", "keyword", "semantic"):
        assert ask(ShelfIndex(64), "boat", mode=mode) == []
