"""The words of a user in; the numbers they name, each with its place, out."""

from __future__ import annotations

import re
from typing import NamedTuple

from recollect.abl.understanding.vocabulary import (
    ARTICLES,
    LAST_WORDS,
    MONEY_SIGNS,
    MONEY_WORDS,
    ORDINALS,
    SCALES,
    SMALL,
    SUFFIXES,
    bag,
)
from recollect.abl.understanding.words import Said

_MOST_DIGITS = 15
_MOST_NUMBERS = 64
_PAIRS = frozenset({"couple", "pair", "paar", "pareja"})
_DOZENS = frozenset({"dozen", "dozens", "dutzend", "douzaine", "docena", "duzia"})
_SPELLED = frozenset(SMALL) | frozenset(SCALES) | _PAIRS | _DOZENS
_SHORT = 2
_SPELLED_SHORTLY = _SPELLED | (ARTICLES - {"a", "an"})
_JOINED = frozenset({"y", "e", "et", "und"})
_NOT_ONE = bag("the this that which other another any each every no some")
_POINTED = re.compile(r"\d+(?:[.,]\d+)*")
_GROUPED = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*")
_IN_CODES = frozenset("-.#/")
_MILLIONS = frozenset({"m", "mn", "mio", "mm"})
_BILLIONS = frozenset({"bn", "b"})


class Number(NamedTuple):
    """A number from the word `first` up to, and without, the word `last`."""

    first: int
    last: int
    value: int | float
    money: bool = False


def find_numbers(said: Said, spent: bytearray) -> list[Number]:
    """Return the numbers of a text from left to right, without those whose words are spent (on a date, say)."""
    places = said.digits
    spelled = _SPELLED if len(said.words) > _SHORT else _SPELLED_SHORTLY
    if not said.known.isdisjoint(spelled):
        places = [place for place, word in enumerate(said.words) if word in spelled or word[0].isdecimal()]
    found: list[Number] = []
    end = 0
    for place in places:
        if len(found) >= _MOST_NUMBERS:
            break
        if place < end or spent[place]:
            continue
        number = _digits(said, place) if said.words[place][0].isdecimal() else _spelled(said, place)
        if number is not None and not any(spent[number.first : number.last]):
            found.append(number)
            end = number.last
    return found


def read_number(text: str) -> int | float | None:
    """Return the number that a whole text names, in digits or in words, or None.

    >>> read_number("1,200.50"), read_number("twenty-five"), read_number("5k"), read_number("$20"), read_number("soon")
    (1200.5, 25, 5000, 20, None)
    """
    said = Said(text.strip())
    found = find_numbers(said, bytearray(len(said.words)))
    if len(found) != 1:
        return None
    outside = (said.words[: found[0].first], said.words[found[0].last :])
    rest = [word for words in outside for word in words if word not in MONEY_SIGNS and word not in MONEY_WORDS]
    return found[0].value if not rest or rest == ["%"] else None


def parse_digits(word: str, *, continental: bool = False) -> int | float | None:
    """Return the number that digits, points and commas write; `1.200` is 1200 only in continental money.

    >>> parse_digits("1,200"), parse_digits("1.200,50"), parse_digits("12,5"), parse_digits("1.200")
    (1200, 1200.5, 12.5, 1.2)
    """
    if word.isdecimal():
        return int(word) if len(word) <= _MOST_DIGITS else None
    if not _POINTED.fullmatch(word) or sum(map(str.isdecimal, word)) > _MOST_DIGITS:
        return None
    commas, points = word.count(","), word.count(".")
    if commas and points:
        mark = "," if word.rindex(",") > word.rindex(".") else "."
        if word.count(mark) > 1:
            return None
        plain = word.replace("." if mark == "," else ",", "").replace(",", ".")
    elif commas:
        plain = word.replace(",", "" if _GROUPED.fullmatch(word) else ".")
    elif points > 1 or (points and continental):
        plain = word.replace(".", "") if _GROUPED.fullmatch(word) else word
    else:
        plain = word
    if plain.count(".") > 1:
        return None
    return float(plain) if "." in plain else int(plain)


def _digits(said: Said, place: int) -> Number | None:
    """Return the number that begins with digits, with its sign, its thousands and its currency."""
    before, first = said.word(place - 1), place
    if said.glued(place):
        hangs = said.glued(place - 1)
        if before.isalpha() or (hangs and before in _IN_CODES and said.word(place - 2).isalpha()):
            return None  # A part of a code such as A-12.
        if before == "-" and not hangs:
            first = place - 1
    last = place + 1
    after = said.word(last)
    sign = said.word(first - 1)
    signed = sign in MONEY_SIGNS or sign in MONEY_WORDS
    money = signed or after in MONEY_SIGNS or after in MONEY_WORDS
    value = parse_digits(
        said.words[place], continental=after in ("€", "eur", "euro", "euros") or before in ("€", "eur")
    )
    if value is None:
        return None
    if after and said.glued(last) and after.isalpha():
        scale = _glued_scale(after, money)
        if scale is None:
            return None
        last += scale > 0
        value *= scale or 1
    elif after in SCALES or after in _DOZENS:
        value *= SCALES.get(after, 12)
        last += 1
    if said.word(last) in MONEY_WORDS or said.word(last) in MONEY_SIGNS:
        money = True
        last += 1
    return Number(first - signed, last, _whole(-value if first < place else value), money)


def _glued_scale(after: str, money: bool) -> int | None:
    """Return what letters right behind digits multiply by, 0 for a unit, None where the whole is no number."""
    if after == "k":
        return 1_000
    if after in _MILLIONS and (money or len(after) > 1):
        return 1_000_000
    if after in _BILLIONS and (money or len(after) > 1):
        return 1_000_000_000
    if after in SUFFIXES or (len(after) == 1 and after != "x"):
        return None
    return 0


def _whole(value: int | float) -> int | float:
    """Return 1500 for 1500.0; a product such as 1.1 k is rounded to what was written."""
    if type(value) is float:
        value = round(value, 9)
        return int(value) if value.is_integer() else value
    return value


def _spelled(said: Said, place: int) -> Number | None:
    """Return the number that begins with a word: `two hundred and fifty`, `a dozen`, `a couple of`."""
    words = said.words
    word = words[place]
    if said.glued(place) and said.word(place - 1)[-1:].isdecimal():
        return None
    if word in ARTICLES:
        return None if said.word(place + 1) in _SPELLED else Number(place, place + 1, 1)
    if word in _PAIRS or word in _DOZENS:
        return _collective(said, place)
    if word == "one" and _is_pronoun(said, place):
        return None
    last, value = _sum_up(words, place)
    if words[last : last + 3] == ["and", "a", "half"]:
        last, value = last + 3, value + 0.5
    elif said.word(last) in _DOZENS:
        last, value = last + 1, value * 12
    money = said.word(last) in MONEY_WORDS
    first = place - 1 if word in SCALES and said.word(place - 1) in ARTICLES else place
    return Number(first, last + money, _whole(value), money)


def _is_pronoun(said: Said, place: int) -> bool:
    """Say whether "one" stands for a thing: "the second one", "one of them"."""
    before, after = said.word(place - 1), said.word(place + 1)
    return before in _NOT_ONE or before in ORDINALS or before in LAST_WORDS or after in ("of", "way")


def _collective(said: Said, place: int) -> Number:
    """Return `a couple of` as 2, `a dozen` as 12, `half a dozen` as 6."""
    value = 2 if said.words[place] in _PAIRS else 12
    first = place - 1 if said.word(place - 1) in ARTICLES else place
    last = place + 2 if said.word(place + 1) in ("of", "de") else place + 1
    if value == 12 and said.word(first - 1) in ("half", "halbes"):
        return Number(first - 1, last, 6)
    return Number(first, last, value)


def _sum_up(words: list[str], place: int) -> tuple[int, int | float]:
    """Return where a number in words ends, and its value: `two thousand five hundred` is 2500."""
    total, current, end = 0, 0, place
    begun = False
    while end < len(words):
        word = words[end]
        small = SMALL.get(word)
        if small is not None:
            if begun and not _fits(current, small):
                break
            current += small
        elif word in SCALES:
            if begun and current == 0:
                break
            total, current = _scaled(total, current, SCALES[word])
        elif begun and _joins(words, end, current):
            end += 1
            continue
        else:
            break
        begun = True
        end += 1
    return end, total + current


def _scaled(total: int, current: int, scale: int) -> tuple[int, int]:
    if scale == 100:
        return total, (current or 1) * 100
    return total + (current or 1) * scale, 0


def _fits(current: int, small: int) -> bool:
    """Say whether a small number goes on with one: after `two hundred`, after `twenty`, after `soixante`."""
    rest = current % 100
    if not rest:
        return current > 0 or small > 0
    if rest in (60, 80) and 10 <= small < 20:
        return True
    return rest >= 20 and not rest % 10 and 0 < small < 10


def _joins(words: list[str], place: int, current: int) -> bool:
    """Say whether a word between two numbers makes them one: `hundred and five`, `twenty-five`, `treinta y cinco`."""
    word = words[place]
    small = SMALL.get(words[place + 1]) if place + 1 < len(words) else None
    if small is None or not current or not _fits(current, small):
        return False
    return (word == "and" and not current % 100) or (word == "-" and bool(current % 100)) or word in _JOINED
