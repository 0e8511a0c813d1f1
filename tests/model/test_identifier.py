"""An identifier is found in every spelling, and only as a whole."""

from __future__ import annotations

import time

import pytest

from memoranda.errors import UsageError
from memoranda.model.identifier import Identifier


@pytest.mark.parametrize(
    ("identifier", "text"),
    [
        ("ada@example.org", "<mailto:ADA@Example.ORG>"),
        ("mailto:Ada@example.org", "Write to ada@example.org."),
        ("\uff41\uff44\uff41@example.org", "ada@example.org"),
        ("ada@example.org", "a\u200bda@example.org"),
        ("+49 151 2345678", "+49 (0) 151 2345678"),
        ("+49 (0) 151/234-5678", "call 0049 151 2345678 now"),
        ("tel:+491512345678", "+49-151-234.56.78, evenings"),
        ("+49 151 2345678", "+49 151–234–5678"),
        ("+49 151 2345678", "dialled +491512345678 10 times"),
        ("0151 2345678", "(0151) 234-5678"),
        ("555-1234", "555 1234"),
        ("DE89 3704 0044 0532 0130 00", "IBAN de89370400440532013000"),
        ("C-3PO", "c3po"),
        ("Ann", "ann's letter, ANN."),
        ("Ada  Lovelace", "ada\nlovelace"),
        ("STRASSE 7", "straße 7"),
    ],
)
def test_an_identifier_is_found_however_it_is_written(identifier: str, text: str) -> None:
    assert Identifier(identifier).is_in(text)
    assert Identifier(identifier).is_in({"a": [1, {"b": text}]})
    assert Identifier(identifier).is_in({text: None})


@pytest.mark.parametrize(
    ("identifier", "text"),
    [
        ("ann", "anna"),
        ("ann", "Johann"),
        ("ann", "ann@example.org"),
        ("ann", "ann-marie"),
        ("ada@example.org", "ada@example.org.uk"),
        ("ada@example.org", "xada@example.org"),
        ("ada@example.org", "ada@example.organic"),
        ("+49 151 2345678", "+49 151 23456789"),
        ("+49 151 2345678", "+49 151 2345678-10"),
        ("+49 151 2345678", "+43 151 2345678"),
        ("555-1234", "1-555-1234"),
        ("555-1234", "555 12345"),
        ("555-1234", "555 1234 9"),
    ],
)
def test_an_identifier_is_found_only_as_a_whole(identifier: str, text: str) -> None:
    assert not Identifier(identifier).is_in(text)
    assert Identifier(identifier).is_in(f"{text} or {identifier}")


def test_an_identifier_is_a_part_of_a_key() -> None:
    assert Identifier("ada@example.org").is_in_key("contacts.ada@example.org")
    assert Identifier("ann").is_in_key("contacts.ann.phone")
    assert not Identifier("ann").is_in_key("contacts.anna")
    assert not Identifier("ann").is_in_key(None)
    assert Identifier("2345678901").is_in({"phone": 2345678901})


@pytest.mark.parametrize("wrong", ["", " ", "?", "-.-", "x", "x" * 513, None, 5, ["a"]])
def test_what_identifies_nothing_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError) as caught:
        Identifier(wrong)  # pyright: ignore[reportArgumentType]
    assert caught.value.hint


def test_no_text_takes_long_to_search() -> None:
    begins = time.perf_counter()
    for identifier, text in (
        ("+49 151 2345678", "+49 (0) " * 8_000),
        ("ann", "ann-" * 20_000),
        ("DE89 3704 0044", "de89 " * 10_000),
    ):
        assert not Identifier(identifier).is_in(text)
    assert time.perf_counter() - begins < 5
