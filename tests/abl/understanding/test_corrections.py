"""Recognize corrections by the user. Now is Wednesday, 4 November 2026, 10:00."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memoranda.abl.understanding.fields import FieldSpec
from memoranda.abl.understanding.rule_reader import RuleReader

NOW = datetime(2026, 11, 4, 10, 0, tzinfo=UTC)
READER = RuleReader()
BOOKING = tuple(
    FieldSpec(name=name)
    for name in ("destination", "checkin_date", "checkout_date", "num_guests", "children", "guest_name", "has_pets")
)
CABIN = FieldSpec(name="cabin", options=("Economy", "Business"))


def corrected(text: str, *collected: FieldSpec) -> dict[str, Any]:
    return READER.find_corrections(collected or (*BOOKING, CABIN), text, now=NOW)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("actually 4 guests", {"num_guests": 4}),
        ("Actually, we are 4 people", {"num_guests": 4}),
        ("sorry, 4 guests", {"num_guests": 4}),
        ("4 guests, not 3", {"num_guests": 4}),
        ("not 3 but 4 guests", {"num_guests": 4}),
        ("4 guests instead of 3", {"num_guests": 4}),
        ("make that two guests", {"num_guests": 2}),
        ("no I said 3 guests", {"num_guests": 3}),
        ("oh wait, it should be 3 guests", {"num_guests": 3}),
        ("correction: 7 guests", {"num_guests": 7}),
        ("guests should be 7", {"num_guests": 7}),
        ("sorry, the check-in date should be 6 May", {"checkin_date": "2027-05-06"}),
        ("change guests to five", {"num_guests": 5}),
        ("can you change the number of guests to 5?", {"num_guests": 5}),
        ("eigentlich 4 Personen", {"num_guests": 4}),
        ("change the destination to Porto", {"destination": "Porto"}),
        ("change the destination from Lisbon to Porto", {"destination": "Porto"}),
        ("please switch the destination to porto, thanks", {"destination": "porto"}),
        ("Actually, let's go to Porto instead", {"destination": "Porto"}),
        ("destination: Porto", {"destination": "Porto"}),
        ("change my check-in to 6 May", {"checkin_date": "2027-05-06"}),
        ("update checkout to 9 May please", {"checkout_date": "2027-05-09"}),
        ("change checkin from 3 May to 6 May", {"checkin_date": "2027-05-06"}),
        ("I meant from 6 May to 8 May", {"checkin_date": "2027-05-06", "checkout_date": "2027-05-08"}),
        ("change guests to 4 and the destination to Porto", {"num_guests": 4, "destination": "Porto"}),
        ("change my name to Ada Lovelace", {"guest_name": "Ada Lovelace"}),
        ("sorry, I meant Business", {"cabin": "Business"}),
        ("no, business class", {"cabin": "Business"}),
        ("can I change it to business?", {"cabin": "Business"}),
        ("set cabin to economy", {"cabin": "Economy"}),
        ("actually no pets", {"has_pets": False}),
        ("actually with pets", {"has_pets": True}),
        ("actually no children", {"children": 0}),
    ],
)  # fmt: skip
def test_a_correction_gives_the_new_value(text: str, values: dict[str, Any]) -> None:
    assert corrected(text) == values


@pytest.mark.parametrize(
    "text",
    ["", "   ", "2 guests", "Porto", "no", "no, thanks", "no thank you", "actually that's fine", "I'd rather not",
     "wait, what is the price?", "Sorry, do you have 2 rooms?", "can I change the dates?", "change the dates",
     "change my mind", "no, I don't want to go to Porto", "actually I don't want 3 guests", "the destination is great",
     "I do not need 3 guests", "sorry", "actually", "not bad", "make it quick", "to be or not to be", "wait a minute",
     "the destination should not change"],
)  # fmt: skip
def test_what_corrects_nothing_changes_nothing(text: str) -> None:
    assert corrected(text) == {}
    assert corrected("actually 4 guests") == {"num_guests": 4}


def test_a_bare_value_corrects_the_only_field_it_can_be_for() -> None:
    destination, checkin, checkout, guests = BOOKING[:4]

    assert corrected("no, make it 6 May", destination, checkin, guests) == {"checkin_date": "2027-05-06"}
    assert corrected("no, make it 6 May", destination, checkin, checkout, guests) == {}
    assert corrected("make it 5", destination, checkin, guests) == {"num_guests": 5}
    assert corrected("make it 5", destination, guests, FieldSpec(name="nights")) == {}
    assert corrected("actually Porto", destination, checkin, guests) == {"destination": "Porto"}
    assert corrected("Porto instead", destination, checkin, guests) == {"destination": "Porto"}
    assert corrected("not Lisbon, Porto", destination, checkin) == {"destination": "Porto"}
    assert corrected("actually Porto", destination, FieldSpec(name="guest_name")) == {}
    assert corrected("actually yes", FieldSpec(name="has_pets")) == {"has_pets": True}


def test_a_bare_value_corrects_the_field_that_was_filled_last() -> None:
    destination, checkin, checkout = BOOKING[:3]
    last = FieldSpec(name="checkout_date", asked=True)
    color = FieldSpec(name="color", asked=True)

    assert corrected("no, make it 6 May", destination, checkin, checkout) == {}
    assert corrected("no, make it 6 May", destination, checkin, last) == {"checkout_date": "2027-05-06"}
    assert corrected("I meant blue", destination, color) == {"color": "blue"}
    assert corrected("actually blue", destination, color) == {}


def test_without_fields_there_is_nothing_to_correct() -> None:
    assert READER.find_corrections([], "actually 4 guests", now=NOW) == {}
    assert READER.find_corrections([FieldSpec(name="guests")], "actually 4 guests", now=NOW) == {"guests": 4}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("2 people, no wait, 3", {"num_guests": 3}),
        ("5, no sorry, 6", {"num_guests": 6}),
        ("to Paris, no wait, London", {"destination": "London"}),
        ("Lisbon, sorry, Porto", {"destination": "Porto"}),
        ("2 guests to Lisbon, I mean 3 guests", {"num_guests": 3, "destination": "Lisbon"}),
        ("from 3 May, no wait, 4 May", {"checkin_date": "2027-05-04"}),
        ("2 people, no wait", {"num_guests": 2}),
        ("sorry, 2 people", {"num_guests": 2}),
    ],
)
def test_of_what_is_taken_back_within_a_message_the_last_counts(text: str, values: dict[str, Any]) -> None:
    name = next(iter(values))
    fields = [FieldSpec(name=field.name, asked=field.name == name) for field in BOOKING]
    assert READER.find(fields, text, now=NOW) == values


def test_prose_that_turns_is_kept_whole() -> None:
    notes = FieldSpec(name="notes", asked=True)
    assert READER.find([notes], "A cot, no wait, two cots", now=NOW) == {"notes": "A cot, no wait, two cots"}


def test_what_answers_the_question_corrects_nothing() -> None:
    name, pets = FieldSpec(name="guest_name"), FieldSpec(name="has_pets")
    place, breakfast = FieldSpec(name="destination"), FieldSpec(name="wants_breakfast")

    assert READER.find_corrections([place], "Ada, not Eve", now=NOW, missing=name) == {}
    assert READER.find_corrections([pets], "actually, yes", now=NOW, missing=breakfast) == {}
    assert READER.find_corrections([place], "no, make it Porto", now=NOW, missing=name) == {"destination": "Porto"}
    assert READER.find_corrections([pets], "actually with pets", now=NOW, missing=breakfast) == {"has_pets": True}


def test_a_day_is_no_new_name() -> None:
    place = FieldSpec(name="destination")

    assert READER.find_corrections([place], "Saturday, not Sunday", now=NOW) == {}
    assert READER.find_corrections([place], "Salamanca, not Segovia", now=NOW) == {"destination": "Salamanca"}
