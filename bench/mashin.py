"""mashin machines: what a step, a check, a verification and a replay take; a table of targets, met or missed.

    make bench-mashin                         all of it; under a minute on a calm machine
    make bench-mashin ARGS="--quick"          smaller counts
    make bench-mashin ARGS="--only step,check --json out.json --plot out.svg --parts parts.svg"

The exit code is 1 when a target is missed: these are promises of the language, not comparisons.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from pathlib import Path

import program
from long_machine import make_machine
from measuring import Operation, Times, percentile, sample_in_turns, take_turns
from program import Program, run_program
from report import Line, compare, ratio_line, show_progress, show_times
from rich.table import Table
from settings import settings_of_ours
from steps import (
    ASKS,
    ASKS_FOR_TEXT,
    CALLS,
    COMPUTES,
    DECIDES,
    Row,
    asking_row,
    asking_steps,
    held_row,
    parts_of_a_step,
)

import memoranda

IN_MEMORY = ":memory:"
EDGE = 100
"""How many steps at the beginning and at the end of a long run are held against each other."""


@dataclass(frozen=True)
class Counts:
    """How much of everything is measured."""

    rounds: int = 40
    warm_up: int = 5
    asks: int = 100
    between: int = 50
    calls: int = 5
    part_runs: int = 40
    checks: int = 25
    verifications: int = 40
    replays: int = 60
    resumes: int = 40


QUICK = Counts(rounds=8, warm_up=2, part_runs=8, checks=5, verifications=8, replays=10, resumes=8)
STEPS_ON_RECORD = 1_000

Run = program.Run[Counts]


# --- a step -----------------------------------------------------------------------------------------------------


def measure_steps(run: Run) -> list[Line]:
    """Run rows of steps whose effects do nothing, in turns, and time each step."""
    counts = run.counts
    with ExitStack() as stack:
        memory = stack.enter_context(memoranda.open(IN_MEMORY))
        filed = stack.enter_context(memoranda.open(str(run.make_folder("steps") / "memory.db"), durability="full"))
        run.settings["Memoranda, in a file"] = settings_of_ours(filed)
        asking = {
            ASKS.name: asking_row(memory, counts.asks),
            ASKS_FOR_TEXT.name: asking_row(memory, counts.asks, ASKS_FOR_TEXT),
            f"{ASKS.name}; in a file": asking_row(filed, counts.asks),
        }
        between = {COMPUTES: counts.between, DECIDES: counts.between, CALLS: counts.calls}
        mixed = {
            kind.name: asking_row(memory, counts.asks // 5, between=kind, count=count)
            for kind, count in between.items()
        }
        intervals = _run_in_turns({**asking, **mixed}, counts)
        long = asking_row(memory, STEPS_ON_RECORD)
        edges = [long.intervals() for _ in range(max(2, counts.rounds // 8))]
    times = {name: intervals[name] for name in asking}
    for kind, count in between.items():
        times[kind.name] = _without_questions(intervals[kind.name], intervals[ASKS.name], count)
    run.tables.append(_table_of_kinds(times))
    run.figures["steps"] = {
        name: {"p50": one.p50, "p90": percentile(one.samples, 0.9) / 1000, "p95": one.p95}
        for name, one in times.items()
    }
    run.figures["median of each round"] = times[ASKS.name].round_medians
    first, last = (_joined(edges, part) for part in (slice(None, EDGE), slice(-EDGE, None)))
    return [
        _at_most(
            "a step with its permission, record and expressions",
            show_times(times[ASKS.name]),
            times[ASKS.name].p50,
            100,
            "µs",
        ),
        compare(f"the last {EDGE} of {STEPS_ON_RECORD:,} steps vs the first", last, first, faster=False),
    ]


def _run_in_turns(rows: Mapping[str, Row], counts: Counts) -> dict[str, Times]:
    """Run the rows in turns; return the times between questions."""
    with show_progress("rows of steps", counts.rounds) as advance:
        samplings = {name: row.intervals for name, row in rows.items()}
        return sample_in_turns(samplings, rounds=counts.rounds, warm_up=counts.warm_up, advance=advance)


def _without_questions(mixed: Times, questions: Times, count: int) -> Times:
    """Return the time of one step between two questions, less the time of the question in the same round."""
    medians = [median * 1000 for median in questions.round_medians]
    samples = [(taken - medians[number // mixed.per_round]) / count for number, taken in enumerate(mixed.samples)]
    return Times(tuple(samples), mixed.per_round)


def _joined(runs: Sequence[Sequence[int]], part: slice) -> Times:
    samples = [taken for one in runs for taken in one[part]]
    return Times(tuple(samples), len(samples) // len(runs))


def _table_of_kinds(kinds: Mapping[str, Times]) -> Table:
    table = Table("a step that …", "p50, µs", "p90, µs", "p95, µs", title="One step whose effect does nothing, by kind")
    for name, times in kinds.items():
        ninth = percentile(times.samples, 0.9) / 1000
        table.add_row(name, f"{times.p50:,.1f}", f"{ninth:,.1f}", f"{times.p95:,.1f}")
    return table


# --- where its time goes ----------------------------------------------------------------------------------------


def measure_parts(run: Run) -> list[Line]:
    """Look where the time of a step goes, with a watch around each part of it."""
    with memoranda.open(IN_MEMORY) as memory:
        row = asking_row(memory, run.counts.asks)
        for _ in range(run.counts.warm_up):
            row.run()
        parts = parts_of_a_step(row, runs=run.counts.part_runs)
    whole = sum(parts.values())
    table = Table("part", "µs", "share", title=f"{whole:.0f} µs of a step, by part")
    for part, taken in parts.items():
        table.add_row(part, f"{taken:.1f}", f"{taken / whole:.0%}")
    run.tables.append(table)
    run.figures["parts"] = parts
    if run.arguments.parts:
        run.arguments.parts.write_text(_draw_parts(parts))
    return []


def _draw_parts(parts: Mapping[str, float]) -> str:
    """Return a picture (SVG): a bar for each part of a step."""
    whole, longest = sum(parts.values()), max(parts.values())
    height = 34 * len(parts) + 46
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="760" height="{height}" fill="white"/>',
        f'<text x="190" y="24" font-weight="bold">Where the {whole:.0f} µs of a step go</text>',
    ]
    for number, (part, taken) in enumerate(parts.items()):
        top, width = 34 * number + 38, 400 * taken / longest
        drawn.append(f'<text x="180" y="{top + 16}" text-anchor="end">{escape(part)}</text>')
        drawn.append(f'<rect x="190" y="{top}" width="{width:.1f}" height="22" fill="#2b5ea7"/>')
        drawn.append(f'<text x="{196 + width:.1f}" y="{top + 16}">{taken:.1f} µs ({taken / whole:.0%})</text>')
    return "\n".join([*drawn, "</svg>"]) + "\n"


# --- a check ----------------------------------------------------------------------------------------------------


def measure_checks(run: Run) -> list[Line]:
    """Time parsing and checking machines of five hundred and of five thousand lines in turns, a new text each time."""
    sizes = {"few": 500, "many": 5_000}
    texts = {
        name: [make_machine(lines, variant=variant) for variant in range(run.counts.checks + 1)]
        for name, lines in sizes.items()
    }
    checks = {name: _checking(every) for name, every in texts.items()}
    times = take_turns(checks, rounds=run.counts.checks, per_round=1, warm_up=1)
    few, many = times["few"], times["many"]
    few_lines, many_lines = (len(texts[name][0].splitlines()) for name in sizes)
    return [
        _at_most(f"parsing and checking {few_lines:,} lines", _show_ms(few), few.p50 / 1000, 80),
        ratio_line(
            f"a line among {many_lines:,} vs among {few_lines:,}",
            _show_ms(many),
            _show_ms(few),
            (many.p50 / many_lines) / (few.p50 / few_lines),
            target=None,
            sense="at most",
        ),
    ]


def _checking(texts: Sequence[str]) -> Operation:
    def check(turn: int) -> None:
        if said := memoranda.mashin.check(texts[turn]):
            raise RuntimeError(f"the made-up machine has faults: {said[0].message}")

    return check


# --- a verification ---------------------------------------------------------------------------------------------


def measure_verifications(run: Run) -> list[Line]:
    """Verify the one run that a store has, and the whole ledger of that store: in memory and in a file."""
    file = str(run.make_folder("verify") / "memory.db")
    return [
        line for where, url in (("in memory", IN_MEMORY), ("in a file", file)) for line in _verified(run, where, url)
    ]


def _verified(run: Run, where: str, url: str) -> list[Line]:
    with memoranda.open(url) as memory:
        one = Row(memory, asking_steps(STEPS_ON_RECORD)).run()
        lengths = {"run": one.verify().length, "ledger": memory.ledger.verify().length}
        times = take_turns(
            {
                "run": _holding(lambda: one.verify().ok, "the run does not verify"),
                "ledger": _holding(lambda: memory.ledger.verify().ok, "the ledger does not verify"),
            },
            rounds=run.counts.verifications,
            per_round=1,
            warm_up=1,
        )
    return [
        _at_most(
            f"verifying a {name} of {STEPS_ON_RECORD:,} steps, {lengths[name]:,} events, {where}",
            _show_ms(taken),
            taken.p50 / 1000,
            50,
        )
        for name, taken in times.items()
    ]


# --- a run, again -----------------------------------------------------------------------------------------------


def measure_again(run: Run) -> list[Line]:
    """Replay and simulate a run; go on with runs that waited for approval."""
    counts = run.counts
    with memoranda.open(IN_MEMORY) as memory:
        one = asking_row(memory, counts.asks).run()
        again = {
            "replay": _holding(lambda: one.replay().same, "a replay came out differently"),
            "simulate": _holding(
                lambda: len(one.simulate(approve=["llm_call"]).pending) == counts.asks, "a simulation missed a step"
            ),
        }
        times = take_turns(again, rounds=counts.replays, per_round=1, warm_up=2)
        late, early = held_row(memory, counts.asks), held_row(memory, 1)
        going_on = {
            f"going on after an approval, {counts.asks} steps in": _approving(late),
            "going on after an approval, 1 step in": _approving(early),
            f"the same, found by its id, {counts.asks} steps in": _resuming(late, memory),
        }
        resumed = {name: _timed_after(*both, times=counts.resumes) for name, both in going_on.items()}
    replays = times["replay"]
    rate = 1_000_000 / replays.p50
    return [
        Line(f"replaying a run of {counts.asks} steps", _show_ms(replays), "–", f"{rate:,.0f} a second", rate),
        _at_most(f"simulating a run of {counts.asks} steps", _show_ms(times["simulate"]), times["simulate"].p50 / 1000),
        *(_at_most(name, _show_ms(taken), taken.p50 / 1000) for name, taken in resumed.items()),
    ]


def _holding(act: Callable[[], bool], otherwise: str) -> Operation:
    """Return an operation that has to give true."""

    def hold(turn: int) -> None:
        if not act():
            raise RuntimeError(otherwise)

    return hold


Prepared = tuple[Callable[[], memoranda.mashin.Run], Callable[[memoranda.mashin.Run], memoranda.mashin.Run]]
"""What comes before each operation, and the operation itself."""


def _approving(row: Row) -> Prepared:
    return row.run, lambda waiting: waiting.approve()


def _resuming(row: Row, memory: memoranda.Memory) -> Prepared:
    def approve() -> memoranda.mashin.Run:
        waiting = row.run()
        memory.approvals.approve(waiting.waiting.approval)
        return waiting

    return approve, lambda waiting: memoranda.mashin.resume(memory, waiting.id, machines=[row.clerk], model=row.model)


def _timed_after(
    prepare: Callable[[], memoranda.mashin.Run],
    go_on: Callable[[memoranda.mashin.Run], memoranda.mashin.Run],
    *,
    times: int,
) -> Times:
    taken: list[int] = []
    for _ in range(times + 1):
        waiting = prepare()
        start = time.perf_counter_ns()
        ended = go_on(waiting)
        taken.append(time.perf_counter_ns() - start)
        if ended.status != "completed":
            raise RuntimeError(f"a run that was approved is {ended.status}")
    return Times(tuple(taken[1:]), times)


MEASUREMENTS: dict[str, Callable[[Run], list[Line]]] = {
    "step": measure_steps,
    "parts": measure_parts,
    "check": measure_checks,
    "verify": measure_verifications,
    "again": measure_again,
}


def _show_ms(times: Times) -> str:
    return f"{times.p50 / 1000:,.1f} ms (p95 {times.p95 / 1000:,.1f})"


def _at_most(what: str, ours: str, value: float, target: float | None = None, unit: str = "ms") -> Line:
    """Return the line of a figure that must not be larger than its target, if it has one."""
    text = "–" if target is None else f"≤ {target:g} {unit}"
    return Line(what, ours, "–", f"{value:,.2f} {unit}", value, target, "at most", text)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", type=Path, metavar="FILE.svg", help="draw where the time of a step goes")


PROGRAM = Program(
    title="mashin machines whose effects do nothing",
    purpose=__doc__ or "",
    measurements=MEASUREMENTS,
    full=Counts(),
    quick=QUICK,
    add_arguments=_add_arguments,
)


if __name__ == "__main__":
    sys.exit(any(line.met is False for line in run_program(PROGRAM)))
