"""A stored text in, its words and signs out: what an index keeps of it."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from recollect.retrieval.analysis.analysed import Analysed
from recollect.retrieval.analysis.languages import is_stop_word, language_of
from recollect.retrieval.analysis.signs import count_names, kind_of, kind_of_run, read_signs
from recollect.retrieval.analysis.stemming import term
from recollect.retrieval.analysis.words import LONGEST_WORD, Word, chunks, is_unsegmented, pairs, read_chunk


def analyse(text: str) -> Analysed:
    """Return the words of a text, ready to be indexed, and what can be seen in it.

    Of an identifier the whole and its parts are terms.

    >>> found = analyse("Ada's boats are in INV-2041")
    >>> found.language, found.terms, list(found.counts)
    ('en', 'ada boat inv-2041 inv 2041', [1, 1, 1, 1, 1])
    """
    pieces = chunks(text)
    language = language_of(pieces)
    read = _readings(language)
    kinds: list[int] = []
    groups: list[tuple[str, ...]] = []
    seen = 0
    for kind, terms in map(read.__getitem__, pieces):
        kinds.append(kind)
        groups.append(terms)
        seen |= kind
    counts = Counter(chain.from_iterable(groups))
    return Analysed(
        language=language,
        terms=" ".join(counts),
        counts=bytes([count if count < 255 else 255 for count in counts.values()]),
        length=counts.total(),
        signs=read_signs(text, kinds, seen),
        names=count_names(text),
    )


class _Readings(dict[str, tuple[int, tuple[str, ...]]]):
    """What the chunks seen lately in texts of one language are, and their terms; emptied when full."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, chunk: str) -> tuple[int, tuple[str, ...]]:
        if is_unsegmented(chunk):
            return kind_of_run(chunk), tuple(pairs(chunk))
        words = read_chunk(chunk)
        reading = kind_of(words, self._language), tuple(_terms(words, self._language))
        if len(chunk) <= LONGEST_WORD:
            if len(self) >= 32_768:
                self.clear()
            self[chunk] = reading
        return reading


_READINGS: dict[str, _Readings] = {}


def _readings(language: str) -> _Readings:
    found = _READINGS.get(language)
    return found if found is not None else _READINGS.setdefault(language, _Readings(language))


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
