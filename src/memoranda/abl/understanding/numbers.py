"""Find the numbers that a text names, in digits or in words."""

from __future__ import annotations

import re
from typing import NamedTuple

from memoranda.abl.understanding.vocabulary import (
    ARTICLES,
    LAST_WORDS,
    MONEY_SIGNS,
    MONEY_WORDS,
    ORDINALS,
    SCALES,
    SMALL,
    SUFFIXES,
    UNIT_WORDS,
    word_set,
)
from memoranda.abl.understanding.words import Utterance

_MOST_DIGITS = 15
_MOST_NUMBERS = 64
_PAIRS = frozenset({"couple", "pair", "paar", "pareja"})
_DOZENS = frozenset({"dozen", "dozens", "dutzend", "douzaine", "docena", "duzia"})
_SPELLED = frozenset(SMALL) | frozenset(SCALES) | _PAIRS | _DOZENS
_SHORT = 2
_SPELLED_SHORTLY = _SPELLED | (ARTICLES - {"a", "an"})
_JOINED = frozenset({"y", "e", "et", "und"})
_ONES = word_set("un une una um uma")
"""Articles that can end a number: `vingt et un`."""
_HALVES = {"half": 0.5, "quarter": 0.25, "halbe": 0.5, "demi": 0.5, "medio": 0.5, "meio": 0.5}
_CENTS = word_set("cent cents ¢ pence penny pennies rappen centimes centimos centavos")
_FRENCH = word_set("deux trois quatre cinq sept huit neuf onze douze treize quatorze quinze seize")
"""Words before "cents" that make it hundreds: `deux cents`."""
_CONTINENTAL = UNIT_WORDS | {"€", "eur", "euro", "euros"}
"""Words before which `1.500` means 1500: guests are not counted in thousandths."""
_SPACED = re.compile(r"\d{3}(?:[.,]\d{1,2})?")
_APOSTROPHES = frozenset("'\u2019")
_THOUSANDS = frozenset({"k", "tsd"})
_NOT_ONE = word_set("the this that which other another any each every no some")
_POINTED = re.compile(r"\d+(?:[.,]\d+)*")
_GROUPED = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*")
_IN_CODES = frozenset("-.#/")
_MINUS = frozenset({"-", "\u2212"})
_NEGATIVE = word_set("minus negative moins menos meno")
_AT_LEAST = word_set("al au pelo lo du")
"""Words before "menos" that make it "at least"."""
_PARTS = {"½": 0.5, "¼": 0.25, "¾": 0.75}
_FRACTIONS = word_set("third thirds quarters fifths sixths eighths tenths hundredths")
_MILLIONS = frozenset({"m", "mn", "mio", "mm"})
_BILLIONS = frozenset({"bn", "b"})


class Number(NamedTuple):
    """A number in the words `first` to `last`, exclusive."""

    first: int
    last: int
    value: int | float
    money: bool = False


def find_numbers(said: Utterance, spent: bytearray) -> list[Number]:
    """Return the numbers of a text from left to right, without those whose words are used, such as by a date."""
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
        number = _number_in_digits(said, place) if said.words[place][0].isdecimal() else _number_in_words(said, place)
        if number is not None and not any(spent[number.first : number.last]):
            found.append(_with_sign(said, number))
            end = number.last
    return _with_cents(said, found) if not said.known.isdisjoint(_CENTS) else found


def _with_cents(said: Utterance, numbers: list[Number]) -> list[Number]:
    """Return numbers with cents as fractions: `50 cents` is 0.5, `20 dollars and 50 cents` is one number."""
    found: list[Number] = []
    for number in numbers:
        if said.word(number.last) not in _CENTS:
            found.append(number)
            continue
        part = Number(number.first, number.last + 1, _whole(number.value / 100), money=True)
        before = found[-1] if found else None
        if before and before.money and said.words[before.last : part.first] in ([], ["and"], [","]):
            part = found.pop()._replace(last=part.last, value=_whole(before.value + part.value))
        found.append(part)
    return found


def _with_sign(said: Utterance, number: Number) -> Number:
    """Return a number with its sign, if a word gives it: `minus 5`, but not `8 minus 5`."""
    before = said.word(number.first - 2)
    counted = before[:1].isdecimal() or before in _SPELLED or before in _AT_LEAST
    if said.word(number.first - 1) not in _NEGATIVE or counted:
        return number
    return number._replace(first=number.first - 1, value=-number.value)


def read_number(text: str) -> int | float | None:
    """Return the number that a whole text is, in digits or in words, or None.

    >>> read_number("1,200.50"), read_number("twenty-five"), read_number("5k"), read_number("$20"), read_number("soon")
    (1200.5, 25, 5000, 20, None)
    """
    said = Utterance(text.strip())
    found = find_numbers(said, bytearray(len(said.words)))
    if len(found) != 1:
        return None
    outside = (said.words[: found[0].first], said.words[found[0].last :])
    rest = [word for words in outside for word in words if word not in MONEY_SIGNS and word not in MONEY_WORDS]
    return found[0].value if not rest or rest == ["%"] else None


def parse_digits(word: str, *, continental: bool = False) -> int | float | None:
    """Return the value of digits with points and commas; `1.200` is 1200 only in continental notation.

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


def _number_in_digits(said: Utterance, place: int) -> Number | None:
    """Return the number that begins with digits, including its sign, thousands and currency."""
    before, first = said.word(place - 1), place
    if said.is_attached(place):
        hangs = said.is_attached(place - 1)
        if before.isalpha() or (hangs and before in _IN_CODES and said.word(place - 2).isalpha()):
            return None  # A part of a code such as A-12.
        if before in _MINUS and (not hangs or said.word(place - 2) in MONEY_SIGNS):
            first = place - 1
    written, last = _join_thousands(said, place)
    after = said.word(last)
    sign = said.word(first - 1)
    signed = sign in MONEY_SIGNS or sign in MONEY_WORDS
    money = signed or after in MONEY_SIGNS or after in MONEY_WORDS
    value = parse_digits(written, continental=after in _CONTINENTAL or before in ("€", "eur"))
    if value is None:
        return None
    negative = first < place
    if signed and not negative and said.word(first - 2) in _MINUS and said.is_attached(first - 1):
        negative, first = True, first - 1
    multiplied = _with_suffix(said, last, value, money=money)
    if multiplied is None:
        return None
    last, value = multiplied
    if said.word(last) in MONEY_WORDS or said.word(last) in MONEY_SIGNS:
        money = True
        last += 1
    return Number(first - signed, last, _whole(-value if negative else value), money)


def _with_suffix(said: Utterance, last: int, value: int | float, *, money: bool) -> tuple[int, int | float] | None:
    """Return the end and the value of a number including its suffix: `2½`, `5k`, `5 million`."""
    after = said.word(last)
    if after in _PARTS and said.is_attached(last):
        return last + 1, value + _PARTS[after]
    if after and said.is_attached(last) and after.isalpha():
        # A measure such as 2x4 is not a number.
        scale = None if after == "x" and said.is_attached(last + 1) else _suffix_scale(after, money)
        return None if scale is None else (last + (scale > 0), value * (scale or 1))
    if after in SCALES or after in _DOZENS or after in _THOUSANDS:
        return last + 1, value * SCALES.get(after, 1_000 if after in _THOUSANDS else 12)
    # "1 1/2" is not 1.
    return None if _is_fraction(after) else (last, value)


def _join_thousands(said: Utterance, place: int) -> tuple[str, int]:
    """Return digits without spaces or apostrophes between thousands, and their end: `1 200`, `1'200`."""
    written, last = said.words[place], place + 1
    if not written.isdecimal() or len(written) > 3 or said.word(place - 1)[:1].isdecimal():
        return written, last
    while True:
        at = (
            last + 1
            if said.word(last) in _APOSTROPHES and said.is_attached(last) and said.is_attached(last + 1)
            else last
        )
        if not _SPACED.fullmatch(said.word(at)) or not written.isdecimal():
            break
        written, last = written + said.words[at], at + 1
    # Followed by more digits, it is a phone number.
    return (said.words[place], place + 1) if said.word(last)[:1].isdecimal() else (written, last)


def _is_fraction(word: str) -> bool:
    top, _, bottom = word.partition("/")
    return top.isdecimal() and bottom.isdecimal() and len(word) == 3


def _suffix_scale(after: str, money: bool) -> int | None:
    """Return the factor of letters directly after digits; 0 for a unit, None if the whole is not a number."""
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
    """Return an int where possible; a product such as 1.1 k is rounded to what was written."""
    if type(value) is float:
        value = round(value, 9)
        return int(value) if value.is_integer() else value
    return value


def _number_in_words(said: Utterance, place: int) -> Number | None:
    """Return the number that begins with a word: `two hundred and fifty`, `a dozen`, `a couple of`."""
    words = said.words
    word = words[place]
    if said.is_attached(place) and said.word(place - 1)[-1:].isdecimal():
        return None
    if word in ARTICLES:
        return None if said.word(place + 1) in _SPELLED else Number(place, place + 1, 1)
    if word == "paar" and not said.is_capitalized(place):
        return None  # "Ein paar" means "some".
    if word in _PAIRS or word in _DOZENS:
        return _collective(said, place)
    if (word == "one" and _is_pronoun(said, place)) or said.word(place - 1) == "cent":
        return None
    last, value = _sum_up(words, place)
    if said.word(last) in _FRACTIONS:
        return None
    if words[last : last + 3] == ["and", "a", "half"]:
        last, value = last + 3, value + 0.5
    elif said.word(last) in _DOZENS:
        last, value = last + 1, value * 12
    money = said.word(last) in MONEY_WORDS
    first = place - 1 if word in SCALES and said.word(place - 1) in ARTICLES else place
    if word in SCALES and (part := _HALVES.get(said.word(first - 1))):
        first, value = first - 1, value * part
    elif word in SCALES and (_is_fraction(said.word(place - 1)) or said.word(place - 1).endswith(("of", "halb"))):
        return None
    return Number(first, last + money, _whole(value), money)


def _is_pronoun(said: Utterance, place: int) -> bool:
    """Say whether "one" is a pronoun: "the second one", "one of them"."""
    before, after = said.word(place - 1), said.word(place + 1)
    ordinal = before in ORDINALS or before in SUFFIXES or before in LAST_WORDS
    return ordinal or before in _NOT_ONE or after in ("of", "way")


def _collective(said: Utterance, place: int) -> Number:
    """Return `a couple of` as 2, `a dozen` as 12, `half a dozen` as 6."""
    value = 2 if said.words[place] in _PAIRS else 12
    first = place - 1 if said.word(place - 1) in ARTICLES else place
    last = place + 2 if said.word(place + 1) in ("of", "de") else place + 1
    if value == 12 and said.word(first - 1) in ("half", "halbes"):
        return Number(first - 1, last, 6)
    return Number(first, last, value)


def _sum_up(words: list[str], place: int) -> tuple[int, int | float]:
    """Return the end and the value of a number in words: `two thousand five hundred` is 2500."""
    total, current, end = 0, 0, place
    begun = False
    while end < len(words):
        small = _small(words, end)
        if small is not None:
            if begun and not _fits(current, small):
                break
            current += small
        elif scale := _scale(words, end, begun=begun):
            if begun and current == 0:
                break
            total, current = _apply_scale(total, current, scale)
        elif begun and _joins(words, end, total + current, current):
            end += 1
            continue
        else:
            break
        begun = True
        end += 1
    return end, total + current


def _small(words: list[str], place: int) -> int | None:
    """Return what a word below a thousand adds: the `vingts` of `quatre-vingts` turns 4 into 80."""
    word = words[place]
    before = words[place - 1] if place else ""
    if word in _ONES and before in _JOINED:
        return 1
    if word in ("vingt", "vingts") and "quatre" in (before, words[place - 2] if before == "-" and place > 1 else ""):
        return 76
    return SMALL.get(word)


def _scale(words: list[str], place: int, *, begun: bool) -> int | None:
    word = words[place]
    if word in ("cent", "cents"):
        return 100 if begun and words[place - 1] in _FRENCH else None
    return SCALES.get(word)


def _apply_scale(total: int, current: int, scale: int) -> tuple[int, int]:
    if scale == 100:
        return total, (current or 1) * 100
    return total + (current or 1) * scale, 0


def _fits(current: int, small: int) -> bool:
    """Say whether a small number continues another: after `two hundred`, `twenty` or `soixante`."""
    rest = current % 100
    if small >= 100:
        return current == 0
    if not rest or (rest == 4 and small == 76):
        return current > 0 or small > 0
    if rest in (60, 80) and 10 <= small < 20:
        return True
    return rest >= 20 and not rest % 10 and 0 < small < 10


def _joins(words: list[str], place: int, sum: int, current: int) -> bool:
    """Say whether a word joins two numbers into one: `hundred and five`, `twenty-five`, `treinta y cinco`."""
    word = words[place]
    small = _small(words, place + 1) if place + 1 < len(words) else None
    if small is None or not sum or not _fits(current, small):
        return False
    return (word == "and" and not current % 100) or (word == "-" and bool(current % 100)) or word in _JOINED
