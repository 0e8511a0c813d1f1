"""The language of a text, by scripts, letters and the stop words of `vocabulary.toml`, and the stems of its words.

Latin text in which nothing votes counts as English, the commonest case. A wrong guess costs little, because a query is
read under every language of the entries it searches: what matters is that equal words get equal stems, and within one
language they always do.
"""

from __future__ import annotations

import importlib
import re
import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

import msgspec

from memoranda.retrieval.analysis.words import ELISIONS, LONGEST_WORD, is_unsegmented, read_chunk

_ALGORITHMS = {
    "en": "english", "de": "german", "fr": "french", "es": "spanish", "it": "italian", "pt": "portuguese",
    "nl": "dutch", "sv": "swedish", "no": "norwegian", "da": "danish", "fi": "finnish", "ru": "russian",
    "tr": "turkish", "hu": "hungarian", "ro": "romanian", "ca": "catalan", "id": "indonesian", "el": "greek",
    "ar": "arabic", "hi": "hindi", "ta": "tamil", "hy": "armenian",
}  # fmt: skip

# The first code point of each script; "" is a range without a stemmer.
_SCRIPTS = [
    (0x0000, "Latin"), (0x0370, "Greek"), (0x0400, "Cyrillic"), (0x0530, "Armenian"), (0x0590, "Hebrew"),
    (0x0600, "Arabic"), (0x0700, ""), (0x0750, "Arabic"), (0x0780, ""), (0x0900, "Devanagari"), (0x0980, ""),
    (0x0B80, "Tamil"), (0x0C00, ""), (0x0E00, "Thai"), (0x0E80, ""), (0x1100, "Hangul"), (0x1200, ""),
    (0x1E00, "Latin"), (0x1F00, "Greek"), (0x2000, ""), (0x3040, "Kana"), (0x3130, "Hangul"), (0x3190, ""),
    (0x31F0, "Kana"), (0x3200, ""), (0x3400, "Han"), (0xA000, ""), (0xAC00, "Hangul"), (0xD7B0, ""), (0xF900, "Han"),
    (0xFB00, ""), (0xFB50, "Arabic"), (0xFE00, ""), (0x20000, "Han"), (0x40000, ""),
]  # fmt: skip
_STARTS = [start for start, _ in _SCRIPTS]

# The language whose rules apply to a word when the text itself is in another script.
_USUAL = {
    "Latin": "en", "Cyrillic": "ru", "Greek": "el", "Arabic": "ar", "Devanagari": "hi", "Tamil": "ta", "Armenian": "hy",
}  # fmt: skip
_SCRIPT_OF = {
    "ru": "Cyrillic", "uk": "Cyrillic", "el": "Greek", "ar": "Arabic", "fa": "Arabic", "hi": "Devanagari",
    "ta": "Tamil", "hy": "Armenian", "he": "Hebrew", "th": "Thai", "zh": "Han", "ja": "Han", "ko": "Hangul",
}  # fmt: skip


TERMS_PER_WORD = {"zh": 3.0, "ja": 3.5, "ko": 2.5, "th": 6.0}
"""How many terms make a word, in languages whose terms are pairs of characters: as many as a translation has for each
content word."""


def script_of(character: str) -> str:
    """Return the name of a letter's script, or "" if it is unknown."""
    return _SCRIPTS[bisect_right(_STARTS, ord(character)) - 1][1]


def term(word: str, language: str) -> str:
    """Return the term of a case-folded word in a text of this language; the language "" has no rules.

    A language's rules apply to words in its own script. Other words follow the usual language of their script, so the
    English words of a Japanese text are stemmed as English. Accents are removed after stemming: `Café` equals `cafe`.

    >>> term("houses", "en"), term("häuser", "de"), term("deployments", "ja"), term("bought", "en")
    ('hous', 'haus', 'deploy', 'buy')
    """
    cached = _CACHE.get(language, _EMPTY).get(word)
    return _find(word, language) if cached is None else cached


_CACHE_SIZE = 65_536
_CACHE: dict[str, dict[str, str]] = {}
"""The terms of words, by language."""
_EMPTY: dict[str, str] = {}


def _find(word: str, language: str) -> str:
    found = _without_accents(_stem(word, language))
    cache = _CACHE.setdefault(language if language in _ALGORITHMS or language in _SCRIPT_OF else "", {})
    if len(cache) >= _CACHE_SIZE:
        cache.clear()
    if len(word) <= LONGEST_WORD:
        cache[word] = found
    return found


def _stem(word: str, language: str) -> str:
    script = "Latin" if word.isascii() else script_of(word[0]) if word else ""
    if _SCRIPT_OF.get(language, "Latin") != script:
        language = _USUAL.get(script, "")
    algorithm = _ALGORITHMS.get(language)
    if algorithm is None or len(word) < 3 or len(word) > LONGEST_WORD:
        return word
    if language == "en":
        word = _IRREGULAR.get(word, word)
    # Stemmers have internal state, so threads must take turns.
    with _stemming:
        stemmer = _STEMMERS.get(algorithm)
        if stemmer is None:
            stemmer = _STEMMERS[algorithm] = _make_stemmer(algorithm)
        return stemmer.stemWord(word)


class _Stemmer(Protocol):
    def stemWord(self, word: str, /) -> str: ...


_STEMMERS: dict[str, _Stemmer] = {}
_stemming = threading.Lock()


def _make_stemmer(algorithm: str) -> _Stemmer:
    # The package is compiled and untyped. The second argument turns off its own cache.
    return cast("_Stemmer", importlib.import_module("Stemmer").Stemmer(algorithm, 0))


# Letters that do not decompose, by what people type instead.
_PLAIN_LETTERS = str.maketrans(
    {"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "\u0131": "i", "\u03c2": "\u03c3"}
)
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]+")


def _without_accents(stem: str) -> str:
    """Return a stem without accents, vowel points and tatweel, so that it is found however it is typed."""
    if stem.isascii():
        return stem
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", stem)).translate(_PLAIN_LETTERS)
    # A lone accent decomposes to a space, which would split the term, because stored terms are joined by spaces.
    return unicodedata.normalize("NFC", "".join(bare.split()))


class _Lists(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stop: str
    also: str = ""
    letters: str = ""
    months: str = ""
    moments: str = ""
    units: str = ""
    before: str = ""
    numbers: str = ""
    irregular: str = ""


class TimeWords(msgspec.Struct, frozen=True, gc=False):
    """The words of a language for times, durations and numbers."""

    months: dict[str, int]
    moments: frozenset[str]
    units: frozenset[str]
    before: frozenset[str]
    numbers: frozenset[str]


AMBIGUOUS_MONTHS = frozenset({"may", "march"})
"""Months that are also ordinary words; their neighbours tell which is meant."""

ARTICLES = frozenset("the la le les el il lo der die das den dem het de o a os as".split())
"""Words that may come between "during" and "summer"."""


def _time_words(lists: _Lists) -> TimeWords:
    months = {name: number for number, names in enumerate(lists.months.split(), 1) for name in names.split("/")}
    return TimeWords(
        months,
        frozenset(lists.moments.split()) | months.keys() - AMBIGUOUS_MONTHS,
        frozenset(lists.units.split()),
        frozenset(lists.before.split()),
        frozenset(lists.numbers.split()),
    )


_LISTS = msgspec.toml.decode(Path(__file__).with_name("vocabulary.toml").read_bytes(), type=dict[str, _Lists])

STOP_WORDS: dict[str, frozenset[str]] = {language: frozenset(lists.stop.split()) for language, lists in _LISTS.items()}
ALSO_ENGLISH: frozenset[str] = frozenset(_LISTS["en"].also.split())
_IRREGULAR: dict[str, str] = {
    form: base
    for base, _, forms in (word.partition(":") for word in _LISTS["en"].irregular.split())
    for form in forms.split(",")
}
LETTERS: dict[str, frozenset[str]] = {language: frozenset(lists.letters.split()) for language, lists in _LISTS.items()}
TIME_WORDS: dict[str, TimeWords] = {language: _time_words(lists) for language, lists in _LISTS.items() if lists.months}


# Each language and each script has a field of bits in one number, so that all votes of a text are one sum.
_BITS = 24
_OTHER_SCRIPTS = (
    "Cyrillic", "Greek", "Arabic", "Hebrew", "Devanagari", "Tamil", "Armenian", "Thai", "Han", "Kana", "Hangul", "",
)  # fmt: skip
_PLACES = {name: place * _BITS for place, name in enumerate([*STOP_WORDS, "Latin", "accented", *_OTHER_SCRIPTS])}
_OTHERS = _PLACES[_OTHER_SCRIPTS[0]]
_LANGUAGES = (1 << _PLACES["Latin"]) - 1
_FIELD = (1 << _BITS) - 1
# The votes of this many chunks cannot overflow a field: each gives a few dozen at most.
_ENOUGH = 256

# English first: at equal votes the first wins.
_LATIN = (
    "en", "de", "fr", "es", "it", "pt", "nl", "sv", "no", "da", "fi", "pl", "cs", "tr", "hu", "ro", "ca", "id", "vi",
)  # fmt: skip
_BY_SCRIPT = {"Greek": "el", "Hebrew": "he", "Devanagari": "hi", "Tamil": "ta", "Armenian": "hy", "Thai": "th"}


def language_of(text: Sequence[str]) -> str:
    """Return the ISO 639-1 code of the language of a text, given as its chunks, or "" if it is unknown.

    >>> [language_of(text.split()) for text in ("Where is the harbour?", "Wo ist der Hafen?", "港はどこですか", "42")]
    ['en', 'de', 'ja', '']
    """
    total = sum(map(_VOTES.__getitem__, text[:_ENOUGH]))
    if not total:
        return ""

    def votes(name: str) -> int:
        return total >> _PLACES[name] & _FIELD

    # Most texts have Latin letters only, and need not look at the others.
    script = max(_OTHER_SCRIPTS, key=votes) if total >> _OTHERS else "Latin"
    if votes("Latin") >= votes(script):
        best = max(_LATIN, key=votes)
        if not votes(best):
            return "" if 2 * votes("accented") > votes("Latin") else "en"
        if 3 * votes("accented") >= votes("Latin"):
            return best
        # A name may contain a word of another language ("La La Land"), so one such word does not outvote English.
        return best if votes(best) >= max(3, votes("en") + 2) else "en"
    if script == "Cyrillic":
        return max(("ru", "uk"), key=votes)
    if script == "Arabic":
        return max(("ar", "fa"), key=votes)
    if script in ("Han", "Kana", "Hangul"):
        return "ko" if script == "Hangul" else "ja" if votes("Kana") else "zh"
    return _BY_SCRIPT.get(script, "")


MOST_LEANING = 128
"""Maximum number of pieces whose `english_lean` may be added up: with two chunks each, all of their votes count."""


def english_lean(chunks: Sequence[str]) -> int:
    """Return the lead in votes of English over every other language in a piece of text, given as its chunks.

    If the leads of all pieces add up to more than 0, `language_of` returns "en", so the votes of every language need
    not be counted. A piece that could decide otherwise gets a lead so negative that no others outweigh it.

    >>> english_lean(["the"]), english_lean(["nicht"]), english_lean(["harbour"])
    (3, -3, 0)
    """
    lean = 0
    for chunk in chunks:
        votes = _VOTES[chunk]
        if votes >> _OTHERS:
            return _AGAINST
        if not votes & _LANGUAGES:
            continue  # most words belong to several languages or to none
        of_each = {name: votes >> _PLACES[name] & _FIELD for name in STOP_WORDS}
        lean += of_each.pop("en") - max(of_each.values())
    return lean if len(chunks) * MOST_LEANING <= _ENOUGH else _AGAINST


def is_neutral(word: str) -> bool:
    """Return whether a case-folded word of ASCII letters is a stop word of no language: its `english_lean` is 0."""
    return word not in _WORD_VOTES


_AGAINST = -(1 << _BITS)


def is_stop_word(word: str, language: str) -> bool:
    """Return whether a case-folded word is a stop word of a language."""
    return word in STOP_WORDS.get(language, _NO_WORDS)


_NO_WORDS: frozenset[str] = frozenset()


def _share(name: str, votes: int) -> int:
    return votes << _PLACES[name]


def _word_votes() -> dict[str, int]:
    """Return the votes of each stop word: three for its language, fewer if several languages share it."""
    owners: dict[str, list[str]] = {}
    for language, words in STOP_WORDS.items():
        for word in words | ALSO_ENGLISH if language == "en" else words:
            owners.setdefault(word, []).append(language)
    return {
        word: sum(
            _share(language, 3 if len(languages) == 1 else 2 if len(languages) == 2 else 1) for language in languages
        )
        for word, languages in owners.items()
    }


_WORD_VOTES = _word_votes()
# One vote for each letter that few languages have: less than any word that belongs to one language.
_LETTER_VOTES: dict[str, int] = {}
for _language, _letters in LETTERS.items():
    for _letter in _letters:
        _LETTER_VOTES[_letter] = _LETTER_VOTES.get(_letter, 0) + _share(_language, 1)
_SCRIPT_VOTES = {script: _share(script, 1) for script in ("Latin", *_OTHER_SCRIPTS)}
_LATIN_VOTE = _SCRIPT_VOTES["Latin"]
_ELIDED = sum(_share(language, 2) for language in ("fr", "it", "ca"))
_ENGLISH_ENDINGS = frozenset({"s", "t", "m", "d", "ll", "re", "ve"})


class _Votes(dict[str, int]):
    """A cache of the votes of chunks, cleared when full."""

    def __missing__(self, chunk: str) -> int:
        if is_unsegmented(chunk):
            # The first characters suffice, and together they count for more than a single word.
            return sum(_SCRIPT_VOTES[script_of(character)] for character in chunk[:8])
        votes = _vote(chunk)
        if len(chunk) <= LONGEST_WORD:
            if len(self) >= 32_768:
                self.clear()
            self[chunk] = votes
        return votes


_VOTES = _Votes()


def _vote(chunk: str) -> int:
    if chunk.isascii():  # letters that vote are never ASCII
        if not chunk[:1].isalpha() and not any(map(str.isalpha, chunk[:LONGEST_WORD])):
            return 0
        votes = _LATIN_VOTE
    else:
        letters = [character for character in chunk[:LONGEST_WORD].casefold() if character.isalpha()]
        if not letters:
            return 0
        votes = _SCRIPT_VOTES[script_of(letters[0])] + _share("accented", 1)
        votes += sum(_LETTER_VOTES.get(letter, 0) for letter in set(letters))
    for word in read_chunk(chunk)[:4]:
        if not word.whole:
            votes += _WORD_VOTES.get(word.parts[0], 0)
    if "'" in chunk or "’" in chunk:
        before, _, after = chunk.casefold().replace("’", "'").partition("'")
        votes += _share("en", 3) if after in _ENGLISH_ENDINGS else _ELIDED if before in ELISIONS else 0
    return votes
