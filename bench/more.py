"""Collections of other kinds: what `bench/quality.py --more` measures beside the conversations, and BM25 with it.

A folder has JSON files, one for each set: `{"name", "lang", "spaces": [{"ns", "docs": [{"id", "text", …metadata}],
"qs": [{"q", "gold": [ids]}]}]}`. A space is a collection with questions of its own. What is in such a folder is not
ours and never part of this repository.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conversations import Conversation

from memoranda.retrieval.analysis.analyser import analyse
from memoranda.retrieval.analysis.query import idf

PARAMETERS = ((0.9, 0.4), (0.9, 0.75), (1.2, 0.4), (1.2, 0.75))
"""The k1 and b of BM25: the best of these counts."""


@dataclass(frozen=True)
class Text:
    """An entry, with the ids that its questions know it by."""

    id: str
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A question, and the ids of the entries that answer it."""

    text: str
    gold: frozenset[str]


@dataclass(frozen=True)
class Space:
    """A collection and its questions."""

    name: str
    texts: list[Text]
    asked: list[Asked]


@dataclass(frozen=True)
class Collection:
    """A set: several spaces, and the order in which their entries are remembered."""

    name: str
    spaces: list[Space]

    def reordered(self, name: str, order: Callable[[list[Text]], list[Text]]) -> Collection:
        """Return the set in another order, without the metadata that name a thread."""
        spaces = [
            Space(space.name, [without_threads(text) for text in order(space.texts)], space.asked)
            for space in self.spaces
        ]
        return Collection(f"{self.name}, {name}", spaces)


def without_threads(text: Text) -> Text:
    """Return a text without its thread."""
    kept = {key: value for key, value in text.metadata.items() if key not in ("thread", "session")}
    return Text(text.id, text.text, kept)


def read_collections(folder: Path) -> list[Collection]:
    """Return the sets of a folder."""
    return [_collection(json.loads(path.read_bytes())) for path in sorted(folder.glob("*.json"))]


def _collection(given: dict[str, Any]) -> Collection:
    spaces = [
        Space(
            space["ns"],
            [
                Text(one["id"], one["text"], {key: value for key, value in one.items() if key not in ("id", "text")})
                for one in space["docs"]
            ],
            [Asked(one["q"], frozenset(one["gold"])) for one in space["qs"]],
        )
        for space in given["spaces"]
    ]
    return Collection(given["name"], spaces)


def as_collection(conversations: Sequence[Conversation]) -> Collection:
    """Return conversations as a set of plain texts."""
    spaces = [
        Space(
            one.name,
            [Text(f"{one.name}/{turn.reference}", turn.text) for turn in one.turns],
            [
                Asked(question.text, frozenset(f"{one.name}/{reference}" for reference in question.evidence))
                for question in one.questions
            ],
        )
        for one in conversations
    ]
    return Collection("conversations", spaces)


def shuffled(seed: int) -> Callable[[list[Text]], list[Text]]:
    """Return an order that says nothing."""
    return lambda texts: random.Random(seed).sample(texts, len(texts))


def by_title(texts: list[Text]) -> list[Text]:
    """Return texts in the order of their first words."""
    return sorted(texts, key=lambda one: one.text.casefold())


def in_one(collection: Collection, name: str) -> Collection:
    """Return all spaces of a set as one, their entries in turns, as when all of them go on at the same time."""
    texts = [
        text
        for turn in range(max(len(space.texts) for space in collection.spaces))
        for space in collection.spaces
        for text in space.texts[turn : turn + 1]
    ]
    asked = [one for space in collection.spaces for one in space.asked]
    return Collection(name, [Space("all", texts, asked)])


def mixed(name: str, *collections: Collection) -> Collection:
    """Return several sets as one space, their entries one after the other."""
    texts = [
        Text(f"{one.name}/{space.name}/{text.id}", text.text, text.metadata)
        for one in collections
        for space in one.spaces
        for text in space.texts
    ]
    asked = [
        Asked(question.text, frozenset(f"{one.name}/{space.name}/{id}" for id in question.gold))
        for one in collections
        for space in one.spaces
        for question in space.asked
    ]
    return Collection(name, [Space("all", texts, asked)])


def conditions(collections: Sequence[Collection], conversations: Collection) -> list[Collection]:
    """Return all that is measured: each set in its order, in none and by title, and several in one shelf."""
    found: list[Collection] = []
    for one in collections:
        found += [one, one.reordered("shuffled", shuffled(0)), one.reordered("by title", by_title)]
    found += [
        conversations,
        conversations.reordered("shuffled", shuffled(0)),
        conversations.reordered("by title", by_title),
        in_one(conversations, "conversations in one shelf, in turns"),
    ]
    if len(collections) > 1:
        found.append(mixed("all sets in one shelf", *collections))
    return found


class BM25:
    """Okapi BM25 over the stems of one space, with repeated words of a query counted as often as they are there."""

    def __init__(self, texts: Sequence[Text]) -> None:
        """Index the texts."""
        self._ids = [text.id for text in texts]
        self._rows: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._lengths: list[int] = []
        for row, text in enumerate(texts):
            read = analyse(text.text)
            self._lengths.append(read.length)
            for word, count in zip(read.terms.split(), read.counts, strict=True):
                self._rows[word].append((row, count))
        self._usual = max(sum(self._lengths) / max(len(texts), 1), 1.0)

    def search(self, query: str, limit: int, k1: float, b: float) -> list[str]:
        """Return the ids of the best texts; of equal ones, the first that was added."""
        read = analyse(query)
        totals = Counter[int]()
        for word, often in zip(read.terms.split(), read.counts, strict=True):
            found = self._rows.get(word, [])
            weight = often * idf(len(found), len(self._ids))
            for row, count in found:
                saturated = count + k1 * (1 - b + b * self._lengths[row] / self._usual)
                totals[row] += weight * count * (k1 + 1) / saturated
        best = sorted(totals, key=lambda row: (-totals[row], row))[:limit]
        return [self._ids[row] for row in best]


@dataclass(frozen=True)
class Found:
    """How well one question was answered."""

    at_5: float
    at_10: float
    ndcg: float
    reciprocal: float


def judge(gold: frozenset[str], ranked: Sequence[str]) -> Found:
    """Return how well a ranking finds what answers."""
    distinct = list(dict.fromkeys(ranked))
    places = [place for place, one in enumerate(distinct) if one in gold]
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(gold))))
    return Found(
        at_5=sum(place < 5 for place in places) / len(gold),
        at_10=sum(place < 10 for place in places) / len(gold),
        ndcg=sum(1 / math.log2(place + 2) for place in places if place < 10) / ideal,
        reciprocal=1 / (1 + places[0]) if places else 0.0,
    )
