"""Memoranda's semantic memory beside its peers, in one run on one machine: a table of targets, met or missed.

    make bench-recall                         all of it; half an hour, most of it for the million entries
    make bench-recall ARGS="--quick"          smaller counts: 10,000 entries and 50,000 in 50 namespaces
    make bench-recall ARGS="--only peers,start --json out.json --plot out.svg --curve curve.svg --dir /mnt/disk"

The exit code is 0 whether targets are met or missed: a figure is to be read, not to stop a build.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import fresh
import growth
import ingest
import namespaces
import program
import stores
from corpus import USERS, Note, make_notes
from growth import Sizes
from measuring import Operation, Times, take_turns
from program import Program, run_program
from report import Line, compare, draw_curves, show_times
from rich.table import Table

ENTRIES = sum(USERS.values())
MOST_OF_A_CONTROL = 1.5
"""How much longer than in parts a product may take in one piece before it is void."""
FASTER = 1.5
"""How many times faster than the fastest peer a bulk add has to be that does the same work."""
QUESTIONS = 60
"""How many are asked, again and again; each once before anything is timed."""


ALL_SIZES = Sizes(sizes=(1_000, 3_000, 10_000, 30_000, 100_000, 300_000), judged=100_000)


@dataclass(frozen=True)
class Counts:
    """How much of everything is measured."""

    bulk_rounds: int = 7
    ingest_rounds: int = 7
    search_rounds: int = 20
    search_per_round: int = 15
    add_rounds: int = 20
    add_per_round: int = 10
    warm_up: int = 30
    sizes: Sizes = ALL_SIZES
    namespaces: int = 1_000
    imports: int = 11


QUICK = Counts(
    bulk_rounds=3,
    ingest_rounds=3,
    search_rounds=5,
    add_rounds=5,
    sizes=Sizes(sizes=(1_000, 3_000, 10_000), judged=10_000, rounds=5, starts=3),
    namespaces=50,
    imports=5,
)

Run = program.Run[Counts]


def measure_peers(run: Run) -> list[Line]:
    """Time bulk adds, searches, single adds and both in turn, of ours and of every peer that can be had."""
    counts = run.counts
    base = make_notes(range(ENTRIES))
    more = make_notes(range(ENTRIES, ENTRIES + 2 * (counts.warm_up + counts.add_rounds * counts.add_per_round)))
    vectors = stores.Vectors([text for note in base + more for text in (note.text, note.question)])
    openings = _installed(run, vectors)
    with ExitStack() as stack:
        opened, bulk = _fill_in_turns(run, stack, openings, vectors, base)
        shown = ("journal_mode", "synchronous", stores.SYNCS, stores.BULK)
        for name, store in opened.items():
            run.settings[name] = {one: store.settings[one] for one in shown if one in store.settings}
        searches = take_turns(
            _searchers(opened, base),
            rounds=counts.search_rounds,
            per_round=counts.search_per_round,
            warm_up=QUESTIONS,
        )
        found = _agreement(opened, base)
        single, both = more[: len(more) // 2], more[len(more) // 2 :]
        adding = {"rounds": counts.add_rounds, "per_round": counts.add_per_round, "warm_up": counts.warm_up}
        adds = take_turns({name: _adder(store, single) for name, store in opened.items()}, **adding)
        mixed = take_turns({name: _adder_and_searcher(store, both) for name, store in opened.items()}, **adding)
    run.tables.append(_table_of_peers(adds, bulk, searches, mixed, found))
    run.figures["peers"] = {
        verb: {name: {"p50": one.p50, "p95": one.p95} for name, one in times.items()}
        for verb, times in {"add": adds, "bulk": bulk, "search": searches, "add then search": mixed}.items()
    }
    return [*_search_lines(searches), *_add_lines(adds, bulk)]


def measure_ingest(run: Run) -> list[Line]:
    """Time bulk adds into stores that keep vectors and a full-text index, and have synced both."""
    openings: dict[str, ingest.Opening] = {}
    for number, (name, opening) in enumerate(ingest.CONTENDERS.items()):
        try:
            with opening(run.make_folder(f"try-ingest-{number}"), stores.Vectors(["a text"])):
                openings[name] = opening
        except ImportError as missing:
            run.console.print(f"LEFT OUT: {name} is not installed ({missing})", highlight=False)
    base = run.make_folder("ingest")

    def folder(name: str) -> Path:
        made = base / name
        made.mkdir()
        return made

    found = ingest.ingest(openings, folder, run.counts.ingest_rounds)
    shown = ("journal_mode", "synchronous", ingest.SYNCED, stores.BULK)
    for name, settings in found.settings.items():
        run.settings[f"{name} (equal work)"] = {one: settings[one] for one in shown if one in settings}
    run.tables.append(_table_of_ingest(found))
    run.figures["ingest"] = {
        verb: {name: {"p50": one.p50, "p95": one.p95} for name, one in times.items()}
        for verb, times in {"add": found.adds, "add and first answers": found.answered}.items()
    }
    return _ingest_lines(found)


def measure_start(run: Run) -> list[Line]:
    """Time the import of the package, in processes that do nothing else."""
    milliseconds = statistics.median(fresh.time_import() for _ in range(run.counts.imports))
    return [_most_line("import memoranda", milliseconds, 150, "ms")]


def measure_growth(run: Run) -> list[Line]:
    """Time searches in one namespace that grows; at 100,000 entries, hold them against numpy and the exact answer."""
    sizes = run.counts.sizes
    grown = growth.grow(run.make_folder("growth") / "memory.db", sizes)
    judged = grown.judged
    run.tables.append(_table_of_growth(grown))
    run.figures["growth"] = {verb: dict(points) for verb, points in grown.curves().items()}
    if run.arguments.curve:
        curves = grown.curves()
        title = "Median milliseconds by the number of entries in one namespace"
        run.arguments.curve.write_text(draw_curves(title, curves, across="entries", up="ms"))
    size = f"{sizes.judged:,} entries"
    times = judged.times
    hybrid, product = times["hybrid"], times[growth.PRODUCT]
    starts = judged.starts
    first = statistics.median(one.opening + one.first for one in starts)
    loading = statistics.median(one.embedder for one in starts)
    return [
        _void_if_waiting(times, compare(f"{size}: hybrid vs a numpy product", hybrid, product, faster=False, target=3)),
        compare(f"{size}: hybrid, 5% filter vs none", times[growth.FILTERED], hybrid, faster=False, target=1),
        _share_line(f"{size}: semantic, recall@10 vs exact", judged.recall),
        _share_line(f"{size}: semantic, 5% filter, recall@10 vs exact", judged.recall_filtered),
        _most_line(f"{size}: open and first recall (embedder {loading:.0f} ms more)", first, 1_000, "ms"),
    ]


def measure_namespaces(run: Run) -> list[Line]:
    """Compare recalls in one of a thousand namespaces with those in a database of one, and bound the memory."""
    used = namespaces.use(run.make_folder("namespaces"), run.counts.namespaces)
    many, one, tight = used.many, used.one, used.bounded
    what = f"{run.counts.namespaces * namespaces.PER_NAMESPACE:,} entries in {run.counts.namespaces:,} namespaces"
    rest = "the first recall in a namespace, which reads it"
    run.figures["namespaces"] = {"built_in_seconds": used.seconds, "rss": {"many": many.rss, "one": one.rss}}
    return [
        compare(f"{what}: hybrid vs {namespaces.PER_NAMESPACE:,} alone", many.times, one.times, faster=False, target=2),
        Line(f"{rest}: p50", show_times(many.first), show_times(one.first), "–"),
        Line(
            f"memory, {many.touched} namespaces used",
            f"{many.rss:.0f} MB",
            f"{one.rss:.0f} MB for 1",
            f"+{many.rss - many.rss_opened:.0f} MB",
        ),
        Line(
            f"memory, the same with Limits(index_bytes={namespaces.BOUND >> 20} MB)",
            f"{tight.rss:.0f} MB",
            show_times(tight.times),
            f"+{tight.rss - tight.rss_opened:.0f} MB",
            tight.rss - tight.rss_opened,
            (namespaces.BOUND >> 20) + namespaces.SLACK,
            "at most",
            f"≤ +{(namespaces.BOUND >> 20) + namespaces.SLACK} MB",
        ),
    ]


MEASUREMENTS: dict[str, Callable[[Run], list[Line]]] = {
    "start": measure_start,
    "peers": measure_peers,
    "ingest": measure_ingest,
    "growth": measure_growth,
    "namespaces": measure_namespaces,
}


def _installed(run: Run, vectors: stores.Vectors) -> dict[str, stores.Opening]:
    """Return the contenders that can be opened here; the others are named and left out."""
    found: dict[str, stores.Opening] = {stores.OURS: stores.open_ours, stores.NUMPY: stores.open_numpy}
    for number, (name, opening) in enumerate(stores.PEERS.items()):
        try:
            with opening(run.make_folder(f"try-{number}"), vectors):
                found[name] = opening
        except ImportError as missing:
            run.console.print(f"LEFT OUT: {name} is not installed ({missing})", highlight=False)
    return found


def _fill_in_turns(
    run: Run, stack: ExitStack, openings: Mapping[str, stores.Opening], vectors: stores.Vectors, notes: Sequence[Note]
) -> tuple[dict[str, stores.Store], dict[str, Times]]:
    """Fill a new store of each contender in every round; return those of the last round, and what each took."""
    names = list(openings)
    taken: dict[str, list[int]] = {name: [] for name in names}
    rounds = run.counts.bulk_rounds
    opened: dict[str, stores.Store] = {}
    for number in range(rounds):
        first = number % len(names)
        with ExitStack() as this_round:
            for name in names[first:] + names[:first]:
                folder = run.make_folder(f"{name.partition(' ')[0]}-{names.index(name)}-{number}")
                opened[name] = this_round.enter_context(openings[name](folder, vectors))
                start = time.perf_counter_ns()
                opened[name].add_many(notes)
                taken[name].append(time.perf_counter_ns() - start)
            if number == rounds - 1:
                stack.push(this_round.pop_all())
    return {name: opened[name] for name in names}, {name: Times(tuple(one), 1) for name, one in taken.items()}


def _searchers(opened: Mapping[str, stores.Store], notes: Sequence[Note]) -> dict[str, Operation]:
    """Return the searches that are timed: one for each contender, and a hybrid one for ours."""
    searches: dict[str, Operation] = {}
    for name, store in opened.items():
        searches[name] = _searcher(store.search, notes)
        if store.search_hybrid:
            searches[HYBRID] = _searcher(store.search_hybrid, notes)
    return searches


def _searcher(search: Callable[[str, str], list[str]], notes: Sequence[Note]) -> Operation:
    def once(turn: int) -> object:
        note = notes[turn % QUESTIONS]
        return search(note.user, note.question)

    return once


def _adder(store: stores.Store, notes: Sequence[Note]) -> Operation:
    return lambda turn: store.add(notes[turn])


def _adder_and_searcher(store: stores.Store, notes: Sequence[Note]) -> Operation:
    def once(turn: int) -> object:
        note = notes[turn]
        store.add(note)
        return store.search(note.user, note.question)

    return once


def _agreement(opened: Mapping[str, stores.Store], notes: Sequence[Note]) -> dict[str, float]:
    """Return the share of the notes nearest to the vector it asked with that each contender finds."""
    exact = opened[stores.NUMPY]
    found: dict[str, list[float]] = {name: [] for name in opened}
    for note in notes[:QUESTIONS]:
        for name, store in opened.items():
            texts = store.search(note.user, note.question)
            nearest = (
                exact.nearest_to(note.user, store.asked_with())
                if store.asked_with
                else exact.search(note.user, note.question)
            )
            found[name].append(len(set(texts) & set(nearest)) / len(nearest))
    return {name: statistics.mean(shares) for name, shares in found.items()}


def _search_lines(times: Mapping[str, Times]) -> list[Line]:
    shipped = {name: times[name] for name in stores.PEERS if name in times and name != stores.SQLITE}
    fastest = min(shipped, key=lambda name: shipped[name].p50)
    rivals = {f"the fastest peer as it ships, {fastest}": shipped[fastest]}
    if stores.SQLITE in times:
        rivals[stores.SQLITE] = times[stores.SQLITE]
    return [
        compare(f"{mode} search vs {name}", ours, rival, faster=True, target=target)
        for mode, ours, target in (("semantic", times[stores.OURS], 5), ("hybrid", times[HYBRID], 3))
        for name, rival in rivals.items()
    ]


def _add_lines(adds: Mapping[str, Times], bulk: Mapping[str, Times]) -> list[Line]:
    """Return the lines of adds into stores that index no words: to be read, without a target."""
    ours = adds[stores.OURS]
    durable = [name for name in stores.PEERS if name in adds and name not in (stores.SQLITE, stores.LANCE)]
    fastest = min(durable, key=lambda name: adds[name].p50)
    what = f"single add vs the fastest durable peer as it ships, {fastest}"
    lines = [compare(what, ours, adds[fastest], faster=True)]
    if stores.SQLITE in adds:
        lines.append(compare(f"single add vs {stores.SQLITE}", ours, adds[stores.SQLITE], faster=True))
    for name in stores.PEERS:
        if name in bulk:
            what = f"bulk add of {ENTRIES:,} vs {name}"
            lines.append(compare(what, bulk[stores.OURS], bulk[name], faster=True))
    return lines


def _ingest_lines(found: ingest.Ingested) -> list[Line]:
    """Return the lines of bulk adds at equal work: the fastest peer is held against the target."""
    lines: list[Line] = []
    what = f"bulk add of {ENTRIES:,} at equal work"
    for verb, times in ((what, found.adds), (f"{what}, and the first answers", found.answered)):
        peers = [name for name in times if name not in (ingest.OURS, ingest.OURS_EMBEDDING)]
        fastest = min(peers, key=lambda name: times[name].p50)
        for name in sorted(peers, key=lambda name: times[name].p50):
            target, note = (FASTER, ", the fastest") if name == fastest else (None, "")
            line = f"{verb} vs {name}{note}"
            lines.append(compare(line, times[ingest.OURS], times[name], faster=True, target=target))
    embedding = found.adds[ingest.OURS_EMBEDDING]
    lines.append(Line(f"{what}, and every text embedded", show_times(embedding), "–", f"{embedding.p50 / 1000:.0f} ms"))
    return lines


def _void_if_waiting(times: Mapping[str, Times], line: Line) -> Line:
    """Return the line, void where a product took longer in one piece than in parts: its threads waited."""
    whole, parts = times[growth.PRODUCT], times[growth.IN_PARTS]
    if whole.p50 <= MOST_OF_A_CONTROL * parts.p50:
        return line
    reason = f"the product took {whole.p50 / parts.p50:.1f}× as long in one piece as in parts; the machine was busy"
    return replace(line, void=reason)


def _share_line(what: str, share: float) -> Line:
    return Line(what, f"{share:.4f}", "1", f"{share:.4f}", share, 0.99, "at least", "≥ 0.99")


def _most_line(what: str, value: float, most: float, unit: str) -> Line:
    figure = f"{value:,.0f} {unit}"
    return Line(what, figure, "–", figure, value, most, "at most", f"≤ {most:,.0f} {unit}")


def _table_of_peers(
    adds: Mapping[str, Times],
    bulk: Mapping[str, Times],
    searches: Mapping[str, Times],
    mixed: Mapping[str, Times],
    found: Mapping[str, float],
) -> Table:
    title = f"{ENTRIES:,} entries of {len(USERS)} users, one at a time, ms: p50 (p95)"
    table = Table("", "add", "bulk add", "search, k=10", "add then search", "recall@10", title=title)
    for name in searches:
        shown = [_milliseconds(times.get(name)) for times in (adds, bulk, searches, mixed)]
        table.add_row(name, *shown, f"{found[name]:.3f}" if name in found else "–")
    return table


def _table_of_ingest(found: ingest.Ingested) -> Table:
    title = f"{ENTRIES:,} new entries with vectors and words, synced, ms: p50 (p95)"
    table = Table("", "bulk add", "and first answers", title=title)
    for name in found.adds:
        table.add_row(name, _milliseconds(found.adds[name]), _milliseconds(found.answered[name]))
    return table


def _table_of_growth(grown: growth.Grown) -> Table:
    curves = grown.curves()
    table = Table("entries", *curves, title="One namespace that grows, ms: p50")
    for size in grown.sizes():
        table.add_row(f"{size:,}", *(f"{dict(points)[size]:.2f}" for points in curves.values()))
    return table


def _milliseconds(times: Times | None) -> str:
    return "–" if times is None else f"{times.p50 / 1000:.3f} ({times.p95 / 1000:.3f})"


HYBRID = f"{stores.OURS}, hybrid"

PROGRAM = Program(
    title="Memoranda's semantic memory beside its peers",
    purpose=__doc__ or "",
    measurements=MEASUREMENTS,
    full=Counts(),
    quick=QUICK,
    peers=(
        "langgraph-checkpoint-sqlite",
        "sqlite-vec",
        "pysqlite3",
        "qdrant-client",
        "mem0ai",
        "lancedb",
        "chromadb",
        "numpy",
    ),
    durability="ours: every write synced before it returns (WAL, synchronous=FULL); the peers' below",
    footnotes={
        stores.SQLITE: f"{stores.SQLITE} is set to write ahead, with as large a cache and log as ours; the others "
        "are as they ship",
        stores.LANCE: f"{stores.LANCE} never syncs: a power cut can lose what it has acknowledged",
        stores.CHROMA: "? cannot be asked for; the syncs were counted beforehand with strace, not in this run",
    },
    add_arguments=lambda parser: _add_arguments(parser),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--curve", type=Path, metavar="FILE.svg", help="draw how the times grow with the entries")


if __name__ == "__main__":
    run_program(PROGRAM)
