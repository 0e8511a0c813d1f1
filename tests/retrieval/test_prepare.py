"""What is looked for, and what an embedder is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from memoranda.model.entry import Calibration
from memoranda.retrieval.embed.base import Vectors
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.retrieval.embed.registry import resolve
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.rank import embed_query, knowledge, prepare

_LOG = [
    "Grace sailed the old boat to Brest",
    "Grace bought a new anchor for the boat",
    "Grace repaired the engine of the boat",
    "Grace painted the harbour at night",
]


class Reading:
    """An embedder that reads whole texts, and remembers which."""

    id, dimension, calibration = "reading:8", 8, Calibration(0.5, 10.0)

    def __init__(self) -> None:
        self.read: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.read += texts
        return np.eye(len(texts), 8, dtype=np.float32)


def _weights(index: ShelfIndex, query: str) -> dict[str, float]:
    prepared = prepare(index, query, now=0)
    return dict(zip(prepared.words, prepared.weights, strict=True))


def test_a_word_weighs_as_much_as_it_is_rare(make_shelf: Any) -> None:
    weights = _weights(make_shelf(_LOG), "Has Grace a boat with an anchor or a submarine")
    assert weights["submarine"] > weights["anchor"] > weights["boat"] > weights["Grace"] > 0


def test_an_actor_that_nearly_all_entries_have_weighs_little(make_shelf: Any) -> None:
    told = make_shelf([("the old boat", {"actor": "Ada"}), ("a new anchor", {"actor": "Ada"}), ("a map", {})])
    untold = make_shelf(["the old boat", "a new anchor", "a map"])
    assert _weights(told, "Ada anchor")["Ada"] < _weights(told, "Ada anchor")["anchor"]
    assert _weights(untold, "Ada anchor")["Ada"] > _weights(untold, "Ada anchor")["anchor"]


def test_an_embedder_that_weights_words_is_given_the_weights(make_shelf: Any) -> None:
    index, embedder = make_shelf(_LOG), Hashing(64)
    prepared = prepare(index, "Grace and the anchor", now=0)
    vector = embed_query(embedder, prepared)
    assert vector.shape == (64,)
    both = embedder.embed(["anchor", "Grace"])
    assert float(both[0] @ vector) > float(both[1] @ vector)


def test_an_embedder_that_reads_texts_is_given_them_without_frequent_words(make_shelf: Any) -> None:
    embedder = Reading()
    vector = embed_query(embedder, prepare(make_shelf(_LOG), "Where did Grace buy the anchor?", now=0))
    assert vector.shape == (8,)
    assert embedder.read == ["Where did buy the anchor?"]
    embed_query(embedder, prepare(ShelfIndex(8), "Where did Grace buy the anchor?", now=0))
    assert embedder.read[1] == "Where did Grace buy the anchor?"


def test_a_query_of_which_every_word_is_frequent_is_still_given(make_shelf: Any) -> None:
    embedder = Reading()
    embed_query(embedder, prepare(make_shelf(_LOG), "Grace boat", now=0))
    assert embedder.read == ["Grace boat"]


@pytest.mark.parametrize("mode", ["semantic", "keyword"])
def test_only_a_hybrid_ranking_needs_to_know_what_a_query_expects(make_shelf: Any, mode: Any) -> None:
    index, query = make_shelf(_LOG), "When did Grace buy the ancor?"
    whole, part = prepare(index, query, now=0), prepare(index, query, now=0, mode=mode)
    assert whole.query.expects != 0 == part.query.expects
    assert (part.terms, part.corrected, part.words, part.weights, part.text) == (
        (whole.terms, whole.corrected, whole.words, whole.weights, whole.text)
    )


@pytest.mark.parametrize("query", ["", "   ", "?!", "the of and", "\x00", "🙂"])
def test_a_query_without_words_is_no_error(make_shelf: Any, ask: Any, query: str) -> None:
    index = make_shelf(_LOG)
    assert prepare(index, query, now=0).terms == ()
    assert len(ask(index, query)) == 4
    assert ask(index, query, mode="keyword") == []
    assert len(ask(index, "anchor", mode="keyword")) == 1


@pytest.mark.parametrize(
    ("mistyped", "meant"), [("ancor", "anchor"), ("anchorr", "anchor"), ("amchor", "anchor"), ("acnhor", "anchor")]
)
def test_a_word_that_nobody_has_is_corrected_by_one_letter(make_shelf: Any, mistyped: str, meant: str) -> None:
    prepared = prepare(make_shelf(_LOG), f"the {mistyped}", now=0)
    assert prepared.corrected == {mistyped: meant}
    assert prepare(make_shelf(_LOG), f"the {meant}", now=0).corrected == {}


@pytest.mark.parametrize("word", ["anxxor", "bat", "INV-2041", "4711", "港口"])
def test_what_is_further_away_or_short_or_no_word_is_left_alone(make_shelf: Any, word: str) -> None:
    index = make_shelf([*_LOG, "INV-2042", "港湾"])
    prepared = prepare(index, f"{word} enginne", now=0)
    assert set(prepared.corrected) == {"enginne"}


def test_a_correction_keeps_the_first_letter_and_prefers_the_frequent_word(make_shelf: Any) -> None:
    index = make_shelf(["a mast", "the cart", "one cart", "a card", "the hart", "some hart", "more hart"])
    assert prepare(make_shelf(["a barn", "the hart", "one hart"]), "bart", now=0).corrected == {"bart": "barn"}
    assert prepare(make_shelf(["a farm", "the hart", "one hart"]), "bart", now=0).corrected == {"bart": "hart"}
    assert prepare(index, "cartt", now=0).corrected == {"cartt": "cart"}
    assert prepare(index, "carx", now=0).corrected == {"carx": "cart"}
    index.remove([2, 3])
    assert prepare(index, "carx", now=0).corrected == {"carx": "card"}
    index.remove([4])
    assert prepare(index, "carx", now=0).corrected == {}


def test_a_corrected_word_counts_less(make_shelf: Any) -> None:
    index = make_shelf(_LOG)
    assert _weights(index, "acnhor")["acnhor"] == pytest.approx(0.7 * _weights(index, "anchor")["anchor"])


_IN_LANGUAGES = {
    "en": "Which harbour has the broken lighthouse?",
    "de": "Welcher Hafen hat den kaputten Leuchtturm?",
    "ru": "Какая гавань, где сломанный маяк?",
    "el": "Ποιο λιμάνι έχει τον σπασμένο φάρο;",
    "ar": "أي ميناء فيه المنارة المكسورة؟",
    "zh": "哪个港口有坏掉的灯塔?",
    "th": "ท่าเรือไหนมีประภาคารที่เสีย",
}


def test_the_default_embedder_knows_english_some_of_its_neighbours_and_no_other_script(make_shelf: Any) -> None:
    embedder = resolve("wordllama")
    known = {
        language: knowledge(embedder, prepare(make_shelf([text]), text, now=0))
        for language, text in _IN_LANGUAGES.items()
    }
    assert known["en"] == 1
    assert 0.4 < known["de"] < 1
    assert 0.1 < known["ru"] < 0.8
    assert known["el"] == known["ar"] == known["zh"] == known["th"] == 0


def test_an_embedder_that_does_not_say_what_it_knows_counts_fully(make_shelf: Any) -> None:
    assert knowledge(Hashing(64), prepare(make_shelf(["a boat"]), "a boat", now=0)) == 1


def test_the_vector_counts_as_much_as_the_embedder_knows(make_shelf: Any, ask: Any) -> None:
    shelf = make_shelf(["the boat in the harbour", "soup in the kitchen", "a cat on a chair"])

    def dense(knows: float) -> dict[int, float]:
        return {one.sequence: one.why.parts.get("dense", 0) for one in ask(shelf, "boat", knows=knows)}

    whole, half = dense(1), dense(0.5)
    assert half == pytest.approx({sequence: amount / 2 for sequence, amount in whole.items()}, abs=1e-5)
    found = ask(shelf, "boat", knows=0)
    assert [one.why.cosine for one in found] == [None] * 3
    assert found[0].sequence == 1
