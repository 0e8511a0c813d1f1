"""Prepare a query for one index: its terms, their weights by inverse document frequency, and what to embed.

Only the vector of the query is weighted, so that names which every entry contains count little. Stored vectors are not,
so nothing has to be embedded again when other entries are added.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from memoranda.model.entry import Mode
from memoranda.retrieval.analysis.query import Query, read_query
from memoranda.retrieval.bm25 import idf
from memoranda.retrieval.embed.base import Embedder, Vectors
from memoranda.retrieval.index.shelf import ShelfIndex

# For the vector, a stop word has the weight of a word in this share of the entries: "when" means something.
_STOP_WORD_SHARE = 0.2
# A corrected word weighs less than one that was found as written.
_CORRECTION_WEIGHT = 0.7
_SHORTEST_CORRECTED = 4
_LONGEST_CORRECTED = 32
# Scripts with more letters than this are not typed letter by letter.
_MOST_LETTERS = 80
# Words in more than this share of the entries are removed for an embedder that reads whole texts.
_TOO_FREQUENT = 0.3


class Term(msgspec.Struct, frozen=True, gc=False):
    """A word of a query, or several with the same stems, and the stems to search for."""

    word: str
    stems: tuple[str, ...]
    trust: float = 1.0


class PreparedQuery(msgspec.Struct, frozen=True):
    """A query, prepared for one index."""

    query: Query
    terms: tuple[Term, ...]
    """Its distinct words without stop words."""
    corrected: dict[str, str]
    """Words that no entry contains, and the correction that is searched instead."""
    words: tuple[str, ...]
    """All words, for an embedder that takes weights, with `weights`."""
    weights: tuple[float, ...]
    text: str
    """The text without very frequent words, for an embedder that reads whole texts."""


def prepare(index: ShelfIndex, text: str, *, now: int, mode: Mode = "hybrid") -> PreparedQuery:
    """Prepare a query for an index at a time in microseconds, as far as ranking in this mode needs it."""
    with index.lock:
        index.expire(now)
        # "" matches words as written: actors are searched by their unstemmed names.
        query = read_query(text, (*index.languages, ""), words_only=mode != "hybrid")
        entries = len(index)
        stop_weight = idf(_STOP_WORD_SHARE * entries, entries)
        weight_of: dict[tuple[str, ...], float] = {}
        terms: list[Term] = []
        corrected: dict[str, str] = {}
        words: list[str] = []
        weights: list[float] = []
        frequent: list[str] = []
        for word in query.words:
            words.append(word.text)
            if word.stop:
                weights.append(stop_weight)
                continue
            weight = weight_of.get(word.stems)
            if weight is None:
                term = Term(word.text, word.stems)
                frequency = index.find(term.stems).size
                if not frequency and (found := index.correction(word.stems[0], _correct)) is not None:
                    corrected[word.text] = found
                    term = Term(word.text, (found,), _CORRECTION_WEIGHT)
                    frequency = index.find(term.stems).size
                terms.append(term)
                weight = weight_of[word.stems] = idf(frequency, entries) * term.trust
                if frequency > _TOO_FREQUENT * entries:
                    frequent.append(word.text)
            weights.append(weight)
        # A query of frequent words only is left as it is: better than an empty one.
        shortened = _without(text, frequent) if len(frequent) < len(terms) else text
        return PreparedQuery(query, tuple(terms), corrected, tuple(words), tuple(weights), shortened)


def embed_query(embedder: Embedder, prepared: PreparedQuery) -> Vectors:
    """Return the vector of a prepared query."""
    weighting: Any = getattr(embedder, "embed_weighted", None)
    if weighting is not None:
        return weighting(prepared.words, prepared.weights)[0]
    return embedder.embed([prepared.text])[0]


def _without(text: str, words: list[str]) -> str:
    if not words:
        return text
    taken = re.sub(rf"\b(?:{'|'.join(map(re.escape, words))})\b", "", text)
    return " ".join(taken.split())


def _correct(index: ShelfIndex, stem: str) -> str | None:
    """Return the indexed word that was probably meant by one that no entry contains, or None.

    It is one edit away: a letter inserted, deleted or replaced, or two letters swapped. A word with the same first
    letter is preferred, as people rarely mistype it, and then the more frequent word.
    """
    if not (_SHORTEST_CORRECTED <= len(stem) <= _LONGEST_CORRECTED and stem.isalpha()):
        return None
    blocks = {ord(letter) >> 8 for letter in stem}
    letters = [letter for letter in index.postings.letters if ord(letter) >> 8 in blocks and letter.isalpha()]
    if len(letters) > _MOST_LETTERS:
        return None
    near = index.postings.vocabulary(_one_edit_away(stem, letters))
    meant = [(word[0] == stem[0], index.find((word,)).size, word) for word in near]
    return max((one for one in meant if one[1]), default=(False, 0, None))[2]


def _one_edit_away(word: str, letters: list[str]) -> set[str]:
    cuts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    less = {left + right[1:] for left, right in cuts if right}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    other = {left + letter + right[1:] for left, right in cuts if right for letter in letters}
    more = {left + letter + right for left, right in cuts for letter in letters}
    return (less | swapped | other | more) - {word, ""}
