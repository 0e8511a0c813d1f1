"""Find numbers, dates and times in a text. Today is Wednesday, 4 November 2026."""

from __future__ import annotations

from datetime import date

import pytest

from memoranda.abl.understanding.dates import find_days, find_times
from memoranda.abl.understanding.numbers import find_numbers, read_number
from memoranda.abl.understanding.words import Utterance, fold, name_words

TODAY = date(2026, 11, 4)


def numbers(text: str) -> list[float]:
    said = Utterance(text)
    return [number.value for number in find_numbers(said, bytearray(len(said.words)))]


def days(text: str) -> list[str]:
    return [str(day.settle(TODAY)) for day in find_days(Utterance(text), TODAY)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("100-200", [100, 200]),
        ("two dozen eggs and 3 pans", [24, 3]),
        ("one and a half", [1.5]),
        ("two thousand five hundred", [2500]),
        ("eight hundred thousand", [800_000]),
        ("a hundred and one", [101]),
        ("3 dozen", [36]),
        ("2.5 million", [2_500_000]),
        ("1.1k", [1100]),
        ("3bn", [3_000_000_000]),
        ("$2b", [2_000_000_000]),
        ("2x", [2]),
        ("3nights", [3]),
        ("two three", [2, 3]),
        ("soixante-dix", [70]),
        ("cento e vinte e dois", [122]),
        ("mil dos", [1002]),
        ("1.200.000", [1_200_000]),
        ("1,200,000.5", [1_200_000.5]),
        ("ein Paar", [2]),
        ("une", [1]),
        ("zero", [0]),
        ("twenty zero", [20, 0]),
        ("a cat", []),
        ("une chose est claire", []),
        ("12B", []),
        ("3rd", []),
        ("AB-12", []),
        ("A12", []),
        ("the first one", []),
        ("one way", []),
        ("1.2.3", []),
        ("1,2.3,4", []),
        ("5m", []),
        ("9999999999999999", []),
        ("5@example.org", []),
    ],
)
def test_numbers_are_found(text: str, values: list[float]) -> None:
    assert numbers(text) == values


def test_numbers_whose_words_are_spent_are_left_out() -> None:
    said = Utterance("two hundred and 5")

    assert [number.value for number in find_numbers(said, bytearray(4))] == [200, 5]
    assert [number.value for number in find_numbers(said, bytearray([0, 1, 0, 0]))] == [5]


@pytest.mark.parametrize("text", ["", "two cats", "2 3", "about", "12 May"])
def test_a_text_that_is_more_than_a_number_is_none(text: str) -> None:
    assert read_number(text) is None
    assert read_number("20 %") == 20


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3 May to 5 June", ["2027-05-03", "2027-06-05"]),
        ("May 3 to 5, 2027", ["2027-05-03", "2027-05-05"]),
        ("May 3 to June 5", ["2027-05-03", "2027-06-05"]),
        ("May 3 to the 5th of June", ["2027-05-03", "2027-06-05"]),
        ("May the 3rd until the 5th", ["2027-05-03", "2027-05-05"]),
        ("between May 3 and 5", ["2027-05-03", "2027-05-05"]),
        ("between 3 and 5 May", ["2027-05-03", "2027-05-05"]),
        ("from the 12th to the 15th of May", ["2027-05-12", "2027-05-15"]),
        ("from the 12th to the 15th", ["2026-11-12", "2026-11-15"]),
        ("28 Dec to 3 Jan 2028", ["2027-12-28", "2028-01-03"]),
        ("5/12 to 5/15", ["2027-05-12", "2027-05-15"]),
        ("2027/05/12", ["2027-05-12"]),
        ("12.05.99", ["1999-05-12"]),
        ("Friday next week", ["2026-11-13"]),
        ("last Monday", ["2026-11-02"]),
        ("vendredi prochain", ["2026-11-13"]),
        ("yesterday", ["2026-11-03"]),
        ("3 days ago", ["2026-11-01"]),
        ("vor 3 Tagen", ["2026-11-01"]),
        ("in a couple of weeks", ["2026-11-18"]),
        ("in a year", ["2027-11-04"]),
        ("pasado mañana", ["2026-11-06"]),
        ("por la mañana", []),
        ("31 June", ["None"]),
        ("may 2 people come", []),
        ("May 2 pm", []),
        ("I saw the sun", []),
        ("room 3 and 5 May", ["2027-05-05"]),
        ("1.2.3.4", []),
        ("2-5", []),
        ("1/2 cup of sugar", []),
        ("12-12-12-12", []),
        ("in 9999 years", []),
    ],
)
def test_days_are_found(text: str, found: list[str]) -> None:
    assert days(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the first monday of may", ["2027-05-03"]),
        ("last Friday in June 2028", ["2028-06-30"]),
        ("the second tuesday of next month", ["2026-12-08"]),
        ("the 3rd Thursday of November", ["2026-11-19"]),
        ("the fifth monday of february", []),
        ("next to last friday of may", []),
        ("the first monday", []),
        ("3rd monday", []),
        ("the monday after easter", []),
        ("monday after 5pm", ["2026-11-09"]),
        ("last monday", ["2026-11-02"]),
    ],
)
def test_a_weekday_counted_within_a_month_is_understood_or_left_alone(text: str, found: list[str]) -> None:
    assert days(text) == found


def test_a_day_may_be_the_last_one_that_was() -> None:
    (day,) = find_days(Utterance("5 November"), TODAY)
    (ordinal,) = find_days(Utterance("the 5th"), TODAY)

    assert str(day.settle(TODAY)) == "2026-11-05"
    assert str(day.settle(TODAY, past=True)) == "2025-11-05"
    assert str(day.settle(TODAY, after=date(2026, 11, 6))) == "2027-11-05"
    assert str(ordinal.settle(TODAY, past=True)) == "2026-10-05"


def test_no_more_days_numbers_and_times_are_found_than_a_person_says() -> None:
    assert len(days("3 May, " * 5)) == 5
    assert len(days("3 May, " * 500)) < 100
    assert len(numbers("7, " * 500)) < 100
    assert len(find_times(Utterance("12:30, " * 300))) < 100


def test_times_are_found_in_order() -> None:
    assert [found.iso_text() for found in find_times(Utterance("from 9am to 5.30 pm"))] == ["09:00", "17:30"]
    assert [found.iso_text() for found in find_times(Utterance("at 10:00:05 or midnight"))] == ["10:00:05", "00:00"]
    assert find_times(Utterance("I am 3 and a half")) == []


def test_words_are_folded_and_names_are_parted() -> None:
    assert fold("ÉTÉ") == "ete"
    assert fold("Straße") == "strasse"
    assert name_words("checkInDate") == ("check", "in", "date")
    assert name_words("größe_in_cm") == ("grosse", "in", "cm")
    assert Utterance("Cafe\u0301").words == ["cafe"]


@pytest.mark.parametrize(
    "text",
    ["12 May, please", "Zürich  ou Genève?", "write to ada@example.org", "don’t", "2027-05-12T10:00", "", "a\nb"],
)
def test_each_word_stands_where_its_place_says(text: str) -> None:
    said = Utterance(text)
    parts = [said.part(place, place + 1) for place in range(len(said.words))]
    assert [fold(part) for part in parts] == said.words
    assert all(part in said.text for part in parts)
    assert bool(parts) is bool(text)
