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
        ("ada@example.org", "ada [at] example [dot] org"),
        ("ada@example.org", "ada(at)example.org"),
        ("ada@example.org", "ada at example dot org"),
        ("ada@example.org", "ada+shop@example.org"),
        ("ada@example.org", "ada%40example.org"),
        ("ada@example.org", "\u0430da@example.org"),
        ("ada.l@example.org", 'write to "ada.l"@example.org'),
        ("@kiln-keeper", "by kiln-keeper."),
        ("#TKT-9", "ticket TKT-9"),
        ("10.0.3.7", "host 010.000.003.007 is up"),
        ("river.pt/boats", "https://www.river.pt/boats/"),
        ("https://river.pt/boats", "river.pt/boats."),
        ("river.pt", "https://river.pt/about"),
        ("parts/v2/list.txt", r"C:\\parts\\v2\\list.txt"),
        ("2026-12-25", "on 12/25/2026"),
        ("2026-12-25", "25 Dec 2026"),
        ("14:30", "at 2:30 PM"),
        ("2:30 pm", "at 14:30"),
        ("KILNDEFF", "BIC KILNDEFFXXX"),
        ("912", "0000912"),
        ("123-45-6780", "SSN 123456780"),
        ("0c2f7a10-1b2c-4d5e-8f90-a1b2c3d4e5f6", "0c2f7a101b2c4d5e8f90a1b2c3d4e5f6"),
        ("Дмитрий Орлов", "Dmitri Orlov's loft"),
        ("Dmitry Orlov", "Дмитрий Орлов снял лофт"),
        ("Nikos Pappas", "Νίκος Παππάς"),
        ("田中太郎", "田中太郎は来た"),
        ("김민지", "김민지가 왔다"),
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
        ("ada+shop@example.org", "ada@example.org"),
        ("ada@example.org", "b.ada@example.org"),
        ("12345", "123456"),
        ("912", "1,912"),
        ("912", "912.50"),
        ("order_2026_001", "order_2026_0010"),
        ("/srv/app/conf", "/srv/app/conf.bak"),
        ("/srv/app/conf", "/srv/app/conf/local"),
        ("river.pt/boats", "river.pt/boats-for-sale"),
        ("river.pt", "river.pt.br"),
        ("river.pt", "ann@river.pt"),
        ("John Stone", "John Stonehouse"),
        ("log_2026", "log_2026_v2"),
        ("10.0.3.7", "10.0.3.70"),
        ("14:30", "2:30 AM"),
        ("2026-03-04", "03/04/2026"),
        ("Иван Петров", "Ivan Petrovsky"),
        ("张伟", "张伟明"),
    ],
)
def test_an_identifier_is_found_only_as_a_whole(identifier: str, text: str) -> None:
    assert not Identifier(identifier).is_in(text)
    assert Identifier(identifier).is_in(f"{text} or {identifier}")


def test_an_identifier_is_found_inside_a_longer_one_when_that_is_asked_for() -> None:
    for identifier, text in (("kappa7", "kappa7-2026"), ("river.pt", "ann@river.pt"), ("12345", "123456")):
        assert not Identifier(identifier).is_in(text)
        assert Identifier(identifier, inside=True).is_in(text)


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
        ("ada@example.org", "ada at " * 10_000),
        ("ada@example.org", "ada [at] example [dot] " * 5_000),
        ("ada@example.org", "ada+" + "x" * 60_000),
        ("river.pt/boats/list", "river.pt/boats/" * 5_000),
        ("Dmitri Orlov", "Дмитрий " * 10_000),
    ):
        assert not Identifier(identifier).is_in(text)
    assert time.perf_counter() - begins < 5
