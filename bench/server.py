"""The server beside its own engine: requests, writes, recalls, memory, its start; targets, met or missed.

    make bench-server                         all of it; about five minutes on a calm machine
    make bench-server ARGS="--quick"          smaller counts; under a minute
    make bench-server ARGS="--only get,put --json out.json --plot out.svg --curve memory.svg --tails tails.svg"

Server, sender and engine are processes of this machine and speak over loopback. The exit code is 1 when a target is
missed or a request was not answered with 200: these are promises, not comparisons.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import program
import server_engine
from children import Child
from measuring import Times, percentile, sample_in_turns
from program import Program, run_program
from report import Line, draw_curves, ratio_line, show_progress, timed_line
from rich.table import Table
from server_ground import REMINDERS, Ground, lay_out
from server_load import Load, Sent
from server_process import Server, serving, time_start
from server_requests import EMPTY, FACT, HEALTH, MIX, PREVIEW, PUT, RECALL
from settings import settings_of_ours

import memoranda


@dataclass(frozen=True)
class Counts:
    """How much of everything is measured."""

    entries: int = 10_000
    rounds: int = 20
    requests: int = 250
    """Of a round, for each connection that is alone; many connections share twice as many."""
    recalls: int = 40
    tail_rounds: int = 5
    tail_requests: int = 1_500
    mixed: int = 100_000
    mixed_before: int = 10_000
    """Requests after which the server's memory is what later memory is held against."""
    starts: int = 10


QUICK = Counts(
    rounds=3, requests=100, recalls=10, tail_rounds=1, tail_requests=512, mixed=4_000, mixed_before=400, starts=3
)

ENGINE = "engine"
MANY = 32
CONNECTIONS = (1, MANY, 256)
MIXED_CONNECTIONS = 16
LOOKS = 50
"""How often the memory of the server is looked at."""

TOO_BUSY = "no server is quicker than the engine inside of it; others kept the machine busy"

ERRORS = "errors"
"""The measurement that is never left out."""

Run = program.Run[Counts]


# --- how a server is asked --------------------------------------------------------------------------------------


@dataclass
class Asking:
    """A server, and the process that sends to it."""

    server: Server
    load: Load
    errors: list[dict[str, Any]]

    def send(self, kind: str, *, connections: int, count: int) -> Sent:
        """Send requests and return what came of them; what was not answered with 200 is kept."""
        sent = self.load.send(kind, connections=connections, count=count)
        if not sent.times:
            raise RuntimeError(f"no request of `{kind}` was answered with 200: {sent.first_error}")
        if sent.errors:
            self.errors.append({"kind": kind, "count": sent.errors, "first": sent.first_error})
        return sent


@contextmanager
def _asking(run: Run, name: str, *, with_empty_route: bool = False, durability: str = "full") -> Iterator[Asking]:
    """Serve a copy of the database in a new folder."""
    ground = _ground(run).copy(run.make_folder(name), "server")
    with (
        serving(ground, with_empty_route=with_empty_route, durability=durability) as server,
        Load(server, ground) as load,
    ):
        yield Asking(server, load, run.figures.setdefault(ERRORS, []))


@functools.cache
def _ground_in(folder: Path, entries: int) -> Ground:
    ground = lay_out(folder, entries=entries)
    time_start(ground.copy(folder, "first"))  # compiles every module, which takes time and memory that no other needs
    return ground


def _ground(run: Run) -> Ground:
    """Return the database that everything is measured on copies of; the first who asks has it made."""
    return _ground_in(run.folder, run.counts.entries)


@dataclass
class Rates:
    """Requests a second, round by round."""

    rounds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Microseconds that the server computed for each request."""

    def add(self, sent: Sent) -> None:
        """Take what came of the requests of one round."""
        self.rounds.append(sent.rate)
        self.cpu.append(sent.cpu / len(sent.times) * 1_000_000)

    def show(self) -> str:
        """Return the median and the best round."""
        return f"{statistics.median(self.rounds):,.0f}/s (best {max(self.rounds):,.0f})"


def _compare_rates(what: str, ours: Rates, other: Rates, *, target: float | None = None) -> Line:
    """Return the line of how much of another rate ours is: the median over the rounds, each with its own machine."""
    ratios = [mine / theirs for mine, theirs in zip(ours.rounds, other.rounds, strict=True)]
    return ratio_line(
        what,
        ours.show(),
        other.show(),
        statistics.median(ratios),
        target=target,
        sense="at least",
        ratio_of_the_best=max(ours.rounds) / max(other.rounds),
        quartiles=statistics.quantiles(ratios, n=4),
        rates={"ours": ours.rounds, "other": other.rounds},
    )


# --- reading a fact ---------------------------------------------------------------------------------------------


def measure_gets(run: Run) -> list[Line]:
    """Get facts in turns with two routes that do nothing: one open to everybody, one that needs a key."""
    counts = run.counts
    rates = {(kind, many): Rates() for many in (1, MANY) for kind in (HEALTH, EMPTY, FACT)}
    with _asking(run, "get", with_empty_route=True) as asking, show_progress("gets", counts.rounds) as advance:
        for kind, many in rates:
            asking.send(kind, connections=many, count=counts.requests)
        for number in range(counts.rounds):
            for kind, many in _beginning_with(list(rates), number):
                count = counts.requests * (1 if many == 1 else 2)
                rates[kind, many].add(asking.send(kind, connections=many, count=count))
            advance(1)
    computed = {
        many: {kind: statistics.mean(rates[kind, many].cpu) for kind in (HEALTH, EMPTY, FACT)} for many in (1, MANY)
    }
    table = Table(
        "connections",
        "GET /health",
        "an empty route with a key",
        "GET of a fact",
        title="What the server computes for a request, µs",
    )
    for many, of in computed.items():
        table.add_row(str(many), *(f"{of[kind]:,.0f}" for kind in (HEALTH, EMPTY, FACT)))
    run.tables.append(table)
    run.figures["CPU of a request, µs"] = {str(many): of for many, of in computed.items()}
    lines: list[Line] = []
    for many in (MANY, 1):
        over = _counted(many, "connection")
        fact, health, empty = (rates[kind, many] for kind in (FACT, HEALTH, EMPTY))
        target = 0.6 if many == MANY else None
        lines.append(_compare_rates(f"GET of a fact vs /health, {over}", fact, health, target=target))
        lines.append(_compare_rates(f"vs an empty route with a key, {over}", fact, empty))
    return lines


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _beginning_with(things: list[Any], number: int) -> list[Any]:
    first = number % len(things)
    return things[first:] + things[:first]


# --- writing a block --------------------------------------------------------------------------------------------


def measure_puts(run: Run) -> list[Line]:
    """Replace blocks by compare-and-set, through the server in turns with as many threads on the engine."""
    synced = _put_in_turns(run, server_engine.WRITERS, "full")
    unsynced = _put_in_turns(run, (1,), "normal")
    return [
        *(
            _compare_with_engine(_counted(many, "writer"), *both, target=0.4 if many == 1 else None)
            for many, both in synced.items()
        ),
        _compare_with_engine("1 writer, no sync", *unsynced[1]),
    ]


def _compare_with_engine(writers: str, ours: Rates, engine: Rates, *, target: float | None = None) -> Line:
    line = _compare_rates(f"PUT of a block vs the engine, {writers}", ours, engine, target=target)
    return replace(line, void=TOO_BUSY) if line.value > 1 else line


def _put_in_turns(run: Run, writers: Sequence[int], durability: str) -> dict[int, tuple[Rates, Rates]]:
    """Return the rates of the server and of the engine, by how many write at the same time."""
    counts, name = run.counts, f"put-{durability}"
    rates = {(where, many): Rates() for many in writers for where in (PUT, ENGINE)}
    with (
        _asking(run, name, durability=durability) as asking,
        _engine(run, name, durability) as engine,
        show_progress(f"puts, durability {durability}", counts.rounds) as advance,
    ):

        def put(where: str, many: int, count: int) -> float:
            if where == PUT:
                return asking.send(PUT, connections=many, count=count).rate
            return count / engine.ask(f"put-{many}", count).times[0] * 1e9

        for where, many in rates:
            put(where, many, counts.requests * 2)
        for number in range(counts.rounds):
            for where, many in _beginning_with(list(rates), number):
                rates[where, many].rounds.append(put(where, many, counts.requests))
            advance(1)
    return {many: (rates[PUT, many], rates[ENGINE, many]) for many in writers}


@contextmanager
def _engine(run: Run, name: str, durability: str = "full") -> Iterator[Child]:
    """Let a process open another copy of the database, beside that of the server."""
    file = _ground(run).copy(run.folder / name, "engine").db
    with memoranda.open(file, durability=durability) as memory:
        run.settings[f"Memoranda, durability {durability}"] = settings_of_ours(memory)
    with server_engine.start(file, durability=durability) as engine:
        yield engine


# --- recalling, and looking at a prompt -------------------------------------------------------------------------


def measure_recalls(run: Run) -> list[Line]:
    """Recall from the server in turns with a process on the engine; the same questions, one at a time."""
    through, engine = _in_turns(run, RECALL, "recalls")
    more = [mine - theirs for mine, theirs in zip(through.round_medians, engine.round_medians, strict=True)]
    added = (through.p50 - engine.p50) / 1000
    return [
        Line(
            f"recall of {run.counts.entries:,} entries, added by the server",
            _milliseconds(through),
            _milliseconds(engine),
            f"{added:+.2f} ms",
            max(added, 0.0),
            1.5,
            "at most",
            "≤ +1.5 ms",
            {"added in each round, ms": [one / 1000 for one in more], "least": min(more) / 1000},
            TOO_BUSY if added < 0 else "",
        )
    ]


def measure_previews(run: Run) -> list[Line]:
    """Look at prompts with core memory that is full twice over, in process and through the server in turns."""
    through, engine = _in_turns(run, PREVIEW, "previews")
    what = f"preview, full core memory and {REMINDERS} reminders"
    return [timed_line(what, engine, 5), timed_line("preview through the server", through, 5)]


def _in_turns(run: Run, kind: str, what: str) -> tuple[Times, Times]:
    """Return the times of one kind of request through the server, and of the same in a process on the engine."""
    counts = run.counts
    with _asking(run, kind) as asking, _engine(run, kind) as engine, show_progress(what, counts.rounds) as advance:
        times = sample_in_turns(
            {
                kind: lambda: asking.send(kind, connections=1, count=counts.recalls).times,
                ENGINE: lambda: engine.ask(kind, counts.recalls).times,
            },
            rounds=counts.rounds,
            warm_up=3,
            advance=advance,
        )
    return times[kind], times[ENGINE]


def _milliseconds(times: Times) -> str:
    least = min(times.round_medians) / 1000
    return f"{times.p50 / 1000:,.2f} ms (least {least:,.2f}, p95 {times.p95 / 1000:,.2f})"


# --- how long the slowest take ----------------------------------------------------------------------------------


def measure_tails(run: Run) -> list[Line]:
    """Read facts and write blocks over one, many and very many connections; look at the slowest answers."""
    counts = run.counts
    sent: dict[tuple[str, int], list[Sent]] = {(kind, many): [] for kind in (FACT, PUT) for many in CONNECTIONS}
    with _asking(run, "tails") as asking, show_progress("tails", counts.tail_rounds) as advance:
        for number in range(counts.tail_rounds):
            for kind, many in _beginning_with(list(sent), number):
                sent[kind, many].append(asking.send(kind, connections=many, count=counts.tail_requests))
            advance(1)
    names = {FACT: "GET of a fact", PUT: "PUT of a block"}
    table = Table(
        "request",
        "connections",
        "a second",
        "p50, ms",
        "p99, ms",
        "most, ms",
        "errors",
        "CPU of the server",
        "of the sender",
        title="How long the slowest answers take",
    )
    curves: dict[str, list[tuple[float, float]]] = {}
    for (kind, many), rounds in sent.items():
        times = [taken / 1e6 for one in rounds for taken in one.times]
        seconds = sum(one.seconds for one in rounds)
        middle, slow = percentile(times, 0.5), percentile(times, 0.99)
        table.add_row(
            names[kind],
            str(many),
            f"{len(times) / seconds:,.0f}",
            f"{middle:,.1f}",
            f"{slow:,.1f}",
            f"{max(times):,.1f}",
            str(sum(one.errors for one in rounds)),
            f"{sum(one.cpu for one in rounds) / seconds:.0%}",
            f"{sum(one.own_cpu for one in rounds) / seconds:.0%}",
        )
        curves.setdefault(f"{names[kind]}, p50", []).append((many, middle))
        curves.setdefault(f"{names[kind]}, p99", []).append((many, slow))
    run.tables.append(table)
    run.figures["milliseconds by connections"] = curves
    if run.arguments.tails:
        title = "Milliseconds until an answer, each connection asking again at once"
        run.arguments.tails.write_text(draw_curves(title, curves, across="connections", up="ms"))
    return []


# --- memory -----------------------------------------------------------------------------------------------------


def measure_memory(run: Run) -> list[Line]:
    """Send a mixture of everything for long; look at the memory of the server all the time."""
    counts = run.counts
    each = counts.mixed // LOOKS
    with _asking(run, "memory") as asking, show_progress("requests of every kind", counts.mixed) as advance:
        curve = [(0, asking.server.memory)]
        while curve[-1][0] < counts.mixed:
            asking.send(MIX, connections=MIXED_CONNECTIONS, count=each)
            curve.append((curve[-1][0] + each, asking.server.memory))
            advance(each)
    before, after = dict(curve)[counts.mixed_before], curve[-1][1]
    run.figures["memory, MB"] = curve
    if run.arguments.curve:
        run.arguments.curve.write_text(
            draw_curves(
                "Resident memory of the server: 70% GET, 20% PUT, 5% recall, 5% chat",
                {"MB": curve},
                across="requests",
                up="MB",
                linear=True,
            )
        )
    return [
        ratio_line(
            f"memory, {counts.mixed:,} requests vs {counts.mixed_before:,}",
            f"{after:,.1f} MB",
            f"{before:,.1f} MB",
            after / before,
            target=1.1,
            sense="at most",
            before_any=curve[0][1],
        )
    ]


# --- the start --------------------------------------------------------------------------------------------------


def measure_starts(run: Run) -> list[Line]:
    """Start `memoranda serve` on a database that is there, a new process each time, until it says it can work."""
    ground = _ground(run).copy(run.make_folder("ready"), "server")
    with show_progress("starts", run.counts.starts) as advance:
        taken: list[float] = []
        for _ in range(run.counts.starts):
            taken.append(time_start(ground) * 1e9)
            advance(1)
    return [timed_line("from `memoranda serve` to ready", Times(tuple(taken), 1), 1.5, unit="s")]


# --- errors -----------------------------------------------------------------------------------------------------


def count_errors(run: Run) -> list[Line]:
    """Say how many requests of all were not answered with 200."""
    errors: Sequence[dict[str, Any]] = run.figures.get(ERRORS, [])
    count = sum(one["count"] for one in errors)
    first = f"{count}, first `{errors[0]['kind']}`: {errors[0]['first'][:80]}" if errors else "0"
    return [Line("requests not answered with 200", first, "–", str(count), count, 0, "at most", "0")]


MEASUREMENTS: Mapping[str, Callable[[Run], list[Line]]] = {
    "get": measure_gets,
    "put": measure_puts,
    "recall": measure_recalls,
    "preview": measure_previews,
    "tails": measure_tails,
    "ready": measure_starts,
    "memory": measure_memory,
    ERRORS: count_errors,
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--curve", type=Path, metavar="FILE.svg", help="draw the memory of the server")
    parser.add_argument("--tails", type=Path, metavar="FILE.svg", help="draw how long the slowest answers take")


def _count_errors_always(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    arguments.only = [*(name for name in arguments.only if name != ERRORS), ERRORS]


PROGRAM = Program(
    title="the server, over loopback",
    purpose=__doc__ or "",
    measurements=MEASUREMENTS,
    full=Counts(),
    quick=QUICK,
    peers=("litestar", "uvicorn", "h11"),
    durability="every write synced before it is answered (WAL, synchronous=FULL), by the server and in process",
    add_arguments=_add_arguments,
    check_arguments=_count_errors_always,
)


if __name__ == "__main__":
    missed = [line for line in run_program(PROGRAM) if line.met is False]
    if missed:
        sys.exit("error: missed: " + "; ".join(f"{one.what}: {one.figure} ({one.target_text})" for one in missed))
