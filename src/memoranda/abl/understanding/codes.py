"""The words of a user in; fields for numbers that count nothing (orders, accounts, cards) filled out."""

from __future__ import annotations

from memoranda.abl.understanding.labels import DETERMINERS
from memoranda.abl.understanding.reading import Reading, refused
from memoranda.abl.understanding.vocabulary import bag
from memoranda.abl.understanding.wanted import Plan

_BEFORE_CODES = bag("number no . # : is id code ref reference = was my the nr ending in with -")
_IN_CODES = frozenset("-/._")
_MOST_BETWEEN = 4
_LONGEST_PREFIX = 3


def take_codes(reading: Reading, plans: list[Plan]) -> None:
    """Fill fields from `order number AB-123`; the field that was asked for takes the only code there is."""
    if not reading.said.digits:
        return
    for plan in plans:
        if plan.role in ("code", "plain") and reading.open(plan):
            only = plan.asked and plan.role == "code"
            span = _code_after_label(reading, plan) or (_only_code(reading) if only else None)
            if span:
                code = reading.said.part(*span)
                reading.take(plan, *span, [code] if plan.many else code)


def _code_after_label(reading: Reading, plan: Plan) -> tuple[int, int] | None:
    said = reading.said
    for label in plan.labels if plan.role == "code" else plan.labels[:1]:
        for place in said.places(label):
            behind = first = place + len(label)
            while said.word(first) in _BEFORE_CODES and first < behind + _MOST_BETWEEN:
                first += 1
            last = _code_end(reading, first)
            # "Order 3 lamps" is no order number; "my order 99871" and "order #99871" have one.
            certain = label == plan.labels[0] or first > behind or said.word(place - 1) in DETERMINERS
            if last and certain and reading.free(first, last):
                return first, last
    return None


def _code_end(reading: Reading, first: int) -> int:
    """Return where a run of letters, digits and hyphens with a digit in it ends, or 0."""
    said = reading.said
    if first >= len(said.words) or not said.words[first][0].isalnum():
        return 0
    last = first + 1
    while said.glued(last) and (said.words[last][0].isalnum() or _inside_code(reading, last)):
        last += 1
    return last if any(map(str.isdecimal, said.part(first, last))) else 0


def _inside_code(reading: Reading, place: int) -> bool:
    said = reading.said
    return said.words[place] in _IN_CODES and said.glued(place + 1) and said.words[place + 1][0].isalnum()


def _only_code(reading: Reading) -> tuple[int, int] | None:
    """Return the one code of a text; groups of digits that follow each other are one: `4111 1111 1111 1111`."""
    said = reading.said
    spans: list[tuple[int, int]] = []
    place = 0
    while place < len(said.words):
        last = _code_end(reading, place) if not said.glued(place) else 0
        if not last or not reading.free(place, last) or refused(said.words, place, last):
            place = max(last, place + 1)
            continue
        if spans and spans[-1][1] == place and said.words[place].isdecimal():
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((place - _is_prefix(reading, place - 1), last))
        place = last
    return spans[0] if len(spans) == 1 else None


def _is_prefix(reading: Reading, place: int) -> bool:
    """Say whether a word is the beginning of the code behind it: the letters of `AB 123`."""
    said = reading.said
    if place < 0 or not said.words[place].isalpha() or len(said.words[place]) > _LONGEST_PREFIX:
        return False
    # Who shouts writes every word so.
    return said.part(place, place + 1).isupper() and (place == 0 or not said.text.isupper())
