"""The words of a user in; yes-or-no fields filled out."""

from __future__ import annotations

from recollect.abl.understanding.reading import STOPS, Reading, denied
from recollect.abl.understanding.vocabulary import NO, YES, bag
from recollect.abl.understanding.wanted import Plan

_PHRASES: dict[tuple[str, ...], bool] = {
    ("of", "course"): True,
    ("go", "ahead"): True,
    ("sounds", "good"): True,
    ("why", "not"): True,
    ("no", "problem"): True,
    ("no", "worries"): True,
    ("please", "do"): True,
    ("i", "do"): True,
    ("i", "am"): True,
    ("it", "is"): True,
    ("that's", "right"): True,
    ("that's", "correct"): True,
    ("sounds", "great"): True,
    ("looks", "good"): True,
    ("looks", "great"): True,
    ("that's", "fine"): True,
    ("i", "agree"): True,
    ("i", "confirm"): True,
    ("please",): True,
    ("perfect",): True,
    ("great",): True,
    ("fine",): True,
    ("good",): True,
    ("bien", "sur"): True,
    ("d'accord",): True,
    ("i", "don't"): False,
    ("i'm", "not"): False,
    ("not", "really"): False,
    ("not", "now"): False,
    ("not", "at", "all"): False,
    ("please", "don't"): False,
    ("don't",): False,
    ("not", "necessary"): False,
    ("not", "needed"): False,
    ("no", "thanks"): False,
    ("no", "thank", "you"): False,
    ("that's", "wrong"): False,
    ("not",): False,
}
_UNSURE = (("not", "sure"), ("don't", "know"), ("no", "idea"), ("not", "certain"), ("or", "no"), ("or", "not"))
_ONLY_WHOLE = bag("i it please perfect great fine good")
_OPENINGS = bag("oh well um uh hmm , . ! hi hello so and i think")


def take_decisions(reading: Reading, plans: list[Plan]) -> None:
    """Fill fields that are true or false: with what is said for them by name, then with the answer."""
    for plan in plans:
        named = _named(reading, plan)
        if named is not None:
            first, last, value = named
            reading.take(plan, first, last, value)
        elif plan.asked and (value := _decision(reading)) is not None:
            reading.take(plan, 0, 1, value)


def _decision(reading: Reading) -> bool | None:
    """Return whether the words say yes or no, or None where they say neither, or both."""
    words = [word for place, word in enumerate(reading.said.words) if reading.told(place) and not reading.taken[place]]
    if any(_contains(words, phrase) for phrase in _UNSURE):
        return None
    begin = next((place for place, word in enumerate(words) if word not in _OPENINGS or _begins(words, place)), None)
    if begin is None:
        return None
    phrase = _begins(words, begin)
    if phrase is not None:
        return _PHRASES[phrase]
    word = words[begin]
    if word in NO:
        return False
    if word in YES:
        contradicts = any(other in NO or other in ("not", "don't") for other in words[begin + 1 :])
        return None if contradicts else True
    return None


def _begins(words: list[str], place: int) -> tuple[str, ...] | None:
    for length in (3, 2, 1):
        phrase = tuple(words[place : place + length])
        if len(phrase) == length and phrase in _PHRASES:
            # "I am Ada", "it is Lisbon" and "please cancel" are no yes.
            whole = all(word in STOPS for word in words[place + length :])
            if whole or not (phrase[0] in _ONLY_WHOLE and _PHRASES[phrase]):
                return phrase
    return None


def _contains(words: list[str], phrase: tuple[str, ...]) -> bool:
    return any(tuple(words[place : place + len(phrase)]) == phrase for place in range(len(words)))


def _named(reading: Reading, plan: Plan) -> tuple[int, int, bool] | None:
    """Return where all words of a field's name stand together, and whether they are affirmed."""
    words = reading.said.words
    if reading.said.known.isdisjoint(plan.cues):
        return None
    last = 0
    for place, word in enumerate(words):
        if place < last or word not in plan.cues or not reading.free(place, place + 1) or not reading.told(place):
            continue
        last = place + 1
        while last < len(words) and (words[last] in plan.cues or words[last] == "-"):
            last += 1
        if _size(words[place:last]) >= _needed(plan):
            answer = _answer_after(words, last)
            return (place, *answer) if answer else (place, last, not denied(words, place))
    return None


def _needed(plan: Plan) -> int:
    """Return how many different words the name has; each stands among the cues in two forms."""
    return max(1, len({word.removesuffix("s") for word in plan.labels[0] if word in plan.cues})) if plan.labels else 1


def _size(words: list[str]) -> int:
    return len({word.removesuffix("s") for word in words if word != "-"})


def _answer_after(words: list[str], place: int) -> tuple[int, bool] | None:
    """Read `parking: yes` and `parking is not needed`."""
    if words[place : place + 1] and words[place] in (":", "=", "is", "are", "-"):
        after = words[place + 1 : place + 2]
        if after and after[0] in YES:
            return place + 2, True
        if after and (after[0] in NO or after[0] == "not"):
            return place + 2, False
    return None
