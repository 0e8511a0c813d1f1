"""BM25 over the lines of a text.

For the few hundred lines of a memory block: no index that could lag behind, no embedder that could fail. A line without
any word of the query is not a match, however close its meaning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from memoranda.retrieval.analysis.analyser import analyse
from memoranda.retrieval.analysis.query import idf, read_query

# The parameters of BM25, k1 and b.
_SATURATION = 1.2
_LENGTH = 0.75


def rank_lines(query: str, lines: Sequence[str]) -> list[tuple[int, float]]:
    """Return the indexes and scores of the lines that contain a word of the query, best first, ties in line order.

    >>> found = rank_lines("north gate", ["South gate repainted in June", "Tea at four", "North gate locked in winter"])
    >>> [place for place, score in found]
    [2, 0]
    """
    read = [_read(line) for line in lines]
    average = sum(one.length for one in read) / len(read) if read else 0.0
    # "" matches words as written, such as names.
    asked = read_query(query, [*{one.language for one in read}, ""], words_only=True)
    scores: dict[int, float] = defaultdict(float)
    for stems in dict.fromkeys(word.stems for word in asked.words if not word.stop):
        counts = {place: count for place, one in enumerate(read) if (count := one.count(stems))}
        weight = idf(len(counts), len(lines))
        for place, count in counts.items():
            norm = _SATURATION * (1 - _LENGTH + _LENGTH * read[place].length / average)
            scores[place] += weight * count * (_SATURATION + 1) / (count + norm)
    return sorted(scores.items(), key=lambda one: (-one[1], one[0]))


class _Line(msgspec.Struct, frozen=True, gc=False):
    language: str
    terms: dict[str, int]
    length: int

    def count(self, stems: tuple[str, ...]) -> int:
        """Return how often the line contains the most frequent of these stems."""
        return max([self.terms.get(stem, 0) for stem in stems])


# Analysing a line takes a hundred times as long as searching it, and the same lines are searched again and again.
@lru_cache(maxsize=8_192)
def _read(line: str) -> _Line:
    found = analyse(line)
    terms = zip(found.terms.split(" "), found.counts, strict=True) if found.length else ()
    return _Line(found.language, dict(terms), found.length)
