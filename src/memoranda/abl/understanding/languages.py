"""The words of a user in; fields for a language filled out."""

from __future__ import annotations

from memoranda.abl.understanding.reading import Reading, denied
from memoranda.abl.understanding.vocabulary import LANGUAGES, bag
from memoranda.abl.understanding.wanted import Plan

_CUES = bag("in speak speaks speaking prefer language auf sprache en em falo hablo parle")


def take_languages(reading: Reading, plans: list[Plan]) -> None:
    """Fill fields from `in German` and `I speak German`; the only language named answers the question for it."""
    plans = [plan for plan in plans if plan.role == "language" and reading.open(plan)]
    said = reading.said
    if not plans or said.known.isdisjoint(LANGUAGES):
        return
    places = [
        place
        for place, word in enumerate(said.words)
        if word in LANGUAGES and reading.free(place, place + 1) and reading.told(place)
    ]
    places = [place for place in places if not denied(said.words, place)]
    for plan in plans:
        if len(places) == 1 and (plan.asked or said.word(places[0] - 1) in _CUES):
            reading.take(plan, places[0], places[0] + 1, said.part(places[0], places[0] + 1))
            return
