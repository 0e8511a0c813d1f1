"""Memory as one thing: recall over everything, learning from conversations, contexts, and a flood from one source.

    make bench-memory                                    all of it but the quality, which needs conversations
    make bench-memory DATA=locomo10.json                 all of it
    make bench-memory ARGS="--quick --only learn,flood --json out.json --plot out.svg"

The quality is that of bench-quality, but nothing is remembered by hand: each session of a conversation is given to
`learn`, and questions are asked of everything. What a statement was said in counts as found where the statement is.

The exit code is 0 whether targets are met or missed: a figure is to be read, not to stop a build.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import memory_ground as ground
import program
import quality
from conversations import SOURCE, Conversation, Turn, read_conversations
from corpus import make_notes
from measuring import Operation, Times, take_turns
from program import Program, run_program
from report import Line, compare, show_times, timed_line
from settings import settings_of_ours

import memoranda
from memoranda.model.trust import OriginKind

MOST_OF_ONE = 1.5
"""How much longer a recall over everything may take than one over a collection of the same size."""
LEARN_MS = 25
CONTEXT_MS = 1
"""Milliseconds that a context may take beside its recall."""
PAGE = 24
"""Matches that a context asks for."""
MOST_OF_A_SOURCE = 1 / 3
MOST_IN_A_FLOOD = 3
"""How much longer a context may take in a flood than without one."""
CALM = "without a flood"
LIMIT = 10


@dataclass(frozen=True)
class Counts:
    """How much of everything is measured."""

    items: int = 20_000
    questions: int = 200
    rounds: int = 30
    per_round: int = 20
    writes: int = 10
    """Rounds in which something is remembered before each recall."""
    users: int = 20
    learn_rounds: int = 20
    learn_per_round: int = 10
    flood: int = 1_000
    larger_flood: int = 10_000
    """Near-duplicates whose recalls are looked at."""
    flood_rounds: int = 10
    conversations: int | None = None


QUICK = Counts(
    items=4_000,
    questions=60,
    rounds=8,
    writes=3,
    learn_rounds=5,
    flood=300,
    larger_flood=1_500,
    flood_rounds=3,
    conversations=1,
)

Run = program.Run[Counts]


# --- recall and context --------------------------------------------------------------------------------------------


def measure_everything(run: Run) -> list[Line]:
    """Time recalls over everything beside those over one collection of the same texts, and contexts beside recalls."""
    counts = run.counts
    notes = make_notes(range(counts.items))
    with memoranda.open(run.make_folder("everything") / "memory.db") as memory:
        run.settings["everything, one collection"] = settings_of_ours(memory)
        ada, bob = ground.fill_everything(memory, notes), ground.fill_one(memory, notes)
        step = counts.items // counts.questions
        known = [note.question for note in notes[::step]]
        asked_of: dict[str, Callable[[str], object]] = {
            "everything": ada.recall,
            "one": lambda query: bob.recall(query, collection=ground.ONE),
            "page": lambda query: ada.recall(query, limit=PAGE),
            "context": ada.context,
        }
        again = take_turns(
            {name: _asker(ask, known) for name, ask in asked_of.items()},
            rounds=counts.rounds,
            per_round=counts.per_round,
            warm_up=len(known),
        )
        new = [
            note.question for note in make_notes(range(counts.items, counts.items + counts.rounds * counts.per_round))
        ]
        first = take_turns(
            {name: _asker(ask, new) for name, ask in asked_of.items()},
            rounds=counts.rounds,
            per_round=counts.per_round,
        )
        more = make_notes(range(2 * counts.items, 2 * counts.items + (counts.writes + 1) * counts.per_round))
        written = take_turns(
            {
                "everything": _writer(ada, ground.COLLECTIONS[0], more, known, ada.recall),
                "one": _writer(bob, ground.ONE, more, known, asked_of["one"]),
            },
            rounds=counts.writes,
            per_round=counts.per_round,
            warm_up=counts.per_round,
        )
    what = f"{counts.items:,} items: recall over everything vs one collection"
    run.figures["everything"] = {
        name: {one: {"p50": times.p50, "p95": times.p95} for one, times in of.items()}
        for name, of in {"again": again, "first": first, "written": written}.items()
    }
    return [
        compare(what, again["everything"], again["one"], faster=False, target=MOST_OF_ONE),
        compare(f"{what}, new questions", first["everything"], first["one"], faster=False, target=MOST_OF_ONE),
        compare(f"{what}, after a write each", written["everything"], written["one"], faster=False),
        _added_line(f"a context vs recall(limit={PAGE})", again["context"], again["page"], CONTEXT_MS),
        _added_line(f"a context vs recall(limit={PAGE}), new questions", first["context"], first["page"], CONTEXT_MS),
    ]


def _asker(ask: Callable[[str], object], questions: Sequence[str]) -> Operation:
    return lambda turn: ask(questions[turn % len(questions)])


def _writer(
    scope: memoranda.ScopedMemory,
    collection: str,
    notes: Sequence[Any],
    questions: Sequence[str],
    ask: Callable[[str], object],
) -> Operation:
    def once(turn: int) -> object:
        scope.remember(notes[turn].text, collection=collection, metadata=notes[turn].metadata)
        return ask(questions[turn % len(questions)])

    return once


def _added_line(what: str, ours: Times, peer: Times, most: float) -> Line:
    """Return the line of what ours takes beside its peer, in milliseconds."""
    added = (ours.p50 - peer.p50) / 1000
    text = f"≤ +{most:g} ms"
    return Line(what, show_times(ours), show_times(peer), f"{added:+.2f} ms", added, most, "at most", text)


# --- learning ------------------------------------------------------------------------------------------------------


def measure_learn(run: Run) -> list[Line]:
    """Time learning from twenty messages by rules, beside remembering the same texts."""
    counts = run.counts
    folder = run.make_folder("learn")
    total = (counts.learn_rounds + 1) * counts.learn_per_round
    conversations = [ground.make_conversation(number) for number in range(total)]
    with memoranda.open(folder / "learn.db") as learning, memoranda.open(folder / "remember.db") as remembering:
        run.settings["learn"] = settings_of_ours(learning)
        learners, others = (
            [memory.scope(user=f"user-{number}") for number in range(counts.users)]
            for memory in (learning, remembering)
        )

        def learn(turn: int) -> object:
            return learners[turn % counts.users].learn(conversations[turn], conversation=f"talk-{turn}")

        def remember(turn: int) -> object:
            items = [{"content": message["content"]} for message in conversations[turn]]
            return others[turn % counts.users].remember_many(items)

        rounds = {"rounds": counts.learn_rounds, "per_round": counts.learn_per_round, "warm_up": counts.learn_per_round}
        times = take_turns({"learn": learn, "remember": remember}, **rounds)
        again = take_turns({"learn": learn}, **rounds)["learn"]
        stated = statistics.mean(len(scope.entries(collection="statements")) for scope in learners)
    run.figures["learn"] = {"statements_of_a_user": stated}
    size = len(conversations[0])
    return [
        timed_line(f"learn from {size} messages by rules, durable", times["learn"], LEARN_MS),
        compare(f"learn vs remember_many of the same {size} texts", times["learn"], times["remember"], faster=False),
        timed_line(f"learn from {size} messages that are known", again),
    ]


# --- quality -------------------------------------------------------------------------------------------------------


def measure_quality(run: Run) -> list[Line]:
    """Score recall over what was learned from conversations beside what was remembered by hand."""
    if run.arguments.data is None:
        run.console.print(
            f"LEFT OUT: quality needs conversations, not ours to ship: get a file from {SOURCE}, then DATA=path",
            highlight=False,
        )
        return []
    by_hand = quality.evaluate(run, quality.FULL)
    learned = {"learned, everything": quality.Result(), "learned, messages": quality.Result()}
    with memoranda.open(":memory:") as memory:
        for conversation in read_conversations(run.arguments.data)[: run.counts.conversations]:
            scope = memory.scope(user=conversation.name)
            references = learn_sessions(scope, conversation)
            for question in conversation.questions:
                for kinds, result in zip((None, ["message"]), learned.values(), strict=True):
                    start = time.perf_counter_ns()
                    found = scope.recall(question.text, kinds=kinds, limit=LIMIT)
                    result.nanoseconds.append(time.perf_counter_ns() - start)
                    ranked = [reference for match in found for reference in turns_of(match, references)]
                    result.scores.append(quality.score(question.category, question.evidence, ranked))
    for name, result in learned.items():
        quality.add_row(run, name, result)
    return [
        _points_line(f"R@10, {name}, vs remembered by hand", result.at_10, by_hand.at_10)
        for name, result in learned.items()
    ] + [
        _points_line(f"NDCG@10, {name}, vs remembered by hand", result.ndcg, by_hand.ndcg, held=False)
        for name, result in learned.items()
    ]


def learn_sessions(scope: memoranda.ScopedMemory, conversation: Conversation) -> dict[str, list[str]]:
    """Learn from each session of a conversation; return the turns that each ref of a message is of."""
    references: dict[str, list[str]] = {}
    for session, group in groupby(conversation.turns, key=lambda turn: turn.session):
        turns = list(group)
        learned = scope.learn([_message(turn) for turn in turns], conversation=session)
        for turn, ref in zip(turns, learned.messages, strict=True):
            references.setdefault(ref, []).append(turn.reference)
    return references


def turns_of(match: memoranda.Match, references: dict[str, list[str]]) -> list[str]:
    """Return the turns that a match is of: of a statement, those that it was said in."""
    refs = [match.ref] if match.ref in references else match.metadata.get("said_in", ())
    return [reference for ref in refs for reference in references.get(ref, ())]


def _message(turn: Turn) -> dict[str, Any]:
    said = {"role": "user", "name": turn.speaker, "content": turn.text}
    return said if turn.time is None else {**said, "at": turn.time}


def _points_line(what: str, value: float, peer: float, *, held: bool = True) -> Line:
    value, peer = round(value, 1), round(peer, 1)
    shown = f"{value:.1f}"
    if not held:
        return Line(what, shown, f"{peer:.1f}", f"{value - peer:+.1f}")
    return Line(what, shown, f"{peer:.1f}", shown, value, peer, "at least", f"≥ {peer:.1f}")


# --- a flood -------------------------------------------------------------------------------------------------------


def measure_flood(run: Run) -> list[Line]:
    """Look at contexts of a memory that one source has flooded: its share, and whether the trusted fact is told."""
    count, questions = run.counts.flood, ground.QUESTIONS_OF_FLOOD
    floods = {f"{count:,} of {flood.name}": flood for flood in ground.make_floods(count)}
    notes = make_notes(range(count))
    with ExitStack() as stack:
        scopes = {
            name: ground.fill_flooded(stack.enter_context(memoranda.open(":memory:")), flood, notes)
            for name, flood in {CALM: None, **floods}.items()
        }
        times = take_turns(
            {name: _asker(scope.context, questions) for name, scope in scopes.items()},
            rounds=run.counts.flood_rounds,
            per_round=len(questions),
            warm_up=len(questions),
        )
        contexts = {name: [scope.context(question) for question in questions] for name, scope in scopes.items()}
    calm = _told(contexts[CALM])
    lines = [Line(f"{CALM}: the trusted fact is told", f"{calm} of {len(questions)}", "–", str(calm))]
    for name in floods:
        lines += _flood_lines(name, contexts[name], calm)
        what = f"{name}: a context vs one {CALM}"
        lines.append(compare(what, times[name], times[CALM], faster=False, target=MOST_IN_A_FLOOD))
    return lines + [_line_of_larger_flood(run.counts.larger_flood, origin) for origin in ground.FLOODING]


def _line_of_larger_flood(count: int, origin: OriginKind | None) -> Line:
    """Look at the recalls of a memory that one origin has flooded: whether the trusted fact is among the matches."""
    questions = ground.QUESTIONS_OF_FLOOD
    with memoranda.open(":memory:") as memory:
        scope = ground.fill_flooded(memory, ground.make_floods(count)[0], make_notes(range(200)), origin)
        found = [scope.recall(question, limit=10) for question in questions]
        narrowed = [scope.recall(question, limit=10, kinds=["entry", "fact"]) for question in questions]
    told = sum(any(match.key == ground.TRUSTED_KEY for match in matches) for matches in (*found, *narrowed))
    every = 2 * len(questions)
    what = f"trusted fact in the top k, {count:,} near-duplicates of {origin or 'one source'}"
    return Line(what, f"{told} of {every}", "–", str(told), told, every, "at least", f"all {every}")


def _flood_lines(what: str, contexts: Sequence[memoranda.Context], calm: int) -> list[Line]:
    shares = [_share_of_flood(context) for context in contexts]
    told, worst, every = _told(contexts), max(shares), len(contexts)
    return [
        Line(
            f"{what}: their share of a context, worst of {every}",
            ", ".join(f"{share:.0%}" for share in shares),
            "–",
            f"{worst:.1%}",
            worst,
            MOST_OF_A_SOURCE,
            "at most",
            "≤ 1/3",
        ),
        Line(
            f"{what}: the trusted fact is told",
            f"{told} of {every}",
            f"{calm} of {every}",
            str(told),
            told,
            every,
            "at least",
            f"all {every}",
        ),
    ]


def _share_of_flood(context: memoranda.Context) -> float:
    return sum(item.tokens for item in context.items if item.origin.source == ground.SOURCE) / context.tokens


def _told(contexts: Sequence[memoranda.Context]) -> int:
    """Return how many contexts have the trusted fact."""
    return sum(any(item.ref.endswith(ground.TRUSTED_KEY) for item in context.items) for context in contexts)


MEASUREMENTS: dict[str, Callable[[Run], list[Line]]] = {
    "everything": measure_everything,
    "learn": measure_learn,
    "quality": measure_quality,
    "flood": measure_flood,
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, nargs="?", metavar="DATA", help=f"a JSON file of LoCoMo's format: {SOURCE}")


def _check_arguments(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.data is not None and not arguments.data.is_file():
        parser.error(f"{arguments.data} is not there; get a file from {SOURCE}, then DATA=path")


PROGRAM = Program(
    title="Memory as one thing",
    purpose=__doc__ or "",
    measurements=MEASUREMENTS,
    full=Counts(),
    quick=QUICK,
    durability="every write synced before it returns (WAL, synchronous=FULL); quality and flood in memory",
    add_arguments=_add_arguments,
    check_arguments=_check_arguments,
)


if __name__ == "__main__":
    run_program(PROGRAM)
