"""The words of a user in; fields for a person's name filled where somebody is introduced out."""

from __future__ import annotations

from memoranda.abl.understanding.reading import Reading
from memoranda.abl.understanding.vocabulary import LANGUAGES, NO, YES, bag
from memoranda.abl.understanding.wanted import Plan

_INTRODUCTIONS: tuple[tuple[tuple[str, ...], bool], ...] = (
    (("my", "name", "is"), False),
    (("the", "name", "is"), False),
    (("my", "name's"), False),
    (("the", "name's"), False),
    (("call", "me"), True),
    (("i'm",), True),
    (("i", "am"), True),
    (("this", "is"), True),
    (("mein", "name", "ist"), False),
    (("ich", "heisse"), False),
    (("ich", "bin"), True),
    (("je", "m'appelle"), False),
    (("me", "llamo"), False),
    (("mi", "nombre", "es"), False),
    (("soy",), True),
    (("meu", "nome", "e"), False),
    (("chamo", "-", "me"), False),
    (("je", "suis"), True),
)
"""Words before a name, and whether only capital letters tell that a name follows."""
_STATES = bag(
    """
    sorry fine interested here not ok okay looking back the a an at in going i ready done from calling tomorrow today
    maybe later good great tired hungry busy married single late lost new very so too really still already just
    waiting trying happy sad sick ill afraid glad sure unsure confused
    """
)
NO_NAMES = LANGUAGES | YES | NO | _STATES
"""What follows \"I am\" and is no name."""
_AFTER_NAMES = bag(
    """
    and from but i i'm my with for at in on to here by please und et y e calling speaking of who is thanks thank
    the a
    """
)
_MOST_NAME_WORDS = 6
_LONGEST_TITLE = 3


def take_names(reading: Reading, plans: list[Plan]) -> None:
    """Fill fields for a person's name where the user introduces somebody."""
    plans = [plan for plan in plans if plan.role in ("person", "first name", "last name") and reading.open(plan)]
    span = _introduced(reading) if plans else None
    if span is None:
        return
    begin, first, last = span
    said = reading.said
    reading.spend(begin, first)
    for plan in plans:
        if plan.role == "person":
            reading.take(plan, first, last, said.part(first, last))
            return
        if plan.role == "first name":
            reading.take(plan, first, first + 1, said.part(first, first + 1))
        elif last - first > 1:
            reading.take(plan, first + 1, last, said.part(first + 1, last))


def _introduced(reading: Reading) -> tuple[int, int, int] | None:
    """Return where an introduction begins, where the name in it begins, and where it ends."""
    known = reading.said.known
    for phrase, strict in _INTRODUCTIONS:
        if phrase[0] not in known:
            continue
        for place in reading.said.places(phrase):
            span = _name_at(reading, place + len(phrase), strict=strict) if reading.told(place) else None
            if span is not None:
                return place, *span
    return None


def _name_at(reading: Reading, first: int, *, strict: bool) -> tuple[int, int] | None:
    """Return from where to where a name stands, with its hyphens and the point of `Dr.`."""
    said = reading.said
    last = first
    while last < len(said.words) and last - first < _MOST_NAME_WORDS and _is_name_word(reading, last, strict=strict):
        last += 1
        joins = said.word(last) == "-" and said.glued(last + 1)
        shortened = said.word(last) == "." and len(said.words[last - 1]) <= _LONGEST_TITLE
        if said.glued(last) and (joins or shortened) and said.word(last + 1).isalpha():
            last += 1
    return (first, last) if last > first and said.words[last - 1].isalpha() and reading.free(first, last) else None


def _is_name_word(reading: Reading, place: int, *, strict: bool) -> bool:
    said = reading.said
    word = said.words[place]
    if not word.replace("'", "").isalpha() or word in _AFTER_NAMES or word in NO_NAMES:
        return False
    return not strict or said.capital(place)
