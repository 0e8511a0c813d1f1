"""Validate values by the rules of their fields, with messages for users. Now is Wednesday, 4 November 2026, 10:00."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memoranda.abl.understanding.validation import validate
from memoranda.errors import UsageError

NOW = datetime(2026, 11, 4, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rules", "good", "bad", "said"),
    [
        ({"min": 1}, 1, 0, "It must be at least 1."),
        ({"max": 6}, 6, 7, "It can be at most 6."),
        ({"min": "1"}, 1, 0.5, "It must be at least 1."),
        ({"min": 3}, "Ada", "Al", "It must be at least 3 characters."),
        ({"min": "today"}, "2026-11-04", "2026-11-03", "It must be at least 2026-11-04."),
        ({"max": "2027-01-01"}, "2027-01-01", "2027-01-02", "It can be at most 2027-01-01."),
        ({"max": "2027-01-01T00:00:00+01:00"}, "2026-12-31", "2027-01-01", "It can be at most 2027-01-01."),
        ({"min_length": 3}, "Ada", "Al", "It needs at least 3 characters."),
        ({"max_length": 3}, "Ada", "Grace", "It can have at most 3 characters."),
        ({"min_length": 2}, ["a", "b"], ["abc"], "It needs at least 2 entries."),
        ({"enum": ["low", "high"]}, "High", "urgent", "Please choose one of these: low, high."),
        ({"enum": "low, high"}, "low", "urgent", "Please choose one of these: low, high."),
        ({"enum": [1, 2]}, 2, 3, "Please choose one of these: 1, 2."),
        ({"email": True}, "ada@example.org", "ada", "`ada` is not an e-mail address, such as ada@example.org."),
        ({"rule": "email"}, "ada@example.org", "ada", "`ada` is not an e-mail address, such as ada@example.org."),
        ({"phone": True}, "+49 30 123456", "12", "`12` is not a telephone number, such as +44 20 7946 0958."),
        ({"url": True}, "https://example.org", "x", "`x` is not a web address, such as https://example.org."),
        ({"pattern": "^[A-Z]{2}[0-9]+$"}, "AB12", "ab", "`ab` does not have the right form."),
        ({"integer": True}, 2, 2.5, "Please give a whole number."),
        ({"number": True}, "2", "two and a bit", "Please give a number."),
        ({"positive": True}, 1, 0, "Please give a number above zero."),
        ({"future": True}, "2026-11-05", "2026-11-04", "Please give a day that is still to come."),
        ({"past": "true"}, "2026-11-03", "2026-11-04", "Please give a day that has passed."),
        ({"MIN": 1}, 1, 0, "It must be at least 1."),
        ({"min": 1, "message": "One at least!"}, 1, 0, "One at least!"),
        ({"min": 1, "max": 6}, {"from": 1, "to": 6}, {"from": 1, "to": 7}, "It can be at most 6."),
        ({"max": 6}, {"from": 1, "to": None}, {"from": 7, "to": None}, "It can be at most 6."),
        ({"email": True}, ["a@example.org"], ["a@example.org", "b"],
         "`b` is not an e-mail address, such as ada@example.org."),
    ],
)  # fmt: skip
def test_a_broken_rule_is_said_in_one_sentence(rules: dict[str, Any], good: Any, bad: Any, said: str) -> None:
    assert validate(good, rules, now=NOW) is None
    assert validate(bad, rules, now=NOW) == said


def test_rules_that_are_off_or_unknown_say_nothing() -> None:
    for rules in ({}, {"email": False}, {"email": "false"}, {"min": None}, {"sparkle": 3}, {"pattern": 5}):
        assert validate("anything", rules, now=NOW) is None
    assert validate("anything", {"email": True}, now=NOW) is not None


def test_many_options_are_not_all_read_out() -> None:
    said = validate("x", {"enum": [f"option {number}" for number in range(40)]}, now=NOW)

    assert said is not None
    assert "option 11, …" in said
    assert "option 12" not in said


def test_a_catastrophic_pattern_ends_and_a_wrong_one_is_refused() -> None:
    assert validate("a" * 5_000 + "!", {"pattern": "^(a+)+$"}, now=NOW) is not None
    assert validate("\ud800", {"pattern": "^.$"}, now=NOW) is None
    with pytest.raises(UsageError):
        validate("a", {"pattern": "("}, now=NOW)


def test_a_clock_without_a_zone_compares_as_well() -> None:
    naive = NOW.replace(tzinfo=None)

    assert validate("2026-11-04T12:00:00+02:00", {"min": "2026-11-05"}, now=naive) is not None
    assert validate("2026-11-06", {"min": "2026-11-05"}, now=naive) is None
