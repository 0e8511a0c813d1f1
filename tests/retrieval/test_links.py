"""The second step: what the first results lead to."""

from __future__ import annotations

import random
from typing import Any

import pytest

_BRIDGE = "The ferry Solveig was built at the yard of Tangenfjord in the north."
_END = "Tangenfjord is a yard. Its director is Marit Aune; Tangenfjord has sixty workers."
_ASKED = "Who is the director of the yard that built the ferry Solveig?"


def _others(count: int) -> list[str]:
    """Return entries, some of which have words of the question too, in no order."""
    source = random.Random(3)
    texts = [f"The director of company{number}x spoke about the harvest of item{number}y." for number in range(count)]
    texts += [f"A ferry to island{number}x leaves from pier{number}y at noon." for number in range(count)]
    return source.sample(texts, len(texts))


def _shelf(make_shelf: Any, *extra: str) -> Any:
    return make_shelf([*_others(40), *extra])


def _linked(found: list[Any]) -> dict[int, float]:
    return {one.sequence: one.why.parts["linked"] for one in found if "linked" in one.why.parts}


def test_an_entry_that_answers_the_other_half_is_found_by_the_name_between(make_shelf: Any, ask: Any) -> None:
    index = _shelf(make_shelf, _BRIDGE, _END)
    found = ask(index, _ASKED)
    assert [one.sequence for one in found[:2]] == [81, 82]
    assert _linked(found)[82] > 0.1
    without = ask(_shelf(make_shelf, _BRIDGE, _END.replace("Tangenfjord", "Lillevik")), _ASKED)
    assert 82 not in _linked(without)


def test_a_copy_of_a_result_gains_hardly_anything(make_shelf: Any, ask: Any) -> None:
    copies = _linked(ask(_shelf(make_shelf, _BRIDGE, _BRIDGE.replace("north", "south")), _ASKED))
    answer = _linked(ask(_shelf(make_shelf, _BRIDGE, _END), _ASKED))
    assert answer[82] > 4 * copies.get(82, 0)


def test_one_mention_leads_less_than_an_entry_about_it(make_shelf: Any, ask: Any) -> None:
    once = "The director of the yard at the other end of the country once went to Tangenfjord by train, then home."
    linked = _linked(ask(_shelf(make_shelf, _BRIDGE, _END, once), _ASKED, limit=100))
    assert linked[82] > 1.5 * linked.get(83, 0)


def test_frequent_words_lead_nowhere(make_shelf: Any, ask: Any) -> None:
    many = [f"Tangenfjord and place{number}x" for number in range(20)]
    assert _linked(ask(_shelf(make_shelf, _BRIDGE, _END, *many), _ASKED)) == {}


@pytest.mark.parametrize("mode", ["keyword", "semantic"])
def test_other_modes_have_one_step(make_shelf: Any, ask: Any, mode: str) -> None:
    assert _linked(ask(_shelf(make_shelf, _BRIDGE, _END), _ASKED, mode=mode)) == {}


def test_what_may_not_be_returned_leads_to_nothing(make_shelf: Any, ask: Any) -> None:
    index = _shelf(make_shelf, _BRIDGE, _END)
    assert 82 in _linked(ask(index, _ASKED))
    assert _linked(ask(index, _ASKED, allowed=lambda numbers: numbers != 81)) == {}
    assert 82 in _linked(ask(index, _ASKED, allowed=lambda numbers: numbers > 70))


def test_a_filter_or_a_threshold_changes_no_amount(make_shelf: Any, ask: Any) -> None:
    texts = [*_others(40), _BRIDGE, _END]
    index = make_shelf([(text, {"kind": "end" if text == _END else "other"}) for text in texts])
    (every,) = [one.why for one in ask(index, _ASKED) if one.sequence == 82]
    assert [one.why for one in ask(index, _ASKED, filter={"kind": "end"})] == [every]
    for threshold in (0.1, 0.5):
        for one in ask(index, _ASKED, threshold=threshold):
            assert one.sequence != 82 or one.why == every


def test_links_are_those_of_entries_that_there_are(make_rows: Any, make_shelf: Any, ask: Any) -> None:
    index = _shelf(make_shelf, _BRIDGE, *[f"Tangenfjord and place{number}x" for number in range(20)])
    index.add(make_rows([_END], first=102))
    assert _linked(ask(index, _ASKED)) == {}
    index.remove(range(82, 102))
    assert 102 in _linked(ask(index, _ASKED))
    index.compact()
    assert 102 in _linked(ask(index, _ASKED))
    index.remove([81])
    assert _linked(ask(index, _ASKED)) == {}


def test_a_conversation_in_its_course_has_one_step(make_shelf: Any, ask: Any) -> None:
    talk = [f"Did you hear about thing{number}x?" for number in range(40)]
    texts = [part for one in talk for part in (one, one.replace("Did you hear about", "Yes, I know").replace("?", "."))]
    threads = [{"thread": number // 8} for number in range(len(texts))]
    shelf = make_shelf([*zip(texts, threads, strict=True), (_BRIDGE, {"thread": "a"}), (_END, {"thread": "a"})])
    assert _linked(ask(shelf, _ASKED)) == {}
    assert 82 in _linked(ask(_shelf(make_shelf, _BRIDGE, _END), _ASKED))
