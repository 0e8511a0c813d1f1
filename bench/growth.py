"""Measure recalls in a namespace as it grows, and how exact they are at one size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from corpus import COLLECTION, LIMIT, RARE, Note, make_note, rare
from fresh import Start, time_first_recall
from measuring import Operation, Times, take_turns
from numpy.typing import NDArray
from report import show_progress

import memoranda
from memoranda.retrieval.embed.wordllama import WordLlama

CHUNK = 1_000
QUESTIONS = 200

PRODUCT = "numpy product"
FILTERED = "hybrid, 5% filter"
IN_PARTS = "numpy product, in parts"
"""The control: a product in one piece cannot take longer, unless its threads wait for other processes."""
_PART = 1_000

# Numbers of the notes that are added one at a time: far from those that the namespace is filled with.
_SINGLE = 100_000_000


@dataclass(frozen=True)
class Sizes:
    """How many entries the namespace grows to, and at which size it is held against numpy."""

    sizes: tuple[int, ...]
    judged: int
    rounds: int = 15
    per_round: int = 5
    starts: int = 7
    """How many new processes open the database at that size."""


@dataclass(frozen=True)
class Judged:
    """What was found at one size: times by what was done, and the shares of the exact answers that were found."""

    times: dict[str, Times]
    recall: float
    recall_filtered: float
    starts: list[Start]


@dataclass(frozen=True)
class Grown:
    """What was measured at each size."""

    measured: dict[int, dict[str, Times]]
    judged: Judged

    def sizes(self) -> list[int]:
        """Return the sizes, smallest first."""
        return sorted(self.measured)

    def curves(self) -> dict[str, list[tuple[int, float]]]:
        """Return the median milliseconds by size, of everything that was done at each."""
        verbs = list(next(iter(self.measured.values())))
        return {verb: [(size, self.measured[size][verb].p50 / 1000) for size in self.sizes()] for verb in verbs}


class _Remembering(WordLlama):
    """WordLlama that keeps the vector of the last question, so that the exact answer to it can be made."""

    def __init__(self) -> None:
        self.last: NDArray[np.float32] = np.zeros(self.dimension, np.float32)

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> NDArray[np.float32]:
        vectors = super().embed_weighted(words, weights)
        self.last = vectors[0]
        return vectors


class _Namespace:
    """A namespace and, beside it, the vectors of its entries as one matrix: what an exact answer is made from."""

    def __init__(self, memory: memoranda.Memory, embedder: _Remembering) -> None:
        self.scope = memory.scope(user="mara")
        self.notes: list[Note] = []
        self._embedder = embedder
        self._vectors: list[NDArray[np.float32]] = []
        self._filled = 0

    def fill(self, size: int) -> None:
        """Write notes through the public API, a thousand to a call, until there are so many."""
        with show_progress(f"writing up to {size:,} entries", size) as advance:
            advance(len(self.notes))
            while len(self.notes) < size:
                count = min(CHUNK, size - len(self.notes))
                notes = [make_note(self._filled + number) for number in range(count)]
                items = [{"content": note.text, "metadata": note.metadata} for note in notes]
                self.scope.remember_many(items, collection=COLLECTION)
                self._keep(notes)
                self._filled += count
                advance(count)

    def matrix(self) -> NDArray[np.float32]:
        """Return the vectors, one row for each note."""
        if len(self._vectors) > 1:
            self._vectors = [np.concatenate(self._vectors)]
        return self._vectors[0]

    def questions(self) -> list[str]:
        """Return questions about notes from everywhere in the namespace."""
        return [note.question for note in self.notes[:: max(1, len(self.notes) // QUESTIONS)]]

    def recall(self, question: str, **options: Any) -> list[str]:
        """Return the texts of the ten matches."""
        found = self.scope.recall(question, collection=COLLECTION, namespace="", limit=LIMIT, **options)
        return [match.content for match in found.results]

    def add(self) -> None:
        """Remember one more note."""
        note = make_note(_SINGLE + len(self.notes))
        self.scope.remember(note.text, collection=COLLECTION, metadata=note.metadata)
        self._keep([note])

    def _keep(self, notes: list[Note]) -> None:
        self.notes += notes
        self._vectors.append(self._embedder.embed([note.text for note in notes]))

    def exactness(self, *, filtered: bool) -> float:
        """Return the share of the ten exactly nearest that semantic recalls find; equally near ones count alike."""
        chosen = np.array([rare(note) or not filtered for note in self.notes])
        matrix = self.matrix()[chosen]
        texts = [note.text for note, is_chosen in zip(self.notes, chosen, strict=True) if is_chosen]
        places = {text: place for place, text in enumerate(texts)}
        options = {"filter": RARE} if filtered else {}
        shares: list[float] = []
        for question in self.questions():
            found = self.recall(question, mode="semantic", **options)
            cosines = matrix @ self._embedder.last
            tenth = np.partition(cosines, -LIMIT)[-LIMIT]
            shares.append(sum(cosines[places[text]] >= tenth - 1e-5 for text in found) / LIMIT)
        return float(np.mean(shares))


def grow(path: Path, sizes: Sizes) -> Grown:
    """Let one namespace grow through the public API; time recalls and adds at each size."""
    measured: dict[int, dict[str, Times]] = {}
    judged: Judged | None = None
    embedder = _Remembering()
    with memoranda.open(path, embedder=embedder) as memory:
        namespace = _Namespace(memory, embedder)
        for size in sizes.sizes:
            namespace.fill(size)
            times = _time_all(namespace, sizes)
            measured[size] = {verb: times[verb] for verb in times if verb not in (FILTERED, IN_PARTS)}
            if size == sizes.judged:
                exact = (namespace.exactness(filtered=filtered) for filtered in (False, True))
                judged = Judged(times, *exact, [time_first_recall(path) for _ in range(sizes.starts)])
    if judged is None:
        raise ValueError(f"{sizes.judged:,} is not among the sizes {sizes.sizes}")
    return Grown(measured, judged)


def _time_all(namespace: _Namespace, sizes: Sizes) -> dict[str, Times]:
    """Time everything that is done at one size, in turns."""
    questions = namespace.questions()
    matrix = namespace.matrix()
    asked = WordLlama().embed(questions)
    operations: dict[str, Operation] = {
        "hybrid": lambda turn: namespace.recall(_nth(questions, turn)),
        FILTERED: lambda turn: namespace.recall(_nth(questions, turn), filter=RARE),
        "semantic": lambda turn: namespace.recall(_nth(questions, turn), mode="semantic"),
        "keyword": lambda turn: namespace.recall(_nth(questions, turn), mode="keyword"),
        PRODUCT: lambda turn: matrix @ asked[turn % len(asked)],
        IN_PARTS: lambda turn: _product_in_parts(matrix, asked[turn % len(asked)]),
        "add": lambda turn: namespace.add(),
        "add then hybrid": lambda turn: (namespace.add(), namespace.recall(_nth(questions, turn))),
    }
    return take_turns(operations, rounds=sizes.rounds, per_round=sizes.per_round, warm_up=5)


def _product_in_parts(matrix: NDArray[np.float32], vector: NDArray[np.float32]) -> None:
    """Multiply so few rows at a time that numpy's library does each part in this thread."""
    for start in range(0, len(matrix), _PART):
        matrix[start : start + _PART] @ vector


def _nth(questions: Sequence[str], turn: int) -> str:
    return questions[turn % len(questions)]
