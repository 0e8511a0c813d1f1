"""What the order of entries, their lengths and their kind do to a ranking: only as much as the shelf itself shows."""

from __future__ import annotations

import random
from typing import Any

import pytest

_BOATS = (
    "Heron Tern Gannet Petrel Curlew Avocet Dunlin Plover Whimbrel Godwit Turnstone Fulmar Kittiwake Guillemot".split()
)
_REPAIRS = (
    "varnish rudder winch halyard bilge galley compass stanchion tiller gasket spinnaker keel anchor cleat".split()
)
_SAID = [
    ("Did you see to the {repair} of the {boat}?", "Not yet, I was at the dentist with my {kin}."),
    ("What is left to do on the {boat}?", "The {repair}, before we sail to the {boat} rocks."),
    ("Who paid for the {repair}?", "My {kin} lent me the money for that {repair}."),
]
_KIN = "uncle niece brother grandmother cousin godfather nephew sister aunt stepson".split()


def _conversation(turns: int) -> list[str]:
    """Return a conversation in which each answer, and the question after it, go on about the same."""
    chosen = random.Random(7)
    texts: list[str] = []
    while len(texts) < turns:
        names = {"boat": chosen.choice(_BOATS), "repair": chosen.choice(_REPAIRS), "kin": chosen.choice(_KIN)}
        names = {name: f"{word}{len(texts) // 6 % 40}x" for name, word in names.items()}
        for question, answer in chosen.sample(_SAID, 3):
            texts += [question.format(**names), answer.format(**names)]
    return texts[:turns]


def _has_context(make_shelf: Any, ask: Any, texts: list[Any], query: str = "the dentist and the rocks") -> bool:
    return any("context" in one.why.parts for one in ask(make_shelf(texts), query, limit=400))


def test_a_conversation_lends_words_and_the_same_in_no_order_does_not(make_shelf: Any, ask: Any) -> None:
    talk = _conversation(240)
    assert _has_context(make_shelf, ask, talk)
    for seed in range(3):
        assert not _has_context(make_shelf, ask, random.Random(seed).sample(talk, len(talk)))


def test_entries_without_a_thread_lend_nothing_before_their_order_has_shown_anything(make_shelf: Any, ask: Any) -> None:
    notes = ["The rudder of the Heron0x is loose.", "It will be fixed in May.", "Soup on Friday."]
    assert not _has_context(make_shelf, ask, notes, "rudder")
    assert _has_context(make_shelf, ask, [(text, {"thread": "boats"}) for text in notes], "rudder")


def test_long_texts_say_by_themselves_what_they_are_about(make_shelf: Any, ask: Any) -> None:
    filler = " ".join(f"word{number}" for number in range(120))

    def context(addition: str) -> float:
        texts = ["The rudder of the Heron0x. " + addition, "It came off. " + addition, "Soup. " + addition]
        found = ask(make_shelf([(text, {"thread": 1}) for text in texts]), "rudder Heron0x")
        return next(one.why.parts["context"] for one in found if one.sequence == 2)

    assert 0 < context(filler) < 0.5 * context("")


@pytest.mark.parametrize("part", ["information", "answer"])
def test_priors_count_in_conversations_and_not_in_collections_of_papers(make_shelf: Any, ask: Any, part: str) -> None:
    papers = [f"Paper {number} of {' '.join(f'term{number}n{place}' for place in range(90))}" for number in range(60)]
    asked = "How many boats are there?"

    def largest(texts: list[str]) -> float:
        return max(one.why.parts.get(part, 0) for one in ask(make_shelf(texts), asked, limit=300))

    assert largest([*_conversation(240), "There are seven boats."]) > 0.1
    assert largest([*papers, "There are seven boats."]) < 0.05


def test_a_word_that_a_query_repeats_counts_more(make_shelf: Any, ask: Any) -> None:
    shelf = make_shelf(["a paper about sorting and tapes", "a paper about merging and disks"])
    assert ask(shelf, "sorting, merging; sorting", mode="keyword")[0].sequence == 1
    assert ask(shelf, "merging, sorting; merging", mode="keyword")[0].sequence == 2


def test_a_long_text_in_chinese_is_as_long_as_its_translation(make_shelf: Any, ask: Any) -> None:
    talk = ["你昨天把船修好了吗?", "还没有,我去看了牙医,下午才回来。", "那我们星期六还能出海吗?"]
    found = ask(make_shelf([(text, {"thread": 1}) for text in talk]), "修好了船")
    lent = {one.sequence: one.why.parts.get("context", 0) for one in found}
    assert lent[2] > 0.2
