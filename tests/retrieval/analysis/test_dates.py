"""Read days from times in metadata, and years and months from words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.analysis.dates import Day, date_terms, read_dates, read_day


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2031-04-09", (2031, 4, 9)),
        ("2031-04-09T23:30:00Z", (2031, 4, 9)),
        ("2031-04-09T23:30:00.5+02:00", (2031, 4, 9)),
        ("2031-04-09 23:30", (2031, 4, 9)),
        ("20310409", (2031, 4, 9)),
        ("20310409T233000Z", (2031, 4, 9)),
        ("2031-04", (2031, 4, 0)),
        ("2031", (2031, 0, 0)),
        ("2028-02-29", (2028, 2, 29)),
    ],
)
def test_a_time_in_iso_form_gives_its_day(time: str, expected: tuple[int, int, int]) -> None:
    assert read_day(time) == expected


@pytest.mark.parametrize(
    "time",
    ["", "soon", "2031-13-01", "2031-00-01", "2031-04-00", "2031-04-31", "2027-02-29", "0000-01-01", "31-04-09",
     "2031-4-9", "2031-04-09x", " 2031-04-09", "٢٠٣١-٠٤-٠٩", "20311301", "20310400", None, 2031, 20310409.0, True,
     ["2031-04-09"], {"year": 2031}],
)  # fmt: skip
def test_what_is_no_such_time_gives_none(time: object) -> None:
    assert read_day(time) is None
    assert read_day("2031-04-09") is not None


@given(st.one_of(st.dates().map(str), st.datetimes().map(lambda moment: moment.isoformat())))
def test_every_time_that_python_writes_is_read(time: str) -> None:
    day = read_day(time)
    assert day is not None and f"{day.year:04}-{day.month:02}-{day.day:02}" == time[:10]


@given(st.text(max_size=40))
def test_no_text_breaks_it(time: str) -> None:
    read_day(time)


def test_an_entry_is_found_by_its_month_and_year_in_its_language() -> None:
    assert date_terms(Day(2031, 1, 9), "en") == ("januari", "2031")
    assert date_terms(Day(2031, 3, 9), "de") == ("marz", "2031")
    assert date_terms(Day(2031, 3, 9), "ja") == date_terms(Day(2031, 3, 9), "") == ("march", "2031")
    assert date_terms(Day(2031, 0, 0), "en") == ("2031",)


@pytest.mark.parametrize(
    ("words", "years", "months"),
    [
        ("in june 2031", {2031}, {6}),
        ("on 9 april 2031", {2031}, {4}),
        ("on april 9th", set(), {4}),
        ("the 9th of april", set(), {4}),
        ("in may", set(), {5}),
        ("may 2031", {2031}, {5}),
        ("may 9th", set(), {5}),
        ("what may happen", set(), set()),
        ("they march on", set(), set()),
        ("since march", set(), {3}),
        ("2031-04-09", {2031}, {4}),
        ("4/9/2031", {2031}, set()),
        ("room 2150 and 999", set(), set()),
        ("between june and july", set(), {6, 7}),
        ("3 boats in june", set(), {6}),
    ],
)
def test_words_name_years_and_months(words: str, years: set[int], months: set[int]) -> None:
    assert read_dates(words.split(), ["en"]) == (years, months)


def test_months_are_named_in_the_language_of_the_text() -> None:
    assert read_dates("am 9. märz 2031".split(), ["de", "en"]) == ({2031}, {3})
    assert read_dates("el 9 de mayo".split(), ["es", "en"]) == (set(), {5})
    assert read_dates("el 9 de mayo".split(), ["en"]) == (set(), set())
