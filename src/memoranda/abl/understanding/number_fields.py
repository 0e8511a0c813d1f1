"""Fill number fields.

A number goes to the field whose word is next to it ("2 guests", "budget of 500"), money to a field for money. A number
without such a word only answers the question that was just asked.
"""

from __future__ import annotations

from itertools import pairwise

from memoranda.abl.understanding.dates import JOINERS
from memoranda.abl.understanding.extraction import STOPS, Extraction
from memoranda.abl.understanding.fields import FieldProfile
from memoranda.abl.understanding.numbers import Number
from memoranda.abl.understanding.vocabulary import ARTICLES, NONE, PARTS_OF_PEOPLE, UNIT_WORDS, word_set

_FILLERS = word_set(
    """
    of is are about around = : roughly be to at approximately approx maximum max up the a for was will would
    should $ € £ like circa ca only just exactly some say it's # over under below between than less more most
    least i'm von de ist
    """
)
"""Words that may separate the word of a field from its number."""
_ENDS_NAMES = STOPS | word_set("and or for from to on in at with is are - – by until if but und et y e the a my per %")
"""Words that never separate a number from the word for what it counts."""
_MOST = word_set("under below max maximum most upto less within hochstens unter")
_LEAST = word_set("over above min minimum least more mindestens uber")
_ANDS = frozenset({"and", "und", "et", "y", "e"})
_OPENERS = frozenset({"between", "zwischen", "entre"})
_ALTERNATIVES = frozenset({"or", "oder", "ou", "o"})
_OPPOSITES = frozenset({"no", "not", "nicht"})
_PAYS = word_set("pay paying send sending transfer transferring wire wiring spend spending deposit withdraw donate")
_YEARS = range(1900, 2200)
"""Values that are a year of birth and not an age."""
_NEAR = 5


def take_numbers(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill fields with the numbers next to their words, then the field that was asked for."""
    numbers = extraction.numbers()
    if numbers:
        for profile in profiles:
            if profile.span or profile.many:
                _take_several(extraction, profile)
        if len(numbers) > 1:
            _take_ends(extraction, profiles)
            _leave_ranges(extraction)
        if not extraction.said.known.isdisjoint(PARTS_OF_PEOPLE):
            _take_people(extraction, profiles)
        for number, profile in _best_pairs(
            extraction, [profile for profile in profiles if extraction.is_open(profile) and profile.single]
        ):
            extraction.take(profile, number.first, number.last + _cue_after(extraction, number, profile), number.value)
    for profile in profiles:
        if extraction.is_open(profile) and profile.single:
            if profile.counted and not extraction.said.known.isdisjoint(NONE) and _says_none(extraction, profile):
                extraction.values[profile.name] = 0
            elif profile.asked and numbers:
                _take_asked(extraction, profile)


def _fitting(profile: FieldProfile, number: Number) -> bool:
    return not profile.whole or type(number.value) is int


# --- a word beside it -----------------------------------------------------------------------------------------------


def _best_pairs(extraction: Extraction, profiles: list[FieldProfile]) -> list[tuple[Number, FieldProfile]]:
    """Pair numbers with fields, reading "2 guests" or "guests 2", whichever explains more numbers."""
    pairs = [(number, profile) for number in extraction.numbers() for profile in profiles]
    if not pairs:
        return pairs
    after = [pair for pair in pairs if _cue_after(extraction, *pair)]
    before = [pair for pair in pairs if _cue_before(extraction, *pair)]
    best = _greedy([*after, *before])
    if len(pairs) > 1 and len(best) < len(profiles):
        beside = [pair for pair in pairs if extraction.said.word(pair[0].first - 1) in pair[1].cues]
        other = _greedy([*beside, *before, *after])
        return other if len(other) > len(best) else best
    return best


def _greedy(pairs: list[tuple[Number, FieldProfile]]) -> list[tuple[Number, FieldProfile]]:
    kept: list[tuple[Number, FieldProfile]] = []
    for number, profile in pairs:
        if all(number is not used and profile is not filled for used, filled in kept):
            kept.append((number, profile))
    return kept


def _cue_after(extraction: Extraction, number: Number, profile: FieldProfile) -> int:
    """Return how many words after a number assign it to the field: two in `2 adult guests`."""
    words = extraction.said.words
    after = words[number.last : number.last + 3]
    if not after or not _fitting(profile, number) or not _on_side(extraction, number, profile):
        return 0
    if after[0] in profile.cues:
        return 1
    if after[0] in _ENDS_NAMES or (after[0] == "of" and "us" not in profile.cues):
        return 0
    second = after[1:2]
    if (
        second
        and second[0] in profile.cues
        and ((after[0].isalpha() and after[0] not in UNIT_WORDS) or "old" in second)
    ):
        return 2
    return 0


def _cue_before(extraction: Extraction, number: Number, profile: FieldProfile) -> bool:
    """Say whether the words before a number, or its currency, assign it to the field."""
    if (
        not _fitting(profile, number)
        or not _on_side(extraction, number, profile)
        or _is_foreign(extraction, number, profile)
    ):
        return False
    words = extraction.said.words
    if profile.money and (number.money or _is_paid(extraction, number)):
        return True
    for place in range(number.first - 1, max(number.first - _NEAR, 0) - 1, -1):
        if words[place] in profile.cues:
            return True
        if words[place] not in _FILLERS:
            return False
    return False


def _is_paid(extraction: Extraction, number: Number) -> bool:
    """Say whether a number without a currency is an amount: `send 500 to Grace`, not `send 2 copies`."""
    after = extraction.said.word(number.last)
    return extraction.said.word(number.first - 1) in _PAYS and (not after or after in _ENDS_NAMES)


def _on_side(extraction: Extraction, number: Number, profile: FieldProfile) -> bool:
    """Say whether a bound such as "at most" before a number fits a field for the minimum or maximum."""
    if profile.side not in ("least", "most"):
        return True
    low, high = _bound(extraction, number)
    return not (low and profile.side == "most") and not (high and profile.side == "least")


def _bound(extraction: Extraction, number: Number) -> tuple[bool, bool]:
    """Return whether words before a number make it a lower bound ("over 100") or an upper bound ("up to 100")."""
    before = extraction.said.words[max(number.first - 3, 0) : number.first]
    high = not _MOST.isdisjoint(before) or before[-2:] == ["up", "to"]
    low = not _LEAST.isdisjoint(before)
    # "No more than" and "not less than" say the opposite.
    return (high, low) if not _OPPOSITES.isdisjoint(before) else (low, high)


def _is_foreign(extraction: Extraction, number: Number, profile: FieldProfile) -> bool:
    """Say whether a number counts something else: 3 nights are not guests, $20 are not rooms."""
    after = extraction.said.word(number.last)
    if "aged" in profile.cues and number.value in _YEARS:
        return True
    if after in UNIT_WORDS and after not in profile.cues:
        return not (profile.counted == "people" and after in PARTS_OF_PEOPLE)
    return (number.money and not profile.money and bool(profile.counted)) or (after == "%" and bool(profile.counted))


def _says_none(extraction: Extraction, profile: FieldProfile) -> bool:
    """Say whether the text says there are none, such as `no children`, and take those words."""
    words = extraction.said.words
    for place, word in enumerate(words[:-1]):
        if word in NONE and words[place + 1] in profile.cues and extraction.is_free(place, place + 2):
            extraction.spend(place, place + 2)
            return True
    return False


# --- several numbers ------------------------------------------------------------------


def _take_ends(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill the two fields of a range: `between 100 and 200 dollars`."""
    numbers = extraction.numbers()
    ends = [profile for profile in profiles if profile.side and profile.single]
    for one, two in pairwise(numbers):
        if not ends or not _are_joined(extraction, one, two):
            continue
        for profile in ends:
            said_for = profile.asked or _is_said_for(extraction, one, profile) or _is_said_for(extraction, two, profile)
            if said_for and extraction.is_free(one.first, two.first if profile.side == "least" else two.last):
                number = one if profile.side == "least" else two
                extraction.take(profile, number.first, number.last, number.value)
        return


def _are_joined(extraction: Extraction, one: Number, two: Number) -> bool:
    words = extraction.said.words
    between = words[one.last : two.first]
    if len(between) != 1 or two.value < one.value:
        return False
    return between[0] in JOINERS or (
        between[0] in _ANDS and not _OPENERS.isdisjoint(words[max(one.first - 2, 0) : one.first])
    )


def _leave_ranges(extraction: Extraction) -> None:
    """Take the two numbers of `2 or 3 guests` and `$100-200` out of the way of fields for one number."""
    words = extraction.said.words
    for one, two in pairwise(extraction.numbers()):
        between = words[one.last : two.first]
        paid = extraction.said.word(one.first - 1) in _PAYS
        if (len(between) == 1 and between[0] in _ALTERNATIVES) or (_are_joined(extraction, one, two) and not paid):
            extraction.spend(one.first, two.last)


def _take_people(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill a field for all people with the sum of its parts: `2 adults and 1 child`."""
    counting = {profile.counted: profile for profile in profiles if profile.counted in ("people", "adults", "children")}
    profile = counting.pop("people", None)
    if profile is None or counting or not extraction.is_open(profile):
        return
    said = extraction.said
    counted = [number for number in extraction.numbers() if said.word(number.last) in PARTS_OF_PEOPLE]
    single = [
        Number(place, place + 1, 1)
        for place, word in enumerate(said.words)
        if word in ARTICLES and _is_person(word, said.word(place + 1)) and extraction.is_free(place, place + 1)
    ]
    numbers = [*counted, *(one for one in single if all(one.first != other.first for other in counted))]
    if counted and len({said.word(number.last) for number in numbers}) > 1:
        total = sum(number.value for number in numbers)
        for number in numbers:
            extraction.take(profile, number.first, number.last + 1, total)


def _is_person(article: str, word: str) -> bool:
    # In German, "Kind" is a child.
    return word in PARTS_OF_PEOPLE or (article == "ein" and word == "kind")


def _take_several(extraction: Extraction, profile: FieldProfile) -> None:
    numbers = [number for number in extraction.numbers() if _fitting(profile, number)]
    if profile.span:
        _take_span(extraction, profile, numbers)
        return
    said_for = [number for number in numbers if profile.asked or _is_said_for(extraction, number, profile)]
    if said_for:
        for number in said_for:
            extraction.spend(number.first, number.last)
        extraction.values[profile.name] = [number.value for number in said_for]


def _is_said_for(extraction: Extraction, number: Number, profile: FieldProfile) -> bool:
    return bool(_cue_after(extraction, number, profile)) or _cue_before(extraction, number, profile)


def _take_span(extraction: Extraction, profile: FieldProfile, numbers: list[Number]) -> None:
    """Fill a range: `100-200`, `between 2 and 4`, `up to 300`; one number alone is both ends."""
    for one, two in pairwise(numbers):
        said_for = profile.asked or _is_said_for(extraction, one, profile) or _is_said_for(extraction, two, profile)
        if said_for and _are_joined(extraction, one, two):
            extraction.take(profile, one.first, two.last, {"from": one.value, "to": two.value})
            return
    if len(numbers) == 1 and (profile.asked or _is_said_for(extraction, numbers[0], profile)):
        only = numbers[0]
        low, high = _bound(extraction, only)
        ends = {"from": None if high else only.value, "to": None if low else only.value}
        extraction.take(profile, only.first, only.last, ends)


# --- the answer -----------------------------------------------------------------------------------------------------


def _take_asked(extraction: Extraction, profile: FieldProfile) -> None:
    fits = [
        number
        for number in extraction.numbers()
        if _fitting(profile, number) and not _is_foreign(extraction, number, profile)
    ]
    if len(fits) == 1:
        extraction.take(profile, fits[0].first, fits[0].last, fits[0].value)
