"""Recognize the intent of what users say."""

from __future__ import annotations

import pytest

from memoranda.abl.understanding.fields import Intent
from memoranda.abl.understanding.rule_reader import RuleReader

READER = RuleReader()

INTENTS = (
    Intent("change dates"),
    Intent("change destination"),
    Intent("cancel_booking"),
    Intent("talkToHuman", ("agent", "real person")),
    Intent("check balance"),
    Intent("help"),
    Intent("user wants a refund", ("money back",)),
    Intent("Kontostand prüfen"),
)


def matched(text: str) -> str | None:
    place = READER.find_intent(INTENTS, text)
    return None if place is None else INTENTS[place].label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("change dates", "change dates"),
        ("I want to change the dates", "change dates"),
        ("change my travel dates", "change dates"),
        ("Can I change the date?", "change dates"),
        ("the dates have changed", "change dates"),
        ("no, change the destination", "change destination"),
        ("CHANGE DESTINATION!!!", "change destination"),
        ("please cancel my booking", "cancel_booking"),
        ("I'd like to cancel the booking for tomorrow", "cancel_booking"),
        ("cancellation of my booking", "cancel_booking"),
        ("how do I cancel bookings?", "cancel_booking"),
        ("let me talk to a human", "talkToHuman"),
        ("give me a real person", "talkToHuman"),
        ("agent", "talkToHuman"),
        ("check my balance", "check balance"),
        ("HELP!", "help"),
        ("I want my money back", "user wants a refund"),
        ("a refund please", "user wants a refund"),
        ("bitte den Kontostand prufen", "Kontostand prüfen"),
        ("I do not want to wait, cancel the booking", "cancel_booking"),
        ("not now but change the dates", "change dates"),
        ("no I want to cancel the booking", "cancel_booking"),
        ("rather than wait, cancel my booking", "cancel_booking"),
    ],
)
def test_an_intent_is_seen_in_other_words_of_the_same_kind(text: str, label: str) -> None:
    assert matched(text) == label


@pytest.mark.parametrize(
    "text",
    ["I don't think I want to cancel my booking", "I wasn't planning to cancel the booking", "i cant cancel my booking",
     "rather than cancel the booking I would wait", "instead of cancelling the booking",
     "", "   ", "?", "what dates do you have", "change it", "don't change the dates", "please do not cancel my booking",
     "the dates should not change", "never change the destination", "I have a booking", "helpful", "my balance",
     "Lisbon", "I will not cancel the booking", "change the name. And what dates do you offer to people like me?"],
)  # fmt: skip
def test_an_intent_is_not_seen_where_it_is_not_meant(text: str) -> None:
    assert matched(text) is None
    assert matched("change the dates") == "change dates"


def test_the_most_specific_intent_wins_and_then_the_first() -> None:
    intents = [Intent("cancel"), Intent("cancel booking"), Intent("booking cancel")]

    assert READER.find_intent(intents, "cancel my booking") == 1
    assert READER.find_intent(intents, "cancel it") == 0
    assert READER.find_intent(intents, "book it") is None


def test_words_far_apart_are_no_phrase() -> None:
    near = "change those old and wrong dates"
    far = "change " + "house and car and garden and " * 3 + "dates"

    assert READER.find_intent([Intent("change dates")], near) == 0
    assert READER.find_intent([Intent("change dates")], far) is None


def test_a_label_of_small_words_only_is_taken_as_it_is() -> None:
    assert READER.find_intent([Intent("about this")], "what about this") == 0
    assert READER.find_intent([Intent("about this")], "what about that") is None


def test_without_intents_there_is_no_match() -> None:
    assert READER.find_intent([], "cancel") is None
    assert READER.find_intent([Intent("")], "cancel") is None
    assert READER.find_intent([Intent("cancel")], "cancel") == 0
