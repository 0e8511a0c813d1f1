"""Read dates: the day of an entry's `time`, and the years and months that a query names."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from typing import NamedTuple

from memoranda.retrieval.analysis.languages import AMBIGUOUS_MONTHS, TIME_WORDS, term


class Day(NamedTuple):
    """A day, month or year; parts that are not given are 0."""

    year: int
    month: int
    day: int


_ISO = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:[Tt ][0-9].*)?)?)?|([0-9]{4})([0-9]{2})([0-9]{2})(?:T.*)?")


def read_day(time: object) -> Day | None:
    """Return the day of an ISO 8601 time as written, ignoring its UTC offset; None if it is not one.

    >>> read_day("2023-05-08T13:56:00+02:00"), read_day("2023-05"), read_day("yesterday"), read_day(20230508)
    (Day(year=2023, month=5, day=8), Day(year=2023, month=5, day=0), None, None)
    """
    found = _ISO.fullmatch(time) if isinstance(time, str) else None
    if found is None:
        return None
    year, month, day = (int(number or 0) for number in (found.groups()[:3] if found[1] else found.groups()[3:]))
    # A missing group gives 0; "00" is not valid.
    if not year or month > 12 or (found[2] or found[5] or "01") == "00" or (found[3] or found[6] or "01") == "00":
        return None
    return Day(year, month, day) if not day or day <= monthrange(year, month)[1] else None


def date_terms(day: Day, language: str) -> tuple[str, ...]:
    """Return the terms by which an entry is found through its time: the stemmed month and the year.

    >>> date_terms(Day(2023, 9, 1), "en"), date_terms(Day(2023, 9, 1), "de"), date_terms(Day(2023, 0, 0), "en")
    (('septemb', '2023'), ('septemb', '2023'), ('2023',))
    """
    year = str(day.year)
    if not day.month:
        return (year,)
    names = TIME_WORDS.get(language)
    name = _MONTH_NAMES["en" if names is None else language][day.month]
    return (term(name, "en" if names is None else language), year)


def _first_names(months: dict[str, int]) -> dict[int, str]:
    names: dict[int, str] = {}
    for name, number in months.items():
        names.setdefault(number, name)
    return names


_MONTH_NAMES = {language: _first_names(words.months) for language, words in TIME_WORDS.items()}

_BESIDE_A_MONTH = frozenset(
    "in of on by since until till during last next this early late mid before after from between and to every".split()
)
_DAY = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th|er|\.)?")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_ISO_DAY = re.compile(r"((?:19|20)[0-9]{2})-(0[1-9]|1[0-2])(?:-(?:0[1-9]|[12][0-9]|3[01]))?")


def month_at(words: Sequence[str], place: int, languages: Sequence[str]) -> int:
    """Return the number of the month that the word at `place` names, or 0; the words are case-folded.

    "may" and "march" count only next to a day, a year or a word such as "in".
    """
    word = words[place]
    for language in languages:
        names = TIME_WORDS.get(language)
        month = names.months.get(word) if names else None
        if month:
            before = words[place - 1] if place else ""
            after = words[place + 1] if place + 1 < len(words) else ""
            dated = _may_be_a_day(before) or _may_be_a_day(after) or _YEAR.fullmatch(after)
            return month if word not in AMBIGUOUS_MONTHS or dated or before in _BESIDE_A_MONTH else 0
    return 0


class Dates(NamedTuple):
    """The years and the months that a text names, independently of each other."""

    years: frozenset[int]
    months: frozenset[int]


def read_dates(words: Sequence[str], languages: Sequence[str]) -> Dates:
    """Return the years and months that the case-folded words of a text name in these languages.

    >>> read_dates(["on", "may", "5th", "2023"], ["en"])
    Dates(years=frozenset({2023}), months=frozenset({5}))
    """
    years: set[int] = set()
    months: set[int] = set()
    for place, word in enumerate(words):
        if word[0].isdigit():
            if _YEAR.fullmatch(word):
                years.add(int(word))
            elif iso := _ISO_DAY.fullmatch(word):
                years.add(int(iso[1]))
                months.add(int(iso[2]))
            elif (figures := word.rpartition("/")) and _YEAR.fullmatch(figures[2]):
                years.add(int(figures[2]))
        elif month := month_at(words, place, languages):
            months.add(month)
    return Dates(frozenset(years), frozenset(months))


def _may_be_a_day(word: str) -> bool:
    found = _DAY.fullmatch(word)
    return found is not None and 0 < int(found[1]) <= 31
