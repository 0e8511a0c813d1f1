"""Memoranda's facts beside their peers, in one run on one machine: a table of targets, met or missed.

    make bench-facts                        all of it; three minutes on a calm machine, most for the million facts
    make bench-facts ARGS="--quick"         smaller counts, 100,000 facts instead of a million
    make bench-facts ARGS="--only set,get --json out.json --plot out.svg --dir /mnt/disk"

The exit code is 0 whether targets are met or missed: a figure is to be read, not to stop a build.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import million
import program
import races
from contenders import (
    AS_SHIPPED,
    BARE,
    OURS,
    PEER,
    Contender,
    make_workload,
    open_bare,
    open_ours,
    open_peer,
    unequal,
)
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from measuring import Times, run_in_threads, take_turns
from program import Program, run_program
from report import Line, compare, ratio_line


@dataclass(frozen=True)
class Counts:
    """How much of everything is measured."""

    set_rounds: int = 80
    set_per_round: int = 25
    warm_up: int = 1_500
    """Writes before any is timed: the log of each database has reached its full size by then."""
    thread_rounds: int = 10
    thread_writes: int = 800
    get_rounds: int = 100
    get_per_round: int = 100
    facts: int = 1_000_000
    gets: int = 20_000
    sets: int = 2_000


QUICK = Counts(set_rounds=20, warm_up=1_000, thread_rounds=3, thread_writes=400, get_rounds=20, facts=100_000)
FEW = 1_000
MOST_OF_A_CONTROL = 1.25
"""What a contender that cannot gain from threads may seem to gain before the measurement is void."""


Run = program.Run[Counts]


def check_durability(run: Run, contenders: dict[str, Contender]) -> None:
    """Keep the settings that the contenders report; stop where they are not equally durable."""
    run.settings.update((name, one.settings) for name, one in contenders.items())
    if faults := unequal(contenders):
        sys.exit("error: not equally durable, so nothing can be compared: " + "; ".join(faults))


def measure_sets(run: Run) -> list[Line]:
    """Time durable writes of ours, of the peer (tuned, and as it ships), and of a bare commit, in turns."""
    counts = run.counts
    writes = make_workload(counts.warm_up + counts.set_rounds * counts.set_per_round)
    with ExitStack() as stack:
        folder = run.make_folder("set")
        contenders = {
            OURS: stack.enter_context(open_ours(folder)),
            PEER: stack.enter_context(open_peer(folder)),
            BARE: stack.enter_context(open_bare(folder)),
            AS_SHIPPED: stack.enter_context(open_peer(folder, as_shipped=True)),
        }
        check_durability(run, contenders)
        times = take_turns(
            {name: _writer(one, writes) for name, one in contenders.items()},
            rounds=counts.set_rounds,
            per_round=counts.set_per_round,
            warm_up=counts.warm_up,
        )
    return [
        compare(
            "set, durable, vs SqliteStore.put as it ships (*)", times[OURS], times[AS_SHIPPED], target=2, faster=True
        ),
        compare("set, durable, vs a bare commit", times[OURS], times[BARE], target=2, faster=False),
        compare("set, durable, vs SqliteStore.put (WAL)", times[OURS], times[PEER], target=2, faster=True),
        compare("the most there is to gain: a bare commit vs put (WAL)", times[BARE], times[PEER], faster=True),
    ]


def measure_threads(run: Run) -> list[Line]:
    """Compare the writes per second of eight threads with those of one, for ours and for the peer."""
    counts = run.counts
    total = counts.warm_up + 2 * counts.thread_rounds * counts.thread_writes
    writes = make_workload(total)
    rates: dict[tuple[str, int], list[float]] = {}
    with ExitStack() as stack:
        folder = run.make_folder("threads")
        contenders = {
            OURS: stack.enter_context(open_ours(folder)),
            PEER: stack.enter_context(open_peer(folder)),
        }
        check_durability(run, contenders)
        for one in contenders.values():
            run_in_threads(_writer(one, writes), threads=1, turns=range(counts.warm_up))
        start = counts.warm_up
        for _ in range(counts.thread_rounds):
            for threads in (1, races.THREADS):
                turns = range(start, start + counts.thread_writes)
                start = turns.stop
                for name, one in contenders.items():
                    seconds = run_in_threads(_writer(one, writes), threads=threads, turns=turns)
                    rates.setdefault((name, threads), []).append(counts.thread_writes / seconds)
    control = _compare_rates("8 threads writing vs 1: SqliteStore (control)", rates, PEER)
    ours = _compare_rates("8 threads writing vs 1", rates, OURS, target=2)
    return [_void_if_moved(ours, control), control]


def measure_gets(run: Run) -> list[Line]:
    """Time reads of facts that are there, of ours and of the peer, in turns."""
    counts = run.counts
    writes = make_workload(2 * FEW)
    with ExitStack() as stack:
        folder = run.make_folder("get")
        contenders = {
            OURS: stack.enter_context(open_ours(folder)),
            PEER: stack.enter_context(open_peer(folder)),
        }
        check_durability(run, contenders)
        for one in contenders.values():
            for write in writes:
                one.write(write)
        times = take_turns(
            {name: _reader(one, writes) for name, one in contenders.items()},
            rounds=counts.get_rounds,
            per_round=counts.get_per_round,
            warm_up=2 * FEW,
        )
    return [compare("get vs SqliteStore.get", times[OURS], times[PEER], target=1.5, faster=True)]


def measure_races(run: Run) -> list[Line]:
    """Count what is kept of 200 read–pause–writes of one fact, in threads and in processes."""
    folder = run.make_folder("race")
    in_threads = races.race_ours_in_threads(str(folder / "race_threads.db"))
    in_processes = races.race_ours_in_processes(str(folder / "race_processes.db"))
    in_memory = races.race_peer(InMemoryStore())
    with SqliteStore.from_conn_string(str(folder / "peer.db")) as store:
        store.conn.execute("PRAGMA journal_mode = WAL")
        store.setup()
        in_sqlite = races.race_peer(store)
    peers = f"SqliteStore {in_sqlite}, InMemoryStore {in_memory}"
    return [
        races.kept_line(f"updates kept, {races.THREADS} threads × {races.PER_THREAD}", in_threads, peers),
        races.kept_line(f"updates kept, {races.PROCESSES} processes × {races.PER_PROCESS}", in_processes, "–"),
    ]


def measure_million(run: Run) -> list[Line]:
    """Compare gets, sets and memory on many facts with those on a thousand, in two processes that take turns."""
    counts = run.counts
    folder = run.make_folder("million")
    sizes = {FEW: folder / "few.db", counts.facts: folder / "many.db"}
    for facts, path in sizes.items():
        million.build(path, facts)
    used = million.use_in_turns(sizes, gets=counts.gets, sets=counts.sets)
    few, many = used[FEW], used[counts.facts]
    return [
        _compare_sizes("get", many.gets, few.gets, million.GETS_IN_A_TURN, counts, target=1.5),
        _memory_line(many, few, counts),
        _compare_sizes("set", many.sets, few.sets, million.SETS_IN_A_TURN, counts),
    ]


MEASUREMENTS: dict[str, Callable[[Run], list[Line]]] = {
    "set": measure_sets,
    "threads": measure_threads,
    "get": measure_gets,
    "race": measure_races,
    "million": measure_million,
}


def _writer(contender: Contender, writes: list[Any]) -> Callable[[int], object]:
    return lambda turn: contender.write(writes[turn])


def _reader(contender: Contender, writes: list[Any]) -> Callable[[int], object]:
    # A prime step walks through all the writes, never in the order in which they were made.
    return lambda turn: contender.read(writes[turn * 7919 % len(writes)])


def _compare_rates(
    what: str, rates: dict[tuple[str, int], list[float]], name: str, *, target: float | None = None
) -> Line:
    many, one = (sorted(rates[name, threads]) for threads in (races.THREADS, 1))
    middle = len(many) // 2
    text = f"{many[middle]:,.0f}/s", f"1 thread: {one[middle]:,.0f}/s"
    return ratio_line(
        what,
        *text,
        many[middle] / one[middle],
        target=target,
        sense="at least",
        writes_per_second={"8 threads": many, "1 thread": one},
    )


def _void_if_moved(line: Line, control: Line) -> Line:
    """Return the line, void where the control gained: one lock and one sync per put cannot gain from threads."""
    if control.value <= MOST_OF_A_CONTROL:
        return line
    reason = f"SqliteStore, which cannot gain from threads, shows {control.figure}; run again on a calm machine"
    return replace(line, void=reason)


def _compare_sizes(
    verb: str, many: list[int], few: list[int], per_round: int, counts: Counts, *, target: float | None = None
) -> Line:
    what = f"{verb} among {counts.facts:,} facts vs {FEW:,}"
    return compare(what, Times(tuple(many), per_round), Times(tuple(few), per_round), target=target, faster=False)


def _memory_line(many: million.Usage, few: million.Usage, counts: Counts) -> Line:
    more = many.rss_used - few.rss_used
    return Line(
        f"memory after use, {counts.facts:,} facts vs {FEW:,}",
        f"{many.rss_used:.1f} MB",
        f"{few.rss_used:.1f} MB",
        f"{more:+.1f} MB",
        more,
        64,
        "at most",
        "≤ +64 MB",
        {"growth since opening": {"many": many.rss_used - many.rss_opened, "few": few.rss_used - few.rss_opened}},
    )


PROGRAM = Program(
    title="Memoranda facts beside their peers",
    purpose=__doc__ or "",
    measurements=MEASUREMENTS,
    full=Counts(),
    quick=QUICK,
    peers=("langgraph-checkpoint", "langgraph-checkpoint-sqlite"),
    durability="every write synced before it returns: WAL and synchronous=FULL for all but (*)",
    footnotes={AS_SHIPPED: "(*) as from_conn_string opens it: as durable, but not at its best"},
)


if __name__ == "__main__":
    run_program(PROGRAM)
