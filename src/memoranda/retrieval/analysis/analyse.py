"""A stored text in, its words and signs out: what an index keeps of it.

Words repeat, and what stands between two spaces is read the same wherever it stands. So each such piece is read once,
and a text is put together from what is known of its pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import TypeVar

from memoranda.retrieval.analysis.analysed import Analysed
from memoranda.retrieval.analysis.languages import MOST_LEANING, english_lean, is_stop_word, language_of
from memoranda.retrieval.analysis.signs import BOUNDARY, count_quotations, edges_of, kind_of, kind_of_run, read_signs
from memoranda.retrieval.analysis.stemming import term
from memoranda.retrieval.analysis.words import LONGEST_WORD, Word, chunks, is_unsegmented, pairs, read_chunk

V = TypeVar("V")

_MOST_KEPT = 32_768


def analyse(text: str) -> Analysed:
    """Return the words of a text, ready to be indexed, and what can be seen in it.

    Of an identifier the whole and its parts are terms.

    >>> found = analyse("Ada's boats are in INV-2041")
    >>> found.language, found.terms, list(found.counts)
    ('en', 'ada boat inv-2041 inv 2041', [1, 1, 1, 1, 1])
    """
    pieces = text.split(" ")
    known = list(map(_PIECES.__getitem__, pieces))
    if len(pieces) <= MOST_LEANING and sum(map(_first, known)) > 0:
        language = "en"
        readings: list[Reading] = list(map(_third, known))
        if _UNREAD in readings:
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
    return Analysed(
        language,
        " ".join(distinct),
        counts,
        len(terms),
        read_signs(text, b"".join(map(_first, readings))),
        0 if text.isupper() else "".join(map(_second, known)).count(BOUNDARY) + count_quotations(text),
    )


_first, _second, _third = itemgetter(0), itemgetter(1), itemgetter(2)

Reading = tuple[bytes, tuple[str, ...]]
"""The kinds of the chunks of a piece, a byte for each, and its terms."""

_UNREAD: Reading = (b"\xff", ())  # no chunk is of every kind

Piece = tuple[int, str, Reading]
"""How a piece leans to English, its edges, and how it reads in an English text, once one had it.

Most texts are in English. That reading stands here so that each piece of such a text is looked up once: where memory
has grown cold, as after a write has synced the disk, looking up is most of what an analysis costs.
"""


class _Kept(dict[str, V]):
    """What was made of strings lately; emptied when full, which needs no lock."""

    def keep(self, text: str, made: V) -> V:
        """Keep what was made of a string, unless it is too long to come again, and return it."""
        if len(text) <= LONGEST_WORD:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[text] = made
        return made


class _Pieces(_Kept[Piece]):
    """What is known of pieces whatever text they are in."""

    def __missing__(self, piece: str) -> Piece:
        return self.keep(piece, (english_lean(chunks(piece)), edges_of(piece), _UNREAD))


class _Readings(_Kept[Reading]):
    """How pieces read in texts of one language."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, piece: str) -> Reading:
        return self.keep(piece, _read(piece, self._language))


_PIECES = _Pieces()
_READINGS: dict[str, _Readings] = {}


def _readings(language: str) -> _Readings:
    found = _READINGS.get(language)
    return found if found is not None else _READINGS.setdefault(language, _Readings(language))


def _read_in_english(pieces: Sequence[str], known: Sequence[Piece], readings: list[Reading]) -> None:
    """Fill in how those pieces of an English text read that were in none before, and keep it beside what is known."""
    place = 0
    for _ in range(readings.count(_UNREAD)):  # mostly one or two of them
        place = readings.index(_UNREAD, place)
        piece, (lean, edges, _) = pieces[place], known[place]
        reading = readings[place] = _read(piece, "en")
        _PIECES.keep(piece, (lean, edges, reading))


def _read(piece: str, language: str) -> Reading:
    kinds: list[int] = []
    terms: list[str] = []
    for chunk in chunks(piece):
        if is_unsegmented(chunk):
            kinds.append(kind_of_run(chunk))
            terms += pairs(chunk)
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
    """Return the term of an identifier or of a pair of characters.

    An identifier of letters alone (`parseConfig`) might be typed as a word, so it is stemmed like one.
    """
    if is_unsegmented(whole):
        return whole
    return term(whole, language if whole.isalpha() else "")
