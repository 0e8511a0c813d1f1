"""Identifiers of people and things, such as addresses and phone numbers, however they are written.

`+49 (0) 151 234-567` and `0049151234567` are one number, `MAILTO:Ada@Example.org` and `ada@example.org` one address.
An identifier is found only as a whole: `ann` is neither in `anna` nor in `ann@example.org`.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, cast

from memoranda.errors import UsageError
from memoranda.model.text import quote

LONGEST = 512
"""Characters of an identifier."""
_SHORTEST = 2
"""Letters and digits of an identifier."""
_DASHES = r"\-\u2010-\u2015\u2212"
_PHONE = re.compile(rf"(?:\+|00)?[\d\s().{_DASHES}/]+")
_TRUNK = re.compile(r"\(0\)")
_FEWEST_DIGITS, _FULL_NUMBER = 6, 10
"""Digits of a phone number, and digits from which on a number is complete."""
_CODE = re.compile(rf"[^\W_]++(?:[\s.{_DASHES}][^\W_]++)*+")
_INVISIBLE: dict[int, None] = dict.fromkeys((0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))
_SEGMENTS = re.compile(r"[.:/#]")

# What may continue an identifier on either side: a letter or digit, or one of these with a letter or digit behind it.
_JOINTS = rf"{_DASHES}.@+"
_BEFORE = rf"(?<!\w)(?<!\w[{_JOINTS}])"
_AFTER = rf"(?!\w|[{_JOINTS}]\w)"


class Identifier:
    """An identifier to look for.

    >>> Identifier("+49 151 234567").is_in({"phone": ["0049 (0)151-234567"]})
    True
    >>> Identifier("ann").is_in("Anna called"), Identifier("Ann").is_in("ANN's number")
    (False, True)
    """

    def __init__(self, text: str) -> None:
        """Take any spelling of the identifier, or raise UsageError."""
        if not isinstance(cast(object, text), str):
            raise UsageError(f"{quote(text)} is {type(text).__name__}, not text", hint="Pass text", path="identifier")
        folded = _fold(text).strip()
        for scheme in ("mailto:", "tel:"):
            folded = folded.removeprefix(scheme).strip()
        if len(folded) > LONGEST or sum(character.isalnum() for character in folded) < _SHORTEST:
            raise UsageError(
                f"{quote(text)} is not an identifier",
                hint=f"Pass an address, a number or a name of {_SHORTEST} to {LONGEST} characters",
                value=text,
                path="identifier",
            )
        self.pattern = re.compile(_pattern_of(folded))
        """Matches the identifier in folded texts."""

    def is_in(self, value: Any) -> bool:
        """Return whether a JSON value contains the identifier, in a text, a number or a name."""
        return any(self.pattern.search(_fold(text)) for text in _texts(value))

    def is_in_key(self, key: str | None) -> bool:
        """Return whether a key contains the identifier, as a whole or as a part between its separators."""
        if key is None:
            return False
        begins = [0, *(match.end() for match in _SEGMENTS.finditer(key))]
        parts = {*_SEGMENTS.split(key), *(key[begin:] for begin in begins)}
        return any(self.pattern.search(_fold(part)) for part in parts)


def _pattern_of(folded: str) -> str:
    """Return the pattern of an identifier in folded texts."""
    if _PHONE.fullmatch(folded) and sum(character.isdigit() for character in folded) >= _FEWEST_DIGITS:
        return _pattern_of_number(folded)
    has_digits = any(character.isdigit() for character in folded)
    has_letters = any(character.isalpha() for character in folded)
    if has_digits and has_letters and _CODE.fullmatch(folded):
        # A code such as an IBAN is written with and without gaps.
        signs = [re.escape(character) for character in folded if character.isalnum()]
        return _BEFORE + rf"[\s.{_DASHES}]?".join(signs) + _AFTER
    return _BEFORE + r"\s+".join(re.escape(word) for word in folded.split()) + _AFTER


def _pattern_of_number(folded: str) -> str:
    number = _TRUNK.sub("", folded)
    digits = "".join(character for character in number if character.isdigit())
    gap = rf"[\s().{_DASHES}/]{{0,3}}"
    begins, is_international = r"(?<![\d+])", False
    if number.lstrip("( ").startswith("+"):
        is_international = True
    elif digits.startswith("00"):
        digits, is_international = digits[2:], True
    if is_international:
        begins = rf"(?<!\d)(?:\+|00){gap}"
    elif len(digits) < _FULL_NUMBER:
        begins = rf"(?<![\d+])(?<!\d[\s.{_DASHES}/])"
    # Between any two digits of an international number there may be the `(0)` of its national form.
    between = rf"(?:{gap}\(0\))?{gap}" if is_international else gap
    head, tail = digits[:4], digits[4:]
    body = between.join(head) + "".join(gap + digit for digit in tail)
    ends = rf"(?![.{_DASHES}/]?\d)" if len(digits) >= _FULL_NUMBER else rf"(?![\s.{_DASHES}/]?\d)"
    return begins + body + ends


@functools.lru_cache(64)
def _fold(text: str) -> str:
    """Return a text as it is compared: compatibility forms, case and invisible characters do not count."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).translate(_INVISIBLE).casefold()


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value: names and numbers too."""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            for name, inner in cast("dict[str, Any]", one).items():
                yield name
                waiting.append(inner)
        elif isinstance(one, list):
            waiting.extend(cast("list[Any]", one))
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield str(one)
