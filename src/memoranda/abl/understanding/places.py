"""The words of a user in; fields for places and recipients filled from `to Lisbon`, `from Berlin`, `to Grace` out."""

from __future__ import annotations

from memoranda.abl.understanding.reading import STOPS, Reading, denied
from memoranda.abl.understanding.vocabulary import LANGUAGES, MONEY_WORDS, MONTHS, bag
from memoranda.abl.understanding.wanted import Plan

_TOWARDS = bag("to in visit visiting nach para em en")
_AWAY = frozenset({"from", "von", "aus", "desde", "leaving"})
_GIVEN = bag("to pay paying for an")
_CUES = {"place": _TOWARDS, "origin": _AWAY, "recipient": _GIVEN}
_LIVES = bag("live lives lived living based work working am i'm born been was were went wohne lebe war")
"""Who lives in a place, or has been there, does not say that they want to go there."""
_WORDS_TO_PEOPLE = bag(
    """
    talk talking speak speaking send sending sent write listen reply connect connected transfer transferred pay
    give said say wire forward according thanks email related due next close regards respect hear heard bought
    mail letter message
    """
)
_THINGS = bag(
    """
    i i'm i'd i'll you ok pdf general total advance case mind summer winter spring autumn person a an my our it
    this that be me us order
    """
)
_NO_PLACES = LANGUAGES | MONEY_WORDS | frozenset(MONTHS) | _THINGS
_NO_TRAVEL = bag(
    """
    go travel fly book visit stay be see get make find reserve rent leave come spend drive head move change know
    have do cancel ask check order buy pay talk speak send say use try start plan explore relax return arrive
    """
)
_AFTER_PLACES = bag(
    """
    for from on with at in to and by please next this or until till tomorrow today tonight i we my our thanks if
    but because as is are was would will then via around between starting leaving arriving after before where
    that und et y e fur pour mit am vom it sounds instead not rather
    """
)
_INSIDE_PLACES = bag("de of the del la da do am an der upon sur los las le les dos das den")
_SHORTENED = frozenset({"st", "mt", "ft", "pt"})
_TRAVEL = bag("go going travel traveling travelling trip fly flying flight drive")
_MOST_PLACE_WORDS = 8


def take_places(reading: Reading, plans: list[Plan]) -> None:
    """Fill fields for places where a word leads to a name in capital letters; small ones do if it was asked for."""
    for plan in plans:
        cues = _CUES.get(plan.role)
        if cues is None or not reading.open(plan) or reading.said.known.isdisjoint(cues):
            continue
        reading.times()
        span = _place_after(reading, plan, cues, capital=True)
        if span is None and plan.asked and plan.role != "recipient":
            span = _place_after(reading, plan, cues, capital=False)
        if span:
            reading.take(plan, span[0], span[1], reading.said.part(*span))


def _place_after(reading: Reading, plan: Plan, cues: frozenset[str], *, capital: bool) -> tuple[int, int] | None:
    said = reading.said
    for place, word in enumerate(said.words[:-1]):
        if word not in cues or not reading.told(place) or denied(said.words, place):
            continue
        if plan.role != "recipient" and (_is_to_people(reading, place) or said.word(place - 1) in _LIVES):
            continue
        first = place + 1
        if said.words[first] == "the" and not said.capital(first):
            first += 1
        last = _place_end(reading, first, capital=capital)
        if last > first and reading.free(first, last):
            return first, last
    return None


def _is_to_people(reading: Reading, place: int) -> bool:
    """Say whether somebody is meant: `send it to Anna`."""
    for word in reversed(reading.said.words[max(place - 3, 0) : place]):
        if word in _TRAVEL or word in STOPS:
            return False
        if word in _WORDS_TO_PEOPLE:
            return True
    return False


def _place_end(reading: Reading, first: int, *, capital: bool) -> int:
    """Return where the name of a place ends that begins at a word, or that word if none does."""
    said = reading.said
    begin = said.word(first)
    if begin in _NO_PLACES or (not capital and begin in _NO_TRAVEL):
        return first
    last = first
    while last - first < _MOST_PLACE_WORDS and _is_place_word(reading, last, capital=capital):
        last += 1
        while last - first < _MOST_PLACE_WORDS and _is_hyphen(reading, last):
            last += 2
        last += _is_joint(reading, last)
    return last


def _is_hyphen(reading: Reading, place: int) -> bool:
    said = reading.said
    return said.word(place) == "-" and said.glued(place) and said.glued(place + 1) and said.words[place + 1].isalpha()


def _is_joint(reading: Reading, place: int) -> bool:
    """Say whether a word joins two capital words to one name: the `de` of Rio, the point of `St.`."""
    said = reading.said
    if place + 1 >= len(said.words) or not said.capital(place + 1) or said.words[place + 1] in _AFTER_PLACES:
        return False
    return said.words[place] in _INSIDE_PLACES or (said.words[place] == "." and said.words[place - 1] in _SHORTENED)


def _is_place_word(reading: Reading, place: int, *, capital: bool) -> bool:
    said = reading.said
    word = said.word(place)
    if not word.replace("'", "").isalpha() or word in _AFTER_PLACES or reading.spent[place] or reading.taken[place]:
        return False
    return said.capital(place) if capital else word not in _NO_PLACES
