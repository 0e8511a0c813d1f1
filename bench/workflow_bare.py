"""What a step of a workflow is made of, without the workflow: libraries, SQLite and Python, each at its best.

Each is a function that gives the nanoseconds of one or more operations, so that it can take turns with rows of steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import jsonschema_rs
import msgspec
from jsonata import Jsonata
from measuring import Sampling, time_each

BLOCK = 150_000
"""Nanoseconds of one block: about a step, so that a busy machine strikes both alike."""


def in_blocks(operation: Callable[[], object], *, blocks: int) -> Sampling:
    """Return what times so many blocks of an operation, and gives the mean of each.

    A block is as many operations as take about as long as a step, at least one: a clock takes a while itself.
    """
    clock = time.perf_counter_ns
    each = max(1, round(BLOCK / min(time_each(lambda turn: operation(), range(200)))))

    def sample() -> list[float]:
        taken: list[float] = []
        for _ in range(blocks):
            start = clock()
            for _ in range(each):
                operation()
            taken.append((clock() - start) / each)
        return taken

    return sample


def one_by_one(operation: Callable[[], object], *, times: int = 1) -> Sampling:
    """Return what times an operation so often."""
    return lambda: time_each(lambda turn: operation(), range(times))


def evaluate_expressions(texts: Mapping[str, str], variables: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return what computes expressions with jsonata-python alone.

    Each is parsed once; what goes in is not checked and what comes out not converted, nor copied.
    """
    programs = {name: Jsonata(text) for name, text in texts.items()}
    for one in programs.values():
        one.set_validate_input(False)
        one.set_output_convert_nulls(False)
    return lambda: {name: one.evaluate(None, variables) for name, one in programs.items()}


def validate(schema: Mapping[str, Any], value: Any) -> Callable[[], bool]:
    """Return what holds a value against a schema with jsonschema_rs alone."""
    validator = jsonschema_rs.validator_for(dict(schema), validate_formats=True)
    if not validator.is_valid(value):
        raise RuntimeError("the value does not fit the schema")
    return lambda: validator.is_valid(value)


def act_in_python(act: Callable[..., dict[str, Any]], variables: Mapping[str, Any]) -> Callable[[], object]:
    """Return the same step as a program would write it: its inputs computed, the action called, its output kept."""
    given, context, outputs = variables["input"], variables["context"], dict(variables["output"])

    def step() -> None:
        plot = context["memory"]["plot_0"]
        outputs["entry_1"] = act(
            grower=given["grower"],
            variety=plot["variety"],
            line="Crate 1 of " + given["grower"] + ", for the " + context["press"] + " press",
            grade="juice" if plot["frost"] else "table",
            before=outputs["entry_0"]["noted"],
            unit="kg",
        )

    return step


@contextmanager
def writing_events(sample: Path, target: str) -> Iterator[Callable[[], None]]:
    """Copy the ledger's table and its last row from a file of ours; give what writes that row once more and commits."""
    columns, row, tables = _last_event(sample)
    connection = apsw.Connection(target)
    try:
        if target != ":memory:":
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "full")
        for made in tables:
            connection.execute(made)
        statement = f"INSERT INTO events ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        execute = connection.cursor().execute
        place = columns.index("position")

        def write() -> None:
            row[place] += 1
            execute("BEGIN IMMEDIATE")
            execute(statement, row)
            execute("COMMIT")

        yield write
    finally:
        connection.close()


def _last_event(file: Path) -> tuple[list[str], list[Any], list[str]]:
    """Return the columns and the last row of the ledger in a file, and the statements that made its table."""
    connection = apsw.Connection(str(file))
    try:
        tables = [
            made
            for (made,) in connection.execute(
                "SELECT sql FROM sqlite_schema WHERE tbl_name = 'events' ORDER BY type = 'index'"
            )
            if made
        ]
        found = connection.execute("SELECT * FROM events ORDER BY position DESC LIMIT 1")
        columns = [name for name, _ in found.get_description()]
        return columns, list(next(iter(found))), tables
    finally:
        connection.close()


@contextmanager
def reading_rows(file: Path) -> Iterator[Callable[[], int]]:
    """Open a file of ours; give what reads all definitions and facts in it as rows, and their JSON as values."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    decode = msgspec.json.Decoder().decode
    statements = (
        "SELECT id, name, slug, scope, ttl, created_at, updated_at, schema FROM definitions",
        "SELECT scope, key, id, version, created_at, updated_at, expires_at, payload FROM facts WHERE key LIKE 'plot%'",
    )

    def read() -> int:
        return sum(len([decode(row[-1]) for row in connection.execute(one).fetchall()]) for one in statements)

    try:
        yield read
    finally:
        connection.close()


def sleep_in_threads(count: int, seconds: float) -> float:
    """Sleep in several threads at once; return the seconds that all of it took."""
    start = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(time.sleep, [seconds] * count))
    return time.perf_counter() - start
