"""Texts that are said again and again: how often a word counts, and how many of one source are returned."""

from __future__ import annotations

from memoranda.model.trust import Origin
from memoranda.retrieval.analysis.query import idf
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.rank import prepare

COPIES = [f"The harbour fees go to account GULL-{number} at the Reef Bank from now on" for number in range(40)]
OTHERS = ["The harbour is closed in winter", "Receipts for the baker are in the blue folder", "Jon has a boat"]


def frequency(index: ShelfIndex, *stems: str) -> int:
    return index.frequency(index.find(stems))


def sequences(ask, index: ShelfIndex, query: str, **options) -> list[int]:
    return [one.sequence for one in ask(index, query, **options)]


def test_texts_with_the_same_words_count_once(make_shelf):
    index = make_shelf([*COPIES, *OTHERS])
    assert index.find(("harbour",)).size == 41
    assert (frequency(index, "harbour"), frequency(index, "boat"), frequency(index, "missing")) == (2, 1, 0)


def test_short_texts_are_said_again_without_being_copies(make_shelf):
    index = make_shelf(["Thank you very much"] * 10 + OTHERS)
    assert frequency(index, "thank") == index.find(("thank",)).size == 10


def test_when_the_first_is_removed_another_counts(make_shelf, make_rows):
    index = make_shelf([*COPIES, *OTHERS])
    for gone in (1, 2, 3):
        index.remove([gone])
        assert frequency(index, "fee") == 1
    index.remove(range(1, 41))
    assert (frequency(index, "fee"), frequency(index, "harbour")) == (0, 1)
    index.add(make_rows(COPIES[:2], first=100))
    assert frequency(index, "fee") == 1


def test_counts_survive_dropping_removed_rows(make_shelf):
    index = make_shelf([*COPIES * 10, *OTHERS])
    index.remove(range(1, 399))
    assert index.rows == len(index) == 5
    assert (frequency(index, "fee"), frequency(index, "harbour")) == (1, 2)


def test_the_weight_of_a_word_is_as_without_its_copies(make_shelf):
    index, calm = make_shelf([*COPIES, *OTHERS]), make_shelf([COPIES[0], *OTHERS])
    flooded, once = (prepare(index, "harbour boat", now=0, copies_once=once) for once in (False, True))
    assert once.weights == prepare(calm, "harbour boat", now=0).weights == (idf(2, 4), idf(1, 4))
    assert flooded.weights[0] < once.weights[0]


def test_so_many_of_one_source_are_returned_and_the_others_follow(make_shelf, make_rows, ask):
    varied = [f"Harbour fees rise in the {number}th year, says {chr(97 + number)}x" for number in range(20)]
    index = make_shelf(varied, origin=Origin(source="letter"))
    index.add(make_rows(OTHERS, first=21))
    every = sequences(ask, index, "harbour fees", limit=23, most_alike=None)
    assert len(every) == 23 and set(every[:20]) == set(range(1, 21))
    some = sequences(ask, index, "harbour fees", limit=23, most_alike=3)
    assert some == every[:3] + every[20:]
    assert sequences(ask, index, "harbour fees", limit=2, most_alike=3) == every[:2]


def test_copies_without_a_source_leave_room_but_not_for_their_numbers_alone(make_shelf, ask):
    index = make_shelf([*COPIES, *(f"Invoice {number} of Acme for hosting is paid" for number in range(30)), *OTHERS])
    assert len([one for one in sequences(ask, index, "harbour fees", limit=73, most_alike=4) if one <= 40]) == 4
    invoices = [one for one in sequences(ask, index, "Acme invoice", limit=73, most_alike=4) if 40 < one <= 70]
    assert len(invoices) == 30, "their numbers are what they say"
