"""Workflows: what a step, a record's check, a parallel block and the loading of memory take; targets, met or missed.

    make bench-workflow                       all of it; about a minute on a calm machine
    make bench-workflow ARGS="--quick"        smaller counts
    make bench-workflow ARGS="--only step,load --json out.json --plot out.svg --parts parts.svg"

Each figure is compared with its bare parts in the same run: the libraries, SQLite and Python without a workflow.
The exit code is 1 when a target is missed: these are promises of the language, not comparisons.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import program
from measuring import Sampling, Times, percentile, sample_in_turns
from program import Program, run_program
from report import Line, compare, ratio_line, show_progress, timed_line
from rich.table import Table
from settings import settings_of_ours
from workflow_bare import (
    act_in_python,
    evaluate_expressions,
    in_blocks,
    one_by_one,
    reading_rows,
    sleep_in_threads,
    validate,
    writing_events,
)
from workflow_parts import draw_stacks, parts_of_a_step
from workflow_rows import (
    CALLS,
    CHOOSES,
    EXPRESSIONS,
    INPUT,
    LOOPS,
    NOTES,
    NOTES_CALL,
    NOTES_PATHS,
    NOTES_PLAIN,
    OWNER,
    PLOT,
    SENDS,
    SETS,
    SPLITS,
    THREAD,
    WORKFLOW,
    WRITES,
    Row,
    define_plots,
    fill_plots,
    plot_schema,
    row_text,
)

import memoranda
from memoranda.engine import schemas
from memoranda.engine.schemas import contract_of
from memoranda.runs.records import load_memory
from memoranda.workflow.expressions import Template

IN_MEMORY = ":memory:"
EDGE = 100
"""How many steps at the beginning and at the end of a long run are held against each other."""
FEW, MANY = 4, 200
"""Definitions of a memory, each with its record."""
BRANCHES = 50


@dataclass(frozen=True)
class Counts:
    """How much of everything is measured."""

    rounds: int = 40
    warm_up: int = 5
    notes: int = 100
    between: int = 3
    between_short: int = 10
    between_long: int = 1
    part_runs: int = 40
    checks: int = 200
    loads: int = 60
    openings: int = 40
    parallels: int = 5


QUICK = Counts(rounds=8, warm_up=2, part_runs=8, checks=40, loads=12, openings=10, parallels=2)
STEPS_ON_RECORD = 1_000

Run = program.Run[Counts]


# --- a step -----------------------------------------------------------------------------------------------------

FILED = "the same, in a file"
MANY_RECORDS = f"the same, with {MANY} records loaded"

PYTHON = "a plain Python loop: inputs, action, output"
JSONATA = "jsonata-python: the five expressions"
OUR_INPUTS = "Memoranda: the five expressions"
SCHEMA = "jsonschema_rs: the inputs"
COMMIT = "SQLite: the event's row, committed"
COMMIT_FILED = "SQLite: the same, in a file"
ADDED_UP = (JSONATA, SCHEMA, COMMIT, PYTHON)


def measure_steps(run: Run) -> list[Line]:
    """Run rows of steps whose actions do nothing in turns with the bare parts of a step; time each step."""
    counts = run.counts
    with ExitStack() as stack:
        memory, many = (stack.enter_context(_with_plots(IN_MEMORY, plots)) for plots in (FEW, MANY))
        file = run.make_folder("steps") / "memory.db"
        filed = stack.enter_context(_with_plots(str(file), FEW))
        run.settings["Memoranda, in a file"] = settings_of_ours(filed.memory)
        rows = {
            NOTES.name: Row(memory.memory, counts.notes),
            NOTES_CALL.name: Row(memory.memory, counts.notes, NOTES_CALL),
            MANY_RECORDS: Row(many.memory, counts.notes, definition_ids=many.ids, thread=THREAD),
            NOTES_PATHS.name: Row(memory.memory, counts.notes, NOTES_PATHS),
            NOTES_PLAIN.name: Row(memory.memory, counts.notes, NOTES_PLAIN),
            FILED: Row(filed.memory, counts.notes),
        }
        between = {
            **dict.fromkeys((WRITES, SETS), counts.between),
            **dict.fromkeys((CHOOSES, LOOPS), counts.between_short),
            **dict.fromkeys((SENDS, SPLITS, CALLS), counts.between_long),
        }
        mixed = {
            kind.name: Row(
                memory.memory,
                counts.notes // 2,
                between=kind,
                count=count,
                thread=THREAD if kind is SENDS else None,
            )
            for kind, count in between.items()
        }
        bare = _bare_parts(stack, run, file)
        sampled = _sample_in_turns(
            {**{name: row.intervals for name, row in {**rows, **mixed}.items()}, **bare}, counts, "rows of steps"
        )
        long = Row(memory.memory, STEPS_ON_RECORD)
        edges = [long.intervals() for _ in range(max(2, counts.rounds // 8))]
    step = sampled[NOTES.name]
    times = {name: sampled[name] for name in rows}
    for kind, count in between.items():
        times[kind.name] = _without_notes(sampled[kind.name], step, count)
    parts = {name: sampled[name] for name in bare}
    run.tables += [_table_of_kinds(times), _table_of_bare_parts(parts, times)]
    run.figures["steps"] = {name: _figures(one) for name, one in times.items()}
    run.figures["bare parts"] = {name: _figures(one) for name, one in parts.items()}
    run.figures["median of each round"] = step.round_medians
    first, last = (_joined(edges, part) for part in (slice(None, EDGE), slice(-EDGE, None)))
    return [
        timed_line("a `do` step: inputs, memory, events", step, 0.5),
        compare("vs its bare parts, added up", step, _added_up(parts), faster=False),
        compare("its expressions vs jsonata-python alone", parts[OUR_INPUTS], parts[JSONATA], faster=True),
        timed_line("a step that writes memory", times[WRITES.name]),
        compare(f"a step with {MANY} records vs with {FEW // 2}", times[MANY_RECORDS], step, faster=False),
        compare(f"the last {EDGE} of {STEPS_ON_RECORD:,} steps vs the first", last, first, faster=False),
    ]


@dataclass(frozen=True)
class Plots:
    """A memory, and the ids of its definitions."""

    memory: memoranda.Memory
    ids: Sequence[str]


@contextmanager
def _with_plots(url: str, count: int) -> Iterator[Plots]:
    """Open a memory with so many definitions, each with its record."""
    with memoranda.open(url) as memory:
        ids = define_plots(memory, count)
        fill_plots(memory, ids)
        yield Plots(memory, ids)


def _bare_parts(stack: ExitStack, run: Run, file: Path) -> dict[str, Sampling]:
    """Return the parts of a step without the step; the one of ours among them is its inputs alone."""
    before = {f"entry_{number}": {"noted": "table", "unit": "kg"} for number in range(run.counts.notes)}
    context = {"press": "large", "memory": {"plot_0": PLOT, "plot_2": PLOT}}
    variables = {"input": INPUT, "context": context, "output": before}
    texts = {name: text.format(number=1, before="$output.entry_0.noted") for name, text in EXPRESSIONS.items()}
    jsonata, python = evaluate_expressions(texts, variables), act_in_python(_note, variables)
    ours = _inputs_of_a_step(variables)
    if ours() != {**jsonata(), "unit": "kg"}:
        raise RuntimeError(f"the expressions give {ours()} with Memoranda and {jsonata()} without")
    inputs = {name: {"type": "string"} for name in ours()}
    schema = {"type": "object", "properties": inputs, "required": list(inputs), "additionalProperties": False}
    notes = run.counts.notes
    small = {PYTHON: python, JSONATA: jsonata, OUR_INPUTS: ours, SCHEMA: validate(schema, ours())}
    written = {COMMIT: IN_MEMORY, COMMIT_FILED: str(file.with_name("bare.db"))}
    writers = {name: stack.enter_context(writing_events(file, target)) for name, target in written.items()}
    return {
        **{name: in_blocks(one, blocks=notes // 2) for name, one in small.items()},
        **{name: one_by_one(one, times=notes) for name, one in writers.items()},
    }


def _note(**inputs: str) -> dict[str, Any]:
    return {"noted": inputs["grade"], "unit": inputs["unit"]}


def _inputs_of_a_step(variables: Mapping[str, Any]) -> Callable[[], Any]:
    """Return what computes the inputs of the second task of a row, as a run does."""
    document = memoranda.workflow.parse(row_text(2))
    template = Template(document.find("entry_1").inputs)
    return lambda: template.value(variables)


def _sample_in_turns(samplings: Mapping[str, Sampling], counts: Counts, what: str) -> dict[str, Times]:
    """Take samples in turns, with a bar that shows how far they are; return the times of each."""
    with show_progress(what, counts.rounds) as advance:
        return sample_in_turns(samplings, rounds=counts.rounds, warm_up=counts.warm_up, advance=advance)


def _without_notes(mixed: Times, notes: Times, count: int) -> Times:
    """Return the time of one step between two notes, less the time of the note in the same round."""
    medians = [median * 1000 for median in notes.round_medians]
    samples = [(taken - medians[number // mixed.per_round]) / count for number, taken in enumerate(mixed.samples)]
    return Times(tuple(samples), mixed.per_round)


def _added_up(parts: Mapping[str, Times]) -> Times:
    """Return the medians of the parts that make up a step in memory, added up round by round."""
    rounds = zip(*(parts[name].round_medians for name in ADDED_UP), strict=True)
    return Times(tuple(sum(medians) * 1000 for medians in rounds), 1)


def _joined(runs: Sequence[Sequence[float]], part: slice) -> Times:
    samples = [taken for one in runs for taken in one[part]]
    return Times(tuple(samples), len(samples) // len(runs))


def _table_of_kinds(kinds: Mapping[str, Times]) -> Table:
    table = Table("a step that …", "least, µs", "p50, µs", "p90, µs", "p95, µs", title="One step, by kind")
    for name, times in kinds.items():
        least, ninth = min(times.round_medians), percentile(times.samples, 0.9) / 1000
        table.add_row(name, f"{least:,.1f}", f"{times.p50:,.1f}", f"{ninth:,.1f}", f"{times.p95:,.1f}")
    return table


def _table_of_bare_parts(parts: Mapping[str, Times], steps: Mapping[str, Times]) -> Table:
    table = Table("part", "p50, µs", "p95, µs", "a step takes", title="The bare parts of a step, in the same run")
    for name, times in parts.items():
        step = steps[FILED if name == COMMIT_FILED else NOTES.name]
        table.add_row(name, f"{times.p50:,.2f}", f"{times.p95:,.2f}", f"{step.p50 / times.p50:,.1f}×")
    return table


def _figures(times: Times) -> dict[str, float]:
    return {"least": min(times.round_medians), "p50": times.p50, "p95": times.p95}


# --- where its time goes ----------------------------------------------------------------------------------------


def measure_parts(run: Run) -> list[Line]:
    """Look where the time of a step goes, with a watch around each part of it."""
    with _with_plots(IN_MEMORY, FEW) as plots:
        row = Row(plots.memory, run.counts.notes)
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
        stacks = {"a step, by part": parts}
        if bare := run.figures.get("bare parts"):
            stacks["its bare parts"] = {name: bare[name]["p50"] for name in ADDED_UP}
        run.arguments.parts.write_text(draw_stacks("One `do` step", stacks))
    return []


# --- a record ---------------------------------------------------------------------------------------------------


def measure_checks(run: Run) -> list[Line]:
    """Hold a record against the schema of its definition, in turns with jsonschema_rs alone."""
    with memoranda.open(IN_MEMORY) as memory:
        plain = memory.definitions.create(name="Plain", slug="plain", schema=plot_schema("Plain"))
        schema = plot_schema("Filled")
        schema["properties"]["press"] = {"type": "string", "default": "large"}
        filled = memory.definitions.create(name="Filled", slug="filled", schema=schema)
    contracts = {"ours": contract_of(plain), "filled": contract_of(filled)}
    operations: dict[str, Callable[[], object]] = {
        "ours": lambda: contracts["ours"].accept(PLOT),
        "filled": lambda: contracts["filled"].accept(PLOT),
        "looked up": lambda: contract_of(plain).accept(PLOT),
        "bare": validate(plain.schema, PLOT),
    }
    times = _sample_in_turns(
        {name: in_blocks(one, blocks=10) for name, one in operations.items()},
        _rounds(run.counts, run.counts.checks),
        "checks of a record",
    )
    ours, bare = times["ours"], times["bare"]
    return [
        timed_line("the schema check of one record", ours, 5, unit="µs"),
        compare("vs jsonschema_rs alone", ours, bare, faster=False),
        timed_line("a check that fills in a default", times["filled"], unit="µs"),
        timed_line("a check whose schema is looked up", times["looked up"], unit="µs"),
    ]


# --- a parallel block -------------------------------------------------------------------------------------------

_NAPS = "defs:\n{defs}flow:\n  - parallel: {{steps: [{steps}]}}\n"


def measure_parallel(run: Run) -> list[Line]:
    """Run actions that sleep for a second side by side, in turns with threads that do nothing else."""
    names = [f"nap_{number}" for number in range(BRANCHES)]
    text = _NAPS.format(
        defs="".join(f"  {name}: {{kind: task, action: nap}}\n" for name in names),
        steps=", ".join(f"{{do: {name}}}" for name in names),
    )
    ours: list[float] = []
    bare: list[float] = []
    with memoranda.open(IN_MEMORY) as memory, show_progress("parallel blocks", run.counts.parallels) as advance:
        flow = memoranda.workflow.load(text, memory=memory, name="naps", actions=[_nap])
        for _ in range(run.counts.parallels):
            start = time.perf_counter()
            outputs = flow.run(owner=OWNER).check().outputs
            ours.append(time.perf_counter() - start)
            if len(outputs) != BRANCHES:
                raise RuntimeError(f"{len(outputs)} of {BRANCHES} branches gave something")
            bare.append(sleep_in_threads(BRANCHES, 1.0))
            advance(1)
    block, threads = (Times(tuple(one * 1e9 for one in taken), 1) for taken in (ours, bare))
    return [
        timed_line(f"`parallel` with {BRANCHES} actions of one second", block, 1.5, unit="s"),
        _compare_ms(f"vs {BRANCHES} threads that sleep", block, threads),
    ]


@memoranda.workflow.action("nap")
def _nap(call: memoranda.workflow.Call) -> dict[str, Any]:
    """Sleep for a second."""
    time.sleep(1.0)
    return {"slept": 1}


# --- loading ----------------------------------------------------------------------------------------------------


def measure_loads(run: Run) -> list[Line]:
    """Load definitions and records as a run does, in turns with reading their rows; then begin whole runs."""
    counts = run.counts
    file = run.make_folder("load") / "memory.db"
    with _with_plots(str(file), MANY), reading_rows(file) as read:
        if (found := read()) != 2 * MANY:
            raise RuntimeError(f"{found} rows hold definitions and records, not {2 * MANY}")
        with _with_plots(IN_MEMORY, MANY) as plots, _with_plots(IN_MEMORY, FEW) as few:
            load = _loading(plots)
            times = _sample_in_turns(
                {
                    "load": one_by_one(load),
                    "first": lambda: _first_load(load),
                    "rows": one_by_one(read),
                },
                _rounds(counts, counts.loads),
                "loads",
            )
            rows = {
                "many": Row(plots.memory, 1, definition_ids=plots.ids, thread=THREAD),
                "few": Row(few.memory, 1),
            }
            begun = _sample_in_turns(
                {name: lambda row=row: [row.opening()] for name, row in rows.items()}
                | {"whole": one_by_one(rows["few"].run)},
                _rounds(counts, counts.openings),
                "openings",
            )
    loaded = times["load"]
    return [
        timed_line(f"loading {MANY} definitions and {MANY} records", loaded, 10),
        _compare_ms("vs reading the rows and their JSON alone", loaded, times["rows"]),
        timed_line("the same, the first time in a process", times["first"]),
        timed_line(f"from `run` to the first action, {MANY} records", begun["many"]),
        timed_line(f"from `run` to the first action, {FEW // 2} records", begun["few"]),
        timed_line("a whole run of one step", begun["whole"]),
    ]


def _loading(plots: Plots) -> Callable[[], object]:
    def load() -> None:
        working = load_memory(
            plots.memory, owner=OWNER, definition_ids=plots.ids, workflow=WORKFLOW, thread=THREAD, run="r1"
        )
        if len(working.values) != MANY:
            raise RuntimeError(f"{len(working.values)} records were loaded, not {MANY}")

    return load


def _first_load(load: Callable[[], object]) -> list[int]:
    """Return the nanoseconds of a load before which no schema was compiled."""
    schemas._validators.clear()  # no door leads there, and none should
    start = time.perf_counter_ns()
    load()
    return [time.perf_counter_ns() - start]


MEASUREMENTS: dict[str, Callable[[Run], list[Line]]] = {
    "step": measure_steps,
    "parts": measure_parts,
    "check": measure_checks,
    "load": measure_loads,
    "parallel": measure_parallel,
}


def _rounds(counts: Counts, rounds: int) -> Counts:
    return replace(counts, rounds=rounds)


def _show_ms(times: Times) -> str:
    return f"{times.p50 / 1000:,.1f} ms (p95 {times.p95 / 1000:,.1f})"


def _compare_ms(what: str, ours: Times, bare: Times) -> Line:
    """Return the line of how many times longer ours takes than its bare part."""
    return ratio_line(what, _show_ms(ours), _show_ms(bare), ours.p50 / bare.p50, target=None, sense="at most")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", type=Path, metavar="FILE.svg", help="draw where the time of a step goes")


PROGRAM = Program(
    title="workflows whose actions do nothing",
    purpose=__doc__ or "",
    measurements=MEASUREMENTS,
    full=Counts(),
    quick=QUICK,
    peers=("jsonata-python", "jsonschema-rs"),
    add_arguments=_add_arguments,
)


if __name__ == "__main__":
    missed = [line for line in run_program(PROGRAM) if line.met is False]
    if missed:
        sys.exit("error: too slow: " + "; ".join(f"{one.what} took {one.figure} ({one.target_text})" for one in missed))
