"""Parse a query: its stems in every language that an answer may be in, and the kind of answer it expects."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection
from enum import IntFlag
from pathlib import Path

import msgspec

from memoranda.retrieval.analysis.analyser import whole_term
from memoranda.retrieval.analysis.dates import read_dates
from memoranda.retrieval.analysis.languages import is_stop_word, language_of, term
from memoranda.retrieval.analysis.words import Word, chunks, read_chunk


class Expects(IntFlag):
    """What an answer would contain. The first two are the same bits as in `Features`."""

    TEMPORAL = 2
    """When, how long, which day."""
    NUMERAL = 4
    """How many, how old, how far."""
    NAME = 8
    """Who, where, which, what it is called."""


class QueryWord(msgspec.Struct, frozen=True, gc=False):
    """A word of a query. An entry contains it if it contains any of its stems."""

    text: str
    """As written."""
    stems: tuple[str, ...]
    """Its terms in the possible languages, the query's own first; other spellings of an identifier last."""
    stop: bool


class Query(msgspec.Struct, frozen=True):
    """A parsed query."""

    words: tuple[QueryWord, ...]
    language: str
    expects: int = 0
    """Flags of `Expects`."""
    years: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()


def read_query(text: str, languages: Collection[str], *, words_only: bool = False) -> Query:
    """Parse a query for entries in these languages (codes as in `Analysis.language`).

    An identifier is searched as a whole, with and without its hyphen: `GPT-4` and `GPT4`. With `words_only`, dates and
    the expected kind of answer are not read.

    >>> query = read_query("How many houses are in INV-2041?", ["en", "de"])
    >>> [word.stems for word in query.words if not word.stop], Expects(query.expects)
    ([('hous',), ('inv-2041', 'inv2041')], <Expects.NUMERAL: 4>)
    """
    read = _read_cached if len(text) <= _LONGEST_CACHED else _read
    return read(text, tuple(sorted(languages)), words_only)


def idf(frequency: float, documents: int) -> float:
    """Return the inverse document frequency of a term that this many of the documents contain."""
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def _read(text: str, languages: tuple[str, ...], words_only: bool) -> Query:
    pieces = chunks(text)
    language = language_of(pieces)
    under = tuple(dict.fromkeys([language, *languages]))
    # A query of unknown language may be in any of the languages of the entries.
    stop_under = (language,) if language else under
    words = [word for piece in pieces for word in read_chunk(piece)]
    looked_for = tuple([found for word in words if (found := _look_for(word, under, stop_under)).stems])
    if words_only:
        return Query(looked_for, language)
    folded = [word.whole or word.parts[0] for word in words]
    dates = read_dates(folded, (language, "en") if language != "en" else ("en",))
    return Query(looked_for, language, _expectation(text, language), dates.years, dates.months)


# The same query often comes again: in another mode or namespace, or from a client that polls.
_LONGEST_CACHED = 300
_read_cached = functools.lru_cache(maxsize=1_024)(_read)


# "Lives" is a form of two words, and entries have it as the noun.
_HOMOGRAPHS = {"live": ("life",), "lives": ("live",)}


@functools.lru_cache(maxsize=8_192)
def _look_for(word: Word, under: tuple[str, ...], stop_under: tuple[str, ...]) -> QueryWord:
    if word.whole:
        stems = [whole_term(spelling, language) for spelling in _spellings(word.whole) for language in under]
        return QueryWord(word.text, tuple(dict.fromkeys(filter(None, stems))), False)
    stems = [term(part, language) for part in word.parts for language in under]
    if "en" in under:
        stems += [
            other for part in word.parts for other in _HOMOGRAPHS.get(part, _HOMOGRAPHS.get(term(part, "en"), ()))
        ]
    stop = any(is_stop_word(word.parts[0], language) for language in stop_under)
    return QueryWord(word.text, tuple(dict.fromkeys(filter(None, stems))), stop)


_JOINED = re.compile(r"[^\W\d_]+[-_.]?\d+|[^\W\d_]+(?:[-_.&][^\W\d_]+)+")
_BOUNDARY = re.compile(r"(?<=[^\W\d_])(?=\d)")


def _spellings(whole: str) -> tuple[str, ...]:
    """Return an identifier and its other spellings.

    >>> _spellings("gpt4"), _spellings("inv-2041"), _spellings("node.js"), _spellings("#12"), _spellings("2023-05-08")
    (('gpt4', 'gpt-4'), ('inv-2041', 'inv2041'), ('node.js', 'nodejs'), ('#12', '12'), ('2023-05-08',))
    """
    if whole.startswith("#"):
        return whole, whole[1:]
    if not _JOINED.fullmatch(whole):
        return (whole,)
    if whole.isalnum():
        return whole, _BOUNDARY.sub("-", whole)
    return whole, "".join(character for character in whole if character.isalnum())


def _expectation(text: str, language: str) -> int:
    """Return the kinds of answer that a question in this language expects, as flags of `Expects`."""
    asked = _ASKED.get(language) or _ASKED["en"]
    folded = text.casefold()
    return sum(flag for flag, pattern in zip((2, 4, 8), asked, strict=True) if pattern.search(folded))


# Questions match whole words, except in scripts without spaces.
_UNSPACED = frozenset({"zh", "ja", "ko"})


class _Questions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    time: list[str]
    number: list[str]
    name: list[str]


def _pattern(language: str, parts: list[str]) -> re.Pattern[str]:
    whole = "".join(parts)
    return re.compile(whole if language in _UNSPACED else rf"\b(?:{whole})\b")


_ASKED = {
    language: [_pattern(language, parts) for parts in (asked.time, asked.number, asked.name)]
    for language, asked in msgspec.toml.decode(
        Path(__file__).with_name("questions.toml").read_bytes(), type=dict[str, _Questions]
    ).items()
}
