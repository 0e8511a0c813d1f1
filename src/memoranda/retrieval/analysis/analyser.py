"""Analyse a stored text: its terms, and the features that ranking reads.

Words repeat, and the piece between two spaces reads the same wherever it occurs. So each piece is read once, cached,
and a text is put together from its pieces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import IntFlag
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import TypeVar

import msgspec

from memoranda.retrieval.analysis.languages import (
    AMBIGUOUS_MONTHS,
    ARTICLES,
    MOST_LEANING,
    TIME_WORDS,
    english_lean,
    is_neutral,
    is_stop_word,
    language_of,
    term,
)
from memoranda.retrieval.analysis.words import LONGEST_WORD, Word, bigrams, chunks, is_unsegmented, read_chunk


class Features(IntFlag):
    """What can be seen in a text without understanding it."""

    QUESTION = 1
    """Ends in a question."""
    TEMPORAL = 2
    """Contains a date, a weekday, "yesterday", "for two years" or the like."""
    NUMERAL = 4
    """Contains a number, in digits or in words."""


class Analysis(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The terms and features of one text, ready to be indexed.

    `terms` are the distinct stems without stop words, joined by single spaces, in the order they first occur.
    `counts` has one byte for each (255 at most), and `length` is the number of all occurrences.
    """

    language: str
    terms: str
    counts: bytes
    length: int
    features: int
    names: int
    """Number of capitalised words inside sentences, and of quotations."""


def pack(analysis: Analysis) -> bytes:
    """Encode an analysis as it is stored."""
    return _encoder.encode(analysis)


def unpack(packed: bytes) -> Analysis:
    """Decode a stored analysis."""
    return _decoder.decode(packed)


def unpack_all(packed: Iterable[bytes]) -> list[Analysis]:
    """Decode stored analyses."""
    return list(map(_decoder.decode, packed))


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Analysis)


# The kind of a chunk, as bits; the features of a text follow from the kinds of its chunks.
WHEN = 1  # says when by itself
UNIT = 2  # says when or how long after a number or a word such as "last"
BEFORE = 4  # a word such as "last" or "during"
FIGURE = 8  # a number in digits
COUNT = 16  # a number in words
MONTH = 32  # a month, if its neighbours say so ("may", "march")
ARTICLE = 64

_DATE_FORM = re.compile(
    r"(?:19|20)\d\d(?:-\d\d(?:-\d\d)?|s)?|\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}|\d{1,2}:\d\d(?::\d\d)?[a-z]*|\d{1,2}[ap]m",
    re.ASCII,
)
# Scripts without spaces: words for a time, units that follow digits, and numbers in words with what they count.
_EAST_MOMENT = re.compile(
    "昨日|今日|明日|昨夜|今朝|今夜|先週|今週|来週|先月|今月|来月|去年|昨年|今年|来年|曜日|昨天|今天|明天|前天|后天|後天|星期|礼拜|"
    "上周|下周|上週|下週|本周|上个月|下个月|上個月|下個月|明年|周末|週末|어제|오늘|내일|그제|모레|지난주|이번주|다음주|지난달|"
    "작년|올해|내년|요일|주말|เมื่อวาน|วันนี้|พรุ่งนี้|ปีที่แล้ว|สัปดาห์|[一二三四五六七八九十][年月日天週周]"
)
_EAST_UNIT = re.compile("[年月日時时分週周天秒년월일시주분]|(?:ヶ|か|カ|个|個|개)[月월]|小时|小時|週間|時間|시간")
_EAST_COUNT = re.compile(
    "[一二三四五六七八九十百千万萬両两兩][年月日天個个人本回次歳岁週周時时分冊匹台枚杯件条條只隻张張位]"
)


def kind_of(words: Sequence[Word], language: str) -> int:
    """Return the kind of a chunk with these words, in a text of this language."""
    known = _kinds_of_words(language)
    kind = 0
    for word in words:
        if word.whole and (word.whole[0].isdigit() or word.whole[0] == "#"):
            kind |= WHEN | FIGURE if _DATE_FORM.fullmatch(word.whole) else FIGURE
        for part in word.parts:
            kind |= known.get(part, 0)
            if not part.isalpha() and any(map(str.isdecimal, part)):  # `isalpha` first: it is true of most
                kind |= FIGURE
    return kind


@cache
def _kinds_of_words(language: str) -> dict[str, int]:
    names = TIME_WORDS.get(language) or TIME_WORDS["en"]
    kinds: dict[str, int] = {}
    for kind, words in (
        (WHEN, names.moments),
        (UNIT, names.units),
        (BEFORE, names.before),
        (COUNT, names.numbers),
        (MONTH, AMBIGUOUS_MONTHS if language == "en" else ()),
        (ARTICLE, ARTICLES),
    ):
        for word in words:
            kinds[word] = kinds.get(word, 0) | kind
    return kinds


def kind_of_run(run: str) -> int:
    """Return the kind of a run of characters in a script without spaces."""
    return (
        (WHEN if _EAST_MOMENT.search(run) else 0)
        | (UNIT if _EAST_UNIT.match(run) else 0)
        | (COUNT if _EAST_COUNT.search(run) else 0)
    )


def features_of(text: str, kinds: bytes) -> int:
    """Return the features of a text whose chunks are of these kinds, one byte each."""
    seen = 0
    for kind in set(kinds):
        seen |= kind
    features = _QUESTION if is_question(text) else 0
    if seen & (FIGURE | COUNT):
        features |= _NUMERAL
    if seen & WHEN or (seen & (UNIT | MONTH) and says_when(kinds)):
        features |= _TEMPORAL
    return features


# Plain integers: combining members of an enumeration takes longer than everything else in `features_of`.
_QUESTION, _NUMERAL, _TEMPORAL = Features.QUESTION.value, Features.NUMERAL.value, Features.TEMPORAL.value


_UNIT_OR_MONTH = re.compile(b"[" + re.escape(bytes(kind for kind in range(128) if kind & (UNIT | MONTH))) + b"]")


def says_when(kinds: bytes) -> bool:
    """Return whether a unit or month has a neighbour that makes it a time: "two weeks", "during the summer"."""
    for found in _UNIT_OR_MONTH.finditer(kinds):
        place = found.start()
        kind = kinds[place]
        before = kinds[place - 1] if place else 0
        if before & ARTICLE and not before & BEFORE and place > 1:
            before = kinds[place - 2]
        if kind & UNIT and (before | kind) & (BEFORE | FIGURE | COUNT):
            return True
        after = kinds[place + 1] if place + 1 < len(kinds) else 0
        if kind & MONTH and (before & (BEFORE | FIGURE) or after & FIGURE):
            return True
    return False


_QUESTION_MARKS = frozenset("?\uff1f\u061f\u037e\u2e2e\u2047\u2048\u203d")


def is_question(text: str) -> bool:
    """Return whether a text ends in a question, ignoring a note in brackets, quotation mark or emoji after it.

    >>> is_question("Are you coming? [photo: a boat]"), is_question('She asked "why?"'), is_question("Why? No answer.")
    (True, True, False)
    """
    end = len(text.rstrip())
    if end and text[end - 1] in "])":
        opening = text.rfind("[" if text[end - 1] == "]" else "(", 0, end)
        end = opening if opening > 0 else end
    # The end of a text is short; further back is the text itself.
    for place in range(end - 1, max(end - 33, -1), -1):
        character = text[place]
        if character in _QUESTION_MARKS:
            return True
        if character.isalnum() or character in ".。":
            return False
    return False


# The edges of a piece as two characters: whether it begins like a name, and whether a sentence may continue after it. A
# name inside a sentence follows a letter, a comma or the like, and a single space.
_CAPITALISED, _INSIDE = "N", "i"
BOUNDARY = _INSIDE + _CAPITALISED
"""In the concatenated edges of pieces: a name that does not begin a sentence."""

_CAPITAL = re.compile(r"[^\W\d_a-z]\w*")
_GOING_ON = frozenset("_,;)%'’")
_QUOTED = re.compile(r'"[^"\n]{1,120}"|“[^“”\n]{1,120}”|„[^„“”\n]{1,120}[“”]|«[^«»\n]{1,120}»|「[^「」\n]{1,120}」')


def edges_of(piece: str) -> str:
    """Return the edges of the piece between two spaces: capitalised or not, and whether the sentence may continue.

    >>> "".join(map(edges_of, "Yesterday I met Ada Lovelace, who was reading Emma.".split())).count(BOUNDARY)
    3
    """
    name = _CAPITAL.match(piece) if piece[:1].isupper() else None
    last = piece[-1:]
    goes_on = last.isalnum() or last in _GOING_ON
    if name is not None and name[0] != "I":
        return _CAPITALISED + _INSIDE if goes_on else _CAPITALISED + "-"
    return "-" + _INSIDE if goes_on else "--"


def count_quotations(text: str) -> int:
    """Count the quotations in a text."""
    return 0 if text.isascii() and '"' not in text else len(_QUOTED.findall(text))


V = TypeVar("V")

_CACHE_SIZE = 32_768


def analyse(text: str) -> Analysis:
    """Return the terms of a text, ready to be indexed, and its features.

    Both an identifier as a whole and its parts are terms.

    >>> found = analyse("Ada's boats are in INV-2041")
    >>> found.language, found.terms, list(found.counts)
    ('en', 'ada boat inv-2041 inv 2041', [1, 1, 1, 1, 1])
    """
    pieces = text.split(" ")
    known = list(map(_PIECES.__getitem__, pieces))
    if len(pieces) <= MOST_LEANING and sum(map(_first, known)) > 0:
        language = "en"
        readings: list[Reading] = list(map(_third, known))
        if UNREAD in readings:
            _read_in_english(pieces, known, readings)
    else:
        language = language_of(chunks(text))
        readings = list(map(_readings(language).__getitem__, pieces))
    terms = list(chain.from_iterable(map(_second, readings)))
    distinct = dict.fromkeys(terms)
    if len(distinct) == len(terms):
        counts = b"\x01" * len(terms)
    else:
        counts = bytes([count if count < 255 else 255 for count in Counter(terms).values()])
    return Analysis(
        language,
        " ".join(distinct),
        counts,
        len(terms),
        features_of(text, b"".join(map(_first, readings))),
        0 if text.isupper() else "".join(map(_second, known)).count(BOUNDARY) + count_quotations(text),
    )


_first, _second, _third = itemgetter(0), itemgetter(1), itemgetter(2)

Reading = tuple[bytes, tuple[str, ...]]
"""The kinds of the chunks of a piece, a byte for each, and its terms."""

UNREAD: Reading = (b"\xff", ())  # no chunk is of every kind

Piece = tuple[int, str, Reading]
"""How a piece leans to English, its edges, and its reading in English texts.

That is `UNREAD` until one contains it, unless it is an ordinary word, which takes no longer to read than to look up.

Most texts are in English. With that reading here, each piece of such a text needs one lookup: with cold caches, as
after a write has synced the disk, lookups are most of the cost of an analysis.
"""


class _Cache(dict[str, V]):
    """A cache by string that is cleared when it is full, which needs no lock."""

    def keep(self, text: str, value: V) -> V:
        """Cache the value unless the string is too long to come again, and return it."""
        if len(text) <= LONGEST_WORD:
            if len(self) >= _CACHE_SIZE:
                self.clear()
            self[text] = value
        return value


class _Pieces(_Cache[Piece]):
    def __missing__(self, piece: str) -> Piece:
        word = _plain_word(piece)
        if word is None:
            return self.keep(piece, (english_lean(chunks(piece)), edges_of(piece), UNREAD))
        lean = 0 if is_neutral(word) else english_lean(chunks(piece))
        return self.keep(piece, (lean, edges_of(piece), _read_plain(word)))


class _Readings(_Cache[Reading]):
    """How pieces read in texts of one language."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, piece: str) -> Reading:
        return self.keep(piece, _read(piece, self._language))


_PLAIN = re.compile(f"[(\"']?+([A-Za-z]{{1,{LONGEST_WORD}}}+|[0-9]{{1,18}}+)[.,;:!?)\"']*+")


def _plain_word(piece: str) -> str | None:
    """Return the word in lower case if a piece is nothing but one ASCII word or whole number, and punctuation.

    Most pieces are, and those need none of the rules for identifiers and other scripts.
    """
    found = _PLAIN.fullmatch(piece)
    if found is None:
        return None
    word = found[1]
    folded = word.lower()
    # Capitals only at the beginning, or everywhere: `parseConfig` has parts.
    return folded if word[1:] == folded[1:] or word.isupper() else None


_PIECES = _Pieces()
_READINGS: dict[str, _Readings] = {}


def _readings(language: str) -> _Readings:
    found = _READINGS.get(language)
    return found if found is not None else _READINGS.setdefault(language, _Readings(language))


def look_up(pieces: Iterable[str]) -> list[Piece]:
    """Return pieces with how they lean to English, their edges, and their English readings as far as they are known."""
    return list(map(_PIECES.__getitem__, pieces))


def read_in_english(piece: str, known: Piece) -> Reading:
    """Return the English reading of a piece and cache it."""
    reading = _read(piece, "en")
    _PIECES.keep(piece, (known[0], known[1], reading))
    return reading


def _read_in_english(pieces: Sequence[str], known: Sequence[Piece], readings: list[Reading]) -> None:
    """Read the pieces that no English text contained before, and cache their readings."""
    place = 0
    for _ in range(readings.count(UNREAD)):  # mostly one or two of them
        place = readings.index(UNREAD, place)
        readings[place] = read_in_english(pieces[place], known[place])


def _read_plain(word: str) -> Reading:
    """Return the English reading of a piece with a single ordinary word or whole number."""
    if word[0].isdigit():
        return bytes((WHEN | FIGURE if _DATE_FORM.fullmatch(word) else FIGURE,)), (word,)
    found = "" if is_stop_word(word, "en") else term(word, "en")
    return bytes((_kinds_of_words("en").get(word, 0),)), (found,) if found else ()


def _read(piece: str, language: str) -> Reading:
    kinds: list[int] = []
    terms: list[str] = []
    for chunk in chunks(piece):
        if is_unsegmented(chunk):
            kinds.append(kind_of_run(chunk))
            terms += bigrams(chunk)
        else:
            words = read_chunk(chunk)
            kinds.append(kind_of(words, language))
            terms += _terms(words, language)
    return bytes(kinds), tuple(terms)


def _terms(words: tuple[Word, ...], language: str) -> list[str]:
    found: list[str] = []
    for word in words:
        if word.whole:
            found.append(whole_term(word.whole, language))
        found += [term(part, language) for part in word.parts if not is_stop_word(part, language)]
    return [one for one in found if one]


def whole_term(whole: str, language: str) -> str:
    """Return the term of an identifier or of a bigram.

    An identifier of letters alone (`parseConfig`) might be typed as a word, so it is stemmed like one.
    """
    if is_unsegmented(whole):
        return whole
    return term(whole, language if whole.isalpha() else "")
