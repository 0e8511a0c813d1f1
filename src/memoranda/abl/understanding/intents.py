"""The user's words and the intents of an agent in; the one that is meant out.

An intent is meant where all words of its label, or of one of its keywords, stand near each other in any order, and no
"not" before them. Small words do not count, and neither do endings: `change_dates` is in "I'd like to change my travel
dates", not in "which dates do you have" and not in "don't change the dates".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache

import msgspec

from memoranda.abl.understanding.reading import SENTENCE_ENDS, denied
from memoranda.abl.understanding.vocabulary import NOT, bag
from memoranda.abl.understanding.words import Said, name_words, read_words

_SMALL = bag(
    """
    a an the my your our i i'd i'm we you it me to of for on in at with want wants would like please can could
    is are be do does and or user customer asks about this that some der die das den ein eine ich mein meine le
    la les un une mon ma mes el los las mi mis o os as um uma meu minha de du need will there have has
    """
)
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "s")
_SHORTEST = 3
_SLACK = 3
"""How many other words may stand between those of a phrase."""
_WINDOW = 24
"""How many words of a phrase are looked at behind its first; more of them are repetitions."""


class Intent(msgspec.Struct, frozen=True, dict=True):
    """What a user may want: a label, and other words for it."""

    label: str
    keywords: tuple[str, ...] = ()

    @cached_property
    def phrases(self) -> tuple[frozenset[str], ...]:
        """The label and the keywords as the stems of their words, those that count."""
        found: list[frozenset[str]] = []
        for text in (self.label, *self.keywords):
            words = [word for part in re.split(r"[\s_]+", text) for word in name_words(part)]
            telling = [word for word in words if word not in _SMALL] or words
            if telling:
                found.append(frozenset(map(stem, telling)))
        return tuple(dict.fromkeys(found))

    @cached_property
    def stems(self) -> frozenset[str]:
        """All stems of its phrases: a text without any of them does not show it."""
        return frozenset[str]().union(*self.phrases)


def match_intent(text: str, intents: Sequence[Intent]) -> int | None:
    """Return the place of the intent that a text shows: the one with most words, then the first; None without one.

    >>> intents = [Intent("change_dates"), Intent("cancel", ("call it off",))]
    >>> match_intent("I want to change the dates", intents), match_intent("please call it off", intents)
    (0, 1)
    >>> match_intent("what dates do you have", intents), match_intent("don't change the dates", intents)
    (None, None)
    """
    said = read_words(text)
    if not said.words or not intents:
        return None
    stems = list(map(stem, said.words))
    known = set(stems)
    best, most = None, 0
    for place, intent in enumerate(intents):
        if known.isdisjoint(intent.stems):
            continue
        for phrase in intent.phrases:
            if len(phrase) > most and known.issuperset(phrase) and _stands(said, stems, phrase):
                best, most = place, len(phrase)
    return best


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Return a word without its ending, so that `cancelling` and `cancellation` are `cancel`.

    >>> stem("cancelling"), stem("cancellation"), stem("changed"), stem("dates"), stem("bus")
    ('cancel', 'cancel', 'chang', 'dat', 'bus')
    """
    if len(word) <= _SHORTEST:
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending in ("ies", "ied") else "")
            break
    word = word.removesuffix("'")
    if len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] in "bdglmnprt":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > _SHORTEST else word


def _stands(said: Said, stems: list[str], phrase: frozenset[str]) -> bool:
    """Say whether the words of a phrase stand near each other somewhere, affirmed."""
    places = [place for place, word in enumerate(stems) if word in phrase]
    for start, first in enumerate(places):
        missing = set(phrase)
        for place in places[start : start + _WINDOW]:
            missing.discard(stems[place])
            if not missing:
                if _near(said, stems, phrase, first, place) and not denied(said.words, first):
                    return True
                break
    return False


def _near(said: Said, stems: list[str], phrase: frozenset[str], first: int, last: int) -> bool:
    """Say whether a few words that count, and neither "not" nor a full stop, stand between those of a phrase."""
    between = [
        said.words[place]
        for place in range(first, last)
        if stems[place] not in phrase and said.words[place] not in _SMALL
    ]
    return len(between) <= _SLACK and NOT.isdisjoint(between) and SENTENCE_ENDS.isdisjoint(between)
