"""Fill fields with options, and fields that are true or false."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from memoranda.abl.understanding.extraction import STOPS, Extraction, is_denied
from memoranda.abl.understanding.fields import FieldProfile
from memoranda.abl.understanding.vocabulary import LAST_WORDS, NO, NOT, ORDINALS, SUFFIXES, YES, word_set
from memoranda.abl.understanding.words import name_words, words_of

_COMMON = word_set(
    """
    a an the any in on to of for and or i me my it one all other none both at by up out with no is be do so new
    old good now
    """
)
_SLIGHT = YES | NO | _COMMON
"""Common words: an option of such words is chosen only if the field was asked for."""
_AROUND_PLACES = SUFFIXES | word_set(
    """
    option number the one no # please i'd take choose i want go with for pick choice . ! , like i'll have let's
    nr nummer would ok okay yes thanks my is it's that answer prefer then die der das le la les el il bitte
    """
)
"""Words around the position of an option: `I'd like number 2, please`."""
_SAYS_PLACE = frozenset({"option", "number", "#", "nummer", "choice"})
_ALTERNATIVES = frozenset({"or", "oder", "ou"})
_MOST_HITS = 64


class _Hit(NamedTuple):
    first: int
    last: int
    option: int


class _Options(msgspec.Struct, frozen=True):
    phrases: tuple[tuple[tuple[str, ...], ...], ...]
    """The words of each option, split as an identifier and as a person writes them (`PayPal`, `2GB`)."""
    slight: tuple[bool, ...]
    digits: bool


def take_choices(extraction: Extraction, profiles: Iterable[FieldProfile]) -> None:
    """Fill fields that have options with the option that is named; if it was asked for, with the best match."""
    bases = [_base(word) for word in extraction.said.words]
    for profile in profiles:
        if profile.asked and (exact := _exact_option(extraction, profile)) is not None:
            extraction.take(profile, 0, len(bases), [exact] if profile.many else exact)
            continue
        options = _read_options(profile.options)
        hits = _hits(extraction, profile, options, bases)
        chosen = dict.fromkeys(hit.option for hit in hits)
        if len(chosen) == 1 and not profile.many and _has_rival(extraction.said.words, hits[0]):
            continue
        if profile.many and chosen:
            for hit in hits:
                extraction.spend(hit.first, hit.last)
            extraction.values[profile.name] = [profile.options[option] for option in chosen]
        elif len(chosen) == 1:
            extraction.take(profile, hits[0].first, hits[0].last, profile.options[hits[0].option])
        elif not chosen and profile.asked:
            _take_answer(extraction, profile, options, bases)


def _exact_option(extraction: Extraction, profile: FieldProfile) -> str | None:
    """Return the option that equals the answer; `C` and `C++` have the same words."""
    answer = extraction.said.text.strip().casefold()
    return next((option for option in profile.options if option.strip().casefold() == answer), None)


def find_option(text: str, options: tuple[str, ...]) -> str | None:
    """Return the option that a whole text is, ignoring case, accents and punctuation; else None.

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
    """Return the ways to split an option into words; an option of symbols only is its symbols."""
    written = words_of(option.replace("_", " "))
    telling = [word for word in written if any(map(str.isalnum, word))] or written
    named = tuple(map(_base, name_words(option)))
    spoken = tuple(map(_base, telling))
    ways = [way for way in (named, spoken) if way]
    if "-" in option:
        ways.append((_base("".join(telling)),))
    return tuple(dict.fromkeys(ways)) or ((),)


def _base(word: str) -> str:
    """Return a word without the plural `s`."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _hits(extraction: Extraction, profile: FieldProfile, options: _Options, bases: list[str]) -> list[_Hit]:
    """Return where options are named in full and not denied; of overlapping options, the longest."""
    found: list[_Hit] = []
    ways = [(option, phrase) for option, phrases in enumerate(options.phrases) for phrase in phrases]
    for option, phrase in ways:
        if not phrase or phrase[0] not in bases or (options.slight[option] and not profile.asked):
            continue
        for place, word in enumerate(bases):
            if word == phrase[0] and (last := _matches(bases, place, phrase)) and extraction.is_free(place, last):
                found.append(_Hit(place, last, option))
                if len(found) >= _MOST_HITS:
                    break
    found = [hit for hit in found if not any(_covers(other, hit) for other in found)]
    return [
        hit for hit in found if extraction.is_statement(hit.first) and not is_denied(extraction.said.words, hit.first)
    ]


def _has_rival(words: list[str], hit: _Hit) -> bool:
    """Say whether an alternative is named as well: `cash or card`."""
    before = words[hit.first - 2] if hit.first > 1 and words[hit.first - 1] in _COMMON else words[hit.first - 1]
    after = words[hit.last : hit.last + 2]
    return (hit.first > 0 and before in _ALTERNATIVES) or (
        len(after) > 1 and after[0] in _ALTERNATIVES and after[1] not in STOPS
    )


def _matches(bases: list[str], place: int, phrase: tuple[str, ...]) -> int:
    """Return the end of a phrase that begins at a position, ignoring hyphens; 0 if it does not."""
    for word in phrase:
        if place < len(bases) and bases[place] == "-":
            place += 1
        if place >= len(bases) or bases[place] != word:
            return 0
        place += 1
    return place


def _covers(one: _Hit, other: _Hit) -> bool:
    longer = one.last - one.first > other.last - other.first
    return longer and one.first <= other.first and other.last <= one.last


def _take_answer(extraction: Extraction, profile: FieldProfile, options: _Options, bases: list[str]) -> None:
    if extraction.request is not None or extraction.asking is not None:
        return
    place = _option_by_position(extraction, len(profile.options), options)
    chosen = _closest_option(extraction, options, bases) if place is None else place
    if chosen is None:
        chosen = _option_by_decision(extraction, options)
    if chosen is not None:
        value = profile.options[chosen]
        extraction.take(profile, 0, len(bases), [value] if profile.many else value)


def _option_by_position(extraction: Extraction, count: int, options: _Options) -> int | None:
    """Return the option that is chosen by its position: `2`, `the second one`, `the last`."""
    words = extraction.said.words
    numbers = extraction.numbers()
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


def _option_by_decision(extraction: Extraction, options: _Options) -> int | None:
    """Return the only option that means yes or no, if the answer says that in other words: `nope`."""
    decision = decide(extraction)
    if decision is None:
        return None
    words = YES if decision else NO
    meant = [option for option, (first, *_) in enumerate(options.phrases) if len(first) == 1 and first[0] in words]
    return meant[0] if len(meant) == 1 else None


def _is_count(word: str) -> bool:
    return word.isdecimal() and len(word) <= 3


def _closest_option(extraction: Extraction, options: _Options, bases: list[str]) -> int | None:
    """Return the option that shares the most words with the answer, if it is the only one."""
    told = {
        word
        for place, word in enumerate(bases)
        if word not in _SLIGHT
        and word not in STOPS
        and extraction.is_free(place, place + 1)
        and not is_denied(extraction.said.words, place)
    }
    shared = [max(len(told.intersection(phrase)) for phrase in phrases) for phrases in options.phrases]
    most = max(shared, default=0)
    return shared.index(most) if most and shared.count(most) == 1 else None


# --- yes or no ------------------------------------------------------------------------------------------------------


def _phrases_of(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(phrase.split()) for phrase in text.split("/"))


_YES_PHRASES = _phrases_of(
    "of course/go ahead/sounds good/why not/no problem/no worries/no doubt/no objection/no objections/i think so/"
    "i guess so/i suppose so/i believe so/please do/i do/i am/it is/that's right/that's correct/sounds great/"
    "looks good/looks great/that's fine/i agree/i confirm/please/perfect/great/fine/good/bien sur/d'accord/"
    "pourquoi pas/auf jeden fall/warum nicht/por supuesto/de acuerdo/por que no/com certeza/va bene"
)
_NO_PHRASES = _phrases_of(
    "i don't/i do not/i am not/i'm not/not really/not now/not at all/please don't/don't/not necessary/not needed/"
    "no thanks/no thank you/that's wrong/i guess not/i suppose not/auf keinen fall/lieber nicht/eher nicht/"
    "pas du tout/pas vraiment/not"
)
_PHRASES = {**dict.fromkeys(_YES_PHRASES, True), **dict.fromkeys(_NO_PHRASES, False)}
_UNSURE = _phrases_of(
    "not sure/don't know/don't mind/no idea/no se/no lo se/not certain/not wrong/not bad/or no/or not"
)
_HARMLESS = _phrases_of(
    "why not/no problem/no problems/no worries/no doubt/no objection/no objections/not a problem/warum nicht/"
    "pourquoi pas/por que no"
)
"""Phrases with a "no" that do not contradict a "yes"."""
_EMPHATIC = word_set("course absolutely definitely certainly naturlich sur claro certo supuesto")
"""Words that strengthen a "not" directly after them: `of course not`."""
_AGAINST = NOT | NO
_FOR = word_set("yes yep yeah yup ja oui si sim doch")
_BETWEEN = frozenset({"que", "che", ","})
_ONLY_WHOLE = word_set("i it please perfect great fine good")
_OPENINGS = word_set("oh well um uh hmm , . ! hi hello so and i think actually sorry")


def take_decisions(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill boolean fields: by their name in the text, else from the answer."""
    for profile in profiles:
        named = _find_by_name(extraction, profile)
        if named is not None:
            first, last, value = named
            extraction.take(profile, first, last, value)
        elif profile.asked and (value := decide(extraction)) is not None:
            extraction.take(profile, 0, 1, value)


def decide(extraction: Extraction) -> bool | None:
    """Return True for yes and False for no; None if the words say neither or both."""
    words = [
        word
        for place, word in enumerate(extraction.said.words)
        if extraction.is_statement(place) and not extraction.taken[place]
    ]
    if any(_contains(words, phrase) for phrase in _UNSURE):
        return None
    begin = next((place for place, word in enumerate(words) if word not in _OPENINGS or _phrase_at(words, place)), None)
    if begin is None:
        return None
    phrase = _phrase_at(words, begin)
    value = _yes_or_no(words[begin]) if phrase is None else _PHRASES[phrase]
    last = begin + (len(phrase) if phrase else 1)
    if value:
        return _affirmation(words[last - 1], words[last:])
    return None if value is False and not _FOR.isdisjoint(words[last:]) else value


def _yes_or_no(word: str) -> bool | None:
    return True if word in YES else False if word in NO else None


def _affirmation(word: str, rest: list[str]) -> bool | None:
    """Return what a "yes" means with the words after it: `sure, why not`, `of course not`, `yes, but no`."""
    after = [other for other in rest if other not in _BETWEEN]
    if word in _EMPHATIC and after and after[0] in _AGAINST:
        return False if all(other in STOPS for other in after[1:]) else None
    for phrase in _HARMLESS:
        while _contains(rest, phrase):
            first = next(at for at in range(len(rest)) if tuple(rest[at : at + len(phrase)]) == phrase)
            rest = rest[:first] + rest[first + len(phrase) :]
    return True if _AGAINST.isdisjoint(rest) else None


def _phrase_at(words: list[str], place: int) -> tuple[str, ...] | None:
    for length in (3, 2, 1):
        phrase = tuple(words[place : place + length])
        if len(phrase) == length and phrase in _PHRASES:
            # "I am Ada", "it is Lisbon" and "please cancel" do not mean yes.
            whole = all(word in STOPS for word in words[place + length :])
            if whole or not (phrase[0] in _ONLY_WHOLE and _PHRASES[phrase]):
                return phrase
    return None


def _contains(words: list[str], phrase: tuple[str, ...]) -> bool:
    return any(tuple(words[place : place + len(phrase)]) == phrase for place in range(len(words)))


def _find_by_name(extraction: Extraction, profile: FieldProfile) -> tuple[int, int, bool] | None:
    """Return where all words of a field's name occur together, and whether they are affirmed."""
    words = extraction.said.words
    if extraction.said.known.isdisjoint(profile.cues):
        return None
    last = 0
    for place, word in enumerate(words):
        if (
            place < last
            or word not in profile.cues
            or not extraction.is_free(place, place + 1)
            or not extraction.is_statement(place)
        ):
            continue
        last = place + 1
        while last < len(words) and (words[last] in profile.cues or words[last] == "-"):
            last += 1
        if _distinct_words(words[place:last]) >= _name_length(profile):
            answer = _answer_after(words, last)
            return (place, *answer) if answer else (place, last, not is_denied(words, place))
    return None


def _name_length(profile: FieldProfile) -> int:
    """Return how many different words the name has; the cues contain each in two forms."""
    return (
        max(1, len({word.removesuffix("s") for word in profile.labels[0] if word in profile.cues}))
        if profile.labels
        else 1
    )


def _distinct_words(words: list[str]) -> int:
    return len({word.removesuffix("s") for word in words if word != "-"})


def _answer_after(words: list[str], place: int) -> tuple[int, bool] | None:
    """Return the end and value of an answer after a name: `parking: yes`, `parking is not needed`."""
    if words[place : place + 1] and words[place] in (":", "=", "is", "are", "-"):
        after = words[place + 1 : place + 2]
        if after and after[0] in YES:
            return place + 2, True
        if after and (after[0] in NO or after[0] == "not"):
            return place + 2, False
    return None
