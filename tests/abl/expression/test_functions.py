"""Each of ABL's 36 functions, with its coercions."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.abl.expression.compiler import evaluate
from memoranda.abl.expression.functions import FUNCTIONS
from memoranda.errors import LimitExceeded
from memoranda.testing.fakes import CountingIds, FakeClock

ROOMS = [{"id": 7, "kind": "single", "at": {"floor": 1}}, {"id": 8, "kind": "double", "at": {"floor": 2}}]

CASES: list[tuple[str, Any]] = [
    ("ADD(1, 2)", 3),
    ("ADD('1', '2')", 3),
    ("ADD(1, 'x')", None),
    ("ADD(1, null)", None),
    ("SUB(5, '2')", 3),
    ("SUB('2026-03-14', '2026-03-11')", 3),
    ("MUL('3', 4)", 12),
    ("DIV(9, 2)", 4.5),
    ("DIV(9, 0)", None),
    ("DIV('9', 3)", 3),
    ("ROUND(2.5)", 3),
    ("ROUND(-2.5)", -3),
    ("ROUND(0.5)", 1),
    ("ROUND(2.675, 2)", 2.68),
    ("ROUND('10.126', '2')", 10.13),
    ("ROUND(1250, -2)", 1300),
    ("ROUND('x')", None),
    ("ROUND(1.5, 400)", 1.5),
    ("ROUND(1e300, 2)", 1e300),
    ("ABS(-3)", 3),
    ("ABS('-3.5')", 3.5),
    ("ABS(null)", None),
    ("MIN(3, '2', 7)", 2),
    ("MAX([3, 9, 7])", 9),
    ("MAX(3, 'x')", None),
    ("MIN([])", None),
    ("UPPER('straße')", "STRASSE"),
    ("UPPER(null)", ""),
    ("LOWER('ADA')", "ada"),
    ("LOWER(5)", "5"),
    ("TRIM('  x \n')", "x"),
    ("SUBSTRING('memoranda', 2)", "moranda"),
    ("SUBSTRING('memoranda', 2, 5)", "mor"),
    ("SUBSTRING('memoranda', 5, 2)", "mor"),
    ("SUBSTRING('memoranda', -3, 99)", "memoranda"),
    ("SUBSTRING('memoranda', '1', '3')", "em"),
    ("SUBSTRING(null, 1)", ""),
    ("REPLACE('a-b-c', '-', '')", "abc"),
    ("REPLACE('a', 'x', 'y')", "a"),
    ("REPLACE(null, 'x', 'y')", ""),
    ("SPLIT('a,b,,c', ',')", ["a", "b", "", "c"]),
    ("SPLIT('abc', '')", ["a", "b", "c"]),
    ("SPLIT(null, ',')", [""]),
    ("JOIN(['a', 1, true, null], '-')", "a-1-true-"),
    ("JOIN(['a', 'b'])", "a,b"),
    ("JOIN('a', '-')", "a"),
    ("JOIN(null)", ""),
    ("PAD_START('7', 3, '0')", "007"),
    ("PAD_START(7, 3)", "  7"),
    ("PAD_START('long', 2)", "long"),
    ("PAD_START('x', 6, 'ab')", "ababax"),
    ("PAD_END('7', 3, '.')", "7.."),
    ("PAD_END('7', 3, '')", "7"),
    ("REPEAT('ab', 3)", "ababab"),
    ("REPEAT('ab', -1)", ""),
    ("REPEAT('ab', '2')", "abab"),
    ("MASK('4111111111111111', 'last4')", "************1111"),
    ("MASK('4111111111111111', 'first4')", "4111************"),
    ("MASK('4111111111111111', '2*3', '#')", "41###########111"),
    ("MASK('abc', 'last4')", "***"),
    ("MASK('abcd', 'last4')", "****"),
    ("MASK('secret', 'whatever')", "******"),
    ("MASK(12345678, 'last2', '')", "******78"),
    ("MASK(null, 'last4')", ""),
    ("FORMAT_CURRENCY(1234.5, 'USD')", "$1,234.50"),
    ("FORMAT_CURRENCY('1234.5', 'usd')", "$1,234.50"),
    ("FORMAT_CURRENCY(-0.005, 'USD')", "-$0.01"),
    ("FORMAT_CURRENCY(-0.001, 'USD')", "$0.00"),
    ("FORMAT_CURRENCY(1234.5, 'EUR', 'de-DE')", "1.234,50\N{NO-BREAK SPACE}€"),
    ("FORMAT_CURRENCY(1234567.5, 'INR', 'en-IN')", "₹12,34,567.50"),
    ("FORMAT_CURRENCY(1234.5, 'JPY')", "¥1,235"),
    ("FORMAT_CURRENCY(3, 'CHF')", "CHF\N{NO-BREAK SPACE}3.00"),
    ("FORMAT_CURRENCY(3, 'USD', 'xx-YY')", "$3.00"),
    ("FORMAT_CURRENCY(1e300, 'USD')", "USD 1e+300"),
    ("FORMAT_CURRENCY('x', 'USD')", None),
    ("FORMAT_DATE('2026-03-04', 'DD.MM.YYYY')", "04.03.2026"),
    ("FORMAT_DATE('2026-03-04T05:06:07Z', 'YYYY-MM-DD HH:mm:ss')", "2026-03-04 05:06:07"),
    ("FORMAT_DATE('2026-03-04T05:06:07+02:00', 'HH:mm')", "03:06"),
    ("FORMAT_DATE('2026-07-04T23:30:00Z', 'DD HH', 'UTC')", "04 23"),
    ("FORMAT_DATE('2026-07-04T23:30:00Z')", "2026-07-04"),
    ("FORMAT_DATE(0, 'YYYY')", "1970"),
    ("FORMAT_DATE(1e30, 'YYYY')", None),
    ("FORMAT_DATE('soon', 'YYYY')", None),
    ("FORMAT_DATE('2026-02-31', 'YYYY')", None),
    ("FORMAT_DATE('2026-03-04', 'YYYY', 'Nowhere/Land')", None),
    ("FORMAT_DATE('2026-03-04', 'YYYY', '../../etc/passwd')", None),
    ("ORDINAL(1)", "1st"),
    ("ORDINAL('22')", "22nd"),
    ("ORDINAL(3)", "3rd"),
    ("ORDINAL(11)", "11th"),
    ("ORDINAL(112)", "112th"),
    ("ORDINAL(4)", "4th"),
    ("ORDINAL(1.5)", "1.5"),
    ("ORDINAL(null)", ""),
    ("IS_ARRAY([])", True),
    ("IS_ARRAY('a')", False),
    ("IS_NUMBER(1)", True),
    ("IS_NUMBER('1e3')", True),
    ("IS_NUMBER('0x10')", False),
    ("IS_NUMBER('\N{ARABIC-INDIC DIGIT ONE}')", False),
    ("IS_STRING('1')", True),
    ("IS_STRING(1)", False),
    ("TO_NUMBER('1.50')", 1.5),
    ("TO_NUMBER('x')", None),
    ("TO_NUMBER('')", None),
    ("TO_NUMBER(true)", 1),
    ("TO_NUMBER('1e999')", None),
    ("TO_STRING(1.0)", "1"),
    ("TO_STRING(1.5)", "1.5"),
    ("TO_STRING(1e21)", "1e+21"),
    ("TO_STRING(0.0000001)", "1e-7"),
    ("TO_STRING(null)", ""),
    ("TO_STRING(true)", "true"),
    ("""TO_STRING({a: [1, 'x"', null]})""", '{"a":[1,"x\\"",null]}'),
    ("LENGTH('abc')", 3),
    ("LENGTH([1, 2])", 2),
    ("LENGTH({a: 1})", 0),
    ("LENGTH(7)", 0),
    ("LENGTH(null)", 0),
    ("ARRAY_FIND(rooms, 'kind', 'double').id", 8),
    ("ARRAY_FIND(rooms, 'id', '7').kind", "single"),
    ("ARRAY_FIND(rooms, 'at.floor', 2).id", 8),
    ("ARRAY_FIND(rooms, 'kind', 'suite')", None),
    ("ARRAY_FIND('rooms', 'kind', 'suite')", None),
    ("ARRAY_FIND_INDEX(rooms, 'kind', 'double')", 1),
    ("ARRAY_FIND_INDEX(rooms, 'kind', 'suite')", -1),
    ("ARRAY_FIND_INDEX(null, 'kind', 'suite')", -1),
    ("OBJECT_KEYS({a: 1, b: 2})", ["a", "b"]),
    ("OBJECT_KEYS([1])", []),
    ("OBJECT_VALUES({a: 1, b: 2})", [1, 2]),
    ("OBJECT_VALUES('x')", []),
    ("OBJECT_MERGE({a: 1, b: 1}, 'x', null, {b: 2})", {"a": 1, "b": 2}),
    ("COALESCE(null, unset, 'x')", "x"),
    ("COALESCE(0, 1)", 0),
    ("COALESCE(false, 1)", False),
    ("COALESCE('', 1)", ""),
    ("COALESCE(null, unset)", None),
    ("NOW()", "2026-01-01T00:00:00.000Z"),
    ("NOW_MS()", 1_767_225_600_000),
    ("TODAY()", "2026-01-01"),
    ("UNIQUE_ID(4)", "0001"),
    ("UNIQUE_ID()", "020001"),
    ("UNIQUE_ID(0)", "1"),
]


@pytest.mark.parametrize(("text", "value"), CASES)
def test_a_function_gives(text: str, value: Any) -> None:
    found = evaluate(text, {"rooms": ROOMS}, clock=FakeClock(), ids=CountingIds())

    assert found == value
    assert type(found) is type(value) or isinstance(found, (int, float)) is isinstance(value, (int, float))


def test_there_are_thirty_eight_and_each_is_tried() -> None:
    tried = {text.partition("(")[0] for text, _ in CASES}

    assert tried == set(FUNCTIONS)
    assert len(FUNCTIONS) == 38


@pytest.mark.parametrize("spelling", ["UPPER(x)", "abl.upper(x)", "abl.UPPER(x)", "upper(x)", "Upper(x)", "x.upper()"])
def test_a_function_is_found_whatever_its_case(spelling: str) -> None:
    assert evaluate(spelling, {"x": "ada"}) == "ADA"


def test_a_zone_moves_the_clock() -> None:
    pytest.importorskip("zoneinfo").ZoneInfo("Asia/Tokyo")

    assert evaluate("FORMAT_DATE('2026-07-04T23:30:00Z', 'DD HH', 'Asia/Tokyo')", {}) == "05 08"


def test_a_day_without_a_time_is_the_same_day_in_every_zone() -> None:
    pytest.importorskip("zoneinfo").ZoneInfo("America/New_York")

    assert evaluate("FORMAT_DATE('2026-07-04', 'DD HH', 'America/New_York')", {}) == "04 00"
    assert evaluate("FORMAT_DATE('2026-07-04T00:00', 'DD HH', 'America/New_York')", {}) == "03 20"


def test_ids_differ_and_have_the_length_that_was_asked_for() -> None:
    one, two = evaluate("UNIQUE_ID(40)", {}), evaluate("UNIQUE_ID(40)", {})

    assert one != two
    assert len(one) == len(two) == 40
    assert len(evaluate("UNIQUE_ID(999999)", {})) == 64


@pytest.mark.parametrize(
    "text",
    [
        "REPEAT('x', 1000000000)",
        "REPEAT(long, 2)",
        "PAD_START('x', 1000000000)",
        "PAD_END('x', 1e300)",
        "REPLACE(long, '', long)",
        "REPLACE(long, 'x', 'xx')",
        "JOIN([long, long])",
        "JOIN(SPLIT(long, ''), long)",
        "long + long",
        "UPPER(long + 'ßßßßßßßßß')",
        "TO_STRING([long, long])",
        "'{{long}}{{long}}'",
        "SPLIT(REPLACE(half, 'x', 'x '), '') + SPLIT(half, '')",
    ],
)
def test_what_would_grow_too_large_is_stopped(text: str) -> None:
    scope = {"long": "x" * 99_990, "half": "x" * 49_999}

    with pytest.raises(LimitExceeded) as caught:
        evaluate(text, scope)
    assert caught.value.limit <= 100_000
    assert len(evaluate("long + 'x'", scope)) == 99_991
    assert len(evaluate("REPLACE(long, 'x', 'y')", scope)) == 99_990
