"""The time of an entry, or the words of a text, in; the years, months and days that they name out."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from typing import NamedTuple

from recollect.retrieval.analysis.stemming import term
from recollect.retrieval.analysis.vocabulary import AMBIGUOUS_MONTHS, TIME_WORDS


class Day(NamedTuple):
    """A day, or a month or a year: what the time does not say is 0."""

    year: int
    month: int
    day: int


_ISO = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:[Tt ][0-9].*)?)?)?|([0-9]{4})([0-9]{2})([0-9]{2})(?:T.*)?")


def read_day(time: object) -> Day | None:
    """Return the day of a time in ISO 8601 as it is written, without regard to its offset; None if it is none.

    >>> read_day("2023-05-08T13:56:00+02:00"), read_day("2023-05"), read_day("yesterday"), read_day(20230508)
    (Day(year=2023, month=5, day=8), Day(year=2023, month=5, day=0), None, None)
    """
    found = _ISO.fullmatch(time) if isinstance(time, str) else None
    if found is None:
        return None
    year, month, day = (int(number or 0) for number in (found.groups()[:3] if found[1] else found.groups()[3:]))
    # A group that is missing gives 0; one that says 00 is no date.
    if not year or month > 12 or (found[2] or found[5] or "01") == "00" or (found[3] or found[6] or "01") == "00":
        return None
    return Day(year, month, day) if not day or day <= monthrange(year, month)[1] else None


def date_terms(day: Day, language: str) -> tuple[str, ...]:
    """Return the terms by which an entry can be found through its time: the name of its month, its year.

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
_ISO_DAY = re.compile(r"((?:19|20)[0-9]{2})-(0[1-9]|1[0-2])(?:-(0[1-9]|[12][0-9]|3[01]))?")


def month_at(words: Sequence[str], place: int, languages: Sequence[str]) -> int:
    """Return the number of the month that a folded word names where it stands, or 0.

    "may" and "march" count only beside a day, a year or a word such as "in".
    """
    word = words[place]
    for language in languages:
        names = TIME_WORDS.get(language)
        month = names.months.get(word) if names else None
        if month:
            before = words[place - 1] if place else ""
            after = words[place + 1] if place + 1 < len(words) else ""
            beside = before in _BESIDE_A_MONTH or _day(before) or _day(after) or _YEAR.fullmatch(after)
            return month if word not in AMBIGUOUS_MONTHS or beside else 0
    return 0


class Dates(NamedTuple):
    """What a text names: whole years, months and days of a month, each by itself."""

    years: frozenset[int]
    months: frozenset[int]
    days: frozenset[int]


def read_dates(words: Sequence[str], languages: Sequence[str]) -> Dates:
    """Return the years, months and days that the folded words of a text name, in the languages given.

    >>> read_dates(["on", "5th", "of", "may", "2023"], ["en"])
    Dates(years=frozenset({2023}), months=frozenset({5}), days=frozenset({5}))
    """
    years: set[int] = set()
    months: set[int] = set()
    days: set[int] = set()
    for place, word in enumerate(words):
        if word[0].isdigit():
            if _YEAR.fullmatch(word):
                years.add(int(word))
            elif iso := _ISO_DAY.fullmatch(word):
                years.add(int(iso[1]))
                months.add(int(iso[2]))
                days.update([int(iso[3])] if iso[3] else [])
            elif (figures := word.rpartition("/")) and _YEAR.fullmatch(figures[2]):
                years.add(int(figures[2]))
        elif month := month_at(words, place, languages):
            months.add(month)
            # "5 May", "May 5th", and with a word between: "5th of May", "5 de mayo".
            beside = [*words[max(place - 2, 0) : place], *words[place + 1 : place + 2]]
            if len(beside) > 1 and words[place - 1] not in _BETWEEN:
                beside = beside[-2:] if place + 1 < len(words) else beside[-1:]
            days.update(day for day in map(_day, beside) if day)
    return Dates(frozenset(years), frozenset(months), frozenset(days))


_BETWEEN = frozenset({"of", "de", "the", "di", "del"})


def _day(word: str) -> int:
    """Return the day of the month that a word such as `8` or `8th` may be, or 0."""
    found = _DAY.fullmatch(word)
    day = int(found[1]) if found else 0
    return day if day <= 31 else 0
