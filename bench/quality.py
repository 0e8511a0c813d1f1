"""How well recall finds what answers a question: turns of long conversations, scored against a file of LoCoMo's format.

    make bench-quality DATA=locomo10.json                        all of it
    make bench-quality DATA=locomo10.json ARGS="--onnx FOLDER"   beside it an embedder from a folder
    make bench-quality DATA=locomo10.json ARGS="--more FOLDER"   beside it sets of other kinds, see bench/more.py
    make bench-quality DATA=locomo10.json ARGS="--only full,modes --json out.json"

Everything goes through the public API: every turn is remembered as one entry, every question recalled. No LLM.
R@k is the share of a question's evidence among the first k matches, NDCG@10 the usual one with a gain of 1 for
evidence; both are averaged over the questions whose evidence exists, adversarial ones included.

With `--more`, each set of a folder is measured in its order, shuffled and sorted by title, in every mode, beside BM25.
Hybrid recall may be at most a point of NDCG@10 below it, whatever the order.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import more
import program
from conversations import CATEGORIES, SOURCE, Conversation, Turn, read_conversations
from measuring import Times
from program import Program, run_program
from report import Line
from rich.table import Table

import memoranda

LIMIT = 50
COLLECTION = "turns"
CHUNK = 500
LOST_AT_MOST = 0.0
"""Points of R@10 that shuffled entries may lose."""
BELOW_BM25_AT_MOST = 1.0
"""Points of NDCG@10 that hybrid recall may be below BM25 in any set and order."""


@dataclass(frozen=True)
class Counts:
    """How much is measured."""

    conversations: int | None = None
    shuffles: int = 3


@dataclass(frozen=True)
class Score:
    """How well one question was answered."""

    category: str
    at_5: float
    at_10: float
    ndcg: float


@dataclass(frozen=True)
class Condition:
    """How the turns are given: what metadata each has, and in which order they come."""

    name: str
    metadata: Callable[[Turn], dict[str, Any]]
    shuffle: int | None = None
    """The seed of an order that is not the conversation's."""


@dataclass
class Result:
    """The scores of one configuration, and what its recalls took."""

    scores: list[Score] = field(default_factory=list)
    nanoseconds: list[int] = field(default_factory=list)

    def mean(self, measure: Callable[[Score], float], category: str | None = None) -> float:
        """Return the mean over the questions of a category, or over all, in percent."""
        chosen = [measure(score) for score in self.scores if category in (None, score.category)]
        return 100 * statistics.mean(chosen) if chosen else math.nan

    @property
    def at_10(self) -> float:
        """R@10 over all questions."""
        return self.mean(lambda score: score.at_10)

    @property
    def ndcg(self) -> float:
        """NDCG@10 over all questions."""
        return self.mean(lambda score: score.ndcg)


def everything(turn: Turn) -> dict[str, Any]:
    """Return the metadata that a chat has of a turn: who, in which session, when."""
    given = {"speaker": turn.speaker, "session": turn.session}
    return given if turn.time is None else {**given, "time": turn.time}


def nothing(turn: Turn) -> dict[str, Any]:
    """Return no metadata."""
    return {}


def apart(turn: Turn) -> dict[str, Any]:
    """Return a session for each turn alone, so that none has neighbours."""
    return {"session": turn.reference}


FULL = Condition("full metadata", everything)
PLAIN = Condition("no metadata", nothing)
APART = Condition("no metadata, no context", apart)

Run = program.Run[Counts]


def measure_full(run: Run) -> list[Line]:
    """Score the default embedder with all the metadata a chat has."""
    found = evaluate(run, FULL)
    return [
        _points_line("R@10, full metadata", found.at_10, 85),
        _points_line("NDCG@10, full metadata", found.ndcg, 69),
    ]


def measure_plain(run: Run) -> list[Line]:
    """Score the same with texts alone, in their order."""
    return [_points_line("R@10, no metadata", evaluate(run, PLAIN).at_10, 80)]


def measure_shuffled(run: Run) -> list[Line]:
    """Score texts alone in no order, beside texts that have no neighbours at all."""
    alone = evaluate(run, APART).at_10
    seeds = range(run.counts.shuffles)
    shuffled = statistics.mean(
        evaluate(run, Condition(f"no metadata, shuffled ({seed})", nothing, seed)).at_10 for seed in seeds
    )
    lost = round(alone - shuffled, 2)
    return [
        Line(
            f"R@10 lost by shuffling, mean of {len(seeds)} orders",
            f"{shuffled:.1f}",
            f"{alone:.1f} without context",
            f"{lost:+.1f}",
            lost,
            LOST_AT_MOST,
            "at most",
            f"≤ {LOST_AT_MOST:g}",
        )
    ]


def measure_modes(run: Run) -> list[Line]:
    """Score the two sides of the ranking by themselves; there is no target."""
    for mode in ("semantic", "keyword"):
        evaluate(run, FULL, mode=mode)
    return []


def measure_onnx(run: Run) -> list[Line]:
    """Score an embedder from a folder beside the default, where one was given; there is no target."""
    if run.arguments.onnx is None:
        run.console.print("LEFT OUT: no folder with an ONNX embedder was given (--onnx FOLDER)", highlight=False)
        return []
    for condition in (FULL, PLAIN):
        evaluate(run, condition, embedder=f"onnx:{run.arguments.onnx}")
    evaluate(run, FULL, embedder=f"onnx:{run.arguments.onnx}", mode="semantic")
    return []


def measure_more(run: Run) -> list[Line]:
    """Score sets of other kinds in several orders and all modes, beside BM25."""
    if run.arguments.more is None:
        run.console.print("LEFT OUT: no folder with other sets was given (--more FOLDER)", highlight=False)
        return []
    conversations = read_conversations(run.arguments.data)[: run.counts.conversations]
    columns = ("R@5", "R@10", "NDCG@10", "MRR", "p50")
    table = Table("", "", *columns, title="Sets of other kinds, and orders that say nothing")
    run.tables.append(table)
    lines: list[Line] = []
    for one in more.conditions(more.read_collections(run.arguments.more), more.as_collection(conversations)):
        peer = _bm25_of(one)
        ours = {mode: _recalled(one, mode) for mode in ("hybrid", "keyword", "semantic")}
        for mode, (found, times) in {"BM25": (peer, None), **ours}.items():
            measured = dict(zip(columns, _means(found), strict=False))
            shown = [f"{value:.1f}" for value in measured.values()]
            p50 = None if times is None else Times(tuple(times), len(times)).p50 / 1000
            table.add_row(one.name if mode == "BM25" else "", mode, *shown, "" if p50 is None else f"{p50:.2f} ms")
            run.figures.setdefault("more", {}).setdefault(one.name, {})[mode] = {**measured, "p50_ms": p50}
        table.add_section()
        reached, below = _means(ours["hybrid"][0])[2], _means(peer)[2]
        name = f"NDCG@10, {one.name}"
        least = f"≥ {below - BELOW_BM25_AT_MOST:.1f}"
        lines.append(
            Line(
                name,
                f"{reached:.1f}",
                f"BM25 {below:.1f}",
                f"{reached - below:+.1f}",
                reached,
                below - BELOW_BM25_AT_MOST,
                "at least",
                least,
            )
        )
    return lines


def _means(found: Sequence[more.Found]) -> list[float]:
    """Return the means of all measures, in percent."""
    return [
        100 * statistics.mean(getattr(one, measure) for one in found)
        for measure in ("at_5", "at_10", "ndcg", "reciprocal")
    ]


def _bm25_of(collection: more.Collection) -> list[more.Found]:
    """Return how well BM25 does with its best parameters."""
    indexes = [more.BM25(space.texts) for space in collection.spaces]
    every = [
        [
            more.judge(asked.gold, index.search(asked.text, LIMIT, k1, b))
            for index, space in zip(indexes, collection.spaces, strict=True)
            for asked in space.asked
        ]
        for k1, b in more.PARAMETERS
    ]
    return max(every, key=lambda found: _means(found)[2])


def _recalled(collection: more.Collection, mode: Literal["hybrid", "keyword", "semantic"]) -> _Recalled:
    """Return how well recall does, and the nanoseconds that each took."""
    found: list[more.Found] = []
    nanoseconds: list[int] = []
    with memoranda.open(":memory:") as memory:
        scope = memory.scope(user="bench")
        for number, space in enumerate(collection.spaces):
            ids: dict[str, list[str]] = {}
            namespace = str(number)
            for start in range(0, len(space.texts), CHUNK):
                part = space.texts[start : start + CHUNK]
                items = [{"content": text.text, "metadata": text.metadata} for text in part]
                kept = scope.remember_many(items, collection=COLLECTION, namespace=namespace)
                for text, one in zip(part, kept, strict=True):
                    ids.setdefault(one.id, []).append(text.id)
            for asked in space.asked:
                start = time.perf_counter_ns()
                matches = scope.recall(
                    asked.text, collection=COLLECTION, namespace=namespace, limit=LIMIT, mode=mode
                ).results
                nanoseconds.append(time.perf_counter_ns() - start)
                found.append(more.judge(asked.gold, [id for match in matches for id in ids[match.id]]))
    return found, nanoseconds


_Recalled = tuple[list[more.Found], list[int]]


MEASUREMENTS: dict[str, Callable[[Run], list[Line]]] = {
    "full": measure_full,
    "plain": measure_plain,
    "shuffled": measure_shuffled,
    "modes": measure_modes,
    "onnx": measure_onnx,
    "more": measure_more,
}


def evaluate(run: Run, condition: Condition, *, embedder: str = "wordllama", mode: str = "hybrid") -> Result:
    """Remember every conversation under a condition and recall every question; add a row to the table."""
    result = Result()
    with memoranda.open(":memory:", embedder=embedder) as memory:
        scope = memory.scope(user="bench")
        for conversation in read_conversations(run.arguments.data)[: run.counts.conversations]:
            references = _remember(scope, conversation, condition)
            for question in conversation.questions:
                start = time.perf_counter_ns()
                found = scope.recall(
                    question.text, collection=COLLECTION, namespace=conversation.name, limit=LIMIT, mode=mode
                )
                result.nanoseconds.append(time.perf_counter_ns() - start)
                ranked = [reference for match in found.results for reference in references[match.id]]
                result.scores.append(score(question.category, question.evidence, ranked))
    name = condition.name if embedder == "wordllama" else f"{condition.name}, {embedder.partition(':')[0]}"
    add_row(run, name if mode == "hybrid" else f"{name}, {mode}", result)
    return result


def score(category: str, evidence: frozenset[str], ranked: Sequence[str]) -> Score:
    """Return how well a ranking finds the evidence."""
    places = [place for place, reference in enumerate(dict.fromkeys(ranked)) if reference in evidence]
    ideal = _discounted(range(min(10, len(evidence))))
    return Score(
        category,
        at_5=sum(place < 5 for place in places) / len(evidence),
        at_10=sum(place < 10 for place in places) / len(evidence),
        ndcg=_discounted(place for place in places if place < 10) / ideal,
    )


def _discounted(places: Iterable[int]) -> float:
    return sum(1 / math.log2(place + 2) for place in places)


def _remember(scope: memoranda.ScopedMemory, conversation: Conversation, condition: Condition) -> dict[str, list[str]]:
    """Store the turns in the namespace of their conversation; return the turns that each entry represents."""
    turns = list(conversation.turns)
    if condition.shuffle is not None:
        random.Random(condition.shuffle).shuffle(turns)
    references: dict[str, list[str]] = {}
    for start in range(0, len(turns), CHUNK):
        part = turns[start : start + CHUNK]
        items = [{"content": turn.text, "metadata": condition.metadata(turn)} for turn in part]
        kept = scope.remember_many(items, collection=COLLECTION, namespace=conversation.name)
        for turn, one in zip(part, kept, strict=True):
            # A turn that says what another one said, with the same metadata, is stored once and represents both.
            references.setdefault(one.id, []).append(turn.reference)
    return references


def _points_line(what: str, value: float, target: float) -> Line:
    return Line(what, f"{value:.1f}", "–", f"{value:.1f}", value, target, "at least", f"≥ {target:g}")


def add_row(run: Run, name: str, result: Result) -> None:
    """Add one configuration to the table, which is made with the first."""
    categories = list(CATEGORIES.values())
    if "quality" not in run.figures:
        title = f"{len(result.scores):,} questions; R@10 by category; a recall's p50"
        run.tables.append(Table("", "R@5", "R@10", "NDCG@10", *categories, "p50", title=title))
    measured = {
        "R@5": result.mean(lambda score: score.at_5),
        "R@10": result.at_10,
        "NDCG@10": result.ndcg,
        **{category: result.mean(lambda score: score.at_10, category) for category in categories},
    }
    times = Times(tuple(result.nanoseconds), len(result.nanoseconds))
    shown = [f"{value:.1f}" for value in measured.values()]
    run.tables[0].add_row(name, *shown, f"{times.p50 / 1000:.2f} ms")
    run.figures.setdefault("quality", {})[name] = {**measured, "p50_ms": times.p50 / 1000}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, nargs="?", metavar="DATA", help=f"a JSON file of LoCoMo's format: {SOURCE}")
    parser.add_argument("--onnx", type=Path, metavar="FOLDER", help="a sentence-transformers model as ONNX")
    parser.add_argument("--more", type=Path, metavar="FOLDER", help="sets of other kinds")


def _check_arguments(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.data is None or not arguments.data.is_file():
        missing = "no data were named" if arguments.data is None else f"{arguments.data} is not there"
        parser.error(f"{missing}; they are not ours to ship: get a file from {SOURCE}, then DATA=path")
    if arguments.onnx is not None and not arguments.onnx.is_dir():
        parser.error(f"{arguments.onnx} is not a folder; give one with model.onnx and tokenizer.json")
    if arguments.more is not None and not any(arguments.more.glob("*.json")):
        parser.error(f"{arguments.more} has no sets; give a folder with JSON files as bench/more.py says")


PROGRAM = Program(
    title="How well recall finds",
    purpose=__doc__ or "",
    measurements=MEASUREMENTS,
    full=Counts(),
    quick=Counts(conversations=1, shuffles=1),
    add_arguments=_add_arguments,
    check_arguments=_check_arguments,
)


if __name__ == "__main__":
    run_program(PROGRAM)
