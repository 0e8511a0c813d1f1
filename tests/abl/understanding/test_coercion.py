"""Convert values to their declared types. Now is Wednesday, 4 November 2026, 10:00."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from memoranda.abl.understanding.validation import coerce

NOW = datetime(2026, 11, 4, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "type", "coerced"),
    [
        ("2", "number", 2),
        (" 1,200.50 ", "number", 1200.5),
        ("two", "number", 2),
        ("$20", "number", 20),
        ("20 %", "percentage", 20),
        ("-3", "number", -3),
        (2.0, "number", 2),
        (2.5, "number", 2.5),
        ("2.0", "integer", 2),
        (7, "int", 7),
        ("yes", "boolean", True),
        ("No.", "boolean", False),
        ("true", "bool", True),
        (0, "boolean", False),
        (True, "boolean", True),
        ("12 May", "date", "2027-05-12"),
        ("2027-05-12", "date", "2027-05-12"),
        ("2027-05-12T10:00:00Z", "date", "2027-05-12"),
        ("tomorrow", "date", "2026-11-05"),
        (date(2027, 5, 12), "date", "2027-05-12"),
        (datetime(2027, 5, 12, 9, tzinfo=UTC), "date", "2027-05-12"),
        ("tomorrow at 3pm", "datetime", "2026-11-05T15:00:00Z"),
        ("2027-05-12T10:00:00+02:00", "datetime", "2027-05-12T10:00:00+02:00"),
        ("2027-05-12", "datetime", "2027-05-12T00:00:00Z"),
        ("3pm", "datetime", "2026-11-04T15:00:00Z"),
        (datetime(2027, 5, 12, 9, tzinfo=UTC), "timestamp", "2027-05-12T09:00:00Z"),
        ("3:30pm", "time", "15:30"),
        (" ada@example.org ", "email", "ada@example.org"),
        ("+44 20  7946 0958", "phone", "+44 20 7946 0958"),
        (5551234567, "phone", "5551234567"),
        (2, "string", "2"),
        (True, "string", "true"),
        (2.0, "string", "2"),
        ("x", "string", "x"),
        (date(2027, 5, 12), "string", "2027-05-12"),
        ("Business", "economy|business", "business"),
        ("business class", "enum(economy, business_class)", "business_class"),
        ("low", "'low' | 'high'", "low"),
        (2, "1|2", "2"),
        ("a, b and c", "array", ["a", "b", "c"]),
        ('["a", 1]', "array", ["a", 1]),
        (["1", "2"], "number[]", [1, 2]),
        (("1", 2), "array<number>", [1, 2]),
        ("3", "list of numbers", [3]),
        (5, "number[]", [5]),
        ({"a": 1}, "object", {"a": 1}),
        ('{"a": 1}', "object", {"a": 1}),
        ("5", "number|string", 5),
        ("five-ish", "number|string", "five-ish"),
        (None, "string|null", None),
        (None, "string?", None),
        (None, None, None),
        ({"any": "thing"}, None, {"any": "thing"}),
        ({"any": "thing"}, "any", {"any": "thing"}),
        ("x", "something_unknown", "x"),
    ],
)
def test_a_value_that_fits_is_as_its_type_declares_it(value: Any, type: str | None, coerced: Any) -> None:
    fits, got = coerce(value, type, now=NOW)

    assert fits
    assert got == coerced
    assert got is None or got.__class__ is coerced.__class__


@pytest.mark.parametrize(
    ("value", "type", "fitting"),
    [
        ("many", "number", "2"),
        ("2 or 3", "number", "2"),
        ("2 guests", "number", "2"),
        (True, "number", 1),
        (float("nan"), "number", 1.0),
        (float("inf"), "number", 1.0),
        ("9" * 400, "number", "9"),
        (2.5, "integer", 2),
        (2.5, "integer|null", 2),
        ("12345", "phone", "123456"),
        ("2027-02-30", "date", "2027-02-28"),
        ("yes " * 30, "boolean", "yes"),
        (f"{'x' * 80} 12 May", "date", "x 12 May"),
        ("9am or 10am", "time", "9am"),
        ("2.5", "integer", "2"),
        ("maybe", "boolean", "yes"),
        (2, "boolean", 1),
        ("soon", "date", "today"),
        ("31 June", "date", "30 June"),
        ("3 May or 5 May", "date", "3 May"),
        (20270512, "date", "2027-05-12"),
        ("noonish", "time", "noon"),
        ("nowhere", "datetime", "today"),
        ("ada at example", "email", "ada@example.org"),
        ("12", "phone", "+49 30 123456"),
        ({"a": 1}, "string", "a"),
        (["a"], "string", "a"),
        ("first", "economy|business", "economy"),
        (["x"], "number[]", ["1"]),
        ({"a": 1}, "number[]", [1]),
        ("[]", "object", "{}"),
        ("{nonsense", "object", "{}"),
        (None, "number", 1),
        ("x", "null", None),
    ],
)
def test_a_value_that_does_not_fit_stays_as_it_was(value: Any, type: str, fitting: Any) -> None:
    fits, got = coerce(value, type, now=NOW)

    assert not fits
    assert got is value
    assert coerce(fitting, type, now=NOW)[0]
