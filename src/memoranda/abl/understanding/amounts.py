"""The numbers of a text in; number fields filled out.

A number goes to the field whose word stands beside it ("2 guests", "budget of 500"), money to a field for money. One
that stands alone answers only the question that was just asked.
"""

from __future__ import annotations

from itertools import pairwise

from memoranda.abl.understanding.days import JOINERS
from memoranda.abl.understanding.numbers import Number
from memoranda.abl.understanding.reading import STOPS, Reading
from memoranda.abl.understanding.vocabulary import ARTICLES, NONE, PARTS_OF_PEOPLE, UNIT_WORDS, bag
from memoranda.abl.understanding.wanted import Plan

_FILLERS = bag(
    """
    of is are about around = : roughly be to at approximately approx maximum max up the a for was will would
    should $ € £ like circa ca only just exactly some say it's # over under below between than less more most
    least i'm von de ist
    """
)
"""What may stand between the word of a field and its number."""
_ENDS_NAMES = STOPS | bag("and or for from to on in at with is are - – by until if but und et y e the a my per %")
"""What does not stand between a number and the word for what it counts."""
_MOST = bag("under below max maximum most upto less within hochstens unter")
_LEAST = bag("over above min minimum least more mindestens uber")
_ANDS = frozenset({"and", "und", "et", "y", "e"})
_OPENERS = frozenset({"between", "zwischen", "entre"})
_ALTERNATIVES = frozenset({"or", "oder", "ou", "o"})
_OPPOSITES = frozenset({"no", "not", "nicht"})
_PAYS = bag("pay paying send sending transfer transferring wire wiring spend spending deposit withdraw donate")
_YEARS = range(1900, 2200)
"""Who was born in such a year is not so old."""
_NEAR = 5


def take_numbers(reading: Reading, plans: list[Plan]) -> None:
    """Fill fields with the numbers that are said for them, then the one that was asked for."""
    numbers = reading.numbers()
    if numbers:
        for plan in plans:
            if plan.span or plan.many:
                _take_several(reading, plan)
        if len(numbers) > 1:
            _take_ends(reading, plans)
            _leave_ranges(reading)
        if not reading.said.known.isdisjoint(PARTS_OF_PEOPLE):
            _take_people(reading, plans)
        for number, plan in _best_pairs(reading, [plan for plan in plans if reading.open(plan) and plan.single]):
            reading.take(plan, number.first, number.last + _cue_after(reading, number, plan), number.value)
    for plan in plans:
        if reading.open(plan) and plan.single:
            if plan.counted and not reading.said.known.isdisjoint(NONE) and _says_none(reading, plan):
                reading.values[plan.name] = 0
            elif plan.asked and numbers:
                _take_asked(reading, plan)


def _fitting(plan: Plan, number: Number) -> bool:
    return not plan.whole or type(number.value) is int


# --- a word beside it -----------------------------------------------------------------------------------------------


def _best_pairs(reading: Reading, plans: list[Plan]) -> list[tuple[Number, Plan]]:
    """Return the numbers with their fields, read as "2 guests" or as "guests 2", whichever explains more numbers."""
    pairs = [(number, plan) for number in reading.numbers() for plan in plans]
    if not pairs:
        return pairs
    after = [pair for pair in pairs if _cue_after(reading, *pair)]
    before = [pair for pair in pairs if _cue_before(reading, *pair)]
    best = _greedy([*after, *before])
    if len(pairs) > 1 and len(best) < len(plans):
        beside = [pair for pair in pairs if reading.said.word(pair[0].first - 1) in pair[1].cues]
        other = _greedy([*beside, *before, *after])
        return other if len(other) > len(best) else best
    return best


def _greedy(pairs: list[tuple[Number, Plan]]) -> list[tuple[Number, Plan]]:
    kept: list[tuple[Number, Plan]] = []
    for number, plan in pairs:
        if all(number is not used and plan is not filled for used, filled in kept):
            kept.append((number, plan))
    return kept


def _cue_after(reading: Reading, number: Number, plan: Plan) -> int:
    """Return how many words behind a number say that it is the field's: `2 adult guests` has two."""
    words = reading.said.words
    after = words[number.last : number.last + 3]
    if not after or not _fitting(plan, number) or not _on_side(reading, number, plan):
        return 0
    if after[0] in plan.cues:
        return 1
    if after[0] in _ENDS_NAMES or (after[0] == "of" and "us" not in plan.cues):
        return 0
    second = after[1:2]
    if second and second[0] in plan.cues and ((after[0].isalpha() and after[0] not in UNIT_WORDS) or "old" in second):
        return 2
    return 0


def _cue_before(reading: Reading, number: Number, plan: Plan) -> bool:
    """Say whether the words before a number, or a currency, say that it is the field's."""
    if not _fitting(plan, number) or not _on_side(reading, number, plan) or _is_foreign(reading, number, plan):
        return False
    words = reading.said.words
    if plan.money and (number.money or _is_paid(reading, number)):
        return True
    for place in range(number.first - 1, max(number.first - _NEAR, 0) - 1, -1):
        if words[place] in plan.cues:
            return True
        if words[place] not in _FILLERS:
            return False
    return False


def _is_paid(reading: Reading, number: Number) -> bool:
    """Say whether a number alone is paid: `send 500 to Grace`, not `send 2 copies`."""
    after = reading.said.word(number.last)
    return reading.said.word(number.first - 1) in _PAYS and (not after or after in _ENDS_NAMES)


def _on_side(reading: Reading, number: Number, plan: Plan) -> bool:
    """Say whether "at most" or "over" before a number does not speak against a field for the other end."""
    if plan.side not in ("least", "most"):
        return True
    low, high = _bound(reading, number)
    return not (low and plan.side == "most") and not (high and plan.side == "least")


def _bound(reading: Reading, number: Number) -> tuple[bool, bool]:
    """Return whether words before a number make it a lower bound ("over 100"), or an upper one ("up to 100")."""
    before = reading.said.words[max(number.first - 3, 0) : number.first]
    high = not _MOST.isdisjoint(before) or before[-2:] == ["up", "to"]
    low = not _LEAST.isdisjoint(before)
    # "No more than" and "not less than" say the opposite.
    return (high, low) if not _OPPOSITES.isdisjoint(before) else (low, high)


def _is_foreign(reading: Reading, number: Number, plan: Plan) -> bool:
    """Say whether a number counts something else: 3 nights are no guests, $20 no rooms."""
    after = reading.said.word(number.last)
    if "aged" in plan.cues and number.value in _YEARS:
        return True
    if after in UNIT_WORDS and after not in plan.cues:
        return not (plan.counted == "people" and after in PARTS_OF_PEOPLE)
    return (number.money and not plan.money and bool(plan.counted)) or (after == "%" and bool(plan.counted))


def _says_none(reading: Reading, plan: Plan) -> bool:
    """Say whether the text says that there are none: `no children`."""
    words = reading.said.words
    for place, word in enumerate(words[:-1]):
        if word in NONE and words[place + 1] in plan.cues and reading.free(place, place + 2):
            reading.spend(place, place + 2)
            return True
    return False


# --- several numbers for one field, or one thought ------------------------------------------------------------------


def _take_ends(reading: Reading, plans: list[Plan]) -> None:
    """Fill the two fields of a range that is said at once: `between 100 and 200 dollars`."""
    numbers = reading.numbers()
    ends = [plan for plan in plans if plan.side and plan.single]
    for one, two in pairwise(numbers):
        if not ends or not _are_joined(reading, one, two):
            continue
        for plan in ends:
            said_for = plan.asked or _is_said_for(reading, one, plan) or _is_said_for(reading, two, plan)
            if said_for and reading.free(one.first, two.first if plan.side == "least" else two.last):
                number = one if plan.side == "least" else two
                reading.take(plan, number.first, number.last, number.value)
        return


def _are_joined(reading: Reading, one: Number, two: Number) -> bool:
    words = reading.said.words
    between = words[one.last : two.first]
    if len(between) != 1 or two.value < one.value:
        return False
    return between[0] in JOINERS or (
        between[0] in _ANDS and not _OPENERS.isdisjoint(words[max(one.first - 2, 0) : one.first])
    )


def _leave_ranges(reading: Reading) -> None:
    """Keep the two numbers of `2 or 3 guests` and `$100-200` from fields that have room for one."""
    words = reading.said.words
    for one, two in pairwise(reading.numbers()):
        between = words[one.last : two.first]
        paid = reading.said.word(one.first - 1) in _PAYS
        if (len(between) == 1 and between[0] in _ALTERNATIVES) or (_are_joined(reading, one, two) and not paid):
            reading.spend(one.first, two.last)


def _take_people(reading: Reading, plans: list[Plan]) -> None:
    """Fill a field for all people with the sum of its parts: `2 adults and 1 child`."""
    counting = {plan.counted: plan for plan in plans if plan.counted in ("people", "adults", "children")}
    plan = counting.pop("people", None)
    if plan is None or counting or not reading.open(plan):
        return
    said = reading.said
    counted = [number for number in reading.numbers() if said.word(number.last) in PARTS_OF_PEOPLE]
    single = [
        Number(place, place + 1, 1)
        for place, word in enumerate(said.words)
        if word in ARTICLES and _is_person(word, said.word(place + 1)) and reading.free(place, place + 1)
    ]
    numbers = [*counted, *(one for one in single if all(one.first != other.first for other in counted))]
    if counted and len({said.word(number.last) for number in numbers}) > 1:
        total = sum(number.value for number in numbers)
        for number in numbers:
            reading.take(plan, number.first, number.last + 1, total)


def _is_person(article: str, word: str) -> bool:
    # An English "kind" is nobody.
    return word in PARTS_OF_PEOPLE or (article == "ein" and word == "kind")


def _take_several(reading: Reading, plan: Plan) -> None:
    numbers = [number for number in reading.numbers() if _fitting(plan, number)]
    if plan.span:
        _take_span(reading, plan, numbers)
        return
    said_for = [number for number in numbers if plan.asked or _is_said_for(reading, number, plan)]
    if said_for:
        for number in said_for:
            reading.spend(number.first, number.last)
        reading.values[plan.name] = [number.value for number in said_for]


def _is_said_for(reading: Reading, number: Number, plan: Plan) -> bool:
    return bool(_cue_after(reading, number, plan)) or _cue_before(reading, number, plan)


def _take_span(reading: Reading, plan: Plan, numbers: list[Number]) -> None:
    """Fill a range: `100-200`, `between 2 and 4`, `up to 300`; one number alone is both ends."""
    for one, two in pairwise(numbers):
        said_for = plan.asked or _is_said_for(reading, one, plan) or _is_said_for(reading, two, plan)
        if said_for and _are_joined(reading, one, two):
            reading.take(plan, one.first, two.last, {"from": one.value, "to": two.value})
            return
    if len(numbers) == 1 and (plan.asked or _is_said_for(reading, numbers[0], plan)):
        only = numbers[0]
        low, high = _bound(reading, only)
        ends = {"from": None if high else only.value, "to": None if low else only.value}
        reading.take(plan, only.first, only.last, ends)


# --- the answer -----------------------------------------------------------------------------------------------------


def _take_asked(reading: Reading, plan: Plan) -> None:
    fits = [number for number in reading.numbers() if _fitting(plan, number) and not _is_foreign(reading, number, plan)]
    if len(fits) == 1:
        reading.take(plan, fits[0].first, fits[0].last, fits[0].value)
