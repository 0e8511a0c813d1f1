"""Input that is empty, mixed, huge, repeated or strange: what a ranking makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.model.entry import MODES
from memoranda.retrieval.index.shelf import ShelfIndex

_STRANGE = [
    "🎉🎉🎉",
    "👩‍👩‍👧‍👦 and 🚢",
    "42",
    "3.14159 2.71828 1.41421",
    "x",
    "???",
    "SELECT * FROM boats WHERE id = 7; -- drop",
    "def sail(boat: Boat) -> None:\n    return boat.go(1 / 0)",
    "| boat | length |\n|---|---|\n| Heron | 12.5 |\n| Tern | 9 |",
    "\u202eright to left\u202c and \u0000 nothing",
    "a" * 5_000,
    "船は港にあります。",
    "القارب في الميناء",
    "Das Boot liegt im Hafen, weil der Motor nicht läuft.",
    "เรืออยู่ในท่าเรือ",
]
_ASKED = [*_STRANGE, "", " ", "boat", "where is the Heron?", "boat " * 500, "7", "🚢", "港", "the of and"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("texts", [[], ["x"], ["boat"], ["the of and"], _STRANGE, ["boat"] * 3], ids=len)
def test_every_query_has_an_answer_on_every_shelf(make_shelf: Any, ask: Any, texts: list[str], mode: Any) -> None:
    index = make_shelf(texts) if texts else ShelfIndex(64)
    for query in _ASKED:
        found = ask(index, query, mode=mode, limit=50)
        assert len(found) <= len(texts)
        assert all(0 <= one.score <= 1 for one in found)
        assert [one.sequence for one in found] == [one.sequence for one in ask(index, query, mode=mode, limit=50)]


@pytest.mark.parametrize(
    ("query", "place"), [("Heron length", 9), ("港", 12), ("القارب", 13), ("Motor Hafen", 14), ("ท่าเรือ", 15)]
)
def test_each_is_found_among_the_others(make_shelf: Any, ask: Any, query: str, place: int) -> None:
    assert ask(make_shelf(_STRANGE), query)[0].sequence == place


def test_an_entry_of_sixty_kilobytes_neither_drowns_nor_is_drowned(make_shelf: Any, ask: Any) -> None:
    long = " ".join(f"word{number}" for number in range(8_000)) + " The lamp of the lighthouse is broken."
    talk = [("What about the lamp?", {"thread": 1}), ("It will be repaired on Monday.", {"thread": 1})]
    index = make_shelf([*talk, (long, {"thread": 1}), ("soup", {"thread": 1}), ("The lamp is new.", {})])
    found = {one.sequence: one for one in ask(index, "lamp of the lighthouse")}
    assert found[3].why.matched == ("lamp", "lighthouse")
    assert found[2].why.parts["context"] > found[4].why.parts.get("context", 0) > 0
    assert ask(index, "word7999 lighthouse")[0].sequence == 3


def test_a_thousand_near_duplicates_hide_nothing(make_shelf: Any, ask: Any) -> None:
    texts = [f"The ferry Solveig left at {number // 60}:{number % 60:02} from the pier." for number in range(1_000)]
    index = make_shelf([*texts, "The captain of Solveig is Marit Aune."])
    found = ask(index, "Who is the captain of the ferry Solveig?", limit=5)
    assert found[0].sequence == 1_001
    assert len(found) == 5


def test_a_query_of_ten_thousand_words_is_answered(make_shelf: Any, ask: Any) -> None:
    query = " ".join(f"word{number % 700}" for number in range(10_000))
    assert ask(make_shelf(["word5 and word6", "nothing of it"]), query)[0].sequence == 1


def test_results_without_words_lead_nowhere(make_rows: Any, ask: Any) -> None:
    index = ShelfIndex(64)
    for place, text in enumerate(["the of and", "", "boat", "the boat of the pier"], start=1):
        index.add(make_rows([text], first=place))
    assert ask(index, "boat")[0].sequence == 3
