"""The little words of each language, read from `vocabulary.toml`, which says what each list is for."""

from __future__ import annotations

from pathlib import Path

import msgspec


class _Lists(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stop: str
    also: str = ""
    letters: str = ""
    months: str = ""
    moments: str = ""
    units: str = ""
    before: str = ""
    numbers: str = ""


class TimeWords(msgspec.Struct, frozen=True, gc=False):
    """The words by which a language says when, how long and how many."""

    months: dict[str, int]
    moments: frozenset[str]
    units: frozenset[str]
    before: frozenset[str]
    numbers: frozenset[str]


AMBIGUOUS_MONTHS = frozenset({"may", "march"})
"""Months of which what stands beside them says whether they are meant."""

ARTICLES = frozenset("the la le les el il lo der die das den dem het de o a os as".split())
"""What may stand between "during" and "summer"."""


def _time_words(lists: _Lists) -> TimeWords:
    months = {name: number for number, names in enumerate(lists.months.split(), 1) for name in names.split("/")}
    return TimeWords(
        months,
        frozenset(lists.moments.split()) | months.keys() - AMBIGUOUS_MONTHS,
        frozenset(lists.units.split()),
        frozenset(lists.before.split()),
        frozenset(lists.numbers.split()),
    )


_LISTS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, _Lists])

STOP_WORDS: dict[str, frozenset[str]] = {language: frozenset(lists.stop.split()) for language, lists in _LISTS.items()}
ALSO_ENGLISH: frozenset[str] = frozenset(_LISTS["en"].also.split())
LETTERS: dict[str, frozenset[str]] = {language: frozenset(lists.letters.split()) for language, lists in _LISTS.items()}
TIME_WORDS: dict[str, TimeWords] = {language: _time_words(lists) for language, lists in _LISTS.items() if lists.months}
