"""The addresses that a text holds in; fields for e-mail and telephone filled out."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from memoranda.abl.understanding.reading import Reading, refused
from memoranda.abl.understanding.vocabulary import bag
from memoranda.abl.understanding.wanted import Plan
from memoranda.abl.understanding.words import LONGEST

EMAIL = re.compile(r"(?:[\w.+%-]|(?<=\w)'(?=\w)){1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_PHONE = re.compile(r"(?<![\w.,])(?:\+|\()?\d[\d ()./-]{4,24}\d(?!\w)")
_PLAINLY = re.compile(r"[+0(]|\d{3}[-. ]\d{3}[-. ]\d{4}$")
_CALL_WORDS = bag(
    """
    phone call mobile tel telephone number reach cell whatsapp text telefon handy telefone telefono portable
    """
)
_DIGITS = range(6, 16)
_NEAR = 5


def is_phone(text: str) -> bool:
    """Say whether a whole text is a telephone number.

    >>> is_phone("+44 20 7946 0958"), is_phone("(555) 123-4567"), is_phone("12"), is_phone("call me")
    (True, True, False, False)
    """
    return bool(_PHONE.fullmatch(text)) and sum(map(str.isdecimal, text)) in _DIGITS


def take_emails(reading: Reading, plans: list[Plan]) -> None:
    """Fill fields for e-mail from left to right; a list gets all addresses."""
    said = reading.said
    places = [place for place, word in enumerate(said.words) if "@" in word and EMAIL.fullmatch(word)]
    places = [place for place in places if not refused(said.words, place, place + 1)]
    for plan in plans:
        places = [place for place in places if reading.free(place, place + 1)]
        if not places:
            return
        if plan.many:
            for place in places:
                reading.spend(place, place + 1)
            reading.values[plan.name] = [said.part(place, place + 1) for place in places]
        else:
            reading.take(plan, places[0], places[0] + 1, said.part(places[0], places[0] + 1))


def take_phones(reading: Reading, plans: list[Plan]) -> None:
    """Fill fields for telephone numbers; digits that may be something else count only when they were asked for."""
    said = reading.said
    found: list[tuple[int, int, str]] = []
    starts = [start for start, _ in said.spans]
    reading.times()
    for match in _PHONE.finditer(said.text, 0, LONGEST):
        first = bisect_right(starts, match.start()) - 1
        last = bisect_left(starts, match.end())
        digits = sum(map(str.isdecimal, match[0]))
        known = not reading.free(first, last) or any(reading.spent[first:last])
        if digits in _DIGITS and not known and not refused(said.words, first, last):
            found.append((first, last, " ".join(match[0].split())))
    for plan in plans:
        for first, last, number in found:
            if reading.free(first, last) and (plan.asked or _is_plain(reading, first, number)):
                reading.take(plan, first, last, [number] if plan.many else number)
                break


def _is_plain(reading: Reading, first: int, number: str) -> bool:
    before = reading.said.words[max(first - _NEAR, 0) : first]
    return bool(_PLAINLY.match(number)) or not _CALL_WORDS.isdisjoint(before)
