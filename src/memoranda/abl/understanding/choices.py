"""The options of a field and a text in; the option that is chosen out."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from memoranda.abl.understanding.decisions import decide
from memoranda.abl.understanding.reading import STOPS, Reading, denied
from memoranda.abl.understanding.vocabulary import LAST_WORDS, NO, ORDINALS, SUFFIXES, YES, bag
from memoranda.abl.understanding.wanted import Plan
from memoranda.abl.understanding.words import name_words, words_of

_COMMON = bag(
    """
    a an the any in on to of for and or i me my it one all other none both at by up out with no is be do so new
    old good now
    """
)
_SLIGHT = YES | NO | _COMMON
"""Words that are said all the time: such an option is chosen only when it was asked for."""
_AROUND_PLACES = SUFFIXES | bag(
    """
    option number the one no # please i'd take choose i want go with for pick choice . ! , like i'll have let's
    nr nummer would ok okay yes thanks my is it's that answer prefer then die der das le la les el il bitte
    """
)
"""What stands beside the place of an option: `I'd like number 2, please`."""
_SAYS_PLACE = frozenset({"option", "number", "#", "nummer", "choice"})
_ALTERNATIVES = frozenset({"or", "oder", "ou"})
_MOST_HITS = 64


class _Hit(NamedTuple):
    first: int
    last: int
    option: int


class _Options(msgspec.Struct, frozen=True):
    phrases: tuple[tuple[tuple[str, ...], ...], ...]
    """The words of each option: as a name that joins them, and as a person writes them (`PayPal`, `2GB`)."""
    slight: tuple[bool, ...]
    digits: bool


def take_choices(reading: Reading, plans: Iterable[Plan]) -> None:
    """Fill fields that have options: with the one that is named, or when it was asked for, with the best match."""
    bases = [_base(word) for word in reading.said.words]
    for plan in plans:
        if plan.asked and (exact := _exactly(reading, plan)) is not None:
            reading.take(plan, 0, len(bases), [exact] if plan.many else exact)
            continue
        options = _read_options(plan.options)
        hits = _hits(reading, plan, options, bases)
        chosen = dict.fromkeys(hit.option for hit in hits)
        if len(chosen) == 1 and not plan.many and _has_rival(reading.said.words, hits[0]):
            continue
        if plan.many and chosen:
            for hit in hits:
                reading.spend(hit.first, hit.last)
            reading.values[plan.name] = [plan.options[option] for option in chosen]
        elif len(chosen) == 1:
            reading.take(plan, hits[0].first, hits[0].last, plan.options[hits[0].option])
        elif not chosen and plan.asked:
            _take_answer(reading, plan, options, bases)


def _exactly(reading: Reading, plan: Plan) -> str | None:
    """Return the option that the answer is letter by letter: `C` and `C++` have the same words."""
    answer = reading.said.text.strip().casefold()
    return next((option for option in plan.options if option.strip().casefold() == answer), None)


def find_option(text: str, options: tuple[str, ...]) -> str | None:
    """Return the option that a whole text is, whatever its case, accents and marks; else None.

    >>> find_option("Business class", ("economy", "business_class")), find_option("first", ("economy", "business"))
    ('business_class', None)
    """
    given = {phrase for phrase in _phrases(text) if phrase}
    for option, phrases in zip(options, _read_options(options).phrases, strict=True):
        if not given.isdisjoint(phrases):
            return option
    return None


@lru_cache(maxsize=1024)
def _read_options(options: tuple[str, ...]) -> _Options:
    phrases = tuple(map(_phrases, options))
    slight = tuple(all(word in _SLIGHT or word.isdecimal() for word in first) for first, *_ in phrases)
    return _Options(phrases, slight, any(word.isdecimal() for first, *_ in phrases for word in first))


def _phrases(option: str) -> tuple[tuple[str, ...], ...]:
    """Return an option as the ways to write its words; of signs alone it is those signs."""
    written = words_of(option.replace("_", " "))
    telling = [word for word in written if any(map(str.isalnum, word))] or written
    named = tuple(map(_base, name_words(option)))
    spoken = tuple(map(_base, telling))
    ways = [way for way in (named, spoken) if way]
    if "-" in option:
        ways.append((_base("".join(telling)),))
    return tuple(dict.fromkeys(ways)) or ((),)


def _base(word: str) -> str:
    """Return a word without the `s` of a plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _hits(reading: Reading, plan: Plan, options: _Options, bases: list[str]) -> list[_Hit]:
    """Return where options are named in full, the longest where one holds another, without those that are refused."""
    found: list[_Hit] = []
    ways = [(option, phrase) for option, phrases in enumerate(options.phrases) for phrase in phrases]
    for option, phrase in ways:
        if not phrase or phrase[0] not in bases or (options.slight[option] and not plan.asked):
            continue
        for place, word in enumerate(bases):
            if word == phrase[0] and (last := _matches(bases, place, phrase)) and reading.free(place, last):
                found.append(_Hit(place, last, option))
                if len(found) >= _MOST_HITS:
                    break
    found = [hit for hit in found if not any(_holds(other, hit) for other in found)]
    return [hit for hit in found if reading.told(hit.first) and not denied(reading.said.words, hit.first)]


def _has_rival(words: list[str], hit: _Hit) -> bool:
    """Say whether another thing is named as well: `cash or card`."""
    before = words[hit.first - 2] if hit.first > 1 and words[hit.first - 1] in _COMMON else words[hit.first - 1]
    after = words[hit.last : hit.last + 2]
    return (hit.first > 0 and before in _ALTERNATIVES) or (
        len(after) > 1 and after[0] in _ALTERNATIVES and after[1] not in STOPS
    )


def _matches(bases: list[str], place: int, phrase: tuple[str, ...]) -> int:
    """Return where a phrase ends that begins at a place, hyphens aside; 0 if it does not stand there."""
    for word in phrase:
        if place < len(bases) and bases[place] == "-":
            place += 1
        if place >= len(bases) or bases[place] != word:
            return 0
        place += 1
    return place


def _holds(one: _Hit, other: _Hit) -> bool:
    longer = one.last - one.first > other.last - other.first
    return longer and one.first <= other.first and other.last <= one.last


def _take_answer(reading: Reading, plan: Plan, options: _Options, bases: list[str]) -> None:
    if reading.request is not None or reading.asking is not None:
        return
    place = _place(reading, len(plan.options), options)
    chosen = _partly(reading, options, bases) if place is None else place
    if chosen is None:
        chosen = _decided(reading, options)
    if chosen is not None:
        value = plan.options[chosen]
        reading.take(plan, 0, len(bases), [value] if plan.many else value)


def _place(reading: Reading, count: int, options: _Options) -> int | None:
    """Return the option that is chosen by its place: `2`, `the second one`, `the last`."""
    words = reading.said.words
    numbers = reading.numbers()
    ordinals = [ORDINALS[word] for word in words if word in ORDINALS]
    ordinals += [count for word in words if word in LAST_WORDS]
    suffixed = [int(words[at - 1]) for at, word in enumerate(words) if word in SUFFIXES and _is_count(words[at - 1])]
    rest = [
        word
        for word in words
        if word not in _AROUND_PLACES and word not in ORDINALS and word not in LAST_WORDS and not _is_count(word)
    ]
    if len(numbers) == 1:
        rest = [word for word in rest if word not in words[numbers[0].first : numbers[0].last]]
        if not options.digits or not _SAYS_PLACE.isdisjoint(words):
            ordinals = ordinals or [int(numbers[0].value)]
    places = ordinals or suffixed
    return places[0] - 1 if not rest and len(places) == 1 and 1 <= places[0] <= count else None


def _decided(reading: Reading, options: _Options) -> int | None:
    """Return the one option that says yes, or the one that says no, where the answer does in other words: `nope`."""
    decision = decide(reading)
    if decision is None:
        return None
    words = YES if decision else NO
    meant = [option for option, (first, *_) in enumerate(options.phrases) if len(first) == 1 and first[0] in words]
    return meant[0] if len(meant) == 1 else None


def _is_count(word: str) -> bool:
    return word.isdecimal() and len(word) <= 3


def _partly(reading: Reading, options: _Options, bases: list[str]) -> int | None:
    """Return the one option that shares the most words with the answer."""
    told = {
        word
        for place, word in enumerate(bases)
        if word not in _SLIGHT
        and word not in STOPS
        and reading.free(place, place + 1)
        and not denied(reading.said.words, place)
    }
    shared = [max(len(told.intersection(phrase)) for phrase in phrases) for phrases in options.phrases]
    most = max(shared, default=0)
    return shared.index(most) if most and shared.count(most) == 1 else None
