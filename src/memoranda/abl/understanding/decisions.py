"""The words of a user in; yes-or-no fields filled out."""

from __future__ import annotations

from memoranda.abl.understanding.reading import STOPS, Reading, denied
from memoranda.abl.understanding.vocabulary import NO, NOT, YES, bag
from memoranda.abl.understanding.wanted import Plan

_PHRASES: dict[tuple[str, ...], bool] = {
    ("of", "course"): True,
    ("go", "ahead"): True,
    ("sounds", "good"): True,
    ("why", "not"): True,
    ("no", "problem"): True,
    ("no", "worries"): True,
    ("no", "doubt"): True,
    ("no", "objection"): True,
    ("no", "objections"): True,
    ("i", "think", "so"): True,
    ("i", "guess", "so"): True,
    ("i", "suppose", "so"): True,
    ("i", "believe", "so"): True,
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
    ("pourquoi", "pas"): True,
    ("auf", "jeden", "fall"): True,
    ("warum", "nicht"): True,
    ("por", "supuesto"): True,
    ("de", "acuerdo"): True,
    ("por", "que", "no"): True,
    ("com", "certeza"): True,
    ("va", "bene"): True,
    ("i", "don't"): False,
    ("i", "do", "not"): False,
    ("i", "am", "not"): False,
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
    ("i", "guess", "not"): False,
    ("i", "suppose", "not"): False,
    ("auf", "keinen", "fall"): False,
    ("lieber", "nicht"): False,
    ("eher", "nicht"): False,
    ("pas", "du", "tout"): False,
    ("pas", "vraiment"): False,
    ("not",): False,
}
_UNSURE = (
    ("not", "sure"),
    ("don't", "know"),
    ("don't", "mind"),
    ("no", "idea"),
    ("no", "se"),
    ("no", "lo", "se"),
    ("not", "certain"),
    ("not", "wrong"),
    ("not", "bad"),
    ("or", "no"),
    ("or", "not"),
)
_HARMLESS = (
    ("why", "not"),
    ("no", "problem"),
    ("no", "problems"),
    ("no", "worries"),
    ("no", "doubt"),
    ("no", "objection"),
    ("no", "objections"),
    ("not", "a", "problem"),
    ("warum", "nicht"),
    ("pourquoi", "pas"),
    ("por", "que", "no"),
)
"""What has a "no" in it and takes no "yes" back."""
_EMPHATIC = bag("course absolutely definitely certainly naturlich sur claro certo supuesto")
"""Words that make the "not" right behind them stronger: `of course not`."""
_AGAINST = NOT | NO
_FOR = bag("yes yep yeah yup ja oui si sim doch")
_BETWEEN = frozenset({"que", "che", ","})
_ONLY_WHOLE = bag("i it please perfect great fine good")
_OPENINGS = bag("oh well um uh hmm , . ! hi hello so and i think actually sorry")


def take_decisions(reading: Reading, plans: list[Plan]) -> None:
    """Fill fields that are true or false: with what is said for them by name, then with the answer."""
    for plan in plans:
        named = _named(reading, plan)
        if named is not None:
            first, last, value = named
            reading.take(plan, first, last, value)
        elif plan.asked and (value := decide(reading)) is not None:
            reading.take(plan, 0, 1, value)


def decide(reading: Reading) -> bool | None:
    """Return whether the words say yes or no, or None where they say neither, or both."""
    words = [word for place, word in enumerate(reading.said.words) if reading.told(place) and not reading.taken[place]]
    if any(_contains(words, phrase) for phrase in _UNSURE):
        return None
    begin = next((place for place, word in enumerate(words) if word not in _OPENINGS or _begins(words, place)), None)
    if begin is None:
        return None
    phrase = _begins(words, begin)
    value = _plain(words[begin]) if phrase is None else _PHRASES[phrase]
    last = begin + (len(phrase) if phrase else 1)
    if value:
        return _affirmed(words[last - 1], words[last:])
    return None if value is False and not _FOR.isdisjoint(words[last:]) else value


def _plain(word: str) -> bool | None:
    return True if word in YES else False if word in NO else None


def _affirmed(word: str, rest: list[str]) -> bool | None:
    """Return what a "yes" is worth: `sure, why not` is one, `of course not` a no, `yes, but no` neither."""
    after = [other for other in rest if other not in _BETWEEN]
    if word in _EMPHATIC and after and after[0] in _AGAINST:
        return False if all(other in STOPS for other in after[1:]) else None
    for phrase in _HARMLESS:
        while _contains(rest, phrase):
            first = next(at for at in range(len(rest)) if tuple(rest[at : at + len(phrase)]) == phrase)
            rest = rest[:first] + rest[first + len(phrase) :]
    return True if _AGAINST.isdisjoint(rest) else None


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
