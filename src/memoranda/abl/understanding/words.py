"""Split what a user said into words: folded for comparison, with their positions in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from unicodedata import combining, normalize

LONGEST = 4_000
"""Characters that are read. What a person says in one turn is shorter; a longer text is a document."""

_WORD = (
    r"\d{4}-\d{1,2}-\d{1,2}(?:[Tt]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|z|[+-]\d{2}:?\d{2})?)?(?![\d-])"
    r"|\d{1,2}-\d{1,2}-\d{4}(?!\d)"
    r"|\d+(?:[.,:/]\d+)*"
    r"|[^\W\d_]+(?:['’][^\W\d_]+)*"
    r"|[^\w\s]|\n"
)
_WORDS = re.compile(_WORD)
_DIGIT = re.compile(r"\d")
_ADDRESSES = re.compile(
    r"(?:[\w.+%-]|(?<=\w)'(?=\w)){1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}|[a-z][a-z0-9+.-]{1,20}://[^\s<>]{1,2000}|"
    + _WORD,
    re.IGNORECASE,
)


def fold(word: str) -> str:
    """Return a word in lower case without accents, so that `Märchen` and `marchen` are equal.

    >>> fold("Über"), fold("don’t")
    ('uber', "don't")
    """
    if word.isascii():
        return word.lower()
    parted = normalize("NFD", word.casefold())
    return "".join(letter for letter in parted if not combining(letter)).replace("’", "'") or word


class Utterance:
    """A text and its words, folded, with the position of each."""

    __slots__ = ("_pattern", "_seen", "_spans", "digits", "known", "text", "words")

    def __init__(self, text: str) -> None:
        """Split a text, up to `LONGEST` characters."""
        plain = text.isascii()
        self.text = text if plain else normalize("NFC", text)
        self._seen = seen = text[:LONGEST].lower() if plain else self.text[:LONGEST]
        self._pattern = _ADDRESSES if "@" in seen or "://" in seen else _WORDS
        self._spans: list[tuple[int, int]] | None = None
        words: list[str] = self._pattern.findall(seen)
        self.words = words if plain else [fold(word) for word in words]
        self.known = set(self.words)
        self.digits: list[int] = []
        if _DIGIT.search(seen):
            self.digits = [place for place, word in enumerate(self.words) if word[0].isdecimal()]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each word; computed when first needed, since short answers rarely need them."""
        if self._spans is None:
            self._spans = [found.span() for found in self._pattern.finditer(self._seen)]
        return self._spans

    def part(self, first: int, last: int) -> str:
        """Return the original text of the words `first` to `last`, exclusive."""
        return self.text[self.spans[first][0] : self.spans[last - 1][1]] if first < last else ""

    def word(self, place: int) -> str:
        """Return the folded word at a position, or an empty string outside the text."""
        return self.words[place] if 0 <= place < len(self.words) else ""

    def is_attached(self, place: int) -> bool:
        """Say whether a word follows the one before it without a space."""
        return 0 < place < len(self.words) and self.spans[place][0] == self.spans[place - 1][1]

    def places(self, phrase: tuple[str, ...]) -> Iterator[int]:
        """Yield the positions where a phrase of folded words begins."""
        if phrase and phrase[0] in self.known and phrase[-1] in self.known:
            size = len(phrase)
            for place, word in enumerate(self.words):
                if word == phrase[0] and (size == 1 or tuple(self.words[place : place + size]) == phrase):
                    yield place

    def is_capitalized(self, place: int) -> bool:
        """Say whether a word begins with a letter that is not lower case, as names do."""
        letter = self.text[self.spans[place][0]]
        return letter.isalpha() and not letter.islower()


utterance_of = lru_cache(maxsize=16)(Utterance)
"""Return the words of a text; cached, since one turn reads the same text for intents, values and corrections."""


def words_of(text: str) -> list[str]:
    """Return the folded words of a short text."""
    return [fold(word) for word in _WORDS.findall(text[:LONGEST])]


def name_words(name: str) -> tuple[str, ...]:
    """Return the folded words of an identifier, however it joins them.

    >>> name_words("checkin_date"), name_words("numGuests"), name_words("guest-name")
    (('checkin', 'date'), ('num', 'guests'), ('guest', 'name'))
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return tuple(fold(word) for word in re.findall(r"[^\W_]+", parted))
