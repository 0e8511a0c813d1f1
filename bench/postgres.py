"""Memoranda on PostgreSQL beside bare statements, an older tree of its own and LangGraph's PostgresStore.

    make bench-postgres                                     all of it; an hour
    make bench-postgres ARGS="--quick --base ../older"      smaller counts, beside the tree in that folder
    make bench-postgres ARGS="--only writers,slow --json out.json --dir /mnt/disk"

The server comes from the same wheel as that of the tests, and is started with fsync and the other settings of a durable
one, in a temporary folder on the disk. `--base` is a checkout of an older revision: both are measured in one run, in
turns, each in processes and with a database of its own. Ratios to it are left out without one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import everything
import numpy as np
import postgres_ground
import program
import races
from corpus import make_note
from measuring import Times
from postgres_ground import BASE, OURS, PEER, RAW, SHOWN, Ground, Worker, write_together
from postgres_worker import KNOWN, KNOWN_TEXTS, TENANT
from program import Program, run_program
from report import Line, compare, ratio_line
from server_process import Server

PROCESSES, THREADS = 4, 4
DELAY = 5.0
"""Milliseconds that a commit takes at least in the slow measurements."""
JUDGED = 100_000
"""Entries of a shelf from which its first recall is judged."""
BIG = 1_000
"""The user whose shelf is large; others have smaller numbers."""
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "postgres.md"


@dataclass(frozen=True)
class Counts:
    """How much of everything is measured."""

    seconds: float = 5.0
    """How long all write in one turn."""
    rounds: int = 7
    singles: int = 200
    """Single writes of one turn."""
    remembers: int = 10
    recalled: int = 10_000
    recalls: int = 50
    cold: tuple[int, ...] = (100_000, 1_000_000)
    starts: int = 3
    users: int = 1_000
    each: int = 1_000


QUICK = Counts(
    seconds=2.0,
    rounds=3,
    singles=60,
    remembers=4,
    recalled=2_000,
    recalls=30,
    cold=(20_000, 100_000),
    starts=2,
    users=100,
    each=200,
)

Run = program.Run[Counts]


@contextmanager
def _ground(run: Run, name: str) -> Any:
    """Start a server for one group of measurements, and note how it keeps its data."""
    with postgres_ground.lay_out(run.make_folder(name), run.arguments.base) as ground:
        said = {one: ground.query(OURS, f"SHOW {one}")[0][0] for one in SHOWN}
        said["commit, ms"] = f"{postgres_ground.time_commit(ground):.2f}"
        run.settings[f"PostgreSQL: {name}"] = said
        yield ground


def _trees(ground: Ground) -> list[str]:
    return [name for name in (OURS, BASE) if name in ground.trees]


# --- writers ----------------------------------------------------------------------------------------------------


def measure_writers(run: Run) -> list[Line]:
    """Compare sixteen writers of one tenant with bare statements and with the base."""
    with _ground(run, "writers") as ground:
        _note_tables(run, ground)
        rates = _rates_in_turns(run, ground)
    lines = [
        _rate_line("16 writers in one tenant vs raw SQL without a lock", rates, RAW, 0.7),
        _rate_line("16 writers in one tenant vs the base", rates, BASE, 5),
    ]
    return [line for line in lines if line is not None]


def measure_slow(run: Run) -> list[Line]:
    """Compare the same writers where a commit takes five milliseconds."""
    with _ground(run, "slow") as ground:
        _note_tables(run, ground)
        with postgres_ground.slow_commits(ground, DELAY) as taken:
            rates = _rates_in_turns(run, ground)
    void = "" if taken >= DELAY else f"a commit took {taken:.1f} ms: the delay did not work"
    what = f"16 writers, commits of {taken:.1f} ms"
    found = [_rate_line(f"{what}, vs the base", rates, BASE, 10), _rate_line(f"{what}, vs raw SQL", rates, RAW, None)]
    return [_voided(line, void) for line in found if line is not None]


def _rates_in_turns(run: Run, ground: Ground) -> dict[str, list[float]]:
    """Let four processes with four threads write, each contender in its turn; return the rates of the turns."""
    rates: dict[str, list[float]] = {}
    with ExitStack() as stack:
        contenders = {name: "ours" for name in _trees(ground)} | {RAW: "raw"}
        crews = {
            name: [stack.enter_context(Worker(ground, name, kind)) for _ in range(PROCESSES)]
            for name, kind in contenders.items()
        }
        names = list(crews)
        for name in names:
            write_together(crews[name], threads=THREADS, seconds=min(1.0, run.counts.seconds))  # warm
        for number in range(run.counts.rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                rate = write_together(crews[name], threads=THREADS, seconds=run.counts.seconds)
                rates.setdefault(name, []).append(rate)
    return rates


def measure_one_writer(run: Run) -> list[Line]:
    """Compare single writes of one writer with bare statements, with the base and with PostgresStore."""
    with _ground(run, "one") as ground, ExitStack() as stack:
        _note_tables(run, ground)
        kinds = {name: "ours" for name in _trees(ground)} | {RAW: "raw"} | _peers(run)
        workers = {name: stack.enter_context(Worker(ground, name, kind)) for name, kind in kinds.items()}
        times = _times_in_turns(run, workers, partial(_ask_writes, run.counts.singles))
    lines = [compare("one writer: set vs raw SQL", times[OURS], times[RAW], faster=False, target=2)]
    if BASE in times:
        lines.append(compare("one writer: set vs the base", times[OURS], times[BASE], faster=True))
    if PEER in times:
        lines.append(
            compare(
                "set vs PostgresStore.put, which keeps no history", times[OURS], times[PEER], faster=True, target=0.5
            )
        )
    return lines


def _ask_writes(count: int, worker: Worker, turn: int) -> Any:
    return worker.ask("time_writes", count=count)


def measure_races(run: Run) -> list[Line]:
    """Count what is kept of 200 read–pause–writes of one fact, in threads and in processes."""
    with _ground(run, "race") as ground:
        in_threads = races.race_ours_in_threads(ground.address(OURS))
        in_processes = races.race_ours_in_processes(ground.address(OURS))
    return [
        races.kept_line(f"updates kept, {races.THREADS} threads × {races.PER_THREAD}", in_threads, "–"),
        races.kept_line(f"updates kept, {races.PROCESSES} processes × {races.PER_PROCESS}", in_processes, "–"),
    ]


def measure_servers(run: Run) -> list[Line]:
    """Compare the writes of a server with four processes with those of one, and with pgbench."""
    if find_spec("litestar") is None:
        run.console.print("servers: left out: `pip install memoranda[server]`")
        return []
    rates: dict[int, list[float]] = {1: [], 4: []}
    bench: list[float] = []
    with _ground(run, "servers") as ground:
        _note_tables(run, ground)
        _make_keys(ground, PROCESSES * THREADS)
        agents = ground.folder / "agents"
        agents.mkdir()
        place: Any = SimpleNamespace(db=ground.address(OURS), agents=agents)
        with ExitStack() as stack:
            crews: dict[int, list[Worker]] = {}
            for workers in rates:
                settings = {"MEMORANDA_WORKERS": str(workers), "MEMORANDA_SLEEP": "false"} | {
                    key: value for key, value in ground.environment(OURS).items() if key == "PYTHONPATH"
                }
                server = Server(place, settings=settings, log=ground.folder / f"server-{workers}.log")
                stack.callback(server.stop)
                server.wait_until_ready()
                address = f"http://127.0.0.1:{server.port}"
                crews[workers] = [stack.enter_context(Worker(ground, OURS, "http", address)) for _ in range(2)]
            for crew in crews.values():
                write_together(crew, threads=8, seconds=1.0)
            for number in range(run.counts.rounds):
                for workers in sorted(crews, reverse=number % 2 == 1):
                    rates[workers].append(write_together(crews[workers], threads=8, seconds=run.counts.seconds))
                found = postgres_ground.run_pgbench(ground, clients=16, seconds=run.counts.seconds)
                bench += [] if found is None else [found]
    many, one = statistics.median(rates[4]), statistics.median(rates[1])
    what = "a server with four processes vs one, writes over HTTP"
    details = {"writes_per_second": rates, "pgbench": bench}
    lines = [
        ratio_line(what, f"{many:,.0f}/s", f"one: {one:,.0f}/s", many / one, target=2.5, sense="at least", **details)
    ]
    if bench:
        limit = statistics.median(bench)
        lines.append(
            ratio_line(
                "… vs the database's limit: pgbench",
                f"{many:,.0f}/s",
                f"pgbench: {limit:,.0f}/s",
                many / limit,
                target=None,
                sense="at least",
            )
        )
    else:
        run.console.print("pgbench: left out: it is not among PostgreSQL's programs here")
    return lines


def _make_keys(ground: Ground, count: int) -> None:
    import memoranda
    from memoranda.server.auth.keys import create_key

    with memoranda.open(ground.address(OURS)) as memory:
        keys = [
            create_key(memory, tenant=TENANT, user=f"sender-{number:02}", role="member").token
            for number in range(count)
        ]
    (ground.folder / "keys.json").write_text(json.dumps(keys))


# --- semantic memory --------------------------------------------------------------------------------------------


def measure_peer(run: Run) -> list[Line]:
    """Compare remembers of a hundred, and recalls, with PostgresStore on the same vectors."""
    counts = run.counts
    peers = _peers(run)
    with _ground(run, "peer") as ground, ExitStack() as stack:
        calls = counts.rounds * counts.remembers
        _write_vectors(ground.folder, range(counts.recalled + 100 * (calls + counts.remembers)))
        kinds = {name: "ours" for name in _trees(ground)} | peers
        workers = {name: stack.enter_context(Worker(ground, name, kind)) for name, kind in kinds.items()}
        for worker in workers.values():
            worker.ask("fill", users=1, each=counts.recalled)
        for name in workers:
            ground.query(name, "VACUUM ANALYZE")

        def remember(worker: Worker, turn: int) -> Any:
            first = counts.recalled + turn * counts.remembers * 100
            return worker.ask("time_remembers", count=counts.remembers, each=100, first=first)

        found: dict[str, int] = dict.fromkeys(workers, 0)

        def recall(worker: Worker, turn: int) -> Any:
            name = next(name for name, one in workers.items() if one is worker)
            said = worker.ask("time_recalls", count=counts.recalls, users=1, each=counts.recalled, seed=turn)
            found[name] += said["found"]
            return said

        recalls = _times_in_turns(run, workers, recall)
        remembers = _times_in_turns(run, workers, remember)
    asked = (counts.rounds + 1) * counts.recalls  # the first ones are not timed, but found all the same
    run.figures["found among the first ten"] = {name: count / asked for name, count in found.items()}
    size = f"{counts.recalled:,} entries"
    lines: list[Line] = []
    for name, label in ((PEER, "PostgresStore"), (BASE, "the base")):
        if name in workers:
            goal = name == PEER
            lines += [
                compare(
                    f"remember of 100 vs {label}",
                    remembers[OURS],
                    remembers[name],
                    faster=True,
                    target=3 if goal else None,
                ),
                compare(
                    f"{size}: recall vs {label}", recalls[OURS], recalls[name], faster=False, target=1 if goal else None
                ),
                ratio_line(
                    f"{size}: the note found vs {label}",
                    f"{found[OURS] / asked:.1%}",
                    f"{found[name] / asked:.1%}",
                    found[OURS] / max(found[name], 1),
                    target=1 if goal else None,
                    sense="at least",
                ),
            ]
    return lines


def measure_cold(run: Run) -> list[Line]:
    """Time the first recall of new processes in one large shelf, what four of them share, and warm recalls there."""
    counts = run.counts
    lines: list[Line] = []
    with _ground(run, "cold") as ground:
        for number, size in enumerate(counts.cold):
            user, judged = BIG + number, number == len(counts.cold) - 1
            for name in _trees(ground):
                with Worker(ground, name, "ours") as worker:
                    _leave_small_numbers(ground, name)
                    worker.ask("fill", users=1, each=size, first=user)
                ground.query(name, "VACUUM ANALYZE")
            lines += _cold_lines(run, ground, user, size, judged)
            if judged:
                lines += _warm_lines(run, ground, user, size)
    return lines


def _cold_lines(run: Run, ground: Ground, user: int, size: int, judged: bool) -> list[Line]:
    starts: dict[str, list[dict[str, float]]] = {name: [] for name in _trees(ground)}
    first = partial(postgres_ground.first_recalls, ground, user=user, notes=size)
    for name in starts:
        first(name, processes=1)  # makes what is made once for all processes
    for _ in range(run.counts.starts):
        for name in starts:
            starts[name] += first(name, processes=1)
    cpu = {name: statistics.median(one["cpu"] for one in taken) for name, taken in starts.items()}
    wall = {name: statistics.median(one["opening"] + one["first"] for one in taken) for name, taken in starts.items()}
    run.figures[f"first recall among {size:,}"] = {"cpu": cpu, "wall": wall}
    lines: list[Line] = []
    if BASE in starts:
        texts = f"{cpu[OURS]:.2f} s of CPU", f"{cpu[BASE]:.2f} s"
        ratio = cpu[OURS] / cpu[BASE]
        lines.append(
            ratio_line(
                f"first recall among {size:,}: CPU vs the base",
                *texts,
                ratio,
                target=0.25 if size >= JUDGED else None,
                sense="at most",
            )
        )
    target = 2.0 if judged and not run.arguments.quick else None
    text = "–" if target is None else f"≤ {target:g} s"
    shown = f"{wall[OURS]:.2f} s"
    base = f"{wall[BASE]:.2f} s" if BASE in wall else "–"
    lines.append(Line(f"first recall among {size:,}: wall", shown, base, shown, wall[OURS], target, "at most", text))
    alone = first(OURS, processes=1)[0]["pss"]
    together = sum(one["pss"] for one in first(OURS, processes=PROCESSES))
    what = f"first recall among {size:,}: memory of four processes vs one (PSS)"
    lines.append(
        ratio_line(
            what,
            f"{together:,.0f} MB",
            f"{alone:,.0f} MB",
            together / alone,
            target=2 if judged else None,
            sense="at most",
        )
    )
    return lines


def _warm_lines(run: Run, ground: Ground, user: int, size: int) -> list[Line]:
    cpu: dict[str, list[float]] = {}
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(ground, name, "ours")) for name in _trees(ground)}
        ask = partial(_ask_big, run.counts.recalls, user, size)
        for worker in workers.values():
            ask(worker, 0)
        for turn in range(1, run.counts.rounds + 1):
            for name, worker in workers.items():
                cpu.setdefault(name, []).append(1000 * ask(worker, turn)["cpu"] / run.counts.recalls)
    middle = {name: statistics.median(taken) for name, taken in cpu.items()}
    run.figures[f"warm recall among {size:,}, ms of CPU"] = cpu
    if BASE not in middle:
        return []
    texts = f"{middle[OURS]:.1f} ms of CPU", f"{middle[BASE]:.1f} ms"
    what = f"warm recall among {size:,}: CPU vs the base"
    return [ratio_line(what, *texts, middle[OURS] / middle[BASE], target=0.35, sense="at most")]


def _ask_big(count: int, user: int, size: int, worker: Worker, turn: int) -> Any:
    return worker.ask("time_big_recalls", count=count, user=user, each=size, seed=turn)


def measure_budget(run: Run) -> list[Line]:
    """Compare recalls of many users whose indexes have room for one in twenty of them."""
    counts = run.counts
    with _ground(run, "budget") as ground, ExitStack() as stack:
        for name in _trees(ground):
            with Worker(ground, name, "ours") as worker:
                _leave_small_numbers(ground, name)
                worker.ask("fill", users=counts.users, each=counts.each)
            ground.query(name, "VACUUM ANALYZE")
        # With vectors of 256 numbers an index takes about 1,300 bytes for each entry.
        budget = counts.users * counts.each * 1_300 // 20
        workers = {
            name: stack.enter_context(Worker(ground, name, "ours", index_bytes=budget)) for name in _trees(ground)
        }

        def recall(worker: Worker, turn: int) -> Any:
            return worker.ask("time_recalls", count=counts.recalls, users=counts.users, each=counts.each, seed=turn)

        times = _times_in_turns(run, workers, recall)
    what = f"{counts.users:,} users × {counts.each:,} entries, {budget / 2**20:,.0f} MB for indexes: recall vs the base"
    if BASE not in times:
        return []
    return [compare(what, times[OURS], times[BASE], faster=False, target=0.25)]


def measure_candidates(run: Run) -> list[Line]:
    """Compare recalls in a large shelf whose index is stored in portions with those in memory."""
    counts, size = run.counts, run.counts.cold[0]
    with _ground(run, "candidates") as ground, ExitStack() as stack:
        with Worker(ground, OURS, "ours") as worker:
            worker.ask("fill", users=1, each=size, first=BIG)
        ground.query(OURS, "VACUUM ANALYZE")
        with Worker(ground, OURS, "ours", shelf_bytes=1) as worker:
            _ask_big(1, BIG, size, worker, 0)  # makes the portions
        ground.query(OURS, "VACUUM ANALYZE")
        workers = {
            "portions": stack.enter_context(Worker(ground, OURS, "ours", shelf_bytes=1)),
            "memory": stack.enter_context(Worker(ground, OURS, "ours")),
        }
        before = {name: worker.ask("memory_used")["pss"] for name, worker in workers.items()}
        times = _times_in_turns(run, workers, partial(_ask_big, counts.recalls, BIG, size))
        used = {name: worker.ask("memory_used")["pss"] - before[name] for name, worker in workers.items()}
        asked = {"count": 2 * counts.recalls, "user": BIG, "each": size, "seed": 99}
        found = workers["portions"].ask("answer_big", **asked, exact=False)["ids"]
        wanted = workers["memory"].ask("answer_big", **asked, exact=True)["ids"]
    same = sum(one == other for pair in zip(found, wanted, strict=True) for one, other in zip(*pair, strict=True))
    share = same / sum(map(len, wanted))
    texts = f"{used['portions']:,.0f} MB", f"{used['memory']:,.0f} MB"
    what = f"recall among {size:,} by portions"
    return [
        compare(f"{what}: time vs in memory", times["portions"], times["memory"], faster=False),
        ratio_line(f"{what}: memory", *texts, used["portions"] / used["memory"], target=None, sense="at most"),
        ratio_line(
            f"{what}: first ten places as in a full comparison",
            f"{100 * share:.1f} %",
            "100 %",
            share,
            target=0.99,
            sense="at least",
        ),
    ]


# --- what they share --------------------------------------------------------------------------------------------


def _times_in_turns(run: Run, workers: Mapping[str, Worker], ask: Callable[[Worker, int], Any]) -> dict[str, Times]:
    """Ask each worker in its turn, each round beginning with the next one; return the times of each."""
    names = list(workers)
    taken: dict[str, list[int]] = {name: [] for name in names}
    for name in names:
        ask(workers[name], run.counts.rounds)  # warm
    for turn in range(run.counts.rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            taken[name] += ask(workers[name], turn)["times"]
    return {name: Times(tuple(all_), len(all_) // run.counts.rounds) for name, all_ in taken.items()}


def _leave_small_numbers(ground: Ground, name: str) -> None:
    """Let numbers of entries begin above 32,768: releases before 2026-11 could not read a shelf that has both kinds."""
    ((last,),) = ground.query(name, "SELECT last_value FROM memoranda.numbers")
    if last < 100_000:
        ground.query(name, "ALTER SEQUENCE memoranda.numbers RESTART WITH 100000")


def _rate_line(what: str, rates: Mapping[str, Sequence[float]], peer: str, target: float | None) -> Line | None:
    if peer not in rates:
        return None
    ours, theirs = statistics.median(rates[OURS]), statistics.median(rates[peer])
    ratio = statistics.median(a / b for a, b in zip(rates[OURS], rates[peer], strict=True))
    details = {"writes_per_second": {OURS: rates[OURS], peer: rates[peer]}}
    return ratio_line(what, f"{ours:,.0f}/s", f"{theirs:,.0f}/s", ratio, target=target, sense="at least", **details)


def _voided(line: Line, void: str) -> Line:
    return Line(**{**vars(line), "void": void}) if void else line


def _note_tables(run: Run, ground: Ground) -> None:
    run.figures["rows of a set"] = postgres_ground.copy_tables(ground)


def _peers(run: Run) -> dict[str, str]:
    if find_spec("langgraph") is None or find_spec("langgraph.store.postgres") is None:
        run.console.print("PostgresStore: left out: `pip install -r bench/requirements.txt`")
        return {}
    return {PEER: "peer"}


def _write_vectors(folder: Path, numbers: range) -> None:
    """Embed the notes and their questions once, for all contenders."""
    from memoranda.retrieval.embed.wordllama import WordLlama

    texts = list(
        dict.fromkeys(text for number in numbers for text in (make_note(number).text, make_note(number).question))
    )
    np.save(folder / KNOWN, WordLlama().embed(texts).astype(np.float32))
    (folder / KNOWN_TEXTS).write_text(json.dumps(texts))


MEASUREMENTS: dict[str, Callable[[Run], list[Line]]] = {
    "writers": measure_writers,
    "slow": measure_slow,
    "one": measure_one_writer,
    "race": measure_races,
    "servers": measure_servers,
    "peer": measure_peer,
    "cold": measure_cold,
    "budget": measure_budget,
    "candidates": measure_candidates,
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--base", type=Path, metavar="FOLDER", help="an older checkout that is measured beside this one"
    )
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.relative_to(PAGE.parents[2])}")


def _check_arguments(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.base and not (arguments.base / "src" / "memoranda").is_dir():
        parser.error(f"{arguments.base} has no src/memoranda: give the folder of a checkout")
    if arguments.base:
        arguments.base = arguments.base.resolve()


def _write_page(lines: Sequence[Line]) -> None:
    """Put the table of a run between the marks of the page."""
    rows = ["| what | ours | peer | ratio | target | |", "|---|---|---|---|---|---|"]
    rows += [
        f"| {one.what} | {one.ours} | {one.peer} | {one.figure} | {one.target_text} | {one.verdict} |" for one in lines
    ]
    head, rest = PAGE.read_text().split(everything.BEGIN)
    text = f"Measured by `make bench-postgres`. {everything.counted(list(lines))}\n\n" + "\n".join(rows)
    PAGE.write_text(f"{head}{everything.BEGIN}\n{text}\n{everything.END}{rest.split(everything.END)[1]}")


PROGRAM = Program(
    title="Memoranda on PostgreSQL",
    purpose=__doc__ or "",
    measurements=MEASUREMENTS,
    full=Counts(),
    quick=QUICK,
    peers=("psycopg", "langgraph-checkpoint-postgres"),
    durability="every commit synced by the server before it is answered (fsync and synchronous_commit on)",
    add_arguments=_add_arguments,
    check_arguments=_check_arguments,
)


if __name__ == "__main__":
    found = run_program(PROGRAM)
    if "--write" in sys.argv:
        _write_page(found)
