"""ABL agents: what a turn, a condition, a check and an idle session take; a table of targets, met or missed.

    make bench-abl                         all of it; four minutes on a calm machine, most of them for the idle sessions
    make bench-abl ARGS="--quick"          smaller counts, 2,000 idle sessions
    make bench-abl ARGS="--only turn,condition --json out.json --plot out.svg"

The exit code is 0 whether targets are met or missed: a figure is to be read, not to stop a build.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import desk
import program
from jsonata import Jsonata
from long_agent import make_agent
from measuring import Operation, Times, take_turns, time_each
from program import Program, run_program
from report import Line, compare, ratio_line, show_progress, show_times
from rich.table import Table

import memoranda
from memoranda.abl.expression.compiler import compile_expression
from memoranda.lang.expression.dialect import ExpressionRun as Evaluation

SAMPLE = 200_000
"""Nanoseconds between two looks at the clock: many evaluations of ours, a few of the peer's, so that what else runs on
the machine strikes both alike."""


@dataclass(frozen=True)
class Counts:
    """How much of everything is measured."""

    talk_rounds: int = 100
    warm_up_talks: int = 20
    condition_rounds: int = 60
    condition_per_round: int = 10
    checks: int = 15
    sessions: int = 10_000


QUICK = Counts(talk_rounds=20, warm_up_talks=5, condition_rounds=15, checks=5, sessions=2_000)

Run = program.Run[Counts]


# --- a turn -----------------------------------------------------------------------------------------------------


def measure_turns(run: Run) -> list[Line]:
    """Have whole conversations with the hotel example, without a model, and time every turn of them."""
    counts, talks = run.counts, desk.make_talks()
    taken: list[desk.Taken] = []
    with desk.open_desk() as one, show_progress("conversations", counts.talk_rounds) as advance:
        for _ in range(counts.warm_up_talks):
            for talk in talks:
                one.hold(talk)
        for _ in range(counts.talk_rounds):
            for talk in talks:
                taken += one.hold(talk)
            advance(1)
    per_round = len(taken) // counts.talk_rounds
    apart = desk.OPENING, desk.END
    in_turns = sum(kind not in apart for kind, _ in taken[:per_round])
    turns = Times(tuple(time for kind, time in taken if kind not in apart), in_turns)
    every_kind = dict.fromkeys(kind for kind, _ in taken)
    kinds = {kind: Times(tuple(time for one, time in taken if one == kind), per_round) for kind in every_kind}
    run.tables.append(_table_of_kinds(kinds, taken[:per_round], talks=len(talks)))
    run.figures["turns"] = {kind: (times.p50, times.p95) for kind, times in kinds.items()}
    run.figures["median of each round"] = turns.round_medians
    return [_at_most("a turn of the hotel example", show_times(turns), turns.p50 / 1000, 0.3, "ms")]


def _table_of_kinds(kinds: dict[str, Times], once: list[desk.Taken], *, talks: int) -> Table:
    table = Table("a turn that …", "in a round", "p50, µs", "p95, µs", title=f"{talks} conversations a round, by kind")
    for kind, times in kinds.items():
        count = sum(one == kind for one, _ in once)
        table.add_row(kind, str(count), f"{times.p50:,.0f}", f"{times.p95:,.0f}")
    return table


# --- a condition ------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """One expression in both languages, and what it gives."""

    what: str
    ours: str
    theirs: str
    gives: Any


NAMES: dict[str, Any] = {
    "price": 80,
    "budget": 120,
    "guests": 2,
    "nights": 3,
    "tax": 2.5,
    "guest_name": "Ada",
    "destination": "Lisbon",
    "country": "PT",
    "said": "a room with a late checkout",
    "picked": 2,
    "rooms": [{"id": "LIS-1", "price": 95}, {"id": "LIS-2", "price": 120}, {"id": "LIS-3", "price": 165}],
    "booking": {"town": "Lisbon", "total": 372},
}
"""What the expressions are evaluated among: about what a session holds."""

PAIRS = (
    Pair("comparisons and AND", "price <= budget AND guests >= 1", "price <= budget and guests >= 1", True),
    Pair("IS SET", "guest_name IS SET", "$exists(guest_name)", True),
    Pair("IS SET, of nothing", "wish IS SET", "$exists(wish)", False),
    Pair("IN a list", 'country IN ["ES", "IT", "PT"]', 'country in ["ES", "IT", "PT"]', True),
    Pair("arithmetic", "nights * price + nights * guests * tax", "nights * price + nights * guests * tax", 255),
    Pair("a path with an index", "rooms[1].price <= budget", "rooms[1].price <= budget", True),
    Pair("a function", 'LOWER(destination) == "lisbon"', '$lowercase(destination) = "lisbon"', True),
    Pair("contains", 'said contains "late"', '$contains(said, "late")', True),
    Pair(
        "a choice from a list",
        "abl.is_number(picked) AND picked >= 1 AND picked <= rooms.length",
        '$type(picked) = "number" and picked >= 1 and picked <= $count(rooms)',
        True,
    ),
)


def measure_conditions(run: Run) -> list[Line]:
    """Time compiled expressions of ours and of jsonata-python's, in turns; both have to give the same."""
    counts = run.counts
    table = Table("expression", "ours, µs", "jsonata-python, µs", "ratio", title="One evaluation, p50 (p95)")
    compared: list[tuple[Pair, Times, Times]] = []
    for pair in PAIRS:
        evaluations = {"ours": _ours(pair), "theirs": _theirs(pair)}
        sizes = {name: _sample_size(evaluate) for name, evaluate in evaluations.items()}
        times = take_turns(
            {name: _repeated(evaluate, sizes[name]) for name, evaluate in evaluations.items()},
            rounds=counts.condition_rounds,
            per_round=counts.condition_per_round,
            warm_up=counts.condition_per_round,
        )
        ours, theirs = (_each(times[name], sizes[name]) for name in evaluations)
        compared.append((pair, ours, theirs))
        shown = (f"{one.p50:.2f} ({one.p95:.2f})" for one in (ours, theirs))
        table.add_row(f"{pair.what}: {pair.ours}", *shown, f"{theirs.p50 / ours.p50:.0f}×")
    run.tables.append(table)
    run.figures["conditions"] = {pair.ours: (ours.p50, theirs.p50) for pair, ours, theirs in compared}
    slowest = max(compared, key=lambda one: one[1].p50)
    least = min(compared, key=lambda one: one[2].p50 / one[1].p50)
    what = f"a compiled condition, the slowest of {len(PAIRS)} ({slowest[0].what})"
    return [
        _at_most(what, show_times(slowest[1]), slowest[1].p50, 5, "µs"),
        compare(
            f"vs jsonata-python, where it gains least ({least[0].what})", least[1], least[2], target=20, faster=True
        ),
    ]


def _ours(pair: Pair) -> Callable[[], Any]:
    """Return ours as a turn uses it: compiled once, and one run for all that is evaluated."""
    compiled, one = compile_expression(pair.ours), Evaluation()
    return _agreeing(pair, lambda: compiled.value(NAMES, one))


def _theirs(pair: Pair) -> Callable[[], Any]:
    """Return the peer at its best: parsed once, and neither checking what goes in nor converting what comes out."""
    compiled = Jsonata(pair.theirs)
    compiled.set_validate_input(False)
    compiled.set_output_convert_nulls(False)
    return _agreeing(pair, lambda: compiled.evaluate(NAMES))


def _agreeing(pair: Pair, evaluate: Callable[[], Any]) -> Callable[[], Any]:
    given = evaluate()
    if given != pair.gives or isinstance(given, bool) != isinstance(pair.gives, bool):
        sys.exit(f"error: `{pair.ours}` gives {given!r} in one of the languages, not {pair.gives!r}")
    return evaluate


def _sample_size(evaluate: Callable[[], Any]) -> int:
    """Return how many evaluations make one sample."""
    taken = time_each(lambda turn: evaluate(), range(2_000))
    return max(1, round(SAMPLE / min(taken)))


def _repeated(evaluate: Callable[[], Any], count: int) -> Operation:
    def run_many(turn: int) -> None:
        for _ in range(count):
            evaluate()

    return run_many


def _each(times: Times, count: int) -> Times:
    return Times(tuple(sample / count for sample in times.samples), times.per_round)


# --- a check ----------------------------------------------------------------------------------------------------


def measure_checks(run: Run) -> list[Line]:
    """Time parsing and checking agents of a thousand and of ten thousand lines in turns, a new text each time."""
    sizes = {"few": 1_000, "many": 10_000}
    texts = {
        name: [make_agent(lines, variant=variant) for variant in range(run.counts.checks + 1)]
        for name, lines in sizes.items()
    }
    checks = {name: _checking(every) for name, every in texts.items()}
    times = take_turns(checks, rounds=run.counts.checks, per_round=1, warm_up=1)
    few, many = times["few"], times["many"]
    few_lines, many_lines = (len(texts[name][0].splitlines()) for name in sizes)
    return [
        _at_most(f"parsing and checking {few_lines:,} lines", _show_ms(few), few.p50 / 1000, 150, "ms"),
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
        if said := memoranda.abl.check(texts[turn]):
            raise RuntimeError(f"the made-up agent has faults: {said[0].message}")

    return check


def _show_ms(times: Times) -> str:
    return f"{times.p50 / 1000:,.0f} ms (p95 {times.p95 / 1000:,.0f})"


# --- an idle session --------------------------------------------------------------------------------------------


def measure_idle(run: Run) -> list[Line]:
    """Weigh idle sessions after an opening and two turns, each manner on each store in a process of its own."""
    sessions, folder = run.counts.sessions, run.make_folder("idle")
    lines: list[Line] = []
    for manner in (desk.LET_GO, desk.HELD):
        kilobytes = desk.weigh_idle(sessions, manner, desk.IN_MEMORY)
        lines.append(_at_most(f"{sessions:,} idle sessions, {manner}", "", kilobytes, 10, "KB each"))
    for manner in (desk.LET_GO, desk.HELD):
        file = folder / f"{manner}.db"
        kilobytes = desk.weigh_idle(sessions, manner, str(file))
        on_disk = f"{file.stat().st_size / 1024 / sessions:.1f} KB each on disk"
        lines.append(_at_most(f"the same, {manner}, in a file", on_disk, kilobytes, None, "KB each"))
    return lines


MEASUREMENTS: dict[str, Callable[[Run], list[Line]]] = {
    "turn": measure_turns,
    "condition": measure_conditions,
    "check": measure_checks,
    "idle": measure_idle,
}


def _at_most(what: str, ours: str, value: float, target: float | None, unit: str) -> Line:
    """Return the line of a figure that must not be larger than its target."""
    figure = f"{value:,.0f} {unit}" if value >= 100 else f"{value:.2f} {unit}"
    text = "–" if target is None else f"≤ {target:g} {unit}"
    return Line(what, ours or figure, "–", figure, value, target, "at most", text)


PROGRAM = Program(
    title="ABL agents on an in-memory store, without a model",
    purpose=__doc__ or "",
    measurements=MEASUREMENTS,
    full=Counts(),
    quick=QUICK,
    peers=("jsonata-python",),
)


if __name__ == "__main__":
    run_program(PROGRAM)
