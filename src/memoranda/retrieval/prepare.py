"""The text of a query and a shelf in, what to look for out: its terms, how rare each is, and what to embed.

A word tells as much as it is rare on the shelf. So a query's vector is a sum in which the names that every entry has
count little, while stored vectors stay plain: nothing has to be embedded again when other entries come.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from memoranda.model.recall import Mode
from memoranda.retrieval.analysis.query import Query, read_query
from memoranda.retrieval.embed.base import Embedder, Vectors
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.rarity import rarity_of

# To an embedder a stop word counts as much as a word that this part of the entries has: "when" means something.
_LIKE_A_STOP_WORD = 0.2
# A word that was mistyped is trusted less than one that was found as it is written.
_TRUST_IN_A_CORRECTION = 0.7
_SHORTEST_CORRECTED = 4
_LONGEST_CORRECTED = 32
# Scripts with more letters than this are not written by typing letters.
_MOST_LETTERS = 80
# Words in more than this part of the entries tell nothing to an embedder that reads whole texts.
_TOO_FREQUENT = 0.3


class Term(msgspec.Struct, frozen=True, gc=False):
    """One word of a query, or several of the same stems, and under which forms it is looked for."""

    word: str
    stems: tuple[str, ...]
    trust: float = 1.0


class Prepared(msgspec.Struct, frozen=True):
    """A query, read for one shelf."""

    query: Query
    terms: tuple[Term, ...]
    """Its words without stop words, each once."""
    corrected: dict[str, str]
    """Words that no entry has, and the one that is looked for in place of each."""
    words: tuple[str, ...]
    """What an embedder that weights words is given, with `weights`."""
    weights: tuple[float, ...]
    telling: str
    """What an embedder that reads whole texts is given: the text without the words that nearly every entry has."""


def prepare(index: ShelfIndex, text: str, *, now: int, mode: Mode = "hybrid") -> Prepared:
    """Read a query for a shelf as it is at a moment in microseconds, as far as a ranking in this mode needs it."""
    with index.lock:
        index.expire(now)
        # The last language is none: actors are looked for by their names as they are written.
        query = read_query(text, (*index.languages, ""), words_only=mode != "hybrid")
        entries = len(index)
        little = rarity_of(_LIKE_A_STOP_WORD * entries, entries)
        rarities: dict[tuple[str, ...], float] = {}
        terms: list[Term] = []
        corrected: dict[str, str] = {}
        words: list[str] = []
        weights: list[float] = []
        frequent: list[str] = []
        for word in query.words:
            words.append(word.text)
            if word.stop:
                weights.append(little)
                continue
            rarity = rarities.get(word.stems)
            if rarity is None:
                term = Term(word.text, word.stems)
                holders = index.find(term.stems).size
                if not holders and (found := index.correction(word.stems[0], _correct)) is not None:
                    corrected[word.text] = found
                    term = Term(word.text, (found,), _TRUST_IN_A_CORRECTION)
                    holders = index.find(term.stems).size
                terms.append(term)
                rarity = rarities[word.stems] = rarity_of(holders, entries) * term.trust
                if holders > _TOO_FREQUENT * entries:
                    frequent.append(word.text)
            weights.append(rarity)
        # Where every word is frequent, the query is better read whole than not at all.
        telling = _without(text, frequent) if len(frequent) < len(terms) else text
        return Prepared(query, tuple(terms), corrected, tuple(words), tuple(weights), telling)


def embed_query(embedder: Embedder, prepared: Prepared) -> Vectors:
    """Return the vector of a prepared query: one row."""
    weighting: Any = getattr(embedder, "embed_weighted", None)
    if weighting is not None:
        return weighting(prepared.words, prepared.weights)[0]
    return embedder.embed([prepared.telling])[0]


def _without(text: str, words: list[str]) -> str:
    """Return a text with some words taken out of it."""
    if not words:
        return text
    taken = re.sub(rf"\b(?:{'|'.join(map(re.escape, words))})\b", "", text)
    return " ".join(taken.split())


def _correct(index: ShelfIndex, stem: str) -> str | None:
    """Return the word of the shelf that was probably meant by one that nothing has, None where there is none.

    It is one letter away: one more, one less, another one, or two in each other's place. People get the first letter
    right, and mean what is more often there.
    """
    if not (_SHORTEST_CORRECTED <= len(stem) <= _LONGEST_CORRECTED and stem.isalpha()):
        return None
    blocks = {ord(letter) >> 8 for letter in stem}
    letters = [letter for letter in index.postings.letters if ord(letter) >> 8 in blocks and letter.isalpha()]
    if len(letters) > _MOST_LETTERS:
        return None
    near = index.postings.known(_one_edit_away(stem, letters))
    meant = [(word[0] == stem[0], index.find((word,)).size, word) for word in near]
    return max((one for one in meant if one[1]), default=(False, 0, None))[2]


def _one_edit_away(word: str, letters: list[str]) -> set[str]:
    cuts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    less = {left + right[1:] for left, right in cuts if right}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    other = {left + letter + right[1:] for left, right in cuts if right for letter in letters}
    more = {left + letter + right for left, right in cuts for letter in letters}
    return (less | swapped | other | more) - {word, ""}
