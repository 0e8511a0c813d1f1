"""What is left out of a text that quotes what was forgotten, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.model.omission import MARK, Omission, Omissions, Quotes
from memoranda.model.scope import Scope

AT = datetime(2026, 1, 1, tzinfo=UTC)
SALT = b"salt"


def omissions(add: Callable[[Quotes], Any], *, at: datetime = AT) -> Omissions:
    quotes = Quotes(SALT, known=["ada"])
    add(quotes)
    scope = Scope.of(user="ada")
    return Omissions(
        (SALT, Omission(id="o1", scope=scope, subject=scope.path, at=at, phrases=phrases, clauses=clauses))
        for phrases, clauses in quotes.parts()
    )


def of_value(value: Any, key: str) -> Omissions:
    return omissions(lambda quotes: quotes.add_value(value, key))


def of_text(text: str, kept: str = "") -> Omissions:
    return omissions(lambda quotes: quotes.add_text(text, kept=kept))


@pytest.mark.parametrize(
    ("value", "key", "said", "left"),
    [
        ("12 Elm St", "home.address", "at 12  ELM st, or 12 Elm Street", f"at {MARK}, or 12 Elm Street"),
        ("4711-KILN", "vault.code", "4711-kiln 4711 KILN 4711-KILN9 x4711", f"{MARK} {MARK} 4711-KILN9 x4711"),
        ("ana@kiln.io", "mail", "ana@kiln.io, b.ana@kiln.io, ana@kiln.io.uk", f"{MARK}, b.ana@kiln.io, ana@kiln.io.uk"),
        ("+358 40 123 4567", "phone", "+358401234567 or +358 40 123 45678", f"+{MARK} or +358 40 123 45678"),
        ("Ann", "contacts.sister", "Anna. Ann. My sister is Ann.", f"Anna. Ann. My sister is {MARK}."),
        (4, "kiln.cone", "4 eggs. 14 kilns. Cone 4.", f"4 eggs. 14 kilns. Cone {MARK}."),
        ("blue", "door.colour", "A blue door. The sky is blue.", f"A {MARK} door. The sky is blue."),
        ("Zanzibar", "wish", "To Zanzibar, or a zanzibari", f"To {MARK}, or a zanzibari"),
        (True, "is.vegan", "True, is it?", "True, is it?"),
        ({"street": "Long Lane 5", "floor": 2}, "home", "Long Lane 5. Floor 2. 2 c", f"{MARK}. Floor {MARK}. 2 c"),
        ("\u0130stanbul Kad\u0131k\u00f6y", "home", "in istanbul kad\u0131k\u00f6y", f"in {MARK}"),
    ],
)  # fmt: skip
def test_a_value_is_left_out_as_a_whole(value: Any, key: str, said: str, left: str) -> None:
    assert of_value(value, key).leave_out(said) == left


@pytest.mark.parametrize(
    ("text", "said", "left"),
    [
        ("User lives in Porto.", "I live in Porto. Rex is here.", f"{MARK}. Rex is here."),
        ("User lives in Porto.", "Greta lives in Porto. Porto is a city.", "Greta lives in Porto. Porto is a city."),
        ("Likes tea with milk and honey", "So: likes TEA with milk and honey!", f"So: {MARK}!"),
        ("Likes tea", "Likes tea. She likes teasing.", "Likes tea. She likes teasing."),
        ("- The gate code is 88-31-7", "Try 88-31-7 or 88-31-70", f"Try {MARK} or 88-31-70"),
        ("The fair is on 2026-05-04", "2026-05-04 is a Monday", "2026-05-04 is a Monday"),
        ("The dose is 1.5 mg of it", "the dose is 15 mg of it", "the dose is 15 mg of it"),
        ("a", "a b c", "a b c"),
        ("", "anything", "anything"),
    ],
)
def test_a_sentence_is_left_out_with_the_identifiers_in_it(text: str, said: str, left: str) -> None:
    assert of_text(text).leave_out(said) == left


def test_what_is_kept_of_a_sentence_stays() -> None:
    part = of_text("User lives in Turku and works at Kiln.", kept="User lives in Turku.")
    assert part.leave_out("I live in Turku. I work at Kiln.") == f"I live in Turku. {MARK}."


def test_json_stays_json() -> None:
    one = of_value("12 Elm St", "home.address")
    assert one.leave_out_of_json('{"a":["at 12 Elm St",1,null],"12 Elm St":2}') == (
        f'{{"a":["at {MARK}",1,null],"12 Elm St":2}}'
    )
    assert one.leave_out_of_json("{at 12 Elm St") == f"{{at {MARK}"
    found = {"key": "kiln.cone", "value": 4}
    assert of_value(4, "kiln.cone").leave_out_of([found, {"key": "eggs", "value": 4}]) == [
        {"key": "kiln.cone", "value": MARK},
        {"key": "eggs", "value": 4},
    ]


def test_only_what_was_said_before_is_left_out_and_not_what_is_said_again() -> None:
    one = of_value("12 Elm St", "home.address")
    before, after = AT - timedelta(seconds=1), AT + timedelta(seconds=1)
    assert one.made_since(before) and one.made_since(AT) and not one.made_since(after)
    assert one.renewed_by([(before, "12 Elm St")]).leave_out("12 Elm St") == MARK
    assert one.renewed_by([(after, "now 12 Elm St")]).leave_out("12 Elm St") == "12 Elm St"
    assert one.renewed_by([(None, "now 12 Elm St")]).leave_out("12 Elm St") == "12 Elm St"
    assert not Omissions() and Omissions().leave_out("12 Elm St") == "12 Elm St"


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_is_read_and_what_was_forgotten_as_it_is_goes_as_a_whole(text: str, beside: str) -> None:
    one = omissions(lambda quotes: quotes.add_phrase(text))
    assert isinstance(of_text(text).leave_out(beside), str)
    if one and not any(char in MARK for char in text):
        assert text not in one.leave_out(f"{beside}\n{text}\n{beside}") or not any(map(str.isalnum, text))
