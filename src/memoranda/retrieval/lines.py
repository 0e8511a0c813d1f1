"""Lines and a query in, the lines that hold its words out, best first.

For the few hundred lines that a text has: there is no index that could be behind it, and no embedder that could fail.
A line without any word of the query is no match, however near its meaning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from memoranda.retrieval.analysis.analyse import analyse
from memoranda.retrieval.analysis.query import read_query
from memoranda.retrieval.rarity import rarity_of

# BM25: how soon another occurrence of a word tells nothing new, and how much longer lines are held against them.
_SATURATION = 1.2
_LENGTH = 0.75


def rank_lines(query: str, lines: Sequence[str]) -> list[tuple[int, float]]:
    """Return the places of the lines that hold a word of the query, with their scores; equal scores in their order.

    >>> found = rank_lines("north gate", ["South gate repainted in June", "Tea at four", "North gate locked in winter"])
    >>> [place for place, score in found]
    [2, 0]
    """
    read = [_read(line) for line in lines]
    average = sum(one.length for one in read) / len(read) if read else 0.0
    # The last language is none: names are found as they are written.
    asked = read_query(query, [*{one.language for one in read}, ""], words_only=True)
    scores: dict[int, float] = defaultdict(float)
    for stems in dict.fromkeys(word.stems for word in asked.words if not word.stop):
        holders = {place: count for place, one in enumerate(read) if (count := one.count(stems))}
        rarity = rarity_of(len(holders), len(lines))
        for place, count in holders.items():
            room = _SATURATION * (1 - _LENGTH + _LENGTH * read[place].length / average)
            scores[place] += rarity * count * (_SATURATION + 1) / (count + room)
    return sorted(scores.items(), key=lambda one: (-one[1], one[0]))


class _Line(msgspec.Struct, frozen=True, gc=False):
    language: str
    terms: dict[str, int]
    length: int

    def count(self, stems: tuple[str, ...]) -> int:
        """Return how often the line holds a word, under that of its stems which it holds most often."""
        return max([self.terms.get(stem, 0) for stem in stems])


# Reading a line takes a hundred times as long as looking for words in it, and the same texts are asked again and again.
@lru_cache(maxsize=8_192)
def _read(line: str) -> _Line:
    found = analyse(line)
    terms = zip(found.terms.split(" "), found.counts, strict=True) if found.length else ()
    return _Line(found.language, dict(terms), found.length)
