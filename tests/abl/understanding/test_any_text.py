"""Any text gives values or none, never an error, in time linear in its length."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from unicodedata import normalize

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoranda.abl.understanding.fields import FieldSpec, Intent
from memoranda.abl.understanding.rule_reader import RuleReader, extract
from memoranda.abl.understanding.validation import coerce, validate

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 4, 10, 0, tzinfo=UTC)
READER = RuleReader()
PIECES = st.sampled_from(
    """my name is Ada I'm to in from Lisbon Berlin for with 2 two 3rd 12 May may 2027 2027-05-12 2027-05-12T10:00
    12.5.2027 5/12 12:30 3pm am pm tomorrow next friday week days nights guests people adults kids no not but and or
    , . ; : ! ? - – ( ) " ' # $ € % 500 1,200.50 1.200 5k a dozen couple of half hundred budget price email is
    ada@example.org +44 20 7946 0958 yes nope actually sorry instead change the destination make it what how about can
    you I don't know help economy business first option order number A-12 @ // {{x}} 1+1 between until \n \t é ß 東京
    ² ٣ \uff19 \ud800 \u0301 ’ and-and-and a.a.a.a""".split(" ")
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=16).map(" ".join) | st.lists(PIECES, max_size=10).map("".join) | st.text(max_size=60)
NAMES = st.sampled_from(
    ["destination", "origin", "guest_name", "first_name", "last_name", "checkin_date", "checkout_date", "birth_date",
     "num_guests", "children", "nights", "budget", "min_price", "max_price", "age", "email", "phone", "has_pets",
     "issue", "question", "order_number", "recipient", "pickup_time", "created_at", "color", "language", "", "_", "ß"]
)  # fmt: skip
TYPES = st.sampled_from(
    [None, "string", "number", "integer", "boolean", "date", "datetime", "time", "email", "phone", "array", "object",
     "string[]", "number[]", "date[]", "a|b", "string|null", "enum(x, y)", "", "?", "[]", "|", "'", "list of", "any"]
)  # fmt: skip
FIELDS = st.builds(
    FieldSpec,
    name=NAMES,
    type=TYPES,
    options=st.sampled_from([(), ("Economy", "Business"), ("yes", "no"), ("1", "2"), ("",)]),
    hints=st.sampled_from([(), ("travelling to",), ("tax", ""), ("?",)]),
    range=st.booleans(),
    list=st.booleans(),
    asked=st.booleans(),
)
CLOCKS = st.sampled_from(
    [NOW, NOW.replace(tzinfo=None), datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59),
     datetime(2024, 2, 29, tzinfo=UTC), NOW.astimezone(timezone(timedelta(hours=-11)))]
)  # fmt: skip


@given(TEXTS, st.lists(FIELDS, max_size=5, unique_by=lambda field: field.name), CLOCKS)
@example("\ud800", [FieldSpec(name="x", asked=True)], NOW)
@example(
    "two nights from 31 December", [FieldSpec(name="start_date"), FieldSpec(name="end_date")], datetime(9999, 12, 31)
)
def test_any_text_gives_values_of_wanted_fields_that_json_can_hold(
    text: str, fields: list[FieldSpec], now: datetime
) -> None:
    values = extract(fields, text, now=now)

    assert set(values) <= {field.name for field in fields}
    assert all(value not in (None, "", []) for value in values.values())
    assert all(_is_plain(value) for value in values.values())
    assert extract(fields, text, now=now) == values


@given(TEXTS, st.lists(FIELDS, max_size=5, unique_by=lambda field: field.name), CLOCKS)
def test_any_text_corrects_only_what_is_there(text: str, fields: list[FieldSpec], now: datetime) -> None:
    values = READER.find_corrections(fields, text, now=now)

    assert set(values) <= {field.name for field in fields}
    assert all(_is_plain(value) for value in values.values())


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return set(value) == {"from", "to"} and all(end is None or _is_plain(end) for end in value.values())
    return type(value) in (str, int, float, bool)


@given(TEXTS, st.lists(st.builds(Intent, TEXTS, st.tuples(TEXTS)), max_size=4))
def test_any_text_shows_one_of_the_intents_or_none(text: str, intents: list[Intent]) -> None:
    place = READER.find_intent(intents, text)

    assert place is None or 0 <= place < len(intents)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["from", "to", "a"]), inner),
    max_leaves=5,
)


@given(VALUES, TYPES, CLOCKS)
def test_any_value_fits_a_type_or_stays_as_it_was(value: Any, type: str | None, now: datetime) -> None:
    fits, coerced = coerce(value, type, now=now)

    if fits:
        assert coerce(coerced, type, now=now) == (True, coerced) or coerced != coerced
    else:
        assert coerced is value


RULES = st.dictionaries(
    st.sampled_from(
        ["min", "max", "min_length", "max_length", "enum", "email", "phone", "url", "integer", "future", "past", "rule",
         "number", "positive", "message", "other"]
    ),
    VALUES,
    max_size=4,
)  # fmt: skip


@given(VALUES, RULES, CLOCKS)
def test_any_value_keeps_any_rules_or_is_told_why_not(value: Any, rules: dict[str, Any], now: datetime) -> None:
    said = validate(value, rules, now=now)

    assert said is None or said


@given(st.text(max_size=40).filter(str.strip))
def test_prose_that_was_asked_for_is_kept_letter_by_letter(text: str) -> None:
    said = f"The lamp is dark: {text} indeed"

    # Letters that can be written in two ways are kept in one.
    assert extract([FieldSpec(name="issue", asked=True)], said, now=NOW) in ({}, {"issue": normalize("NFC", said)})


LONG = {
    "words": "please book a room in Lisbon for 2 guests ",
    "letters": "a",
    "digits": "1",
    "days": "3 May ",
    "spaces": " ",
    "marks": "!",
    "hyphens": "in-",
    "points": "a.",
    "labels": "destination: ",
    "numbers": "two and ",
    "not": "not ",
    "options": "business ",
    "pets": "late ",
    "at": "a@",
    "codes": "A1-",
    "quotes": "'",
    "introductions": "I'm ",
    "changes": "change the ",
    "accents": "é\u0301 ",
}
EVERYTHING = [
    FieldSpec(name="destination", asked=True),
    FieldSpec(name="checkin_date"),
    FieldSpec(name="checkout_date"),
    FieldSpec(name="num_guests"),
    FieldSpec(name="guest_name"),
    FieldSpec(name="order_number"),
    FieldSpec(name="late_checkout", type="boolean"),
    FieldSpec(name="cabin", options=("Economy", "Business")),
    FieldSpec(name="phone"),
    FieldSpec(name="email"),
    FieldSpec(name="tags", list=True),
    FieldSpec(name="notes", asked=True),
    FieldSpec(name="pickup_time"),
]


@pytest.mark.parametrize("kind", LONG)
def test_a_long_text_takes_no_longer_than_its_length(kind: str) -> None:
    def spent(length: int) -> float:
        text = (LONG[kind] * (length // len(LONG[kind]) + 1))[:length]
        begin = time.process_time()
        extract(EVERYTHING, text, now=NOW)
        READER.find_corrections(EVERYTHING, text, now=NOW)
        READER.find_intent([Intent("change the dates", ("business room",)), Intent("late 3 May a")], text)
        coerce(text, "array", now=NOW)
        coerce(text, "date", now=NOW)
        return time.process_time() - begin

    spent(1_000)
    short = min(spent(4_000) for _ in range(3))
    # 25 times the text: what lies behind the part that is looked at costs a pass or two; squared, it would be 625.
    assert any(spent(100_000) < 150 * short for _ in range(2))


def test_the_value_of_a_long_answer_is_all_of_it() -> None:
    said = "It broke. " + "And then it broke again. " * 4_000

    assert extract([FieldSpec(name="issue", asked=True)], said, now=NOW) == {"issue": said.strip()}
    assert len(said) > 90_000


def test_values_are_json() -> None:
    values = extract(EVERYTHING[:4], "Lisbon, 3 to 5 May, 2 guests", now=NOW)

    assert msgspec.json.decode(msgspec.json.encode(values)) == values
    assert len(values) == 4
