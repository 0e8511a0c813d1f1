"""Folding: one form for texts that a reader takes for the same.

Case, diacritics, compatibility forms and invisible characters do not count, nor does it matter whether a letter is
Latin or of another script and looks the same. `canonical_form` also leaves out spaces and punctuation, so that it tells
whether two texts say the same word by word.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unicodedata import category, normalize

import msgspec

_TAGS = 0xE0000


@cache
def _look_alikes() -> dict[str, str]:
    table = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, str])
    return {char: letter for letter, chars in table.items() for char in chars}


def fold_character(char: str) -> str:
    r"""Return a character in lower case, without diacritics, and as the Latin letter that it looks like.

    Of an invisible character nothing is left.

    >>> fold_character("É"), fold_character("\u0430"), fold_character("\u200b"), fold_character("東")
    ('e', 'a', '', '東')
    """
    number = ord(char)
    if _TAGS + 0x20 <= number < _TAGS + 0x7F:
        return chr(number - _TAGS).lower()  # invisible copies of ASCII
    kind = category(char)
    if kind in ("Cf", "Mn", "Me") or (kind == "Cc" and char not in "\t\n\r"):
        return ""
    parts = normalize("NFKD", char).casefold()
    return "".join(_look_alikes().get(part, part) for part in parts if category(part) not in ("Mn", "Me"))


class _Folds(dict[int, str]):
    """The folded form of each code point, filled as they occur."""

    def __missing__(self, number: int) -> str:
        folded = fold_character(chr(number))
        if number < 0x3000 or 0xFE00 <= number < 0x1F200 or number >= _TAGS:
            self[number] = folded  # between these are mostly ideographs and emoji, too many to keep
        return folded


_FOLDS = _Folds()


def fold(text: str) -> str:
    r"""Return a text as it is compared: without case, diacritics, invisible characters and look-alikes.

    >>> fold("Résumé \u043ef \u0410da\u200b")
    'resume of ada'
    """
    if text.isascii() and text.isprintable():
        return text.lower()
    return text.translate(_FOLDS)


def canonical_form(text: str) -> str:
    """Return what a text says letter by letter: folded, and without spaces and punctuation except in numbers.

    >>> canonical_form("- Lives in  Pórto!") == canonical_form("lives in porto")
    True
    >>> canonical_form("takes 1.5 mg"), canonical_form("takes 15 mg"), canonical_form("-5 °C")
    ('takes1.5mg', 'takes15mg', '-5°c')
    """
    folded = fold(text)
    kept: list[str] = []
    last = len(folded) - 1
    for place, char in enumerate(folded):
        kind = category(char)[0]
        if kind in "ZC":
            continue
        if kind == "P" and char not in "%#@&":
            digit_follows = place < last and folded[place + 1].isdigit()
            if not digit_follows:
                continue
            before = folded[place - 1] if place else " "
            is_sign = char == "-" and (before.isspace() or before in "([=:")
            if not is_sign and not (char in ".," and before.isdigit()):
                continue
        kept.append(char)
    return "".join(kept)
